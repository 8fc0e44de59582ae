"""The command line. Arguments are parsed before torch is imported, so that `--help` answers at once."""

from mnemoscope.cli.entry_point import main

__all__ = ["main"]
