"""A small language model of transformers that was trained to recall, and that is kept in tests/models/recall."""

import json
from importlib.util import find_spec

import pytest
import torch
from tools.recall_model import FOLDER, PAIRS, VALUES, answers, sequences

import mnemoscope as ms
from mnemoscope.cells import affine_layers
from mnemoscope.cells.state import leaves
from tests.slow import SLOW

pytestmark = [
    SLOW,
    pytest.mark.skipif(find_spec("transformers") is None, reason="pip install 'mnemoscope[hf]'"),
    pytest.mark.xdist_group("transformers"),
]
SHOWN = 2 * PAIRS
"""Steps in which the pairs are shown."""


@pytest.fixture(scope="module")
def model():
    from transformers import Qwen3NextForCausalLM, logging

    logging.set_verbosity_error()
    return Qwen3NextForCausalLM.from_pretrained(FOLDER).double().eval()


@pytest.fixture(scope="module")
def tokens():
    return sequences(40, torch.Generator().manual_seed(123))


def accuracy(logits, tokens):
    logits, values = answers(logits, tokens)
    return float((logits.argmax(-1) == values).double().mean())


@torch.no_grad()
def test_it_recalls_far_above_chance_step_by_step_as_in_the_whole_sequence(model, tokens):
    logits, _ = ms.scan(model, tokens)
    assert (logits - ms.adapt(model).whole(tokens)).abs().max() < 1e-12 * logits.abs().max()
    made = json.loads((FOLDER / "training.json").read_text())
    assert made["chance"] == 1 / VALUES
    assert accuracy(logits, tokens) > 0.95
    assert abs(accuracy(logits, tokens) - made["accuracy"]) < 0.03  # on 320 answers


@torch.no_grad()
def test_its_answers_are_in_the_state_and_move_with_it(model, tokens):
    names = [name for name in ms.adapt(model).state_names(ms.scan(model, tokens[:1, :1])[1]) if name != "output"]
    _, cache = ms.run_with_cache(model, tokens[:, :SHOWN])
    other = tokens.roll(1, 0)
    asked = torch.cat([tokens[:, :SHOWN], other[:, SHOWN:]], dim=1)  # its own pairs, but the questions of another
    edits = {(name, SHOWN - 1): cache[name][:, -1].roll(1, 0) for name in names}
    patched, _ = ms.patch(model, asked, edits)
    assert accuracy(ms.scan(model, asked)[0], asked) < 0.4  # half of the keys were not shown
    assert accuracy(patched, asked) == accuracy(ms.scan(model, other)[0], other)
    fresh, _ = ms.scan(model, other[:, SHOWN:], ms.scan(model, other[:, :SHOWN])[1])
    assert torch.equal(patched[:, SHOWN:], fresh)
    erased, _ = ms.patch(model, tokens, {(name, SHOWN - 1): lambda S: 0 * S for name in names if name.endswith("S")})
    # the convolutions still hold the last pair: 1/4 + 3/4 of chance is 0.34, with a standard error of 0.04
    assert accuracy(erased, tokens) < 0.34 + 3 * 0.04


@torch.no_grad()
def test_a_saved_state_continues_with_the_same_answers(model, tokens, tmp_path):
    whole, _ = ms.scan(model, tokens)
    ms.save_state(tmp_path / "state.safetensors", model, ms.scan(model, tokens[:, :SHOWN])[1])
    state = ms.load_state(tmp_path / "state.safetensors", model)
    assert torch.equal(ms.scan(model, tokens[:, SHOWN:], state)[0], whole[:, SHOWN:])


@torch.no_grad()
def test_its_recurrences_have_its_states(model, tokens):
    _, cache = ms.run_with_cache(model, tokens)
    layers = affine_layers(model, tokens)
    assert [layer.name for layer in layers] == ["layers.0", "layers.1"]
    for layer in layers:
        expected = cache[f"{layer.name}.S"].transpose(0, 1)
        assert (layer.states() - expected).abs().max() < 1e-10 * expected.abs().max()
    assert len(leaves(cache.states)) == 5  # convolution and S of two layers, and the output
