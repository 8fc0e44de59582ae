"""Capacity design: the network that remembers most under a constraint, as far as an ascent finds it.

What is climbed is the relative total, `J_tot / w^T w` for white noise, over all lags or the first few. What is known:

- `J(k) <= 1 / sum_(m <= k) 1 / A_m`, `A_m = |V^m v|^2 <= g^(2m)` if `|V|_2 <= g`; a delay line `g * shift` alone
  reaches it for all k < N (Ganguli et al. 2008; Kerg, 2.6). So for `lags <= N` the maximum is known.
- Over all lags and for g > 1 there is no best network without a limit on the spectral radius: with all eigenvalues
  close to 1 the total comes close to N, though g exceeds 1 by little (4.9997 of 5 at g = 1.2 and radius 0.999). So a
  radius is asked for.
- A radius alone bounds nothing either: amplification grows without end, and the total tends to N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import inf, isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import Bar
from mnemoscope.lenses.fisher.ascent import Ascent, Point, ascend
from mnemoscope.lenses.fisher.constraints import Constraint
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem
from mnemoscope.lenses.fisher.memory import FisherMemory, fisher_memory
from mnemoscope.lenses.fisher.operators import spectral_radius
from mnemoscope.lenses.spectra.schur import schur_form
from mnemoscope.lenses.storage import load_result, save_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = int | tuple[int, ...]
"""Units, or rows and columns."""
EDGE = "at the edge of stability, beyond which noise piles up or is amplified beyond float64: pass a radius"
LARGEST_RADIUS = 1 - 1e-6
"""Spectral radius of a step beyond which rounding decides what piles up: such networks are not looked at."""
FEWEST_LAGS = 100
"""Of the curve that is kept of what was found."""


@dataclass(frozen=True)
class MemoryDesign:
    """The best network that was found; another may be better.

    >>> import mnemoscope as ms
    >>> design = ms.design_memory(4, norm=1.0, lags=4, restarts=2, progress=False)
    >>> round(design.value, 6), round(design.bound, 6)  # 1 + 1/2 + 1/3 + 1/4: a delay line, in some basis
    (2.083333, 2.083333)
    >>> design.lines[0].abs().round(decimals=3).tolist()[1]
    [1.0, 0.0, 0.0, 0.0]
    """

    V: Float[Tensor, "columns columns"]
    ascent: Float[Tensor, " iterations"]
    """What was climbed, by iteration, on the best restart."""
    values: Float[Tensor, " restarts"]
    """What every restart reached."""
    norm: float | None
    frobenius: float | None
    radius: float | None
    lags: int | None
    """Of the sum that was climbed; None: all."""
    converged: bool
    """Whether the best restart stopped because no small allowed step leads up."""
    reason: str
    """Why it stopped."""
    v: Float[Tensor, " columns"] | None = None
    """Where signals enter a vector network."""
    U: Float[Tensor, "rows rows"] | None = None
    W: Float[Tensor, "rows columns"] | None = None
    """Where signals enter a matrix network, `X(n) = U^T X(n-1) V + W s(n) + Z(n)`."""

    @property
    def parts(self) -> Point:
        """(V, v) or (U, V, W)."""
        given = (self.V, self.v) if self.U is None else (self.U, self.V, self.W)
        return [part for part in given if part is not None]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a state."""
        return tuple(self.parts[-1].shape)

    @cached_property
    def memory(self) -> FisherMemory:
        """The Fisher memory of what was found."""
        return _memory(self.parts, max(FEWEST_LAGS, self.lags or 0))

    @property
    def value(self) -> float:
        """What was reached: the relative total, over all lags or the first few."""
        return _climbed(self.memory, self.lags).item()

    @property
    def bound(self) -> float:
        """What no network under these norms exceeds: what amplification allows, and the number of units."""
        return _bound(self.shape, Constraint(self.norm, self.frobenius).largest, self.lags)

    @cached_property
    def line(self) -> float:
        """What a delay line reaches under the same norms; of a matrix network, two of them, from corner to corner."""
        return _climbed(_memory(_lines(self.shape, Constraint(self.norm, self.frobenius)), self.lags or 1),
                        self.lags).item()  # fmt: skip

    @property
    def lines(self) -> list[Float[Tensor, "size size"]]:
        """V in the orthonormal basis of v, V v, V^2 v, ...: of a delay line, nothing but a sub-diagonal.

        Of a matrix network U^T and V^T, from the leading singular vectors of W.
        """
        if self.U is None or self.W is None:
            assert self.v is not None
            return [_in_line(self.V, self.v)]
        left, _, right = torch.linalg.svd(self.W)
        return [_in_line(self.U.mT, left[:, 0]), _in_line(self.V.mT, right[0])]

    def summary(self) -> str:
        """The result in words."""
        return " ".join(_sentences(self))

    def __repr__(self) -> str:
        return f"MemoryDesign({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `MemoryDesign.load` reads it back."""
        names = ("V", "ascent", "values", "v", "U", "W")
        tensors = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        flags = {name: getattr(self, name) for name in ("norm", "frobenius", "radius", "lags", "converged", "reason")}
        save_result(path, "Design", tensors, flags)

    @classmethod
    def load(cls, path: str | Path) -> MemoryDesign:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "Design", "a designed network")
        return cls(**tensors, **flags)

    def figure(self) -> Figure:
        """The matrix as a line, its singular values, its memory under the bound, the ascent (needs `report`)."""
        from mnemoscope.lenses.fisher.design_figure import draw_design

        return draw_design(self)


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
    """Look for the network that remembers most of its past signals, from several starts; noise is white.

    Args:
        size: units, N; or (N, P) for a network whose state is an N x P matrix, with the limits for U and V each.
        norm: largest singular value allowed.
        frobenius: Frobenius norm allowed. One of the two norms is needed; with both, both hold.
        radius: spectral radius allowed, below 1. It comes on top of a norm, and is needed where the norm is above 1 and
            all lags count. Where it is below the norms, networks with real eigenvalues alone are searched: these are
            lower triangular in some basis, in which the limits are convex; the first start is then a delay line bent
            to that radius, the others are random.
        lags: count the first so many lags, from 0; None: all.
        start: (V, v) or (U, V, W) to begin the first restart with, instead.
        steps: iterations of each ascent, at most.
        restarts: ascents, each from another start.
        seed: of the random starts.
        tolerance: on the projected gradient.
        progress: show a progress bar.

    """
    shape = _checked_size(size)
    asked = _checked(norm, frobenius, radius, lags)
    if min(steps, restarts, tolerance) <= 0 or int(steps) != steps or int(restarts) != restarts:
        raise ValueError(
            f"At least 1 step and 1 restart are needed, whole numbers, and a positive tolerance, but steps is {steps}, "
            f"restarts is {restarts} and tolerance is {tolerance}."
        )
    constraint = asked.binding
    generator = torch.Generator().manual_seed(seed)
    found: list[Ascent] = []
    with Bar(total=restarts * steps, desc="design", unit="step", disable=not progress) as bar:
        for number in range(restarts):
            if number == 0 and start is not None:
                first = _checked_start(start, shape, constraint)
            elif number == 0 and constraint.radius is not None:
                first = _bent(shape, constraint, constraint.radius)
            else:
                first = _random(shape, constraint, generator)
            allowed = _project(first, constraint)

            def tell(value: float) -> None:
                bar.update()
                bar.set_postfix(value=f"{value:.6g}", refresh=False)

            found.append(ascend(lambda point: _slope(point, lags), lambda point: _project(point, constraint),
                                _turned(allowed, lags, start is not None and number == 0),
                                steps, tolerance, EDGE, tell))  # fmt: skip
            bar.update((number + 1) * steps - bar.n)
    best = max(found, key=lambda one: one.value)
    parts = _turned(best.point, lags, False)
    named = dict(zip(("V", "v") if len(shape) == 1 else ("U", "V", "W"), parts, strict=True))
    return MemoryDesign(
        **named, ascent=torch.tensor(best.values, dtype=torch.float64),
        values=torch.tensor([one.value for one in found], dtype=torch.float64), norm=norm, frobenius=frobenius,
        radius=radius, lags=lags, converged=best.converged, reason=best.reason,
    )  # fmt: skip


def _memory(parts: Point, lags: int) -> FisherMemory:
    if len(parts) == 2:
        return fisher_memory(parts[0], parts[1], lags=lags)
    U, V, W = parts
    return fisher_memory(MatrixSystem(U, V, W), lags=lags)


def _climbed(memory: FisherMemory, lags: int | None) -> Float[Tensor, ""]:
    return memory.relative if lags is None else memory.curve[:lags].sum() / memory.input_information


def _slope(point: Point, lags: int | None) -> tuple[float, Point] | None:
    if prod(spectral_radius(matrix) for matrix in point[:-1]) > LARGEST_RADIUS:
        return None
    leaves = [part.detach().requires_grad_() for part in point]
    try:
        value = _climbed(_memory(leaves, lags or 1), lags)
        gradient = torch.autograd.grad(value, leaves)
    except (ValueError, OverflowError):  # unstable, or amplified beyond float64: the step is then shortened
        return None
    if not all(bool(torch.isfinite(part).all()) for part in gradient):
        return None
    return value.item(), list(gradient)


def _project(point: Point, constraint: Constraint) -> Point:
    """The recurrent matrices where they are allowed, and the source at length 1: only its direction counts."""
    *matrices, source = point
    return [*(constraint.nearest(one) for one in matrices), source / torch.linalg.vector_norm(source)]


def _turned(point: Point, lags: int | None, keep: bool) -> Point:
    """With signals entering by the best direction, which has a closed form where all lags count."""
    if lags is not None or keep:
        return point
    memory = _memory([part.detach().requires_grad_() for part in point], 1)  # no route that leaves `spatial` out
    return [*(part.detach() for part in point[:-1]), memory.best_direction.detach()]


def _random(shape: tuple[int, ...], constraint: Constraint, generator: torch.Generator) -> Point:
    """Well inside of every limit, so that the start is stable and all directions are open."""
    scale = 0.5 * min(1.0, constraint.largest)
    matrices = [torch.randn(side, side, generator=generator, dtype=torch.float64) for side in shape]
    if constraint.radius is not None:
        scale = min(scale, constraint.radius)
        matrices = [one.tril() for one in matrices]
    return [
        *(scale * one / torch.linalg.matrix_norm(one, 2) for one in matrices),
        torch.randn(shape, generator=generator, dtype=torch.float64),
    ]


def _lines(shape: tuple[int, ...], constraint: Constraint) -> Point:
    """Delay lines as strong as is allowed, and the source at their beginning."""
    matrices = []
    for side in shape:
        line = torch.diag(torch.ones(side - 1, dtype=torch.float64), -1)
        if side == 1 and len(shape) > 1:  # a side of one unit passes the other's line on
            line = torch.ones(1, 1, dtype=torch.float64)
        strength = inf if constraint.frobenius is None else constraint.frobenius / max(side - 1, 1) ** 0.5
        line = line * min(strength, inf if constraint.norm is None else constraint.norm)
        matrices.append(line if len(shape) == 1 else line.mT)
    source = torch.zeros(shape, dtype=torch.float64)
    source.view(-1)[0] = 1
    return [*matrices, source]


def _bent(shape: tuple[int, ...], constraint: Constraint, radius: float) -> Point:
    """`g (a + S) (1 + a S)^-1` of a delay line S, with `a = radius / g`: all its eigenvalues are the radius, and all
    its singular values g but one, `g a^N`.
    """
    g, matrices = constraint.largest, []
    a = radius / g if g > 1 else 0.0  # below 1 the plain line is better
    for side in shape:
        S, eye = torch.diag(torch.ones(side - 1, dtype=torch.float64), -1), torch.eye(side, dtype=torch.float64)
        matrices.append(g * torch.linalg.solve(eye + a * S, a * eye + S))
    return [*matrices, torch.ones(shape, dtype=torch.float64)]


def _bound(shape: tuple[int, ...], largest: float, lags: int | None) -> float:
    """`min(size, sum_k 1 / sum_(m <= k) g^(-2m))`, with the product of both norms in a matrix network."""
    size, alpha = prod(shape), largest ** (2 * len(shape))
    total = inverse = 0.0
    for k in count() if lags is None else range(lags):
        inverse += alpha**-k
        total += 1 / inverse
        if total >= size or not isfinite(inverse) or (k > 0 and 1 / inverse < 1e-17 * total):
            break
    return min(float(size), total)


def _in_line(A: Float[Tensor, "size size"], first: Float[Tensor, " size"]) -> Float[Tensor, "size size"]:
    """A in the orthonormal basis of x, A x, A^2 x, ... (Arnoldi); where these end, other directions go on."""
    basis = (first / torch.linalg.vector_norm(first))[:, None]
    while basis.shape[1] < len(A):
        eye = torch.eye(len(A), dtype=A.dtype)
        for vectors in (A @ basis[:, -1:], eye):
            left = vectors
            for _ in range(2):  # twice is enough against rounding
                left = left - basis @ (basis.mT @ left)
            lengths = torch.linalg.vector_norm(left, dim=0)
            if float(lengths.max()) > 1e-8:
                break
        chosen = int(lengths.argmax())
        basis = torch.cat([basis, left[:, chosen : chosen + 1] / lengths[chosen]], dim=1)
    return basis.mT @ A @ basis


def _checked_size(size: Size) -> tuple[int, ...]:
    shape = size if isinstance(size, tuple) else (size,)
    if len(shape) not in (1, 2) or not all(isinstance(side, int) and side >= 1 for side in shape):
        raise ValueError(f"size must be a number of units, or (rows, columns) of a matrix, but is {size!r}.")
    return shape


def _checked(norm: float | None, frobenius: float | None, radius: float | None, lags: int | None) -> Constraint:
    for name, limit in (("norm", norm), ("frobenius", frobenius)):
        if limit is not None and not 0 < limit < inf:
            raise ValueError(f"{name} must be positive and finite, but is {limit}.")
    if radius is not None and not 0 < radius < 1:
        raise ValueError(f"radius must lie between 0 and 1, where noise does not pile up, but is {radius}.")
    if lags is not None and (not isinstance(lags, int) or lags < 1):
        raise ValueError(f"lags must be at least 1, a whole number, or None for all lags, but is {lags}.")
    constraint = Constraint(norm, frobenius, radius)
    if norm is None and frobenius is None:
        raise ValueError(
            "Pass norm=... or frobenius=...: with a spectral radius alone, or nothing, amplification grows without "
            "end, and the total tends to the number of units without ever reaching it."
        )
    if lags is None and radius is None and constraint.largest > 1:
        raise ValueError(
            f"With singular values up to {constraint.largest:g} and all lags there is no best network: eigenvalues "
            f"closer and closer to 1 remember more and more. Pass radius=0.9, say, or lags=..., or a norm of at most 1."
        )
    return constraint


def _checked_start(start: Sequence[Tensor], shape: tuple[int, ...], constraint: Constraint) -> Point:
    wanted = [(side, side) for side in shape] + [shape]
    given = [torch.as_tensor(part).detach().to(device="cpu", dtype=torch.float64) for part in start]
    shapes = [tuple(part.shape) for part in given]
    if shapes != wanted or not all(bool(torch.isfinite(part).all()) for part in given) or not given[-1].any():
        raise ValueError(
            f"start must be {'(V, v)' if len(shape) == 1 else '(U, V, W)'}, finite, of the shapes {wanted}, and the "
            f"last not 0, but has the shapes {shapes}."
        )
    if constraint.radius is None:
        return given
    forms = [schur_form(one) for one in given[:-1]]
    source = forms[0].P.mT @ given[-1]
    return [*(form.theta for form in forms), source if len(shape) == 1 else source @ forms[1].P]


def _sentences(design: MemoryDesign) -> list[str]:
    size = " x ".join(map(str, design.shape))
    named = {"norm": design.norm, "Frobenius norm": design.frobenius, "spectral radius": design.radius}
    limits = [f"{name} {limit:g}" for name, limit in named.items() if limit is not None]
    which = "all past signals" if design.lags is None else f"the last {design.lags} signals"
    each = "" if design.U is None else " each"
    said = [f"A network of {size} units, of {' and '.join(limits)}{each} at most, holds {design.value:.6g} of {which}; "
            f"a delay line {design.line:.6g}, and none more than {design.bound:.6g}."]  # fmt: skip
    low, high = float(design.values.min()), float(design.values.max())
    number = len(design.values)
    said.append(f"Of {number} starts, the best led to {high:.6g} and the worst to {low:.6g}." if number > 1 else
                "There was one start.")  # fmt: skip
    said.append(f"The best ascent stopped: {design.reason}.")
    if high < design.bound * (1 - 1e-9):
        said.append("A better one may exist.")
    return said
