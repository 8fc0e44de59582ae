"""Networks trained to bind variables: scores, and comparison of their memories with the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

from mnemoscope.base.files import write_atomically
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.variables import variables_section
from mnemoscope.lenses import Variables, find_variables
from mnemoscope.lenses.variables import angle_error
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, exactly
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.learning_study import LearningStudy, finite
from mnemoscope.replication.solving_study import differing_settings
from mnemoscope.replication.study import Finished, Preset, Trial, listed
from mnemoscope.report.document import render_document
from mnemoscope.report.provenance import citation_section
from mnemoscope.tasks import VariableBinding
from mnemoscope.training import load_model

PAPER, NOTEBOOK = partial(Source, "karuvally2023"), partial(Source, "karuvally2023notebook")
IMPLIED = Source("mnemoscope", "what the theory of Karuvally et al. 2023 implies")
TRIALS = 256
"""Test sequences for the measurement of the variables."""
CURRICULUM = "10 20 40 60"
"""Horizons of the curriculum before the full one."""
LEARNED = 0.99
"""Least share of right bits at which a network counts as having learned its task."""


class BindingStudy(LearningStudy):
    """Train networks on a variable-binding task, then find the variables in the weights and test them."""

    score = "accuracy"
    score_in_words = "bits right"
    caption = "Share of right bits in tests during training: median and range over the seeds."
    cites = ("karuvally2023",)
    lenses = ("variables",)
    base = RunConfig(
        "binding",
        task="binding",
        cell="elman",
        cell_options={"bias": False},
        readout_bias=False,
        task_options={"horizon": 100, "curriculum": CURRICULUM},
        learning_rate=3e-3,
        schedule="cosine",
        steps=3000,
        batch_size=64,
        clip=1.0,
        curriculum_score=0.999,
        evaluate_every=100,
        threads=1,
    )

    def measure(self, run: Path) -> dict[str, Any]:
        model, task, config = load_model(run)
        assert isinstance(task, VariableBinding)
        batch = task.batch(TRIALS, config.seed, 0, "test")
        find = partial(find_variables, model, inputs=batch.inputs, variables=batch.targets)
        at_rest, along_states = find(), find(around="states")
        published = find(number=task.variables, method="published")
        title = f"{task.rule}, {task.variables} x {task.size}: {config.cell} with {config.hidden_size} units"
        page = render_document(title, "", [variables_section(at_rest), citation_section(self.cites)])
        write_atomically(run.parents[1] / "page.html", page.encode())  # the page of the study links to this file
        angles, along = (
            angle_error(found.modes.eigenvalues, task.F.eigenvalues()) for found in (at_rest, along_states)
        )
        return {
            "status": at_rest.status,
            "reason": at_rest.reason,
            "modes": at_rest.modes.count,
            "gap": float(f"{at_rest.modes.gap:.3g}"),
            "variables": at_rest.variables,
            "size": at_rest.size,
            "rank_profile": [] if at_rest.structure is None else at_rest.structure.rank_profile.tolist(),
            "rule_found": at_rest.selection == task.F,
            "angle_error": None if isnan(angles.mean) else angles.mean,
            "angle_error_along_states": None if isnan(along.mean) else along.mean,
            "eigenvalues_missing": angles.missing,
            "eigenvalues_extra": angles.extra,
            **_decoded("decoded", at_rest),
            **_decoded("decoded_along_states", along_states),
            **_decoded("decoded_by_published_way", published),
            "kept": 0.0 if at_rest.trials is None else at_rest.trials.retention,
            "confidence": at_rest.confidence,
            "causal": {test.name.split(" subspaces")[0]: test.score for test in at_rest.tests},
        }


PUBLISHED_TRAINING: dict[str, Any] = {"learning_rate": 1e-3, "schedule": "constant", "steps": 20_000}
"""Settings of the published trainings."""


class SolvedStudy(BindingStudy):
    """Compare trained networks with what the theory predicts for every network that solves the task."""

    def other_recipe(self, trial: Trial) -> str:
        return differing_settings(trial.settings, PUBLISHED_TRAINING)

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        outcomes = [finished.result for finished in finite(trials)]
        ranks = " ".join(f"[{' '.join(map(str, outcome['rank_profile']))}]" for outcome in outcomes)
        found = sum(outcome["rule_found"] for outcome in outcomes)
        gaps, published = (
            listed((outcome[key] for outcome in outcomes), form)
            for key, form in (("gap", ".3g"), ("decoded_by_published_way", ".4g"))
        )

        def row(quantity: str, key: str, form: str, remark: str) -> Row:
            known = [outcome[key] for outcome in outcomes if outcome[key] is not None]
            return self.row(trials, quantity, known, form, remark)

        causal = [min(outcome["causal"].values(), default=0.0) for outcome in outcomes]
        tests = "of six tests; share that behaves as predicted, changes included"
        fitted = "eigenvalues of a linear map fitted to the states"
        at_rest = f"eigenvalues at the fixed point; F found in {found} of {len(outcomes)}"
        return [
            row("variables", "variables", "d", f"rank of the readings {ranks}"),
            row("memory modes", "modes", "d", f"factor to the next score {gaps}"),
            row("mean angle error", "angle_error", ".2g", at_rest),
            row("mean angle error along states", "angle_error_along_states", ".2g", fitted),
            row("signs decoded", "decoded", ".5g", f"by the published method {published}"),
            self.row(trials, "least causal test", causal, ".4g", tests),
            row("size left at the end", "kept", ".3g", "relative size of the decoded variables"),
        ]

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial is trained fully; the theory applies to every network that solves the task."""
        return "steps" not in trial.settings or trial.settings["steps"] >= self.base.steps


def _decoded(name: str, found: Variables) -> dict[str, float]:
    """Return the sign accuracy and R^2 of decoding, as results with these names."""
    right, r2 = (0.0, 0.0) if found.trials is None else (found.trials.sign_accuracy, found.trials.r2)
    return {name: right, f"{name}_r2": r2}


def _size(variables: int, size: int, units: int) -> Subject:
    return about("", "", variables=variables, size=size, units=units, label=f"{variables} x {size}, {units} units")


def _claims(subject: Subject, modes: int, section: str) -> tuple[Claim, ...]:
    """Return the claims of the theory about a network that solves the task."""
    variables = int(subject["variables"] or 0)
    subspaces = PAPER(f"{section}: each variable in its subspace")
    return (
        Claim(subject, "variables", variables, PAPER(section), exactly(variables)),
        Claim(subject, "memory modes", modes, IMPLIED, exactly(modes)),
        Claim(
            subject,
            "signs decoded",
            "all",
            subspaces,
            at_least(0.998, "all but 2 in 1,000 of the signs tested"),
            "higher",
        ),
        Claim(
            subject,
            "least causal test",
            "as predicted",
            IMPLIED,
            at_least(0.99, "all but 1 in 100 of the tests"),
            "higher",
        ),
    )


def _network(variables: int, size: int, hidden: int, rule: str) -> dict[str, Any]:
    return {"hidden_size": hidden, "task_options": {"variables": variables, "size": size, "rule": rule}}


SMOKE: dict[str, Any] = {
    "steps": 150,
    "batch_size": 16,
    "hidden_size": 24,
    "evaluate_every": 50,
    "task_options": {"variables": 2, "size": 2, "horizon": 10, "test_horizon": 20, "curriculum": ""},
}
"""Changes of the preset "smoke"."""


def smoke(**task_options: Any) -> Preset:
    """Return the preset "smoke" with these options of the task."""
    networks = {"2 x 2": {"task_options": task_options}}
    return Preset(
        "Two variables of two bits; checks only that the code runs.", {"networks": networks, "changes": SMOKE}
    )


def _presets(sizes: str, networks: Mapping[Subject, Any], **task_options: Any) -> dict[str, Preset]:
    """Return the presets of a study; `sizes` is the number of its networks, such as "Two"."""
    settings = {"networks": networks, "changes": {}}
    return {
        "smoke": smoke(**task_options),
        "cpu": Preset(f"{sizes} sizes, three seeds each; minutes on one core.", settings, (0, 1, 2)),
        "paper": Preset(f"{sizes} sizes, ten seeds each.", settings, tuple(range(10))),
    }


class RepeatCopy(SolvedStudy):
    """Train networks on repeat copy in three sizes."""

    name = "repeat-copy"
    title = "Repeat copy: variables in a cycle"
    question = "Does a trained network hold each vector in a separate subspace, and pass it from one to the next?"
    networks: Mapping[Subject, dict[str, Any]] = {
        _size(5, 4, 64): _network(5, 4, 64, "repeat"),
        _size(8, 4, 96): _network(8, 4, 96, "repeat"),
        _size(8, 8, 128): _network(8, 8, 128, "repeat"),
    }
    claims = (
        *_claims(_size(5, 4, 64), 20, "section 9"),
        *_claims(_size(8, 4, 96), 32, "section 9"),
        *_claims(_size(8, 8, 128), 64, "section 9"),
    )
    presets = _presets("Three", networks)


class ComposeCopy(SolvedStudy):
    """Train networks on compose copy in two sizes."""

    name = "compose-copy"
    title = "Compose copy: new variables from old ones"
    question = "Does a trained network compose each new vector from the old ones by the boundary map of the theory?"
    networks: Mapping[Subject, dict[str, Any]] = {
        # Without weight decay the units saturate more, and the angles at the fixed point deviate more.
        _size(5, 5, 75): {**_network(5, 5, 75, "compose"), "weight_decay": 1e-3},
        _size(8, 8, 128): _network(8, 8, 128, "compose"),
    }
    claims = (
        *_claims(_size(5, 5, 75), 15, "section 10"),
        *_claims(_size(8, 8, 128), 36, "section 10"),
    )
    presets = _presets("Two", networks, rule="compose")


REPEAT_COPY = RepeatCopy()
COMPOSE_COPY = ComposeCopy()
