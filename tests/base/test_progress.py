"""Slow work shows its time on a terminal, and nothing anywhere else."""

import io
import sys
import time

import pytest

from mnemoscope.base import progress
from mnemoscope.base.progress import Bar, redirect_progress, show_slow, slow_bar, without_clock


class Screen(io.StringIO):
    """Standard error that may be a terminal."""

    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def screen(monkeypatch):
    """Return a function that sets standard error; slow work shows its time at once."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "REFRESH", 0.01)

    def show(terminal=True):
        monkeypatch.setattr(sys, "stderr", Screen(terminal))
        return sys.stderr

    return show


def _wait_for(text):
    """Wait until the screen shows `text`, which a slow machine may draw late; give up after a minute."""
    end = time.monotonic() + 60
    while text not in sys.stderr.getvalue() and time.monotonic() < end:
        time.sleep(0.01)


@show_slow("work")
def work(progress=True):
    _wait_for("work: 00:00")


@show_slow("rest")
def rest(progress=True):
    time.sleep(0.05)


@show_slow("both")
def both():
    rest()
    _wait_for("both: 00:00")


def test_a_slow_call_shows_its_time_on_a_terminal(screen):
    shown = screen()
    work()
    assert "work: 00:00" in shown.getvalue()
    assert not progress._Clock.running


def test_only_the_outer_call_shows_its_time(screen):
    shown = screen()
    both()
    assert "both: 00:00" in shown.getvalue()
    assert "rest" not in shown.getvalue()


def test_a_quick_call_shows_nothing(screen, monkeypatch):
    shown = screen()
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    rest()
    assert shown.getvalue() == ""


def test_logs_and_unwanted_clocks_show_nothing(screen):
    shown = screen()
    rest(progress=False)
    with without_clock():
        rest()
    with redirect_progress(lambda _: None):
        rest()
    assert shown.getvalue() == ""
    log = screen(terminal=False)
    rest()
    assert list(slow_bar(range(3), "loop", shown=True)) == [0, 1, 2]
    assert log.getvalue() == ""


def test_another_bar_takes_the_place_of_the_time(screen):
    shown = screen()
    with Bar(total=1, desc="steps"):  # open before the clock starts and after it ends, whichever thread is slow
        rest()
    assert "steps" in shown.getvalue()
    assert "rest" not in shown.getvalue()


def test_an_error_ends_the_clock(screen):
    @show_slow("failure")
    def fail():
        raise ValueError("no")

    screen()
    with pytest.raises(ValueError, match="no"):
        fail()
    assert not progress._Clock.running
