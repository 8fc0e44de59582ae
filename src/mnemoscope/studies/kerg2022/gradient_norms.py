"""Gradients of nnRNN on the Penn Treebank, through time and during training (Kerg, A.6 Fig 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import add_legend, style_page_axes
from mnemoscope.lenses.gradients.lens import gradient_norms
from mnemoscope.replication.agreement import at_least
from mnemoscope.replication.claims import Claim, Row, as_subject
from mnemoscope.replication.learning_study import colours
from mnemoscope.replication.study import Finished
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.studies.kerg2022.ptb_bpc import GammaClamp, make_presets
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class GradientNorms(GammaClamp):
    """Measure the gradient of the last step's loss at every earlier state of trained networks."""

    name = "gradient-norms"
    title = "Gradients of nnRNN through time"
    question = "How does the gradient grow or decay back through time, and during training?"
    claims = tuple(
        Claim(
            as_subject(name),
            "growth back through time",
            "polynomial",
            thesis("A.6 Fig 3 (left)"),
            at_least(0, "our reading: a power explains more of the variance of log |gradient| than an exponential"),
        )
        for name in GammaClamp.networks
    )
    presets = make_presets(GammaClamp.networks, GammaClamp.networks, GammaClamp.networks)
    lenses = ("gradients",)
    caption = (
        "Left: norm of the gradient of the last step's loss at earlier states of the trained networks. Right: norm of "
        "the gradient of the weights during training."
    )

    def measure(self, run: Path) -> dict[str, Any]:
        model, task, config = load_model(run)
        batch = task.batch(min(16, config.batch_size), config.seed, 0, "validation")
        result = gradient_norms(
            model.cell,
            model.encode(batch.inputs),
            lambda outputs: task.errors(model.readout(outputs), batch)[-1].mean(),
        )
        back = result.norms[0].float().mean(1).flip(0)  # in the precision of the network
        return super().measure(run) | {"gradient": [float(f"{value:.4g}") for value in back.tolist()]}

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        curves = [each.result["gradient"] for each in trials if "gradient" in each.result]
        advantages = [polynomial(norms)[1] for norms in curves]
        powers = ", ".join(f"k^{polynomial(norms)[0]:.2f}" for norms in curves)
        remark = f"{powers}, k steps back; here: variance of log |gradient| that a power explains beyond an exponential"
        return [self.row(trials, "growth back through time", advantages, ".2f", remark if curves else "")]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.4)
        back, training = figure.subplots(1, 2)
        for colour, each in zip(colours(), results, strict=False):
            if "gradient" in each.result:
                norms = each.result["gradient"]
                back.loglog(range(1, 1 + len(norms)), norms, color=colour)
            curve = each.result["curve"]
            training.semilogy(curve["step"], curve["gradient_norm"], color=colour, label=each.trial.name)
        back.set(xlabel="steps back", ylabel="norm of the gradient")
        training.set(xlabel="iterations")
        add_legend(training)
        for axes in (back, training):
            style_page_axes(axes)
        return figure


def polynomial(norms: Sequence[float]) -> tuple[float, float]:
    """Fit `norm ~ k^a` to the norms k steps back, from the fifth step.

    Returns:
        The exponent a, and the share of the variance of log norm that the power explains, less the share that an
        exponential explains.

    >>> exponent, better = polynomial([k**1.5 for k in range(1, 151)])
    >>> round(exponent, 6), better > 0, polynomial([1.05**k for k in range(1, 151)])[1] > 0
    (1.5, True, False)

    """
    k, log_norm = np.arange(1, 1 + len(norms))[4:], np.log(np.maximum(norms, 1e-300))[4:]
    residuals = []
    for x in (np.log(k), k):
        slope, offset = np.polyfit(x, log_norm, 1)
        residuals.append(np.var(log_norm - slope * x - offset))
    exponent = np.polyfit(np.log(k), log_norm, 1)[0]
    return float(exponent), float((residuals[1] - residuals[0]) / max(np.var(log_norm), 1e-12))


STUDY = GradientNorms()
