"""How far the eigenvalues of a trained network lie from those of the theory: their angles, matched one to one."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float


@dataclass(frozen=True)
class AngleError:
    """Differences of angle, in radians, over matched pairs; NaN where there is no pair."""

    mean: float
    largest: float
    matched: int
    """Pairs."""
    missing: int
    """Expected eigenvalues that are left without a partner."""
    extra: int
    """Found ones that are."""

    def summary(self) -> str:
        """In words."""
        if not self.matched:
            return f"no eigenvalues to compare: {self.missing} are missing, {self.extra} are too many"
        left = [f"{number} {word}" for number, word in ((self.missing, "missing"), (self.extra, "too many")) if number]
        return (
            f"mean angle error {self.mean:.2g} (largest {self.largest:.2g}) over {self.matched} eigenvalues"
            + "".join(f", {one}" for one in left)
        )


def angle_error(
    found: Complex[Tensor, " found"] | Float[Tensor, " found"],
    expected: Complex[Tensor, " expected"] | Float[Tensor, " expected"],
    above: float = 0.9,
) -> AngleError:
    """Mean |difference of angle| between the eigenvalues of modulus above `above`, in the best one-to-one assignment.

    The measure of the authors' table of eigenvalue errors (Karuvally et al. 2023). Where there are more of one kind
    than of the other, the best partners are chosen, and the rest is counted: a small mean with many missing or extra
    eigenvalues says little. Real tensors are eigenvalues too, of angle 0 or pi.

    >>> roots = torch.tensor([1, 1j, -1, -1j], dtype=torch.complex128)
    >>> error = angle_error(roots[:3] * torch.tensor(0.95 * 2.71828**0.1j), roots)
    >>> print(error.summary())
    mean angle error 0.1 (largest 0.1) over 3 eigenvalues, 1 missing
    """
    for name, values in (("found", found), ("expected", expected)):
        if values.dim() != 1 or not torch.isfinite(values).all():
            raise ValueError(f"{name} must be a list of finite eigenvalues, but its shape is {tuple(values.shape)}.")
    found, expected = (values[values.abs() > above].to(torch.complex128) for values in (found, expected))
    # the angle of the quotient, which knows that pi and -pi are the same
    far = (found[:, None] * expected.conj()).angle().abs()
    rows, columns = linear_sum_assignment(far.numpy())
    errors = far[torch.from_numpy(rows), torch.from_numpy(columns)]
    matched = len(errors)
    mean, largest = (float(errors.mean()), float(errors.max())) if matched else (nan, nan)
    return AngleError(mean, largest, matched, len(expected) - matched, len(found) - matched)
