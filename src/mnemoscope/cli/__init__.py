"""The command line. Arguments are parsed before torch is imported, so that `--help` answers at once."""

from mnemoscope.cli.main import main

__all__ = ["main"]
