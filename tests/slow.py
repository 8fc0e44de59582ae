"""Tests that take long: run by `make test-all`, and left out of `make test`."""

import os

import pytest

SLOW = pytest.mark.skipif("MNEMOSCOPE_SLOW" not in os.environ, reason="takes long; set MNEMOSCOPE_SLOW=1 to run it")
