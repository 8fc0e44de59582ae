"""Memory design: search for the network that remembers most under a constraint.

The objective is the relative total, `J_tot / w^T w` for white noise, over all lags or the first few. Known facts:

- `J(k) <= 1 / sum_(m <= k) 1 / A_m`, `A_m = |V^m v|^2 <= g^(2m)` if `|V|_2 <= g`. Only a delay line `g * shift`
  reaches it for all k < N (Ganguli et al. 2008; Kerg, 2.6). So for `lags <= N` the maximum is known.
- Over all lags and for g > 1 there is no best network without a limit on the spectral radius: with all eigenvalues
  close to 1 the total comes close to N, even if g is little above 1 (4.9997 of 5 at g = 1.2 and radius 0.999). So a
  radius is required.
- A radius alone bounds nothing either: amplification grows without bound, and the total tends to N.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import torch
from torch import Tensor

from mnemoscope.base.progress import Bar, show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.lenses.design.ascent import Ascent, ascend
from mnemoscope.lenses.design.constraints import Constraint
from mnemoscope.lenses.design.objective import project, value_and_gradient, with_best_source
from mnemoscope.lenses.design.result import MemoryDesign
from mnemoscope.lenses.design.starts import bent_delay_lines, given_start, random_start

Size = int | tuple[int, ...]
"""Number of units, or rows and columns."""
EDGE = "at the edge of stability, beyond which noise accumulates or is amplified beyond float64: pass a radius"


@show_slow("design")
def design_memory(
    size: Size,
    *,
    norm: float | None = None,
    frobenius: float | None = None,
    radius: float | None = None,
    lags: int | None = None,
    start: Sequence[Tensor] | None = None,
    steps: int = 1000,
    restarts: int = 4,
    seed: int = 0,
    tolerance: float = 1e-7,
    progress: bool = True,
) -> MemoryDesign:
    """Search for the network that remembers most of its past signals under white noise, from several starts.

    Args:
        size: number of units, N; or (N, P) for a network whose state is an N x P matrix, with the limits for U and V
            each.
        norm: limit on the largest singular value.
        frobenius: limit on the Frobenius norm. One of the two norms is needed; with both, both hold.
        radius: limit on the spectral radius, below 1, in addition to a norm. It is needed if the norm is above 1 and
            all lags count. If it is below the norms, the search covers only networks with real eigenvalues: these are
            lower triangular in some basis, in which the limits are convex. The first start is then a delay line bent
            to that radius, the others are random.
        lags: number of lags in the objective, from 0; None for all.
        start: (V, v) or (U, V, W) for the first restart.
        steps: largest number of iterations of each ascent.
        restarts: number of ascents, each from another start.
        seed: seed of the random starts.
        tolerance: tolerance on the projected gradient.
        progress: whether to show a progress bar.

    """
    shape = _checked_shape(size)
    constraint = _checked_constraint(norm, frobenius, radius, lags).binding
    if min(steps, restarts, tolerance) <= 0 or int(steps) != steps or int(restarts) != restarts:
        raise ValueError(
            f"At least 1 step and 1 restart are needed, whole numbers, and a positive tolerance, but steps is {steps}, "
            f"restarts is {restarts} and tolerance is {tolerance}."
        )
    generator = seeded_generator(seed)
    ascents: list[Ascent] = []
    with Bar(total=restarts * steps, desc="design", unit="step", disable=not progress) as bar:

        def report(value: float) -> None:
            bar.update()
            bar.set_postfix(value=f"{value:.6g}", refresh=False)

        for number in range(restarts):
            is_given = number == 0 and start is not None
            if number == 0 and start is not None:
                first = given_start(start, shape, constraint)
            elif number == 0 and constraint.radius is not None:
                first = bent_delay_lines(shape, constraint, constraint.radius)
            else:
                first = random_start(shape, constraint, generator)
            allowed = project(first, constraint)
            ascents.append(
                ascend(
                    lambda point: value_and_gradient(point, lags),
                    lambda point: project(point, constraint),
                    allowed if is_given or lags is not None else with_best_source(allowed),
                    steps,
                    tolerance,
                    EDGE,
                    report,
                )
            )
            bar.update((number + 1) * steps - bar.n)
    best = max(ascents, key=lambda ascent: ascent.value)
    parts = best.point if lags is not None else with_best_source(best.point)
    return MemoryDesign(
        **dict(zip(("V", "v") if len(shape) == 1 else ("U", "V", "W"), parts, strict=True)),
        ascent=torch.tensor(best.values, dtype=torch.float64),
        values=torch.tensor([ascent.value for ascent in ascents], dtype=torch.float64),
        converged=best.converged,
        reason=best.reason,
        norm=norm,
        frobenius=frobenius,
        radius=radius,
        lags=lags,
    )


def _checked_shape(size: Size) -> tuple[int, ...]:
    shape = size if isinstance(size, tuple) else (size,)
    if len(shape) not in (1, 2) or not all(isinstance(side, int) and side >= 1 for side in shape):
        raise ValueError(f"size must be a number of units, or (rows, columns) of a matrix, but is {size!r}.")
    return shape


def _checked_constraint(
    norm: float | None, frobenius: float | None, radius: float | None, lags: int | None
) -> Constraint:
    for name, limit in (("norm", norm), ("frobenius", frobenius)):
        if limit is not None and not 0 < limit < inf:
            raise ValueError(f"{name} must be positive and finite, but is {limit}.")
    if radius is not None and not 0 < radius < 1:
        raise ValueError(f"radius must lie between 0 and 1, where noise does not accumulate, but is {radius}.")
    if lags is not None and (not isinstance(lags, int) or lags < 1):
        raise ValueError(f"lags must be at least 1, a whole number, or None for all lags, but is {lags}.")
    constraint = Constraint(norm, frobenius, radius)
    if norm is None and frobenius is None:
        raise ValueError(
            "Pass norm=... or frobenius=...: with a spectral radius alone, or without any limit, amplification grows "
            "without bound, and the total tends to the number of units without ever reaching it."
        )
    if lags is None and radius is None and constraint.largest > 1:
        raise ValueError(
            f"With singular values up to {constraint.largest:g} and all lags there is no best network: the closer the "
            f"eigenvalues are to 1, the more it remembers. Pass radius=0.9, say, or lags=..., or a norm of at most 1."
        )
    return constraint
