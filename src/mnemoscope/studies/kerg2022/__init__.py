"""Published tables and figures of Kerg 2022 (thesis)."""
