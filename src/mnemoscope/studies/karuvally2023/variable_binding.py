"""Networks trained to bind variables: what they learn, and whether their memories are those of the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

from mnemoscope.config.run_config import RunConfig
from mnemoscope.lenses import Variables, find_variables
from mnemoscope.lenses.variables import angle_error
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.learning import LearningStudy
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.report.document import render_document
from mnemoscope.report.provenance import citation_section
from mnemoscope.report.variables import variables_section
from mnemoscope.tasks import VariableBinding
from mnemoscope.training import load_model

TRIALS = 256
CURRICULUM = "10 20 40 60"
LEARNED = 0.99
"""Share of bits from which on a network has learned its task."""


class BindingStudy(LearningStudy):
    """Train on a task of variable binding; then read the variables off the weights and test them."""

    score = "accuracy"
    score_in_words = "bits right"
    caption = "Share of bits right in tests, while learning: median and range of the seeds."
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
        look = partial(find_variables, model, inputs=batch.inputs, variables=batch.targets)
        seen, fitted, by_powers = look(), look(around="states"), look(number=task.variables, method="published")
        title = f"{task.rule}, {task.variables} x {task.size}: {config.cell} with {config.hidden_size} units"
        page = render_document(title, "", [variables_section(seen), citation_section(self.cites)])
        (run.parents[1] / "page.html").write_text(page, encoding="utf-8")  # the trial's: the study's page links to it
        angles, along = (angle_error(one.modes.eigenvalues, task.F.eigenvalues()) for one in (seen, fitted))
        return {
            "status": seen.status,
            "reason": seen.reason,
            "modes": seen.modes.count,
            "gap": float(f"{seen.modes.gap:.3g}"),
            "variables": seen.variables,
            "size": seen.size,
            "rank_profile": [] if seen.structure is None else seen.structure.rank_profile.tolist(),
            "rule_found": seen.selection == task.F,
            "angle_error": None if isnan(angles.mean) else angles.mean,
            "angle_error_along_states": None if isnan(along.mean) else along.mean,
            "eigenvalues_missing": angles.missing,
            "eigenvalues_extra": angles.extra,
            **_decoded("decoded", seen),
            **_decoded("decoded_along_states", fitted),
            **_decoded("decoded_by_published_way", by_powers),
            "kept": 0.0 if seen.trials is None else seen.trials.retention,
            "confidence": seen.confidence,
            "causal": {test.name.split(" subspaces")[0]: test.score for test in seen.tests},
        }


class SolvedStudy(BindingStudy):
    """What the theory says of any network that solves the task, beside what is found in trained ones."""

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        whole = [one.result for one in trials if "failed" not in one.result]
        causal = [min([*one["causal"].values()], default=0.0) for one in whole]
        remarks = " ".join(f"[{' '.join(map(str, one['rank_profile']))}]" for one in whole)
        found = sum(one["rule_found"] for one in whole)
        return [
            self.row(trials, "variables", [one["variables"] for one in whole], "d", f"rank of the readings {remarks}"),
            self.row(
                trials,
                "memory modes",
                [one["modes"] for one in whole],
                "d",
                "next score lower by " + ", ".join(f"{one['gap']:.3g}" for one in whole),
            ),
            self.row(
                trials,
                "mean angle error",
                _known(one["angle_error"] for one in whole),
                ".2g",
                f"eigenvalues where it rests; F found in {found} of {len(whole)}",
            ),
            self.row(
                trials,
                "mean angle error along states",
                _known(one["angle_error_along_states"] for one in whole),
                ".2g",
                "of a linear step fitted to the states",
            ),
            self.row(
                trials,
                "signs decoded",
                [one["decoded"] for one in whole],
                ".5g",
                "by the published way " + ", ".join(f"{one['decoded_by_published_way']:.4g}" for one in whole),
            ),
            self.row(trials, "least causal test", causal, ".4g", "of six; as predicted, also of what should change"),
            self.row(trials, "size left at the end", [one["kept"] for one in whole], ".3g", "of what is decoded"),
        ]

    def as_published(self, trial: Trial) -> bool:
        """The theory speaks of every network that solves the task."""
        return "steps" not in trial.settings or trial.settings["steps"] >= self.base.steps


def _decoded(name: str, seen: Variables) -> dict[str, float]:
    right, r2 = (0.0, 0.0) if seen.trials is None else (seen.trials.sign_accuracy, seen.trials.r2)
    return {name: right, f"{name}_r2": r2}


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


def _size(variables: int, size: int, units: int) -> Subject:
    return about("", "", variables=variables, size=size, units=units, label=f"{variables} x {size}, {units} units")


def _claims(subject: Subject, modes: int, section: str, angle: float | None = None) -> tuple[Claim, ...]:
    """Return what the theory states about a network that solves the task; `angle` is the published mean angle error."""
    variables = int(subject["variables"] or 0)
    published = []
    if angle is not None:
        table = Source("karuvally2023", "Table 1: 8 x 8, 128 units, no L2")
        published = [Claim(subject, "mean angle error", f"{angle:g}", table, (0, angle), better="lower")]
    theory = Source("karuvally2023", section)
    cycles = Source("karuvally2023", f"{section}; the cycles of F")
    subspaces = Source("karuvally2023", f"{section}: each variable in its subspace")
    implied = Source("karuvally2023", "what the theory implies")
    return (
        Claim(subject, "variables", variables, theory, (variables, variables)),
        Claim(subject, "memory modes", modes, cycles, (modes, modes)),
        *published,
        Claim(subject, "signs decoded", "all", subspaces, (0.998, 1), better="higher"),
        Claim(subject, "least causal test", "as predicted", implied, (0.99, 1), better="higher"),
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


class RepeatCopy(SolvedStudy):
    """Repeat copy in three sizes."""

    name = "repeat-copy"
    title = "Repeat copy: variables that go round"
    question = "Does a trained network hold each vector in a subspace of its own, and pass it on from one to the next?"
    networks: Mapping[Subject, dict[str, Any]] = {
        _size(5, 4, 64): _network(5, 4, 64, "repeat"),
        _size(8, 4, 96): _network(8, 4, 96, "repeat"),
        _size(8, 8, 128): _network(8, 8, 128, "repeat"),
    }
    claims = (
        *_claims(_size(5, 4, 64), 20, "section 9"),
        *_claims(_size(8, 4, 96), 32, "section 9"),
        *_claims(_size(8, 8, 128), 64, "section 9", 0.0005),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Two variables of two bits: it shows that the machinery works.",
            {"networks": {"2 x 2": {}}, "changes": SMOKE},
        ),
        "cpu": Preset(
            "Three sizes, three seeds each, some minutes on one core.", {"networks": networks, "changes": {}}, (0, 1, 2)
        ),
        "paper": Preset("Three sizes, ten seeds each.", {"networks": networks, "changes": {}}, tuple(range(10))),
    }


class ComposeCopy(SolvedStudy):
    """Compose copy in two sizes."""

    name = "compose-copy"
    title = "Compose copy: new variables of old ones"
    question = "Does a trained network make each new vector of the old ones by the boundary map of the theory?"
    networks: Mapping[Subject, dict[str, Any]] = {
        # Without weight decay it saturates more, and its angles at the fixed point are further off.
        _size(5, 5, 75): {**_network(5, 5, 75, "compose"), "weight_decay": 1e-3},
        _size(8, 8, 128): _network(8, 8, 128, "compose"),
    }
    claims = (
        *_claims(_size(5, 5, 75), 15, "section 10"),
        *_claims(_size(8, 8, 128), 36, "section 10", 0.0055),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Two variables of two bits: it shows that the machinery works.",
            {
                "networks": {"2 x 2": {}},
                "changes": {**SMOKE, "task_options": {**SMOKE["task_options"], "rule": "compose"}},
            },
        ),
        "cpu": Preset(
            "Two sizes, three seeds each, some minutes on one core.", {"networks": networks, "changes": {}}, (0, 1, 2)
        ),
        "paper": Preset("Two sizes, ten seeds each.", {"networks": networks, "changes": {}}, tuple(range(10))),
    }


REPEAT_COPY = RepeatCopy()
COMPOSE_COPY = ComposeCopy()
