"""Named networks that attend to their past states (Kerg, chapter 4).

Each is a cell, a rule for which past states are kept, and attention over these (`memory.attention.Attentive`).
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.connectivity import Dense, Exponential
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen, SparseBacktracking


class AlignmentOptions(TypedDict, total=False):
    """Options of all networks here, those of `memory.attention.Attentive`."""

    alignment: str
    heads: int


class AttentionOptions(AlignmentOptions, total=False):
    """Options of the networks that add a context to their state."""

    scale: float


def memrnn(
    input_size: int,
    hidden_size: int,
    nonlinearity: str = "tanh",
    orthogonal: bool = False,
    **options: Unpack[AttentionOptions],
) -> Attentive:
    """Return a MemRNN: an Elman network that attends to all of its past states (Kerg, section 4.4).

    Its recurrent matrix starts as rotations of pairs of units (Henaff et al. 2016). If `orthogonal`, it stays
    orthogonal, as in expRNN: with modReLU, which has no upper limit, a matrix that stretches lets states and gradients
    grow at every step, until training diverges.
    """
    return Attentive(_elman(input_size, hidden_size, nonlinearity, orthogonal), FullHistory(), **options)


def memlstm(
    input_size: int, hidden_size: int, forget_bias: float = 0.0, **options: Unpack[AttentionOptions]
) -> Attentive:
    """Return a MemLSTM: an LSTM that attends to all of its past outputs (Kerg, section 4.4).

    `forget_bias` is an option of `cells.LSTM`.
    """
    return Attentive(LSTM(input_size, hidden_size, forget_bias=forget_bias), FullHistory(), **options)


def relrnn(
    input_size: int,
    hidden_size: int,
    short_term: int = 10,
    relevant: int = 10,
    nonlinearity: str = "tanh",
    score: str = "published",
    orthogonal: bool = False,
    **options: Unpack[AttentionOptions],
) -> Attentive:
    """Return a RelRNN: an Elman network that attends to its newest and its most relevant states (Kerg et al. 2020).

    `short_term`, `relevant` and `score` are options of `memory.attention.RelevanceScreen`; the others are as for
    `memrnn`. The published sizes are 10 newest and 10 relevant states.
    """
    past = RelevanceScreen(short_term, relevant, score)
    return Attentive(_elman(input_size, hidden_size, nonlinearity, orthogonal), past, **options)


def rellstm(
    input_size: int,
    hidden_size: int,
    short_term: int = 10,
    relevant: int = 10,
    score: str = "published",
    forget_bias: float = 0.0,
    **options: Unpack[AttentionOptions],
) -> Attentive:
    """Return a RelLSTM: an LSTM that attends to its newest and its most relevant outputs (Kerg et al. 2020).

    Options are as for `relrnn` and `memlstm`.
    """
    past = RelevanceScreen(short_term, relevant, score)
    return Attentive(LSTM(input_size, hidden_size, forget_bias=forget_bias), past, **options)


def relgru(
    input_size: int,
    hidden_size: int,
    short_term: int = 10,
    relevant: int = 10,
    score: str = "published",
    scale: float = 0.5,
    **options: Unpack[AlignmentOptions],
) -> Attentive:
    """Return a RelGRU: a GRU that attends to its newest and its most relevant states (after Kerg et al. 2020).

    Options are as for `relrnn`. A GRU passes on the context it has read, so that with scale = 1 its state may grow
    without bound; with 0.5 it stays bounded.
    """
    past = RelevanceScreen(short_term, relevant, score)
    return Attentive(GRU(input_size, hidden_size), past, scale=scale, **options)


def sab(
    input_size: int,
    hidden_size: int,
    attend_every: int = 10,
    top_k: int = 5,
    truncate: int | None = 10,
    score: str = "additive",
    **options: Unpack[AlignmentOptions],
) -> Attentive:
    """Return an LSTM with sparse attentive backtracking (Ke et al. 2018).

    It stores one state in `attend_every` and attends to the `top_k` best of them. The gradient through the recurrence
    ends after `truncate` steps, so that only attention carries it further back. The output is twice as wide as the
    state. Options are those of `memory.attention.SparseBacktracking` and `Attentive`.
    """
    past = SparseBacktracking(attend_every, top_k, truncate, score)
    return Attentive(LSTM(input_size, hidden_size), past, **options)


def _elman(input_size: int, hidden_size: int, nonlinearity: str, orthogonal: bool) -> Elman:
    matrix = Exponential(hidden_size, init="henaff") if orthogonal else Dense(hidden_size, "henaff")
    return Elman(input_size, hidden_size, nonlinearity, matrix)
