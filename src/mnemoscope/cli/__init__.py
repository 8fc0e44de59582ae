"""The command line. It parses arguments before it imports torch, so that `--help` is fast."""

from __future__ import annotations

import sys

from mnemoscope.base.lazy_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status (see `entry_point.main`), also if Ctrl-C interrupts the imports."""
    try:
        from mnemoscope.base.signals import command_signals

        with command_signals():
            from mnemoscope.cli.entry_point import main as run_command

            return run_command(argv)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
