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
from mnemoscope.inspection.units import inspect_units
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
    monkeypatch.setattr("mnemoscope.inspection.units.ITERATIONS", 5)
    found = inspect_populations(run_of(ContextDecision(**BRIEF)))
    titles = ["Components of the activity", "Demixed components", "Selectivity of units", "Rotations"]
    assert [section.title for section in found.sections()] == [*titles, "Courses of single trials"]
    lenses = ["principal-components", "demixed-components", "selectivity", "tensor-components"]
    assert found.lenses() == lenses
    assert found.units.selectivity.conditions == ("context", "choice")
    assert "Not searched in the delay. Rotations need at least 3 steps" in found.sections()[3].lead
    assert "4 combinations" in found.components.summary()  # of context and choice
    assert found.components.signal_dimension is not None  # enough trials of every combination
    assert found.demixed.marginals == ("time", "context", "choice", "context x choice")
    one = inspect_populations(run_of(DelayedMatch(objects=2, step=100.0, response=400.0)))
    assert one.components.cells[0] == "sample 0, test 0"
    assert "Colours" not in one.sections()[0].lead  # a legend names them
    many = replace(one, components=replace(one.components, cells=tuple(f"sample {each}" for each in range(12))))
    assert "Colours go from sample 0 (dark) to sample 11 (light)." in many.sections()[0].lead


def turning_trials():
    """Trials of eight conditions whose activity turns, two of each, with a little noise."""
    torch.manual_seed(0)
    phase = 0.3 * torch.arange(12.0).unsqueeze(1) + torch.arange(8.0).repeat(2) * 2.4
    axes = torch.linalg.qr(torch.randn(5, 2))[0].T
    rates = torch.stack([phase.cos(), phase.sin()], 2) @ axes + 0.01 * torch.randn(12, 16, 5)
    return ms.Recording(rates.double(), ms.TrialTable.of({"target": [*range(8)] * 2}, {"delay": (0, 12)}))


@pytest.mark.usefixtures("undrawn")
def test_units_and_single_trials_are_drawn_where_their_controls_support_it(monkeypatch):
    monkeypatch.setattr("mnemoscope.inspection.units.ITERATIONS", 20)
    turning = inspect_units(turning_trials(), ("target",), "delay", 0)
    assert turning.rotations.probability < 0.05
    assert len(turning.tensor.lengths) == 1  # a rotation is a sum of products in many ways
    selectivity, rotations, tensor = turning.sections()
    assert "target: 5 in delay." in selectivity.lead
    assert selectivity.html
    assert rotations.html
    assert rotations.lead.startswith("In the delay: rotations explain")
    assert "Further components are not the same in all restarts" in tensor.lead
    assert not tensor.html
    again = inspect_units(turning_trials(), (), None, 0)
    assert [section.title for section in again.sections()] == ["Courses of single trials"]
    unknown = inspect_units(turning_trials(), ("target",), None, 0)
    assert "names no epoch that holds a value" in unknown.sections()[1].lead
    still = replace(turning, rotations=replace(turning.rotations, null=torch.ones(9, 2).double()))
    assert not still.sections()[1].html


@pytest.mark.usefixtures("undrawn")
def test_tensor_components_that_all_restarts_find_are_drawn():
    torch.manual_seed(0)
    factors = [torch.rand(size, 2, dtype=torch.float64) for size in (9, 8, 7)]
    recording = ms.Recording(torch.einsum("tr,kr,ur->tku", *factors))
    found = inspect_units(recording, (), None, 0)
    assert len(found.tensor.lengths) == 2
    assert found.sections()[0].html


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
    explained = inspect_rank(run_of(task))
    assert explained.lenses() == []
    assert [section.title for section in explained.sections()] == ["Rank of the matrix"]
    assert "12 variants of the network take long" in explained.sections()[0].lead
