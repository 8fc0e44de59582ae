"""The linear theory of variable binding: the universal law, exact and saturating networks, bases, angle errors."""

from math import nan

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mnemoscope.connectivity.signed_selection import FAMILY, SignedSelection, companion, parse_selection
from mnemoscope.lenses import Dynamics
from mnemoscope.lenses.variables import (
    AngleError,
    BindingNetwork,
    MemoryBasis,
    angle_error,
    largest_interference,
    variables_at,
)
from tests.connectivity.test_signed_selection import random_selection
from tests.slow import representatives


def draws(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def skewed(seed: int, units: int, memories: int) -> torch.Tensor:
    """Return random skewed memories with a condition number of 10, which magnifies rounding little."""
    left, _, right = torch.linalg.svd(draws(seed, units, memories), full_matrices=False)
    return left * 10 ** torch.linspace(0, -1, memories, dtype=torch.float64) @ right


def vectors(s: int, d: int, seed: int = 0, batch: int = 4) -> torch.Tensor:
    return draws(seed, s, batch, d)


def bits(s: int, d: int, seed: int = 0, batch: int = 64) -> torch.Tensor:
    return 2.0 * torch.randint(0, 2, (s, batch, d), generator=torch.Generator().manual_seed(seed)) - 1


# The universal law.

sizes = {"s": st.integers(1, 5), "d": st.integers(1, 4), "more": st.integers(0, 5), "seed": st.integers(0, 10**6)}


@settings(max_examples=80, deadline=None)
@given(**sizes, selects=st.booleans(), steps=st.integers(0, 12))
def test_subspace_j_holds_the_variable_of_time_T_minus_N_plus_j(s, d, more, seed, selects, steps):
    """Check this for any F and any independent memories, reading each subspace with its dual."""
    if selects:
        F = random_selection(s, d, np.random.default_rng(seed))
    else:
        F = draws(seed, d, s * d)
        F = F / F.abs().sum(1, keepdim=True)  # so that the vectors do not grow
    net = BindingNetwork(F, skewed(seed + 1, s * d + more, s * d))
    inputs = vectors(s, d, seed)
    states, outputs = net.run(inputs, steps)
    x = slow_sequence(net.boundary, inputs, steps)
    for T in range(1, s + steps + 1):
        for j in range(1, s + 1):
            held = states[T - 1] @ net.basis.dual(j - 1).mT
            expected = x[T - s + j - 1] if T - s + j >= 1 else torch.zeros_like(held)
            torch.testing.assert_close(held, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(states, net.law(x), rtol=0, atol=1e-10)
    torch.testing.assert_close(outputs, x, rtol=0, atol=1e-10)
    torch.testing.assert_close(net.sequence(inputs, steps), x, rtol=0, atol=1e-10)


def slow_sequence(F: torch.Tensor, inputs: torch.Tensor, steps: int) -> torch.Tensor:
    s, batch, d = inputs.shape
    x = torch.cat([inputs, torch.zeros(steps, batch, d, dtype=torch.float64)])
    for time in range(s, s + steps):
        for b in range(batch):
            for a in range(d):
                x[time, b, a] = sum(F[a, k * d + i] * x[time - s + k, b, i] for k in range(s) for i in range(d))
    return x


def test_variables_at_returns_the_last_vectors():
    x = torch.arange(1.0, 6).reshape(5, 1)
    assert variables_at(x, 5, 3).flatten().tolist() == [3, 4, 5]
    assert variables_at(x, 1, 3).flatten().tolist() == [0, 0, 1]
    assert variables_at(x, 3, 3).flatten().tolist() == [1, 2, 3]


# Networks.


@settings(max_examples=40, deadline=None)
@given(**sizes)
def test_repeat_copy_is_exact_and_time_invariant_in_any_basis(s, d, more, seed):
    net = BindingNetwork(SignedSelection.repeat_copy(s, d), skewed(seed, s * d + more, s * d))
    inputs = vectors(s, d, seed)
    expected = torch.cat([inputs] * 5)
    assert net.time_invariant
    for phase_aware in (True, False):
        run = net.run(inputs, 4 * s, phase_aware)
        torch.testing.assert_close(run.outputs, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("s", [2, 3, 5, 8])
def test_compose_copy_needs_a_phase_signal(s):
    net = BindingNetwork(SignedSelection.compose_copy(s), skewed(0, s * s + 3, s * s))
    inputs = vectors(s, s)
    x = SignedSelection.compose_copy(s).simulate(inputs, 5 * s)
    torch.testing.assert_close(net.run(inputs, 5 * s).outputs, x, rtol=0, atol=1e-10)
    assert not net.time_invariant
    wrong = net.run(inputs, 5 * s, phase_aware=False).outputs
    assert (wrong[:s] - x[:s]).abs().max() > 0.1  # already in the input phase
    assert (wrong[s:] - x[s:]).abs().max() > 0.1
    # the element with the longest lag is right
    torch.testing.assert_close(wrong[..., 0], x[..., 0], rtol=0, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(s=st.integers(1, 4), d=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_time_invariant_is_true_exactly_if_the_network_needs_no_phase(s, d, seed):
    F = random_selection(s, d, np.random.default_rng(seed))
    net = BindingNetwork(F)
    inputs = vectors(s, d, seed)
    error = (net.run(inputs, 2 * s, phase_aware=False).outputs - F.simulate(inputs, 2 * s)).abs().max()
    assert net.time_invariant == all(lag == s for lag in F.lags) == bool(error < 1e-10)


@representatives("T1")
@pytest.mark.parametrize("name", FAMILY)
def test_the_family_is_exact_in_a_skewed_basis(name):
    F = parse_selection(name, 8, 8)
    net = BindingNetwork(F, skewed(0, 80, 64))
    inputs = bits(8, 8).double()
    torch.testing.assert_close(net.run(inputs, 320).outputs, F.simulate(inputs, 320), rtol=0, atol=1e-10)


def test_equation_32_holds_with_its_index_corrected():
    """|h(s+t)> = sum_mu u^i(mu) |psi_{((mu-t-1) mod s) k + i}>, mu and i from 1; as printed it is one too high."""
    s, k = 4, 3
    net = BindingNetwork(SignedSelection.repeat_copy(s, k), skewed(3, 15, 12))
    u, psi = vectors(s, k, batch=1)[:, 0], net.basis.vectors
    states = net.run(u[:, None], 11, phase_aware=False).states[:, 0]
    for t in range(12):
        corrected, printed = torch.zeros(15, dtype=torch.float64), torch.zeros(15, dtype=torch.float64)
        for mu in range(1, s + 1):
            for i in range(1, k + 1):
                corrected += u[mu - 1, i - 1] * psi[:, (mu - t - 1) % s * k + i - 1]
                place = ((mu - t - 1) % s + 1) * k + i
                if place <= s * k:
                    printed += u[mu - 1, i - 1] * psi[:, place - 1]
        torch.testing.assert_close(states[s + t - 1], corrected, rtol=0, atol=1e-10)
        assert (states[s + t - 1] - printed).abs().max() > 0.01


def test_the_weights_are_equations_13_and_20_to_22():
    s, d, Xi = 3, 2, skewed(1, 9, 6)
    net = BindingNetwork(SignedSelection.repeat_copy(s, d), Xi)
    torch.testing.assert_close(net.W_hh, Xi @ net.Phi @ torch.linalg.pinv(Xi))
    assert torch.equal(net.W_uh, Xi[:, -d:])
    torch.testing.assert_close(net.W_r, torch.linalg.pinv(Xi)[-d:])
    register = BindingNetwork(SignedSelection.repeat_copy(s, d))
    assert torch.equal(register.W_hh, register.Phi)
    assert (register.variables, register.size, register.basis.units) == (3, 2, 6)


@pytest.mark.parametrize("Xi", [None, skewed(1, 9, 6)])
def test_the_elman_model_is_the_same_network(Xi):
    net = BindingNetwork(SignedSelection.repeat_copy(3, 2), Xi)
    inputs = torch.cat([vectors(3, 2), torch.zeros(20, 4, 2, dtype=torch.float64)])
    outputs, last = net.elman()(inputs)
    states, expected = net.run(inputs[:3], 20, phase_aware=False)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, states[-1], rtol=0, atol=1e-12)


def test_the_jacobian_of_the_model_is_w_hh():
    net = BindingNetwork(SignedSelection.compose_copy(3), skewed(1, 11, 9))
    dynamics = Dynamics(net.elman().cell)
    J = dynamics.jacobian(torch.zeros(1, 11, dtype=torch.float64))[0]
    torch.testing.assert_close(J, net.W_hh)


# Spectrum.


@pytest.mark.parametrize("name", FAMILY)
def test_w_hh_has_the_eigenvalues_of_phi(name):
    net = BindingNetwork(parse_selection(name, 8, 8), skewed(0, 70, 64))
    expected = net.eigenvalues()
    assert len(expected) == 64
    error = angle_error(torch.linalg.eigvals(net.W_hh), expected)
    assert error.matched == int((expected.abs() > 0.5).sum()) == {"T1": 64, "T2": 36}.get(name, error.matched)
    assert (error.missing, error.extra) == (0, 0)
    assert error.largest < 1e-9  # the basis has a condition number of 10


def test_eigenvalues_of_other_boundary_maps_are_numerical():
    F = draws(0, 2, 6)
    net = BindingNetwork(F)
    assert net.selection is None
    for value in net.eigenvalues():  # lambda^s v = sum_k F_k lambda^k v for some v: the polynomial matrix is singular
        blocks = sum(F[:, 2 * k : 2 * k + 2] * value**k for k in range(3))
        matrix = torch.eye(2, dtype=torch.float64) * value**3 - blocks
        assert torch.linalg.svdvals(matrix)[-1] < 1e-12
    same = BindingNetwork(SignedSelection.compose_copy(3).matrix())
    assert same.selection == SignedSelection.compose_copy(3)


# The saturating network.


def right(net: BindingNetwork, gain: float, drive: float | None, periods: int = 40, seed: int = 0) -> bool:
    s, d = net.variables, net.size
    first = bits(s, d, seed).double()
    silence = torch.zeros(periods * s, first.shape[1], d, dtype=torch.float64)
    outputs, _ = net.saturating(gain, drive)(torch.cat([first, silence]))
    return bool((outputs.sign() == net.sequence(first, periods * s)).all())


@representatives("1.0-None-T4")
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize(("gain", "drive"), [(1.0, None), (1.0, 2.0), (1.2, None), (1.2, 5.0), (3.0, None)])
def test_the_saturating_network_keeps_all_bits_over_forty_periods(name, gain, drive):
    assert right(BindingNetwork(parse_selection(name, 8, 8)), gain, drive)


@representatives("24")
@pytest.mark.parametrize("seed", range(30))
def test_the_saturating_network_keeps_all_bits_of_random_selections(seed):
    generator = np.random.default_rng(seed)
    s, d = (int(number) for number in generator.integers(1, 7, 2))
    F = random_selection(s, d, generator)
    assert right(BindingNetwork(F), float(generator.uniform(1, 3)), None, seed=seed)


def amplitudes(gain: float, steps: int) -> torch.Tensor:
    model = BindingNetwork(SignedSelection.repeat_copy(4, 1)).saturating(gain)
    outputs, _ = model(torch.cat([bits(4, 1).double(), torch.zeros(steps, 64, 1, dtype=torch.float64)]))
    return outputs[4:].abs()


@pytest.mark.parametrize("gain", [1.1, 1.5, 3.0])
def test_above_a_gain_of_one_the_amplitude_lasts(gain):
    last = amplitudes(gain, 400)[-1]
    torch.testing.assert_close(last, (gain * last).tanh(), rtol=0, atol=1e-10)
    assert last.min() > 0.5


def test_at_a_gain_of_one_it_decays_with_the_square_root_of_time():
    ratio = amplitudes(1.0, 4000)[-1] / (3 / (2 * 4000)) ** 0.5
    assert (ratio - 1).abs().max() < 0.01  # the next term is of order log(t) / t


def brute_force_fails(F: SignedSelection, gain: float, drive: float) -> bool:
    """Return whether any of all inputs of 1 and -1 is outweighed during the input phase."""
    s, d = F.variables, F.size
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * (s * d)).reshape(-1, s, d).transpose(0, 1)
    h, Phi = torch.zeros(every.shape[1], s * d, dtype=torch.float64), companion(F.matrix())
    wrong = False
    for u in every:
        pre = gain * h @ Phi.mT
        pre[:, -d:] += drive * u
        h = pre.tanh()
        wrong |= bool((h[:, -d:].sign() != u).any())
    return wrong


@representatives("34")
@pytest.mark.parametrize("seed", range(40))
def test_the_condition_on_the_drive_is_exact(seed):
    """Inputs are kept if, and only if, the largest interference is below the drive."""
    generator = np.random.default_rng(seed)
    F = random_selection(int(generator.integers(2, 5)), int(generator.integers(1, 4)), generator)
    gain = float(generator.uniform(1, 2.5))
    for drive in np.linspace(0.05, 1, 12) * gain:
        refused = largest_interference(F, gain, float(drive)) >= drive
        assert refused == brute_force_fails(F, gain, float(drive))
    assert not largest_interference(F, gain, gain) >= gain  # a drive as large as the gain is enough


@pytest.mark.parametrize(("gain", "share"), [(1.0, 0.958), (1.2, 0.982), (2.0, 0.9993)])
def test_the_smallest_drive_of_compose_copy(gain, share):
    F, half_a_digit = SignedSelection.compose_copy(8), 10 ** -len(str(share)[2:]) / 2
    below, above = gain * (share - half_a_digit), gain * (share + half_a_digit)
    assert largest_interference(F, gain, below) >= below
    assert largest_interference(F, gain, above) < above
    assert right(BindingNetwork(F), gain, above)


def test_a_drive_that_held_variables_can_outweigh_raises():
    compose, repeat = (BindingNetwork(F) for F in (SignedSelection.compose_copy(4), SignedSelection.repeat_copy(4, 4)))
    with pytest.raises(
        ValueError, match=r"can outweigh the inputs: .* up to 1\.\d+, but inputs with 1\. A drive above"
    ):
        compose.saturating(2.0, 1.0)
    assert right(repeat, 2.0, 0.1)


# Wrong arguments.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BindingNetwork(SignedSelection(2, (3,), (0,), (1,))), "taken from 3 steps ago, but the last 2"),
        (lambda: BindingNetwork(torch.zeros(2, 5)), r"real matrix \(d, s d\), but its shape is \(2, 5\)"),
        (lambda: BindingNetwork(torch.full((1, 2), torch.inf)), "must be a finite real matrix"),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2), torch.randn(6, 3)),
            r"2 vectors of 2 elements need 4 memories, .* shape is \(6, 3\)",
        ),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2), torch.randn(3, 4)),
            "4 memories in 3 units are dependent, so they have no duals: pass at most 3",
        ),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2), torch.ones(6, 4)),
            r"The 4 memories are dependent \(singular values from 4\.9 down to .*omit those",
        ),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2)).run(torch.zeros(3, 1, 2), 1),
            r"2 vectors of 2 elements, \(2, batch, 2\), but their shape is \(3, 1, 2\)",
        ),
        (lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2)).run(torch.zeros(2, 1, 2), -1), "steps, .* is -1"),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2)).saturating(0.9),
            "at least 1, .* gain.t, but is 0.9",
        ),
        (lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2)).saturating(nan), "gain must be at least 1"),
        (lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2)).saturating(1.5, 0.0), "can outweigh the inputs"),
        (lambda: BindingNetwork(torch.ones(2, 4)).saturating(), "F is no signed selection"),
        (
            lambda: BindingNetwork(SignedSelection.repeat_copy(2, 2), skewed(0, 5, 4)).saturating(),
            "each must hold one element: omit Xi",
        ),
        (lambda: variables_at(torch.zeros(3, 1), 4, 2), "Times are from 1 to 3, .* but 4"),
        (lambda: variables_at(torch.zeros(3, 1), 0, 2), "Times are from 1 to 3, .* but 0"),
        (lambda: variables_at(torch.zeros(3, 1), 1, 0), "variables=0"),
    ],
)
def test_wrong_arguments_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# Memory bases.


def test_writing_a_variable_keeps_the_others():
    basis = MemoryBasis.from_vectors(skewed(0, 9, 6), variables=3)
    states, values = draws(1, 4, 9), draws(2, 4, 2)
    new = basis.write(states, 1, values)
    before, after = basis.read(states), basis.read(new)
    torch.testing.assert_close(after[:, 1], values, rtol=0, atol=1e-12)
    torch.testing.assert_close(after[:, [0, 2]], before[:, [0, 2]], rtol=0, atol=1e-12)
    off = torch.eye(9, dtype=torch.float64) - basis.projection()
    torch.testing.assert_close(new @ off.mT, states @ off.mT, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        basis.write(states, 1, values[0])[1:], basis.write(states, 1, values[:1].expand(4, 2))[1:]
    )


def test_block_and_dual_take_the_number_of_a_variable():
    Xi = skewed(0, 9, 6)
    basis = MemoryBasis.from_vectors(Xi, variables=3)
    assert (basis.size, basis.units) == (2, 9)
    assert torch.equal(basis.block(1), Xi[:, 2:4])
    assert torch.equal(basis.block(-1), basis.block(2))
    torch.testing.assert_close(basis.dual(1) @ basis.block(1), torch.eye(2, dtype=torch.float64))
    assert (basis.dual(1) @ basis.block(2)).abs().max() < 1e-12
    held = draws(1, 5, 3, 2)
    torch.testing.assert_close(basis.read(basis.embed(held)), held)
    torch.testing.assert_close(basis.projection() @ Xi, Xi)
    for variable in (3, -4):
        with pytest.raises(IndexError, match=f"There are 3 variables, numbered from 0, but {variable} was asked for"):
            basis.block(variable)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MemoryBasis.from_vectors(torch.eye(6), variables=4), "6 directions cannot be divided evenly among 4"),
        (lambda: MemoryBasis.from_vectors(torch.eye(6), variables=0), "among 0 variables"),
        (lambda: MemoryBasis.from_vectors(torch.zeros(6, 2), variables=1), "memories are dependent"),
        (lambda: MemoryBasis.from_vectors(torch.zeros(6, 0), variables=1), "at least one memory"),
        (lambda: MemoryBasis.from_vectors(torch.full((6, 2), torch.nan), variables=1), "a finite matrix"),
        (lambda: MemoryBasis(torch.eye(6), torch.zeros(6, 5), 2), "a dual for every vector|'duals'"),
    ],
)
def test_wrong_bases_raise(make, message):
    with pytest.raises((ValueError, TypeError), match=message):  # TypeError where the annotations are checked
        make()


# Angle errors.


def rotated(values: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return values * torch.polar(torch.ones_like(by), by)


def test_angles_are_matched_as_by_brute_force():
    """Compare with the best of all assignments."""
    from itertools import permutations

    for seed in range(20):
        angles, others = 3 * draws(seed, 5), 3 * draws(seed + 100, 5)
        found, expected = (torch.polar(torch.ones_like(values), values) for values in (angles, others))
        difference = [[min(abs(a - b + 2 * torch.pi * k) for k in range(-9, 10)) for b in others] for a in angles]
        costs = [sum(difference[i][j] for i, j in enumerate(order)) / 5 for order in permutations(range(5))]
        error = angle_error(found, expected)
        assert error.mean == pytest.approx(float(min(costs)), abs=1e-12)
        assert (error.matched, error.missing, error.extra) == (5, 0, 0)


def test_angles_pi_and_minus_pi_are_equal():
    a = torch.tensor([torch.pi - 0.01, 0.02], dtype=torch.float64)
    b = torch.tensor([-torch.pi + 0.01, 0.0], dtype=torch.float64)
    found, expected = (torch.polar(torch.ones_like(values), values) for values in (a, b))
    error = angle_error(found, expected)
    assert error.mean == pytest.approx(0.02, abs=1e-12)
    assert error.largest == pytest.approx(0.02, abs=1e-12)


def test_small_eigenvalues_are_ignored_and_unmatched_ones_counted():
    roots = SignedSelection.repeat_copy(4, 2).eigenvalues()
    tilt = torch.full((8,), 0.001, dtype=torch.float64)
    with_rest = torch.cat([rotated(roots, tilt) * 0.95, 0.89 * roots])
    error = angle_error(with_rest, roots)
    assert error == AngleError(error.mean, error.largest, matched=8, missing=0, extra=0)
    assert (error.mean, error.largest) == pytest.approx((0.001, 0.001))
    assert angle_error(with_rest, roots, above=0.8).extra == 8
    fewer = angle_error(with_rest[:5], roots)
    assert (fewer.matched, fewer.missing, fewer.extra) == (5, 3, 0)
    assert fewer.mean == pytest.approx(0.001)
    assert "3 missing" in fewer.summary()
    none = angle_error(0.5 * roots, roots)
    assert np.isnan([none.mean, none.largest]).all()
    assert (none.matched, none.missing, none.extra) == (0, 8, 0)
    assert none.summary() == "no eigenvalues to compare: 8 are missing, 0 are too many"
    with pytest.raises(ValueError, match="found must be a list of finite eigenvalues"):
        angle_error(roots * torch.nan, roots)
