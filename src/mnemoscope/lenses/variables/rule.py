"""The rule by which variables follow each other: F itself, or the signed selection that noise lets one recognise."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.variables.structure import Structure
from mnemoscope.lenses.variables.theory import continue_sequence

STANDARD_ERRORS = 3
"""A rule is worse than another if its squared error is larger by more than this many standard errors."""
TINY = 1e-100
"""Stands for 0 in a divisor, if all trials are alike."""
MOST = 0.5
"""Share of the variance that a selection must predict to be recognised."""


@dataclass(frozen=True)
class RuleErrors:
    """Errors of predicting, from the state at the first settled time, the variables at all later times of the trials.

    They are root mean squares relative to the size of the variables: 0 is exact, and 1.4 is a guess of the same size.
    """

    F: float
    """Error of F as it was found."""
    selection: float
    """Error of the nearest signed selection; infinite if no selection was found."""
    noise: float
    """Error by which the selection may exceed F through noise alone."""


def evolve_variables(
    structure: Structure, first: Float[Tensor, "variables batch size"], steps: int
) -> Float[Tensor, "time ..."]:
    """Continue a sequence from its first N variables: by the signed selection if there is one, else by F_emp."""
    if structure.selection is not None:
        return structure.selection.simulate(first, steps)
    return continue_sequence(structure.F, first, steps)


def recognise_rule(
    structure: Structure, decoded: Float[Tensor, "time batch variables size"]
) -> tuple[Structure, RuleErrors]:
    """Decide whether F is a signed selection by how well both predict the variables decoded at settled times.

    F comes from a linearisation, and so has an error. Let e be the error of its predictions, and d the difference
    between those of the selection and of F. The squared errors of the two differ by |d|^2 - 2 e.d. If F is right, e is
    noise that does not depend on d, and the sum over independent trials of 2 e.d has the standard error
    sqrt(sum (2 e.d)^2). So the selection holds if |d|^2 - 2 e.d is at most three of these: it is better than F, or
    worse by no more than noise explains. In a linear network e is rounding, and any difference counts. If F is useless,
    so is the comparison: the selection must also predict most of the variance, at the level that the network holds.
    """
    centred = decoded - decoded.mean(1, keepdim=True)
    truth = centred[:, :, -1]
    window, steps = centred[0].movedim(1, 0), len(decoded) - 1
    size = float(truth[1:].square().sum().clamp_min(TINY))

    def error(wrong: Tensor | float) -> float:
        value = float(wrong) / size
        return max(value, 0.0) ** 0.5 if isfinite(value) else inf

    by_F = continue_sequence(structure.F, window, steps)[-steps:]
    e = truth[1:] - by_F
    if structure.nearest is None:
        return structure, RuleErrors(error(e.square().sum()), inf, 0.0)
    by_selection = structure.nearest.simulate(window, steps)[-steps:]
    d = by_selection - by_F
    correlation = float((truth[1:] * by_selection).sum()) / (size**0.5 * max(float(by_selection.norm()), TINY))
    products = 2 * (e * d).sum((0, 2))  # one number per trial
    noise = STANDARD_ERRORS * float(products.square().sum().sqrt())
    worse = float(d.square().sum() - products.sum())
    errors = RuleErrors(error(e.square().sum()), error((e - d).square().sum()), error(noise))
    holds = correlation > MOST**0.5 and (not isfinite(errors.F) or worse <= noise)
    return (structure.named() if holds else structure), errors
