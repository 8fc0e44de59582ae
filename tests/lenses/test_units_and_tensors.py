"""Lenses on units and single trials: selectivity, task variance with clusters, and tensor components."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.lenses.selective_units.analysis_of_variance import dummy_columns, false_discovery, unique_variance
from mnemoscope.lenses.trial_tensor.decomposition import decompose, reconstruct, similarity
from mnemoscope.lenses.unit_clusters.clustering import k_means, silhouette
from mnemoscope.lenses.unit_clusters.variance import variance_between_conditions, variance_between_trials


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def generator():
    return torch.Generator().manual_seed(0)


# --- selectivity ----------------------------------------------------------------------------------------------------


def test_omega_squared_is_that_of_an_analysis_of_variance():
    """A slow reference: sums of squares from fits with and without the condition, in unbalanced trials."""
    side = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 1, 0])
    value = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 2])
    values = normal(10, 3) + value.unsqueeze(1) + side.unsqueeze(1)
    share, probability = unique_variance(values, dummy_columns(value), dummy_columns(side), 99, generator())

    def rest(*columns):
        design = torch.cat([torch.ones(10, 1, dtype=torch.float64), *columns], 1)
        fitted = design @ torch.linalg.lstsq(design, values, driver="gelsd").solution
        return (values - fitted).square().sum(0)

    without, error = rest(dummy_columns(side)), rest(dummy_columns(side), dummy_columns(value)) / 6
    total = (values - values.mean(0)).square().sum(0)
    torch.testing.assert_close(share, (without - 6 * error - 2 * error) / (total + error))
    assert bool((probability >= 0.01).all())
    inseparable, _ = unique_variance(values, dummy_columns(side), dummy_columns(side), 1, generator())
    assert bool(inseparable.isnan().all())


def test_false_discovery_keeps_all_up_to_the_last_that_passes():
    probabilities = torch.tensor([[0.04, 0.001, 0.03, 0.9], [0.5, torch.nan, 0.9, 0.6]], dtype=torch.float64)
    assert false_discovery(probabilities, 0.1).tolist() == [[True, True, True, False], [False] * 4]
    assert false_discovery(torch.full((1, 3), torch.nan), 0.1).tolist() == [[False] * 3]


def test_planted_units_are_selective_in_their_epoch_and_others_are_not():
    side, reward = torch.tensor([0, 1] * 15), torch.arange(30) % 3
    activity = normal(6, 30, 12)
    activity[3:, :, 0] += 4 * side
    activity[:, ::2, 1] = torch.nan  # a unit of another session, with one side only
    activity[..., 2] = 1.0  # a unit that never changes
    table = ms.TrialTable.of({"side": side, "reward": reward}, {"cue": (0, 3), "delay": (3, 6)})
    found = ms.measure_selectivity(ms.Recording(activity, table), shuffles=300)
    assert found.selective[0].nonzero().tolist() == [[1, 0]]
    assert not found.selective[1].any()
    assert bool(found.probabilities[0, :, 1:3].isnan().all())
    assert not bool(found.probabilities[1, :, 1].isnan().any())  # the reward can be tested
    assert "side: 0 in cue, 1 in delay" in found.summary()
    whole = ms.measure_selectivity(ms.Recording(activity, ms.TrialTable.of({"side": side})), shuffles=9)
    assert whole.epochs == ("trial",)
    assert "raise shuffles" in whole.summary()
    lone = ms.measure_selectivity(ms.Recording(activity[:, :2, :1], table.part([0, 1])), shuffles=1)
    assert "not testable in cue" in lone.summary()
    missing = ms.TrialTable.of({"side": [torch.nan, *[0.0] * 29]})
    with pytest.raises(ValueError, match="no value in 1 trial;"):
        ms.measure_selectivity(ms.Recording(activity, missing))
    assert len(found.figure().axes) == 2


# --- task variance and clusters -------------------------------------------------------------------------------------


def test_variances_between_trials_and_between_conditions_are_those_of_simple_loops():
    activity = normal(4, 6, 3)
    activity[2:, 0] = torch.nan
    activity[3, 1:] = torch.nan  # no trial is left at the last step
    recording = ms.Recording(activity, ms.TrialTable.of({"stimulus": [0, 0, 0, 1, 1, 1]}))
    for unit in range(3):
        steps = [activity[step, :, unit] for step in range(3)]
        expected = torch.stack([step[~step.isnan()].var(correction=0) for step in steps]).mean()
        torch.testing.assert_close(variance_between_trials(recording)[unit], expected)
    corrected = []
    for step in range(3):
        groups = [activity[step, part] for part in (slice(0, 3), slice(3, 6))]
        groups = [group[~group.isnan().any(1)] for group in groups]
        between = torch.stack([group.mean(0) for group in groups]).var(0, correction=0)
        corrected.append(between - sum(group.var(0) / len(group) for group in groups) / 2 / 2)
    torch.testing.assert_close(
        variance_between_conditions(recording, ["stimulus"]), torch.stack(corrected).mean(0).clamp_min(0)
    )


def test_the_variance_between_conditions_has_no_bias_by_noise():
    effect = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64).repeat_interleave(4)
    recording = ms.Recording(effect.view(1, -1, 1) + 2 * normal(300, 12, 1), ms.TrialTable.of({"s": effect}))
    assert float(variance_between_conditions(recording, ["s"])) == pytest.approx(2 / 3, abs=0.25)
    assert float(variance_between_trials(recording)) > 3


def test_the_silhouette_is_that_of_its_definition():
    points, labels = normal(9, 2), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 1])  # a cluster of one point
    distances = torch.cdist(points, points)
    scores = []
    for point in range(9):
        mine = (labels == labels[point]) & (torch.arange(9) != point)
        if not mine.any():
            scores.append(0.0)
            continue
        inner = distances[point, mine].mean()
        outer = min(distances[point, labels == other].mean() for other in range(3) if other != labels[point])
        scores.append(float((outer - inner) / max(outer, inner)))
    assert silhouette(distances, labels) == pytest.approx(sum(scores) / 9)


def test_k_means_finds_separate_groups_and_copes_with_equal_points():
    points = torch.cat([normal(10, 2) + centre for centre in (0, 20, 40)])
    labels = k_means(points, 3, 4, generator())
    assert [len(set(part.tolist())) for part in labels.view(3, 10)] == [1, 1, 1]
    assert len(labels.unique()) == 3
    assert k_means(torch.zeros(5, 2, dtype=torch.float64), 3, 2, generator()).shape == (5,)


def tasks(mixing):
    """Recordings of three tasks; each unit varies in one task mostly, or in random mixtures."""
    sizes = torch.eye(3, dtype=torch.float64).repeat(8, 1) + 0.05 if mixing is None else mixing
    return {
        name: ms.Recording(normal(3, 8, 24, seed=place) * sizes[:, place].sqrt())
        for place, name in enumerate(("go", "anti", "delay"))
    }


def test_planted_groups_of_units_are_clusters_and_random_profiles_are_not():
    found = ms.task_variance(tasks(None), references=19, most_clusters=5)
    assert found.number == 3
    assert found.probability == 0.05
    assert "better than chance" in found.summary()
    assert "24 of 24 units vary in 3 tasks, with the noise of trials if they have any." in found.summary()
    assert "24 of 24 units vary in 3 tasks." in replace(found, noiseless=True).summary()
    assert torch.equal(found.clusters.view(8, 3), found.clusters[:3].expand(8, 3))
    assert found.order.tolist() == sorted(range(24), key=lambda unit: (int(found.clusters[unit]), unit))
    mixed = ms.task_variance(
        tasks(torch.rand(24, 3, generator=generator()).double() + 0.1), references=19, most_clusters=5
    )
    assert mixed.probability > 0.05
    assert "not better than chance" in mixed.summary()
    assert len(found.figure().axes) == 3


def test_tasks_are_the_values_of_a_condition_and_silent_units_are_left_out(tmp_path):
    activity = normal(3, 20, 6) + 3 * (torch.arange(20) // 2 % 2).view(1, 20, 1)
    activity[..., 0] = 0.5  # silent
    table = ms.TrialTable.of(
        {"task": [0, 1] * 10, "stimulus": torch.arange(20) // 2 % 2}, labels={"task": ("go", "stop")}
    )
    recording = ms.Recording(activity, table)
    found = ms.task_variance(recording, conditions=["stimulus"], references=0, most_clusters=3)
    assert found.tasks == ("go", "stop")
    assert found.corrected
    assert not found.active[0]
    assert int(found.clusters[0]) == -1
    assert "was not tested" in found.summary()
    found.save(tmp_path / "saved")
    assert ms.TaskVariance.load(tmp_path / "saved").summary() == found.summary()
    few = ms.task_variance(recording.select([1, 2]))
    assert few.number == 0
    assert few.probability is None
    assert "at least 4 such units" in few.summary()
    assert few.figure().axes
    with pytest.raises(ValueError, match="the same units"):
        ms.task_variance({"a": recording, "b": recording.select([0])})
    for given in ({"inputs": torch.zeros(3, 20, 1)}, {"table": table}):
        with pytest.raises(ValueError, match="pass the recordings alone"):
            ms.task_variance({"a": recording}, **given)


@pytest.mark.parametrize("name", ["multi_task_clusters", "multi_task_clusters_longer"])
def test_the_page_has_the_measured_clusters(name):
    root = Path(__file__).parents[2]
    rows = json.loads((root / f"benchmarks/results/{name}.json").read_text())["rows"]
    table = ["| setting | accuracy | best clusters | silhouette | of 8 or more | without clusters |"]
    table.append("|---|---|---|---|---|---|")
    for setting in dict.fromkeys(row["name"] for row in rows):
        last = [[*row["after"].values()][-1] for row in rows if row["name"] == setting]
        last = [found for found in last if found["active"]]  # without a network that diverged
        columns = [[f"{found['accuracy']:.2f}" for found in last], [str(found["number"]) for found in last]]
        columns += [[f"{found['silhouette']:.2f}" for found in last]]
        columns += [[f"{found['fine']['silhouette']:.2f}" for found in last]]
        columns += [[f"{found['without_clusters']:.2f}" for found in last]]
        table.append(f"| {' | '.join([setting, *(', '.join(column) for column in columns)])} |")
    assert "\n".join(table) in (root / "docs/cognitive-tasks.md").read_text()


# --- tensor components ----------------------------------------------------------------------------------------------


def planted_tensor(noise=0.0):
    factors = tuple(normal(size, 2, seed=size) for size in (12, 9, 7))
    return reconstruct(factors, torch.ones(2, dtype=torch.float64)) + noise * normal(12, 9, 7, seed=1), factors


@pytest.mark.parametrize("share", [0.0, 0.3], ids=["complete", "missing entries"])
def test_planted_factors_are_recovered_also_from_part_of_the_entries(share):
    data, factors = planted_tensor()
    known = torch.rand(data.shape, generator=generator()) >= share
    values, starts = torch.where(known, data, 0.0), generator()
    fits = [decompose(values, known, 2, starts, tolerance=1e-14, iterations=300) for _ in range(3)]
    fit = min(fits, key=lambda each: each.error)
    assert fit.error < 1e-8
    torch.testing.assert_close(reconstruct(fit.factors, fit.lengths), data, atol=1e-3, rtol=0)
    for found, true in zip(fit.factors, factors, strict=True):
        cosines = (torch.nn.functional.normalize(true, dim=0).T @ found).abs()
        torch.testing.assert_close(cosines.amax(1), torch.ones(2, dtype=torch.float64), atol=1e-4, rtol=0)


def test_an_update_with_missing_entries_solves_each_row_by_itself():
    """A slow reference: after convergence, each row of a factor is the least-squares solution on its known entries."""
    data, _ = planted_tensor(noise=0.3)
    known = torch.rand(data.shape, generator=generator()) >= 0.3
    fit = decompose(torch.where(known, data, 0.0), known, 2, generator(), tolerance=1e-15, iterations=2000)
    trials, time, units = fit.factors
    products = torch.einsum("r,jr,kr->jkr", fit.lengths, time, units)
    for row in range(3):
        design, target = products[known[row]], data[row][known[row]]
        expected = torch.linalg.lstsq(design, target.unsqueeze(1)).solution[:, 0]
        torch.testing.assert_close(trials[row], expected, atol=1e-4, rtol=0)


def test_similarity_ignores_the_order_of_components_and_sees_other_ones():
    data, _ = planted_tensor()
    known = torch.ones(data.shape, dtype=torch.bool)
    fit = decompose(data, known, 2, generator())
    swapped = type(fit)(tuple(factor.flip(1) for factor in fit.factors), fit.lengths.flip(0), fit.error, True)
    assert similarity(fit, swapped) == pytest.approx(1)
    other = decompose(normal(12, 9, 7), known, 2, generator(), iterations=2)
    assert not other.converged
    assert similarity(fit, other) < 0.6


def test_tensor_components_of_a_recording_report_their_reliability(tmp_path):
    data, _ = planted_tensor(noise=0.1)
    data[3, 5:] = torch.nan
    table = ms.TrialTable.of({"side": [0, 1] * 6}, step=10.0)
    found = ms.tensor_components(ms.Recording.from_trials(data, table), rank=2, restarts=3)
    assert found.left_out_error < 0.1
    assert "2 of 2 other restarts found the same" in found.summary()
    found.save(tmp_path / "saved")
    assert ms.TensorComponents.load(tmp_path / "saved").table.names == ("side",)
    assert len(found.figure().axes) == 6
    noise = ms.Recording.from_trials(normal(8, 5, 4))
    vague = ms.tensor_components(noise, rank=4, restarts=4, iterations=30)
    assert "not determined by the data" in vague.summary()
    assert "did not converge" in vague.summary()
    assert vague.figure().axes
    one = ms.tensor_components(ms.Recording(normal(3, 2, 2)), rank=1, restarts=2)
    assert one.left_out_error >= 0
    assert one.summary().startswith("1 component leaves")
    assert "of 1 other restart found" in one.summary()
    assert "than no activity at all: they predict nothing." in replace(one, left_out_error=5734.2).summary()
