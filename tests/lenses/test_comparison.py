"""The comparison lens against slow references and planted systems."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import expm

import mnemoscope as ms
from mnemoscope.lenses.comparison.alignment import align_operators, cosine_bound
from mnemoscope.lenses.comparison.delays import delay_products, embed_delays
from mnemoscope.lenses.comparison.geometry import centred, cka_cosine, procrustes_cosine
from mnemoscope.lenses.comparison.grouping import scale_to_plane, silhouettes
from mnemoscope.lenses.comparison.input_operators import fit_input_operators
from mnemoscope.lenses.comparison.operators import fit_operators, principal_embeddings
from mnemoscope.lenses.comparison.planted import DYNAMICS, planted_activity
from mnemoscope.lenses.comparison.surrogates import draw_surrogate
from mnemoscope.lenses.comparison.topology import Point, _exchanged, _redrawn, portrait_distance
from tests.slow import representatives


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size, seed=0):
    return torch.linalg.qr(normal(size, size, seed=seed))[0]


# --- alignment of operators -----------------------------------------------------------------------------------------


def test_conjugate_operators_are_aligned_exactly():
    A, Q = normal(6, 5, 5), torch.stack([rotation(5, seed) for seed in range(6)])
    found = align_operators(A, Q @ A @ Q.mT)
    assert torch.allclose(found.cosine, torch.ones(6, dtype=torch.float64), atol=1e-9)
    C = found.rotation
    assert torch.allclose(C @ C.mT, torch.eye(5, dtype=torch.float64).expand_as(C), atol=1e-9)
    assert torch.allclose(C @ Q @ A @ Q.mT @ C.mT, A, atol=1e-4)


def test_operators_of_two_units_are_aligned_as_well_as_by_a_search_over_all_angles():
    A, B = normal(4, 2, 2), normal(4, 2, 2, seed=1)
    found = align_operators(A, B)
    angle = torch.linspace(0, 2 * math.pi, 2001).double()
    turns = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).reshape(-1, 2, 2)
    C = torch.cat([turns, turns * torch.tensor([1.0, -1.0])])
    for a, b, cosine in zip(A, B, found.cosine, strict=True):
        best = float((a * (C @ b @ C.mT)).sum((1, 2)).max() / (a.norm() * b.norm()))
        assert float(cosine) == pytest.approx(best, abs=1e-5)
        assert float(cosine) >= best - 1e-9


def test_the_optimum_is_stationary_and_below_the_bound():
    A, B = normal(5, 4, 4), normal(5, 4, 4, seed=1)
    found = align_operators(A, B, starts=4)
    assert float(found.residual.max()) < 1e-6
    assert (found.cosine <= found.bound + 1e-9).all()
    a, M = A[0] / A[0].norm(), found.rotation[0] @ B[0] @ found.rotation[0].T / B[0].norm()
    for seed in range(4):  # no small rotation improves it
        skew = normal(4, 4, seed=seed)
        turn = torch.from_numpy(expm(1e-3 * (skew - skew.T).numpy()))
        assert float((a * (turn @ M @ turn.T)).sum()) <= float(found.cosine[0]) + 1e-12


def test_symmetric_operators_reach_their_bound():
    A, B = (part + part.mT for part in (normal(3, 5, 5), normal(3, 5, 5, seed=1)))
    found = align_operators(A, B, starts=0)
    assert torch.allclose(found.cosine, found.bound, atol=1e-9)
    scaled = [part / part.flatten(1).norm(dim=1)[:, None, None] for part in (A, B)]
    assert torch.allclose(found.bound, cosine_bound(*scaled))


def test_operators_of_zero_equal_each_other_and_nothing_else():
    A = torch.stack([torch.zeros(3, 3), torch.zeros(3, 3)]).double()
    B = torch.stack([torch.zeros(3, 3).double(), normal(3, 3)])
    assert align_operators(A, B).cosine.tolist() == [1.0, 0.0]


def test_defective_operators_are_aligned():
    jordan = torch.tensor([[[0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.5]]]).double()
    Q = rotation(3)
    assert float(align_operators(jordan, Q @ jordan @ Q.T).cosine) == pytest.approx(1, abs=1e-9)


# --- operators of activity ------------------------------------------------------------------------------------------


def ragged(*shape):
    """Return activity whose trials end 0, 3, 6, ... steps before the last one; the last trial has no step."""
    activity = normal(*shape).numpy()
    for trial in range(shape[1]):
        activity[shape[0] - 3 * trial :, trial] = np.nan
    activity[:, -1] = np.nan
    return activity


def test_delays_stay_within_trials_of_unequal_length():
    activity = np.arange(10.0).reshape(5, 2, 1)
    activity[3:, 1] = np.nan
    embedded = embed_delays(activity, 2, 2)
    assert embedded[:, 0].tolist() == [[4.0, 0.0], [6.0, 2.0], [8.0, 4.0]]
    assert np.isnan(embedded[:, 1, 0]).tolist() == [False, True, True]
    with pytest.raises(ValueError, match="Pass fewer delays"):
        embed_delays(activity, 5)
    with pytest.raises(ValueError, match="the longest has 3"):
        delay_products([activity[:, 1:]], 2, 2)


@pytest.mark.parametrize(("delays", "interval"), [(1, 1), (4, 1), (3, 2), (2, 5)])
@pytest.mark.parametrize("activity", [normal(20, 3, 2).numpy(), ragged(20, 5, 3)], ids=["equal", "ragged"])
@pytest.mark.parametrize("few", [0, 10**9], ids=["by lags", "by definition"])
def test_products_of_the_embedding_need_no_embedding(activity, delays, interval, few, monkeypatch):
    monkeypatch.setattr("mnemoscope.lenses.comparison.delays.FEW", few)
    embedded = embed_delays(activity, delays, interval)
    before, after = (part.reshape(-1, embedded.shape[2]) for part in (embedded[:-1], embedded[1:]))
    followed, rows = ~np.isnan(after).any(1), embedded[~np.isnan(embedded).any(2)]
    found = delay_products([activity[::-1].copy() if activity.shape[1] == 3 else activity, activity], delays, interval)
    assert np.allclose(found.all[1], rows.T @ rows, atol=1e-12)
    last = found.last[1]
    assert np.allclose(found.all[1] - last.T @ last, before[followed].T @ before[followed], atol=1e-12)
    assert np.allclose(found.following[1], before[followed].T @ after[followed], atol=1e-12)


@pytest.mark.parametrize("units", [4, 40, 70], ids=["few units", "few steps", "many units"])
@pytest.mark.parametrize("missing", [False, True])
def test_the_operator_is_the_regression_on_singular_vectors(units, missing):
    activity = normal(30, 3, units).cumsum(0)
    activity[:, :, -1] = activity[:, :, 0]  # a direction without variance
    if missing:
        activity[20:, 1] = torch.nan
    embedded = embed_delays(activity.numpy(), 3)
    present = ~np.isnan(embedded).any(2)
    V = np.full((28, 3, 5), np.nan)
    vectors, singular_values, _ = np.linalg.svd(embedded[present], full_matrices=False)
    V[present] = vectors[:, :5]
    before, after = (part[present[1:]] for part in (V[:-1], V[1:]))
    expected = np.linalg.lstsq(before, after, rcond=None)[0].T
    (embedding,) = principal_embeddings([activity], 3)
    (found,) = fit_operators([embedding], [5], 5, 0.0)
    assert np.allclose(np.abs(found), np.abs(expected), atol=1e-8)  # singular vectors have arbitrary signs
    assert np.allclose(np.linalg.eigvals(found).prod(), np.linalg.eigvals(expected).prod(), atol=1e-8)
    shares = np.cumsum(singular_values**2) / (singular_values**2).sum()
    assert np.allclose([embedding.variance(rank) for rank in range(1, 6)], shares[:5])


def test_missing_directions_are_padded_with_zeros():
    activity = normal(20, 4, 2) @ normal(2, 5, seed=1)
    (operator,) = fit_operators(principal_embeddings([activity], 1), [4], 4, 0.0)
    assert np.abs(operator[:2, :2]).min() > 0
    assert np.abs(operator[2:]).max() == np.abs(operator[:, 2:]).max() == 0


def test_leading_singular_values_are_those_of_the_whole_embedding():
    for shape in ((6, 2, 40), (50, 4, 30)):
        activity = normal(*shape)
        values = principal_embeddings([activity], 3)[0].singular_values
        embedded = embed_delays(activity.numpy(), 3)
        expected = np.linalg.svd(embedded.reshape(-1, embedded.shape[2]), compute_uv=False)
        assert np.allclose(values, expected[: len(values)], atol=1e-8)


# --- geometry -------------------------------------------------------------------------------------------------------


def test_procrustes_and_cka_agree_with_their_definitions():
    X, Y = centred(normal(10, 3, 4)), centred(normal(10, 3, 6, seed=1))
    padded = torch.nn.functional.pad(X, (0, 2))
    U, _, V = torch.linalg.svd(Y.T @ padded)
    assert procrustes_cosine(X, Y) == pytest.approx(float((padded * (Y @ U @ V)).sum()))
    K, L = X @ X.T, Y @ Y.T
    assert cka_cosine(X, Y) == pytest.approx(float((K * L).sum() / (K.norm() * L.norm())))


@pytest.mark.parametrize("method", ["procrustes", "cka"])
def test_geometry_ignores_rotations_and_finds_unrelated_activity_within_the_null(method):
    smooth = normal(30, 6, 8).cumsum(0)
    other = normal(30, 6, 8, seed=1).cumsum(0)
    found = ms.compare([smooth, 3 * smooth @ rotation(8) + 1, other], method=method, names="abc")
    assert float(found.distances[0, 1]) < 1e-3
    assert found.verdict(0, 1) == "same"
    assert found.verdict(0, 2) in ("undecided", "unrelated")
    assert found.verdicts["a", "b"] == "same"
    euclidean = ms.compare([smooth, other], method=method, score="euclidean", draws=0)
    assert float(euclidean.distances[0, 1]) == pytest.approx(2 * math.sin(float(found.distances[0, 2]) / 2))


def test_a_trial_without_any_step_changes_nothing():
    full = normal(12, 4, 2)
    empty = torch.cat([full, torch.full((12, 1, 2), torch.nan)], 1)
    found = ms.compare([full, empty], draws=0, starts=0)
    assert found.delays == ms.compare([full, full], draws=0, starts=0).delays
    assert float(found.distances[0, 1]) < 1e-6


def test_geometry_needs_the_same_steps_and_trials():
    with pytest.raises(ValueError, match="same steps of the same trials"):
        ms.compare([normal(10, 3, 2), normal(10, 4, 2)], method="cka")


# --- dynamics -------------------------------------------------------------------------------------------------------


@representatives("0.02")
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_conjugate_planted_systems_are_told_from_others(noise):
    systems = [
        planted_activity(name, 6 + 3 * seed, seed, trials=60, noise=noise) for name in DYNAMICS for seed in range(2)
    ]
    groups = [name for name in DYNAMICS for _ in range(2)]
    found = ms.compare(systems, groups=groups, score="wasserstein", draws=0)
    assert found.silhouette > 0.95
    assert found.ranks == (6, 6, 4, 4, 5, 5, 6, 6, 6, 6)  # those of the planted dynamics: noise has no coordinates
    assert "no distance shows" in found.summary()
    assert found.verdict(0, 1) == "undecided"
    assert ms.compare(systems, groups=groups, starts=2, draws=0).silhouette > 0.9
    assert ms.compare(systems, groups=groups, method="cka", draws=0).silhouette < 0.2


def test_verdicts_follow_from_surrogates_and_halves():
    slow, slow2, fast = (
        planted_activity(*each, trials=20) for each in (("cycle", 4, 0), ("cycle", 6, 1), ("fast cycle", 5, 2))
    )
    found = ms.compare([slow, slow2, fast], rank=2, starts=0)
    assert found.verdict(0, 1) in ("same", "related")
    assert float(found.overlap[0, 2]) == pytest.approx(1 / 21)
    assert found.verdict(0, 2) in ("related", "unrelated")  # both turn, unlike shuffled steps
    assert float(found.p_similar[0, 1]) == pytest.approx(1 / 21)
    alone = ms.compare([slow[:, :1], fast[:, :1]], rank=2, starts=0, draws=2)
    assert alone.within is None
    assert "no difference is shown" in alone.summary()
    few = ms.compare([slow, slow2], rank=2, starts=0, draws=3)
    assert "too few for a share" in few.summary()


def test_trials_of_unequal_length_give_the_operator_of_their_steps():
    long = planted_activity("cycle", 5, 0, trials=12)
    cut = long.clone()
    cut[40:, ::2] = torch.nan
    found = ms.compare([long, cut], rank=2, draws=0)
    assert float(found.distances[0, 1]) < 0.02
    assert found.delays == 10


@pytest.mark.parametrize("kind", ["shift", "shuffle", "phase"])
def test_surrogates_keep_what_they_promise(kind):
    activity = normal(16, 3, 2)
    activity[11:, 1] = torch.nan
    recording = ms.Recording(activity)
    drawn = draw_surrogate(recording, kind, torch.Generator().manual_seed(0)).activity
    assert torch.equal(drawn.isnan(), activity.isnan())
    first, second = activity[:, 0], drawn[:, 0]
    assert not torch.allclose(first, second)
    if kind == "phase":
        assert torch.allclose(torch.fft.rfft(first, dim=0).abs(), torch.fft.rfft(second, dim=0).abs(), atol=1e-9)
    if kind == "shuffle":
        assert torch.equal(first.sort(0).values, second.sort(0).values)
    if kind == "shift":
        start = int(torch.nonzero((activity[:, [0, 2], 0] == second[0, 0]).any(1))[0])
        assert torch.equal(torch.roll(second[:, 0], start), torch.where(
            (activity[0, 0, 0] == second[:, 0]).any(), activity[:, 0, 0], activity[:, 2, 0]))  # fmt: skip


# --- dynamics and inputs --------------------------------------------------------------------------------------------


def driven(matrix, weights, observed, seed=0):
    """Return outputs and inputs (time, trials, ...) of a linear system with random inputs."""
    inputs = normal(60, 10, weights.shape[1], seed=seed)
    states = [normal(10, len(matrix), seed=seed + 100)]
    for x in inputs[:-1]:
        states.append(states[-1] @ matrix.T + x @ weights.T)
    return torch.stack(states) @ observed.T, inputs


A0, B0 = torch.diag(torch.tensor([0.9, 0.6, -0.5])).double(), normal(3, 2, seed=7)


def test_operators_of_a_driven_system_have_its_eigenvalues():
    outputs, inputs = driven(A0, B0, normal(2, 3, seed=8))  # two outputs show three states
    found = fit_input_operators(outputs, inputs, 3, 3, 0.0)
    values = torch.linalg.eigvals(found.state)
    assert torch.allclose(values.real.sort().values, A0.diagonal().sort().values, atol=1e-6)
    first = torch.tensor([1e-4]) < found.singular_values / found.singular_values[0]
    assert int(first.sum()) == 3
    cut, known = outputs.clone(), inputs.clone()
    cut[40:, 3:] = known[40:, 3:] = torch.nan
    again = fit_input_operators(cut, known, 3, 3, 0.0)
    assert torch.allclose(torch.linalg.eigvals(again.state).real.sort().values, values.real.sort().values, atol=1e-6)
    padded = fit_input_operators(outputs, inputs, 3, 5, 0.0)
    assert padded.state[3:].abs().max() < 1e-6


def test_input_dsa_separates_other_inputs_from_other_dynamics():
    observed = torch.eye(3).double()
    turned = driven(A0, B0, rotation(3), seed=1)
    systems = [driven(A0, B0, observed), turned, driven(A0, 1.5 * B0.flip(0), observed, 2),
               driven(0.5 * A0, B0, observed, 3)]  # fmt: skip
    found = ms.compare([y for y, _ in systems], [u for _, u in systems], method="input-dsa", delays=2, rank=3, draws=19)
    assert float(found.distances[0, 1]) < 0.1
    assert float(found.distances[0, 2]) > 3 * float(found.distances[0, 1])
    assert float(found.distances[0, 3]) > 3 * float(found.distances[0, 1])
    assert float(found.input[0, 2]) > float(found.input[0, 1])
    assert found.verdict(0, 3) in ("related", "unrelated")
    same = ms.compare([systems[0][0], 2 * systems[0][0] @ rotation(3)], systems[0][1], method="input-dsa",
                      score="euclidean", delays=2, rank=3, draws=0)  # fmt: skip
    assert float(same.distances[0, 1]) > 0.1  # the scale of the outputs counts in this score


def test_input_dsa_refuses_short_trials_and_unequal_inputs():
    outputs, inputs = driven(A0, B0, torch.eye(3).double())
    with pytest.raises(ValueError, match="Pass fewer delays"):
        fit_input_operators(outputs[:6], inputs[:6], 3, 2, 0.0)
    short = outputs.clone()
    short[5:] = torch.nan
    with pytest.raises(ValueError, match="the longest has 5"):
        fit_input_operators(short, inputs, 3, 2, 0.0)
    with pytest.raises(ValueError, match="same number of input features"):
        ms.compare([outputs] * 2, [inputs, inputs[:, :, :1]], method="input-dsa", delays=2, rank=2, draws=0)


# --- systems --------------------------------------------------------------------------------------------------------


def test_networks_arrays_and_recordings_of_other_sizes_can_be_compared():
    torch.manual_seed(0)
    inputs = normal(12, 4, 3).float()
    lengths = [12, 9, 12, 8]
    network, batch_first = torch.nn.GRU(3, 4), torch.nn.RNN(3, 5, batch_first=True)
    recording = ms.record_activity(network, inputs, lengths=lengths)
    systems = [network, batch_first, recording, recording.activity.numpy()]
    each = [inputs, inputs.transpose(0, 1), None, inputs]
    found = ms.compare(systems, each, lengths=lengths, draws=0, delays=2, rank=2, starts=1)
    assert found.distances.shape == (4, 4)
    assert float(found.distances[0, 2]) == pytest.approx(0, abs=1e-6)
    assert float(found.distances[2, 3]) == pytest.approx(0, abs=1e-6)


def test_one_tensor_of_inputs_is_read_in_the_layout_of_the_networks():
    torch.manual_seed(0)
    inputs, lstm, gru = normal(12, 4, 3).float(), torch.nn.LSTM(3, 3, batch_first=True), torch.nn.GRU(3, 4)
    activity = ms.record_activity(lstm, inputs.transpose(0, 1)).activity
    found = ms.compare(
        [lstm, activity], inputs.transpose(0, 1), draws=0, delays=2, rank=2, starts=1, method="input-dsa"
    )
    assert float(found.distances[0, 1]) == pytest.approx(0, abs=1e-6)
    with pytest.raises(ValueError, match="The systems 0 have batch_first"):
        ms.compare([lstm, gru], inputs)


@pytest.mark.parametrize(
    ("systems", "options", "message"),
    [
        ([normal(5, 2, 2)], {}, "two systems"),
        ([normal(5, 2), normal(5, 2)], {}, r"must be \(time, trials, units\)"),
        ([torch.nn.GRU(2, 2)] * 2, {}, "pass inputs"),
        ([normal(5, 2, 2)] * 2, {"inputs": [None]}, "one inputs tensor"),
        ([normal(5, 2, 2)] * 2, {"inputs": normal(4, 2, 1)}, "steps and trials of the activity"),
        ([normal(5, 2, 2)] * 2, {"score": "matching"}, "has the scores"),
        ([normal(5, 2, 2)] * 2, {"null": "inputs"}, "null distributions"),
        ([normal(5, 2, 2)] * 2, {"ridge": -1.0}, "ridge"),
        ([normal(5, 2, 2)] * 2, {"names": ["a"]}, "1 names"),
        ([normal(5, 2, 2)] * 2, {"method": "input-dsa"}, "needs the inputs"),
        ([normal(5, 2, 2)] * 2, {"method": "topology"}, "no fixed points"),
        ([torch.tensor([[[1.0, torch.nan]]] * 5)] * 2, {}, "units that are missing"),
        ([torch.tensor([[[1.0]], [[torch.nan]], [[1.0]]])] * 2, {}, "gaps"),
        ([torch.full((5, 1, 1), torch.inf)] * 2, {}, "infinite"),
        ([normal(9, 3, 2)] * 2, {"delays": 2, "rank": 5}, "rank=5 exceeds 4"),
        ([normal(9, 3, 2)] * 2, {"names": ["a", "a"]}, "a name of its own"),
        ([normal(9, 3, 2), torch.full((9, 3, 2), torch.nan)], {}, "System 1 has no activity"),
    ],
)
def test_unsuitable_systems_are_refused_with_a_remedy(systems, options, message):
    with pytest.raises(ValueError, match=message):
        ms.compare(systems, **options)


# --- fixed points ---------------------------------------------------------------------------------------------------


def gain(value, size):
    """Return a network of independent bits for a gain above 1, and with one fixed point below."""
    return ms.adapt(lambda x, h: torch.tanh(value * h + x), state_size=size, input_size=1, bounds=(-1, 1))


def test_networks_with_other_fixed_points_differ_and_those_with_the_same_do_not():
    inputs = torch.tensor([[0.0], [0.8]])
    found = ms.compare([gain(1.5, 1), gain(0.5, 1)], inputs, method="topology")
    assert found.signatures[0] == "2 stable, 1 with 1 unstable; 1 stable"
    assert found.signatures[1] == "1 stable; 1 stable"
    assert found.verdict(0, 1) == "unrelated"
    assert found.null.shape == (20, 2, 2)
    assert not found.missing
    assert found.bifurcations == {"0": [(1, "2 stable, 1 with 1 unstable", "1 stable")], "1": []}
    assert "change their kind: 1 in 0" in found.summary()
    one = replace(found, null=None)
    assert one.verdict(0, 1) == "different"
    assert "no other order" in one.summary()
    single = ms.compare([gain(0.5, 1), gain(0.4, 1)], method="topology")  # surrogates are one of these two points
    assert single.verdict(0, 1) == "different"
    assert "surrogates of these fixed points often equal them" in single.summary()


def test_null_distributions_of_fixed_points_redraw_points_or_exchange_inputs():
    few, many = (Point(0, False, 5.0, 1),), (Point(1, False, 2.0, 2), Point(0, True, 9.0, 0))
    redrawn = _redrawn([[few, many], [many, few]], 4, 0)
    assert [[len(portrait) for portrait in one] for one in redrawn[0]] == [[1, 2], [2, 1]]
    assert {point for draw in redrawn for one in draw for portrait in one for point in portrait} == {*few, *many}
    assert _exchanged([[few, many]], 4, 0) == [[[many, few]]]  # two inputs have one other order
    assert _exchanged([[few]], 4, 0) == []


def test_a_saddle_is_linked_to_the_points_on_its_two_sides():
    found = ms.compare([gain(1.5, 1), gain(1.5, 2)], method="topology", draws=0)
    assert found.signatures[1] == "4 stable, 4 with 1 unstable, 1 with 2 unstable"
    # The first has 3 points, the second 9: 6 are missing, and the two stable points have 1 link instead of 2.
    assert float(found.distances[0, 1]) == pytest.approx((6 + 2 * 0.25) / 9, abs=1e-6)


def test_a_line_of_points_counts_once():
    line = ms.adapt(lambda x, h: torch.stack([h[:, 0], 0.5 * h[:, 1]], 1), state_size=2)
    assert ms.compare([line, line], method="topology", draws=0).signatures[0] == "1 marginal"


def test_matching_of_portraits_is_the_cheapest_one():
    points = [Point(0, False, 5.0, 1), Point(0, False, 50.0, 1), Point(1, False, 2.0, 2), Point(0, True, 9.0, 0)]
    first, second = tuple(points), (points[1], points[0], points[2])
    best = min(sum(a.cost(b) for a, b in zip(order, second, strict=False)) for order in itertools.permutations(first))
    assert portrait_distance(first, second) == pytest.approx((best + 1) / 4)
    assert portrait_distance((), ()) == 0
    assert portrait_distance((), second) == 1


def test_constant_inputs_are_required_for_fixed_points():
    with pytest.raises(ValueError, match="constant inputs"):
        ms.compare([gain(1.5, 1)] * 2, torch.zeros(3, 2, 1), method="topology")
    with pytest.raises(ValueError, match="is a Dynamics"):
        ms.compare([ms.Dynamics(gain(1.5, 1))] * 2, torch.zeros(3, 1), method="topology")
    with pytest.raises(ValueError, match="as many for every network"):
        ms.compare([gain(1.5, 1)] * 2, [torch.zeros(3, 1), torch.zeros(2, 1)], method="topology")
    assert float(ms.compare([ms.Dynamics(gain(1.5, 1))] * 2, method="topology", draws=0).distances.max()) == 0


# --- the result -----------------------------------------------------------------------------------------------------


def test_classical_scaling_recovers_points_of_a_plane():
    points = normal(6, 2)
    found, misfit = scale_to_plane(torch.cdist(points, points))
    assert misfit < 1e-6
    assert torch.allclose(torch.cdist(found, found), torch.cdist(points, points), atol=1e-6)


def test_a_system_alone_in_its_group_has_no_silhouette():
    distances = torch.tensor([[0.0, 1.0, 4.0], [1.0, 0.0, 4.0], [4.0, 4.0, 0.0]]).double()
    assert silhouettes(distances, "aab").tolist() == [0.75, 0.75, 0.0]


def test_a_comparison_is_saved_drawn_and_summarised(tmp_path):
    activity = [planted_activity(name, 5, seed, steps=16, trials=8) for seed, name in enumerate(["ring", "cycle"] * 2)]
    found = ms.compare(activity, groups=["ring", "cycle"] * 2, rank=2, delays=2, starts=0, draws=2)
    found.save(tmp_path / "comparison.safetensors")
    again = ms.Comparison.load(tmp_path / "comparison.safetensors")
    assert again.summary() == found.summary()
    assert "The groups cycle, ring have a silhouette" in found.summary()
    assert len(found.figure().axes) >= 3
    plain = ms.compare(activity[:2], rank=2, delays=2, starts=0, draws=0)
    assert len(plain.figure().axes) >= 2
    assert "0 and 1 are" in plain.summary()
