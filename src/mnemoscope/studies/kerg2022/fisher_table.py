"""How much feed-forward chains hold in all (Kerg, A.2 Table 5), and which printed values are off."""

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
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computing import ComputedStudy, legend_above, rounded, spread
from mnemoscope.replication.linear_networks import feed_forward, first_unit
from mnemoscope.replication.study import Finished, Preset, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 100
ROUND_OFF = "round-off of a plain inverse in float64"
PRINTED = {
    (0.95, 0.0, 0.0): 3.03, (1.0, 0.0, 0.0): 5.19, (1.05, 0.0, 0.0): 12.1,
    (0.95, 0.005, 0.0): 3.18, (1.0, 0.005, 0.0): 5.30, (1.05, 0.005, 0.0): 12.1,
    (0.95, 0.0, 0.2): 12.0, (1.0, 0.0, 0.2): 16.2, (1.05, 0.0, 0.2): 20.5,
    (0.95, 0.005, 0.2): 12.1, (1.0, 0.005, 0.2): 16.3, (1.05, 0.005, 0.2): 20.4,
}  # fmt: skip
"""Table 5: (alpha, beta, d) and J_tot."""
CORRECTED = {
    (0.95, 0.0, 0.2): 11.94, (1.0, 0.0, 0.2): 16.30, (1.05, 0.0, 0.2): 20.84,
    (0.95, 0.005, 0.2): 12.09, (1.0, 0.005, 0.2): 16.39, (1.05, 0.005, 0.2): 20.88,
}  # fmt: skip
"""With 120 digits, rounded to four."""
ORDERS = 8
"""Orders of the units in which the plain inverse is taken: they change nothing but the rounding."""
STEPS = 1024
"""Steps after which the plain sums are cut off; all of these networks have forgotten by then."""


def _subject(network: tuple[float, float, float]) -> Subject:
    alpha, beta, d = network
    return about(alpha=alpha, beta=beta, d=d)


def _digits(printed: float) -> int:
    """After the point: the table has three in all."""
    return 2 if printed < 10 else 1


def _half_a_digit(value: float, digits: int) -> tuple[float, float]:
    return round(value - 0.5 * 10**-digits, digits + 1), round(value + 0.5 * 10**-digits, digits + 1)


def _cases(networks: Sequence[tuple[float, float, float]], size: int) -> dict[Subject, dict[str, float]]:
    return {_subject(one): dict(zip(("alpha", "beta", "d", "size"), (*one, size), strict=True)) for one in networks}


def plain_totals(
    A: Float[Tensor, "size size"], w: Float[Tensor, " size"], generator: torch.Generator, orders: int = ORDERS
) -> Float[Tensor, " orders"]:
    """J_tot as one writes it first: sum C, invert it, sum `(A^k w)^T C^-1 A^k w`; once per order of the units.

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
    title = "What feed-forward chains hold in all"
    question = "How much Fisher information about past signals does a chain hold, and which printed values are exact?"
    claims = (
        *(
            Claim(
                _subject(one),
                "printed",
                f"{value:.{_digits(value)}f}",
                Source("kerg2022thesis", "A.2 Table 5"),
                _half_a_digit(value, _digits(value)),
                reason=ROUND_OFF,
            )
            for one, value in PRINTED.items()
        ),
        *(
            Claim(
                _subject(one),
                "corrected",
                f"{value:.2f}",
                Source("mnemoscope", "computed with 120 digits"),
                _half_a_digit(value, 2),
            )
            for one, value in CORRECTED.items()
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Two chains of 20 units.", {"cases": _cases([(1.0, 0.0, 0.0), (1.0, 0.005, 0.2)], 20)}),
        "cpu": Preset("All twelve networks as published, some seconds.", {"cases": _cases(list(PRINTED), SIZE)}),
        "paper": Preset("All twelve networks as published, some seconds.", {"cases": _cases(list(PRINTED), SIZE)}),
    }
    cites = ("kerg2019", "ganguli2008")
    lenses = ("fisher",)
    caption = (
        "How far from the exact J_tot. Black: all that rounds to what is printed; dots: a plain inverse in float64, "
        f"with the units in {ORDERS} orders, which should change nothing."
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
        for one in results:
            total = one.result["total"]
            remark = (
                f"a plain inverse gives {spread(one.result['plain'], '.2f')}; condition {one.result['condition']:.0e}"
            )
            printed = self.claim("printed", one.trial.subject)
            rows.append(self.row([one], printed, [total], f"{total:.4f}", remark))
            if corrected := self.find_claim("corrected", one.trial.subject):
                error = f"solves its equation to {one.result['error']:.0e}"
                rows.append(self.row([one], corrected, [total], f"{total:.4f}", error))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.2)
        axes = figure.add_subplot()
        for place, one in enumerate(reversed(results)):
            total, plain = one.result["total"], one.result["plain"]
            first = place == 0
            axes.plot(
                [_percent(value, total) for value in plain],
                [place] * len(plain),
                "o",
                color=COLOUR["unstable"],
                markersize=3.5,
                label="plain inverse" if first else None,
            )
            if not self.as_published(one.trial):
                continue
            low, high = self.claim("printed", one.trial.subject).tolerance or (0.0, 0.0)
            axes.plot(
                [_percent(low, total), _percent(high, total)],
                [place, place],
                "|-",
                color=COLOUR["ink"],
                markersize=9,
                label="printed" if first else None,
            )
        axes.axvline(0, color=COLOUR["stable"], linewidth=1, label="exact")
        axes.set_yticks(range(len(results)), [one.trial.name for one in reversed(results)])
        axes.set_xscale("symlog", linthresh=0.1)
        axes.set_xticks([-100, -10, -1, -0.1, 0, 0.1, 1, 10, 100], ["-100", "-10", "-1", "", "0", "", "1", "10", "100"])
        axes.set(xlabel="above or below the exact J_tot, in percent", xlim=(-300, 300))
        legend_above(figure, 3)
        axes.set_axisbelow(True)
        style_page_axes(axes)
        return figure


def _percent(value: float, exact: float) -> float:
    return 100 * (value / exact - 1)


STUDY = FisherTable()
