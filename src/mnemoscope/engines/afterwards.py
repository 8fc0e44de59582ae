"""Clean up after this process even if it is killed: a small process of the shell waits for its end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

WATCH = """exec 3<&0
(read -r line <&3; [ "$line" = done ] || "$@") &"""
"""Wait until the input ends, in a process that the caller is not the parent of: Ray kills the children of a worker."""


@contextmanager
def run_if_killed(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Generator[None]:
    """Run a command if this process ends inside the context, as by SIGKILL. Without a shell, nothing is run.

    Args:
        command: the program and its arguments.
        environment: variables that it gets besides those of this process.

    """
    if shutil.which("sh") is None:
        yield
        return
    watch = subprocess.Popen(
        ["sh", "-c", WATCH, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        start_new_session=True,  # Ctrl-C and the end of a terminal do not reach it
    )
    watch.wait()
    assert watch.stdin is not None
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            watch.stdin.write(b"done\n")
            watch.stdin.flush()
        with suppress(BrokenPipeError):
            watch.stdin.close()
