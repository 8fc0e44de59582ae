"""Runs on tokens: lenses read token numbers, and a page names the token at which fixed points are searched for."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection.duration import Duration
from mnemoscope.inspection.gradients import task_gradients
from mnemoscope.inspection.on_task import constant_dynamics
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun, constant_token, page_of_run
from mnemoscope.inspection.run import _duration
from mnemoscope.inspection.text import input_labels
from mnemoscope.lenses.behaviour.figure import draw_behaviour
from mnemoscope.tasks import Parity
from mnemoscope.training import load_model
from tests.slow import SLOW

OPTIONS = {"longest": 6, "test_shortest": 4, "test_longest": 9}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = ms.RunConfig("tokens", "parity", OPTIONS, cell="gru", hidden_size=4, steps=1, evaluate_batches=1)
    folder = ms.train(config, tmp_path_factory.mktemp("runs"), progress=False).folder
    return LoadedRun(folder, *load_model(folder), InspectionOptions())


def test_behaviour_influence_and_gradients_take_tokens(run):
    batch = run.task.batch(6, 0, 0, "test")
    behaviour = ms.record_behaviour(run.model, batch.inputs, batch.targets, mask=batch.mask)
    assert torch.equal(behaviour.inputs, batch.inputs[:, :3])
    lengths = batch.mask.int().argmax(0) + 1
    padded = ms.record_behaviour(run.model, batch.inputs, batch.targets, mask=batch.mask, lengths=lengths)
    assert (padded.inputs == -1).sum() == (len(batch.mask) - lengths[:3]).sum()
    assert behaviour.score == padded.score
    top = draw_behaviour(behaviour).axes[0]
    assert top.lines[0].get_ydata().tolist() == batch.inputs[:, 0].tolist()
    assert ms.measure_influence(run.model, batch.inputs, sources=2, trials=4).known
    assert task_gradients(run.task, run.model, batch).norms.shape == (1, len(batch.mask), 6)
    assert input_labels(run.task, batch.inputs[:2, :1]) == [[Parity().label(int(each)) for each in batch.inputs[:2, 0]]]


def test_a_padded_batch_has_the_influence_of_its_sequences_alone():
    torch.manual_seed(0)
    task = Parity(**OPTIONS)
    cell = ms.networks.blocks(4, 8, "gated-deltanet", depth=1, heads=2)
    model = ms.Model(cell.double(), task.output_size, torch.nn.Embedding(task.input_size, 4)).double()
    batch = task.batch(3, 0, 0, "test")
    lengths = task.lengths_of(batch)
    padded = ms.influence(model, batch.inputs, lengths=lengths)
    assert len(lengths.unique()) > 1
    for row, length in enumerate(lengths.tolist()):
        alone = ms.influence(model, batch.inputs[:length, row : row + 1])
        pairs = [(padded.model_curves, alone.model_curves), (padded.model_windows, alone.model_windows)]
        for layer, single in zip(padded.layers, alone.layers, strict=True):
            pairs += [(layer.value_curves, single.value_curves), (layer.full_curves, single.full_curves)]
            pairs += [(layer.head_half_lives, single.head_half_lives), (layer.head_windows, single.head_windows)]
            pairs.append((layer.head_participations, single.head_participations))
        for mine, its in pairs:
            known = mine[row, :length] if mine.dim() == 2 else mine[row]
            torch.testing.assert_close(known, its[0], rtol=1e-9, atol=0)


def test_a_page_leaves_padding_out_of_the_influence(run):
    batch = run.task.batch(6, 0, 0, "test")
    lengths = run.task.lengths_of(batch)
    found = _duration(run, batch, Duration()).measured_influence
    expected = ms.measure_influence(run.model, batch.inputs, lengths=lengths)
    assert torch.equal(found.outputs.nan_to_num(-1), expected.outputs.nan_to_num(-1))
    with_padding = ms.measure_influence(run.model, batch.inputs)
    assert not torch.equal(found.outputs.nan_to_num(-1), with_padding.outputs.nan_to_num(-1))


def test_the_constant_input_is_a_token(run):
    embedded = run.model.encode.weight.detach().double()
    dynamics = constant_dynamics(run)
    assert torch.equal(dynamics.input[0].double(), embedded[1])  # the bit 0
    assert ("Constant input", "the token 1 (0)") in page_of_run(run, dynamics).facts
    assert constant_token(run.task, InspectionOptions(input=(2.0,))) == 2
    for wrong in ((3.0,), (0.5,), (1.0, 1.0)):
        with pytest.raises(ValueError, match="one number from 0 to 2, but it is"):
            constant_token(run.task, InspectionOptions(input=wrong))


def test_the_page_has_the_accuracy_of_chance(run):
    assert dict(page_of_run(run).facts)["Accuracy"].endswith(", 0.5000 without memory")


@SLOW
@pytest.mark.parametrize("cell", ["elman", "deltanet", "rellstm", "ntm"])
def test_every_kind_of_network_on_tokens_has_a_page(cell, tmp_path):
    config = ms.RunConfig("tokens", "parity", OPTIONS, cell=cell, hidden_size=8, steps=1, evaluate_batches=1)
    page = ms.inspect(ms.train(config, tmp_path, progress=False).folder).save()
    assert "Behaviour" in page.read_text()
