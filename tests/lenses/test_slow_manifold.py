"""Slow manifolds: persistent homology against known shapes, and planted and trained memories."""

from dataclasses import replace
from itertools import combinations
from math import inf, pi

import numpy as np
import pytest
import torch
from benchmarks.slow_manifolds_trained import DELAYS, find_memory, load_network, networks, readout_errors
from torch import Tensor, nn

import mnemoscope as ms
from mnemoscope.cells import Cell
from mnemoscope.inspection.slow_manifold import slow_manifold_section
from mnemoscope.lenses.slow_manifold.curve import Curve, fit_curve
from mnemoscope.lenses.slow_manifold.drift import CurveDrift
from mnemoscope.lenses.slow_manifold.homology import farthest_points, pairwise_distances, persistent_homology
from mnemoscope.lenses.slow_manifold.planted import (
    planted_flat,
    planted_points,
    planted_ring,
    planted_sphere,
    planted_torus,
)
from mnemoscope.lenses.slow_manifold.rests import rests_on_curve
from mnemoscope.lenses.slow_manifold.shape import local_dimension, shape_of
from mnemoscope.report.fixed_points import headline
from tests.slow import SLOW, representatives


def _normal(number: int, size: int, seed: int = 0) -> Tensor:
    return torch.randn(number, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _found(cell: Cell, starts: Tensor | int = 200, **options) -> ms.SlowManifold:
    dynamics = ms.Dynamics(cell)
    states = _normal(starts, dynamics.size) if isinstance(starts, int) else starts
    return ms.find_slow_manifold(dynamics, starts=states, **options)


# Persistent homology


def _rank(matrix: np.ndarray) -> int:
    """Return the rank modulo 2 by elimination."""
    rows, rank = [int("".join(map(str, row)), 2) if len(row) else 0 for row in matrix.tolist()], 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            rows = [row ^ pivot if row & low else row for row in rows]
    return rank


def _betti(distances: np.ndarray, scale: float, degree: int) -> int:
    """Return the Betti number of the complex at one scale, from the ranks of its boundary matrices."""
    near = distances <= scale

    def simplices(k: int) -> list[tuple[int, ...]]:
        return [s for s in combinations(range(len(near)), k + 1) if all(near[a, b] for a, b in combinations(s, 2))]

    def boundary(k: int) -> np.ndarray:
        faces = {face: row for row, face in enumerate(simplices(k - 1))}
        matrix = np.zeros((len(faces), len(simplices(k))), int)
        for column, simplex in enumerate(simplices(k)):
            for face in combinations(simplex, k):
                matrix[faces[face], column] = 1
        return matrix

    return len(simplices(degree)) - (_rank(boundary(degree)) if degree else 0) - _rank(boundary(degree + 1))


@pytest.mark.parametrize("seed", range(4))
def test_bars_agree_with_the_ranks_of_boundary_matrices(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(9, 3))
    distances = pairwise_distances(points)
    bars = persistent_homology(distances, 2)
    for scale in np.quantile(distances[distances > 0], (0.15, 0.3, 0.4, 0.5, 0.6)):
        if scale > distances.max(1).min():
            continue  # beyond the enclosing radius
        for degree, pairs in enumerate(bars):
            alive = int(((pairs[:, 0] <= scale) & (scale < pairs[:, 1])).sum()) + (degree == 0)
            assert alive == _betti(distances, scale, degree)


def test_an_octahedron_is_hollow() -> None:
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    pieces, loops, hollows = persistent_homology(pairwise_distances(corners), 2)
    assert np.allclose(pieces[:, 1], 2**0.5)
    assert len(loops) == 0
    assert np.allclose(hollows, [[2**0.5, 2.0]])


def test_landmarks_cover_a_cloud_and_skip_equal_points() -> None:
    points = np.repeat(np.arange(4.0)[:, None], 5, axis=0)
    assert sorted(points[farthest_points(points, 10), 0]) == [0, 1, 2, 3]


# Shapes


def _cloud(name: str, number: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    a, b = generator.uniform(0, 2 * pi, (2, number))
    u, w = generator.uniform(-1, 1, (2, number))
    ball = generator.normal(size=(number, 3))
    return {
        "ring": lambda: np.c_[np.cos(a), 0.4 * np.sin(a), 0.3 * np.cos(2 * a)],
        "line": lambda: np.c_[np.cos(2.4 * u), np.sin(2.4 * u)],  # nearly closed
        "plane": lambda: np.c_[u, 0.6 * w, 0.3 * u**2],
        "sphere": lambda: ball / np.linalg.norm(ball, axis=1, keepdims=True),
        "torus": lambda: np.c_[np.cos(a), np.sin(a), np.cos(b), np.sin(b)],
    }[name]()


@representatives("ring", "line", "plane")
@pytest.mark.parametrize("name", ["ring", "line", "plane", "sphere", "torus"])
def test_shapes_of_clouds(name: str) -> None:
    states = _cloud(name, 300 if name in ("ring", "line", "plane") else 600)  # closed surfaces need more
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0]
    shape = shape_of(states @ rotation[: states.shape[1]], 2.0)
    assert shape.topology == name
    assert shape.dimension == (1 if name in ("ring", "line") else 2)
    assert shape.agreement >= 0.75


def test_many_states_at_few_places_have_no_shape() -> None:
    states = np.repeat(np.eye(3), 20, axis=0)
    shape = shape_of(states, 1.5)
    assert (shape.topology, shape.dimension) == ("undecided", 0)
    assert "too few different places" in shape.reason


@SLOW
def test_a_ball_and_an_annulus_stay_undecided() -> None:
    generator = np.random.default_rng(0)
    ball = generator.normal(size=(300, 3))
    ball *= generator.uniform(0, 1, (300, 1)) ** (1 / 3) / np.linalg.norm(ball, axis=1, keepdims=True)
    assert local_dimension(ball) == 3
    assert shape_of(ball, 2.0).topology == "undecided"
    angle, radius = generator.uniform(0, 2 * pi, 300), np.sqrt(generator.uniform(0.25, 1, 300))
    annulus = shape_of(np.c_[radius * np.cos(angle), radius * np.sin(angle)], 2.0)
    assert annulus.topology == "undecided"
    assert annulus.reason == "it is a surface with 1 loop"


@SLOW
def test_a_curve_that_branches_is_no_line() -> None:
    arms = np.array([[1, 0], [-0.5, 0.87], [-0.5, -0.87]])
    states = (np.linspace(0, 1, 60)[:, None, None] * arms).reshape(-1, 2)
    pull = planted_points(torch.from_numpy(np.unique(states.round(6), axis=0)), pull=0.5, size=2)
    rotation = torch.linalg.qr(_normal(2, 2))[0]
    memory = _found(pull, torch.from_numpy(states) @ rotation.T)
    assert memory.topology == "undecided"
    assert "branches" in memory.doubts[0]


@SLOW
def test_sparse_starts_on_a_ring_are_connected_by_states_between_them() -> None:
    angle = 2 * pi * torch.arange(9, dtype=torch.float64).repeat_interleave(5) / 9  # nine values of the task
    starts = torch.zeros(45, 6, dtype=torch.float64)
    starts[:, 0], starts[:, 1] = angle.cos(), angle.sin()
    cell = planted_ring(2e-4, 2)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    memory = _found(cell, starts @ rotation.T)
    assert memory.topology == "ring"
    assert len(memory.filled) > 20


def test_positions_along_a_ring_are_its_angle() -> None:
    angle = np.sort(np.random.default_rng(0).uniform(0, 2 * pi, 200))
    curve = fit_curve(np.c_[np.cos(angle), np.sin(angle)], closed=True)
    assert curve.length == pytest.approx(2 * pi, rel=0.01)
    moved = curve.project(np.c_[np.cos(angle + 0.3), np.sin(angle + 0.3)])[0]
    turned = curve.difference(moved, curve.project(np.c_[np.cos(angle), np.sin(angle)])[0])
    assert np.allclose(np.abs(turned), 0.3, atol=0.02)
    assert (turned > 0).all() or (turned < 0).all()


# Planted memories


@pytest.fixture(scope="module")
def leaky() -> ms.SlowManifold:
    return _found(planted_flat(0.9995), delays=(10, 100))


@representatives("0.001")
@pytest.mark.parametrize("anisotropy", [0.0, 1e-5, 1e-4, 1e-3])
def test_a_planted_ring(anisotropy: float) -> None:
    memory = _found(planted_ring(anisotropy, 3))
    assert memory.topology == "ring"
    assert memory.dimension == 1
    assert memory.share == 1
    if anisotropy == 0:
        assert len(memory.rests) == 0
        assert memory.lifetime == inf
        assert "does not drift" in memory.summary()
        return
    assert memory.rests_stable.tolist() in ([True, False] * 3, [False, True] * 3)
    gaps = memory.rests.diff() / memory.range
    assert torch.allclose(gaps, torch.full_like(gaps, 1 / 6), atol=0.01)
    largest = anisotropy / (2 * pi)  # radians per step, as a share of the circle
    assert memory.drift.abs().max() / memory.range == pytest.approx(largest, rel=0.03)
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.05)
    assert (memory.measured <= memory.bound).all()
    assert memory.fixed_points is not None
    assert len(memory.fixed_points) == 6
    assert memory.rests_alternate
    assert len(memory.doubtful) == 0
    assert "It rests at 6 fixed points" in memory.summary()
    assert "their indices sum to 0, as on a ring" in memory.summary()


@SLOW
def test_rests_without_a_fixed_point_are_doubtful() -> None:
    memory = _found(planted_ring(1e-3, 3))
    assert memory.fixed_points is not None
    fewer = replace(memory, rests=memory.rests[1:], rests_stable=memory.rests_stable[1:])
    assert not fewer.rests_alternate
    positions, motion = memory.positions[:, 0].numpy(), memory.drift[:, 0].numpy()
    drift = CurveDrift(Curve(memory.curve.numpy(), True), positions, motion, motion)
    found = rests_on_curve(drift, memory.fixed_points[1:], 1)
    assert len(found["rests"]) == 5
    assert found["doubtful"].numpy() == pytest.approx(drift.place(memory.fixed_points[:1].states.numpy()), abs=0.01)
    summary = replace(memory, **found, fixed_points=memory.fixed_points[1:]).summary()
    assert "instead of 0 for a ring, so some were missed" in summary
    assert "changes sign at 1 place more, where it is uncertain" in summary


@SLOW
def test_states_that_arrive_late_settle_longer() -> None:
    turn = torch.linalg.qr(_normal(3, 3))[0]
    ring = ms.Dynamics(planted_ring(1e-4, 3, size=2))

    def step(x: Tensor, h: Tensor) -> Tensor:
        h = h @ turn
        return torch.cat([ring(h[:, :2]), 0.985 * h[:, 2:]], 1) @ turn.T

    starts = _normal(150, 3) @ turn
    starts[:, 2] = 0
    starts[:8, 2] = 3.0  # 0.16 of it is left after 120 steps
    memory = _found(ms.adapt(step, state_size=3), starts @ turn.T)
    assert memory.topology == "ring"
    assert (memory.states @ turn)[:, 2].abs().max() < 0.02
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.05)
    assert torch.equal(memory.rests_stable.sort().values, torch.tensor([False] * 3 + [True] * 3))


@SLOW
def test_a_value_is_held_around_an_oscillation() -> None:
    leak = 0.9995
    turn = torch.tensor([[-0.36, -0.93], [0.93, -0.36]], dtype=torch.float64)  # by 111 degrees per step

    def step(x: Tensor, h: Tensor) -> Tensor:
        circling = 1.2 * (h[:, 1:] @ turn.T) / (1 + 2 * h[:, 1:].square().sum(1, keepdim=True)).sqrt()
        return torch.cat([leak * h[:, :1], circling], 1)

    memory = _found(ms.adapt(step, state_size=3))
    assert memory.topology == "line"
    assert memory.window == 60
    assert "oscillate around the value" in memory.summary()
    assert memory.states[:, 1:].abs().max() < 1e-3  # means, without the oscillation
    slope = memory.drift[:, 0] / (memory.positions[:, 0] - memory.doubtful[0])
    assert torch.allclose(slope, torch.full_like(slope, leak - 1), rtol=0.02)
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.05)


@SLOW
def test_a_ring_in_64_numbers_far_from_its_starts() -> None:
    memory = _found(planted_ring(5e-4, 2, size=64, decay=0.8), 3 * _normal(150, 64))
    assert memory.topology == "ring"
    assert len(memory.rests) == 4
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.05)


def test_a_leaky_line_decays_as_its_eigenvalue() -> None:
    memory = _found(planted_flat(0.9995))
    assert memory.topology == "line"
    assert memory.rests_stable.tolist() == [True]
    slope = memory.drift[:, 0] / (memory.positions[:, 0] - memory.rests[0])
    assert torch.allclose(slope, torch.full_like(slope, -0.0005), rtol=1e-3)
    delays = torch.tensor(memory.delays, dtype=torch.float64)
    size = (memory.positions[: len(memory), 0] - memory.rests[0]).abs().mean() / memory.range
    assert torch.allclose(memory.measured, size * (1 - 0.9995**delays), rtol=1e-3)
    assert torch.allclose(memory.predicted, memory.measured, rtol=1e-2)
    # the mean error reaches a tenth of the range when 1 - 0.9995^k = 0.1 / size
    exact = float(torch.log(1 - memory.tolerance / size) / np.log(0.9995))
    assert memory.lifetime == pytest.approx(exact, rel=0.02)


def test_noise_diffuses_along_a_line_as_its_eigenvectors_say() -> None:
    shear = torch.tensor([[1.0, 2.0], [0.0, 0.5]], dtype=torch.float64)  # carries noise into the line: gain 1 + 4^2
    memory = _found(ms.adapt(lambda x, h: h @ shear.T, state_size=2), noise=0.01)
    assert memory.topology == "line"
    assert memory.diffusion == pytest.approx(17 * 0.01**2, rel=1e-6)
    assert memory.diffusion_measured == pytest.approx(memory.diffusion, rel=0.3)
    assert memory.noise_lifetime == pytest.approx(pi / 2 * (0.1 * memory.range) ** 2 / memory.diffusion)
    # too little noise ever to be lost, if a rounding error of the drift counted as a pull
    weak = replace(memory, diffusion=1e-14, stretch=1 - 1e-9)
    assert weak.noise_lifetime == pytest.approx(pi / 2 * (0.1 * memory.range) ** 2 / weak.diffusion, rel=1e-6)


def _noise_errors(cell: Cell, memory: ms.SlowManifold, delays: list[int], relax: int = 10) -> np.ndarray:
    """Return the mean distance, as a share of the range, between copies with and without noise after each delay."""
    system, generator = ms.Dynamics(cell), torch.Generator().manual_seed(1)
    curve = Curve(memory.curve.numpy(), memory.topology == "ring")
    noisy = quiet = memory.states.repeat(3, 1)
    errors = []
    for step in range(1, max(delays) + 1):
        noisy = system(noisy) + memory.noise * torch.randn(noisy.shape, generator=generator, dtype=noisy.dtype)
        quiet = system(quiet)
        if step in delays:
            ends = [noisy, quiet]
            for _ in range(relax):
                ends = [system(end) for end in ends]
            errors.append(np.abs(curve.difference(*(curve.project(end.numpy())[0] for end in ends))).mean())
    return np.array(errors) / memory.range


def test_the_error_by_noise_saturates_where_the_drift_restores_values() -> None:
    generator = np.random.default_rng(0)
    V = np.linalg.qr(generator.normal(size=(10, 10)))[0]
    A = torch.tensor(V @ np.diag([0.99] + [0.5] * 9) @ V.T)
    cell = ms.adapt(lambda x, h: h @ A.T, state_size=10)
    memory = _found(cell, torch.tensor(generator.normal(size=(300, 10))), noise=0.01)
    assert memory.diffusion == pytest.approx(0.01**2)
    assert memory.diffusion_measured == pytest.approx(memory.diffusion, rel=0.2)
    assert memory.stretch == pytest.approx(0.99)
    # the stationary spread of an autoregressive process is 0.01 / sqrt(1 - 0.99^2)
    limit = (2 / pi) ** 0.5 * 0.01 / (1 - 0.99**2) ** 0.5 / memory.range
    assert memory.noise_limit == pytest.approx(limit)
    assert memory.noise_lifetime == inf
    assert "adds stays below 1.44% of the range, since the drift pulls values back" in memory.summary()
    delays = [10, 100, 400]
    decayed = 0.99**10 * memory.noise_errors(np.array(delays))  # the copies relax for 10 steps
    assert _noise_errors(cell, memory, delays) == pytest.approx(decayed, rel=0.1)


@pytest.mark.parametrize("leak", [0.9995, 1.001])
def test_noise_takes_a_value_away_when_an_autoregressive_process_says(leak: float) -> None:
    cell = planted_flat(leak)
    memory = _found(cell, noise=0.05)
    assert memory.stretch == pytest.approx(leak)
    assert memory.noise_limit > memory.tolerance
    k = round(memory.noise_lifetime)
    assert k > 50
    spread = 0.05 * ((1 - leak ** (2 * k)) / (1 - leak**2)) ** 0.5
    assert (2 / pi) ** 0.5 * spread / memory.range == pytest.approx(memory.tolerance, rel=0.01)
    assert _noise_errors(cell, memory, [k])[0] == pytest.approx(memory.tolerance, rel=0.15)
    assert f"10% of the range for at least {float(f'{k:.2g}'):,.0f} steps" in memory.summary()


def test_noise_on_a_line_with_an_unstable_place_has_a_lower_bound_of_the_lifetime() -> None:
    def step(x: Tensor, h: Tensor) -> Tensor:
        line = h[:, :1]
        return torch.cat([line + 0.002 * (line - line**3), 0.5 * h[:, 1:]], 1)

    cell = ms.adapt(step, state_size=2)
    memory = _found(cell, noise=0.02)
    assert sorted(memory.rests_stable.tolist()) == [False, True, True]
    assert memory.stretch == pytest.approx(1.002, abs=1e-4)
    assert memory.noise_limit == inf
    assert _noise_errors(cell, memory, [round(memory.noise_lifetime)])[0] < memory.tolerance
    assert "although the drift stretches differences by up to 0.20% per step" in memory.summary()
    assert not replace(memory, stretch=0.99).restores  # three rests cannot all attract


def test_a_result_that_did_not_measure_the_drift_claims_no_lifetime_under_noise(leaky: ms.SlowManifold) -> None:
    memory = replace(leaky, stretch=float("nan"))  # as in files of earlier versions
    assert np.isnan(memory.noise_lifetime)
    assert "noise" not in memory.summary()


@SLOW
@pytest.mark.parametrize(
    ("name", "cell", "starts"),
    [
        ("plane", planted_flat(0.9998, 0.9995), 2 * torch.rand(300, 6, generator=torch.Generator().manual_seed(0)) - 1),
        ("sphere", planted_sphere(3e-4), 300),
        ("torus", planted_torus(4e-4), 300),
    ],
)
def test_a_planted_surface(name: str, cell: Cell, starts: Tensor | int) -> None:
    memory = _found(cell, starts)
    assert memory.topology == name
    assert memory.dimension == 2
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.15)
    assert (memory.measured <= 1.02 * memory.bound).all()
    assert memory.fixed_points is not None
    total = int(memory.fixed_points.index.sum())
    if name == "plane":
        assert (len(memory.fixed_points), total) == (1, 1)
    else:  # the search may miss points on a surface, but notices it
        assert ("so some were missed" in memory.summary()) == (total != {"sphere": 2, "torus": 0}[name])
    if name == "torus":
        assert 8 <= len(memory.fixed_points) <= 16


@SLOW
def test_isolated_points_are_no_manifold() -> None:
    points = _normal(8, 3, seed=5)
    memory = _found(planted_points(points), 200)
    assert not memory
    assert memory.topology == "points"
    assert memory.isolated == len(torch.unique(memory.group))
    assert "isolated points" in memory.summary()


def test_a_ring_that_falls_apart_into_points_is_no_manifold() -> None:
    memory = _found(planted_ring(0.05, 5))
    assert memory.topology == "points"
    assert memory.isolated == 5


def test_contraction_cycles_and_chaos_are_no_manifold() -> None:
    assert "contract to one point" in _found(planted_flat(0.97)).reason
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)
    circling = ms.adapt(lambda x, h: 1.2 * (h @ turn.T) / (1 + h.square().sum(1, keepdim=True)).sqrt(), state_size=2)
    assert "become slow" in _found(circling).reason
    W = 3 * _normal(30, 30, 1) / 30**0.5
    assert "become slow" in _found(ms.adapt(lambda x, h: torch.tanh(h @ W.T), state_size=30)).reason
    assert "diverge" in _found(ms.adapt(lambda x, h: 1e30 * h, state_size=2)).reason


@pytest.mark.parametrize("growth", [1.01, 1.05, 1.3])
def test_states_that_leave_are_no_manifold(growth: float) -> None:
    line = ms.adapt(lambda x, h: h * growth + x, state_size=1, input_size=1)
    inputs = torch.randn(50, 20, 1, generator=torch.Generator().manual_seed(0))
    flat = ms.adapt(lambda x, h: torch.cat([growth * h[:, :1], 0.5 * h[:, 1:]], 1), state_size=2)
    for memory in (ms.find_slow_manifold(line, inputs), _found(flat)):
        assert not memory
        assert memory.topology == "none"
        assert f"their spread grows {growth**60:.3g}-fold from step 60 to step 120" in memory.verdict


def test_a_line_that_grows_more_slowly_than_its_time_scale_is_described() -> None:
    memory = _found(planted_flat(1.001))
    assert memory.topology == "line"
    assert memory.rests_stable.tolist() == [False]
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.05)


def test_a_line_is_found_though_a_few_starts_leave() -> None:
    def step(x: Tensor, h: Tensor) -> Tensor:
        return torch.cat([torch.where(h[:, :1].abs() < 3, 0.9995, 1.01) * h[:, :1], 0.5 * h[:, 1:]], 1)

    starts = _normal(100, 2).clamp(-2, 2)
    starts[:3, 0] = 4
    memory = _found(ms.adapt(step, state_size=2), starts)
    assert memory.size_kept_longer > 1.25
    assert memory.topology == "line"
    assert memory.share == pytest.approx(0.97)


def test_a_verdict_claims_no_lifetime_if_the_network_does_not_move_as_predicted(leaky: ms.SlowManifold) -> None:
    assert "which holds a value" in leaky.verdict
    wrong = replace(leaky, measured=10 * leaky.measured)
    assert not wrong.consistent
    assert "does not move on it as its drift predicts: how long it lasts is unknown" in wrong.verdict
    assert "holds a value to" not in wrong.verdict


def test_a_summary_says_that_an_error_never_reaches_the_tolerance(leaky: ms.SlowManifold) -> None:
    assert "The predicted error never reaches 10% of the range." in replace(leaky, lifetime=inf).summary()


def test_an_untrained_network_contracts_though_its_states_are_slow_and_form_a_loop() -> None:
    torch.manual_seed(0)
    gru = nn.GRU(2, 32)
    angle = 2 * pi * torch.rand(60)
    inputs = torch.zeros(30, 60, 2)
    inputs[0] = torch.stack([angle.cos(), angle.sin()], 1)
    dynamics = ms.Dynamics(gru)
    memory = ms.find_slow_manifold(dynamics, inputs)
    assert not memory
    assert memory.size_kept < 1e-3
    assert "contract to one point" in memory.summary()


@SLOW
def test_two_rings_are_two_groups() -> None:
    ring = ms.Dynamics(planted_ring(2e-4, 2, size=2))

    def step(x: Tensor, h: Tensor) -> Tensor:
        return torch.cat([ring(h[:, :2]), torch.tanh(3 * h[:, 2:])], 1)

    memory = _found(ms.adapt(step, state_size=3), 160)
    assert memory.topologies == ("ring", "ring")
    assert 0.4 < memory.share < 0.7


# Trained networks; benchmarks/slow_manifolds_trained.py --train made their weights


@SLOW
@pytest.mark.parametrize(("cell", "task"), [*networks()], ids=["-".join(pair) for pair in networks()])
def test_a_trained_memory(cell: str, task: str) -> None:
    network = load_network(cell, task)
    held = readout_errors(network)
    memory = find_memory(network, delays=DELAYS)
    assert memory.topology == {"angle": "ring", "integration": "line"}[task]
    assert memory.agreement == 1
    assert memory.share > 0.95
    assert 0.8 < memory.size_kept < 1.2
    assert torch.allclose(memory.predicted, memory.measured, rtol=0.15)
    assert (memory.measured <= memory.bound).all()
    # the lens knows no readout, whose error includes that of writing the value
    assert memory.measured.tolist() == pytest.approx(held, rel=0.7, abs=0.01)
    assert memory.window == (60 if (cell, task) == ("tanh", "integration") else 1)
    if memory.window == 1:
        assert memory.rests_alternate


# Arguments


@SLOW
def test_starts_are_kept_at_the_speed_asked_for() -> None:
    cell, limit = planted_flat(0.99), 5e-3
    memory = _found(cell, speed=limit, steps=20)
    assert memory.kept.all()
    assert not memory.speed_chosen
    system, states = ms.Dynamics(cell), _normal(200, 6)
    waiting = torch.ones(200, dtype=torch.bool)
    while waiting.any():  # the slow obvious version: step until the speed is reached
        after = system(states)
        waiting = (after - states).norm(dim=1) > limit
        states = torch.where(waiting[:, None], after, states)
    assert torch.allclose(memory.states, states)
    assert torch.allclose(memory.speeds, (system(states) - states).norm(dim=1))
    slower = _found(cell, speed=1e-30, steps=20)
    assert not slower.kept.any()
    assert "0 of 200 starts become slow" in slower.reason


@representatives("0.988")
@pytest.mark.parametrize("leak", [0.988, 0.993])
def test_a_short_memory_is_found_without_settings(leak: float) -> None:
    memory = _found(planted_flat(leak))  # time constants of 83 and 142 steps
    assert memory.topology == "line"
    slope = memory.drift[:, 0] / (memory.positions[:, 0] - memory.rests[0])
    assert torch.allclose(slope, torch.full_like(slope, leak - 1), rtol=0.01)
    assert not _found(planted_flat(leak), steps=60)


def test_a_memory_that_is_too_short_comes_with_the_steps_that_describe_it() -> None:
    memory = _found(planted_flat(0.97, decay=0.2))
    assert not memory
    assert memory.shorter_steps == 4
    assert "a set of dimension 1 with a time constant of about 33 steps, which steps=4 describes" in memory.reason
    assert _found(planted_flat(0.97, decay=0.2), steps=4).topology == "line"
    assert "time constant" not in _found(planted_flat(0.5, size=2)).reason  # it has one time scale


@SLOW
def test_a_flow_is_integrated_in_steps() -> None:
    relax = ms.adapt(lambda x, h: torch.stack([0 * h[:, 0] - 1e-3 * h[:, 0], -2 * h[:, 1]], 1), state_size=2)
    memory = ms.find_slow_manifold(ms.Dynamics(relax, continuous=True), starts=_normal(100, 2), dt=0.2)
    assert memory.topology == "line"
    assert memory.dt == 0.2


def test_wrong_arguments_are_refused_with_a_remedy() -> None:
    dynamics = ms.Dynamics(planted_flat(0.999))
    with pytest.raises(ValueError, match=r"either inputs=.* or starts="):
        ms.find_slow_manifold(dynamics)
    with pytest.raises(ValueError, match="speed must be a positive number"):
        ms.find_slow_manifold(dynamics, starts=_normal(5, 6), speed=-1)
    with pytest.raises(ValueError, match=r"shape \(time, batch, features\)"):
        ms.find_slow_manifold(ms.Dynamics(nn.GRU(2, 4)), torch.zeros(5, 2))


def test_too_few_starts_are_undecided() -> None:
    memory = _found(planted_ring(1e-4), 6)
    assert not memory
    assert "pass more starts" in memory.reason


@pytest.mark.parametrize("options", [{}, {"speed": 0.1}], ids=["settled", "at a speed"])
def test_one_place_to_start_from_does_not_tell_whether_states_contract(options: dict[str, float]) -> None:
    line = ms.adapt(lambda x, h: torch.stack([h[:, 0], 0.5 * h[:, 1]], 1), state_size=2)
    for starts in (_normal(1, 2), _normal(1, 2).repeat(40, 1)):
        memory = _found(line, starts, **options)
        assert "fewer than two different starts stay finite: pass at least 12" in memory.verdict
    assert "2 starts on it are too few" in _found(line, 2, **options).verdict
    torn = ms.adapt(lambda x, h: torch.where(h > 1, 1e30 * h, h), state_size=1)
    one_left = torch.tensor([[2.0], [0.5]], dtype=torch.float64)
    assert "fewer than two different starts" in _found(torn, one_left, **options).verdict


def test_it_saves_loads_and_draws(tmp_path) -> None:
    memory = _found(planted_ring(1e-3, size=5), 100)
    memory.save(tmp_path / "memory.safetensors")
    loaded = ms.SlowManifold.load(tmp_path / "memory.safetensors")
    assert loaded.summary() == memory.summary()
    assert torch.equal(loaded.drift, memory.drift)
    assert len(loaded.figure().axes) == 3
    assert len(_found(planted_flat(0.9)).figure().axes) == 1


# Pages


@pytest.mark.usefixtures("undrawn")
def test_the_headline_of_a_page_names_the_manifold() -> None:
    memory = _found(planted_ring(5e-4, 1), 100)
    assert memory.fixed_points is not None
    alone = headline(memory.fixed_points[:1])
    assert "one fixed point" in alone
    assert "slow manifold" not in alone
    text = headline(memory.fixed_points[:1], memory)
    assert text.startswith(alone)
    assert "All of 100 starts settle on a slow manifold, a ring, which holds a value" in text
    assert "on which the mean error of a value stays below 10%" in replace(memory, lifetime=inf).verdict
    section = slow_manifold_section(memory)
    assert "predicted" in section.lead
    assert "<svg" in section.html


@SLOW
def test_an_inspection_finds_and_saves_the_manifold(tmp_path) -> None:
    inspection = ms.inspect(planted_ring(5e-4, 1, size=3), name="ring")
    assert inspection.slow_manifold is not None
    inspection.save(tmp_path / "page.html")
    assert "settle on a slow manifold, a ring" in (tmp_path / "page.html").read_text()
    assert ms.SlowManifold.load(tmp_path / "page.slow_manifold.safetensors").topology == "ring"
    contracting = ms.inspect(planted_flat(0.9, size=3))
    assert contracting.slow_manifold is None
    assert "slow manifold" not in contracting.html()


@SLOW
def test_a_page_names_isolated_points_and_memories_that_are_too_short() -> None:
    points = planted_points(torch.eye(3, dtype=torch.float64), pull=0.2, size=3)
    found = ms.inspect(points)
    assert found.slow_manifold is None
    assert "No slow manifold: the states settle at 3 isolated points." in found.html()
    short = ms.inspect(planted_flat(0.97, decay=0.2, size=3))
    assert "time constant of about 33 steps, which steps=" in short.html()


def test_inputs_without_a_step_are_refused():
    for shape in ((16, 0, 1), (0, 5, 1)):
        with pytest.raises(ValueError, match=r"The inputs have no step: pass at least one sequence"):
            ms.find_slow_manifold(torch.nn.GRU(1, 8, batch_first=True), torch.randn(shape))
    with pytest.raises(ValueError, match=r"must have shape \(batch, time, features\), but have \(5, 2\)"):
        ms.find_slow_manifold(torch.nn.GRU(2, 8, batch_first=True), torch.randn(5, 2))
