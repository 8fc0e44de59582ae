"""Functions for the tests of engines, which call them in other processes."""

import os
import signal
import time
from pathlib import Path

from mnemoscope.files import write_atomically
from mnemoscope.progress import Bar


def write(folder, number, wait=0.0):
    """What a trial does: find whether it is done, else work, and put the result there at once."""
    done = Path(folder) / str(number)
    if done.exists():
        return
    with (Path(folder) / "begun").open("a") as begun:
        begun.write(f"{number} {os.getpid()}\n")
    time.sleep(wait)
    write_atomically(done, os.environ["OMP_NUM_THREADS"].encode())


def fail(words):
    print("before it fails")
    raise ValueError(words)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def count(number):
    for _ in Bar(range(number), desc="counting", mininterval=0):
        print("words between the answers")


def interrupted(folder):
    """A job that must be asked to stop, and writes then."""
    Path(folder, "waits").touch()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        Path(folder, "checkpoint").touch()
        raise
