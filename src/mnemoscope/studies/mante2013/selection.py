"""Line attractors and selection vectors of networks that decide by context (Mante et al. 2013)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.cells import Model
from mnemoscope.config import PRESETS
from mnemoscope.lenses import Dynamics, Recording
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, at_least, at_most, chosen, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, with_reason
from mnemoscope.replication.learning_study import LearningStudy, by_name, finite
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.replication.verdicts import APART
from mnemoscope.studies.mante2013.figure import draw_selection
from mnemoscope.studies.mante2013.linearisation import (
    Linearisation,
    choice_axis,
    dynamics_of,
    linearise,
    minimise_speed,
    record_grid,
    settled_states,
    slow_line,
)
from mnemoscope.studies.mante2013.recipes import CAUSES, CAUSES_SEEDS, NEAREST, TESTED
from mnemoscope.tasks import ContextDecision
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANTE = partial(Source, "mante2013")
"""Source in the paper, given its place there."""
CLEAR = 3.0
"""Ratio from which one of two numbers counts as clearly larger."""
MOST = 1e4
"""Largest ratio that is kept; it stands for all larger ones."""
DRAWN_SEED = 0
"""Seed whose trajectories are kept for the figure."""
LONGEST = 1e6
"""Time in ms that stands for a value which is held for good."""
DESCENDED = "by descent"
"""Name of the numbers at the slow points that are found as in the source."""


def _claim(quantity: str, value: str, place: str, agreement: Agreement) -> Claim:
    return Claim(EVERYTHING, quantity, value, MANTE(place), agreement)


SLOW = at_least(1.0, "slower than the whole stimulus")
WITHIN_45 = at_least(0.7, "a cosine of 0.7: an angle of 45 degrees")
LARGER = at_least(CLEAR, "clearly larger: three times")
ALIKE = chosen(1 / CLEAR, CLEAR, "alike: neither is three times the other")
CLAIMS = (
    _claim("slowest time constant over the stimulus", "an eigenvalue near 0", "Fig 6", SLOW),
    _claim("slow points with one slow mode", "all", "Fig 6", at_least(0.9, "nine in ten")),
    _claim("line of slow points", "one in each context", "Fig 5", exactly(1, "both")),
    _claim("line along the choice axis", "yes", "Fig 5 and 6", WITHIN_45),
    _claim("lines of both contexts parallel", "yes", "Fig 5 and 6", WITHIN_45),
    _claim("relevant over irrelevant input, kept", "irrelevant orthogonal to selection", "Fig 6", LARGER),
    _claim("relevant over irrelevant input, at once", "not gated", "Fig 5 and 6", ALIKE),
    _claim(
        "irrelevant evidence left after the stimulus",
        "relaxes",
        "Fig 5 and 6",
        at_most(1 / CLEAR, "two thirds are gone"),
    ),
)


class ManteSelection(LearningStudy):
    """Train networks on the context-dependent decision, and analyse their linear dynamics in each context."""

    name = "mante-selection"
    title = "Selection by left eigenvectors"
    question = "Does a network integrate one of two inputs along a line attractor, selected by its left eigenvectors?"
    claims = CLAIMS
    base = PRESETS["context-decision"]
    score = "accuracy"
    score_in_words = "accuracy"
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A small network and seconds of training; checks only that the code runs.",
            {"networks": {"leaky-rnn": {"hidden_size": 8}}, "changes": {"steps": 5}},
        ),
        "cpu": Preset(
            "The preset context-decision, six seeds; minutes on two cores. The published network has 100 units and "
            "steps of 1 ms, and was trained by another method.",
            {"networks": {"leaky-rnn": {}}, "changes": {}},
            tuple(range(6)),
        ),
        "paper": Preset(
            "100 units as published, and steps of 20 ms, in the direction of the published 1 ms; eight seeds; an hour.",
            {"networks": {"leaky-rnn": NEAREST}, "changes": {}},
            tuple(range(8)),
        ),
        "causes": Preset(
            "Trainings that test why the networks of the preset paper differ from the published one: the same again, "
            "and as many trials as published, and with so many trials units twice as fast, eight seeds each; also "
            "noise in the units and errors at both ends only, three and two seeds; half an hour of one core.",
            {"networks": CAUSES, "changes": {}, "seeds": CAUSES_SEEDS},
            tuple(range(8)),
        ),
    }
    cites = ("mante2013", "song2016")
    lenses = ("activity", "slow-manifold")
    caption = (
        "Above: mean trajectories of one network in each context, shaded by the coherence of the relevant input, with "
        "its slow points; the arrow is the selection vector. Below: the numbers of all networks, one mark for each "
        "context."
    )

    def measure(self, run: Path) -> dict[str, Any]:
        model, task, config = load_model(run)
        assert isinstance(task, ContextDecision)
        return analyse(model.eval(), task, picture=config.seed == DRAWN_SEED)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            good = finite(trials)
            rows.append(self.row(trials, "accuracy", [each.result["accuracy"] for each in good], ".3f"))
            for claim in self.claims:
                values = [_measured(claim.quantity, each.result) for each in good]
                row = self.row(trials, claim.quantity, values, ".2f", REMARKS.get(claim.quantity, ""))
                rows.append(_with_cause(row, trials))
            rows += self._rows_by_descent(trials, good)
        return rows

    def _rows_by_descent(self, trials: Sequence[Finished], good: Sequence[Finished]) -> list[Row]:
        """Return rows with the numbers at the slow points of a descent, if all networks have them.

        They test whether claims differ because our slow points are found in another way than those of the source.
        """
        contexts = [each.result["contexts"] for each in good]
        if not contexts or any(DESCENDED not in context for each in contexts for context in each.values()):
            return []
        found = [{name: context[DESCENDED] for name, context in each.items()} for each in contexts]
        rows = []
        for claim in (self.claim(quantity) for quantity in BY_DESCENT):
            values = [_measured(claim.quantity, {"contexts": each}) for each in found]
            within = sum(value in claim.agreement for value in values) if claim.agreement else 0
            remark = f"{within} of {len(values)} within the range of the claim"
            rows.append(self.row(trials, f"{claim.quantity}, at slow points by descent", values, ".2f", remark))
        return rows

    def other_recipe(self, trial: Trial) -> str:
        """Return the published method and time step, which are not ours."""
        optimiser, step = trial.settings["optimiser"], trial.settings["task_options"]["step"]
        return f"{optimiser} with steps of {step:g} ms, not Hessian-free optimisation with steps of 1 ms"

    def as_published(self, trial: Trial) -> bool:
        """Whether the network was trained to the end; its size, step and optimiser differ from the published ones."""
        return _trials_of(trial.settings) >= self.base.steps * self.base.batch_size

    def figure(self, results: Sequence[Finished]) -> Figure:
        return draw_selection([each.result for each in finite(results)])


def _with_cause(row: Row, trials: Sequence[Finished]) -> Row:
    """Return a row of the preset paper with what the preset causes found about its networks, if they differ."""
    tested = all(
        each.trial.name == "leaky-rnn" and each.trial.settings["hidden_size"] == NEAREST["hidden_size"]
        for each in trials
    )
    if row.claim is None or row.verdict not in APART or not tested:
        return row
    return with_reason(row, TESTED[row.claim.quantity]) if row.claim.quantity in TESTED else row


def _trials_of(settings: Mapping[str, Any]) -> int:
    return settings["steps"] * settings["batch_size"]


def analyse(model: Model, task: ContextDecision, *, picture: bool = False) -> dict[str, Any]:
    """Return the numbers of a network in each context, and its trajectories and slow points if they are drawn."""
    recording = record_grid(model, task)
    choice = choice_axis(recording)
    steps = task.steps_of(task.stimulus)
    contexts: dict[str, Any] = {}
    found, pictures = [], []
    for number, name in enumerate(task.labels["context"]):
        part = recording.part(recording.table["context"].values == number)
        dynamics = dynamics_of(model, task, number)
        linear = linearise(dynamics, settled_states(dynamics, part, steps), choice)
        topology, lifetime = slow_line(dynamics, part, steps)
        shape = {"shape": topology, "held for (ms)": _short(min(lifetime * task.step, LONGEST))}
        contexts[name] = shape | _numbers(linear, task, number, choice) | _evidence(part, number)
        contexts[name][DESCENDED] = _by_descent(dynamics, part, task, choice, number)
        found.append(linear)
        pictures.append(_picture(part, linear, task, choice))
    rights, lefts = ([_mean(getattr(each, side)) for each in found] for side in ("right", "left"))
    result = {"contexts": contexts, "parallel": _cosine(*rights), "selection vectors parallel": _cosine(*lefts)}
    return result | ({"picture": pictures} if picture else {})


REMARKS = {
    "slowest time constant over the stimulus": "median over slow points; the worse context",
    "slow points with one slow mode": "share whose slowest mode is 3 times as slow as the next; the worse context",
    "line of slow points": "share of the contexts",
    "line along the choice axis": "cosine of the right eigenvector with the axis of the choice; the worse of the "
    "contexts with a line",
    "lines of both contexts parallel": "cosine between the mean right eigenvectors, if both contexts have a line",
    "relevant over irrelevant input, kept": "ratio of the projections on the selection vector; the worse context",
    "relevant over irrelevant input, at once": "ratio of the projections on the line, geometric mean of the contexts",
    "irrelevant evidence left after the stimulus": "share of its effect at the end of the stimulus; the worse context",
}
"""How each quantity is measured."""


BY_DESCENT = tuple(
    quantity
    for quantity in REMARKS
    if quantity
    not in ("line of slow points", "lines of both contexts parallel", "irrelevant evidence left after the stimulus")
)
"""Quantities that follow from the slow points of each context."""


def _measured(quantity: str, result: Mapping[str, Any]) -> float:
    """Return one number for a network: that of the context which agrees less with the claim, NaN if one is unknown."""
    contexts = list(result["contexts"].values())
    if None in contexts:
        return float("nan")

    def of(name: str) -> list[float]:
        return [float("nan") if each[name] is None else each[name] for each in contexts]

    lines = [each.get("shape", "line") == "line" for each in contexts]  # a descent finds points, without their shape
    match quantity:
        case "slowest time constant over the stimulus":
            return float(np.min(of("slowest over stimulus")))
        case "slow points with one slow mode":
            return float(np.min(of("share with one slow mode")))
        case "line of slow points":
            return sum(lines) / len(lines)
        case "line along the choice axis":
            cosines = [cosine for cosine, line in zip(of("cosine with choice"), lines, strict=True) if line]
            return float(np.min(cosines)) if cosines else float("nan")
        case "lines of both contexts parallel":
            return result["parallel"] if all(lines) and result["parallel"] is not None else float("nan")
        case "relevant over irrelevant input, kept":
            return float(np.min(of("kept")))
        case "relevant over irrelevant input, at once":
            first, second = of("at once")
            return (first * second) ** 0.5
        case "irrelevant evidence left after the stimulus":
            return float(np.max(of("irrelevant left")))
    raise LookupError(f"No measurement is called {quantity!r}.")


def _numbers(linear: Linearisation, task: ContextDecision, context: int, choice: Tensor) -> dict[str, Any]:
    """Return the numbers of the linear dynamics in one context; medians over slow points, None if no mode is real."""
    constants = linear.time_constants
    apart = constants[:, 0] / constants[:, 1]
    real = ~linear.left.isnan().any(1)
    inputs = [task.input_names.index(name) for name in task.stimulus_names]
    gains, direct = (sizes[real][:, inputs].abs() for sizes in (linear.gains, linear.direct))
    known = bool(real.any())
    return {
        "speed": _short(linear.speeds.median()),
        "slowest (ms)": _short(task.step * constants[:, 0].median()),
        "next (ms)": _short(task.step * constants[:, 1].median()),
        "slowest over stimulus": _short((constants[:, 0].median() / task.steps_of(task.stimulus)).clamp_max(MOST)),
        "share with one slow mode": _short((apart >= CLEAR).double().mean()),
        "share real": _short(real.double().mean()),
        "cosine with choice": _short((linear.right[real] @ choice.to(linear.right)).median()) if known else None,
        "kept": _ratio(gains, context) if known else None,
        "at once": _ratio(direct, context) if known else None,
    }


def _by_descent(
    dynamics: Dynamics, part: Recording, task: ContextDecision, choice: Tensor, context: int
) -> dict[str, Any] | None:
    """Return the numbers at the slow points that the method of the source finds; None if it finds none."""
    points = minimise_speed(dynamics, part, task.steps_of(task.stimulus))
    return _numbers(linearise(dynamics, points, choice), task, context, choice) if len(points) else None


def _ratio(sizes: Tensor, relevant: int) -> float:
    typical = sizes.median(0).values
    return _short((typical[relevant] / typical[1 - relevant].clamp_min(1e-12)).clamp_max(MOST))


def _evidence(part: Recording, context: int) -> dict[str, float]:
    """Return how much of the effect of each input at the end of the stimulus is left at the end of the trial."""
    at_end, later = (_effects(part.in_epoch(epoch).activity[-1], part) for epoch in ("stimulus", "response"))
    left = later / at_end
    return {"relevant left": _short(left[context]), "irrelevant left": _short(left[1 - context])}


def _effects(states: Tensor, part: Recording) -> Tensor:
    """Return the length of the regression coefficients of the states on motion and colour."""
    columns = [part.table[name].values for name in ("motion", "colour")]
    design = torch.stack([*columns, torch.ones_like(columns[0])], 1)
    return torch.linalg.lstsq(design, states).solution[:2].norm(dim=1)


def _mean(vectors: Tensor) -> Tensor:
    """Return the mean of those vectors that are known, of unit length; NaN where none is."""
    mean = vectors[~vectors.isnan().any(1)].sum(0)
    return mean / mean.norm()


def _cosine(first: Tensor, second: Tensor) -> float | None:
    """Return the cosine of two means; None where the slowest mode rotates at all points of a context."""
    cosine = first @ second
    return None if bool(cosine.isnan()) else _short(cosine)


def _picture(part: Recording, linear: Linearisation, task: ContextDecision, choice: Tensor) -> dict[str, Any]:
    """Return mean trajectories and slow points along the choice axis and the axis of each input, and the selection."""
    axes = [choice.to(linear.right)]
    for name in task.stimulus_names:
        axis = linear.effects[:, task.input_names.index(name)].clone()
        for other in axes:
            axis -= (axis @ other) * other
        axes.append(axis / axis.norm())
    frame = torch.stack(axes, 1)
    centre = linear.points.mean(0)
    context = int(part.table["context"].values[0])
    means = part.average(task.stimulus_names[context])
    selection = _mean(linear.left) @ frame
    return {
        "coherences": means.table[task.stimulus_names[context]].values.tolist(),
        "paths": _rounded((means.activity.to(frame) - centre) @ frame),
        "points": _rounded((linear.points - centre) @ frame),
        "selection": None if bool(selection.isnan().any()) else _rounded(selection),
    }


def _rounded(values: Tensor) -> Any:
    return (values * 100).round().div(100).tolist()


def _short(value: Tensor | float) -> float:
    return float(f"{float(value):.4g}")


STUDY: Study = ManteSelection()
