"""Angle errors: how far the eigenvalues of a trained network are from those of the theory."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float


@dataclass(frozen=True)
class AngleError:
    """Differences of angle over matched pairs of eigenvalues, in radians; NaN if there is no pair."""

    mean: float
    largest: float
    matched: int
    """Number of pairs."""
    missing: int
    """Number of expected eigenvalues without a partner."""
    extra: int
    """Number of found eigenvalues without a partner."""

    def summary(self) -> str:
        """Return the errors and the counts in one phrase."""
        if not self.matched:
            return f"no eigenvalues to compare: {self.missing} are missing, {self.extra} are too many"
        counts = ((self.missing, "missing"), (self.extra, "too many"))
        unmatched = "".join(f", {number} {word}" for number, word in counts if number)
        return (
            f"mean angle error {self.mean:.2g} (largest {self.largest:.2g}) over {self.matched} eigenvalues{unmatched}"
        )


def angle_error(
    found: Complex[Tensor, " found"] | Float[Tensor, " found"],
    expected: Complex[Tensor, " expected"] | Float[Tensor, " expected"],
    above: float = 0.9,
) -> AngleError:
    """Return the mean |difference of angle| between eigenvalues, in the best one-to-one assignment.

    Only eigenvalues of modulus above `above` take part. This is the measure of the authors' table of eigenvalue errors
    (Karuvally et al. 2023). If the two sets differ in number, the best partners are matched and the rest is counted: a
    small mean with many missing or extra eigenvalues means little. Real eigenvalues have the angle 0 or pi.

    >>> roots = torch.tensor([1, 1j, -1, -1j], dtype=torch.complex128)
    >>> error = angle_error(roots[:3] * torch.tensor(0.95 * 2.71828**0.1j), roots)
    >>> print(error.summary())
    mean angle error 0.1 (largest 0.1) over 3 eigenvalues, 1 missing
    """
    for name, values in (("found", found), ("expected", expected)):
        if values.dim() != 1 or not torch.isfinite(values).all():
            raise ValueError(f"{name} must be a list of finite eigenvalues, but its shape is {tuple(values.shape)}.")
    found, expected = (values[values.abs() > above].to(torch.complex128) for values in (found, expected))
    # the angle of the quotient treats pi and -pi as equal
    distance = (found[:, None] * expected.conj()).angle().abs()
    rows, columns = linear_sum_assignment(distance.numpy())
    errors = distance[torch.from_numpy(rows), torch.from_numpy(columns)]
    matched = len(errors)
    mean, largest = (float(errors.mean()), float(errors.max())) if matched else (nan, nan)
    return AngleError(mean, largest, matched, len(expected) - matched, len(found) - matched)
