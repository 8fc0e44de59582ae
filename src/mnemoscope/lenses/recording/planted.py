"""Trials with known structure, to check lenses on populations."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.trial_table import TrialTable
from mnemoscope.lenses.recording.result import Recording


def planted_trials(
    noise: float = 1.0, repeats: int = 8, *, time: int = 30, units: int = 40, seed: int = 0
) -> tuple[Recording, Float[Tensor, "3 units"]]:
    """Return trials in which time, the stimulus and the choice each move the activity along one direction.

    Three stimuli and two choices are combined, with `repeats` trials each. The stimulus acts more and more during a
    trial, the choice in its second half, and there is no interaction. The three directions are returned too.
    """
    generator = seeded_generator(seed)
    stimulus = torch.arange(3).repeat_interleave(2 * repeats)
    choice = torch.arange(2).repeat_interleave(repeats).repeat(3)
    course = torch.linspace(0, 1, time, dtype=torch.float64).unsqueeze(1)
    latent = torch.stack(
        [
            torch.sin(6 * course).expand(-1, len(stimulus)),
            (stimulus - 1.0) * course,
            (2 * choice - 1.0) * (course > 0.5),
        ],
        2,
    )
    directions = torch.randn(3, units, dtype=torch.float64, generator=generator)
    scatter = torch.randn(time, len(stimulus), units, dtype=torch.float64, generator=generator)
    table = TrialTable.of(
        {"stimulus": stimulus, "choice": choice}, {"early": (0, time // 2), "late": (time // 2, time)}, step=20.0
    )
    return Recording(latent @ directions + noise * scatter, table), directions
