"""Context-dependent decisions by selective integration (Mante et al. 2013)."""
