"""Cells with matrix states, compared with equivalent vector cells and plain loops."""

from collections import deque
from inspect import unwrap  # removes the type check, which raises before the function can

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope import registry
from mnemoscope.cells import LSTMState, Model, Stack
from mnemoscope.cells.matrix import (
    Bilinear,
    DeepTransition,
    MatrixGRU,
    MatrixInputs,
    MatrixLayers,
    MatrixLSTM,
    MatrixRNN,
    QueueMemory,
    nearest_square,
    stack_matrix_rnns,
)
from mnemoscope.cells.matrix.vector_form import LARGEST_STATE
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.connectivity import Cayley, Dense, Exponential, Givens, Normal
from mnemoscope.networks.matrix import _layers, matrix_gru, matrix_lstm, matrix_rnn, matrix_stack, queue

ROUNDING = 1e-12  # float64, sums of some tens of terms of order 1


def close(one, other, atol=ROUNDING):
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def random_state(cell, batch):
    return map_state(torch.randn_like, cell.initial_state(batch))


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def kron(U, V):
    """`U^T (x) V^T`, by numpy: torch's fails for matrices of one row whose strides are unusual."""
    return torch.from_numpy(np.kron(U.detach().T.numpy(), V.detach().T.numpy()))


def with_random_bias(cell):
    cell = cell.double()
    with torch.no_grad():
        cell.drive.maps[0].bias.normal_()
    return cell


# bilinear maps


def test_several_maps_are_one_beside_the_other():
    layer, X = Bilinear((3, 4), (5, 2), maps=3).double(), randn(7, 3, 4)
    for number, Y in enumerate(layer(X).unbind(-3)):
        close(Y, layer.U[number].T @ X @ layer.V[number])


def test_the_matrix_of_a_bilinear_map_is_the_published_one_with_rows_for_columns():
    layer, X = Bilinear((3, 4), (5, 2), bias=False).double(), randn(3, 4)
    close(layer.matrix() @ X.flatten(), layer(X).flatten())
    by_columns = kron(layer.V, layer.U)  # columns stacked
    close(by_columns @ X.T.flatten(), layer(X).T.flatten())


def test_several_inputs_are_added():
    inputs = MatrixInputs([(2, 3), (4, 1)], (3, 3)).double()
    X, Y = randn(5, 2, 3), randn(5, 4, 1)
    one, other = inputs.maps
    flat = torch.cat([X.flatten(1), Y.flatten(1)], dim=1)
    close(inputs(flat), one.U.T @ X @ one.V + other.U.T @ Y @ other.V)
    close(flat @ inputs.matrix().T + inputs.bias(), inputs(flat).flatten(1))


@pytest.mark.parametrize(("size", "shape"), [(1, (1, 1)), (12, (4, 3)), (36, (6, 6)), (13, (13, 1)), (225, (15, 15))])
def test_shapes_nearest_to_a_square(size, shape):
    assert nearest_square(size) == shape


# the vector cells that compute the same

RNNS = {
    "square": lambda: MatrixRNN((5, 5), (4, 4)),
    "rectangular": lambda: MatrixRNN((5, 5), (2, 7), "relu"),
    "modrelu": lambda: MatrixRNN((5, 5), (3, 4), "modrelu"),
    "two inputs": lambda: MatrixRNN([(3, 3), (4, 4)], (3, 2), "logistic"),
    "orthogonal": lambda: MatrixRNN((5, 5), (4, 6), rows=Cayley(4), columns=Exponential(6)),
    "rotations": lambda: MatrixRNN((5, 5), (4, 6), rows=Givens(4, 4, complex=False), columns=Dense(6, "orthogonal")),
    "normal": lambda: MatrixRNN((5, 5), (4, 4), "linear", rows=Normal(4, modulus=0.9), columns=Normal(4, modulus=0.8)),
}


@pytest.mark.parametrize("name", RNNS)
def test_a_matrix_rnn_is_an_elman_cell_with_a_kronecker_matrix(name):
    """Build the equivalent vector cell from the entries of the matrices."""
    cell = with_random_bias(RNNS[name]())
    U, V = cell.connectivity.factors()
    vector = ms.cells.Elman(25, cell.hidden_size, cell.phi, Dense.from_matrix(kron(U, V)))
    blocks = [kron(part.U, part.V) for part in cell.drive.maps]
    with torch.no_grad():
        vector.double().drive.weight.copy_(torch.cat(blocks, dim=1))
        vector.drive.bias.copy_(cell.drive.maps[0].bias.flatten())
    xs, start = 0.5 * randn(9, 3, 25), random_state(cell, 3)
    expected, last = ms.scan(vector, xs, start.flatten(1), backend="loop")
    for backend in ("loop", "fused"):
        outputs, state = ms.scan(cell, xs, start, backend=backend)
        close(outputs, expected)
        close(state.flatten(1), last)
    close(ms.scan(cell.as_elman(), xs, start.flatten(1))[0], expected)


@pytest.mark.parametrize("name", RNNS)
def test_the_formula_of_a_matrix_rnn(name):
    """Compute Eq 6 as printed, one trial at a time."""
    cell = with_random_bias(RNNS[name]())
    x, state = randn(3, 25), random_state(cell, 3)
    U2, V2 = cell.connectivity.factors()
    for trial in range(3):
        Z = U2.T @ state[trial] @ V2 + cell.drive.maps[0].bias
        begin = 0
        for part in cell.drive.maps:
            size = part.shape_in[0] * part.shape_in[1]
            Z = Z + part.U.T @ x[trial, begin : begin + size].reshape(part.shape_in) @ part.V
            begin += size
        close(cell(x, state)[trial].flatten(), cell.phi(Z.flatten()))


def test_orthogonal_matrices_keep_the_norm_of_a_linear_state():
    cell = RNNS["orthogonal"]().double()
    cell = MatrixRNN((5, 5), (4, 6), "linear", cell.connectivity.rows, cell.connectivity.columns).double()
    state = random_state(cell, 3)
    close(cell(torch.zeros(3, 25, dtype=torch.float64), state).flatten(1).norm(dim=1), state.flatten(1).norm(dim=1))


def test_normal_matrices_come_from_the_connectivity():
    U, V = RNNS["normal"]().double().connectivity.factors()
    for matrix, radius in ((U, 0.9), (V, 0.8)):
        close(matrix @ matrix.T, matrix.T @ matrix)
        close(torch.linalg.eigvals(matrix).abs(), torch.full((4,), radius, dtype=torch.float64), 1e-7)  # from float32


GATED = {"lstm": (MatrixLSTM, torch.nn.LSTM, 4), "gru": (MatrixGRU, torch.nn.GRU, 3)}


@pytest.mark.parametrize("name", GATED)
@pytest.mark.parametrize("bias", [True, False])
def test_gated_cells_are_torchs_networks_with_kronecker_matrices(name, bias):
    kind, network, gates = GATED[name]
    cell = kind([(2, 3), (3, 1)], (4, 3), bias=bias).double()
    cell = with_random_bias(cell) if bias else cell
    reference = network(9, 12).double()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.zero_()
        for gate in range(gates):
            rows = slice(12 * gate, 12 * (gate + 1))
            maps = [(part.U[gate], part.V[gate]) for part in (*cell.drive.maps, cell.connectivity)]
            blocks = [kron(U, V) for U, V in maps]
            reference.weight_ih_l0[rows] = torch.cat(blocks[:2], dim=1)
            reference.weight_hh_l0[rows] = blocks[2]
            if bias:
                reference.bias_ih_l0[rows] = cell.drive.maps[0].bias[gate].flatten()
    xs = randn(8, 3, 9)
    expected = reference(xs)[0]
    for backend in ("loop", "fused"):
        close(ms.scan(cell, xs, backend=backend)[0], expected)
    close(ms.scan(cell.as_vector_cell(), xs)[0], expected)


@pytest.mark.parametrize(
    "make", [RNNS["modrelu"], lambda: MatrixLSTM((5, 5), (3, 4)), lambda: MatrixGRU((5, 5), (3, 4))]
)
def test_gradients_of_the_fast_path_are_those_of_the_loop(make):
    cell = with_random_bias(make())
    xs, weight = randn(7, 3, 25), randn(7, 3, cell.hidden_size)
    found = {}
    for backend in ("loop", "fused"):
        outputs, _ = ms.scan(cell, xs, backend=backend)
        found[backend] = torch.autograd.grad((outputs * weight).sum(), list(cell.parameters()))
    for one, other in zip(found["loop"], found["fused"], strict=True):
        close(one, other, 1e-10)  # sums over 7 steps, 3 trials and 12 x 12 entries of products of order 10


@pytest.mark.parametrize("name", ["matrix-rnn", "matrix-lstm", "matrix-gru", "matrix-stack"])
def test_free_matrices_may_be_of_bfloat16(name):
    own = {"output_size": 4} if name == "matrix-stack" else {}
    cell, xs = registry.cells.load(name)(4, 6, **own).bfloat16(), torch.randn(5, 2, 4).bfloat16()
    one, other = (ms.scan(cell, xs, backend=backend)[0] for backend in ("loop", "fused"))
    largest = one.abs().max().clamp(min=1)  # the output of the stack is linear
    assert (one - other).abs().max() < 8 * torch.finfo(torch.bfloat16).eps * largest  # roundings of five steps
    with pytest.raises(TypeError, match="by torch"):
        MatrixRNN((2, 2), (3, 3), rows=Normal(3)).bfloat16().connectivity()


def test_large_states_go_by_the_loop_and_say_so():
    cell = MatrixRNN((5, 5), (20, 20))
    assert cell.hidden_size > LARGEST_STATE
    route = ms.scan(cell, torch.zeros(3, 2, 25), explain=True)[2]
    assert not route.fused
    assert "400 entries" in route.why


@pytest.mark.parametrize("name", ["matrix-rnn", "matrix-lstm", "matrix-gru"])
def test_masked_steps_hold_the_state(name):
    cell = registry.cells.load(name)(6, 8).double()
    xs, start = randn(5, 3, 6), random_state(cell, 3)
    mask = torch.tensor(
        [[True, True, True], [True, False, True], [False, False, True], [True, False, True], [True, True, True]]
    )
    _, state = ms.scan(cell, xs, start, mask=mask)
    for trial in range(3):
        own = map_state(lambda part, trial=trial: part[trial : trial + 1], start)
        for x in xs[mask[:, trial], trial]:
            own = cell(x[None], own)
        for part, whole in zip(leaves(own), leaves(state), strict=True):
            close(part[0], whole[trial])


# parameter counts and sizes


@pytest.mark.parametrize(("hidden", "expected"), [([15, 15], 2175), ([20, 20, 20], 5675)])
def test_published_numbers_of_parameters(hidden, expected):
    """Renanse et al. 2021, Table 1; a model of such a stack has no readout."""
    sizes = [5, *hidden, 5]
    network = stack_matrix_rnns([(size, size) for size in sizes])
    assert count(network) == expected
    assert ms.scan(network, torch.zeros(3, 2, 25))[0].shape == (3, 2, 25)


@pytest.mark.parametrize(("n", "layers"), [(15, 3), (20, 4)])
def test_parameters_of_the_published_controller(n, layers):
    """L (3 n^2 + 10 n + 12 n), with a 5 x 5 input and a 6 x 6 matrix read from memory."""
    cell = DeepTransition([MatrixRNN([(5, 5), (6, 6)], (n, n)) for _ in range(layers)])
    assert count(cell) == layers * (3 * n**2 + 10 * n + 12 * n)


def test_parameters_of_layers_and_gates():
    assert count(MatrixLayers([(5, 4), (3, 2)])) == 3 * 5 + 4 * 2 + 3 * 2
    one = 2 * 5 * 6 + 3 * 6**2
    assert [count(kind((5, 5), (6, 6))) for kind in (MatrixRNN, MatrixLSTM, MatrixGRU)] == [one, 4 * one, 3 * one]


def test_hidden_size_is_the_number_of_entries():
    cell = matrix_rnn(25, 24)
    assert (cell.hidden_size, cell.state_shape, cell.input_shapes) == (24, (6, 4), [(5, 5)])
    assert matrix_lstm(24, 24, rows=2, input_rows=3).state_shape == (2, 12)
    assert Model(cell, 2).readout.in_features == 24
    deep = matrix_rnn(25, 24, layers=2)
    assert isinstance(deep, Stack)
    assert isinstance(matrix_rnn(25, 24, layers=2, depth="transition"), DeepTransition)


def test_layers_without_time():
    layers = MatrixLayers([(3, 4), (2, 5), (3, 3)], "relu", "logistic").double()
    X = randn(7, 12)
    first, second = layers.maps
    for x, y in zip(X, layers(X), strict=True):
        H = (first.U.T @ x.view(3, 4) @ first.V + first.bias).clamp(min=0)
        close(y, torch.sigmoid(second.U.T @ H @ second.V + second.bias).flatten())


# deep transition


def test_deep_transition_is_layer_after_layer_within_a_step():
    layers = [with_random_bias(MatrixRNN((2, 3), (3, 4))) for _ in range(3)]
    cell = DeepTransition(layers)
    xs, H = randn(5, 2, 6), randn(2, 3, 4)
    outputs, last = ms.scan(cell, xs, H)
    for x, output in zip(xs, outputs, strict=True):
        for layer in layers:
            U, V = layer.connectivity.factors()
            H = torch.tanh(U.T @ H @ V + layer.drive(x))
        close(output, H.flatten(1))
    close(last, H)


# queue memory


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_the_queue_against_a_list(slots):
    alpha = (0.5 * torch.randn(slots)).double()
    inner = with_random_bias(MatrixRNN((2, 2), (3, 2)))
    cell = QueueMemory(inner, alpha, learned=True).double()
    xs = randn(8, 2, 4)
    outputs, state = ms.scan(cell, xs)
    U, V = inner.connectivity.factors()
    X, queue = torch.zeros(2, 3, 2).double(), deque([torch.zeros(2, 3, 2).double()] * slots, maxlen=slots)
    for x, output in zip(xs, outputs, strict=True):
        read = sum(weight * past for weight, past in zip(cell.alpha, queue, strict=True))
        new = torch.tanh(U.T @ X @ V + inner.drive(x) + read)
        queue.appendleft(X)
        X = new
        close(output, X.flatten(1))
    close(state.queue, torch.stack(list(queue), dim=1))
    assert (cell.slots, count(cell) - count(inner)) == (slots, slots)


def test_a_queue_by_sizes():
    """Return a queue memory, with learned weights if asked for."""
    cell = queue(6, 12, slots=3, alpha=0.2, nonlinearity="linear", matrices="normal", rows=4, input_rows=2)
    assert (cell.input_size, cell.hidden_size, cell.cell.state_shape) == (6, 12, (4, 3))
    assert sum(isinstance(part, Normal) for part in cell.modules()) == 2
    assert cell.alpha.tolist() == pytest.approx([0.2] * 3)
    assert "alpha" not in dict(cell.named_parameters())
    learned = Model(queue(6, 12, slots=2, learned=True), 5)
    outputs, _ = learned(torch.randn(9, 4, 6))
    outputs.square().sum().backward()
    grad = dict(learned.named_parameters())["cell.alpha"].grad
    assert grad.shape == (2,)
    assert grad[0] != grad[1]
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="slots must be a whole number, at least 1"):
            queue(6, 12, slots=wrong)


def test_a_linear_queue_is_the_matrix_system_of_the_capacity():
    inner = MatrixRNN((1, 1), (3, 2), "linear", bias=False).double()
    cell = QueueMemory(inner, [0.2, -0.3])
    assert "alpha" not in dict(cell.named_parameters())
    U, V = (factor.detach() for factor in inner.connectivity.factors())
    dynamics = ms.Dynamics(cell)
    system = ms.MatrixSystem(U, V, torch.ones(3, 2), alpha=cell.alpha)
    J = dynamics.jacobian(randn(1, dynamics.size))[0]
    close(J, system.map().dense(), 1e-7)  # alpha was given to a float32 buffer
    assert dynamics.size == system.size


# the lenses


@pytest.mark.parametrize("name", ["matrix-rnn", "matrix-lstm", "matrix-gru"])
def test_fixed_points_of_matrix_cells_are_complete(name):
    fp = ms.find_fixed_points(ms.Dynamics(registry.cells.load(name)(4, 6)), "adaptive")
    assert fp.index_sum == 1


def test_a_frozen_cell_holds_the_matrices_that_were_formed():
    cell = RNNS["orthogonal"]()
    frozen = cell.frozen(torch.float64)
    assert all(isinstance(part, Dense) for part in (frozen.connectivity.rows, frozen.connectivity.columns))
    close(frozen.connectivity().float(), cell.connectivity().detach(), 0)


def test_bad_input_is_refused():
    for make, message in [
        (lambda: MatrixRNN((0, 5), (3, 3)), "at least one row"),
        (lambda: MatrixRNN((5, 5), (3, 4), rows=Dense(4)), "they have 4 and 4"),
        (lambda: MatrixRNN((5, 5), (4, 4), rows=Givens(4)), "complex"),
        (lambda: MatrixInputs([], (3, 3)), "at least one input"),
        (lambda: Bilinear((3, 3), (3, 3), maps=0), "maps must be"),
        (lambda: matrix_rnn(25, 24, rows=7), "hidden_size = 24 numbers do not fill 7 rows"),
        (lambda: matrix_rnn(25, 24, layers=0), "layers must be"),
        (lambda: matrix_rnn(0, 24), "input_size must be"),
        (lambda: stack_matrix_rnns([(5, 5)]), "at least one layer"),
        (lambda: MatrixLayers([(5, 5), (3, 3)])(torch.zeros(2, 9)), "25 features"),
        (lambda: DeepTransition([]), "at least one layer"),
        (lambda: DeepTransition([MatrixRNN((5, 5), (3, 3)), MatrixRNN((5, 5), (3, 4))]), "one shape"),
        (lambda: DeepTransition([MatrixRNN((5, 5), (3, 3)), MatrixRNN((5, 4), (3, 3))]), "same input"),
        (lambda: QueueMemory(MatrixRNN((5, 5), (3, 3)), []), "every slot"),
        (lambda: QueueMemory(MatrixRNN((5, 5), (3, 3)), [float("nan")]), "finite"),
        (lambda: ms.scan(MatrixRNN((5, 5), (3, 3)), torch.zeros(4, 2, 24)), "takes 25 input features"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def built(cls, *args, **options):
    """Return the function as users call it, without the type checks of the tests."""
    cell = cls.__new__(cls)
    unwrap(cls.__init__)(cell, *args, **options)
    return cell


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: built(MatrixRNN, (5, 5), (4.5, 4)), r"whole numbers, but its shape is \(4.5, 4\)"),
        (lambda: built(MatrixRNN, (5, 5), (True, 4)), r"whole numbers, but its shape is \(True, 4\)"),
        (lambda: built(MatrixRNN, (5, 4.5), (4, 4)), r"whole numbers, but its shape is \(5, 4.5\)"),
        (lambda: built(MatrixRNN, [(5, 5), 4], (4, 4)), "a list of shapes is needed"),
        (lambda: built(MatrixRNN, 5, (4, 4)), "a list of shapes is needed, but not 5"),
        (lambda: built(MatrixRNN, "55", (4, 4)), "its shape is '5'"),
        (lambda: built(MatrixRNN, (5, 5), 16), "but its shape is 16"),
        (lambda: built(Bilinear, (3, 3), (3, 3), maps=1.5), "maps must be a whole number"),
        (lambda: unwrap(matrix_lstm)(25, 24.0), "hidden_size must be a whole number, at least 1, but is 24.0"),
        (lambda: unwrap(matrix_lstm)(25, 24, rows=6.0), "rows must be a whole number, at least 1, but is 6.0"),
        (lambda: unwrap(matrix_gru)(25.0, 24), "input_size must be a whole number, at least 1, but is 25.0"),
        (lambda: matrix_rnn(25, 24, input_rows=-5), "input_rows must be a whole number, at least 1, but is -5"),
        (lambda: unwrap(matrix_stack)(25, 24, layers=1.5), "layers must be a whole number"),
        (lambda: unwrap(matrix_stack)(25, 24, 4.0), "output_size must be a whole number"),
        (lambda: built(QueueMemory, MatrixRNN((5, 5), (3, 3)), "a"), "every slot of the queue, but is 'a'"),
        (lambda: built(QueueMemory, MatrixRNN((5, 5), (3, 3)), [[1], [1, 2]]), "every slot of the queue"),
        (lambda: Bilinear((5, 4), (3, 3))(torch.zeros(2, 4, 5)), r"takes matrices \(..., 5, 4\), but got \(2, 4, 5\)"),
        (lambda: Bilinear((1, 4), (3, 3), maps=2)(torch.zeros(2, 3, 4)), r"takes matrices \(..., 1, 4\)"),
    ],
)
def test_bad_shapes_and_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_layers_are_counted_and_depth_is_named():
    for layers in (1.5, True, 0):
        with pytest.raises(ValueError, match=f"layers must be a whole number, at least 1, but is {layers}"):
            unwrap(_layers)(MatrixRNN, (5, 5), (3, 3), layers, "stack")
    with pytest.raises(ValueError, match="depth must be one of stack, transition, but is 'deep'"):
        unwrap(_layers)(MatrixRNN, (5, 5), (3, 3), 2, "deep")


def test_shapes_may_be_numpy_integers():
    cell = built(MatrixRNN, (np.int64(5), np.int32(2)), [np.int64(4), 3])
    assert cell.input_shapes == [(5, 2)]
    assert cell.state_shape == (4, 3)
    assert {type(size) for size in (*cell.input_shapes[0], *cell.state_shape)} == {int}


def test_states_of_a_matrix_lstm_are_matrices():
    state = MatrixLSTM((2, 2), (3, 4)).initial_state(5)
    assert isinstance(state, LSTMState)
    assert state.h.shape == state.c.shape == (5, 3, 4)
