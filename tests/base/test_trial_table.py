"""Tables of trials: conditions, epochs, and groups of trials with equal conditions."""

import pytest
import torch

from mnemoscope.base.trial_table import Condition, Epoch, TrialTable


@pytest.fixture
def table():
    conditions = {"coherence": [0.5, -0.5, 0.5, float("nan")], "context": [0, 1, 1, 0]}
    epochs = {"stimulus": (0, [3, 4, 5, 6]), "delay": ([3, 4, 5, 6], [5, 5, 5, 6])}
    return TrialTable.of(conditions, epochs, labels={"context": ["motion", "colour"]}, step=20.0)


def test_groups_have_every_combination_that_occurs_in_the_order_of_values(table):
    groups = {name: trials.tolist() for name, trials in table.groups("context", "coherence").items()}
    assert groups == {
        "context motion, coherence 0.5": [0],
        "context colour, coherence -0.5": [1],
        "context colour, coherence 0.5": [2],
    }
    assert table.groups()["all trials"].tolist() == [0, 1, 2, 3]


def test_values_that_differ_only_in_late_digits_are_groups_of_their_own():
    angles = torch.tensor([123.41, 123.44, 7.0], dtype=torch.float64)
    groups = TrialTable((Condition("angle", angles),)).groups("angle")
    assert {name: trials.tolist() for name, trials in groups.items()} == {
        "angle 7": [2],
        "angle 123.41": [0],
        "angle 123.44": [1],
    }
    close = torch.tensor([1.0, 1.0 + 2**-52], dtype=torch.float64)
    assert len(TrialTable((Condition("x", close),)).groups("x")) == 2


def test_truth_values_are_numbers():
    assert TrialTable.of({"match": [True, False]})["match"].levels == [0, 1]


def test_epochs_know_their_steps(table):
    assert table.epoch("delay").lengths.tolist() == [2, 1, 0, 0]
    assert table.epoch("delay").steps(5).T.tolist()[0] == [False, False, False, True, True]
    assert not table.epoch("delay").steps(6)[:, 3].any()


def test_a_part_keeps_names_labels_and_step(table):
    part = table.part(torch.tensor([3, 1]))
    assert len(part) == 2
    assert part["context"].label(part["context"].values[1].item()) == "colour"
    assert part.epoch("stimulus").stops.tolist() == [6, 4]
    assert part.step == 20.0


def test_unknown_names_are_explained(table):
    with pytest.raises(KeyError, match="Did you mean 'context'"):
        table["contexts"]
    with pytest.raises(KeyError, match="the epochs are stimulus, delay"):
        table.epoch("response")
    with pytest.raises(KeyError, match="there are no conditions"):
        TrialTable()["context"]


def test_wrong_tables_are_refused():
    with pytest.raises(ValueError, match="the values 0 to 1"):
        Condition("x", torch.tensor([0, 2]), ("left", "right"))
    with pytest.raises(ValueError, match="start <= stop"):
        Epoch("delay", torch.tensor([3]), torch.tensor([2]))
    with pytest.raises(ValueError, match="same number of trials"):
        TrialTable.of({"x": [0, 1], "y": [0, 1, 2]})
    with pytest.raises(ValueError, match="same number of trials"):
        TrialTable.of({"x": [0, 1, 2]}, {"delay": ([3, 4], [5, 6])})
    with pytest.raises(ValueError, match=r"labels=\{'side': "):
        TrialTable.of({"side": ["left", "right"]})
    with pytest.raises(ValueError, match="Names must differ"):
        TrialTable((Condition("x", torch.zeros(2)), Condition("x", torch.zeros(2))))
