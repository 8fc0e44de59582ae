"""Functions that the tests of engines run in other processes."""

import os
import signal
import time
from importlib import import_module
from pathlib import Path

from mnemoscope.base.files import write_atomically
from mnemoscope.base.progress import Bar


def write(root, number, wait=0.0, folder="."):
    """Act like a trial: return if it is done, else work, then write the result atomically."""
    root = Path(root, folder)
    root.mkdir(parents=True, exist_ok=True)
    done = root / str(number)
    if done.exists():
        return
    with (root / "begun").open("a") as begun:
        begun.write(f"{number} {os.getpid()}\n")
    time.sleep(wait)
    write_atomically(done, os.environ["OMP_NUM_THREADS"].encode())


def note(root, variable):
    """Write the value of an environment variable."""
    Path(root, variable).write_text(os.environ[variable])


def fail(root, words):
    print("before it fails")
    raise ValueError(words)


def crash(root):
    os.kill(os.getpid(), signal.SIGSEGV)


def count(root, number):
    for _ in Bar(range(number), desc="counting", mininterval=0):
        print("a line between the messages")


def save(root, number, folder, seen=None):
    """Act like a training with checkpoints: count on from the last one, and show progress.

    With `seen`, a file, wait after every checkpoint until the file says that it has been seen.
    """
    saved = Path(root, folder, "saved")
    saved.parent.mkdir(parents=True, exist_ok=True)
    begin = int(saved.read_text()) if saved.exists() else 0
    with saved.with_name("begun").open("a") as begun:
        begun.write(f"{begin}\n")
    for step in Bar(range(begin, number), mininterval=0):
        deadline = time.monotonic() + 60
        while seen and step > begin and Path(seen).read_text() != str(step):
            assert time.monotonic() < deadline, "nobody has seen the checkpoint"
            time.sleep(0.01)
        write_atomically(saved, str(step + 1).encode())
        time.sleep(0.05)


def interrupted(root):
    """Wait for an interruption, and write a checkpoint then."""
    try:
        Path(root, "waits").touch()  # inside: the interruption may come before the next line
        while True:
            time.sleep(0.05)  # not longer: signals that come just before a system call do not end it
    except KeyboardInterrupt:
        Path(root, "checkpoint").touch()
        raise


def stubborn(root):
    """Ignore interruptions."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(3600)


def kill_parent(root):
    """Kill the process that has started this one, as a node that runs out of memory does."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)


def import_all(root, names):
    for name in names:
        import_module(name)


def preempted(root):
    """Get SIGTERM, and write a checkpoint then."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(3600)
    except KeyboardInterrupt as stop:
        raise type(stop)(f"{type(stop).__name__}: the checkpoint is written") from stop
