"""The table of eigenvalue errors: which weights are evaluated, and the better of two trainings."""

from dataclasses import replace

import pytest

from mnemoscope.base.tensor_files import read_tensors
from mnemoscope.replication import Finished
from mnemoscope.replication.verdicts import Obstacle, Verdict
from mnemoscope.studies.karuvally2023 import binding_table, epochs
from mnemoscope.studies.karuvally2023.binding_table import STUDY, THRESHOLDS
from mnemoscope.training import load_model

PAPER = STUDY.presets["paper"]


def test_the_grid_has_twenty_seeds_where_something_is_learned():
    trials = STUDY.trials(PAPER.settings, PAPER.seeds)
    assert len(trials) == 2 * (16 * 20 + 8 * 2) + 8 * 3
    on_cpu = [trial for trial in trials if trial.settings["device"] == "cpu"]
    assert {(trial.seed, trial.settings["weight_decay"], trial.settings["curriculum_score"]) for trial in on_cpu} == {
        (seed, 0.1, 0.98) for seed in (3, 4, 5)
    }
    assert all(STUDY.as_published(trial) for trial in trials)
    assert not any(map(STUDY.as_published, STUDY.trials(STUDY.presets["larger-inputs"].settings, (1,))))
    assert not any(map(STUDY.as_published, STUDY.trials(STUDY.presets["cpu"].settings, (1,))))


def test_the_weights_of_the_evaluated_epoch_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(epochs, "EPOCH", 2)
    monkeypatch.setattr(binding_table, "PUBLISHED", replace(binding_table.PUBLISHED, steps=14))
    monkeypatch.setattr(binding_table, "LEARNED", 0.0)  # look for variables in any network
    trial = STUDY.trials(PAPER.settings, (1,))[0]
    small = {"variables": 2, "size": 2, "rule": "repeat", "horizon": 4, "test_horizon": 4, "curriculum": "2"}
    quick = {
        "device": "cpu",
        "steps": 14,
        "batch_size": 8,
        "hidden_size": 6,
        "evaluate_every": 2,
        "task_options": small,
    }
    folder = tmp_path / "studies" / "binding-table" / "paper" / "trial"  # as runs of other studies may be copied
    result = STUDY.run(replace(trial, settings={**trial.settings, **quick}), folder, progress=False)
    assert "curve" not in result
    (run,) = folder.glob("*/*/result.json")
    accuracies = [read_tensors(run.parent / f"epoch_{epoch}.safetensors")[1]["accuracy"] for epoch in range(1, 8)]
    assert result["epoch"] == epochs.evaluated_epoch(accuracies)
    model, task, config = load_model(run.parent)
    assert epochs.load_epoch(model, run.parent, 14) == result["epoch"]
    assert result["evaluated"] == epochs.evaluated_accuracy(model, task, config, 10)
    assert (result["status"], result["rule_found"]) == ("none", False)


def finished(threshold: float, seed: int, evaluated: float, **result: float) -> Finished:
    trials = STUDY.trials(PAPER.settings, (seed,))
    trial = next(each for each in trials if each.name == f"T3, 64 units, L2 0, stages end at {threshold:g}")
    counts = {"eigenvalues_missing": 0, "eigenvalues_extra": 0, "angle_error": 0.1, "parameters": 5120}
    found = {"accuracy": 0.7, "status": "explained", "rule_found": True}
    return Finished(trial, {**counts, **found, "evaluated": evaluated, **result})


def test_each_seed_counts_with_the_better_of_its_trainings():
    low, high = THRESHOLDS
    results = [
        finished(low, 1, 0.6),
        finished(high, 1, 0.995, angle_error=0.003),
        finished(low, 2, 1.0, angle_error=0.002),
        finished(high, 2, 1.0, angle_error=0.001, eigenvalues_missing=2),  # left out, as in the table
    ]
    accuracy, angle = STUDY.summarise(results)
    assert accuracy.measured == (0.995, 1.0)
    assert angle.measured == (0.003, 0.002)
    assert "stages end at 0.98: last weights 0.7, evaluated epoch 0.998" in accuracy.remark
    assert "3 of 4 networks learned the task, 2 of them" in angle.remark
    assert STUDY.figure(results).axes


def test_a_guess_says_something_only_of_a_size_that_learns_another_task():
    def guessing(seed):
        trials = STUDY.trials(PAPER.settings, (seed,))
        trial = next(each for each in trials if each.name == "T2, 64 units, L2 0.1, stages end at 0.98")
        return replace(finished(0.98, seed, 0.499 + 0.0005 * seed), trial=trial)

    guesses = [guessing(seed) for seed in range(1, 6)]
    alone, learner = (STUDY.summarise([*guesses, *others])[0] for others in ((), [finished(0.9, 1, 1.0)]))
    assert alone.judgement.obstacle is Obstacle.CHANCE
    assert learner.verdict is Verdict.MATCHES  # T3 is learned by as many units


def test_means_that_seeds_may_explain_decide_nothing():
    def verdict(*accuracies):
        return STUDY.summarise([finished(0.9, seed, each) for seed, each in enumerate(accuracies, 1)])[0].judgement

    assert verdict(0.9, 1.0, 0.95).obstacle is Obstacle.UNDECIDED  # 1.00 was published
    assert verdict(0.9, 0.9, 0.91).verdict is Verdict.WORSE
    assert verdict(0.97, 1.0, 1.0).obstacle is Obstacle.UNDECIDED  # the mean agrees, but other seeds may not
    assert verdict(0.995, 1.0, 1.0).verdict is Verdict.MATCHES
    assert verdict(0.9).obstacle is Obstacle.TOO_FEW


def test_trainings_of_one_threshold_may_explain_the_table():
    runs = [finished(0.98, seed, 1.0, angle_error=0.0026 + 0.0001 * (seed - 2)) for seed in (1, 2, 3)]
    runs += [finished(0.9, seed, 1.0, angle_error=0.001 + 0.0001 * seed) for seed in (1, 2, 3)]
    judgement = STUDY.summarise(runs)[1].judgement
    assert judgement.verdict is Verdict.BETTER
    assert judgement.reason.startswith("the trainings whose stages end at 0.98 alone have 0.0026")
    assert STUDY.summarise(runs[3:])[1].judgement.reason == ""  # without the others, nothing agrees


def test_many_values_are_written_as_mean_and_range():
    rows = STUDY.summarise([finished(0.9, seed, 0.9 + seed / 100) for seed in range(1, 7)])
    assert rows[0].ours == "0.935 (0.91 to 0.96)"
    assert rows[1].ours == "none"


def test_networks_that_diverged_are_counted():
    diverged = finished(0.9, 2, 0.0)
    rows = STUDY.summarise([finished(0.9, 1, 1.0), replace(diverged, result={"failed": "loss nan", "parameters": 1})])
    assert rows[0].measured == (1.0,)
    assert rows[0].diverged == 1
    assert "1 did not stay finite" in rows[0].remark
    both = [finished(0.98, 2, 0.9), replace(diverged, result={"failed": "loss nan", "parameters": 1})]
    assert STUDY.summarise(both)[0].diverged == 0  # the other training of this seed stayed finite


@pytest.mark.parametrize(("accuracies", "epoch"), [([0.5] * 10, 5), ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 7)])
def test_a_later_epoch_is_kept_only_if_it_is_better_than_the_worst(accuracies, epoch):
    assert epochs.evaluated_epoch(accuracies) == epoch
