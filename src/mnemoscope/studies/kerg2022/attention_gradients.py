"""Gradients of the loss at each step, with and without attention to the past (Kerg, section 4.7 and Fig 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.inspection.gradients import AFTER, BEFORE, gradients_before_and_after
from mnemoscope.lenses.attention import record_attention, sparse_bound, uniform_bound
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.memory.attention import Attentive, FullHistory, SparseBacktracking
from mnemoscope.replication.agreement import at_least, at_most, chosen
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computed_study import legend_above, rounded
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022 import denoise, transfer_copy
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.studies.kerg2022.recall import BASE, RecallStudy, as_many_sequences
from mnemoscope.tasks import Copy
from mnemoscope.training import load_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORKS = ("rnn", "rnn-orth", "lstm", "memrnn", "relrnn", "rellstm", "sab")
"""The source shows RNN, LSTM, MemRNN, SAB and RelLSTM, and states that RelRNN behaves like RelLSTM."""
ALL = {"networks": NETWORKS, "tasks": ("copy", "denoise")}
BACK = "decades from the last step to the first symbol"
ATTENDED = f"{AFTER}, states attended to at a recall"
ON_SYMBOLS = f"{AFTER}, attention to the symbols' states at a recall"
KEPT = f"{AFTER}, of the symbols' states, kept until the recall"
STABLE = 2.0
"""Decades by which a stable gradient may differ there; our reading, since the source has no number."""
OF_WEIGHTS = (
    (ATTENDED, "attended", ".1f", "exponential of the entropy of the weights"),
    (ON_SYMBOLS, "on symbols", ".2f", "sum of the weights"),
    (KEPT, "kept", ".2f", "in the relevant set at the first recall"),
)
"""Quantities of attention weights: the key of a result, the format of numbers, and a remark."""
SEQUENCES = 10
BOUNDS = {"1/T": (0, (1, 2)), "1/κᵈ": (0, (6, 2))}
"""Bounds of the theory, and their dash patterns."""


def _claims() -> Iterable[Claim]:
    source = thesis("section 4.7 and Fig 2 (left)")
    effects = {
        "rnn": ("explodes", at_least(STABLE, "our reading of 'explodes': a factor of 100 or more")),
        "lstm": ("vanishes", at_most(-STABLE, "our reading of 'vanishes': a factor of 100 or more")),
    }
    stable = chosen(-STABLE, STABLE, "our reading of 'stable': within a factor of 100")
    for network in NETWORKS:
        if network != "rnn-orth":
            value, agreement = effects.get(network, ("stable", stable))
            yield Claim(about(network, "denoise"), f"{AFTER}, {BACK}", value, source, agreement)
    few = at_most(20, "our reading of 'a sparse subset': no more than the 20 states that a RelRNN keeps")
    yield Claim(about("memrnn", "denoise"), ATTENDED, "a sparse subset", thesis("4.4.3 and Fig 1 (right)"), few)
    most = at_least(0.5, "our reading of 'corroborated': most of the weight; equal attention gives a twelfth")
    yield Claim(about("memrnn", "copy"), ON_SYMBOLS, "the relevant events", thesis("4.6.1 and Fig 1 (left)"), most)
    predicted = at_least(0.5, "our reading of 'predicted to be relevant': most of them; chance keeps 1 in 100")
    for network in ("relrnn", "rellstm"):
        yield Claim(about(network, "denoise"), KEPT, "the relevant ones", thesis("4.5"), predicted)
    yield Claim(
        EVERYTHING,
        "attention over the short-term buffer alone",
        "two pictures, without a statement",
        thesis("B.4 Fig 8 and 9"),
        reason="pictures without a statement; that only the last nu states have weights follows from the buffer",
    )


class AttentionGradients(RecallStudy):
    """Train networks on the copy and the denoise task; trace the gradient back in time before and after training.

    The settings of a preset are `networks` and `tasks` by name, the `delay`, whether our `recipes` are used, and
    `changes`, which apply to all of them.
    """

    name = "attention-gradients"
    title = "Gradients with and without attention to the past"
    question = "How much of the gradient reaches back to the symbols that must be recalled?"
    published_changes = denoise.AS_PUBLISHED
    claims = tuple(_claims())
    base = replace(BASE, name="attention-gradients", task="denoise", task_options={"delay": 1000}, cell="rellstm")
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A few iterations at a delay of 12, to check that the code runs.",
            {
                "networks": ("lstm", "memrnn", "relrnn", "sab"),
                "tasks": ("copy",),
                "delay": 12,
                "changes": {"hidden_size": 12, "steps": 6, "evaluate_every": 3, "evaluate_batches": 1},
            },
        ),
        "cpu": Preset(
            "A delay of 100, 64 units, at most 1,000 iterations, learning rate 0.001; one seed.",
            {**ALL, "delay": 100, "changes": {"hidden_size": 64, "steps": 1000, "learning_rate": 1e-3}},
        ),
        "paper": Preset(
            "The denoise task with a delay of 1,000 and 128 units, as published, by the recipes of the study denoise, "
            "on a GPU; five seeds.",
            {
                "networks": NETWORKS,
                "tasks": ("denoise",),
                "delay": 1000,
                "recipes": True,
                "changes": {"device": "cuda", "evaluate_batches": 4},
            },
            tuple(range(5)),
        ),
        "weights": Preset(
            "Attention weights of MemRNNs that copy over 100 steps, by the recipe of the study transfer-copy, on a "
            "GPU; three seeds.",
            {
                "networks": ("memrnn",),
                "tasks": ("copy",),
                "delay": 100,
                "recipes": True,
                "changes": {"device": "cuda", "evaluate_batches": 4},
            },
            tuple(range(3)),
        ),
        "published": Preset(
            "As published: a delay of 1,000, 128 units, at most 200,000 iterations, on a GPU; one seed.",
            {**ALL, "delay": 1000, "changes": {"device": "cuda"}},
        ),
    }
    cites = ("kerg2020", "jing2019")
    lenses = ("attention", "gradients")
    caption = (
        "Log10 of the gradient norm of the loss on the recalled symbols, at the hidden state of each step (without "
        "attention: the whole state), before training (grey) and after it (coloured); mean over sequences. Dashed: "
        "lower bounds of the theory, 1/T under uniform attention and 1/κᵈ under sparse attention, with constants "
        "fitted at the last step after training."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        networks = {
            about(network, task): {
                **(_recipe(network, task, settings["delay"]) if settings.get("recipes") else _plain(settings["delay"])),
                "cell": network,
                "task": task,
            }
            for network in settings["networks"]
            for task in settings["tasks"]
        }
        return super().trials({**settings, "networks": networks}, seeds)

    def measure(self, run: Path) -> dict[str, Any]:
        """Return the gradient norms before and after training, their reach, and the exponents of the theory."""
        model, task, config = load_model(run)
        assert isinstance(task, Copy)
        batch = task.batch(SEQUENCES, config.seed, 0, "validation")
        # only errors at steps where a symbol is due: errors on blanks would send gradients back from nearly every step
        batch = batch._replace(mask=batch.targets != task.alphabet)
        gradients = gradients_before_and_after(config, task, model, batch)
        # clamp: a gradient of exactly 0 has no logarithm
        curves = gradients.norms.mean(2).clamp(min=torch.finfo(torch.float64).tiny).log10()
        has_symbol = batch.inputs[..., : task.alphabet].any(-1)
        first = has_symbol.long().argmax(0)
        result: dict[str, Any] = {
            "curves": [rounded(curve) for curve in curves],
            "back": rounded(reach(gradients, first)),
            "decay": rounded(gradients.decay.nan_to_num()),
        }
        cell = model.cell
        if isinstance(cell, Attentive) and not isinstance(cell.past, SparseBacktracking):
            with torch.no_grad():
                attention = record_attention(cell, model.encode(batch.inputs))
            dependencies = attention.dependencies()
            result |= {"kappa": dependencies.sparsity, "skips": dependencies.skips.amax(1).tolist()}
            result["full"] = isinstance(cell.past, FullHistory)
            recall = attention.weights[-task.symbols :]  # the steps at which symbols are due
            result["attended"] = float(effective_states(recall).mean())
            result["on symbols"] = float(torch.einsum("stb,tb->sb", recall, has_symbol.to(recall)).mean())
            if not result["full"]:
                kept = has_symbol & attention.chosen[-task.symbols]
                result["kept"] = float(kept.sum() / has_symbol.sum())
        return result

    def as_published(self, trial: Trial) -> bool:
        """Whether the delay and the size are as published; no delay was published for the copy task."""
        copies = trial.settings["task"] == "copy"
        same_delay = trial.settings["task_options"]["delay"] == self.base.task_options["delay"]
        return super().as_published(trial) and (copies or same_delay)

    def more_rows(self, name: str, trials: Sequence[Finished]) -> list[Row]:
        measurements = [each.result for each in trials if "curves" in each.result]
        rows = []
        for place, when in enumerate((BEFORE, AFTER)):
            measured = [result["back"][place] for result in measurements]
            ratios = ", ".join(f"{10**value:.2g}" for value in measured)
            factors = ", ".join(f"{result['decay'][place]:.3f}" for result in measurements)
            remark = f"{ratios} times the norm at the last step; mean factor per step back: {factors}"
            rows.append(self.row(trials, f"{when}, {BACK}", measured, ".2f", remark if measurements else ""))
        for bound in BOUNDS:
            margins = [_margin(result, bound) for result in measurements]
            measured = [margin for margin in margins if margin is not None]
            if measured:
                remark = "above the bound at every step" if min(measured) >= 0 else "below the bound somewhere"
                rows.append(self.row(trials, f"{AFTER}, least decades above {bound}", measured, ".2f", remark))
        for quantity, key, form, remark in OF_WEIGHTS:
            measured = [result[key] for result in measurements if key in result]
            if measured:
                rows.append(self.row(trials, quantity, measured, form, remark))
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        drawn = [each for each in results if "curves" in each.result]
        networks = list(dict.fromkeys(each.trial.settings["cell"] for each in drawn)) or [""]
        tasks = list(dict.fromkeys(each.trial.settings["task"] for each in drawn)) or [""]
        figure = new_figure(7.2, 0.7 + 1.75 * len(networks))
        panels = figure.subplots(len(networks), len(tasks), squeeze=False, sharex="col")
        for trials in by_name(drawn).values():
            settings, result = trials[0].trial.settings, trials[0].result
            axes = panels[networks.index(settings["cell"])][tasks.index(settings["task"])]
            axes.plot(result["curves"][0], color=COLOUR["path"], linewidth=1.4, label=BEFORE)
            for each in trials:
                axes.plot(each.result["curves"][1], color=COLOUR["stable"], linewidth=1.8, label=AFTER)
            for bound, style in BOUNDS.items():
                line = bound_of(result, bound)
                if line is not None:
                    axes.plot(line, color=COLOUR["ink"], linestyle=style, linewidth=1.2, label=bound)
            axes.set_title(f"{settings['cell']}, {settings['task']}", fontsize=PAGE_FONT_SIZE, color=COLOUR["muted"])
        for axes in panels.flat:
            style_page_axes(axes)
            axes.set_visible(axes.has_data())
        for axes in panels[-1]:
            axes.set_xlabel("step")
        figure.supylabel("log10 of the gradient's norm", fontsize=PAGE_FONT_SIZE, color=COLOUR["muted"])
        handles = {
            label: line for axes in panels.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        legend_above(figure, 4, handles)
        return figure


def _plain(delay: int) -> dict[str, Any]:
    return {"task_options": {"delay": delay}}


def _recipe(network: str, task: str, delay: int) -> dict[str, Any]:
    """Return the recipe by which the study transfer-copy or denoise trains a network; the latter lacks the RNN."""
    if task == "copy":
        return transfer_copy.NETWORKS[network]
    if network == "rnn":
        return {**_plain(delay), **as_many_sequences(128)}
    return denoise.AT_DELAYS[about(network, delay=delay)]


def reach(gradients: GradientNorms, first: Int[Tensor, " batch"]) -> Float[Tensor, " networks"]:
    """Return log10 of the norm at each sequence's first symbol over that at its last step; mean over the sequences.

    >>> norms = torch.tensor([[100.0, 1.0], [10.0, 10.0], [1.0, 1.0]]).double().unsqueeze(0)
    >>> reach(GradientNorms(norms), torch.tensor([0, 1]))
    tensor([1.5000], dtype=torch.float64)
    """
    logs = gradients.norms.clamp(min=torch.finfo(torch.float64).tiny).log10()
    at_first = logs.gather(1, first.expand(len(gradients), 1, -1))[:, 0]
    return (at_first - logs[:, -1]).mean(1)


def effective_states(weights: Float[Tensor, "steps time batch"]) -> Float[Tensor, "steps batch"]:
    """Return how many states a step attends to: the exponential of the entropy of its weights.

    >>> effective_states(torch.tensor([0.25, 0.25, 0.25, 0.25, 0.0]).view(1, 5, 1)).round(decimals=3)
    tensor([[4.]])
    """
    return torch.special.entr(weights).sum(1).exp()


def bound_of(result: Mapping[str, Any], bound: str) -> Float[Tensor, " time"] | None:
    """Return log10 of a bound of the theory at every step, fitted to the trained norm at the last one.

    The result is None if the theorem does not apply to the network.
    """
    if "skips" not in result or (bound == "1/T" and not result["full"]):
        return None
    exponents = torch.tensor(result["skips"])
    line = uniform_bound(len(exponents)) if bound == "1/T" else sparse_bound(result["kappa"], exponents)
    return line.log10() + result["curves"][1][-1]


def _margin(result: Mapping[str, Any], bound: str) -> float | None:
    """Return the least decades by which the trained norm lies above a bound, or None."""
    line = bound_of(result, bound)
    return None if line is None else float((torch.tensor(result["curves"][1], dtype=torch.float64) - line)[:-1].min())


STUDY = AttentionGradients()
