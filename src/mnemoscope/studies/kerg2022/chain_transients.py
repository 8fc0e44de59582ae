"""Transients of feed-forward chains, and powers of triangular matrices (Kerg, 3.4.1, Fig 1b and Prop 3.4.2).

Fig 1b shows trajectories `h_t = Theta^t h_0` of single units, for h_0 on the unit sphere. The root mean square over
that sphere is known: `E (h_t)_i^2 = sum_j ((Theta^t)_ij)^2 / N`.

Prop 3.4.2 is about powers of `A = I + x S`, where S has ones above the diagonal. As S commutes with I,
`A^t = sum_l C(t, l) x^l S^l`, and `(S^l)_ij = C(j - i - 1, l - 1)` counts the ways from i to j in l steps. The
coefficient of x^l is therefore `C(t, l) C(j - i - 1, l - 1)`, which is more than the proposition states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import comb, log
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import add_legend, style_page_axes
from mnemoscope.replication.agreement import at_least, at_most, exactly
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, plain_powers, rounded, spread
from mnemoscope.replication.learning_study import colours
from mnemoscope.replication.linear_networks import feed_forward
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS, BETAS = (0.95, 1.0, 1.05), (0.0, 0.005)
FIG_1B, PROPOSITION = thesis("3.4.1 and Fig 1b"), thesis("Prop 3.4.2 and A.3")
RISES = at_least(1.01, "our reading of 'increasing': by a hundredth or more at every ratio")
CHAINS, POWERS = about("", "chains"), about("", "powers")


def _preset(summary: str, size: int, n: int, powers: int) -> Preset:
    return Preset(summary, {"cases": {"": {"size": size, "n": n, "powers": powers}}})


class ChainTransients(ComputedStudy):
    """Measure transients of feed-forward chains, and the coefficients of powers of a triangular matrix."""

    name = "chain-transients"
    title = "Transients of feed-forward chains"
    question = (
        "Do the weights below the diagonal amplify a signal and shape its transient, and how fast can powers grow?"
    )
    claims = (
        Claim(CHAINS, "peak, ratio to the next lower alpha", "increases with alpha", FIG_1B, RISES),
        Claim(CHAINS, "peak, ratio to beta = 0", "increases with beta", FIG_1B, RISES),
        Claim(
            CHAINS,
            "log of the growth per step / log alpha",
            "alpha sets the exponential amplification",
            FIG_1B,
            exactly(1.0, "our reading: the growth per step is alpha"),
            by_construction=True,
        ),
        Claim(
            CHAINS,
            "change of the shape by beta",
            "beta structures the shape",
            FIG_1B,
            at_least(0.1, "our reading: scaled to their peaks, curves with and without beta differ by a tenth or more"),
        ),
        Claim(
            CHAINS, "activity after N steps", "ends at t = N", FIG_1B, exactly(0.0, "nilpotent"), by_construction=True
        ),
        Claim(
            CHAINS,
            "activity one step earlier / peak, alpha at least 1, beta = 0",
            "abruptly",
            FIG_1B,
            at_least(0.99, "our reading of 'abruptly': still at its peak"),
        ),
        Claim(
            POWERS,
            "degree in x less j - i",
            "at most 0",
            PROPOSITION,
            at_most(0, "an inequality"),
            by_construction=True,
        ),
        Claim(POWERS, "coefficient of x^0", "0", PROPOSITION, exactly(0.0), by_construction=True),
        Claim(
            POWERS,
            "coefficient of x^l / C(t, l), change with t",
            "O(C(t, l))",
            PROPOSITION,
            exactly(0.0, "our formula: the ratio is C(j - i - 1, l - 1) at all t"),
            by_construction=True,
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": _preset("Chains of 12 units, powers up to 6 of a 4 x 4 matrix.", 12, 4, 6),
        **dict.fromkeys(
            ("cpu", "paper"),
            _preset("Chains of 100 units, powers up to 40 of an 8 x 8 matrix; a second.", 100, 8, 40),
        ),
    }
    cites = ("kerg2019",)
    caption = "Root mean square of the last unit over starts on the unit sphere. Solid: beta = 0; dashed: beta = 0.005."

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        chains = [
            {"alpha": alpha, "beta": beta, "curve": rounded(last_unit(feed_forward(alpha, beta, 0.0, case["size"])))}
            for beta in BETAS
            for alpha in ALPHAS
        ]
        return {"chains": chains, "powers": check_powers(case["n"], case["powers"])}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        curves = {(chain["alpha"], chain["beta"]): chain["curve"] for chain in results[0].result["chains"]}
        peaks = {key: max(curve[1:]) for key, curve in curves.items()}
        steps = [*pairwise(ALPHAS)]
        plain = {alpha: curves[alpha, 0.0] for alpha in ALPHAS}
        growth = [
            log(plain[alpha][-2] / plain[alpha][1]) / (len(plain[alpha]) - 3) / log(alpha)
            for alpha in ALPHAS
            if alpha != 1
        ]
        shapes = [
            max(
                abs(a / peaks[alpha, 0.0] - b / peaks[alpha, beta])
                for a, b in zip(plain[alpha], curves[alpha, beta], strict=True)
            )
            for alpha in ALPHAS
            for beta in BETAS[1:]
        ]
        powers = results[0].result["powers"]
        measured = (
            [peaks[high, beta] / peaks[low, beta] for low, high in steps for beta in BETAS],
            [peaks[alpha, beta] / peaks[alpha, 0.0] for alpha in ALPHAS for beta in BETAS[1:]],
            [round(value, 4) for value in growth],
            shapes,
            [curve[-1] for curve in curves.values()],
            [plain[alpha][-2] / peaks[alpha, 0.0] for alpha in ALPHAS if alpha >= 1],
            [powers["degree"]],
            [powers["constant"]],
            [powers["change"]],
        )
        return [
            self.compare(results, claim, values, spread(values))
            for claim, values in zip(self.claims, measured, strict=True)
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.4)
        axes = figure.add_subplot()
        colour_of = dict(zip(ALPHAS, colours(), strict=False))
        for chain in results[0].result["chains"]:
            label = f"alpha = {chain['alpha']:g}" if chain["beta"] == 0 else None
            style = "solid" if chain["beta"] == 0 else "dashed"
            axes.plot(chain["curve"], color=colour_of[chain["alpha"]], linestyle=style, label=label)
        axes.set_yscale("log", nonpositive="clip")  # 0 from step N on
        axes.set(xlabel="steps", ylabel="activity of the last unit", ylim=(1e-3, None))
        plain_powers(axes.yaxis)
        add_legend(axes, beside=True)
        style_page_axes(axes)
        return figure


def last_unit(theta: Float[Tensor, "size size"]) -> Float[Tensor, " times"]:
    """Return the root mean square of the last unit at t = 0 to N, over h_0 on the unit sphere.

    >>> last_unit(feed_forward(2.0, 0.0, 0.0, 4)).tolist()
    [0.5, 1.0, 2.0, 4.0, 0.0]
    """
    row = torch.eye(len(theta), dtype=theta.dtype)[-1]
    rows = [row]
    for _ in range(len(theta)):
        rows.append(rows[-1] @ theta)
    return torch.stack(rows).square().sum(1).div(len(theta)).sqrt()


def power_coefficients(n: int, t: int) -> list[list[int]]:
    """Return the coefficients of the polynomials in the first row of `A^t`, A as in Prop 3.4.2, by multiplication.

    >>> power_coefficients(3, 2)  # 1, 2x, 2x + x^2
    [[1, 0, 0], [0, 2, 0], [0, 2, 1]]
    """
    row = [[int(column == 0)] + [0] * (n - 1) for column in range(n)]
    for _ in range(t):
        before = row
        row = [list(polynomial) for polynomial in before]
        for column in range(n):
            for earlier in before[:column]:
                for power, coefficient in enumerate(earlier[:-1]):  # times x
                    row[column][power + 1] += coefficient
    return row


def check_powers(n: int, most: int) -> dict[str, float]:
    """Compare the coefficients of powers up to `most` with Prop 3.4.2; the first row has all distances j - i."""
    degrees, constants, ratios = [], [], {}
    for t in range(1, most + 1):
        for distance, polynomial in enumerate(power_coefficients(n, t)[1:], start=1):
            degrees.append(max(power for power, value in enumerate(polynomial) if value) - distance)
            constants.append(polynomial[0])
            for power in range(1, min(distance, t) + 1):
                ratios.setdefault((distance, power), set()).add(polynomial[power] / comb(t, power))
    change = max(max(values) - min(values) for values in ratios.values())
    return {"degree": max(degrees), "constant": max(map(abs, constants)), "change": change}


STUDY = ChainTransients()
