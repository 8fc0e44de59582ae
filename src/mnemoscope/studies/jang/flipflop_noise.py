"""What noise on the recurrent weights does to the memories of 4-bit flip-flops (Jang, section 8 and Fig 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import Bar
from mnemoscope.cells import EchoState, Reservoirs
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, style_page_axes
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computing import legend_above
from mnemoscope.replication.study import Finished, Preset, Study, Trial
from mnemoscope.studies.jang.reservoirs import (
    LEFT_ALONE,
    Recipe,
    corners,
    lesson,
    spread_in_words,
    transferred,
    writing,
)
from mnemoscope.training.seeding import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 4
"""Of the flip-flop whose robustness was published."""
KINDS = {"tanh": "stable", "logistic": "saddle-1", "transferred": "unstable"}
"""The networks, with their colours; the transferred ones have tanh."""
LEVELS = (0.0, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03)
"""Standard deviations eta: W_r has entries of 0.15 at a tenth of the places, and spectral radius 1.5; that of the noise
is about eta sqrt(N), 0.95 at most."""
SILENT = 1.0
"""Mean squared error of an output that is always 0."""


@torch.no_grad()
def perturbed(
    cell: EchoState,
    noise: Float[Tensor, "hidden hidden"],
    levels: Sequence[float],
    inputs: Float[Tensor, "time batch features"],
) -> Float[Tensor, "time levels batch output"]:
    """Outputs of a reservoir with `W_r + eta noise` in place of W_r, for every eta of `levels`.

    All levels are rows of one batch and share both products: W_r stays sparse, and the noise is read once a step.
    """
    if cell.form != "current":
        raise ValueError(f'Noise is added to currents, so form must be "current", but is {cell.form!r}.')
    if noise.shape != cell.recurrent.shape:
        raise ValueError(f"noise must be of W_r's shape {tuple(cell.recurrent.shape)}, but is {tuple(noise.shape)}.")
    reservoir, batch, count = Reservoirs([cell]), inputs.shape[1], len(levels)
    eta = torch.tensor(levels).to(noise).repeat_interleave(batch).unsqueeze(1)
    x = reservoir.initial_state(count * batch)
    rates, outputs = reservoir.rates(x), x.new_empty(len(inputs), count * batch, reservoir.outputs)
    for u, row in zip(reservoir.driven(inputs), outputs.unbind(), strict=True):
        shaken = torch.addcmul(u.repeat(1, count, 1), eta, rates @ noise.mT)
        x = reservoir.step(shaken, x, rates, reservoir.read(rates))
        rates = reservoir.rates(x)
        row.copy_(reservoir.read(rates)[0])
    return outputs.unflatten(1, (count, batch))


class FlipFlopNoise(Study):
    """Teach reservoirs four bits, add noise to W_r, and measure their error and count the memories they keep."""

    name = "flipflop-noise"
    title = "Memories under noise on the weights"
    question = "How much noise on the recurrent weights do the memories survive, by nonlinearity and by beginning?"
    claims = (
        Claim(
            EVERYTHING,
            "area of logistic / tanh: alike",
            "performed similarly",
            Source("jang", "section 8"),
            tolerance=(0.67, 1.5),
        ),
        Claim(
            EVERYTHING,
            "area of logistic / tanh: less",
            "logistic most robust",
            Source("jang", "Fig 9"),
            tolerance=(0, 0.67),
        ),
        Claim(
            EVERYTHING,
            "area of tanh / transferred",
            "transferred more sensitive",
            Source("jang", "section 8"),
            tolerance=(0, 1),
        ),
        Claim(
            EVERYTHING,
            "area of worst other / transferred",
            "transferred worst",
            Source("jang", "Fig 9"),
            tolerance=(0, 1),
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Two bits, small reservoirs, short lessons: it shows that the machinery works, no more.",
            Recipe(bits=2, units=60, steps=600, test_steps=200).settings()
            | {"levels": (0.0, 0.01, 0.03), "draws": 2, "left_alone": 100},
        ),
        "cpu": Preset(
            "N = 1000 as published, five seeds, three draws of the noise.",
            Recipe(bits=BITS).settings() | {"levels": LEVELS, "draws": 3, "left_alone": LEFT_ALONE},
            (0, 1, 2, 3, 4),
        ),
        "paper": Preset(
            "The same with ten seeds and ten draws.",
            Recipe(bits=BITS).settings() | {"levels": LEVELS, "draws": 10, "left_alone": LEFT_ALONE},
            tuple(range(10)),
        ),
    }
    cites = ("jang", "sussillo2009")
    caption = (
        "Gaussian noise of standard deviation eta on all entries of W_r. Left: mean squared error on the test; dotted: "
        "that of an output that is always 0. Right: written corners that are still held. Means over draws of the "
        "noise and networks; bars: standard deviation over the networks, or over the draws where there is one network."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [Trial(kind, {"kind": kind, **settings}, seed, about(kind)) for seed in seeds for kind in KINDS]

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.of(dict(trial.settings))
        return recipe.as_published and recipe.bits == BITS

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        chosen, seed = trial.settings, trial.seed
        phi = "logistic" if chosen["kind"] == "logistic" else "tanh"
        recipe = Recipe.of({**chosen, "nonlinearity": phi})
        if chosen["kind"] == "transferred":
            taught = transferred(recipe, seed, folder, progress=progress)[1]
        else:
            taught = lesson(recipe, seed, folder / "fresh.safetensors", progress=progress)
        batch, signs, levels = recipe.test(seed), corners(recipe.bits), chosen["levels"]
        task, writes = recipe.task(recipe.test_steps), writing(recipe, chosen["left_alone"])
        errors, held = [], []
        for draw in Bar(range(chosen["draws"]), desc="noise", unit="draw", leave=False, disable=not progress):
            with seeded("noise on W_r", seed, draw):  # the same for all kinds, so that they differ in nothing else
                noise = torch.randn_like(taught.cell.recurrent)
            outputs = perturbed(taught.cell, noise, levels, batch.inputs)
            errors.append([task.loss(one, batch).item() for one in outputs.unbind(1)])
            last = perturbed(taught.cell, noise, levels, writes)[-1]
            held.append((last.sign() == signs).all(2).sum(1).tolist())
        return {"mse": [[float(f"{error:.4g}") for error in row] for row in errors], "held": held}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        alike, less, sensitive, worst = self.claims
        told = [row for kind in KINDS for row in _kind(kind, [one for one in results if one.trial.name == kind])]
        by_seed: dict[int, dict[str, Finished]] = {}
        for one in results:
            by_seed.setdefault(one.trial.seed, {})[one.trial.name] = one
        whole = [own for own in by_seed.values() if len(own) == len(KINDS)]
        if not whole:
            return told
        rows, own = [], [one for several in whole for one in several.values()]

        def ratios(kinds: Sequence[str], other: str, most: float = inf) -> list[float]:
            return [max(area(one[kind], most) for kind in kinds) / area(one[other], most) for one in whole]

        for claim, kinds, other in (
            (alike, ("logistic",), "tanh"),
            (less, ("logistic",), "tanh"),
            (sensitive, ("tanh",), "transferred"),
            (worst, ("tanh", "logistic"), "transferred"),
        ):
            measured = ratios(kinds, other)
            capped = spread_in_words(ratios(kinds, other, SILENT), ".2f")
            ours = spread_in_words(measured, ".2f")
            remark = f"by seed {', '.join(f'{value:.2f}' for value in measured)}; errors above 1 taken as 1: {capped}"
            rows.append(self.compare(own, claim, claim.name, measured, ours, remark))
        return rows + told

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(9.0, 4.2)
        left, right = figure.subplots(1, 2)
        bits = results[0].trial.settings["bits"]
        for kind, colour in KINDS.items():
            own = [one for one in results if one.trial.name == kind]
            if not own:
                continue
            levels = own[0].trial.settings["levels"]
            for axes, quantity in ((left, "mse"), (right, "held")):
                values = torch.tensor([one.result[quantity] for one in own], dtype=torch.float64)
                values = values.mean(1) if len(own) > 1 else values[0]  # (networks or draws, levels)
                bars = values.std(0, correction=min(1, len(values) - 1)).tolist()
                axes.errorbar(
                    levels,
                    values.mean(0).tolist(),
                    bars,
                    color=COLOUR[colour],
                    marker="o",
                    markersize=4,
                    capsize=3,
                    label=kind if axes is left else None,
                )
        left.axhline(SILENT, color=COLOUR["muted"], linestyle="dotted")
        left.set(xlabel="eta", ylabel="mean squared error", ylim=(0, None))
        right.set(xlabel="eta", ylabel="memories held", ylim=(0, 1.06 * 2**bits))
        right.set_yticks(range(0, 2**bits + 1, 2 ** (bits - 2)))
        for axes in (left, right):
            axes.locator_params(axis="x", nbins=4)
            style_page_axes(axes)
        legend_above(figure, len(KINDS))
        return figure


def area(one: Finished, most: float = inf) -> float:
    """Under the curve of the mean squared error over eta, by trapezoids, over the largest eta; errors count up to
    `most`.
    """
    levels = torch.tensor(one.trial.settings["levels"], dtype=torch.float64)
    errors = torch.tensor(one.result["mse"], dtype=torch.float64).clamp_max(most).mean(0)
    return float(torch.trapezoid(errors, levels) / levels[-1])


def half_level(one: Finished) -> float:
    """The least eta at which half of the corners are held on average, between the levels by a straight line; infinite
    where more are held at all.
    """
    levels, bits = one.trial.settings["levels"], one.trial.settings["bits"]
    counts = [fmean(column) for column in zip(*one.result["held"], strict=True)]
    half = 2 ** (bits - 1)
    if counts[0] <= half:
        return float(levels[0])
    for place in range(1, len(levels)):
        before, after = counts[place - 1], counts[place]
        if after <= half:
            return levels[place - 1] + (levels[place] - levels[place - 1]) * (before - half) / (before - after)
    return inf


def _kind(kind: str, trials: Sequence[Finished]) -> list[Row]:
    if not trials:
        return []
    intact = [fmean(row[0] for row in one.result["mse"]) for one in trials]
    held = ", ".join(f"{one.result['held'][0][0]}" for one in trials)
    halves = _halves_in_words([half_level(one) for one in trials], trials[0].trial.settings["levels"][-1])
    return [
        Row(
            f"{kind}: MSE without noise",
            "not published",
            spread_in_words(intact, ".2g"),
            remark=f"memories held: {held} of {2 ** trials[0].trial.settings['bits']}",
        ),
        Row(f"{kind}: eta that leaves half", "not published", halves, remark="of the corners, on average over draws"),
        Row(
            f"{kind}: area under the MSE",
            "drawn only",
            spread_in_words([area(one) for one in trials], ".2f"),
            remark="mean over eta; 1: the error of an output that is always 0",
        ),
    ]


def _halves_in_words(halves: Sequence[float], last: float) -> str:
    """The mean of those that fell to half, and how many did not up to the last level."""
    fallen = [half for half in halves if half < inf]
    told = [spread_in_words(fallen, ".2g")] if fallen else []
    if len(fallen) < len(halves):
        told.append(f"above {last:g} in {len(halves) - len(fallen)} of {len(halves)}")
    return "; ".join(told)


STUDY = FlipFlopNoise()
