"""What `mnemoscope inspect` shows of a relational network: problems that it was not trained with, and its answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.relational import Scenes, Solver
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import Problems
from mnemoscope.tasks.relational import RelationalTask, picture
from mnemoscope.tasks.splits import Split
from mnemoscope.training import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEMS, BATCH = 1000, 100
"""With which a network is tested, of each kind, and how many of them at once."""
SHOWN = 6


@dataclass(frozen=True)
class ProblemsSeen:
    """How a trained network answers."""

    task: RelationalTask
    unseen: float
    """Accuracy on problems of what was held out from training, if anything was."""
    seen: float
    """Accuracy on further problems of what was trained with."""
    scenes: Scenes
    """Problems of what was held out."""
    answers: Int[Tensor, " batch"]
    """What the network says to them."""

    def summary(self) -> str:
        """The result in words."""
        guessed = f"{1 / self.task.choices:.1%} can be guessed."
        if not self.task.held_out:
            return (
                f"{self.unseen:.1%} of {PROBLEMS:,} new problems are answered right; nothing was held out of training, "
                f"and {guessed}"
            )
        return (
            f"{self.unseen:.1%} of {PROBLEMS:,} problems with {' and '.join(self.task.held_out)} that were held out of "
            f"training are answered right, and {self.seen:.1%} of as many new ones with those that were not; {guessed}"
        )

    def section(self) -> Section:
        """The section of the page."""
        caption = (
            "Where the right answer is one of the objects shown, it is framed. Problems that are answered wrong come "
            f"first, {SHOWN // 2} of them if there are."
        )
        alt = "Problems with what is right and what the network says."
        held_out = " and ".join(self.task.held_out)
        which = f"With {held_out} that were held out of training" if held_out else "New ones"
        return Section(
            "Problems", f"{which}, and what the network says to them.",
            figure_markup(self.figure(), "problems", alt=alt, caption=caption),
        )  # fmt: skip

    def figure(self) -> Figure:
        """Some problems with their answers, wrong ones first."""
        right = self.answers == self.scenes.labels
        wrong = (~right).nonzero().flatten().tolist()[: SHOWN // 2]
        chosen = [*wrong, *right.nonzero().flatten().tolist()][:SHOWN]
        columns = 3
        rows = -(-len(chosen) // columns)
        figure = new_figure(7.2, 2.6 * rows)
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel in panels:
            panel.axis("off")
        for panel, problem in zip(panels, chosen, strict=False):
            panel.imshow(picture(self.task, self.scenes, problem).numpy(), interpolation="nearest")
            label, answer = int(self.scenes.labels[problem]), int(self.answers[problem])
            words = f"right: {self.task.answers[label]}\nsaid: {self.task.answers[answer]}"
            colour = COLOUR["ink" if answer == label else "accent"]
            panel.set_title(words, color=colour, fontsize=PAGE_FONT_SIZE, loc="left")
        return figure


@torch.no_grad()
def look_at_problems(model: Solver, task: Problems, config: RunConfig) -> ProblemsSeen:
    """The answers of a trained network, in evaluation mode."""
    scenes = task.of.batch(BATCH, config.seed, 0, "test")
    answers = model(scenes)[0][0].argmax(-1)
    unseen, seen = (accuracy(model, task, config.seed, split) for split in ("test", "validation"))
    return ProblemsSeen(task.of, unseen, seen, scenes, answers)


def accuracy(model: Model, task: Problems, seed: int, split: Split) -> float:
    """How many of so many problems of a split are answered right."""
    batches = (task.batch(BATCH, seed, number, split) for number in range(PROBLEMS // BATCH))
    return evaluate(model, task, batches)["accuracy"]
