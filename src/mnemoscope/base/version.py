"""Version of the package; `pyproject.toml` reads it from this file."""

__version__ = "0.2.0"
