"""Statements about the Fisher memory of linear networks (Kerg, section 2.6).

The network is `x(n) = W x(n-1) + v s(n) + z(n)` with noise of variance eps. Its total memory is `v^T J_s v`. For a
normal W the spatial matrix J_s is 1 / eps times the identity, for any W its trace is N / eps. A delay line with
sqrt(alpha) below its diagonal has

    J_tot = 1 / eps sum_(k < N) (1 - 1 / alpha) / (1 - alpha^-(k+1)),

about N / eps (1 - 1 / alpha) for alpha > 1; the thesis prints 1 / eps in place of 1 / alpha.

A chain with sqrt(alpha) below its diagonal and sqrt(beta) above it is stable if sqrt(beta) < 1 / (4 sqrt(alpha)). In a
long one, the strength of a signal at its peak grows from unit to unit by 1 / x^2, with x the larger root of
`sqrt(alpha) x + sqrt(beta) / x = 1` (a saddle-point estimate of the powers of W): it grows if
1 - sqrt(alpha) < sqrt(beta), for sqrt(alpha) > 1 / 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, style_page_axes
from mnemoscope.lenses import fisher_memory
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy, rounded, spread
from mnemoscope.replication.linear_networks import first_unit, random_general, random_normal
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTION = thesis("2.6; Ganguli et al. 2008")
NORMAL, GENERAL, LINE = about("normal matrices"), about("random matrices"), about("delay lines")
INSIDE = about("chains with feedback", label="chains with feedback, 1 - sqrt(alpha) < sqrt(beta)")
OUTSIDE = about("chains with weak feedback", label="chains with weak feedback, sqrt(beta) < 1 - sqrt(alpha)")
IDENTITY, BEST = "distance of the spatial matrix from 1 / eps", "largest total / bound"
TRACE = "trace of the spatial matrix, relative difference from N / eps"
PRINTED, CORRECTED = (f"total, relative difference from N / eps (1 - 1 / {name})" for name in ("eps", "alpha"))
DIAGONAL, LASTS, GROWTH = "largest entry beside the diagonal of J", "amplified for", "growth from unit to unit"
NOTHING: Mapping[str, Any] = {"weights": (), "curve": ()}
"""Result of chains that were not computed, for the figure."""
RADIUS = 0.95
"""Spectral radius of the random matrices."""
LONGEST = 2000
"""Steps after which no signal in a stable chain of the presets is amplified any more."""
EQUAL = at_most(1e-8, "an equality, up to rounding")
NEAR = at_most(0.1, "our reading of 'approximately': a tenth")


def _claims() -> Sequence[Claim]:
    own = Source("mnemoscope", "the sum of the curve of a delay line")
    return (
        Claim(NORMAL, IDENTITY, "the identity", SECTION, EQUAL, by_construction=True),
        Claim(GENERAL, TRACE, "N / eps", SECTION, EQUAL, by_construction=True),
        Claim(GENERAL, BEST, "at most N / eps", SECTION, at_most(1 + 1e-9, "an inequality"), by_construction=True),
        Claim(
            LINE,
            PRINTED,
            "approximately equal",
            SECTION,
            NEAR,
            reason="a misprint: 1 / eps in place of 1 / alpha; the noise only scales the total",
        ),
        Claim(LINE, CORRECTED, "approximately equal", own, NEAR),
        Claim(LINE, DIAGONAL, "0: no interference", SECTION, EQUAL, by_construction=True),
        Claim(INSIDE, LASTS, "longer than order of N steps", SECTION, at_least(1, "the length of the chain")),
        Claim(INSIDE, GROWTH, "exponential", SECTION, at_least(1, "the signal becomes stronger")),
        Claim(OUTSIDE, GROWTH, "none", SECTION, at_most(1, "the signal becomes weaker")),
    )


def _cases(sizes: Sequence[int], networks: int, length: int) -> dict[Subject, dict[str, Any]]:
    # chains: pairs of the weights sqrt(alpha) below the diagonal and sqrt(beta) above it
    return {
        NORMAL: {"kind": "normal", "sizes": sizes, "networks": networks},
        GENERAL: {"kind": "general", "sizes": sizes, "networks": networks},
        LINE: {"kind": "line", "size": 2 * length, "alphas": (1.5, 2.0, 4.0), "noises": (0.25, 0.5, 1.0)},
        INSIDE: {"kind": "chain", "size": length, "weights": ((0.9, 0.25), (0.9, 0.2), (0.8, 0.3), (0.7, 0.35))},
        OUTSIDE: {"kind": "chain", "size": length, "weights": ((0.9, 0.05), (0.8, 0.1), (0.7, 0.25), (0.6, 0.35))},
    }


def chain(below: float, above: float, size: int) -> Float[Tensor, "size size"]:
    """Return the matrix with `below` under its diagonal and `above` over it.

    >>> chain(2.0, 0.5, 3).tolist()
    [[0.0, 0.5, 0.0], [2.0, 0.0, 0.5], [0.0, 2.0, 0.0]]
    """
    ones = torch.ones(size - 1, dtype=torch.float64)
    return below * torch.diag(ones, -1) + above * torch.diag(ones, 1)


class LinearMemory(ComputedStudy):
    """Compute the memory of random normal and general matrices, of delay lines, and of chains with feedback."""

    name = "linear-memory"
    title = "Memory of linear networks"
    question = "How much can a linear network remember, and which networks amplify a signal more than its noise?"
    claims = tuple(_claims())
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Small networks, to check that the code runs.", {"cases": _cases((4,), 1, 20)}),
        "cpu": Preset(
            "Five random matrices each of 5, 20 and 50 units, chains of 50 and delay lines of 100; seconds.",
            {"cases": _cases((5, 20, 50), 5, 50)},
        ),
        "paper": Preset(
            "Twenty random matrices of each size, and of 100 units too; a minute. The source has no sizes.",
            {"cases": _cases((5, 20, 50, 100), 20, 50)},
        ),
    }
    cites = ("kerg2022thesis", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "Strength of a signal after each step in a chain, on a logarithmic scale. Solid: enough feedback "
        "to amplify it; dashed: weaker feedback."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        match case["kind"]:
            case "line":
                pairs = [(alpha, noise) for alpha in case["alphas"] for noise in case["noises"]]
                return _listed([line_errors(*pair, case["size"]) for pair in pairs])
            case "chain":
                found = [follow_signal(chain(below, above, case["size"])) for below, above in case["weights"]]
                return {"weights": case["weights"], **_listed(found)}
        measure = normal_error if case["kind"] == "normal" else general_totals
        return _listed([measure(size, generator) for size in case["sizes"] for _ in range(case["networks"])])

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for claim in self.claims:
            trials = [each for each in results if each.trial.subject == claim.subject]
            measured = [value for each in trials for value in each.result[claim.quantity]]
            unit = " of N steps" if claim.quantity == LASTS else ""
            if measured:
                ours = spread(measured, ".2g") + unit
                rows.append(claim.compare(claim.name, measured, ours, f"{len(measured)} networks"))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.6)
        axes = figure.add_subplot()
        colours = ("stable", "saddle-1", "saddle-2", "unstable")
        for subject, style in ((INSIDE, "solid"), (OUTSIDE, "dashed")):
            shown = next((each.result for each in results if each.trial.subject == subject), NOTHING)
            for colour, weights, curve in zip(colours, shown["weights"], shown["curve"], strict=True):
                label = f"{weights[0]:g} down, {weights[1]:g} up"
                axes.plot(curve, color=COLOUR[colour], linestyle=style, linewidth=1.4, label=label)
        axes.axhline(0, color=COLOUR["muted"], linewidth=1)
        axes.set(xlabel="steps after the signal", ylabel="log10 of its strength", ylim=(-6, None))
        add_legend(axes, beside=True)
        style_page_axes(axes)
        return figure


def normal_error(size: int, generator: torch.Generator) -> dict[str, float]:
    """Return how far the spatial matrix of a random normal network is from the identity, at noise 1."""
    W = random_normal(size, RADIUS, generator)
    spatial = fisher_memory(W, first_unit(size)).spatial
    return {IDENTITY: float((spatial - torch.eye(size, dtype=torch.float64)).abs().max())}


def general_totals(size: int, generator: torch.Generator) -> dict[str, float]:
    """Return the trace of the spatial matrix of a random network, minus N, and the best total as a share of N."""
    W = random_general(size, RADIUS, generator)
    spatial = fisher_memory(W, first_unit(size)).spatial
    best = torch.linalg.eigvalsh(spatial)[-1]
    return {TRACE: abs(float(spatial.trace()) / size - 1), BEST: float(best) / size}


def line_errors(alpha: float, noise: float, size: int) -> dict[str, float]:
    """Return the relative difference of a delay line's total from both formulas, and its largest interference."""
    memory = fisher_memory(chain(alpha**0.5, 0.0, size), first_unit(size), noise=noise, lags=size)
    total, matrix = float(memory.total), memory.matrix
    beside = matrix - torch.diag(matrix.diagonal())
    printed, corrected = (size / noise * (1 - 1 / value) for value in (noise, alpha))
    return {
        PRINTED: abs(printed / total - 1),
        CORRECTED: abs(corrected / total - 1),
        DIAGONAL: float(beside.abs().max() / matrix.diagonal().max()),
    }


def follow_signal(W: Float[Tensor, "size size"]) -> dict[str, Any]:
    """Follow a signal that enters the first unit of a chain.

    Returns:
        until which step its squared norm is not below 1, as a share of the number of units; the mean growth of the
        largest squared activity from unit to unit in the second half of the chain; and the logarithms of the norms.

    """
    size = len(W)
    signal, squares = first_unit(size), []
    for _ in range(LONGEST):
        squares.append(signal.square())
        signal = W @ signal
    activity = torch.stack(squares)  # (steps, units)
    strength, peaks = activity.sum(1), activity.amax(0)
    last = int((strength >= 1).nonzero()[-1])
    growth = (peaks[-1] / peaks[size // 2]) ** (1 / (size - 1 - size // 2))
    return {LASTS: last / size, GROWTH: float(growth), "curve": rounded(strength[: 4 * size].log10())}


def _listed(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return one table of lists instead of a list of tables."""
    return {name: [each[name] for each in found] for name in found[0]}


STUDY = LinearMemory()
