"""Lagrangians to all digits: values, conjugates, slopes and gradients against fifty digits, near 0 and at the edges."""

from math import inf

import mpmath as mp
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells.lagrangians import LAGRANGIANS, Logistic, Polynomial, ReLU, Softmax, Tanh, make_lagrangian
from tests.slow import representatives

mp.mp.dps = 50
DIGITS = 4e-15  # relative error: about twenty roundings of float64 and no other loss
SIZES = [1e-160, 1e-20, 1e-9, 1e-4, 0.3, 0.49999, 0.5, 0.50001, 0.99999, 1.0, 1.00001, 3.0, 18.0, 40.0, 300.0, 1e4]
PLACES = [0.0, *SIZES, *(-size for size in SIZES)]
FIRED = [0.0, 1e-160, 1e-20, 1e-9, 1e-4, 0.2, 0.49999, 0.5, 0.50001, 0.9, 1 - 1e-9, 1 - 2.0**-53, 1.0]
EACH = [Tanh(), Tanh(2.5), Logistic(), Logistic(2.5), ReLU(), Polynomial(), Polynomial(1.5), Polynomial(4.0),
        make_lagrangian("linear")]  # fmt: skip


def exact(sigma):
    """sigma, L, L* and sigma' of one unit, in mpmath."""
    b = mp.mpf(getattr(sigma, "beta", 1))
    if sigma.name == "tanh":
        return (lambda x: mp.tanh(b * x), lambda x: mp.log(mp.cosh(b * x)) / b,
                lambda g: (_xlogx(1 + g) + _xlogx(1 - g)) / (2 * b), lambda x: b / mp.cosh(b * x) ** 2)  # fmt: skip
    if sigma.name == "logistic":
        return (lambda x: 1 / (1 + mp.exp(-b * x)), lambda x: mp.log1p(mp.exp(b * x)) / b,
                lambda g: (_xlogx(g) + _xlogx(1 - g)) / b,
                lambda x: b / (2 + mp.exp(b * x) + mp.exp(-b * x)))  # fmt: skip
    if sigma.name == "relu":
        return (lambda x: max(x, mp.mpf(0)), lambda x: max(x, mp.mpf(0)) ** 2 / 2, lambda g: g**2 / 2,
                lambda x: mp.mpf(x > 0))  # fmt: skip
    degree = getattr(sigma, "degree", 2.0)
    n, m = mp.mpf(degree), mp.mpf(degree / (degree - 1))  # an exponent as float64 has it: 4 / 3 is none
    return (lambda x: mp.sign(x) * abs(x) ** (n - 1), lambda x: abs(x) ** n / n, lambda g: abs(g) ** m / m,
            lambda x: (n - 1) * (abs(x) ** (n - 2) if x or n != 2 else mp.mpf(1)))  # fmt: skip


def _xlogx(x):
    return x * mp.log(x) if x else mp.mpf(0)


def assert_same(found, expected, digits=DIGITS, besides=1e-307):
    """Compare up to a relative error, ignoring differences below the smallest normal number."""
    allowed = digits if isinstance(digits, list) else [digits] * len(expected)
    for one, other, share in zip(found.tolist(), expected, allowed, strict=True):
        assert abs(one - other) <= share * abs(other) + mp.mpf(besides), (one, mp.nstr(other, 20))


def units(values):
    """Put each value into a separate batch member, since L is a sum over units."""
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


@representatives(
    "linear", "logistic, beta = 2.5", "polynomial, degree = 1.5", "polynomial, degree = 4", "relu", "tanh, beta = 2.5"
)
@pytest.mark.parametrize("sigma", EACH, ids=lambda sigma: sigma.extra_repr())
def test_values_slopes_and_gradients_to_all_digits(sigma):
    given = [x for x in PLACES if x or getattr(sigma, "degree", 2) >= 2]  # slopes of degree < 2 are infinite at 0
    fires, value, _, slope = exact(sigma)
    x = units(given).requires_grad_()
    at = [mp.mpf(one) for one in given]
    with mp.workdps(1000):  # log cosh 1e-160 is of order 1e-320
        expected = [value(one) for one in at]
    assert_same(sigma.value(x), expected)
    # e^-z has a relative error of z eps, by its argument's rounding alone
    far = [DIGITS + 4e-16 * abs(one) * getattr(sigma, "beta", 0) for one in given]
    assert_same(sigma(x)[:, 0], [fires(one) for one in at], far)
    assert_same(sigma.slope(x)[:, 0], [slope(one) for one in at], far)
    (gradient,) = torch.autograd.grad(sigma.value(x).sum(), x)
    assert_same(gradient[:, 0], [fires(one) for one in at], far)


@representatives("linear", "logistic", "polynomial, degree = 1.5", "relu", "tanh, beta = 2.5")
@pytest.mark.parametrize("sigma", EACH, ids=lambda sigma: sigma.extra_repr())
def test_conjugates_to_all_digits(sigma):
    given = [*FIRED, *(-one for one in FIRED)] if sigma.low < 0 else FIRED
    _, _, conjugate, _ = exact(sigma)
    with mp.workdps(1000):
        expected = [conjugate(mp.mpf(one)) for one in given]
    assert_same(sigma.conjugate(units(given)), expected)


@pytest.mark.parametrize("sigma", EACH, ids=lambda sigma: sigma.extra_repr())
def test_gradients_of_conjugates_are_the_inverse(sigma):
    """grad L* = sigma^-1 inside the range, and finite nowhere else than there."""
    inside = [0.2, 0.49999, 0.50001, 0.9, 1 - 1e-9] + ([1e-9, 1e-20, -0.3, -0.7] if sigma.low < 0 else [1e-9, 1e-20])
    g = units(inside).requires_grad_()
    (back,) = torch.autograd.grad(sigma.conjugate(g).sum(), g)
    b = mp.mpf(getattr(sigma, "beta", 1))
    n = mp.mpf(getattr(sigma, "degree", 2))
    inverse = {
        "tanh": lambda one: mp.atanh(one) / b,
        "logistic": lambda one: mp.log(one / (1 - one)) / b,
        "polynomial": lambda one: mp.sign(one) * abs(one) ** (1 / (n - 1)),
    }.get(sigma.name, lambda one: one)
    # log g - log(1 - g) cancels about g = 1/2, where it is of rounding of log 2
    assert_same(
        back[:, 0], [inverse(mp.mpf(one)) for one in inside], besides=1e-15 if sigma.name == "logistic" else 1e-307
    )


@pytest.mark.parametrize("name", LAGRANGIANS)
def test_gradients_are_finite_everywhere(name):
    sigma = make_lagrangian(name)
    x = torch.tensor([PLACES], dtype=torch.float64, requires_grad=True)
    for function in (sigma.value, sigma, *((sigma.slope,) if sigma.elementwise else ())):
        total = function(x).sum()
        if total.requires_grad:  # slopes of linear and relu are constant
            (gradient,) = torch.autograd.grad(total, x)
            assert torch.isfinite(gradient).all()
    edges = torch.tensor([[0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    assert torch.isfinite(sigma.conjugate(edges)).all()  # at the edges L* is finite, though not its slope


def test_outside_the_range_conjugates_are_infinite():
    for sigma, outside in ((Tanh(), (1.001, -1.001)), (Logistic(), (1.001, -0.001)), (ReLU(), (-0.001,))):
        assert all(float(sigma.conjugate(torch.tensor([one]).double())) == inf for one in outside)
    assert float(Softmax().conjugate(torch.tensor([0.5, 0.4]).double())) == inf
    assert float(Tanh().conjugate(torch.tensor([1 + 2e-16]).double())) == pytest.approx(torch.log(torch.tensor(2.0)))


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_softmax_to_all_digits(beta):
    sigma = Softmax(beta)
    rows = [[0.0, 0.0, 0.0], [1e-9, -1e-9, 0.0], [1.0, 2.0, -0.5], [700.0, -700.0, 3.0], [-40.0, -41.0, -900.0]]
    x = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    fired, values = [], []
    for row in rows:
        powers = [mp.exp(mp.mpf(beta) * mp.mpf(one)) for one in row]
        total = mp.fsum(powers)
        fired += [one / total for one in powers]
        values.append(mp.log(total) / beta)
    assert_same(sigma(x).flatten(), fired, 2e-13)  # e^-z by its argument's rounding: up to 700 of them
    assert_same(sigma.value(x), values)
    s = sigma(x).detach()
    conjugates = [mp.fsum(_xlogx(mp.mpf(one)) for one in row) / beta for row in s.tolist()]
    assert_same(sigma.conjugate(s), conjugates)
    (gradient,) = torch.autograd.grad(sigma.value(x).sum(), x)
    torch.testing.assert_close(gradient, s, rtol=0, atol=5e-13)  # exp(x - L), of which L is of order 2,000
    J = torch.func.vmap(torch.func.jacrev(sigma.forward))(x.detach())
    torch.testing.assert_close(sigma.jacobian(x.detach()), J, rtol=0, atol=1e-15)


@pytest.mark.parametrize("sigma", [*EACH, Softmax(), Softmax(3.0)], ids=lambda sigma: sigma.extra_repr())
def test_fenchel_young_is_an_equality_at_g_equal_sigma_of_x(sigma):
    """Fenchel and Young: L(x) + L*(g) >= x.g, with equality where g = sigma(x)."""
    x, other = torch.randn(2, 200, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).unbind(0)
    g = sigma(x)
    torch.testing.assert_close(sigma.value(x) + sigma.conjugate(g), (x * g).sum(1), rtol=1e-13, atol=1e-13)
    assert (sigma.value(other) + sigma.conjugate(g) - (other * g).sum(1) >= -1e-13).all()
    assert (sigma.divergence(x, other) >= -1e-13).all()


@pytest.mark.parametrize("size", [1e-9, 1e-15, 1e-20])
def test_energies_of_tiny_states_are_accurate(size):
    """L and L* of tanh at x are x^2 / 2 to rounding, so that the energy of tiny states visibly decreases."""
    x = torch.full((1, 3), size, dtype=torch.float64)
    half = 3 * mp.mpf(size) ** 2 / 2
    assert_same(Tanh().value(x), [half], 1e-15)
    assert_same(Tanh().conjugate(torch.tanh(x)), [half], 1e-15)


def test_the_energy_of_a_network_that_fades_falls_to_the_last_digit():
    """Without bias states decay to 0, where an inaccurate energy would seem to rise."""
    net = torch.nn.RNN(1, 4, bias=False).double()
    net.weight_hh_l0.data = 0.5 * torch.eye(4).double()
    starts = torch.randn(16, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for size in (1.0, 1e-9, 1e-20):
        states = [size * starts]
        for _ in range(30):
            states.append(torch.tanh(0.5 * states[-1]))
        report = ms.energy_descent(net, torch.stack(states))
        assert report.guaranteed
        assert int(report.rises.sum()) == 0
        assert (report.change < 0).all()
        assert report.error < 1e-14
    assert int(ms.energy_descent(net).rises.sum()) == 0
