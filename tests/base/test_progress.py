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
    """Return a function that sets standard error; slow work shows its time after 20 ms."""
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    monkeypatch.setattr(progress, "REFRESH", 0.01)

    def show(terminal=True):
        monkeypatch.setattr(sys, "stderr", Screen(terminal))
        return sys.stderr

    return show


@show_slow("work")
def work(seconds=0.15, progress=True):
    time.sleep(seconds)
    return seconds


@show_slow("both")
def both():
    return work()


def test_a_slow_call_shows_its_time_on_a_terminal(screen):
    shown = screen()
    assert work() == 0.15
    assert "work: 00:00" in shown.getvalue()
    assert not progress._Clock.running


def test_only_the_outer_call_shows_its_time(screen):
    shown = screen()
    both()
    assert "both: 00:00" in shown.getvalue()
    assert "work" not in shown.getvalue()


def test_quick_calls_logs_and_unwanted_clocks_show_nothing(screen):
    shown = screen()
    work(0)
    work(progress=False)
    with without_clock():
        work()
    with redirect_progress(lambda _: None):
        work()
    assert shown.getvalue() == ""
    log = screen(terminal=False)
    work()
    assert list(slow_bar(range(3), "loop", shown=True)) == [0, 1, 2]
    assert log.getvalue() == ""


def test_a_bar_of_the_call_itself_takes_the_place_of_its_time(screen):
    @show_slow("loop")
    def loop():
        for _ in Bar(range(3), desc="steps"):
            time.sleep(0.03)

    shown = screen()
    loop()
    assert "steps: 100%" in shown.getvalue()
    assert "loop" not in shown.getvalue()


def test_an_error_ends_the_clock(screen):
    @show_slow("failure")
    def fail():
        raise ValueError("no")

    screen()
    with pytest.raises(ValueError, match="no"):
        fail()
    assert not progress._Clock.running
