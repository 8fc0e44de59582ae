"""How many states a screened network must keep for stable gradients (Kerg, B.3 Fig 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import torch

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.inspection.gradients import task_gradients
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, Subject, about
from mnemoscope.replication.computed_study import rounded
from mnemoscope.replication.learning_study import by_name, colours
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.denoise import AT_DELAYS
from mnemoscope.studies.kerg2022.notation import TINY, preset, thesis
from mnemoscope.studies.kerg2022.recall import BASE, RecallStudy, until_solved
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (3, 8, 18, 25)
"""Values of the varied parameter of the screen."""
FIXED = 15
"""Value of the other one."""
DELAY = 1000


def _screen(symbol: str, size: int) -> Subject:
    return about(**{symbol: size}, label=f"{symbol} = {size}")


NETWORKS: dict[Subject, dict[str, Any]] = {
    **{_screen("rho", rho): {"cell_options": {"relevant": rho, "short_term": FIXED}} for rho in SIZES},
    **{_screen("nu", nu): {"cell_options": {"relevant": FIXED, "short_term": nu}} for nu in SIZES},
}
"""Screens of several sizes: rho, the slots for relevant states, with nu = 15; nu, the length of the short-term buffer,
with rho = 15. The source names "MemLSTM", but only a screened network has rho and nu."""


def learning(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return the network with the recipe of the RelLSTM of the study denoise, at the published delay."""
    recipe = AT_DELAYS[about("rellstm", delay=DELAY)]
    return {**recipe, "cell_options": {**recipe["cell_options"], **network["cell_options"]}}


SPREAD = "decades of the gradient norm"
LEVERAGE = "range of these decades over nu, as a share of that over rho"
STABLE = 2.0
FLAT = at_most(STABLE, "our reading of 'stable': within a factor of 100")
"""Decades over which a stable gradient may vary along a sequence; our reading, since the source has no number."""
SOURCES = {"rho": thesis("B.3 Fig 1 (left)"), "nu": thesis("B.3 Fig 1 (right)")}
STATEMENTS = {
    ("rho", 3): ("unstable", SOURCES["rho"], at_least(STABLE, "our reading of 'unstable': a factor of 100 or more")),
    ("nu", 3): ("slightly less stable", SOURCES["nu"], FLAT),
}
"""Published statements, with their ranges, about screens that are not called stable."""
SEQUENCES = 10


class ScreeningTradeoff(RecallStudy):
    """Train screened networks of several sizes on the denoise task, and trace the gradient back through time."""

    name = "screening-tradeoff"
    title = "How much to keep"
    question = "How do the two sizes of a screen affect the gradients and the recall?"
    claims = (
        *(
            Claim(_screen(symbol, size), SPREAD, *STATEMENTS.get((symbol, size), ("stable", SOURCES[symbol], FLAT)))
            for symbol in ("rho", "nu")
            for size in SIZES
        ),
        Claim(
            EVERYTHING,
            LEVERAGE,
            "much less leverage",
            SOURCES["nu"],
            at_most(0.5, "our reading of 'much less': at most half"),
        ),
        Claim(
            EVERYTHING,
            "a learned screen",
            "an avenue to explore, without an experiment",
            thesis("7.5"),
            reason="an idea; it would be confirmed by a learned screen that recalls more than the fixed one",
        ),
    )
    base = replace(BASE, name="screening-tradeoff", task="denoise", task_options={"delay": DELAY}, cell="rellstm")
    published_base = base
    published_changes: Mapping[str, Mapping[str, Any]] = {subject.name: each for subject, each in NETWORKS.items()}
    presets: Mapping[str, Preset] = {
        "smoke": preset(
            "A few iterations at a delay of 20, to check that the code runs.",
            {screen: NETWORKS[screen] for screen in (_screen("rho", 3), _screen("nu", 3))},
            task_options={"delay": 20},
            **TINY,
        ),
        "cpu": preset(
            "A delay of 30, 64 units, at most 500 iterations, learning rate 0.001; one seed.",
            NETWORKS,
            task_options={"delay": 30},
            hidden_size=64,
            steps=500,
            evaluate_every=50,
            learning_rate=1e-3,
        ),
        "paper": preset(
            "A delay of 1,000, as published, and the recipe by which RelLSTM learns it in the study denoise; batches "
            "of 64, at most 12,000 iterations, on a GPU; one seed.",
            {name: learning(network) for name, network in NETWORKS.items()},
            device="cuda",
            evaluate_batches=4,
        ),
        "published": preset(
            "As published: a delay of 1,000, at most 200,000 iterations, on a GPU; one seed.", NETWORKS, device="cuda"
        ),
    }
    cites = ("kerg2020", "jing2019")
    caption = (
        "Norm of the gradient of the loss at the states of the trained networks, from the last step back; mean of the "
        "logarithm over sequences. Left: several rho with nu = 15; right: several nu with rho = 15."
    )

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the mean of log10 |dL / dh_t| over sequences, from the last step back; h is the LSTM's output only."""
        model, task, config = load_model(run)
        batch = task.batch(SEQUENCES, config.seed, 0, "validation")
        norms = task_gradients(task, model, batch).norms[0]
        # clamp: a gradient of exactly 0 has no logarithm
        back = norms.clamp(min=torch.finfo(norms.dtype).tiny).log10().mean(1).flip(0)
        return {"gradient": rounded(back)}

    def as_published(self, trial: Trial) -> bool:
        return super().as_published(trial) and trial.settings["task_options"]["delay"] == DELAY

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = super().summarise(results)
        spreads = {
            name: mean(_spread(each) for each in trials)
            for name, trials in by_name([each for each in results if "gradient" in each.result]).items()
        }
        if len(spreads) == len(NETWORKS):
            groups = [[spreads[_screen(symbol, size).name] for size in SIZES] for symbol in ("rho", "nu")]
            rho, nu = (max(group) - min(group) for group in groups)
            remark = f"{nu:.2f} and {rho:.2f} decades"
            rows.append(self.compare(results, self.claim(LEVERAGE), [nu / rho], f"{nu / rho:.2f}", remark, diverged=0))
        return rows

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        curves = [each.result["gradient"] for each in trials if "gradient" in each.result]
        decades = [_spread(each) for each in trials if "gradient" in each.result]
        ratios = ", ".join(f"{10 ** (values[-1] - values[0]):.2g}" for values in curves)
        return [
            self.row(trials, SPREAD, decades, ".2f", f"at the first step {ratios} times the norm at the last"),
            until_solved(name, trials),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.2)
        panels = dict(zip(("rho", "nu"), figure.subplots(1, 2), strict=True))
        drawn = [each for each in results if "gradient" in each.result]
        for symbol, axes in panels.items():
            groups = by_name([each for each in drawn if each.trial.subject[symbol] is not None])
            for (name, trials), colour in zip(groups.items(), colours(), strict=False):
                curves = [each.result["gradient"] for each in trials]
                axes.plot([mean(at) for at in zip(*curves, strict=True)], color=colour, label=name)
            axes.set(xlabel="steps back")
            axes.set_title(f"{symbol} varies", fontsize=PAGE_FONT_SIZE, color=COLOUR["muted"])
            style_page_axes(axes)
            if groups:
                axes.legend(
                    loc="lower center",
                    bbox_to_anchor=(0.5, 1.08),
                    ncols=2,
                    frameon=False,
                    labelcolor=COLOUR["ink"],
                    fontsize=PAGE_FONT_SIZE,
                )
        panels["rho"].set_ylabel("log10 of the gradient's norm")
        return figure


def _spread(finished: Finished) -> float:
    """Return the decades between the largest and the smallest gradient norm of a network."""
    return max(finished.result["gradient"]) - min(finished.result["gradient"])


STUDY = ScreeningTradeoff()
