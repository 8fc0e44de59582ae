"""Networks of one's own: their layout, nested states, and sequences of unequal length."""

import inspect
from typing import NamedTuple

import pytest
import torch
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import mnemoscope as ms
from mnemoscope.cells.state import leaves
from mnemoscope.lenses.fixed_points import FromTrajectories

ROUNDING = 1e-12
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
BATCH_FIRST = {
    "rnn": lambda: torch.nn.RNN(3, 6, batch_first=True),
    "gru": lambda: torch.nn.GRU(3, 6, num_layers=2, batch_first=True),
    "lstm": lambda: torch.nn.LSTM(3, 6, batch_first=True),
    "computed": lambda: parametrizations.weight_norm(torch.nn.GRU(3, 6, batch_first=True), "weight_hh_l0"),
}
LENGTHS = [4, 9, 1, 6, 9]


class Memory(NamedTuple):
    h: torch.Tensor
    matrix: torch.Tensor


class FastWeights(torch.nn.Module):
    """A cell of one's own: a vector and a matrix that stores its outer products."""

    def __init__(self):
        super().__init__()
        self.drive, self.recurrent = torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)

    def forward(self, x, state):
        h, matrix = state
        recalled = (matrix @ h.unsqueeze(-1)).squeeze(-1)
        h = torch.tanh(self.drive(x) + self.recurrent(h) + recalled)
        return h, 0.9 * matrix + 0.1 * h.unsqueeze(-1) * h.unsqueeze(-2)


def named(network=None, **options):
    return ms.adapt(
        network or FastWeights(), state=Memory(torch.zeros(1, 4), torch.zeros(1, 4, 4)), input_size=3, **options
    )


@pytest.fixture(params=BATCH_FIRST)
def network(request):
    return BATCH_FIRST[request.param]().double()


@pytest.mark.parametrize("adapted", [False, True])
def test_batch_first_networks_take_and_return_their_own_layout(network, adapted):
    xs = torch.randn(5, 9, 3, dtype=torch.float64)
    given = ms.adapt(network) if adapted else network
    expected = network(xs)[0]
    for outputs in (ms.scan(given, xs)[0], ms.scan(given, xs, backend="loop")[0], ms.run_with_cache(given, xs)[0]):
        torch.testing.assert_close(outputs, expected, rtol=0, atol=ROUNDING)
    torch.testing.assert_close(ms.scan(given, xs, outputs="last")[0], expected[:, -1:], rtol=0, atol=ROUNDING)


def test_batch_first_caches_are_in_the_same_layout():
    network, xs = torch.nn.LSTM(3, 6, batch_first=True), torch.randn(5, 9, 3)
    outputs, cache = ms.run_with_cache(network, xs)
    assert {tuple(tensor.shape) for tensor in cache.values()} == {(5, 9, 6)}
    assert cache.flat().shape == (5, 9, 12)
    torch.testing.assert_close(cache.flat()[:, :, :6], outputs, rtol=0, atol=0)


def test_a_model_takes_the_layout_of_its_cell():
    network = torch.nn.GRU(3, 6, batch_first=True)
    model, xs = ms.Model(network, 2), torch.randn(5, 9, 3)
    outputs = model(xs)[0]
    assert outputs.shape == (5, 9, 2)
    torch.testing.assert_close(model.time_first()(xs.transpose(0, 1))[0].transpose(0, 1), outputs, rtol=0, atol=1e-6)
    assert model.cell.batch_first


@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_sequences_of_unequal_length_end_where_they_end(network, backend):
    xs = torch.randn(5, 9, 3, dtype=torch.float64)
    padded = xs.clone()
    for row, length in enumerate(LENGTHS):
        padded[row, length:] = torch.nan  # padding must have no effect
    outputs, state = ms.scan(network, padded, lengths=LENGTHS, backend=backend)
    by_mask = ms.scan(network, padded, mask=torch.arange(9) < torch.tensor(LENGTHS)[:, None], backend=backend)
    torch.testing.assert_close(by_mask[0], outputs, rtol=0, atol=0)
    for row, length in enumerate(LENGTHS):
        alone, last = ms.scan(network, xs[row : row + 1, :length])
        torch.testing.assert_close(outputs[row, :length], alone[0], rtol=0, atol=ROUNDING)
        assert (outputs[row, length:] == outputs[row, length - 1]).all()
        for one, other in zip(leaves(state), leaves(last), strict=True):
            torch.testing.assert_close(one[row], other[0], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("lengths", [LENGTHS, [9, 9, 6, 4, 1], [9] * 5])
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_sequences_are_returned_packed_as_torch_does(lengths, batch_first):
    network = torch.nn.GRU(3, 6, batch_first=batch_first).double()
    xs = torch.randn(9, 5, 3, dtype=torch.float64)
    packed = pack_padded_sequence(xs, lengths, enforce_sorted=lengths == sorted(lengths)[::-1])
    (outputs, state), (expected, last) = ms.scan(network, packed), network(packed)
    assert isinstance(outputs, PackedSequence)
    torch.testing.assert_close(state, last[0], rtol=0, atol=ROUNDING)
    for one, other in zip(pad_packed_sequence(outputs), pad_packed_sequence(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=ROUNDING)


def test_gates_after_the_end_of_a_sequence_are_not_numbers():
    network, xs = torch.nn.GRU(3, 6), torch.randn(9, 5, 3)
    cache = ms.run_with_cache(network, xs, lengths=LENGTHS)[1]
    beyond = torch.arange(9)[:, None] >= torch.tensor(LENGTHS)
    assert torch.equal(cache["z"].isnan().any(-1), beyond)
    assert cache["h"].isfinite().all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rnn, xs: ms.scan(rnn, xs, lengths=[9, 9]), r"lengths must be 5 whole numbers from 1 to 9"),
        (lambda rnn, xs: ms.scan(rnn, xs, lengths=[0, 1, 1, 1, 1]), "from 1 to 9"),
        (lambda rnn, xs: ms.scan(rnn, xs, lengths=[1] * 5, mask=torch.ones(5, 9).bool()), "either mask or lengths"),
        (lambda rnn, xs: ms.scan(rnn, xs, mask=torch.ones(9, 5).bool()), r"\(batch, time\) = \(5, 9\)"),
        (lambda rnn, xs: ms.scan(rnn, xs[0]), r"pass a single sequence"),
        (lambda rnn, xs: ms.scan(rnn, xs, torch.zeros(1, 5, 6)), r"shape \(5, 6\), but \(1, 5, 6\).*pass h\[0\]"),
        (lambda rnn, xs: ms.scan(rnn, xs, torch.zeros(4, 6)), r"batch of 5, but the given state has \[4\]"),
    ],
)
def test_wrong_sequences_and_states_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.nn.RNN(3, 6, batch_first=True), torch.zeros(5, 9, 3))


def test_a_network_of_ones_own_with_a_matrix_in_its_state():
    network, xs = FastWeights(), torch.randn(7, 2, 3)
    cell = named(network, output=lambda state: state.h)
    outputs, state = ms.scan(cell, xs)
    assert isinstance(state, Memory)  # although forward returns a plain tuple
    expected = (torch.zeros(2, 4), torch.zeros(2, 4, 4))
    for x in xs:
        expected = network(x, expected)
    torch.testing.assert_close(state.matrix, expected[1], rtol=0, atol=1e-6)
    torch.testing.assert_close(outputs[-1], expected[0], rtol=0, atol=1e-6)
    fp = ms.find_fixed_points(cell)
    assert fp.states.shape[1] == 20
    assert (fp.q < 1e-20).all()
    assert len(fp) >= 1


def test_dicts_are_read_by_name_whatever_their_order():
    def step(x, state):
        return {"b": 0.5 * state["b"] + x, "a": 0.5 * state["a"] + state["b"].unsqueeze(1)}

    start = {"b": torch.ones(1, 2), "a": torch.zeros(1, 3, 2)}
    cell = ms.adapt(step, state=start, output=lambda state: state["b"])
    outputs, cache = ms.run_with_cache(cell, torch.zeros(4, 5, 2))
    assert outputs[:, 0, 0].tolist() == [0.5, 0.25, 0.125, 0.0625]
    assert cache["a"].shape == (4, 5, 3, 2)
    dynamics = ms.Dynamics(cell)
    A = dynamics.jacobian(torch.zeros(1, 8, dtype=torch.float64))[0]
    assert torch.linalg.eigvals(A).real.tolist() == [0.5] * 8
    flat = dynamics.flatten({"a": torch.zeros(1, 3, 2), "b": torch.ones(1, 2)})
    assert flat.tolist() == [[0.0] * 6 + [1.0] * 2]


def test_the_example_is_the_state_before_the_first_input():
    cell = ms.adapt(lambda x, h: h, state=torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    assert ms.scan(cell, torch.zeros(2, 3, 1))[0][1].tolist() == [[1.0, 2.0, 3.0, 4.0]] * 3


def test_a_function_without_weights_computes_in_the_precision_of_its_inputs():
    W = torch.tensor([[2.0, -0.2], [0.2, 2.0]], dtype=torch.float64)
    cell = ms.adapt(lambda x, h: torch.tanh(h @ W.T), state_size=2, bounds=(-1, 1))
    outputs, state = ms.scan(cell, torch.randn(5, 3, 1).double())
    assert outputs.dtype == state.dtype == torch.float64
    with pytest.raises(
        ValueError, match=r"does not compute with inputs of torch.float32 .* or the inputs that of its tensors"
    ):
        ms.scan(cell, torch.randn(5, 3, 1))
    given = ms.adapt(lambda x, h: h + x, state=torch.zeros(1, 1, dtype=torch.float64))
    with pytest.raises(ValueError, match="are float64, but the inputs float32"):  # the precision of a given state
        ms.scan(given, torch.randn(5, 3, 1))
    batched = ms.adapt(lambda x, h: torch.bmm(h.unsqueeze(1), W.expand(len(h), 2, 2)).squeeze(1), state_size=2)
    with pytest.raises(ValueError, match=r"does not compute with inputs of torch.float32"):
        ms.scan(batched, torch.randn(5, 3, 1))


def test_a_function_takes_the_form_of_its_state_from_a_given_one():
    outputs, _ = ms.scan(lambda x, h: 0.5 * h + x, torch.ones(3, 2, 4), torch.zeros(2, 4))
    assert outputs[:, 0, 0].tolist() == [1.0, 1.5, 1.75]


class WithReadout(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.core, self.readout = torch.nn.GRU(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.readout(self.core(x)[0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: ms.adapt(FastWeights(), state=torch.zeros(4, 4)),
            ValueError,
            r"\[None\] .*\[:1\] if it is a batch of 4",
        ),
        (lambda: ms.adapt(FastWeights(), state=torch.zeros(4)), ValueError, r"has shape \(4,\): pass it with \[None\]"),
        (lambda: ms.adapt(FastWeights(), state=[torch.zeros(1, 4)]), TypeError, "tuple or a dict of tensors"),
        (lambda: ms.adapt(FastWeights(), state=torch.zeros(1, 4).int()), ValueError, "real or complex"),
        (lambda: ms.adapt(FastWeights(), state=()), ValueError, "at least one tensor"),
        (lambda: ms.adapt(FastWeights(), state=torch.zeros(1, 4), state_size=4), ValueError, "not both"),
        (lambda: ms.adapt(FastWeights()), TypeError, r"pass ms.adapt\(network, state=...\)"),
        (lambda: ms.scan(lambda x, h: h, torch.zeros(2, 2, 2)), ValueError, r"ms.adapt\(network, state=...\)"),
        (lambda: ms.scan(WithReadout(), torch.zeros(2, 2, 3)), TypeError, r"network\.core \(GRU\)"),
        (lambda: inspect.unwrap(ms.adapt)(7), TypeError, "but got a int"),
        (lambda: ms.scan(named(), torch.zeros(2, 2, 3)), ValueError, r"several tensors \(h, matrix\).*output="),
        (lambda: ms.scan(named(output=lambda s: s.h[:, 0]), torch.zeros(2, 2, 3)), ValueError, r"returned \(2,\)"),
        (lambda: ms.adapt(torch.nn.GRU(3, 4), output=lambda state: state), ValueError, "describe a function"),
        (
            lambda: ms.scan(ms.adapt(lambda x, h: (x, h), state_size=2), torch.zeros(2, 2, 2)),
            ValueError,
            r"a tuple for a state that is one tensor.*returns \(output, state\)",
        ),
        (
            lambda: ms.scan(ms.adapt(lambda x, h: h[:, :1], state_size=2), torch.zeros(2, 2, 2)),
            ValueError,
            r"state of \(2, 1\) for one of \(2, 2\)",
        ),
        (
            lambda: ms.scan(ms.adapt(lambda x, s: {"a": s["a"]}, state={"b": torch.zeros(1, 1)}), torch.zeros(1, 1, 1)),
            KeyError,
            "a",
        ),
        (
            lambda: ms.scan(ms.adapt(lambda x, s: {"a": x}, state={"b": torch.zeros(1, 1)}), torch.zeros(1, 1, 1)),
            ValueError,
            "returned a for a state of b",
        ),
    ],
)
def test_ambiguous_networks_name_the_remedy(make, error, message):
    with pytest.raises(error, match=message):
        make()


@CUDA
@pytest.mark.parametrize("batch_first", [False, True])
def test_networks_and_inputs_on_a_gpu(batch_first):
    network = torch.nn.GRU(3, 6, batch_first=batch_first)
    xs, lengths = torch.randn(9, 9, 3), torch.arange(1, 10)
    expected = ms.scan(network, xs, lengths=lengths)[0]
    on_gpu = ms.scan(network.cuda(), xs.cuda(), lengths=lengths)[0]
    torch.testing.assert_close(on_gpu.cpu(), expected, rtol=0, atol=1e-5)
    packed = pack_padded_sequence(xs, lengths, enforce_sorted=False).cuda()
    assert ms.scan(network, packed)[0].data.is_cuda
    norms = ms.gradient_norms(network, xs.cuda(), lambda outputs: outputs.sum(), lengths=lengths).norms
    assert norms.isfinite().sum() == lengths.sum()
    fp = ms.find_fixed_points(network, FromTrajectories(xs.cuda(), 16, lengths=lengths))
    assert len(fp) >= 1
    assert ms.fisher_memory(network, 0, along=xs.cuda(), lags=3).curve.shape == (9, 3)
    assert ms.transients(network, 5).norms.shape[0] == 6
    assert ms.spectrum(network, torch.zeros(6)).eigenvalues.shape == (6,)
    assert ms.memory_capacity(network, 0, state=torch.zeros(6), lags=2).curve.shape == (2,)
    assert ms.measure_memory_capacity(network, delays=2, steps=200).curve.shape == (2,)
    assert ms.find_slow_manifold(network, xs.cuda(), steps=4, lengths=lengths).states.is_cpu
    assert ms.find_attractors(network, 4, transient=50, steps=50, max_period=4).states.is_cpu
    rnn = torch.nn.RNN(3, 6, batch_first=batch_first).cuda()
    assert ms.energy_descent(rnn, rnn(xs.cuda())[0].detach()).energy.is_cpu
    assert ms.find_variables(rnn, torch.eye(3, 6, device="cuda"), inputs=xs.cuda(), variables=xs.cuda()).status


@CUDA
def test_own_networks_on_a_gpu():
    cell = ms.adapt(
        FastWeights().cuda(), state=Memory(torch.zeros(1, 4), torch.zeros(1, 4, 4)), output=lambda state: state.h
    )
    assert ms.scan(cell, torch.randn(7, 2, 3, device="cuda"))[0].is_cuda
    assert ms.scan(ms.adapt(lambda x, h: h + x, state_size=3), torch.randn(7, 2, 3, device="cuda"))[0].is_cuda
