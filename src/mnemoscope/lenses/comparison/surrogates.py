"""Surrogate activity for null distributions: each keeps some properties of the activity and destroys others."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from mnemoscope.lenses.comparison.activity import lengths_of
from mnemoscope.lenses.recording import Recording

SURROGATES = {
    "shift": "trials exchanged and shifted in time, which keeps the dynamics of each system but not which step of "
    "which trial corresponds to which",
    "shuffle": "steps of each trial in random order, which keeps the states but not their order",
    "phase": "random phases in each unit, which keeps the power spectrum of each unit but not the relations between "
    "units",
}
"""Properties that each kind of surrogate keeps and destroys, as the end of a sentence."""


def draw_surrogate(recording: Recording, kind: str, generator: Generator) -> Recording:
    """Return a surrogate of the activity; the inputs keep their steps."""
    activity, lengths = recording.activity, lengths_of(recording)
    changed = torch.full_like(activity, torch.nan)
    for length in lengths.unique().tolist():
        trials = torch.nonzero(lengths == length)[:, 0]
        changed[:length, trials] = _CHANGES[kind](activity[:length, trials], generator)
    return Recording(changed, inputs=recording.inputs)


def _shift(values: Tensor, generator: Generator) -> Tensor:
    time, trials, _ = values.shape
    order = torch.randperm(trials, generator=generator)
    offsets = torch.randint(1, max(time, 2), (trials,), generator=generator)
    steps = (torch.arange(time)[:, None] + offsets) % time
    return values[steps, order]


def _shuffle(values: Tensor, generator: Generator) -> Tensor:
    time, trials, _ = values.shape
    steps = torch.rand(time, trials, generator=generator).argsort(0)
    return values[steps, torch.arange(trials)]


def _phase(values: Tensor, generator: Generator) -> Tensor:
    spectrum = torch.fft.rfft(values, dim=0)
    angles = 2 * torch.pi * torch.rand(spectrum.shape, generator=generator, dtype=values.dtype)
    turned = spectrum * torch.polar(torch.ones_like(angles), angles)
    turned[0] = spectrum[0]  # the mean
    if len(values) % 2 == 0:
        turned[-1] = spectrum[-1]  # the highest frequency must stay real
    return torch.fft.irfft(turned, n=len(values), dim=0)


_CHANGES = {"shift": _shift, "shuffle": _shuffle, "phase": _phase}
