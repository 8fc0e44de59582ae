"""Copy, repeat copy and associative recall of bits: layouts by hand, solutions from the inputs, and statistics.

Properties of all tasks (shapes, masks, seeds, baselines) are tested in test_tasks.py.
"""

from collections import Counter
from dataclasses import replace
from math import log

import pytest
import torch

from mnemoscope import registry
from mnemoscope.cells import LSTM, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.tasks import AssociativeRecall, Batch, BitCopy, BitRepeatCopy, BitTask, MatrixCopy, MatrixRecall
from mnemoscope.training import build_task, evaluate_tasks, train
from tests.slow import representatives

NAMES = ("bit-copy", "matrix-copy", "bit-repeat-copy", "associative-recall", "matrix-recall")
TASKS = [
    BitCopy(longest=6, bits=3),
    MatrixCopy(longest=6, rows=3, columns=2),
    BitRepeatCopy(longest=4, most=5, bits=3),
    AssociativeRecall(),
    AssociativeRecall(item_length=1, most=4, bits=4),
    MatrixRecall(),
    MatrixRecall(item_length=1, most=4, rows=3, columns=3),
]
TASKS = [pytest.param(each, id=str(each)) for task in TASKS for each in (task, replace(task, mixed=True))]


def digits(rows):
    return ["".join(str(int(value)) for value in row) for row in rows]


# Layouts by hand.


def test_copy_is_bits_a_mark_and_zeros():
    batch = BitCopy(bits=3).at(2).batch(1, seed=0, number=0)
    a, b = digits(batch.targets[3:, 0])
    assert digits(batch.inputs[:, 0]) == [a + "0", b + "0", "0001", "0000", "0000"]
    assert digits(batch.targets[:3, 0]) == ["000"] * 3
    assert batch.mask[:, 0].tolist() == [False] * 3 + [True] * 2


def test_matrix_copy_marks_its_last_row():
    """Errata 6: four rows of bits and one for the mark, which is all ones."""
    task = MatrixCopy().at(1)
    batch = task.batch(1, seed=0, number=0)
    item, mark, blank = batch.inputs[:, 0].unflatten(-1, task.shape)
    assert item.shape == (5, 5)
    assert not item[4].any()
    assert torch.equal(mark, torch.tensor([[0.0] * 5] * 4 + [[1.0] * 5]))
    assert not blank.any()
    assert torch.equal(batch.targets[2, 0].unflatten(-1, task.shape).float(), item)
    assert (task.input_size, task.output_size) == (25, 25)


def test_repeat_copy_shows_the_number_and_ends_with_a_marker():
    batch = BitRepeatCopy(bits=2).at(2, repeats=3).batch(1, seed=0, number=0)
    a, b = digits(batch.targets[4:6, 0])
    shown, mark, number, zeros = batch.inputs[:, 0].split([2, 1, 1, 7])
    assert digits(shown) == [a[:2] + "00", b[:2] + "00"]
    assert digits(mark) == ["0010"]
    # numbers from 1 to 10 have mean 5.5 and variance 99 / 12
    assert number.flatten().tolist() == pytest.approx([0, 0, 0, (3 - 5.5) / 8.25**0.5])
    assert not zeros.any()
    assert digits(batch.targets[:, 0]) == ["000"] * 4 + [a, b] * 3 + ["001"]
    assert batch.mask[:, 0].tolist() == [False] * 4 + [True] * 7


def test_repeats_are_shown_with_mean_0_and_variance_1():
    number = BitRepeatCopy(bits=1, mixed=True).at(1).batch(50_000, seed=0, number=0).inputs[2, :, -1].double()
    assert number.mean().item() == pytest.approx(0, abs=0.02)  # deviation 0.0045
    assert number.var().item() == pytest.approx(1, abs=0.02)


def test_more_repeats_in_a_test_keep_the_scale_of_training():
    ten, twenty = (BitRepeatCopy().at(1, repeats).batch(1, 0, 0).inputs[2, 0, -1].item() for repeats in (10, 20))
    assert twenty - ten == pytest.approx(10 / 8.25**0.5)


def test_recall_marks_items_and_both_ends_of_the_query():
    batch = AssociativeRecall(bits=2, item_length=2, most=2).batch(1, seed=0, number=0)
    a, b, c, d = digits(batch.inputs[[1, 2, 4, 5], 0, :2])
    assert digits(batch.inputs[:, 0]) == [
        *("0010", a + "00", b + "00"),
        *("0010", c + "00", d + "00"),
        *("0001", a + "00", b + "00", "0001"),
        *("0000", "0000"),
    ]
    assert digits(batch.targets[:, 0]) == ["00"] * 10 + [c, d]
    assert batch.mask[:, 0].tolist() == [False] * 10 + [True] * 2


def test_matrix_recall_marks_items_and_the_query_on_the_last_row():
    """Errata 6: items of two matrices, (1, 0, 0, 0, 1) before each and (0, 1, 1, 1, 0) before the query."""
    task = MatrixRecall().at(3)
    batch = task.batch(1, seed=0, number=0)
    matrices = batch.inputs[:, 0].unflatten(-1, task.shape)
    assert len(matrices) == 3 * 3 + 1 + 2 + 2
    assert digits(matrices[:, 4]) == ["10001", "00000", "00000"] * 3 + ["01110"] + ["00000"] * 4
    assert not matrices[[0, 3, 6, 9, 12, 13], :4].any()
    assert not batch.targets[:, 0].unflatten(-1, task.shape)[:, 4].any()
    assert batch.mask[:, 0].tolist() == [False] * 12 + [True] * 2


# Solutions: the inputs determine the targets.


def read(task: BitTask, inputs: list[list[float]]) -> list[list[int]]:
    """Return the bits due after these inputs of one sequence, found by parsing the marks."""
    bits, seen = task.random_bits, [[int(bit) for bit in row[: task.random_bits]] for row in inputs]
    marks = [row[bits:] for row in inputs]
    marked = [t for t, mark in enumerate(marks) if any(mark)]
    silent = [0] * task.silent_bits
    if isinstance(task, BitRepeatCopy):
        length = next(t for t, mark in enumerate(marks) if mark[0])
        repeats = round(marks[length + 1][1] * 8.25**0.5 + 5.5)
        return [*([*seen[t], 0] for _ in range(repeats) for t in range(length)), [0] * bits + [1]]
    if isinstance(task, BitCopy | MatrixCopy):
        return [seen[t] + silent for t in range(marked[0])]
    items = [t for t in marked if marks[t] == marks[0]]
    size = task.item_length
    begin = items[-1] + size + 1
    query = seen[begin + 1 : begin + 1 + size]
    (place,) = [t for t in items if seen[t + 1 : t + 1 + size] == query]  # it occurs once
    after = place + size + 1
    return [part + silent for part in seen[after + 1 : after + 1 + size]]


@representatives(
    "AssociativeRecall(mixed=False, item_length=1, fewest=2, most=4, curriculum='', bits=4)",
    "BitCopy(mixed=True, shortest=1, longest=6, curriculum='', bits=3)",
    "BitRepeatCopy(mixed=False, shortest=1, longest=4, curriculum='', bits=3, fewest=1, most=5, normalised_by=10)",
    "MatrixCopy(mixed=False, shortest=1, longest=6, curriculum='', rows=3, columns=2)",
    "MatrixRecall(mixed=True, item_length=1, fewest=2, most=4, curriculum='', rows=3, columns=3)",
)
@pytest.mark.parametrize("task", TASKS)
def test_the_inputs_determine_every_bit_that_is_due(task):
    for number in range(5):
        batch = task.batch(40, seed=1, number=number)
        outputs = torch.zeros(*batch.mask.shape, task.output_size)
        for b in range(40):
            counted = batch.mask[:, b].nonzero().flatten().tolist()
            assert not batch.inputs[counted[0] :, b].any()  # the inputs are zero while items are due, and later
            answer = read(task, batch.inputs[: counted[0], b].tolist())
            assert counted == [*range(counted[0], counted[0] + len(answer))]  # all of it is due, without a gap
            outputs[counted, b] = 2 * torch.tensor(answer, dtype=torch.float32) - 1
        assert task.scores(outputs, batch) == {"accuracy": 1.0, "wrong bits": 0.0}


@representatives(
    "AssociativeRecall(mixed=False, item_length=3, fewest=2, most=6, curriculum='', bits=6)",
    "BitCopy(mixed=True, shortest=1, longest=6, curriculum='', bits=3)",
    "BitRepeatCopy(mixed=False, shortest=1, longest=4, curriculum='', bits=3, fewest=1, most=5, normalised_by=10)",
    "MatrixCopy(mixed=True, shortest=1, longest=6, curriculum='', rows=3, columns=2)",
    "MatrixRecall(mixed=True, item_length=1, fewest=2, most=4, curriculum='', rows=3, columns=3)",
)
@pytest.mark.parametrize("task", TASKS)
def test_a_batch_has_one_length_unless_mixed(task):
    lengths = [batch.mask.sum(0) for batch in (task.batch(30, seed=0, number=number) for number in range(60))]
    due = {int(each) for length in lengths for each in length}
    if not isinstance(task, AssociativeRecall | MatrixRecall):  # their lists vary, not the length of the answer
        assert all((len(length.unique()) > 1) == task.mixed for length in lengths)
    if isinstance(task, BitCopy | MatrixCopy):
        assert due == {*range(1, 7)}
    if isinstance(task, BitRepeatCopy):
        assert due == {length * repeats + 1 for length in range(1, 5) for repeats in range(1, 6)}


@representatives("False")
@pytest.mark.parametrize("mixed", [False, True])
def test_lists_and_queries_have_every_length_and_place(mixed):
    task = AssociativeRecall(item_length=1, most=4, bits=8, mixed=mixed)
    asked = Counter()
    for number in range(150):
        batch = task.batch(10, seed=0, number=number)
        for inputs in batch.inputs.transpose(0, 1):
            items = inputs[inputs[:, 8].bool().roll(1), :8].tolist()
            begin = int(inputs[:, 9].nonzero()[0])
            asked[len(items), items.index(inputs[begin + 1, :8].tolist())] += 1
    assert {*asked} == {(2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (4, 2)}
    totals = [sum(count for (items, _), count in asked.items() if items == k) for k in (2, 3, 4)]
    spread = (1500 * 2 / 9) ** 0.5 * (1 if mixed else 10**0.5)  # the ten sequences of a batch share one number
    assert all(abs(total - 500) < 4 * spread for total in totals)
    for place in range(3):
        assert asked[4, place] == pytest.approx(totals[2] / 3, abs=4 * (totals[2] * 2 / 9) ** 0.5)


def test_items_of_a_list_are_different():
    task = AssociativeRecall(
        bits=4, item_length=1, fewest=4, most=4
    )  # 16 items: 33% of lists of four would have two alike
    inputs = task.batch(2000, seed=0, number=0).inputs[1:8:2, :, :4]
    pairs = (inputs[:, None] == inputs[None]).all(-1).sum((0, 1))
    assert (pairs == 4).all()
    counts = Counter(digits(inputs.flatten(0, 1)))  # and all are equally likely
    assert len(counts) == 16
    assert max(abs(count - 500) for count in counts.values()) < 5 * 500**0.5


def test_long_items_that_differ_late_are_distinguished():
    task = MatrixRecall(item_length=4).at(2)  # 80 bits
    items = torch.zeros(8, 2, 20, dtype=torch.bool)
    items[4, 1, 0] = True
    assert task._repeated(items).tolist() == [True, False]
    items[4, 1, 0], items[7, 1, 19] = False, True
    assert task._repeated(items).tolist() == [True, False]


# Statistics.


@pytest.mark.parametrize("task", TASKS[1::2])
def test_uninformed_scores_are_the_measured_ones(task):
    """Measured over 4,000 sequences of all lengths, with four standard errors of the ratio."""
    batch = task.batch(4000, seed=0, number=0)
    for name, output in (("all zeros", -1.0), ("all ones", 1.0)):
        outputs = torch.full(batch.targets.shape, output)
        expected = task.uninformed_scores()[name]
        assert task.scores(outputs, batch)["wrong bits"] == pytest.approx(
            expected, abs=4 * spread_of(batch, outputs, expected)
        )


def spread_of(batch: Batch, outputs: torch.Tensor, mean: float) -> float:
    """Standard error of the mean number of wrong bits over the steps that count."""
    counted = batch.mask.sum(0).double()
    wrong = (((outputs > 0) != batch.targets).sum(-1) * batch.mask).sum(0).double()
    return ((wrong - mean * counted) / counted.mean()).std().item() / len(counted) ** 0.5


def test_uninformed_scores_of_the_published_sizes():
    """Errata 6: 10.0 and 15.0 bits of a 5x5 matrix, so the row of the mark counts."""
    for task in (MatrixCopy(), MatrixRecall()):
        assert task.uninformed_scores() == {"all zeros": 10.0, "all ones": 15.0}
        assert task.baseline() == pytest.approx(0.8 * log(2))
    assert BitCopy().uninformed_scores() == {"all zeros": 4.0, "all ones": 4.0}
    assert AssociativeRecall().uninformed_scores() == {"all zeros": 3.0, "all ones": 3.0}
    for task in (BitCopy(), AssociativeRecall()):
        assert task.baseline() == pytest.approx(log(2))
    # 5.5^2 steps on average with half of 8 bits wrong, and one with the end marker wrong
    zeros = (5.5**2 * 4 + 1) / (5.5**2 + 1)
    assert BitRepeatCopy().uninformed_scores() == pytest.approx({"all zeros": zeros, "all ones": 9 - zeros})


def test_the_repeat_copy_baseline_equals_the_value_by_hand():
    """Length 1 once or twice: steps 3 to 4 or 3 to 5 count; only at step 4 the end is uncertain."""
    task = BitRepeatCopy(bits=2, longest=1, most=2)
    quarter = -(0.25 * log(0.25) + 0.75 * log(0.75))
    first, open_, last = 2 * log(2) / 3, (2 * quarter + log(2)) / 3, 0.0
    assert task.baseline() == pytest.approx((2 * first + 2 * open_ + last) / 5)
    assert BitRepeatCopy(bits=2).at(3, repeats=2).baseline() == pytest.approx(6 / 7 * log(2) * 2 / 3)


def test_scores_count_only_bits_that_are_due():
    task = MatrixCopy().at(2)
    batch = task.batch(3, seed=0, number=0)
    outputs = 2 * batch.targets.float() - 1
    outputs[:3] = 1.0  # outputs before do not count
    outputs[3, 0, :6] *= -1
    assert task.scores(outputs, batch) == pytest.approx({"accuracy": 1 - 6 / 150, "wrong bits": 1.0})
    nothing = batch._replace(mask=torch.zeros_like(batch.mask))
    assert task.scores(outputs, nothing) == {"accuracy": 1.0, "wrong bits": 0.0}


def test_the_loss_of_bits_is_the_cross_entropy_of_their_logits():
    task = BitCopy(bits=2).at(1)
    batch = task.batch(1, seed=0, number=0)._replace(targets=torch.tensor([[[0, 0]], [[0, 0]], [[1, 0]]]).bool())
    outputs = torch.tensor([[[9.0, 9.0]], [[9.0, 9.0]], [[0.5, -2.0]]])
    p, q = torch.tensor([0.5, 2.0]).sigmoid().tolist()
    assert task.loss(outputs, batch).item() == pytest.approx(-(log(p) + log(q)) / 2, rel=1e-6)
    extreme = task.loss(torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]], [[-1000.0, -1000.0]]]), batch)
    assert extreme.item() == 500.0  # the mean of 1000 and 0: nothing overflows


# In training.


@pytest.mark.parametrize("name", NAMES)
def test_every_bit_task_can_be_trained(name, tmp_path):
    config = RunConfig(name, name, cell="lstm", hidden_size=8, steps=2, batch_size=4, evaluate_batches=2)
    result = train(config, tmp_path)
    assert {*result.scores} == {"accuracy", "wrong bits"}
    assert result.baseline == pytest.approx(registry.tasks.load(name)().baseline())


def test_a_network_is_evaluated_at_other_lengths():
    task = BitCopy(longest=3)
    scores = evaluate_tasks(Model(LSTM(9, 4), 8), {length: task.at(length) for length in (3, 30)}, sequences=5)
    assert [*scores] == [3, 30]
    assert all(sorted(each) == ["accuracy", "loss", "wrong bits"] for each in scores.values())
    for at, steps in (
        (task.at(30), 61),
        (MatrixCopy().at(30), 61),
        (BitRepeatCopy().at(20, repeats=3), 83),
        (AssociativeRecall().at(15), 15 * 4 + 5 + 3),
        (MatrixRecall().at(12, item_length=3), 12 * 4 + 1 + 6),
    ):
        assert at.batch(2, seed=0, number=0).inputs.shape[0] == steps


def test_curricula_have_rising_lengths():
    assert [stage.longest for stage in BitCopy(curriculum="5 10").stages()] == [5, 10, 20]
    assert [stage.most for stage in MatrixRecall(curriculum="2, 4").stages()] == [2, 4, 9]
    assert BitRepeatCopy(curriculum="3").at(5).stages()[0].curriculum == ""


def test_a_curriculum_of_one_stage_may_be_a_number():
    plain, quoted = (RunConfig("try", "bit-copy", {"curriculum": stage}) for stage in (5, "5"))
    assert [stage.longest for stage in build_task(plain).stages()] == [5, 20]
    assert plain.hash == quoted.hash


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BitCopy(bits=0), "bits is 0"),
        (lambda: BitCopy(shortest=0), "length is drawn from a range that begins at 1 or above, but it is 0 to 20"),
        (lambda: BitCopy(shortest=5, longest=4), "but it is 5 to 4"),
        (lambda: BitCopy().at(0), "but it is 0 to 0"),
        (lambda: BitCopy(curriculum="30"), r"below longest = 20, but are \[30\]"),
        (lambda: BitCopy(shortest=4, curriculum="3"), "from 4 on"),
        (lambda: MatrixCopy(rows=1), "rows is 1"),
        (lambda: MatrixCopy(columns=0), "columns 0"),
        (lambda: MatrixRecall(columns=2), "at least 3 columns .* columns 2"),
        (lambda: BitRepeatCopy(fewest=0), "number of repeats .* but it is 0 to 10"),
        (lambda: BitRepeatCopy(normalised_by=1), "normalised_by is 1"),
        (lambda: AssociativeRecall(fewest=1), "number of items .* begins at 2 or above, but it is 1 to 6"),
        (lambda: AssociativeRecall(item_length=0), "item_length is 0"),
        (lambda: AssociativeRecall().at(3, item_length=0), "item_length is 0"),
        (lambda: AssociativeRecall(bits=5, item_length=1), "at least 36; but 1 x 5 bits make 32"),
        (lambda: AssociativeRecall(curriculum="6"), "below most = 6"),
    ],
)
def test_bad_options_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
