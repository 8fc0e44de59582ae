"""Planted networks hold the variables that they declare."""

import pytest
import torch
from torch.func import jacrev

from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables import planted_network
from tests.slow import representatives

CASES = [
    {},
    {"bias": True},
    {"nonlinearity": "tanh"},
    {"nonlinearity": "tanh", "bias": True},
    {"nonlinearity": "tanh", "bias": True, "gain": 1.05, "offset": 0.5},
    {"F": SignedSelection.compose_copy(3)},
]


def draw(seed=0, units=16, transients=4, **options):
    return planted_network(3, 3, units, transients, torch.Generator().manual_seed(seed), **options)


@pytest.mark.parametrize("options", CASES)
def test_the_linearisation_at_the_fixed_point_is_the_one_planted(options):
    net = draw(**options)
    cell, rest, still = net.model.cell, net.rest(1), torch.zeros(1, 3, dtype=torch.float64)
    assert (rest.abs().max() > 0) == options.get("bias", False)
    torch.testing.assert_close(cell(still, rest), rest, rtol=0, atol=1e-12)
    torch.testing.assert_close(jacrev(lambda h: cell(still, h))(rest)[0, :, 0], net.A, rtol=0, atol=1e-12)
    torch.testing.assert_close(jacrev(lambda u: cell(u, rest))(still)[0, :, 0], net.B, rtol=0, atol=1e-12)
    torch.testing.assert_close(net.model.readout.weight.detach(), net.C, rtol=0, atol=0)
    outputs, _ = net.model(torch.zeros(1, 1, 3, dtype=torch.float64), rest)
    assert outputs.abs().max() < 1e-12


@pytest.mark.parametrize("options", CASES)
def test_the_declared_basis_diagonalises_the_memory(options):
    net = draw(**options)
    basis, eye = net.basis, torch.eye(9, dtype=torch.float64)
    torch.testing.assert_close(basis.duals @ basis.vectors, eye, rtol=0, atol=1e-12)
    torch.testing.assert_close(net.A @ basis.vectors, basis.vectors @ net.Phi, rtol=0, atol=1e-11)
    torch.testing.assert_close(basis.duals @ net.A, net.Phi @ basis.duals, rtol=0, atol=1e-11)
    torch.testing.assert_close(basis.duals @ net.B, eye[:, -3:], rtol=0, atol=1e-12)
    torch.testing.assert_close(net.C @ basis.vectors, eye[-3:], rtol=0, atol=1e-12)
    # the basis is hidden: it is not orthogonal, and transients are driven and read, so neither B nor C reveals it
    gram = basis.vectors.mT @ basis.vectors
    assert (gram - gram.diagonal().diag()).abs().max() > 0.1
    off = torch.eye(16, dtype=torch.float64) - basis.projection()
    assert (off @ net.B).norm() > 0.1
    assert (net.C @ off).norm() > 0.1
    assert (torch.linalg.pinv(basis.vectors) - basis.duals).abs().max() > 0.1


def test_transients_fade_and_are_not_normal():
    net = draw()
    moduli = torch.linalg.eigvals(net.A).abs().sort().values
    assert int((moduli > 0.71).sum()) == 9
    assert int((moduli > 1e-6).sum()) == 13
    M = net.transient
    torch.testing.assert_close(torch.linalg.eigvals(M).abs().max(), torch.tensor(0.7).double())
    assert (M @ M.mT - M.mT @ M).norm() > 0.1


def test_the_linear_network_with_leaks_holds_the_variables():
    net = draw(bias=True)
    first = torch.randn(3, 5, 3, dtype=torch.float64)
    inputs = torch.cat([first, torch.zeros(20, 5, 3, dtype=torch.float64)])
    states, h = [], net.rest(5)
    for u in inputs:
        h = net.model.cell(u, h)
        states.append(h)
    held = net.basis.read(torch.stack(states) - net.fixed_point)
    x = SignedSelection.repeat_copy(3, 3).simulate(first, 20)
    for time in range(3, 23):  # the last three vectors, the oldest first
        torch.testing.assert_close(held[time - 1].transpose(0, 1), x[time - 3 : time], rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_newton_finds_the_fixed_point_of_a_tanh_network_from_zero(seed):
    net = draw(seed, units=24, bias=True, nonlinearity="tanh", gain=1.2)
    cell, still, h = net.model.cell, torch.zeros(1, 3, dtype=torch.float64), torch.zeros(1, 24, dtype=torch.float64)
    with torch.no_grad():
        for _ in range(10):
            step = torch.linalg.solve(cell.jacobian(still, h)[0] - torch.eye(24), (h - cell(still, h))[0])
            h = h + step
    torch.testing.assert_close(h[0], net.fixed_point, rtol=0, atol=1e-12)


@representatives("6")
@pytest.mark.parametrize("seed", range(20))
def test_the_basis_is_skewed_but_invertible(seed):
    net = draw(seed, units=13)
    # parts of T and of its inverse are conditioned better than T itself, whose condition number is up to 30
    for part in (net.basis.vectors, net.basis.duals):
        assert 3 < torch.linalg.cond(part) < 30


def test_a_network_may_have_no_transients():
    net = draw(units=9, transients=0)
    assert net.transient.shape == (0, 0)
    torch.testing.assert_close(net.basis.vectors @ net.Phi @ net.basis.duals, net.A)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"units": 12}, "need 13 units at least, but units=12"),
        ({"transients": -1}, "units at least"),
        ({"nonlinearity": "relu"}, "linear or tanh, but is 'relu'"),
        ({"offset": 0.7}, "from 0 to 0.6, .* but is 0.7"),
        ({"F": SignedSelection.compose_copy(4)}, r"F must be \(3, 9\).* but is \(4, 16\)"),
        ({"F": torch.zeros(3, 8)}, r"matrix \(d, s d\), but its shape is \(3, 8\)"),
        ({"F": torch.full((3, 9), torch.nan)}, "finite real matrix"),
    ],
)
def test_wrong_arguments_raise(options, message):
    with pytest.raises(ValueError, match=message):
        draw(**options)
