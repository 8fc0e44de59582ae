"""Run a function in a forked process, so that it can be killed, limited and cut off from the rest of the machine.

A fork has imported everything already (`warm_up`): a kill costs a tenth of a second instead of seconds.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tools.reliability import NotRun
from tqdm import tqdm

BROKEN = 97
"""Exit status of a process whose function raised."""
GIGABYTE = 1 << 30
_DIE_WITH_PARENT = 1
"""Option of prctl(2)."""
_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _RECURSIVE, _PRIVATE = 1, 32, 16384, 1 << 18
"""Flags of unshare(2) and mount(2)."""


class Ended(NamedTuple):
    """How a process ended."""

    status: int
    """Exit status; negative for the signal that ended it."""
    text: str
    """Its output, and the traceback of an exception that left its function."""
    seconds: float
    stopped: bool = False
    """Whether it was stopped because its time was over."""


class Call(NamedTuple):
    """Answer of the command line."""

    status: int
    text: str

    def check(self, statuses: Sequence[int] = (0, 1, 2)) -> Call:
        """Raise unless the command ended with one of these statuses, and with a sentence where it failed."""
        if "Traceback (most recent call last)" in self.text:
            raise AssertionError(f"The command line printed a traceback:\n{self.text[-3000:]}")
        if "\x1b]" in self.text:  # nothing of ours writes such a sequence, but some files and words contain one
            raise AssertionError(f"An escape sequence reaches the terminal:\n{self.text[-2000:]!r}")
        if self.status not in statuses:
            raise AssertionError(f"The status is {self.status}, not one of {statuses}:\n{self.text[-2000:]}")
        if self.status and not self.text.strip():
            raise AssertionError(f"The command failed with status {self.status} and without a message.")
        return self


def call(words: Sequence[str]) -> Call:
    """Run a command line in this process. An exception that leaves it is an error of the command line."""
    from mnemoscope.cli import main

    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            status = main(words)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
    return Call(int(status), out.getvalue())


@cache
def warm_up() -> None:
    """Run every kind of command once, so that forked processes need not import its modules."""
    tqdm.monitor_interval = 0  # no thread that watches progress bars: a process with threads is not forked safely
    small = ["--steps", "1", "--evaluate-every", "1", "--evaluate-batches", "1", "--batch-size", "2", "--threads", "1"]
    with TemporaryDirectory() as folder, chdir(folder):
        swept = ["sweep", "flipflop", *small, "--over", "hidden_size=2,3", "--engine", "here", "--json"]
        trained = json.loads(call(["train", "flipflop", "--hidden-size", "2", *small, "--json"]).check((0,)).text)
        for words in (
            ["inspect", trained["folder"], "--starts", "4"], [*swept, "--method", "tpe", "--trials", "1"],
            ["scoreboard"], ["studies"], ["runs"], ["list", "tasks"], ["cite", "runs"],
        ):  # fmt: skip
            call(words).check((0,))


def start(function: Callable[[], object], output: Path, limit: Callable[[], None] | None = None) -> int:
    """Run a function in a forked process, which writes what it prints to a file; return the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    status = BROKEN
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)  # a case that hangs must not outlive the suite
        target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if limit is not None:
            limit()
        result = function()
        status = result if isinstance(result, int) else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


def wait(process: int, output: Path, seconds: float = 300.0, sent: int = signal.SIGKILL) -> Ended:
    """Wait for a process at most this time, then send it and its children a signal and wait for its end."""
    started, stopped = time.monotonic(), False
    while (answer := os.waitpid(process, os.WNOHANG))[0] == 0:
        if not stopped and time.monotonic() - started >= seconds:
            stopped = True
            with suppress(ProcessLookupError):  # a process that has just been forked leads no group yet
                os.killpg(process, sent)
            os.kill(process, sent)
        time.sleep(min(0.002, max(seconds, 0.0005)))
    text = output.read_text(errors="replace") if output.exists() else ""
    return Ended(os.waitstatus_to_exitcode(answer[1]), text, time.monotonic() - started, stopped)


def in_process(
    function: Callable[[], object], folder: Path, seconds: float = 300.0, limit: Callable[[], None] | None = None
) -> Ended:
    """Run a function in a forked process and wait for its end."""
    output = folder / "output.txt"
    return wait(start(function, output, limit), output, seconds)


def check_ended(ended: Ended) -> Ended:
    """Raise unless a process ended with status 0."""
    if ended.status:
        reason = "was stopped because its time was over" if ended.stopped else f"ended with {ended.status}"
        raise AssertionError(f"The process {reason}:\n{ended.text[-4000:]}")
    return ended


def limit_memory(gigabytes: float = 4.0) -> None:
    """Limit what this process may allocate beyond what it uses now."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = used + int(gigabytes * GIGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def resident_memory() -> int:
    """Return the bytes of memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def own_mounts() -> None:
    """Give this process mounts that no other process sees. Needs one thread, as after a fork."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = _NEW_MOUNTS if user == 0 else _NEW_MOUNTS | _NEW_USERS
    if libc.unshare(flags):
        raise NotRun(f"this machine does not permit mounts of a process ({os.strerror(ctypes.get_errno())})")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _mount(b"none", Path("/"), None, _RECURSIVE | _PRIVATE, None)


def mount_memory(folder: Path, size: str, read_only: bool = False, again: bool = False) -> None:
    """Mount a file system in memory of a size such as "64k", or change the size or access of the mounted one."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = (_READ_ONLY if read_only else 0) | (_REMOUNT if again else 0)
    _mount(b"tmpfs", folder, b"tmpfs", flags, f"size={size}".encode())


def _mount(source: bytes, target: Path, kind: bytes | None, flags: int, options: bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source, str(target).encode(), kind, ctypes.c_ulong(flags), options):
        raise NotRun(f"this machine does not permit a mount ({os.strerror(ctypes.get_errno())})")
