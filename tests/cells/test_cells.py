"""The contract, held by every cell."""

import copy
import itertools

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize, prune

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.cells import GRU, LSTM, SLSTM, Elman, Layout, Stack
from mnemoscope.cells.affine import MLSTM, DeltaNet, GatedDeltaNet
from mnemoscope.cells.matrix import MatrixRNN, QueueMemory
from mnemoscope.cells.nonlinearities import NAMES, Nonlinearity, make_nonlinearity
from mnemoscope.cells.state import leaves, map_state, pad_slots
from mnemoscope.networks.matrix import matrix_rnn
from tests.slow import representatives

FLOAT64_ROUNDING = 1e-12  # sums of some tens of terms of order 1

SMALL = {  # where the published sizes make a Jacobian of a thousand rows
    "ntm": {"slots": 5, "slot_size": 3, "read_heads": 2},
    "matntm": {"slots": 4, "slot_rows": 2, "slot_columns": 3, "layers": 2},
    "blocks": {"depth": 1, "heads": 4},
    "mamba": {"state_size": 3},
    "mamba2": {"heads": 2, "state_size": 3},
    "s4d": {"state_size": 4},
}
CELLS = {
    **{entry.name: lambda entry=entry: entry.load()(3, 8, **SMALL.get(entry.name, {})) for entry in registry.cells},
    **{f"elman-{phi}": lambda phi=phi: Elman(3, 7, nonlinearity=phi) for phi in NAMES},
    "elman-function": lambda: Elman(3, 7, nonlinearity=torch.nn.functional.softplus),
    "elman-orthogonal": lambda: Elman(3, 8, connectivity=ms.connectivity.Dense(8, init="orthogonal"), bias=False),
    "gru-no-bias": lambda: GRU(3, 7, bias=False),
    "lstm-projected": lambda: LSTM(3, 7, projection_size=4, bias=False),
    "stack": lambda: Stack([LSTM(3, 5), GRU(5, 4), Elman(4, 3)]),
    "matrix-two-inputs": lambda: MatrixRNN([(1, 2), (1, 1)], (3, 2), nonlinearity="modrelu"),
    "matrix-orthogonal": lambda: matrix_rnn(3, 8, matrices="cayley", layers=2),
    "matrix-transition": lambda: matrix_rnn(3, 6, layers=3, depth="transition"),
    "matrix-queue": lambda: QueueMemory(MatrixRNN((3, 1), (2, 3)), [0.3, -0.2], learned=True),
    "mlstm-heads": lambda: MLSTM(3, 6, heads=2, forget="exponential", forget_bias=0.0),
    "deltanet-reflecting": lambda: DeltaNet(3, 6, heads=2, key_size=2, beta_max=2),
    "gated-deltanet-heads": lambda: GatedDeltaNet(3, 6, heads=3),
}


@pytest.fixture(params=CELLS)
def cell(request):
    return CELLS[request.param]().double()


def random_state(cell, batch):
    state = map_state(lambda part: 0.7 * torch.randn_like(part), cell.initial_state(batch))
    return state._replace(n=1 + state.n.abs()) if isinstance(cell, SLSTM) else state  # its normaliser is positive


def test_scan_is_a_loop_of_steps(cell):
    xs = torch.randn(6, 4, 3, dtype=torch.float64)
    start = random_state(cell, 4)
    state, expected = start, []
    for x in xs:
        state = cell(x, state)
        expected.append(cell.output_at(x, state))
    outputs, last = ms.scan(cell, xs, start)
    torch.testing.assert_close(outputs, torch.stack(expected), rtol=0, atol=FLOAT64_ROUNDING)
    for one, other in zip(leaves(last), leaves(state), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=FLOAT64_ROUNDING)


def test_cache_holds_every_state(cell):
    xs = torch.randn(5, 2, 3, dtype=torch.float64)
    outputs, cache = ms.run_with_cache(cell, xs)
    torch.testing.assert_close(outputs, ms.scan(cell, xs)[0])
    assert len(cache) == len(list(cache))
    for name in cache:
        assert cache[name].shape[:2] == (5, 2)
    (_, third), (_, last) = ms.scan(cell, xs[:3]), ms.scan(cell, xs)
    layout = Layout(last)
    assert cache.flat().shape == (5, 2, layout.size)
    third = map_state(pad_slots, third, last)  # what a state has not grown by yet is 0 in the cache
    torch.testing.assert_close(cache.flat()[2], layout.flatten(third), rtol=0, atol=FLOAT64_ROUNDING)
    with pytest.raises(KeyError, match="cache holds"):
        cache["nonsense"]


def skip_where_it_grows(cell):
    if cell.grows:
        pytest.skip("its state grows with every step")


def test_jacobian_is_the_derivative(cell):
    skip_where_it_grows(cell)
    dynamics = ms.Dynamics(cell, torch.randn(3))
    states = dynamics.flatten(random_state(cell, 4))
    J = dynamics.jacobian(states)
    torch.testing.assert_close(J, dynamics.jacobian_by_autograd(states), rtol=0, atol=FLOAT64_ROUNDING)
    step = 1e-6
    for column in range(0, dynamics.size, 3):  # central differences, the slow and obvious way
        e = torch.zeros(dynamics.size, dtype=torch.float64)
        e[column] = step
        difference = (dynamics(states + e) - dynamics(states - e)) / (2 * step)
        torch.testing.assert_close(J[:, :, column], difference, rtol=0, atol=1e-8)  # truncation step^2, rounding 1e-10


def test_products_with_the_jacobian(cell):
    skip_where_it_grows(cell)
    dynamics = ms.Dynamics(cell)
    states = dynamics.flatten(random_state(cell, 4))
    G = dynamics.residual_jacobian(states)
    push, pull = dynamics.residual_products(states)
    v = torch.randn_like(states)
    torch.testing.assert_close(push(v), (G @ v.unsqueeze(2)).squeeze(2), rtol=0, atol=FLOAT64_ROUNDING)
    torch.testing.assert_close(pull(v), (G.mT @ v.unsqueeze(2)).squeeze(2), rtol=0, atol=FLOAT64_ROUNDING)


def test_the_box_is_invariant(cell):
    skip_where_it_grows(cell)
    dynamics = ms.Dynamics(cell, 2 * torch.randn(3))
    if dynamics.bounds is None:
        pytest.skip("this cell has no invariant box: its nonlinearity is unbounded")
    low, high = dynamics.bounds
    for weight in (torch.rand(200, dynamics.size), torch.randint(0, 2, (200, dynamics.size))):  # inside and corners
        states = low + (high - low) * weight.double()
        assert dynamics.inside(dynamics(states)).all()


def test_gradients_flow_to_every_parameter(cell):
    cell.requires_grad_(True)  # also to what usually stays, as the weights of a reservoir
    # 12 steps: sab stores its first state after the tenth
    ms.scan(cell, torch.randn(12, 4, 3, dtype=torch.float64))[0].square().sum().backward()
    for name, parameter in cell.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all()


def test_state_dict_round_trip(cell, request):
    other = copy.deepcopy(cell)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    other.load_state_dict(cell.state_dict())
    xs = torch.randn(4, 2, 3, dtype=torch.float64)
    assert torch.equal(ms.scan(cell, xs)[0], ms.scan(other, xs)[0])


def test_frozen_is_a_copy(cell):
    before = {name: value.clone() for name, value in cell.state_dict().items()}
    learned = [parameter.requires_grad for parameter in cell.parameters()]
    frozen = cell.frozen(torch.float32)
    with torch.no_grad():
        for parameter in frozen.parameters():
            assert parameter.real.dtype == torch.float32
            assert not parameter.requires_grad
            parameter.zero_()
    assert all(torch.equal(before[name], value) for name, value in cell.state_dict().items())
    assert [parameter.requires_grad for parameter in cell.parameters()] == learned


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_nonlinearities(name):
    phi = make_nonlinearity(name, 9).double()
    z = torch.randn(50, 9, dtype=torch.float64)
    with torch.no_grad():
        expected = Nonlinearity.derivative(phi, z)  # autograd's
        torch.testing.assert_close(phi.derivative(z), expected, rtol=0, atol=FLOAT64_ROUNDING)
    assert phi(z).min() >= phi.low
    assert phi(z).max() <= phi.high


TORCH = [
    torch.nn.RNN(3, 6),
    torch.nn.RNN(3, 6, nonlinearity="relu", bias=False),
    torch.nn.GRU(3, 6),
    torch.nn.GRU(3, 6, num_layers=3),
    torch.nn.LSTM(3, 6, bias=False),
    torch.nn.LSTM(3, 6, num_layers=2),
    torch.nn.RNN(3, 6, batch_first=True),
]


@pytest.mark.parametrize("network", TORCH, ids=str)
def test_adapted_torch_networks_compute_the_same(network):
    xs = torch.randn(9, 4, 3)
    torch.testing.assert_close(ms.scan(ms.adapt(network), xs)[0], network(xs)[0], rtol=0, atol=1e-6)  # float32, 9 steps


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_adapted_projected_lstm():
    network, xs = torch.nn.LSTM(3, 6, num_layers=2, proj_size=4), torch.randn(9, 4, 3)
    torch.testing.assert_close(ms.scan(ms.adapt(network), xs)[0], network(xs)[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("network", [torch.nn.RNNCell(3, 6), torch.nn.GRUCell(3, 6), torch.nn.LSTMCell(3, 6)], ids=str)
def test_adapted_torch_cells_compute_the_same(network):
    cell, x = ms.adapt(network), torch.randn(4, 3)
    state = random_state(cell, 4)
    for one, other in zip(leaves(cell(x, state)), leaves(_as_tuple(network(x, state))), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def _as_tuple(result):
    return tuple(result) if isinstance(result, tuple) else result


def test_adapted_parameters_are_shared():
    network = torch.nn.GRU(3, 6, num_layers=2)
    cell = ms.adapt(network)
    assert {id(p) for p in cell.parameters()} == {id(p) for p in network.parameters()}
    ms.scan(cell, torch.randn(3, 2, 3))[0].sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def _symmetric(network, name):
    class Symmetric(torch.nn.Module):
        def forward(self, weight):
            return weight + weight.flip(0)

    return parametrize.register_parametrization(network, name, Symmetric())


COMPUTED = {
    "spectral": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "weight": parametrizations.weight_norm,
    "own": _symmetric,
    "pruned": lambda network, name: prune.l1_unstructured(network, name, 0.5),
    "pruned-twice": lambda network, name: prune.ln_structured(
        prune.l1_unstructured(network, name, 0.3), name, 0.3, n=2, dim=0
    ),
    "older-spectral": torch.nn.utils.spectral_norm,
}
BARE = {
    "rnn": lambda: torch.nn.RNN(3, 6),
    "rnn-relu": lambda: torch.nn.RNN(3, 6, nonlinearity="relu", bias=False),
    "gru": lambda: torch.nn.GRU(3, 6),
    "gru-stack": lambda: torch.nn.GRU(3, 6, num_layers=2),
    "lstm": lambda: torch.nn.LSTM(3, 6),
    "lstm-projected": lambda: torch.nn.LSTM(3, 6, num_layers=2, proj_size=4),
    "rnn-cell": lambda: torch.nn.RNNCell(3, 6),
    "gru-cell": lambda: torch.nn.GRUCell(3, 6),
    "lstm-cell": lambda: torch.nn.LSTMCell(3, 6),
}


@pytest.fixture(params=itertools.product(BARE, COMPUTED), ids="-".join)
def computed(request):
    """A network with weights that are computed from others."""
    bare, how = request.param
    network = BARE[bare]()
    for name in ("weight_ih", "weight_hh"):
        COMPUTED[how](network, name if isinstance(network, torch.nn.RNNCellBase) else f"{name}_l0")
    return network


def _outputs(network, xs):
    if isinstance(network, torch.nn.RNNBase):
        return network(xs)[0]
    state, outputs = None, []
    for x in xs:
        state = network(x, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs)


@representatives("gru-stack-older-spectral", "lstm-projected-pruned-twice", "rnn-own", "rnn-relu-own")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_computed_weights_are_shared(computed):
    cell, xs = ms.adapt(computed.double()), torch.randn(5, 2, 3, dtype=torch.float64)
    computed.eval()  # in training mode, reading a spectrally normalised weight changes it
    torch.testing.assert_close(ms.scan(cell, xs)[0], _outputs(computed, xs), rtol=0, atol=FLOAT64_ROUNDING)
    assert {id(p) for p in cell.parameters()} == {id(p) for p in computed.parameters()}
    for _ in range(2):  # a second pass: nothing of the graph of the first one is kept
        ms.scan(cell, xs)[0].square().sum().backward()
    for name, parameter in computed.named_parameters():
        assert parameter.grad is not None, name
    torch.optim.SGD(cell.parameters(), 0.1).step()
    after = ms.scan(cell, xs)[0]
    torch.testing.assert_close(after, _outputs(computed, xs), rtol=0, atol=FLOAT64_ROUNDING)
    assert cell.output(cell.initial_state(2)).shape == after.shape[1:]


@representatives(
    "gru-cell-pruned-twice",
    "gru-stack-pruned-twice",
    "lstm-cell-pruned",
    "lstm-projected-pruned",
    "rnn-cell-weight",
    "rnn-relu-pruned",
)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_computed_weights_freeze(computed):
    _outputs(computed, torch.randn(5, 2, 3))
    before = {name: value.clone() for name, value in computed.state_dict().items()}
    dynamics = ms.Dynamics(computed)
    assert computed.training
    assert all(torch.equal(before[name], value) for name, value in computed.state_dict().items())
    own = [*dynamics.cell.parameters(), *dynamics.cell.buffers()]
    assert all(value.dtype == torch.float64 and not value.requires_grad for value in own)
    states = dynamics.flatten(random_state(dynamics.cell, 2))
    torch.testing.assert_close(
        dynamics.jacobian(states), dynamics.jacobian_by_autograd(states), rtol=0, atol=FLOAT64_ROUNDING
    )
    computed.eval()
    cell = ms.adapt(computed)
    x, state = torch.zeros(2, 3), dynamics.unflatten(states.float())
    torch.testing.assert_close(dynamics(states).float(), dynamics.layout.flatten(cell(x, state)), rtol=0, atol=1e-6)
    expected = dynamics(states)
    with torch.no_grad():
        for parameter in computed.parameters():
            parameter.fill_(0.1)
    assert torch.equal(dynamics(states), expected)


def test_fixed_points_of_a_parametrised_network():
    network = parametrizations.spectral_norm(torch.nn.GRU(3, 6), "weight_hh_l0")
    fp = ms.find_fixed_points(ms.Dynamics(network))
    assert len(fp) == 1
    assert fp.index_sum == 1


def test_adapted_function_with_tuple_state():
    cell = ms.adapt(lambda x, s: (0.5 * s[0] + s[1].sum(1, keepdim=True), -0.5 * s[1]), state_size=(2, 3))
    dynamics = ms.Dynamics(cell)
    assert dynamics.size == 5
    assert dynamics.jacobian(torch.randn(4, 5, dtype=torch.float64)).shape == (4, 5, 5)


def test_complex_states_lie_flat():
    state = torch.randn(3, 4, dtype=torch.complex128)
    layout = Layout(state)
    assert layout.size == 8
    assert torch.equal(layout.unflatten(layout.flatten(state)), state)


@pytest.mark.parametrize("connectivity", [None, ms.connectivity.Fourier(64)], ids=["real", "complex"])
def test_input_scale_bounds_the_initial_input_weights(connectivity):
    torch.manual_seed(0)
    (weights,) = Elman(20, 64, "linear", connectivity, bias=False, input_scale=0.1).drive.parameters()
    assert 0.099 < weights.abs().max() <= 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ms.adapt(torch.nn.GRU(3, 4, bidirectional=True)), "both ends"),
        (lambda: ms.adapt(lambda x, h: h), "state_size"),
        (lambda: ms.adapt(torch.nn.GRU(3, 4), state_size=4), "describe a function"),
        (lambda: ms.adapt(lambda x, h: h, state_size=0), "positive"),
        (lambda: ms.adapt(lambda x, h: h, state_size=2, bounds=(1, -1)), "low < high"),
        (lambda: Elman(3, 4, nonlinearity="tnah"), "Unknown nonlinearity 'tnah'"),
        (lambda: Elman(3, 4, connectivity=ms.connectivity.Dense(5)), "5 x 5"),
        (lambda: Elman(3, 4, input_scale=0.0), "input_scale must be positive"),
        (lambda: ms.connectivity.Dense(3, init="magic"), "Unknown initialiser"),
        (lambda: ms.connectivity.Dense(0), "at least one row"),
        (lambda: GRU(0, 4), "input_size must be a whole number, at least 1, but is 0"),
        (lambda: LSTM(3, 4, projection_size=4), "projection_size"),
        (lambda: Stack([]), "at least one layer"),
        (lambda: ms.scan(GRU(3, 4), torch.zeros(5, 2, 4)), "takes 3 input features"),
        (lambda: ms.scan(GRU(3, 4), torch.zeros(0, 2, 3)), "empty"),
        (lambda: ms.scan(GRU(3, 4), torch.zeros(5, 2, 3).double()), "are float32, but the inputs float64"),
        (lambda: ms.scan(GRU(3, 4), torch.zeros(5, 2, 3), torch.zeros(3, 4)), "batch of 2"),
        (lambda: ms.Dynamics(GRU(3, 4), torch.zeros(2)), r"\(3,\)"),
        (lambda: ms.Dynamics(GRU(3, 4), torch.full((3,), torch.nan)), "NaN"),
        (lambda: ms.Dynamics(GRU(3, 4), bounds="cube"), "auto"),
        (lambda: ms.Dynamics(GRU(3, 4), bounds=(1.0, 0.0)), "low < high"),
        (lambda: ms.Dynamics(ms.adapt(lambda x, h: h[:, :1], state_size=2)), "keep the shape"),
        (lambda: ms.Dynamics(ms.adapt(lambda x, h: h.float(), state_size=2)), "lower precision"),
        (lambda: ms.Dynamics(ms.adapt(lambda x, h: h @ torch.zeros(3, 3).double(), state_size=2)), "could not step"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_a_stack_freezes_layers_that_torch_cannot_copy():
    below = parametrizations.spectral_norm(torch.nn.GRU(2, 3), "weight_hh_l0")
    frozen = Stack([ms.adapt(below), GRU(3, 3)]).frozen(torch.float64)
    assert {parameter.dtype for parameter in frozen.parameters()} == {torch.float64}
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert not frozen.training
