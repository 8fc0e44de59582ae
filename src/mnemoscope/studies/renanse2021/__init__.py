"""Published tables and figures of Renanse et al. 2021."""
