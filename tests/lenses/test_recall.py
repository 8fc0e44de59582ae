"""The lenses on episodic memories: recall, classes of fixed points, load, basins, and the overlap they share."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import EpisodicMemory
from mnemoscope.cells.lagrangians import LAGRANGIANS, Logistic, Polynomial, Softmax, Tanh
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.recall.classes import MemoryClass, duals
from mnemoscope.lenses.recall.lens import successors
from mnemoscope.lenses.recall.overlap import overlap_with, read_features
from mnemoscope.lenses.variables.angles import angle_error
from mnemoscope.lenses.variables.theory import BindingNetwork
from tests.cells.test_episodic import FLOAT64_ROUNDING, drawn, hadamard, some_memory
from tests.slow import SLOW


def cycle(memories, gain=1.2, features=64, scale=1.0):
    Xi = hadamard(features)[:, 1 : memories + 1] / sqrt(features)
    return EpisodicMemory(scale * Xi, gain * torch.eye(memories).double().roll(1, 1), Tanh(2.0))


def test_recall_follows_the_cycle_and_equals_a_plain_loop():
    memory = cycle(5).requires_grad_(False)
    found = ms.measure_recall(memory, 2, periods=7, k=20)
    assert found.sequence[:, 0].tolist() == [3, 4, 0, 1, 2, 3, 4]
    assert found.exact.all()
    assert found.margin.min() > 0.9
    x = memory.Xi[:, 2] * 8
    y = torch.tanh(2 * x)
    for step in range(1, 141):
        g = torch.tanh(2 * x)
        x = memory.Xi @ (memory.Xi.T @ g + memory.Phi.T @ memory.Xi.T @ y)
        torch.testing.assert_close(found.states[step, 0], x, rtol=0, atol=1e-10)  # 140 steps of rounding
        if step % 20 == 0:
            y = torch.tanh(2 * x)
    rates = torch.tanh(2 * found.states)
    cosine = torch.nn.functional.cosine_similarity(rates.unsqueeze(-1), memory.Xi, dim=2)
    torch.testing.assert_close(found.overlaps, cosine, rtol=0, atol=FLOAT64_ROUNDING)


def test_one_inner_step_is_the_discrete_map():
    memory = some_memory("softmax", "tanh").requires_grad_(False)
    start = drawn(4, 5, seed=2)
    found, cell, V_f = ms.measure_recall(memory, start, periods=6, k=1), memory.discrete(), start
    for t in range(1, 7):
        V_f = cell(torch.zeros(4, 5).double(), V_f)
        torch.testing.assert_close(found.states[t], V_f, rtol=0, atol=FLOAT64_ROUNDING)


def test_signs_and_ends_of_chains_are_followed():
    memory = cycle(4)
    chain = torch.zeros(4, 4).double()
    chain[0, 2], chain[2, 1] = 1.5, -1.5  # 0 calls for 2, 2 for -1, which calls for nothing
    memory = EpisodicMemory(memory.Xi.detach(), chain, Tanh(2.0))
    found = ms.measure_recall(memory, 0, periods=4)
    assert found.sequence[:, 0].tolist() == [2, 1, 1, 1]
    assert found.overlap.sign()[:, 0].tolist() == [1, -1, -1, -1]
    assert found.exact.all()
    reversed_start = ms.measure_recall(memory, -8 * memory.Xi.detach()[:, :1].T, periods=2)
    assert reversed_start.overlap.sign()[:, 0].tolist() == [-1, 1]
    assert reversed_start.exact.all()
    assert successors(EpisodicMemory(memory.Xi.detach(), chain, alpha_c=-1.0))[1].tolist() == [-1, 1, 1, 1]


def test_phi_that_calls_for_several_memories_predicts_no_sequence(tmp_path):
    memory = some_memory()
    assert successors(memory) is None
    found = ms.measure_recall(memory, 0, periods=2, k=3)
    with pytest.raises(ValueError, match="several memories"):
        _ = found.exact
    assert "predicts no sequence" in found.summary()
    found.save(tmp_path / "recall.safetensors")
    again = ms.lenses.Recall.load(tmp_path / "recall.safetensors")
    assert torch.equal(again.states, found.states)
    assert again.expected is None
    assert len(found.figure().axes) == 3


def test_the_summary_reports_mixed_recall():
    found = ms.measure_recall(cycle(5, gain=1.0), 0, periods=20, k=1)
    assert not found.exact.all()
    assert found.margin.min() < 0.1
    assert "0 of 1 starts in every period" in found.summary()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"periods": 0}, "periods must be"),
        ({"k": True}, "k must be"),
        ({"start": 5}, "There are 5 memories"),
        ({"start": -1}, "There are 5 memories"),
        ({"start": torch.zeros(2, 3)}, r"shape \(batch, 64\)"),
        ({"start": torch.full((1, 64), inf)}, "finite"),
        ({"threshold": 1.0}, "threshold"),
    ],
)
def test_wrong_arguments_of_recall_raise(change, message):
    with pytest.raises(ValueError, match=message):
        ms.measure_recall(**{"memory": cycle(5), "start": 0, "periods": 2, **change})


def test_stored_reversed_and_mixed_memories_are_classified(tmp_path):
    """Three orthogonal memories: 3 stored, 3 reversed, 8 mixtures of all three, and nothing else is stable."""
    memory = EpisodicMemory(hadamard(16)[:, 1:4] / 4, None, Tanh(3.0))
    for cell, conjugate in ((memory.discrete(), False), (memory.conjugate(), True)):
        fp = ms.find_fixed_points(ms.Dynamics(cell))
        points = ms.classify_memories(memory, fp, conjugate=conjugate)
        count = [int((points.classes == kind).sum()) for kind in MemoryClass]
        assert count == [3, 3, 8, 0, 0, len(fp) - 14]
        mixtures = {name for name in points.names if name.startswith("mixture")}
        assert mixtures == {f"mixture of {a}0 {b}1 {c}2" for a in "+-" for b in "+-" for c in "+-"}
        assert points.lost == []
        assert (torch.isinf(points.dwell) == (fp.unstable == 0)).all()
        silent = fp.states.norm(dim=1).argmin()
        assert points.names[silent] == "unstable"  # a silent state overlaps with nothing
    points.save(tmp_path / "classes.safetensors")
    again = ms.lenses.MemoryClasses.load(tmp_path / "classes.safetensors")
    assert again.names == points.names
    assert "3 stored, 3 reversed, 8 mixture" in again.summary()
    assert points.figure().axes


def test_the_flow_and_the_map_agree_on_what_is_stored():
    memory = EpisodicMemory(hadamard(8)[:, 1:3] / 2, None)
    fp = ms.find_fixed_points(ms.Dynamics(memory, continuous=True), seed=1)
    points = ms.classify_memories(memory, fp)
    assert {name for name, kind in zip(points.names, points.classes.tolist(), strict=True) if kind < 4} == {
        "stored 0",
        "stored 1",
        "reversed 0",
        "reversed 1",
    }


def test_metastable_states_hold_as_long_as_their_eigenvalue_says():
    """With a gain just above 1, the dwell time of the silent state follows from the largest eigenvalue of W."""
    memory = EpisodicMemory(sqrt(1.02) * hadamard(8)[:, 1:2] / sqrt(8))
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    points = ms.classify_memories(memory, fp)
    silent = int(fp.states.norm(dim=1).argmin())
    assert points.classes[silent] == MemoryClass.METASTABLE
    assert points.dwell[silent].item() == pytest.approx(1 / torch.log(torch.tensor(1.02)).item(), rel=1e-6)
    start = fp.states[silent] + 1e-6 * memory.Xi.detach()[:, 0]
    states = ms.measure_recall(memory, start.unsqueeze(0), periods=200, k=1).states[:, 0]
    away = (states - fp.states[silent]).norm(dim=1)
    grown = int((away > torch.e * away[0]).nonzero()[0])
    assert abs(grown - points.dwell[silent]) <= 1
    assert ms.classify_memories(memory, fp, lasting=60.0).classes[silent] == MemoryClass.UNSTABLE


def test_slow_points_are_metastable():
    """Just below a saddle-node bifurcation, trajectories pass a ghost slowly."""
    memory = EpisodicMemory(torch.tensor([[sqrt(2.0)]]).double())
    r = sqrt(1 - 1 / 2.0)
    fold = (
        torch.atanh(torch.tensor(r)).item() - 2 * r
    )  # input at which V = 2 tanh(V) + x has a double root at V = atanh r
    fp = ms.find_fixed_points(
        ms.Dynamics(memory.discrete(), torch.tensor([-fold + 1e-4])), torch.linspace(-3, 3, 40).double().unsqueeze(1)
    )
    assert fp.slow is not None
    assert len(fp.slow)
    points = ms.classify_memories(memory, fp)
    assert points.slow.sum() == len(fp.slow)
    assert (points.classes[points.slow] == MemoryClass.METASTABLE).all()
    assert torch.isfinite(points.dwell[points.slow]).all()


def test_duals_exist_for_independent_memories_only():
    memory = some_memory()
    torch.testing.assert_close(duals(memory) @ memory.Xi.detach(), torch.eye(3).double(), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="6 memories of 4 features"):
        duals(EpisodicMemory(drawn(4, 6)))
    doubled = drawn(6, 2)[:, [0, 1, 0]]
    with pytest.raises(ValueError, match="their rank is 2"):
        duals(EpisodicMemory(doubled))
    crowded = EpisodicMemory(hadamard(4)[:, [1, 2, 3, 1]], None, Tanh(3.0))  # dependent, with mixtures
    fp = ms.find_fixed_points(ms.Dynamics(crowded.discrete()))
    single = ms.classify_memories(crowded, fp, threshold=0.01)
    assert torch.isnan(single.components).all()
    with pytest.raises(ValueError, match="duals"):
        single.members(0)


def test_wrong_arguments_of_classify_raise():
    memory = EpisodicMemory(hadamard(8)[:, 1:3] / 2)
    fp = ms.find_fixed_points(ms.Dynamics(memory.discrete()))
    with pytest.raises(ValueError, match="have 8 numbers"):
        ms.classify_memories(some_memory(), fp)
    with pytest.raises(ValueError, match="lasting positive"):
        ms.classify_memories(memory, fp, lasting=-1.0)


def hopfield(features, number, corruption, tried, generator):
    """Return the shares of stable and recalled patterns, by signs, one pattern at a time, including the diagonal."""
    P = generator.choice([-1.0, 1.0], (features, number))
    shares = []
    for flips in (0, round(corruption * features)):
        right = 0
        for pattern in P.T[:tried]:
            s = pattern.copy()
            s[generator.choice(features, flips, replace=False)] *= -1
            for _ in range(100):
                s = np.sign(P @ (P.T @ s))
            right += s @ pattern / features > 0.95
        shares.append(right / min(number, tried))
    return shares


@SLOW
def test_linear_memories_are_hopfield_networks():
    """Compare the shares with those of independently drawn Hopfield networks, within the standard error."""
    numbers, seeds, generator = [4, 12, 16, 20, 30], 12, np.random.default_rng(7)
    load = ms.measure_load(81, numbers, seeds=seeds, tried=20)  # odd, so that no sum is 0
    shares = [[hopfield(81, number, 0.1, 20, generator) for _ in range(seeds)] for number in numbers]
    references = torch.tensor(np.array(shares)).unbind(2)
    for quantity, reference in zip(("stable", "recalled"), references, strict=True):
        chance = (load.error(quantity).square() + reference.var(1) / seeds).sqrt()
        assert ((load.mean(quantity) - reference.mean(1)).abs() <= 4 * chance + 1e-9).all()
        assert chance.max() < 0.1  # small enough to detect a difference
    assert load.mean()[0] == 1
    assert load.capacity is not None
    assert 0.14 < load.capacity / 81 < 0.35  # above Hopfield's 0.14, because of the diagonal


def test_dense_memories_hold_far_more(tmp_path):
    numbers = [10, 60, 240]
    shares = {
        sigma.name: ms.measure_load(41, numbers, sigma, seeds=2, tried=20).mean().tolist()
        for sigma in (Tanh(1e-6), Polynomial(3.0), Softmax(1.0))
    }
    assert shares["softmax"] == [1, 1, 1]
    assert shares["polynomial"][1] > 0.9
    assert shares["tanh"][1] < 0.1  # practically linear
    load = ms.measure_load(20, [1, 40], seeds=2)
    load.save(tmp_path / "load.safetensors")
    assert ms.lenses.Load.load(tmp_path / "load.safetensors").summary() == load.summary()
    assert load.figure().axes


def test_many_memories_hold_any_state_in_place():
    load = ms.measure_load(60, [60, 3000], seeds=2, tried=20)
    assert load.mean("stable")[1] > 0.9 > load.mean("stable")[0]
    assert load.mean("recalled")[1] == 0


def test_basins_shrink_with_corruption_and_have_wilson_intervals(tmp_path):
    memory = EpisodicMemory(hadamard(64)[:, 1:4])
    found = ms.measure_recall_basin(memory, 1, [0.0, 0.25, 0.5, 1.0], trials=100, seed=3)
    assert found.share[0] == 1
    assert found.share[3] == 0  # reversed
    assert found.share[1] > 0.9 > found.share[2]
    low, high = found.interval
    assert (low <= found.share).all()
    assert (found.share <= high).all()
    assert high[3] == pytest.approx(1.96**2 / (100 + 1.96**2), rel=1e-3)  # Wilson's interval for 0 of 100
    assert 0.25 < found.radius < 0.5
    assert torch.equal(
        found.returned, ms.measure_recall_basin(memory, 1, [0.0, 0.25, 0.5, 1.0], trials=100, seed=3).returned
    )
    found.save(tmp_path / "basin.safetensors")
    assert ms.lenses.RecallBasin.load(tmp_path / "basin.safetensors").summary() == found.summary()
    assert found.figure().axes


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ms.measure_load(0, [1]), "features must be"),
        (lambda: ms.measure_load(9, []), "memories must be"),
        (lambda: ms.measure_load(9, [3, 2]), "that rise"),
        (lambda: ms.measure_load(9, [1], corruption=1.5), "between 0 and 1"),
        (lambda: ms.measure_load(9, [1], seeds=0), "seeds must be"),
        (lambda: ms.measure_recall_basin(cycle(3), 7, [0.1]), "There are 3 memories"),
        (lambda: ms.measure_recall_basin(cycle(3), 0, [0.2, 0.1]), "that rise"),
        (lambda: ms.measure_recall_basin(cycle(3), 0, [0.1], 0), "trials must be"),
        (lambda: ms.measure_recall_basin(cycle(3), 0, [0.1], threshold=2.0), "threshold"),
        (lambda: ms.measure_load(9, [1]).mean("nonsense"), "quantity must be"),
        (lambda: ms.measure_recall_basin(EpisodicMemory(torch.zeros(4, 2)), 0, [0.1]), "is empty"),
    ],
)
def test_wrong_arguments_of_load_and_basin_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call()


BALANCED = hadamard(16)[:, 1:4]
EVERY = [*LAGRANGIANS, Tanh(3.0), Softmax(4.0), Polynomial(1.5), Logistic(0.5)]


@pytest.mark.parametrize("sigma", EVERY, ids=str)
def test_a_scaled_pattern_has_overlap_plus_or_minus_one(sigma):
    """This holds for every nonlinearity, every size of V_f, and unbalanced patterns too."""
    for patterns in (BALANCED, 2 * (drawn(15, 3) > 0.3).double() - 1):
        memory = EpisodicMemory(patterns, None, sigma).requires_grad_(False)
        V_f = torch.cat([size * patterns.T for size in (1e-3, 1.0, 5.0, -0.1, -3.0)])
        found = overlap_with(memory, read_features(memory, V_f)).reshape(5, 3, 3).diagonal(dim1=1, dim2=2)
        expected = torch.tensor([1.0, 1, 1, -1, -1]).double().unsqueeze(1).expand(5, 3)
        torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT64_ROUNDING)
        assert (overlap_with(memory, read_features(memory, 0 * V_f)) == 0).all()  # a silent state overlaps with nothing


@pytest.mark.parametrize("sigma", ["tanh", "linear", "polynomial"])
def test_the_overlap_of_odd_nonlinearities_is_that_of_their_rates(sigma):
    memory, V_f = some_memory(sigma).requires_grad_(False), drawn(6, 5, seed=2)
    by_hand = torch.nn.functional.cosine_similarity(memory.sigma_f(V_f).unsqueeze(2), memory.Xi, dim=1)
    torch.testing.assert_close(overlap_with(memory, read_features(memory, V_f)), by_hand, rtol=0, atol=FLOAT64_ROUNDING)


def test_the_overlap_of_softmax_ignores_a_common_shift():
    """Subtracting the mean of a memory changes nothing, and a constant memory overlaps with nothing."""
    Xi = torch.eye(8, 3).double()
    memory, shifted = (EpisodicMemory(columns, None, Softmax(20.0)).requires_grad_(False) for columns in (Xi, Xi + 0.1))
    V_f = drawn(4, 8, seed=2)
    overlaps = overlap_with(memory, read_features(memory, V_f))
    torch.testing.assert_close(overlap_with(shifted, read_features(shifted, V_f + 3)), overlaps, rtol=0, atol=1e-10)
    chosen = overlap_with(memory, read_features(memory, 5 * Xi.T))
    assert torch.allclose(chosen.diagonal(), torch.ones(3).double(), atol=1e-12)  # a single feature is active
    constant = EpisodicMemory(torch.full((7, 1), 0.1).double(), None, "softmax")
    assert (overlap_with(constant, drawn(3, 7)) == 0).all()
    alike = EpisodicMemory(torch.eye(4).double(), None, "softmax")
    with pytest.raises(ValueError, match="without their means"):
        duals(alike)


@pytest.mark.parametrize(
    ("Xi", "sigma_f", "sigma_h", "labels"),
    [
        (BALANCED, "logistic", "linear", ("stored", "reversed")),
        (BALANCED, "relu", "softmax", ("stored",)),  # softmax memories have no reversed states
        (2 * torch.eye(8, 3).double(), Softmax(4.0), "linear", ("stored",)),  # one feature each
    ],
)
def test_features_with_rates_above_zero_store_memories(Xi, sigma_f, sigma_h, labels):
    memory = EpisodicMemory(Xi, None, sigma_f, sigma_h).requires_grad_(False)
    for cell in (memory.discrete(), memory.conjugate())[: 1 if sigma_f == "relu" else 2]:
        fp = ms.find_fixed_points(ms.Dynamics(cell))
        points = ms.classify_memories(memory, fp, conjugate=cell.conjugate)
        held = points.classes <= MemoryClass.REVERSED
        names = [name for name, at_memory in zip(points.names, held.tolist(), strict=True) if at_memory]
        assert sorted(names) == sorted(f"{label} {memory_index}" for label in labels for memory_index in range(3))
        assert points.lost == []
        V_f = memory.feature_drive(memory.memory_drive(*2 * [fp.states])) if cell.conjugate else fp.states
        for point in held.nonzero()[:, 0].tolist():
            signs = Xi[:, points.nearest[point]] * (1 - 2 * points.classes[point])
            largest = V_f[point].abs().max()
            assert torch.equal((V_f[point] / largest).round(), signs.sign())


def test_logistic_features_recall_a_sequence_exactly():
    Phi = torch.eye(3).double().roll(1, 1)
    found = ms.measure_recall(EpisodicMemory(BALANCED, 1.2 * Phi, "logistic"), 0, periods=6)
    assert found.sequence[:, 0].tolist() == [1, 2, 0, 1, 2, 0]
    assert found.exact.all()
    assert ms.measure_recall_basin(
        EpisodicMemory(BALANCED, None, "logistic"), 1, [0.0, 0.1], trials=20
    ).share.tolist() == [
        1,
        1,
    ]


@pytest.mark.parametrize("sigma_f", ["tanh", "logistic", "relu", "linear", Softmax(8.0)])
def test_one_pattern_is_held_with_every_nonlinearity(sigma_f):
    load = ms.measure_load(100, [1], sigma_f=sigma_f, seeds=4)
    assert load.mean("stable") == load.mean("recalled") == 1


def test_states_without_an_overlap_raise():
    with pytest.raises(ValueError, match=r"grown to infinity.*polynomial"):
        ms.measure_load(100, [1], sigma_f="polynomial")
    with pytest.raises(ValueError, match="grown to infinity"):
        ms.measure_recall(EpisodicMemory(100 * BALANCED, None, "linear"), 0, periods=100, k=2)
    memory = EpisodicMemory(BALANCED, None, "relu", "tanh")
    fp = ms.find_fixed_points(ms.Dynamics(memory.conjugate()))
    with pytest.raises(ValueError, match=r"fixed points of memory\.discrete"):
        ms.classify_memories(memory, fp, conjugate=True)


def test_the_overlap_does_not_depend_on_scale():
    memory, V_f = some_memory("linear"), drawn(3, 5, seed=2)
    torch.testing.assert_close(overlap_with(memory, 1e200 * V_f), overlap_with(memory, V_f), rtol=0, atol=1e-12)


def test_the_summary_of_classes_reports_missing_points(tmp_path):
    memory = EpisodicMemory(1.5 / 4 * BALANCED)
    dynamics = ms.Dynamics(memory.discrete())
    whole = ms.find_fixed_points(dynamics, seed=1)
    assert whole.index_sum == 1
    assert "no sign of a missing point, though no proof" in ms.classify_memories(memory, whole).summary()
    stable = (whole.unstable == 0).nonzero()[0, 0]
    rest = [point for point in range(len(whole)) if point != int(stable)]
    parts = {name: getattr(whole, name)[rest] for name in ("states", "q", "jacobians", "reached")}
    fewer = replace(whole, **parts, regular=None, signs=None)
    points = ms.classify_memories(memory, fewer)
    assert "The index sum is 0 and must be 1: at least 1 point" in points.summary()
    points.save(tmp_path / "classes.safetensors")
    assert ms.lenses.MemoryClasses.load(tmp_path / "classes.safetensors").summary() == points.summary()


def test_a_load_stores_the_rounded_corruption():
    load = ms.measure_load(4, [1], corruption=0.1, seeds=1)
    assert load.corruption == 0  # a tenth of 4 features rounds to none
    assert ms.measure_load(10, [1], corruption=0.26, seeds=1).corruption == 0.3
    (axes,) = ms.measure_load(4, [1, 64], corruption=0.1, seeds=2).figure().axes
    assert "recalled, 0% of signs flipped" in axes.get_legend_handles_labels()[1]


def test_numbers_of_a_wrong_type_raise():
    with pytest.raises(ValueError, match=r"floating-point.*torch\.int64"):
        EpisodicMemory(torch.ones(4, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"Phi must be real.*complex64"):
        EpisodicMemory(torch.eye(4, 2), torch.eye(2) * 1j)
    for drive in (inf, torch.nan):
        with pytest.raises(ValueError, match=r"drive.* must be finite"):
            BindingNetwork(SignedSelection.repeat_copy(2, 2)).saturating(drive=drive)
    real = torch.tensor([1.0, -0.95])
    error = angle_error(real, torch.tensor([1, -1, 1j]))
    assert (error.mean, error.matched, error.missing) == (0, 2, 1)
    with pytest.raises(ValueError, match="finite eigenvalues"):
        angle_error(torch.tensor([inf]), real)
