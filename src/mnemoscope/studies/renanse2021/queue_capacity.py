"""Memory of matrix networks with a queue of past states: published and exact (Renanse et al. 2021, Fig 3-4).

Theorem 4 is about one slot of weight 1. Then every mode l of the step has the roots of `z^2 - l z - 1`, whose product
is -1: one of them is on the unit circle or outside, so noise accumulates and sums over passes through the queue do not
converge. The study compares the theorem's sum, truncated after some passes, with the memory of such a network after a
finite number of steps, and with queues that are stable.

For a normal network, the theorem's sum is below `|W|^2` for any number of passes: a pass multiplies a mode of the
signal by `1 / (1 - l m)` and the variance of its noise by `1 / ((1 - |l|^2)(1 - |m|^2))`, which is never less than the
square of the former. The sum grows as in the figures only if noise is counted fewer times than the signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import MatrixSystem, fisher_memory
from mnemoscope.lenses.fisher.stein import UnstableError
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, at_least, at_most, chosen
from mnemoscope.replication.claims import Claim, Row, about, unpublished
from mnemoscope.replication.computed_study import (
    ComputedStudy,
    legend_above,
    plain_powers,
    rank_correlation,
    rounded,
    spread,
)
from mnemoscope.replication.linear_networks import random_general, random_normal, random_source
from mnemoscope.replication.study import Finished, Preset, listed
from mnemoscope.replication.verdicts import Obstacle, not_compared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PASSES = (0, 1, 2, 4, 8, 16)
"""Passes through the queue that the published sum keeps."""
HORIZONS = (2, 4, 8, 16, 32)
"""Steps after which the exact totals are computed."""
RADIUS = 0.8
"""Spectral radius of U and V: sum |alpha| + 0.64 < 1 keeps a queue stable. Nearer to 1, 16 passes overflow float64."""
WEIGHT = 0.3
"""Sum of the weights of a stable queue."""
PAPER, DERIVED = partial(Source, "renanse2021"), partial(Source, "mnemoscope")
RANKED = 30
"""Networks of weight 1 in the preset paper."""
WEIGHT_1, TRACE = about("weight 1"), "tr(Q J_spatial) = (p + 1) N^2"


def _near(value: float) -> Agreement:
    return chosen(value - 1e-8, value + 1e-8, "an equality, up to rounding")


def sum_of_passes(system: MatrixSystem, passes: int) -> Float[Tensor, "rows columns"]:
    """Return the signal W after passes through the queue, Eq 42: `sum_m D_m`, `D_m = U^T D_m V + D_(m-1)`, `D_0 = W`.

    >>> half = torch.full((1, 1), 0.5)
    >>> sum_of_passes(MatrixSystem(half, half, torch.ones(1, 1)), 1).item()  # 1 + 1 / (1 - 0.25)
    2.333333333333333
    """
    past = torch.kron(system.U.mT.contiguous(), system.V.mT.contiguous())
    step = torch.eye(system.W.numel(), dtype=system.W.dtype) - past
    term = total = system.W.flatten()
    for _ in range(passes):
        term = torch.linalg.solve(step, term)
        total = total + term
    return total.view(system.shape)


def _cases(sizes: Sequence[int], slots: Sequence[int], general: Sequence[int]) -> dict[str, dict[str, Any]]:
    stable = [("normal", size) for size in sizes] + [("general", size) for size in general]
    weighted = [("sum 1", size) for size in sizes] + stable
    return {f"weight 1, N = {size}": {"kind": "as published", "size": size} for size in sizes} | {
        f"{kind}, N = {size}, p = {p}": {"kind": kind, "size": size, "slots": p}
        for kind, size in weighted
        for p in slots
    }


class QueueCapacity(ComputedStudy):
    """Compute the published sum for several numbers of passes, and the exact totals."""

    name = "queue-capacity"
    title = "What a queue of past states adds"
    question = "Does one slot of external memory multiply the capacity of a matrix network?"
    claims = (
        Claim(
            WEIGHT_1,
            "spectral radius",
            "below 1, tacitly",
            PAPER("Eq 37-40: sums over the past"),
            agreement=at_most(1 - 1e-9, "an inequality"),
            reason="the roots of z^2 - l z - 1 have the product -1",
        ),
        Claim(
            WEIGHT_1,
            "published, 16 passes / none",
            "blows up",
            PAPER("Fig 3-4"),
            agreement=at_least(2.0, "our reading of 'blows up': it doubles at least"),
            reason="it grows only if noise is counted fewer times than the signal",
        ),
        Claim(
            WEIGHT_1,
            "whole queue / no queue",
            "at most 4",
            PAPER("3.2"),
            at_most(4, "an inequality"),
            by_construction=True,
        ),
        Claim(
            about("weights that sum to 1"),
            "spectral radius",
            "below 1, tacitly",
            PAPER("Eq 35-36: the general queue, sums over the past"),
            agreement=at_most(1 - 1e-9, "an inequality"),
            reason="the queue alone has the root 1, as its weights sum to 1, and the step moves modes beyond it",
        ),
        Claim(
            about("stable, normal"),
            "newest matrix, most slots / one slot",
            "increases with the number of slots",
            PAPER("3.2.2"),
            agreement=at_least(1 + 1e-8, "an increase beyond rounding"),
            reason="the newest matrix of a normal network holds |W|^2 with any queue",
        ),
        Claim(
            WEIGHT_1,
            "rank correlation of the published total, 16 passes, with N",
            "no relation between the capacities of different numbers of neurons",
            PAPER("Fig 4"),
            chosen(-0.37, 0.37, f"two standard errors of the rank correlation of {RANKED} networks"),
        ),
        Claim(WEIGHT_1, "newest matrix", "1", DERIVED("|W|^2, as for every normal network"), _near(1)),
        Claim(WEIGHT_1, "whole queue", "2", DERIVED("(p + 1) |W|^2"), _near(2)),
        Claim(about("stable, normal"), "newest matrix", "1", DERIVED("|W|^2"), _near(1)),
        Claim(about("stable, normal"), "whole queue / (p + 1)", "1", DERIVED("(p + 1) |W|^2"), _near(1)),
        Claim(
            about("stable, general"), "whole / ((p + 1) N^2)", "at most 1", DERIVED(TRACE), at_most(1, "an inequality")
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Networks of 3 units a side.", {"cases": _cases((3,), (1, 2), (3,))}),
        "cpu": Preset(
            "3, 5 and 10 units a side, one to four slots, three seeds; some seconds.",
            {"cases": _cases((3, 5, 10), (1, 2, 3, 4), (3, 5))},
            (0, 1, 2),
        ),
        "paper": Preset(
            "3 to 15 units a side (225 units, as in Fig 3), one to four slots, five seeds; minutes.",
            {"cases": _cases((3, 4, 5, 10, 14, 15), (1, 2, 3, 4), (3, 5, 8))},
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("renanse2021", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "Left: one slot of weight 1, one line per network, over the passes through the queue that the published sum "
        "keeps or, for the exact totals, over the steps since the start. Right: stable queues, exact. Lines: p + 1 and "
        "1. Dots: normal networks. Crosses: general networks."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        size, draw = case["size"], random_general if case["kind"] == "general" else random_normal
        U, V = draw(size, RADIUS, generator), draw(size, RADIUS, generator)
        W = random_source(size, generator)
        if case["kind"] == "as published":
            return _queue_of_weight_1(MatrixSystem(U, V, W, alpha=(1.0,)))
        weights = torch.rand(case["slots"], generator=generator, dtype=torch.float64) + 0.5
        if case["kind"] == "sum 1":
            alpha = (weights / weights.sum()).tolist()
            return {"radius": MatrixSystem(U, V, W, alpha=alpha).map().radius(), "alpha": alpha}
        signs = torch.randint(2, (case["slots"],), generator=generator) * 2 - 1
        alpha = (WEIGHT * signs * weights / weights.sum()).tolist()
        whole, newest = (fisher_memory(MatrixSystem(U, V, W, alpha=alpha), observed=seen) for seen in ("all", "newest"))
        return {"whole": float(whole.total), "newest": float(newest.total), "alpha": alpha}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        weight_1, sum_1, normal, general = (
            [run for run in results if run.trial.settings["kind"] == kind]
            for kind in ("as published", "sum 1", "normal", "general")
        )
        published, signal_alone = (
            {passes: [run.result[key][place] for run in weight_1] for place, passes in enumerate(PASSES)}
            for key in ("published", "signal_alone")
        )
        sizes = [run.trial.settings["size"] for run in weight_1]
        growth = [last / first for first, last in zip(published[0], published[PASSES[-1]], strict=True)]
        refused = sum(run.result["refused"] for run in weight_1)
        ratios = [run.result["whole"][-1] / run.result["without"] for run in weight_1]
        exact_newest, exact_whole = (
            [value for run in weight_1 for value in run.result[key]] for key in ("newest", "whole")
        )
        after = f"after {listed(HORIZONS[:-1])} and {HORIZONS[-1]} steps"
        slots = [run.trial.settings["slots"] for run in normal]
        per_slot = [run.result["whole"] / (p + 1) for run, p in zip(normal, slots, strict=True)]
        bounds = [(run.trial.settings["slots"] + 1) * run.trial.settings["size"] ** 2 for run in general]
        shares = [run.result["whole"] / bound for run, bound in zip(general, bounds, strict=True)]
        newest, whole = (spread([run.result[key] for run in general]) for key in ("newest", "whole"))
        measured = [
            (
                weight_1,
                [run.result["radius"] for run in weight_1],
                f"refused as unstable: {refused} of {len(weight_1)}",
            ),
            (weight_1, growth, "it falls; for normal networks it cannot exceed 1"),
            (weight_1, ratios, "the newest matrix alone: 1"),
            (sum_1, [run.result["radius"] for run in sum_1], "positive weights drawn at random"),
            (normal, _gain_by_slots(normal), f"whole queue: {spread(_gain_by_slots(normal, 'whole'))}"),
            (weight_1, [rank_correlation(sizes, published[PASSES[-1]])], f"{len(weight_1)} networks"),
            (weight_1, exact_newest, after),
            (weight_1, exact_whole, after),
            (normal, [run.result["newest"] for run in normal], f"{len(normal)} networks"),
            (normal, per_slot, f"p = {spread(slots, 'd')}"),
            (general, shares, f"newest {newest}, whole {whole}"),
        ]
        rows = [
            self.compare(trials, claim, values, spread(values, ".4g" if "radius" in claim.quantity else ".3g"), remark)
            for claim, (trials, values, remark) in zip(self.claims, measured, strict=True)
            if trials and not any(map(isnan, values))
        ]
        if len(weight_1) < RANKED:
            few = not_compared(Obstacle.UNDECIDED, f"the range is for {RANKED} networks")
            rows = [replace(row, judgement=few) if "rank correlation" in row.quantity else row for row in rows]
        if not weight_1:
            return rows
        by_passes = [
            unpublished(
                f"weight 1: published, {passes} pass{'es' if passes > 1 else ''}",
                spread(published[passes]),
                f"without noise in the passes: {spread(signal_alone[passes])}",
            )
            for passes in PASSES[1:]
        ]
        place = sum(row.quantity.startswith(("weight 1: ", "weights that")) for row in rows[:8])
        return [*rows[:place], *by_passes, *rows[place:]]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.0)
        left, right = figure.subplots(1, 2)
        weight_1 = [run for run in results if run.trial.settings["kind"] == "as published"]
        drawn = {
            "signal_alone": (PASSES, "published, no noise in passes", "saddle-1", "dotted"),
            "whole": (HORIZONS, "exact, whole queue", "stable", "solid"),
            "newest": (HORIZONS, "exact, newest matrix", "slow", "solid"),
            "published": (PASSES, "published", "unstable", "dashed"),
        }
        for place, run in enumerate(weight_1):
            for name, (x, label, colour, linestyle) in drawn.items():
                style = {"color": COLOUR[colour], "linestyle": linestyle, "linewidth": 1.2}
                left.plot(x, run.result[name], label=None if place else label, **style)
        left.set(xlabel="passes kept, or steps", ylabel="total", yscale="log", ylim=(1e-3, 1e7), xlim=(0, 33))
        legend_above(figure, 2)
        plain_powers(left.yaxis)
        slots = [run.trial.settings.get("slots", 0) for run in results]
        ends = [0.7, max(slots) + 0.3]
        right.plot(ends, [ends[0] + 1, ends[1] + 1], color=COLOUR["line"], linewidth=1)
        right.plot(ends, [1, 1], color=COLOUR["line"], linewidth=1)
        for run in results:
            p = run.trial.settings.get("slots", 0)
            place, marker = (p + 0.12, "x") if run.trial.settings["kind"] == "general" else (p, "o")
            drawn_right = p and run.trial.settings["kind"] != "sum 1"
            for name, colour in (("whole", "stable"), ("newest", "slow")) if drawn_right else ():
                right.plot(place, run.result[name], marker, color=COLOUR[colour], markersize=5)
        right.set(xlabel="slots, p", ylim=(0, None))
        right.set_xticks(sorted({p for p in slots if p}))
        for axes in (left, right):
            style_page_axes(axes)
        return figure


def _gain_by_slots(normal: Sequence[Finished], observed: str = "newest") -> list[float]:
    """Return the memory with the most slots, divided by that with one, for each size and seed."""
    runs: dict[tuple[int, int], dict[int, float]] = {}
    for run in normal:
        key = run.trial.settings["size"], run.trial.seed
        runs.setdefault(key, {})[run.trial.settings["slots"]] = run.result[observed]
    return [by_slots[max(by_slots)] / by_slots[min(by_slots)] for by_slots in runs.values()]


def _queue_of_weight_1(system: MatrixSystem) -> dict[str, Any]:
    """Return the published sums and the exact totals after some steps, for a queue of one slot and weight 1."""
    try:
        fisher_memory(system)
        refused = False
    except UnstableError:
        refused = True
    signals = [MatrixSystem(system.U, system.V, sum_of_passes(system, passes)) for passes in PASSES]
    without_noise = [fisher_memory(signal, method="published").total for signal in signals]
    published = [fisher_memory(system, method="published", terms=passes).total for passes in PASSES]
    exact = {
        seen: [fisher_memory(system, observed=seen, horizon=steps).total for steps in HORIZONS]
        for seen in ("all", "newest")
    }
    return {
        "radius": system.map().radius(),
        "without": float(fisher_memory(MatrixSystem(system.U, system.V, system.W)).total),
        "refused": refused,
        "published": rounded(torch.stack(published)),
        "signal_alone": rounded(torch.stack(without_noise)),
        "whole": torch.stack(exact["all"]).tolist(),
        "newest": torch.stack(exact["newest"]).tolist(),
    }


STUDY = QueueCapacity()
