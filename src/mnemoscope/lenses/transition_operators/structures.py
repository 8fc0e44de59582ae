"""Eigenvalues, extreme singular values and departure from normality of the operator A of every step.

A is `diag(d) + a b^T`, or a product of such matrices, and its structure decides how much work it takes:

- Without a and b it is diagonal.
- The characteristic polynomial of a single factor, `prod_i (d_i - z) (1 + sum_i a_i b_i / (d_i - z))`, depends on the
  products `a_i b_i` alone. If these have one sign s, as in every delta rule, it is also that of the symmetric matrix
  `diag(d) + s u u^T` with `u_i^2 = |a_i b_i|`: the eigenvalues are real.
- If all d_i are equal, all eigenvalues but one are d, and A differs from d I in the plane of a and b only.
- A product of several factors has no such structure, and may rotate.

Henrici's departure from normality of a matrix with real eigenvalues is `|A - A^T|_F / sqrt 2`, because
`sum lambda^2 = tr A^2`; for one factor this is the area of the parallelogram of a and b.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells.affine.parts import Parts, transition

Structure = Literal["diagonal", "real eigenvalues", "general"]


class TokenSpectra(NamedTuple):
    """Spectra of operators with any leading dimensions."""

    eigenvalues: Inexact[Tensor, "*batch heads keys"]
    """In descending order of modulus; real if all are known to be."""
    largest: Float[Tensor, "*batch heads"]
    """Largest singular value, |A|."""
    smallest: Float[Tensor, "*batch heads"]
    """Smallest singular value."""
    departure: Float[Tensor, "*batch heads"]
    """Henrici's departure from normality."""


def structure_of(parts: Parts) -> Structure:
    """Return which structure all operators of a sequence have."""
    if parts.erase is None:
        return "diagonal"
    if parts.micro_steps > 1 or parts.beta_max != 1 or parts.keys.is_complex() or parts.log_decays.is_complex():
        return "general"
    products = parts.erase[0] * parts.erase[1]
    one_sign = bool(((products >= 0).all(-1) | (products <= 0).all(-1)).all())
    return "real eigenvalues" if one_sign or parts.log_decays.shape[-1] == 1 else "general"


def token_spectra(parts: Parts, structure: Structure) -> TokenSpectra:
    """Return the spectra of all operators, which have this structure."""
    if structure == "diagonal":
        return _diagonal(parts)
    if structure == "general":
        return _general(transition(parts))
    assert parts.erase is not None
    a, b = parts.erase
    if parts.log_decays.shape[-1] == 1:
        return _scaled_identity(parts.decays.squeeze(-1), a, b)
    return _symmetrisable(parts.decays.expand_as(a), a, b)


def log_eigenvalues(parts: Parts) -> Inexact[Tensor, "*batch heads keys"]:
    """Return the logarithms of the eigenvalues of diagonal operators; those of micro-steps add up.

    They are complex if the operators rotate, and if eigenvalues may be negative.
    """
    g = parts.log_decays if parts.beta_max == 1 else parts.decays.to(parts.decays.dtype.to_complex()).log()
    g = g.expand_as(parts.keys)
    return g if parts.micro_steps == 1 else g.sum(-3)


def _diagonal(parts: Parts) -> TokenSpectra:
    values = torch.stack([piece.decays.expand_as(piece.keys) for piece in parts.each()]).prod(0)
    moduli = values.abs()
    return TokenSpectra(_descending(values), moduli.amax(-1), moduli.amin(-1), torch.zeros_like(moduli[..., 0]))


def _scaled_identity(d: Tensor, a: Tensor, b: Tensor) -> TokenSpectra:
    """Return the spectra of `d I + a b^T`: in the plane of a and b it is `[[d + a.b, q], [0, d]]`, elsewhere d."""
    keys = a.shape[-1]
    product, q = (a * b).sum(-1), _parallelogram(a, b)
    moved = d + product
    eigenvalues = torch.cat([moved.unsqueeze(-1), d.unsqueeze(-1).expand(*d.shape, keys - 1)], -1)
    if keys == 1:
        return TokenSpectra(eigenvalues, moved.abs(), moved.abs(), torch.zeros_like(q))
    sum_, difference = torch.hypot(moved + d, q), torch.hypot(moved - d, q)
    largest, smallest = (sum_ + difference) / 2, (sum_ - difference).abs() / 2
    if keys > 2:
        largest, smallest = torch.maximum(largest, d), torch.minimum(smallest, d)
    return TokenSpectra(_descending(eigenvalues), largest, smallest, q)


def _symmetrisable(d: Tensor, a: Tensor, b: Tensor) -> TokenSpectra:
    products = a * b
    u, sign = products.abs().sqrt(), products.sum(-1).sign()
    symmetric = torch.diag_embed(d) + sign[..., None, None] * u.unsqueeze(-1) * u.unsqueeze(-2)
    singular = torch.linalg.svdvals(torch.diag_embed(d) + a.unsqueeze(-1) * b.unsqueeze(-2))
    eigenvalues = _descending(torch.linalg.eigvalsh(symmetric))
    return TokenSpectra(eigenvalues, singular[..., 0], singular[..., -1], _parallelogram(a, b))


def _general(A: Tensor) -> TokenSpectra:
    eigenvalues, singular = torch.linalg.eigvals(A), torch.linalg.svdvals(A)
    if A.is_complex():
        square = A.abs().square().sum((-2, -1)) - eigenvalues.abs().square().sum(-1)
    else:
        square = (A - A.mT).square().sum((-2, -1)) / 2 - 2 * eigenvalues.imag.square().sum(-1)
    return TokenSpectra(_descending(eigenvalues), singular[..., 0], singular[..., -1], square.clamp(min=0).sqrt())


def _parallelogram(a: Tensor, b: Tensor) -> Tensor:
    """Return the area between two vectors; the part of b along a is removed first, so that nothing cancels."""
    length = a.norm(dim=-1, keepdim=True)
    unit = a / torch.where(length > 0, length, 1)
    across = b - (unit * b).sum(-1, keepdim=True) * unit
    return length.squeeze(-1) * across.norm(dim=-1)


def _descending(values: Tensor) -> Tensor:
    return values.gather(-1, values.abs().argsort(dim=-1, descending=True, stable=True))
