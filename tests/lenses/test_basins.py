"""Basins of fixed points and cycles, against maps whose basins are known."""

import pytest
import torch

import mnemoscope as ms

CYCLE = [[0.5, 0.0], [-0.5, 0.0]]


@pytest.fixture(scope="module")
def wells():
    """Two wells along x at +-0.96, and a strong contraction along y."""
    step = ms.adapt(lambda u, h: torch.stack([torch.tanh(2 * h[:, 0]), 0.1 * h[:, 1]], 1), state_size=2, bounds=(-3, 3))
    return ms.Dynamics(step)


@pytest.fixture(scope="module")
def flipping():
    """A stable cycle of period 2 at +-0.5 inside |x| < 2, from beyond which states diverge."""

    def step(u, h):
        size = h[:, :1].abs()
        moved = torch.where(size < 2, 0.5 + 0.3 * (size - 0.5), 3 * size)
        return torch.cat([-h[:, :1].sign() * moved, 0.1 * h[:, 1:]], 1)

    return ms.Dynamics(ms.adapt(step, state_size=2))


def test_the_share_that_returns_is_the_share_of_directions_inside_the_basin(wells):
    fp = ms.find_fixed_points(wells)
    sizes = [0.5, 1.5, 3.0]
    found = ms.measure_basin(wells, fp, sizes, directions={"x": torch.eye(2)[0]}, trials=200)
    # a direction leads out if its x component is below -0.957 / size, with x = size * cos(angle)
    expected = [1 - float(torch.acos(torch.tensor(min(1, 0.957504 / size)))) / torch.pi for size in sizes]
    low, high = found.interval
    for row in range(2):
        assert all(a <= share <= b for a, share, b in zip(low[row], expected, high[row], strict=True))
    assert found.directions == ("random", "+x", "-x")
    inner = found.states[:, 0] > 0
    assert found.share[inner, 1].tolist() == [[1, 1, 1]]  # further to the right
    assert found.share[inner, 2].tolist() == [[1, 0, 0]]
    assert torch.equal(found.elsewhere, found.trials.unsqueeze(2) - found.returned)
    assert "-x from 1.5 on" in found.summary()
    assert not found.undecided.any()
    assert len(found.figure().axes) == 2


def test_a_radius_is_where_half_return(wells):
    step = ms.adapt(lambda u, h: torch.where(h.norm(dim=1, keepdim=True) < 1, 0.5 * h, 2 * h), state_size=3)
    system = ms.Dynamics(step)
    fp = ms.find_fixed_points(system, torch.zeros(1, 3))
    found = ms.measure_basin(system, fp, [0.5, 0.9, 1.1], trials=10)
    assert found.radius.tolist() == [pytest.approx(1.0)]
    assert float(found.undecided[0, 0, 2]) == 1  # they diverge
    assert "up to a size of 1." in found.summary()
    assert "100% of the starts arrived at no given attractor" in found.summary()
    assert "less than half" in ms.measure_basin(system, fp, [1.1], trials=10).summary()
    assert "at least 72%" in ms.measure_basin(system, fp, [0.5], trials=10).summary()


@pytest.mark.parametrize("lens", ["cycles", "attractors"])
def test_cycles_are_perturbed_at_every_state(flipping, lens):
    if lens == "cycles":
        given = ms.find_cycles(flipping, 2, torch.tensor(CYCLE))
    else:
        options = {"transient": 100, "steps": 40, "max_period": 4, "progress": False}
        given = ms.find_attractors(flipping, torch.tensor([[0.4, 0.1]]), **options)
    found = ms.measure_basin(flipping, given, [0.2, 2.0], directions={"x": torch.eye(2)[0]}, trials=20)
    assert found.periods.tolist() == [2]
    assert found.trials.tolist() == [[20, 2, 2]]
    assert found.share[0, 1:].tolist() == [[1, 0.5], [1, 0.5]]  # one of its states is pushed beyond 2
    assert found.summary().startswith("Cycle of period 2, 0: ")


def test_slow_starts_are_undecided():
    system = ms.Dynamics(ms.adapt(lambda u, h: 0.999 * h, state_size=2))
    found = ms.measure_basin(system, ms.find_fixed_points(system), [1.0], trials=5, steps=50)
    assert found.undecided.flatten().tolist() == [1]


def test_flows_are_integrated():
    flow = ms.Dynamics(ms.adapt(lambda u, h: h - h**3, state_size=1), continuous=True)
    fp = ms.find_fixed_points(flow, torch.tensor([[-1.1], [0.1], [1.2]]))
    found = ms.measure_basin(flow, fp, [0.5, 1.5], directions={"x": torch.ones(1)}, trials=4, dt=0.2)
    assert sorted(found.share[:, 1].tolist()) == [[1, 0], [1, 1]]


def test_wrong_arguments_of_a_basin_raise(wells):
    fp = ms.find_fixed_points(wells)
    unstable = fp[[kind != "stable" for kind in fp.kind].index(True)]
    three = ms.Dynamics(ms.adapt(lambda u, h: 0.5 * h, state_size=3))
    for call, message in (
        (lambda: ms.measure_basin(wells, fp, []), "that rise"),
        (lambda: ms.measure_basin(wells, fp, [0.2, 0.1]), "that rise"),
        (lambda: ms.measure_basin(wells, fp, [0.1], steps=10), "steps must be .*11"),
        (lambda: ms.measure_basin(wells, unstable, [0.1]), "None of the given"),
        (lambda: ms.measure_basin(three, fp, [0.1]), "have 2 numbers"),
        (lambda: ms.measure_basin(wells, fp, [0.1], directions={"x": torch.zeros(2)}), "length above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
