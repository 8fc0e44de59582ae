"""Orbits that leave the origin of a reservoir after 700 steps of training (Jang, section 6.1 and Fig 7c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EchoState, Reservoirs
from mnemoscope.replication.agreement import at_least, chosen
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed
from mnemoscope.replication.verdicts import UNKNOWN
from mnemoscope.studies.jang import reservoirs
from mnemoscope.studies.jang.reservoirs import JANG, Recipe

PUBLISHED_STEPS = 700
"""Iterations after which Fig 7c was drawn."""
FOLLOWED = 3000
"""Steps for which orbits are followed, 300 time constants."""
DIRECTIONS = 10
"""Largest number of unstable directions along which orbits start, to both sides."""
NUDGE, BACK = 1e-3, 0.02
"""Distance per unit at which orbits start, and below which one that had left counts as returned."""
ORBITS, LEADING = "orbits from the origin that return to it", "leading eigenvalue of the origin"
RELEASED = "g = 1.5, released recipe"
"""Name of the reservoirs that are trained as published; the others show what the recipe and the gain change."""
CASES = {
    "g = 1.5": Recipe(steps=PUBLISHED_STEPS).settings(),
    RELEASED: replace(Recipe.released(3), steps=PUBLISHED_STEPS).settings(),
    "g = 0.9": Recipe(steps=PUBLISHED_STEPS, gain=0.9).settings(),
}
"""Recipes of the reservoirs, by name."""


class FlipFlopHomoclinic(Study):
    """Train reservoirs for 700 steps, and follow orbits along the unstable directions of the origin."""

    name = "flipflop-homoclinic"
    title = "Orbits that leave the origin during training"
    question = "Does the principal eigenvalue of the origin vanish after 700 iterations, with homoclinic orbits?"
    claims = (
        Claim(
            about(RELEASED),
            ORBITS,
            "homoclinic orbits form",
            JANG("Fig 7c and section 6.1"),
            at_least(1, "one orbit that leaves the origin along an unstable direction and comes back to it"),
            reason=f"{UNKNOWN}; all orbits that leave the origin end elsewhere",
        ),
        Claim(
            about(RELEASED),
            LEADING,
            "vanishes",
            JANG("Fig 7c"),
            chosen(-0.05, 0.05, "a twentieth of the rate of the leak, 1 / tau"),
            reason="it is positive from the beginning at this gain, since W_r has eigenvalues up to 1.5",
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "A small reservoir and 100 steps; checks only that the code runs.",
            {"cases": {"small": Recipe(bits=1, units=40, steps=100, test_steps=100).settings()}},
        ),
        "cpu": Preset(
            "Reservoirs with 1000 units, at the published gain and at rest before training (g = 0.9), five seeds; "
            "seconds each.",
            {"cases": CASES},
            (0, 1, 2, 3, 4),
        ),
        "paper": Preset("The same with ten seeds.", {"cases": CASES}, tuple(range(10))),
    }
    cites = ("jang", "sussillo2009")

    def as_published(self, trial: Trial) -> bool:
        recipe = Recipe.from_settings(trial.settings)
        return recipe.steps == PUBLISHED_STEPS and replace(recipe, steps=Recipe.steps).as_published(3)

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        recipe = Recipe.from_settings(trial.settings)
        trained = reservoirs.train_reservoir(recipe, trial.seed, folder / "lesson.safetensors", progress=progress)
        values, vectors = origin_modes(trained.cell)
        unstable = values.real > 0
        starts = _starts(values[unstable], vectors[:, unstable])
        return {
            "leading": float(values.real.max()),
            "unstable": int(unstable.sum()),
            "orbits": len(starts),
            **_returns(trained.cell, starts),
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for trials in by_name(results).values():
            outcomes = [finished.result for finished in trials]
            counts = ", ".join(f"{outcome['returned']} of {outcome['orbits']}" for outcome in outcomes)
            unstable = listed(outcome["unstable"] for outcome in outcomes)
            ends = listed((outcome["end"] for outcome in outcomes), ".2g")
            rows += [
                self.row(
                    trials,
                    ORBITS,
                    [outcome["returned"] for outcome in outcomes],
                    remark=f"least distance at the end, root mean square over units: {ends}",
                    ours=counts,
                ),
                self.row(
                    trials,
                    LEADING,
                    [outcome["leading"] for outcome in outcomes],
                    ".2f",
                    f"in units of 1 / tau; unstable directions {unstable}",
                ),
            ]
        return rows


@torch.no_grad()
def origin_modes(cell: EchoState) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors of the flow at the origin, -1 + W phi'(0), in units of 1 / tau."""
    W = dict(cell.named_parameters())
    combined = (cell.recurrent + W["feedback"] @ W["readout"]).double()
    slope = cell.phi.derivative(torch.zeros(1, dtype=torch.float64)).item()
    values, vectors = torch.linalg.eig(slope * combined)
    return values - 1, vectors


def _starts(values: Tensor, vectors: Tensor) -> Float[Tensor, "orbits hidden"]:
    """Return states on both sides of the origin along the most unstable directions, and along planes of rotation."""
    order = values.real.argsort(descending=True)
    kept = [place for place in order.tolist() if values[place].imag >= 0][:DIRECTIONS]
    directions = torch.nn.functional.normalize(vectors[:, kept].real.mT, dim=1) * NUDGE * len(vectors) ** 0.5
    return torch.cat([directions, -directions]).float()


@torch.no_grad()
def _returns(cell: EchoState, starts: Float[Tensor, "orbits hidden"]) -> dict[str, Any]:
    """Count the orbits that leave the origin and come back, and return the least distance at the end."""
    if not len(starts):
        return {"returned": 0, "end": 0.0}
    reservoir, x = Reservoirs([cell]), starts.unsqueeze(0)
    silence = x.new_zeros(FOLLOWED, len(starts), cell.drive.shape[1])
    away = torch.zeros(len(starts), dtype=torch.bool)
    back = away.clone()
    distance = x[0].square().mean(1).sqrt()
    for u in reservoir.driven(silence):
        rates = reservoir.rates(x)
        x = reservoir.step(u, x, rates, reservoir.read(rates))
        distance = x[0].square().mean(1).sqrt()
        away |= distance > 5 * BACK
        back |= away & (distance < BACK)
    return {"returned": int(back.sum()), "end": float(distance.min())}


STUDY = FlipFlopHomoclinic()
