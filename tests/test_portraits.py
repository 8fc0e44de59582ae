"""Fixed points followed over a parameter, against families whose bifurcations are known."""

import json
import os
import re
from math import atanh, cos, sin, sqrt

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.analysis import Evolution, along_inputs, between, find_fixed_points
from mnemoscope.analysis.portraits.leading import leading_eigenvalues
from mnemoscope.analysis.portraits.tracing import Tracer
from mnemoscope.cells import Elman
from mnemoscope.report import render_frame
from mnemoscope.report.evolution import evolution_section

SLOW = pytest.mark.skipif("MNEMOSCOPE_SLOW" not in os.environ, reason="takes long; set MNEMOSCOPE_SLOW=1 to run it")

LINE = torch.linspace(-1.5, 1.5, 13, dtype=torch.float64)[:, None]


def maps(step, size=1, **options):
    """The family of maps h' = step(h, parameter)."""
    return lambda parameter: ms.Dynamics(
        ms.adapt(lambda x, h: step(h, parameter), state_size=size, bounds=None), **options
    )


def turned(h, mu):
    """A rotation by 0.9 that grows from mu = 0 on."""
    R = torch.tensor([[cos(0.9), -sin(0.9)], [sin(0.9), cos(0.9)]], dtype=torch.float64)
    return (1 + mu - h.square().sum(1, keepdim=True)) * (h @ R.T)


NORMAL_FORMS = {
    "saddle-node": (lambda h, mu: h + mu - h**2, 1, "appeared", "+1", 2),
    "pitchfork": (lambda h, mu: h + mu * h - h**3, 1, "appeared", "+1", 3),
    "transcritical": (lambda h, mu: h + mu * h - h**2, 1, "changed stability", "+1", 2),
    "flip": (lambda h, mu: -(1 + mu) * h + 0.1 * h**3, 1, "changed stability", "-1", 1),
    "Neimark-Sacker": (turned, 2, "changed stability", "complex pair", 1),
}


@pytest.mark.parametrize("at", [(-0.31, 0.0, 0.29), (-0.1, 0.13)], ids=str)
@pytest.mark.parametrize("name", NORMAL_FORMS)
def test_normal_forms_are_named_and_located(name, at):
    step, size, change, crossing, branches = NORMAL_FORMS[name]
    starts = LINE if size == 1 else torch.randn(12, 2, generator=torch.Generator().manual_seed(0)).double()
    seen = ms.follow(maps(step, size), at, starts=starts, tolerance=1e-4)
    assert [(event.name, event.change, event.crossing) for event in seen.events] == [(name, change, crossing)]
    event = seen.events[0]
    assert event.low <= 0 <= event.high <= event.low + 1.01e-4
    assert len(event.branches) == branches
    shifted = 0.0 in at and name in ("saddle-node", "pitchfork", "transcritical")
    assert any("snapshot lies at a bifurcation" in note for note in seen.notes) == shifted  # who is who, at +1 itself?


def test_a_subcritical_pitchfork_takes_two_points_away():
    seen = ms.follow(maps(lambda h, mu: h + mu * h + h**3), [-0.3, 0.2], starts=LINE, tolerance=1e-4)
    (event,) = seen.events
    assert (event.name, event.change) == ("pitchfork", "vanished")
    assert event.low <= 0 <= event.high
    assert [seen.count(0), seen.count(1)] == [3, 1]


def test_a_flow_has_a_hopf_bifurcation_and_a_fold_at_zero():
    def hopf(h, mu):
        x, y = h.unbind(1)
        r2 = x**2 + y**2
        return torch.stack([mu * x - 3 * y - r2 * x, 3 * x + mu * y - r2 * y], 1)

    seen = ms.follow(maps(hopf, 2, continuous=True), [-1, 1.1], starts=torch.randn(8, 2).double(), tolerance=1e-4)
    assert [(event.name, event.crossing) for event in seen.events] == [("Hopf", "imaginary pair")]
    assert seen.events[0].low <= 0 <= seen.events[0].high
    fold = ms.follow(maps(lambda h, mu: mu - h**2, continuous=True), [-1, 1.1], starts=LINE, tolerance=1e-4)
    assert [(event.name, event.crossing) for event in fold.events] == [("saddle-node", "0")]
    assert fold.events[0].low <= 0 <= fold.events[0].high


def symmetric_network(gain):
    """Tanh units with eigenvalues 1 and 0.5 of the matrix."""
    W = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
    return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(gain * h @ W), state_size=2, bounds=(-1, 1)))


def test_a_symmetric_network_forks_at_gain_one_and_two():
    """Along (1, 1) the points solve x = tanh(g x), along (1, -1) x = tanh(g x / 2); more fork off those later."""
    at = [0.5, 0.9, 1.3, 1.8, 2.2]
    seen = ms.follow(symmetric_network, at, tolerance=1e-4)
    assert seen.symmetric
    assert all(event.name == "pitchfork" and "symmetry" in event.sentence for event in seen.events)
    assert [event.at for event in seen.events[:2]] == pytest.approx([1, 2], abs=1e-4)
    assert seen.index_sum.tolist() == [1] * 5
    x = torch.linspace(0.1, 1, 200_001, dtype=torch.float64)
    root = x[(torch.tanh(1.8 * x) - x).abs().argmin()]
    states = seen.states[seen.points(3)]
    assert float((states - root).norm(dim=1).min()) < 1e-5  # the grid's step
    assert float((states + root).norm(dim=1).min()) < 1e-5


def cusp(u):
    return ms.Dynamics(
        ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, bounds=(-1, 1)),
        torch.tensor([u], dtype=torch.float64),
    )


@pytest.mark.parametrize("at", [(-1, 0.1, 1), (-1, 1)], ids=str)
def test_hysteresis_has_two_folds_even_where_no_snapshot_lies_between(at):
    """x = tanh(2 x + u) folds where 2 (1 - x^2) = 1. Without a snapshot between, folds lead to the middle branch."""
    x = sqrt(0.5)
    fold = 2 * x - atanh(x)
    seen = ms.follow(cusp, at, tolerance=1e-4)
    assert [event.name for event in seen.events] == ["saddle-node", "saddle-node"]
    assert [event.change for event in seen.events] == ["appeared", "vanished"]
    for event, exact in zip(seen.events, (-fold, fold), strict=True):
        assert event.low <= exact <= event.high
    assert len(seen) == 3
    assert set(seen.events[0].branches) & set(seen.events[1].branches)  # the middle branch joins both folds
    assert seen.index_sum.tolist() == [1] * len(at)


def test_a_pair_that_lives_between_two_snapshots_is_not_seen_and_that_is_said():
    def bubble(h, mu):
        """Two points for |mu| < 0.1 near h = 0 and one near 2, which is always there."""
        return h - 0.2 * (h - 2) * (h**2 + mu**2 - 0.01)

    seen = ms.follow(maps(bubble), [-1, 1], starts=torch.tensor([[2.2]]).double())
    assert (len(seen), len(seen.events)) == (1, 0)
    assert "between two snapshots is not seen" in seen.summary()
    seen = ms.follow(maps(bubble), [-1, 0.01, 1], starts=torch.linspace(-1, 2.5, 15)[:, None].double(), tolerance=1e-4)
    assert [event.change for event in seen.events] == ["appeared", "vanished"]
    assert [event.at for event in seen.events] == pytest.approx([-0.1, 0.1], abs=1e-4)


def holds_three_bits(scale, size=12):
    """Three directions that hold a bit each, and noise that breaks the symmetry; all weights times a scale."""
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0][:, :3]
    noise = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    bias = torch.randn(size, generator=generator, dtype=torch.float64)
    cell = Elman(3, size).double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.connectivity.matrix.copy_(
            scale * (Q @ torch.diag(torch.tensor([2.5, 2.8, 3.1]).double()) @ Q.T + 0.3 * noise)
        )
        cell.drive.bias.copy_(scale * 0.05 * bias)
    return cell


TOGETHER = pytest.mark.xdist_group("growing")
"""In one process, which follows the network once."""


@pytest.fixture(scope="module")
def growing():
    return ms.follow(between([holds_three_bits(0), holds_three_bits(1)], [0, 1]), np.linspace(0, 1, 6).tolist())


@TOGETHER
def test_a_network_that_comes_to_hold_bits_has_index_sum_one_all_along(growing):
    assert growing.index_sum.tolist() == [1] * 6
    assert growing.count(0) == 1
    last = find_fixed_points(ms.Dynamics(holds_three_bits(1)))
    assert growing.count(-1) == len(last) > 10
    apart = torch.cdist(growing.states[growing.points(-1)], last.states)
    assert float(apart.min(0).values.max()) < 1e-6
    assert growing.unstable[growing.points(-1)].sort().values.tolist() == last.unstable.sort().values.tolist()
    assert not growing.notes
    assert not growing.missing
    born = [number for event in growing.events for number in event.branches if event.change == "appeared"]
    assert sorted([0, *born]) == list(range(len(growing)))  # each branch but the first has its birth


@SLOW
@TOGETHER
def test_events_do_not_depend_on_the_snapshots(growing):
    family = between([holds_three_bits(0), holds_three_bits(1)], [0, 1])
    finer = ms.follow(family, np.linspace(0, 1, 9).tolist())
    assert [event.name for event in finer.events] == [event.name for event in growing.events]
    for one, other in zip(finer.events, growing.events, strict=True):
        assert max(one.low, other.low) <= min(one.high, other.high) + 1e-12  # brackets of the same event overlap


@TOGETHER
def test_every_place_is_a_fixed_point_of_its_system(growing):
    family = between([holds_three_bits(0), holds_three_bits(1)], [0, 1])
    for row in range(0, len(growing.at), 7):
        system = family(float(growing.at[row]))
        assert float(system.residual(growing.states[row][None]).norm()) < 1e-11
        values = torch.linalg.eigvals(system.jacobian(growing.states[row][None])[0])
        assert int((values.abs() > 1).sum()) == int(growing.unstable[row])
        sign = torch.linalg.slogdet(torch.eye(12).double() - system.jacobian(growing.states[row][None])[0]).sign
        assert int(sign) == int(growing.index[row])


def test_what_a_search_missed_is_found_later_and_followed_back():
    """At the first snapshots the starts see one of three points; what is found later was there before."""

    def starts(at):
        return torch.tensor([[0.9]]).double() if at < 2 else LINE

    def family(gain):
        return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(gain * h + 0.05), state_size=1, bounds=(-1, 1)))

    late = ms.follow(family, [1.5, 1.7, 2.1], starts=starts)
    assert [late.count(snapshot) for snapshot in range(3)] == [3, 3, 3]
    assert late.index_sum.tolist() == [1, 1, 1]


def test_missing_points_are_told():
    """Starts that see two points of three, and no mid-points to help: the index sum tells."""

    class Two:
        def draw(self, dynamics, generator):
            return torch.tensor([[0.95], [-0.95]]).double()

    two = ms.analysis.Adaptive(initial=Two(), waves=1)
    seen = ms.follow(cusp, [-0.1, 0.1], starts=two)
    assert [seen.count(0), seen.count(1)] == [2, 2]
    assert seen.index_sum.tolist() == [2, 2]
    assert len(seen.missing) == 2
    assert "At 0.1 the index sum is 2 and must be 1: at least 1 point of index -1 missing." in seen.summary()
    assert not ms.follow(cusp, [-0.1, 0.1]).missing


def test_along_inputs_is_the_network_at_each_input():
    cell = torch.nn.GRU(2, 6)
    family = along_inputs(cell, torch.tensor([[0.0, 0.0], [1.0, -1.0], [1.0, 3.0]]), at=[0, 1, 3])
    seen = ms.follow(family, [0, 1.5, 3])
    direct = find_fixed_points(ms.Dynamics(cell, [1.0, 3.0]))
    assert float(torch.cdist(seen.states[seen.points(-1)], direct.states).min(0).values.max()) < 1e-6
    assert torch.allclose(family(2).input, torch.tensor([[1.0, 1.0]]).double())


def test_between_is_exact_at_the_snapshots_and_leaves_them_alone():
    cells = [torch.nn.RNN(2, 5) for _ in range(3)]
    before = [{name: value.clone() for name, value in cell.state_dict().items()} for cell in cells]
    family = between(cells, [0, 10, 40], input=[0.1, 0.2])
    states = torch.rand(4, 5).double()
    for cell, at in zip(cells, (0, 10, 40), strict=True):
        assert torch.equal(family(at)(states), ms.Dynamics(cell, [0.1, 0.2])(states))
    for cell, table in zip(cells, before, strict=True):
        assert all(torch.equal(value, table[name]) for name, value in cell.state_dict().items())


def test_leading_eigenvalues_of_large_matrices_are_those_of_all():
    generator = torch.Generator().manual_seed(1)
    J = 0.9 * torch.randn(400, 400, generator=generator, dtype=torch.float64) / 20
    J[:3, :3] += torch.diag(torch.tensor([2.0, -1.7, 1.4]).double())
    values, up = leading_eigenvalues(J, continuous=False)
    whole = torch.linalg.eigvals(J).abs().sort(descending=True).values
    assert up == int((whole > 1).sum()) >= 3
    assert np.abs(values) == pytest.approx(whole[: len(values)].numpy(), abs=1e-7)


def test_a_large_state_counts_where_it_is_asked_to():
    size = 320
    generator = torch.Generator().manual_seed(0)
    W = 0.3 * torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    v = torch.nn.functional.normalize(torch.randn(size, generator=generator, dtype=torch.float64), dim=0)

    def family(gain):
        A = W + gain * torch.outer(v, v)
        cell = Elman(1, size, bias=False).double()
        with torch.no_grad():
            cell.connectivity.matrix.copy_(A)
        return ms.Dynamics(cell)

    starts = torch.cat([torch.tanh(5 * v)[None], -torch.tanh(5 * v)[None], torch.zeros(1, size).double()])
    seen = ms.follow(family, [0.5, 1.4], starts=starts, tolerance=1e-3, count_at=[1.4])
    (event,) = seen.events
    assert event.name == "pitchfork"
    largest = [torch.linalg.eigvals(W + gain * torch.outer(v, v)).real.max() for gain in (event.low, event.high)]
    assert float(largest[0]) < 1 < float(largest[1])
    assert (seen.unstable[seen.points(0)] == -1).all()
    assert (seen.unstable[seen.points(1)] >= 0).all()


def test_the_tangent_is_the_derivative_of_the_branch():
    tracer = Tracer(cusp, 1e-4)
    found = find_fixed_points(tracer.system(0.3), torch.tensor([[0.9]]).double())
    here = tracer.place(0.3, found, 0)
    x = float(here.state[0])
    slope = (1 - x**2) / (1 - 2 * (1 - x**2))  # of x = tanh(2 x + u)
    tangent, _ = tracer.predict(here, 0.3 + 1e-6)
    assert (float(tangent[0]) - x) / 1e-6 == pytest.approx(slope, rel=1e-5)


@TOGETHER
def test_saved_and_loaded(growing, tmp_path):
    growing.save(tmp_path / "evolution.safetensors")
    again = Evolution.load(tmp_path / "evolution.safetensors")
    assert again.summary() == growing.summary()
    assert again.events == growing.events
    assert torch.equal(again.states, growing.states)
    assert again.kind == growing.kind
    find_fixed_points(cusp(0.0)).save(tmp_path / "points.safetensors")
    with pytest.raises(ValueError, match="does not hold an evolution"):
        Evolution.load(tmp_path / "points.safetensors")


@TOGETHER
def test_branches_and_table(growing):
    headings, rows = growing.table()
    assert len(rows) == len(growing.events)
    assert all(len(row) == len(headings) for row in rows)
    assert sum(len(branch) for branch in growing.branches) == len(growing.at)
    for branch in growing.branches:
        assert (branch.at.diff() > 0).all()
    with pytest.raises(IndexError, match="6 snapshots"):
        growing.points(6)


@TOGETHER
def test_the_figure_draws_every_branch_and_event(growing):
    figure = growing.figure()
    top = figure.axes[0]
    marks = [line for line in top.lines if line.get_marker() not in ("None", None, "")]
    assert len(marks) == len(growing.events)
    assert len(top.lines) - len(marks) >= len(growing)
    assert growing.figure(torch.eye(12)[0]).axes[0].get_ylabel() == "states along the given direction"
    with pytest.raises(ValueError, match=r"shape \(12,\)"):
        growing.figure(torch.ones(3))


def test_bad_input_is_refused_in_words():
    family = maps(lambda h, mu: 0.5 * h + mu)
    with pytest.raises(ValueError, match="must increase, but 0 follows 1"):
        ms.follow(family, [1, 0])
    with pytest.raises(ValueError, match="at least two"):
        ms.follow(family, [1])
    with pytest.raises(ValueError, match="NaN"):
        ms.follow(family, [0, float("nan")])
    with pytest.raises(ValueError, match="tolerance must be positive"):
        ms.follow(family, [0, 1], tolerance=0)
    with pytest.raises(ValueError, match="rounding"):
        ms.follow(family, [1e6, 1e6 + 1], tolerance=1e-8)
    with pytest.raises(ValueError, match="no snapshots"):
        ms.follow(family, [0, 1], count_at=[0.5])
    with pytest.raises(TypeError, match="between"):
        ms.follow(ms.Dynamics(torch.nn.GRU(1, 2)), [0, 1])
    with pytest.raises(TypeError, match="must return a Dynamics"):
        ms.follow(lambda at: torch.nn.GRU(1, 2), [0, 1])
    with pytest.raises(ValueError, match="one size"):
        ms.follow(lambda at: ms.Dynamics(torch.nn.GRU(1, 2 + int(at))), [0, 1])
    with pytest.raises(ValueError, match="differs in shape"):
        between([torch.nn.RNN(1, 3), torch.nn.RNN(1, 4)], [0, 1])
    with pytest.raises(ValueError, match="2 cells and 3 parameters"):
        between([torch.nn.RNN(1, 3), torch.nn.RNN(1, 3)], [0, 1, 2])
    spoilt = torch.nn.RNN(1, 3)
    spoilt.bias_hh_l0.data[0] = float("nan")
    with pytest.raises(ValueError, match=r"at 1 has weights that are NaN"):
        between([torch.nn.RNN(1, 3), spoilt], [0, 1])
    with pytest.raises(ValueError, match="from 0 to 1, but was asked for 2"):
        between([torch.nn.RNN(1, 3), torch.nn.RNN(1, 3)], [0, 1])(2)
    with pytest.raises(ValueError, match="nothing between"):
        between([ms.adapt(lambda x, h: h, state_size=1)] * 2, [0, 1])
    with pytest.raises(ValueError, match=r"\(snapshots, features\)"):
        along_inputs(torch.nn.GRU(1, 2), torch.zeros(3))


@TOGETHER
def test_the_page_shows_every_snapshot_and_event(growing):
    paths = [torch.randn(5, 2, 12).double() if snapshot != 2 else None for snapshot in range(6)]
    section = evolution_section(growing, trajectories=paths, parameter="scale")
    html = render_frame("Test", "", [section])
    spec = json.loads(re.search(r'id="plot-evolution-spec">(.*?)</script>', html, re.DOTALL)[1])
    moving = [trace for trace in spec["data"] if "frames" in trace["meta"]]
    for snapshot in range(6):
        drawn = sum(len(trace["meta"]["frames"][snapshot]["x"]) for trace in moving if trace["mode"] == "markers")
        assert drawn == growing.count(snapshot)
    assert html.count("<li data-frame=") == len(growing.events)
    assert 'type="range"' in html
    assert "prefers-reduced-motion" in section.html
    given = evolution_section(growing, projection=torch.eye(12, 3))
    assert "readout 1" in given.lead
    with pytest.raises(ValueError, match=r"shape \(12, 3\)"):
        evolution_section(growing, projection=torch.eye(12))
    with pytest.raises(ValueError, match="6 snapshots, but trajectories of 1"):
        evolution_section(growing, trajectories=[None])
    with pytest.raises(ValueError, match=r"\(time, batch, 12\)"):
        evolution_section(growing, trajectories=[torch.zeros(3, 2, 5)] * 6)


def test_rounding_on_the_unit_circle_is_no_bifurcation():
    """Orthogonal for every parameter: all modes are on the boundary, and stay there."""
    S = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    S = S - S.T
    seen = ms.follow(maps(lambda h, mu: h @ torch.matrix_exp((0.1 + mu) * S).T, 5), [0.0, 0.1, 0.2, 0.3])
    assert not [event for event in seen.events if event.name in ("Neimark-Sacker", "unknown")]


def test_snapshots_stay_in_order_beside_a_bifurcation():
    seen = ms.follow(maps(lambda h, g: torch.tanh(g * h)), [0.5, 1.0, 1.0001, 2.0], starts=LINE)
    assert (seen.snapshots.diff() > 0).all()


def test_the_mirror_is_the_reason_only_where_the_point_is_its_own_image():
    def step(h, g):
        return torch.stack([torch.tanh(2 * h[:, 0]), torch.tanh(g * h[:, 1])], 1)

    grid = torch.cartesian_prod(LINE[::2, 0], LINE[::2, 0])
    seen = ms.follow(maps(step, 2), [0.5, 1.5], starts=grid)
    forks = [event for event in seen.events if event.name == "pitchfork"]
    assert len(forks) == 3
    assert sum("symmetry" in event.sentence for event in forks) == 1
