"""Turing machines: addressing compared with Graves' equations number by number, and invariants of a machine."""

import re
from inspect import unwrap  # of the check of types, which refuses before the function can
from math import exp, prod, sqrt

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, Model
from mnemoscope.cells.cell import check_step_input
from mnemoscope.cells.matrix import Bilinear, DeepTransition, MatrixGRU, MatrixLSTM, MatrixRNN
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.kernels.tape_addressing import Products
from mnemoscope.lenses.tape import Tape, record_tape
from mnemoscope.memory.tape import FeedForward, TuringMachine
from mnemoscope.memory.tape.addressing import content_weights, interpolate, sharpen, shift_weights
from mnemoscope.memory.tape.heads import erase_and_add
from mnemoscope.networks.tape import matntm, ntm
from tests.slow import SLOW, representatives

ROUNDING = 1e-12  # float64, sums of some tens of terms of order 1


def deep(inputs, state, layers):
    return DeepTransition([MatrixRNN(inputs, state) for _ in range(layers)])


MACHINES = {
    "lstm": lambda: TuringMachine(LSTM(3 + 4, 6), 5, (4,)),
    "gru, many heads": lambda: TuringMachine(GRU(3 + 3 * 4, 6), 7, (4,), read_heads=3, write_heads=2, reach=2),
    "feed-forward": lambda: TuringMachine(FeedForward(3 + 4, 6), 5, (4,), initial_memory="learned"),
    "lstm, matrices": lambda: TuringMachine(LSTM(3 + 2 * 6, 6), 5, (2, 3), read_heads=2, write_heads=2),
    "matrices": lambda: TuringMachine(deep([(3, 1), (2, 3)], (4, 5), 2), 5, (2, 3), output_shape=(2, 2)),
    "matrices, many heads": lambda: TuringMachine(
        deep([(3, 1), (2, 3), (2, 3)], (4, 4), 1), 5, (2, 3), read_heads=2, write_heads=2, output_shape=(2, 2)
    ),
    "matrix rnn": lambda: TuringMachine(MatrixRNN([(3, 1), (2, 3)], (4, 5)), 5, (2, 3)),
    "matrix lstm, vectors": lambda: TuringMachine(
        MatrixLSTM([(3, 1), (4, 1), (4, 1)], (3, 4)), 5, (4,), read_heads=2, reach=0, output_shape=(2, 2)
    ),
    "matrix gru": lambda: TuringMachine(MatrixGRU([(3, 1), (2, 2)], (3, 3)), 5, (2, 2)),
    "elman": lambda: TuringMachine(Elman(3 + 4, 6, "tanh"), 5, (4,), write_heads=2),
    "own readout": lambda: TuringMachine(LSTM(3 + 4, 6), 5, (4,), output_shape=(2,)),
}


@pytest.fixture(params=MACHINES)
def machine(request):
    return MACHINES[request.param]().double()


def weights_like(*shape):
    return torch.softmax(2 * torch.randn(*shape, dtype=torch.float64), dim=-1)


def slow_content(memory, key, beta):
    """Return the content weights of one head (Graves et al., Eq 5-6)."""

    def length(v):
        return sqrt(sum(float(a) ** 2 for a in v))

    def cosine(u, v):
        return sum(float(a) * float(b) for a, b in zip(u, v, strict=True)) / (length(u) * length(v))

    scores = [exp(float(beta) * cosine(key, slot)) for slot in memory]
    return [score / sum(scores) for score in scores]


def slow_address(memory, key, beta, g, s, gamma, before):
    """Return the weights of one head (Eq 5-9), with s(o) for o = -reach, ..., reach."""
    content = slow_content(memory, key, beta)
    mixed = [g * c + (1 - g) * b for c, b in zip(content, before, strict=True)]
    N, reach = len(mixed), len(s) // 2
    moved = [
        sum(mixed[j] * s[o + reach] for j in range(N) for o in range(-reach, reach + 1) if (j + o) % N == i)
        for i in range(N)
    ]
    sharp = [w**gamma for w in moved]
    return [w / sum(sharp) for w in sharp]


def test_content_weights_are_the_published_softmax_of_cosines():
    memory, key = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(3, 2, 4, dtype=torch.float64)
    beta = 5 * torch.rand(3, 2, 1, dtype=torch.float64)
    seen = content_weights(memory, key, beta)
    for b in range(3):
        for h in range(2):
            expected = slow_content(memory[b], key[b, h], beta[b, h])
            torch.testing.assert_close(seen[b, h], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=ROUNDING)


def test_frobenius_cosine_equals_the_cosine_of_flat_slots():
    A, B = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    frobenius = torch.trace(A.T @ B) / (torch.linalg.matrix_norm(A) * torch.linalg.matrix_norm(B))
    other = torch.zeros_like(A)
    memory, one = torch.stack([B, other]).flatten(1)[None], torch.ones(1, 1, 1, dtype=torch.float64)
    log_w = content_weights(memory, A.flatten()[None, None], one)[0, 0].log()
    torch.testing.assert_close(log_w[0] - log_w[1], frobenius, rtol=0, atol=ROUNDING)  # cosine with 0 is 0


@pytest.mark.parametrize("slots", [3, 4, 7])
@pytest.mark.parametrize("reach", [0, 1])
def test_shift_weights_is_a_circular_convolution(slots, reach):
    w, s = weights_like(2, 3, slots), weights_like(2, 3, 2 * reach + 1)
    expected = torch.zeros_like(w)
    for i in range(slots):
        for o in range(-reach, reach + 1):
            expected[..., i] += w[..., (i - o) % slots] * s[..., o + reach]
    torch.testing.assert_close(shift_weights(w, s), expected, rtol=0, atol=ROUNDING)


def test_interpolation_and_sharpening_follow_the_published_equations():
    content, before, gamma = weights_like(2, 3, 5), weights_like(2, 3, 5), 1 + 4 * torch.rand(2, 3, 1).double()
    g = torch.rand(2, 3, 1, dtype=torch.float64)
    torch.testing.assert_close(interpolate(content, before, g), g * content + (1 - g) * before, rtol=0, atol=ROUNDING)
    sharp = before**gamma
    expected = sharp / sharp.sum(-1, keepdim=True)
    torch.testing.assert_close(sharpen(before, gamma), expected, rtol=0, atol=ROUNDING)


def test_writing_with_two_heads_follows_the_published_equations():
    memory, w = torch.randn(2, 5, 3, dtype=torch.float64), weights_like(2, 2, 5)
    erase, add = torch.rand(2, 2, 3, dtype=torch.float64), torch.randn(2, 2, 3, dtype=torch.float64)
    expected = memory.clone()
    for b in range(2):
        for i in range(5):
            for h in range(2):
                expected[b, i] *= 1 - w[b, h, i] * erase[b, h]
            for h in range(2):
                expected[b, i] += w[b, h, i] * add[b, h]
    torch.testing.assert_close(erase_and_add(memory, w, erase, add), expected, rtol=0, atol=ROUNDING)


def random_state(machine, batch):
    """Return a random state with weights that sum to 1."""
    state = map_state(lambda part: 0.7 * torch.randn_like(part), machine.initial_state(batch))
    weights = {name: torch.softmax(3 * getattr(state, name), -1) for name in ("read_weights", "write_weights")}
    return state._replace(**weights)


@representatives(
    "elman",
    "feed-forward",
    "gru, many heads",
    "matrices, many heads",
    "matrix gru",
    "matrix lstm, vectors",
    "own readout",
)
@torch.no_grad()
def test_a_step_writes_then_reads_as_published(machine):
    """The whole step is computed number by number from the parameters of the heads."""
    x, state = torch.randn(2, 3, dtype=torch.float64), random_state(machine, 2)
    told, new = machine.intermediates(x, state), machine(x, state)
    writers, readers = machine.write_heads, machine.read_heads
    for b in range(2):
        rule = {name: told[name][b].flatten(1) if name in ("key", "erase", "add") else told[name][b] for name in told}

        def look(memory, h, before, rule=rule):
            s = [float(part) for part in rule["shift"][h]]
            numbers = (float(rule[name][h]) for name in ("strength", "gate", "gamma"))
            beta, g, gamma = numbers
            return slow_address(memory, rule["key"][h], beta, g, s, gamma, [float(w) for w in before])

        memory = [[float(a) for a in slot] for slot in state.memory[b].flatten(1)]
        w = [look(memory, h, state.write_weights[b, h]) for h in range(writers)]
        for i, slot in enumerate(memory):
            for k in range(len(slot)):
                slot[k] *= prod(1 - w[h][i] * float(rule["erase"][h][k]) for h in range(writers))
                slot[k] += sum(w[h][i] * float(rule["add"][h][k]) for h in range(writers))
        r = [look(memory, writers + h, state.read_weights[b, h]) for h in range(readers)]
        M, w, r = (torch.tensor(numbers, dtype=torch.float64) for numbers in (memory, w, r))
        pairs = [(new.memory, M), (new.write_weights, w), (new.read_weights, r), (new.reads, r @ M)]
        for seen, expected in ((seen[b].flatten(1), expected) for seen, expected in pairs):
            torch.testing.assert_close(seen, expected, rtol=0, atol=ROUNDING)


def test_a_write_is_read_at_the_same_step():
    machine = ntm(3, 4, slots=5, slot_size=2).double()
    state = machine.initial_state(1)
    before, after = state.reads, machine(torch.ones(1, 3).double(), state).reads
    assert before.abs().max() < 1e-5  # an empty tape
    assert after.abs().min() > 1e-3


def test_head_parameters_have_the_documented_order():
    machine = matntm(3, 4, layers=1, slots=5, slot_rows=2, slot_columns=3, write_heads=2).double()
    H = torch.randn(2, 4, 4, dtype=torch.float64)
    orders = machine.heads(H)
    keys, changes, moves, rest = (each(H) for each in machine.heads.maps)
    for h in range(3):
        told, k = (orders.write, h) if h < 2 else (orders.read, 0)
        torch.testing.assert_close(told.key[:, k], torch.tanh(keys[:, :, 3 * h : 3 * h + 3]).flatten(1))
        torch.testing.assert_close(told.shift[:, k], torch.softmax(moves[:, :, h], -1))
        torch.testing.assert_close(told.strength[:, k, 0], 1 + torch.nn.functional.softplus(rest[:, 0, h]))
        torch.testing.assert_close(told.gate[:, k, 0], torch.sigmoid(rest[:, 1, h]))
        torch.testing.assert_close(told.gamma[:, k, 0], 1 + torch.nn.functional.softplus(rest[:, 2, h]))
    for h in range(2):
        torch.testing.assert_close(orders.erase[:, h], torch.sigmoid(changes[:, :, 3 * h : 3 * h + 3]).flatten(1))
        torch.testing.assert_close(orders.add[:, h], torch.tanh(changes[:, :, 6 + 3 * h : 9 + 3 * h]).flatten(1))


def test_matrix_controller_follows_the_printed_recurrence():
    machine = matntm(6, 4, layers=2, slots=5, slot_rows=2, slot_columns=3, input_rows=2).double()
    x, state = torch.randn(2, 6, dtype=torch.float64), random_state(machine, 2)
    expected, X, R = state.controller, x.view(2, 2, 3), state.reads[:, 0]
    for layer in machine.controller.layers:
        U, V = layer.connectivity.factors()
        q, r = layer.drive.maps
        expected = torch.tanh(U.T @ expected @ V + q.U.T @ X @ q.V + q.bias + r.U.T @ R @ r.V)
    torch.testing.assert_close(machine(x, state).controller, expected, rtol=0, atol=ROUNDING)


def test_scan_equals_the_loop_and_a_mask_holds_the_state(machine):
    xs, state = torch.randn(5, 4, 3, dtype=torch.float64), random_state(machine, 4)
    mask = torch.rand(5, 4) > 0.4
    outputs, last = ms.scan(machine, xs, state, mask=mask)
    for b in range(4):
        one = map_state(lambda part, b=b: part[b : b + 1], state)
        for t in range(5):
            one = machine(xs[t, b : b + 1], one) if mask[t, b] else one
            torch.testing.assert_close(outputs[t, b], machine.output(one)[0], rtol=0, atol=ROUNDING)
        for seen, expected in zip(leaves(last), leaves(one), strict=True):
            torch.testing.assert_close(seen[b], expected[0], rtol=0, atol=ROUNDING)


@representatives("lstm-None", "own readout-0.5")
@pytest.mark.parametrize("limit", [None, 0.5])
def test_fused_scan_and_its_gradients_equal_the_loop(machine, limit):
    machine.gradient_limit = limit
    xs = torch.randn(5, 3, 3, dtype=torch.float64, requires_grad=True)
    start = map_state(lambda part: part.requires_grad_(True), random_state(machine, 3))
    tensors = [xs, *leaves(start), *machine.parameters()]
    seen = []
    for backend in ("loop", "auto" if isinstance(machine.controller, (GRU, MatrixGRU)) else "fused"):
        outputs, last = ms.scan(machine, xs, start, backend=backend)
        torch.manual_seed(1)
        loss = sum((part * torch.randn_like(part)).sum() for part in (outputs, *leaves(last)))
        seen.append([outputs, *leaves(last), *torch.autograd.grad(loss, tensors, materialize_grads=True)])
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)  # gradients of order 100


@pytest.mark.parametrize("controller", ["rnn", "lstm"])
def test_loop_of_a_large_matrix_controller_equals_the_fused_scan(controller, monkeypatch):
    """The limit is lowered in between, so that both run the same small machine."""
    machine = matntm(4, 3, slots=5, slot_rows=2, slot_columns=2, controller=controller).double()
    xs, seen = torch.randn(5, 3, 4, dtype=torch.float64, requires_grad=True), []
    for largest, fused in ((9, True), (8, False)):
        monkeypatch.setattr("mnemoscope.memory.tape.fused.LARGEST", largest)
        outputs, last, route = ms.scan(machine, xs, explain=True)
        assert route.fused is fused
        loss = sum(part.square().sum() for part in (outputs, *leaves(last)))
        seen.append([outputs, *leaves(last), *torch.autograd.grad(loss, [xs, *machine.parameters()])])
    assert "its state has 9 entries; the matrix of its vector form pays up to 8" in route.why
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    assert ms.scan(TuringMachine(LSTM(3 + 4, 9), 5, (4,)), torch.zeros(2, 1, 3), explain=True)[2].fused  # of vectors


def test_published_machines_are_fused_and_larger_ones_are_not():
    for size, fused in ((15, True), (20, True), (25, False)):
        route = ms.scan(matntm(25, size, slots=5), torch.zeros(1, 1, 25), explain=True)[2]
        assert route.fused is fused, size


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("elementwise", [False, True])
def test_both_kinds_of_memory_products_equal_sums(elementwise, heads):
    """The choice depends on the hardware; both are tested everywhere."""
    memory, vectors, weights = (
        torch.randn(size, dtype=torch.float64) for size in ((4, 5, 7), (4, heads, 5), (4, heads, 7))
    )
    products = Products(memory)
    products.elementwise = elementwise
    torch.testing.assert_close(products.dots(vectors, memory), torch.einsum("bhn,bns->bhs", vectors, memory))
    torch.testing.assert_close(products.means(weights, memory), torch.einsum("bhs,bns->bhn", weights, memory))
    expected = memory + torch.einsum("bhn,bhs->bns", vectors, weights)
    products.add_outer(memory, vectors, weights)
    torch.testing.assert_close(memory, expected)


@pytest.mark.parametrize("elementwise", [False, True])
def test_fused_scan_equals_the_loop_with_both_kinds_of_products(elementwise, monkeypatch):
    begin = Products.__init__

    def chosen(self, memory):
        begin(self, memory)
        self.elementwise = elementwise

    monkeypatch.setattr(Products, "__init__", chosen)
    test_fused_scan_and_its_gradients_equal_the_loop(ntm(3, 6, slots=5, slot_size=4).double(), None)


def test_gradient_limit_clips_the_gradient_between_steps(machine):
    xs, start = torch.randn(3, 2, 3, dtype=torch.float64), random_state(machine, 2)
    states = [start]
    for x in xs:
        states.append(machine(x, states[-1]))
    given = [torch.randn_like(part) for part in leaves(states[-1])]

    def pulled(step, state, gradients):
        held = map_state(lambda part: part.detach().requires_grad_(True), state)
        return torch.autograd.grad(leaves(step(held)), leaves(held), gradients, materialize_grads=True)

    expected = given
    for x, before in zip(xs.flip(0), states[-2::-1], strict=True):
        found = pulled(lambda state, x=x: machine(x, state), before, expected)
        expected = [one.clamp(-0.1, 0.1) for one in found]
    assert max(one.abs().max() for one in found) > 0.1
    machine.gradient_limit = 0.1
    for seen, wanted in zip(pulled(lambda state: ms.scan(machine, xs, state)[1], start, given), expected, strict=True):
        torch.testing.assert_close(seen, wanted, rtol=1e-9, atol=1e-11)


def test_second_derivatives_of_the_fused_scan_raise():
    machine, xs = ntm(3, 5, slots=4, slot_size=3), torch.randn(3, 2, 3, requires_grad=True)
    (g,) = torch.autograd.grad(ms.scan(machine, xs, backend="loop")[0].sum(), xs, create_graph=True)
    g.sum().backward()
    with pytest.raises(RuntimeError, match="backend='loop'"):
        torch.autograd.grad(ms.scan(machine, xs)[0].sum(), xs, create_graph=True)


@representatives("lstm-is_grads_batched", "own readout-vmap in vmap")
@pytest.mark.parametrize("how", ["is_grads_batched", "vmap", "vmap in vmap"])
def test_batched_gradients_equal_single_gradients(machine, how):
    """Both kinds of hidden batch dimension in torch give the gradients of each vector alone."""
    xs = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    outputs, last = ms.scan(machine, xs)
    wanted = [xs, *machine.parameters()]
    vectors = torch.randn(2, 3, *outputs.shape, dtype=torch.float64)

    def pulled(g):  # not all that was computed gets a gradient
        found = torch.autograd.grad(
            [outputs, last.memory], wanted, [g, torch.ones_like(last.memory)], retain_graph=True, materialize_grads=True
        )
        return list(found)

    expected = [torch.stack(parts) for parts in zip(*map(pulled, vectors.flatten(0, 1)), strict=True)]
    if how == "is_grads_batched":
        ones = torch.ones(6, *last.memory.shape, dtype=torch.float64)
        found = torch.autograd.grad(
            [outputs, last.memory], wanted, [vectors.flatten(0, 1), ones], is_grads_batched=True, materialize_grads=True
        )
    elif how == "vmap":
        found = torch.func.vmap(pulled)(vectors.flatten(0, 1))
    else:
        found = [part.flatten(0, 1) for part in torch.func.vmap(torch.func.vmap(pulled))(vectors)]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=ROUNDING)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of torch, in forward mode
def test_every_way_to_differentiate_matches_the_loop():
    machine = ntm(3, 5, slots=4, slot_size=3).double()
    xs, tangent = torch.randn(3, 2, 3).double(), torch.randn(3, 2, 3).double()

    def outputs(xs, backend="auto"):
        return ms.scan(machine, xs, backend=backend)[0]

    jacobian = torch.autograd.functional.jacobian(lambda xs: outputs(xs, "loop"), xs)
    moved = (jacobian.flatten(3) @ tangent.flatten()).view(3, 2, -1)
    ways = {
        "one by one": torch.autograd.functional.jacobian(outputs, xs),
        "batched": torch.autograd.functional.jacobian(outputs, xs, vectorize=True),
        "forward": torch.autograd.functional.jacobian(outputs, xs, vectorize=True, strategy="forward-mode"),
        "jacrev": torch.func.jacrev(outputs)(xs),
        "jacfwd": torch.func.jacfwd(outputs)(xs),
    }
    for found in ways.values():
        torch.testing.assert_close(found, jacobian, rtol=0, atol=ROUNDING)
    torch.testing.assert_close(torch.func.jvp(outputs, (xs,), (tangent,))[1], moved, rtol=0, atol=ROUNDING)
    many = torch.func.vmap(outputs)(torch.stack([xs, 2 * xs]))
    torch.testing.assert_close(many[1], outputs(2 * xs), rtol=0, atol=ROUNDING)
    second = torch.func.hessian(lambda xs: outputs(xs).square().sum())(xs)
    expected = torch.autograd.functional.hessian(lambda xs: outputs(xs, "loop").square().sum(), xs)
    torch.testing.assert_close(second, expected, rtol=0, atol=1e-10)


def test_weights_sum_to_one_and_runs_are_repeatable(machine):
    xs = torch.randn(10, 3, 3, dtype=torch.float64)
    _, cache = ms.run_with_cache(machine, xs)
    for name in ("read_weights", "write_weights"):
        assert cache[name].min() >= 0
        torch.testing.assert_close(cache[name].sum(-1), torch.ones_like(cache[name][..., 0]), rtol=0, atol=ROUNDING)
    assert cache["memory"].shape == (10, 3, machine.slots, *machine.slot_shape)
    assert torch.equal(ms.scan(machine, xs)[0], ms.scan(machine, xs)[0])


def test_the_module_holds_no_state(machine):
    before = {name: value.clone() for name, value in machine.state_dict().items()}
    ms.scan(machine, torch.randn(5, 3, 3, dtype=torch.float64))
    assert machine.state_dict().keys() == before.keys() == dict(machine.named_parameters()).keys()
    assert all(torch.equal(before[name], value) for name, value in machine.state_dict().items())


@representatives("lstm-1-50", "own readout-1000-8")
@pytest.mark.parametrize(("scale", "length"), [(1, 50), (30, 12), (1000, 8)])
def test_gradients_are_finite(machine, scale, length):
    """Also where gates round to 0 and 1. (With factors of 1000 at each step, true gradients overflow before long.)"""
    machine = machine.float()
    with torch.no_grad():
        for parameter in machine.heads.parameters():
            parameter.mul_(scale)
    outputs, last = ms.scan(machine, torch.randn(length, 2, 3))
    assert all(torch.isfinite(part).all() for part in leaves(last))
    outputs.square().mean().backward()
    for name, parameter in machine.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_heads_circle_the_ring_with_finite_gradients():
    """One-hot to the last bit: by location alone (g = e^-100), one slot on at each step, gamma about 100."""
    machine = ntm(3, 6, slots=7, slot_size=4)
    with torch.no_grad():
        parts = machine.heads.maps[0].bias.split(machine.heads.sizes)
        parts[2].copy_(torch.tensor([-100.0, -100, 100]).repeat(2))
        parts[3].copy_(torch.tensor([0.0, -100, 100]).repeat(2))
    outputs, cache = ms.run_with_cache(machine, torch.randn(100, 2, 3))
    for name in ("read_weights", "write_weights"):
        there = (torch.arange(100) + 1) % 7
        expected = torch.nn.functional.one_hot(there, 7).float().view(100, 1, 1, 7).expand(-1, 2, -1, -1)
        assert torch.equal(cache[name], expected)
    outputs.square().mean().backward()
    for name, parameter in machine.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_gradients_are_finite_at_exactly_one_hot_weights():
    """The plain formula has 0 log 0 there."""
    machine = ntm(3, 8, slots=6, slot_size=4)
    state = machine.initial_state(2)
    one_hot = torch.zeros_like(state.read_weights)
    one_hot[..., 2] = 1
    one_hot.requires_grad_(True)
    outputs, _ = ms.scan(machine, torch.randn(10, 2, 3), state._replace(read_weights=one_hot, write_weights=one_hot))
    outputs.square().sum().backward()
    for tensor in (one_hot, *machine.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_and_their_gradients_stay_finite_where_powers_underflow(dtype):
    """0.01^40 is 0 in float32, and all weights but one are 0 from the start."""
    weights = torch.tensor([[[1.0, 0.0, 0.01, 1e-20, 1e-35]]], dtype=dtype, requires_grad=True)
    gamma = torch.tensor([[[40.0]]], dtype=dtype, requires_grad=True)
    sharp = sharpen(weights, gamma)
    assert sharp.tolist()[0][0][0] == 1
    for g in torch.autograd.grad(sharp[..., 0].sum() + sharp[..., 2].sum(), [weights, gamma]):
        assert torch.isfinite(g).all()
    kept = sharpen(weights.detach(), torch.ones(1, 1, 1, dtype=dtype))[0, 0]
    torch.testing.assert_close(kept[2] / kept[0], weights[0, 0, 2].detach())
    assert kept[1] == kept[4] > 0  # below the floor, all are alike


def test_a_learned_memory_learns_and_a_constant_one_is_no_parameter():
    learned, constant = (ntm(3, 8, slots=6, slot_size=4, initial_memory=kind) for kind in ("learned", "constant"))
    ms.scan(learned, torch.randn(5, 2, 3))[0].square().sum().backward()
    assert learned.initial_memory.grad.abs().sum() > 0
    assert constant.initial_memory is None
    assert (constant.initial_state(2).memory == 1e-6).all()
    assert constant.initial_state(2).read_weights.argmax(-1).eq(0).all()


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_published_numbers_of_parameters():
    assert count(matntm(25, 15, layers=3, output_size=25)) == 4121  # Renanse et al., Table 1
    assert count(matntm(25, 20, layers=4, output_size=25)) == 7946
    # pytorch-ntm's copy task has 62,860, of which 200 are the initial state of its LSTM, which is 0 here
    assert count(Model(ntm(9, 100), 8)) == 62_860 - 200


def test_the_registry_has_the_published_sizes():
    machine = ms.registry.cells.load("matntm")(25, 15, output_size=25)
    assert (machine.slots, machine.slot_shape) == (120, (6, 6))
    assert ms.scan(machine, torch.zeros(2, 3, 25))[0].shape == (2, 3, 25)
    assert machine.has_readout
    machine = ms.registry.cells.load("ntm")(9, 100)
    assert (machine.slots, machine.slot_shape) == (128, (20,))
    assert not machine.has_readout


def test_the_readout_is_linear_in_controller_output_and_reads():
    machine = matntm(6, 4, slots=5, slot_rows=2, slot_columns=3, read_heads=2, output_size=6)
    state = random_state(machine, 3)
    of_shown, of_reads = machine.readouts
    side_by_side = torch.cat([state.reads[:, 0], state.reads[:, 1]], dim=2)
    expected = of_shown(state.controller) + of_reads(side_by_side)
    torch.testing.assert_close(machine.output(state), expected.flatten(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), read_heads=0), "read_heads must be .* at least 1, but is 0"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), write_heads=0), "write_heads must be .* at least 1, but is 0"),
        (lambda: TuringMachine(LSTM(7, 6), 0, (4,)), "slots must be .* but is 0"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (0,)), r"slot_shape\[0\] must be .* but is 0"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (2, -1)), r"slot_shape\[1\] must be .* but is -1"),
        (lambda: TuringMachine(LSTM(7, 6), 5, ()), r"slot_shape must be .* but is \(\)"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), output_shape=()), r"output_shape must be .* but is \(\)"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), output_shape=(0,)), r"output_shape\[0\] must be .* but is 0"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), least_strength=-1.0), "least_strength must be .* but is -1"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), least_strength=float("nan")), "least_strength must .* is nan"),
        (lambda: ntm(3, 6, gradient_limit=0.0), "gradient_limit must be a number above 0, or None, but is 0.0"),
        (lambda: matntm(3, 6, gradient_limit=float("nan")), "gradient_limit must be a number above 0"),
        (lambda: matntm(4, 3, output_size=4, output_rows=0), "output_rows must be"),
        (lambda: matntm(4, 3, output_rows=2), "output_rows is 2, but without an output_size"),
        (lambda: matntm(4, 3, controller="gru"), "'gru'"),
        (lambda: matntm(4, 3, slots=4, reach=2), "5 moves and 4 slots"),
        (lambda: LSTM(3, 0), "hidden_size must be a whole number, at least 1, but is 0"),
        (lambda: ms.scan(ntm(3, 6), torch.zeros(2, 3)), r"\(time, batch, features\), but got \(2, 3\)"),
        (lambda: ntm(3, 6, slots=2), "3 moves and 2 slots"),
        (lambda: ntm(3, 6, slots=6, reach=3), "7 moves and 6 slots"),
        (lambda: ntm(3, 6, reach=-1), "reach must be a whole number, at least 0, but is -1"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4, 1, 1)), r"\(rows, columns\)"),
        (lambda: TuringMachine(LSTM(8, 6), 5, (4,), read_heads=2), r"features of x \+ 8"),
        (lambda: TuringMachine(MatrixRNN([(3, 1), (2, 3)], (4, 4)), 5, (3, 2)), r"here \[\(3, 2\)\]"),
        (lambda: TuringMachine(deep([(3, 1), (2, 3)], (4, 4), 1), 5, (2, 3), read_heads=2), "features of x"),
        (lambda: TuringMachine(MatrixRNN([(9, 1), (2, 3)], (4, 4)), 5, (2, 3), read_heads=2), "takes"),
        (lambda: matntm(3, 4, controller="lstm", layers=7), "layers is 7"),
        (lambda: ms.scan(ntm(3, 4).half(), torch.zeros(2, 1, 3).half()), "float16"),
        (lambda: TuringMachine(ms.registry.cells.load("memrnn")(3, 4), 5, (2,)), "state of constant size"),
        (lambda: TuringMachine(ms.adapt(lambda x, h: h, state_size=2), 5, (2,)), "how many inputs"),
        (lambda: TuringMachine(LSTM(7, 6), 5, (4,), initial_memory="random"), "'random'"),
        (lambda: ntm(3, 6, controller="gru"), "controller must be"),
        (lambda: matntm(25, 6, input_rows=4), "do not fill 4 rows"),
        (lambda: content_weights(torch.zeros(1, 5, 4), torch.zeros(1, 1, 3), torch.ones(1, 1, 1)), "3 and slots 4"),
        (lambda: shift_weights(torch.zeros(1, 1, 4), torch.zeros(1, 1, 2)), "odd number"),
        (lambda: ms.scan(ntm(3, 6, slots=5), torch.zeros(2, 1, 3), ntm(3, 6, slots=6).initial_state(1)), "5, 20"),
        (lambda: ms.scan(ntm(3, 6, slots=5), torch.zeros(2, 1, 4)), "takes 3 input features"),
        (lambda: stepped(ntm(3, 6, slots=5), torch.zeros(1, 4)), r"takes 3 input features.*expected \(batch, 3\)"),
        (lambda: stepped(matntm(4, 9, slots=5), torch.zeros(1, 3)), "takes 4 input features"),
        (lambda: check_step_input(ntm(3, 6, slots=5), torch.zeros(3)), r"shape \(batch, features\), but got \(3,\)"),
        (lambda: stepped(ntm(3, 6, slots=5), torch.zeros(1, 3).double()), "are float32, but the inputs float64"),
        (lambda: ms.scan(matntm(4, 9, slots=5), torch.zeros(2, 1, 4).double()), "are float32, but the inputs float64"),
    ],
)
def test_bad_arguments_raise_with_an_explanation(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def stepped(machine, x):
    return machine(x, machine.initial_state(1))


COUNTS = {
    ntm: ("input_size", "hidden_size", "slots", "slot_size", "read_heads", "write_heads"),
    matntm: ("input_size", "hidden_size", "layers", "slots", "slot_rows", "slot_columns", "read_heads", "write_heads"),
}


@representatives("matntm-input_size-2.0", "matntm-layers--20", "ntm-read_heads-2.0")
@pytest.mark.parametrize("bad", [0, -1, -20, 2.0, True])
@pytest.mark.parametrize(("make", "name"), [(make, name) for make, names in COUNTS.items() for name in names])
def test_a_wrong_count_raises_with_its_name(make, name, bad):
    """The message names the argument, even if a size of the controller derives from it."""
    with pytest.raises(ValueError, match=f"^{name} must be a whole number, at least 1, but is {bad!r}"):
        unwrap(make)(**{"input_size": 4, "hidden_size": 3, name: bad})


def built(*args, **options):
    """Build a machine without the type checks of the tests."""
    machine = TuringMachine.__new__(TuringMachine)
    unwrap(TuringMachine.__init__)(machine, *args, **options)
    return machine


@pytest.mark.parametrize("bad", ["a", True, float("nan"), [1.0]])
@pytest.mark.parametrize("name", ["gradient_limit", "least_strength"])
def test_an_option_that_is_no_number_raises_with_its_name(name, bad):
    with pytest.raises(ValueError, match=rf"^{name} must be a .*number.*, but is {re.escape(repr(bad))}\.$"):
        built(LSTM(7, 6), 5, (4,), **{name: bad})


def test_numpy_integers_are_accepted():
    counts = {"read_heads": np.int64(1), "write_heads": np.int32(2), "reach": np.int64(1)}
    machine = built(LSTM(7, 6), np.int64(5), (np.int64(4),), gradient_limit=np.float64(10), **counts)
    assert repr((machine.slots, machine.slot_shape, machine.read_heads, machine.write_heads)) == "(5, (4,), 1, 2)"
    assert ms.scan(machine, torch.zeros(2, 3, 3))[0].shape == (2, 3, 10)


def test_a_state_of_another_batch_size_raises(machine):
    x, state = torch.zeros(2, 3, dtype=torch.float64), machine.initial_state(3)
    with pytest.raises(ValueError, match=r"inputs have a batch of 2, but the given state has \[3\]"):
        machine(x, state)
    with pytest.raises(ValueError, match=r"inputs have a batch of 2, but the given state has \[2, 3\]"):
        machine(x, machine.initial_state(2)._replace(controller=state.controller))


def test_wrong_types_of_controller_and_state_raise():
    for wrong in (torch.nn.LSTM(7, 6), "lstm", LSTM):
        with pytest.raises(TypeError, match=r"controller must be a cell.*adapt"):
            built(wrong, 5, (4,))
    machine = TuringMachine(ms.adapt(torch.nn.LSTM(7, 6)), 5, (4,))
    assert ms.scan(machine, torch.zeros(2, 1, 3))[0].shape == (2, 1, 6 + 4)
    with pytest.raises(TypeError, match="is a TapeState"):
        unwrap(type(machine)._check_state)(machine, torch.zeros(1, 6))


def test_any_cell_may_be_the_controller():
    machine = TuringMachine(ms.cells.Stack([Elman(3 + 4, 5), GRU(5, 6)]), 5, (4,))
    assert ms.scan(machine, torch.randn(4, 2, 3))[0].shape == (4, 2, 6 + 4)


@representatives("True")
@pytest.mark.parametrize("matrices", [False, True])
def test_a_tape_is_recorded_saved_and_drawn(tmp_path, matrices):
    machine = (
        matntm(4, 3, slots=9, slot_rows=2, slot_columns=3, output_size=4, read_heads=2)
        if matrices
        else Model(ntm(4, 5, slots=9, slot_size=6), 3)
    )
    xs = torch.randn(6, 2, 4)
    tape = record_tape(machine, xs)
    outputs = machine(xs)[0] if isinstance(machine, Model) else ms.scan(machine, xs)[0]
    torch.testing.assert_close(tape.outputs, outputs.detach())
    # the last slot of the last step, by what was said of each step
    cell = machine.cell if isinstance(machine, Model) else machine
    _, cache = ms.run_with_cache(cell, xs)
    M = torch.full((2, *cell.slot_shape), 1e-6)
    for w, e, a in zip(tape.write_weights[:, :, 0, -1], cache["erase"][:, :, 0], tape.added[:, :, 0], strict=True):
        w = w.view(2, *(1,) * len(cell.slot_shape))
        M = M * (1 - w * e) + w * a
    torch.testing.assert_close(tape.memory[-1, :, -1], M.detach())
    tape.save(tmp_path / "tape.safetensors")
    again = Tape.load(tmp_path / "tape.safetensors")
    assert torch.equal(again.memory, tape.memory)
    assert "6 steps on 9 slots" in again.summary()
    figure = again.figure(1)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles.count("Where it writes") == 1
    assert ("Head 2 reads" in titles) is matrices
    figure.savefig(tmp_path / "tape.png")
    assert (tmp_path / "tape.png").stat().st_size > 5_000
    with pytest.raises(ValueError, match="sequence 2"):
        tape.figure(2)
    with pytest.raises(TypeError, match="GRU"):
        record_tape(Model(GRU(4, 3), 2), xs)


def copy_batch(generator, size=16, bits=4, longest=5):
    length = int(torch.randint(1, longest + 1, (), generator=generator))
    word = torch.randint(0, 2, (length, size, bits), generator=generator).float()
    inputs = torch.zeros(2 * length + 1, size, bits + 1)
    inputs[:length, :, :bits] = word
    inputs[length, :, bits] = 1  # the end of the word; then nothing while it is said again
    return inputs, word


@SLOW
def test_a_small_machine_learns_to_copy():
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    model = Model(ntm(5, 32, slots=12, slot_size=6), 4)
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(1200):
        inputs, word = copy_batch(generator)
        loss = binary_cross_entropy_with_logits(model(inputs)[0][-len(word) :], word)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
    for _ in range(20):
        inputs, word = copy_batch(generator)
        assert ((model(inputs)[0][-len(word) :] > 0) == (word > 0)).all()


class Twice(torch.nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def _other_drive(machine):
    machine.controller.drive = Twice(7, 6)


def _other_map(machine):
    machine.heads.maps[0] = Twice(6, machine.heads.maps[0].out_features)


def _other_step(machine):
    turn = machine._write_and_read
    machine._write_and_read = lambda *args: turn(*args)._replace(reads=torch.zeros(3, 1, 4))


def _other_heads(machine):
    machine.heads.forward = lambda shown: type(machine.heads).forward(machine.heads, 2 * shown)


def _no_bias(machine):
    machine.heads.maps[0] = torch.nn.Linear(6, machine.heads.maps[0].out_features, bias=False)


@pytest.mark.parametrize("change", [_other_drive, _other_map, _other_step, _other_heads, _no_bias])
def test_replaced_parts_disable_the_fused_scan(change):
    machine, xs = TuringMachine(Elman(3 + 4, 6, "tanh"), 5, (4,)), torch.randn(4, 3, 3)
    plain = ms.scan(machine, xs)[0]
    change(machine)
    changed = ms.scan(machine, xs)[0]
    assert not torch.allclose(plain, changed)
    assert torch.equal(changed, ms.scan(machine, xs, backend="loop")[0])


def test_a_matrix_elman_cell_can_be_the_controller():
    machine = TuringMachine(MatrixRNN([(2, 2), (2, 3)], (3, 2)).as_elman(), 4, (2, 3))
    assert ms.scan(machine, torch.randn(4, 3, 4))[0].shape == (4, 3, 6 + 6)


def test_a_replaced_matrix_map_disables_the_fused_scan():
    class Other(Bilinear):
        def forward(self, X):
            return 2 * super().forward(X)

    for cell in (MatrixRNN((2, 2), (3, 2)), MatrixLSTM((2, 2), (3, 2)), MatrixGRU((2, 2), (3, 2))):
        cell.drive.parts[0].__class__ = Other
        xs = torch.randn(4, 3, 4)
        assert torch.equal(ms.scan(cell, xs)[0], ms.scan(cell, xs, backend="loop")[0])


HALVES = [torch.bfloat16, torch.float16]


@representatives("lstm-auto-dtype0", "own readout-loop-dtype1")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_autocast_keeps_the_precision_of_the_tape(machine, backend, dtype):
    """Controller and heads compute in half precision; memory and weights keep their dtype."""
    machine, xs = machine.float(), torch.randn(12, 3, 3)
    expected = ms.scan(machine, xs)[0]
    with torch.autocast("cpu", dtype):
        outputs, last = ms.scan(machine, xs, backend=backend)
    assert {part.dtype for part in last[1:]} == {torch.float32}
    torch.testing.assert_close(last.read_weights.sum(-1), torch.ones(3, machine.read_heads), rtol=0, atol=1e-6)
    assert (outputs - expected).abs().max() < 30 * torch.finfo(dtype).eps  # some roundings of each step
    outputs.float().square().mean().backward()
    for name, parameter in machine.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name


@representatives("lstm-auto", "own readout-loop")
@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_a_bfloat16_machine_approximates_the_float64_one(machine, backend):
    rounded, xs = machine.bfloat16(), torch.randn(12, 3, 3).bfloat16()
    outputs, last = ms.scan(rounded, xs, backend=backend)
    outputs.float().square().mean().backward()
    for name, parameter in rounded.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
    assert {part.dtype for part in leaves(last)} == {torch.bfloat16}
    expected = ms.scan(machine.float(), xs.float())[0]
    assert (outputs - expected).abs().max() < 30 * torch.finfo(torch.bfloat16).eps  # as under autocast


def test_float16_raises():
    w, one = torch.tensor([[[1.0, 0.0]]]).half(), torch.ones(1, 1, 1).half()
    with pytest.raises(ValueError, match="float16"):
        sharpen(w, one)
    with pytest.raises(ValueError, match="float16"):
        content_weights(torch.zeros(1, 2, 3).half(), torch.zeros(1, 1, 3).half(), one)


@pytest.mark.parametrize("part", ["read_weights", "write_weights", "reads", "memory"])
@pytest.mark.parametrize("backend", ["auto", "loop"])
def test_a_state_of_another_machine_raises(part, backend):
    machine = TuringMachine(LSTM(3 + 4, 6), 5, (4,))
    state = machine.initial_state(2)
    wrong = state._replace(**{part: getattr(state, part)[..., :1]})
    with pytest.raises(ValueError, match=f"The {part.replace('_', ' ')} of a state must be of shape"):
        ms.scan(machine, torch.zeros(3, 2, 3), wrong, backend=backend)
