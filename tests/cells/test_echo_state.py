"""Echo state networks: their step, their Jacobian on W_c, and many of them at once."""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EchoState, Model, Reservoirs
from mnemoscope.kernels.sparse_products import LONG_FOR_MKL, MKLMatrix, ScipyMatrix, block_diagonal
from tests.slow import representatives

FORMS = ("current", "rate")


def made(form="current", nonlinearity="tanh", units=12, inputs=2, outputs=3, seed=0, **options):
    torch.manual_seed(seed)
    cell = EchoState(inputs, units, outputs, form=form, nonlinearity=nonlinearity, bias_scale=0.3, **options).double()
    if outputs:
        with torch.no_grad():
            cell.readout.normal_(0, 0.3)
    return cell


def test_a_sparse_reservoir_takes_no_sequences_at_all():
    cell = EchoState(3, 50)
    with torch.no_grad():
        outputs, last = ms.scan(cell, torch.randn(5, 0, 3))
    assert outputs.shape[:2] == (5, 0)
    assert len(last) == 0


def test_vectors_of_another_size_are_refused_by_the_sparse_product():
    matrix = ScipyMatrix(torch.tensor([0, 1, 2]).int(), torch.tensor([0, 1]).int(), torch.ones(2))
    with pytest.raises(ValueError, match=r"must have 2 numbers, but have \(0, 0\)"):
        matrix.times_vector(torch.ones(0))
    with pytest.raises(ValueError, match="must have 2 numbers"):
        matrix.add_times_vector(np.ones(3, "f"), np.ones(2, "f"), np.ones(3, "f"))


def numbers(cell):
    return {name: value.detach().numpy() for name, value in cell.named_parameters()}


def slow_states(cell, xs, state):
    """Compute Eq 22-23 unit by unit, with the feedback of z = W_o r as a separate term."""
    W = numbers(cell)
    phi = {"tanh": np.tanh, "logistic": lambda v: 1 / (1 + np.exp(-v))}[cell.phi.extra_repr()]
    x, states, N = state.copy(), [], len(state)
    for u in xs:
        r = phi(x) if cell.form == "current" else x
        z = [sum(W["readout"][k, j] * r[j] for j in range(N)) for k in range(W["readout"].shape[0])]
        pre = np.array([
            sum(W["recurrent"][i, j] * r[j] for j in range(N))
            + sum(W["feedback"][i, k] * z[k] for k in range(len(z)))
            + sum(W["drive"][i, k] * u[k] for k in range(len(u)))
            + W["bias"][i]
            for i in range(N)
        ])  # fmt: skip
        x = x + cell.leak * (-x + (pre if cell.form == "current" else phi(pre)))
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("phi", ["tanh", "logistic"])
def test_states_follow_the_equations(form, phi):
    cell = made(form, phi, tau=4.0)
    xs = torch.randn(15, 1, 2, dtype=torch.float64)
    expected = slow_states(cell, xs[:, 0].numpy(), np.full(12, 0.2))
    start = torch.full((1, 12), 0.2, dtype=torch.float64)
    for backend in ("loop", "fused"):
        with torch.no_grad():
            rates, last = ms.scan(cell, xs, start, backend=backend)
        np.testing.assert_allclose(last[0].numpy(), expected[-1], rtol=0, atol=1e-13)
        seen = cell.output(torch.from_numpy(expected))
        torch.testing.assert_close(rates[:, 0], seen, rtol=0, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_the_closed_form_jacobian_is_that_of_autograd(form):
    dynamics = ms.Dynamics(made(form), torch.tensor([0.5, -1.0]))
    states = torch.rand(5, 12, dtype=torch.float64) * 2 - 1
    torch.testing.assert_close(dynamics.jacobian(states), dynamics.jacobian_by_autograd(states), rtol=0, atol=1e-14)


def test_the_jacobian_is_that_of_the_combined_matrix():
    cell = made()
    W = numbers(cell)
    W_c = W["recurrent"] + W["feedback"] @ W["readout"]
    np.testing.assert_allclose(cell.combined().detach().numpy(), W_c, atol=1e-15)
    x = np.linspace(-1, 1, 12)
    expected = (1 - cell.leak) * np.eye(12) + cell.leak * W_c * (1 - np.tanh(x) ** 2)
    J = ms.Dynamics(cell).jacobian(torch.from_numpy(x)[None])[0].numpy()
    np.testing.assert_allclose(J, expected, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("phi", ["tanh", "logistic"])
def test_the_box_is_kept_and_touched(form, phi):
    cell = made(form, phi)
    low, high = cell.bounds(torch.tensor([-1.0, 0.0]).double(), torch.tensor([1.0, 2.0]).double())
    generator = torch.Generator().manual_seed(0)
    corners = torch.where(torch.rand(500, 12, generator=generator) < 0.5, low, high)
    inputs = torch.rand(500, 2, generator=generator).double() * 2 - torch.tensor([1.0, 0.0])
    with torch.no_grad():
        states = corners
        for _ in range(50):
            states = cell(inputs, states)
            assert ((states >= low - 1e-12) & (states <= high + 1e-12)).all()
    if form == "current":  # no smaller box of this form would do: rates at their limits reach its faces
        W, B = cell.combined().detach()[0], cell.drive[0]
        reached = W @ cell.phi(1e3 * torch.sign(W)) + cell.bias[0] + B[0].abs() + 2 * B[1].clamp_min(0)
        torch.testing.assert_close(reached, high[0].detach(), rtol=1e-5, atol=0)


def test_unbounded_rates_know_no_box():
    assert made(nonlinearity="relu").bounds(torch.zeros(2).double(), torch.zeros(2).double()) is None


@representatives("current-1-0.1", "rate-1-0.1")
@pytest.mark.parametrize("density", [0.1, 1.0])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("form", FORMS)
def test_reservoirs_together_are_reservoirs_alone(density, batch, form):
    cells = [made(form, seed=seed, units=40, density=density) for seed in range(9)]  # more than one group
    shared = torch.randn(30, batch, 2, dtype=torch.float64)
    own = torch.randn(30, 9, batch, 2, dtype=torch.float64)
    for xs in (shared, own):
        rates, last = Reservoirs(cells).run(xs)
        outputs, _ = Reservoirs(cells).run_outputs(xs)
        for number, cell in enumerate(cells):
            with torch.no_grad():
                alone, state = ms.scan(cell, xs if xs.dim() == 3 else xs[:, number], backend="loop")
                torch.testing.assert_close(rates[:, number], alone, rtol=0, atol=1e-13)
                torch.testing.assert_close(last[number], state, rtol=0, atol=1e-13)
                torch.testing.assert_close(outputs[:, number], cell.read(alone), rtol=0, atol=1e-13)


def test_gradients_and_masks_take_the_scan_of_leaky_units():
    cell, xs = made(), torch.randn(6, 2, 2, dtype=torch.float64)
    assert "fused leaky units" in str(ms.scan(cell, xs, explain=True)[2])
    with torch.no_grad():
        assert ms.scan(cell, xs, explain=True)[2].why == "reservoir"
        mask = torch.ones(6, 2, dtype=torch.bool)
        assert "fused leaky units" in str(ms.scan(cell, xs, mask=mask, explain=True)[2])


def test_only_the_readout_wants_gradients():
    assert [name for name, value in made().named_parameters() if value.requires_grad] == ["readout"]
    outputs, _ = made().as_model()(torch.randn(4, 2, 2, dtype=torch.float64))
    outputs.sum().backward()


def test_the_model_shares_the_readout_that_is_fed_back():
    cell = made()
    model = cell.as_model()
    assert model.readout.weight is cell.readout
    xs = torch.randn(7, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model(xs)[0], cell.read(ms.scan(cell, xs)[0]))


def test_a_frozen_copy_forms_the_combined_matrix_and_keeps_the_parts():
    cell = made()
    frozen = cell.frozen(torch.float64)
    with torch.no_grad():
        cell.readout.zero_()
    assert not torch.equal(frozen.combined(), cell.combined())
    torch.testing.assert_close(frozen.combined(), frozen.recurrent + frozen.feedback @ frozen.readout)


def test_a_frozen_copy_that_is_changed_forms_the_matrix_anew():
    frozen = made().frozen(torch.float64)
    frozen.load_state_dict(made(seed=1).state_dict())
    torch.testing.assert_close(frozen.combined(), frozen.recurrent + frozen.feedback @ frozen.readout)


@pytest.mark.parametrize("number", [3, 9])
def test_reservoirs_are_what_they_were_made_of(number):
    cells = [made(seed=seed, units=40) for seed in range(number)]
    together, xs = Reservoirs(cells), torch.randn(10, 1, 2, dtype=torch.float64)
    before = together.run(xs)[0]
    with torch.no_grad():
        for cell in cells:
            cell.readout.zero_()
    assert torch.equal(together.run(xs)[0], before)


def test_threads_are_as_they_were():
    cells, before = [made(seed=seed, units=40) for seed in range(9)], torch.get_num_threads()
    together, xs = Reservoirs(cells), torch.randn(50, 1, 2, dtype=torch.float64)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: together.run(xs), range(6)))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == before
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("which", ["modrelu", torch.sin])
def test_any_nonlinearity_runs_by_the_fast_path(which, batch):
    cell, xs = made(nonlinearity=which, units=40), torch.randn(10, batch, 2, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(ms.scan(cell, xs, backend="fused")[0], ms.scan(cell, xs, backend="loop")[0])


def test_half_precision_runs():
    cell = made(units=40).bfloat16()
    with torch.no_grad():
        assert ms.scan(cell, torch.randn(3, 1, 2, dtype=torch.bfloat16))[0].dtype == torch.bfloat16


def test_weights_survive_saving(tmp_path):
    cell, other = made(), made(seed=1)
    torch.save(cell.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    torch.testing.assert_close(other.combined(), cell.combined())


def test_given_weights_make_the_same_network():
    cell = made("rate")
    W = dict(cell.named_parameters())
    again = EchoState.from_weights(W["recurrent"], W["drive"], feedback=W["feedback"], readout=W["readout"],
                                 bias=W["bias"], leak=cell.leak, form="rate")  # fmt: skip
    xs = torch.randn(9, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(ms.scan(again, xs)[0], ms.scan(cell, xs)[0])


@pytest.mark.parametrize("form", ["current", "rate"])
def test_a_copy_with_another_readout_differs_in_nothing_else(form):
    cell = made(form)
    own = cell.get_parameter("readout").detach().clone()
    other = cell.frozen().with_readout(2 * own)
    assert torch.equal(other.get_parameter("readout"), 2 * own)
    assert torch.equal(cell.get_parameter("readout"), own)
    xs = torch.randn(9, 2, 2, dtype=torch.float64)
    with torch.no_grad():
        again, first = ms.scan(other.with_readout(own), xs)[0], ms.scan(cell, xs)[0]
        torch.testing.assert_close(again, first)
        assert not torch.allclose(ms.scan(other, xs)[0], first)


def test_gain_and_density_are_as_asked():
    torch.manual_seed(0)
    W = EchoState(1, 600, gain=1.5, density=0.1).recurrent.double()
    assert 0.095 < (W != 0).double().mean() < 0.105
    radius = torch.linalg.eigvals(W).abs().max()
    assert 1.4 < radius < 1.65


def test_a_reservoir_below_the_edge_forgets_and_one_above_does_not():
    states = torch.randn(2, 300, dtype=torch.float64)
    apart = {}
    for gain in (0.8, 2.0):
        torch.manual_seed(0)
        cell = EchoState(1, 300, gain=gain).double()
        with torch.no_grad():
            _, last = ms.scan(cell, torch.zeros(1500, 2, 1, dtype=torch.float64), states)
        apart[gain] = (last[0] - last[1]).norm().item()
    assert apart[0.8] < 1e-4
    assert apart[2.0] > 1


def test_copies_of_reservoirs_run_together_as_well():
    cells = [made(nonlinearity="tanh", seed=seed) for seed in (0, 1)]
    xs = torch.randn(5, 1, 2, dtype=torch.float64)
    own, copied = (Reservoirs(several).run(xs)[0] for several in (cells, [deepcopy(cell) for cell in cells]))
    assert torch.equal(own, copied)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EchoState(0, 5), "input_size must be a whole number, at least 1, but is 0"),
        (lambda: EchoState(1, 5, -1), "output_size must be a whole number, at least 0, but is -1"),
        (lambda: EchoState(1, 5, gain=-1.0), "gain must be"),
        (lambda: EchoState(1, 5, input_scale=float("inf")), "input_scale must be"),
        (lambda: EchoState(1, 5, tau=0.5), "0 < dt <= tau"),
        (lambda: EchoState(1, 5, density=0.0), "density"),
        (lambda: EchoState(1, 5, nonlinearity="tanhh"), "Unknown nonlinearity"),
        (lambda: EchoState(1, 5).read(torch.zeros(1, 5)), "This reservoir has no readout"),
        (lambda: EchoState(1, 5).as_model(), "This reservoir has no readout"),
        (lambda: EchoState(1, 5).with_readout(torch.zeros(1, 5)), "This reservoir has no readout"),
        (lambda: EchoState(1, 5, 2).with_readout(torch.zeros(1, 5)), r"readout must be .*\(2, 5\)"),
        (lambda: EchoState.from_weights(torch.eye(3), torch.zeros(4, 1)), r"drive must be .*\(3, 1\)"),
        (lambda: EchoState.from_weights(torch.full((2, 2), torch.nan), torch.zeros(2, 1)), "must be finite"),
        (lambda: EchoState.from_weights(torch.eye(2), torch.zeros(2, 1), leak=1.5), "leak"),
        (lambda: Reservoirs([]), "the list is empty"),
        (lambda: Reservoirs([EchoState(1, 5), EchoState(1, 6)]), "must agree in sizes"),
        (lambda: Reservoirs([made(nonlinearity=one) for one in (torch.sin, torch.tanh)]), "must agree in sizes"),
        (lambda: Reservoirs([made(nonlinearity="modrelu", seed=seed) for seed in (0, 1)]), "must agree in sizes"),
        (lambda: Reservoirs([made(nonlinearity="tanh"), made(nonlinearity="relu")]), "must agree in sizes"),
        (lambda: Reservoirs([EchoState(1, 5)]).run_outputs(torch.zeros(3, 1, 1)), "no readout"),
        (lambda: Reservoirs([EchoState(1, 5)]).run(torch.zeros(3, 1, 2)), "1 input features"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_plain_reservoir_is_trained_by_gradients_too():
    torch.manual_seed(0)
    model = Model(EchoState(1, 30, tau=2.0), 1)
    xs = torch.rand(40, 8, 1)
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.02)
    losses = []
    for _ in range(60):
        loss = (model(xs)[0] - xs).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("entries_per_row", [10, LONG_FOR_MKL + 10])
@pytest.mark.parametrize("kind", [MKLMatrix, ScipyMatrix])
def test_every_sparse_product_is_that_of_the_dense_matrix(kind, entries_per_row, dtype, monkeypatch):
    if kind is MKLMatrix and not torch.backends.mkl.is_available():
        pytest.skip("torch has no MKL on this machine")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: kind is MKLMatrix)
    W = torch.zeros(2, 150, 150, dtype=dtype)
    for row in W.flatten(0, 1):
        row[torch.randperm(150)[:entries_per_row]] = torch.randn(entries_per_row, dtype=dtype)
    sparse, dense = block_diagonal(list(W)), torch.block_diag(*W).double()
    u, x, X = (torch.randn(*shape, dtype=dtype) for shape in ((300,), (300,), (300, 4)))
    out, rounding = torch.full_like(u, torch.nan), 8 * entries_per_row * torch.finfo(dtype).eps
    sparse.add_times_vector(u.numpy(), x.numpy(), out=out.numpy())
    for product, expected in (
        (sparse.times_vector(x), dense @ x.double()),
        (sparse.times_matrix(X), dense @ X.double()),
        (out, u + dense @ x.double()),
    ):
        assert product.dtype == dtype
        torch.testing.assert_close(product.double(), expected, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("leak", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("form", ["current", "rate"])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "logistic", "modrelu", torch.sin])
def test_sparse_reservoirs_of_every_leak_and_nonlinearity_run_as_the_loop_does(nonlinearity, form, leak):
    cell = EchoState(2, 30, density=0.1, tau=1 / leak, form=form, nonlinearity=nonlinearity, bias_scale=0.3).double()
    xs, start = torch.randn(7, 1, 2, dtype=torch.float64), torch.randn(1, 30, dtype=torch.float64)
    with torch.no_grad():
        rates, last = ms.scan(cell, xs, start, backend="fused")
        expected, state = ms.scan(cell, xs, start, backend="loop")
    torch.testing.assert_close(rates, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(last, state, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", [MKLMatrix, ScipyMatrix])
def test_every_sparse_product_runs_reservoirs_as_the_loop_does(kind, batch, monkeypatch):
    if kind is MKLMatrix and not torch.backends.mkl.is_available():
        pytest.skip("torch has no MKL on this machine")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: kind is MKLMatrix)
    cells = [EchoState(3, 40, 2, density=0.1).double() for _ in range(5)]
    for cell in cells:
        torch.nn.init.normal_(cell.readout)
    reservoirs, xs = Reservoirs(cells), torch.randn(9, batch, 3, dtype=torch.float64)
    assert isinstance(reservoirs._blocks, kind)
    rates, last = reservoirs.run(xs)
    outputs, _ = reservoirs.run_outputs(xs)
    for number, cell in enumerate(cells):
        expected, state = ms.scan(cell, xs, backend="loop")
        torch.testing.assert_close(rates[:, number], expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(last[number], state, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(outputs[:, number], cell.read(expected), rtol=1e-11, atol=1e-11)
