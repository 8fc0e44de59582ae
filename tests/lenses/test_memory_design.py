"""Memory design: it finds the known optimum and keeps the limits; errors that it raises."""

import numpy as np
import pytest
import scipy.linalg
import torch

import mnemoscope as ms
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.design.objective import value_and_gradient
from mnemoscope.lenses.design.starts import bent_delay_lines
from tests.slow import SLOW, representatives


def design(size, **options):
    return ms.design_memory(size, progress=False, **options)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def line_total(size, g):
    """Return the total of a delay line (Kerg, 3.4.2): sum_(k < N) a^k (a - 1) / (a^(k+1) - 1) with a = g^2."""
    alpha = g**2
    return sum(1 / (k + 1) if g == 1 else alpha**k * (alpha - 1) / (alpha ** (k + 1) - 1) for k in range(size))


@representatives("3-0.8")
@pytest.mark.parametrize(
    ("size", "g"),
    [(3, 0.8), (3, 1.0), (3, 1.2), (4, 1.2), (5, 0.8), (5, 1.0), (5, 1.2), (6, 0.8), (7, 1.2), (8, 1.0)],
)
def test_random_starts_lead_to_the_delay_line(size, g):
    """Compare its value, singular values, Fisher matrix, and the matrix itself in the basis of the signal."""
    found = design(size, norm=g, lags=size, restarts=2 if size < 6 else 1)
    assert found.converged
    assert torch.allclose(found.values, torch.tensor(line_total(size, g), dtype=torch.float64), rtol=1e-11)
    assert abs(found.value - found.bound) < 1e-11 * found.bound
    values = torch.linalg.svdvals(found.V)
    assert torch.allclose(values[:-1], torch.full_like(values[:-1], g), rtol=1e-9)
    assert values[-1] < 1e-5  # the value is flat: an error of 1e-12 in it is one of 1e-6 in the matrix
    J = found.memory.matrix[:size, :size]
    assert (J - J.diag().diag()).abs().max() < 1e-5
    shift = torch.diag(torch.full((size - 1,), g, dtype=torch.float64), -1)
    assert (found.lines[0].abs() - shift).abs().max() < 1e-5


def test_below_norm_1_the_delay_line_is_best_over_all_lags():
    found = design(4, norm=0.8, restarts=3)
    assert found.converged
    assert torch.allclose(found.values, torch.tensor(line_total(4, 0.8), dtype=torch.float64), rtol=1e-10)
    assert abs(found.line - found.value) < 1e-10


@pytest.mark.parametrize("eigenvalue", [0.0, 0.3, 0.7])
def test_at_norm_1_bent_delay_lines_are_as_good(eigenvalue):
    """All singular values but one are 1; the total is H_N for any radius."""
    limit = Constraint(1.0, None)
    eye, S = torch.eye(5, dtype=torch.float64), torch.diag(torch.ones(4, dtype=torch.float64), -1)
    V = torch.linalg.solve(eye + eigenvalue * S, eigenvalue * eye + S)
    assert torch.allclose(limit.nearest(V), V, atol=1e-14)
    assert abs(ms.fisher_memory(V, eye[0]).total - line_total(5, 1.0)) < 1e-12


def test_above_norm_1_the_total_tends_to_the_number_of_units_at_the_edge_of_stability():
    limit = Constraint(1.2, None)
    totals = []
    for radius in (0.5, 0.9, 0.99, 0.999):
        V = bent_delay_lines((5,), limit, radius)[0]
        assert torch.linalg.matrix_norm(V, 2) <= 1.2 * (1 + 1e-12)
        totals.append(ms.fisher_memory(V, torch.eye(5, dtype=torch.float64)[0]).best_total.item())
    assert np.all(np.diff(totals) > 0)
    assert 4.999 < totals[-1] < 5


def test_norm_and_radius_both_hold():
    """Random starts and the bent line reach the same value, with all eigenvalues at the radius."""
    found = design(3, norm=1.2, radius=0.9, restarts=3)
    assert found.values.max() - found.values.min() < 1e-8
    assert found.value > found.line + 0.6
    assert torch.linalg.eigvals(found.V).abs().max() <= 0.9 * (1 + 1e-12)
    assert torch.linalg.matrix_norm(found.V, 2) <= 1.2 * (1 + 1e-12)
    assert torch.allclose(found.V.diagonal().abs(), torch.full((3,), 0.9, dtype=torch.float64))


def test_a_radius_above_the_norm_changes_nothing():
    without, with_radius = (design(3, norm=0.7, radius=radius, restarts=1) for radius in (None, 0.8))
    assert torch.equal(without.V, with_radius.V)


def test_the_frobenius_norm_holds():
    found = design(3, frobenius=1.2, lags=3, restarts=2)
    assert found.converged
    assert torch.linalg.matrix_norm(found.V) <= 1.2 * (1 + 1e-12)
    assert found.value > found.line  # a line whose strength decreases is better than an even one
    both = design(3, frobenius=1.2, norm=0.9, lags=3, restarts=2)
    assert torch.linalg.matrix_norm(both.V) <= 1.2 * (1 + 1e-12)
    assert torch.linalg.matrix_norm(both.V, 2) <= 0.9 * (1 + 1e-12)
    assert both.value < found.value


def test_normal_networks_hold_one_signal():
    found = design(1, norm=0.9)
    assert abs(found.value - 1) < 1e-12
    A = randn(4, 4)
    symmetric = (A + A.mT) / torch.linalg.matrix_norm(A + A.mT, 2) * 0.9
    assert abs(design(4, norm=0.9, start=(symmetric, randn(4)), restarts=1).ascent[0] - 1) < 1e-10


@SLOW
def test_matrix_networks_stay_below_vector_networks_of_as_many_units():
    found = design((2, 3), norm=0.8, restarts=2)
    assert found.converged
    assert abs(found.value - line_total(3, 0.64)) < 1e-9  # the longer side is a line, which the other passes on
    assert found.value < line_total(6, 0.64)
    for matrix in (found.U, found.V):
        assert torch.linalg.matrix_norm(matrix, 2) <= 0.8 * (1 + 1e-12)
    amplified = design((2, 2), norm=1.2, radius=0.9, restarts=2)
    assert amplified.line < amplified.value < 4


@pytest.mark.parametrize(
    "limits", [(1.0, None, None), (None, 1.5, None), (0.9, 1.5, None), (1.1, None, 0.6), (1.1, 1.7, 0.6)]
)
def test_projections_are_the_nearest_points(limits):
    """No allowed point is nearer: <A - P, X - P> <= 0 for every allowed X."""
    constraint, A = Constraint(*limits), randn(4, 4, seed=3)
    P = constraint.nearest(A)
    norm, frobenius, radius = limits
    assert norm is None or torch.linalg.matrix_norm(P, 2) <= norm * (1 + 1e-12)
    assert frobenius is None or torch.linalg.matrix_norm(P) <= frobenius * (1 + 1e-12)
    assert radius is None or (not P.triu(1).any() and P.diagonal().abs().max() <= radius * (1 + 1e-12))
    for seed in range(50):
        X = constraint.nearest(P + randn(4, 4, seed=seed) * 10.0 ** -(seed % 4))
        assert ((A - P) * (X - P)).sum() <= 1e-7


def test_the_gradient_is_that_of_finite_differences():
    point, move = [0.3 * randn(3, 3), randn(3, seed=1)], [randn(3, 3, seed=2), randn(3, seed=3)]
    for lags in (None, 4):
        slope = sum((a * b).sum() for a, b in zip(value_and_gradient(point, lags)[1], move, strict=True))
        high, low = (
            value_and_gradient([a + sign * 1e-5 * b for a, b in zip(point, move, strict=True)], lags)[0]
            for sign in (1, -1)
        )
        assert abs((high - low) / 2e-5 - slope) < 1e-7


def test_more_lags_than_units_from_a_given_start():
    line = torch.diag(torch.ones(3, dtype=torch.float64), -1)
    found = design(4, norm=1.2, lags=7, start=(line, torch.eye(4)[0]), restarts=1)
    assert found.value >= found.ascent[0] > 2
    assert found.value <= found.bound


def test_a_result_at_the_edge_of_stability_has_the_value_it_claims():
    """Two orthogonal matrices have a product of radius 1; the result must be stable."""
    found = design((2, 2), norm=1.0, restarts=3, steps=60)
    assert torch.linalg.eigvals(torch.kron(found.U, found.V)).abs().max() < 1
    assert found.value > found.values.max() - 1e-9  # with the best direction for the final matrices
    A, w = torch.kron(found.U.mT.contiguous(), found.V.mT.contiguous()).numpy(), found.W.flatten().numpy()
    C, P = (scipy.linalg.solve_discrete_lyapunov(A, Q) for Q in (np.eye(4), np.outer(w, w)))
    assert abs(np.trace(np.linalg.solve(C, P)) - found.value) < 1e-8


def test_the_same_seed_gives_the_same_design():
    first, same, other = (design(3, norm=1.0, lags=3, restarts=1, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.V, same.V)
    assert not torch.equal(first.V, other.V)


def test_the_summary_says_that_the_ascent_is_out_of_steps():
    found = design(5, norm=1.0, lags=5, restarts=1, steps=3)
    assert not found.converged
    assert "out of steps" in found.summary()
    assert len(found.ascent) == 4


@pytest.mark.parametrize("size", [3, (2, 2)])
def test_load_reads_what_save_wrote(size, tmp_path):
    found = design(size, norm=0.9, restarts=1)
    found.save(tmp_path / "design.safetensors")
    again = ms.MemoryDesign.load(tmp_path / "design.safetensors")
    assert again.summary() == found.summary()
    assert all(torch.equal(a, b) for a, b in zip(again.parts, found.parts, strict=True))
    assert len(found.figure().axes) == (4 if size == 3 else 5)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("norm must be positive", lambda: design(3, norm=-1.0)),
        ("frobenius must be positive", lambda: design(3, frobenius=0.0)),
        ("radius must lie between 0 and 1", lambda: design(3, radius=1.0)),
        ("radius must lie between 0 and 1", lambda: design(3, norm=2.0, radius=1.5)),
        ("Pass norm=... or frobenius", lambda: design(3, radius=0.9)),
        ("Pass norm=... or frobenius", lambda: design(3)),
        ("there is no best network", lambda: design(3, norm=1.2)),
        ("size must be a number of units", lambda: design(0, norm=1.0)),
        ("size must be a number of units", lambda: design((2, 0), norm=1.0)),
        ("size must be a number of units", lambda: design((2, 2, 2), norm=1.0)),
        ("lags must be at least 1", lambda: design(3, norm=1.0, lags=0)),
        ("At least 1 step and 1 restart", lambda: design(3, norm=1.0, restarts=0)),
        ("start must be", lambda: design(3, norm=1.0, start=(randn(2, 2), randn(2)))),
        ("start must be", lambda: design((2, 3), norm=1.0, start=(randn(2, 2), randn(2)))),
        ("The ascent cannot begin", lambda: design(2, norm=1.5, lags=2, start=(1.1 * torch.eye(2), torch.ones(2)))),
    ],
)
def test_wrong_arguments_raise(message, call):
    with pytest.raises(ValueError, match=message):
        call()
