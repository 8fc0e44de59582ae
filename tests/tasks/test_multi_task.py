"""The twenty tasks of Yang et al. 2019: stimuli, responses, loss and accuracy."""

from itertools import pairwise

import pytest
import torch

from mnemoscope.tasks import MultiTask
from mnemoscope.tasks.cognitive.multi_task import bump, decoded_angle
from mnemoscope.tasks.cognitive.yang_conditions import CATEGORY_ANGLES
from mnemoscope.tasks.cognitive.yang_rules import RULES, find_rules

CLEAN = MultiTask(noise=0.0)


def of_rule(name: str, size: int = 30):
    """Return trials of one task without noise, and a function that reads a column."""
    trials = MultiTask(rules=name, noise=0.0).trials(size, seed=0, number=0)
    return trials, lambda column: trials.table[column].values


def test_sizes_and_tasks_are_those_of_the_paper():
    assert (CLEAN.input_size, CLEAN.output_size, len(RULES)) == (85, 33, 20)
    assert len(CLEAN.input_names) == 85
    assert len(CLEAN.output_names) == 33
    expected = "Go RT_Go Dly_Go Anti RT_Anti Dly_Anti DM_1 DM_2 Ctx_DM_1 Ctx_DM_2 MultSen_DM Dly_DM_1 Dly_DM_2"
    expected += " Ctx_Dly_DM_1 Ctx_Dly_DM_2 MultSen_Dly_DM DMS DNMS DMC DNMC"
    assert [rule.name.replace(" ", "_") for rule in RULES] == expected.split()


def test_a_batch_interleaves_the_tasks_and_shows_each_its_rule():
    trials = CLEAN.trials(200, 0, 0)
    assert len(trials.table["rule"].levels) == 20
    shown = trials.batch.inputs[5, :, -20:]
    assert torch.equal(shown.argmax(1), trials.table["rule"].values.long())
    assert torch.equal(shown.sum(1), torch.ones(200))


@pytest.mark.parametrize("name", ["Go", "RT Go", "Dly Go", "Anti", "RT Anti", "Dly Anti"])
def test_go_points_to_the_stimulus_and_anti_away_from_it(name):
    trials, column = of_rule(name)
    inputs, targets, _ = trials.batch
    away = 180 if "Anti" in name else 0
    assert torch.allclose(column("response"), (column("angle 1") + away) % 360)
    assert column("angle 2").isnan().all()
    last, every = trials.lengths - 1, torch.arange(30)
    error = (decoded_angle(targets[last, every, 1:]) - column("response") + 180) % 360 - 180
    assert error.abs().max() < 0.01
    visible = inputs[last, every, 1:65].sum(1) > 0
    assert visible.all() if "Dly" not in name else not visible.any()
    assert (inputs[last, every, 0] == 1).all() == ("RT" in name)  # the cue stays on
    start = trials.table.epoch("response").starts
    if "RT" in name:
        assert not inputs[start - 1, every, 1:65].any()


@pytest.mark.parametrize("name", [rule.name for rule in RULES if rule.kind == "decision"])
def test_decisions_point_to_the_stimulus_with_more_evidence_where_it_counts(name):
    trials, column = of_rule(name)
    apart = (column("angle 2") - column("angle 1")) % 360
    assert (apart >= 90).all()
    assert (apart <= 270).all()
    evidence = column("evidence 1") + column("evidence 2") if "Mult" in name else column(f"evidence {name[-1]}")
    assert torch.equal(column("response"), torch.where(evidence > 0, column("angle 1"), column("angle 2")))
    other = {"1": 2, "2": 1}.get(name[-1])
    if other and "Ctx" not in name:
        assert not column(f"evidence {other}").any()
    else:
        assert column("evidence 1").all()
        assert column("evidence 2").all()
    first, second = (trials.table.epoch(epoch).lengths for epoch in ("stimulus 1", "stimulus 2"))
    assert (first > 0).all()
    assert (second > 0).all() == ("Dly" in name)
    steps = trials.table.epoch("stimulus 1").starts
    angle = column("angle 1") if "Dly" in name else None
    if angle is not None:
        rings = trials.batch.inputs[steps, torch.arange(30), 1:65].unflatten(1, (2, 32)).sum(1)
        assert ((decoded_angle(rings) - angle + 180) % 360 - 180).abs().max() < 0.01


@pytest.mark.parametrize("name", ["DMS", "DNMS", "DMC", "DNMC"])
def test_matches_or_non_matches_call_for_a_response_to_the_second_stimulus(name):
    trials, column = of_rule(name, 100)
    first, second, response = (column(each) for each in ("angle 1", "angle 2", "response"))
    match = (first < 180) == (second < 180) if "C" in name else first == second
    goes = match == ("N" not in name)
    assert torch.equal(~response.isnan(), goes)
    assert torch.equal(response[goes], second[goes])
    assert 0.3 < match.double().mean() < 0.7
    fixation = trials.batch.targets[trials.lengths - 1, torch.arange(100), 0]
    assert torch.allclose(fixation, torch.where(goes, 0.05, 0.85))


def test_the_first_100_ms_of_trial_and_response_do_not_count_and_the_response_weighs_five_times():
    trials = CLEAN.trials(40, 0, 0)
    response = trials.table.epoch("response")
    since = torch.arange(len(trials.batch.mask))[:, None] - response.starts
    assert torch.equal(CLEAN.recalled(trials.batch), (since >= 5) & (since < 25))
    mask = (torch.arange(len(since))[:, None] >= 5) & ((since < 0) | (since >= 5)) & (since < 25)
    assert torch.equal(trials.batch.mask, mask)
    weights = CLEAN.weights(trials.batch)
    assert torch.equal(weights[..., 0], 2 * weights[..., 1])
    assert weights[CLEAN.recalled(trials.batch)][:, 1].unique().tolist() == [5.0]
    with pytest.raises(ValueError, match="needs whole trials, from their first step: leave out truncate"):
        CLEAN.recalled(list(trials.batch.windows(30))[1])


def test_accuracy_counts_fixation_and_angle_and_names_the_worst_task():
    task = MultiTask(rules="Dly Go, DMS", noise=0.0)
    trials = task.trials(60, 0, 0)
    targets, rule = trials.batch.targets, trials.table["rule"].values
    turned = torch.cat([targets[..., :1], targets[..., 1:].roll(4, 2)], 2)  # 45 degrees
    wrong = torch.where((rule == 2)[:, None], turned, targets)
    assert task.scores(wrong, trials.batch) == {
        "accuracy": pytest.approx((rule != 2).double().mean().item()),
        "lowest accuracy": 0.0,
    }
    fixating = targets.clone()
    fixating[..., 0] = 0.85
    stays = trials.table["response"].values.isnan()
    assert task.scores(fixating, trials.batch)["accuracy"] == pytest.approx(stays.double().mean().item())


def test_the_grid_shows_every_task_at_eight_angles_with_both_choices():
    table = CLEAN.grid().table
    counts = {rule.name: int((table["rule"].values == number).sum()) for number, rule in enumerate(RULES)}
    assert all(count == (8 if "Go" in name or "Anti" in name else 16) for name, count in counts.items())
    category = table["rule"].values >= find_rules("DMC")[0]
    for rows, angles in ((~category, [45.0 * number for number in range(8)]), (category, CATEGORY_ANGLES)):
        answered = table.part(rows)["response"].values
        assert set(answered[~answered.isnan()].tolist()) <= {*angles}
        assert len(answered[~answered.isnan()].unique()) == 8
    assert len(MultiTask(rules="DMS", locations=4).grid(angle=[0.0]).table) == 2
    for wrong in ({"rule": [20]}, {"choice": [0.5]}):
        with pytest.raises(ValueError, match="must be whole numbers from 0 to"):
            CLEAN.grid(**wrong)


def test_spans_set_the_delay_of_tasks_that_have_one():
    task = MultiTask(rules="Go, Dly Go")
    assert task.longest_span == 80
    table = task.at(10).trials(40, 0, 0).table
    lengths, rule = table.epoch("delay 1").lengths, table["rule"].values
    assert torch.equal(lengths, torch.where(rule == 2, 10, 0))
    assert task.at(10).longest_span == 10
    with pytest.raises(ValueError, match="in tasks that have one, but is 10 in 'Go'"):
        MultiTask(rules="Go").at(10)


def test_angles_are_decoded_from_bumps():
    angles = torch.arange(0, 360, 7.5, dtype=torch.float64)
    assert ((decoded_angle(bump(angles)) - angles + 180) % 360 - 180).abs().max() < 0.01
    assert not bump(torch.tensor([torch.nan], dtype=torch.float64)).any()
    heights = bump(torch.tensor([0.0, 11.25, 22.5], dtype=torch.float64))[:, 0]
    assert all(a > b for a, b in pairwise(heights.tolist()))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rules": "Go, Dly Goo"}, "There is no task 'Dly Goo': choose from all, Go, .* Did you mean 'Dly Go'"),
        ({"rules": "Go, go"}, "A task is named twice"),
        ({"locations": 1}, "Two stimuli need two locations"),
        ({"noise": -0.1}, "noise and delay are 0 or more and finite, but are -0.1 and 0"),
        ({"step": 200.0}, "A step lasts at most 100 ms, but step is 200"),
    ],
)
def test_wrong_options_are_refused(options, why):
    with pytest.raises(ValueError, match=why):
        MultiTask(**options)
