"""The command line. It parses arguments before it imports torch, so that `--help` is fast."""

from mnemoscope.cli.entry_point import main as main
