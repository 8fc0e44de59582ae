"""Runs and pretrained models on a text: their tokens label the page."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cli import main
from mnemoscope.inspection import duration, past_inputs
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.run import _duration
from mnemoscope.inspection.text import _fitting, add_text, encode_text, input_labels
from mnemoscope.tasks import Batch, Copy, PennTreebank
from tests.cells.tiny_models import causal_model
from tests.slow import SLOW

TASK = PennTreebank()


def run_of(cell, **options):
    config = ms.RunConfig("text", task="ptb", cell="gru", hidden_size=4)
    return LoadedRun(Path("nowhere"), ms.Model(cell, 50), TASK, config, InspectionOptions(progress=False, **options))


def test_a_text_is_encoded_by_the_symbols_of_the_task():
    inputs = encode_text(TASK, "A cat\nin it\n")
    assert inputs.shape == (11, 1, 50)
    assert "".join(input_labels(TASK, inputs)[0]) == "a_cat⏎in_it"
    assert input_labels(Copy(), torch.zeros(3, 1, 10)) is None


@pytest.mark.parametrize(
    ("task", "text", "match"),
    [(TASK, "déjà", "also holds 'àé': replace"), (TASK, " ", "empty"), (Copy(), "a", "no text")],
)
def test_a_text_without_symbols_is_refused(task, text, match):
    with pytest.raises(ValueError, match=match):
        encode_text(task, text)


def test_the_page_of_a_character_run_shows_characters(monkeypatch):
    monkeypatch.setattr(duration, "_add_capacity", lambda *_: None)
    torch.manual_seed(0)
    cell = ms.networks.mamba2(50, 4, heads=1)
    inputs = torch.cat([encode_text(TASK, "the cat"), encode_text(TASK, "its dog")], 1)
    test_trials = Batch(inputs, inputs.argmax(-1), torch.ones(inputs.shape[:2], dtype=torch.bool))
    found = _duration(run_of(cell), test_trials, duration.Duration())
    assert found.influence.labels == tuple("the_cat")
    found = _duration(run_of(cell, text="A dog"), test_trials, duration.Duration())
    assert found.influence.labels == found.transitions.labels[0] == tuple("a_dog")
    assert found.measured_influence is not None  # of the test trials
    with pytest.raises(ValueError, match="this run has none"):
        _duration(run_of(ms.cells.GRU(50, 4), text="A dog"), test_trials, duration.Duration())


def test_a_long_text_is_cut_to_what_takes_some_seconds(monkeypatch):
    run = run_of(ms.networks.mamba2(50, 4, heads=1))
    monkeypatch.setattr(past_inputs, "BUDGET", past_inputs._work(run.model, encode_text(TASK, "dog")))
    found = duration.Duration()
    add_text(found, run, "A dog's life")
    assert found.influence.labels == found.transitions.labels[0] == ("a", "_", "d")
    assert found.sections()[0].lead.startswith("The page shows the first 3 of 12 characters of the text, since more")
    tokens = torch.arange(10).unsqueeze(1)
    assert _fitting(tokens, 10, "tokens") == (tokens, "")
    full = InspectionOptions(full=True)
    assert past_inputs.affordable_steps(run.model, encode_text(TASK, "a dog"), full) == 5


def test_a_model_of_transformers_needs_a_text(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="pass --text FILE"):
        ms.inspect(tmp_path)


def test_a_file_of_weights_takes_no_text(tmp_path, capsys):
    (tmp_path / "weights.pt").touch()
    assert main(["inspect", str(tmp_path / "weights.pt"), "--text", "text.txt"]) == 2
    assert "omit --text" in capsys.readouterr().err


@SLOW
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.xdist_group("transformers")
def test_a_model_of_transformers_is_inspected_on_a_text(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"to": 0, "be": 1, "or": 2, "not": 3}, unk_token="or"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    folder, text = tmp_path / "model", tmp_path / "text.txt"
    causal_model("mamba2").save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    text.write_text("to be or not to be")
    assert main(["inspect", str(folder), "--text", str(text)]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "not" in page
    assert ms.Influence.load(folder / "page.influence.safetensors").labels == ("to", "be", "or", "not", "to", "be")
