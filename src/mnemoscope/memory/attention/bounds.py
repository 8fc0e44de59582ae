"""A box of states that a screened network never leaves."""

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
from mnemoscope.memory.intervals import Range, interval_product

APART = 0.1
"""Between the least scores of the relevant set, which are 0 or more in any state that a network comes to."""


def screened_box(net: AttentiveCell, low: Float[Tensor, " features"], high: Float[Tensor, " features"]) -> Box | None:
    """A box that the step of a screened network maps into itself for every input between `low` and `high`, or None.

    h lies between bounds that do not depend on what the cell reads; so do all values in memory, their mean c, and s,
    keys and scores, which are linear in h and c or grow by at most one weight in a step. An empty slot is 0, and so
    every part of the box is stretched to 0.

    The step jumps where a state takes another's place, so that no fixed point follows from the box at once. But states
    of the relevant set with the largest scores of the box are never replaced: what is left is continuous, keeps the
    rest of the box, and by Brouwer has a fixed point.
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
    # a state of the relevant set stays in its slot: lower ends that differ keep those who are put on the edge of the
    # box from having equal scores, where the step jumps
    least = torch.zeros_like(score)
    least[past.short_term :] -= APART * torch.arange(1, past.relevant + 1).to(least)
    filled = torch.ones_like(score)
    lowest = torch.cat([inner[0], s[0], row[0].repeat(past.slots), least, torch.zeros_like(filled)])
    highest = torch.cat([inner[1], s[1], row[1].repeat(past.slots), score, filled])
    return (lowest, highest) if torch.isfinite(torch.cat([lowest, highest])).all() else None


def _outputs(net: AttentiveCell, low: Tensor, high: Tensor) -> Range | None:
    """Of h, whatever the cell reads. A GRU passes on a part of s: |h| <= 1 where |s| <= 1 follows from it."""
    cell = net.cell
    if type(cell).bounds not in (Elman.bounds, LSTM.bounds, GRU.bounds):  # of other cells it is not known
        return None
    box = cell.bounds(low, high)
    if box is None:
        return None
    size = net.alignment.size
    h = (box[0][:size], box[1][:size])  # the first of an LSTM's state, and all of the others'
    if isinstance(cell, GRU):
        s = _macro(net, h, h)
        if bool((s[0] < h[0]).any() | (s[1] > h[1]).any()):
            return None
    return h


def _inner(cell: Cell, low: Tensor, high: Tensor, h: Range, s: Range) -> Range | None:
    """Of the cell's own state. What an LSTM forgets depends on what it reads: its weights are scaled such that |s| up
    to its bound is for them as |h| up to its own.
    """
    if not isinstance(cell, LSTM):
        return h
    if type(cell) is not LSTM:  # with weights that are made of others, which a factor on them does not reach
        return None
    scaled = deepcopy(cell)
    with torch.no_grad():
        scaled.weight_hh.mul_(torch.maximum(-s[0], s[1]) / h[1])
    return scaled.bounds(low, high)


def _macro(net: AttentiveCell, h: Range, c: Range) -> Range:
    """Of `s = scale (h + c)`, or of `scale W [h; c]`."""
    if net.mix is None:
        ends = torch.stack([net.scale * (h[0] + c[0]), net.scale * (h[1] + c[1])])
        return ends.amin(0), ends.amax(0)
    return interval_product(net.scale * net.mix.weight, (torch.cat([h[0], c[0]]), torch.cat([h[1], c[1]])))


def _row(net: AttentiveCell, value: Range) -> Range:
    """Of what is stored of a state: values, key, bias."""
    key = net.alignment.key
    assert isinstance(key, nn.Linear)
    parts = [value, _with_zero(*interval_product(key.weight, value))]
    if isinstance(net.judge, Learned):
        parts.append(_with_zero(*(logsigmoid(end) for end in _judged(net.judge))))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _judged(judge: Learned) -> Range:
    """Of the small network, whose hidden layer is a tanh."""
    last = judge.g[-1]
    assert isinstance(last, nn.Linear)
    reach = last.weight.abs().sum(1)
    return last.bias - reach, last.bias + reach


def _scores(net: AttentiveCell, past: RelevanceScreen, s: Range, low: Tensor, high: Tensor) -> Float[Tensor, " slots"]:
    """The largest scores: of the newest state after one step, of the oldest in the buffer after all."""
    like = s[0]
    if isinstance(net.judge, Learned):
        return torch.sigmoid(_judged(net.judge)[1]).to(like).expand(past.slots).clone()
    if isinstance(net.judge, Surprise):
        expected = interval_product(net.judge.predict.weight, s)
        b = net.judge.predict.bias
        wrong = torch.maximum((expected[0] + b - high).abs(), (expected[1] + b - low).abs())
        return wrong.square().sum().expand(past.slots).clone()
    each = past.slots if past.score == "normalised" else 1
    steps = torch.arange(past.short_term, 0, -1, dtype=like.dtype, device=like.device)
    return each * torch.cat([steps, steps.new_full((past.relevant,), past.short_term)])


def _with_zero(low: Tensor, high: Tensor) -> Range:
    return low.clamp(max=0), high.clamp(min=0)
