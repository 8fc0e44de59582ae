"""Newton's method over a whole sequence: the states and gradients of the loop of steps."""

import warnings

import pytest
import torch

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.cells import (
    GRU,
    LSTM,
    DiagonalGRU,
    DiagonalLSTM,
    Elman,
    HDetach,
    LeakyRNN,
    LSTMState,
    Newton,
    Stack,
    flat_steps,
)
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.connectivity import Dense
from tests.cells.test_cells import CELLS
from tests.slow import representatives

EXACT = 1e-10  # states solve the equations to 2e-12, and errors of a contracting network are a few times that
NETWORKS = {
    "tanh": lambda: Elman(3, 6, "tanh", Dense.from_matrix(0.8 * torch.linalg.qr(torch.randn(6, 6))[0])),
    "complex": lambda: ms.networks.eurnn(3, 4),
    "gru": lambda: GRU(3, 6),
    "lstm": lambda: LSTM(3, 6),
    "lstm-projected": lambda: LSTM(3, 6, projection_size=4),
    "leaky": lambda: LeakyRNN(3, 6, gain=0.5),
    "diagonal-gru": lambda: DiagonalGRU(3, 6),
    "diagonal-lstm": lambda: DiagonalLSTM(3, 6, bias=False),
    "stack": lambda: Stack([DiagonalLSTM(3, 4), GRU(4, 3)]),
}


def network(name, seed=0):
    torch.manual_seed(seed)
    return NETWORKS[name]().double()


def random_problem(cell, time, batch, mask=None):
    xs = torch.randn(time, batch, 3, dtype=torch.float64, requires_grad=True)
    state = map_state(lambda part: (0.5 * torch.randn_like(part)).requires_grad_(), cell.initial_state(batch))
    return xs, state


def outcome(cell, xs, state, **options):
    """Return outputs, tensors of the last state, and the gradients of a random function of both."""
    outputs, last = ms.scan(cell, xs, state, **options)
    found = [outputs, *leaves(last)]
    generator = torch.Generator().manual_seed(5)
    weights = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in found]
    real = [part.real if part.is_complex() else part for part in found]
    loss = sum((weight * part).sum() for weight, part in zip(weights, real, strict=True))
    sources = [xs, *leaves(state), *(p for p in cell.parameters() if p.requires_grad)]
    return found, torch.autograd.grad(loss, sources)


def assert_same(cell, xs, state, backend, **options):
    values, gradients = outcome(cell, xs, state, backend=backend, **options)
    expected, expected_gradients = outcome(cell, xs, state, backend="loop", **options)
    for one, other in zip(values, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=EXACT)
    for one, other in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [1, 3])
def test_states_and_gradients_are_those_of_the_loop(name, batch):
    cell = network(name)
    assert_same(cell, *random_problem(cell, 60, batch), "newton")


@pytest.mark.parametrize("name", ["tanh", "lstm", "diagonal-gru"])
@pytest.mark.parametrize("options", [{"jacobian": "diagonal"}, {"damping": 0.2}, {"window": 7}], ids=str)
def test_every_option_leads_to_the_same_states(name, options):
    cell = network(name)
    assert_same(cell, *random_problem(cell, 40, 2), Newton(**options))


def test_windows_of_the_backward_pass_are_joined(monkeypatch):
    cell = network("gru")
    problem = random_problem(cell, 30, 2)
    monkeypatch.setattr(flat_steps, "MOST_NUMBERS", 4 * 2 * 6**2)  # four steps
    assert flat_steps.FlatSteps(cell, *problem, None).window() == 4
    assert_same(cell, *problem, "newton")


@pytest.mark.parametrize("name", ["gru", "diagonal-lstm"])
def test_sequences_of_unequal_length_hold_their_state(name):
    cell = network(name)
    assert_same(cell, *random_problem(cell, 20, 3), "newton", lengths=[20, 1, 8])


def test_chunks_that_are_recomputed_give_the_same_gradients():
    cell = network("lstm")
    assert_same(cell, *random_problem(cell, 20, 2), "newton", checkpoint=6)


@pytest.mark.parametrize("name", ["tanh", "diagonal-lstm"])
def test_gradcheck(name):
    cell = network(name)
    xs, state = random_problem(cell, 3, 1)

    def run(xs, *parts):
        start = LSTMState(*parts) if len(parts) == 2 else parts[0]
        outputs, last = ms.scan(cell, xs, start, backend=Newton(tolerance=1e-14))
        return outputs, *leaves(last)

    assert torch.autograd.gradcheck(run, (xs, *leaves(state)))


@representatives("slstm", "goru", "mingru", "matrix-gru", "ntm")
@pytest.mark.parametrize("entry", registry.cells, ids=lambda entry: entry.name)
def test_every_registered_cell_runs_or_is_refused_by_name(entry):
    torch.manual_seed(0)
    cell = CELLS[entry.name]().double().eval()
    xs = torch.randn(9, 2, 3, dtype=torch.float64)
    if cell.grows:
        with pytest.raises(ValueError, match="Newton's method cannot run this"):
            ms.scan(cell, xs, backend="newton")
        return
    outputs, last, route = ms.scan(cell, xs, backend="newton", explain=True)
    assert route.iterations <= 9  # an iteration makes at least one more state exact
    expected, expected_last = ms.scan(cell, xs, backend="loop")
    torch.testing.assert_close(outputs, expected, rtol=1e-9, atol=1e-9)
    for one, other in zip(leaves(last), leaves(expected_last), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_an_affine_network_needs_one_iteration():
    cell = Elman(3, 5, "linear", Dense.from_matrix(0.9 * torch.linalg.qr(torch.randn(5, 5))[0])).double()
    route = ms.scan(cell, torch.randn(50, 2, 3, dtype=torch.float64), backend="newton", explain=True)[2]
    assert route.iterations == 1
    assert str(route).startswith("fused: parallel Newton, 1 iterations")


def chaotic():
    torch.manual_seed(1)
    return Elman(3, 40, "tanh", Dense.from_matrix(3 * torch.randn(40, 40) / 40**0.5), bias=False).double()


def test_a_chaotic_network_falls_back_with_a_warning():
    cell, xs = chaotic(), 0.1 * torch.randn(300, 1, 3, dtype=torch.float64)
    with pytest.warns(UserWarning, match=r"did not converge in 20 iterations: \d+ of 300 steps are solved"):
        outputs, last, route = ms.scan(cell, xs, backend=Newton(iterations=20), explain=True)
    expected, expected_last = ms.scan(cell, xs)
    assert torch.equal(outputs, expected)
    assert torch.equal(last, expected_last)
    assert route.why.endswith("as Newton's method did not converge")
    assert route.iterations == 20


def test_a_chaotic_network_converges_in_as_many_iterations_as_steps():
    cell, xs = chaotic(), 0.1 * torch.randn(60, 1, 3, dtype=torch.float64)
    for options in (Newton(iterations=60), Newton(iterations=60, jacobian="diagonal")):
        outputs, _, route = ms.scan(cell, xs, backend=options, explain=True)
        assert 10 < route.iterations <= 60
        # errors of the tolerance grow by at most a factor of 3 per step
        torch.testing.assert_close(outputs[:15], ms.scan(cell, xs)[0][:15], rtol=0, atol=1e-5)


def test_float32_converges_to_its_tolerance():
    cell = network("gru").float()
    xs = torch.randn(500, 2, 3)
    outputs, _, route = ms.scan(cell, xs, backend="newton", explain=True)
    assert route.iterations <= 6
    torch.testing.assert_close(outputs, ms.scan(cell, xs, backend="loop")[0], rtol=0, atol=5e-5)


def test_a_subclass_with_another_step_is_differentiated_by_its_own_step():
    class Shifted(GRU):
        def _step(self, u, h):
            return super()._step(u, h + 0.3 * h * h)

    torch.manual_seed(0)
    cell = Shifted(3, 5).double()
    assert_same(cell, *random_problem(cell, 25, 2), "newton")


def test_a_function_of_the_user_runs_in_parallel():
    W = 0.3 * torch.randn(4, 4, dtype=torch.float64)
    step = lambda x, h: torch.sin(h @ W + x.sum(-1, keepdim=True))  # noqa: E731
    cell = ms.adapt(step, state=torch.zeros(1, 4, dtype=torch.float64))
    xs = torch.randn(50, 2, 3, dtype=torch.float64)
    start = torch.zeros(2, 4, dtype=torch.float64)
    outputs = ms.scan(cell, xs, start, backend="newton")[0]
    torch.testing.assert_close(outputs, ms.scan(cell, xs, start, backend="loop")[0], rtol=0, atol=EXACT)


def test_no_gradient_costs_no_graph():
    cell = network("gru").requires_grad_(False)
    assert not ms.scan(cell, torch.randn(9, 2, 3, dtype=torch.float64), backend="newton")[0].requires_grad


def test_an_empty_batch_has_empty_outputs():
    assert ms.scan(network("gru"), torch.zeros(5, 0, 3, dtype=torch.float64), backend="newton")[0].shape == (5, 0, 6)


def test_second_derivatives_are_refused_by_name():
    cell = network("gru")
    xs, state = random_problem(cell, 5, 2)
    outputs = ms.scan(cell, xs, state, backend="newton")[0]
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(outputs.sum(), xs, create_graph=True)


def unchecked(function):
    """Return a function without the check of types by the tests, which refuses names that the hints do not list."""
    return getattr(function, "__wrapped__", function)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, "tolerance must be between 0 and 1, but is 0.0"),
        ({"iterations": 0}, "iterations must be a whole number, at least 1"),
        ({"jacobian": "sparse"}, "jacobian must be 'full' or 'diagonal', but is 'sparse'"),
        ({"damping": 1.0}, "damping must be at least 0 and below 1, but is 1.0"),
        ({"window": 0}, "window must be a whole number, at least 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        unchecked(Newton.__init__)(object.__new__(Newton), **options)


def test_what_newton_cannot_run_is_refused_with_the_reason():
    cell = network("gru")
    xs = torch.randn(4, 2, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="backend must be 'auto', 'loop', 'fused', 'newton'"):
        unchecked(ms.scan)(cell, xs, backend="deer")
    with pytest.raises(ValueError, match=r"cannot run this HDetach: .* call eval"):
        ms.scan(HDetach(3, 4).double(), xs, backend="newton")
    with pytest.raises(ValueError, match="its state grows"):
        ms.scan(ms.networks.memrnn(3, 4).double(), xs, backend="newton")
    with pytest.raises(ValueError, match=r"a torch\.func transform is active"):
        torch.func.vmap(lambda one: ms.scan(cell, one, backend="newton")[0])(xs.unsqueeze(0))


def test_a_stack_that_learns_with_cut_gradients_is_refused():
    stack = Stack([GRU(3, 4), HDetach(4, 4)]).double()
    xs = torch.randn(4, 2, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="cannot run this Stack"):
        ms.scan(stack, xs, backend="newton")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.scan(stack.eval(), xs, backend="newton")
