"""Tasks with a load: how much must be held at once, at the same sizes of the network."""

import pytest

from mnemoscope import registry
from mnemoscope.tasks import AssociativeRecall, Copy, Denoise, FlipFlop, SelectiveCopy, TransferCopy

LOADED = [entry.name for entry in registry.tasks if getattr(entry.load(), "load_label", "")]


def test_tasks_with_a_load_are_known():
    assert {"copy", "denoise", "transfer-copy", "key-value-recall", "mqar", "selective-copy"} <= {*LOADED}


@pytest.mark.parametrize("name", LOADED)
def test_a_load_changes_what_is_held_and_not_the_sizes(name):
    task = registry.tasks.load(name)()
    most = task.largest_load
    assert most > 1
    lower = task.with_load(most // 2 + 1)
    assert lower.largest_load == most // 2 + 1
    assert (lower.input_size, lower.output_size) == (task.input_size, task.output_size)


def test_each_load_has_its_number_of_items():
    assert int(Copy(delay=4, symbols=3).with_load(5).recalled(Copy(4, 5).batch(1, 0, 0)).sum()) == 5
    moved = TransferCopy(delay=6, test_delay=60, symbols=3).with_load(2)
    assert (moved.delay, len(moved.batch(1, 0, 0, "test").mask)) == (6, 10)  # the delay of training
    assert SelectiveCopy(length=20, data=4).with_load(6).batch(2, 0, 0).mask.sum(0).tolist() == [6, 6]
    assert AssociativeRecall().with_load(4) == AssociativeRecall().at(4)


def test_a_load_that_does_not_fit_or_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="symbols need as many steps"):
        Denoise(delay=10, symbols=5).with_load(12)
    with pytest.raises(ValueError, match="no option for how much"):
        FlipFlop().with_load(4)
    assert FlipFlop().largest_load == 0
