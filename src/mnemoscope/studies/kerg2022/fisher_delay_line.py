"""The Fisher memory of a delay line, and bounds for other triangular matrices (Kerg, 3.4.2, Prop 3.4.1, A.2).

The proof of A.2 writes `Theta = D A` with the delay line D and a unit lower triangular A. Its first line, A.2.3,
replaces `Theta^k` by `D^k A`, which is wrong. The conclusion holds nevertheless. A shift only drops the first row and
column of A: `A D = D A_1`, where `A_1` is the rest of A moved up by one. Therefore `D^T A^T = A_1^T D^T` and
`(Theta^k)^T = A^T A_1^T ... A_(k-1)^T (D^k)^T`. No part of A has a larger singular value than the largest one of A,
sigma, so `|(Theta^k)^T u| <= sigma^k |(D^k)^T u|`. This gives A.2.5, since k < N and sigma >= 1. With sigma^k instead
of sigma^(N-1) the bound is sharper:

    J(k) >= a^k / sum_(m <= k) (sigma^2 a)^m
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, log10
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.lenses import fisher_memory
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, rounded, spread
from mnemoscope.replication.linear_networks import first_unit, random_chain
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUALITY, BOUND = at_most(1e-10, "an equality, up to rounding"), at_least(0, "an inequality")
FORMULA = thesis("3.4.2; Ganguli et al. 2008")
SHARPER = Source("mnemoscope", "a^k / sum_(m <= k) (sigma^2 a)^m")
WRONG_STEP = "Theta^k is D A D A ..., not D^k A"


def _case(size: int, strengths: Sequence[float], trials: int) -> dict[str, Any]:
    return {"size": size, "strengths": strengths, "trials": trials}


CASES = {
    "delay line": _case(100, (0.0,), 1),
    "random, N = 5": _case(5, (0.01, 0.1, 0.3, 1.0), 100),
    "random, N = 20": _case(20, (0.01, 0.1, 0.3, 1.0), 30),
    "random, N = 100": _case(100, (0.005, 0.01, 0.03, 0.1), 10),
}


def delay_line_curve(a: float, lags: int) -> Float[Tensor, " lags"]:
    """Return the Fisher memory of a delay line with sqrt(a) on its sub-diagonal.

    It is `J(k) = a^k (a - 1) / (a^(k+1) - 1)`, or 1 / (k + 1) for a = 1.

    >>> delay_line_curve(1.0, 4).tolist() == [1, 1 / 2, 1 / 3, 1 / 4]
    True
    """
    k = torch.arange(lags, dtype=torch.float64)
    return 1 / (k + 1) if a == 1 else a**k * (a - 1) / (a ** (k + 1) - 1)


def gram_schmidt(theta: Float[Tensor, "size size"]) -> Float[Tensor, "size size"]:
    """Return A of `Theta = D A` (A.2.1).

    D moves rows down by one and scales them by sqrt(a), so the rows of A are the next rows of Theta, scaled back. The
    last row of A does not affect the product; Gram-Schmidt on the columns, starting with the last, makes it 0 ... 0 1.

    >>> A = gram_schmidt(torch.tensor([[0.0, 0, 0], [2, 0, 0], [1, 2, 0]]))
    >>> A.tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    A = torch.eye(len(theta), dtype=theta.dtype)
    A[:-1] = theta[1:] / theta[1, 0]
    return A


def log_bounds(a: float, sigma: float, size: int) -> dict[str, Float[Tensor, " size"]]:
    """Return the natural logarithms of three lower bounds of J(k), k < size.

    They are that of Prop 3.4.1, that with the exponent 2 at the end of A.2.6, and the sharper one.

    >>> bounds = log_bounds(0.5, 1.0, 5)  # for a delay line, all of them are exact
    >>> all(torch.allclose(bound.exp(), delay_line_curve(0.5, 5)) for bound in bounds.values())
    True
    """
    line = delay_line_curve(a, size).log()
    k = torch.arange(size, dtype=torch.float64)
    log_noise = torch.logcumsumexp(k * log(sigma**2 * a), dim=0)  # log of sum_(m <= k) (sigma^2 a)^m
    return {
        "proposition": line - 2 * (size - 1) * log(sigma),
        "squared": line - 2 * log(sigma),
        "sharper": k * log(a) - log_noise,
    }


class FisherDelayLine(ComputedStudy):
    """Delay lines against their formula, and random triangular matrices against the bounds."""

    name = "fisher-delay-line"
    title = "Delay lines and other strictly triangular networks"
    question = (
        "Does a network that contains a delay line remember nearly as much as the delay line, and is this proved?"
    )
    claims = (
        Claim(about("delay line"), "error of its formula", "an equality", FORMULA, EQUALITY, by_construction=True),
        Claim(EVERYTHING, "log10 J(k) / bound", "at least 0", thesis("Prop 3.4.1"), BOUND, by_construction=True),
        Claim(about("A.2.3"), "relative error", "an equality", thesis("A.2.3"), EQUALITY, reason=WRONG_STEP),
        Claim(
            about("A.2.5"),
            "log10 C / bound",
            "at most 0",
            thesis("A.2.5"),
            at_most(0, "an inequality"),
            by_construction=True,
        ),
        Claim(
            about("A.2.6"),
            "log10 J(k) / bound",
            "at least 0",
            thesis("A.2.6: its end has sigma^2, not sigma^(2(N-1))"),
            BOUND,
            reason="a misprint",
        ),
        Claim(about("sharper"), "log10 J(k) / bound", "at least 0", SHARPER, BOUND),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Some chains of 8 units.",
            {"cases": {"delay line": _case(8, (0.0,), 1), "random": _case(8, (0.1, 1.0), 2)}},
        ),
        "cpu": Preset(
            "Delay lines of 100 units; random chains of 5, 20 and 100 units, 1,680 in all; half a minute.",
            {"cases": CASES},
        ),
        "paper": Preset("The same with five times as many chains, in five seeds.", {"cases": CASES}, (0, 1, 2, 3, 4)),
    }
    cites = ("kerg2019", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "One random chain for each strength of the entries below its sub-diagonal, a = 1. Solid: J(k); dotted: the "
        "sharper bound; dashed: Prop 3.4.1, where it is not too low to show; black: the delay line. Some chains lie "
        "above it, because they amplify more."
    )
    squared_weights = (0.8, 1.0, 1.2)
    """Values of a, the squared weight of the sub-diagonal."""

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        groups: list[dict[str, Any]] = []
        for a in self.squared_weights:
            for strength in case["strengths"]:
                checks = [
                    check_chain(random_chain(a, strength, case["size"], generator), a, curves=number == 0 and a == 1)
                    for number in range(case["trials"])
                ]
                curves = {name: curve for check in checks for name, curve in check.pop("curves", {}).items()}
                lists = {name: [check[name] for check in checks] for name in checks[0]}
                groups.append({"a": a, "strength": strength, **lists, "curves": curves})
        return {"chains": groups}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        groups = [{**group, "size": each.trial.settings["size"]} for each in results for group in each.result["chains"]]
        lines, chains = ([group for group in groups if (group["strength"] == 0) == plain] for plain in (True, False))

        def gathered(name: str, groups: Sequence[Mapping[str, Any]] = chains) -> list[float]:
            return [value for group in groups for value in group[name]]

        def row(number: int, measured: Sequence[float], remark: str = "") -> Row:
            return self.compare(results, self.claims[number], measured, spread(measured, ".2g"), remark)

        count = f"{len(gathered('sigma')):,} random chains"
        fails = [group for group in chains if min(group["squared"]) < 0]
        sizes = ", ".join(map(str, sorted({group["size"] for group in fails})))
        smallest = f"at N = {sizes}: a misprint" if fails else "no counter-example"
        rows = [
            row(0, gathered("formula", lines), f"a = {', '.join(map(str, self.squared_weights))}"),
            row(1, gathered("proposition"), f"lowest of each of {count}; the proof can be repaired"),
            row(2, gathered("first_step"), WRONG_STEP),
            row(3, gathered("covariance"), "worst direction; holds without A.2.3"),
            row(4, gathered("squared"), f"fails {smallest}" if fails else smallest),
            row(5, gathered("sharper"), "lowest, from lag 1 on"),
        ]
        for size in dict.fromkeys(group["size"] for group in chains):
            for strength in dict.fromkeys(group["strength"] for group in chains if group["size"] == size):
                alike = [group for group in chains if (group["size"], group["strength"]) == (size, strength)]
                loose = spread(gathered("loosest", alike), ".2g")
                sharp = spread(gathered("loosest_sharper", alike), ".2g")
                line = f"J(k) / delay line, lowest: {spread(gathered('against_line', alike), '.2g')}"
                sigma = f"sigma {spread(gathered('sigma', alike), '.2f')}"
                quantity = f"N = {size}, strength {strength:g}: loosest log10"
                rows.append(Row(quantity, "not published", f"{loose}; sharper {sharp}", remark=f"{sigma}; {line}"))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.0)
        axes = figure.add_subplot()
        largest = max(results, key=lambda each: each.trial.settings["size"] * (each.trial.name != "delay line"))
        shown = [group for group in largest.result["chains"] if group["curves"]]
        names = ("slow", "saddle-1", "unstable", "marginal")
        for place, group in reversed(list(enumerate(shown))):
            for name, style in (("curve", "solid"), ("sharper", "dotted"), ("proposition", "dashed")):
                label = f"strength {group['strength']:g}" if name == "curve" else None
                colour = COLOUR[names[place % 4]]
                axes.plot(group["curves"][name], color=colour, linestyle=style, linewidth=1.4, label=label)
        line = delay_line_curve(1.0, largest.trial.settings["size"]).log10().tolist()
        axes.plot(line, color=COLOUR["ink"], linewidth=1)
        axes.set(xlabel="steps ago, k", ylabel="log10 J(k)", ylim=(-12, 0.8))
        add_legend(axes, beside=True)
        style_page_axes(axes)
        return figure


def check_chain(theta: Float[Tensor, "size size"], a: float, *, curves: bool = False) -> dict[str, Any]:
    """Compare one chain with the formula, the bounds (as log10 of J / bound) and the steps of their proof."""
    size = len(theta)
    memory = fisher_memory(theta, first_unit(size), lags=size)
    assert memory.factor is not None
    A = gram_schmidt(theta)
    sigma = max(1.0, float(torch.linalg.matrix_norm(A, 2)))
    J, line = memory.curve.log(), delay_line_curve(a, size)
    ratios = {name: (J - bound) / log(10) for name, bound in log_bounds(a, sigma, size).items()}
    variance = (a ** torch.arange(size, dtype=torch.float64)).cumsum(0)  # sum_k D^k D^kT, A.2.6
    C = memory.factor @ memory.factor.mT
    printed_C, term = torch.zeros_like(C), A @ A.mT
    D = random_chain(a, 0.0, size, torch.Generator())
    for _ in range(size):  # the right-hand side of A.2.3
        printed_C, term = printed_C + term, D @ term @ D.mT
    largest = torch.linalg.matrix_norm(memory.factor / variance.sqrt()[:, None], 2).square()
    result: dict[str, Any] = {
        "sigma": sigma,
        "formula": float((memory.curve / line - 1).abs().max()),
        "against_line": float((memory.curve / line).min()),
        "first_step": float((printed_C - C).norm() / C.norm()),
        "covariance": log10(float(largest)) - 2 * (size - 1) * log10(sigma),
        **{name: float(ratio.min()) for name, ratio in ratios.items()},
        "sharper": float(ratios["sharper"][1:].min()),
        "loosest": float(ratios["proposition"].max()),
        "loosest_sharper": float(ratios["sharper"].max()),
    }
    result = {name: float(f"{value:.3g}") for name, value in result.items()}  # short: there are thousands of chains
    if curves:
        bounds = {name: rounded(J / log(10) - ratios[name]) for name in ("proposition", "sharper")}
        result["curves"] = {"curve": rounded(J / log(10)), **bounds}
    return result


STUDY = FisherDelayLine()
