"""Helpers that every room may import: array types, validation, files, progress bars, lazy imports, process rank."""
