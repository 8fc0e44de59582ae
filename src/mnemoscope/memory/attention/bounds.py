"""A box of states that a network with a relevance screen never leaves."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from mnemoscope.base.array_types import Float
from mnemoscope.cells import GRU, LSTM, Cell, Elman
from mnemoscope.cells.cell import Box
from mnemoscope.memory.attention.past import AttentiveCell
from mnemoscope.memory.attention.relevance import Learned, Surprise
from mnemoscope.memory.attention.retention import RelevanceScreen
from mnemoscope.memory.intervals import Interval, interval_product

SCORE_GAP = 0.1
"""Distance between the lower score bounds in the relevant set; reachable scores are at least 0."""


def screened_box(net: AttentiveCell, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
    """Return a box that the step maps into itself for every input between `low` and `high`, or None.

    The bounds of h do not depend on what the cell reads. So all values in memory are bounded, and their mean c, and s,
    keys and scores, which are linear in h and c or grow by at most one weight per step. An empty slot is 0, so that
    every part of the box is extended to include 0.

    The step is discontinuous where a state replaces another, so that the box alone does not imply a fixed point. But
    states of the relevant set with the largest scores of the box are never replaced: the rest of the step is
    continuous, maps the rest of the box into itself, and has a fixed point by Brouwer's theorem.
    """
    past, cell, key = net.past, net.cell, net.alignment.key
    if not isinstance(past, RelevanceScreen) or not isinstance(key, nn.Linear) or key.bias is not None:
        return None
    h = _outputs(net, low, high)
    if h is None:
        return None
    value = _with_zero(*h)
    s = _with_zero(*_macro(net, h, value))
    inner = _inner(cell, low, high, h, s)
    if inner is None:
        return None
    row = _row(net, value)
    score = _scores(net, past, s, low, high)
    # different lower bounds in the relevant set: states on the edge of the box then have different scores, and the step
    # is discontinuous at equal scores
    least = torch.zeros_like(score)
    least[past.short_term :] -= SCORE_GAP * torch.arange(1, past.relevant + 1).to(least)
    filled = torch.ones_like(score)
    lowest = torch.cat([inner[0], s[0], row[0].repeat(past.slots), least, torch.zeros_like(filled)])
    highest = torch.cat([inner[1], s[1], row[1].repeat(past.slots), score, filled])
    return (lowest, highest) if torch.isfinite(torch.cat([lowest, highest])).all() else None


def _outputs(net: AttentiveCell, low: Tensor, high: Tensor) -> Interval | None:
    """Return the range of h for any s. A GRU passes on a part of s: |h| <= 1 if this implies |s| <= 1."""
    cell = net.cell
    if type(cell).bounds not in (Elman.bounds, LSTM.bounds, GRU.bounds):  # bounds of other cells may depend on s
        return None
    box = cell.bounds(low, high)
    if box is None:
        return None
    size = net.alignment.size
    h = (box[0][:size], box[1][:size])  # h comes first in an LSTM's state, and is the whole state of the others
    if isinstance(cell, GRU):
        s = _macro(net, h, h)
        if bool((s[0] < h[0]).any() | (s[1] > h[1]).any()):
            return None
    return h


def _inner(cell: Cell, low: Tensor, high: Tensor, h: Interval, s: Interval) -> Interval | None:
    """Return the range of the wrapped cell's state.

    The forget gate of an LSTM depends on s: its weights are scaled so that the bound of |s| takes the role of that of
    |h|.
    """
    if not isinstance(cell, LSTM):
        return h
    if type(cell) is not LSTM:  # its weights may be derived from others, and would not keep the factor
        return None
    scaled = deepcopy(cell)
    with torch.no_grad():
        scaled.weight_hh.mul_(torch.maximum(-s[0], s[1]) / h[1])
    return scaled.bounds(low, high)


def _macro(net: AttentiveCell, h: Interval, c: Interval) -> Interval:
    """Return the range of `s = scale (h + c)`, or of `scale W [h; c]`."""
    if net.mix is None:
        ends = torch.stack([net.scale * (h[0] + c[0]), net.scale * (h[1] + c[1])])
        return ends.amin(0), ends.amax(0)
    return interval_product(net.scale * net.mix.weight, (torch.cat([h[0], c[0]]), torch.cat([h[1], c[1]])))


def _row(net: AttentiveCell, value: Interval) -> Interval:
    """Return the range of a row: values, key, bias."""
    key = net.alignment.key
    assert isinstance(key, nn.Linear)
    parts = [value, _with_zero(*interval_product(key.weight, value))]
    if isinstance(net.judge, Learned):
        parts.append(_with_zero(*(logsigmoid(end) for end in _relevance_logits(net.judge))))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _relevance_logits(judge: Learned) -> Interval:
    """Return the range of g, whose hidden layer is a tanh."""
    last = judge.g[-1]
    assert isinstance(last, nn.Linear)
    reach = last.weight.abs().sum(1)
    return last.bias - reach, last.bias + reach


def _scores(
    net: AttentiveCell, past: RelevanceScreen, s: Interval, low: Tensor, high: Tensor
) -> Float[Tensor, " slots"]:
    """Return the largest scores: the newest state has received one weight, the oldest in the buffer the most."""
    like = s[0]
    if isinstance(net.judge, Learned):
        return torch.sigmoid(_relevance_logits(net.judge)[1]).to(like).expand(past.slots).clone()
    if isinstance(net.judge, Surprise):
        expected = interval_product(net.judge.predict.weight, s)
        b = net.judge.predict.bias
        error = torch.maximum((expected[0] + b - high).abs(), (expected[1] + b - low).abs())
        return error.square().sum().expand(past.slots).clone()
    per_step = past.slots if past.score == "normalised" else 1
    steps = torch.arange(past.short_term, 0, -1, dtype=like.dtype, device=like.device)
    return per_step * torch.cat([steps, steps.new_full((past.relevant,), past.short_term)])


def _with_zero(low: Tensor, high: Tensor) -> Interval:
    return low.clamp(max=0), high.clamp(min=0)
