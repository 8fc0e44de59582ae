"""Signals that operators of diagonal plus rank one carry to the last state, in units of the noise there.

The noise covariance of a column follows `C_t = A_t C_(t-1) A_t^T + I`, in units of the noise of one input. With
`A = D + a b^T`, `p = C b` and `u = D p + (b^T p / 2) a`, a micro-step is a scaling and an update of rank two,

    A C A^T = D C D + u a^T + a u^T,

so that d keys take O(d^2) per micro-step. With the triangle S of `C_T = S S^T`, one pass backwards carries
`M_s = S^-1 A_T ... A_(s+1)`, again O(d^2) per micro-step, and reads off every signal as `M_s k_s`.

The noise of the last input alone has the covariance I, so that no direction of C is smaller than 1. C therefore keeps
its digits unless the operators amplify noise by orders of magnitude. The pass backwards measures it: noise is white in
the coordinates of S, `sum_s M_s M_s^T = I`. Where ten digits are not kept, the factor S itself is advanced step by step
without forming C, in O(d^3) per input.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import AffineLayer
from mnemoscope.cells.affine.parts import Parts, carry_state, transition
from mnemoscope.lenses.fisher.square_root import next_factor

ACCURACY = 1e-10
"""Largest residual at which the covariance itself is used."""
PROBES = 8
"""Random directions in which the residual is measured; it is exact for as many keys."""


class Signals(NamedTuple):
    """The signals of sequences of one length, the newest first."""

    traces: Inexact[Tensor, "batch heads signals keys"]
    """The signals in the last state, in units of its noise."""
    information: Float[Tensor, "batch heads signals"]
    """Information about each signal when its input has been read."""
    factor: Float[Tensor, "batch heads keys keys"]
    """S in units of the noise of one step."""
    error: float
    """Relative error of the covariance, from the residual of the white noise."""


def signals_by_covariance(layer: AffineLayer) -> Signals | None:
    """Return the signals of real operators in O(d^2) per micro-step; None where this keeps less than ten digits."""
    steps = _MicroSteps.of(layer.parts)
    S, failed = torch.linalg.cholesky_ex(_noise_covariance(steps))
    if bool(failed.any()) or not bool(torch.isfinite(S).all()):
        return None
    traces, error = _carried_back(steps, S)
    if not error < ACCURACY:
        return None
    return _signals(layer, S, traces, error)


def signals_by_factor(layer: AffineLayer) -> Signals:
    """Return the signals of any real operators: the factor of the covariance advances by itself, O(d^3) per input."""
    steps = _MicroSteps.of(layer.parts)
    S = layer.start.new_zeros(steps.keys.shape[1], *(layer.start.shape[2],) * 2)
    for step in range(len(layer.features)):
        S = next_factor(transition(layer.at(step)).flatten(0, 1), S, S[..., :1] * 0)[0]
    return _signals(layer, S, *_carried_back(steps, S))


def _signals(layer: AffineLayer, S: Tensor, traces: Tensor, error: float) -> Signals:
    batch_and_heads = layer.start.shape[:2]
    return Signals(
        traces.movedim(0, 1).unflatten(0, batch_and_heads),
        write_information(layer.parts),
        S.unflatten(0, batch_and_heads),
        error,
    )


class _MicroSteps(NamedTuple):
    """All micro-steps in order of time, `A = diag(decay) + a b^T`; sequences and heads are one dimension."""

    decays: Float[Tensor, "steps systems rates 1"]
    keys: Float[Tensor, "steps systems keys 1"]
    erase: tuple[Tensor, Tensor] | None
    """a and b, each (steps, systems, keys, 1)."""
    per_input: int

    @classmethod
    def of(cls, parts: Parts) -> _MicroSteps:
        """Return the micro-steps of parts (time, batch, ...)."""
        pieces = parts.each()

        def in_order(numbers: list[Tensor]) -> Tensor:
            return torch.stack(numbers, 1).flatten(0, 1).flatten(1, 2).unsqueeze(-1)

        erase = [piece.erase for piece in pieces if piece.erase is not None]
        both = (in_order([a for a, _ in erase]), in_order([b for _, b in erase])) if erase else None
        decays = in_order([piece.decays for piece in pieces])
        return cls(decays, in_order([piece.keys for piece in pieces]), both, len(pieces))


def _noise_covariance(steps: _MicroSteps) -> Float[Tensor, "systems keys keys"]:
    """Return C after the last step; the noise of an input enters after the last of its micro-steps."""
    systems, keys = steps.keys.shape[1:3]
    C = steps.keys.new_zeros(systems, keys, keys)
    diagonal = C.diagonal(dim1=1, dim2=2)
    for step, decay in enumerate(steps.decays):
        if steps.erase is None:
            C.mul_(decay).mul_(decay.mT)
        else:
            a, b = steps.erase[0][step], steps.erase[1][step]
            p = C @ b
            u = torch.addcmul(decay * p, b.mT @ p / 2, a)
            C.mul_(decay).mul_(decay.mT).baddbmm_(torch.cat([u, a], 2), torch.cat([a, u], 2).mT)
        if (step + 1) % steps.per_input == 0:
            diagonal.add_(1)
    return C


def _carried_back(
    steps: _MicroSteps, S: Float[Tensor, "systems keys keys"]
) -> tuple[Float[Tensor, "signals systems keys"], float]:
    """Return `M_s k_s` of every micro-step, the last one first, and the residual of `sum_s M_s M_s^T = I`.

    The residual is measured in random directions, the columns of Z, and scaled to all of them.
    """
    keys = S.shape[1]
    M = solve_triangular(S, torch.eye(keys).to(S).expand_as(S), upper=False)
    Z = torch.linalg.qr(torch.randn(keys, min(keys, PROBES), generator=torch.Generator().manual_seed(0)).double())[0]
    M = torch.cat([M, Z.mT.to(S) @ M], 1)  # the probes are carried as further rows
    traces, noise = [], M.new_zeros(len(M), Z.shape[1], Z.shape[1])
    for step in reversed(range(len(steps.keys))):
        if (step + 1) % steps.per_input == 0:
            noise.baddbmm_(M[:, keys:], M[:, keys:].mT)
        decay, key = steps.decays[step].mT, steps.keys[step]
        if steps.erase is None:
            read, M = M @ key, M * decay
        else:
            a, b = steps.erase[0][step], steps.erase[1][step]
            read, erased = (M @ torch.cat([key, a], 2)).split(1, 2)
            M = torch.baddbmm(M * decay, erased, b.mT)
        traces.append(read[:, :keys, 0])
    noise.diagonal(dim1=1, dim2=2).sub_(1)
    return torch.stack(traces), float(noise.norm(dim=(1, 2)).max()) * keys / Z.shape[1]


def write_information(parts: Parts) -> Float[Tensor, "batch heads signals"]:
    """Return the squared length of every key after the micro-steps of its input, the newest first."""
    pieces, found = parts.each(), []
    for number, piece in enumerate(pieces):
        key = piece.keys.unsqueeze(-1)
        for later in pieces[number + 1 :]:
            key = carry_state(later, key)
        found.append(key.abs().square().sum((-2, -1)))
    return torch.stack(found, 1).flatten(0, 1).movedim(0, 2).flip(2)
