"""The attentive networks of the literature, by their names and with their published sizes (Kerg, chapter 4)."""

from __future__ import annotations

from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.connectivity import Dense
from mnemoscope.memory.attention.attentive import Attentive
from mnemoscope.memory.attention.backtracking import SparseBacktracking
from mnemoscope.memory.attention.past import FullHistory, RelevanceScreen


def memrnn(input_size: int, hidden_size: int, nonlinearity: str = "tanh", alignment: str = "additive", heads: int = 1,
           scale: float = 1.0) -> Attentive:  # fmt: skip
    """An Elman network that attends to all of its states; its matrix starts as rotations (Henaff et al. 2016)."""
    cell = _orthogonal(input_size, hidden_size, nonlinearity)
    return Attentive(cell, FullHistory(), alignment=alignment, heads=heads, scale=scale)


def memlstm(input_size: int, hidden_size: int, alignment: str = "additive", heads: int = 1, scale: float = 1.0,
            forget_bias: float = 0.0) -> Attentive:  # fmt: skip
    """An LSTM that attends to all of its outputs."""
    cell = LSTM(input_size, hidden_size, forget_bias=forget_bias)
    return Attentive(cell, FullHistory(), alignment=alignment, heads=heads, scale=scale)


def relrnn(input_size: int, hidden_size: int, short_term: int = 10, relevant: int = 10, nonlinearity: str = "tanh",
           score: str = "published", alignment: str = "additive", heads: int = 1,
           scale: float = 1.0) -> Attentive:  # fmt: skip
    """An Elman network that attends to its newest and its relevant states."""
    past = RelevanceScreen(short_term, relevant, score)
    cell = _orthogonal(input_size, hidden_size, nonlinearity)
    return Attentive(cell, past, alignment=alignment, heads=heads, scale=scale)


def rellstm(input_size: int, hidden_size: int, short_term: int = 10, relevant: int = 10, score: str = "published",
            alignment: str = "additive", heads: int = 1, scale: float = 1.0,
            forget_bias: float = 0.0) -> Attentive:  # fmt: skip
    """An LSTM that attends to its newest and its relevant outputs."""
    past = RelevanceScreen(short_term, relevant, score)
    cell = LSTM(input_size, hidden_size, forget_bias=forget_bias)
    return Attentive(cell, past, alignment=alignment, heads=heads, scale=scale)


def relgru(input_size: int, hidden_size: int, short_term: int = 10, relevant: int = 10, score: str = "published",
           alignment: str = "additive", heads: int = 1, scale: float = 0.5) -> Attentive:  # fmt: skip
    """A GRU that attends to its newest and its relevant states; with scale = 0.5, as a GRU passes on what it read, and
    with 1 its state may grow without end.
    """
    past = RelevanceScreen(short_term, relevant, score)
    return Attentive(GRU(input_size, hidden_size), past, alignment=alignment, heads=heads, scale=scale)


def sab(input_size: int, hidden_size: int, attend_every: int = 10, top_k: int = 5, truncate: int | None = 10,
        score: str = "additive", alignment: str = "additive", heads: int = 1) -> Attentive:  # fmt: skip
    """Sparse attentive backtracking: an LSTM that stores one state in `attend_every`, attends to `top_k` of them, and
    learns over long times through attention alone (Ke et al. 2018). Its output is twice as wide as its state.
    """
    past = SparseBacktracking(attend_every, top_k, truncate, score)
    return Attentive(LSTM(input_size, hidden_size), past, alignment=alignment, heads=heads)


def _orthogonal(input_size: int, hidden_size: int, nonlinearity: str) -> Elman:
    return Elman(input_size, hidden_size, nonlinearity, Dense(hidden_size, "henaff"))
