"""Effect of noise on the recurrent weights on the memories of 4-bit flip-flops (Jang, section 8 and Fig 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log
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
from mnemoscope.replication.agreement import chosen
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about, unpublished
from mnemoscope.replication.computed_study import legend_above, plain_powers
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared
from mnemoscope.studies.jang import reservoirs
from mnemoscope.studies.jang.reservoirs import JANG, LEFT_ALONE, Recipe, mean_and_deviation
from mnemoscope.training.seeding import seeded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 4
"""Number of bits of the published flip-flop."""
KINDS = {"tanh": "stable", "logistic": "saddle-1", "transferred": "unstable"}
"""Kinds of networks, with their colours; transferred networks use tanh."""
LEVELS = (0.0, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03)
"""Standard deviations eta of the noise. A tenth of the entries of W_r are nonzero, with standard deviation 0.15, and
its spectral radius is 1.5; that of the noise is about eta sqrt(N), at most 0.95."""
RELEASED_LEVELS = (0.0, *(round(10 ** (-4 + 4 * place / 19), 7) for place in range(20)))
"""Standard deviations of the noise in the released code, from 0.0001 to 1, and 0."""
HELD_UP_TO = 0.03
"""Largest eta at which memories are counted: beyond, the noise replaces W_r."""
OURS: dict[str, Any] = {**Recipe(BITS).settings(), "levels": LEVELS, "left_alone": LEFT_ALONE}
RELEASED: dict[str, Any] = {**Recipe.released(BITS).settings(), "levels": RELEASED_LEVELS, "left_alone": LEFT_ALONE}
LOGISTIC = "area of logistic / tanh"
ERRORS = "and two standard errors to each side of the mean"
ALIKE = f"our reading of 'similarly': a factor of 1.5, {ERRORS}"
SMALLER = f"the smaller of two areas: a ratio below 1, {ERRORS}"
FROZEN = "by the released recipe tanh networks hold half of their memories even without noise, logistic ones nearly all"
"""Why our logistic networks are not the more robust ones: see the preset "published"."""
SILENT = 1.0
"""Mean squared error of an output that is always 0."""


@torch.no_grad()
def perturbed_outputs(
    cell: EchoState,
    noise: Float[Tensor, "hidden hidden"],
    levels: Sequence[float],
    inputs: Float[Tensor, "time batch features"],
) -> Float[Tensor, "time levels batch output"]:
    """Return the outputs of a reservoir with `W_r + eta noise` in place of W_r, for every eta in `levels`.

    All levels are rows of one batch and share both products, so that W_r stays sparse and the noise is read once per
    step.
    """
    if cell.form != "current":
        raise ValueError(f'Noise is added to currents, so form must be "current", but is {cell.form!r}.')
    if noise.shape != cell.recurrent.shape:
        raise ValueError(
            f"noise must have the shape of W_r, {tuple(cell.recurrent.shape)}, but has {tuple(noise.shape)}."
        )
    reservoir, batch, count = Reservoirs([cell]), inputs.shape[1], len(levels)
    eta = torch.tensor(levels).to(noise).repeat_interleave(batch).unsqueeze(1)
    x = reservoir.initial_state(count * batch)
    rates, outputs = reservoir.rates(x), x.new_empty(len(inputs), count * batch, reservoir.outputs)
    for u, row in zip(reservoir.driven(inputs), outputs.unbind(), strict=True):
        drive = torch.addcmul(u.repeat(1, count, 1), eta, rates @ noise.mT)
        x = reservoir.step(drive, x, rates, reservoir.read(rates))
        rates = reservoir.rates(x)
        row.copy_(reservoir.read(rates)[0])
    return outputs.unflatten(1, (count, batch))


class FlipFlopNoise(Study):
    """Train reservoirs on four bits, add noise to W_r, measure their error and count the memories they keep."""

    name = "flipflop-noise"
    title = "Memories under noise on the weights"
    question = "How much noise on the recurrent weights do memories survive, by nonlinearity and by initial readout?"
    claims = (
        Claim(
            EVERYTHING,
            f"{LOGISTIC}: alike",
            "performed similarly",
            JANG("section 8"),
            chosen(0.67, 1.5, ALIKE),
            reason=FROZEN,
        ),
        Claim(
            EVERYTHING,
            f"{LOGISTIC}: less",
            "logistic most robust",
            JANG("Fig 9"),
            chosen(0, 1, SMALLER),
            reason=FROZEN,
        ),
        Claim(
            EVERYTHING,
            "area of tanh / transferred",
            "transferred more sensitive",
            JANG("section 8"),
            chosen(0, 1, SMALLER),
        ),
        Claim(
            EVERYTHING,
            "area of worst other / transferred",
            "transferred worst",
            JANG("Fig 9"),
            chosen(0, 1, SMALLER),
            reason=FROZEN,
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Two bits, small reservoirs, short training; checks only that the code runs.",
            Recipe(bits=2, units=60, steps=600, test_steps=200).settings()
            | {"levels": (0.0, 0.01, 0.03), "draws": 2, "left_alone": 100},
        ),
        "cpu": Preset(
            "N = 1000, a recipe that keeps all memories, five seeds, three draws of the noise.",
            OURS | {"draws": 3},
            (0, 1, 2, 3, 4),
        ),
        "paper": Preset(
            "The same recipe with the noise of the released code, up to eta = 1; ten seeds.",
            OURS | {"draws": 3, "levels": RELEASED_LEVELS},
            tuple(range(10)),
        ),
        "published": Preset(
            "Recipe and noise of the released code, ten networks of each kind instead of one, three draws of the noise "
            "instead of ten.",
            RELEASED | {"draws": 3},
            tuple(range(10)),
        ),
    }
    cites = ("jang", "sussillo2009")
    caption = (
        "Gaussian noise with standard deviation eta on all entries of W_r. Left: mean squared error on the test; "
        "dotted: error of an output that is always 0. Right: written corners that are still held. Points: means over "
        "draws of the noise and over networks; bars: standard deviation over networks, or over draws if there is one "
        "network."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        return [Trial(kind, {"kind": kind, **settings}, seed, about(kind)) for seed in seeds for kind in KINDS]

    def as_published(self, trial: Trial) -> bool:
        return Recipe.from_settings(trial.settings).as_published(BITS)

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        chosen, seed = trial.settings, trial.seed
        phi = "logistic" if chosen["kind"] == "logistic" else "tanh"
        recipe = Recipe.from_settings({**chosen, "nonlinearity": phi})
        if chosen["kind"] == "transferred":
            trained = reservoirs.train_transferred(recipe, seed, folder, progress=progress)[1]
        else:
            trained = reservoirs.train_reservoir(recipe, seed, folder / "fresh.safetensors", progress=progress)
        batch, signs, levels = recipe.test(seed), reservoirs.corners(recipe.bits), chosen["levels"]
        low = [level for level in levels if level <= HELD_UP_TO]
        task, writes = recipe.task(recipe.test_steps), reservoirs.writing_pulses(recipe, chosen["left_alone"])
        errors, held = [], []
        for draw in Bar(range(chosen["draws"]), desc="noise", unit="draw", leave=False, disable=not progress):
            with seeded("noise on W_r", seed, draw):  # the same for all kinds, so that they differ in nothing else
                noise = torch.randn_like(trained.cell.recurrent)
            outputs = perturbed_outputs(trained.cell, noise, levels, batch.inputs)
            errors.append([task.loss(level, batch).item() for level in outputs.unbind(1)])
            last = perturbed_outputs(trained.cell, noise, low, writes)[-1]
            held.append((last.sign() == signs).all(2).sum(1).tolist())
        return {"mse": [[float(f"{error:.4g}") for error in row] for row in errors], "held": held}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        alike, less, sensitive, worst = self.claims
        groups = by_name(results)
        by_kind_rows = [row for kind in KINDS if kind in groups for row in _kind_rows(kind, groups[kind])]
        by_seed: dict[int, dict[str, Finished]] = {}
        for finished in results:
            by_seed.setdefault(finished.trial.seed, {})[finished.trial.name] = finished
        complete = [by_kind for by_kind in by_seed.values() if len(by_kind) == len(KINDS)]
        if not complete:
            return by_kind_rows
        rows, compared = [], [finished for by_kind in complete for finished in by_kind.values()]

        def ratios(kinds: Sequence[str], other: str, most: float = inf) -> list[float]:
            return [
                max(error_area(by_kind[kind], most) for kind in kinds) / error_area(by_kind[other], most)
                for by_kind in complete
            ]

        for claim, kinds, other in (
            (alike, ("logistic",), "tanh"),
            (less, ("logistic",), "tanh"),
            (sensitive, ("tanh",), "transferred"),
            (worst, ("tanh", "logistic"), "transferred"),
        ):
            measured, capped = ratios(kinds, other), ratios(kinds, other, SILENT)
            ours = mean_and_deviation(measured, ".2f")
            with_cap = mean_and_deviation(capped, ".2f")
            remark = f"by seed {listed(measured, '.2f')}; with errors capped at 1: {with_cap}"
            row = self.compare(compared, claim, measured, ours, remark)
            if row.verdict.compared:
                row = replace(row, judgement=judge_areas(claim, measured, capped, len(self.claims)))
            rows.append(row)
        return rows + by_kind_rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(9.0, 4.2)
        left, right = figure.subplots(1, 2)
        bits = results[0].trial.settings["bits"]
        for kind, trials in by_name(results).items():
            levels = trials[0].trial.settings["levels"]
            for axes, quantity in ((left, "mse"), (right, "held")):
                values = torch.tensor([finished.result[quantity] for finished in trials], dtype=torch.float64)
                values = values.mean(1) if len(trials) > 1 else values[0]  # (networks or draws, levels)
                levels = levels[: values.shape[1]]
                bars = values.std(0, correction=min(1, len(values) - 1)).tolist()
                style = {"color": COLOUR[KINDS[kind]], "marker": "o", "markersize": 4, "capsize": 3}
                label = kind if axes is left else None
                axes.errorbar(levels, values.mean(0).tolist(), bars, label=label, **style)
        left.axhline(SILENT, color=COLOUR["muted"], linestyle="dotted")
        if max(results[0].trial.settings["levels"]) > HELD_UP_TO:
            left.set(xlabel="eta", ylabel="mean squared error", xscale="log", yscale="log")
            plain_powers(left.xaxis)
            plain_powers(left.yaxis)
        else:
            left.set(xlabel="eta", ylabel="mean squared error", ylim=(0, None))
            left.locator_params(axis="x", nbins=4)
        right.set(xlabel="eta", ylabel="memories held", ylim=(0, 1.06 * 2**bits))
        right.set_yticks(range(0, 2**bits + 1, 2 ** (bits - 2)))
        right.locator_params(axis="x", nbins=4)
        for axes in (left, right):
            style_page_axes(axes)
        legend_above(figure, len(KINDS))
        return figure


def error_area(finished: Finished, most: float = inf) -> float:
    """Return the area under the mean squared error over eta, by the trapezoidal rule, divided by the largest eta.

    Errors above `most` count as `most`.
    """
    levels = torch.tensor(finished.trial.settings["levels"], dtype=torch.float64)
    errors = torch.tensor(finished.result["mse"], dtype=torch.float64).clamp_max(most).mean(0)
    return float(torch.trapezoid(errors, levels) / levels[-1])


def judge_ratios(claim: Claim, ratios: Sequence[float], comparisons: int) -> Judgement:
    """Judge a claim about a ratio by the range of its geometric mean, two standard errors to each side.

    The ratios are those of networks with the same W_r, noise and test, so that only their spread counts.
    """
    agreement = claim.agreement
    assert agreement is not None
    if len(ratios) < 2:
        return not_compared(Obstacle.TOO_FEW, "a single seed")
    logarithms = [log(ratio) for ratio in ratios]
    found = measure_difference([logarithms], [[0.0] * len(ratios)], comparisons)
    low, high = exp(found.low), exp(found.high)
    if low in agreement and high in agreement:
        return Judgement(Verdict.MATCHES)
    if high < agreement.low or low > agreement.high:
        return Judgement(Verdict.DIFFERS, claim.reason)
    return not_compared(Obstacle.UNDECIDED, f"other seeds may give ratios from {low:.2f} to {high:.2f}")


def judge_areas(claim: Claim, ratios: Sequence[float], capped: Sequence[float], comparisons: int) -> Judgement:
    """Judge ratios of areas, which must have the same verdict with errors capped at that of an output that is 0.

    Otherwise the areas differ only at noise at which no network works.
    """
    judgement = judge_ratios(claim, ratios, comparisons)
    if not judgement.verdict.compared or judge_ratios(claim, capped, comparisons).verdict is judgement.verdict:
        return judgement
    reason = f"it {judgement.verdict} only by errors above 1, that of an output that is always 0"
    return not_compared(Obstacle.UNDECIDED, reason)


def half_level(finished: Finished) -> float:
    """Return the least eta at which half of the corners are held on average, by linear interpolation between levels.

    It is infinite if more than half are held at every level.
    """
    levels, bits = finished.trial.settings["levels"], finished.trial.settings["bits"]
    counts = [fmean(column) for column in zip(*finished.result["held"], strict=True)]
    half = 2 ** (bits - 1)
    if counts[0] <= half:
        return float(levels[0])
    for place in range(1, len(counts)):
        before, after = counts[place - 1], counts[place]
        if after <= half:
            return levels[place - 1] + (levels[place] - levels[place - 1]) * (before - half) / (before - after)
    return inf


def _kind_rows(kind: str, trials: Sequence[Finished]) -> list[Row]:
    settings = trials[0].trial.settings
    intact = mean_and_deviation([fmean(row[0] for row in finished.result["mse"]) for finished in trials], ".2g")
    held = listed(finished.result["held"][0][0] for finished in trials)
    last = max(level for level in settings["levels"] if level <= HELD_UP_TO)
    halves = _halves_in_words([half_level(finished) for finished in trials], last)
    area = mean_and_deviation([error_area(finished) for finished in trials], ".2f")
    silent = "mean over eta; an output that is always 0 has 1"
    return [
        unpublished(f"{kind}: MSE without noise", intact, f"memories held: {held} of {2 ** settings['bits']}"),
        unpublished(f"{kind}: eta that leaves half", halves, "of the corners, averaged over draws"),
        Row(f"{kind}: area under the MSE", "drawn only", area, remark=silent),
    ]


def _halves_in_words(halves: Sequence[float], last: float) -> str:
    """Return the mean of the finite values and the number of networks that hold more than half at the last level."""
    fallen = [half for half in halves if half < inf]
    parts = [mean_and_deviation(fallen, ".2g")] if fallen else []
    if len(fallen) < len(halves):
        parts.append(f"above {last:g} in {len(halves) - len(fallen)} of {len(halves)}")
    return "; ".join(parts)


STUDY = FlipFlopNoise()
