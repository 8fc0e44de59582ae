"""The fixed-point search in large states: float32 factors, expensive starts, few eigenvalues."""

import itertools

import numpy as np
import pytest
import scipy.optimize
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, EchoState, Elman
from mnemoscope.lenses import (
    Adaptive,
    Box,
    ChordNewton,
    FixedPoints,
    FromOutputs,
    FromTrajectories,
    Newton,
    Several,
    Status,
    Tolerances,
)
from mnemoscope.lenses.fixed_points import inverses
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from mnemoscope.lenses.fixed_points.descent import Descent
from mnemoscope.lenses.fixed_points.inverses import Inverse, inverse_norm
from mnemoscope.lenses.fixed_points.lens import default_solver
from mnemoscope.lenses.fixed_points.mixed_precision import Factors, MixedLevenbergMarquardt
from mnemoscope.lenses.fixed_points.newton import LevenbergMarquardt
from mnemoscope.lenses.fixed_points.restarts import EXPENSIVE, Restarts
from mnemoscope.lenses.fixed_points.stability import ARNOLDI, growth, unstable_directions
from mnemoscope.lenses.fixed_points.starts import advance, settled
from mnemoscope.tasks import FlipFlop
from tests.slow import SLOW, representatives

D = torch.float64


def planted(size, gain=2.0, seed=0):
    """Return a tanh network with exactly 27 known fixed points, and these.

    Three units hold a bit each, and a chain of weights drives the others, in random order. The Jacobians are triangular
    up to that order, and far from normal.
    """
    generator = torch.Generator().manual_seed(seed)
    V = torch.randn(size, size, generator=generator, dtype=D).tril(-1) / size**0.5
    V[:3] = 0
    V.diagonal()[:] = 0.5
    V.diagonal()[:3] = gain
    values = [0.0]
    if gain > 1:
        root = scipy.optimize.brentq(lambda a: np.tanh(gain * a) - a, 0.3 * (gain - 1) ** 0.5, 1, xtol=1e-15)
        values = [-root, 0.0, root]
    bits = torch.tensor(list(itertools.product(values, repeat=3)), dtype=D)
    roots = torch.zeros(len(bits), size, dtype=D)
    roots[:, :3] = bits
    for unit in range(3, size):  # h = tanh(h / 2 + drive) has one root, to which iteration converges
        drive = roots[:, :unit] @ V[unit, :unit]
        for _ in range(60):
            roots[:, unit] = torch.tanh(0.5 * roots[:, unit] + drive)
    order = torch.randperm(size, generator=generator)
    cell = Elman(1, size, bias=False).double()
    cell.connectivity.matrix.data = V[order][:, order].contiguous()
    return ms.Dynamics(cell), roots[:, order]


def assert_same_set(found, expected, distance=1e-9):
    gaps = torch.cdist(found, expected, compute_mode="donot_use_mm_for_euclid_dist")
    assert found.shape == expected.shape
    assert gaps.min(0).values.max() < distance
    assert gaps.min(1).values.max() < distance


@pytest.mark.parametrize(
    ("size", "krylov"), [(10, False), (10, True), (150, False), (150, True), pytest.param(600, True, marks=SLOW)]
)
def test_float32_factors_find_all_planted_points(size, krylov):
    dynamics, roots = planted(size)
    noise = torch.randn(roots.shape, generator=torch.Generator().manual_seed(1), dtype=D)
    fp = ms.find_fixed_points(dynamics, roots + 0.03 * noise, solver=ChordNewton(krylov=krylov))
    assert_same_set(fp.states, roots)
    assert fp.q.max() < 1e-25
    assert sorted(fp.unstable.tolist()) == [0] * 8 + [1] * 12 + [2] * 6 + [3]
    assert fp.kind.count("stable") == 8
    assert fp.kind.count("saddle") == 19
    assert fp.may_be_complete


def test_chord_newton_finds_the_same_points_as_newton():
    dynamics, roots = planted(140)
    noise = torch.randn(roots.shape, generator=torch.Generator().manual_seed(2), dtype=D)
    results = [
        ms.find_fixed_points(dynamics, roots + 0.1 * noise, solver=s) for s in (Newton(), ChordNewton(krylov=False))
    ]
    order = [fp.states @ torch.arange(140, dtype=D) for fp in results]
    assert_same_set(results[0].states, results[1].states, 1e-11)
    assert results[0].index[order[0].argsort()].tolist() == results[1].index[order[1].argsort()].tolist()


def test_a_root_too_near_a_bifurcation_for_float32_is_exact():
    """With a gain of 1 + 1e-8 the bits' roots are 1.7e-4 apart, and the condition number is 1e8."""
    dynamics, roots = planted(160, gain=1 + 1e-8)
    middle = roots[13:14]  # the origin
    assert middle.abs().max() == 0
    points = torch.cat([roots[4:5], middle, roots[22:23]])  # one bit at -, 0, +
    assert torch.linalg.cond(dynamics.residual_jacobian(points)).min() > 1e7
    fp = ms.find_fixed_points(dynamics, points * 1.05, solver=ChordNewton(krylov=False))
    assert fp.q.max() < 1e-25
    reference = ms.find_fixed_points(dynamics, points * 1.05, solver=Newton())
    assert len(fp) == len(reference) == 3
    # |error| <= rounding / smallest singular value, about 1e-16 / 2e-8
    assert_same_set(fp.states, reference.states, 1e-7)
    assert_same_set(fp.states, points, 1e-7)


def test_refinement_with_float32_factors_reaches_float64_accuracy():
    """A single solution with float32 factors has their rounding error."""
    A = torch.randn(3, 150, 150, generator=torch.Generator().manual_seed(0), dtype=D)
    b = torch.randn(3, 150, generator=torch.Generator().manual_seed(1), dtype=D)
    exact = torch.linalg.solve(A, b)
    factors = Factors.of(A)
    all_rows = torch.arange(3)
    x = factors.solve(b, all_rows)
    first = (x - exact).norm() / exact.norm()
    assert 1e-9 < first < 1e-1
    for _ in range(8):
        x = x + factors.solve(b - (A @ x.unsqueeze(2)).squeeze(2), all_rows)
    assert (x - exact).norm() / exact.norm() < 1e-10
    tiny = factors.solve(1e-200 * b, all_rows)  # below the smallest float32
    torch.testing.assert_close(tiny * 1e200, factors.solve(b, all_rows), rtol=1e-6, atol=0)
    some = torch.tensor([2, 0])
    transposed = torch.linalg.solve(A[some].mT, b[some])
    torch.testing.assert_close(factors.solve(b[some], some, adjoint=True), transposed, rtol=0, atol=1e-2)


def test_levenberg_marquardt_from_factors_takes_the_same_step():
    dynamics, roots = planted(60)
    x = roots[:4] + 0.1 * torch.randn(4, 60, generator=torch.Generator().manual_seed(0), dtype=D)
    f = dynamics.residual(x)
    for damping in (1e-4, 1e-2, 1.0):
        steps = []
        for solver in (LevenbergMarquardt(), MixedLevenbergMarquardt(iterations=200)):
            given = torch.full((4,), damping, dtype=D)
            steps.append(solver.step(dynamics, x, f, solver.linearise(dynamics, x, f), given))
        # conjugate gradients stop at a relative residual of 1e-2
        assert ((steps[0] - steps[1]).norm(dim=1) < 0.05 * steps[0].norm(dim=1)).all()


def test_starts_that_converge_to_a_known_point_stop_early(monkeypatch):
    dynamics, roots = planted(300)
    formed = []
    dense = ms.Dynamics.residual_jacobian

    def count(self, states):
        formed.append(len(states))
        return dense(self, states)

    noise = torch.randn(60, 300, generator=torch.Generator().manual_seed(0), dtype=D)
    starts = roots[:1] + 0.05 * noise
    monkeypatch.setattr(ms.Dynamics, "residual_jacobian", count)
    fp = ms.find_fixed_points(dynamics, starts, solver=ChordNewton(krylov=False))
    assert len(fp) == 1
    assert fp.reached.tolist() == [60]
    first = ChordNewton().chunk(300, dynamics.device)
    assert fp.starts.steps[first:].max() == 0  # recognised where they start
    assert sum(formed) < 60  # fewer than one for each start


def test_one_factorisation_serves_several_steps(monkeypatch):
    dynamics, roots = planted(200)
    factorised = []
    of = Factors.of.__func__
    monkeypatch.setattr(Factors, "of", classmethod(lambda cls, A: factorised.append(len(A)) or of(cls, A)))
    starts = roots[:1] + 0.02 * torch.randn(1, 200, generator=torch.Generator().manual_seed(0), dtype=D)
    counts = []
    for reuse in (0, 12):
        factorised.clear()
        catalogue = Catalogue(dynamics)
        with torch.no_grad():
            Descent(ChordNewton(reuse=reuse, krylov=False), catalogue, Tolerances()).run(starts)
        assert len(catalogue) == 1
        counts.append(sum(factorised))
    assert counts[1] < counts[0]


def test_stuck_starts_are_followed_only_by_a_thorough_solver():
    """x' = x + x^2 + 0.1 has no root, and q has its minimum 0.005 at 0, which is not slow."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h + h * h + 0.1, state_size=1))
    start = torch.full((1, 1), 0.4, dtype=D)
    quick = ms.find_fixed_points(dynamics, start, solver=ChordNewton())
    thorough = ms.find_fixed_points(dynamics, start, solver=ChordNewton(thorough=True))
    assert quick.starts.counts() == {Status.UNFINISHED: 1}
    assert thorough.starts.counts() == {Status.STALLED: 1}
    assert thorough.starts.q.item() == pytest.approx(0.005, rel=1e-3)


@SLOW
def test_the_index_sum_drives_the_search_until_all_points_are_found():
    """Starts near the corners alone find the eight attractors; the waves must find the other 19 points."""
    dynamics, roots = planted(EXPENSIVE + 4)
    corners = roots[[0, 2, 6, 8, 18, 20, 24, 26]]
    incomplete = ms.find_fixed_points(dynamics, corners)
    assert (len(incomplete), incomplete.index_sum) == (8, 8)
    assert "at least 7 points with an odd number" in incomplete.summary()
    fp = ms.find_fixed_points(dynamics, Adaptive(corners))
    assert_same_set(fp.states, roots)
    assert fp.may_be_complete
    assert "The search ended" not in fp.summary()


def test_the_limits_of_starts_and_waves_are_kept_and_reported(tmp_path):
    dynamics, roots = planted(EXPENSIVE + 4)
    fp = ms.find_fixed_points(dynamics, Adaptive(roots[[0, 2]], max_starts=10))
    assert len(fp.starts) == 10
    assert fp.may_be_complete is False
    assert "The search ended because the limit of 10 starts was reached." in fp.summary()
    fp.save(tmp_path / "points.safetensors")
    back = FixedPoints.load(tmp_path / "points.safetensors")
    assert back.summary() == fp.summary()
    assert back.index.tolist() == fp.index.tolist()
    assert len(ms.find_fixed_points(dynamics, Adaptive(roots, max_starts=5)).starts) == 5
    limited = ms.find_fixed_points(dynamics, Adaptive(roots[[0, 2]], number=2, waves=2))
    assert "the limit of 2 waves" in limited.summary()


def catalogue_and_restarts(dynamics, states):
    catalogue = Catalogue(dynamics)
    with torch.no_grad():
        catalogue.offer(states, 1e-25)
    assert len(catalogue) == len(states)
    return catalogue, Restarts(Adaptive(), dynamics, torch.Generator().manual_seed(0))


@torch.no_grad()
def test_states_settle_where_many_steps_lead():
    """Four states come to rest early, the fifth begins on a saddle, and that of another map grows for ever."""
    dynamics, roots = planted(40)
    near = roots[[0, 2, 6, 8]] + 0.05 * torch.randn(4, 40, generator=torch.Generator().manual_seed(0), dtype=D)
    states = torch.cat([near, roots[13:14]])
    given = states.clone()
    end = settled(dynamics, states, 90)
    torch.testing.assert_close(end, advance(dynamics, states, 90), rtol=0, atol=1e-5)
    assert torch.equal(states, given)
    growing = ms.Dynamics(ms.adapt(lambda x, h: 2 * h, state_size=1))
    assert settled(growing, torch.ones(1, 1, dtype=D), 13).item() == 2.0**13


@pytest.mark.parametrize("size", [6, 40])
def test_the_estimate_of_an_inverse_norm_is_a_sharp_lower_bound(size):
    for seed in range(20):
        A = torch.randn(size, size, generator=torch.Generator().manual_seed(seed))
        exact = torch.linalg.inv(A.double()).abs().sum(0).max()
        estimate = inverse_norm(Inverse(*torch.linalg.lu_factor(A)))
        assert exact / 3 < estimate < exact * 1.01


def test_factors_and_inverses_give_the_same_catalogue(monkeypatch):
    """Also near a bifurcation, where float32 factors do not determine the sign of the determinant."""
    for gain, size in ((2.0, 150), (1 + 1e-8, 150)):
        dynamics, roots = planted(size, gain=gain)
        found = []
        for smallest in (size + 1, size):
            monkeypatch.setattr(inverses, "FACTORISED", smallest)
            catalogue = Catalogue(dynamics)
            with torch.no_grad():
                catalogue.offer(roots, 1e-25)
                lost = roots + 1e-3 * (roots.abs().amax() * torch.ones_like(roots))
                found.append((catalogue, catalogue.confirmed(lost, catalogue.recognise(lost, dynamics.residual(lost)))))
        (explicit, known), (factorised, recognised) = found
        assert len(explicit) == len(roots)
        assert isinstance(factorised._inverses, inverses.LargeInverses)
        assert_same_set(explicit.states, factorised.states, 1e-7 if gain < 2 else 1e-11)
        assert explicit.index.tolist() == factorised.index.tolist()
        assert known.tolist() == recognised.tolist()


@torch.no_grad()
def test_mirror_images_are_starts_only_where_they_are_roots():
    dynamics, roots = planted(50)
    catalogue, restarts = catalogue_and_restarts(dynamics, roots[:3])
    assert_same_set(restarts.mirror_images(catalogue), -roots[:3])
    assert len(restarts.mirror_images(catalogue)) == 0  # nothing new since
    tilted = Elman(1, 3, bias=False).double()
    tilted.connectivity.matrix.data = 2 * torch.eye(3, dtype=D)
    driven = ms.Dynamics(tilted, [0.3])
    points = ms.find_fixed_points(driven).states
    catalogue, restarts = catalogue_and_restarts(driven, points)
    assert len(restarts.mirror_images(catalogue)) == 0


@torch.no_grad()
def test_departures_lead_from_a_saddle_to_both_attractors():
    dynamics, roots = planted(60)
    saddle = roots[[1]]  # bits -, -, 0
    catalogue, restarts = catalogue_and_restarts(dynamics, saddle)
    assert_same_set(restarts.departures(catalogue), roots[[0, 2]])
    assert len(restarts.departures(catalogue)) == 0


@torch.no_grad()
def test_basin_boundaries_lead_to_saddles():
    dynamics, roots = planted(60)
    catalogue, restarts = catalogue_and_restarts(
        dynamics, roots[[0, 2, 1]]
    )  # two attractors and the saddle between them
    starts = restarts.basin_boundaries(catalogue)
    assert restarts.attracting == [0, 1]
    assert len(starts) == 1
    assert (starts - roots[1]).norm() < 0.05 * (roots[0] - roots[2]).norm()
    assert len(restarts.basin_boundaries(catalogue)) == 0  # each pair once


def test_random_outputs_replace_the_feedback_of_a_reservoir():
    torch.manual_seed(0)
    for form in ("current", "rate"):
        cell = EchoState(2, 40, output_size=3, form=form, bias_scale=0.3).double()
        cell.readout.data = torch.randn(3, 40, dtype=D)
        dynamics = ms.Dynamics(cell, [0.5, -1.0])
        drawn = FromOutputs(4, -2, 3, steps=7, rest=2).draw(dynamics, torch.Generator().manual_seed(5))
        z = 5 * torch.rand(4, 3, generator=torch.Generator().manual_seed(5), dtype=D) - 2
        u = torch.tensor([[0.5, -1.0]], dtype=D)
        for output, expected in zip(z, drawn, strict=True):
            open_loop = EchoState.from_weights(
                cell.recurrent, cell.drive, bias=cell.bias + cell.feedback @ output, leak=cell.leak, form=form
            )
            x = open_loop.initial_state(1)
            for _ in range(7):
                x = open_loop(u, x)
            for _ in range(2):
                x = cell(u, x)
            torch.testing.assert_close(x[0], expected, rtol=0, atol=1e-12)


def test_several_strategies_combine_in_one_search():
    torch.manual_seed(0)
    cell = EchoState(2, 30, output_size=2)
    dynamics = ms.Dynamics(cell)
    xs = torch.randn(20, 1, 2)
    several = Several([FromTrajectories(xs, 5), FromTrajectories(xs, 4, noise=0.1, rest=3), FromOutputs(3), Box(2)])
    fp = ms.find_fixed_points(dynamics, Several([several, dynamics.origin]))
    assert len(fp.starts) == 15
    more = ms.find_fixed_points(dynamics, Adaptive(several, number=4, waves=2, max_starts=20))
    assert 14 < len(more.starts) <= 20
    drawn = FromTrajectories(xs, 20).draw(dynamics, torch.Generator().manual_seed(0))
    rested = FromTrajectories(xs, 20, rest=2).draw(dynamics, torch.Generator().manual_seed(0))
    torch.testing.assert_close(dynamics(dynamics(drawn)), rested)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FromOutputs(4).draw(ms.Dynamics(GRU(2, 4)), torch.Generator()), "an EchoState with an output_size"),
        (lambda: FromOutputs(4).draw(ms.Dynamics(EchoState(2, 5)), torch.Generator()), "without outputs"),
        (
            lambda: FromOutputs(4).draw(ms.Dynamics(EchoState(2, 5, 1), continuous=True), torch.Generator()),
            "a flow has no steps",
        ),
        (lambda: FromOutputs(low=1.0, high=1.0), "low < high"),
        (lambda: FromOutputs(0), "number must be a whole number, at least 1"),
        (lambda: FromOutputs(steps=-1), "steps must be a whole number, at least 0"),
        (lambda: FromTrajectories(torch.zeros(3, 1, 1), rest=-1), "rest must be a whole number, at least 0"),
        (lambda: Several([]), "the list is empty"),
        (lambda: Several([Adaptive()]), r"Adaptive\(Several"),
        (lambda: Adaptive(max_starts=0), "max_starts must be a whole number, at least 1"),
        (
            lambda: Several([torch.zeros(2, 3)]).draw(ms.Dynamics(GRU(2, 4)), torch.Generator()),
            r"\(starts, 4\)",
        ),
    ],
)
def test_wrong_strategies_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def matrices(size):
    """Yield random, non-normal, rotating, repeated and marginal matrices."""
    rng = np.random.default_rng(0)
    random = rng.standard_normal((size, size)) / size**0.5
    for radius in (0.9, 1.02, 1.1):
        yield f"random {radius}", radius * random
    steep = np.triu(rng.standard_normal((size, size)), 1) / size**0.5
    for leading in ([0.7], [1.3, 1.1, -1.2]):
        diagonal = np.concatenate([leading, np.linspace(-0.6, 0.6, size - len(leading))])
        yield f"triangular {leading}", steep + np.diag(diagonal)
    Q = np.linalg.qr(rng.standard_normal((size, size)))[0]
    for block in (np.diag([1.2, 1.2]), 1.1 * np.array([[0.6, -0.8], [0.8, 0.6]]), np.diag([1.0, 0.5])):
        twice = np.kron(np.eye(2), block)
        J = 0.5 * random
        J[:4] = J[:, :4] = 0
        J[:4, :4] = twice
        yield f"twice {block.tolist()}", Q @ J @ Q.T


@SLOW
@representatives("False")
@pytest.mark.parametrize("continuous", [False, True])
def test_the_arnoldi_count_agrees_with_all_eigenvalues(continuous):
    size, certain = ARNOLDI + 10, 0
    for name, J in matrices(size):
        J = J - np.eye(size) if continuous else J
        rates = growth(np.linalg.eigvals(J), continuous)
        expected = int((rates > 1e-5).sum())
        G = J if continuous else J - np.eye(size)
        index = int(np.linalg.slogdet(-G)[0]) if np.abs(rates).min() > 1e-9 else 0
        counted = unstable_directions(J, continuous, 1e-5, index)
        assert counted in (expected, None), name
        certain += counted is not None
        states = torch.zeros(1, size, dtype=D)
        fp = FixedPoints(states, states[:, 0], torch.from_numpy(J)[None], torch.ones(1).long(), continuous, False)
        assert fp.unstable.tolist() == [expected], name
        marginal = bool((np.abs(rates) <= 1e-5).any())
        assert fp.kind == ["marginal" if marginal else "stable" if expected == 0 else "saddle"], name
        assert "eigenvalues" not in fp.__dict__  # they were not all computed
        full = FixedPoints(states, states[:, 0], torch.from_numpy(J)[None], torch.ones(1).long(), continuous, False)
        assert full.eigenvalues.shape == (1, size)
        assert full.kind == fp.kind
    assert certain >= 5  # None would be a valid but useless answer


def test_eigenvalues_of_large_states_are_complete_and_in_the_order_of_their_vectors():
    size = ARNOLDI + 1
    J = torch.randn(1, size, size, generator=torch.Generator().manual_seed(0), dtype=D) / size**0.5
    states = torch.zeros(1, size, dtype=D)
    fp = FixedPoints(states, states[:, 0], J, torch.ones(1).long(), False, False)
    error = J.to(fp.eigenvectors) @ fp.eigenvectors - fp.eigenvectors * fp.eigenvalues[:, None]
    assert error.abs().max() < 1e-10
    assert (fp.eigenvalues.abs().diff() <= 1e-12).all()


@SLOW
def test_a_trained_reservoir_has_stable_points_at_both_bits():
    torch.manual_seed(0)
    cell = EchoState(1, 150, output_size=1, input_scale=4.0)
    task = FlipFlop(1, 3000, 0.03, 11, 16, 15)
    batch = task.batch(1, 0, 0)
    ms.train_force(cell, batch.inputs, batch.targets, mask=batch.mask)
    dynamics = ms.Dynamics(cell)
    first = Several([FromTrajectories(batch.inputs, 16, rest=20), FromOutputs(16), dynamics.origin])
    fp = ms.find_fixed_points(dynamics, Adaptive(first, max_starts=200), solver=ChordNewton())
    assert len(fp.starts) <= 200
    assert fp.bounded
    assert fp.q.max() < 1e-25
    z = dynamics.cell.read(dynamics.cell.output(fp.states)).flatten()
    stable = z[fp.unstable == 0]
    assert stable.min() < -0.8
    assert stable.max() > 0.8


def test_the_default_solver_depends_on_the_size():
    assert not any(default_solver(size).patience.thorough for size in (513, 2049))  # where a step is expensive
    kinds = [type(default_solver(size)).__name__ for size in (3, 512, 513, 2048, 2049)]
    assert kinds == ["Newton", "Newton", "ChordNewton", "ChordNewton", "NewtonKrylov"]
    assert default_solver(1000).chunk(1000, torch.device("cpu")) == 4
