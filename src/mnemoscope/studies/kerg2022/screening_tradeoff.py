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
from mnemoscope.replication.learning_study import LearningStudy, by_name, colours
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.denoise import SCREENED
from mnemoscope.studies.kerg2022.notation import TINY, preset, thesis
from mnemoscope.studies.kerg2022.recall import BASE, until_solved
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (3, 8, 18, 25)
"""Values of the varied parameter of the screen."""
FIXED = 15
"""Value of the other one."""


def _screen(symbol: str, size: int) -> Subject:
    return about(**{symbol: size}, label=f"{symbol} = {size}")


NETWORKS: dict[Subject, dict[str, Any]] = {
    **{_screen("rho", rho): {"cell_options": {"relevant": rho, "short_term": FIXED}} for rho in SIZES},
    **{_screen("nu", nu): {"cell_options": {"relevant": FIXED, "short_term": nu}} for nu in SIZES},
}
"""Screens of several sizes: rho, the slots for relevant states, with nu = 15; nu, the length of the short-term buffer,
with rho = 15. The source names "MemLSTM", but only a screened network has rho and nu."""


def learning(network: Mapping[str, Any]) -> dict[str, Any]:
    """Return the network with the recipe of the RelLSTM of the study denoise."""
    options = {**SCREENED["rellstm"]["cell_options"], **network["cell_options"]}
    return {**SCREENED["rellstm"], "cell_options": options}


SPREAD = "decades of the gradient norm"
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


class ScreeningTradeoff(LearningStudy):
    """Train screened networks of several sizes on the denoise task, and trace the gradient back through time."""

    name = "screening-tradeoff"
    title = "How much to keep"
    question = "How do the two sizes of a screen affect the gradients and the recall?"
    score = "accuracy"
    score_in_words = "recall"
    claims = (
        *(
            Claim(_screen(symbol, size), SPREAD, *STATEMENTS.get((symbol, size), ("stable", SOURCES[symbol], FLAT)))
            for symbol in ("rho", "nu")
            for size in SIZES
        ),
        Claim(
            EVERYTHING,
            "a learned screen",
            "an avenue to explore, without an experiment",
            thesis("7.5"),
            reason="an idea; it would be confirmed by a learned screen that recalls more than the fixed one",
        ),
    )
    base = replace(BASE, name="screening-tradeoff", task="denoise", task_options={"delay": 1000}, cell="rellstm")
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
            "A delay of 100 (published: 1,000) and the recipe by which RelLSTM learns it in the study "
            "denoise; batches of 64, at most 6,000 iterations, on a GPU; one seed.",
            {name: learning(network) for name, network in NETWORKS.items()},
            task_options={"delay": 100},
            device="cuda",
            steps=6000,
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
        """Whether the task, the size and the length of training are as published; another row has the recall."""
        names = ("task_options", "hidden_size", "steps")
        return all(trial.settings[name] == getattr(self.base, name) for name in names)

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        curves = [each.result["gradient"] for each in trials if "gradient" in each.result]
        decades = [max(values) - min(values) for values in curves]
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


STUDY = ScreeningTradeoff()
