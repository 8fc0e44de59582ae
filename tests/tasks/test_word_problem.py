"""Word problems: products, letters, probabilities, and errors that name the remedy."""

import pytest
import torch

from mnemoscope.base.groups import GENERATORS, Group, named_group, permutation_group
from mnemoscope.tasks import WordProblem

ORDERS = {"Z2": 2, "Z3": 3, "Z6": 6, "S3": 6, "A4": 12, "S4": 24, "A5": 60, "S5": 120}


def test_named_groups_have_their_orders_and_inverses():
    assert {name: named_group(name).order for name in GENERATORS} == ORDERS
    group = named_group("S4")
    assert all(group.table[element][inverse] == 0 for element, inverse in enumerate(group.inverses))


def test_letters_are_all_elements_or_generators():
    assert named_group("S3").letters == tuple(range(6))
    pair = named_group("S3", "generators")
    assert [pair.names[letter] for letter in pair.letters] == ["(0 1)", "(1 2)"]
    assert [pair.order_of(letter) for letter in pair.letters] == [2, 2]


def test_a_new_letter_multiplies_from_the_left():
    group = named_group("S3")
    a, b = group.names.index("(0 1)"), group.names.index("(1 2)")
    # b after a: 0 -> 1 -> 2, 1 -> 0 -> 0, 2 -> 2 -> 1
    assert group.names[group.multiply([a, b])] == "(0 2 1)"
    assert group.names[group.multiply([b, a])] == "(0 1 2)"


@pytest.mark.parametrize(
    ("table", "letters", "message"),
    [
        (((1, 0), (0, 1)), (1,), "row and column 0"),
        (((0, 1, 2), (1, 2, 0), (2, 0)), (1,), "every element once"),
        (((0, 1), (1, 0)), (2,), "from 0 to 1"),
        (((0, 1), (1, 0)), (0,), "reach 1 of 2 elements"),
        (
            ((0, 1, 2, 3, 4), (1, 0, 3, 4, 2), (2, 4, 0, 1, 3), (3, 2, 4, 0, 1), (4, 3, 1, 2, 0)),
            (1, 2),
            r"\(ab\)c differs",
        ),
    ],
)
def test_tables_that_are_not_groups_are_refused(table, letters, message):
    with pytest.raises(ValueError, match=message):
        Group(table, letters)


def test_names_must_be_as_many_as_elements():
    with pytest.raises(ValueError, match="as many names"):
        Group(((0, 1), (1, 0)), (1,), ("e",))


def test_unknown_groups_and_letters_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'S3'"):
        named_group("s3")
    with pytest.raises(ValueError, match="letters must be"):
        named_group("S3", "all")


def test_a_permutation_group_may_have_chosen_letters():
    group = permutation_group([(1, 2, 0)], letters=[(2, 0, 1)])
    assert group.letters == (2,)


def test_targets_are_the_products_of_all_letters_so_far():
    task = WordProblem("S3", "generators", length=6)
    batch, group = task.batch(4, seed=0, number=0), task.build_group()
    letters = batch.inputs.argmax(-1)
    assert bool((letters[0] == 2).all())  # the start
    assert not bool(batch.mask[0].any())
    for word, targets in zip(letters[1:].T.tolist(), batch.targets.T.tolist(), strict=True):
        products = [group.multiply(group.letters[x] for x in word[:length]) for length in range(7)]
        assert targets == products


def test_letters_have_their_probabilities():
    inputs = WordProblem("Z2", length=50, probabilities="0.9, 0.1").batch(400, seed=0, number=0).inputs
    assert inputs[1:, :, 1].mean().item() == pytest.approx(0.1, abs=0.01)  # deviation 0.002
    assert not bool(inputs[1:, :, 2].any())


def test_the_span_is_the_length():
    task = WordProblem("A5", length=8)
    assert (task.longest_span, task.at(100).length, task.input_size, task.output_size) == (8, 100, 61, 60)


def test_scores_of_all_products_and_of_the_last():
    task = WordProblem("Z2", length=4)
    batch = task.batch(5, seed=0, number=0)
    outputs = 2.0 * torch.nn.functional.one_hot(batch.targets, 2)
    outputs[-1] = outputs[-1].flip(-1)
    assert task.scores(outputs, batch) == {"accuracy": 0.75, "accuracy of the last product": 0.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "at least one letter"),
        ({"probabilities": "half half"}, "are numbers such as"),
        ({"probabilities": "0.5 0.4"}, "sum to 1"),
        ({"probabilities": "1"}, "need as many probabilities"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        WordProblem(**options)
