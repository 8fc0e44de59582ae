"""Studies of flip-flop reservoirs: known shapes, noise against explicit networks, verdicts on made-up results."""

from dataclasses import replace
from itertools import combinations, product
from math import inf

import pytest
import torch

from mnemoscope.cells import EchoState
from mnemoscope.replication import Finished
from mnemoscope.replication.study import Trial
from mnemoscope.replication.verdicts import Obstacle, Verdict
from mnemoscope.studies.jang import flipflop_evolution, flipflop_noise, flipflop_transfer, homoclinic
from mnemoscope.studies.jang.flipflop_noise import error_area, half_level, judge_ratios, perturbed_outputs
from mnemoscope.studies.jang.reservoirs import (
    Recipe,
    corners,
    measure_memories,
    score_reservoir,
    train_transferred,
    writing_pulses,
)
from mnemoscope.studies.jang.tesseract import geometry, hull_corners, likeness, random_view_shares, tesseract_edges
from tests.slow import representatives

TINY = Recipe(bits=3, units=40, steps=400, test_steps=200)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def seen_along(direction, noise=0.0, size=60, seed=0):
    """Return a regular tesseract rotated into `size` dimensions and flattened along a direction of bits."""
    d = torch.tensor(direction, dtype=torch.float64)
    d = d / d.norm()
    E = torch.eye(len(d), dtype=torch.float64) - 0.5 * torch.outer(d, d)
    turn = torch.linalg.qr(torch.randn(size, len(d), generator=generator(seed), dtype=torch.float64))[0]
    states = corners(len(d)).double() @ E @ turn.mT
    return states + noise * torch.randn(states.shape, generator=generator(seed + 1), dtype=torch.float64) + 3.0


@representatives("direction6-hexagon-6")
@pytest.mark.parametrize(
    ("direction", "shape", "hull"),
    [((0, 0, 1, 0), "cube", 8), ((1, 0, 0, -1), "cuboid", 8), ((1, -1, 0, 1), "hexagonal prism", 12),
     ((1, 1, -1, 1), "rhombic dodecahedron", 14), ((0, 1, 0), "square", 4), ((1, 0, -1), "rectangle", 4),
     ((1, 1, 1), "hexagon", 6)],
)  # fmt: skip
def test_geometry_recognises_ideal_shapes(direction, shape, hull):
    found = geometry(seen_along(direction))
    assert found.shape == shape
    assert found.along == sum(map(abs, direction))
    assert found.hull == hull
    assert found.closest < 1e-12  # two corners lie behind each other along any of these
    assert found.likeness.max() == pytest.approx(1, abs=1e-12)
    d = torch.tensor(direction).double()
    assert (found.direction @ d).abs() / d.norm() == pytest.approx(1, abs=1e-12)
    assert found.additive == pytest.approx(1, abs=1e-12)
    assert found.last_variance == pytest.approx(0.25, abs=1e-12)  # shortened to half


@representatives("3")
@pytest.mark.parametrize("seed", range(5))
def test_geometry_recognises_noisy_shapes(seed):
    """The norm of the larger noise is 0.01 sqrt(60) = 8 % of half an edge."""
    names = [geometry(seen_along(d, 0.01, seed=seed)).shape for d in ((0, 1, 0, 0), (0, 1, 1, 0), (1, 1, 0, 1))]
    assert names == ["cube", "cuboid", "hexagonal prism"]
    hulls = [geometry(seen_along(d, 0.003, seed=seed)).hull for d in ((0, 1, 0, 0), (0, 1, 1, 0), (1, 1, 0, 1))]
    assert hulls == [8, 8, 12]


def test_the_view_is_along_the_bit_with_the_shortest_edge():
    found = geometry(corners(4) @ torch.diag(torch.tensor([2.0, 2.0, 2.0, 1.0])))
    assert found.direction.tolist() == pytest.approx([0, 0, 0, 1], abs=1e-12)
    assert found.last_edge == pytest.approx(0.5)
    assert found.edges.tolist() == pytest.approx([4, 4, 4, 2])
    assert found.angles.tolist() == pytest.approx([90] * 6)


def test_distances_and_angles_match_a_loop_over_pairs():
    states = torch.randn(16, 7, generator=generator(), dtype=torch.float64)
    found, signs = geometry(states), corners(4)
    by_bits, by_edge = {count: [] for count in range(1, 5)}, {bit: [] for bit in range(4)}
    for first, second in combinations(range(16), 2):
        differ = [bit for bit in range(4) if signs[first, bit] != signs[second, bit]]
        distance = (states[first] - states[second]).square().sum().sqrt().item()
        by_bits[len(differ)].append(distance)
        if len(differ) == 1:
            by_edge[differ[0]].append(distance)
    assert [len(edges) for edges in by_edge.values()] == [8] * 4
    assert found.edges.tolist() == pytest.approx([sum(edges) / 8 for edges in by_edge.values()])
    assert found.distances.tolist() == pytest.approx([sum(values) / len(values) for values in by_bits.values()])
    spread = torch.tensor([torch.tensor(values).double().std(correction=0) for values in by_bits.values()])
    assert found.deviations.tolist() == pytest.approx(spread.tolist(), rel=1e-6)
    assert found.edge_spread == pytest.approx(float(spread[0]) / found.distances[0].item(), rel=1e-6)
    steps = [(states[end] - states[start], bit) for start, end, bit in tesseract_edges(4)]
    edge = [torch.stack([step for step, changed in steps if changed == bit]).mean(0) for bit in range(4)]
    cosines = [float(a @ b / a.norm() / b.norm()) for a, b in combinations(edge, 2)]
    assert found.angles.deg2rad().cos().tolist() == pytest.approx(cosines)


def test_likeness_is_the_cosine_to_the_nearest_ideal_direction():
    directions = torch.nn.functional.normalize(torch.randn(50, 4, generator=generator(), dtype=torch.float64), dim=1)
    ideal = torch.tensor([direction for direction in product((-1, 0, 1), repeat=4) if any(direction)]).double()
    cosines = directions @ torch.nn.functional.normalize(ideal, dim=1).mT
    for count in range(1, 5):
        nearest = cosines[:, ideal.abs().sum(1) == count].amax(1)
        assert torch.allclose(likeness(directions)[:, count - 1], nearest, atol=1e-14)
    assert sum(random_view_shares(4, 1000)) == pytest.approx(1)


def test_tesseract_edges_join_corners_that_differ_in_one_bit():
    edges, signs = tesseract_edges(4), corners(4)
    assert len(set(edges)) == 32
    for start, end, bit in edges:
        assert (signs[start] != signs[end]).nonzero().flatten().tolist() == [bit]


def test_geometry_rejects_states_without_a_shape():
    with pytest.raises(ValueError, match="3 to 4 bits"):
        geometry(torch.zeros(15, 5))
    with pytest.raises(ValueError, match="NaN"):
        geometry(torch.full((16, 5), torch.nan))
    with pytest.raises(ValueError, match="less than 3 dimensions"):
        hull_corners(torch.cat([torch.rand(9, 2), torch.zeros(9, 1)], 1))


def test_a_transferred_reservoir_differs_only_in_its_initial_readout(tmp_path):
    before, after = train_transferred(TINY, 0, tmp_path, keep=[0])
    fresh = TINY.reservoir(0)
    for name in ("recurrent", "drive", "feedback", "bias"):
        assert torch.equal(after.cell.get_parameter(name), fresh.get_parameter(name))
    assert torch.equal(before.cell.recurrent, fresh.recurrent)
    assert torch.equal(before.cell.drive, fresh.drive[:, :2])
    assert torch.equal(before.cell.get_parameter("feedback"), fresh.get_parameter("feedback")[:, :2])
    assert before.cell.get_parameter("readout").abs().sum() > 0
    assert torch.equal(after.snapshots[0][:2], before.cell.get_parameter("readout"))
    assert not after.snapshots[0][2].any()
    with pytest.raises(ValueError, match="two bits or more"):
        train_transferred(replace(TINY, bits=1), 0, tmp_path)


@pytest.mark.parametrize("phi", ["tanh", "logistic"])
def test_perturbed_outputs_match_networks_with_noisy_weights(phi):
    """The reference is one reservoir per level with the dense W_r + eta G, stepped in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cell = EchoState(3, 30, 3, nonlinearity=phi, input_scale=5.0).double()
        torch.nn.init.normal_(cell.get_parameter("readout"), std=0.1)
        noise, xs = torch.randn(30, 30).double(), torch.randn(50, 4, 3).double()
    levels = (0.0, 0.02, 0.1)
    found = perturbed_outputs(cell, noise, levels, xs)
    for place, eta in enumerate(levels):
        noisy = EchoState.from_weights(
            cell.recurrent + eta * noise,
            cell.drive,
            feedback=cell.feedback,
            readout=cell.readout,
            leak=cell.leak,
            nonlinearity=phi,
        )
        state = noisy.initial_state(4)
        for t, x in enumerate(xs):
            state = noisy(x, state)
            assert torch.allclose(noisy.read(noisy.output(state)), found[t, place], atol=1e-12)
    assert (found[-1, 0] - found[-1, 2]).abs().max() > 0.01
    with pytest.raises(ValueError, match="shape"):
        perturbed_outputs(cell, noise[:5, :5], levels, xs)
    with pytest.raises(ValueError, match="current"):
        perturbed_outputs(EchoState(3, 30, 3, form="rate"), noise, levels, xs)


def test_perturbed_outputs_without_noise_are_those_of_the_reservoir(tmp_path):
    recipe = replace(TINY, units=150, steps=2000)
    trained = train_transferred(recipe, 0, tmp_path)[1].cell
    batch, noise = recipe.test(0), torch.zeros(150, 150)
    outputs = perturbed_outputs(trained, noise, (0.0, 1.0), batch.inputs)
    scores = score_reservoir(trained, recipe, batch)
    for level in range(2):  # in float32, sums in another order differ, and the difference grows with time
        assert torch.allclose(outputs[:50, level], scores["outputs"][:50], atol=1e-5)
    last = perturbed_outputs(trained, noise, (0.0,), writing_pulses(recipe, 50))[-1, 0]
    assert torch.allclose(last, measure_memories(trained, recipe, 50).outputs, atol=1e-5)


def noise_trial(kind, mse, held, seed=0, **changes):
    """Return a finished trial of the noise study with these errors and counts."""
    settings = {**Recipe(bits=4).settings(), "kind": kind, "levels": (0.0, 0.01, 0.03), **changes}
    return Finished(Trial(kind, settings, seed), {"mse": mse, "held": held})


def test_error_area_and_half_level_by_hand():
    finished = noise_trial("tanh", [[0.0, 1.0, 3.0], [0.0, 1.0, 1.0]], [[16, 12, 4], [16, 16, 2]])
    assert error_area(finished) == pytest.approx((0.005 + 0.03) / 0.03)
    assert error_area(finished, 1.0) == pytest.approx((0.005 + 0.02) / 0.03)
    assert half_level(finished) == pytest.approx(0.01 + 0.02 * 6 / 11)  # the mean count falls from 14 to 3
    assert half_level(noise_trial("tanh", [[0.0] * 3], [[8, 8, 8]])) == 0
    assert half_level(noise_trial("tanh", [[0.0] * 3], [[16, 12, 9]])) == inf


def test_the_noise_study_compares_ratios_by_seed():
    held = [[16, 10, 2]]
    results = [
        noise_trial(kind, [[0.0, error, 2 * error]], held, seed)
        for seed, errors in enumerate(((0.5, 0.2, 0.9), (0.5, 0.6, 0.4)))
        for kind, error in zip(flipflop_noise.KINDS, errors, strict=True)
    ]
    rows = flipflop_noise.STUDY.summarise(results)
    assert [row.successes for row in rows[:4]] == [1] * 4  # each claim holds for one seed
    assert {row.judgement.obstacle for row in rows[:4]} == {Obstacle.UNDECIDED}
    assert {row.verdict for row in rows[4:]} == {Verdict.NOT_COMPARED}
    stubborn = [*results, noise_trial("tanh", [[0.0, 0.1, 0.1]], [[16, 16, 15]], 2)]
    halves = next(
        row for row in flipflop_noise.STUDY.summarise(stubborn) if row.quantity == "tanh: eta that leaves half"
    )
    assert halves.ours == "0.015 +- 0; above 0.03 in 1 of 3"
    smaller = [
        replace(finished, trial=replace(finished.trial, settings={**finished.trial.settings, "units": 100}))
        for finished in results
    ]
    assert {row.verdict for row in flipflop_noise.STUDY.summarise(smaller)} == {Verdict.NOT_COMPARED}
    assert flipflop_noise.STUDY.figure(results).axes


@pytest.mark.parametrize(
    ("ratios", "alike", "less"),
    [
        ((1.1, 1.11, 1.12, 1.1), Verdict.MATCHES, Verdict.DIFFERS),
        ((0.5, 0.51, 0.52, 0.5), Verdict.DIFFERS, Verdict.MATCHES),
        ((0.5, 1.1, 2.5, 0.9), Verdict.NOT_COMPARED, Verdict.NOT_COMPARED),
    ],
)
def test_a_ratio_is_judged_by_the_range_of_its_mean(ratios, alike, less):
    claims = flipflop_noise.STUDY.claims[:2]
    assert [judge_ratios(claim, ratios, comparisons=4).verdict for claim in claims] == [alike, less]


def test_networks_of_the_released_recipe_have_published_conditions():
    preset = flipflop_noise.STUDY.presets["published"]
    trials = flipflop_noise.STUDY.trials(preset.settings, (0,))
    assert all(map(flipflop_noise.STUDY.as_published, trials))
    batch = Recipe.released(4).task(30_000).batch(1, 0, 0)
    assert batch.mask.all()
    assert 0.7 < (batch.inputs != 0).float().mean() / (0.02 / 4 * 11) < 1.1  # overlapping pulses are cut short
    assert len(writing_pulses(Recipe.released(2), 100)) == 2 * 60 + 100


def transfer_trial(fresh, transferred, seed):
    """Return a finished trial of the transfer study whose networks have these directions of view."""
    result = {"steps": [1, 2, 3, 4], "readouts_apart": [4.0, 3.0, 2.0, 1.0], "moved": 0.1, "views_apart": 5.0}
    for name, direction in (("fresh", fresh), ("transferred", transferred)):
        record = flipflop_transfer._geometry_record(geometry(seen_along(direction)))
        result[name] = {
            "held": 16,
            "mse": 0.0,
            "accuracy": 1.0,
            "moving": 0.0,
            "early_error": 0.1,
            "held_after": [16] * 4,
            "currents": record,
            "rates": record,
        }
    return Finished(Trial("4 bits", flipflop_transfer.STUDY.presets["cpu"].settings, seed), result)


def test_the_transfer_study_compares_the_bits_along_the_view():
    prism, cuboid, cube = (1, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 1)
    study = flipflop_transfer.STUDY
    results = [transfer_trial(prism, cuboid, 0), transfer_trial(prism, cube, 1), transfer_trial(prism, prism, 2)]
    rows = {row.quantity: row for row in study.summarise(results)}
    assert rows["fresh: bits along the view"].verdict == "matches"
    assert rows["fresh: bits along the view"].ours == "3, 3, 3"
    assert str(rows["transferred: bits along the view"].judgement) == "matches in 2 of 3"
    assert "1 nearest to a hexagonal prism" in rows["transferred: bits along the view"].remark
    assert rows["fresh: corners of the hull"].ours == "12"
    assert study.figure(results).axes
    for finished in results:
        del finished.result["fresh"]["currents"], finished.result["moved"]
    rows = {row.quantity: row for row in study.summarise(results)}
    assert "fresh: bits along the view" not in rows
    assert rows["fresh: memories held"].ours == "16"
    assert study.figure(results).axes  # a network that does not hold all memories has no shape


@pytest.mark.parametrize("study", [flipflop_transfer.STUDY, flipflop_noise.STUDY], ids=lambda study: study.name)
def test_trained_reservoirs_are_reused_and_only_table_1_is_compared(study, tmp_path):
    settings = {**TINY.settings(), "left_alone": 20, "levels": (0.0, 0.1), "draws": 2}
    trial = study.trials(settings, [0])[-1]
    first = study.run(trial, tmp_path, progress=False)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}
    assert len(files) >= 2
    assert study.run(trial, tmp_path, progress=False) == first
    assert {path: path.stat().st_mtime_ns for path in files} == files
    damaged = next(iter(files))
    content = damaged.read_bytes()
    for wrong in (content[:100], content[:-4], content.replace(b'"errors"', b'"errrrs"')):
        damaged.write_bytes(wrong)
        with pytest.raises(ValueError, match=f"{damaged.name} is (damaged|truncated)"):
            study.run(trial, tmp_path, progress=False)
    assert not study.as_published(trial)
    for preset in ("cpu", "paper"):
        assert all(study.as_published(trial) for trial in study.trials(study.presets[preset].settings, [0]))


def test_a_chaotic_reservoir_is_searched_before_and_after_its_training(tmp_path):
    study = flipflop_evolution.STUDY
    published = study.presets["published"].settings["cases"]
    assert [study.as_published(trial) for trial in study.trials({"cases": published}, (0,))] == [True]
    small = {**Recipe(bits=1, units=30, gain=2.0, steps=100, test_steps=200).settings(), "at": [0, 50, 100]}
    trial = study.trials({"cases": {next(iter(published)): small}}, (0,))[0]
    result = study.run(trial, tmp_path, progress=False)
    assert result["origin"].keys() == {"0", "50", "100"}
    assert result["points_before"] + result["missing_before"] > 1  # a chaotic network has several
    finished = Finished(trial, result, study.environment(trial, tmp_path))
    rows = {row.quantity.partition(": ")[2]: row for row in study.summarise([finished])}
    assert rows[flipflop_evolution.UNSTABLE_FROM].measured == (0,)
    assert rows[flipflop_evolution.STABLE_AFTER].measured == (result["stable_after"],)
    assert study.figure([finished]) is None


def test_orbits_leave_an_unstable_origin_and_do_not_return(tmp_path):
    trials = homoclinic.STUDY.trials(homoclinic.STUDY.presets["smoke"].settings, (0,))
    result = homoclinic.STUDY.run(trials[0], tmp_path, progress=False)
    assert result["orbits"] == 2 * min(result["unstable"], homoclinic.DIRECTIONS) > 0  # all are real in this network
    assert (result["returned"], result["leading"] > 0) == (0, True)
    assert {row.verdict for row in homoclinic.STUDY.summarise([Finished(trials[0], result)])} == {Verdict.NOT_COMPARED}
    published = homoclinic.STUDY.trials(homoclinic.STUDY.presets["cpu"].settings, (0,))
    assert [homoclinic.STUDY.as_published(trial) for trial in published] == [True, True, False]


def test_an_orbit_that_comes_back_is_counted():
    torch.manual_seed(0)
    cell = EchoState(1, 3, 1, gain=0.1)
    near, far = torch.full((1, 3), 1e-3), torch.full((1, 3), 5.0)
    assert homoclinic._returns(cell, near)["returned"] == 0  # it never leaves
    assert homoclinic._returns(cell, far)["returned"] == 1
    assert homoclinic._returns(cell, far[:0]) == {"returned": 0, "end": 0.0}


def test_modes_of_the_origin_are_those_of_the_jacobian():
    torch.manual_seed(0)
    cell = EchoState(2, 6, 2, tau=10.0)
    torch.nn.init.normal_(cell.get_parameter("readout"))
    step = torch.func.jacrev(lambda x: cell(torch.zeros(1, 2), x[None])[0])(torch.zeros(6))
    expected = 10 * (torch.linalg.eigvals(step.double()) - 1)
    found = homoclinic.origin_modes(cell)[0]
    assert torch.allclose(found.abs().sort().values, expected.abs().sort().values, atol=1e-4)
