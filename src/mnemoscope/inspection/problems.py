"""Findings about a relational network: its answers to problems that it was not trained with."""

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
from mnemoscope.relational import Scenes, SingleStepModel
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.tasks import RelationalSequence
from mnemoscope.tasks.relational import RelationalTask, picture
from mnemoscope.tasks.splits import Split
from mnemoscope.training import evaluate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEMS, BATCH = 1000, 100
"""Test problems of each kind, and the size of their batches."""
SHOWN, COLUMNS = 6, 3
"""Problems in the figure, and next to each other."""


@dataclass(frozen=True)
class ProblemFindings:
    """Answers of a trained network."""

    task: RelationalTask
    unseen: float
    """Accuracy on test problems, with held-out shapes, objects or relations if the task holds any out."""
    seen: float
    """Accuracy on validation problems, which hold nothing out."""
    scenes: Scenes
    """Test problems."""
    answers: Int[Tensor, " batch"]
    """Answers of the network to these problems."""

    def summary(self) -> str:
        """Return the findings in sentences."""
        guessing = f"Guessing reaches {1 / self.task.choices:.1%}."
        if not self.task.held_out:
            return (
                f"{self.unseen:.1%} of {PROBLEMS:,} new problems are answered correctly; nothing was held out from "
                f"training. {guessing}"
            )
        held_out = " and ".join(self.task.held_out)
        return (
            f"{self.unseen:.1%} of {PROBLEMS:,} problems with {held_out} held out from training are answered "
            f"correctly, and {self.seen:.1%} of as many new problems with the others. {guessing}"
        )

    def section(self) -> Section:
        """Return the section of the page."""
        held_out = " and ".join(self.task.held_out)
        lead = f"Problems with {held_out} held out from training" if held_out else "New problems"
        caption = (
            f"If the right answer is one of the objects, it is framed. Up to {SHOWN // 2} problems with a wrong answer "
            f"come first."
        )
        alt = "Problems with the right answer and the answer of the network."
        html = figure_markup(self.figure(), "problems", alt=alt, caption=caption)
        return Section("Problems", f"{lead}, with the answers of the network.", html)

    def figure(self) -> Figure:
        """Draw some problems with their answers, wrong ones first."""
        right = self.answers == self.scenes.labels
        wrong = (~right).nonzero().flatten().tolist()[: SHOWN // 2]
        chosen = [*wrong, *right.nonzero().flatten().tolist()][:SHOWN]
        rows = -(-len(chosen) // COLUMNS)
        figure = new_figure(7.2, 2.6 * rows)
        panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
        for panel in panels:
            panel.axis("off")
        for panel, problem in zip(panels, chosen, strict=False):
            panel.imshow(picture(self.task, self.scenes, problem).numpy(), interpolation="nearest")
            label, answer = int(self.scenes.labels[problem]), int(self.answers[problem])
            title = f"right: {self.task.answers[label]}\nanswered: {self.task.answers[answer]}"
            colour = COLOUR["ink" if answer == label else "accent"]
            panel.set_title(title, color=colour, fontsize=PAGE_FONT_SIZE, loc="left")
        return figure


@torch.no_grad()
def inspect_problems(model: SingleStepModel, task: RelationalSequence, config: RunConfig) -> ProblemFindings:
    """Record the answers of a trained network to test problems, and measure its accuracy."""
    scenes = task.relational.batch(BATCH, config.seed, 0, "test")
    answers = model(scenes)[0][0].argmax(-1)
    unseen, seen = (accuracy(model, task, config.seed, split) for split in ("test", "validation"))
    return ProblemFindings(task.relational, unseen, seen, scenes, answers)


def accuracy(model: Model, task: RelationalSequence, seed: int, split: Split) -> float:
    """Return the accuracy of a network on `PROBLEMS` problems of a split."""
    batches = (task.batch(BATCH, seed, number, split) for number in range(PROBLEMS // BATCH))
    return evaluate(model, task, batches)["accuracy"]
