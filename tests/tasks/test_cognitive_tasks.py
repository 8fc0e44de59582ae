"""Trial-based tasks: the table belongs to the batch, epochs, conditions, designs, accuracy and errors."""

from dataclasses import replace
from math import nan, pi

import pytest
import torch
from tools.docs_figures import FIGURES, TASK_NAMES, draw_task

from mnemoscope.tasks import (
    AngleMemory,
    ContextDecision,
    DelayedMatch,
    ParametricMemory,
    PerceptualDecision,
    ReadySetGo,
    TrialTask,
)
from tests.slow import after

TASKS = [PerceptualDecision(), ContextDecision(), ParametricMemory(), DelayedMatch(), AngleMemory(), ReadySetGo()]
ids = [type(task).__name__ for task in TASKS]


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_trials_are_the_batch_with_a_table(task):
    trials = task.trials(9, seed=1, number=2, split="test")
    batch = task.batch(9, seed=1, number=2, split="test")
    assert all(torch.equal(a, b) for a, b in zip(trials.batch, batch, strict=True))
    assert len(trials.table) == 9
    assert trials.table.step == task.step
    assert int(trials.lengths.max()) == len(batch.mask)
    starts, stops = (torch.stack([getattr(each, edge) for each in trials.table.epochs]) for edge in ("starts", "stops"))
    assert torch.equal(stops[:-1], starts[1:])
    padding = torch.arange(len(batch.mask))[:, None] >= trials.lengths
    assert not batch.mask[padding].any()
    assert not batch.inputs[padding].any()
    assert not batch.targets[padding].any()
    lengths = task.lengths_of(batch)
    assert torch.equal(torch.full((9,), len(batch.mask)) if lengths is None else lengths, trials.lengths)


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_the_grid_has_every_combination_once_without_noise_and_with_fixed_epochs(task):
    grid = task.grid()
    number = 1
    for values in task.levels().values():
        number *= len(values)
    rows = torch.stack([grid.table[name].values for name in task.levels()], 1)
    assert len(rows) == len(rows.unique(dim=0)) == number
    noiseless = replace(task, noise=0.0) if not isinstance(task, ReadySetGo) else task
    assert torch.equal(grid.batch.inputs, noiseless.grid().batch.inputs)
    lengths = grid.table.epochs[0].lengths
    assert (lengths == lengths[0]).all()
    if isinstance(task, TrialTask):
        assert task.scores(grid.batch.targets, grid.batch)["accuracy"] == 1


def test_inputs_are_the_conditions_plus_noise_of_the_given_size():
    task = PerceptualDecision(shortest_stimulus=1000)
    trials = task.trials(2000, 0, 0)
    shown = trials.table.epoch("stimulus").steps(len(trials.batch.mask))
    noise = (trials.batch.inputs[..., 1] - trials.table["coherence"].values)[shown]
    assert noise.std().item() == pytest.approx(0.05 * 10**0.5, rel=0.02)  # 100,000 draws: deviation 0.2%
    assert noise.mean().item() == pytest.approx(0, abs=0.003)
    fixation = trials.batch.inputs[..., 0]
    assert torch.equal(fixation == 1, torch.arange(len(fixation))[:, None] < trials.table.epoch("response").starts)
    coarse = replace(task, step=40.0)
    assert coarse.noise_deviation[1] == pytest.approx(0.05 * 5**0.5)


def test_durations_are_uniform_between_the_shortest_and_the_longest():
    lengths = PerceptualDecision().trials(4000, 0, 0).table.epoch("delay").lengths
    assert lengths.unique().tolist() == list(range(10, 31))
    assert lengths.float().mean().item() == pytest.approx(20, abs=0.4)  # deviation 6 / sqrt(4000) = 0.1


def test_the_context_names_the_evidence_that_decides():
    table = ContextDecision().grid().table
    motion, colour, context, choice = (table[name].values for name in ("motion", "colour", "context", "choice"))
    for row in range(72):
        relevant = motion[row] if context[row] == 0 else colour[row]
        assert choice[row] == (relevant > 0)
    undecided = ContextDecision().grid(motion=[0.0], colour=[0.1], context=[0])
    assert undecided.table["choice"].values.isnan().all()
    assert not undecided.batch.targets.any()


def test_frequencies_differ_by_the_difference_and_fill_the_range_of_the_inputs():
    grid = ParametricMemory(noise=0.0).grid()
    first, second = grid.table["first"].values, grid.table["second"].values
    assert ((second - first).abs() == 8).all()
    assert torch.equal(second > first, grid.table["choice"].values == 1)
    middle = {name: grid.table.epoch(name).starts[0] for name in ("first", "second")}
    rising, falling = grid.batch.inputs[middle["second"], :, 1:].T
    assert torch.allclose(rising, ((second - 2) / 40).float())
    assert torch.allclose(rising + falling, torch.ones(14))
    chances = [grid.table["choice"].values[second == frequency].mean() for frequency in second]
    assert sum(max(chance, 1 - chance) for chance in chances) / 14 == pytest.approx(0.79, abs=0.005)  # as documented


def test_half_of_the_samples_match():
    table = DelayedMatch(objects=3).trials(4000, 0, 0).table
    assert table["choice"].values.mean().item() == pytest.approx(0.5, abs=0.03)  # deviation 0.008
    assert torch.equal(table["choice"].values == 1, table["sample"].values == table["test"].values)


def test_an_angle_is_right_within_its_tolerance_if_the_vector_is_long_enough():
    task = AngleMemory()
    batch = task.batch(50, seed=0, number=0)

    def turned(degrees: float, length: float = 1.0) -> torch.Tensor:
        c, s = torch.tensor(degrees * pi / 180).cos(), torch.tensor(degrees * pi / 180).sin()
        return length * batch.targets @ torch.tensor([[c, s], [-s, c]])

    assert task.scores(turned(35), batch) == {"accuracy": 1.0, "degrees": pytest.approx(35, abs=1e-3)}
    assert task.scores(turned(-37), batch)["accuracy"] == 0
    assert task.scores(turned(0, 0.4), batch)["accuracy"] == 0


def test_a_produced_interval_is_right_within_a_tenth():
    task = ReadySetGo()
    trials = task.trials(20, seed=0, number=0)
    for factor, accuracy in ((1.08, 1), (0.93, 1), (1.12, 0), (0.85, 0)):
        scores = task.scores(trials.batch.targets / factor, trials.batch)
        assert scores == {"accuracy": accuracy, "interval error": pytest.approx(abs(factor - 1), abs=1e-4)}
    assert task.scores(torch.zeros_like(trials.batch.targets), trials.batch) == {"accuracy": 0, "interval error": 1}
    due = trials.table["due"].values / task.step
    reached = (trials.batch.targets[..., 0] >= 1 - 1e-6).long().argmax(0) - trials.table.epoch("production").starts
    assert torch.equal(reached, due.ceil().long())


def test_spans_set_the_delay_or_the_interval_in_steps():
    assert PerceptualDecision().longest_span == 30
    assert set(DelayedMatch().at(7).trials(5, 0, 0).table.epoch("delay").lengths.tolist()) == {7}
    assert set(ReadySetGo().at(20).trials(5, 0, 0).table.epoch("measurement").lengths.tolist()) == {20}
    assert ReadySetGo().longest_span == 50
    with pytest.raises(ValueError, match="0 or more steps, but is -1"):
        AngleMemory().at(-1)


def test_memory_is_tested_in_the_response():
    task = AngleMemory()
    trials = task.trials(6, 0, 0)
    response = trials.table.epoch("response")
    expected = (torch.arange(len(trials.batch.mask))[:, None] >= response.starts + 5) & response.steps(130)
    assert torch.equal(task.recalled(trials.batch), expected)


def test_a_choice_from_the_onset_on_counts_at_every_step():
    task = ContextDecision(from_onset=True, noise=0.1)
    grid = task.grid()
    onset = grid.table.epoch("stimulus").starts[0]
    assert grid.batch.mask.all()
    assert not grid.batch.targets[:onset].any()
    assert torch.equal(grid.batch.targets[onset, :, 0], (2 * grid.table["choice"].values - 1).float())
    # the slow reference: the best guess from one step of the relevant input is a mean over steps with a like input
    trials = task.trials(4000, 0, 0)
    shown = trials.table.epoch("stimulus").steps(len(trials.batch.mask))
    relevant = torch.where(trials.table["context"].values == 0, *trials.batch.inputs[:, :, :2].unbind(2))[shown]
    sign = trials.batch.targets[:, :, 0][shown]
    bins = (relevant * 10).round().long()
    number = torch.bincount(bins - bins.min())
    guess = torch.bincount(bins - bins.min(), sign.double()) / number.clamp(min=1)
    outputs = trials.batch.targets.clone()
    outputs[shown] = guess[bins - bins.min()].float()[:, None]
    outputs[int(trials.table.epoch("stimulus").stops[0]) :] = 0
    assert task.loss(outputs, trials.batch).item() == pytest.approx(task.baseline(), rel=0.01)
    known = replace(task, noise=0.0)
    assert known.baseline() == pytest.approx(25 / 73)  # delay and response of 10 + 15 steps, after 10 + 38


def test_a_single_value_of_a_condition_is_one_level():
    task = PerceptualDecision()
    assert torch.equal(task.grid(coherence=0.1).batch.inputs, task.grid(coherence=[0.1]).batch.inputs)
    with pytest.raises(ValueError, match="'coherence' has no values"):
        task.grid(coherence=[])


def test_a_noisy_grid_repeats_every_combination_with_different_noise():
    task = PerceptualDecision(coherences="0.1")
    grid, noisy = task.grid(), task.noisy_grid(3, seed=1)
    assert noisy.table["coherence"].values.tolist() == 3 * grid.table["coherence"].values.tolist()
    noise = noisy.batch.inputs - grid.batch.inputs.repeat(1, 3, 1)
    assert not noise[:, :, 0].any()  # the fixation cue
    assert not torch.equal(noise[:, 0], noise[:, 2])
    assert noise[..., 1].std() == pytest.approx(0.05 * 10**0.5, rel=0.15)
    assert torch.equal(noisy.batch.inputs, task.noisy_grid(3, seed=1).batch.inputs)


def test_a_figure_shows_some_trials_of_the_grid():
    figure = DelayedMatch(step=50.0).figure(most=2)
    assert len(figure.axes) == 4
    assert figure.axes[0].get_title(loc="left") == "sample: 0\ntest: 0\nchoice: match"
    many = DelayedMatch(step=50.0, objects=8)
    assert len(many.figure(most=1).axes[0].images) == 1


@pytest.mark.parametrize("name", after(1, TASK_NAMES))
def test_the_figures_of_the_docs_show_the_tasks_as_they_are(name):
    assert draw_task(name) == (FIGURES / f"{name}.svg").read_text(), "Run python -m tools.docs_figures."


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"step": 0.0}, "step must be positive, but is 0"),
        ({"noise": -1.0}, "noise is a standard deviation, 0 or more and finite, but is -1"),
        ({"noise": nan}, "noise is a standard deviation, 0 or more and finite, but is nan"),
        ({"shortest_delay": 700.0}, "delay lasts .* at most the longest, but is from 700 to 600 ms"),
        ({"response": 100.0}, "The response must last longer than 100 ms"),
        ({"fixation": 1.0}, "The fixation must last at least one step of 20 ms"),
        ({"coherences": "a"}, "coherences must be a list of numbers"),
        ({"coherences": "0.2 0.1"}, "coherences must be positive numbers that rise, but are '0.2 0.1'"),
    ],
)
def test_wrong_options_are_refused(options, why):
    with pytest.raises(ValueError, match=why):
        PerceptualDecision(**options)


def test_wrong_options_of_single_tasks_are_refused():
    with pytest.raises(ValueError, match="delay must be the same in all trials, but is from 0 to 200 ms"):
        ContextDecision(shortest_delay=0.0)
    with pytest.raises(ValueError, match="difference is at most 10 Hz, but is 11 Hz"):
        ParametricMemory(difference=11.0)
    with pytest.raises(ValueError, match="A pulse lasts a step or more"):
        ReadySetGo(pulse=10.0)
    with pytest.raises(ValueError, match=r"test must be whole numbers from 0 to 3, but has \[4.0\]"):
        DelayedMatch().grid(test=[4])
    with pytest.raises(ValueError, match="There is no condition 'coherense': choose from coherence"):
        PerceptualDecision().grid(coherense=[0.1])
