"""A turn of all heads as one function with its own backward pass, for scans.

It does what `heads` and `addressing` say, and is held to them by a test. Only the memory of each turn and what has a
number for each slot are kept; whatever else has the size of the memory is computed again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, logsigmoid, softplus

from mnemoscope.memory.tape.addressing import TINY, interpolated, sharpened
from mnemoscope.shapes import Float

_log_softmax_backward = torch.ops.aten._log_softmax_backward_data


class _Looked(NamedTuple):
    """What addressing leaves for the backward pass; M may be the memory before or after writing."""

    key: Float[Tensor, "batch heads numbers"]
    over_key: Float[Tensor, "batch heads 1"]
    strength: Float[Tensor, "batch heads 1"]
    cosine: Float[Tensor, "batch heads slots"]
    log_content: Float[Tensor, "batch heads slots"]
    gate: Float[Tensor, "batch heads 1"]
    log_mixed: Float[Tensor, "batch heads slots"]
    each: Float[Tensor, "batch heads moves slots"]
    """Log weights after each move, and that of the move added."""
    log_shifted: Float[Tensor, "batch heads slots"]
    gamma: Float[Tensor, "batch heads 1"]
    log_weights: Float[Tensor, "batch heads slots"]


def turn(
    parts: list[Tensor],
    least_strength: float,
    memory: Float[Tensor, "batch slots numbers"],
    log_read: Float[Tensor, "batch readers slots"],
    log_write: Float[Tensor, "batch writers slots"],
    over_length: Float[Tensor, "batch 1 slots"] | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Memory, log weights of heads that read and that write, reads, and one over the lengths of the slots.

    `parts` are what `Heads.parts` yields; `over_length` is that of `memory`, if the turn before told it.
    """
    over_length = lengths(memory) if over_length is None else over_length
    return _Turn.apply(least_strength, *parts, memory, log_read, log_write, over_length)  # pyright: ignore[reportReturnType]


def lengths(memory: Float[Tensor, "batch slots numbers"]) -> Float[Tensor, "batch 1 slots"]:
    """One over the length of each slot; a helper value, without a gradient of its own."""
    with torch.no_grad():
        return torch.rsqrt(torch.linalg.vector_norm(memory, dim=-1).square_() + TINY**2).unsqueeze(1)


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, least: float, key: Tensor, change: Tensor, moves: Tensor, rest: Tensor, memory: Tensor,
        log_read: Tensor, log_write: Tensor, over_length: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        writers = log_write.shape[1]
        key, log_shift = torch.tanh(key), log_softmax(moves, dim=-1)
        strength, gate, gamma = rest.split(1, dim=-1)
        told = (key, least + softplus(strength), gate, log_shift, 1 + softplus(gamma))
        erase, add = torch.sigmoid(change[:, :writers]), torch.tanh(change[:, writers:])
        write = _look(memory, over_length, log_write, *(part[:, :writers] for part in told))
        w = write.log_weights.exp()
        new = _written(memory, w, erase, add)
        over_new = lengths(new)
        read = _look(new, over_new, log_read, *(part[:, writers:] for part in told))
        r = read.log_weights.exp()
        ctx.save_for_backward(rest, log_shift, erase, add, memory, over_length, new, over_new, w, r, *write, *read)
        ctx.mark_non_differentiable(over_new)
        return new, read.log_weights, write.log_weights, r @ new, over_new

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("The fast scan of a Turing machine has no second derivative; pass backend='loop'.")
        rest, log_shift, erase, add, memory, over_length, new, over_new, w, r, *looked = ctx.saved_tensors
        write, read = _Looked(*looked[: len(looked) // 2]), _Looked(*looked[len(looked) // 2 :])
        g_new, g_log_read, g_log_write, g_reads, _ = grads

        g_log_r = torch.addcmul(g_log_read, g_reads @ new.mT, r)
        g_told_r, g_log_read, g_alike, radial = _look_back(g_log_r, new, over_new, read)
        g_new = torch.addcmul(g_new, new, radial, value=-1)  # a new tensor: what was given is not ours to write into
        g_new.baddbmm_(torch.cat([r, g_alike], dim=1).mT, torch.cat([g_reads, read.key], dim=1))

        g_add, g_w = w @ g_new, add @ g_new.mT
        g_memory, g_erase, g_w = _erase_back(g_new, memory, w, erase, g_w)
        g_log_w = torch.addcmul(g_log_write, g_w, w)
        g_told_w, g_log_write, g_alike, radial = _look_back(g_log_w, memory, over_length, write)
        g_memory.addcmul_(memory, radial, value=-1).baddbmm_(g_alike.mT, write.key)

        pairs = zip(g_told_w, g_told_r, strict=True)
        g_key, g_strength, g_gate, g_shift, g_gamma = (torch.cat(pair, dim=1) for pair in pairs)
        key = torch.cat([write.key, read.key], dim=1)
        g_key = g_key * (1 - key * key)
        slope = torch.sigmoid(rest)  # of softplus
        g_rest = torch.cat([g_strength * slope[..., :1], g_gate, g_gamma * slope[..., 2:]], dim=-1)
        g_moves = _log_softmax_backward(g_shift, log_shift, -1, log_shift.dtype)
        g_change = torch.cat([g_erase * erase * (1 - erase), g_add * (1 - add * add)], dim=1)
        return None, g_key, g_change, g_moves, g_rest, g_memory, g_log_read, g_log_write, None


def _look(
    memory: Tensor, over_length: Tensor, log_before: Tensor, key: Tensor, strength: Tensor, gate: Tensor,
    log_shift: Tensor, gamma: Tensor,
) -> _Looked:  # fmt: skip
    over_key = torch.rsqrt((key * key).sum(-1, keepdim=True) + TINY**2)
    cosine = (key * over_key) @ memory.mT * over_length
    log_content = log_softmax(strength * cosine, dim=-1)
    log_mixed = interpolated(log_content, log_before, gate)
    each = _moved(log_mixed, log_shift.shape[-1]) + log_shift.flip(-1).unsqueeze(-1)
    log_shifted = torch.logsumexp(each, dim=-2)
    log_weights = sharpened(log_shifted, gamma)
    return _Looked(key, over_key, strength, cosine, log_content, gate, log_mixed, each, log_shifted, gamma, log_weights)


def _moved(weights: Float[Tensor, "batch heads slots"], moves: int) -> Float[Tensor, "batch heads moves slots"]:
    """The weights on the ring after each of the moves reach, ..., -reach: furthest on first; a view of few numbers."""
    slots, reach = weights.shape[-1], moves // 2
    around = torch.cat([weights[..., slots - reach :], weights, weights[..., :reach]], dim=-1)
    return around.unfold(-1, slots, 1)


def _look_back(
    g: Tensor, memory: Tensor, over_length: Tensor, seen: _Looked
) -> tuple[tuple[Tensor, ...], Tensor, Tensor, Tensor]:
    """Gradients of key, beta, gate, log shift and gamma, and of the weights before.

    The last two make that of the memory: `g_alike^T key - radial memory`.
    """
    g = _log_softmax_backward(g, seen.log_weights, -1, g.dtype)
    g_gamma = (g * seen.log_shifted).sum(-1, keepdim=True)
    # each log-sum-exp hands on shares of its gradient
    g_moved = (g * seen.gamma).unsqueeze(-2) * (seen.each - seen.log_shifted.unsqueeze(-2)).exp_()
    reach = g_moved.shape[-2] // 2
    back = [part.roll(number - reach, -1) for number, part in enumerate(g_moved.unbind(-2))]
    g_mixed = sum(back[1:], start=back[0])
    g_content = g_mixed * (logsigmoid(seen.gate) + seen.log_content - seen.log_mixed).exp_()
    g_before = g_mixed - g_content
    g_gate = g_content.sum(-1, keepdim=True) - torch.sigmoid(seen.gate) * g_mixed.sum(-1, keepdim=True)
    g = _log_softmax_backward(g_content, seen.log_content, -1, g.dtype)
    g_strength = (g * seen.cosine).sum(-1, keepdim=True)
    g = g * seen.strength  # of the cosine
    radial = g * seen.cosine  # what lengthening a key or a slot would do
    g = g * over_length * seen.over_key
    g_key = g @ memory - seen.key * (seen.over_key.square() * radial.sum(-1, keepdim=True))
    radial = (over_length.square() * radial.sum(1, keepdim=True)).mT
    return (g_key, g_strength, g_gate, g_moved.sum(-1).flip(-1), g_gamma), g_before, g, radial


def _written(memory: Tensor, w: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    if w.shape[1] == 1:  # M + w (a - e M), in two passes over the memory
        return torch.addcmul(memory, w.mT, torch.addcmul(add, erase, memory, value=-1))
    return torch.baddbmm(_erased(memory, w, erase)[-1], w.mT, add)


def _erased(memory: Tensor, w: Tensor, erase: Tensor) -> list[Tensor]:
    """The memory before and after each head erased."""
    steps = [memory]
    for one, e in zip(w.unbind(1), erase.unbind(1), strict=True):
        steps.append(torch.addcmul(steps[-1], steps[-1], one.unsqueeze(2) * e.unsqueeze(1), value=-1))
    return steps


def _erase_back(g: Tensor, memory: Tensor, w: Tensor, erase: Tensor, g_w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the memory and of what to erase, and that of the weights added to `g_w`."""
    g_erase = torch.empty_like(erase)
    g_w = g_w.clone()
    before = _erased(memory, w[:, :-1], erase[:, :-1])  # after the last one is of no use here
    for head in reversed(range(w.shape[1])):
        one, e = w[:, head : head + 1], erase[:, head : head + 1]
        g_product = g * before[head]
        g_w[:, head : head + 1] -= e @ g_product.mT
        g_erase[:, head : head + 1] = -(one @ g_product)
        g = torch.addcmul(g, g, one.mT * e, value=-1)
    return g, g_erase, g_w
