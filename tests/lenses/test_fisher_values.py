"""Fisher memory of affine layers about their values: brute force, the dense route, and facts about families."""

import json
from math import log
from pathlib import Path

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.cells import AffineLayer, Block, Stack, affine_layers
from mnemoscope.cells.affine import LRU, RWKV7, AffineCell, DeltaNet, DeltaProduct, Parts
from mnemoscope.lenses.fisher.written_signals import signals_by_covariance, signals_by_factor
from tests.cells.test_affine_cells import CELLS
from tests.planted_affine import Planted
from tests.slow import representatives

STEPS, KEYS = 400, 16


class Given(AffineCell):
    """A delta rule, `S' = (I - k k^T / 2) S + k v^T`, whose inputs are its keys and values."""

    def __init__(self, keys, values):
        super().__init__(keys + values, values, heads=1, keys=keys)
        self.project, self.weight = nn.Identity(), nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def parts(self, features):
        k, v = features.unsqueeze(-2).split([self.keys, self.values], dim=-1)
        return Parts(k, k, v, torch.zeros_like(k[..., :1]), (-k / 2, k))


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def brute_force(layer, sequence, head, noise):
    """Return J by the covariance, formed step by step, and one product of operators for each write."""
    A = layer.transitions()[:, sequence, head].detach()
    A = A.to(torch.complex128)
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    C = torch.zeros_like(eye)
    for step in A:
        C = step @ C @ step.mH + noise * eye
    signals = []
    for time in range(len(A)):
        pieces = layer.at(time).each()
        for number, piece in enumerate(pieces):
            w = piece.keys[sequence, head].detach().to(A)
            for later in pieces[number + 1 :]:
                a, b = (part[sequence, head].detach() for part in later.erase)
                w = torch.exp(later.log_decays[sequence, head]).detach() * w + a * (b * w).sum()
            for step in A[time + 1 :]:
                w = step @ w
            signals.insert(0, w)
    W = torch.stack(signals)
    return (W.conj() @ torch.linalg.solve(C, W.mT)).real


@representatives("lru", "retnet", "mlstm", "kda", "rwkv7", "deltaproduct-gated", "mamba-negative")
@pytest.mark.parametrize("name", CELLS)
def test_the_memory_matrix_is_that_of_the_covariance(name):
    torch.manual_seed(1)
    cell, xs = CELLS[name]().double(), random(9, 2, 3)
    memory, layer = ms.fisher_memory(cell, along=xs, noise=0.3), affine_layers(cell, xs)[0]
    torch.testing.assert_close(memory.matrix[1, -1], brute_force(layer, 1, -1, 0.3), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(memory.total, memory.curve.sum(-1))
    assert (memory.total <= (1 + 1e-12) * memory.bound).all()
    assert memory.error < 1e-12
    assert memory.heads == cell.heads


@pytest.mark.parametrize("family", [RWKV7, DeltaProduct])
def test_rank_two_updates_of_the_covariance_agree_with_the_factor_advanced_by_itself(family):
    torch.manual_seed(0)
    layer = affine_layers(family(3, 24, heads=2).double(), random(200, 1, 3))[0].precise()
    fast, slow = signals_by_covariance(layer), signals_by_factor(layer)
    torch.testing.assert_close(fast.traces @ fast.traces.mT, slow.traces @ slow.traces.mT, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(fast.factor, slow.factor, rtol=1e-10, atol=1e-12)
    assert 0 < fast.error < 1e-12


def test_micro_steps_without_erasure_are_diagonal():
    """The decay acts before the first of the two writes of a token, so that both are whole at their token."""
    k = torch.eye(2, dtype=torch.float64).expand(1, 1, 2, 2).movedim(-2, 1)  # (tokens, micro, heads, keys)
    g = torch.tensor([log(0.5), 0.0], dtype=torch.float64)[None, :, None, None]
    cell = Planted(Parts(k[:, 0], k, torch.ones(1, 2, 1, 1).double(), g, None, None, 2))
    memory = ms.fisher_memory(cell, along=torch.zeros(3, 1, 1).double())
    noise = 1 + 0.25 + 0.25**2
    torch.testing.assert_close(
        memory.curve[0, 0] * noise,
        torch.tensor([1, 1, 1, 1, 1, 1]) * 0.25 ** torch.arange(3).double().repeat_interleave(2),
    )


def test_decays_that_rotate_have_the_memory_of_the_decays_alone():
    """A rotation of each key changes neither the noise nor the size of a write, with several micro-steps as well."""
    keys, rates = random(3, 1, 2, 1, 4), -random(3, 1, 2, 1, 4, seed=1).abs()
    values, start = torch.ones(3, 1, 2, 1, 1).double(), torch.zeros(1, 1, 4, 1).double()
    still = Parts(keys[:, :, 0], keys, values, rates, None, None, 2)
    turning = still._replace(log_decays=torch.complex(rates, random(*rates.shape, seed=2)))
    core, features = Planted(still), torch.zeros(3, 1, 1).double()
    found = ms.fisher_memory(AffineLayer("", core, features, turning, start.to(torch.complex128)))
    expected = ms.fisher_memory(AffineLayer("", core, features, still, start))
    torch.testing.assert_close(found.curve, expected.curve)
    torch.testing.assert_close(found.input_information, expected.input_information)
    by_covariance = signals_by_covariance(AffineLayer("", core, features, still, start))
    torch.testing.assert_close(expected.input_information, by_covariance.information)
    torch.testing.assert_close(expected.traces.square().sum(-1), by_covariance.traces.square().sum(-1))


def test_amplified_noise_is_kept_as_a_factor():
    """`A = I + k k^T / 2` amplifies one direction, and the other one is exact only in the factor."""
    k, other = torch.tensor([[0.6, 0.8], [0.8, -0.6]], dtype=torch.float64)
    steps = 24
    table = Parts(
        *(torch.stack([k, other])[:, None] for _ in range(2)),
        torch.ones(2, 1, 1).double(),
        torch.zeros(2, 1, 1).double(),
        (k.expand(2, 1, 2) / 2, k.expand(2, 1, 2)),
    )
    cell = Planted(table)
    xs = (torch.arange(steps) % 2).double()[:, None, None]
    assert signals_by_covariance(affine_layers(cell, xs)[0].precise()) is None
    memory = ms.fisher_memory(cell, along=xs)
    growth = 1.5 ** (2 * torch.arange(steps).double())  # of the noise and of a signal, the newest first
    expected = torch.where(xs.flip(0).flatten() == 0, growth / growth.sum(), 1 / steps)
    torch.testing.assert_close(memory.curve[0, 0], expected, rtol=1e-9, atol=0)


def test_the_dense_route_agrees_where_signals_enter_a_value():
    """Signals in one value reach one column; the linearised flat state has keys times values numbers."""
    cell, xs = Given(3, 2), random(12, 2, 5)
    dense = ms.fisher_memory(cell, 4, along=xs)
    exact = ms.fisher_memory(cell, along=xs)
    torch.testing.assert_close(exact.matrix[:, 0], dense.matrix, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(exact.input_information[:, 0], dense.input_information)


def test_complex_units_agree_with_the_dense_route():
    """A signal enters each unit by a complex number, whose square is a factor of the information of the unit."""
    torch.manual_seed(0)
    cell, xs = LRU(2, 2, state_size=3).double(), random(10, 2, 2)
    dense, exact = ms.fisher_memory(cell, 1, along=xs), ms.fisher_memory(cell, along=xs)
    unit = torch.tensor([0.0, 1.0]).double()
    strengths = cell.parts(cell.project(unit)).values.detach().abs().square()  # (units, 1)
    torch.testing.assert_close((exact.curve * strengths).sum(1), dense.curve, rtol=1e-10, atol=1e-12)


def test_values_do_not_matter():
    xs = random(12, 2, 5)
    other = torch.cat([xs[..., :3], 100 * xs[..., 3:]], -1)
    cell = Given(3, 2)
    torch.testing.assert_close(
        ms.fisher_memory(cell, along=xs).matrix, ms.fisher_memory(cell, along=other).matrix, rtol=0, atol=0
    )


def unit_keys(seed=0):
    keys = random(STEPS, 1, KEYS, seed=seed)
    return keys / keys.norm(dim=-1, keepdim=True)


def memory_of(log_decays, erase=None):
    """Return the memory of random unit keys, which are written without a factor."""
    k = unit_keys()
    g = log_decays + torch.zeros(STEPS, 1, 1).double()
    cell = Planted(Parts(k, k, torch.ones(STEPS, 1, 1).double(), g, erase))
    return ms.fisher_memory(cell, along=torch.arange(STEPS).double()[:, None, None], noise=0.1)


def test_normal_families_hold_one_write_and_delta_rules_more():
    """An erasure along the key removes noise too; but half of what is held is about the last writes."""
    k = unit_keys()
    totals, halves = {}, {}
    for name, memory in {
        "linear": memory_of(0.0),
        "decay": memory_of(log(0.99)),
        "decay by key": memory_of(-0.02 * torch.arange(KEYS).double() / KEYS),
        "beta = 1/2": memory_of(0.0, (-0.5 * k, k)),
        "beta = 1": memory_of(0.0, (-k, k)),
    }.items():
        totals[name] = round(0.1 * float(memory.total), 2)
        halves[name] = int((memory.curve[0, 0].cumsum(0) < float(memory.total) / 2).sum()) + 1
        torch.testing.assert_close(memory.remaining.sum(-1), 0.1 * memory.total)  # every write has the energy 1
        assert 0.1 * float(memory.bound) == pytest.approx(KEYS)
    assert totals["linear"] == totals["decay"] == 1
    # means over 24 draws of the keys, and three standard deviations
    assert totals["decay by key"] == pytest.approx(1.00, abs=0.04)
    assert totals["beta = 1/2"] == pytest.approx(1.71, abs=0.15)
    assert totals["beta = 1"] == pytest.approx(2.64, abs=0.37)
    assert halves["linear"] == 200
    assert halves["decay"] == 35
    assert halves["beta = 1"] <= 7


def test_sequences_of_other_lengths_and_gaps_have_the_memory_that_they_have_alone():
    cell, xs = Given(3, 2), random(8, 3, 5)
    mask = torch.ones(8, 3, dtype=torch.bool)
    mask[5:, 1] = mask[2, 2] = False
    memory = ms.fisher_memory(cell, along=xs, mask=mask)
    alone = ms.fisher_memory(cell, along=xs[:5, 1:2])
    torch.testing.assert_close(memory.curve[1, :, :5], alone.curve[0])
    torch.testing.assert_close(memory.total[1], alone.total[0])
    assert torch.isnan(memory.curve[1, :, 5:]).all()
    assert memory.lengths.tolist() == [8, 5, 7]
    assert "After 5 to 8 writes" in memory.summary()
    without = ms.fisher_memory(cell, along=torch.cat([xs[:2, 2:], xs[3:, 2:]]))
    torch.testing.assert_close(memory.curve[2, :, :7], without.curve[0])
    short = ms.fisher_memory(cell, along=xs, lags=3)
    assert short.curve.shape == (3, 1, 3)
    torch.testing.assert_close(short.total, ms.fisher_memory(cell, along=xs).total)
    figure = memory.figure()
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["k steps ago"] * 2


def test_one_of_several_layers_is_chosen_by_name_or_number(tmp_path):
    torch.manual_seed(0)
    model = ms.Model(Stack([Block(DeltaNet(3, 4, heads=2), width=3) for _ in range(2)]), 2).double()
    xs = random(7, 4, 3)
    second = ms.fisher_memory(model, along=xs, layer="layers.1")
    assert second.curve.shape == (4, 2, 7)
    for other in (
        ms.fisher_memory(model, along=xs, layer=-1),
        ms.fisher_memory(affine_layers(model, xs)[1]),
        ms.fisher_memory(affine_layers(model, xs)[1], lengths=[7] * 4),
    ):
        torch.testing.assert_close(other.traces, second.traces)
    text = second.summary()
    assert "After 7 writes, a column of 2 numbers" in text
    assert "95% over 4 sequences" in text
    assert "over" not in ms.fisher_memory(model, along=xs[:, :1], layer=1).summary().partition("; means")[0]
    second.save(tmp_path / "memory.safetensors")
    assert ms.FisherMemory.load(tmp_path / "memory.safetensors").summary() == text


def test_wrong_arguments_are_named():
    network = Stack([Block(DeltaNet(3, 4), width=3) for _ in range(2)]).double()
    xs, gru = random(7, 2, 3), nn.GRU(1, 4)
    with pytest.raises(ValueError, match=r"has 2 affine layers, 'layers\.0', 'layers\.1': pass layer="):
        ms.fisher_memory(network, along=xs)
    with pytest.raises(ValueError, match=r"no affine layer 'x'; the layers are 'layers\.0'"):
        ms.fisher_memory(network, along=xs, layer="x")
    with pytest.raises(ValueError, match="2 affine layers, numbered from 0, but layer is 2"):
        ms.fisher_memory(network, along=xs, layer=2)
    with pytest.raises(ValueError, match="omit layer or direction"):
        ms.fisher_memory(network, 0, along=xs, layer=0)
    with pytest.raises(ValueError, match="omit layer or direction"):
        ms.fisher_memory(gru, along=random(7, 2, 1), layer=0)
    with pytest.raises(ValueError, match="a layer belong to sequences"):
        ms.fisher_memory(torch.eye(2) / 2, torch.ones(2), layer=0)
    with pytest.raises(ValueError, match="variance of independent noise"):
        ms.fisher_memory(network, along=xs, layer=0, noise=torch.eye(4))
    with pytest.raises(ValueError, match="lags must be 1 to 7, but is 8"):
        ms.fisher_memory(network, along=xs, layer=0, lags=8)
    with pytest.raises(ValueError, match="at least one sequence, but the batch is empty"):
        ms.fisher_memory(network, along=xs[:, :0], layer=0)
    with pytest.raises(ValueError, match="An AffineLayer has its inputs"):
        ms.fisher_memory(affine_layers(network, xs)[0], along=xs)
    assert ms.fisher_memory(gru, along=random(7, 2, 1)).heads is None  # the only input feature, linearised


def test_stacks_without_affine_layers_are_linearised():
    network = Stack([ms.cells.GRU(1, 2), ms.cells.GRU(2, 2)]).double()
    assert ms.fisher_memory(network, along=random(4, 2, 1)).curve.shape == (2, 4)


def test_the_page_has_the_numbers_of_the_benchmark():
    root = Path(__file__).parents[2]
    page = " ".join((root / "docs" / "memory.md").read_text().split())
    measured = json.loads((root / "benchmarks" / "results" / "affine_memory.json").read_text())
    for row in measured["families"]:
        assert f"| {row['family']} | {row['mean']:.2f} ± {row['std']:.2f} | {row['half']:.0f} writes |" in page
    rows = {(row["keys"], row["tokens"]): row for row in measured["speed"]}
    both, alone = rows[16, 400], rows[64, 400]
    assert f"takes {both['exact_s']:.2f} instead of {both['linearised_s']:.2f} s for 16 keys and 16 values" in page
    assert f"over 400 tokens, and {alone['exact_s']:.2f} s for 64 keys" in page
    assert all(row["difference"] is None or row["difference"] < 1e-13 for row in measured["speed"])
    layers = json.loads((root / "benchmarks" / "results" / "transitions.json").read_text())["rows"]
    (kda,) = (row for row in layers if row["family"] == "kda")
    assert f"takes {kda['fisher_s']:.1f} s over 2,048 tokens" in page
    assert f"{kda['factor_s']:.1f} s for the same layer" in page
    assert all(row["difference"] is None or row["difference"] < 1e-10 for row in layers)
