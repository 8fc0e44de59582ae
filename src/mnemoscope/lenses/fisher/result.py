"""The result of the Fisher memory lens: the memory curve and matrix, the total, and its bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, nan, prod
from typing import ClassVar

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float, Inexact, Int
from mnemoscope.lenses.bootstrap import bootstrap_interval
from mnemoscope.lenses.fisher.operators import Dense, Kronecker, Map
from mnemoscope.lenses.fisher.square_root import LARGEST_QR
from mnemoscope.lenses.fisher.stein import gramian
from mnemoscope.lenses.result import Flags, Result


@dataclass(frozen=True, repr=False)
class FisherMemory(Result):
    """Information of a noisy network's state about past signals (Ganguli et al. 2008; Kerg, 2.6; Renanse, 2.3).

    For `x(n) = A x(n-1) + w s(n) + z(n)`, `J_kl` is the Fisher information matrix of the state about the signals k and
    l steps ago; its inverse bounds the error of any estimate of them.

    The memory along inputs has a first dimension "batch", one trajectory each, with A and w the Jacobians of every
    step. Its input information depends on the lag, it is not stationary, and it has neither amplification nor a
    spatial matrix. The memory of an affine layer about the values that it wrote has the dimensions "batch" and "heads";
    it is that of one column of the state, and a lag counts writes: one per input, or per micro-step.

    >>> import mnemoscope as ms
    >>> line = torch.diag(torch.ones(9), -1)  # a delay line of ten units
    >>> memory = ms.fisher_memory(line, torch.eye(10)[0])
    >>> [round(value, 4) for value in memory.curve[:4].tolist()]  # 1 / (k + 1)
    [1.0, 0.5, 0.3333, 0.25]
    >>> round(memory.total.item(), 4), memory.bound.item()
    (2.929, 10.0)
    >>> memory = ms.fisher_memory(torch.nn.GRU(3, 16), 0, along=torch.randn(50, 8, 3))
    >>> memory.curve.shape, memory.total.shape, bool((memory.remaining <= 1).all())
    (torch.Size([8, 50]), torch.Size([8]), True)
    """

    noun: ClassVar[str] = "a Fisher memory"
    drawn_by: ClassVar[str] = "draw_memory"
    former_kinds: ClassVar[tuple[str, ...]] = ("TrajectoryMemory",)

    traces: Inexact[Tensor, "*batch lags observed"]
    """The signal k steps ago in the state, in units of the noise: `J_kl` is a product of two traces. Only these
    products are determined; on the matrix-free route the traces are rows of a square root of J, (lags, lags)."""
    total: Float[Tensor, "*batch"]
    """`J_tot = sum_k J(k)` over all k; along inputs, over the whole trajectory."""
    input_information: Float[Tensor, "*signals"]
    """Information about a signal as it enters, `w^T Q^-1 w`; infinite where it enters a direction without noise. Along
    inputs (batch, lags), and less where units are saturated; about values `|k|^2 / noise`, the energy of a write."""
    bound: Float[Tensor, "*batch"]
    """Bound on the total for any network of this size: size times the largest input information, because
    `tr(Q J_spatial) = size`."""
    amplification: Float[Tensor, " lags"]
    """`A_m`: strength of a signal after m steps, in units of the noise that enters at a step; NaN where it is not
    defined."""
    shape: tuple[int, ...]
    """Shape of the observed state."""
    method: str = "exact"
    """Either "exact" or "published"."""
    route: str = ""
    """Description of how the memory was computed."""
    error: float = nan
    """Estimate of the relative error due to rounding: from the residual of the covariance equation, its condition
    number and the number of summed steps; an upper bound on the matrix-free route. Along inputs, the difference between
    two ways of computing a new signal, 0 where one suffices. NaN if not measured ("published")."""
    step: Map | None = None
    """The map of one step, if the whole stationary state is observed."""
    factor: Float[Tensor, "*batch size size"] | None = None
    """S of the covariance of the state, `C = S S^T`."""
    steps: int | None = None
    """Length of the longest trajectory; None for a linear system."""
    lengths: Int[Tensor, " batch"] | None = None
    """Length of each trajectory, if they differ; the curve of a shorter one ends with NaN."""

    def __len__(self) -> int:
        """Return the number of lags."""
        return self.lags

    @property
    def lags(self) -> int:
        """Length of the curve."""
        return self.traces.shape[-2]

    @property
    def batch(self) -> int | None:
        """Number of trajectories; None for a linear system."""
        return None if self.steps is None else self.traces.shape[0]

    @property
    def heads(self) -> int | None:
        """Number of heads of an affine layer; None for other memories."""
        return self.traces.shape[1] if self.traces.dim() == 4 else None

    @property
    def size(self) -> int:
        """Number of entries of the observed state, N, N^2 or (p + 1) N^2."""
        return prod(self.shape)

    @property
    def curve(self) -> Float[Tensor, "*batch lags"]:
        """The Fisher memory curve J(k), k = 0, 1, ... steps ago.

        For a stationary state it never rises; with a horizon it may, because older noise is missing.
        """
        return self.traces.abs().square().sum(-1)

    @property
    def mean_curve(self) -> Float[Tensor, " lags"]:
        """The curve, averaged over the trajectories and heads that have each lag."""
        return self.curve.reshape(-1, self.lags).nanmean(0)

    @property
    def matrix(self) -> Float[Tensor, "*batch lags lags"]:
        """The Fisher memory matrix J_kl; its off-diagonal entries measure the interference of two signals."""
        product = self.traces @ self.traces.mH
        return product.real if product.is_complex() else product

    @property
    def remaining(self) -> Float[Tensor, "*batch lags"]:
        """Share of a signal's input information that is left; NaN where that was 0.

        About values it is J in units of the energy of each write. Its sum over all lags is at most the number of keys,
        times that of micro-steps, and exactly 1 if every operator scales and rotates all keys alike.
        """
        return self.curve / self.input_information

    @property
    def relative(self) -> Float[Tensor, ""]:
        """Relative capacity: the total in units of the information about one signal. 1 for every normal network."""
        if self.steps is not None:
            raise ValueError("Along inputs signals enter with different information: see input_information.")
        return self.total / self.input_information

    @property
    def amplification_bound(self) -> Float[Tensor, " lags"]:
        """The bound `J(k) <= 1 / sum_(m <= k) 1 / A_m` (Ganguli et al. 2008; Kerg, 2.6).

        Noise that enters later is amplified too. A delay line reaches the bound.
        """
        return 1 / (1 / self.amplification).cumsum(0)

    @cached_property
    def spatial(self) -> Float[Tensor, "size size"]:
        """The spatial Fisher matrix, `sum_k A^kT C^-1 A^k`: the total is `w^T J_spatial w` for any direction w."""
        if self.step is None or self.factor is None:
            raise ValueError(f"The spatial Fisher matrix is not known by this route ({self.route}).")
        if self.size > LARGEST_QR:
            raise ValueError(
                f"The spatial Fisher matrix of {self.size} numbers would take hours: at most {LARGEST_QR}."
            )
        S = self.factor
        B = solve_triangular(S, self.step.dense() @ S, upper=False)
        G = gramian(B, torch.eye(len(B), dtype=B.dtype))
        half = solve_triangular(S.mT, G, upper=True)
        spatial = solve_triangular(S.mT, half.mT, upper=True)
        return (spatial + spatial.mT) / 2

    @cached_property
    def best_direction(self) -> Float[Tensor, " ..."]:
        """The unit vector (or matrix) with the largest total: the leading eigenvector of `spatial`."""
        return torch.linalg.eigh(self.spatial)[1][:, -1].reshape(self.shape)

    @cached_property
    def best_total(self) -> Float[Tensor, ""]:
        """The total of a unit signal in the best direction: the largest eigenvalue of `spatial`."""
        return torch.linalg.eigvalsh(self.spatial)[-1]

    def saturation_bound(self, limit: float) -> float:
        """Return a bound on the total if every unit stays within `-limit ... limit` on average (Renanse, 2.5.1).

        The mean square of the state is `tr P + tr C`, of signals of unit variance and of noise, and `J_tot = tr(C^-1 P)
        <= tr P / lambda_min(C)`: so the total is at most `(N limit^2 - tr C) / lambda_min(C)`. The bound is negative
        where the noise alone exceeds the limit, and there is no such network.
        """
        if self.factor is None or self.steps is not None:
            raise ValueError(f"The stationary covariance is not formed by this route ({self.route}).")
        singular = torch.linalg.svdvals(self.factor)
        noise = float(singular.square().sum())
        return (self.size * limit**2 - noise) / float(singular[-1] ** 2)

    def summary(self) -> str:
        """Return the total, the lag at which half is left, and the accuracy, in sentences."""
        describe = _total_sentence if self.steps is None else _trajectory_sentence
        sentences = [_value_sentence(self) if self.heads is not None else describe(self)]
        curve = self.mean_curve.detach()
        sentences.append(
            f"The memory curve is at least half of its first value {lags_above(curve, float(curve[0]) / 2)}"
            f"{_lag_interval(self)}."
        )
        if self.method == "published":
            sentences.append(f"Computed {self.route}, an approximation that understates the memory.")
        elif self.error > 1e-8:
            sentences.append(f"The relative error is about {self.error:.0e}.")
        return " ".join(sentences)

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> FisherMemory:
        """Make a Fisher memory from the fields; earlier versions saved no bound, or saved trajectories separately."""
        tensors, flags = dict(tensors), {name: flag for name, flag in flags.items() if flag is not None}
        matrices = [name for name in ("step.A", "step.left", "step.right", "step0", "step1") if name in tensors]
        parts = [tensors.pop(name) for name in matrices]
        if "entering" in tensors:  # a TrajectoryMemory
            tensors["input_information"] = tensors.pop("entering")
            lags, size = tensors["traces"].shape[1:]
            tensors["amplification"] = torch.full((lags,), nan, dtype=torch.float64)
            flags |= {"shape": (size,), "route": "linearised at every step"}
        elif "bound" not in tensors:
            tensors["bound"] = prod(flags["shape"]) * tensors["input_information"]
        memory = super().unpack(tensors, flags)
        return replace(memory, step=Dense(*parts) if len(parts) == 1 else Kronecker(*parts)) if parts else memory


def lags_above(curve: Float[Tensor, " lags"], level: float) -> str:
    """Describe the first lags at which a curve stays at a level or above.

    >>> lags_above(torch.tensor([1.0, 0.6, 0.4, 0.7]), 0.5), lags_above(torch.tensor([1.0, 0.1]), 0.5)
    ('up to lag 1', 'only at lag 0')
    """
    last = int((curve >= level).to(torch.int64).cumprod(0).sum()) - 1
    if last <= 0:
        return "only at lag 0" if last == 0 else "at no lag"
    return f"up to lag {last}{' at least' if last + 1 == len(curve) else ''}"


def _total_sentence(memory: FisherMemory) -> str:
    shape = " x ".join(map(str, memory.shape))
    sentence = f"A state of {shape} numbers holds an information of {float(memory.total):.4g} about past signals"
    if not isfinite(float(memory.input_information)):
        return f"{sentence}."
    return f"{sentence}, {float(memory.relative):.4g} times that of one signal as it enters (at most {memory.size})."


def _value_sentence(memory: FisherMemory) -> str:
    heads, size = memory.total.shape[1], memory.size
    held, relative = memory.total.mean(1), memory.remaining.nansum(-1).mean(1)
    writes = f"{_shortest(memory)}{memory.steps} write{'s' * (memory.steps != 1)}"
    return (
        f"After {writes}, a column of {size} number{'s' * (size > 1)} holds, about the values written, an information "
        f"of {_mean(held, 'sequences')}, {_mean(relative)} times that of one write as it enters; means over {heads} "
        f"head{'s' * (heads > 1)}."
    )


def _trajectory_sentence(memory: FisherMemory) -> str:
    trajectories = f"{memory.batch} trajectories" if memory.traces.shape[0] > 1 else "a trajectory"
    steps = f"{_shortest(memory)}{memory.steps} step{'s' if memory.steps != 1 else ''}"
    return (
        f"After {trajectories} of {steps}, a state of {memory.size} numbers holds an information of "
        f"{_mean(memory.total, 'trajectories')} about past signals; the newest signal enters with "
        f"{_mean(memory.input_information[:, 0])}."
    )


def _mean(values: Float[Tensor, " batch"], noun: str = "") -> str:
    """Return the mean over sequences, with its 95% interval if there are several; `noun` names what they are."""
    text = f"{float(values.mean()):.4g}"
    if len(values) == 1:
        return text
    low, high = bootstrap_interval(values)
    return f"{text} ({float(low):.4g} to {float(high):.4g}{f', 95% over {len(values)} {noun}' if noun else ''})"


def _lag_interval(memory: FisherMemory) -> str:
    """Return the 95% interval over sequences of the lag up to which half is left; "" without several sequences."""
    if memory.steps is None or memory.traces.shape[0] == 1:
        return ""
    curves = memory.curve if memory.heads is None else memory.curve.mean(1)  # (batch, lags)

    def last_lag(drawn: Float[Tensor, "batch lags"]) -> Float[Tensor, ""]:
        curve = drawn.nanmean(0)
        return (curve >= curve[0] / 2).double().cumprod(0).sum() - 1

    low, high = bootstrap_interval(curves, last_lag)
    return f" (95% interval {float(low):.3g} to {float(high):.3g})"


def _shortest(memory: FisherMemory) -> str:
    """Return the length of the shortest of sequences of several lengths, before that of the longest."""
    return "" if memory.lengths is None else f"{int(memory.lengths.min())} to "
