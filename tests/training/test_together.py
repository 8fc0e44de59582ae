"""Relational networks that are trained at once."""

import json
from dataclasses import replace

import pytest
import torch

import mnemoscope as ms
from mnemoscope.config.run_config import RunConfig
from mnemoscope.training import build_model, load_model, together
from mnemoscope.training.together import train_together
from tests.slow import representatives

RUN = RunConfig(
    "together",
    task="same-different",
    task_options={"m": 97},
    cell="corelnet",
    steps=3,
    batch_size=8,
    evaluate_every=2,
    evaluate_batches=2,
    learning_rate=5e-4,
)


def seeds(config, *numbers):
    return [
        replace(config, seed=number, task_options={**config.task_options, "shape_seed": number}) for number in numbers
    ]


def metrics(run):
    return [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("cell", ["corelnet", "corelnet-random", "corelnet-l1", "esbn", "lstm", "mnm", "transformer"])
@representatives("corelnet-l1", "mnm")
def test_networks_that_are_trained_together_are_trained_as_alone(tmp_path, cell):
    configs = seeds(replace(RUN, cell=cell, evaluate_every=1), 1, 4)
    runs = train_together(configs, [tmp_path / "together"] * 2, at_once=1)
    for config, run in zip(configs, runs, strict=True):
        alone = ms.train(config, tmp_path / "alone", progress=False)
        found, expected = metrics(run)[0], metrics(alone)[0]
        assert found["train_loss"] == pytest.approx(expected["train_loss"], rel=1e-5)
        assert len(metrics(run)) == 3
        if cell == "corelnet-l1":  # in others, normalisation amplifies rounding errors of features that hardly differ
            assert found["gradient_norm"] == pytest.approx(expected["gradient_norm"], rel=1e-5)
            weights, others = (load_model(each.folder)[0].state_dict() for each in (run, alone))
            torch.testing.assert_close(weights, others)
        assert ms.train(config, tmp_path / "together", progress=False).cached


def test_evaluations_are_the_scores_of_the_saved_networks(tmp_path):
    (run, _) = train_together(seeds(RUN, 0, 1), [tmp_path] * 2)
    assert [line["step"] for line in metrics(run)] == [2, 3]
    model, task, config = load_model(run.folder)
    batches = [task.batch(8, config.seed, number, "test") for number in range(2)]
    scores = ms.training.evaluate(model, task, batches)
    assert run.loss == pytest.approx(scores["loss"], rel=1e-5)
    assert run.scores["accuracy"] == pytest.approx(scores["accuracy"])
    assert json.loads((run.folder / "env.json").read_text())["together"] == 2


def test_networks_of_several_tasks_are_trained_together_on_blocks_of_batches(tmp_path):
    rules = [replace(RUN, task=task, task_options={"m": m}) for task, m in (("rmts3", 0), ("rmts3", 94))]
    rules += [replace(RUN, name="rows", task="identity-rules", task_options={})]
    with pytest.raises(ValueError, match="problems of one size"):
        train_together(rules, [tmp_path] * 3)
    runs = train_together(rules[:2], [tmp_path] * 2, at_once=2)
    assert [load_model(run.folder)[1].relational.m for run in runs] == [0, 94]


def test_a_network_that_diverges_leaves_the_others_alone(tmp_path, monkeypatch):
    def diverging(config, task):
        model = build_model(config, task)
        if config.seed == 1:
            model.network.norm.gain.data.fill_(torch.nan)
        return model

    monkeypatch.setattr(together, "build_model", diverging)
    first, second, third = train_together(seeds(RUN, 0, 1, 2), [tmp_path] * 3)
    assert second is None
    assert all(metrics(run)[-1]["step"] == 3 for run in (first, third))
    assert len([*tmp_path.glob("*/*")]) == 2


def test_only_networks_of_one_shape_and_recipe_are_trained_together(tmp_path):
    def refuse(configs, message, error=ValueError):
        with pytest.raises(error, match=message):
            train_together(configs, [tmp_path] * len(configs))

    refuse([RUN], "Two configurations or more")
    refuse([RUN, replace(RUN, seed=1, steps=4)], "differ in name, seed, task and task_options alone")
    refuse(seeds(replace(RUN, clip=1.0), 0, 1), "clip is for a single training")
    flipflop = RunConfig("flipflop", task="flipflop", cell="gru")
    refuse([flipflop, replace(flipflop, seed=1)], "Only relational networks")
    refuse(seeds(replace(RUN, learning_rate=1e30), 0, 1), "after 2 optimiser steps", ms.training.NonFiniteLoss)
    ms.train(replace(RUN, seed=0), tmp_path, progress=False)
    refuse([RUN, replace(RUN, seed=1)], "There is a run in", FileExistsError)
