"""Does an episodic memory recall its memories one after the other, as their interaction says (Karuvally et al. 2023)?

The theory calls Phi the temporal interaction of the stored memories, and takes the map of Eq 8, in which the delayed
copy follows at every step, for the network. Nothing was published of whether that map steps from memory to memory, so
that no verdict is given. Here memories call for each other in a cycle. What is varied is how many steps the delayed
copy stays as it is before it follows, k, where k = 1 is Eq 8, and by which gain Phi is multiplied.

An earlier analysis of such networks, which is not published, found recall to be exact for k = 20 at gains from 0.5 to 3
and for k = 5 from 1.2 on, and memories to mix for k = 1. What is measured here differs. At the smaller of these gains
some networks fail, because random patterns of 40 features overlap by chance; of orthogonal patterns none does. And for
k = 1 most networks step from memory to memory without fault once the gain is 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import Tanh
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.lenses import measure_recall
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computing import ComputedStudy, legend_above, rounded
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES, MEMORIES, BETA, PERIODS, NETWORKS = 40, 5, 2.0, 20, 50
GAINS = (0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)
STEPS = (1, 2, 5, 20)
EXAMPLE, SHOWN = 1.2, 40
"""The gain whose overlaps are drawn, and for how many inner steps."""
AT_ONE = Claim(
    about(k=1, gain=1, label="k = 1, gain 1"),
    "networks that follow Phi",
    "Phi is the temporal interaction of memories; no number",
    Source("karuvally2023", "section 3, Eq 8 and 11"),
)
EXPECTED = {
    1: ("memories mix in every network", lambda gain, share: share == 0),
    5: ("without fault from 1.2 on", lambda gain, share: gain < 1.2 or share == 1),
    20: ("without fault from 0.5 to 3", lambda gain, share: not 0.5 <= gain <= 3 or share == 1),
}
"""Of each k, what an earlier analysis, not published, lets one expect, and whether a share at a gain is as expected."""
COLOURS = ("stable", "saddle-1", "unstable", "slow", "marginal", "saddle-3")


def cyclic_memory(patterns: Float[Tensor, "features memories"], gain: float, beta: float = BETA) -> EpisodicMemory:
    """Patterns of +-1, each of length 1 in Xi, of which each calls for the next, with this strength; tanh(beta x).

    >>> cyclic_memory(torch.ones(4, 3), 2.0).Phi.tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
    """
    features, memories = patterns.shape
    cycle = torch.eye(memories, dtype=patterns.dtype).roll(1, 1)
    return EpisodicMemory(patterns / features**0.5, gain * cycle, Tanh(beta))


def _cases(steps: Sequence[int], gains: Sequence[float], networks: int) -> dict[Subject, dict[str, Any]]:
    same = {
        "gains": [*gains],
        "networks": networks,
        "features": FEATURES,
        "memories": MEMORIES,
        "beta": BETA,
        "periods": PERIODS,
    }
    return {about(k=k): {"k": k, **same} for k in steps}


class SequenceRecall(ComputedStudy):
    """Share of networks that recall a cycle of memories without fault, against k and gain."""

    name = "sequence-recall"
    title = "Recall of stored memories, one after the other"
    question = "Does an episodic memory step through its memories as Phi says, and what does it take?"
    claims = (AT_ONE,)
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Three networks, three gains.", {"cases": _cases((1, 20), (0.5, 1.0, 3.0), 3)}),
        "cpu": Preset(
            "50 networks of 40 features, ten gains, some seconds.", {"cases": _cases(STEPS, GAINS, NETWORKS)}
        ),
        "paper": Preset("1,000 networks, a minute or two.", {"cases": _cases(STEPS, GAINS, 1000)}),
    }
    cites = ("karuvally2023",)
    lenses = ("recall",)
    caption = (
        "Left: networks that recall 20 memories in a row as their cycle says, against the gain of Phi, with the "
        "delayed copy frozen for k steps. Right: overlap of one network with its five memories, a colour each, at "
        "gain 1.2: for k = 1 they mix, for k = 5 it steps from one to the next."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        shape = case["features"], case["memories"]
        drawn = [2.0 * torch.randint(0, 2, shape, generator=generator).double() - 1 for _ in range(case["networks"])]
        whole, right, least = [], [], []
        for gain in case["gains"]:
            seen = [
                measure_recall(cyclic_memory(one, gain, case["beta"]), 0, case["periods"], case["k"]) for one in drawn
            ]
            exact = torch.stack([one.exact[:, 0] for one in seen])
            whole.append(exact.all(1).double().mean())
            right.append(exact.double().mean())
            least.append(torch.stack([one.margin.min() for one in seen]).median())
        example = measure_recall(cyclic_memory(drawn[0], EXAMPLE, case["beta"]), 0, -(-SHOWN // case["k"]), case["k"])
        return {
            "exact": rounded(torch.stack(whole)),
            "periods": rounded(torch.stack(right)),
            "margin": rounded(torch.stack(least)),
            "example": [rounded(one) for one in example.overlaps[: SHOWN + 1, 0].mT],
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for one in sorted(results, key=lambda one: one.trial.settings["k"]):
            k, gains = one.trial.settings["k"], one.trial.settings["gains"]
            share = dict(zip(gains, one.result["exact"], strict=True))
            if k == 1:
                at_one = share[1.0]
                periods = dict(zip(gains, one.result["periods"], strict=True))[1.0]
                remark = (
                    f"{periods:.0%} of the steps are right, as I + Phi^T holds the last memory as much as it calls for "
                    f"the next"
                )
                rows.append(self.row([one], AT_ONE, [at_one], f"{at_one:.0%}", remark))
            rows.append(
                Row(f"k = {k}: gains without fault", "nothing", _without_fault(share), remark=_remark(k, share))
            )
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.6, 4.4)
        grid = figure.add_gridspec(2, 2)
        left, drawn = figure.add_subplot(grid[:, 0]), sorted(results, key=lambda one: one.trial.settings["k"])
        for one, colour in zip(drawn, COLOURS, strict=False):
            left.plot(
                one.trial.settings["gains"],
                one.result["exact"],
                color=COLOUR[colour],
                marker="o",
                markersize=4,
                label=f"k = {one.trial.settings['k']}",
            )
        left.set(xscale="log", xlabel="gain of Phi", ylabel="networks without fault", ylim=(-0.03, 1.03))
        left.set_xticks([0.3, 1, 3, 8], labels=["0.3", "1", "3", "8"])
        left.minorticks_off()
        style_page_axes(left)
        chosen = [one for one in drawn if one.trial.settings["k"] in (1, 5)] or drawn
        for place, one in enumerate((chosen[0], chosen[-1])):
            axes = figure.add_subplot(grid[place, 1])
            for curve, colour in zip(one.result["example"], COLOURS, strict=False):
                axes.plot(curve, color=COLOUR[colour], linewidth=1.4)
            axes.set(ylim=(-1.05, 1.05), ylabel=f"overlap, k = {one.trial.settings['k']}", yticks=[-1, 0, 1])
            style_page_axes(axes)
            axes.set_xlabel("inner step" if place else "")
        legend_above(figure, len(drawn))
        return figure


def _without_fault(share: Mapping[float, float]) -> str:
    """The gains at which no network fails, as ranges among those tried."""
    tried, ranges = [*share], []
    for gain in tried:
        if share[gain] < 1:
            continue
        if ranges and tried.index(ranges[-1][1]) + 1 == tried.index(gain):
            ranges[-1][1] = gain
        else:
            ranges.append([gain, gain])
    return ", ".join(f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ranges) or "none"


def _remark(k: int, share: Mapping[float, float]) -> str:
    """The share at each gain, and where it is not what one would expect."""
    told = "not in the paper; " + ", ".join(f"{gain:g}: {one:.0%}" for gain, one in share.items())
    if k not in EXPECTED:
        return told
    words, as_expected = EXPECTED[k]
    other = [f"{gain:g}" for gain, one in share.items() if not as_expected(gain, one)]
    differs = f"so not at {', '.join(other)}" if other else "so at all of these gains"
    return f"{told}; expected from an earlier analysis, not published: {words}; {differs}"


STUDY = SequenceRecall()
