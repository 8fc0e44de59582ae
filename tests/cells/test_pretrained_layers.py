"""The affine recurrences read from modules of other libraries have the states and outputs of these modules."""

from importlib.util import find_spec

import pytest
import torch
from torch.nn.functional import silu

import mnemoscope as ms
from mnemoscope.cells import affine_layers
from mnemoscope.cells.pretrained.pure_step import PureStep
from mnemoscope.lenses.exact_influence.layer_derivatives import full_path
from tests.cells.test_pretrained import module_and_inputs
from tests.cells.test_small_packages import MODULES, WORDS
from tests.cells.tiny_models import CONFIGURATIONS, MIXERS, causal_model
from tests.lenses.test_influence import full_by_autograd
from tests.slow import representatives

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script")  # of the package xlstm
EXACT = 1e-10  # float64, relative to the largest number
NEEDS_TRANSFORMERS = pytest.mark.skipif(find_spec("transformers") is None, reason="pip install 'mnemoscope[hf]'")
ONE_PROCESS = pytest.mark.xdist_group("transformers")  # imports it, which takes seconds


def columns(S):
    """Return the numbers (time, batch, units) of units with one value each as matrices."""
    return S[..., None, None]


LAYOUTS = {
    "mamba": lambda record: record["S"].unsqueeze(-1),  # (time, batch, channels, N)
    "falcon-mamba": lambda record: record["S"].unsqueeze(-1),
    "mambapy": lambda record: record["S"].unsqueeze(-1),
    "mamba2": lambda record: record["S"].transpose(-1, -2),  # values, then keys
    "bamba": lambda record: record["S"].transpose(-1, -2),
    "zamba2": lambda record: record["S"].transpose(-1, -2),
    "qwen3-next": lambda record: record["S"],
    "olmo-hybrid": lambda record: record["S"],
    "kimi": lambda record: record["S"],
    "recurrent-gemma": lambda record: columns(record["h"]),
    "griffin": lambda record: columns(record["h"]),
    "min": lambda record: columns(record["h"]),
    "xlstm": lambda record: torch.cat([record["S"], record["n"].reshape(*record["S"].shape[:-1], 1)], -1),
    "rwkv": lambda record: torch.stack([record["S"], record["n"]], -1).unsqueeze(-2),
}
"""The states that `run_with_cache` records, time first, as S (time, batch, heads, keys, values)."""


def longest_prefix(case, names):
    return max((name for name in names if case.startswith(name)), key=len)


def assert_close(values, expected):
    assert values.shape == expected.shape
    assert (values - expected).abs().max() < EXACT * expected.abs().max()


def assert_same_states(case, module, xs):
    """Compare the states of every layer at every step, from the first input and from a state in the middle."""
    layout = LAYOUTS[longest_prefix(case, LAYOUTS)]
    for split in (0, 2):
        state = ms.scan(module, xs[:, :split])[1] if split else None
        _, cache = ms.run_with_cache(module, xs[:, split:], state)
        layers = affine_layers(module, xs[:, split:], state)
        names = {name.rpartition(".")[0] for name in cache if name.rpartition(".")[2] in ("S", "h")}
        slstm = {name.rpartition(".")[0] for name in cache if name.rpartition(".")[2] == "c"}
        assert [layer.name for layer in layers] == sorted(names - slstm)
        for layer in layers:
            prefix = f"{layer.name}." if layer.name else ""
            record = {name: cache[prefix + name].transpose(0, 1) for name in ("S", "n", "h") if prefix + name in cache}
            states = layer.memory().states()
            assert_close(states, layout(record))
            assert_close(layer.states()[..., : states.shape[-2], :], states)
            assert (states[-1] - states[0]).abs().max() > 1e-3 * states.abs().max()
            if layer.scales is not None:
                assert_close(layer.scales, cache[f"{prefix}m"].transpose(0, 1).flatten(2))


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@representatives("rwkv", "recurrent-gemma")
@pytest.mark.parametrize("case", [*CONFIGURATIONS, *(f"{name}-mixer" for name in MIXERS)])
@torch.no_grad()
def test_a_model_of_transformers_has_the_states_of_its_recurrences(case):
    assert_same_states(case, *module_and_inputs(case))


@representatives("mambapy", "minGRU", "minLSTM")
@pytest.mark.parametrize("name", [name for name in MODULES if name != "xlstm-slstm"])
@torch.no_grad()
def test_a_module_of_a_small_package_has_the_states_of_its_recurrences(name):
    torch.manual_seed(0)
    module = MODULES[name]().double()
    size = ms.adapt(module).input_size
    xs = torch.randint(0, WORDS, (2, 5)) if size is None else torch.randn(2, 5, size, dtype=torch.float64)
    assert_same_states(name, module, xs)


def gated(mixer, xs, o):  # Mamba
    return mixer.out_proj(o * silu(mixer.in_proj(xs).chunk(2, -1)[1]))


def norm_after_gate(mixer, xs, o):  # Mamba-2
    return mixer.out_proj(mixer.norm(o, mixer.in_proj(xs)[..., : mixer.intermediate_size]))


def by_head(norm, o, gate):
    heads = o.unflatten(-1, (-1, len(norm.weight)))
    return norm(heads.flatten(0, -2), gate.reshape(-1, len(norm.weight))).view_as(o)


def qwen3_next(mixer, xs, o):
    gate = mixer.fix_query_key_value_ordering(mixer.in_proj_qkvz(xs), mixer.in_proj_ba(xs))[3]
    return mixer.out_proj(by_head(mixer.norm, o, gate))


def kimi_linear(mixer, xs, o):
    return mixer.o_proj(by_head(mixer.o_norm, o, mixer.g_b_proj(mixer.g_a_proj(xs))))


def xlstm(mixer, xs, o):
    fused = mixer.config.weight_mode == "fused"
    gate = mixer.qkv_opreact(xs)[..., -mixer.v_dim :] if fused else mixer.ogate_preact(xs)
    h = mixer.multihead_norm(o.unflatten(-1, (mixer.config.num_heads, -1))).reshape(o.shape)
    return mixer.out_proj(torch.sigmoid(gate) * h)


SURROUNDINGS = {
    "mamba": gated,
    "falcon-mamba": gated,
    "mamba2": norm_after_gate,
    "bamba": norm_after_gate,
    "zamba2": norm_after_gate,
    "qwen3-next": qwen3_next,
    "kimi-linear": kimi_linear,
    "olmo-hybrid": lambda mixer, xs, o: mixer.o_proj(by_head(mixer.o_norm, o, mixer.g_proj(xs))),
    "recurrent-gemma": lambda mixer, xs, o: mixer.linear_out(o * mixer.act_fn(mixer.linear_y(xs))),
    "xlstm": xlstm,
    "rwkv": lambda mixer, xs, o: mixer.output(mixer.extract_key_value(xs)[0] * o),
}
"""From the outputs of a recurrence to those of its mixer."""
OPTIONS = {
    "olmo-hybrid-positive": {"linear_allow_neg_eigval": False, "linear_num_value_heads": 4},
    "mamba2-one-group": {"n_groups": 1, "time_step_limit": (0.0, float("inf")), "use_bias": True},
}


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@representatives("mamba2", "qwen3-next", "olmo-hybrid", "kimi-linear", "xlstm")
@pytest.mark.parametrize("case", [*SURROUNDINGS, *OPTIONS])
@torch.no_grad()
def test_the_reads_of_a_recurrence_lead_to_the_outputs_of_its_mixer(case):
    name = longest_prefix(case, SURROUNDINGS)
    assert_same_outputs(name, causal_model(name, **OPTIONS.get(case, {})).double().get_submodule(MIXERS[name]))


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@torch.no_grad()
def test_the_reads_of_an_xlstm_with_fused_weights_lead_to_its_outputs():
    mixer = causal_model("xlstm").get_submodule(MIXERS["xlstm"])  # a whole model with fused weights is not initialised
    mixer.config.weight_mode = "fused"
    assert_same_outputs("xlstm", type(mixer)(mixer.config).double())


def assert_same_outputs(name, mixer):
    for parameter in mixer.parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    cell = ms.adapt(mixer)
    xs = torch.randn(2, 4, cell.input_size, dtype=torch.float64)
    assert_same_states(name, mixer, xs)
    [layer] = affine_layers(mixer, xs)
    with PureStep(double=True):
        outputs = SURROUNDINGS[name](mixer, xs, layer.outputs().transpose(0, 1))
    assert_close(outputs, cell.whole(xs))


@torch.no_grad()
def test_the_reads_of_a_recurrence_lead_to_the_outputs_of_small_packages():
    package = pytest.importorskip("mambapy.mamba", reason="mambapy is not installed: pip install mambapy")
    config = package.MambaConfig(d_model=6, n_layers=1, d_state=4, inner_layernorms=True)
    block, xs = package.MambaBlock(config).double(), torch.randn(2, 5, 6, dtype=torch.float64)
    torch.nn.init.uniform_(block.B_layernorm.weight)
    assert_same_states("mambapy", block, xs)
    [layer] = affine_layers(block, xs)
    assert_close(gated(block, xs, layer.outputs().transpose(0, 1)), block(xs))
    rnn = MODULES["minGRU"]().double()
    [layer] = affine_layers(rnn, xs)
    assert_close(rnn.to_out(layer.outputs().transpose(0, 1)), rnn(xs))


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@representatives("rwkv")
@pytest.mark.parametrize("name", MIXERS)
def test_the_full_influence_on_the_reads_of_a_mixer_is_its_jacobian(name):
    mixer = causal_model(name).double().requires_grad_(False).get_submodule(MIXERS[name])
    xs = torch.randn(1, 8, ms.adapt(mixer).input_size, dtype=torch.float64)
    state = ms.scan(mixer, xs[:, :2])[1]
    [layer] = affine_layers(mixer, xs[:, 2:], state)
    start = layer.core.start(state.layer)
    expected = full_by_autograd(layer, start)
    assert_close(full_path(layer, 0).energies, expected)
    assert expected[:, -1, 0].abs().max() > 0


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@torch.no_grad()
def test_lenses_on_the_memory_of_rwkv_leave_out_the_row_that_holds_what_is_read():
    mixer, xs = module_and_inputs("rwkv-mixer")
    [layer], [found] = affine_layers(mixer, xs), ms.transitions(mixer, xs).layers
    assert layer.registers == 1
    assert layer.memory().memory().start.shape == (2, 12, 1, 2)
    assert layer.memory().parts.erase is None
    decays = torch.exp(layer.parts.log_decays[1:])
    assert_close(found.eigenvalues[1:].real, decays)
    assert ms.fisher_memory(layer).factor.shape == (2, 12, 1, 1)


@NEEDS_TRANSFORMERS
@ONE_PROCESS
def test_gradients_of_the_parts_reach_the_weights_and_the_embeddings():
    model, tokens = module_and_inputs("mamba2", batch=1, length=4)
    embedded = model.get_input_embeddings()(tokens).detach().requires_grad_()
    layer = affine_layers(model, embedded)[1]
    layer.outputs().square().sum().backward()
    assert embedded.grad.abs().min() > 0
    assert all(weight.grad.abs().max() > 0 for weight in (model.backbone.layers[0].mixer.D, layer.core.log_decay))


@NEEDS_TRANSFORMERS
@ONE_PROCESS
@torch.no_grad()
def test_a_model_in_bfloat16_has_the_recurrences_of_its_weights_to_rounding():
    tokens = torch.randint(0, WORDS, (1, 4))
    [low, _] = affine_layers(causal_model("mamba").bfloat16(), tokens)
    [high, _] = affine_layers(causal_model("mamba").bfloat16().float(), tokens)
    assert (low.states() - high.states()).abs().max() < 0.03 * high.states().abs().max()  # some roundings of 1/256


def test_a_mixer_that_computes_something_else_is_refused():
    rnn = MODULES["minGRU"]()

    class Changed(type(rnn)):
        pass

    forward = rnn.forward
    rnn.forward = lambda *args, **options: tuple(0.9 * part for part in forward(*args, **options))
    with pytest.raises(TypeError, match=r"A step of minGRU_pytorch.minGRU.minGRU is not that of the recurrence"):
        affine_layers(rnn, torch.randn(1, 3, 6))
    rnn.__class__ = Changed
    with pytest.raises(TypeError, match=r"Changed is derived from minGRU_pytorch.minGRU.minGRU and may compute"):
        affine_layers(rnn, torch.randn(1, 3, 6))


@NEEDS_TRANSFORMERS
@ONE_PROCESS
def test_unknown_mixers_are_refused_and_named(monkeypatch):
    model, tokens = module_and_inputs("mamba2")
    model.backbone.layers[1].mixer.activation = "gelu"
    with pytest.raises(TypeError, match=r"Mamba2Mixer with the activation 'gelu' is not a recurrence that is known"):
        affine_layers(model, tokens)
    monkeypatch.setattr("mnemoscope.cells.pretrained.cores.recognition._CORES", {})
    with pytest.raises(TypeError, match=r"Mamba2ForCausalLM has 2 recurrent layers, but 0 mixers whose recurrence"):
        affine_layers(model, tokens)


def test_a_module_without_an_affine_layer_is_refused():
    slstm = MODULES["xlstm-slstm"]().double()
    with pytest.raises(TypeError, match="BlockCell has no layer that is affine"):
        affine_layers(slstm, torch.randn(1, 3, 8, dtype=torch.float64))
