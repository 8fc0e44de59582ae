"""Studies of machines with a tape: published networks are built, tested at single lengths and reported."""

from dataclasses import asdict, replace
from math import inf

import pytest
import torch

from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig
from mnemoscope.lenses import Tape
from mnemoscope.replication import Finished
from mnemoscope.replication.claims import as_subject
from mnemoscope.replication.learning_study import first_step
from mnemoscope.replication.study import Trial
from mnemoscope.studies.renanse2021 import controller_comparison, length_generalisation, tape_use
from mnemoscope.studies.renanse2021.matrix_copy import STUDY as COPY
from mnemoscope.studies.renanse2021.matrix_recall import STUDY as RECALL
from mnemoscope.studies.renanse2021.ntm_copy import STUDY as NTM
from mnemoscope.studies.renanse2021.tape import RISES, SEQUENCES, TO_SOLVE, draw_curves, task_of
from mnemoscope.training import build_model, build_task, load_model, train
from tests.slow import representatives

TAPE_STUDIES = ("matrix-copy", "matrix-recall", "ntm-copy", "length-generalisation", "controller-comparison")


def count(trial):
    config = RunConfig(**trial.settings)
    return sum(parameter.numel() for parameter in build_model(config, build_task(config)).parameters())


@pytest.mark.parametrize(
    ("study", "preset", "expected"),
    [
        (COPY, "cpu", {"matntm": 4121, "matrix-rnn": 2175, "matrix-rnn, logistic output": 2175}),
        (COPY, "published", {"matntm": 4121, "matrix-rnn": 2175, "matrix-rnn, logistic output": 2175}),
        (COPY, "stability", dict.fromkeys(("matntm, rate 0.0001", "matntm, rate 0.001"), 4121)),
        (RECALL, "cpu", {"matntm": 7946, "matrix-rnn": 5675}),
        (NTM, "cpu", {"ntm": 62_660}),
        (
            controller_comparison.STUDY,
            "cpu",
            {"matrix rnn, 3 layers": 4121, "matrix rnn, 4 layers": 5126, "matrix lstm": 5126, "lstm": 62_660},
        ),
    ],
)
def test_models_have_the_published_number_of_parameters(study, preset, expected):
    trials = {trial.name: trial for trial in study.trials(study.presets[preset].settings, (0,))}
    assert {name: count(trials[name]) for name in expected} == expected


def test_stability_runs_at_the_published_rate_and_at_ten_times_that_rate():
    trials = COPY.trials(COPY.presets["stability"].settings, COPY.presets["stability"].seeds)
    assert {trial.seed for trial in trials} == set(range(5))
    for trial in trials:
        config = RunConfig(**trial.settings)
        assert config.learning_rate in (1e-4, 1e-3)
        assert (config.optimiser, config.momentum, config.batch_size, config.steps) == ("rmsprop", 0.9, 16, 20_000)
        assert config.target_loss is config.target_score is None  # it must not stop early


@representatives("matrix-copy", "controller-comparison")
@pytest.mark.parametrize("name", TAPE_STUDIES)
def test_every_preset_can_be_built(name):
    study = registry.studies.load(name)
    for preset in study.presets.values():
        for trial in study.trials(preset.settings, (0,)):
            config = RunConfig(**trial.settings)
            model = build_model(config, task := build_task(config))
            inputs = task.batch(1, 0, 0).inputs[:2]
            assert model(inputs)[0].shape == (2, 1, task.output_size)


def learned(study, preset, name, seed=0, wrong=0.0, tested=None, steps=300, **more):
    """Return a finished trial whose learning curve falls to `wrong`."""
    trial = next(trial for trial in study.trials(study.presets[preset].settings, (seed,)) if trial.name == name)
    curve = {"step": [100.0, 200.0, 300.0], "wrong bits": [10.0, 0.9, wrong]}
    lengths = study.tests(task_of(trial))
    result = {
        "parameters": count(trial),
        "steps": steps,
        "seconds": 60.0,
        "loss": 0.1,
        "wrong bits": wrong,
        "curve": curve,
        "tested": [[at, (tested or {}).get(at, 0.0)] for at in lengths],
        "of parts": [[parts, 1.0] for parts in (1, 2, 3, 4)],
        "tape use": {tape_use.READ_WHERE_WRITTEN: 1.0, tape_use.NEIGHBOURS: 0.95, "delay": 1},
        **more,
    }
    return Finished(trial, result)


def failed(study, preset, name, seed):
    run = learned(study, preset, name, seed)
    return Finished(
        run.trial, {"parameters": 4121, "failed": "The training loss is nan", "curve": {"step": [], "wrong bits": []}}
    )


def rows_of(study, results):
    return {row.quantity: row for row in study.summarise(results)}


def test_remarks_give_the_wrong_bits_of_uninformed_answers():
    rows = rows_of(COPY, [learned(COPY, "cpu", "matntm")])
    assert "knowing nothing: all zeros 10, all ones 15" in rows["matntm: wrong bits"].remark
    rows = rows_of(NTM, [learned(NTM, "cpu", "ntm")])
    assert "knowing nothing: all zeros 4, all ones 4" in rows["ntm: wrong bits"].remark


def test_a_solved_task_is_compared_and_an_unsolved_one_only_after_as_many_iterations():
    rows = rows_of(COPY, [learned(COPY, "cpu", "matntm", seed) for seed in range(3)])
    assert rows["matntm: wrong bits"].verdict == "matches"
    assert rows["matntm: wrong bits"].remark.endswith(
        "other recipe: learning_rate 0.0005, curriculum 2 4 7 12, mixed True"
    )
    assert rows["matntm: parameters"].verdict == "matches"
    assert rows["matntm: seeds that did not stay finite"].ours == "0 of 3"
    assert rows["matntm: iterations to the first evaluation with at most 1 wrong bit"].ours == "200, 200, 200"
    assert rows["matntm: iterations to the first evaluation with no wrong bit"].ours == "300, 300, 300"
    assert rows["matntm: seeds without a wrong bit at lengths 1 to 20"].ours == "3 of 3"
    for steps, verdict in ((10_000, "not compared"), (53_000, "worse")):
        runs = [learned(COPY, "cpu", "matntm", seed, wrong=3.0, steps=steps) for seed in range(3)]
        row = rows_of(COPY, runs)["matntm: wrong bits"]
        assert row.verdict == verdict
        assert ("53,000 were published" in row.remark) == (verdict == "not compared")


def test_iterations_of_other_batches_are_compared_in_training_sequences():
    row = rows_of(NTM, [learned(NTM, "cpu", "ntm"), learned(NTM, "cpu", "ntm", 1, wrong=1.0)])[f"ntm: {TO_SOLVE}"]
    assert (row.measured, row.ours) == ((16 * 300, inf), "4,800, never")
    study = registry.studies.load("controller-comparison")
    runs = [learned(study, "cpu", name, seed) for name in ("lstm", "feed-forward") for seed in (0, 1)]
    assert rows_of(study, runs)[controller_comparison.FASTER.name].ours == "4,800 against 4,800"
    assert controller_comparison.FASTER.name not in rows_of(study, [*runs, learned(study, "cpu", "lstm", 2, wrong=1.0)])


def test_a_network_without_a_tape_is_compared_after_as_many_iterations_and_a_logistic_output_never():
    cases = ((1000, 15.02, "not compared"), (1000, 9.8, "better"), (53_000, 15.02, "matches"), (53_000, 9.8, "better"))
    for steps, wrong, verdict in cases:
        runs = [learned(COPY, "cpu", "matrix-rnn", seed, wrong=wrong, steps=steps) for seed in range(3)]
        assert rows_of(COPY, runs)["matrix-rnn: wrong bits"].verdict == verdict
    name = "matrix-rnn, logistic output"  # it has 15 wrong bits, whatever it learns
    row = rows_of(COPY, [learned(COPY, "cpu", name, wrong=15.02, steps=53_000)])[f"{name}: wrong bits"]
    assert row.verdict == "not compared"


def test_another_size_is_not_compared():
    assert rows_of(COPY, [learned(COPY, "smoke", "matntm")])["matntm: parameters"].verdict == "not compared"


def test_a_wrong_bit_counts_within_the_lengths_of_training_and_not_beyond():
    results = [learned(COPY, "cpu", "matntm", 0, tested={7: 0.1}), learned(COPY, "cpu", "matntm", 1, tested={40: 2.0})]
    rows = rows_of(COPY, results)
    assert rows["matntm: seeds without a wrong bit at lengths 1 to 20"].ours == "1 of 2"
    assert rows["matntm: wrong bits at length 40"].ours == "0, 2"
    assert rows["matntm: wrong bits at length 20"].ours == "0, 0"


def test_the_longest_length_without_error_ends_at_the_first_error():
    study = length_generalisation.STUDY
    errors = [{48: 0.2}, {30: 0.1, 80: 0.0}, {1: 0.5}, {}]
    results = [learned(study, "cpu", "matntm", seed, tested=tested) for seed, tested in enumerate(errors)]
    row = rows_of(study, results)[f"matntm: {length_generalisation.LONGEST}"]
    assert row.ours == "40, 20, 0, 120"
    assert str(row.judgement) == "differs"  # three are shorter than published, one is longer


def test_seeds_that_do_not_stay_finite_are_counted_and_the_others_are_reported_and_drawn():
    name = "matntm, rate 0.001"
    results = [failed(COPY, "stability", name, 0), learned(COPY, "stability", name, 1, wrong=2.0)]
    rows = rows_of(COPY, results)
    assert rows[f"{name}: seeds that did not stay finite"].ours == "1 of 2"
    assert rows[f"{name}: seeds that did not stay finite"].diverged == 0
    assert rows[f"{name}: wrong bits"].ours == "2"
    assert rows[f"{name}: iterations to the first evaluation with at most 1 wrong bit"].ours == "never, 200"
    assert len(COPY.figure(results).axes) == 2
    lost = rows_of(COPY, results[:1])
    assert lost[f"{name}: seeds that did not stay finite"].ours == "1 of 1"
    assert lost[f"{name}: wrong bits"].ours == "none"
    assert [text.get_text() for text in COPY.figure(results[:1]).legends[0].get_texts()] == [name]


def test_controllers_are_compared_over_the_whole_training():
    study = controller_comparison.STUDY
    end = study.presets["cpu"].settings["changes"]["steps"]
    runs = {
        name: [learned(study, "cpu", name, seed, wrong=wrong) for seed, wrong in enumerate((low, low + 0.1))]
        for name, low in (("matrix rnn, 4 layers", 1.0), ("matrix lstm", 0.0))
    }
    row = rows_of(study, [run for side in runs.values() for run in side])[controller_comparison.BETTER.name]
    first, second = ((100 * (10 + 0.9) + (end - 200) * wrong) / end for wrong in (1.05, 0.05))
    assert row.ours == f"matrix rnn, 4 layers {first:.3g}, matrix lstm {second:.3g}"
    assert (row.verdict, row.judgement.obstacle) == ("not compared", "other conditions than published")
    assert controller_comparison.BETTER.name not in rows_of(study, runs["matrix lstm"])


def test_the_rise_of_errors_with_the_length_is_tested_over_all_machines():
    study, both = length_generalisation.STUDY, ("matntm", "matntm, all at once")
    for rises, verdict in (((3.0, 3.1), "matches"), ((-1.0, 5.0), "not compared"), ((-3.0, -3.1), "differs")):
        tested = [{20: 5.0, 120: 5.0 + rise} for rise in rises]
        results = [learned(study, "cpu", name, seed, tested=each) for name in both for seed, each in enumerate(tested)]
        assert rows_of(study, results)[length_generalisation.RISE.name].verdict == verdict


def test_curves_that_fluctuate_are_compared_over_trainings_as_long_as_published():
    def runs(preset, curves, suffix=""):
        return [
            learned(COPY, preset, f"{name}{suffix}", seed, curve={"step": [1.0, 2.0, 3.0][: len(c)], "wrong bits": c})
            for name, several in curves.items()
            for seed, c in enumerate(several)
        ]

    name = f"matntm against matrix-rnn: {RISES}"
    calm, wild = [[9.0, 8.0, 8.1], [9.0, 7.0, 7.1]], [[9.0, 3.0, 8.0], [8.0, 3.0, 8.1]]
    uneven = [[9.0, 3.0, 3.0], [8.0, 3.0, 8.1]]
    for first, second, verdict in ((wild, calm, "matches"), (calm, wild, "differs"), (uneven, calm, "not compared")):
        row = rows_of(COPY, runs("published", {"matntm": first, "matrix-rnn": second}))[name]
        assert row.verdict == verdict
    row = rows_of(COPY, runs("published", {"matntm": [[9.0]], "matrix-rnn": calm}))[name]
    assert (row.ours, row.judgement.obstacle) == ("none against 0.0707, 0.0707", "nothing was measured")
    row = rows_of(COPY, runs("stability", {"matntm": wild, "matrix-rnn": calm}, ", rate 0.0001"))[name]
    assert (row.ours[:4], row.judgement.obstacle) == ("3.54", "shorter training than published")
    assert name not in rows_of(COPY, runs("cpu", {"matntm": wild, "matrix-rnn": calm}))  # at another rate


def test_the_wrong_bits_after_fewer_iterations_are_those_of_the_curve():
    runs = [learned(COPY, "cpu", "matntm", seed, steps=53_000) for seed in range(3)]
    for run in runs:
        run.result["curve"].update({"step": [100.0, 17_900.0, 18_100.0], "wrong bits": [10.0, 3.25, 0.0]})
    row = rows_of(COPY, runs)["matntm: wrong bits after 18,000 iterations"]
    assert (row.ours, row.verdict) == ("3.25, 3.25, 3.25", "matches")


def test_the_figure_has_published_points_and_lines_of_uninformed_answers():
    results = [learned(COPY, "cpu", "matntm", seed, wrong=wrong) for seed, wrong in enumerate((0.0, 0.5))]
    learning, lengths = COPY.figure(results).axes
    points = [line for line in learning.lines if line.get_marker() == "o"]
    assert [(*line.get_xdata(),) for line in points] == [(18_000, 53_000)]
    assert [(*line.get_ydata(),) for line in points] == [(3.3, 0.0)]
    assert [text.get_text() for text in lengths.texts] == ["all zeros", "all ones"]
    mixed = controller_comparison.STUDY
    both = [learned(mixed, "cpu", name) for name in ("matrix lstm", "lstm")]
    labels = [text.get_text() for text in mixed.figure(both).axes[0].texts]
    assert labels == ["all zeros, of 25", "all ones, of 25", "all zeros or all ones, of 8"]


def test_a_curve_that_stopped_early_keeps_its_last_value():
    class Axes:
        def plot(self, x, y, **_):
            self.drawn = x, y

        def fill_between(self, x, low, high, **_):
            self.between = low, high

    axes = Axes()
    short, long = ({"step": [*range(1, n + 1)], "wrong bits": [n - 1.0 - k for k in range(n)]} for n in (2, 4))
    draw_curves(axes, [short, long, {"step": [], "wrong bits": []}], "both", "red")
    assert axes.drawn == ([1, 2, 3, 4], [2.0, 1.0, 0.5, 0.0])
    assert axes.between == ([1.0, 0.0, 0.0, 0.0], [3.0, 2.0, 1.0, 0.0])


def test_a_trained_network_is_tested_at_single_lengths(tmp_path):
    """The reference counts the wrong bits in a loop over the sequences of one length."""
    trial = COPY.trials(COPY.presets["smoke"].settings, (3,))[0]
    config = replace(RunConfig(**trial.settings), steps=2, evaluate_every=2)
    run = train(config, tmp_path, progress=False).folder
    tested = dict(COPY.measure(run)["tested"])
    assert [*tested] == [1, 2, 3, 4, 5, 6, 8, 12]
    model, task, _ = load_model(run)
    for length in (2, 8):
        inputs, targets, mask = task.at(length).batch(SEQUENCES, 3, 0, "validation")
        assert mask.sum() == length * SEQUENCES
        with torch.no_grad():
            outputs = model(inputs)[0]
        wrong = sum(int(((outputs[t, b] > 0) != targets[t, b]).sum()) for t, b in mask.nonzero().tolist())
        assert tested[length] == pytest.approx(wrong / (length * SEQUENCES), rel=1e-3)


def heads(places, slots=5):
    """Return weights of one head on one sequence that has most of its weight at these slots."""
    weights = torch.full((len(places), 1, 1, slots), 0.1)
    return weights.scatter(-1, torch.tensor(places).view(-1, 1, 1, 1), 0.6)


@pytest.mark.parametrize(
    ("write", "read", "share", "neighbours", "delay"),
    [
        ([1, 2, 3, 0, 0, 0, 0], [4, 4, 4, 4, 1, 2, 3], 1.0, 1.0, 0),  # writes and reads forward
        ([1, 0, 4, 3, 0, 0, 0], [2, 2, 2, 2, 0, 4, 3], 1.0, 1.0, 1),  # writes backward around the ring, a step late
        ([1, 2, 4, 0, 0, 0, 0], [3, 3, 3, 3, 1, 2, 3], 2 / 3, 0.5, 0),  # misses the third item
    ],
)
def test_the_use_of_a_tape_compares_the_slots_of_reading_with_those_of_writing(write, read, share, neighbours, delay):
    task = build_task(RunConfig("tape", task="bit-copy")).at(3)
    batch = task.batch(1, 0, 0)
    nothing = torch.zeros(7, 1, 5, 2)
    tape = Tape(batch.inputs, batch.inputs, nothing, nothing[:, :, :1], heads(write), heads(read))
    measured = tape_use.use_of_tape(tape, batch, task.random_bits)
    assert measured == {
        tape_use.READ_WHERE_WRITTEN: pytest.approx(share, abs=1e-4),
        tape_use.NEIGHBOURS: neighbours,
        "delay": delay,
    }


def test_a_tape_is_recorded_of_machines_and_reported_of_those_that_solve_the_task(tmp_path):
    trials = COPY.trials(COPY.presets["smoke"].settings, (0,))
    short = [Trial(each.name, {**each.settings, "steps": 1, "evaluate_every": 1}, 0, each.subject) for each in trials]
    machine, without = (COPY.run(trial, tmp_path / trial.name, False) for trial in short)
    assert 0 <= machine["tape use"][tape_use.READ_WHERE_WRITTEN] <= 1
    assert "tape use" not in without
    results = [learned(COPY, "cpu", "matntm", seed, wrong=wrong) for seed, wrong in enumerate((0.0, 2.0))]
    row = rows_of(COPY, results)[f"matntm: {tape_use.READ_WHERE_WRITTEN}"]
    assert (row.measured, row.remark.partition(";")[0]) == ((1.0,), "1 of 2 seeds, which solve the task")
    assert f"matntm: {tape_use.READ_WHERE_WRITTEN}" not in rows_of(COPY, results[1:])


def test_recall_is_tested_with_longer_lists_and_other_numbers_of_matrices(tmp_path):
    trial = RECALL.trials(RECALL.presets["smoke"].settings, (0,))[1]
    result = RECALL.run(Trial(trial.name, asdict(replace(RunConfig(**trial.settings), steps=1)), 0), tmp_path, False)
    assert [items for items, _ in result["tested"]] == [2, 12, 15, 20]
    assert [parts for parts, _ in result["of parts"]] == [1, 2, 3, 4]
    rows = rows_of(RECALL, [Finished(trial, result)])
    assert "matrix-rnn: wrong bits with 2 items of 3 matrices" in rows
    assert "matrix-rnn: seeds without a wrong bit at 2 to 2 items" in rows


def trials_of(study, preset):
    """Return the trials of one seed; none if the study has no such preset."""
    return study.trials(study.presets[preset].settings, (0,)) if preset in study.presets else []


def test_every_claim_has_a_row():
    """A claim with a misspelt quantity would never be compared."""
    for study in (COPY, RECALL, NTM):
        presets = {trial.name: preset for preset in ("cpu", "stability", "paper") for trial in trials_of(study, preset)}
        rows = rows_of(study, [learned(study, preset, name) for name, preset in presets.items()])
        assert {claim.name for claim in study.claims} <= set(rows)
    study = length_generalisation.STUDY
    rows = rows_of(
        study, [learned(study, "cpu", as_subject(key).name) for key in study.presets["cpu"].settings["networks"]]
    )
    assert {claim.name for claim in study.claims} <= set(rows)


def test_first_step_returns_the_first_step_within_bounds():
    curve = {"step": [1, 2, 3], "score": [5.0, 2.0, 3.0]}
    assert first_step(curve, "score", at_most=2.5) == 2
    assert first_step(curve, "score", at_least=2.5, at_most=4) == 3
    assert first_step(curve, "score", at_most=1) is None
