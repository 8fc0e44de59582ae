"""Total Fisher memory of feed-forward chains (Kerg, A.2 Table 5), and which printed values are inexact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import fisher_memory
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import Agreement, chosen
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, rounded, spread
from mnemoscope.replication.linear_networks import feed_forward, first_unit
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.notation import thesis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 100
ALL_AS_PUBLISHED = "All twelve networks as published; some seconds."
Network = tuple[float, float, float]
"""A chain: its alpha, beta and d."""
MANY_DIGITS = Source("mnemoscope", "computed with 120 digits")
PRINTED = {
    (0.95, 0.0, 0.0): 3.03, (1.0, 0.0, 0.0): 5.19, (1.05, 0.0, 0.0): 12.1,
    (0.95, 0.005, 0.0): 3.18, (1.0, 0.005, 0.0): 5.30, (1.05, 0.005, 0.0): 12.1,
    (0.95, 0.0, 0.2): 12.0, (1.0, 0.0, 0.2): 16.2, (1.05, 0.0, 0.2): 20.5,
    (0.95, 0.005, 0.2): 12.1, (1.0, 0.005, 0.2): 16.3, (1.05, 0.005, 0.2): 20.4,
}  # fmt: skip
"""J_tot of Table 5, by (alpha, beta, d)."""
CORRECTED = {
    (0.95, 0.0, 0.2): 11.94, (1.0, 0.0, 0.2): 16.30, (1.05, 0.0, 0.2): 20.84,
    (0.95, 0.005, 0.2): 12.09, (1.0, 0.005, 0.2): 16.39, (1.05, 0.005, 0.2): 20.88,
}  # fmt: skip
"""J_tot computed with 120 digits and rounded to four."""
ORDERS = 8
"""Number of orders of the units in which the plain inverse is computed; the order changes only the rounding."""
STEPS = 1024
"""Steps after which the plain sums are truncated; all of these networks have forgotten the signal by then."""


def _subject(network: Network) -> Subject:
    alpha, beta, d = network
    return about(alpha=alpha, beta=beta, d=d)


def _digits(printed: float) -> int:
    """Return the decimals of a printed value; the table has three significant digits."""
    return 2 if printed < 10 else 1


def rounding_range(printed: float) -> Agreement:
    """Return the numbers that round to a value of the table."""
    return _rounded_to(printed, _digits(printed))


def _rounded_to(value: float, digits: int) -> Agreement:
    low, high = (round(value + side * 0.5 * 10**-digits, digits + 1) for side in (-1, 1))
    return chosen(low, high, "numbers that round to the printed one, since nothing is random")


def _cases(networks: Sequence[Network], size: int) -> dict[Subject, dict[str, float]]:
    names = ("alpha", "beta", "d", "size")
    return {_subject(network): dict(zip(names, (*network, size), strict=True)) for network in networks}


def plain_totals(
    A: Float[Tensor, "size size"], w: Float[Tensor, " size"], generator: torch.Generator, orders: int = ORDERS
) -> Float[Tensor, " orders"]:
    """Return J_tot by the direct method, once per order of the units: sum C, invert it, sum `(A^k w)^T C^-1 A^k w`.

    >>> A = feed_forward(1.0, 0.0, 0.0, 10)
    >>> [round(total, 6) for total in plain_totals(A, first_unit(10), torch.Generator(), 2).tolist()]
    [2.928968, 2.928968]
    """
    totals = []
    for number in range(orders):
        order = torch.randperm(len(w), generator=generator) if number else torch.arange(len(w))
        step, signals = A[order][:, order], w[order][:, None]
        C, power = torch.eye(len(w), dtype=A.dtype), step
        while signals.shape[1] < STEPS:  # sums of 1, 2, 4, ... steps
            C = C + power @ C @ power.mT
            signals = torch.cat([signals, power @ signals], dim=1)
            power = power @ power
        totals.append((signals * (torch.linalg.inv(C) @ signals)).sum())
    return torch.stack(totals)


class FisherTable(ComputedStudy):
    """The twelve networks of Table 5, by the lens and by a plain inverse."""

    name = "fisher-table"
    title = "Total memory of feed-forward chains"
    question = "How much Fisher information about past signals does a chain hold, and which printed values are exact?"
    claims = (
        *(
            Claim(
                _subject(network),
                "printed",
                f"{value:.{_digits(value)}f}",
                thesis("A.2 Table 5"),
                rounding_range(value),
                reason="round-off of a plain inverse in float64",
            )
            for network, value in PRINTED.items()
        ),
        *(
            Claim(_subject(network), "corrected", f"{value:.2f}", MANY_DIGITS, _rounded_to(value, 2))
            for network, value in CORRECTED.items()
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Two chains of 20 units.", {"cases": _cases([(1.0, 0.0, 0.0), (1.0, 0.005, 0.2)], 20)}),
        **dict.fromkeys(("cpu", "paper"), Preset(ALL_AS_PUBLISHED, {"cases": _cases(list(PRINTED), SIZE)})),
    }
    cites = ("kerg2019", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "Deviation from the exact J_tot. Black: the values that round to the printed one; dots: a plain inverse in "
        f"float64, with the units in {ORDERS} orders, which would all agree without round-off."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        A, w = feed_forward(**case), first_unit(case["size"])
        memory = fisher_memory(A, w)
        assert memory.factor is not None
        singular = torch.linalg.svdvals(memory.factor)
        return {
            "total": float(memory.total),
            "error": memory.error,
            "condition": float((singular[0] / singular[-1]) ** 2),
            "plain": rounded(plain_totals(A, w, generator)),
        }

    def as_published(self, trial: Trial) -> bool:
        return trial.settings["size"] == SIZE

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for each in results:
            result, total = each.result, each.result["total"]
            remark = f"a plain inverse gives {spread(result['plain'], '.2f')}; condition {result['condition']:.0e}"
            printed = self.claim("printed", each.trial.subject)
            rows.append(self.compare([each], printed, [total], f"{total:.4f}", remark))
            if corrected := self.find_claim("corrected", each.trial.subject):
                error = f"estimated relative error {result['error']:.0e}"
                rows.append(self.compare([each], corrected, [total], f"{total:.4f}", error))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.2)
        axes = figure.add_subplot()
        for place, each in enumerate(reversed(results)):
            total, plain = each.result["total"], each.result["plain"]
            label = "plain inverse" if place == 0 else None
            errors = [_percent(value, total) for value in plain]
            axes.plot(errors, [place] * len(plain), "o", color=COLOUR["unstable"], markersize=3.5, label=label)
            if not self.as_published(each.trial):
                continue
            printed = self.claim("printed", each.trial.subject).agreement
            assert printed is not None
            label = "printed" if place == 0 else None
            ends = [_percent(printed.low, total), _percent(printed.high, total)]
            axes.plot(ends, [place, place], "|-", color=COLOUR["ink"], markersize=9, label=label)
        axes.axvline(0, color=COLOUR["stable"], linewidth=1, label="exact")
        axes.set_yticks(range(len(results)), [each.trial.name for each in reversed(results)])
        axes.set_xscale("symlog", linthresh=0.1)
        axes.set_xticks([-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100], ["-100", "-10", "-1", "", "0", "", "1", "10", "100"])
        axes.set(xlabel="deviation from the exact J_tot, in percent", xlim=(-300, 300))
        legend_above(figure, 3)
        axes.set_axisbelow(True)
        style_page_axes(axes)
        return figure


def _percent(value: float, exact: float) -> float:
    return 100 * (value / exact - 1)


STUDY = FisherTable()
