"""Studies of networks with attention to their past, and their parts."""

import pytest
import torch
from torch import nn

from mnemoscope.cells import GRU, LSTM, Elman, Model
from mnemoscope.lenses.attention import record_attention
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen
from mnemoscope.replication import Finished
from mnemoscope.replication.claims import about
from mnemoscope.studies.kerg2022 import (
    copy_table,
    denoise,
    primacy_bias,
    ptb_pmnist_attention,
    screening_tradeoff,
    transfer_copy,
)
from mnemoscope.tasks import Copy
from mnemoscope.training import evaluate, evaluate_tasks


@pytest.mark.parametrize("past", [RelevanceScreen(3, 4), FullHistory()])
def test_long_sequences_are_evaluated_in_pieces(past):
    torch.manual_seed(0)
    model = Model(Attentive(LSTM(10, 8), past), output_size=9).double()
    tasks = {delay: Copy(delay) for delay in (2, 30)}
    batches = {delay: task.batch(6, 3, 0, "validation") for delay, task in tasks.items()}
    batches = {delay: batch._replace(inputs=batch.inputs.double()) for delay, batch in batches.items()}
    for delay, batch in batches.items():
        at_once, in_pieces = (evaluate(model, tasks[delay], [batch], window=window) for window in (None, 7))
        assert in_pieces == pytest.approx(at_once, rel=1e-12)
    found = evaluate_tasks(model.float(), tasks, sequences=6, seed=3, window=7)
    assert list(found) == [2, 30]
    assert found[30]["accuracy"] == evaluate(model, tasks[30], [tasks[30].batch(6, 3, 0, "validation")])["accuracy"]


def test_evaluating_a_task_without_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"batches must be at least 1, but is 0 for the task 'copy'"):
        evaluate_tasks(Model(GRU(10, 8), output_size=9), {"copy": Copy(3)}, batches=0)


def slow_screen(cell, xs):
    """Return the steps that one sequence keeps, and their scores, by a plain Python loop."""
    past, s, states, kept, scores = cell.past, torch.zeros(cell.cell.hidden_size, dtype=xs.dtype), [], [], {}
    held = []
    for t, x in enumerate(xs):
        states.append(cell.cell(x[None], s[None])[0])
        leaving = t - past.short_term
        if leaving >= 0:
            if len(kept) < past.relevant:
                kept.append(leaving)
            else:
                least = min(kept, key=scores.get)
                if scores[leaving] > scores[least]:
                    kept[kept.index(least)] = leaving
        new = list(range(max(0, leaving + 1), t + 1))
        rows = torch.stack([states[i] for i in [*new, *kept]])
        e = torch.tanh(cell.alignment.query(s) + cell.alignment.key(rows)) @ cell.alignment.direction
        weights = e.softmax(0)
        competing = len(weights) if past.score == "normalised" else 1
        for i, weight in zip(new, weights.tolist(), strict=False):
            scores[i] = scores.get(i, 0.0) + weight * competing
        s = states[t] + weights @ rows
        held.append((new, sorted(kept)))
    return held, scores


@pytest.mark.parametrize("score", ["published", "normalised"])
@torch.no_grad()
def test_the_screen_keeps_the_states_of_a_slow_reference(score):
    torch.manual_seed(1)
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4, score)).double()
    cell.alignment.direction.mul_(20)  # so that attention differs between states
    xs = torch.randn(40, 3, 5, dtype=torch.float64)
    seen = record_attention(cell, xs)
    for b in range(3):
        held, scores = slow_screen(cell, xs[:, b])
        for t, (new, relevant) in enumerate(held):
            assert seen.kept[t, :, b].nonzero().flatten().tolist() == [*relevant, *new]
            assert seen.chosen[t, :, b].nonzero().flatten().tolist() == relevant
        assert seen.scores[:, b].tolist() == pytest.approx([scores[i] for i in range(40)])


@torch.no_grad()
def test_equal_attention_keeps_the_first_states():
    cell = Attentive(Elman(5, 12, "tanh"), RelevanceScreen(3, 4)).double()
    nn.init.zeros_(cell.alignment.direction)
    seen = record_attention(cell, torch.randn(30, 2, 5, dtype=torch.float64))
    assert seen.scores[:27, 0].tolist() == pytest.approx(primacy_bias.equal_attention(3, 4, 27))
    assert seen.chosen[-1].T.tolist() == [[True] * 4 + [False] * 26] * 2


def finished(study, network, tested=(), preset="cpu", seed=0, **result):
    settings = study.presets[preset].settings
    trial = next(trial for trial in study.trials(settings, (seed,)) if trial.name == network)
    curve = {"step": [100.0, 200.0], "accuracy": [0.5, 0.995], "loss": [1.0, 0.01]}
    learned = {"parameters": 7, "curve": curve, "loss": 0.01, "steps": 200, "seconds": 12.0}
    return Finished(trial, {**learned, "tested": tested, **result})


def test_a_network_that_solves_its_task_early_is_compared():
    study = transfer_copy.STUDY
    trials = [finished(study, "relrnn", [[100, 1.0], [5000, 0.9]], seed=seed, accuracy=0.999) for seed in range(3)]
    rows = {row.quantity: row for row in study.summarise(trials)}
    assert rows["relrnn: recall at delay 100"].verdict == "matches"
    assert rows["relrnn: recall at delay 5000"].verdict == "worse"
    assert rows["relrnn: recall at delay 5000"].published == "99%"
    assert rows["relrnn: iterations to 99% recall"].ours == "200, 200, 200"
    assert rows["relrnn: iterations to 99% recall"].remark == "training ended after 200 (12 s), 200 (12 s), 200 (12 s)"
    assert len(study.figure(trials).axes) == 2


@pytest.mark.parametrize(("share", "compared"), [(0.85, "within the scatter"), (0.6, "which is not")])
def test_an_unexplained_recall_is_also_read_as_the_share_of_all_steps(share, compared):
    study = transfer_copy.STUDY
    trials = [
        finished(
            study,
            "exprnn",
            [[100, 1.0], [200, 0.1]],
            "published",
            seed,
            accuracy=0.999,
            **{transfer_copy.EVERY_STEP: [[100, 1.0], [200, share + 0.01 * seed]]},
        )
        for seed in range(5)
    ]
    rows = {row.quantity: row for row in study.summarise(trials)}
    recall = rows["exprnn: recall at delay 200"]  # 86%
    assert (recall.verdict, recall.ours) == ("worse", "0.1, 0.1, 0.1, 0.1, 0.1")
    assert recall.judgement.reason.startswith("cause unknown; recall is as low with our recipe")
    assert f"{share + 0.02:.1%} are right, {compared}" in recall.judgement.reason
    assert rows["exprnn: recall at delay 100"].verdict == "matches"
    shares = rows[f"exprnn: {transfer_copy.EVERY_STEP}, delay 200"]
    assert shares.published == "not published"
    assert shares.ours == ", ".join(f"{share + 0.01 * seed:.4g}" for seed in range(5))


def test_blanks_count_in_the_share_of_all_steps():
    task = transfer_copy.ScoredAtEveryStep(delay=5, symbols=2, alphabet=4)
    batch = task.batch(3, seed=0, number=0)
    outputs = torch.nn.functional.one_hot(torch.full_like(batch.targets, task.alphabet), 5).double()
    scores = task.scores(outputs, batch)  # blanks alone: 7 of 9 steps
    assert (scores["accuracy"], scores[transfer_copy.EVERY_STEP]) == (0.0, pytest.approx(7 / 9))


def test_a_network_trained_for_fewer_iterations_is_not_compared():
    short = finished(denoise.STUDY, "lstm, delay 100", accuracy=0.3)
    row = denoise.STUDY.summarise([short])[0]
    assert (row.published, row.ours, row.verdict) == ("82%", "0.3", "not compared")
    assert row.judgement.reason == "200 iterations; 200,000 were published"
    assert row.judgement.reason in row.remark
    full = [finished(denoise.STUDY, "lstm, delay 100", seed=n, accuracy=0.3, steps=200_000) for n in range(3)]
    assert denoise.STUDY.summarise(full)[0].verdict == "worse"
    assert denoise.STUDY.summarise(full[:1])[0].judgement.reason == "one network of 5, below the range"


def test_a_network_that_has_not_solved_the_task_does_not_agree_where_most_have():
    study = transfer_copy.STUDY
    solved = [finished(study, "rellstm", [[100, 1.0]], seed=seed, accuracy=0.999) for seed in range(3)]
    unsolved = finished(study, "rellstm", [[100, 0.5]], accuracy=0.5)
    row = next(row for row in study.summarise([*solved, unsolved]) if row.quantity == "rellstm: recall at delay 100")
    assert (str(row.judgement), row.measured, row.diverged) == ("matches in 3 of 4", (1.0, 1.0, 1.0, 0.5), 0)
    assert row.judgement.reason == "other recipe: 1 of 4 had not solved the task after 200 iterations"
    assert study.summarise([solved[0], unsolved])[1].verdict == "not compared"


@pytest.mark.parametrize("recall", [0.93, 0.3], ids=["mean in the range", "compatible mean"])
def test_a_network_that_fails_at_a_longer_delay_does_not_agree_although_the_mean_may(recall):
    study = transfer_copy.STUDY
    solved = [
        finished(study, "rellstm", [[200, 1.0 if seed else recall]], seed=seed, accuracy=0.999) for seed in range(5)
    ]
    unsolved = finished(study, "rellstm", [[200, 0.5]], seed=5, accuracy=0.5)
    row = next(row for row in study.summarise([*solved, unsolved]) if row.quantity == "rellstm: recall at delay 200")
    assert (str(row.judgement), row.verdict) == ("matches in 4 of 6", "in part")
    assert row.judgement.reason == (
        "other recipe: 1 of 6 had not solved the task after 200 iterations, and 1 that had is outside of the range"
    )


def test_a_recall_is_not_compared_where_the_published_network_ran_out_of_memory():
    claim = transfer_copy.STUDY.claim("recall at delay 5000", about("memrnn"))
    assert (claim.value, claim.judge([1.0]).verdict, claim.judge([0.0]).verdict) == (
        "out of memory",
        "not compared",
        "not compared",
    )
    assert denoise.STUDY.find_claim("recall", about("memrnn", delay=2000)) is None  # attention-memory tests it


@pytest.mark.parametrize(("gradient", "verdict"), [([-1.0, -5.0, -2.0], "matches"), ([-1.0, -2.0], "differs")])
def test_a_gradient_that_varies_by_decades_is_unstable(gradient, verdict):
    study = screening_tradeoff.STUDY
    options = {"preset": "published", "gradient": gradient, "accuracy": 0.5, "steps": 200_000}
    trials = [finished(study, "rho = 3", seed=seed, **options) for seed in (0, 1)]
    row = study.summarise(trials)[1]
    assert (row.quantity, row.verdict) == ("rho = 3: decades of the gradient norm", verdict)
    assert row.measured == (max(gradient) - min(gradient),) * 2
    smaller = finished(study, "rho = 3", gradient=gradient, accuracy=0.5)
    assert study.summarise([smaller])[1].verdict == "not compared"
    assert study.figure([*trials, smaller]).axes


def test_a_short_buffer_has_less_leverage_than_a_small_relevant_set():
    study = screening_tradeoff.STUDY
    lowest = {"rho = 3": -5.0, "nu = 3": -2.0}
    trials = [
        finished(study, name, preset="paper", seed=seed, gradient=[0.0, lowest.get(name, -1.0)], accuracy=1.0)
        for name in study.subjects()
        for seed in (0, 1)
    ]
    row = study.summarise(trials)[-1]
    assert (row.ours, row.verdict, row.remark[:23]) == ("0.25", "matches", "1.00 and 4.00 decades; ")
    assert len(study.summarise(trials[2:])) == len(study.summarise(trials)) - 4


@pytest.mark.parametrize(("steps", "verdict"), [(100.0, "matches"), (300.0, "differs")])
def test_updates_are_compared_with_those_of_the_fastest_baseline(steps, verdict):
    def solved(network, at, seed):
        curve = {"step": [at], "accuracy": [0.995], "loss": [0.01]}
        result = {"accuracy": 0.995, "curve": curve}
        return finished(copy_table.STUDY, f"{network}, delay 100", preset="paper", seed=seed, **result)

    ends = {"exprnn": 200.0, "memrnn": 900.0, "relrnn": steps, "rellstm": 10.0}
    trials = [solved(network, at, seed) for network, at in ends.items() for seed in (0, 1)]
    trials.append(finished(copy_table.STUDY, "lstm, delay 100", preset="paper", accuracy=0.5))
    row = copy_table.STUDY.summarise(trials)[-1]
    assert (row.ours, row.verdict) == (f"{steps / 200:.2g}", verdict)
    assert f"100: {steps:.0f} to 200 of exprnn" in row.remark
    assert copy_table.STUDY.summarise(trials[2:3])[-1].claim is not row.claim


def test_each_data_set_is_compared_under_its_published_conditions():
    study = ptb_pmnist_attention.STUDY
    digits = [finished(study, "pmnist, rellstm", preset="paper", seed=seed, accuracy=0.942) for seed in range(3)]
    scores = {"accuracy": 0.4, "bpc": 1.37}
    characters = [finished(study, "ptb, rellstm", preset="paper", seed=seed, **scores) for seed in range(3)]
    rows = {row.quantity: row.verdict for row in study.summarise([*digits, *characters])}
    assert rows == {
        "pmnist, rellstm: accuracy": "matches",
        "ptb, rellstm: accuracy": "worse",
        "ptb, rellstm: bits per character": "matches",
    }
    few = finished(study, "pmnist, rellstm", accuracy=0.94)
    assert [row.verdict for row in study.summarise([few])] == ["not compared"]
    assert len(study.figure([*digits, *characters]).axes) == 2


def test_every_trained_network_has_a_claim():
    for study in (transfer_copy.STUDY, denoise.STUDY, copy_table.STUDY, ptb_pmnist_attention.STUDY):
        published = {claim.subject.network for claim in study.claims}
        for trial in study.trials(study.presets["paper"].settings, (0,)):
            assert trial.subject.network in published, trial.name
