"""The section of a page with the loops in which a network ends that reads its own text."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection import closed_loop
from mnemoscope.inspection.closed_loop import inspect_loops, loops_section
from mnemoscope.tasks import FlipFlop, PennTreebank


@pytest.fixture
def task(monkeypatch):
    """A text of random symbols, and short prompts from it."""
    text = torch.randint(50, (200,), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    monkeypatch.setattr(PennTreebank, "load", lambda _: {"test": text})
    for name, value in (("PROMPTS", 4), ("LENGTH", 5), ("STEPS", 80), ("LONGEST", 4)):
        monkeypatch.setattr(closed_loop, name, value)
    return PennTreebank()


def test_a_network_trained_on_text_has_a_section_with_its_loops(task):
    torch.manual_seed(0)
    found = inspect_loops(ms.Model(ms.cells.GRU(50, 4), 50), task)
    assert found.prompts == 4
    section = loops_section(found)
    assert section.lead == found.summary()
    assert "<svg" in section.html
    assert ("<table" in section.html) == (len(found) > 0)
    assert len(found) > 0


def test_a_text_without_loops_has_no_table(task):
    turn = torch.linalg.qr(torch.randn(50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    start = torch.randn(1, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = inspect_loops(ms.Model(ms.adapt(lambda x, h: h @ turn, state=start, input_size=50), 50).double(), task)
    assert len(found) == 0
    assert "<table" not in loops_section(found).html


def test_other_tasks_and_growing_states_have_no_loops(task):
    assert inspect_loops(ms.Model(ms.cells.GRU(3, 4), 3), FlipFlop()) is None
    reason = inspect_loops(ms.Model(ms.networks.memrnn(50, 3), 50), task)
    assert "grows" in reason
    assert reason in loops_section(reason).lead
