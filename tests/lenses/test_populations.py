"""Lenses on populations: principal and demixed components, rotations, on planted data and against slow references."""

from dataclasses import replace
from itertools import product

import pytest
import torch

import mnemoscope as ms
from mnemoscope.lenses.demixing.marginals import averaging_matrix, marginal_sets, marginalise
from mnemoscope.lenses.demixing.regression import explained_variance, fit_components
from mnemoscope.lenses.demixing.trial_moments import TrialMoments
from mnemoscope.lenses.principal_axes.signal import participation_ratio, signal_moments
from mnemoscope.lenses.recording import ConditionGrid
from mnemoscope.lenses.recording.planted import planted_trials
from mnemoscope.lenses.rotations.skew_fit import explained, fit_any, fit_skew, rotation_planes
from mnemoscope.lenses.rotations.surrogates import Surrogates, entropy_variances


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def planted(noise=1.0, repeats=4, time=12, units=15):
    return planted_trials(noise, repeats, time=time, units=units)


# --- conditions as a grid -------------------------------------------------------------------------------------------


def test_means_of_a_grid_are_those_of_each_combination_and_ignore_what_is_missing():
    recording, _ = planted()
    recording.activity[3:, 0] = torch.nan  # a trial that ends early
    recording.activity[:, 5, 2] = torch.nan  # a unit that is missing
    grid = ConditionGrid.of(recording, ("stimulus", "choice"))
    table = recording.table
    for cell, (stimulus, choice) in enumerate(product(range(3), range(2))):
        members = (table["stimulus"].values == stimulus) & (table["choice"].values == choice)
        torch.testing.assert_close(grid.means()[:, cell], recording.activity[:, members].nanmean(1))
    assert grid.cell_names[3] == "stimulus 1, choice 1"
    assert not grid.simultaneous
    assert int(grid.counts()[5, 0, 0]) == 3
    assert ConditionGrid.of(recording, ()).cell_names == ("all trials",)


def test_trials_without_a_value_are_left_out_and_empty_combinations_are_named():
    recording, _ = planted()
    values = recording.table["choice"].values.double()
    values[0] = torch.nan
    table = ms.TrialTable.of({"choice": values, "stimulus": recording.table["stimulus"].values})
    grid = ConditionGrid.of(ms.Recording(recording.activity, table), ("choice",))
    assert len(grid.cells) == recording.trials - 1
    recording.activity[:, :4, 3] = torch.nan
    with pytest.raises(ValueError, match="unit 3 has 0 with stimulus 0, choice 0"):
        ConditionGrid.of(recording, ("stimulus", "choice")).with_complete_steps(1)


def test_shuffles_keep_the_other_conditions_and_sessions():
    recording, _ = planted()
    recording.activity[:, ::2, 0] = torch.nan  # two sessions
    grid = ConditionGrid.of(recording, ("stimulus", "choice"))
    cells = grid.shuffled(("choice",), torch.Generator().manual_seed(0))
    assert not torch.equal(cells, grid.cells)
    assert torch.equal(cells // 2, grid.cells // 2)  # the stimulus stays
    for session in (0, 1):
        kept = grid.sessions == session
        assert torch.equal(cells[kept].sort()[0], grid.cells[kept].sort()[0])
    left_out = grid.held_out(torch.Generator().manual_seed(0))
    pairs = torch.stack([grid.cells, grid.sessions], 1)[left_out]
    assert len(pairs) == len(pairs.unique(dim=0)) == 12
    groups = list(grid.groups_of_trials(2, torch.Generator().manual_seed(0)))
    assert torch.equal(groups[0], ~groups[1])
    assert int(groups[0].sum()) == 12


# --- principal components -------------------------------------------------------------------------------------------


def test_principal_components_are_eigenvectors_of_the_covariance_of_averages():
    recording, _ = planted()
    pca = ms.principal_components(recording, components=4)
    rows = recording.average("stimulus", "choice").activity.flatten(0, 1)
    covariance = torch.cov(rows.T, correction=0)
    torch.testing.assert_close(pca.variance, torch.linalg.eigvalsh(covariance).flip(0))
    torch.testing.assert_close(covariance @ pca.axes.T, pca.axes.T * pca.variance[:4])
    torch.testing.assert_close(pca.project(rows), pca.traces.flatten(0, 1))
    assert pca.participation == pytest.approx(float(participation_ratio(torch.linalg.eigvalsh(covariance))))


def test_the_moments_of_the_signal_have_no_bias():
    """A slow reference: the mean over many draws of noise is the moment of the signal itself."""
    for shape in ((6, 4), (4, 6)):
        signal = normal(*shape)
        gram = signal.T @ signal
        draws = [signal_moments(signal + noise) for noise in normal(300, 4, *shape, seed=1)]
        square, fourth = (torch.stack(each) for each in zip(*draws, strict=True))
        for found, expected in ((square, gram.trace() ** 2), (fourth, (gram @ gram).trace())):
            assert abs(found.mean() - expected) < 4 * found.std() / len(found) ** 0.5
        biased = (signal + normal(1000, *shape, seed=2)).square().sum((1, 2)) ** 2
        assert biased.mean() > 1.5 * gram.trace() ** 2


def test_the_dimension_is_corrected_for_noise_where_there_are_enough_trials():
    noisy, _ = planted(noise=3.0, repeats=12, units=30)
    exact = ms.principal_components(planted(noise=0.0, repeats=1, units=30)[0])
    pca = ms.principal_components(noisy)
    assert exact.signal_dimension is None
    assert "not corrected, since a combination has 1 trial." in exact.summary()
    assert pca.participation > 1.5 * exact.participation
    assert pca.interval[0] < exact.participation < pca.interval[1]
    assert 0 < pca.signal_share < 0.7
    assert float(pca.signal_by_component[:3].sum()) == pytest.approx(1, abs=0.2)
    assert "95% interval over trials" in pca.summary()
    few = ms.principal_components(planted(noise=3.0)[0])
    assert few.interval is None
    assert "fewer than 8 trials" in few.summary()
    table = noisy.table
    pure = ms.principal_components(ms.Recording(normal(3, len(table), 4, seed=3), table))
    assert pure.signal_share < 0.2
    weak = replace(pca, interval=None)  # as where the trials without one of their groups share no variance
    assert "no interval: trials share too little variance" in weak.summary()


def test_noise_alone_has_no_dimension_and_units_that_trials_lack_none_that_is_corrected():
    recording, _ = planted(noise=0.0)
    noise = normal(12, 12, 15).repeat_interleave(2, 1) * torch.tensor([1.0, -1.0] * 12).unsqueeze(1)
    opposed = noise + 1e-3 * recording.activity  # trials of a combination vary against each other
    pca = ms.principal_components(ms.Recording(opposed, recording.table))
    assert pca.signal_dimension is None
    assert "share no more variance than noise" in pca.summary()
    with pytest.raises(ValueError, match="the same at all steps"):
        ms.principal_components(ms.Recording(torch.ones_like(noise), recording.table))
    recording.activity[:, ::4, 0] = torch.nan
    recording.activity[:, 1, 0] = torch.nan
    assert "a combination has 2 trials" in ms.principal_components(recording).summary()


def test_components_say_which_steps_all_combinations_have():
    activity = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0)).double()
    activity[4:, 2:] = torch.nan  # the trials of one value are shorter
    recording = ms.Recording(activity, ms.TrialTable.of({"length": [1, 1, 0, 0]}))
    found = ms.principal_components(recording)
    assert len(found.traces) == 4
    assert "Only 4 of 6 steps are used, those at which every combination has a trial" in found.summary()
    assert "Only" not in ms.principal_components(recording.part([0, 1])).summary()


# --- demixed components ---------------------------------------------------------------------------------------------


def test_marginalisations_are_orthogonal_and_add_up():
    means = normal(5, 6, 4)
    names, sizes = ("a", "b"), (3, 2)
    averaging = torch.stack([averaging_matrix(names, sizes, each) for each in marginal_sets(names)])
    parts = marginalise(means, averaging)
    torch.testing.assert_close(parts.sum(0), means - means.mean((0, 1)))
    flat = parts.flatten(1)
    torch.testing.assert_close(flat @ flat.T, (flat @ flat.T).diagonal().diag(), atol=1e-12, rtol=0)
    grid = means.view(5, 3, 2, 4)
    first = grid.mean(2, keepdim=True) - grid.mean((1, 2), keepdim=True)  # the effect of a, over time
    torch.testing.assert_close(parts[1].view(5, 3, 2, 4), first.expand(5, 3, 2, 4))


def test_reduced_rank_regression_is_the_best_of_its_rank():
    """A slow reference: minimising the loss from a random start finds the same value, and nothing better."""
    rows, part = normal(20, 4), normal(1, 20, 4, seed=1)
    root = 0.2 * normal(4, 4, seed=2)
    noise, penalty = root @ root.T, 0.3
    decoders, encoders = fit_components(rows, part, noise, penalty, 2)

    def loss(decoder, encoder):
        joint = encoder @ decoder
        return (
            (part[0] - rows @ joint.T).square().sum()
            + len(rows) * (joint @ noise @ joint.T).trace()
            + penalty * joint.square().sum()
        )

    best = float(loss(decoders[0], encoders[0]))
    decoder, encoder = normal(2, 4, seed=0).requires_grad_(), normal(4, 2, seed=9).requires_grad_()
    optimiser = torch.optim.LBFGS([decoder, encoder], max_iter=80, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss(decoder, encoder)
        value.backward()
        return value

    optimiser.step(closure)
    assert loss(decoder, encoder).item() > best - 1e-9
    assert loss(decoder, encoder).item() == pytest.approx(best, rel=1e-3)
    shares = explained_variance(part, decoders, encoders)
    decoder, encoder = decoders[0, :1], encoders[0, :, :1]
    rest = part[0] - part[0] @ decoder.T @ encoder.T
    assert float(shares[0, 0, 0]) == pytest.approx(float(1 - rest.square().sum() / part.square().sum()))


PEER_DECODERS = {
    "t": [-0.1223356919, -0.6558067953, -0.7290519326, -0.2680764718, 0.1044658088, 0.4199826666],
    "s": [0.3552622327, -0.3729286886, -0.5577174122, 0.4320333137, -0.3117059891, -0.5424160831],
    "c": [0.5931735589, -0.2501140461, 0.6965411105, -0.2021535722, 0.5579770613, -0.0398710367],
    "sc": [0.2219121088, 0.1729869895, -0.110814281, -0.2224704062, -0.2136181636, 0.0423389766],
}
"""First decoders of the package dPCA 1.0.5 on the data below: `dPCA(labels="tsc", join={"s": ["s", "ts"],
"c": ["c", "tc"], "sc": ["sc", "tsc"]}, n_components=2, regularizer=0.001)`; it has no noise covariance."""


def test_decoders_agree_with_the_package_dpca():
    u, t, s, c = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in (6, 10, 3, 2)), indexing="ij")
    grid = torch.sin(u + 0.3 * t) + (s - 1) * torch.cos(2 * u) * t / 10 + (2 * c - 1) * torch.sin(3 * u + 1)
    grid += 0.3 * (s - 1) * (2 * c - 1) * torch.cos(u) + 0.1 * torch.sin(7 * u * u + 3 * t * (s + 1) + 5 * c)
    means = grid.permute(1, 2, 3, 0).reshape(10, 6, 6)
    names = ("s", "c")
    averaging = torch.stack([averaging_matrix(names, (3, 2), each) for each in marginal_sets(names)])
    parts = marginalise(means, averaging).flatten(1, 2)
    rows = parts.sum(0)
    penalty = (0.001 * float(rows.square().sum())) ** 2  # the package squares regularizer times the variance
    decoders, _ = fit_components(rows, parts, torch.zeros(6, 6, dtype=torch.float64), penalty, 2)
    for found, expected in zip(decoders[:, 0], PEER_DECODERS.values(), strict=True):
        expected = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(found * (found @ expected).sign(), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("separate", [False, True], ids=["together", "separate sessions"])
def test_the_noise_of_trials_is_their_covariance_around_the_means(separate):
    recording, _ = planted(repeats=6)
    if separate:
        recording.activity[:, ::2, 0] = torch.nan
    grid = ConditionGrid.of(recording, ("stimulus", "choice"))
    moments = TrialMoments(grid)
    left_out = grid.held_out(torch.Generator().manual_seed(0))
    means = moments.means(~left_out)
    rest = (recording.activity - means[:, grid.cells])[:, ~left_out].flatten(0, 1)
    cells = grid.activity.shape[0] * 6
    if separate:
        known = (~rest.isnan()).sum(0) - cells
        expected = torch.diag(rest.nan_to_num().square().sum(0) / known)
    else:
        expected = rest.T @ rest / (len(rest) - cells)
    torch.testing.assert_close(moments.noise(means, left_out), expected)


def test_planted_components_are_recovered_and_the_missing_interaction_is_not_claimed():
    recording, directions = planted(noise=0.5)
    dpca = ms.demixed_components(recording, components=2, shuffles=19, splits=2)
    assert dpca.marginals == ("time", "stimulus", "choice", "stimulus x choice")
    for place in range(3):  # encoders are the planted directions
        cosine = torch.nn.functional.cosine_similarity(dpca.encoders[place, :, 0], directions[place], dim=0)
        assert abs(cosine) > 0.95
    assert bool((dpca.demixing[:3, 0] > 0.9).all())
    assert dpca.probabilities[1:3].tolist() == [0.05, 0.05]
    assert float(dpca.probabilities[3]) > 0.05
    assert bool(dpca.probabilities[0].isnan())
    assert float(dpca.signal_shares[3]) == pytest.approx(0, abs=0.05)
    assert "stimulus x choice" in dpca.summary().partition("Not shown to be encoded:")[2]
    torch.testing.assert_close(
        dpca.decode(recording.average("stimulus", "choice").activity).permute(2, 3, 0, 1), dpca.traces
    )


def test_unbalanced_trials_that_end_early_and_units_of_other_sessions_are_used():
    recording, directions = planted(noise=0.5)
    recording = recording.part(torch.arange(recording.trials) != 1)
    recording.activity[10:, 5:8] = torch.nan
    recording.activity[:, ::2, :7] = torch.nan  # half of the trials are of the other session
    recording.activity[:, 1::2, 7:] = torch.nan
    dpca = ms.demixed_components(recording, conditions=["stimulus"], components=1, shuffles=0)
    assert abs(torch.nn.functional.cosine_similarity(dpca.encoders[1, :, 0], directions[1], dim=0)) > 0.9
    assert "no shuffles were asked for" in dpca.summary()


def test_one_trial_of_each_combination_gives_components_without_significance():
    dpca = ms.demixed_components(planted(noise=0.0, repeats=1)[0], components=1)
    assert dpca.probabilities is None
    assert dpca.errors is None
    assert "each combination needs two trials" in dpca.summary()
    fixed = ms.demixed_components(planted()[0], components=1, penalty=0.01, shuffles=0)
    assert fixed.penalty == 0.01
    recording, _ = planted()
    recording.activity[9:, :4] = torch.nan
    assert "Only 9 of 12 steps" in ms.demixed_components(recording, components=1, shuffles=0).summary()


def test_trials_that_end_early_are_fitted_but_never_left_out():
    recording, _ = planted(noise=0.5)
    recording.activity[5:, ::4] = torch.nan  # one trial of each combination is short
    dpca = ms.demixed_components(recording, components=1, shuffles=19, splits=1)
    assert dpca.steps == (12, 12)
    assert bool(dpca.errors.isfinite().all())
    assert bool(dpca.agreement.isfinite().all())
    assert dpca.probabilities[1:3].tolist() == [0.05, 0.05]
    noise = ms.Recording(torch.where(recording.activity.isnan(), torch.nan, normal(12, 24, 15)), recording.table)
    assert float(ms.demixed_components(noise, components=1, penalty=0.1, shuffles=9, splits=1).probabilities[3]) > 0.1
    recording.activity[5:, 1::4] = torch.nan
    recording.activity[5:, 2::4] = torch.nan  # one trial of each combination remains
    few = ms.demixed_components(recording, components=1, penalty=0.1, shuffles=0)
    assert "Only 5 of 12 steps" in few.summary()


def test_units_without_two_trials_of_a_session_leave_no_trials_out():
    recording, _ = planted(noise=0.5, repeats=2)
    recording.activity[:, ::2, 0] = torch.nan
    recording.activity[:, 1::2, 1] = torch.nan
    dpca = ms.demixed_components(recording, components=1)
    assert dpca.agreement is None
    assert "recorded with the same other units" in dpca.summary()


def test_halves_of_trials_that_vary_against_each_other_have_no_signal_shares():
    recording, _ = planted(repeats=2)
    noise = normal(12, 12, 15).abs() * torch.tensor([1.0, -1.0] * 6).unsqueeze(1)
    opposed = ms.Recording(noise - noise.mean(0), recording.table)
    dpca = ms.demixed_components(opposed, components=1, shuffles=0)
    assert dpca.signal_shares is None
    assert "share no more variance than noise" in dpca.summary()


def test_demixing_needs_conditions_that_vary_and_finite_activity_that_does():
    table = ms.TrialTable.of({"side": [0, 0, 1, 1], "block": [0, 0, 0, 0]})
    with pytest.raises(ValueError, match="'block' has the same value"):
        ms.demixed_components(ms.Recording(normal(3, 4, 2), table))
    with pytest.raises(ValueError, match="the same at all steps"):
        ms.demixed_components(ms.Recording(torch.ones(3, 4, 2).double(), table), conditions=["side"])
    with pytest.raises(ValueError, match="Unit 1 is infinite at step 2 of trial 0"):
        ms.demixed_components(
            ms.Recording(
                normal(3, 4, 2).index_put_(
                    [torch.tensor(2), torch.tensor(0), torch.tensor(1)], torch.tensor(torch.inf).double()
                ),
                table,
            )
        )


# --- rotations ------------------------------------------------------------------------------------------------------


def test_the_skew_symmetric_fit_is_the_best_of_its_kind():
    """A slow reference: least squares over the entries above the diagonal."""
    states, changes = normal(9, 4), normal(9, 4, seed=1)
    pairs = torch.triu_indices(4, 4, 1)
    columns = []
    for i, j in pairs.T.tolist():
        generator = torch.zeros(4, 4, dtype=torch.float64)
        generator[i, j], generator[j, i] = 1, -1
        columns.append((states @ generator.T).flatten())
    entries = torch.linalg.lstsq(torch.stack(columns, 1), changes.flatten().unsqueeze(1)).solution[:, 0]
    matrix = fit_skew(states, changes)
    torch.testing.assert_close(matrix[pairs[0], pairs[1]], entries)
    torch.testing.assert_close(matrix, -matrix.T)
    assert explained(states, changes, fit_any(states, changes)) > explained(states, changes, matrix) > 0


def test_the_skew_symmetric_fit_agrees_with_a_package():
    """The matrix of `skew_sym_regress(X[:-1], diff(X))` of github.com/bantin/jPCA at 3f8be9f.

    It minimises the error step by step and stops early, so that four digits agree and ours has the smaller error.
    """
    t, k = torch.arange(12, dtype=torch.float64).unsqueeze(1), torch.arange(4, dtype=torch.float64)
    states = torch.sin(0.5 * t + k * k) + 0.2 * torch.cos(t * (k + 1))
    expected = [0.1299349353, -0.2052154526, 0.0794359706, 0.0810690719, 0.2481502868, -0.223510754]
    rows, columns = torch.triu_indices(4, 4, 1)
    found, changes = fit_skew(states[:-1], states.diff(dim=0)), states.diff(dim=0)
    peer = torch.zeros(4, 4, dtype=torch.float64)
    peer[rows, columns] = torch.tensor(expected, dtype=torch.float64)
    peer -= peer.T.clone()
    torch.testing.assert_close(found, peer, atol=1e-4, rtol=0)
    assert explained(states[:-1], changes, found) >= explained(states[:-1], changes, peer)


def test_planes_of_a_rotation_turn_from_the_first_vector_to_the_second():
    angle = torch.tensor([[0.0, -0.3, 0, 0], [0.3, 0, 0, 0], [0, 0, 0, 0.1], [0, 0, -0.1, 0]], dtype=torch.float64)
    basis = torch.linalg.qr(normal(4, 4))[0]
    matrix = basis @ angle @ basis.T
    planes, angles = rotation_planes(matrix)
    torch.testing.assert_close(angles, torch.tensor([0.3, 0.1], dtype=torch.float64))
    for plane, speed in zip(planes, angles, strict=True):
        torch.testing.assert_close(plane @ plane.T, torch.eye(2, dtype=torch.float64))
        torch.testing.assert_close(matrix @ plane[0], speed * plane[1])


@pytest.mark.parametrize("still", [2, 4])
def test_planes_that_do_not_rotate_are_orthonormal_too(still):
    matrix = torch.zeros(4, 4, dtype=torch.float64)
    if still == 2:
        matrix[0, 3], matrix[3, 0] = -0.2, 0.2
    planes, angles = rotation_planes(matrix)
    torch.testing.assert_close(planes.flatten(0, 1) @ planes.flatten(0, 1).T, torch.eye(4, dtype=torch.float64))
    assert angles.tolist() == pytest.approx([0.2 if still == 2 else 0, 0])


def test_variances_of_the_largest_entropy_have_the_given_sums():
    sums = [torch.rand(size, generator=torch.Generator().manual_seed(size)).double() ** 3 + 1e-4 for size in (5, 3, 7)]
    sums = [6.0 * each / each.sum() for each in sums]
    variances = entropy_variances(*sums)
    for mode, expected in enumerate(sums):
        torch.testing.assert_close(variances.movedim(mode, 0).flatten(1).sum(1), expected, rtol=1e-7, atol=0)
    inverse = 1 / variances  # a sum of three vectors: all second differences vanish
    assert float(
        (inverse[1:, 1:] - inverse[:-1, 1:] - inverse[1:, :-1] + inverse[:-1, :-1]).abs().max()
    ) < 1e-6 * float(inverse.max())


def test_surrogates_have_the_covariances_of_the_data():
    data = normal(6, 3, 4).cumsum(0)
    data -= data.mean(1, keepdim=True)
    drawn = torch.stack(list(Surrogates(data).draw(1500, torch.Generator().manual_seed(0))))
    for mode in range(3):
        unfolded = drawn.movedim(mode + 1, 1).flatten(2)
        mean = torch.einsum("nif,njf->ij", unfolded, unfolded) / len(drawn)
        own = data.movedim(mode, 0).flatten(1)
        torch.testing.assert_close(mean, own @ own.T, atol=0.05 * float((own @ own.T).diagonal().max()), rtol=0)


def rotating(speed=0.25, noise=0.02):
    """Eight conditions that rotate in one plane of ten units from different phases."""
    time = torch.arange(15, dtype=torch.float64).unsqueeze(1)
    phase = speed * time + torch.arange(8, dtype=torch.float64) * 2.4
    plane = torch.linalg.qr(normal(10, 2))[0]
    activity = torch.stack([phase.cos(), phase.sin()], 2) @ plane.T + noise * normal(15, 8, 10, seed=1)
    return ms.Recording(activity, ms.TrialTable.of({"target": torch.arange(8)}, step=10.0)), plane


def test_a_planted_rotation_is_found_and_exceeds_surrogates():
    recording, plane = rotating()
    found = ms.find_rotations(recording, components=4, surrogates=19)
    assert found.skew_fit > 0.8
    assert found.any_fit >= found.skew_fit
    assert float(torch.linalg.svdvals(found.planes[0] @ plane).min()) > 0.99
    assert float(found.angles[0]) == pytest.approx(0.25, abs=0.01)
    assert float(found.frequencies[0]) == pytest.approx(0.25 / (2 * torch.pi) * 100, rel=0.05)
    assert found.probability == 0.05
    clean = ms.find_rotations(rotating(noise=0.0)[0], components=4, surrogates=0)
    assert clean.skew_fit == pytest.approx(1)
    assert "no control" in clean.summary()


def test_smooth_activity_without_rotation_is_not_called_rotational():
    course = torch.linspace(0, 3, 15, dtype=torch.float64).unsqueeze(1)
    shapes = torch.exp(course * torch.tensor([-2.0, -1.0, -0.5, 0.3]))  # decay and growth
    activity = torch.einsum("tk,ck,ku->tcu", shapes, normal(8, 4), normal(4, 10, seed=4))
    found = ms.find_rotations(ms.Recording(activity, ms.TrialTable.of({"target": range(8)})), surrogates=19)
    assert found.any_fit > 0.9
    assert found.skew_fit < 0.5
    assert found.probability > 0.05
    assert "Nothing shows rotations" in found.summary()
    assert "turns per step" in found.summary()


def test_rotations_need_steps_conditions_and_two_directions():
    with pytest.raises(ValueError, match="at least 3 steps and 2 combinations"):
        ms.find_rotations(ms.Recording(normal(2, 4, 3), ms.TrialTable.of({"side": [0, 0, 1, 1]})))
    with pytest.raises(ValueError, match="one direction at most"):
        ms.find_rotations(ms.Recording(normal(5, 2, 1), ms.TrialTable.of({"side": [0, 1]})))
    with pytest.raises(ValueError, match="no conditions"):
        ms.find_rotations(ms.Recording(normal(5, 2, 3)))


def test_a_network_takes_the_place_of_a_recording():
    network, inputs = ms.cells.GRU(2, 5), torch.randn(6, 4, 2)
    table = ms.TrialTable.of({"side": [0, 1, 0, 1]})
    recording = ms.record_activity(network, inputs, table)
    assert torch.equal(ms.principal_components(network, inputs, table).axes, ms.principal_components(recording).axes)
    with pytest.raises(ValueError, match="pass the recording alone"):
        ms.principal_components(recording, inputs)
    with pytest.raises(ValueError, match="needs inputs"):
        ms.principal_components(network)


def test_results_are_drawn_and_saved(tmp_path):
    recording, _ = planted(repeats=4, time=6, units=6)
    rotations = ms.find_rotations(rotating()[0], components=4, surrogates=2)
    demixed = ms.demixed_components(recording, components=2, shuffles=1, splits=1)
    for result in (ms.principal_components(recording), demixed, rotations):
        assert result.figure().axes
        result.save(tmp_path / "saved")
        assert type(result).load(tmp_path / "saved").summary() == result.summary()
    single = ms.principal_components(recording.select([0]), conditions=())
    assert len(single.figure().axes) == 3
