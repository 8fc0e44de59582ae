"""Printed equations and examples: those that hold, and those with an error."""

import numpy as np
import pytest
import torch

from mnemoscope.replication import Finished
from mnemoscope.replication.verdicts import Verdict
from mnemoscope.studies.jang import methods, worked_examples
from mnemoscope.studies.karuvally2023 import conjugate_memories, printed_equations


def rows_of(study, tmp_path):
    trials = study.trials(study.presets["smoke"].settings, (0,))
    results = [Finished(trial, study.run(trial, tmp_path, progress=False)) for trial in trials]
    return results, {row.quantity: row for row in study.summarise(results)}


@pytest.mark.parametrize("sigma", ["tanh", "softmax"])
def test_equations_hold_except_those_with_a_named_error(sigma):
    found = printed_equations.STUDY.compute(torch.Generator().manual_seed(0), sigma=sigma, states=1)["difference"]
    wrong = {name for name, (_, _, reason) in printed_equations.EQUATIONS.items() if reason}
    assert wrong == {"Eq 28", "Eq 31", "Eq 35", "Eq 42", "Eq 58"}
    assert {name for name, error in found.items() if error > printed_equations.ROUNDING} == wrong


def test_verdicts_on_equations_follow_from_their_errors(tmp_path):
    _, rows = rows_of(printed_equations.STUDY, tmp_path)
    verdicts = {name.split(":")[0]: row.verdict for name, row in rows.items()}
    assert verdicts["Eq 25"] == Verdict.MATCHES
    assert verdicts["Eq 35"] == verdicts["Eq 58"] == Verdict.DIFFERS


def test_the_example_in_the_plane_has_a_misprint(tmp_path):
    results, rows = rows_of(worked_examples.STUDY, tmp_path)
    assert sorted(results[0].result["points"]) == [[-1.0, -0.5], [0.0, 0.0], [1.0, 0.5]]
    differing = {name for name, row in rows.items() if row.verdict is Verdict.DIFFERS}
    assert differing == {
        "plane: distance of a fixed point from (1, -1/2)",
        "plane: unstable directions at (1, -1/2)",
        "derivatives: Hessian of q at any state",
    }


def test_two_descents_end_where_the_gradient_vanishes_and_the_first_order_takes_more_steps(tmp_path):
    results, rows = rows_of(methods.STUDY, tmp_path)
    network = methods.Network(0.5 * np.random.default_rng(0).standard_normal((4, 4)))
    x = torch.randn(4, generator=torch.Generator().manual_seed(0)).double()
    W = torch.from_numpy(network.W)
    exact = torch.func.grad(lambda state: (W @ torch.tanh(state) - state).square().sum() / 2)(x)
    assert network.gradient(x.numpy()).tolist() == pytest.approx(exact.tolist())
    first, second = network.descend(x.numpy()), network.descend_by_curvature(x.numpy())
    assert first.at_rest
    assert second.at_rest
    assert max(network.energy(end.state) for end in (first, second)) < 1e-12  # a small gain has one fixed point
    assert first.steps > second.steps
    assert first.state.tolist() == pytest.approx(second.state.tolist(), abs=1e-5)
    assert results[0].result["same"] == [True, True]
    assert rows[f"descents: {methods.SLOWER}"].measured[0] > 1


def test_force_updates_are_recursive_least_squares_if_earlier_and_later_weights_are_exchanged(tmp_path):
    results, rows = rows_of(methods.STUDY, tmp_path)
    assert rows[f"updates: {methods.INVERSE}"].verdict is Verdict.MATCHES
    assert rows[f"updates: {methods.WEIGHTS}"].verdict is Verdict.DIFFERS
    assert results[1].result["corrected"] < 1e-12


def test_conjugate_systems_share_their_fixed_points(tmp_path):
    results, rows = rows_of(conjugate_memories.STUDY, tmp_path)
    assert rows[conjugate_memories.ALONE].verdict is Verdict.MATCHES
    assert rows[conjugate_memories.SPURIOUS].measured == (2.0,) * len(results)  # -xi of both memories
    assert rows[f"gain 0: {conjugate_memories.STORED}"].verdict is Verdict.MATCHES


def test_points_of_one_system_only_are_counted():
    memory = conjugate_memories.cyclic_memory(torch.ones(3, 1).double(), 0.0)
    first, second = (
        conjugate_memories.find_fixed_points(conjugate_memories.Dynamics(system))
        for system in (memory.discrete(), memory.conjugate())
    )
    assert conjugate_memories._compare(first, second, memory.sigma_f(first.states))[0] == 0
    assert conjugate_memories._compare(first, second, memory.sigma_f(first.states) + 1)[0] == 2 * len(first)
