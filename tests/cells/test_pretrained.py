"""Models and mixers of transformers as cells: exact steps, derivatives, independent rows, patches, files."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.func import jacrev, jvp, vjp

import mnemoscope as ms
from mnemoscope.cells.cell import check_input
from mnemoscope.cells.pretrained import library_of
from mnemoscope.cells.pretrained.pure_step import PureStep, _grouped_matmul
from mnemoscope.cells.state import leaves, map_state
from tests.cells.tiny_models import CONFIGURATIONS, MIXERS, WORDS, causal_model
from tests.slow import SLOW, representatives

MISSING = find_spec("transformers") is None
pytestmark = [
    pytest.mark.skipif(MISSING, reason="transformers is not installed: pip install 'mnemoscope[hf]'"),
    pytest.mark.xdist_group("transformers"),  # one process imports it, which takes seconds
    pytest.mark.filterwarnings("ignore:`torch.jit.script"),  # of torch, in forward mode; of the package xlstm
]

EXACT = 1e-12  # float64, sums of some tens of terms of order 1
CASES = [*CONFIGURATIONS, *(f"{name}-mixer" for name in MIXERS)]


def module_and_inputs(case, batch=2, length=6):
    """Return a model or a mixer in float64, and sequences (batch, time, ...) for it."""
    name = case.removesuffix("-mixer")
    model = causal_model(name).double()
    generator = torch.Generator().manual_seed(1)
    if name == case:
        return model, torch.randint(1, WORDS, (batch, length), generator=generator)
    mixer = model.get_submodule(MIXERS[name])
    size = ms.adapt(mixer).input_size
    return mixer, torch.randn(batch, length, size, dtype=torch.float64, generator=generator)


def largest(one, other=None):
    """Return the largest difference of two states or tensors, or the largest number of one."""
    pairs = zip(leaves(one), leaves(one if other is None else other), strict=True)
    return max(float((a if other is None else a - b).detach().abs().max()) for a, b in pairs)


def inner(one, other):
    return float(sum((a * b).sum() for a, b in zip(leaves(one), leaves(other), strict=True)).detach())


@representatives("mamba2", "rwkv", "rwkv-mixer", "recurrent-gemma", "xlstm", "xlstm-mixer", "zamba2")
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_steps_equal_the_whole_sequence_and_rows_are_independent(case):
    module, xs = module_and_inputs(case)
    cell = ms.adapt(module)
    outputs, state = ms.scan(module, xs)
    assert outputs.dtype == torch.float64
    assert outputs.std() > 1e-3
    assert largest(outputs, cell.whole(xs)) < EXACT
    alone, last = ms.scan(module, xs[1:])
    assert largest(outputs[1:], alone) < EXACT
    assert largest(map_state(lambda part: part[1:], state), last) < EXACT
    assert [part.dtype for part in leaves(state)] == [torch.float64] * len(leaves(state))


@representatives("mamba2-mixer", "rwkv")
@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_a_step_agree_with_each_other_and_with_differences(case):
    module, xs = module_and_inputs(case)
    cell, x = ms.adapt(module), xs[:, 3]
    with torch.no_grad():
        state = ms.scan(module, xs[:, :3])[1]
    kept = map_state(torch.clone, state)
    torch.manual_seed(2)
    tangent = map_state(lambda part: part * torch.randn_like(part), state)
    new, change = jvp(lambda s: cell(x, s), (state,), (tangent,))
    ends = [cell(x, map_state(lambda a, b, h=h: a + h * b, state, tangent)) for h in (1e-5, -1e-5)]
    differences = map_state(lambda a, b: (a - b) / 2e-5, *ends)
    assert largest(change, differences) < 1e-6 * max(1, largest(change))
    _, pull = vjp(lambda s: cell(x, s), state)
    cotangent = map_state(torch.randn_like, new)
    forward, backward = inner(cotangent, change), inner(pull(cotangent)[0], tangent)
    assert abs(forward - backward) < EXACT * max(1, abs(forward))
    rows = jacrev(lambda s: cell(x, s).output[0, :2])(state)
    second = map_state(torch.zeros_like, new)
    second.output[0, 1] = 1
    assert largest(map_state(lambda part: part[1], rows), pull(second)[0]) < EXACT * max(1, largest(rows))
    assert largest(kept, state) == 0  # no step writes into its state


@representatives("mamba2")
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_after_a_patch_every_step_is_that_of_a_run_from_the_patched_state(case):
    module, xs = module_and_inputs(case)
    cell = ms.adapt(module)
    before, cache = ms.run_with_cache(module, xs)
    name = next(name for name in reversed(list(cache)) if name.rpartition(".")[2] in ("S", "h"))
    torch.manual_seed(3)
    value = torch.randn_like(cache[name][:, 2])
    outputs, _ = ms.patch(module, xs, {(name, 2): value})
    assert largest(outputs[:, :3], before[:, :3]) == 0  # the output of the patched step is read before the patch
    numbered = iter(cell.state_names(ms.scan(module, xs[:, :3])[1]))
    patched = map_state(lambda part: value if next(numbered) == name else part, ms.scan(module, xs[:, :3])[1])
    assert largest(outputs[:, 3:], ms.scan(module, xs[:, 3:], patched)[0]) == 0
    assert ((outputs[:, 3:] - before[:, 3:]).abs().amax((0, 2)) > 1e-6).all()


@SLOW
@pytest.mark.parametrize("name", CONFIGURATIONS)
@torch.no_grad()
def test_steps_in_float32_are_the_whole_sequence_of_the_library(name):
    model, tokens = causal_model(name), torch.randint(1, WORDS, (2, 6), generator=torch.Generator().manual_seed(1))
    expected = model(tokens, use_cache=False).logits
    torch.testing.assert_close(ms.scan(model, tokens)[0], expected, rtol=0, atol=1e-4 * float(expected.std()))


@torch.no_grad()
def test_a_model_in_float32_computes_what_transformers_computes():
    model = causal_model("zamba2")
    tokens = torch.randint(1, WORDS, (2, 6), generator=torch.Generator().manual_seed(1))
    outputs, state = ms.scan(model, tokens)
    expected = model(tokens).logits
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-4 * float(expected.std()))
    assert outputs.dtype == torch.float32
    embedded = model.get_input_embeddings()(tokens)
    torch.testing.assert_close(ms.scan(model, embedded)[0], outputs, rtol=0, atol=0)
    backbone = ms.adapt(model.model)
    assert ms.adapt(model).has_readout
    assert not backbone.has_readout
    torch.testing.assert_close(
        model.lm_head(ms.scan(model.model, tokens)[0]), outputs, rtol=0, atol=1e-4 * float(expected.std())
    )
    assert ms.adapt(model).attention_layers == (1,)
    assert ms.adapt(causal_model("rwkv")).attention_layers == ()
    assert type(state.layers[1])._fields == ("conv", "S", "keys", "values")


def test_gradients_reach_the_parameters_and_training_mode_is_kept():
    model = causal_model("mamba2").train()
    ms.scan(model, torch.zeros(1, 3, dtype=torch.long))[0].square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.training


def test_lenses_take_a_mixer():
    mixer, xs = module_and_inputs("mamba2-mixer")
    cell = ms.adapt(mixer)
    empty = cell.initial_state(0)  # searches end with no state left to improve
    assert cell(xs[:0, 0], empty) is empty
    norms = ms.gradient_norms(mixer, xs, loss=lambda outputs: outputs[:, -1].square().sum())
    assert "gradient" in norms.summary()


@torch.no_grad()
def test_a_model_from_a_folder_continues_from_a_saved_state(tmp_path):
    model = causal_model("mamba2")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    tokens = torch.randint(1, WORDS, (2, 6), generator=torch.Generator().manual_seed(1))
    whole, _ = ms.scan(loaded, tokens)
    assert torch.equal(whole, ms.scan(model, tokens)[0])
    ms.save_state(tmp_path / "state.safetensors", loaded, ms.scan(loaded, tokens[:, :3])[1])
    state = ms.load_state(tmp_path / "state.safetensors", model)
    assert torch.equal(ms.scan(model, tokens[:, 3:], state)[0], whole[:, 3:])


def test_sequences_of_unequal_length_are_refused_with_attention_only():
    tokens, recurrent = torch.zeros(2, 4, dtype=torch.long), causal_model("mamba2").double()
    with pytest.raises(ValueError, match="attention layers, which would attend to the padding"):
        ms.scan(causal_model("zamba2"), tokens, lengths=[4, 2])
    with torch.no_grad():
        outputs, _ = ms.scan(recurrent, tokens, lengths=[4, 2])
        assert largest(outputs[1, :2], ms.scan(recurrent, tokens[1:, :2])[0][0]) < EXACT
        assert torch.equal(outputs[1, 3], outputs[1, 1])


def test_tokens_of_another_form_are_refused():
    model = causal_model("mamba2")
    with pytest.raises(ValueError, match=r"tokens \(batch, time\) as integers, but these are torch.float32"):
        ms.scan(model, torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"shape \(batch, time\) or \(batch, time, features\), but got \(4,\)"):
        check_input(ms.adapt(model), torch.zeros(4, dtype=torch.long))


def test_what_cannot_be_adapted_is_named_with_the_remedy():
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen3NextForSequenceClassification

    with pytest.raises(TypeError, match=r"modeling_gpt2\.GPT2LMHeadModel is not one of the modules of transformers"):
        ms.adapt(GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=8, n_layer=1, n_head=2)))
    with pytest.raises(TypeError, match=r"Mamba2Block is not one .* contains one of them: pass module\.mixer"):
        ms.adapt(causal_model("mamba2").backbone.layers[0])
    classifier = Qwen3NextForSequenceClassification(causal_model("qwen3-next").config)
    with pytest.raises(TypeError, match=r"Classification is not one .* contains one of them: pass module\.model"):
        ms.adapt(classifier)
    with pytest.raises(TypeError, match=r"KimiLinearAttention is not one"):
        ms.adapt(causal_model("kimi-linear").model.layers[1].self_attn)


@SLOW
def test_the_example_of_the_page_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```\n(\['layers.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/adapters.md", "exec"), {})
    assert capsys.readouterr().out == shown


def steps_of_the_library(name, model, tokens, width=1):
    """Return the logits of a model that transformers itself runs over pieces of the sequences, with its own cache."""
    pieces, state = [], {"use_cache": True}
    key = {"rwkv": "state", "mamba": "cache_params", "mamba2": "cache_params", "xlstm": "cache_params"}
    field = key.get(name, "past_key_values")
    with PureStep(double=True):
        for piece in tokens.split(width, dim=1):
            output = model(piece, **state)
            pieces.append(output.logits)
            state[field] = getattr(output, field)
    return torch.cat(pieces, dim=1)


@SLOW
@pytest.mark.parametrize("name", ["rwkv", "bamba", "zamba2", "mamba2", "mamba"])
@torch.no_grad()
def test_the_faults_that_the_page_names_are_in_the_library(name):
    _, tokens = module_and_inputs(name)
    options = {"attention_hidden_size": 8} if name == "rwkv" else {}  # with another size its cache does not fit
    model = causal_model(name, **options).double()
    pieces = steps_of_the_library(name, model, tokens, width=3 if name == "mamba" else 1)
    whole = ms.adapt(model).whole(tokens)
    assert pieces.shape != whole.shape or largest(pieces, whole) > 1e-6
    if name == "rwkv":  # a batch of one is right
        alone = steps_of_the_library(name, model, tokens[:1])
        assert largest(alone, ms.adapt(model).whole(tokens[:1])) < EXACT


@SLOW
@torch.no_grad()
def test_the_caches_that_do_not_fit_their_models_are_in_the_library():
    model, tokens = module_and_inputs("xlstm")
    with pytest.raises((ValueError, AssertionError), match="wrong shape"):  # the latter by the package xlstm
        steps_of_the_library("xlstm", model, tokens)
    model, tokens = module_and_inputs("kimi-without-attention")
    with pytest.raises(ValueError, match="get_seq_length"):
        steps_of_the_library("kimi-linear", model, tokens)


@SLOW
def test_transformers_is_imported_only_where_a_module_of_it_is_passed():
    code = (
        "import sys, torch, mnemoscope as ms; ms.scan(torch.nn.GRU(3, 4), torch.zeros(5, 1, 3)); "
        "print('transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert library_of(torch.nn.GRU(3, 4)) is None


def test_rows_of_experts_are_multiplied_by_the_matrix_of_their_group():
    """The second expert has no row, and the last row belongs to none."""
    generator = torch.Generator().manual_seed(0)
    rows, matrices = (torch.randn(*shape, generator=generator) for shape in ((6, 3), (3, 3, 2)))
    found = _grouped_matmul(rows, matrices, offs=torch.tensor([2, 2, 5]), bias=torch.ones(2))
    expected = torch.stack([row @ matrices[group] + 1 for row, group in zip(rows, (0, 0, 2, 2, 2), strict=False)])
    torch.testing.assert_close(found[:5], expected)
    assert found.shape == (6, 2)
