"""Every registered task: shapes, mask, determinism, disjoint streams, and the baseline, measured."""

from itertools import islice

import pytest
import torch
from torch.nn.functional import one_hot

from mnemoscope import registry
from mnemoscope.tasks import Adding, Batch, Copy, FlipFlop, Task

SMALL = {
    "flipflop": [FlipFlop(bits=2, length=7, rate=0.25), FlipFlop(bits=1, length=1), FlipFlop(length=5, rate=1.0)],
    "copy": [Copy(delay=3, symbols=2, alphabet=3), Copy(delay=1, symbols=1, alphabet=2)],
    "adding": [Adding(length=7), Adding(length=8), Adding(length=2)],
}
TASKS = [pytest.param(task, id=str(task)) for tasks in SMALL.values() for task in tasks]


def test_every_registered_task_is_tested_here():
    assert list(SMALL) == [entry.name for entry in registry.tasks]
    for entry in registry.tasks:
        assert all(type(task) is entry.load() for task in SMALL[entry.name])
        assert issubclass(entry.load(), Task)


def perfect(task: Task, batch: Batch) -> torch.Tensor:
    if batch.targets.is_floating_point():
        return batch.targets
    return 100.0 * one_hot(batch.targets, task.output_size)


@pytest.mark.parametrize("task", TASKS)
def test_shapes_types_and_mask(task):
    inputs, targets, mask = task.batch(5, seed=0, number=0)
    time = inputs.shape[0]
    assert inputs.shape == (time, 5, task.input_size)
    assert inputs.dtype == torch.float32
    assert mask.shape == (time, 5)
    assert mask.dtype == torch.bool
    assert mask.any(0).all()  # every sequence counts
    if targets.is_floating_point():
        assert targets.shape == (time, 5, task.output_size)
    else:
        assert targets.shape == (time, 5)
        assert 0 <= targets.min() <= targets.max() < task.output_size


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_is_a_function_of_its_arguments_alone(task):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = task.batch(64, seed=3, number=5)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    again = next(islice(task.stream(64, seed=3), 5, None))
    later = next(task.stream(64, seed=3, start=5))
    for same in (again, later):
        assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_numbers_seeds_and_splits_differ(task):
    batches = [task.batch(64, 0, 0), task.batch(64, 0, 1), task.batch(64, 1, 0), task.batch(64, 0, 0, split="test")]
    if task == FlipFlop(bits=1, length=1):
        return  # 64 random signs are the same by chance only once in 2^64, but there is nothing else to tell
    for a in range(4):
        for b in range(a):
            assert not torch.equal(batches[a].inputs, batches[b].inputs)


def test_training_and_test_streams_never_share_a_generator():
    """The CPU generator reads 32 bits of its seed, where a hash could collide; the last bit tells the splits apart."""
    generator = torch.Generator()
    alike = [torch.rand(3, generator=generator.manual_seed(seed)) for seed in (5, 5 + 2**32)]
    assert torch.equal(*alike)  # if this changes, more bits can be used
    from mnemoscope.tasks.task import _generator_seed

    train, test = (
        {_generator_seed(seed, number, split) for seed in range(20) for number in range(1000)}
        for split in ("train", "test")
    )
    assert not train & test
    assert max(train | test) < 2**32
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
                values = batch.targets.is_floating_point()
                total += ((y - target) ** 2).mean().item() if values else -y.log_softmax(0)[target].item()
                number += 1
    assert task.loss(outputs, batch).item() == pytest.approx(total / number, rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_loss_is_zero_not_nan_where_no_step_counts(task):
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
        due = torch.arange(task.length) >= task.length - task.symbols
        blank = torch.full((task.output_size,), -100.0)
        blank[-1] = 0
        symbol = torch.zeros(task.output_size)
        symbol[-1] = -100
        return torch.where(due[:, None, None], symbol, blank).expand(-1, batch.mask.shape[1], -1)
    if isinstance(task, Adding):
        value, marker = batch.inputs.unbind(-1)
        return torch.where(marker > 0, value + 0.5, 1.0)[..., None]
    raise NotImplementedError(f"Write the memoryless predictor of {type(task).__name__} here.")


@pytest.mark.parametrize("task", TASKS)
def test_baseline_is_what_its_predictor_loses(task):
    size = 100_000
    batch = task.batch(size, seed=0, number=0, split="test")
    errors = torch.where(batch.mask, task.errors(memoryless(task, batch), batch), 0).double().sum(0)
    per_sequence = errors / batch.mask.sum(0)
    deviation = per_sequence.std().item() / size**0.5
    assert per_sequence.mean().item() == pytest.approx(task.baseline(), abs=4 * deviation + 1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_no_memoryless_predictor_does_better(task):
    """The best output for each time and current input (in bins of 1/20), tabulated on one batch, tried on another."""
    size = 50_000
    fill, trial = (task.batch(size, seed=0, number=number) for number in (1, 2))
    values = fill.targets.is_floating_point()
    digit = 41 ** torch.arange(task.input_size)  # a bin is -20 .. 20 in every channel
    loss = 0.0
    for t in fill.mask.any(1).nonzero().flatten().tolist():
        target, wanted = (b.targets[t] if values else one_hot(b.targets[t], task.output_size) for b in (fill, trial))
        bins = torch.cat([(20 * batch.inputs[t]).round().long() @ digit for batch in (fill, trial)])
        place, trial_place = bins.unique(return_inverse=True)[1].split(size)
        table = torch.zeros(int(place.max()) + 1, task.output_size).index_add_(0, place, target.float())
        guess = (table / place.bincount()[:, None])[trial_place]
        error = (guess - wanted).square().mean(-1) if values else -(wanted * (guess + 1e-9).log()).sum(-1)
        loss += (error * trial.mask[t]).double().sum().item()
    loss /= trial.mask.sum().item()
    # Sampling: 50,000 sequences with errors of order 1 deviate by 0.0045 at most. Binning costs (1/20)^2 / 12 = 2e-4.
    assert loss == pytest.approx(task.baseline(), abs=0.01)


# What each task promises beyond that.


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


def test_copy_layout_is_the_literature_s():
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
    assert markers.any(1).all()  # every place is marked at some time
    assert torch.equal(batch.targets[-1, :, 0], (values * markers).sum(0))
    assert torch.equal(batch.mask.nonzero()[:, 0].unique(), torch.tensor([length - 1]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FlipFlop(bits=0), "bits is 0"),
        (lambda: FlipFlop(length=0), "length is 0"),
        (lambda: FlipFlop(rate=0.0), "rate .* is 0"),
        (lambda: FlipFlop(rate=1.5), "rate .* is 1.5"),
        (lambda: FlipFlop(rate=float("nan")), "rate .* is nan"),
        (lambda: Copy(delay=0), "delay is 0"),
        (lambda: Copy(symbols=0), "symbols is 0"),
        (lambda: Copy(alphabet=1), "alphabet is 1"),
        (lambda: Adding(length=1), "length is 1"),
        (lambda: Adding().batch(0, 0, 0), "size=0"),
        (lambda: Adding().batch(1, 0, -1), "number=-1"),
    ],
)
def test_bad_options_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_an_unknown_split_is_refused():
    with pytest.raises((ValueError, TypeError), match="validation"):  # TypeError where the annotations are checked
        Adding().batch(1, 0, 0, split="validation")


def test_windows_cut_along_time_and_lose_nothing():
    batch = Adding(length=10).batch(3, seed=0, number=0)
    windows = list(batch.windows(4))
    assert [len(window.inputs) for window in windows] == [4, 4, 2]
    for part, whole in zip(map(torch.cat, zip(*windows, strict=True)), batch, strict=True):
        assert torch.equal(part, whole)
    assert len(list(batch.windows(None))) == 1
