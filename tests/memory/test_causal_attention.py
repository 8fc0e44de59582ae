"""Causal attention against a plain loop over queries and keys."""

from math import cos, exp, sin, sqrt

import pytest
import torch

import mnemoscope as ms
from mnemoscope.memory.attention import CausalAttention, SinusoidalPositions


def turned(vector, place):
    """Turn the pairs (i, i + half) of one head by their angles."""
    half = len(vector) // 2
    result = vector.clone()
    for i in range(half):
        angle = place * 10_000 ** -(i / half)
        x, y = vector[i], vector[i + half]
        result[i], result[i + half] = x * cos(angle) - y * sin(angle), x * sin(angle) + y * cos(angle)
    return result


@torch.no_grad()
def reference(cell, xs):
    """Attend step by step, head by head, to one sequence (time, inputs)."""
    size = cell.hidden_size // cell.heads
    outputs = torch.zeros(len(xs), cell.hidden_size, dtype=xs.dtype)
    parts = [cell.project(x).split(cell.hidden_size) for x in xs]
    for head in range(cell.heads):
        chosen = slice(head * size, (head + 1) * size)
        rotate = turned if cell.positions == "rotary" else lambda vector, place: vector
        for t, (query, _, _) in enumerate(parts):
            q = rotate(query[chosen], t)
            scores = [float(q @ rotate(k[chosen], s)) / sqrt(size) for s, (_, k, _) in enumerate(parts[: t + 1])]
            weights = [exp(score - max(scores)) for score in scores]
            for weight, (_, _, v) in zip(weights, parts, strict=False):
                outputs[t, chosen] += weight / sum(weights) * v[chosen]
    return outputs


@pytest.mark.parametrize("positions", ["rotary", "none"])
def test_steps_and_whole_sequences_equal_a_loop_over_queries_and_keys(positions):
    torch.manual_seed(0)
    cell, xs = CausalAttention(3, 8, heads=2, positions=positions).double(), torch.randn(6, 2, 3, dtype=torch.float64)
    expected = torch.stack([reference(cell, xs[:, n]) for n in range(2)], 1)
    for backend in ("fused", "loop"):
        outputs, state = ms.scan(cell, xs, backend=backend)
        torch.testing.assert_close(outputs, expected)
        assert state.keys.shape == (2, 6, 8)
    first, state = ms.scan(cell, xs[:2])
    rest, _ = ms.scan(cell, xs[2:], state)
    torch.testing.assert_close(torch.cat([first, rest]), expected)


@pytest.mark.parametrize("backend", ["fused", "loop"])
def test_positions_are_exact_in_bfloat16(backend):
    """bfloat16 has no odd numbers above 256: neighbours would have the same position."""
    torch.manual_seed(0)
    cell, xs = CausalAttention(3, 4).bfloat16(), torch.randn(400, 1, 3).bfloat16()
    with torch.no_grad():
        rounded, _ = ms.scan(cell, xs, backend=backend)
        expected, _ = ms.scan(cell.double(), xs.double())
    errors = (rounded.double() - expected).abs().amax((1, 2))
    assert errors[260:].max() <= errors[:260].max()


@pytest.mark.parametrize("backend", ["fused", "loop"])
def test_sinusoidal_positions_count_the_inputs_that_there_are(backend):
    torch.manual_seed(0)
    cell, xs = SinusoidalPositions(3, 6).double(), torch.randn(5, 2, 3, dtype=torch.float64)
    mask = torch.tensor([[True, True], [True, False], [True, True], [True, False], [True, True]])
    _, begun = ms.scan(cell, xs[:2])
    outputs, state = ms.scan(cell, xs, begun, mask=mask, backend=backend)
    assert state.length.flatten().tolist() == [7, 5]
    for sequence, places in enumerate(([2, 3, 4, 5, 6], [2, None, 3, None, 4])):
        for step, place in enumerate(places):
            if place is not None:
                angles = [place * 10_000 ** -(i / 6) for i in (0, 2, 4)]
                code = torch.tensor([wave(angle) for angle in angles for wave in (sin, cos)], dtype=torch.float64)
                expected = cell.embed.weight @ xs[step, sequence] + cell.embed.bias + code
                torch.testing.assert_close(outputs[step, sequence], expected)


@pytest.mark.parametrize("backend", ["fused", "loop"])
@torch.no_grad()
def test_sinusoidal_positions_in_bfloat16_are_only_rounded(backend):
    cell, xs = SinusoidalPositions(3, 4).bfloat16(), torch.zeros(400, 1, 3).bfloat16()
    cell.embed.bias.zero_()
    codes = ms.scan(cell, xs, backend=backend)[0]
    expected = ms.scan(cell.double(), xs.double())[0]
    assert codes.dtype == torch.bfloat16
    assert (codes.double() - expected).abs().max() < 2.0**-8  # 8 bits of numbers up to 1


@pytest.mark.parametrize("backend", ["fused", "loop"])
def test_sinusoidal_positions_tell_apart_orders_that_a_set_of_keys_does_not(backend):
    """Without positions the last output of one layer depends on the set of the earlier inputs alone."""
    xs = torch.randn(6, 2, 3, dtype=torch.float64)
    swapped = xs[[1, 0, 2, 3, 4, 5]]
    for positions, same in (("none", True), ("sinusoidal", False)):
        torch.manual_seed(0)
        network = ms.networks.causal_transformer(3, 8, depth=1, heads=2, positions=positions).double()
        one, other = (ms.scan(network, given, backend=backend)[0][-1] for given in (xs, swapped))
        assert torch.allclose(one, other) is same


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
@pytest.mark.parametrize("backend", ["fused", "loop"])
def test_padding_is_not_attended_to(backend, positions):
    torch.manual_seed(0)
    network = ms.networks.causal_transformer(3, 8, depth=2, heads=2, positions=positions).double()
    xs = torch.randn(7, 3, 3, dtype=torch.float64)
    lengths = [7, 4, 2]
    outputs, _ = ms.scan(network, xs, lengths=lengths, backend=backend)
    for n, length in enumerate(lengths):
        alone, _ = ms.scan(network, xs[:length, n : n + 1])
        torch.testing.assert_close(outputs[:length, n : n + 1], alone)


def test_gradients_of_a_masked_sequence_are_finite():
    network = ms.networks.causal_transformer(3, 8, depth=1, heads=2)
    mask = torch.tensor([[False, True], [False, True], [True, False]])
    outputs, _ = ms.scan(network, torch.randn(3, 2, 3), mask=mask)
    outputs.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in network.parameters())


def test_wrong_sizes_and_positions_are_named():
    with pytest.raises(ValueError, match="multiple of 4, but is 6"):
        CausalAttention(3, 6, heads=2)
    with pytest.raises(ValueError, match='"rotary" or "none"'):
        CausalAttention(3, 8, positions="learned")
    with pytest.raises(ValueError, match="width must be even, but is 5"):
        SinusoidalPositions(3, 5)
