"""Freed memory stays in the process while a context asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from mnemoscope.base import allocator
from mnemoscope.base.allocator import _find, kept_memory

FAULTS = """
import json, resource, sys
import torch
from mnemoscope.base.allocator import kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(2**24)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

outside = faults()
with kept_memory():
    with kept_memory():
        faults(), faults()  # alignment leaves gaps at first
    inside, held = faults(), resident()
print(json.dumps({"outside": outside, "inside": inside, "returned": held - resident()}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these thresholds")
def test_tensors_take_memory_again_inside_the_context_and_return_it_after_it():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    if _find("mallopt") is None and len(environment) == len(os.environ):
        pytest.skip("this process does not use glibc")
    run = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    counts = json.loads(run.stdout)
    pages = 5 * 2**26 // 2**12  # a fault for each page of 4 KiB, or for each of 2 MiB
    assert counts["outside"] >= pages // 512
    assert counts["inside"] < counts["outside"] / 10
    assert counts["returned"] > 2**25


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these thresholds")
def test_an_older_glibc_gets_the_largest_threshold_that_it_takes(monkeypatch: pytest.MonkeyPatch):
    taken: dict[int, int] = {}

    def mallopt(name: int, size: int) -> int:
        if name == allocator.M_MMAP_THRESHOLD and size > 2**25:
            return 0  # as before version 2.35
        taken[name] = size
        return 1

    monkeypatch.setattr(allocator, "_find", lambda name: mallopt if name == "mallopt" else None)
    with kept_memory():
        assert taken == {allocator.M_MMAP_THRESHOLD: 2**25, allocator.M_TRIM_THRESHOLD: 2**31 - 1}
    assert taken == allocator.USUAL


def test_thresholds_of_the_environment_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert _find("mallopt") is None
    with kept_memory():  # does nothing
        pass
