"""Completeness of fixed points: maps that the search once missed, and the proof by interval arithmetic."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, EchoState, Elman, FunctionCell, Stack
from mnemoscope.cells.enclosure import Enclosure, Interval
from mnemoscope.lenses.fixed_points import FixedPoints, Status
from mnemoscope.lenses.fixed_points.composite_starts import Adaptive
from mnemoscope.lenses.fixed_points.subdivision import residual_enclosure, sampled_enclosure, subdivide

from ..slow import SLOW

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from numerics_maps import Map, compare, exhaustive_roots, random_map

from tests.slow import representatives

MISSED = {
    "the origin of a network without biases": ([[6.398, -5.53], [4.828, 5.116]], [0, 0]),
    "two of three": ([[-5.719, 16.668], [4.217, -5.692]], [-0.972, -0.654]),
    "a spiral": ([[4.452, -6.404], [5.669, 3.414]], [-0.324, 1.618]),
    "a steep spiral": ([[5.34, -11.007], [14.892, 2.543]], [0, 0]),
    "an off-centre spiral": ([[8.31, -8.064], [7.713, 7.786]], [1.733, 1.441]),
    "a flat row": ([[-0.117, 6.747], [-11.358, 12.455]], [0, 0]),
    "two near an edge": ([[1.996, -4.667], [2.355, 7.595]], [0.909, -3.274]),
    "two near a corner": ([[1.681, 5.484], [-10.651, 18.284]], [0.139, -5.392]),
    "two far apart": ([[-0.448, 8.111], [3.352, -2.042]], [1.699, -1.416]),
}
"""Maps whose points random starts do not reach: 1 or 3 each."""


def tanh_map(W, b=(0, 0)) -> ms.Dynamics:
    return Map(np.array(W, float), np.array(b, float)).dynamics()


@representatives("two near a corner", "two of three")
@pytest.mark.parametrize("name", MISSED)
def test_all_points_of_steep_maps_are_found(name):
    W, b = MISSED[name]
    comparison = compare(Map(np.array(W, float), np.array(b, float)))
    assert (comparison.missed, comparison.invented) == (0, 0)
    assert comparison.found in (1, 3)


def test_a_steep_function_that_gives_no_ranges_is_searched_completely():
    W, b = (torch.tensor(part, dtype=torch.float64) for part in MISSED["two of three"])
    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(h @ W.T + b), state_size=2, bounds=(-1, 1))))
    assert len(fp) == 3


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=SLOW) for seed in range(4, 24))])
def test_random_maps_are_searched_completely(seed):
    generator = np.random.default_rng(seed)
    for _ in range(5):
        assert not compare(random_map(generator)).failed


def test_the_reference_counts_the_points_of_independent_units():
    """With a tiny coupling, two units of gain 2 have 3 x 3 points, and two of gain 1/2 have one."""
    assert len(exhaustive_roots(Map(np.array([[2, 1e-6], [1e-6, 2]]), np.zeros(2)))[0]) == 9
    assert len(exhaustive_roots(Map(np.array([[0.5, 1e-6], [1e-6, 0.5]]), np.zeros(2)))[0]) == 1


def test_the_initial_state_and_the_centre_of_the_box_are_starts():
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(h), state_size=4, bounds=(-1, 3)))
    starts = Adaptive(torch.full((1, 4), 0.5)).draw(dynamics, torch.Generator())
    assert starts.tolist() == [4 * [0.5], 4 * [0.0], 4 * [1.0]]
    assert Adaptive(starts, max_starts=2).draw(dynamics, torch.Generator()).tolist() == [4 * [0.0], 4 * [1.0]]
    centred = ms.Dynamics(nn.GRU(1, 4))
    assert (
        len(Adaptive(torch.full((1, 4), 0.5)).draw(centred, torch.Generator())) == 2
    )  # the centre is the initial state


def test_the_search_goes_on_if_the_first_wave_finds_nothing(monkeypatch):
    """An invariant box contains a fixed point: here one that repels, in a basin that few starts reach."""
    W = torch.kron(torch.eye(2), torch.tensor([[3.0, -3.0], [3.0, 3.0]])).double()
    spiral = ms.adapt(
        lambda x, h: torch.tanh(h @ W.T + torch.tensor([0.3, -0.2, 0.1, 0.4])), state_size=4, bounds=(-1, 1)
    )
    corner = torch.ones(1, 4).double()
    monkeypatch.setattr("mnemoscope.lenses.fixed_points.composite_starts.landmarks", lambda dynamics: corner)
    fp = ms.find_fixed_points(ms.Dynamics(spiral), Adaptive(corner))
    assert fp.starts.counts().get(Status.FIXED, 0) > 0
    assert len(fp) == 1


CELLS = {
    "elman": lambda: Elman(2, 3),
    "logistic": lambda: Elman(2, 3, nonlinearity="logistic"),
    "relu": lambda: Elman(2, 2, nonlinearity="relu"),
    "linear": lambda: Elman(2, 2, nonlinearity="linear"),
    "rnn": lambda: nn.RNN(2, 2),
    "two layers": lambda: nn.RNN(2, 1, num_layers=2),
    "gru": lambda: GRU(2, 3),
    "torch gru": lambda: nn.GRU(2, 2),
    "lstm": lambda: LSTM(2, 1),
    "projected": lambda: nn.LSTM(2, 2, proj_size=1),
    "reservoir": lambda: EchoState(2, 3, output_size=1, tau=2.0, density=1.0),
    "mixed stack": lambda: Stack([LSTM(2, 1), GRU(1, 1)]),
}


@pytest.mark.parametrize("name", CELLS)
def test_ranges_contain_the_step_and_its_jacobian(name):
    torch.manual_seed(1)
    network = CELLS[name]()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(3)
    dynamics = ms.Dynamics(network, [0.4, -0.7])
    enclose = residual_enclosure(dynamics)
    ends = 2 * torch.randn(2, 50, dynamics.size, dtype=torch.float64)
    low, high = ends.sort(0).values
    f, G = enclose(low, high)
    for _ in range(20):
        states = torch.lerp(low, high, torch.rand_like(low).round(decimals=1).clamp(0, 1))
        value, slope = dynamics.residual(states), dynamics.residual_jacobian(states)
        assert bool(((f.low <= value) & (value <= f.high)).all())
        assert bool(((G.low <= slope) & (slope <= G.high)).all())
    at_points, _ = enclose(low, low)
    assert (at_points.high - at_points.low).max() < 1e-12  # the ranges are sharp


def test_modrelu_has_ranges_unless_it_jumps():
    cell = Elman(1, 2, nonlinearity="modrelu")
    for bias, known in ((-0.3, True), (0.3, False)):
        with torch.no_grad():
            cell.phi.bias.fill_(bias)
        assert (residual_enclosure(ms.Dynamics(cell)) is not None) == known


def test_rounding_is_outward():
    """The intervals contain the values that extended precision gives, also for saturated units."""
    x = torch.linspace(-45, 45, 4001, dtype=torch.float64)[:, None]
    exact = x.numpy().astype(np.longdouble)
    enclosed = Enclosure.of_box(x, x)
    for name, values in (("tanh", np.tanh(exact)), ("sigmoid", 1 / (1 + np.exp(-exact)))):
        value = getattr(enclosed, name)().value
        assert (value.low.numpy() <= values).all()
        assert (value.high.numpy() >= values).all()
    third = Interval(torch.tensor([1.0]).double(), torch.tensor([1.0]).double()) * (1 / 3)
    total = third + third + third
    assert total.low < 1 < total.high


@pytest.mark.parametrize("name", ["elman", "rnn", "gru", "torch gru", "lstm", "projected", "two layers", "mixed stack"])
def test_networks_of_up_to_three_dimensions_are_certified(name):
    torch.manual_seed(2)
    network = CELLS[name]()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(3)
    fp = ms.find_fixed_points(ms.Dynamics(network), certify=True)
    assert fp.certificate.complete
    assert fp.may_be_complete
    assert "Certified complete" in fp.summary()
    assert fp.index_sum == 1


def test_the_proof_adds_the_points_that_the_starts_miss(tmp_path):
    dynamics = tanh_map(*MISSED["two of three"])
    alone = ms.find_fixed_points(dynamics, torch.tensor([[0.9, 0.9]]))
    fp = ms.find_fixed_points(dynamics, torch.tensor([[0.9, 0.9]]), certify=True)
    assert len(alone) < len(fp) == 3
    assert fp.certificate.complete
    assert alone.certificate is None
    assert "no proof" in alone.summary() or "missing" in alone.summary()
    fp.save(tmp_path / "points.safetensors")
    assert FixedPoints.load(tmp_path / "points.safetensors").certificate.complete
    assert fp[:2].certificate is None  # a selection is not complete


def test_a_double_root_is_not_certified():
    """At b = sqrt(1/2) - atanh(sqrt(1/2)), a unit of gain 2 is about to lose two of its three points."""
    root = 0.5**0.5
    b = np.arctanh(root) - 2 * root
    fp = ms.find_fixed_points(tanh_map([[2, 1e-3], [0, 0.5]], [b, 0]), certify=True)
    assert not fp.certificate.complete
    assert "Not certified" in fp.summary()
    low, high = fp.certificate.undecided.unbind(1)
    assert ((low[:, 0] - 1e-3 < root) & (root < high[:, 0] + 1e-3)).any()
    apart = fp.certificate.undecided.mean(1) - torch.tensor([root, 0.0])
    assert apart.abs().max() < 1e-2  # everything else is decided


def test_a_line_of_fixed_points_is_not_certified(monkeypatch):
    monkeypatch.setattr("mnemoscope.lenses.fixed_points.certificate.BOXES", 2000)
    line = Elman(1, 2, nonlinearity="linear", bias=False)
    with torch.no_grad():
        line.connectivity.matrix.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.5]]))
    fp = ms.find_fixed_points(ms.Dynamics(line, bounds=(-1, 1)), certify=True)
    assert not fp.certificate.complete
    assert fp.may_be_complete is None


def test_a_flow_is_certified_within_a_declared_box():
    """dx/dt = tanh(2 x) - x = F: three points in [-2, 2], and one in [0.5, 2]."""
    cell = Elman(1, 1, bias=False)
    with torch.no_grad():
        cell.connectivity.matrix.fill_(2)
    map_points = ms.find_fixed_points(ms.Dynamics(cell, bounds=(0.5, 2)), certify=True)
    assert (len(map_points), map_points.certificate.complete) == (1, True)
    flow = ms.Dynamics(cell, [0.0], continuous=True, bounds=(-2, 2))
    fp = ms.find_fixed_points(flow, certify=True)
    assert (len(fp), fp.certificate.complete) == (1, True)  # tanh(2 x) = 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.Dynamics(nn.GRU(1, 4)), "above 3 numbers"),
        (lambda: ms.Dynamics(Elman(1, 2, nonlinearity="relu")), "bounds=\\(low, high\\)"),
        (lambda: ms.Dynamics(ms.adapt(torch.add, state_size=1, bounds=(-1, 1))), "define enclose"),
        (lambda: ms.Dynamics(Overridden(1, 2)), "define enclose"),
        (lambda: ms.Dynamics(Wrong(1, 2)), "do not contain"),
    ],
)
def test_a_proof_that_is_not_possible_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        ms.find_fixed_points(make(), certify=True)


class Overridden(GRU):
    """Its step is not that of a GRU, so it does not inherit the ranges."""

    def prepare(self, xs):
        return xs, lambda u, h: 0.5 * h


class Wrong(Overridden):
    """Its ranges are those of a GRU, although its step is not."""

    def enclose(self, x, state):
        return GRU.enclose(self, x, state)


def test_sampled_ranges_find_what_exact_ones_find():
    for W, b in list(MISSED.values())[:2]:
        dynamics = tanh_map(W, b)
        none = torch.zeros(0, 2).double()
        exact = subdivide(residual_enclosure(dynamics), *dynamics.bounds, none, 10_000, 8)
        sampled = subdivide(sampled_enclosure(dynamics), *dynamics.bounds, none, 10_000, 32)
        assert len(exact.undecided) == 0
        assert torch.cdist(exact.roots, sampled.roots).amin(1).max() < 1e-9


@pytest.mark.parametrize("size", [2, 8])
def test_all_points_of_a_line_attractor_are_fixed(size):
    """h' = W h with one eigenvalue 1: every start ends on the line to rounding, and none of them is slow."""
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    decay = torch.linspace(0, 0.9, size, dtype=torch.float64).index_fill(0, torch.tensor([0]), 1.0)
    W = (Q * decay) @ Q.T
    line = torch.linspace(-1, 1, 60, dtype=torch.float64)[:, None] * Q[:, 0]
    near = line + 1e-3 * torch.randn(60, size, generator=generator, dtype=torch.float64)
    fp = ms.find_fixed_points(ms.Dynamics(FunctionCell(lambda x, h: h @ W.T, size)), near)
    assert fp.starts.counts() == {Status.FIXED: 60}
    assert len(fp.slow) == 0
    assert len(fp) <= 60  # no start adds a point other than its own
