"""The page sections on the units of a run: components of their activity, task variance, rank and populations."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.populations import inspect_populations
from mnemoscope.inspection.rank import inspect_rank
from mnemoscope.tasks import ContextDecision, DelayedMatch, FlipFlop, MultiTask, PerceptualDecision

QUIET = InspectionOptions(progress=False)
BRIEF = {"coherences": "0.5", "step": 100.0, "response": 400.0}


def run_of(task, cell=None):
    torch.manual_seed(0)
    cell = ms.networks.leaky_rnn(task.input_size, 6) if cell is None else cell
    return LoadedRun(Path(), ms.Model(cell, task.output_size), task, ms.RunConfig("hand", task="flipflop"), QUIET)


@pytest.mark.usefixtures("undrawn")
def test_a_trial_based_task_has_sections_on_components(monkeypatch):
    monkeypatch.setattr("mnemoscope.inspection.populations.SHUFFLES", 1)
    found = inspect_populations(run_of(ContextDecision(**BRIEF)))
    assert [section.title for section in found.sections()] == ["Components of the activity", "Demixed components"]
    assert found.lenses() == ["principal-components", "demixed-components"]
    assert "4 combinations" in found.components.summary()  # of context and choice
    assert found.components.signal_dimension is not None  # enough trials of every combination
    assert found.demixed.marginals == ("time", "context", "choice", "context x choice")
    one = inspect_populations(run_of(DelayedMatch(objects=2, step=100.0, response=400.0)))
    assert one.components.cells[0] == "sample 0, test 0"
    assert "Colours" not in one.sections()[0].lead  # a legend names them
    many = replace(one, components=replace(one.components, cells=tuple(f"sample {each}" for each in range(12))))
    assert "Colours go from sample 0 (dark) to sample 11 (light)." in many.sections()[0].lead


@pytest.mark.usefixtures("undrawn")
def test_several_tasks_have_a_section_on_task_variance():
    task = MultiTask(step=100.0, rules="Go, Anti", locations=2, delay=200.0)
    found = inspect_populations(run_of(task))
    assert [section.title for section in found.sections()] == ["Components of the activity", "Task variance of units"]
    assert found.variance.tasks == ("Go", "Anti")
    assert found.lenses() == ["principal-components", "task-variance"]
    assert inspect_populations(run_of(MultiTask(step=100.0, rules="Go", locations=2))).variance is None


def test_what_cannot_be_measured_is_left_out_or_explained(monkeypatch):
    assert inspect_populations(run_of(FlipFlop())) is None
    task = PerceptualDecision(**BRIEF)
    silent = run_of(task)
    for weight in silent.model.cell.parameters():
        torch.nn.init.zeros_(weight)
    assert "All units are silent" in inspect_populations(silent).sections()[0].lead
    monkeypatch.setattr("mnemoscope.inspection.populations.is_quick", lambda *_: False)
    assert "--full" in inspect_populations(run_of(task)).sections()[0].lead


@pytest.mark.usefixtures("undrawn")
def test_a_low_rank_run_has_its_rank_its_reduced_dynamics_and_its_populations(monkeypatch):
    monkeypatch.setattr("mnemoscope.inspection.rank.POPULATIONS", (1,))
    monkeypatch.setattr("mnemoscope.inspection.rank.DRAWS", 2)
    from_zero = partial(ms.measure_reduction, starts=torch.zeros(1, 1, dtype=torch.float64))
    monkeypatch.setattr("mnemoscope.inspection.rank.measure_reduction", from_zero)
    task = PerceptualDecision(**BRIEF)
    found = inspect_rank(run_of(task, ms.networks.low_rank(task.input_size, 12, overlap=1.0)))
    titles = ["Rank of the matrix", "Reduced dynamics on trials", "Populations of the loadings"]
    assert [section.title for section in found.sections()] == titles
    assert found.lenses() == ["rank", "reduction", "resampling"]
    assert found.rank.ranks == (0, 1)
    assert found.reduction.error < 1e-10
    assert "Along 64 test trials" in found.sections()[1].lead


@pytest.mark.usefixtures("undrawn")
def test_other_matrices_have_their_rank_alone(monkeypatch):
    task = PerceptualDecision(**BRIEF)
    found = inspect_rank(run_of(task))
    assert [section.title for section in found.sections()] == ["Rank of the matrix"]
    assert found.rank.ranks == (0, 1, 2, 3, 4, 6)
    assert inspect_rank(run_of(task, ms.networks.gru(task.input_size, 3))) is None
    monkeypatch.setattr("mnemoscope.inspection.rank.is_quick", lambda *_, **__: False)
    assert inspect_rank(run_of(task)) is None
