"""Memory of matrix networks: published and exact formulas compared (Renanse et al. 2021, Fig 2, Theorems 2-3).

The paper does not describe how it drew its normal matrices. Here they rotate planes by uniform angles, with moduli
uniform in (0, 1), in a random orthogonal basis; `|W| = 1` and the noise has variance 1. The paper does not say either
whether its MAT-196 and MAT-225 have that many units (14 and 15 a side) or that many units a side: the preset `paper`
has both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist, mean, stdev
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import FisherMemory, MatrixSystem, fisher_memory
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most, chosen
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import (
    ComputedStudy,
    legend_above,
    plain_powers,
    rank_correlation,
    rounded,
    spread,
)
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.linear_networks import random_general, random_normal, random_source
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.replication.verdicts import UNKNOWN, Obstacle, Verdict, not_compared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAGS = 40
"""Lags of a memory curve."""
LARGEST_VECTOR = 36
"""Most units for which a vector network is compared with a matrix network of the same size."""
OLD = 5
"""Steps after which a signal counts as old."""
SMALL, LARGE = 6, 15
"""Most units a side of a small network, fewest of a large one."""
RADIUS = 0.95
"""Spectral radius of general networks."""
PAPER = partial(Source, "renanse2021")
KRONECKER = "C is a sum of Kronecker products, not a product of sums"
BELOW_1 = at_most(1 - 1e-9, "an inequality")
ONE = chosen(1 - 1e-9, 1 + 1e-9, "an equality, up to rounding")

COMPARISONS = 5
"""Statements about Fig 2 that are tested together."""
SKEWED = "small networks vary more, with a skewed distribution: their median changes with N, their mean does not"
OLDER = f"share of the memory older than {OLD} steps"
FASTER = Claim(
    about("normal vector against matrix networks"),
    f"{OLDER}, published formulas",
    "the curve of matrix networks goes to zero more quickly",
    PAPER("Fig 2 A"),
    at_least(0.0, "less old memory by more than two standard errors; the figure has no number"),
)
FASTER_EXACT = replace(FASTER, quantity=f"{OLDER}, exact")
NO_EFFECT = Claim(
    about("normal"),
    f"rank correlation of the {OLDER} with N, published formulas",
    "more neurons do not affect the curve in any way",
    PAPER("Fig 2 B"),
    chosen(-0.22, 0.22, "two standard errors of the rank correlation of 85 networks, those of the preset paper"),
    reason=SKEWED,
)
NO_RELATION = Claim(
    about("normal"),
    "rank correlation of the total with N, published formulas",
    "no apparent relation between capacity and the number of neurons",
    PAPER("Fig 2 D"),
    NO_EFFECT.agreement,
    reason=UNKNOWN,
)
SMALLER_VARIANCE = Claim(
    about("normal"),
    f"spread of the total, N >= {LARGE} / N <= {SMALL}, published formulas",
    "the variance is small as the number of neurons is increased",
    PAPER("Fig 2 E"),
    at_most(0.5, "our reading of 'small': at most half the standard deviation of small networks"),
)


def _cases(normal: Sequence[int], general: Sequence[int]) -> dict[str, dict[str, Any]]:
    cases = {f"normal, N = {size}": {"kind": "normal", "size": size} for size in normal}
    return cases | {f"general, N = {size}": {"kind": "general", "size": size} for size in general}


class MatrixCapacity(ComputedStudy):
    """Compute the memory of normal and general matrix networks by the published and the exact formulas."""

    name = "matrix-capacity"
    title = "What matrix networks hold"
    question = "Do networks whose state is a matrix hold less than those whose state is a vector?"
    claims = (
        Claim(
            about("normal"),
            "published formulas",
            "below 1",
            PAPER("Theorem 2, Fig 2 C-E"),
            BELOW_1,
            by_construction=True,
        ),
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
        FASTER,
        FASTER_EXACT,
        NO_EFFECT,
        NO_RELATION,
        SMALLER_VARIANCE,
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
            rows += _figure_2(normal, vector)
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


def _figure_2(normal: Sequence[Finished], vector: Sequence[Finished]) -> list[Row]:
    """Return the rows of Fig 2 A, B, D and E, about normal networks; `vector` are those with a vector counterpart."""
    rows = []
    ours = [_share_of_old(run, "vector") for run in vector]
    for claim, kind in ((FASTER, "published"), (FASTER_EXACT, "exact")):
        theirs = [_share_of_old(run, kind) for run in vector]
        words = f"vector {mean(ours):.3g}, matrix {mean(theirs):.3g}"
        rows.append(measure_difference([ours], [theirs], 2).compare(claim, words, f"{len(vector)} networks each"))
    sizes = [run.trial.settings["size"] for run in normal]
    if min(sizes) > SMALL or max(sizes) < LARGE:
        return rows
    for claim, values in (
        (NO_EFFECT, [_share_of_old(run, "published") for run in normal]),
        (NO_RELATION, totals := _totals(normal, "published")),
    ):
        correlation = rank_correlation(sizes, values)
        means = " and ".join(
            f"{mean(side):.3g} ± {stdev(side) / len(side) ** 0.5:.2g}" for side in _sides(sizes, values)
        )
        remark = f"{len(normal)} networks; mean for N <= {SMALL} and N >= {LARGE}: {means}"
        row = claim.compare(claim.name, (correlation,), f"{correlation:.2f}", remark)
        limit = NormalDist().inv_cdf(1 - 0.025 / COMPARISONS) / (len(normal) - 1) ** 0.5
        if row.verdict is Verdict.DIFFERS and abs(correlation) < limit:
            reason = f"with {COMPARISONS} comparisons, it would differ from {limit:.2f} on"
            row = replace(row, judgement=not_compared(Obstacle.UNDECIDED, reason))
        rows.append(row)
    small, large = map(stdev, _sides(sizes, totals))
    rows.append(SMALLER_VARIANCE.compare(SMALLER_VARIANCE.name, (large / small,), f"{large:.2g} / {small:.2g}"))
    return rows


def _share_of_old(run: Finished, kind: str) -> float:
    """Return the share of the memory about signals of more than `OLD` steps ago."""
    memory = run.result[kind]
    return 1 - sum(memory["curve"][:OLD]) / memory["total"]


def _sides(sizes: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the values of small and of large networks."""
    pairs = list(zip(sizes, values, strict=True))
    return [value for size, value in pairs if size <= SMALL], [value for size, value in pairs if size >= LARGE]


def _total_and_curve(memory: FisherMemory) -> dict[str, Any]:
    return {"total": float(memory.total), "curve": rounded(memory.curve)}


def _totals(trials: Sequence[Finished], kind: str) -> list[float]:
    return [run.result[kind]["total"] for run in trials]


STUDY = MatrixCapacity()
