"""Every registered task: shapes, mask, determinism, disjoint streams, and the measured baseline."""

from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch.nn.functional import one_hot

from mnemoscope import registry
from mnemoscope.tasks import (
    Adding,
    AngleMemory,
    AssociativeRecall,
    Batch,
    BitCopy,
    BitRepeatCopy,
    BitTask,
    BracketArithmetic,
    ComposeCopy,
    ContextDecision,
    Copy,
    DataTask,
    DelayedMatch,
    Denoise,
    EnvironmentTask,
    FlipFlop,
    GeneratedTask,
    InductionHeads,
    KeyValueRecall,
    MadCompression,
    MadFuzzyRecall,
    MadMemorisation,
    MadNoisyRecall,
    MadRecall,
    MadSelectiveCopy,
    MatrixCopy,
    MatrixRecall,
    ModularArithmetic,
    MultiQueryRecall,
    MultiTask,
    NgramRecall,
    ParametricMemory,
    Parity,
    PennTreebank,
    PerceptualDecision,
    PermutedMNIST,
    ReadySetGo,
    RepeatCopy,
    SelectiveCopy,
    SequentialMNIST,
    StringCopy,
    Task,
    TokenTask,
    TransferCopy,
    VariableBinding,
    WordProblem,
)
from mnemoscope.tasks.cognitive.response_task import ResponseTask
from mnemoscope.tasks.splits import generator_seed
from mnemoscope.tasks.tokens.mad_fuzzy_recall import COUNTED
from tests.slow import representatives
from tests.tasks import data_sets
from tests.tasks.test_environment_task import CUED_TRIALS

SMALL = {
    "flipflop": [
        FlipFlop(bits=2, length=7, rate=0.25),
        FlipFlop(bits=1, length=1),
        FlipFlop(length=5, rate=1.0),
        FlipFlop(bits=2, length=30, rate=0.1, width=2, settle=3),
        FlipFlop(bits=2, length=24, rate=0.3, width=3, apart=5, settle=4),
        FlipFlop(bits=3, length=20, rate=0.5, width=4, apart=4, settle=1),
        FlipFlop(bits=1, length=20, rate=1.0, width=1, apart=3, settle=3),
    ],
    "copy": [Copy(delay=3, symbols=2, alphabet=3), Copy(delay=1, symbols=1, alphabet=2)],
    "adding": [Adding(length=7), Adding(length=8), Adding(length=2)],
    "transfer-copy": [TransferCopy(delay=2, test_delay=4, symbols=2, alphabet=3)],
    "denoise": [Denoise(delay=4, symbols=2, alphabet=3), Denoise(delay=2, symbols=2, alphabet=2)],
    "repeat-copy": [
        RepeatCopy(variables=3, size=2, horizon=7, test_horizon=9),
        RepeatCopy(2, 5, horizon=1, test_horizon=20),
    ],
    "compose-copy": [ComposeCopy(variables=3, size=3, horizon=7, test_horizon=9)],
    "binding": [
        VariableBinding(3, 2, rule="-6 1", horizon=7, test_horizon=3, curriculum="2 5"),
        VariableBinding(8, 8, rule="T3", horizon=3, test_horizon=2),
    ],
    "bit-copy": [BitCopy(longest=3, bits=2), BitCopy(shortest=2, longest=5, bits=3, mixed=True, curriculum="3")],
    "matrix-copy": [MatrixCopy(longest=3, rows=3, columns=2), MatrixCopy(longest=4, rows=2, columns=1, mixed=True)],
    "bit-repeat-copy": [
        BitRepeatCopy(shortest=2, longest=4, fewest=2, most=3, bits=2),
        BitRepeatCopy(longest=3, most=4, normalised_by=4, bits=3, mixed=True),
    ],
    "associative-recall": [
        AssociativeRecall(item_length=2, most=3, bits=2),
        AssociativeRecall(item_length=1, most=5, bits=5, mixed=True),
    ],
    "matrix-recall": [
        MatrixRecall(item_length=1, most=3, rows=3, columns=3),
        MatrixRecall(most=4, rows=2, columns=4, mixed=True),
    ],
    "key-value-recall": [
        KeyValueRecall(keys=4, values=3, fewest=1, most=4, queries=2),
        KeyValueRecall(keys=3, values=2, fewest=2, most=3, queries=3, apart=True),
    ],
    "word-problem": [
        WordProblem("S3", "generators", length=4),
        WordProblem("Z6", length=3),
        WordProblem("Z2", length=5, probabilities="0.8 0.2"),
    ],
    "mqar": [
        MultiQueryRecall(vocabulary=8, pairs=2, length=10),
        MultiQueryRecall(vocabulary=9, pairs=1, length=6, random_fillers=False, mixture="8:2"),
    ],
    "parity": [Parity(3, 6, 4, 8), Parity(modulus=3).at(5)],
    "modular-arithmetic": [ModularArithmetic(3, 8, 6, 11), ModularArithmetic(modulus=3).at(6)],
    "bracket-arithmetic": [
        BracketArithmetic(3, 9, 7, 12),
        BracketArithmetic(3, 9, 3, 12, modulus=4, multiply=True),
    ],
    "selective-copy": [SelectiveCopy(length=5, data=2, vocabulary=5), SelectiveCopy(3, 3, 4)],
    "induction-heads": [InductionHeads(length=6, vocabulary=4), InductionHeads(4, 3)],
    "string-copy": [StringCopy(1, 3, 2, 4, letters=3, context=16), StringCopy(letters=2).at(3)],
    "ngram-recall": [
        NgramRecall(8, 9, 8, 10, letters=12, context=40),
        NgramRecall(8, 8, 7, 8, letters=12, context=40, ngram=2, answer=2, ngram_first=True),
    ],
    "mad-recall": [MadRecall(60, vocabulary=5, length=8), MadRecall(0, 6, 6, next_tokens=False)],
    "mad-noisy-recall": [MadNoisyRecall(60, vocabulary=4, length=8, noise=0.5)],
    "mad-fuzzy-recall": [
        MadFuzzyRecall(60, vocabulary=8, length=14),
        MadFuzzyRecall(0, 7, 20, key_tokens=2, value_tokens=1, next_tokens=False),
    ],
    "mad-selective-copy": [MadSelectiveCopy(60, vocabulary=5, length=9, copied=2)],
    "mad-memorisation": [MadMemorisation(60, vocabulary=8, length=4)],
    "mad-compression": [MadCompression(60, vocabulary=5, length=6), MadCompression(0, 3, 2)],
    "smnist": [SequentialMNIST(), SequentialMNIST(group=56)],
    "psmnist": [PermutedMNIST(group=4), PermutedMNIST(permutation_seed=1)],
    "ptb": [PennTreebank(length=7), PennTreebank()],
    "perceptual-decision": [
        PerceptualDecision(step=100, noise=0.03, coherences="0.1"),
        PerceptualDecision(step=50).at(0),
    ],
    "context-decision": [ContextDecision(step=100, noise=0)],
    "parametric-memory": [ParametricMemory(step=100, noise=0, fixation=100, shortest_delay=0, longest_delay=300)],
    "delayed-match": [DelayedMatch(step=100, noise=0, fixation=100, shortest_delay=100, stimulus=100, objects=2)],
    "angle-memory": [AngleMemory(step=100, noise=0, fixation=100, shortest_delay=200, longest_delay=300)],
    "ready-set-go": [
        ReadySetGo(step=100, pulse=100, longest_interval=700, intervals=3, gains="1 2").at(5),
        ReadySetGo(step=100, pulse=100),
    ],
}
SMALL["multi-task"] = [MultiTask(step=100, rules="Go, Dly Anti, Ctx DM 1, DMS, DNMC", noise=0, locations=2)]
SMALL["environment"] = [EnvironmentTask(CUED_TRIALS)]
TASKS = [pytest.param(task, id=str(task)) for tasks in SMALL.values() for task in tasks]
GENERATED = [each for each in TASKS if isinstance(each.values[0], GeneratedTask)]


@pytest.fixture(autouse=True)
def _tiny_data(monkeypatch, tmp_path_factory):
    """Replace the real data by sixty digits and a page of text."""
    data_sets.use(monkeypatch, tmp_path_factory.getbasetemp() / "data")


def test_every_registered_task_is_tested_here():
    """Relational tasks are in test_relational_tasks.py and test_relational_training.py."""
    sequences = [entry for entry in registry.tasks if not registry.is_relational(entry.name)]
    assert list(SMALL) == [entry.name for entry in sequences]
    for entry in sequences:
        assert all(type(task) is entry.load() for task in SMALL[entry.name])
        assert issubclass(entry.load(), Task)


def perfect(task: Task, batch: Batch) -> torch.Tensor:
    if batch.targets.is_floating_point():
        return batch.targets
    if batch.targets.dtype == torch.bool:
        return 100.0 * (2 * batch.targets - 1.0)
    return 100.0 * one_hot(batch.targets, task.output_size)


@pytest.mark.parametrize("task", TASKS)
def test_shapes_types_and_mask(task):
    inputs, targets, mask = task.batch(5, seed=0, number=0)
    time = inputs.shape[0]
    if isinstance(task, TokenTask):
        assert inputs.shape == (time, 5)
        assert inputs.dtype == torch.int64
        assert 0 <= inputs.min() <= inputs.max() < task.input_size
    else:
        assert inputs.shape == (time, 5, task.input_size)
        assert inputs.dtype == torch.float32
    assert mask.shape == (time, 5)
    assert mask.dtype == torch.bool
    assert mask.any(0).all()  # every sequence counts
    if targets.is_floating_point() or targets.dtype == torch.bool:
        assert targets.shape == (time, 5, task.output_size)
    else:
        assert targets.shape == (time, 5)
        assert 0 <= targets.min() <= targets.max() < task.output_size


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_depends_on_its_arguments_alone(task):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = task.batch(50, seed=3, number=5)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    again = next(islice(task.stream(50, seed=3), 5, None))
    later = next(task.stream(50, seed=3, start=5))
    for same in (again, later):
        assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_numbers_seeds_and_splits_differ(task):
    batches = [task.batch(10, 0, 0), task.batch(10, 0, 1), task.batch(10, 1, 0)]
    batches += [task.batch(10, 0, 0, split) for split in ("validation", "test")]
    if task == FlipFlop(bits=1, length=1):
        return  # ten random signs soon coincide, and there is nothing else to compare
    if isinstance(task, PennTreebank):
        assert torch.equal(batches.pop(2).inputs, batches[0].inputs)  # the text does not depend on the seed
    for a in range(len(batches)):
        for b in range(a):
            assert not torch.equal(batches[a].inputs, batches[b].inputs)


def test_training_and_test_streams_never_share_a_generator():
    """The CPU generator reads 32 bits of its seed, so hashes could collide; the last bit separates the splits."""
    generator = torch.Generator()
    equal = [torch.rand(3, generator=generator.manual_seed(seed)) for seed in (5, 5 + 2**32)]
    assert torch.equal(*equal)  # if this changes, more bits can be used
    train, validation, test = (
        {generator_seed(seed, number, split) for seed in range(20) for number in range(1000)}
        for split in ("train", "validation", "test")
    )
    assert not train & (validation | test)
    assert validation != test
    assert max(train | validation | test) < 2**32
    assert len(train) > 19_990  # the hash spreads: 20,000 of 2^31 collide in 0.1 pairs on average


@pytest.mark.parametrize("task", TASKS)
def test_perfect_outputs_have_no_loss_and_full_accuracy(task):
    batch = task.batch(50, seed=0, number=0)
    outputs = perfect(task, batch)
    assert task.loss(outputs, batch).item() == pytest.approx(0, abs=1e-12)
    assert task.scores(outputs, batch)["accuracy"] == 1.0


@pytest.mark.parametrize("task", TASKS)
def test_loss_is_the_mean_over_the_steps_that_count(task):
    batch = task.batch(6, seed=0, number=0)
    outputs = torch.randn(*batch.mask.shape, task.output_size, generator=torch.Generator().manual_seed(0))
    total, number = 0.0, 0
    for t in range(batch.mask.shape[0]):
        for b in range(6):
            if batch.mask[t, b]:
                y, target = outputs[t, b], batch.targets[t, b]
                if batch.targets.is_floating_point():
                    weights = task.weights(batch)[t, b] if isinstance(task, MultiTask) else 1
                    total += (weights * (y - target) ** 2).mean().item()
                elif batch.targets.dtype == torch.bool:
                    p = y.sigmoid()
                    total += -torch.where(target, p, 1 - p).log().mean().item()
                else:
                    total += -y.log_softmax(0)[target].item()
                number += 1
    assert task.loss(outputs, batch).item() == pytest.approx(total / number, rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_loss_is_zero_if_no_step_counts(task):
    batch = task.batch(6, seed=0, number=0)
    outputs = torch.zeros(*batch.mask.shape, task.output_size, requires_grad=True)
    loss = task.loss(outputs, batch._replace(mask=torch.zeros_like(batch.mask)))
    loss.backward()
    assert loss.item() == 0
    assert outputs.grad is not None
    assert not outputs.grad.any()


@pytest.mark.parametrize("task", TASKS)
def test_outputs_of_the_wrong_shape_are_refused(task):
    batch = task.batch(6, seed=0, number=0)
    with pytest.raises(ValueError, match=r"takes outputs of shape .* \(time, batch, output\), but got"):
        task.loss(torch.zeros(1, 6, task.output_size + 1), batch)


# The baseline: the predictor of each docstring, and the best table over (time, current input), both measured.


def memoryless(task: Task, batch: Batch) -> torch.Tensor:
    if isinstance(task, FlipFlop):
        return batch.inputs
    if isinstance(task, Copy):
        length = len(batch.inputs)
        due = torch.arange(length) >= length - task.symbols
        blank = torch.full((task.output_size,), -100.0)
        blank[-1] = 0
        symbol = torch.zeros(task.output_size)
        symbol[-1] = -100
        return torch.where(due[:, None, None], symbol, blank).expand(-1, batch.mask.shape[1], -1)
    if isinstance(task, Adding):
        value, marker = batch.inputs.unbind(-1)
        return torch.where(marker > 0, value + 0.5, 1.0)[..., None]
    if isinstance(task, VariableBinding | ResponseTask):
        return torch.zeros_like(batch.targets)
    if isinstance(task, ReadySetGo | MultiTask):
        return _mean_target_by_input(task, batch)
    if isinstance(task, KeyValueRecall):
        return torch.zeros(*batch.mask.shape, task.output_size)
    if isinstance(task, TokenTask):
        return _token_chances(task, batch).clamp_min(1e-30).log()
    if isinstance(task, BitTask):
        chances = torch.zeros(task.output_size).expand(batch.targets.shape).clone()
        chances[..., : task.random_bits] = 0.5
        if isinstance(task, BitRepeatCopy):
            sequences = [(length, repeats) for length in range(task.shortest, task.longest + 1)
                         for repeats in range(task.fewest, task.most + 1)]  # fmt: skip
            for t in range(len(chances)):
                counted = [(n, r) for n, r in sequences if n + 2 <= t <= n + 2 + n * r]
                end = sum(t == n + 2 + n * r for n, r in counted) / max(len(counted), 1)
                chances[t, :, :-1], chances[t, :, -1] = (1 - end) / 2, end
        return chances.logit(eps=1e-7)
    if isinstance(task, WordProblem):
        group, chances = task.build_group(), task.letter_probabilities()
        products = torch.eye(group.order)[0]  # distribution before each letter
        outputs = [products.expand(len(batch.mask[0]), -1)]
        for letters in batch.inputs[1:].argmax(-1):
            moved = torch.tensor(group.table)[torch.tensor(group.letters)]  # (letters, order)
            outputs.append(
                torch.zeros(len(letters), group.order).scatter(1, moved[letters], products.expand(len(letters), -1))
            )
            products = sum(
                c * torch.zeros(group.order).scatter(0, row, products) for c, row in zip(chances, moved, strict=True)
            )
        return torch.stack(outputs).clamp_min(1e-30).log()
    raise NotImplementedError(f"Write the memoryless predictor of {type(task).__name__} here.")


def _token_chances(task: TokenTask, batch: Batch) -> torch.Tensor:
    """Return the probabilities of tokens, given the time and the input."""
    chances = torch.zeros(*batch.mask.shape, task.output_size)
    if isinstance(task, MultiQueryRecall):
        chances[..., task.vocabulary // 2 :] = 1
    elif isinstance(task, Parity):
        chances[..., 1:] = 1
    elif isinstance(task, SelectiveCopy | InductionHeads):
        chances[..., int(isinstance(task, SelectiveCopy)) : -1] = 1
    elif isinstance(task, MadRecall):
        chances[..., task.vocabulary // 2 : task.vocabulary] = 1
    elif isinstance(task, NgramRecall):
        chances[..., : task.letters] = 1 / task.letters
        for step in range(len(chances)):
            running = [each for each in task.timings() if each.first <= step <= each.last]
            running = [each for each in running if each.first < step or not task.ngram_first]
            ended = sum(each.probability for each in running if each.last == step)
            ended /= sum(each.probability for each in running) or 1
            later = batch.inputs[step] < task.letters  # not at the bar
            chances[step, later, : task.letters] *= 1 - ended
            chances[step, later, task.letters + 2] = ended
    elif isinstance(task, MadCompression):
        chances[:-1, :, :-1] = chances[-1, :, -1] = 1
    elif isinstance(task, MadFuzzyRecall):  # the first token of a value, or one that differs from the token before
        chances[..., task.key_count : -1] = 1
        chances.scatter_(2, batch.inputs.clamp_min(task.key_count).unsqueeze(2), 0)
        at_key = batch.inputs < task.key_count
        chances[at_key] = torch.cat([torch.zeros(task.key_count), torch.ones(task.value_count), torch.zeros(1)])
    elif isinstance(task, MadSelectiveCopy):
        chances[..., : task.vocabulary - 2] = 1
    elif isinstance(task, MadMemorisation):
        chances[..., task.values()] = 1
    elif isinstance(task, StringCopy):
        lengths, end = range(task.test_shortest, task.test_longest + 1), task.letters + 2
        chances[..., : task.letters] = 1 / task.letters
        for step in range(len(chances)):
            running = [length for length in lengths if length + 2 <= step <= 2 * length + 1]
            ended = sum(step == 2 * length + 1 for length in running) / max(len(running), 1)
            later = batch.inputs[step] < task.letters  # not at the bar
            chances[step, later, : task.letters] *= 1 - ended
            chances[step, later, end] = ended
    else:
        tested, first = task.held_out(), 5 if isinstance(task, ModularArithmetic) else 0
        after = 2 if isinstance(task, ModularArithmetic) else 3
        for length, row in zip(tested.lengths(), tested.distributions(), strict=True):
            chances[length - after, :, first : first + task.modulus] = row.float()
    return chances / chances.sum(-1, keepdim=True).clamp_min(1e-9)


def _mean_target_by_input(task: Task, batch: Batch) -> torch.Tensor:
    """Return the weighted mean target of all counted sequences that have the same input at the same step."""
    weights = task.weights(batch) if isinstance(task, MultiTask) else torch.ones_like(batch.targets)
    outputs = torch.zeros_like(batch.targets)
    codes = batch.inputs.double() @ torch.linspace(1, 10, task.input_size, dtype=torch.float64)  # inputs are noiseless
    for t, code in enumerate(codes):
        _, place = code.unique(return_inverse=True)
        counted = batch.mask[t].unsqueeze(1) * weights[t]
        sums = torch.zeros(2, int(place.max()) + 1, task.output_size)
        for total, values in zip(sums, (counted, counted * batch.targets[t]), strict=True):
            total.index_add_(0, place, values)
        outputs[t] = (sums[1] / sums[0].clamp_min(1e-9))[place]
    return outputs


def as_read(task: Task, batch: Batch) -> Batch:
    """Return the batch with the inputs that a readout without memory would see: the last one if it decodes them all."""
    return batch._replace(inputs=batch.inputs[-1:].expand_as(batch.inputs)) if task.decoded else batch


def _all_lengths(task: Task) -> Task:
    """Return a task whose single batch has the lengths of many batches."""
    return replace(task, mixed=True) if isinstance(task, BitTask) else task


@representatives(
    "FlipFlop(bits=2, length=7, rate=0.25, width=1, apart=0, settle=0)",
    "FlipFlop(bits=1, length=20, rate=1.0, width=1, apart=3, settle=3)",
)
# the baseline of an environment is itself counted on its trials: no formula to compare
@pytest.mark.parametrize("task", [each for each in GENERATED if not isinstance(each.values[0], EnvironmentTask)])
def test_the_baseline_is_the_loss_of_its_predictor(task):
    size = 100_000 if task.input_size < 40 else 10_000
    batch = _all_lengths(task).batch(size, seed=0, number=0, split="test")
    errors = torch.where(batch.mask, task.errors(memoryless(task, batch), batch), 0).double().sum(0)
    counted = batch.mask.sum(0)
    loss = (errors.sum() / counted.sum()).item()
    deviation = ((errors - loss * counted) / counted.double().mean()).std().item() / size**0.5
    if isinstance(task, MadFuzzyRecall):
        deviation *= (1 + size / COUNTED) ** 0.5  # its baseline is counted in a number of sequences, too
    assert loss == pytest.approx(task.baseline(), abs=4 * deviation + 1e-6)


@representatives(
    "FlipFlop(bits=2, length=7, rate=0.25, width=1, apart=0, settle=0)",
    "MatrixRecall(mixed=True, item_length=2, fewest=2, most=4, curriculum='', rows=2, columns=4)",
)
@pytest.mark.parametrize("task", GENERATED)
def test_no_memoryless_predictor_beats_the_baseline(task):
    """Tabulate the best output per time and input (in bins of 1/20) on one batch, and test it on another."""
    if isinstance(task, MultiTask):
        pytest.skip("has too many inputs for a table of bins; the test before tabulates them")
    size = 50_000
    batches = (_all_lengths(task).batch(size, seed=0, number=number, split="test") for number in (1, 2))
    fill, trial = (as_read(task, batch) for batch in batches)
    values, bits = fill.targets.is_floating_point(), fill.targets.dtype == torch.bool
    digit = 41 ** torch.arange(task.input_size)  # a bin is -20 .. 20 in every channel
    loss = 0.0
    for t in fill.mask.any(1).nonzero().flatten().tolist():
        target, expected = (
            b.targets[t].float() if values or bits else one_hot(b.targets[t], task.output_size).float()
            for b in (fill, trial)
        )
        bins = torch.cat(
            [
                batch.inputs[t] if isinstance(task, TokenTask) else (20 * batch.inputs[t]).round().long() @ digit
                for batch in (fill, trial)
            ]
        )
        place, trial_place = bins.unique(return_inverse=True)[1].split(size)
        counted = fill.mask[t].float()
        table = torch.zeros(int(bins.unique().numel()), task.output_size)
        table.index_add_(0, place, target * counted[:, None])
        seen = torch.zeros(len(table)).index_add_(0, place, counted)
        guess = (table / seen.clamp_min(1)[:, None])[trial_place]
        if values:
            error = (guess - expected).square().mean(-1)
        elif bits:
            error = -torch.where(expected > 0, guess + 1e-9, 1 - guess + 1e-9).log().mean(-1)
        else:
            error = -(expected * (guess + 1e-9).log()).sum(-1)
        loss += (error * trial.mask[t]).double().sum().item()
    loss /= trial.mask.sum().item()
    # Sampling: 50,000 sequences with errors of order 1 deviate by 0.0045 at most. Binning costs (1/20)^2 / 12 = 2e-4.
    assert loss == pytest.approx(task.baseline(), abs=0.01)


# Chance and length generalisation.


def answered_from_a_table(task: Task, fill: Batch, trial: Batch) -> torch.Tensor:
    """Return outputs on `trial`: the mean answer of `fill` at the same time and input, in steps that test memory."""
    masks = [task.recalled(batch) for batch in (fill, trial)]
    rows = [
        torch.cat([mask.nonzero()[:, :1], batch.inputs[mask].reshape(int(mask.sum()), -1)], 1)
        for mask, batch in zip(masks, (fill, trial), strict=True)
    ]
    places, trial_places = torch.cat(rows).unique(dim=0, return_inverse=True)[1].split([len(each) for each in rows])
    due = fill.targets[masks[0]]
    if due.dim() == 1:
        answers = one_hot(due, task.output_size).float()
    else:
        answers = due if due.is_floating_point() else 2.0 * due - 1
    table = torch.zeros(sum(map(len, rows)), task.output_size).index_add_(0, places, answers)
    outputs = torch.zeros(*trial.mask.shape, task.output_size)
    outputs[masks[1]] = table[trial_places] + 0.5  # positive where both signs are as frequent
    return outputs


CHANCES = [each for each in GENERATED if each.values[0].chance() is not None]


@representatives(
    "FlipFlop(bits=2, length=30, rate=0.1, width=2, apart=0, settle=3)",
    "BitRepeatCopy(mixed=True, shortest=1, longest=3, curriculum='', bits=3, fewest=1, most=4, normalised_by=4)",
    "WordProblem(group='Z2', letters='elements', length=5, probabilities='0.8 0.2')",
    "Denoise(delay=4, symbols=2, alphabet=3, curriculum='')",
    "StringCopy(shortest=1, longest=3, test_shortest=2, test_longest=4, letters=3, context=16, packed=True)",
)
@pytest.mark.parametrize("task", CHANCES)
def test_chance_is_the_accuracy_of_a_table_over_time_and_input(task):
    """The most frequent answer at each time and input in one batch, scored in another."""
    size = 3000
    task = replace(task, noise=0) if isinstance(task, ResponseTask) else task
    batches = (_all_lengths(task).batch(size, seed=0, number=number, split="test") for number in range(2))
    fill, trial = (as_read(task, batch) for batch in batches)
    outputs = answered_from_a_table(task, fill, trial)
    if isinstance(task, AngleMemory):
        outputs[..., 0] = 1  # the mean of all angles is too short a vector to be one; all guesses are alike
    # A sequence is right or wrong as a whole at worst: four deviations of 3,000 are 0.037.
    assert task.scores(outputs, trial)["accuracy"] == pytest.approx(task.chance(), abs=0.037)


def test_tasks_without_chance_have_values_or_unknown_answers():
    without = {name for name, tasks in SMALL.items() if any(task.chance() is None for task in tasks)}
    assert without == {"adding", "ready-set-go", "multi-task", "environment"}


@pytest.mark.parametrize("task", TASKS)
def test_the_test_of_length_generalisation_has_the_spans_of_its_tasks(task):
    tests = task.span_tests()
    assert list(tests) == sorted(tests)
    assert bool(tests) == bool(task.longest_span)
    assert bool(task.span_label) >= bool(tests)
    for span, test in tests.items():
        assert test.longest_span == span
        assert type(test.held_out()).batch is not None
        assert (test.input_size, test.output_size) == (task.input_size, task.output_size)
    if tests:
        steps = [len(test.batch(2, 0, 0, "validation").mask) for test in tests.values()]
        assert steps == sorted(steps)


# Properties of single tasks.


def test_flipflop_target_is_the_last_pulse():
    batch = FlipFlop(bits=3, length=40, rate=0.2).batch(10, seed=0, number=0)
    assert (batch.inputs[0] != 0).all()
    held = batch.inputs[0].clone()
    for t in range(40):
        held = torch.where(batch.inputs[t] != 0, batch.inputs[t], held)
        assert torch.equal(batch.targets[t], held)


def test_flipflop_pulses_at_its_rate_with_both_signs():
    inputs = FlipFlop(bits=4, length=50, rate=0.2).batch(1000, seed=0, number=0).inputs[1:]
    assert (inputs != 0).float().mean().item() == pytest.approx(0.2, abs=0.005)  # 196,000 draws: deviation 0.0009
    assert inputs.mean().item() == pytest.approx(0, abs=0.005)


@pytest.mark.parametrize("options", [{"width": 10**9}, {"bits": 1, "apart": 21}])
def test_flipflop_pulses_must_fit_into_the_sequence(options):
    with pytest.raises(ValueError, match="fit into a sequence"):
        FlipFlop(length=20, **options)


def test_flipflop_pulses_have_a_width_and_arrive_singly():
    task = FlipFlop(bits=3, length=200, rate=0.2, width=4, apart=9, settle=6)
    batch = task.batch(50, seed=0, number=0)
    for sequence in range(50):
        held, began, flipped, pulses = [0.0] * 3, -9, 0, []
        for t in range(200):
            u = batch.inputs[t, sequence].tolist()
            before = batch.inputs[t - 1, sequence].tolist() if t else [0.0] * 3
            on = [bit for bit in range(3) if u[bit]]
            assert len(on) <= 1
            if on and u != before:
                assert t - began >= 9
                began = t
                pulses.append(on[0])
                flipped = t if held[on[0]] != u[on[0]] else flipped
                held[on[0]] = u[on[0]]
            assert bool(on) == (t - began < 4)
            assert batch.targets[t, sequence].tolist() == held
            assert batch.mask[t, sequence].item() == (all(held) and t - flipped >= 6)
        assert sorted(pulses[:3]) == [0, 1, 2]  # the first pulses visit all channels


def test_flipflop_waits_are_geometric():
    task = FlipFlop(bits=1, length=4000, rate=0.1, width=1, apart=5)
    inputs = task.batch(200, seed=0, number=0).inputs[..., 0]
    gaps = torch.cat([row.nonzero()[:, 0].diff()[1:] for row in inputs.T])
    assert gaps.min() == 5
    assert gaps.double().mean().item() == pytest.approx(5 + 9, abs=0.2)  # some 57,000 gaps: deviation 0.04
    assert (gaps == 5).double().mean().item() == pytest.approx(0.1, abs=0.006)


def test_copy_has_the_layout_of_the_literature():
    """Errata 4: 10 symbols of 8, T-1 blanks, marker, 10 blanks; length T+20; baseline 10 log 8 / (T+20)."""
    task = Copy(delay=200)
    assert (task.length, task.input_size, task.output_size) == (220, 10, 9)
    assert task.baseline() == pytest.approx(10 * torch.log(torch.tensor(8.0)).item() / 220)
    batch = task.batch(3, seed=0, number=0)
    classes = batch.inputs.argmax(-1)
    assert torch.equal(batch.inputs.sum(-1), torch.ones(220, 3))
    assert (classes[:10] < 8).all()
    assert (classes[10:209] == 8).all()
    assert (classes[209] == 9).all()
    assert (classes[210:] == 8).all()
    assert (batch.targets[:210] == 8).all()
    assert torch.equal(batch.targets[210:], classes[:10])
    assert batch.mask.all()


def test_copy_accuracy_counts_the_last_steps_only():
    task = Copy(delay=5, symbols=4, alphabet=3)
    batch = task.batch(10, seed=0, number=0)
    outputs = perfect(task, batch)
    outputs[: -task.symbols] = 0  # wrong on every blank
    assert task.scores(outputs, batch) == {"accuracy": 1.0}


@pytest.mark.parametrize("length", [2, 7, 8])
def test_adding_marks_one_number_in_each_half(length):
    batch = Adding(length).batch(2000, seed=0, number=0)
    values, markers = batch.inputs.unbind(-1)
    assert torch.equal(markers[: length // 2].sum(0), torch.ones(2000))
    assert torch.equal(markers[length // 2 :].sum(0), torch.ones(2000))
    assert markers.any(1).all()  # every place is marked in some sequence
    assert torch.equal(batch.targets[-1, :, 0], (values * markers).sum(0))
    assert torch.equal(batch.mask.nonzero()[:, 0].unique(), torch.tensor([length - 1]))


def test_transfer_copy_is_copy_at_two_delays():
    task = TransferCopy(delay=3, test_delay=9, symbols=2)
    pairs = [("train", Copy(3, 2)), ("validation", Copy(9, 2)), ("test", Copy(9, 2))]
    for split, copy in pairs:
        batch, expected = (each.batch(5, seed=1, number=2, split=split) for each in (task, copy))
        assert all(torch.equal(a, b) for a, b in zip(batch, expected, strict=True))
        assert task.scores(perfect(task, batch), batch) == {"accuracy": 1.0}
    assert (task.input_size, task.output_size) == (copy.input_size, copy.output_size)
    assert not torch.equal(*(task.batch(5, 1, 2, split).targets for split in ("validation", "test")))


BINDING = [each for name in ("repeat-copy", "compose-copy", "binding") for each in SMALL[name]]


@representatives(
    "test-VariableBinding(variables=8, size=8, rule='T3', horizon=3, test_horizon=2, curriculum='')",
    "train-RepeatCopy(variables=2, size=5, rule='repeat', horizon=1, test_horizon=20, curriculum='')",
    "train-VariableBinding(variables=3, size=2, rule='-6 1', horizon=7, test_horizon=3, curriculum='2 5')",
    "validation-ComposeCopy(variables=3, size=3, rule='compose', horizon=7, test_horizon=9, curriculum='')",
)
@pytest.mark.parametrize("task", BINDING, ids=str)
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_binding_follows_its_boundary_map(task, split):
    inputs, targets, mask = task.batch(4, seed=0, number=0, split=split)
    s = task.variables
    assert len(inputs) == s + (task.horizon if split == "train" else task.test_horizon)
    assert torch.equal(inputs[:s].abs(), torch.ones(s, 4, task.size))
    assert torch.equal(inputs[:s], targets[:s])
    assert not inputs[s:].any()
    assert torch.equal(mask, (torch.arange(len(inputs)) >= s)[:, None].expand(-1, 4))
    F = task.F.matrix().float()
    for time in range(s, len(targets)):
        for b in range(4):
            assert torch.equal(targets[time, b], F @ targets[time - s : time, b].flatten())


def test_repeat_copy_repeats_and_compose_copy_takes_the_diagonal():
    repeat, compose = (task.batch(4, 0, 0).targets for task in (RepeatCopy(3, 2, horizon=6), ComposeCopy(3, 3)))
    assert torch.equal(repeat[:3], repeat[3:6])
    assert torch.equal(repeat[:3], repeat[6:])
    for i in range(3):  # Eq 33, counted from 1: element i of x(s + 1) is element i of x(i)
        assert torch.equal(compose[3, :, i], compose[i, :, i])


def test_binding_accuracy_counts_bits_after_the_input_phase():
    task = RepeatCopy(2, 2, horizon=5)
    batch = task.batch(10, seed=0, number=0)
    outputs = 0.01 * batch.targets
    outputs[:2] *= -1  # does not count
    assert task.scores(outputs, batch) == {"accuracy": 1.0}
    outputs[4, :, 1] *= -1  # one of two bits at one of five steps
    assert task.scores(outputs, batch)["accuracy"] == pytest.approx(0.9)
    nothing = batch._replace(mask=torch.zeros_like(batch.mask))
    assert task.scores(outputs, nothing) == {"accuracy": 1.0}


def test_a_curriculum_has_rising_horizons_and_ends_with_the_task():
    task = RepeatCopy(horizon=50, test_horizon=60, curriculum="10, 20 40")
    assert [stage.horizon for stage in task.stages()] == [10, 20, 40, 50]
    assert task.stages()[-1] is task
    assert all(len(stage.stages()) == 1 and stage.test_horizon == 60 for stage in task.stages()[:-1])
    assert all(len(each.values[0].stages()) == 1 for each in TASKS if not getattr(each.values[0], "curriculum", ""))
    # an easier stage is the beginning of the same sequences
    assert torch.equal(task.stages()[0].batch(3, 0, 5).targets, task.batch(3, 0, 5).targets[:15])


@pytest.mark.parametrize("task", [each for each in TASKS if isinstance(each.values[0], DataTask)])
def test_data_are_read_once_on_first_use(task, monkeypatch):
    assert task.load() is task.load()
    monkeypatch.setenv("MNEMOSCOPE_DATA", "nowhere")
    assert task.baseline() > 1
    assert task.input_size * task.output_size > 1
    with pytest.raises(FileNotFoundError, match="in nowhere/"):
        task.batch(5, seed=0, number=0)


@pytest.mark.parametrize("task", [SequentialMNIST(group=2), PermutedMNIST(group=2)])
def test_an_epoch_shows_every_image_once_and_the_next_in_another_order(task):
    """The tiny images have their number in the first pixel, and their digit times 25 in the second."""
    first, second = (int((task.order == pixel).nonzero()) for pixel in (0, 1))
    orders = []
    for epoch in range(2):
        batches = [task.batch(10, seed=3, number=5 * epoch + each) for each in range(5)]
        flat = torch.cat([batch.inputs.transpose(0, 1).flatten(1) for batch in batches])  # (50, 784)
        orders.append((255 * flat[:, first]).round().int().tolist())
        assert sorted(orders[-1]) == [*range(50)]
        digits = torch.cat([batch.targets[-1] for batch in batches])
        assert torch.equal((255 * flat[:, second]).round().int(), 25 * digits.int())
    assert orders[0] != orders[1]
    assert task.batches(10, "train") == task.batches(9, "train") == 5  # with batches of nine, five images are left out


def test_held_out_images_come_in_order_and_once():
    task = SequentialMNIST()
    for split, numbers in (("validation", range(50, 60)), ("test", range(10))):
        assert task.batches(4, split) == 3
        batches = [task.batch(4, seed=0, number=number, split=split) for number in range(3)]
        assert [batch.inputs.shape[1] for batch in batches] == [4, 4, 2]
        shown = torch.cat([batch.inputs[0, :, 0] for batch in batches])
        assert (255 * shown).round().int().tolist() == [*numbers]


def test_only_the_last_step_of_an_image_counts():
    batch = SequentialMNIST(group=28).batch(3, seed=0, number=0)
    assert batch.inputs.shape == (28, 3, 28)
    assert batch.mask.nonzero()[:, 0].unique().tolist() == [27]
    outputs = torch.zeros(28, 3, 10)
    outputs[-1] = 100.0 * one_hot(batch.targets[-1], 10)
    assert SequentialMNIST(group=28).scores(outputs, batch) == {"accuracy": 1.0}


def test_groups_hold_consecutive_pixels():
    single, four = (PermutedMNIST(group=group).batch(3, seed=0, number=0).inputs for group in (1, 4))
    assert torch.equal(single[4:8, :, 0].T, four[1])


def test_all_splits_share_the_permutation_of_the_seed():
    plain, permuted = SequentialMNIST(), PermutedMNIST()
    assert sorted(permuted.order.tolist()) == [*range(784)]
    for split in ("train", "validation", "test"):
        a, b = (task.batch(5, seed=0, number=1, split=split) for task in (plain, permuted))
        assert torch.equal(a.inputs[permuted.order], b.inputs)
        assert torch.equal(a.targets, b.targets)
    assert not torch.equal(PermutedMNIST(permutation_seed=1).order, permuted.order)


def test_the_text_continues_between_batches_and_restarts_each_epoch():
    task = PennTreebank(length=7)
    text = task.load()["test"].long()  # 240 symbols in 6 streams of 39 steps: five windows of 7, one of 4
    assert task.batches(6, "test") == 6
    assert [task.continues(6, number, "test") for number in range(8)] == [False, *[True] * 5, False, True]
    batches = [task.batch(6, seed=0, number=number, split="test") for number in range(7)]
    assert [len(batch.inputs) for batch in batches] == [7, 7, 7, 7, 7, 4, 7]
    assert torch.equal(batches[6].inputs, batches[0].inputs)
    inputs, targets = (torch.cat([batch[part] for batch in batches[:6]]) for part in (0, 1))
    for stream in range(6):
        assert torch.equal(inputs[:, stream].argmax(-1), text[39 * stream : 39 * (stream + 1)])
        assert torch.equal(targets[:, stream], text[39 * stream + 1 : 39 * (stream + 1) + 1])
    assert torch.equal(inputs.sum(-1), torch.ones(39, 6))
    assert all(batch.mask.all() for batch in batches)


def test_read_text_keeps_sentence_ends_and_word_spaces():
    from mnemoscope.tasks.penn_treebank import VOCABULARY, read_text

    numbers = read_text(b" i _ s \n h e \n ", "a text").tolist()
    assert "".join(VOCABULARY[each] for each in numbers) == "i_s\nhe\n"
    assert len({*VOCABULARY}) == 50


def test_bits_per_character_are_nats_over_log_2():
    task = PennTreebank(length=7)
    batch = task.batch(5, seed=0, number=0)
    scores = task.scores(torch.zeros(7, 5, 50), batch)
    assert scores["bpc"] == pytest.approx(torch.log2(torch.tensor(50.0)).item(), rel=1e-6)
    outputs = perfect(task, batch)
    outputs[:, 0] = -outputs[:, 0]
    assert task.scores(outputs, batch)["accuracy"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FlipFlop(bits=0), "bits is 0"),
        (lambda: FlipFlop(length=0), "length is 0"),
        (lambda: FlipFlop(rate=0.0), "rate .* is 0"),
        (lambda: FlipFlop(rate=1.5), "rate .* is 1.5"),
        (lambda: FlipFlop(rate=float("nan")), "rate .* is nan"),
        (lambda: FlipFlop(width=0), "width is 0"),
        (lambda: FlipFlop(settle=-1), "settle -1"),
        (lambda: FlipFlop(width=11, apart=5), "apart must be at least 11, but is 5"),
        (lambda: FlipFlop(length=20, settle=20), "No step would count"),
        (lambda: FlipFlop(length=60, apart=30, settle=15), "No step would count: the first that may is 75"),
        (lambda: Copy(delay=0), "delay is 0"),
        (lambda: Copy(symbols=0), "symbols is 0"),
        (lambda: Copy(alphabet=1), "alphabet is 1"),
        (lambda: Adding(length=1), "length is 1"),
        (lambda: TransferCopy(delay=0), "but delay is 0"),
        (lambda: TransferCopy(test_delay=0), "test_delay is 0"),
        (lambda: RepeatCopy(variables=0), "variables must be a whole number, at least 1, but is 0"),
        (lambda: RepeatCopy(size=0), "size must be a whole number, at least 1, but is 0"),
        (lambda: RepeatCopy(horizon=0), "horizon must be a whole number, at least 1, but is 0"),
        (lambda: RepeatCopy(test_horizon=0), "test_horizon must be a whole number, at least 1, but is 0"),
        (lambda: ComposeCopy(size=4), "as many vectors as elements, but variables=5 and size=4"),
        (lambda: VariableBinding(rule="repeet"), 'A rule is "repeat", "compose", T1.* but is .repeet.'),
        (lambda: VariableBinding(2, 2, rule="1 5"), r"2 signed places, each from 1 to 4 .* are \[1, 5\]"),
        (lambda: VariableBinding(5, 5, rule="T2"), "T2 has 8 vectors of 8 elements, but variables=5 and size=5"),
        (lambda: RepeatCopy(curriculum="10 often"), 'such as "10 20 40", but is .10 often.'),
        (lambda: RepeatCopy(curriculum="20 10"), r"rise, from 1 on and below horizon = 100, but are \[20, 10\]"),
        (lambda: RepeatCopy(curriculum="10 10"), r"but are \[10, 10\]"),
        (lambda: RepeatCopy(curriculum="0 10"), r"but are \[0, 10\]"),
        (lambda: RepeatCopy(curriculum="10 100"), r"below horizon = 100, but are \[10, 100\]"),
        (lambda: SequentialMNIST(group=5), "must divide the 784 pixels .* is 5. Choose among 1, 2, 4, 7, 8"),
        (lambda: SequentialMNIST(group=0), "must divide the 784 pixels .* is 0"),
        (lambda: PermutedMNIST(permutation_seed=-1), "permutation_seed .* is -1"),
        (lambda: PennTreebank(length=0), "length is 0"),
        (lambda: SequentialMNIST().batch(51, 0, 0), "50 images to train with, but a batch of 51"),
        (lambda: PennTreebank().batch(300, 0, 0, "validation"), "text of 300 symbols cannot be cut into 300 streams"),
        (lambda: PennTreebank().batch(0, 0, 0), "size=0"),
        (lambda: Adding().batch(0, 0, 0), "size=0"),
        (lambda: Adding().batch(1, 0, -1), "number=-1"),
    ],
)
def test_bad_options_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_an_unknown_split_is_refused():
    with pytest.raises((ValueError, TypeError), match="holdout"):  # TypeError where the annotations are checked
        Adding().batch(1, 0, 0, split="holdout")


def test_windows_cut_a_batch_along_time():
    batch = Adding(length=10).batch(3, seed=0, number=0)
    windows = list(batch.windows(4))
    assert [len(window.inputs) for window in windows] == [4, 4, 2]
    for part, whole in zip(map(torch.cat, zip(*windows, strict=True)), batch, strict=True):
        assert torch.equal(part, whole)
    assert len(list(batch.windows(None))) == 1


@pytest.mark.parametrize("apart", [False, True])
def test_key_value_recall_asks_for_the_value_shown_with_or_after_the_key(apart):
    task = KeyValueRecall(keys=6, values=5, fewest=2, most=5, queries=3, apart=apart)
    batch = task.batch(20, seed=0, number=0)
    sources = task.sources(batch)
    assert torch.equal(sources >= 0, batch.mask)
    lengths = set()
    for b in range(20):
        value_of, due = {}, []
        for t, step in enumerate(batch.inputs[:, b]):
            key, value = step[:6].nonzero().flatten().tolist(), step[6:].nonzero().flatten().tolist()
            if batch.mask[t, b]:
                assert value == []
                assert batch.targets[t, b] == value_of[key[0]]
                shown = int(sources[t, b])
                assert batch.inputs[shown, b, 6 + value_of[key[0]]] == 1
                assert batch.inputs[shown - int(apart), b, key[0]] == 1
                due.append(t)
            elif value:
                held = key or batch.inputs[t - 1, b, :6].nonzero().flatten().tolist()
                assert held[0] not in value_of
                value_of[held[0]] = value[0]
        assert due == [*range(due[0], due[0] + 3)]
        lengths.add(len(value_of))
        assert due[0] == len(value_of) * (1 + apart)
    assert lengths == {2, 3, 4, 5}


def test_key_value_recall_sets_the_number_of_pairs():
    task = KeyValueRecall(keys=70)
    assert (task.longest_span, task.at(64).fewest, task.at(64).most) == (32, 64, 64)
    with pytest.raises(ValueError, match="71 pairs need as many keys, not 70"):
        task.at(71)


def test_lists_of_pairs_end_with_their_last_query():
    task = KeyValueRecall()
    batch = task.batch(6, seed=0, number=0)
    expected = [1 + max(step for step in range(len(batch.mask)) if batch.inputs[step, n].any()) for n in range(6)]
    assert task.lengths_of(batch).tolist() == expected
    assert len({*expected}) > 1
    assert task.lengths_of(task.at(5).batch(3, seed=0, number=0)) is None
