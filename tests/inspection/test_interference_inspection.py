"""The section on interference of a run that was trained on pairs of keys and values."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection import InspectionOptions, interference
from mnemoscope.inspection.interference import inspect_interference, interference_section
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.training import load_model

TASK = {"keys": 8, "values": 4, "fewest": 2, "most": 4, "queries": 2}


def run_of(folder, cell="gla", task="key-value-recall", options=TASK):
    config = ms.RunConfig("tiny", task, options, cell, hidden_size=8, steps=1, batch_size=4, evaluate_batches=1)
    path = ms.train(config, folder, progress=False).folder
    return LoadedRun(path, *load_model(path), InspectionOptions(progress=False))


@pytest.mark.usefixtures("undrawn")
def test_a_run_on_key_value_recall_has_a_section_on_interference(tmp_path, monkeypatch):
    monkeypatch.setattr(interference, "SEQUENCES", 6)
    monkeypatch.setattr(interference, "DRAWS", 1)
    run = run_of(tmp_path)
    recall = inspect_interference(run)
    assert recall.pairs == (1, 2, 4, 8)
    section = interference_section(recall)
    assert section.title == "Interference in recall"
    assert section.lead == recall.summary()
    assert "95% intervals over sequences" in section.html
    # a layer above another takes more passes
    monkeypatch.setattr(interference, "_affine_layers", lambda run: 2)
    monkeypatch.setattr(interference, "is_quick", lambda *args, passes: passes == 2)
    assert inspect_interference(run) is not None
    monkeypatch.setattr(interference, "DRAWS", 2)
    monkeypatch.setattr(interference, "is_quick", lambda *args, passes: passes == 4)
    assert inspect_interference(run) is None
    monkeypatch.setattr(interference, "is_quick", lambda *args, **options: False)
    assert inspect_interference(run) is None


@pytest.mark.usefixtures("undrawn")
def test_a_run_on_mqar_has_a_section_on_interference(tmp_path, monkeypatch):
    monkeypatch.setattr(interference, "SEQUENCES", 6)
    monkeypatch.setattr(interference, "DRAWS", 1)
    run = run_of(tmp_path, task="mqar", options={"vocabulary": 16, "pairs": 4, "length": 16})
    recall = inspect_interference(run)
    assert recall.pairs == (1, 2, 4, 7)  # there are seven keys
    for pairs, measured in zip(recall.pairs, recall.measured, strict=True):
        batch = run.task.at(pairs).batch(6, run.config.seed, 0, "test")
        right = (run.model(batch.inputs)[0].argmax(-1) == batch.targets) & batch.mask
        assert torch.equal(measured, right.sum(0).double() / pairs)
    assert "guessing among all 16 classes" in interference_section(recall).html


@pytest.mark.parametrize(
    "other", [{"cell": "gru"}, {"task": "copy", "options": {"delay": 2, "symbols": 2}}], ids=["gru", "copy"]
)
def test_other_networks_and_tasks_have_none(tmp_path, other):
    assert inspect_interference(run_of(tmp_path, **other)) is None
