"""Blocks of xLSTM and RWKV-7, compared with their publications, written out for whole sequences."""

from functools import partial

import pytest
import torch
from torch.nn.functional import conv1d, gelu, group_norm, layer_norm, pad, silu

import mnemoscope as ms
from mnemoscope.cells.convolution import Delay
from mnemoscope.cells.feed_forward import ChannelMixing, FeedForward
from mnemoscope.networks import blocks

ROUNDING = {"rtol": 1e-11, "atol": 1e-12}  # float64, six steps


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def network_of(family, depth, **options):
    """Return blocks with two heads in float64, with every weight random."""
    torch.manual_seed(1)
    network = blocks(3, 8, family, depth=depth, heads=2, **options).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return network


def dense(block_diagonal):
    return torch.block_diag(*block_diagonal.weight)


def convolved(convolution, xs):
    padded = pad(xs.T.unsqueeze(0), (3, 0))
    return conv1d(padded, convolution.weight.unsqueeze(1), convolution.bias, groups=len(convolution.weight))[0].T


def normed_heads(norm, xs):
    """Group norm of two heads, (time, features)."""
    bias = None if norm.bias is None else norm.bias.flatten()
    return group_norm(xs, 2, norm.weight.flatten(), bias, norm.eps)


@torch.no_grad()
def test_the_mlstm_block_is_the_published_one():
    network, xs = network_of("mlstm", 1), randn(6, 1, 3)
    (block,) = network.layers
    core, e = block.core, block.embed(xs[:, 0])
    x = layer_norm(e, (8,), block.norm.weight)
    u = x @ core.project[0].weight.T
    c = silu(convolved(block.convolution, u))
    q, k, v = c @ dense(core.q).T, c @ dense(core.k).T, u @ dense(core.v).T
    i, f = core.gates(torch.cat([q, k, v], 1)).chunk(2, 1)
    h = torch.zeros(6, 16).double()
    for head, part in enumerate((slice(0, 8), slice(8, 16))):
        C, n = torch.zeros(8, 8).double(), torch.zeros(8).double()
        for t in range(6):
            kept, written = torch.sigmoid(f[t, head]), torch.exp(i[t, head])
            C = kept * C + written * torch.outer(v[t, part], k[t, part] / 8**0.5)
            n = kept * n + written * k[t, part] / 8**0.5
            h[t, part] = C @ q[t, part] / torch.clamp((n @ q[t, part]).abs(), min=1)
    o = (normed_heads(core.norm, h) + core.skip * c) * silu(block.gate(x))
    torch.testing.assert_close(ms.scan(network, xs)[0][:, 0], block.last(e + block.out(o)), **ROUNDING)


@torch.no_grad()
def test_the_slstm_block_is_the_published_one():
    network, xs = network_of("slstm", 1), randn(6, 1, 3)
    (block,) = network.layers
    core, e = block.core, block.embed(xs[:, 0])
    x = layer_norm(e, (8,), block.norm.weight)
    s = silu(convolved(block.convolution, x))
    W_i, W_f, W_z, W_o = (dense(each) for each in core.maps)
    R_i, R_f, R_z, R_o = (torch.block_diag(*each) for each in core.recurrent)
    b_i, b_f, b_z, b_o = core.bias.flatten(1)
    h = c = n = torch.zeros(8).double()
    hs = []
    for t in range(6):
        i = torch.exp(W_i @ s[t] + R_i @ h + b_i)
        f = torch.sigmoid(W_f @ s[t] + R_f @ h + b_f)
        z, o = torch.tanh(W_z @ x[t] + R_z @ h + b_z), torch.sigmoid(W_o @ x[t] + R_o @ h + b_o)
        c, n = f * c + i * z, f * n + i
        h = o * c / n
        hs.append(h)
    expected = block.last(e + normed_heads(core.norm, torch.stack(hs)))
    torch.testing.assert_close(ms.scan(network, xs)[0][:, 0], expected, **ROUNDING)


def time_mixing(block, x, v_first):
    """Return the output of the time mixing of RWKV-7, and the values of the first block."""
    core = block.core
    last = pad(x, (0, 0, 1, 0))[:-1]
    x_r, x_k, x_v, x_w, x_a, x_g = (x + (last - x) * mix for mix in core.mix)
    W_r, W_k, W_v, W_1, A_1 = core.maps.weight.split([8, 8, 8, 32, 32])
    r, k, v = x_r @ W_r.T, x_k @ W_k.T, x_v @ W_v.T
    w = torch.exp(-torch.exp(torch.tensor(-0.5).double()) * torch.sigmoid(core.decay(torch.tanh(x_w @ W_1.T))))
    a = torch.sigmoid(core.rate(x_a @ A_1.T))
    if v_first is None:
        v_first = v
    else:
        v = v + (v_first - v) * torch.sigmoid(core.residual(x_v))
    kappa = k * core.key_scale.flatten()
    k = k * (1 + (a - 1) * core.key_mix.flatten())
    o, direct = torch.zeros(6, 8).double(), torch.zeros(6, 8).double()
    for head, part in enumerate((slice(0, 4), slice(4, 8))):
        S = torch.zeros(4, 4).double()
        for t in range(6):
            c = kappa[t, part] / (kappa[t, part] @ kappa[t, part] + 1e-6).sqrt()  # a key of zeros has a gradient
            S = (torch.diag(w[t, part]) - torch.outer(a[t, part] * c, c)) @ S + torch.outer(k[t, part], v[t, part])
            o[t, part] = r[t, part] @ S
            direct[t, part] = (r[t, part] * core.bonus[head] * k[t, part]).sum() * v[t, part]
    gate = torch.sigmoid(x_g @ core.gate[0].weight.T) @ core.gate[2].weight.T
    return block.out((normed_heads(core.norm, o) + direct) * gate), v_first


def channel_mixing(layer, x):
    n = layer.norm(x)
    last = pad(n, (0, 0, 1, 0))[:-1]
    return torch.relu((n + (last - n) * layer.mix) @ layer.key.weight.T) ** 2 @ layer.value.weight.T


@pytest.mark.parametrize("feed_forward", [False, True])
@torch.no_grad()
def test_the_blocks_of_rwkv7_are_the_published_ones(feed_forward):
    """Compute the outputs of three blocks, of which the upper ones mix their values with those of the first."""
    network, xs = network_of("rwkv7", 3, feed_forward=feed_forward), randn(6, 1, 3)
    linear, norm = network.layers[0].embed
    x, v_first = norm(linear(xs[:, 0])), None
    for layer in network.layers:
        if isinstance(layer, ChannelMixing):
            x = x + channel_mixing(layer, x)
            continue
        norm = layer.norm.norm if layer.core.received else layer.norm
        o, v_first = time_mixing(layer, norm(x), v_first)
        x = x + o
    torch.testing.assert_close(ms.scan(network, xs)[0][:, 0], layer.last(x), **ROUNDING)
    assert network.layers[0].output_features == 16
    assert network.layers[-1].output_features == 8


@torch.no_grad()
def test_feed_forward_layers_are_the_published_ones():
    inner = {"gla": (silu, 21), "slstm": (gelu, 11), "rg-lru": (partial(gelu, approximate="tanh"), 24)}
    for family, (function, size) in inner.items():
        (block,) = blocks(3, 8, family, depth=1, feed_forward=True).double().layers
        norm, layer = block.feed_forward
        W_1, W_3 = layer.up.weight.split([size, size])
        b_1, b_3 = (0, 0) if layer.up.bias is None else layer.up.bias.split([size, size])
        y = randn(5, 8)
        u = norm(y)
        expected = layer.down(function(u @ W_1.T + b_1) * (u @ W_3.T + b_3))
        torch.testing.assert_close(block.feed_forward(y), expected, **ROUNDING)
        xs = randn(4, 2, 3)
        outputs = ms.scan(block, xs)[0]
        block.feed_forward, last, block.last = None, block.last, torch.nn.Identity()
        y = ms.scan(block, xs)[0]
        torch.testing.assert_close(outputs, last(y + layer(norm(y))), **ROUNDING)
    layer = FeedForward(8, "gelu", 16).double()
    torch.testing.assert_close(layer(y), gelu(y @ layer.up.weight.T) @ layer.down.weight.T)
    with pytest.raises(ValueError, match="put a layer ChannelMixing after the block"):
        ms.cells.Block(ms.networks.rwkv7(8, 8), width=8, feed_forward=True)


def test_a_channel_mixing_is_the_same_by_loop_and_at_once():
    layer, xs = ChannelMixing(4, 0.5, message=2).double(), randn(7, 2, 6).requires_grad_()
    state = layer.initial_state(2)._replace(conv=randn(2, 4, 2))
    mask = torch.tensor([[1, 1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 1, 0, 0]], dtype=torch.bool).T
    for given in (None, mask):
        found = []
        for backend in ("loop", "fused"):
            outputs, last = ms.scan(layer, xs, state, mask=given, backend=backend)
            found.append((outputs, last.conv, *torch.autograd.grad(outputs.square().sum(), [xs, *layer.parameters()])))
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, **ROUNDING)


def test_a_delay_returns_the_last_input():
    xs, delay = randn(4, 2, 3), Delay(3).double()
    outputs, register = delay.run(xs, torch.zeros(2, 3, 2, dtype=torch.float64))
    torch.testing.assert_close(outputs[1:], xs[:-1])
    torch.testing.assert_close(delay.read(register), xs[-2])
    assert not list(delay.parameters())
    assert not delay.state_dict()


def test_biases_of_forget_gates_depend_on_the_layer():
    first, last = (layer.core for layer in blocks(3, 8, "slstm", depth=2).layers)
    assert first.bias[1, 0, [0, -1]].tolist() == [5, -7]
    assert (last.bias[1, 0, 1:-1] > first.bias[1, 0, 1:-1]).all()
    first, last = (layer.core for layer in blocks(3, 8, "rwkv7", depth=2).layers)
    assert (last.decay.bias[1:-1] < first.decay.bias[1:-1]).all()  # slower decay
    (block,) = blocks(3, 8, "mlstm", depth=1, heads=4).layers
    torch.testing.assert_close(block.core.gates.bias[4:], torch.tensor([3.0, 4.0, 5.0, 6.0]))


def test_a_block_without_projection_keeps_its_width():
    with pytest.raises(ValueError, match="needs a recurrence with 4 outputs, but it has 8"):
        ms.cells.Block(ms.cells.SLSTM(4, 8), width=4)
