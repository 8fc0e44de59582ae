"""Points from which the ascents start: random networks and delay lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from mnemoscope.lenses.design.ascent import Point
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.spectra.schur import schur_form


def random_start(shape: tuple[int, ...], constraint: Constraint, generator: torch.Generator) -> Point:
    """Return a random network well inside every limit, so that it is stable and all directions are open."""
    scale = 0.5 * min(1.0, constraint.largest)
    matrices = [torch.randn(side, side, generator=generator, dtype=torch.float64) for side in shape]
    if constraint.radius is not None:
        scale = min(scale, constraint.radius)
        matrices = [matrix.tril() for matrix in matrices]
    return [
        *(scale * matrix / torch.linalg.matrix_norm(matrix, 2) for matrix in matrices),
        torch.randn(shape, generator=generator, dtype=torch.float64),
    ]


def delay_lines(shape: tuple[int, ...], constraint: Constraint) -> Point:
    """Return delay lines as strong as the norms allow, with the source at their first unit."""
    matrices = []
    for side in shape:
        line = torch.diag(torch.ones(side - 1, dtype=torch.float64), -1)
        if side == 1 and len(shape) > 1:  # a side of one unit passes the other line on
            line = torch.ones(1, 1, dtype=torch.float64)
        strength = inf if constraint.frobenius is None else constraint.frobenius / max(side - 1, 1) ** 0.5
        line = line * min(strength, inf if constraint.norm is None else constraint.norm)
        matrices.append(line if len(shape) == 1 else line.mT)
    source = torch.zeros(shape, dtype=torch.float64)
    source.view(-1)[0] = 1
    return [*matrices, source]


def bent_delay_lines(shape: tuple[int, ...], constraint: Constraint, radius: float) -> Point:
    """Return `g (a + S) (1 + a S)^-1` for a delay line S, with `a = radius / g`.

    All its eigenvalues equal the radius; all its singular values are g except one, `g a^N`.
    """
    g, matrices = constraint.largest, []
    a = radius / g if g > 1 else 0.0  # below 1 the plain line is better
    for side in shape:
        S, eye = torch.diag(torch.ones(side - 1, dtype=torch.float64), -1), torch.eye(side, dtype=torch.float64)
        matrices.append(g * torch.linalg.solve(eye + a * S, a * eye + S))
    return [*matrices, torch.ones(shape, dtype=torch.float64)]


def given_start(start: Sequence[Tensor], shape: tuple[int, ...], constraint: Constraint) -> Point:
    """Return the caller's start in float64; with a radius, in the basis of its Schur form."""
    expected = [(side, side) for side in shape] + [shape]
    given = [torch.as_tensor(part).detach().to(device="cpu", dtype=torch.float64) for part in start]
    shapes = [tuple(part.shape) for part in given]
    if shapes != expected or not all(bool(torch.isfinite(part).all()) for part in given) or not given[-1].any():
        raise ValueError(
            f"start must be {'(V, v)' if len(shape) == 1 else '(U, V, W)'}, finite, of the shapes {expected}, and the "
            f"last not 0, but has the shapes {shapes}."
        )
    if constraint.radius is None:
        return given
    forms = [schur_form(matrix) for matrix in given[:-1]]
    source = forms[0].P.mT @ given[-1]
    return [*(form.theta for form in forms), source if len(shape) == 1 else source @ forms[1].P]
