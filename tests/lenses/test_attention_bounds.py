"""The box of a screened network: no trajectory leaves it."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen, SparseBacktracking
from tests.slow import representatives

LOW, HIGH = torch.tensor([-2.0, 0.0, 1.0]).double(), torch.tensor([1.0, 3.0, 1.5]).double()
CELLS = {
    "tanh": lambda: Elman(3, 4, "tanh"),
    "logistic": lambda: Elman(3, 4, "logistic"),
    "lstm": lambda: LSTM(3, 4),
    "projected lstm": lambda: LSTM(3, 5, projection_size=4),
    "gru": lambda: GRU(3, 4),
}
OPTIONS = {
    "sum": {"scale": 1.0},
    "negative": {"scale": -0.7},
    "half": {"scale": 0.5},
    "concatenated": {"combine": "concatenate"},
    "heads": {"heads": 2, "alignment": "dot"},
}


def made(kind, score="published", **options):
    torch.manual_seed(3)
    cell = Attentive(CELLS[kind](), RelevanceScreen(2, 3, score), **options).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.mul_(3)  # large weights, so that states come near the box
    if cell.mix is not None:
        torch.nn.init.normal_(cell.mix.weight)
    return cell


@representatives("tanh-sum-published", "gru-concatenated-published")
@pytest.mark.parametrize(
    ("option", "score"),
    [
        *((option, "published") for option in OPTIONS),
        *(("half", score) for score in ("normalised", "surprise", "learned")),
    ],
)
@pytest.mark.parametrize("kind", CELLS)
@torch.no_grad()
def test_no_trajectory_leaves_the_box(option, kind, score):
    cell = made(kind, score, **OPTIONS[option])
    box = cell.bounds(LOW, HIGH)
    if kind == "gru" and option != "half":
        assert box is None  # it may double what it read at every step
        return
    low, high = box
    layout = ms.cells.Layout(cell.initial_state(1))
    assert low.shape == high.shape == (layout.size,)
    generator = torch.Generator().manual_seed(4)
    inside, corners = (torch.rand(100, layout.size, dtype=torch.float64, generator=generator) for _ in range(2))
    begin = layout.flatten(cell.initial_state(100))
    slack = 1e-12 * (1 + high - low)
    for state in (begin, low + (high - low) * inside, torch.where(corners < 0.5, low, high)):
        for step in range(8):
            assert (state >= low - slack).all()
            assert (state <= high + slack).all()
            at = torch.rand(100, 3, dtype=torch.float64, generator=generator)
            x = LOW + (HIGH - LOW) * (at if step % 2 else at.round())
            state = layout.flatten(cell(x, layout.unflatten(state)))


def test_the_box_of_a_tanh_network_matches_a_hand_calculation():
    cell = made("tanh")
    low, high = cell.bounds(LOW, HIGH)
    keys = cell.alignment.key.weight.abs().sum(1)
    row = torch.cat([torch.ones(4).double(), keys])
    score, filled = torch.tensor([2.0, 1.0, 2.0, 2.0, 2.0]).double(), torch.ones(5).double()
    expected = torch.cat([torch.ones(4).double(), 2 * torch.ones(4).double(), row.repeat(5), score, filled])
    assert torch.allclose(high, expected, rtol=1e-14)
    least = torch.tensor(
        [0.0, 0.0, -0.1, -0.2, -0.3], dtype=torch.float64
    )  # a larger box, which no two scores need to share
    assert torch.allclose(low, torch.cat([-expected[:-10], least, torch.zeros(5).double()]), rtol=1e-14)


def test_the_box_of_an_lstm_uses_the_forget_gate_at_its_reads():
    """|c| <= 1 / (1 - f), with the forget gate at |s| = 2 in place of |h| = 1."""
    cell = made("lstm")
    lstm, x = cell.cell, (LOW, HIGH)
    W_x, W_s, b = (part.chunk(4)[1] for part in (lstm.weight_ih, lstm.weight_hh, lstm.bias_ih + lstm.bias_hh))
    corners = torch.stack([torch.where(W_x[unit] > 0, x[1], x[0]) for unit in range(4)])
    forget = torch.sigmoid((W_x * corners).sum(1) + b + 2 * W_s.abs().sum(1))
    assert torch.allclose(cell.bounds(LOW, HIGH)[1][4:8], 1 / (1 - forget), rtol=1e-9)


def test_there_is_no_box_where_states_may_grow():
    for cell in (Elman(3, 4, "relu"), Elman(3, 4, "modrelu")):
        assert Attentive(cell, RelevanceScreen(2, 2)).bounds(LOW.float(), HIGH.float()) is None
    for past in (FullHistory(), SparseBacktracking()):
        assert Attentive(Elman(3, 4, "tanh"), past).bounds(LOW.float(), HIGH.float()) is None


def test_the_search_uses_the_box():
    dynamics = ms.Dynamics(made("lstm"))
    assert dynamics.invariant
    assert dynamics.inside(dynamics.origin).all()
