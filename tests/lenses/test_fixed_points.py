"""The fixed-point lens on systems with known fixed points, and with every kind of start."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings, strategies as st

import mnemoscope as ms
from mnemoscope.cells import LSTM, Elman
from mnemoscope.lenses import (
    Adaptive,
    Box,
    ChordNewton,
    FixedPoints,
    FromTrajectories,
    GaussNewtonCG,
    LevenbergMarquardt,
    Newton,
    NewtonKrylov,
    Status,
    Tolerances,
)
from mnemoscope.lenses.fixed_points.linear_algebra import inverse_and_index
from mnemoscope.lenses.fixed_points.matrix_free import conjugate_gradients, gmres
from mnemoscope.lenses.fixed_points.outcomes import Certificate, Starts
from tests.slow import representatives

SOLVERS = [Newton(), LevenbergMarquardt(), NewtonKrylov(), GaussNewtonCG(), ChordNewton(thorough=True)]
ROOT = scipy.optimize.brentq(lambda a: np.tanh(2 * a) - a, 0.5, 1, xtol=1e-15)


def cube(size=3, mixed=True):
    """Return h' = Q tanh(g Q^T h), whose gain g is 2 for three coordinates and 0.5 for others, and its 27 roots."""
    Q = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0] if mixed else torch.eye(size).double()
    gain = torch.full((size,), 0.5, dtype=torch.float64)
    gain[:3] = 2

    def step(x, h):
        return torch.tanh(gain * (h @ Q)) @ Q.T

    roots = torch.tensor(list(itertools.product((-ROOT, 0, ROOT), repeat=3)), dtype=torch.float64)
    roots = torch.nn.functional.pad(roots, (0, size - 3)) @ Q.T
    # the box that contains the rotated cube is mapped into itself, as |step| <= sqrt(size)
    return ms.Dynamics(ms.adapt(step, state_size=size, bounds=(-(size**0.5), size**0.5))), roots


def assert_same_set(found, expected, distance=1e-9):
    gaps = torch.cdist(found, expected, compute_mode="donot_use_mm_for_euclid_dist")  # exact for near points
    assert found.shape == expected.shape
    assert gaps.min(0).values.max() < distance
    assert gaps.min(1).values.max() < distance


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_every_solver_finds_the_27_points_of_a_cube(solver):
    dynamics, roots = cube(6)
    fp = ms.find_fixed_points(dynamics, roots + 0.1 * torch.randn_like(roots), solver=solver)
    assert_same_set(fp.states, roots)
    assert fp.q.max() < 1e-25
    assert sorted(fp.unstable.tolist()) == [0] * 8 + [1] * 12 + [2] * 6 + [3]
    assert fp.index_sum == 1
    assert fp.may_be_complete
    assert fp.kind.count("stable") == 8
    assert fp.kind.count("saddle") == 19
    assert set(fp.shape) == {"node"}
    assert fp.reached.sum() == len(fp.starts) == 27


def test_an_adaptive_search_completes_the_cube():
    dynamics, roots = cube(8)
    fp = ms.find_fixed_points(dynamics, "adaptive")
    assert_same_set(fp.states, roots)
    assert fp.summary().startswith("27 fixed points: 8 stable, 12 saddles with 1 unstable direction, 6 saddles with 2 ")
    assert "no sign of a missing point, though no proof" in fp.summary()


def test_many_kinds_are_summarised():
    signs = torch.tensor([[1.0 if row < column else 0.0 for row in range(12)] for column in range(12)])
    jacobians = torch.diag_embed(0.5 + 1.0 * signs).double()  # the number of unstable directions is that of the point
    points = FixedPoints(
        torch.randn(12, 12).double(), torch.zeros(12).double(), jacobians, torch.ones(12).long(), False, False
    )
    assert points.summary().startswith("12 fixed points: 1 stable, 11 saddles with 1 to 11 unstable directions; q at ")
    assert (
        points[:4]
        .summary()
        .startswith("4 fixed points: 1 stable, 1 saddle with 1 unstable direction, 1 saddle with 2 ")
    )


def test_the_summary_reports_missing_points():
    dynamics, roots = cube()
    for missing, parity in ((0, "even"), (1, "odd")):  # a corner (index 1), an edge (index -1)
        kept = torch.cat([roots[:missing], roots[missing + 1 :]])
        fp = ms.find_fixed_points(dynamics, kept)
        assert fp.may_be_complete is False
        assert f"with an {parity} number of real eigenvalues above 1 is missing" in fp.summary()


def test_the_summary_names_a_sign_of_missing_points_that_the_index_sum_does_not_show():
    dynamics, roots = cube()
    fp = ms.find_fixed_points(dynamics, roots)
    assert fp.doubt == ""
    assert "no sign of a missing point, though no proof" in fp.summary()
    for number, many in ((40, False), (42, True)):  # a third of the starts, and more
        starts = Starts(*(part.repeat(2)[:number] for part in vars(fp.starts).values()))
        lost = replace(fp, starts=starts)
        words = f"{number - 27} of {number} starts reached no fixed point, so that pairs of points may be missing"
        assert (words in lost.summary()) == many
    assert lost.may_be_complete
    assert lost[:3].doubt == ""  # a selection claims nothing
    assert replace(lost, dimension=0).doubt == ""  # a linear equation decides
    proof = Certificate(torch.empty(0, 2, 16), 9, -torch.ones(16), torch.ones(16))
    assert replace(lost, certificate=proof).doubt == ""


def test_a_search_that_a_limit_ended_is_no_complete_one():
    dynamics, roots = cube(8)
    cut = ms.find_fixed_points(dynamics, Adaptive(roots + 0.01, max_steps=1))
    assert len(cut) == 27
    assert cut.cut_off
    assert "for the complete set; but the search ended because the limit of 1 solver step was reached." in cut.summary()
    whole = ms.find_fixed_points(dynamics, Adaptive(roots, max_steps=10**6))
    assert not whole.cut_off
    ring = ms.adapt(lambda x, h: h / h.norm(dim=1, keepdim=True).clamp_min(0.1) * 0.9, state_size=2)
    unbounded = ms.find_fixed_points(ring, Adaptive(max_steps=1))
    assert unbounded.may_be_complete is None
    assert "The search ended because the limit of 1 solver step was reached." in unbounded.summary()


def test_a_step_with_jumps_may_have_no_fixed_point_in_its_box():
    jump = ms.adapt(lambda x, h: torch.where(h > 0, -0.5, 0.5) + 0 * h, state_size=1, bounds=(-1, 1))
    fp = ms.find_fixed_points(jump)
    assert len(fp) == 0
    assert "and must be 1 if the step has no jumps: at least 1 point" in fp.summary()
    rnn = torch.nn.RNN(1, 1, bias=False)
    rnn.weight_hh_l0.data.fill_(2.0)
    two = ms.find_fixed_points(rnn, torch.tensor([[-0.9], [0.9]]).double())
    assert "and must be 1: at least 1 point" in two.summary()  # tanh has no jumps


def test_points_of_a_larger_scale_are_found_where_the_index_sum_shows_them():
    def lorenz(x, h):
        a, b, c = h.unbind(-1)
        return torch.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], -1)

    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lorenz, state_size=3), continuous=True))
    side = 72**0.5
    assert_same_set(fp.states, torch.tensor([[0, 0, 0], [side, side, 27], [-side, -side, 27]], dtype=torch.float64))
    rnn = torch.nn.RNN(1, 2, nonlinearity="relu")
    for weights in rnn.parameters():
        weights.data.zero_()
    rnn.weight_hh_l0.data = torch.tensor([[0.5, -2.0], [-2.0, 0.5]])
    rnn.bias_hh_l0.data = torch.tensor([50.0, 50.0])
    memories = ms.find_fixed_points(rnn)
    assert_same_set(memories.states, torch.tensor([[100.0, 0], [0, 100], [20, 20]]).double())


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_every_solver_finds_the_points_of_the_flow_of_jang(solver):
    """Jang Eq 14-15, with the misprinted point corrected: (1, 1/2), (-1, -1/2) stable, (0, 0) a saddle."""

    def velocity(x, state):
        x, y = state.unbind(1)
        return torch.stack([(1 - x * x) * y, x / 2 - y], 1)

    dynamics = ms.Dynamics(ms.adapt(velocity, state_size=2), continuous=True)
    starts = torch.tensor([[0.9, 0.6], [-1.2, -0.3], [0.1, -0.1]], dtype=torch.float64)
    fp = ms.find_fixed_points(dynamics, starts, solver=solver)
    order = fp.states[:, 0].argsort(descending=True)
    expected = torch.tensor([[1, 0.5], [0, 0], [-1, -0.5]], dtype=torch.float64)
    torch.testing.assert_close(fp.states[order], expected, rtol=0, atol=1e-12)
    assert [fp.kind[i] for i in order] == ["stable", "saddle", "stable"]
    # at (1, 1/2) J = [[-1, 0], [1/2, -1]]; at (0, 0) lambda^2 + lambda - 1/2 = 0
    torch.testing.assert_close(fp.eigenvalues[order[1]].real, torch.tensor([-1 + 3**0.5, -1 - 3**0.5]).double() / 2)
    assert fp.index_sum == 1
    assert "proves nothing" in fp.summary()


@pytest.mark.parametrize(
    ("angle", "radius", "kind", "shape"),
    [
        (0.5, 0.9, "stable", "spiral"),
        (0.5, 1.1, "unstable", "spiral"),
        (0.0, 0.9, "stable", "node"),
        (1.0, 1.0, "marginal", "spiral"),
    ],
)
def test_linear_maps_are_classified_by_their_eigenvalues(angle, radius, kind, shape):
    A = radius * torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lambda x, h: h @ A.T, state_size=2)), torch.ones(1, 2).double())
    assert (fp.kind, fp.shape) == ([kind], [shape])
    torch.testing.assert_close(fp.states, torch.zeros(1, 2).double(), rtol=0, atol=1e-12)
    if radius != 1:
        assert fp.time_constants[0, 0].item() == pytest.approx(1 / abs(np.log(radius)))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 5), gain=st.floats(0.5, 3.0))
def test_every_root_that_scipy_finds_is_found(seed, size, gain):
    """Every root that scipy's hybrid Powell method finds is found, and the index sum of a complete set is 1."""
    generator = torch.Generator().manual_seed(seed)
    V = gain * torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    cell = Elman(1, size, bias=False)
    cell.connectivity.matrix.data = V
    dynamics = ms.Dynamics(cell)
    fp = ms.find_fixed_points(dynamics, Adaptive(Box(200), patience=2))
    for start in 2 * torch.rand(30, size, generator=generator, dtype=torch.float64) - 1:
        solution = scipy.optimize.root(lambda h: np.tanh(V.numpy() @ h) - h, start.numpy(), tol=1e-12)
        if solution.success and np.abs(solution.fun).max() < 1e-12:
            # near a bifurcation the root is ill-conditioned: |error| <= |f| / smallest singular value
            smallest = torch.linalg.svdvals(dynamics.residual_jacobian(torch.from_numpy(solution.x)[None]))[0, -1]
            gap = (fp.states - torch.from_numpy(solution.x)).norm(dim=1).min()
            assert gap < 1e-8 + 1e-10 / smallest
    assert fp.may_be_complete is not False


def test_the_points_of_lstms_and_stacked_networks_are_fixed():
    for network in (torch.nn.LSTM(2, 6), torch.nn.GRU(2, 4, num_layers=2), LSTM(2, 5)):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(2.5)
        dynamics = ms.Dynamics(network)
        fp = ms.find_fixed_points(dynamics, Adaptive(patience=2))
        assert fp.may_be_complete
        torch.testing.assert_close(dynamics(fp.states), fp.states, rtol=0, atol=1e-12)


def test_slow_points_are_reported_apart_from_fixed_points():
    """x' = x + x^2 + e has no fixed point; q has its minimum e^2/2 at 0."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h + h * h + 1e-4, state_size=1))
    for solver in SOLVERS:
        fp = ms.find_fixed_points(dynamics, torch.linspace(-0.5, 0.5, 9).double()[:, None], solver=solver)
        assert len(fp) == 0
        assert len(fp.slow) == 1
        assert fp.slow.q.item() == pytest.approx(0.5e-8, rel=1e-2)
        assert fp.starts.counts() == {Status.SLOW: 9}
        assert "No fixed point" in fp.summary()
        assert "1 slow point " in fp.summary()
    strict = ms.find_fixed_points(dynamics, torch.zeros(1, 1).double(), tolerances=Tolerances(slow=1e-9))
    assert strict.starts.counts() == {Status.STALLED: 1}
    assert len(strict.slow) == 0


def test_every_start_has_a_status():
    """exp(h) - 2 has two roots, and overflows immediately from a large state."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: torch.exp(h) - 2, state_size=1))
    fp = ms.find_fixed_points(dynamics, torch.tensor([[-1.0], [1.0], [800.0]]).double())
    assert len(fp) == 2
    assert fp.starts.status.tolist() == [Status.FIXED, Status.FIXED, Status.DIVERGED]
    assert fp.starts.point.tolist()[2] == -1
    none = ms.find_fixed_points(
        ms.Dynamics(ms.adapt(lambda x, h: h + h * h + 1, state_size=1)), torch.ones(1, 1).double()
    )
    assert len(none) == 0
    assert none.starts.counts() == {Status.STALLED: 1}
    few = ms.find_fixed_points(cube()[0], torch.full((1, 3), 0.3).double(), solver=Newton(max_steps=1))
    assert few.starts.counts() == {Status.UNFINISHED: 1}


def test_points_outside_the_declared_box_are_not_reported():
    """h' = h^3 has the roots -1, 0 and 1; the box (-0.5, 0.5), to which starts are clamped, contains 0 alone."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h**3, state_size=1, bounds=(-0.5, 0.5)))
    fp = ms.find_fixed_points(dynamics, torch.linspace(-2, 2, 9).double()[:, None])
    torch.testing.assert_close(fp.states, torch.zeros(1, 1).double(), rtol=0, atol=1e-12)
    beyond = ms.Dynamics(ms.adapt(lambda x, h: h + 0.1 * (h - 2), state_size=1, bounds=(-1, 1)))  # its root is 2
    for solver in SOLVERS:
        fp = ms.find_fixed_points(beyond, torch.zeros(1, 1).double(), solver=solver)
        assert len(fp) == 0
        assert fp.starts.counts() == {Status.OUTSIDE: 1}


def test_starts_weights_and_random_state_stay_unchanged():
    network = torch.nn.GRU(2, 8).train()
    starts = torch.randn(20, 8)
    before, weights = starts.clone(), {k: v.clone() for k, v in network.state_dict().items()}
    random_state = torch.random.get_rng_state()
    ms.find_fixed_points(ms.Dynamics(network), starts)
    ms.find_fixed_points(ms.Dynamics(network), "adaptive")
    assert torch.equal(starts, before)
    assert all(torch.equal(weights[k], v) for k, v in network.state_dict().items())
    assert all(p.requires_grad and p.dtype == torch.float32 and p.grad is None for p in network.parameters())
    assert network.training
    assert torch.equal(torch.random.get_rng_state(), random_state)


def test_the_same_seed_gives_the_same_result():
    dynamics = ms.Dynamics(torch.nn.GRU(2, 8))
    first, second = (ms.find_fixed_points(dynamics, "adaptive", seed=3) for _ in range(2))
    assert torch.equal(first.states, second.states)
    assert torch.equal(first.starts.status, second.starts.status)


def test_starts_come_from_trajectories_and_boxes():
    network = torch.nn.LSTM(2, 5)
    dynamics = ms.Dynamics(network)
    generator = torch.Generator().manual_seed(0)
    xs = torch.randn(7, 3, 2)
    drawn = FromTrajectories(xs, number=21).draw(dynamics, generator)
    _, cache = ms.run_with_cache(ms.adapt(network).double(), xs.double())
    assert_same_set(drawn, cache.flat().flatten(0, 1).detach(), 1e-12)  # 21 of 21, each once
    assert FromTrajectories(xs, number=50, noise=0.1).draw(dynamics, generator).shape == (50, 10)
    box = Box(100, -2, 3).draw(dynamics, generator)
    assert -2 <= box.min() < box.max() <= 3
    assert dynamics.inside(Box(100).draw(dynamics, generator)).all()
    assert len(ms.find_fixed_points(dynamics, FromTrajectories(xs, number=9)).starts) == 9


def test_states_in_the_form_of_the_cell_are_valid_starts():
    cell = ms.adapt(torch.nn.LSTM(2, 5))
    fp = ms.find_fixed_points(ms.Dynamics(cell), cell.initial_state(4))
    assert len(fp.starts) == 4


def test_a_float32_function_is_searched_in_float32():
    W = torch.randn(3, 3)
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(h @ W), state_size=3, bounds=(-1, 1)), dtype=torch.float32)
    fp = ms.find_fixed_points(dynamics)
    assert fp.states.dtype == torch.float32
    assert fp.may_be_complete
    assert fp.q.max() < 1e-10


def test_load_reads_what_save_wrote_and_indexing_selects_points(tmp_path):
    dynamics, _ = cube()
    fp = ms.find_fixed_points(dynamics, "adaptive")
    fp.save(tmp_path / "points.safetensors")
    back = FixedPoints.load(tmp_path / "points.safetensors")
    assert torch.equal(back.states, fp.states)
    assert torch.equal(back.starts.status, fp.starts.status)
    assert back.summary() == fp.summary()
    assert len(fp[0]) == 1
    assert torch.equal(fp[-1].states[0], fp.states[-1])
    assert len(fp[fp.unstable == 0]) == 8
    assert [point.kind[0] for point in fp] == fp.kind
    with pytest.raises(IndexError, match="27 fixed points"):
        fp[27]
    other = tmp_path / "other.safetensors"
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, str(other))
    with pytest.raises(ValueError, match="does not hold fixed points"):
        FixedPoints.load(other)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        (torch.zeros(4, 5), r"\(starts, 8\)"),
        (torch.zeros(0, 8), "no start"),
        (torch.full((2, 8), torch.nan), "NaN"),
        ("everywhere", "adaptive"),
    ],
)
def test_bad_starts_are_refused(starts, message):
    with pytest.raises(ValueError, match=message):
        ms.find_fixed_points(ms.Dynamics(torch.nn.GRU(2, 8)), starts)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tolerances(fixed=1, slow=0.1),
        lambda: Box(0),
        lambda: Box(4, low=1),
        lambda: Adaptive(patience=0),
        lambda: Box(4).draw(ms.Dynamics(Elman(1, 2, nonlinearity="relu")), torch.Generator()),
    ],
)
def test_bad_settings_are_refused(make):
    with pytest.raises(ValueError, match=r"\w+ "):
        make()


def test_gmres_and_conjugate_gradients_agree_with_a_direct_solution():
    A = torch.randn(5, 12, 12, dtype=torch.float64) / 12**0.5 + torch.eye(12)
    b = torch.randn(5, 12, dtype=torch.float64)
    tight = torch.full((5,), 1e-13, dtype=torch.float64)

    def times(matrix):
        return lambda v: (matrix @ v.unsqueeze(2)).squeeze(2)

    expected = torch.linalg.solve(A, b)
    torch.testing.assert_close(gmres(times(A), b, tight, 50), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(
        conjugate_gradients(times(A.mT @ A), times(A.mT)(b), tight[:, None], 500), expected, rtol=0, atol=1e-6
    )  # the condition number is squared
    eye = torch.eye(12, dtype=torch.float64).expand(5, 12, 12)  # the Krylov space is exhausted after one step
    torch.testing.assert_close(gmres(times(eye), b, tight, 50), b)


def test_a_large_network_forms_matrices_for_its_points_only(monkeypatch):
    cell = Elman(1, 600, connectivity=ms.connectivity.Dense(600, init="orthogonal"))
    dynamics = ms.Dynamics(cell)
    formed = []
    dense = ms.Dynamics.jacobian

    def count(self, states):
        formed.append(len(states))
        return dense(self, states)

    monkeypatch.setattr(ms.Dynamics, "jacobian", count)
    fp = ms.find_fixed_points(dynamics, 0.1 * torch.randn(8, 600), solver=NewtonKrylov())
    assert len(fp) == 1
    assert fp.reached.tolist() == [8]
    # the inverse at the point, its neighbourhood (4) and the Jacobian of the result; none per start and step
    assert sum(formed) <= 6


def test_a_line_attractor_is_recognised():
    """h' = (h1, h2 / 2): every point of the first axis is fixed, and the search must end in spite of it."""
    shrink = torch.tensor([1.0, 0.5], dtype=torch.float64)
    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lambda x, h: shrink * h, state_size=2, bounds=(-1, 1))), "adaptive")
    assert set(fp.kind) == {"marginal"}
    assert fp.states[:, 1].abs().max() < 1e-12
    assert len(fp.starts) < 1000  # a few waves that find no regular point, not all 40
    assert fp.may_be_complete is None
    assert "continuous attractor" in fp.summary()


@representatives("2-dtype0")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_every_start_on_an_ill_conditioned_line_or_plane_is_fixed(dtype, dimensions):
    """W = T diag(1, ..., fading) T^-1 with condition 1000: residuals are rounding, but far larger than that of 1."""
    draw = torch.Generator().manual_seed(1)
    U, _, V = torch.linalg.svd(torch.randn(40, 40, dtype=torch.float64, generator=draw))
    T = U * 1000 ** torch.linspace(0.5, -0.5, 40, dtype=torch.float64) @ V
    moduli = 1.8 * torch.rand(40, dtype=torch.float64, generator=draw) - 0.9
    moduli[:dimensions] = 1
    W = (T * moduli @ torch.linalg.inv(T)).to(dtype)
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h @ W.mT, state_size=40), dtype=dtype)
    fp = ms.find_fixed_points(dynamics, torch.randn(60, 40, dtype=dtype, generator=draw))
    assert fp.starts.counts() == {Status.FIXED: 60}
    assert set(fp.kind) == {"marginal"}


def test_a_ghost_stays_slow_in_float32():
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h + h * h + 1e-4, state_size=1), dtype=torch.float32)
    fp = ms.find_fixed_points(dynamics, torch.linspace(-0.5, 0.5, 9)[:, None])
    assert fp.starts.counts() == {Status.SLOW: 9}


def test_numpy_starts_are_accepted_and_wrong_shapes_refused():
    dynamics = ms.Dynamics(torch.nn.GRU(2, 8))
    assert len(ms.find_fixed_points(dynamics, np.zeros((3, 8))).starts) == 3
    with pytest.raises(ValueError, match=r"\(starts, 8\)"):
        ms.find_fixed_points(dynamics, torch.zeros(8))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(1, 9))
def test_inverse_and_index_agree_with_numpy(seed, size):
    G = torch.randn(4, size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    G[-1, :, 0] = G[-1, :, -1] if size > 1 else 0  # the last one is singular
    inverse, index = inverse_and_index(G)
    assert index.tolist() == [*np.linalg.slogdet(-G[:3].numpy())[0], 0]
    for matrix, inverted in zip(G[:3], inverse[:3], strict=True):
        rounding = 1e-14 * float(torch.linalg.cond(matrix))
        torch.testing.assert_close(matrix @ inverted, torch.eye(size).double(), rtol=0, atol=rounding)
    assert torch.isfinite(inverse).all()


@representatives("2-Newton", "3-ChordNewton")
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("power", [2, 3])
def test_a_degenerate_root_is_one_point_without_index(solver, power):
    """h' = h - h^2 and h - h^3 touch the diagonal at 0, where Newton converges slowly from both sides."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h - h**power, state_size=1, bounds=(-1, 1)))
    fp = ms.find_fixed_points(dynamics, torch.linspace(-0.5, 0.5, 8).double()[:, None], solver=solver)
    assert len(fp) == 1
    assert fp.states.abs().max() < 1e-3
    assert fp.kind == ["marginal"]
    assert fp.may_be_complete is None


def test_points_of_a_ring_attractor_are_not_merged():
    """tanh units on a circle with cosine weights: a rotation of a fixed point is one too."""
    angle = torch.arange(60, dtype=torch.float64) * 2 * np.pi / 60
    cell = Elman(1, 60, bias=False)
    cell.connectivity.matrix.data = 3.2 / 60 * torch.cos(angle[:, None] - angle)
    dynamics = ms.Dynamics(cell)
    states = torch.cos(torch.arange(10, dtype=torch.float64)[:, None] * 0.6 - angle)
    for _ in range(2000):
        states = dynamics(states)
    fp = ms.find_fixed_points(dynamics, states)
    assert len(fp) == 10
    assert set(fp.kind) == {"marginal"}


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_far_roots_are_reached(solver):
    membrane = ms.adapt(lambda x, v: (-65 - v) / 20, state_size=1)
    fp = ms.find_fixed_points(ms.Dynamics(membrane, continuous=True), torch.zeros(3, 1), solver=solver)
    torch.testing.assert_close(fp.states, torch.full((1, 1), -65.0).double(), rtol=1e-12, atol=0)
    half = ms.Dynamics(ms.adapt(lambda x, h: 0.5 * h + 100, state_size=2))
    fp = ms.find_fixed_points(half, torch.randn(5, 2), solver=solver)
    torch.testing.assert_close(fp.states, torch.full((1, 2), 200.0).double(), rtol=1e-12, atol=0)
