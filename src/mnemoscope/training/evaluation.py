"""Loss and scores of a model on batches of one task, or of several."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import TypeVar

import torch

from mnemoscope.cells import Model
from mnemoscope.lenses import SpanScores
from mnemoscope.tasks import Batch, Split, Task
from mnemoscope.training.answers import answer, read_places
from mnemoscope.training.sequence_scores import evaluate_sequences

Name = TypeVar("Name", bound=Hashable)


@torch.no_grad()
def evaluate(
    model: Model,
    task: Task,
    batches: Iterable[Batch],
    continues: Iterable[bool] = repeat(False),
    window: int | None = None,
) -> dict[str, float]:
    """Return the mean loss and scores of a model over batches of a task, in evaluation mode.

    Args:
        model: the network; batches are time first, also for one of a torch.nn module with `batch_first`.
        task: gives loss and scores.
        batches: on the device of the model; each is weighted by its number of counted steps.
        continues: for each batch, whether the state of the batch before is carried into it (see `Task.continues`).
        window: run long sequences in windows of so many steps, which bounds the memory for states; None: whole, as
            always if the outputs are decoded from the last step.

    """
    training = model.training
    network = model.time_first().eval()
    rows, weights, state = [], [], None
    for batch, carry in zip(batches, continues, strict=False):
        state, parts = state if carry else None, []
        for piece in batch.windows(None if task.decoded else window):
            outputs, _, state = answer(network, piece, state, read_places(task, piece))
            parts.append(outputs)
        outputs = torch.cat(parts, 1 if task.pointwise else 0)
        scored = batch.counted() if task.pointwise else batch
        rows.append({"loss": task.loss(outputs, scored).item(), **task.scores(outputs, scored)})
        weights.append(int(batch.mask.sum().clamp(min=1)))
    model.train(training)
    shares = [weight / weights[0] for weight in weights]  # for equal batches, the plain mean to the last digit
    return {name: sum(s * row[name] for s, row in zip(shares, rows, strict=True)) / sum(shares) for name in rows[0]}


def evaluate_tasks(
    model: Model,
    tasks: Mapping[Name, Task],
    *,
    sequences: int = 100,
    batches: int = 1,
    seed: int = 0,
    split: Split = "validation",
    window: int | None = 500,
) -> dict[Name, dict[str, float]]:
    """Return loss and scores of one model on each of several tasks, such as one task at several lengths.

    Args:
        model: a network whose inputs and outputs suit all tasks.
        tasks: the tasks, by any name, such as their length.
        sequences: sequences of a batch.
        batches: batches of each task, counted from number 0.
        seed: seed of the batches.
        split: split of the batches. Training on a generated task evaluates on "test", so "validation" is new to it.
        window: steps that are run in one piece; None for whole sequences. Relational problems have one step.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> tasks = {delay: Copy(delay) for delay in (5, 50)}
    >>> scores = evaluate_tasks(Model(GRU(10, 8), output_size=9), tasks, sequences=4)
    >>> [(delay, sorted(row)) for delay, row in scores.items()]
    [(5, ['accuracy', 'loss']), (50, ['accuracy', 'loss'])]

    """
    device = next(model.parameters()).device
    for name, task in tasks.items():
        whole = task.batches(sequences, split)
        if batches < 1 or (whole is not None and batches > whole):
            most = "" if whole is None else f" and at most {whole}, which is all of the {split} split"
            raise ValueError(f"batches must be at least 1{most}, but is {batches} for the task {name!r}.")

    def drawn(task: Task) -> Iterator[Batch]:
        return (task.batch(sequences, seed, number, split).to(device) for number in range(batches))

    return {name: evaluate(model, task, drawn(task), window=window) for name, task in tasks.items()}


def evaluate_spans(
    model: Model, task: Task, tests: Mapping[int, Task] | None = None, *, sequences: int = 64, seed: int = 0
) -> SpanScores:
    """Return the accuracy of a model at several spans of its task, and that of chance: its length generalisation.

    Args:
        model: a network that was trained on the task.
        task: a task with spans, such as delays or lengths.
        tests: the task at each span; by default those of `task.span_tests()`.
        sequences: sequences at each span, of the validation split, which is new to a network that was trained on a
            generated task.
        seed: seed of the sequences.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> scores = evaluate_spans(Model(GRU(10, 8), output_size=9), Copy(delay=4), sequences=4)
    >>> scores.spans.tolist(), scores.trained, scores.chance.unique().tolist()
    ([1, 2, 4, 6, 8, 16], 4, [0.125])

    """
    tests = task.span_tests() if tests is None else tests
    if not tests:
        raise ValueError(f"{type(task).__name__} has no option for how long a network must remember.")
    return _evaluate_variants(model, tests, task.span_label, task.longest_span, sequences, seed)


def evaluate_loads(
    model: Model, task: Task, tests: Mapping[int, Task] | None = None, *, sequences: int = 64, seed: int = 0
) -> SpanScores:
    """Return the accuracy at several loads: how much must be held at once; the arguments are as for spans.

    >>> from mnemoscope.cells import GRU
    >>> from mnemoscope.tasks import Copy
    >>> scores = evaluate_loads(Model(GRU(10, 8), output_size=9), Copy(delay=4, symbols=4), sequences=4)
    >>> scores.label, scores.spans.tolist(), scores.trained
    ('number of symbols', [1, 2, 4, 6, 8, 16], 4)
    """
    tests = task.load_tests() if tests is None else tests
    if not tests:
        raise ValueError(f"{type(task).__name__} has no option for how much a network must hold at once.")
    return _evaluate_variants(model, tests, task.load_label, task.largest_load, sequences, seed)


def _evaluate_variants(
    model: Model, tests: Mapping[int, Task], label: str, trained: int, sequences: int, seed: int
) -> SpanScores:
    device = next(model.parameters()).device
    scores = [
        evaluate_sequences(model, test, test.batch(sequences, seed, 0, "validation").to(device)).overall()
        for test in tests.values()
    ]
    accuracy, low, high = torch.tensor(scores, dtype=torch.float64).T
    chances = [test.chance() for test in tests.values()]
    known = [chance for chance in chances if chance is not None]
    chance = torch.tensor(known, dtype=torch.float64) if len(known) == len(chances) else None
    return SpanScores(label, torch.tensor(list(tests)), accuracy, trained, sequences, chance, low, high)
