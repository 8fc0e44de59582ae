"""Recall of a cycle of stored memories by an episodic memory (Karuvally et al. 2023).

The theory calls I + Phi the temporal interaction of the stored memories. Its network is the map of Eq 8, in which the
delayed copy is updated at every step. Here Phi makes each memory call for the next in a cycle, so that a step of Eq 8
from a memory should lead to a mixture of this memory (I) and the next (Phi): this is the published statement that the
study tests. Whether the map also steps from memory to memory was not published. For that, the study varies the gain of
Phi and the number k of steps between updates of the delayed copy; k = 1 is Eq 8.

An earlier, unpublished analysis of such networks found exact recall for k = 20 at gains from 0.5 to 3 and for k = 5
from 1.2 upwards, and mixed memories for k = 1. The results here differ. At the smaller of these gains some networks
fail, because random patterns of 40 features overlap by chance; networks with orthogonal patterns do not fail. And for
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
from mnemoscope.replication.agreement import at_least
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, rounded
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES, MEMORIES, BETA, PERIODS, NETWORKS = 40, 5, 2.0, 20, 50
GAINS = (0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0)
STEPS = (1, 2, 5, 20)
"""Values of k: steps between updates of the delayed copy."""
EXAMPLE, SHOWN = 1.2, 40
"""Gain at which overlaps are drawn, and number of inner steps drawn."""
AT_ONE = Claim(
    about(k=1, gain=1, label="k = 1, gain 1"),
    "networks whose first step leads to a memory and its successor",
    "I + Phi is the temporal interaction between the stored memories",
    Source("karuvally2023", "section 3, Eq 8 and 11"),
    at_least(
        0.95, "our reading: in nearly all networks these two memories have the largest overlaps; chance has 1 in 10"
    ),
    reason="random patterns of 40 features overlap: all networks with orthogonal ones do it",
)
EXPECTED = {
    1: ("memories mix in every network", lambda gain, share: share == 0),
    5: ("without fault from 1.2 upwards", lambda gain, share: gain < 1.2 or share == 1),
    20: ("without fault from 0.5 to 3", lambda gain, share: not 0.5 <= gain <= 3 or share == 1),
}
"""For each k: the result of an earlier, unpublished analysis, and a test whether a share at a gain agrees with it."""
COLOURS = ("stable", "saddle-1", "unstable", "slow", "marginal", "saddle-3")


def cyclic_memory(patterns: Float[Tensor, "features memories"], gain: float, beta: float = BETA) -> EpisodicMemory:
    """Return a memory of patterns of +-1 in which each pattern calls for the next one with strength `gain`.

    The columns of Xi have norm 1; the activation is tanh(beta x).

    >>> cyclic_memory(torch.ones(4, 3), 2.0).Phi.tolist()
    [[0.0, 2.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 0.0]]
    """
    features, memories = patterns.shape
    cycle = torch.eye(memories, dtype=patterns.dtype).roll(1, 1)
    return EpisodicMemory(patterns / features**0.5, gain * cycle, Tanh(beta))


def _cases(steps: Sequence[int], gains: Sequence[float], networks: int) -> dict[Subject, dict[str, Any]]:
    same = {"features": FEATURES, "memories": MEMORIES, "beta": BETA, "periods": PERIODS}
    return {about(k=k): {"k": k, "gains": [*gains], "networks": networks, **same} for k in steps}


class SequenceRecall(ComputedStudy):
    """Share of networks that recall a cycle of memories without fault, against k and gain."""

    name = "sequence-recall"
    title = "Recall of stored memories in sequence"
    question = "Under which conditions does an episodic memory step through its memories in the order of Phi?"
    claims = (AT_ONE,)
    presets: Mapping[str, Preset] = {
        "smoke": Preset("Three networks, three gains.", {"cases": _cases((1, 20), (0.5, 1.0, 3.0), 3)}),
        "cpu": Preset("50 networks with 40 features, ten gains; seconds.", {"cases": _cases(STEPS, GAINS, NETWORKS)}),
        "paper": Preset("1,000 networks; a minute or two.", {"cases": _cases(STEPS, GAINS, 1000)}),
    }
    cites = ("karuvally2023",)
    lenses = ("recall",)
    caption = (
        "Left: share of networks that recall 20 memories in a row in the order of their cycle, against the gain of "
        "Phi, with the delayed copy frozen for k steps. Right: overlap of one network with its five memories (colours) "
        "at gain 1.2: for k = 1 they mix, for k = 5 the network steps from one to the next."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        shape = case["features"], case["memories"]
        drawn = [2.0 * torch.randint(0, 2, shape, generator=generator).double() - 1 for _ in range(case["networks"])]
        all_exact, exact_steps, margins, pairs = [], [], [], []
        for gain in case["gains"]:
            recalls = [
                measure_recall(cyclic_memory(patterns, gain, case["beta"]), 0, case["periods"], case["k"])
                for patterns in drawn
            ]
            exact = torch.stack([recall.exact[:, 0] for recall in recalls])
            all_exact.append(exact.all(1).double().mean())
            exact_steps.append(exact.double().mean())
            margins.append(torch.stack([recall.margin.min() for recall in recalls]).median())
            pairs.append(_share_of_pairs([recall.overlaps[1, 0] for recall in recalls]))
        apart = [
            measure_recall(cyclic_memory(torch.linalg.qr(patterns).Q * shape[0] ** 0.5, 1.0, case["beta"]), 0, 1, 1)
            for patterns in drawn
        ]
        example = measure_recall(cyclic_memory(drawn[0], EXAMPLE, case["beta"]), 0, -(-SHOWN // case["k"]), case["k"])
        return {
            "exact": rounded(torch.stack(all_exact)),
            "periods": rounded(torch.stack(exact_steps)),
            "margin": rounded(torch.stack(margins)),
            "first step": rounded(torch.stack(pairs)),
            "first step, orthogonal": float(_share_of_pairs([recall.overlaps[1, 0] for recall in apart])),
            "example": [rounded(overlaps) for overlaps in example.overlaps[: SHOWN + 1, 0].mT],
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for finished in sorted(results, key=_k):
            k, gains = _k(finished), finished.trial.settings["gains"]
            share = dict(zip(gains, finished.result["exact"], strict=True))
            if k == 1:
                pairs, periods = (
                    dict(zip(gains, finished.result[key], strict=True))[1.0] for key in ("first step", "periods")
                )
                remark = (
                    f"{finished.result['first step, orthogonal']:.0%} with orthogonal memories; "
                    f"{share[1.0]:.0%} of the networks then step through the memories without fault, and {periods:.0%} "
                    "of all steps are right: I + Phi^T holds the last memory as strongly as it calls for the next"
                )
                rows.append(self.compare([finished], AT_ONE, [pairs], f"{pairs:.0%}", remark))
            rows.append(
                Row(f"k = {k}: gains without fault", "nothing", _without_fault(share), remark=_remark(k, share))
            )
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.6, 4.4)
        grid = figure.add_gridspec(2, 2)
        left, drawn = figure.add_subplot(grid[:, 0]), sorted(results, key=_k)
        for finished, colour in zip(drawn, COLOURS, strict=False):
            gains, exact, label = finished.trial.settings["gains"], finished.result["exact"], f"k = {_k(finished)}"
            left.plot(gains, exact, color=COLOUR[colour], marker="o", markersize=4, label=label)
        left.set(xscale="log", xlabel="gain of Phi", ylabel="networks without fault", ylim=(-0.03, 1.03))
        left.set_xticks([0.3, 1, 3, 8], labels=["0.3", "1", "3", "8"])
        left.minorticks_off()
        style_page_axes(left)
        chosen = [finished for finished in drawn if _k(finished) in (1, 5)] or drawn
        for place, finished in enumerate((chosen[0], chosen[-1])):
            axes = figure.add_subplot(grid[place, 1])
            for curve, colour in zip(finished.result["example"], COLOURS, strict=False):
                axes.plot(curve, color=COLOUR[colour], linewidth=1.4)
            axes.set(ylim=(-1.05, 1.05), ylabel=f"overlap, k = {_k(finished)}", yticks=[-1, 0, 1])
            style_page_axes(axes)
            axes.set_xlabel("inner step" if place else "")
        legend_above(figure, len(drawn))
        return figure


def _share_of_pairs(overlaps: Sequence[Float[Tensor, " memories"]]) -> Tensor:
    """Return the share of networks whose two largest overlaps are those with the first memory and its successor."""
    largest = torch.stack([each.topk(2).indices.sort().values for each in overlaps])
    return (largest == torch.tensor([0, 1])).all(1).double().mean()


def _k(finished: Finished) -> int:
    return finished.trial.settings["k"]


def _without_fault(share: Mapping[float, float]) -> str:
    """Return the gains at which no network fails, as ranges of the gains tested."""
    gains, ranges = [*share], []
    for gain in gains:
        if share[gain] < 1:
            continue
        if ranges and gains.index(ranges[-1][1]) + 1 == gains.index(gain):
            ranges[-1][1] = gain
        else:
            ranges.append([gain, gain])
    return ", ".join(f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ranges) or "none"


def _remark(k: int, share: Mapping[float, float]) -> str:
    """Return the share at each gain, and the gains at which it differs from the expectation."""
    shares = "not in the paper; " + ", ".join(f"{gain:g}: {value:.0%}" for gain, value in share.items())
    if k not in EXPECTED:
        return shares
    expectation, as_expected = EXPECTED[k]
    other = [f"{gain:g}" for gain, value in share.items() if not as_expected(gain, value)]
    agreement = f"differs at {', '.join(other)}" if other else "agrees at all of these gains"
    return f"{shares}; expected from an earlier, unpublished analysis: {expectation}; {agreement}"


STUDY = SequenceRecall()
