"""Published tables and figures of Karuvally et al. 2023."""
