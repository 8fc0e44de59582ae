"""What the studies of flip-flop reservoirs claim: shapes with known answers, noise the slow way, rules by hand."""

from dataclasses import replace
from itertools import combinations, product
from math import inf

import pytest
import torch

from mnemoscope.cells import EchoState
from mnemoscope.replication import Finished
from mnemoscope.replication.claims import Verdict
from mnemoscope.replication.study import Trial
from mnemoscope.studies.jang import flipflop_noise, flipflop_transfer
from mnemoscope.studies.jang.flipflop_noise import area, half_level, perturbed
from mnemoscope.studies.jang.reservoirs import Recipe, corners, transferred, tried, writing, written
from mnemoscope.studies.jang.tesseract import by_chance, geometry, hull_corners, likeness, tesseract_edges

TINY = Recipe(bits=3, units=40, steps=400, test_steps=200)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def seen_along(direction, noise=0.0, size=60, seed=0):
    """A regular tesseract turned into `size` dimensions, flattened such that it is seen along a direction of bits."""
    d = torch.tensor(direction, dtype=torch.float64)
    d = d / d.norm()
    E = torch.eye(len(d), dtype=torch.float64) - 0.5 * torch.outer(d, d)
    turn = torch.linalg.qr(torch.randn(size, len(d), generator=generator(seed), dtype=torch.float64))[0]
    states = corners(len(d)).double() @ E @ turn.mT
    return states + noise * torch.randn(states.shape, generator=generator(seed + 1), dtype=torch.float64) + 3.0


@pytest.mark.parametrize(
    ("direction", "shape", "hull"),
    [((0, 0, 1, 0), "cube", 8), ((1, 0, 0, -1), "cuboid", 8), ((1, -1, 0, 1), "hexagonal prism", 12),
     ((1, 1, -1, 1), "rhombic dodecahedron", 14), ((0, 1, 0), "square", 4), ((1, 0, -1), "rectangle", 4),
     ((1, 1, 1), "hexagon", 6)],
)  # fmt: skip
def test_ideal_shapes_are_told_apart(direction, shape, hull):
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


@pytest.mark.parametrize("seed", range(5))
def test_shapes_are_told_apart_in_noise(seed):
    """The noise has a length of 0.01 sqrt(60) = 8 % of half an edge."""
    names = [geometry(seen_along(d, 0.01, seed=seed)).shape for d in ((0, 1, 0, 0), (0, 1, 1, 0), (1, 1, 0, 1))]
    assert names == ["cube", "cuboid", "hexagonal prism"]
    hulls = [geometry(seen_along(d, 0.003, seed=seed)).hull for d in ((0, 1, 0, 0), (0, 1, 1, 0), (1, 1, 0, 1))]
    assert hulls == [8, 8, 12]


def test_a_short_edge_hides_its_own_bit():
    found = geometry(corners(4) @ torch.diag(torch.tensor([2.0, 2.0, 2.0, 1.0])))
    assert found.direction.tolist() == pytest.approx([0, 0, 0, 1], abs=1e-12)
    assert found.last_edge == pytest.approx(0.5)
    assert found.edges.tolist() == pytest.approx([4, 4, 4, 2])
    assert found.angles.tolist() == pytest.approx([90] * 6)


def test_distances_one_by_one():
    states = torch.randn(16, 7, generator=generator(), dtype=torch.float64)
    found, signs = geometry(states), corners(4)
    by_bits, by_edge = {count: [] for count in range(1, 5)}, {bit: [] for bit in range(4)}
    for one, other in combinations(range(16), 2):
        differ = [bit for bit in range(4) if signs[one, bit] != signs[other, bit]]
        distance = (states[one] - states[other]).square().sum().sqrt().item()
        by_bits[len(differ)].append(distance)
        if len(differ) == 1:
            by_edge[differ[0]].append(distance)
    assert [len(own) for own in by_edge.values()] == [8] * 4
    assert found.edges.tolist() == pytest.approx([sum(own) / 8 for own in by_edge.values()])
    assert found.distances.tolist() == pytest.approx([sum(own) / len(own) for own in by_bits.values()])
    spread = torch.tensor([torch.tensor(own).double().std(correction=0) for own in by_bits.values()])
    assert found.deviations.tolist() == pytest.approx(spread.tolist(), rel=1e-6)
    assert found.edge_spread == pytest.approx(float(spread[0]) / found.distances[0].item(), rel=1e-6)
    edge = [torch.stack([states[other] - states[one] for one, other, own in tesseract_edges(4) if own == bit]).mean(0)
            for bit in range(4)]  # fmt: skip
    cosines = [float(a @ b / a.norm() / b.norm()) for a, b in combinations(edge, 2)]
    assert found.angles.deg2rad().cos().tolist() == pytest.approx(cosines)


def test_likeness_against_all_ideal_directions():
    directions = torch.nn.functional.normalize(torch.randn(50, 4, generator=generator(), dtype=torch.float64), dim=1)
    ideal = torch.tensor([one for one in product((-1, 0, 1), repeat=4) if any(one)]).double()
    cosines = directions @ torch.nn.functional.normalize(ideal, dim=1).mT
    for count in range(1, 5):
        nearest = cosines[:, ideal.abs().sum(1) == count].amax(1)
        assert torch.allclose(likeness(directions)[:, count - 1], nearest, atol=1e-14)
    assert sum(by_chance(4, 1000)) == pytest.approx(1)


def test_edges_of_a_tesseract():
    edges, signs = tesseract_edges(4), corners(4)
    assert len(set(edges)) == 32
    for one, other, bit in edges:
        assert (signs[one] != signs[other]).nonzero().flatten().tolist() == [bit]


def test_what_has_no_shape_is_refused():
    with pytest.raises(ValueError, match="3 or 4 bits"):
        geometry(torch.zeros(15, 5))
    with pytest.raises(ValueError, match="NaN"):
        geometry(torch.full((16, 5), torch.nan))
    with pytest.raises(ValueError, match="less than 3 dimensions"):
        hull_corners(torch.cat([torch.rand(9, 2), torch.zeros(9, 1)], 1))


def test_a_transferred_reservoir_differs_by_its_beginning_alone(tmp_path):
    before, after = transferred(TINY, 0, tmp_path, keep=[0])
    same = TINY.reservoir(0)
    for name in ("recurrent", "drive", "feedback", "bias"):
        assert torch.equal(after.cell.get_parameter(name), same.get_parameter(name))
    assert torch.equal(before.cell.recurrent, same.recurrent)
    assert torch.equal(before.cell.drive, same.drive[:, :2])
    assert torch.equal(before.cell.get_parameter("feedback"), same.get_parameter("feedback")[:, :2])
    assert before.cell.get_parameter("readout").abs().sum() > 0
    assert torch.equal(after.snapshots[0][:2], before.cell.get_parameter("readout"))
    assert not after.snapshots[0][2].any()
    with pytest.raises(ValueError, match="two bits or more"):
        transferred(replace(TINY, bits=1), 0, tmp_path)


@pytest.mark.parametrize("phi", ["tanh", "logistic"])
def test_noise_against_networks_that_have_it(phi):
    """Every level as a reservoir of its own with the dense W_r + eta G, in float64 and by its own step."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        cell = EchoState(3, 30, 3, nonlinearity=phi, input_scale=5.0).double()
        torch.nn.init.normal_(cell.get_parameter("readout"), std=0.1)
        noise, xs = torch.randn(30, 30).double(), torch.randn(50, 4, 3).double()
    levels = (0.0, 0.02, 0.1)
    found = perturbed(cell, noise, levels, xs)
    for place, eta in enumerate(levels):
        own = EchoState.from_weights(cell.recurrent + eta * noise, cell.drive, feedback=cell.feedback,
                                   readout=cell.readout, leak=cell.leak, nonlinearity=phi)  # fmt: skip
        state = own.initial_state(4)
        for t, x in enumerate(xs):
            state = own(x, state)
            assert torch.allclose(own.read(own.output(state)), found[t, place], atol=1e-12)
    assert (found[-1, 0] - found[-1, 2]).abs().max() > 0.01
    with pytest.raises(ValueError, match="shape"):
        perturbed(cell, noise[:5, :5], levels, xs)
    with pytest.raises(ValueError, match="current"):
        perturbed(EchoState(3, 30, 3, form="rate"), noise, levels, xs)


def test_without_noise_all_is_as_tried(tmp_path):
    recipe = replace(TINY, units=150, steps=2000)
    taught = transferred(recipe, 0, tmp_path)[1].cell
    batch, noise = recipe.test(0), torch.zeros(150, 150)
    outputs = perturbed(taught, noise, (0.0, 1.0), batch.inputs)
    as_tried = tried(taught, recipe, batch)
    for level in range(2):  # float32, and sums in another order, of which a network makes more with time
        assert torch.allclose(outputs[:50, level], as_tried["outputs"][:50], atol=1e-5)
    last = perturbed(taught, noise, (0.0,), writing(recipe, 50))[-1, 0]
    assert torch.allclose(last, written(taught, recipe, 50).outputs, atol=1e-5)


def shaken(kind, mse, held, seed=0, **changes):
    settings = {**Recipe(bits=4).settings(), "kind": kind, "levels": (0.0, 0.01, 0.03), **changes}
    return Finished(Trial(kind, settings, seed), {"mse": mse, "held": held})


def test_area_and_half():
    one = shaken("tanh", [[0.0, 1.0, 3.0], [0.0, 1.0, 1.0]], [[16, 12, 4], [16, 16, 2]])
    assert area(one) == pytest.approx((0.005 + 0.03) / 0.03)
    assert area(one, 1.0) == pytest.approx((0.005 + 0.02) / 0.03)
    assert half_level(one) == pytest.approx(0.01 + 0.02 * 6 / 11)  # from 14 to 3, by way of 8
    assert half_level(shaken("tanh", [[0.0] * 3], [[8, 8, 8]])) == 0
    assert half_level(shaken("tanh", [[0.0] * 3], [[16, 12, 9]])) == inf


def test_verdicts_on_noise():
    held = [[16, 10, 2]]
    results = [
        shaken(kind, [[0.0, error, 2 * error]], held, seed)
        for seed, errors in enumerate(((0.5, 0.2, 0.9), (0.5, 0.6, 0.4)))
        for kind, error in zip(flipflop_noise.KINDS, errors, strict=True)
    ]
    rows = flipflop_noise.STUDY.summarise(results)
    assert [str(row.judgement) for row in rows[:4]] == ["matches in 1 of 2"] * 4  # no seed is alike and less
    assert {row.verdict for row in rows[4:]} == {Verdict.NOT_COMPARED}
    stubborn = [*results, shaken("tanh", [[0.0, 0.1, 0.1]], [[16, 16, 15]], 2)]
    halves = next(
        row for row in flipflop_noise.STUDY.summarise(stubborn) if row.quantity == "tanh: eta that leaves half"
    )
    assert halves.ours == "0.015 +- 0; above 0.03 in 1 of 3"
    smaller = [replace(one, trial=replace(one.trial, settings={**one.trial.settings, "units": 100})) for one in results]
    assert {row.verdict for row in flipflop_noise.STUDY.summarise(smaller)} == {Verdict.NOT_COMPARED}
    assert flipflop_noise.STUDY.figure(results).axes


def shaped(fresh, later, seed):
    result = {"steps": [1, 2, 3, 4], "readouts_apart": [4.0, 3.0, 2.0, 1.0], "moved": 0.1, "views_apart": 5.0}
    for name, direction in (("fresh", fresh), ("transferred", later)):
        told = flipflop_transfer._told(geometry(seen_along(direction)))
        result[name] = {"held": 16, "mse": 0.0, "accuracy": 1.0, "moving": 0.0, "early_error": 0.1,
                        "held_after": [16] * 4, "currents": told, "rates": told}  # fmt: skip
    return Finished(Trial("4 bits", flipflop_transfer.STUDY.presets["cpu"].settings, seed), result)


def test_verdicts_on_shapes():
    prism, cuboid, cube = (1, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 1)
    study = flipflop_transfer.STUDY
    results = [shaped(prism, cuboid, 0), shaped(prism, cube, 1), shaped(prism, prism, 2)]
    rows = {row.quantity: row for row in study.summarise(results)}
    assert rows["fresh: bits along the view"].verdict == "matches"
    assert rows["fresh: bits along the view"].ours == "3, 3, 3"
    assert str(rows["transferred: bits along the view"].judgement) == "matches in 2 of 3"
    assert "1 nearest to a hexagonal prism" in rows["transferred: bits along the view"].remark
    assert rows["fresh: corners of the hull"].ours == "12"
    assert study.figure(results).axes
    for one in results:
        del one.result["fresh"]["currents"], one.result["moved"]
    rows = {row.quantity: row for row in study.summarise(results)}
    assert "fresh: bits along the view" not in rows
    assert rows["fresh: memories held"].ours == "16"
    assert study.figure(results).axes  # of one that does not hold all there is no shape


@pytest.mark.parametrize("study", [flipflop_transfer.STUDY, flipflop_noise.STUDY], ids=lambda study: study.name)
def test_lessons_are_read_again_and_only_table_1_is_compared(study, tmp_path):
    settings = {**TINY.settings(), "left_alone": 20, "levels": (0.0, 0.1), "draws": 2}
    trial = study.trials(settings, [0])[-1]
    first = study.run(trial, tmp_path, progress=False)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")}
    assert len(files) >= 2
    assert study.run(trial, tmp_path, progress=False) == first
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert not study.as_published(trial)
    for preset in ("cpu", "paper"):
        assert all(study.as_published(one) for one in study.trials(study.presets[preset].settings, [0]))
