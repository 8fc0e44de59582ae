"""Fisher information of feed-forward chains about every past signal (Kerg, 3.4.2 and Fig 1c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import fisher_memory
from mnemoscope.replication.agreement import Agreement, at_least, at_most, chosen, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, plain_powers, rounded, spread
from mnemoscope.replication.linear_networks import feed_forward, first_unit
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.fisher_table import ALL_AS_PUBLISHED, PRINTED, Network, rounding_range
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE, LAGS = 100, 200
ALPHAS, BETAS, DIAGONALS = (0.95, 1.0, 1.05), (0.0, 0.005), (0.0, 0.2)
SECTION, AMPLIFICATION = thesis("3.4.2"), thesis("2.6; Ganguli et al. 2008")


def _cases(size: int, lags: int) -> dict[Subject, dict[str, float]]:
    return {
        about(alpha=alpha, beta=beta, d=d): {"alpha": alpha, "beta": beta, "d": d, "size": size, "lags": lags}
        for d in DIAGONALS
        for beta in BETAS
        for alpha in ALPHAS
    }


def _printed_ratios(pairs: Sequence[tuple[Network, Network]]) -> Agreement:
    """Return the range of the ratios of printed totals, each within half a unit of its last digit."""
    ends = [(rounding_range(PRINTED[above]), rounding_range(PRINTED[below])) for above, below in pairs]
    low, high = min(a.low / b.high for a, b in ends), max(a.high / b.low for a, b in ends)
    return chosen(round(low, 4), round(high, 4), "the lowest and the highest ratio of the totals of Table 5")


class FisherCurves(ComputedStudy):
    """The twelve curves of Fig 1c, and the statements of the text about them."""

    name = "fisher-curves"
    title = "Memory of feed-forward chains for every past signal"
    question = "Which chain remembers best up to its length, and does a diagonal carry memory beyond it?"
    claims = (
        Claim(
            EVERYTHING,
            "delay line / best other, k < N",
            "1 or more",
            thesis("3.4.2, of alpha > 1"),
            at_least(1 - 1e-9, "an inequality"),
            reason="with a diagonal of 0.2 a chain lies above the delay line",
        ),
        Claim(
            EVERYTHING,
            "delay line / amplification bound",
            "1",
            AMPLIFICATION,
            chosen(1 - 1e-9, 1 + 1e-9, "an equality"),
            by_construction=True,
        ),
        Claim(
            EVERYTHING,
            "others / amplification bound",
            "at most 1",
            AMPLIFICATION,
            at_most(1 + 1e-9, "an inequality"),
            by_construction=True,
        ),
        Claim(
            about("d = 0"),
            "held from step N on",
            "nothing",
            SECTION,
            exactly(0, "a chain of N units forgets"),
            by_construction=True,
        ),
        Claim(
            about("beta = 0.005 / 0"),
            "total",
            "not degraded",
            SECTION,
            _printed_ratios([((alpha, 0.005, 0.0), (alpha, 0.0, 0.0)) for alpha in ALPHAS]),
        ),
        Claim(
            EVERYTHING,
            "d = 0.2 / delay line, k < N",
            "almost 1",
            SECTION,
            chosen(0.95, 1.05, "our reading of 'almost': 5%"),
        ),
        Claim(
            about("d = 0.2"),
            "held from step N on",
            "something",
            SECTION,
            at_least(1e-9, "above 0: no power of a matrix with a diagonal is 0"),
            by_construction=True,
        ),
        Claim(
            about("d = 0.2 / delay line"),
            "total",
            "above 1",
            SECTION,
            _printed_ratios([((alpha, beta, 0.2), (alpha, 0.0, 0.0)) for alpha in ALPHAS for beta in BETAS]),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Chains of 20 units.", {"cases": _cases(20, 40)}),
        **dict.fromkeys(("cpu", "paper"), Preset(ALL_AS_PUBLISHED, {"cases": _cases(SIZE, LAGS)})),
    }
    cites = ("kerg2019", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "Fisher information about the signal k steps ago. Solid: beta = 0; dashed: beta = 0.005. Dotted: the "
        "highest value that the amplification of the signal allows, for beta = 0; the delay lines (left) attain it."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        lags = case.pop("lags")
        memory = fisher_memory(feed_forward(**case), first_unit(case["size"]), lags=lags)
        bound = memory.amplification_bound.nan_to_num(0)  # 1 / inf where no signal is left to amplify
        return {
            "curve": memory.curve.tolist(),
            "bound": rounded(bound),
            "total": float(memory.total),
            "optimality": _worst_and_best(memory.curve[1:] / bound[1:]),
        }

    def as_published(self, trial: Trial) -> bool:
        return trial.settings["size"] == SIZE

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        networks = {_key(each): each.result for each in results}
        size = results[0].trial.settings["size"]
        lines = {alpha: networks[alpha, 0.0, 0.0] for alpha in ALPHAS}
        best, *rest = (result["curve"][:size] for result in (lines[ALPHAS[-1]], *networks.values()))
        lowest = [min(line / max(others) for line, *others in zip(best, *rest, strict=True))]
        beyond = {key: sum(result["curve"][size:]) for key, result in networks.items()}
        diagonal = [key for key in networks if key[2] > 0]
        others = [key for key in networks if any(key[1:])]

        def row(number: int, measured: Sequence[float], remark: str, form: str = ".3g") -> Row:
            return self.compare(results, self.claims[number], measured, spread(measured, form), remark)

        def over_line(key: tuple[float, float, float]) -> list[float]:
            curves = networks[key]["curve"][:size], lines[key[0]]["curve"]
            return [value / line for value, line in zip(*curves, strict=False)]

        weakest = [min(over_line((alpha, 0.005, 0.0))) for alpha in ALPHAS]
        ahead = [sum(ratio > 1 for ratio in over_line(key)) for key in diagonal]
        above = f"above the delay line of the same alpha at {spread(ahead, 'd')} of {size} lags"
        degraded = [networks[alpha, 0.005, 0.0]["total"] / lines[alpha]["total"] for alpha in ALPHAS]
        gained = [networks[key]["total"] / lines[key[0]]["total"] for key in diagonal]
        return [
            row(0, lowest, f"lowest; d = 0.2: {above}"),
            row(1, [lines[alpha]["optimality"][0] for alpha in ALPHAS], "the highest possible for this amplification"),
            row(2, [networks[key]["optimality"][1] for key in others], "highest, from lag 1 on", ".6g"),
            row(3, [beyond[key] for key in networks if key[2] == 0], "Theta^N = 0"),
            row(4, degraded, f"at single lags as little as {spread(weakest)}"),
            row(5, [min(over_line(key)) for key in diagonal], "lowest; mostly far above 1"),
            row(6, [beyond[key] for key in diagonal], "part of the totals of Table 5"),
            row(7, gained, "delay line of the same alpha"),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.2)
        panels = dict(zip(DIAGONALS, figure.subplots(1, 2, sharey=True), strict=True))
        colour = dict(zip(ALPHAS, (COLOUR["saddle-1"], COLOUR["stable"], COLOUR["unstable"]), strict=True))
        for each in results:
            alpha, beta, d = _key(each)
            axes, lags = panels[d], range(len(each.result["curve"]))
            drawn = [value or float("nan") for value in each.result["curve"]]
            style, label = "dashed" if beta else "solid", None if beta or d else f"alpha = {alpha:g}"
            axes.plot(lags, drawn, color=colour[alpha], linestyle=style, linewidth=1.4, label=label)
            if not beta and d:
                bound = [value or float("nan") for value in each.result["bound"]]
                axes.plot(lags, bound, color=colour[alpha], linestyle="dotted", linewidth=1)
        size = results[0].trial.settings["size"]
        for d, axes in panels.items():
            axes.axvline(size, color=COLOUR["muted"], linewidth=1, linestyle="dotted")
            axes.set(xlabel=f"steps ago, k, for d = {d:g}", yscale="log", ylim=(1e-3, 1.3))
            style_page_axes(axes)
            plain_powers(axes.yaxis)
        panels[0.0].set_ylabel("J(k)")
        legend_above(figure, 3)
        return figure


def _key(finished: Finished) -> tuple[float, float, float]:
    settings = finished.trial.settings
    return settings["alpha"], settings["beta"], settings["d"]


def _worst_and_best(ratios: torch.Tensor) -> tuple[float, float]:
    known = ratios[torch.isfinite(ratios)]
    return float(known.min()), float(known.max())


STUDY = FisherCurves()
