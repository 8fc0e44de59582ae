"""Studies of modern recurrences on token tasks, whose published grids a reduced recipe replaces."""

from dataclasses import replace

import pytest

from mnemoscope import registry
from mnemoscope.replication import Verdict
from mnemoscope.replication.claims import about
from mnemoscope.replication.reduced_study import ReducedStudy
from mnemoscope.replication.study import Finished
from mnemoscope.replication.verdicts import Obstacle
from tests.slow import representatives

LENGTHS = ("accuracy at the trained length", "accuracy at four times the length")
STUDIES = [entry.name for entry in registry.studies if isinstance(entry.load(), ReducedStudy)]


def results(study, preset, **values):
    """Return finished trials of a preset; each value is a constant or a function of the trial."""
    chosen = study.presets[preset]
    return [
        Finished(
            trial,
            {"parameters": 9} | {key: value(trial) if callable(value) else value for key, value in values.items()},
        )
        for trial in study.trials(chosen.settings, chosen.seeds)
    ]


@pytest.mark.parametrize("name", STUDIES)
def test_trials_of_a_reduced_preset_have_a_named_recipe_that_differs_from_the_published_one(name):
    study = registry.studies.load(name)
    for trial in study.trials(study.presets["reduced"].settings, (0,)):
        recipe, _, differences = study.reduced_recipe(trial).partition(": ")
        assert recipe in study.reduced, trial.name
        assert differences
        assert study.as_published(trial)
    for trial in study.trials(study.presets["published"].settings, (0,)):
        assert study.reduced_recipe(trial) == ""
        assert study.as_published(trial)
    for preset in {"smoke", "recipes"} & study.presets.keys():
        for trial in study.trials(study.presets[preset].settings, (0,)):
            assert not study.as_published(trial)


def test_parity_is_judged_by_the_best_of_three_and_by_each_network():
    study = registry.studies.load("formal-languages")
    solving = {0: 1.0, 1: 0.9995, 2: 0.7}
    rows = study.summarise(
        results(study, "reduced", scaled=lambda trial: solving[trial.seed] if "-1" in trial.name else 0.01 * trial.seed)
    )
    found = {row.quantity: row for row in rows}
    best = found["deltanet [-1, 1], parity: scaled accuracy, best of three"]
    assert (best.verdict, best.ours) == (Verdict.MATCHES, "1.000 of 0.700, 1.000, 1.000")
    assert best.reduced.startswith("small-parity: hidden_size 32")
    each = found["deltanet [-1, 1], parity: scaled accuracy of each network"]
    assert str(each.judgement) == "matches in 2 of 3"
    assert each.judgement.reason == study.causes["deltanet [-1, 1], parity", each.claim.quantity].reason
    assert found["deltanet [0, 1], parity: scaled accuracy of each network"].verdict is Verdict.MATCHES
    assert found["deltanet, parity: gain by eigenvalues in [-1, 1]"].verdict is Verdict.MATCHES
    assert found["deltanet, parity: gain by eigenvalues in [-1, 1]"].reduced
    assert found["mamba, parity: gain by eigenvalues in [-1, 1]"].verdict is Verdict.MATCHES
    worse = found["slstm, modular-arithmetic: scaled accuracy, best of three"]
    assert (worse.verdict, worse.judgement.reason.split(":")[0]) == (
        Verdict.WORSE,
        "reduced recipe small-arithmetic",
    )


def test_a_product_of_permutations_needs_two_factors():
    study = registry.studies.load("word-problems")
    right = {"deltaproduct 1 [-1, 1]": 0.4, "deltaproduct 2 [-1, 1]": 0.995}
    values = {
        quantity: lambda trial: right.get(trial.subject.network, 0.3) - 0.001 * trial.seed for quantity in LENGTHS
    }
    found = {row.quantity: row.verdict for row in study.summarise(results(study, "reduced", **values))}
    for factors, range_ in ((1, "[-1, 1]"), (2, "[-1, 1]"), (1, "[0, 1]"), (2, "[0, 1]")):
        assert found[f"deltaproduct {factors} {range_}, S3: accuracy at the trained length"] is Verdict.MATCHES
    assert found["deltaproduct 4 [-1, 1], S5: accuracy at the trained length"] is Verdict.DIFFERS
    assert found["deltaproduct 1 [-1, 1], S4: accuracy at the trained length"] is Verdict.MATCHES
    # four factors fail too, so that the failure of one says nothing about S5
    assert found["deltaproduct 1 [-1, 1], S5: accuracy at the trained length"] is Verdict.NOT_COMPARED
    assert found["deltaproduct, S3: gain by a second factor"] is Verdict.MATCHES


def test_a_failure_is_compared_only_if_its_control_was_run_and_learned():
    study = registry.studies.load("word-problems")
    known = results(study, "reduced", **dict.fromkeys(LENGTHS, 0.3))
    alone = [each for each in known if each.trial.subject == about("deltaproduct 1 [-1, 1]", "S4")]
    (failure, _) = study.summarise(alone)
    assert failure.judgement.obstacle is Obstacle.CHANCE
    assert "says little, since deltaproduct 2 [-1, 1], S4 was not run (accuracy at" in failure.judgement.reason
    copying = registry.studies.load("string-copying")
    for trained, verdict in ((0.9, Verdict.MATCHES), (0.05, Verdict.NOT_COMPARED)):
        scores = {"whole strings at trained lengths": trained, "whole strings of twice the longest": 0.0}
        found = {row.quantity: row for row in copying.summarise(results(copying, "reduced", **scores))}
        longer = found["lstm, string-copy: whole strings of twice the longest"]
        assert longer.verdict is verdict
    assert "the same network learned the task in 0 of 3 trainings (whole strings" in longer.judgement.reason


def test_a_gain_of_networks_of_which_one_diverged_agrees_in_part():
    study = registry.studies.load("word-problems")
    longer = {"deltaproduct 2 [-1, 1]": 0.995}
    known = results(
        study,
        "reduced",
        **{"accuracy at the trained length": 0.3},
        **{
            "accuracy at four times the length": lambda trial: (
                longer.get(trial.subject.network, 0.3) - 0.001 * trial.seed
            )
        },
    )
    for network, verdict in (("deltaproduct 2 [-1, 1]", Verdict.IN_PART), ("deltaproduct 1 [-1, 1]", Verdict.MATCHES)):
        lost = next(each for each in known if each.trial.subject == about(network, "S3"))
        trials = [replace(each, result={"parameters": 9, "failed": "NaN"}) if each is lost else each for each in known]
        gain = next(row for row in study.summarise(trials) if row.claim and "gain" in row.claim.quantity)
        assert gain.verdict is verdict
        assert "did not stay finite" in gain.remark


def test_mad_has_a_row_for_every_task_and_source_and_means_when_all_six_are_measured():
    study = registry.studies.load("mad")
    known = results(study, "reduced", **{"test macro accuracy": lambda trial: 0.995 + 0.001 * (trial.seed % 2)})
    found = {row.quantity: row for row in study.summarise(known)}
    assert found["deltanet, mad-recall: accuracy"].verdict is Verdict.MATCHES
    assert found["gla, mad-recall: accuracy"].judgement.obstacle is Obstacle.OTHER_CONDITIONS  # others are harder
    assert found["gla, mad-memorisation: accuracy"].verdict is Verdict.BETTER  # in all settings
    assert found["deltanet, mad-recall: accuracy by lin-attn-bench"].published == "0.999"
    assert "mlstm, mad-recall: accuracy" not in found  # only lin-attn-bench has it
    assert found["deltanet, mad-recall: accuracy"].reduced.startswith("mad-short: learning_rate 0.001, steps 4000")
    assert "steps" not in found["deltanet, mad-memorisation: accuracy"].reduced  # as many as published
    mean = found["deltanet, mean of the six tasks: accuracy"]
    assert (mean.claim.value, mean.judgement.obstacle) == ("71.8%", Obstacle.OTHER_CONDITIONS)
    assert len(mean.measured) == 5
    assert mean.reduced.startswith("mad-")
    lost = next(each for each in known if each.trial.name == "deltanet, mad-recall")
    rest = [each for each in known if each is not lost]
    found = {row.quantity: row for row in study.summarise([*rest, replace(lost, result={"failed": "NaN"})])}
    mean = found["deltanet, mean of the six tasks: accuracy"]
    assert (mean.diverged, len(mean.measured), mean.verdict) == (1, 4, Verdict.DIFFERS)
    worse = results(study, "reduced", **{"test macro accuracy": lambda trial: 0.5 + 0.001 * (trial.seed % 2)})
    found = {row.quantity: row for row in study.summarise(worse)}
    for name in ("gla, mad-recall: accuracy", "deltanet, mean of the six tasks: accuracy"):
        assert found[name].verdict is Verdict.WORSE  # even in the base setting
        assert found[name].judgement.reason.startswith("reduced recipe mad-")
    without = [each for each in known if each.trial.name != "deltanet, mad-recall"]
    assert "deltanet, mean of the six tasks: accuracy" not in {row.quantity for row in study.summarise(without)}


def test_memorisation_is_the_mean_over_all_vocabularies():
    study = registry.studies.load("mad")
    known = results(
        study, "reduced", **{"test macro accuracy": lambda t: 1.0 if t.subject["vocabulary"] is None else 0.4}
    )
    memorising = [each for each in known if each.trial.subject.task == "mad-memorisation"]
    found = {row.quantity: row for row in study.summarise(memorising)}
    assert len(memorising) == 7 * 6 * 5
    assert found["deltanet, mad-memorisation: accuracy"].measured == pytest.approx([0.5] * 5)
    base_only = [each for each in memorising if not each.trial.subject.condition]
    assert study.summarise(base_only) == []
    rest = [each for each in memorising if (each.trial.subject["vocabulary"], each.trial.seed) != (512, 0)]
    found = {row.quantity: row for row in study.summarise(rest)}
    assert found["deltanet, mad-memorisation: accuracy"].measured == pytest.approx([0.5] * 4)


def test_recall_is_judged_by_each_network_and_between_families():
    study = registry.studies.load("mqar-widths")
    accuracy = {"deltanet": 0.995, "mamba": 0.4, "transformer": 0.999}
    values = results(
        study, "reduced", **{"test accuracy": lambda t: accuracy.get(t.subject.network, 0.994) - 0.001 * t.seed}
    )
    found = {row.quantity: row.verdict for row in study.summarise(values)}
    assert found["deltanet, mqar, pairs 64, width 128: accuracy"] is Verdict.MATCHES
    assert found["deltanet against mamba, mqar, pairs 64, width 64: gain of DeltaNet"] is Verdict.MATCHES
    assert found["deltanet against gla, mqar, pairs 64, width 64: gain of DeltaNet"] is Verdict.DIFFERS


def test_copying_compares_transformers_with_recurrences():
    study = registry.studies.load("string-copying")
    trained, longer = "whole strings at trained lengths", "whole strings of twice the longest"
    attends = lambda trial: float("transformer" in trial.name)  # noqa: E731
    values = results(
        study, "reduced", **{trained: 1.0, longer: lambda trial: 0.9 * attends(trial) - 0.01 * trial.seed + 0.02}
    )
    found = {row.quantity: row.verdict for row in study.summarise(values)}
    assert found[f"mamba, string-copy: {trained}"] is Verdict.MATCHES
    assert found[f"lstm, string-copy: {longer}"] is Verdict.MATCHES
    pair = "transformer, rotary against mamba, string-copy"
    assert found[f"{pair}: gain of attention at twice the longest"] is Verdict.MATCHES
    assert found[f"{pair}: gain of attention in whole strings"] is Verdict.DIFFERS


def test_two_networks_that_learned_nothing_are_not_compared_with_each_other():
    study = registry.studies.load("string-copying")
    whole, longer = "whole strings at trained lengths", "whole strings of twice the longest"
    known = results(study, "reduced", **{whole: lambda trial: 0.01 * trial.seed, longer: 0.0})
    gains = [row for row in study.summarise(known) if row.claim and "gain" in row.claim.quantity]
    assert gains
    assert {(row.verdict, row.judgement.reason) for row in gains} == {
        (Verdict.NOT_COMPARED, "neither is much above chance, 0")
    }


def test_induction_heads_are_judged_at_every_length():
    study = registry.studies.load("selective-memory")
    values = {"test accuracy": 0.998} | {f"accuracy at length {2**power}": 1.0 for power in range(6, 15)}
    found = {row.quantity: row for row in study.summarise(results(study, "reduced", **values))}
    assert found["mamba, induction-heads: accuracy at length 16384"].verdict is Verdict.MATCHES
    assert found["mamba, selective-copy: accuracy"].verdict is Verdict.MATCHES
    assert "length 256" in found["mamba, selective-copy: accuracy"].reduced
    plain = found["s4, selective-copy: accuracy"]
    assert (plain.published, plain.verdict) == ("18.3%", Verdict.BETTER)
    assert "'no gate' alone" in plain.reduced
    rotary = found["transformer, rotary, induction-heads: accuracy at length 1024"]
    assert (rotary.published, rotary.verdict) == ("31.3%", Verdict.BETTER)
    for setting in ("learning_rate", "hidden_size", "heads"):
        assert setting not in rotary.reduced  # those of the published table
    absolute = found["transformer, absolute, induction-heads: accuracy at length 512"]
    assert (absolute.published, absolute.verdict) == ("58.6%", Verdict.BETTER)
    assert "sinusoidal positions" in absolute.reduced
    assert "mamba, induction-heads: accuracy at length 32768" not in found


def test_other_lengths_are_compared_only_if_most_networks_have_learned_that_of_their_training():
    study = registry.studies.load("selective-memory")
    longer = "mamba, induction-heads: accuracy at length 1024"
    for learned, verdict in ((1, Verdict.NOT_COMPARED), (3, Verdict.WORSE)):
        values = {"test accuracy": 0.998} | {f"accuracy at length {2**power}": 0.1 for power in range(6, 15)}
        values["accuracy at length 256"] = lambda trial, learned=learned: 0.998 if trial.seed < learned else 0.1
        found = {row.quantity: row for row in study.summarise(results(study, "reduced", **values))}
        assert found[longer].verdict is verdict
    trained = found["mamba, induction-heads: accuracy at length 256"]
    assert trained.judgement.obstacle is not Obstacle.SHORTER_TRAINING  # whether the recipe teaches it is the question


@representatives("mad", "selective-memory")
@pytest.mark.parametrize("name", STUDIES)
def test_the_smoke_preset_measures_what_the_rows_need(name, tmp_path):
    study = registry.studies.load(name)
    preset = study.presets["smoke"]
    trial = study.trials(preset.settings, (0,))[0]
    rows = study.summarise([Finished(trial, study.run(trial, tmp_path, progress=False))])
    assert rows
    assert {row.verdict for row in rows} == {Verdict.NOT_COMPARED}
