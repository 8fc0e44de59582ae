"""Signals inside a command, and the handlers that it leaves behind."""

import signal

import pytest

from mnemoscope.base.signals import Terminated, command_signals


def test_handlers_are_those_of_before_after_a_signal():
    def own(number, frame):
        raise AssertionError("this test sends no SIGINT")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        signal.signal(signal.SIGINT, own)
        with pytest.raises(Terminated), command_signals(once=True):
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is own
        assert signal.getsignal(signal.SIGTERM) is before[signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
