"""Studies of modern recurrences on token tasks, whose published grids a reduced recipe replaces."""

import pytest

from mnemoscope import registry
from mnemoscope.replication import Verdict
from mnemoscope.replication.reduced_study import ReducedStudy
from mnemoscope.replication.study import Finished

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
    for trial in study.trials(study.presets["smoke"].settings, (0,)):
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
    assert each.judgement.reason.startswith("reduced recipe small-parity")
    assert found["deltanet [0, 1], parity: scaled accuracy of each network"].verdict is Verdict.MATCHES
    assert found["deltanet, parity: gain by eigenvalues in [-1, 1]"].verdict is Verdict.MATCHES
    assert found["deltanet, parity: gain by eigenvalues in [-1, 1]"].reduced
    worse = found["slstm, modular-arithmetic: scaled accuracy, best of three"]
    assert (worse.verdict, worse.judgement.reason.split(":")[0]) == (
        Verdict.WORSE,
        "reduced recipe small-arithmetic",
    )


def test_a_product_of_permutations_needs_two_factors():
    study = registry.studies.load("word-problems")
    right = {"deltaproduct 1 [-1, 1]": 0.4, "deltaproduct 2 [-1, 1]": 0.995}
    values = {
        quantity: lambda trial: right.get(trial.subject.network, 0.3) - 0.001 * trial.seed
        for quantity in ("accuracy at the trained length", "accuracy at four times the length")
    }
    found = {row.quantity: row.verdict for row in study.summarise(results(study, "reduced", **values))}
    for factors, range_ in ((1, "[-1, 1]"), (2, "[-1, 1]"), (1, "[0, 1]"), (2, "[0, 1]")):
        assert found[f"deltaproduct {factors} {range_}, S3: accuracy at the trained length"] is Verdict.MATCHES
    assert found["deltaproduct 4 [-1, 1], S5: accuracy at the trained length"] is Verdict.DIFFERS
    assert found["deltaproduct, S3: gain by a second factor"] is Verdict.MATCHES
