"""The accuracy of each sequence, against the evaluation of the whole batch."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.tasks import Adding, Copy, FlipFlop, KeyValueRecall, MultiQueryRecall, Parity, TokenTask
from mnemoscope.training import SequenceScores, evaluate, evaluate_sequences, sequence_scores

TASKS = {
    "copy": Copy(delay=3, symbols=2),
    "flipflop": FlipFlop(bits=2, length=12, settle=2),
    "adding": Adding(length=10),
    "recall": KeyValueRecall(keys=5, values=3, fewest=1, most=4, queries=2),
    "parity": Parity(longest=6, test_shortest=3, test_longest=8),
    "mqar": MultiQueryRecall(vocabulary=16, pairs=2, length=12),
}


def model_of(task):
    tokens = isinstance(task, TokenTask)
    encode = torch.nn.Embedding(task.input_size, 4) if tokens else None
    return ms.Model(ms.cells.GRU(4 if tokens else task.input_size, 6), task.output_size, encode)


@pytest.mark.parametrize("name", TASKS)
def test_the_mean_over_sequences_is_the_accuracy_of_the_batch(name):
    task = TASKS[name]
    model, batch = model_of(task), task.batch(12, seed=0, number=0, split="test")
    found = evaluate_sequences(model, task, batch)
    assert found.overall().mean == pytest.approx(evaluate(model, task, [batch])["accuracy"], abs=1e-6)
    assert found.answers.tolist() == task.recalled(batch).sum(0).tolist()
    low, high = found.overall()[1:]
    assert 0 <= low <= found.overall().mean <= high <= 1


def test_few_outputs_at_once_give_the_same_scores(monkeypatch):
    task = TASKS["mqar"]
    model, batch = model_of(task), task.batch(7, seed=0, number=0)
    whole = evaluate_sequences(model, task, batch)
    monkeypatch.setattr(sequence_scores, "MOST_OUTPUTS", 2 * 12 * 16)  # two sequences
    assert torch.equal(evaluate_sequences(model, task, batch).accuracy, whole.accuracy)


def test_sequences_without_answers_do_not_count():
    scores = SequenceScores(torch.tensor([1.0, float("nan"), 0.5]), torch.tensor([2, 0, 2]))
    assert scores.overall().mean == 0.75


def test_certain_answers_have_no_interval_of_a_point():
    sure = SequenceScores(torch.ones(20), torch.full((20,), 3)).overall()
    assert sure.high == 1
    assert sure.low == pytest.approx(0.839, abs=1e-3)  # Wilson's interval of 20 trials
