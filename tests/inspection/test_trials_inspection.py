"""The mechanism on trial-based tasks: named on networks that are built by hand, and undecided where it must be."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection.held_values import held_sentence
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.production import speed_in, speed_sentence
from mnemoscope.inspection.trials import contexts_of, inspect_trials, trials_section
from mnemoscope.tasks import ContextDecision, DelayedMatch, MultiTask, PerceptualDecision, ReadySetGo
from tests.slow import SLOW

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
    held = found.held[0]
    left, right = (rests[0] for rests in held.rests.values())
    cases = {
        (left, left, left, right): "held by 2 stable fixed points for 2 values; 88% of the trials rest where most",
        (
            left,
            left,
            right,
            right,
        ): "not decided: the trials end at 2 stable fixed points that do not tell its 2 values",
        (left, left, left, -1): "not decided: without further input, 12% of the trials reach none of the stable points",
        (right,) * 4: "not held for good: all trials end at one stable point",
    }
    for rests, expected in cases.items():
        by_value = {"left": rests, "right": (right,) * 4}
        assert expected in held_sentence(task, replace(held, rests=by_value)), rests
    shared = replace(held, rests={"10 Hz": (left,), "14 Hz": (left,), "18 Hz": (right,)})
    assert "held by 2 stable fixed points for 3 values, so that some share one" in held_sentence(task, shared)


def test_a_slow_line_holds_a_choice_until_it_drifts_to_stable_points():
    task = PerceptualDecision(step=50.0, coherences="0.1 0.2 0.5")

    def line(u, h):
        # x integrates the motion, and creeps to -1 or 1 with time constants of hundreds of steps; y decays
        x, y = h.unbind(1)
        return torch.stack([x + 0.002 * (x - x**3) + 0.1 * u[:, 1], 0.3 * y + 0.1 * u[:, 1]], 1)

    text = found_in(run_of(task, line, 2)).summary()
    assert (
        "The choice is held on a line of slow states, to 10% of its range for longer than the delay of 400 ms" in text
    )
    assert "which lead to 2 stable fixed points in the end" in text


def test_a_network_that_forgets_holds_nothing():
    task = DelayedMatch(objects=2)
    found = found_in(run_of(task, lambda u, h: torch.tanh(0.9 * h + u[:, 1:2]), 1))
    assert "not held for good: all trials end at one stable point" in found.summary()
    assert "time constant of 190 ms" in found.summary()  # -20 / log(0.9)


def test_a_slow_rotation_is_a_transient():
    turn = 0.97 * torch.linalg.matrix_exp(torch.tensor([[0.0, 0.1], [-0.1, 0.0]], dtype=torch.float64))
    task = DelayedMatch(objects=2, shortest_delay=200.0, longest_delay=200.0)
    found = found_in(run_of(task, lambda u, h: h @ turn.to(h) + 0.1 * u[:, 1:3] * h.new_tensor([1.0, -1.0]), 2))
    text = found.summary()
    assert "held by a slow transient: all trials end at one stable point, whose slowest mode, a rotation with" in text
    assert "a period of 1.26e+03 ms, has a time constant of 657 ms, longer than the delay" in text


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


@SLOW
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
    assert "is not asked" in found.summary()  # the readout is random, so that no interval is right
    assert "proportional to due^-" in replace(found, produced=1.0).summary()
    assert "speed" in found.lenses()
    assert "Times along the path" in trials_section(found).html


def production(rates, directions):
    """Trials of three intervals along circles in given planes, at these rates."""
    time = torch.arange(30).double()
    paths = []
    for rate, (first, second) in zip(rates, directions, strict=True):
        path = torch.zeros(30, 6, dtype=torch.float64)
        path[:, first], path[:, second] = (rate * time).cos(), (rate * time).sin()
        paths.append(path)
    return ms.Recording(torch.stack(paths, 1), ms.TrialTable.of({"due": [400, 600, 800]}, step=20.0))


@pytest.mark.parametrize(
    ("rates", "directions", "expected"),
    [
        ((0.06, 0.04, 0.03), [(0, 1)] * 3, "by the speed along one path"),
        ((0.06, 0.04, 0.03), [(0, 1), (0, 1), (0, 2)], "by the speed along neighbouring paths"),
        ((0.06, 0.048, 0.043), [(0, 1)] * 3, "speed explains only a part"),
        ((0.04, 0.04, 0.04), [(0, 2), (0, 1), (0, 3)], "on different paths, and not by the speed along one"),
        ((0.04, 0.04, 0.04), [(0, 1)] * 3, "how they are produced is not decided"),
        ((0.0, 0.04, 0.0), [(0, 1)] * 3, "is not decided: no other trajectory advances"),
    ],
)
def test_the_production_of_intervals_is_named_after_speed_and_distance_of_the_paths(rates, directions, expected):
    speeds = speed_in(production(rates, directions), "due")
    assert expected in speed_sentence(*speeds, 0.9)
    assert "not asked, since only 40% are right" in speed_sentence(*speeds, 0.4)


def test_other_tasks_and_given_inputs_have_no_contexts():
    decision = PerceptualDecision()
    run = run_of(decision, lambda u, h: torch.tanh(h), 1)
    assert contexts_of(replace(run, options=InspectionOptions(input=[0.0, 0.0]))) == {}
    assert contexts_of(run_of(decision.at(0), lambda u, h: torch.tanh(h), 1)) == {}
    assert MultiTask().analysis is None
