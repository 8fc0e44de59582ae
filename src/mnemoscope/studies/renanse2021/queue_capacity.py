"""Matrix networks with a queue of past states: what is artefact, and what is true (Renanse et al. 2021, Fig 3-4).

Theorem 4 is about one slot of weight 1. Then every mode l of the step has the roots of `z^2 - l z - 1`, whose product
is -1: one of them is on the unit circle or outside, noise piles up, and sums over passes through the queue do not
converge. What the theorem gives, cut off after some passes, is put beside what such a network holds after a finite
number of steps, and beside queues that are stable.

Of a normal network the theorem's sums, however many passes are kept, give less than `|W|^2`: a pass multiplies a mode
of the signal by `1 / (1 - l m)` and the variance of its noise by `1 / ((1 - |l|^2)(1 - |m|^2))`, which is never less
than the square of the former. To blow up, as in the figures, noise must be counted fewer times than the signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import MatrixSystem, fisher_memory
from mnemoscope.lenses.fisher.stein import UnstableError
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.computing import ComputedStudy, legend_above, plain_powers, rounded, spread
from mnemoscope.replication.linear_networks import random_general, random_normal, random_source
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PASSES = (0, 1, 2, 4, 8, 16)
HORIZONS = (2, 4, 8, 16, 32)
RADIUS = 0.8
"""Of U and V: sum |alpha| + 0.64 < 1 keeps a queue stable. Nearer to 1, 16 passes are beyond float64."""
WEIGHT = 0.3
"""Sum of the weights of a stable queue."""
EXACT = 1e-8
HUGE = 1e30


def passed(system: MatrixSystem, passes: int) -> Float[Tensor, "rows columns"]:
    """What passes through the queue leave of W by Eq 42: `sum_m D_m`, `D_m = U^T D_m V + D_(m-1)`, `D_0 = W`.

    >>> half = torch.full((1, 1), 0.5)
    >>> passed(MatrixSystem(half, half, torch.ones(1, 1)), 1).item()  # 1 + 1 / (1 - 0.25)
    2.333333333333333
    """
    step = torch.eye(system.W.numel(), dtype=system.W.dtype) - torch.kron(
        system.U.mT.contiguous(), system.V.mT.contiguous()
    )
    once = everything = system.W.flatten()
    for _ in range(passes):
        once = torch.linalg.solve(step, once)
        everything = everything + once
    return everything.view(system.shape)


def _cases(sizes: Sequence[int], slots: Sequence[int], general: Sequence[int]) -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = {
        f"weight 1, N = {size}": {"kind": "as published", "size": size} for size in sizes
    }
    for kind, own in (("normal", sizes), ("general", general)):
        cases |= {
            f"{kind}, N = {size}, p = {p}": {"kind": kind, "size": size, "slots": p} for size in own for p in slots
        }
    return cases


class QueueCapacity(ComputedStudy):
    """The published sum by the number of passes it keeps, and exact totals."""

    name = "queue-capacity"
    title = "What a queue of past states adds"
    question = "Does one slot of external memory multiply the capacity of a matrix network?"
    claims = (
        Claim(
            about("weight 1"),
            "spectral radius",
            "below 1, tacitly",
            Source("renanse2021", "Eq 37-40: sums over the past"),
            tolerance=(0, 1 - 1e-9),
            reason="the roots of z^2 - l z - 1 have the product -1",
        ),
        Claim(
            about("weight 1"),
            "published, 16 passes / none",
            "blows up",
            Source("renanse2021", "Fig 3-4"),
            tolerance=(1, HUGE),
            reason="it would if noise were counted fewer times than the signal",
        ),
        Claim(about("weight 1"), "whole queue / no queue", "at most 4", Source("renanse2021", "3.2"), tolerance=(0, 4)),
        Claim(
            about("weight 1"),
            "newest matrix",
            "1",
            Source("mnemoscope", "|W|^2, as for every normal network"),
            tolerance=(1 - EXACT, 1 + EXACT),
        ),
        Claim(
            about("weight 1"),
            "whole queue",
            "2",
            Source("mnemoscope", "(p + 1) |W|^2"),
            tolerance=(2 - EXACT, 2 + EXACT),
        ),
        Claim(
            about("stable, normal"),
            "newest matrix",
            "1",
            Source("mnemoscope", "|W|^2"),
            tolerance=(1 - EXACT, 1 + EXACT),
        ),
        Claim(
            about("stable, normal"),
            "whole queue / (p + 1)",
            "1",
            Source("mnemoscope", "(p + 1) |W|^2"),
            tolerance=(1 - EXACT, 1 + EXACT),
        ),
        Claim(
            about("stable, general"),
            "whole / ((p + 1) N^2)",
            "at most 1",
            Source("mnemoscope", "tr(Q J_spatial) = (p + 1) N^2"),
            tolerance=(0, 1),
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
        "Left: one slot of weight 1, a line per network, by the passes through the queue that the published sum keeps, "
        "or, for the exact totals, the steps since the start. Right: stable queues, exact; lines: p + 1 and 1; dots: "
        "normal networks, crosses: general ones."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        size, draw = case["size"], random_general if case["kind"] == "general" else random_normal
        U, V = draw(size, RADIUS, generator), draw(size, RADIUS, generator)
        W = random_source(size, generator)
        if case["kind"] == "as published":
            return _of_weight_1(MatrixSystem(U, V, W, alpha=(1.0,)))
        weights = torch.rand(case["slots"], generator=generator, dtype=torch.float64) + 0.5
        signs = torch.randint(2, (case["slots"],), generator=generator) * 2 - 1
        alpha = (WEIGHT * signs * weights / weights.sum()).tolist()
        whole, newest = (fisher_memory(MatrixSystem(U, V, W, alpha=alpha), observed=seen) for seen in ("all", "newest"))
        return {"whole": float(whole.total), "newest": float(newest.total), "alpha": alpha}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        def row(
            number: int, trials: Sequence[Finished], measured: Sequence[float], remark: str, form: str = ".3g"
        ) -> Row:
            return self.row(trials, self.claims[number], measured, spread(measured, form), remark)

        old, normal, general = (
            [one for one in results if one.trial.settings["kind"] == kind]
            for kind in ("as published", "normal", "general")
        )
        told = {passes: [one.result["published"][place] for one in old] for place, passes in enumerate(PASSES)}
        alone = {passes: [one.result["signal_alone"][place] for one in old] for place, passes in enumerate(PASSES)}
        growth = [last / first for first, last in zip(told[0], told[PASSES[-1]], strict=True)]
        refused = sum(one.result["refused"] for one in old)
        bounds = [(one.trial.settings["slots"] + 1) * one.trial.settings["size"] ** 2 for one in general]
        return [
            row(0, old, [one.result["radius"] for one in old], f"refused as unstable: {refused} of {len(old)}", ".4g"),
            row(1, old, growth, "it falls; for normal networks it cannot exceed 1"),
            row(2, old, [one.result["whole"][-1] / one.result["without"] for one in old], "the newest matrix alone: 1"),
            row(3, old, [value for one in old for value in one.result["newest"]], f"after {_listed(HORIZONS)} steps"),
            row(4, old, [value for one in old for value in one.result["whole"]], f"after {_listed(HORIZONS)} steps"),
            *(
                Row(
                    f"weight 1: published, {passes} pass{'es' if passes > 1 else ''}",
                    "not told",
                    spread(told[passes]),
                    remark=f"with the noise not passed: {spread(alone[passes])}",
                )
                for passes in PASSES[1:]
            ),
            row(5, normal, [one.result["newest"] for one in normal], f"{len(normal)} networks"),
            row(
                6,
                normal,
                [one.result["whole"] / (one.trial.settings["slots"] + 1) for one in normal],
                f"p = {spread([one.trial.settings['slots'] for one in normal], 'd')}",
            ),
            row(
                7,
                general,
                [one.result["whole"] / bound for one, bound in zip(general, bounds, strict=True)],
                f"newest {spread([one.result['newest'] for one in general])}, whole "
                f"{spread([one.result['whole'] for one in general])}",
            ),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.0)
        left, right = figure.subplots(1, 2)
        old = [one for one in results if one.trial.settings["kind"] == "as published"]
        for place, one in enumerate(old):
            drawn = {
                "signal_alone": (PASSES, "published, noise not passed", "saddle-1", "dotted"),
                "whole": (HORIZONS, "exact, whole queue", "stable", "solid"),
                "newest": (HORIZONS, "exact, newest matrix", "slow", "solid"),
                "published": (PASSES, "published", "unstable", "dashed"),
            }
            for name, (x, label, colour, style) in drawn.items():
                left.plot(
                    x,
                    one.result[name],
                    color=COLOUR[colour],
                    linestyle=style,
                    linewidth=1.2,
                    label=None if place else label,
                )
        left.set(xlabel="passes kept, or steps", ylabel="total", yscale="log", ylim=(1e-3, 1e7), xlim=(0, 33))
        legend_above(figure, 2)
        plain_powers(left.yaxis)
        slots = [one.trial.settings.get("slots", 0) for one in results]
        ends = [0.7, max(slots) + 0.3]
        right.plot(ends, [ends[0] + 1, ends[1] + 1], color=COLOUR["line"], linewidth=1)
        right.plot(ends, [1, 1], color=COLOUR["line"], linewidth=1)
        for one in results:
            kind, p = one.trial.settings["kind"], one.trial.settings.get("slots", 0)
            for name, colour in (("whole", "stable"), ("newest", "slow")) if p else ():
                place = p + (0.12 if kind == "general" else 0)
                right.plot(
                    place, one.result[name], "x" if kind == "general" else "o", color=COLOUR[colour], markersize=5
                )
        right.set(xlabel="slots, p", ylim=(0, None))
        right.set_xticks(sorted({p for p in slots if p}))
        for axes in (left, right):
            style_page_axes(axes)
        return figure


def _of_weight_1(system: MatrixSystem) -> dict[str, Any]:
    """A queue of one slot and weight 1: what the formulas give, and what it holds after some steps."""
    try:
        fisher_memory(system)
        refused = False
    except UnstableError:
        refused = True
    alone = [MatrixSystem(system.U, system.V, passed(system, passes)) for passes in PASSES]
    told = [fisher_memory(system, method="published", terms=passes).total for passes in PASSES]
    exact = {
        seen: [fisher_memory(system, observed=seen, horizon=steps).total for steps in HORIZONS]
        for seen in ("all", "newest")
    }
    return {
        "radius": system.map().radius(),
        "without": float(fisher_memory(MatrixSystem(system.U, system.V, system.W)).total),
        "refused": refused,
        "published": rounded(torch.stack(told)),
        "signal_alone": rounded(torch.stack([fisher_memory(one, method="published").total for one in alone])),
        "whole": torch.stack(exact["all"]).tolist(),
        "newest": torch.stack(exact["newest"]).tolist(),
    }


def _listed(values: Sequence[int]) -> str:
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


STUDY = QueueCapacity()
