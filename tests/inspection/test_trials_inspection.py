"""The mechanism on trial-based tasks: named on networks that are built by hand, and undecided where it must be."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.trials import contexts_of, inspect_trials, trials_section
from mnemoscope.tasks import ContextDecision, DelayedMatch, MultiTask, PerceptualDecision, ReadySetGo
from tests.slow import SLOW, representatives

QUIET = InspectionOptions(progress=False)


def run_of(task, step, size):
    """Return a run of a network whose step (inputs, state) -> state is given."""
    cell = ms.adapt(step, state_size=size, input_size=task.input_size, bounds=(-1, 1))
    return LoadedRun(Path(), ms.Model(cell, task.output_size), task, ms.RunConfig("hand", task="flipflop"), QUIET)


def found_in(run):
    contexts = contexts_of(run)
    points = ms.by_condition(ms.find_fixed_points, contexts)
    return inspect_trials(run, contexts, points)


def test_two_stable_points_hold_a_choice():
    task = PerceptualDecision(longest_stimulus=200.0)
    run = run_of(task, lambda u, h: torch.tanh(1.5 * h + 5 * u[:, 1:]), 1)
    found = found_in(run)
    assert "The choice is held by 2 stable fixed points, one for each value" in found.summary()
    assert contexts_of(run)["delay"].input.tolist() == [[1.0, 0.0]]  # the fixation cue is on in the delay
    section = trials_section(found)
    assert "2 (" not in section.lead
    assert "2 stable" in section.html


def test_a_network_that_forgets_holds_nothing():
    task = DelayedMatch(objects=2)
    found = found_in(run_of(task, lambda u, h: torch.tanh(0.9 * h + u[:, 1:2]), 1))
    assert "not held for good: all trials end at one stable point" in found.summary()
    assert "time constant of 190 ms" in found.summary()  # -20 / log(0.9)


def test_a_rotating_state_is_undecided():
    turn = torch.linalg.matrix_exp(torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64))
    found = found_in(
        run_of(DelayedMatch(objects=2), lambda u, h: h @ turn.to(h) / (h.norm(dim=1, keepdim=True) + 0.1), 2)
    )
    assert "a mechanism that is not decided" in found.summary()


def gated(u, h):
    """Hold x, and let one of two inputs arrive there by way of y, as the context says."""
    x, y = h.unbind(1)
    motion, colour, by_motion, by_colour = u.unbind(1)
    return torch.stack([torch.tanh(1.02 * x + 0.3 * y), 0.5 * y + 0.3 * (by_motion * motion + by_colour * colour)], 1)


@representatives("True")
@pytest.mark.parametrize("turned", [False, True])
def test_selection_is_told_from_gated_inputs(turned):
    task = ContextDecision()

    def selecting(u, h):
        # both inputs move y and z alike in both contexts; the context decides which of these drives x
        x, y, z = h.unbind(1)
        motion, colour, by_motion, by_colour = u.unbind(1)
        value = torch.tanh(1.02 * x + 0.3 * (by_motion * y + by_colour * z) + 0.05 * (y + z))
        return torch.stack([value, 0.5 * y + 0.3 * motion, 0.5 * z + 0.3 * colour], 1)

    run = run_of(task, selecting, 3) if turned else run_of(task, gated, 2)
    found = found_in(run)
    assert [held.name for held in found.held] == ["context motion", "context colour"]
    assert found.selection is not None
    text = found.summary()
    assert "In the context motion, the slow mode keeps" in text
    assert "motion as of the other input" in text
    assert {"selection-vectors", "activity"} <= {*found.lenses()}
    assert found.results["selection"] is found.selection


@SLOW
def test_speed_along_a_path_is_measured_for_timing():
    task = ReadySetGo(intervals=2, longest_interval=600.0)

    def step(u, h):
        # the angle turns after set, faster if the interval was short: h = (cos, sin, rate, turning)
        angle = torch.atan2(h[:, 1], h[:, 0] + 1e-9) + h[:, 2] * h[:, 3]
        rate = 0.05 / (1 + u[:, 1])
        on = torch.clamp(h[:, 3] + u[:, 0] / 4, 0, 1)
        return torch.stack([angle.cos(), angle.sin(), rate, on], 1)

    run = run_of(task, step, 4)
    found = found_in(run)
    assert not found.held
    assert found.speed is not None
    assert "proportional to due^-" in found.summary()
    assert "speed" in found.lenses()
    assert "Times along the path" in trials_section(found).html


def test_other_tasks_and_given_inputs_have_no_contexts():
    decision = PerceptualDecision()
    run = run_of(decision, lambda u, h: torch.tanh(h), 1)
    assert contexts_of(replace(run, options=InspectionOptions(input=[0.0, 0.0]))) == {}
    assert contexts_of(run_of(decision.at(0), lambda u, h: torch.tanh(h), 1)) == {}
    assert MultiTask().analysis is None
