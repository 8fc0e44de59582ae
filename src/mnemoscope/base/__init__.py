"""Small things that every room may use: array types, validation, files, progress, lazy imports."""
