"""The command line. It parses arguments before it imports torch, so that `--help` is fast."""

from __future__ import annotations

import os
import sys

from mnemoscope.base.lazy_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status (see `entry_point.main`), also if Ctrl-C interrupts the imports."""
    try:
        try:
            return _main(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # here, where an error can be caught, not at the exit of Python
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as after SIGPIPE
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130


def _main(words: Sequence[str]) -> int:
    from mnemoscope.cli.help_text import asks_for_help, program_help

    if asks_for_help(words) and "RANK" not in os.environ:  # torchrun starts several processes, and one of them prints
        print(program_help())
        return 0
    from mnemoscope.base.signals import command_signals

    with command_signals():
        from mnemoscope.cli.entry_point import main as run_command

        return run_command(words)
