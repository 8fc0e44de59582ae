"""Classes of operators: which inputs reset, rotate, reflect, erase, hold or fade the state, and which ones write."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Inexact, Int

ACTIONS = ("reset", "rotate", "reflect", "erase", "hold", "fade")
"""Classes of an operator A, most drastic first; an operator that meets several conditions has the first of them.

| class | condition |
|---|---|
| reset | no state keeps more than `RESET` of its length: the largest singular value is at most that |
| rotate | an eigenvalue has an imaginary part of at least `TURN` |
| reflect | a real eigenvalue is at most `-TURN`: a direction changes its sign |
| erase | an eigenvalue of modulus at most `ERASED`: one direction of the state is removed, the rest stays |
| hold | all eigenvalues are within `HELD` of 1, and no state grows by more than that |
| fade | none of these |

An input *writes* if what it adds to the state is at least `WRITTEN` of the sum of what it adds and what it keeps.
"""
RESET = 0.1
"""Largest singular value of an operator that resets the state."""
TURN = 0.1
"""Imaginary part from which an eigenvalue rotates, and negative real part from which it reflects."""
ERASED = 0.1
"""Largest modulus of an eigenvalue along whose direction the state is erased."""
HELD = 0.1
"""Largest distance of the eigenvalues from 1, and largest growth, of an operator that holds the state."""
WRITTEN = 0.1
"""Share of the new state from which an input counts as written."""


def conditions(
    eigenvalues: Inexact[Tensor, "*batch keys"], largest: Float[Tensor, "*batch"]
) -> dict[str, Bool[Tensor, "*batch"]]:
    """Return which operators meet the condition of each class; they may meet several, or none."""
    values = eigenvalues + 0j
    real, imaginary = values.real, values.imag.abs()
    reset = largest <= RESET
    return {
        "reset": reset,
        "rotate": (imaginary >= TURN).any(-1),
        "reflect": ((real <= -TURN) & (imaginary < TURN)).any(-1),
        "erase": (values.abs() <= ERASED).any(-1) & ~reset,
        "hold": ((values - 1).abs() <= HELD).all(-1) & (largest <= 1 + HELD),
    }


def classify(eigenvalues: Inexact[Tensor, "*batch keys"], largest: Float[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """Return the class of each operator, a number into `ACTIONS`."""
    met = conditions(eigenvalues, largest)
    number = torch.full(largest.shape, ACTIONS.index("fade"), dtype=torch.int8, device=largest.device)
    for name in reversed(met):
        number[met[name]] = ACTIONS.index(name)
    return number
