"""Blocks with the weights of mixers of other libraries compute what these compute."""

from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.cells import SLSTM, Block, Surroundings
from mnemoscope.cells.affine import KDA, MLSTM, RGLRU, GatedDeltaNet, Mamba, Mamba2, MinGRU, MinLSTM
from mnemoscope.cells.feed_forward import FeedForward
from mnemoscope.cells.pretrained.pure_step import PureStep
from tests.cells.tiny_models import MIXERS, causal_model

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script")  # of the package xlstm
EXACT = 1e-12  # float64, sums of some tens of terms of order 1


def mixer_of(name, **options):
    """Return a mixer of a tiny model of transformers in float64, with every vector of its weights random."""
    mixer = causal_model(name, **options).double().get_submodule(MIXERS[name])
    for parameter in mixer.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return mixer


def block_of(core, width, mixer, *, weight, out, surroundings=None):
    """Return a block without its first norm, with the projection and the output matrix of a mixer."""
    block = Block(core, width, surroundings).double()
    block.norm = nn.Identity()
    core.project.weight.copy_(weight)
    block.out.weight.copy_(out.weight)
    if block.convolution is not None:
        conv = mixer.conv_1d if hasattr(mixer, "conv_1d") else mixer.conv1d
        block.convolution.weight.copy_(conv.weight.squeeze(1))
        assert (block.convolution.bias is None) == (conv.bias is None)
        if conv.bias is not None:
            block.convolution.bias.copy_(conv.bias)
    return block


def mamba():
    mixer = mixer_of("mamba")
    return mixer, _mamba_block(mixer)


def mambapy():
    package = pytest.importorskip("mambapy.mamba", reason="mambapy is not installed: pip install mambapy")
    mixer = package.MambaBlock(package.MambaConfig(d_model=8, n_layers=1, d_state=4, dt_rank=2)).double()
    return mixer, _mamba_block(mixer)


def _mamba_block(mixer):
    core, (x, gate) = Mamba(8, 16, state_size=4, rank=2), mixer.in_proj.weight.chunk(2)
    block = block_of(core, 8, mixer, weight=x, out=mixer.out_proj)
    block.gate.weight.copy_(gate)
    core.select.load_state_dict(mixer.x_proj.state_dict())
    core.rate.load_state_dict(mixer.dt_proj.state_dict())
    core.log_decay.copy_(mixer.A_log)
    core.skip.copy_(mixer.D)
    return block


def mamba2():
    mixer = mixer_of("mamba2", n_groups=2, time_step_limit=(0.0, float("inf")))
    core = Mamba2(8, 16, heads=4, state_size=4, groups=2)
    block = block_of(core, 8, mixer, weight=mixer.in_proj.weight[16:], out=mixer.out_proj)
    block.gate.weight.copy_(mixer.in_proj.weight[:16])
    block.gated_norm.load_state_dict(mixer.norm.state_dict())
    block.gated_norm.eps = mixer.norm.variance_epsilon
    core.rate_bias.copy_(mixer.dt_bias)
    core.log_decay.copy_(mixer.A_log)
    core.skip.copy_(mixer.D.unsqueeze(-1))
    return mixer, block


def gated_deltanet():
    mixer = mixer_of("qwen3-next", linear_num_value_heads=2)
    core = GatedDeltaNet(16, 8, heads=2)
    by_head = mixer.in_proj_qkvz.weight.unflatten(0, (2, 4, 4))  # head, (q, k, v, z), feature
    q, k, v, z = (part.flatten(0, 1) for part in by_head.unbind(1))
    beta, rate = mixer.in_proj_ba.weight.unflatten(0, (2, 2)).unbind(1)
    block = block_of(core, 16, mixer, weight=torch.cat([q, k, v, beta, rate]), out=mixer.out_proj)
    block.gate.weight.copy_(z)
    core.rate_bias.copy_(mixer.dt_bias)
    core.log_decay.copy_(mixer.A_log)
    return mixer, _with_head_norm(block, mixer.norm)


def kda():
    mixer = mixer_of("kimi-linear")
    core, forget = KDA(16, 8, heads=2), mixer.forget_gate
    nn.init.normal_(forget.A_log)
    maps = (mixer.q_proj, mixer.k_proj, mixer.v_proj, mixer.b_proj, forget.f_a_proj)
    block = block_of(core, 16, mixer, weight=torch.cat([each.weight for each in maps]), out=mixer.o_proj)
    block.gate[0].load_state_dict(mixer.g_a_proj.state_dict())
    block.gate[1].load_state_dict(mixer.g_b_proj.state_dict())
    core.decay.load_state_dict(forget.f_b_proj.state_dict())
    core.rate_bias.copy_(forget.dt_bias)
    core.log_decay.copy_(forget.A_log.view(-1, 1))
    return mixer, _with_head_norm(block, mixer.o_norm)


def _with_head_norm(block, norm):
    block.core.divides_queries = True
    block.core.norm.load_state_dict(norm.state_dict())
    block.core.norm.eps = norm.variance_epsilon
    return block


def rg_lru():
    mixer = mixer_of("recurrent-gemma")
    core, unit = RGLRU(16, 16, gate_blocks=2), mixer.rg_lru
    block = block_of(core, 16, mixer, weight=mixer.linear_x.weight, out=mixer.linear_out)
    core.project.bias.copy_(mixer.linear_x.bias)
    block.out.bias.copy_(mixer.linear_out.bias)
    block.gate.load_state_dict(mixer.linear_y.state_dict())
    for gate, name in ((core.recurrence_gate, "recurrent_gate"), (core.input_gate, "input_gate")):
        gate.weight.copy_(getattr(unit, f"{name}_weight").mT)
        gate.bias.copy_(getattr(unit, f"{name}_bias").flatten())
    core.rate_bias.copy_(unit.recurrent_param)
    # at position 0 it writes with the weight 1 in place of sqrt(1 - a^2)
    positions = torch.arange(1, 10).expand(2, -1)
    return lambda xs: mixer(xs, positions, None, use_cache=False), block


def mlstm():
    # a cap so large that it caps nothing, and nothing added to the denominator
    mixer = mixer_of("xlstm", qk_dim_factor=1.0, gate_soft_cap=1e8, eps=0.0)
    core = MLSTM(16, 16, heads=2)
    maps = (mixer.q, mixer.k, mixer.v, mixer.ogate_preact, mixer.igate_preact, mixer.fgate_preact)
    weight = torch.cat([each.weight for each in maps])
    block = block_of(
        core, 16, mixer, weight=weight, out=mixer.out_proj, surroundings=Surroundings(norm="layer", norm_bias=False)
    )
    core.project.bias.zero_()
    core.project.bias[-4:] = torch.cat([mixer.igate_preact.bias, mixer.fgate_preact.bias])
    core.norm.weight.copy_(mixer.multihead_norm.weight.view(2, 8))
    core.norm.eps = mixer.multihead_norm.eps
    return mixer, block


@pytest.mark.skipif(find_spec("transformers") is None, reason="pip install 'mnemoscope[hf]'")
@pytest.mark.xdist_group("transformers")
@torch.no_grad()
def test_a_feed_forward_layer_with_the_weights_of_griffin_computes_its_outputs():
    torch.manual_seed(1)
    mlp = causal_model("recurrent-gemma").double().get_submodule("model.layers.0.mlp_block")
    around = RGLRU.surroundings
    layer = FeedForward(16, around.feed_forward, mlp.intermediate_size, around.bias).double()
    layer.up.weight.copy_(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
    layer.up.bias.copy_(torch.cat([mlp.gate_proj.bias.normal_(), mlp.up_proj.bias.normal_()]))
    layer.down.load_state_dict(mlp.down_proj.state_dict())
    xs = torch.randn(5, 16, dtype=torch.float64)
    assert (layer(xs) - mlp(xs)).abs().max() < EXACT


FAMILIES = [mamba, mambapy, mamba2, gated_deltanet, kda, rg_lru, mlstm]


@pytest.mark.skipif(find_spec("transformers") is None, reason="pip install 'mnemoscope[hf]'")
@pytest.mark.xdist_group("transformers")  # one process imports it, which takes seconds
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@torch.no_grad()
def test_a_block_with_the_weights_of_a_mixer_computes_its_outputs(family):
    torch.manual_seed(1)
    mixer, block = family()
    xs = torch.randn(2, 9, block.width, dtype=torch.float64)
    with PureStep(double=True):
        expected = mixer(xs)
    expected = expected[0] if isinstance(expected, tuple) else expected
    assert expected.std() > 1e-2
    outputs = ms.scan(block, xs.transpose(0, 1))[0].transpose(0, 1) - xs  # without the residual connection
    assert (outputs - expected).abs().max() < EXACT


def xlstm_layer(kind, **options):
    """Return a layer of the package xlstm in float64, with every weight random."""
    package = pytest.importorskip("xlstm", reason="xlstm is not installed: pip install xlstm")
    sizes = {"embedding_dim": 8, "num_heads": 2, "conv1d_kernel_size": 4, **options}
    layer = getattr(package, f"{kind}Layer")(getattr(package, f"{kind}LayerConfig")(**sizes)).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer


def package_mlstm():
    layer = xlstm_layer("mLSTM", qkv_proj_blocksize=4, context_length=9, round_proj_up_to_multiple_of=1)
    layer.mlstm_cell.backend_fn = partial(layer.mlstm_cell.backend_fn, eps=0.0)  # nothing added to the denominator
    (block,) = (Block(core, 8).double() for core in MLSTM.for_blocks(8, 1, heads=2))
    core, (up, gate) = block.core, layer.proj_up.weight.chunk(2)
    core.project[0].weight.copy_(up)
    block.gate.weight.copy_(gate)
    for name in "qkv":
        getattr(core, name).weight.copy_(getattr(layer, f"{name}_proj").weight)
    core.gates.weight.copy_(torch.cat([layer.mlstm_cell.igate.weight, layer.mlstm_cell.fgate.weight]))
    core.gates.bias.copy_(torch.cat([layer.mlstm_cell.igate.bias, layer.mlstm_cell.fgate.bias]))
    core.skip.copy_(layer.learnable_skip)
    core.norm.weight.copy_(layer.mlstm_cell.outnorm.weight_proxy.view(2, 8))
    block.out.weight.copy_(layer.proj_down.weight)
    return layer, block


def package_slstm():
    layer = xlstm_layer("sLSTM", backend="vanilla")
    (block,) = (Block(core, 8).double() for core in SLSTM.for_blocks(8, 1, heads=2))
    core, cell = block.core, layer.slstm_cell
    # the package calls its maps by each other's names: its first gate, i, is the map "fgate"
    for each, gate in zip(core.maps, (layer.fgate, layer.igate, layer.zgate, layer.ogate), strict=True):
        each.weight.copy_(gate.weight)
    core.bias.copy_(cell._bias.view(4, 2, 4))
    core.recurrent.copy_(cell._recurrent_kernel.view(2, 4, 4, 4).transpose(0, 1))
    core.norm.weight.copy_(layer.group_norm.weight_proxy.view(2, 4))
    return layer, block


@pytest.mark.parametrize("family", [package_mlstm, package_slstm], ids=["mlstm", "slstm"])
@torch.no_grad()
def test_a_block_with_the_weights_of_the_package_xlstm_computes_its_outputs(family):
    torch.manual_seed(1)
    layer, block = family()
    block.norm = nn.Identity()
    for name in ("weight", "bias"):
        getattr(block.convolution, name).copy_(getattr(layer.conv1d.conv, name).squeeze())
    xs = torch.randn(2, 9, 8, dtype=torch.float64)
    expected = layer(xs)
    assert expected.std() > 1e-2
    outputs = ms.scan(block, xs.transpose(0, 1))[0].transpose(0, 1) - xs  # without the residual connection
    assert (outputs - expected).abs().max() < EXACT


@pytest.mark.parametrize(("kind", "name"), [(MinGRU, "minGRU"), (MinLSTM, "minLSTM")])
@torch.no_grad()
def test_minimal_cells_compute_the_outputs_of_the_package(kind, name):
    package = pytest.importorskip(f"minGRU_pytorch.{name}", reason="pip install minGRU-pytorch")
    torch.manual_seed(1)
    module, cell = getattr(package, name)(4).double(), kind(4, 4, positive=True).double()
    values, *gates = next(module.parameters()).chunk(2 if kind is MinGRU else 3)
    cell.project.weight.copy_(torch.cat([*gates, values]))
    cell.project.bias.zero_()
    xs = torch.randn(2, 9, 4, dtype=torch.float64)
    outputs = ms.scan(cell, xs.transpose(0, 1))[0].transpose(0, 1)
    assert (outputs - module(xs)).abs().max() < EXACT
