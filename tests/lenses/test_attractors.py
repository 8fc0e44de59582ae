"""Cycles, Lyapunov exponents and attractors of systems with known answers."""

import math
from dataclasses import replace
from inspect import unwrap
from pathlib import Path

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.base import progress
from mnemoscope.cells import LSTM, Cell, Elman
from mnemoscope.lenses.attractors import Kind, manifolds
from mnemoscope.lenses.attractors.composition import IteratedMap, RungeKuttaStep
from mnemoscope.lenses.attractors.invariant_sets import VisitedSets
from mnemoscope.lenses.attractors.lyapunov import TangentMap
from mnemoscope.lenses.attractors.lyapunov_result import kaplan_yorke
from mnemoscope.lenses.attractors.simulation import simulate
from tests.slow import SLOW, after, representatives

BRIEFLY = {"transient": 300, "steps": 300, "patience": 0}
"""Options for systems that settle soon and are classified at the first attempt."""

SAVED = Path(__file__).parent / "saved"
"""Files written by earlier versions."""

GOLDEN = 2 * math.pi * (math.sqrt(5) - 1) / 2


def system(function, size, **options):
    return ms.Dynamics(ms.adapt(function, state_size=size), **options)


def logistic(r, bounds=(0, 1)):
    return system(lambda x, h: r * h * (1 - h), 1, bounds=bounds)


def henon(x, h):
    return torch.stack([1 - 1.4 * h[:, 0] ** 2 + h[:, 1], 0.3 * h[:, 0]], 1)


def tanh_network(W):
    network = Elman(1, len(W), bias=False)
    network.connectivity.matrix.data = torch.as_tensor(W, dtype=torch.float64)
    return ms.Dynamics(network)


def random_network(size, gain, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return gain * torch.randn(size, size, dtype=torch.float64, generator=generator) / size**0.5


def rotation(angle):
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).double()


def signed_ring(size, sign):
    """Return weights by which each unit copies its predecessor, and the first copies the last with a sign."""
    W = torch.zeros(size, size, dtype=torch.float64)
    W[range(1, size), range(size - 1)] = 1
    W[0, size - 1] = sign
    return W


class Lorenz(Cell):
    """The Lorenz flow, with its Jacobian in closed form."""

    def __init__(self):
        super().__init__()
        self.register_buffer("like", torch.zeros(()))

    def initial_state(self, batch):
        return self.like.new_zeros(batch, 3)

    def forward(self, x, state):
        a, b, c = state.unbind(1)
        return torch.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], 1)

    def jacobian(self, x, state):
        a, b, c = state.unbind(1)
        ones = torch.ones_like(a)
        rows = [[-10 * ones, 10 * ones, 0 * ones], [28 - c, -ones, -a], [b, a, -8 / 3 * ones]]
        return torch.stack([torch.stack(row, 1) for row in rows], 1)


# ------------------------------------------------------------------------------------------------ composed maps


def test_the_jacobian_of_the_k_fold_map_is_the_product_over_its_steps():
    for network in (Elman(2, 5), torch.nn.GRU(2, 5), LSTM(2, 3)):
        dynamics = ms.Dynamics(network, [0.3, -0.2])
        k_fold = ms.Dynamics(IteratedMap(dynamics.cell, 3), [0.3, -0.2])
        x = 0.5 * torch.randn(4, dynamics.size, dtype=torch.float64)
        once, twice = dynamics(x), dynamics(dynamics(x))
        assert torch.allclose(k_fold(x), dynamics(twice), atol=1e-15)
        product = dynamics.jacobian(twice) @ dynamics.jacobian(once) @ dynamics.jacobian(x)
        assert torch.allclose(k_fold.jacobian(x), product, atol=1e-14)
        assert torch.allclose(k_fold.jacobian_by_autograd(x), product, atol=1e-14)
        assert all(torch.equal(a, b) for a, b in zip(k_fold.bounds, dynamics.bounds, strict=True))


def test_a_runge_kutta_step_and_its_jacobian_follow_the_formula():
    flow = ms.Dynamics(Lorenz(), continuous=True)
    step = ms.Dynamics(RungeKuttaStep(flow.cell, 0.01))
    x = torch.randn(5, 3, dtype=torch.float64)
    k1 = flow(x)
    k2 = flow(x + 0.005 * k1)
    k3 = flow(x + 0.005 * k2)
    k4 = flow(x + 0.01 * k3)
    assert torch.allclose(step(x), x + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), rtol=1e-14)
    assert torch.allclose(step.jacobian(x), step.jacobian_by_autograd(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("size", [3, 40, 220])
@pytest.mark.parametrize("closed", [True, False])
def test_the_tangent_map_multiplies_vectors_by_the_jacobian(size, closed):
    W = random_network(size, 1.5)
    dynamics = tanh_network(W) if closed else system(lambda x, h: torch.tanh(h @ W.T), size)
    x, v = (torch.randn(2, size, *rest, dtype=torch.float64) for rest in ((), (2,)))
    with torch.no_grad():
        new, moved = TangentMap(dynamics, 2).step(x, v)
    slope = 1 - torch.tanh(x @ W.T) ** 2
    assert torch.allclose(new, torch.tanh(x @ W.T), atol=1e-15)
    assert torch.allclose(moved, slope[:, :, None] * (W @ v), atol=1e-13)


# ------------------------------------------------------------------------------------------------------------- cycles


@representatives("3.2-2-bounds0")
@pytest.mark.parametrize(
    ("r", "period", "bounds"), [(3.2, 2, (0.1, 0.9)), (3.5, 4, (0.1, 0.9)), (3.83, 3, (0.1, 0.97))]
)
def test_the_stable_cycle_of_the_logistic_map_is_found(r, period, bounds):
    cycles = ms.find_cycles(logistic(r, bounds), periods=range(1, period + 1))
    stable = cycles.stable.nonzero()[:, 0].tolist()
    assert [cycles.periods[cycle].item() for cycle in stable] == [period]
    orbit = cycles.orbit(stable[0])
    following = r * orbit * (1 - orbit)
    assert torch.allclose(following, orbit.roll(-1, 0), atol=1e-12)  # in time order
    assert abs(cycles.multipliers[stable[0], 0] - math.prod(float(r * (1 - 2 * x)) for x in orbit)) < 1e-10
    assert cycles.index_sums.tolist() == [1] * period  # the box is mapped into its interior
    assert "no sign of a missing point" in cycles.summary()


@SLOW
def test_all_cycles_of_the_logistic_map_at_4_are_found():
    """x = sin^2(t) conjugates it to doubling: 2^k states of period k or a divisor, multiplier +-2^k (4^k at x = 0)."""
    cycles = ms.find_cycles(logistic(4.0), periods=(3, 4, 5))
    assert [len(cycles.of_period(k)) for k in (1, 2, 3, 4, 5)] == [2, 1, 2, 3, 6]
    for cycle, period in enumerate(cycles.periods.tolist()):
        size = abs(cycles.multipliers[cycle, 0].item())
        at_zero = bool((cycles.orbit(cycle).abs() < 1e-9).any())
        assert size == pytest.approx((4 if at_zero else 2) ** period, rel=1e-6)  # 4 x (1 - x) is steep near 0
    # the graph crosses the diagonal upwards and downwards in turn, 2^k times
    assert cycles.index_sums.tolist() == [0] * 3
    assert cycles.open_ends == 0


def test_index_sums_are_1_if_an_interval_is_mapped_into_its_interior():
    cycles = ms.find_cycles(logistic(3.9, (0.09, 0.976)), periods=(3, 4))
    assert [len(cycles.of_period(k)) for k in (1, 2, 3, 4)] == [1, 1, 2, 1]
    assert cycles.index_sums.tolist() == [1] * 2


@SLOW
def test_one_period_finds_its_divisors_too_and_counts_them_once():
    alone = ms.find_cycles(logistic(3.5, (0.1, 0.9)), periods=4)
    assert alone.periods.tolist() == [1, 2, 4]
    both = ms.find_cycles(logistic(3.5, (0.1, 0.9)), periods=(2, 4))
    assert both.periods.tolist() == [1, 2, 4]
    assert both.kind == ["unstable", "unstable", "stable"]


def test_all_cycles_of_a_signed_ring_of_tanh_units_are_found():
    """W^n = sign g^n: 3^n states of period n (sign +) or 2n (sign -), each unit at 0 or +-a with a = tanh(g a)."""
    size = 3
    cycles = ms.find_cycles(tanh_network(1.5 * signed_ring(size, -1.0)), periods=2 * size)
    counted = {k: len(cycles.of_period(k)) for k in (1, 2, 3, 6)}
    assert counted == {1: 1, 2: 1, 3: 0, 6: 4}  # 27 = 1 + 1 x 2 + 4 x 6
    assert int(cycles.periods.sum()) == 3**size
    assert cycles.index_sums.tolist() == [1]
    assert sorted(cycles.periods[cycles.stable].tolist()) == [2, 6]  # the 8 corners
    a = float(cycles.orbit(cycles.of_period(2)[0]).abs().mean())
    assert abs(math.tanh(1.5 * a) - a) < 1e-12
    slope = 1.5 * (1 - a**2)
    assert torch.allclose(cycles.growth[cycles.stable], torch.full((2, size), math.log(slope)).double(), atol=1e-9)


def test_a_partial_orbit_is_completed_by_stepping_the_map():
    start = torch.tensor([[0.52]], dtype=torch.float64)
    cycles = ms.find_cycles(logistic(3.2, (0.1, 0.9)), 2, start)
    assert len(cycles) == 1
    assert cycles.orbit(0).shape == (2, 1)
    assert cycles.index_sums.tolist() == [2]  # the fixed point between them was missed
    assert "is missing" in cycles.summary()


def test_cycles_save_load_and_draw(tmp_path):
    cycles = ms.find_cycles(tanh_network(1.5 * signed_ring(4, 1.0)), periods=(1, 2, 4))
    cycles.save(tmp_path / "cycles.safetensors")
    loaded = ms.Cycles.load(tmp_path / "cycles.safetensors")
    assert torch.equal(loaded.states, cycles.states)
    assert loaded.summary() == cycles.summary()
    assert len(loaded.figure().axes) == 2
    assert ms.find_cycles(logistic(3.2, (0.1, 0.9)), 2).figure().axes[0].get_ylabel() == "next state"


def test_a_shift_has_no_cycle(tmp_path):
    shift = system(lambda x, h: h + 1, 2)
    cycles = ms.find_cycles(shift, (2, 3), torch.zeros(4, 2).double())
    assert len(cycles) == 0
    assert "No cycle of periods 2, 3 was found" in cycles.summary()
    cycles.save(tmp_path / "none.safetensors")
    assert len(ms.Cycles.load(tmp_path / "none.safetensors")) == 0
    assert cycles.figure().axes


@SLOW
def test_a_continuum_of_cycles_is_reported_and_not_counted(tmp_path):
    R = rotation(2 * math.pi / 5)  # computed in single precision: it preserves radii to 1e-7
    exact = torch.linalg.matrix_exp(2 * math.pi / 5 * torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64))

    def bent(x, h):  # a rotation in coordinates (a, b - 0.3 a^2)
        a, b = (torch.stack([h[:, 0], h[:, 1] - 0.3 * h[:, 0] ** 2], 1) @ R.T).unbind(1)
        return torch.stack([a, b + 0.3 * a**2], 1)

    def saturating(x, h):  # it preserves any radius up to 1
        return h @ R.T / h.norm(dim=1, keepdim=True).clamp_min(1)

    def curve(x, h):  # (a, a^2) maps to (-a, a^2): a curved family that attracts the plane
        a, b = h.unbind(1)
        return torch.stack([-a, a**2 + 0.5 * (b - a**2)], 1)

    starts = 0.5 * torch.randn(12, 2, generator=torch.Generator().manual_seed(0)).double()
    for function, period in (
        (lambda x, h: h @ R.T, 5),
        (lambda x, h: h @ exact.T, 5),
        (bent, 5),
        (saturating, 5),
        (curve, 2),
        (lambda x, h: torch.stack([-h[:, 0], 0.5 * h[:, 1]], 1), 2),
    ):
        cycles = ms.find_cycles(system(function, 2), (1, period), starts)
        assert cycles.families == (period,)
        summary = cycles.summary()
        assert f"A continuum of cycles of period {period}" in summary
        assert f"cycles of period {period} (" not in summary
        assert f"For {period} steps: roots in a continuum have no index" in summary
        cycles.save(tmp_path / "family.safetensors")
        assert ms.Cycles.load(tmp_path / "family.safetensors").summary() == summary


@SLOW
def test_isolated_degenerate_cycles_are_no_continuum():
    """If cycles branch off a fixed point, the k-fold map has an eigenvalue 1 and one root."""
    starts = torch.tensor([[-0.1], [0.0], [0.3]], dtype=torch.float64)
    for function in (lambda x, h: -torch.tanh(h), lambda x, h: -h + h**3, lambda x, h: -h + h**5):
        cycles = ms.find_cycles(system(function, 1), (1, 2), starts)
        assert cycles.families == ()
        assert "continuum" not in cycles.summary()


def test_find_cycles_refuses_unsuitable_arguments():
    with pytest.raises(ValueError, match="1 or more"):
        ms.find_cycles(logistic(3.2), periods=0)
    with pytest.raises(ValueError, match="at least one"):
        ms.find_cycles(logistic(3.2), periods=())
    with pytest.raises(ValueError, match="flow takes no steps"):
        ms.find_cycles(ms.Dynamics(Lorenz(), continuous=True))
    with pytest.raises(IndexError, match="There are 2 cycles"):
        ms.find_cycles(logistic(3.2, (0.1, 0.9)), 2).orbit(5)


# ---------------------------------------------------------------------------------------------------------- exponents


def reference_exponents(W, x, steps, transient):
    """Return exponents by Gram-Schmidt on explicit Jacobians in long double."""
    W, x = W.numpy().astype(np.longdouble), x.numpy().astype(np.longdouble)
    Q, sums = np.eye(len(W), dtype=np.longdouble), np.zeros(len(W), dtype=np.longdouble)
    for time in range(transient + steps):
        x = np.tanh(W @ x)
        Z = (1 - x**2)[:, None] * (W @ Q)
        for i in range(len(W)):
            for j in range(i):
                Z[:, i] -= (Z[:, j] @ Z[:, i]) * Z[:, j]
            length = np.sqrt(Z[:, i] @ Z[:, i])
            Z[:, i] /= length
            sums[i] += np.log(length) if time >= transient else 0
        Q = Z
    return sums / steps


def test_exponents_match_a_slow_reference():
    """The attractors are a point, a cycle and a circle: in chaos the two computations would diverge."""
    for W, near in (
        (random_network(5, 0.7), 1e-6),  # at 0: log |eigenvalues|
        (1.5 * signed_ring(4, -1.0) + 0.1 * random_network(4, 1.0), 1e-6),
        (1.2 * rotation(GOLDEN), 1e-5),  # the influence of the first vectors decays along the circle
    ):
        x = torch.full((1, len(W)), 0.3, dtype=torch.float64)
        spectrum = ms.lyapunov_spectrum(tanh_network(W), steps=400, transient=400, starts=x)
        expected = np.sort(reference_exponents(W, x[0], 400, 400))[::-1].astype(float)
        # pairs of equal moduli rotate in their plane: their mean is defined, each alone only up to 1 / steps
        assert np.allclose(spectrum.exponents[0].sum(), expected.sum(), atol=1e-12 + near)
        assert np.allclose(spectrum.exponents[0], expected, atol=2 / 400)


def test_exponents_of_a_linear_map_are_logarithms_of_eigenvalues():
    V = torch.randn(4, 4, dtype=torch.float64)
    A = V @ torch.diag(torch.tensor([1.1, 0.9, -0.5, 0.0]).double()) @ torch.linalg.inv(V)
    spectrum = ms.lyapunov_spectrum(system(lambda x, h: h @ A.T, 4), 3, 40, 100, torch.ones(1, 4).double())
    assert torch.allclose(spectrum.exponents[0], torch.tensor([1.1, 0.9, 0.5]).double().log(), atol=1e-10)


def test_a_direction_lost_in_one_step_has_exponent_minus_infinity():
    spectrum = ms.lyapunov_spectrum(system(lambda x, h: h * torch.tensor([0.5, 0.0]).double(), 2), steps=40, starts=2)
    assert spectrum.exponents[0].tolist() == [pytest.approx(math.log(0.5)), -math.inf]
    assert spectrum.errors[0, 1] == 0
    assert spectrum.figure().axes


def chain(size, coupling):
    """Return a chain of integrators modulo 1: differences grow as t^(size - 1), and all exponents are 0."""
    J = torch.eye(size).double() + coupling * torch.diag(torch.ones(size - 1), -1).double()
    return system(lambda x, h: (h @ J.T) % 1, size, bounds=(0, 1))


@pytest.mark.parametrize("transient", [0, 50, 400])
@pytest.mark.parametrize("coupling", [1.0, 0.1, 0.01, 1e-4])
def test_no_sign_is_claimed_where_states_separate_in_proportion_to_time(coupling, transient):
    """The growth is over, begins, or has not begun within the steps."""
    spectrum = ms.lyapunov_spectrum(chain(2, coupling), steps=200, transient=transient, starts=4)
    assert spectrum.sign == 0
    assert spectrum.signs.tolist() == [0] * 4
    assert not spectrum.forgets
    assert "positive" not in spectrum.summary()


@pytest.mark.parametrize("size", [3, 5, 9])
def test_no_sign_is_claimed_where_states_separate_as_a_power_of_time(size):
    spectrum = ms.lyapunov_spectrum(chain(size, 1.0), 2, steps=200, transient=50, starts=4)
    assert spectrum.leading * 200 > (size - 2) * math.log(5)  # e-foldings of t^(size - 1), roughly
    assert spectrum.sign == 0
    assert not spectrum.signs.any()


def test_the_summary_says_that_the_growth_slows_down():
    J = torch.tensor([[1.0, 0.0], [0.01, 1.0]]).double()
    run = {"steps": 1000, "transient": 200, "starts": 2}
    summary = ms.lyapunov_spectrum(ms.adapt(lambda x, h: h @ J.T, state_size=2), **run).summary()
    assert (
        "The growth slows down as it does where nearby states separate in proportion to time, which is an exponent of "
        "0, so that the sign of the largest is not decided" in summary
    )
    run |= {"steps": 200, "transient": 50}
    pitchfork = ms.lyapunov_spectrum(logistic(3.0), **run).summary()  # distances fall as n^(-1/2)
    assert "The decay slows down as it does where nearby states approach in proportion to a power of time" in pitchfork


@pytest.mark.parametrize("modulus", [0.5, 0.999, 1 - 1e-5, 1.0, 1.001])
def test_a_slow_exponent_of_a_linear_map_keeps_its_sign(modulus):
    """Growth by a power of time is never the same in all blocks."""
    A = modulus * torch.linalg.qr(random_network(6, 1.0))[0]
    spectrum = ms.lyapunov_spectrum(system(lambda x, h: h @ A.T, 6), steps=200, transient=100, starts=2)
    expected = 0 if modulus == 1 else 1 if modulus > 1 else -1
    assert spectrum.sign == expected
    assert spectrum.signs.tolist() == [expected] * 2
    assert spectrum.forgets is (expected < 0)


def test_chaos_has_a_positive_sign_from_every_start():
    tent = system(lambda x, h: 1.9999 * torch.minimum(h, 1 - h), 1, bounds=(0, 1))
    basin = 0.1 * torch.rand(4, 2, dtype=torch.float64)
    for dynamics, starts in ((logistic(4.0), 4), (tent, 4), (system(henon, 2), basin)):
        spectrum = ms.lyapunov_spectrum(dynamics, steps=200, transient=50, starts=starts)
        assert (spectrum.sign, spectrum.signs.tolist()) == (1, [1] * 4)
        assert "The largest is positive" in spectrum.summary()
    for seed in range(2):
        network = tanh_network(random_network(50, 2.0, seed))
        spectrum = ms.lyapunov_spectrum(network, 1, steps=600, transient=200, starts=4)
        assert (spectrum.sign, spectrum.signs.tolist()) == (1, [1] * 4)


def test_the_summary_tells_from_how_many_starts_a_negative_sign_is_not_certain():
    growth = torch.full((2, 20, 1), -0.5).double()
    growth[1] += torch.tensor([1.5, -1.5] * 10).double()[:, None]
    spectrum = ms.LyapunovSpectrum(growth, 2000, 1)
    assert (spectrum.sign, spectrum.signs.tolist()) == (-1, [-1, 0])
    assert "The largest is negative on average, but not certainly so from 1 of 2 starts." in spectrum.summary()
    lost = replace(spectrum, blocks=torch.cat([growth[:1], torch.full_like(growth[:1], math.nan)]))
    assert "The largest is negative from every start that stayed finite" in lost.summary()
    assert not lost.forgets


def test_the_title_of_an_empty_figure_tells_why():
    diverging = ms.lyapunov_spectrum(system(lambda x, h: 2 * h, 2), starts=2)
    figure = diverging.figure()
    assert [axes.get_title() for axes in figure.axes] == ["No start stayed finite", ""]
    singular = ms.lyapunov_spectrum(system(lambda x, h: h * torch.tensor([0.5, 0.0]).double(), 2), steps=40, starts=2)
    figure = singular.figure()
    assert "minus infinity is omitted" in figure.axes[0].get_title()
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    assert boxes[0].x1 < boxes[1].x0


@SLOW
def test_exponents_of_the_logistic_map_at_4_and_the_cat_map():
    spectrum = ms.lyapunov_spectrum(logistic(4.0), steps=800)
    assert abs(spectrum.leading - math.log(2)) < 4 * float(spectrum.mean_errors[0])
    assert float(spectrum.mean_errors[0]) < 0.01
    shear = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    cat = ms.lyapunov_spectrum(system(lambda x, h: (h @ shear.T) % 1, 2, bounds=(0, 1)), steps=100, starts=2)
    golden = math.log((3 + math.sqrt(5)) / 2)
    assert torch.allclose(cat.exponents, torch.tensor([golden, -golden]).double().expand(2, 2), atol=1e-12)


@representatives("5")
@pytest.mark.parametrize("every", [1, 5])
def test_exponents_of_the_henon_map(every):
    starts = 0.1 * torch.rand(24, 2, dtype=torch.float64)
    spectrum = ms.lyapunov_spectrum(system(henon, 2), steps=800, starts=starts, every=every)
    assert torch.allclose(
        spectrum.exponents.sum(1), torch.tensor(math.log(0.3)).double().expand(24), atol=1e-11
    )  # |det J|
    assert (
        abs(spectrum.leading - 0.4192) < 4 * float(spectrum.mean_errors[0]) + 1e-4
    )  # the last digit of the published value
    assert spectrum.dimension == pytest.approx(1.258, abs=0.01)
    assert spectrum.entropy == pytest.approx(spectrum.leading)
    assert not spectrum.forgets


@SLOW
def test_exponents_of_the_lorenz_flow():
    """Sprott (2003): .9056, 0, -14.5723; their sum is the divergence -(10 + 1 + 8/3)."""
    flow = ms.Dynamics(Lorenz(), continuous=True)
    spectrum = ms.lyapunov_spectrum(flow, steps=1500, transient=1500, starts=96, dt=0.02)
    fine = ms.lyapunov_spectrum(flow, steps=200, transient=500, starts=4, dt=0.01)
    assert torch.allclose(fine.mean.sum(), torch.tensor(-41 / 3).double(), atol=1e-3)  # the error falls as dt^4
    expected = torch.tensor([0.9056, 0.0, -14.5723]).double()
    assert ((spectrum.mean - expected).abs() < 4 * spectrum.mean_errors + 2e-3).all()
    assert float(spectrum.mean_errors.max()) < 0.03
    assert spectrum.dimension == pytest.approx(2.062, abs=0.005)


def test_a_driven_network_forgets_its_start_only_if_it_contracts():
    W = random_network(60, 1.0, seed=3)
    W = W / torch.linalg.matrix_norm(W, 2)
    xs = torch.randn(400, 1, dtype=torch.float64)
    calm = ms.lyapunov_spectrum(tanh_network(0.9 * W), 3, None, 100, 4, inputs=xs)
    assert calm.forgets  # |W| < 1: a contraction
    assert calm.driven
    assert float(calm.exponents[:, 0].max()) < math.log(0.9)
    assert calm.exponents[:, 0].std() < 1 / 300  # all starts have converged, except for their first vectors
    wild = ms.lyapunov_spectrum(tanh_network(8 * W), 3, None, 100, 4, inputs=0.1 * xs)
    assert not wild.forgets
    assert wild.leading > 0
    strong = ms.lyapunov_spectrum(tanh_network(8 * W), 3, None, 100, 4, inputs=300 * xs)
    assert strong.leading < wild.leading  # a strong input suppresses chaos: units saturate


def test_conditional_exponents_of_a_gru_match_explicit_products():
    gru = ms.Dynamics(torch.nn.GRU(2, 4))
    xs = torch.randn(60, 2, dtype=torch.float64)
    spectrum = ms.lyapunov_spectrum(gru, 4, 40, 20, 1, inputs=xs, seed=5)
    x = ms.lenses.Box(1).draw(gru, torch.Generator().manual_seed(5))
    logs = []
    for time, row in enumerate(xs):
        J = gru.jacobian(x, row[None])[0]
        x = gru.driven(row[None], x)
        logs.append(float(torch.linalg.slogdet(J)[1]) if time >= 20 else 0.0)
    assert float(spectrum.exponents.sum()) == pytest.approx(sum(logs) / 40, abs=1e-12)


def test_diverged_starts_are_excluded_and_reported():
    starts = torch.tensor([[0.1, 0.1], [50.0, 0.0]], dtype=torch.float64)
    spectrum = ms.lyapunov_spectrum(system(henon, 2), steps=200, starts=starts)
    assert spectrum.alive.tolist() == [True, False]
    assert spectrum.exponents[1].isnan().all()
    assert torch.isfinite(spectrum.mean).all()
    assert "1 of 2 starts left to infinity" in spectrum.summary()


@SLOW
def test_the_standard_error_matches_the_scatter_of_repetitions():
    spectrum = ms.lyapunov_spectrum(logistic(3.9, (0.09, 0.976)), steps=400, starts=64)
    assert 0.6 < float(spectrum.errors.mean() / spectrum.exponents.std()) < 1.6


@pytest.mark.parametrize(
    ("exponents", "size", "dimension"),
    [
        ([0.419, -1.623], 2, 1 + 0.419 / 1.623),
        ([0.9, 0.0, -14.5], 3, 2 + 0.9 / 14.5),
        ([-0.1, -0.2], 2, 0.0),
        ([0.5, 0.1], 2, 2.0),
        ([0.5, 0.1], 5, math.nan),
        ([0.3, -math.inf], 2, 1.0),
    ],
)
def test_the_kaplan_yorke_dimension_follows_the_formula(exponents, size, dimension):
    computed = kaplan_yorke(torch.tensor(exponents).double(), size)
    assert computed == pytest.approx(dimension, nan_ok=True)


def test_exponents_save_load_and_draw(tmp_path):
    spectrum = ms.lyapunov_spectrum(system(henon, 2), steps=200, starts=0.1 * torch.rand(3, 2).double())
    spectrum.save(tmp_path / "exponents.safetensors")
    loaded = ms.LyapunovSpectrum.load(tmp_path / "exponents.safetensors")
    assert torch.equal(loaded.blocks, spectrum.blocks)
    assert loaded.summary() == spectrum.summary()
    assert len(loaded.figure().axes) == 2


def test_lyapunov_spectrum_refuses_unsuitable_arguments():
    map_, flow = logistic(4.0), ms.Dynamics(Lorenz(), continuous=True)
    for message, dynamics, options in (
        ("count must be from 1 to 1", map_, {"count": 2}),
        ("At least 20 steps", map_, {"steps": 10}),
        ("At least 100 steps", map_, {"steps": 60, "every": 5}),
        ("transient must be", map_, {"transient": -1}),
        ("every must be", map_, {"every": 0}),
        ("dt belongs to a flow", map_, {"dt": 0.1}),
        ("steps of a length dt", flow, {}),
        ("positive number", flow, {"dt": -1.0}),
        (r"\(time, 8, 1\), with 8 starts", map_, {"inputs": torch.zeros(100, 3)}),
        ("need as many inputs", map_, {"inputs": torch.zeros(100, 1), "steps": 90, "transient": 20}),
        ("starts must be a number", map_, {"starts": 0}),
    ):
        with pytest.raises(ValueError, match=message):
            ms.lyapunov_spectrum(dynamics, **options)


# ---------------------------------------------------------------------------------------------------------- attractors


def assert_all(spectrum, kind):
    assert set(spectrum.kind_of_starts) == {kind}, spectrum.summary()


@representatives("3.83-3")
@pytest.mark.parametrize(("r", "period"), [(3.2, 2), (3.5, 4), (3.83, 3)])
def test_attractors_of_the_logistic_map_are_cycles(r, period):
    attractors = ms.find_attractors(logistic(r), 16, **BRIEFLY)
    assert_all(attractors, Kind.CYCLE)
    assert attractors.periods.tolist() == [period]
    assert f"a cycle of period {period} (all of 16 starts)" in attractors.verdict


def test_a_point_attractor_has_its_state_and_time_constant():
    attractors = ms.find_attractors(logistic(2.8), 16)
    assert_all(attractors, Kind.POINT)
    assert attractors.states[0, 0] == pytest.approx(1 - 1 / 2.8)
    assert attractors.time_constants[0] == pytest.approx(-1 / math.log(0.8))


def test_a_flip_flop_has_eight_point_attractors():
    """Three bits: the corners of a cube, each with the basin of an eighth of the box."""
    attractors = ms.find_attractors(tanh_network(2 * torch.eye(3)), 200)
    assert_all(attractors, Kind.POINT)
    assert len(attractors) == 8
    assert len({tuple(row) for row in attractors.states.sign().tolist()}) == 8
    for start, number in enumerate(attractors.member.tolist()):
        assert 0 <= number < 8, start
    assert abs(float(attractors.shares.max()) - 0.125) < 4 * (0.125 * 0.875 / 200) ** 0.5
    assert "one of 8 stable fixed points (all of 200 starts)" in attractors.verdict


def test_chaotic_maps_are_recognised():
    assert_all(ms.find_attractors(logistic(4.0), 4, **BRIEFLY), Kind.CHAOS)
    attractors = ms.find_attractors(
        system(henon, 2),
        torch.tensor([[0.1, 0.1], [0.0, 0.0], [9.0, 9.0]]).double(),
        transient=100,
        steps=600,
        patience=0,
    )
    assert [kind.description for kind in attractors.kind_of_starts] == ["chaos", "chaos", "divergence"]
    assert float(attractors.exponents[0, 0]) == pytest.approx(0.42, abs=0.03)
    assert "leaves to infinity (1 of 3 starts)" in attractors.verdict
    assert attractors.figure().axes


@pytest.mark.parametrize(("gain", "kind"), [(0.8, Kind.POINT), (4.0, Kind.CHAOS)])
def test_random_networks_are_at_rest_or_chaotic_by_their_gain(gain, kind):
    W = random_network(120, 1.0)
    W = W / torch.linalg.eigvals(W).abs().max()
    attractors = ms.find_attractors(tanh_network(gain * W), 8, **BRIEFLY)
    assert_all(attractors, kind)
    assert len(attractors) == 1
    if kind == Kind.POINT:
        assert float(attractors.time_constants[0]) == pytest.approx(-1 / math.log(0.8), rel=1e-6)


@pytest.mark.parametrize("network", [torch.nn.GRU(3, 16), torch.nn.LSTM(3, 8), torch.nn.RNN(3, 16)], ids=str)
def test_untrained_networks_have_point_attractors(network):
    assert_all(ms.find_attractors(ms.Dynamics(network), 6), Kind.POINT)


@SLOW
def test_an_invariant_circle_is_recognised():
    """h' = g R h / sqrt(1 + |h|^2) turns by the angle of R on |h|^2 = g^2 - 1; radially it contracts by 1 / g^2."""
    R = rotation(GOLDEN)
    gain = 1.3
    attractors = ms.find_attractors(
        system(lambda x, h: gain * (h @ R.T) / (1 + h.square().sum(1, keepdim=True)).sqrt(), 2), 3, transient=100
    )
    assert_all(attractors, Kind.CIRCLE)
    assert len(attractors) == 1
    assert attractors.states[0].square().sum() == pytest.approx(gain**2 - 1)
    assert torch.allclose(attractors.exponents[0], torch.tensor([0.0, -2 * math.log(gain)]).double(), atol=1e-3)
    assert_all(ms.find_attractors(tanh_network(1.1 * R), 4, **BRIEFLY), Kind.CIRCLE)


@SLOW
def test_a_torus_is_recognised():
    pair = [rotation(1.0), rotation(math.sqrt(2))]

    def two(x, h):
        turned = [part @ R.T for part, R in zip(h.split(2, 1), pair, strict=True)]
        return torch.cat([1.3 * part / (1 + part.square().sum(1, keepdim=True)).sqrt() for part in turned], 1)

    attractors = ms.find_attractors(system(two, 4), 2, transient=100, patience=0)
    assert_all(attractors, Kind.TORUS)
    assert attractors.dimensions.tolist() == [2]


def test_a_line_of_fixed_points_is_a_continuous_attractor():
    v = torch.tensor([1.0, 2.0, 2.0]).double() / 3
    A = 0.5 * torch.eye(3).double() + 0.5 * torch.outer(v, v)
    attractors = ms.find_attractors(system(lambda x, h: h @ A.T, 3), 12)
    assert_all(attractors, Kind.CONTINUOUS)
    assert attractors.dimensions.tolist() == [1]
    assert float(attractors.time_constants[0]) == pytest.approx(-1 / math.log(0.5))
    assert "a line of marginal points" in attractors.verdict


def test_a_slow_manifold_is_recognised():
    rates = torch.tensor([1 - 1e-6, 0.5]).double()
    assert_all(ms.find_attractors(system(lambda x, h: h * rates, 2), 8), Kind.SLOW)


def test_unclear_cases_are_undecided_with_the_reason():
    for function, size, reason in (
        (lambda x, h: 1.0003 * h, 1, "transient has not ended"),
        (lambda x, h: h @ rotation(GOLDEN).T, 2, "the exponents do not show whether the motion does"),
    ):
        attractors = ms.find_attractors(system(function, size), 4, **BRIEFLY)
        assert_all(attractors, Kind.UNDECIDED)
        assert reason in attractors.verdict
    shrinking = ms.find_attractors(logistic(3.0), 4, patience=0)  # as n^-1/2
    assert "the exponents do not show whether the motion does" in shrinking.verdict
    unstable = ms.find_attractors(tanh_network(2 * torch.eye(2)), torch.zeros(1, 2).double())
    assert_all(unstable, Kind.UNDECIDED)
    assert "unstable fixed point" in unstable.verdict


@SLOW
def test_a_chaotic_transient_before_a_cycle_is_not_called_chaos():
    """From some starts this network is chaotic for thousands of steps before it reaches its cycle."""
    W = 1.25 * torch.randn(16, 16, generator=torch.Generator().manual_seed(1))
    hasty = ms.find_attractors(tanh_network(W), 16, patience=0)
    assert {Kind.CYCLE, Kind.CHAOS} <= set(hasty.kind)
    attractors = ms.find_attractors(tanh_network(W), 16)
    assert_all(attractors, Kind.CYCLE)
    assert attractors.periods.tolist() == [18]


@SLOW
def test_flows_have_closed_orbits_or_chaos():
    def van_der_pol(x, h):
        a, b = h.unbind(1)
        return torch.stack([b, (1 - a * a) * b - a], 1)

    attractors = ms.find_attractors(system(van_der_pol, 2, continuous=True), 4, dt=0.05)
    assert_all(attractors, Kind.CIRCLE)
    assert float(attractors.periods[0]) == pytest.approx(6.663, abs=0.05)  # the period, to within one step
    flow = ms.Dynamics(Lorenz(), continuous=True)
    chaos = ms.find_attractors(
        flow, torch.tensor([[1.0, 1.0, 20.0], [-3.0, 2.0, 15.0]]).double(), dt=0.02, steps=2500, patience=0
    )
    assert_all(chaos, Kind.CHAOS)
    with pytest.raises(ValueError, match="steps of a length dt"):
        ms.find_attractors(flow)


def test_attractors_save_load_and_draw(tmp_path):
    attractors = ms.find_attractors(tanh_network(1.5 * signed_ring(3, -1.0)), 24)
    assert sorted(attractors.periods.tolist()) == [2, 6]
    attractors.save(tmp_path / "attractors.safetensors")
    loaded = ms.Attractors.load(tmp_path / "attractors.safetensors")
    assert loaded.summary() == attractors.summary()
    assert torch.equal(loaded.paths, attractors.paths)
    assert len(loaded.figure().axes) == 2


def test_find_attractors_refuses_unsuitable_arguments():
    for message, options in (
        ("steps must be .* 256 or more", {"steps": 100}),
        ("max_period must be", {"max_period": 1}),
        ("patience must be", {"patience": -1}),
        ("count must be", {"count": 0}),
        ("dt belongs to a flow", {"dt": 0.1}),
        ("seed must be a whole number", {"seed": 2**64}),
        ("starts must be a number of starts, .* but is 'adaptive'", {"starts": "adaptive"}),
    ):
        with pytest.raises(ValueError, match=message):
            ms.find_attractors(logistic(3.2), **options)


@pytest.mark.parametrize(
    ("lens", "options", "message"),
    [
        (ms.find_attractors, {"seed": "a"}, "seed must be a whole number"),
        (ms.lyapunov_spectrum, {"seed": 1.5}, "seed must be a whole number"),
        (ms.find_cycles, {"seed": "a"}, "seed must be a whole number"),
        (ms.find_cycles, {"periods": 1.5}, "periods must be a whole number of steps, 1 or more, or several"),
        (ms.find_cycles, {"periods": None}, "periods must be a whole number of steps, 1 or more, or several"),
        (ms.find_cycles, {"periods": "2"}, "periods must be a whole number of steps, 1 or more, or several"),
    ],
)
def test_errors_name_arguments_of_a_wrong_type(lens, options, message, monkeypatch):
    """The type check that wraps functions in tests is removed, as for a caller."""
    dynamics, lens = system(lambda x, h: 0.5 * h, 1, bounds=(0, 1)), unwrap(lens)
    for name in {"seeded_generator", "_checked_periods"} & {*lens.__globals__}:
        monkeypatch.setitem(lens.__globals__, name, unwrap(lens.__globals__[name]))
    with pytest.raises(ValueError, match=f"^{message}"):
        lens(dynamics, **options)


def test_files_of_earlier_versions_load():
    attractors = ms.Attractors.load(SAVED / "Attractors.safetensors")
    assert attractors.verdict == "Left alone, the system settles to one of 2 cycles of periods 2, 6 (all of 24 starts)."
    assert attractors.max_period == 64
    cycles = ms.Cycles.load(SAVED / "Cycles.safetensors")
    assert "18 cycles of period 4 (3 stable, 15 saddle)" in cycles.summary()
    assert not cycles.points.continuous
    spectrum = ms.LyapunovSpectrum.load(SAVED / "LyapunovSpectrum.safetensors")
    assert "0.4089 ± 0.02, -1.613 ± 0.02; over 200 steps from 3 starts" in spectrum.summary()


# ------------------------------------------------------------------------------------------- one attractor or several


def with_two_sides(function, apart):
    """Add a coordinate to a system that settles to +-apart / 2, by its sign."""

    def both(x, h):
        side = 0.5 * apart * torch.tanh(8 * h[:, -1:] / apart) / math.tanh(4)
        return torch.cat([function(x, h[:, :-1]), side], 1)

    return both


def sides(starts, apart):
    """Return each start on both sides."""
    half = torch.full((len(starts), 1), 0.4 * apart, dtype=torch.float64)
    return torch.cat([torch.cat([starts, half], 1), torch.cat([starts + 0.01, -half], 1)])


def two_circles(inner, outer, angle=1.0):
    """Return a rotation that attracts radii to the nearer of two values."""
    R, middle = rotation(angle), 0.5 * (inner + outer)

    def function(x, h):
        radius = h.norm(dim=1, keepdim=True)
        target = torch.where(radius < middle, inner, outer)
        return (h @ R.T) / radius * (target + 0.5 * (radius - target))

    return function


@representatives("quasi-periodic")
@pytest.mark.parametrize("angle", [1.0, 2 * math.pi * (0.01 + 1e-7)], ids=["quasi-periodic", "nearly periodic"])
def test_concentric_circles_are_two_attractors(angle):
    directions = torch.tensor([[1.0, 0.0], [-0.6, 0.8], [0.28, 0.96]]).double()
    starts = torch.cat([0.9 * directions, 1.3 * directions])
    attractors = ms.find_attractors(system(two_circles(1.0, 1.25, angle), 2), starts, **BRIEFLY)
    assert_all(attractors, Kind.CIRCLE)
    assert sorted(attractors.states.norm(dim=1).tolist()) == pytest.approx([1.0, 1.25])
    assert attractors.member[:3].unique().numel() == attractors.member[3:].unique().numel() == 1


@SLOW
def test_adjacent_chaotic_sets_are_two_attractors():
    starts = sides(torch.tensor([[0.3], [0.41], [0.77]]).double(), 0.06)
    attractors = ms.find_attractors(system(with_two_sides(lambda x, h: 3.99 * h * (1 - h), 0.06), 2), starts, **BRIEFLY)
    assert_all(attractors, Kind.CHAOS)
    assert len(attractors) == 2
    assert attractors.shares.tolist() == [0.5, 0.5]


@representatives("1e-05")
@pytest.mark.parametrize("apart", [1e-3, 1e-5])
def test_adjacent_cycles_are_two_attractors(apart):
    starts = sides(torch.tensor([[0.3], [-0.4], [0.7]]).double(), apart)
    attractors = ms.find_attractors(system(with_two_sides(lambda x, h: -torch.tanh(2 * h), apart), 2), starts)
    assert_all(attractors, Kind.CYCLE)
    assert attractors.periods.tolist() == [2, 2]
    assert attractors.shares.tolist() == [0.5, 0.5]  # whichever of its two states a start ends at
    assert sorted(attractors.states[:, 1].tolist()) == pytest.approx([-apart / 2, apart / 2])


@SLOW
def test_a_cycle_that_starts_have_not_reached_yet_is_one_attractor():
    def slowly(x, h):
        return torch.stack([-torch.tanh(2 * h[:, 0]), 0.997 * h[:, 1]], 1)

    starts = torch.tensor([[0.3, 0.5], [-0.4, 0.2], [0.7, -0.7]]).double()
    attractors = ms.find_attractors(system(slowly, 2), starts)
    assert_all(attractors, Kind.CYCLE)
    assert len(attractors) == 1


@SLOW
def test_chaos_from_several_starts_is_one_attractor():
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    for dynamics, starts, options in (
        (system(henon, 2), 0.1 * drawn(4, 2), {"count": 2}),
        (logistic(3.58), drawn(4, 1), {"steps": 600, "count": 1}),  # in bands
        (tanh_network(random_network(100, 1.6)), drawn(4, 100) - 0.5, {"steps": 600, "count": 1}),
        (tanh_network(random_network(100, 2.0, 2)), drawn(4, 100) - 0.5, {"count": 1}),
    ):
        attractors = ms.find_attractors(dynamics, starts, **BRIEFLY | options)
        assert_all(attractors, Kind.CHAOS)
        assert len(attractors) == 1, attractors.summary()


@SLOW
def test_the_wings_of_the_lorenz_attractor_are_one_set():
    """Within 20 units of time some starts stay mostly on one wing, some on the other."""
    step = ms.Dynamics(RungeKuttaStep(ms.Dynamics(Lorenz(), continuous=True).cell, 0.02))
    starts = 10 * torch.rand(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    visited = VisitedSets(simulate(step, starts + torch.tensor([0.0, 0.0, 15.0]), 500, 1000))
    pairs = [(row, other) for row in range(10) for other in range(row)]
    assert all(visited.same_chaotic_set(*pair) for pair in pairs)
    assert not all(visited.same_mean(*pair) for pair in pairs)


def ring_of_points(x, h):
    """Attract radii to 1 and keep angles."""
    radius = h.norm(dim=1, keepdim=True)
    return h / radius * (1 + 0.5 * (radius - 1))


@representatives("parallel lines-1.0")
@pytest.mark.parametrize("apart", [1.0, 0.06])
@pytest.mark.parametrize(
    ("function", "size"), [(lambda x, h: h, 1), (ring_of_points, 2)], ids=["parallel lines", "rings"]
)
def test_adjacent_continuous_attractors_are_two(function, size, apart):
    generator = torch.Generator().manual_seed(1)
    starts = sides(torch.randn(8, size, generator=generator, dtype=torch.float64), apart)
    attractors = ms.find_attractors(system(with_two_sides(function, apart), size + 1), starts)
    assert_all(attractors, Kind.CONTINUOUS)
    assert attractors.shares.tolist() == [0.5, 0.5]
    assert attractors.dimensions.tolist() == [1, 1]
    assert "one of 2 continuous attractors, lines of marginal points" in attractors.verdict
    assert "no rest points were found between the nearest" in attractors.summary()


def two_rings_of_points(x, h):
    """Attract radii below 1.5 to 1 and others to 2, and keep angles."""
    radius = h.norm(dim=1, keepdim=True)
    return h / radius * (radius - 0.8 * (radius - 1) * (radius - 1.5) * (radius - 2))


def lines_of_points(x, h):
    """Attract the second coordinate to the nearest whole number, and keep the first."""
    return torch.stack([h[:, 0], h[:, 1] - 0.1 * torch.sin(2 * math.pi * h[:, 1])], 1)


@representatives("0-24-lines")
@pytest.mark.parametrize(
    ("function", "width", "number"),
    [(two_rings_of_points, (2.0, 2.0), 2), (lines_of_points, (10.0, 1.4), 3)],
    ids=["rings", "lines"],
)
@pytest.mark.parametrize("starts", [24, 80])
@pytest.mark.parametrize("seed", after(1, range(3)))
def test_a_continuous_attractor_stays_whole_if_another_is_nearer(function, width, number, starts, seed):
    """The next point on the same ring is often further away than many points of the other ring."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.tensor(width) * (2 * torch.rand(starts, 2, generator=generator, dtype=torch.float64) - 1)
    attractors = ms.find_attractors(system(function, 2), drawn)
    assert_all(attractors, Kind.CONTINUOUS)
    assert len(attractors) == number
    positions = attractors.states.norm(dim=1) if number == 2 else attractors.states[:, 1]
    assert sorted(positions.tolist()) == pytest.approx([1, 2] if number == 2 else [-1, 0, 1], abs=1e-6)


@SLOW
def test_the_summary_reports_that_not_all_groups_were_compared(monkeypatch):
    monkeypatch.setattr(manifolds, "MAX_PAIRS", 2)
    rows = torch.tensor([[0.0], [1.0], [2.0]]).double()
    drawn = torch.cat([torch.cat([rows, torch.full_like(rows, line)], 1) for line in range(6)])
    attractors = ms.find_attractors(system(lines_of_points, 2), drawn)
    assert "though not every pair was compared" in attractors.summary()
    monkeypatch.undo()
    assert "not every pair" not in ms.find_attractors(system(lines_of_points, 2), drawn).summary()


def test_connected_continuous_attractors_are_one():
    plane = torch.diag(torch.tensor([1.0, 1.0, 0.5])).double()
    for function, size, dimension in ((ring_of_points, 2, 1), (lambda x, h: h @ plane, 3, 2)):
        attractors = ms.find_attractors(system(function, size), 10)
        assert_all(attractors, Kind.CONTINUOUS)
        assert attractors.dimensions.tolist() == [dimension]
        assert attractors.notes == ("",)


@SLOW
def test_the_verdict_on_a_closed_curve_names_the_longest_period_tested():
    """A rotation by a 70th of a turn closes after 70 steps, which only a search up to 70 detects."""
    cos, sin = math.cos(2 * math.pi / 70), math.sin(2 * math.pi / 70)
    turn = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    ring = system(lambda x, h: ring_of_points(x, h) @ turn.T, 2)
    attractors = ms.find_attractors(ring, 4, **BRIEFLY)
    assert_all(attractors, Kind.CIRCLE)
    assert "without a period of up to 64 steps" in attractors.verdict
    assert_all(ms.find_attractors(ring, 4, **BRIEFLY, max_period=70), Kind.CYCLE)


def test_undefined_states_are_not_called_infinite(tmp_path):
    attractors = ms.find_attractors(system(lambda x, h: torch.log(h), 1), torch.tensor([[0.5], [2.0], [3.0]]).double())
    assert_all(attractors, Kind.DIVERGED)
    assert attractors.verdict == "Left alone, the system becomes undefined (NaN) (all of 3 starts)."

    def both(x, h):
        return torch.where(h > 0, 2 * h, torch.log(h))

    attractors = ms.find_attractors(system(both, 1), torch.tensor([[0.5], [-2.0], [3.0]]).double())
    attractors.save(tmp_path / "both.safetensors")
    for loaded in (attractors, ms.Attractors.load(tmp_path / "both.safetensors")):
        assert "leaves to infinity (2 of 3 starts); becomes undefined (NaN) (1 of 3 starts)" in loaded.verdict
        assert loaded.max_period == 64
        assert loaded.figure().axes


def test_the_drawn_path_of_an_undecided_start_stays_finite():
    starts = torch.tensor([[0.08], [-0.07]], dtype=torch.float64)
    escaping = system(lambda x, h: 1.015 * h + 1e-3 * h**3, 1)
    attractors = ms.find_attractors(escaping, starts, transient=0, steps=256, patience=0)
    assert_all(attractors, Kind.UNDECIDED)
    assert torch.isfinite(attractors.paths).all()
    assert attractors.paths[:, -1].equal(attractors.paths[:, -2])
    assert attractors.figure().axes


def test_the_three_lenses_are_registered():
    assert ms.registry.lenses["cycles"].load() is ms.find_cycles
    assert ms.registry.lenses["lyapunov"].load() is ms.lyapunov_spectrum
    assert ms.registry.lenses["attractors"].load() is ms.find_attractors


@SLOW
def test_many_point_attractors_are_all_found():
    """Six independent bits have 64 points."""
    attractors = ms.find_attractors(tanh_network(2 * torch.eye(6)), 200)
    assert set(attractors.kind) == {Kind.POINT}
    assert len(attractors.kind) > 50
    slow_point = ms.find_attractors(system(lambda x, h: 0.997 * h, 1), torch.linspace(-1, 1, 64).double()[:, None])
    assert list(slow_point.kind) == [Kind.POINT]
    assert slow_point.shares.tolist() == [1.0]


@SLOW
def test_the_summary_does_not_average_exponents_of_different_attractors():
    """The map is chaotic on one side and has a stable point on the other."""

    def two(x, h):
        return torch.where(h[:, :1] > 0, 3.99 * h * (1 - h), 0.5 * h)

    starts = torch.tensor([[0.3], [0.4], [-0.5], [-0.2]]).double()
    spectrum = ms.lyapunov_spectrum(system(two, 1), steps=600, starts=starts)
    assert "Nearby states diverge from 2 starts and converge from 2" in spectrum.summary()


@SLOW
def test_chaos_in_a_short_window_is_no_torus():
    def rossler(x, h):
        a, b, c = h.unbind(1)
        return torch.stack([-b - c, a + 0.2 * b, 0.2 + c * (a - 5.7)], 1)

    attractors = ms.find_attractors(
        system(rossler, 3, continuous=True, rate=1.0),
        torch.tensor([[1.0, 1, 1]]).double(),
        dt=0.05,
        transient=300,
        patience=0,
    )
    assert Kind.TORUS not in attractors.kind
    assert "several exponents are near 0, but not known precisely" in attractors.verdict


def test_a_long_search_shows_a_bar(monkeypatch, capsys):
    chaos = logistic(4.0)
    monkeypatch.setattr(progress, "PATIENCE", 0)
    ms.find_attractors(chaos, 4, transient=50, steps=40, max_period=10)
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(progress, "is_visible", lambda: True)
    ms.find_attractors(chaos, 4, transient=50, steps=40, max_period=10)
    shown = capsys.readouterr().err
    assert "simulation:" in shown
    assert "exponents:" in shown
    ms.find_attractors(chaos, 4, transient=50, steps=40, max_period=10, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("size", [1, 2])
def test_the_figure_of_a_single_point_shows_its_surroundings(size):
    rest = ms.adapt(lambda x, h: 0.1 * h, state_size=size, bounds=(-1, 1))
    starts = torch.linspace(-1, 1, 3 * size).reshape(3, size).double()
    attractors = ms.find_attractors(rest, starts, transient=20, steps=256, patience=0)
    assert attractors.kind == [Kind.POINT]
    axes = attractors.figure().axes[0]
    assert axes.get_xlim() == axes.get_ylim() == (-1, 1)  # not the rounding errors around 0
