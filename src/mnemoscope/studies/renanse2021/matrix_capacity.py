"""Memory of matrix networks: published and exact formulas compared (Renanse et al. 2021, Fig 2, Theorems 1-3).

The paper does not describe how it drew its normal matrices. Here they rotate planes by uniform angles, with moduli
uniform in (0, 1), in a random orthogonal basis; `|W| = 1` and the noise has variance 1. The paper does not say either
whether its MAT-196 and MAT-225 have that many units (14 and 15 a side) or that many units a side: the preset `paper`
has both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import FisherMemory, MatrixSystem, fisher_memory
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_most, chosen
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, plain_powers, rounded, spread
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.linear_networks import random_general, random_normal, random_source
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAGS = 40
"""Lags of a memory curve."""
LARGEST_VECTOR = 36
"""Most units for which a vector network is compared with a matrix network of the same size."""
RADIUS = 0.95
"""Spectral radius of general networks."""
PAPER = partial(Source, "renanse2021")
KRONECKER = "C is a sum of Kronecker products, not a product of sums"
BELOW_1 = at_most(1 - 1e-9, "an inequality")
ONE = chosen(1 - 1e-9, 1 + 1e-9, "an equality, up to rounding")


def _cases(normal: Sequence[int], general: Sequence[int]) -> dict[str, dict[str, Any]]:
    cases = {f"normal, N = {size}": {"kind": "normal", "size": size} for size in normal}
    return cases | {f"general, N = {size}": {"kind": "general", "size": size} for size in general}


class MatrixCapacity(ComputedStudy):
    """Compute the memory of normal and general matrix networks by the published and the exact formulas."""

    name = "matrix-capacity"
    title = "What matrix networks hold"
    question = "Do networks whose state is a matrix hold less than those whose state is a vector?"
    claims = (
        Claim(about("normal"), "published formulas", "below 1", PAPER("Theorem 2, Fig 2 C-E"), BELOW_1),
        Claim(about("normal"), "exact", "below 1", PAPER("Corollary 2.1"), BELOW_1, reason=KRONECKER),
        Claim(about("normal"), "exact, corrected", "1", Source("mnemoscope", KRONECKER), ONE),
        Claim(
            EVERYTHING,
            "normal vector networks",
            "1",
            PAPER("Fig 2 C; also Ganguli et al. 2008"),
            ONE,
            by_construction=True,
        ),
        Claim(
            about("general"),
            "best total / N^2",
            "at most 1",
            PAPER("Theorem 3"),
            at_most(1, "an inequality"),
            by_construction=True,
        ),
        Claim(
            about("general"),
            "best W / worst W",
            "1",
            PAPER("after Theorem 3: no dependence on W"),
            ONE,
            reason="the total is a quadratic form in W",
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Networks of 3 and 4 units a side.", {"cases": _cases((3, 4), (3,))}),
        "cpu": Preset(
            "Up to 64 units a side, five seeds; some seconds.",
            {"cases": _cases((3, 4, 5, 6, 10, 15, 25, 64), (3, 4, 5, 6, 8))},
            tuple(range(5)),
        ),
        "paper": Preset(
            "Up to 225 units a side, five seeds; some minutes.",
            {
                "cases": _cases(
                    (3, 4, 5, 6, 8, 9, 10, 12, 14, 15, 16, 25, 64, 100, 144, 196, 225), (3, 4, 5, 6, 8, 10, 12)
                )
            },
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("renanse2021", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "Top: the memory of one normal network of each kind, and its running sum. Bottom: totals of normal networks, "
        "one dot each, and means of general networks, which stay far below the bound N^2 and depend on W."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        size, draw = case["size"], {"normal": random_normal, "general": random_general}[case["kind"]]
        radius = 1.0 if case["kind"] == "normal" else RADIUS
        U, V = draw(size, radius, generator), draw(size, radius, generator)
        system = MatrixSystem(U, V, random_source(size, generator))
        exact, published = (fisher_memory(system, lags=LAGS, method=method) for method in ("exact", "published"))
        result = {
            "exact": _total_and_curve(exact),
            "published": _total_and_curve(published),
            "lags_above": int((published.curve > exact.curve * (1 + 1e-9)).sum()),
        }
        if case["kind"] == "general":
            result["by_direction"] = rounded(torch.linalg.eigvalsh(exact.spatial))
        elif size**2 <= LARGEST_VECTOR:
            w = random_source(size, generator).flatten()
            result["vector"] = _total_and_curve(fisher_memory(random_normal(size**2, 1.0, generator), w, lags=LAGS))
        return result

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows, groups = [], by_name(results)
        normal = [run for run in results if run.trial.settings["kind"] == "normal"]
        general = [run for run in results if run.trial.settings["kind"] == "general"]

        def row(number: int, trials: Sequence[Finished], measured: Sequence[float], remark: str) -> Row:
            return self.compare(trials, self.claims[number], measured, spread(measured), remark)

        if normal:
            published, exact = _totals(normal, "published"), _totals(normal, "exact")
            vector = [run for run in normal if "vector" in run.result]
            above = sum(run.result["lags_above"] for run in results)
            rows += [
                row(0, normal, published, f"above the exact curve at {above} lags of {LAGS * len(results)}"),
                row(1, normal, exact, f"{len(normal)} networks"),
                row(2, normal, exact, f"1 within {max(abs(value - 1) for value in exact):.0e}"),
                row(3, vector, _totals(vector, "vector"), f"{len(vector)} networks"),
            ]
        if general:
            best, worst = ([run.result["by_direction"][place] for run in general] for place in (-1, 0))
            total, published = _totals(general, "exact"), _totals(general, "published")
            share = [high / run.trial.settings["size"] ** 2 for run, high in zip(general, best, strict=True)]
            ratio = [high / low for high, low in zip(best, worst, strict=True)]
            rows += [
                row(4, general, share, "by the best W"),
                row(5, general, ratio, f"a random W: {spread(total)}, published {spread(published)}"),
            ]
        for name, trials in groups.items():
            published, exact = _totals(trials, "published"), _totals(trials, "exact")
            remark = "published formulas: one seed"
            if len(trials) > 1:
                remark = f"published formulas: mean {mean(published):.3g}, standard deviation {stdev(published):.2g}"
            if "by_direction" in trials[0].result:
                remark += f"; best W {spread([run.result['by_direction'][-1] for run in trials])}"
            rows.append(Row(f"{name}: total", f"formulas: {spread(published)}", spread(exact), remark=remark))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 6.4)
        (curve, held), (normal, general) = figure.subplots(2, 2)
        with_vector = [run for run in results if "vector" in run.result]
        example = max(with_vector or results[:1], key=lambda run: run.trial.settings["size"])
        kinds = {
            "vector": ("vector, exact", "muted", "solid"),
            "exact": ("matrix, exact", "stable", "solid"),
            "published": ("matrix, published", "unstable", "dashed"),
        }
        for kind, (label, colour, style) in kinds.items():
            if kind in example.result:
                J = torch.tensor(example.result[kind]["curve"])
                curve.plot(J[:16], color=COLOUR[colour], linestyle=style, label=label)
                held.plot(J.cumsum(0)[:16], color=COLOUR[colour], linestyle=style)
        curve.set(xlabel="steps ago, k", ylabel="J(k)", yscale="log", ylim=(1e-5, 1.5))
        plain_powers(curve.yaxis)
        held.set(xlabel="steps ago, up to", ylabel="held of these", ylim=(0, 1.08))
        held.axhline(1, color=COLOUR["muted"], linewidth=1, linestyle="dotted")
        for run in results:
            for kind in ("published", "exact") if run.trial.settings["kind"] == "normal" else ():
                colour, size = COLOUR[kinds[kind][1]], run.trial.settings["size"]
                normal.plot(size, run.result[kind]["total"], ".", color=colour, markersize=5)
        normal.set(xlabel="units a side, N; normal", ylabel="total", xscale="log", ylim=(0, 1.15))
        normal.set_xticks([3, 10, 30, 100])
        plain_powers(normal.xaxis)
        groups = [trials for name, trials in by_name(results).items() if "general" in name]
        sizes = [trials[0].trial.settings["size"] for trials in groups]
        best = [mean(run.result["by_direction"][-1] for run in trials) for trials in groups]
        exact, published = ([mean(_totals(trials, kind)) for trials in groups] for kind in ("exact", "published"))
        for values, colour, style, label in (
            ([size**2 for size in sizes], "ink", "dotted", "N^2"),
            (best, "saddle-2", "solid", "best W"),
            (exact, "stable", "solid", None),
            (published, "unstable", "dashed", None),
        ):
            general.plot(sizes, values, color=COLOUR[colour], linestyle=style, marker=".", label=label)
        general.set(xlabel="units a side, N; general", yscale="log")
        general.set_xticks(sizes)
        plain_powers(general.yaxis)
        legend_above(figure, 3)
        for axes in (curve, held, normal, general):
            style_page_axes(axes)
        return figure


def _total_and_curve(memory: FisherMemory) -> dict[str, Any]:
    return {"total": float(memory.total), "curve": rounded(memory.curve)}


def _totals(trials: Sequence[Finished], kind: str) -> list[float]:
    return [run.result[kind]["total"] for run in trials]


STUDY = MatrixCapacity()
