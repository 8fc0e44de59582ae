"""The section of a page with the loops in which a network ends that reads its own text."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection import closed_loop
from mnemoscope.inspection.closed_loop import inspect_loops, loops_section
from mnemoscope.tasks import FlipFlop, PennTreebank
from tests.slow import SLOW
from tests.tasks import data_sets


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


@SLOW
@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_run_on_text_has_the_section(tmp_path, monkeypatch):
    data_sets.use(monkeypatch, tmp_path / "data")
    for name, value in (("PROMPTS", 4), ("LENGTH", 5), ("STEPS", 80), ("LONGEST", 4)):
        monkeypatch.setattr(closed_loop, name, value)
    config = ms.RunConfig(
        "text", task="ptb", task_options={"length": 7}, cell="gru", hidden_size=3, steps=2, batch_size=4
    )
    run = ms.train(config, tmp_path, progress=False)
    found = ms.inspect(run.folder)
    assert found.loops.prompts == 4
    assert "closed-loop" in found.content.lenses
    assert found.loops.summary() in found.summary()
    assert closed_loop.TITLE in found.html()
    found.save()
    assert ms.Loops.load(run.folder / "page.loops.safetensors").summary() == found.loops.summary()
