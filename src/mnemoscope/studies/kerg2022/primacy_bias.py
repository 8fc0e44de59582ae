"""States that a screened network keeps before any training (Kerg, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope import registry
from mnemoscope.base.torch_state import restored_generators
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.lenses.attention import record_attention
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least
from mnemoscope.replication.claims import Claim, Row, Subject, about, unpublished
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, plain_powers, rounded, spread
from mnemoscope.replication.learning_study import by_name, colours
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = ("relrnn", "rellstm")
SCORES = ("published", "normalised")
FIRST = "of the kept, first ones"
SYMBOLS = "of the symbols, kept"
ALGORITHM_1 = Source("mnemoscope", "follows from Algorithm 1 of Kerg 2022, for equal attention")
BATCH = 10
"""Sequences per recording of attention weights, which take time^2 numbers each."""


def _cases(delay: int, units: int, sequences: int) -> dict[Subject, dict[str, Any]]:
    size = {"delay": delay, "units": units, "sequences": sequences}
    cases = {}
    for task, cell, score in product(("copy", "denoise"), CELLS, SCORES):
        subject = about(cell, task, score=score, label=f"{cell}, {task}, {score} score")
        cases[subject] = {"cell": cell, "task": task, "score": score, **size}
    return cases


class PrimacyBias(ComputedStudy):
    """Record which states untrained networks keep on the copy and the denoise task.

    The relevance of a state is the attention that it receives in its first nu steps. With equal attention, state i,
    counted from 1, receives `sum of 1 / min(t, nu + rho) for t = i .. i + nu - 1`. This falls with i up to nu + rho and
    is constant from there. Hence the first rho states are the most relevant, whatever they contain. In the copy task
    they contain the symbols.
    """

    name = "primacy-bias"
    title = "States that an untrained network keeps"
    question = "Does screening by attention keep the relevant states, or the first ones?"
    claims = tuple(
        Claim(about("", task), FIRST, "all", ALGORITHM_1, at_least(0.9, "nine in ten")) for task in ("copy", "denoise")
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Two networks of each kind with 12 units, to check that the code runs.",
            {"cases": _cases(30, 12, 4)},
            (0, 1),
        ),
        "cpu": Preset(
            "128 units, delay 100, nu = rho = 10; ten networks of each kind, 100 sequences each; a minute.",
            {"cases": _cases(100, 128, 100)},
            tuple(range(10)),
        ),
        "paper": Preset(
            "As cpu, at a delay of 1,000; some minutes.", {"cases": _cases(1000, 128, 100)}, tuple(range(10))
        ),
    }
    cites = ("kerg2020",)
    lenses = ("attention",)
    caption = (
        "Relevance of a state when it leaves the buffer, relative to the mean, against its place in the sequence: "
        "median and range over the networks. Left: published score, with the value for equal attention (dotted). "
        "Right: score normalised by the number of competing states."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        seed = generator.initial_seed()
        task = registry.tasks.load(case["task"])(delay=case["delay"])
        with restored_generators():
            torch.default_generator.manual_seed(seed)
            cell = registry.cells.load(case["cell"])(task.input_size, case["units"], score=case["score"]).double()
        batch = task.batch(case["sequences"], seed, 0, "validation")
        recall = len(batch.inputs) - task.symbols  # the first step at which a symbol is due
        inputs = batch.inputs[: recall + 1]
        records = [record_attention(cell, part) for part in inputs.split(BATCH, dim=1)]
        relevant = torch.cat([record.chosen[-1] for record in records], dim=1)  # (time, batch)
        scores = torch.cat([record.scores for record in records if record.scores is not None], dim=1)
        has_symbol = inputs[..., : task.alphabet].any(-1)
        return {
            "first": torch.cat([record.primacy for record in records]).mean().item(),
            "symbols": ((has_symbol & relevant).sum(0) / task.symbols).mean().item(),
            # only states that left the buffer: the relevance of the others is not final
            "score": rounded(scores[: -cell.past.short_term].mean(1)[: 5 * cell.past.slots]),
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for name, trials in by_name(results).items():
            case = trials[0].trial.settings
            for quantity, key in ((FIRST, "first"), (SYMBOLS, "symbols")):
                values = [each.result[key] for each in trials]
                ours, remark = spread(values, ".2f"), f"mean of {len(values)} networks {mean(values):.3f}"
                if quantity == FIRST and case["score"] == "published":
                    claim = self.claim(quantity, about("", case["task"]))
                    rows.append(self.compare(trials, claim, values, ours, remark, f"{name}: {quantity}"))
                else:
                    rows.append(unpublished(f"{name}: {quantity}", ours, remark))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.6)
        panels = dict(zip(SCORES, figure.subplots(1, 2, sharey=True), strict=True))
        names = dict.fromkeys((each.trial.settings["cell"], each.trial.settings["task"]) for each in results)
        for (cell, task), colour in zip(names, colours(), strict=False):
            for score, axes in panels.items():
                case = {"cell": cell, "task": task, "score": score}
                scores = [each.result["score"] for each in results if case.items() <= each.trial.settings.items()]
                if not scores:
                    continue
                curves = torch.tensor(scores)
                curves = curves / curves.mean(1, keepdim=True)
                places = range(1, 1 + curves.shape[1])
                axes.plot(places, curves.median(0).values, color=colour, label=f"{cell}, {task}")
                axes.fill_between(places, curves.amin(0), curves.amax(0), color=colour, alpha=0.15, linewidth=0)
        equal = torch.tensor(equal_attention(10, 10, max(len(each.result["score"]) for each in results)))
        places = range(1, 1 + len(equal))
        panels["published"].plot(places, equal / equal.mean(), color=COLOUR["ink"], linestyle="dotted")
        for score, axes in panels.items():
            axes.set(xlabel="place in the sequence", xscale="log", yscale="log")
            axes.set_yticks([1, 2, 5])
            axes.set_title(f"{score} score", fontsize=PAGE_FONT_SIZE, color=COLOUR["muted"])
            for axis in (axes.xaxis, axes.yaxis):
                plain_powers(axis)
            style_page_axes(axes)
        panels["published"].set_ylabel("relevance / mean")
        lines, labels = panels["published"].get_legend_handles_labels()
        legend_above(figure, 2, dict(zip(labels, lines, strict=True)))
        return figure


def equal_attention(short_term: int, relevant: int, number: int) -> list[float]:
    """Return the relevance of the first states under equal attention.

    >>> equal_attention(1, 1, 4)
    [1.0, 0.5, 0.5, 0.5]
    """
    most = short_term + relevant
    return [sum(1 / min(t, most) for t in range(i, i + short_term)) for i in range(1, 1 + number)]


STUDY = PrimacyBias()
