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

FIT, EXPONENT = "power against exponential, last loss", "exponent of the power, all losses"
A_6 = thesis("A.6 Fig 3 (left)")
GROWS = at_least(0.1, "our reading of 'growing': by at least a quarter over ten times as many steps")


class GradientNorms(GammaClamp):
    """Measure the gradient at every state of trained networks.

    The gradient of the last step's loss shows how far back one error reaches. The gradient of the training loss, the
    mean over all steps, is the one that is back-propagated in training: at earlier states it sums up more errors.
    """

    name = "gradient-norms"
    title = "Gradients of nnRNN through time"
    question = "How does the gradient grow or decay back through time, and during training?"
    claims = tuple(
        claim
        for name in GammaClamp.networks
        for claim in (
            Claim(
                as_subject(name),
                FIT,
                "polynomial",
                A_6,
                at_least(0, "a power explains more of the variance of log |gradient| than an exponential"),
            ),
            Claim(as_subject(name), EXPONENT, "growing", A_6, GROWS),
        )
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
        inputs = model.encode(batch.inputs)

        def norms(chosen: slice) -> list[float]:
            """Return the norms back from the last state, of the gradient of the mean loss at these steps."""
            result = gradient_norms(
                model.cell, inputs, lambda outputs: task.errors(model.readout(outputs), batch)[chosen].mean()
            )
            back = result.norms[0].float().mean(1).flip(0)  # in the precision of the network
            return [float(f"{value:.4g}") for value in back.tolist()]

        measured = {"gradient": norms(slice(-1, None)), "gradient_of_all": norms(slice(None))}
        return super().measure(run) | measured

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        last, everything = (
            [polynomial(each.result[key]) for each in trials if key in each.result]
            for key in ("gradient", "gradient_of_all")
        )
        powers = ", ".join(f"k^{exponent:.2f}" for exponent, _ in last)
        remark = f"{powers}, k steps back; here: difference of the explained shares of variance" if last else ""
        return [
            self.row(trials, FIT, [better for _, better in last], ".2f", remark),
            self.row(trials, EXPONENT, [exponent for exponent, _ in everything], ".2f"),
        ]

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
