"""Fixed points tracked over a parameter, for families with known bifurcations."""

import json
import re
from dataclasses import replace
from inspect import unwrap
from math import atanh, cos, sin, sqrt

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Elman
from mnemoscope.cells.adapters import FunctionCell
from mnemoscope.inspection.bifurcations import bifurcations_section
from mnemoscope.lenses import (
    BifurcationDiagram,
    find_fixed_points,
    interpolate_inputs,
    interpolate_weights,
    track_fixed_points,
)
from mnemoscope.lenses.bifurcations import Event
from mnemoscope.lenses.bifurcations.arclength import continue_by_arclength
from mnemoscope.lenses.bifurcations.families import increasing_parameters
from mnemoscope.lenses.bifurcations.predictor_corrector import PredictorCorrector
from mnemoscope.lenses.fixed_points.stability import leading_eigenvalues
from mnemoscope.replication.study import Trial
from mnemoscope.report import render_document
from mnemoscope.studies.jang import flipflop_evolution
from mnemoscope.studies.jang.reservoirs import Recipe, train_reservoir
from tests.slow import SLOW, representatives

LINE = torch.linspace(-1.5, 1.5, 7, dtype=torch.float64)[:, None]

GRID = torch.cartesian_prod(LINE[::3, 0], LINE[::3, 0])


@pytest.fixture(scope="module", autouse=True)
def _skip_checks_of_new_systems():
    """Each family makes hundreds of systems; the check of a new system has its own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mnemoscope.lenses.dynamics.check_step", lambda dynamics: None)
        yield


class Uncoupled(FunctionCell):
    """Uncoupled units: the Jacobian is diagonal, which is much faster than autograd on the whole."""

    def jacobian(self, x, state):
        with torch.enable_grad():
            h = state.detach().requires_grad_()
            return torch.diag_embed(torch.autograd.grad(self.function(x, h).sum(), h)[0])


def maps(step, size=1, bounds=None, coupled=False, **options):
    """Return the family of maps h' = step(h, parameter)."""
    cell = FunctionCell if coupled else Uncoupled
    return lambda at: ms.Dynamics(cell(lambda x, h: step(h, at), size, bounds=bounds), **options)


def rotated(h, mu):
    """Rotate by 0.9; the origin becomes unstable at mu = 0."""
    R = torch.tensor([[cos(0.9), -sin(0.9)], [sin(0.9), cos(0.9)]], dtype=torch.float64)
    return (1 + mu - h.square().sum(1, keepdim=True)) * (h @ R.T)


NORMAL_FORMS = {
    "saddle-node": (lambda h, mu: h + mu - h**2, 1, "appeared", "+1", 2),
    "pitchfork": (lambda h, mu: h + mu * h - h**3, 1, "appeared", "+1", 3),
    "transcritical": (lambda h, mu: h + mu * h - h**2, 1, "changed stability", "+1", 2),
    "flip": (lambda h, mu: -(1 + mu) * h + 0.1 * h**3, 1, "changed stability", "-1", 1),
    "Neimark-Sacker": (rotated, 2, "changed stability", "complex pair", 1),
}


SNAPSHOTS = [
    *((name, (-0.31, 0.0, 0.29)) for name in NORMAL_FORMS if name != "saddle-node"),
    ("saddle-node", (-0.1, 0.13)),
    pytest.param("saddle-node", (-0.31, 0.0, 0.29), marks=SLOW),
]


@representatives("flip-(-0.31, 0.0, 0.29)", "Neimark-Sacker-(-0.31, 0.0, 0.29)")
@pytest.mark.parametrize(("name", "at"), SNAPSHOTS, ids=str)
def test_normal_forms_are_named_and_located(name, at):
    step, size, change, crossing, branches = NORMAL_FORMS[name]
    starts = LINE if size == 1 else torch.randn(12, 2, generator=torch.Generator().manual_seed(0)).double()
    diagram = ms.track_fixed_points(maps(step, size, coupled=size > 1), at, starts=starts, tolerance=1e-4)
    assert [(event.name, event.change, event.crossing) for event in diagram.events] == [(name, change, crossing)]
    event = diagram.events[0]
    assert event.low <= 0 <= event.high <= event.low + 1.01e-4
    assert len(event.branches) == branches
    shifted = 0.0 in at and name in ("saddle-node", "pitchfork", "transcritical")
    assert any("snapshot lies at a bifurcation" in note for note in diagram.notes) == shifted  # branches coincide at +1


@SLOW
def test_two_points_vanish_in_a_subcritical_pitchfork():
    diagram = ms.track_fixed_points(maps(lambda h, mu: h + mu * h + h**3), [-0.3, 0.2], starts=LINE, tolerance=1e-3)
    (event,) = diagram.events
    assert (event.name, event.change) == ("pitchfork", "vanished")
    assert event.low <= 0 <= event.high
    assert [diagram.count(0), diagram.count(1)] == [3, 1]


def test_hopf_bifurcations_and_folds_of_flows_are_named():
    def hopf(h, mu):
        x, y = h.unbind(1)
        r2 = x**2 + y**2
        return torch.stack([mu * x - 3 * y - r2 * x, 3 * x + mu * y - r2 * y], 1)

    diagram = ms.track_fixed_points(
        maps(hopf, 2, coupled=True, continuous=True), [-1, 1.1], starts=torch.randn(8, 2).double(), tolerance=1e-4
    )
    assert [(event.name, event.crossing) for event in diagram.events] == [("Hopf", "imaginary pair")]
    assert diagram.events[0].low <= 0 <= diagram.events[0].high
    fold = ms.track_fixed_points(maps(lambda h, mu: mu - h**2, continuous=True), [-1, 1.1], starts=LINE, tolerance=1e-4)
    assert [(event.name, event.crossing) for event in fold.events] == [("saddle-node", "0")]
    assert fold.events[0].low <= 0 <= fold.events[0].high


def symmetric_network(gain):
    """Return tanh units whose matrix has the eigenvalues 1 and 0.5."""
    W = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
    return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(gain * h @ W), state_size=2, bounds=(-1, 1)))


@SLOW
def test_a_symmetric_network_has_pitchforks_at_gains_1_and_2():
    """Along (1, 1) the points solve x = tanh(g x), along (1, -1) x = tanh(g x / 2); more branch off those later."""
    diagram = ms.track_fixed_points(symmetric_network, [0.5, 1.8, 2.2], starts=GRID, tolerance=1e-2)
    assert diagram.symmetric
    assert all(event.name == "pitchfork" and "symmetry" in event.sentence for event in diagram.events)
    assert [event.at for event in diagram.events[:2]] == pytest.approx([1, 2], abs=1e-2)
    assert diagram.index_sum.tolist() == [1] * 3
    x = torch.linspace(0.1, 1, 200_001, dtype=torch.float64)
    root = x[(torch.tanh(1.8 * x) - x).abs().argmin()]
    states = diagram.states[diagram.points(1)]
    assert float((states - root).norm(dim=1).min()) < 1e-5  # the step of the grid
    assert float((states + root).norm(dim=1).min()) < 1e-5


cusp = maps(lambda h, u: torch.tanh(2 * h + u), bounds=(-1, 1))


@SLOW
@pytest.mark.parametrize("at", [(-1, 0.1, 1), (-1, 1)], ids=str)
def test_hysteresis_has_two_folds_even_without_a_snapshot_between(at):
    """x = tanh(2 x + u) folds where 2 (1 - x^2) = 1. Arclength steps find the middle branch without a snapshot."""
    x = sqrt(0.5)
    fold = 2 * x - atanh(x)
    diagram = ms.track_fixed_points(cusp, at, starts=LINE, tolerance=1e-2)
    assert [event.name for event in diagram.events] == ["saddle-node", "saddle-node"]
    assert [event.change for event in diagram.events] == ["appeared", "vanished"]
    for event, exact in zip(diagram.events, (-fold, fold), strict=True):
        assert event.low <= exact <= event.high
    assert len(diagram) == 3
    assert set(diagram.events[0].branches) & set(diagram.events[1].branches)  # the middle branch connects both folds
    assert diagram.index_sum.tolist() == [1] * len(at)


@SLOW
def test_a_pair_between_two_snapshots_is_missed_and_the_summary_warns():
    def bubble(h, mu):
        """There are two points near h = 0 for |mu| < 0.1, and always one near 2."""
        return h - 0.2 * (h - 2) * (h**2 + mu**2 - 0.01)

    diagram = ms.track_fixed_points(maps(bubble), [-1, 1], starts=torch.tensor([[2.2]]).double())
    assert (len(diagram), len(diagram.events)) == (1, 0)
    assert "between two snapshots are missed" in diagram.summary()
    diagram = ms.track_fixed_points(
        maps(bubble), [-1, 0.01, 1], starts=torch.linspace(-1, 2.5, 8)[:, None].double(), tolerance=1e-3
    )
    assert [event.change for event in diagram.events] == ["appeared", "vanished"]
    assert [event.at for event in diagram.events] == pytest.approx([-0.1, 0.1], abs=1e-3)


UNITS = 6


def holds_bits(scale, size=UNITS):
    """Return a network that holds two bits, with noise that breaks the symmetry; `scale` multiplies all weights."""
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0][:, :2]
    noise = torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    bias = torch.randn(size, generator=generator, dtype=torch.float64)
    cell = Elman(3, size).double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.connectivity.matrix.copy_(scale * (Q @ torch.diag(torch.tensor([2.5, 3.0]).double()) @ Q.T + 0.3 * noise))
        cell.drive.bias.copy_(scale * 0.05 * bias)
    return cell


TOGETHER = pytest.mark.xdist_group("growing")
"""Run these tests in one process, which tracks the network once."""


@pytest.fixture(scope="module")
def growing():
    return ms.track_fixed_points(
        interpolate_weights([holds_bits(0), holds_bits(1)], [0, 1]), np.linspace(0, 1, 4).tolist(), tolerance=1e-2
    )


@SLOW
@TOGETHER
def test_a_growing_memory_has_index_sum_1_at_every_snapshot(growing):
    assert growing.index_sum.tolist() == [1] * 4
    assert growing.count(0) == 1
    last = find_fixed_points(ms.Dynamics(holds_bits(1)))
    assert growing.count(-1) == len(last) > 5
    apart = torch.cdist(growing.states[growing.points(-1)], last.states)
    assert float(apart.min(0).values.max()) < 1e-6
    assert growing.unstable[growing.points(-1)].sort().values.tolist() == last.unstable.sort().values.tolist()
    assert not growing.notes
    assert not growing.missing
    born = [number for event in growing.events for number in event.branches if event.change == "appeared"]
    assert sorted([0, *born]) == list(range(len(growing)))  # every branch except the first has a birth


@SLOW
@TOGETHER
def test_events_do_not_depend_on_the_snapshots(growing):
    family = interpolate_weights([holds_bits(0), holds_bits(1)], [0, 1])
    finer = ms.track_fixed_points(family, np.linspace(0, 1, 7).tolist(), tolerance=1e-2)
    assert [event.name for event in finer.events] == [event.name for event in growing.events]
    for fine, coarse in zip(finer.events, growing.events, strict=True):
        assert max(fine.low, coarse.low) <= min(fine.high, coarse.high) + 1e-12  # brackets of the same event overlap


@SLOW
@TOGETHER
def test_every_point_is_a_fixed_point_of_its_system(growing):
    family = interpolate_weights([holds_bits(0), holds_bits(1)], [0, 1])
    for row in range(0, len(growing.at), 7):
        system = family(float(growing.at[row]))
        assert float(system.residual(growing.states[row][None]).norm()) < 1e-11
        values = torch.linalg.eigvals(system.jacobian(growing.states[row][None])[0])
        assert int((values.abs() > 1).sum()) == int(growing.unstable[row])
        sign = torch.linalg.slogdet(torch.eye(UNITS).double() - system.jacobian(growing.states[row][None])[0]).sign
        assert int(sign) == int(growing.index[row])


def test_points_missed_by_a_search_are_continued_back_from_later_snapshots():
    """At the first snapshots the starts reach one of three points; the others are found later."""

    def starts(at):
        return torch.tensor([[0.9]]).double() if at < 2 else LINE

    late = ms.track_fixed_points(
        maps(lambda h, gain: torch.tanh(gain * h + 0.05), bounds=(-1, 1)), [1.5, 1.7, 2.1], starts=starts
    )
    assert [late.count(snapshot) for snapshot in range(3)] == [3, 3, 3]
    assert late.index_sum.tolist() == [1, 1, 1]


def test_the_index_sum_reports_missing_points(monkeypatch):
    """The starts reach two points of three, and neither midpoints nor the centre of the box are added."""
    landmarks = "mnemoscope.lenses.fixed_points.composite_starts.landmarks"
    monkeypatch.setattr(landmarks, lambda dynamics: dynamics.origin[:0])

    class Two:
        def draw(self, dynamics, generator):
            return torch.tensor([[0.95], [-0.95]]).double()

    two = ms.lenses.Adaptive(initial=Two(), waves=1)
    diagram = ms.track_fixed_points(cusp, [-0.1, 0.1], starts=two)
    assert [diagram.count(0), diagram.count(1)] == [2, 2]
    assert diagram.index_sum.tolist() == [2, 2]
    assert len(diagram.missing) == 2
    assert "At 0.1 the index sum is 2 and must be 1: at least 1 point of index -1 missing." in diagram.summary()
    assert not ms.track_fixed_points(cusp, [-0.1, 0.1]).missing


def test_interpolate_inputs_is_the_network_at_each_input():
    cell = torch.nn.GRU(2, 6)
    family = interpolate_inputs(cell, torch.tensor([[0.0, 0.0], [1.0, -1.0], [1.0, 3.0]]), at=[0, 1, 3])
    diagram = ms.track_fixed_points(family, [0, 1.5, 3])
    direct = find_fixed_points(ms.Dynamics(cell, [1.0, 3.0]))
    assert float(torch.cdist(diagram.states[diagram.points(-1)], direct.states).min(0).values.max()) < 1e-6
    assert torch.allclose(family(2).input, torch.tensor([[1.0, 1.0]]).double())


def test_interpolate_weights_is_exact_at_the_snapshots_and_does_not_change_them():
    cells = [torch.nn.RNN(2, 5) for _ in range(3)]
    before = [{name: value.clone() for name, value in cell.state_dict().items()} for cell in cells]
    family = interpolate_weights(cells, [0, 10, 40], input=[0.1, 0.2])
    states = torch.rand(4, 5).double()
    for cell, at in zip(cells, (0, 10, 40), strict=True):
        assert torch.equal(family(at)(states), ms.Dynamics(cell, [0.1, 0.2])(states))
    for cell, table in zip(cells, before, strict=True):
        assert all(torch.equal(value, table[name]) for name, value in cell.state_dict().items())


def test_snapshots_of_weights_bring_their_parameters():
    torch.manual_seed(0)
    weak, strong = torch.nn.RNN(1, 2, bias=False), torch.nn.RNN(1, 2, bias=False)
    for cell, gain in ((weak, 0.5), (strong, 1.5)):
        cell.weight_hh_l0.data = gain * torch.eye(2)
    family = interpolate_weights([weak, strong], [0, 100])
    found, given = ms.track_fixed_points(family), ms.track_fixed_points(family, [0, 100])
    assert found.events
    assert [event.at for event in found.events] == [event.at for event in given.events]


def test_leading_eigenvalues_of_large_matrices_match_the_full_spectrum():
    generator = torch.Generator().manual_seed(1)
    J = 0.9 * torch.randn(400, 400, generator=generator, dtype=torch.float64) / 20
    J[:3, :3] += torch.diag(torch.tensor([2.0, -1.7, 1.4]).double())
    values, unstable = leading_eigenvalues(J, continuous=False)
    moduli = torch.linalg.eigvals(J).abs().sort(descending=True).values
    assert unstable == int((moduli > 1).sum()) >= 3
    assert np.abs(values) == pytest.approx(moduli[: len(values)].numpy(), abs=1e-7)


@SLOW
def test_unstable_directions_of_large_states_are_counted_on_request():
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
    diagram = ms.track_fixed_points(family, [0.5, 1.4], starts=starts, tolerance=0.05, count_at=[1.4])
    (event,) = diagram.events
    assert event.name == "pitchfork"
    largest = [torch.linalg.eigvals(W + gain * torch.outer(v, v)).real.max() for gain in (event.low, event.high)]
    assert float(largest[0]) < 1 < float(largest[1])
    assert (diagram.unstable[diagram.points(0)] == -1).all()
    assert (diagram.unstable[diagram.points(1)] >= 0).all()


def test_the_tangent_is_the_derivative_of_the_branch():
    continuation = PredictorCorrector(cusp, 1e-4)
    found = find_fixed_points(continuation.system(0.3), torch.tensor([[0.9]]).double())
    here = continuation.found_point(0.3, found, 0)
    x = float(here.state[0])
    slope = (1 - x**2) / (1 - 2 * (1 - x**2))  # dx/du for x = tanh(2 x + u)
    tangent, _ = continuation.predict(here, 0.3 + 1e-6)
    assert (float(tangent[0]) - x) / 1e-6 == pytest.approx(slope, rel=1e-5)


@TOGETHER
def test_load_reads_what_save_wrote(growing, tmp_path):
    growing.save(tmp_path / "diagram.safetensors")
    loaded = BifurcationDiagram.load(tmp_path / "diagram.safetensors")
    assert loaded.summary() == growing.summary()
    assert loaded.events == growing.events
    assert torch.equal(loaded.states, growing.states)
    assert loaded.kind == growing.kind
    find_fixed_points(cusp(0.0)).save(tmp_path / "points.safetensors")
    with pytest.raises(ValueError, match="does not hold a bifurcation diagram"):
        BifurcationDiagram.load(tmp_path / "points.safetensors")


@TOGETHER
def test_branches_and_table_hold_all_points_and_events(growing):
    headings, rows = growing.table()
    assert len(rows) == len(growing.events)
    assert all(len(row) == len(headings) for row in rows)
    assert sum(len(branch) for branch in growing.branches) == len(growing.at)
    for branch in growing.branches:
        assert (branch.at.diff() > 0).all()
    with pytest.raises(IndexError, match="4 snapshots"):
        growing.points(4)


@TOGETHER
def test_the_figure_draws_every_branch_and_event(growing):
    figure = growing.figure()
    top = figure.axes[0]
    markers = [line for line in top.lines if line.get_marker() not in ("None", None, "")]
    assert len(markers) == len(growing.events)
    assert len(top.lines) - len(markers) >= len(growing)
    assert growing.figure(torch.eye(UNITS)[0]).axes[0].get_ylabel() == "states along the given direction"
    with pytest.raises(ValueError, match=r"shape \(6,\)"):
        growing.figure(torch.ones(3))


def test_unsuitable_arguments_are_refused():
    family = maps(lambda h, mu: 0.5 * h + mu)
    with pytest.raises(ValueError, match="must increase, but 0 follows 1"):
        ms.track_fixed_points(family, [1, 0])
    with pytest.raises(ValueError, match="at least two"):
        ms.track_fixed_points(family, [1])
    with pytest.raises(ValueError, match="NaN"):
        ms.track_fixed_points(family, [0, float("nan")])
    with pytest.raises(ValueError, match="tolerance must be positive"):
        ms.track_fixed_points(family, [0, 1], tolerance=0)
    with pytest.raises(ValueError, match="rounding"):
        ms.track_fixed_points(family, [1e6, 1e6 + 1], tolerance=1e-8)
    with pytest.raises(ValueError, match="no snapshots"):
        ms.track_fixed_points(family, [0, 1], count_at=[0.5])
    with pytest.raises(TypeError, match="interpolate_weights"):
        ms.track_fixed_points(ms.Dynamics(torch.nn.GRU(1, 2)), [0, 1])
    with pytest.raises(TypeError, match="must return a Dynamics"):
        ms.track_fixed_points(lambda at: torch.nn.GRU(1, 2), [0, 1])
    with pytest.raises(ValueError, match="one size"):
        ms.track_fixed_points(lambda at: ms.Dynamics(torch.nn.GRU(1, 2 + int(at))), [0, 1])
    with pytest.raises(ValueError, match="differs in shape"):
        interpolate_weights([torch.nn.RNN(1, 3), torch.nn.RNN(1, 4)], [0, 1])
    with pytest.raises(ValueError, match="2 cells and 3 parameters"):
        interpolate_weights([torch.nn.RNN(1, 3), torch.nn.RNN(1, 3)], [0, 1, 2])
    invalid = torch.nn.RNN(1, 3)
    invalid.bias_hh_l0.data[0] = float("nan")
    with pytest.raises(ValueError, match=r"at 1 has weights that are NaN"):
        interpolate_weights([torch.nn.RNN(1, 3), invalid], [0, 1])
    with pytest.raises(ValueError, match="from 0 to 1, but was asked for 2"):
        interpolate_weights([torch.nn.RNN(1, 3), torch.nn.RNN(1, 3)], [0, 1])(2)
    with pytest.raises(ValueError, match="nothing to interpolate"):
        interpolate_weights([ms.adapt(lambda x, h: h, state_size=1)] * 2, [0, 1])
    with pytest.raises(ValueError, match=r"\(snapshots, features\)"):
        interpolate_inputs(torch.nn.GRU(1, 2), torch.zeros(3))


@TOGETHER
def test_the_page_shows_every_snapshot_and_event(growing):
    paths = [torch.randn(5, 2, UNITS).double() if snapshot != 2 else None for snapshot in range(4)]
    section = bifurcations_section(replace(growing, parameter="scale"), trajectories=paths)
    assert section.title == "Fixed points over the scale"
    html = render_document("Test", "", [section])
    assert re.search(r"scale 1 .{1,9} snapshot 4 of 4", html)
    spec = json.loads(re.search(r'id="plot-bifurcations-spec">(.*?)</script>', html, re.DOTALL)[1])
    animated = [trace for trace in spec["data"] if "frames" in trace["meta"]]
    for snapshot in range(4):
        drawn = sum(len(trace["meta"]["frames"][snapshot]["x"]) for trace in animated if trace["mode"] == "markers")
        assert drawn == growing.count(snapshot)
    assert html.count("<li data-frame=") == len(growing.events)
    assert 'type="range"' in html
    assert "prefers-reduced-motion" in section.html
    projected = bifurcations_section(growing, projection=torch.eye(UNITS, 3))
    assert "readout 1" in projected.lead
    with pytest.raises(ValueError, match=r"shape \(6, 3\)"):
        bifurcations_section(growing, projection=torch.eye(UNITS))
    with pytest.raises(ValueError, match="4 snapshots, but trajectories of 1"):
        bifurcations_section(growing, trajectories=[None])
    with pytest.raises(ValueError, match=r"\(time, batch, 6\)"):
        bifurcations_section(growing, trajectories=[torch.zeros(3, 2, 5)] * 4)


def test_rounding_on_the_unit_circle_is_no_bifurcation():
    """The map is orthogonal for every parameter: all modes stay on the stability boundary."""
    S = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    S = S - S.T
    starts = torch.randn(4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    family = maps(lambda h, mu: h @ torch.matrix_exp((0.1 + mu) * S).T, 5, coupled=True)
    diagram = ms.track_fixed_points(family, [0.0, 0.15, 0.3], starts=starts)
    assert not [event for event in diagram.events if event.name in ("Neimark-Sacker", "unknown")]


@SLOW
def test_snapshots_stay_in_order_near_a_bifurcation():
    diagram = ms.track_fixed_points(maps(lambda h, g: torch.tanh(g * h)), [0.5, 1.0, 1.0001], starts=LINE[3:4])
    assert (diagram.snapshots.diff() > 0).all()


@SLOW
def test_symmetry_explains_a_pitchfork_only_at_a_symmetric_point():
    def step(h, g):
        return torch.stack([torch.tanh(2 * h[:, 0]), torch.tanh(g * h[:, 1])], 1)

    diagram = ms.track_fixed_points(maps(step, 2), [0.5, 1.5], starts=GRID, tolerance=3e-2)
    pitchforks = [event for event in diagram.events if event.name == "pitchfork"]
    assert len(pitchforks) == 3
    assert sum("symmetry" in event.sentence for event in pitchforks) == 1


@SLOW
def test_identical_bits_that_branch_together_are_one_event():
    """With h' = tanh(g h) for each unit, 1 point becomes 9 at the origin at g = 1."""
    diagram = ms.track_fixed_points(maps(lambda h, g: torch.tanh(g * h), 2), [0.5, 1.6], starts=GRID, tolerance=3e-2)
    (event,) = diagram.events
    assert (event.name, event.change, event.branches) == ("multiple", "appeared", tuple(range(9)))
    assert event.low <= 1 <= event.high
    assert "meet at one point, to within the tolerance: 1 before, 9 after" in event.sentence
    assert "must" not in event.sentence
    assert not diagram.notes
    assert len(diagram.figure().axes) == 2


@SLOW
def test_27_branches_appear_together_and_8_vanish_together():
    grid = torch.cartesian_prod(*[LINE[::3, 0]] * 3)
    (event,) = ms.track_fixed_points(
        maps(lambda h, g: torch.tanh(g * h), 3), [0.5, 1.6], starts=grid, tolerance=1e-3
    ).events
    assert (event.name, len(event.branches)) == ("multiple", 27)
    diagram = ms.track_fixed_points(
        maps(lambda h, mu: h + mu * h + h**3, 2), [-0.3, 0.2], starts=0.4 * GRID, tolerance=1e-3
    )
    (event,) = diagram.events
    assert (event.name, event.change) == ("multiple", "vanished")
    assert "9 before, 1 after" in event.sentence


@SLOW
def test_folds_at_one_parameter_but_different_states_are_two_events():
    """Zeros of mu - (x^2 - 1)^2 appear at -1 and at +1."""
    diagram = ms.track_fixed_points(
        maps(lambda h, mu: h + 0.1 * (mu - (h**2 - 1) ** 2)), [-1, 0.5], starts=LINE, tolerance=1e-3
    )
    assert [event.name for event in diagram.events] == ["saddle-node", "saddle-node"]


@pytest.mark.parametrize(
    ("bias", "tolerance", "name"),
    [
        (1e-2, 1e-2, "saddle-node"),
        pytest.param(1e-8, 1e-4, "pitchfork", marks=SLOW),
        pytest.param(1e-5, 1e-2, "pitchfork", marks=SLOW),
        pytest.param(1e-5, 1e-4, "saddle-node", marks=SLOW),
        *(pytest.param(bias, 1e-4, "pitchfork", marks=SLOW) for bias in (1e-7, 1e-9, 1e-10)),
        pytest.param(1e-7, 1e-6, "saddle-node", marks=SLOW),
    ],
)
def test_a_broken_pitchfork_is_a_fold_if_the_tolerance_resolves_it(bias, tolerance, name):
    """Near 0, x = tanh(g x + b) is mu x - x^3 / 3 + b = 0 with mu = g - 1, which folds where 2/3 mu^1.5 = b."""
    family = maps(lambda h, g: torch.tanh(g * h + bias))
    (event,) = ms.track_fixed_points(family, [0.5, 1.6], starts=LINE, tolerance=tolerance).events
    assert (event.name, event.change) == (name, "appeared")
    assert event.low <= 1 + (1.5 * bias) ** (2 / 3) <= event.high
    assert ("closer than the tolerance resolves" in event.sentence) == (name == "pitchfork")


@pytest.mark.parametrize("tolerance", [pytest.param(0.01, marks=SLOW), 0.02])
def test_partners_of_a_fold_may_be_far_apart_within_the_tolerance(tolerance):
    """Points at +-10 sqrt(mu): within the tolerance of the fold they are still up to 2.8 apart."""
    starts = torch.linspace(-12, 12, 7, dtype=torch.float64)[:, None]
    diagram = ms.track_fixed_points(
        maps(lambda h, mu: h + 0.1 * (mu - 0.01 * h**2)), [-1, 1.1], starts=starts, tolerance=tolerance
    )
    (event,) = diagram.events
    assert (event.name, event.branches) == ("saddle-node", (0, 1))
    assert event.low <= 0 <= event.high


def test_arclength_steps_find_the_partner_of_a_fold_and_pass_a_bend():
    continuation, fold = PredictorCorrector(cusp, 1e-2), 2 * sqrt(0.5) - atanh(sqrt(0.5))
    here = continuation.corrected(fold - 0.005, torch.tensor([-0.75]).double())
    there = continue_by_arclength(continuation, here, 1, (-1, 1))
    assert (there.at, there.index) == (here.at, -here.index)
    assert float(continuation.system(here.at).residual(there.state[None]).abs().max()) < 1e-12
    assert -0.7 < float(there.state) < -0.6  # beyond -sqrt(1/2)
    assert continue_by_arclength(continuation, here, 1, (-1, fold - 0.001)) is None  # the fold is beyond the limits
    bent = PredictorCorrector(maps(lambda h, g: torch.tanh(g * h + 1e-8)), 1e-4)
    here = bent.corrected(0.9999, torch.tensor([1e-4]).double())
    there = continue_by_arclength(bent, here, 1, (0.5, 1.5))
    assert (there.at, there.index) == (here.at + 4e-4, here.index)
    assert float(there.state) == pytest.approx(sqrt(3 * 3e-4), rel=1e-2)


@SLOW
def test_two_crossings_between_snapshots_are_found_if_branches_end_there():
    """Two pairs end at the origin, which loses its stability at 0.3 and regains it at 0.6; 0 and 1 do not show it."""

    def step(h, p):
        return h - 0.5 * h * (h**2 - 0.3 + p) * (h**2 - 0.6 + p)

    diagram = ms.track_fixed_points(maps(step), [0, 1], starts=LINE, tolerance=1e-2)
    assert [(event.name, event.change) for event in diagram.events] == [("pitchfork", "vanished")] * 2
    for event, exact in zip(diagram.events, (0.3, 0.6), strict=True):
        assert event.low <= exact <= event.high


@SLOW
def test_every_end_in_a_small_reservoir_has_its_partner(tmp_path):
    """Bends, folds with distant partners and branches that cross twice are all explained."""
    recipe, at = Recipe(bits=2, units=30, gain=0.9, steps=400, test_steps=600), [0, 100, 200, 300, 400]
    for seed in (0, 2, 3):
        trained = train_reservoir(recipe, seed, tmp_path / f"{seed}.safetensors", keep=at)
        visited = ms.lenses.FromTrajectories(recipe.test(seed).inputs, 24)
        starts = ms.lenses.Several([visited, ms.lenses.FromOutputs(24, -1.5, 1.5)])
        family = interpolate_weights([trained.at(step) for step in at], at)
        diagram = ms.track_fixed_points(family, at, starts=starts, tolerance=1.0, seed=seed)
        assert "unknown" not in [event.name for event in diagram.events]
        assert diagram.index_sum.tolist() == [1] * 5


@TOGETHER
def test_unknown_events_do_not_count_as_located(growing):
    lost = Event("vanished", "unknown", "+1", 0.5, 0.6, (0,), "A point vanishes.")
    known = len(growing.events)
    assert growing.how_located == f"{known} bifurcations are located to 0.01."
    diagram = replace(growing, events=(*growing.events, lost))
    sentence = f"{known} bifurcations are located to 0.01, 1 is unknown"
    assert sentence in diagram.summary()
    assert sentence in bifurcations_section(diagram).lead
    wide = replace(growing, events=(*growing.events, replace(lost, name="saddle-node")))
    assert wide.how_located == f"{known} bifurcations are located to 0.01; 1 is known only to a wider interval."


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_tracking_on_a_gpu_matches_tracking_on_a_cpu():
    at = [0, 0.5, 1]
    here = ms.track_fixed_points(interpolate_weights([holds_bits(0), holds_bits(1)], [0, 1]), at, tolerance=1e-2)
    there = ms.track_fixed_points(
        interpolate_weights([holds_bits(0).cuda(), holds_bits(1).cuda()], [0, 1]), at, tolerance=1e-2
    )
    assert there.states.device.type == "cpu"
    assert [event.name for event in there.events] == [event.name for event in here.events]
    assert [event.at for event in there.events] == pytest.approx([event.at for event in here.events], abs=1e-2)
    apart = torch.cdist(there.states[there.points(-1)], here.states[here.points(-1)])
    assert float(apart.min(0).values.max()) < 1e-6
    broken = ms.track_fixed_points(lambda g: ms.Dynamics(biased(g).cuda()), [0.5, 1.6], starts=LINE, tolerance=1e-4)
    assert [event.name for event in broken.events] == ["pitchfork"]  # around a bend, and next to a fold


def biased(gain):
    """Return one tanh unit with a bias of 1e-8."""
    cell = Elman(1, 1).double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight.zero_()
        cell.connectivity.matrix.fill_(gain)
        cell.drive.bias.fill_(1e-8)
    return cell


def test_a_saved_diagram_is_reused_only_if_its_settings_match(tmp_path, monkeypatch):
    settings = {**Recipe(bits=1, units=10, gain=0.9, steps=60, test_steps=60).settings(), "at": [0, 60]}
    recipe, trial = Recipe.from_settings(settings), Trial("tiny", settings, 0)
    trained = train_reservoir(recipe, 0, tmp_path / "lesson.safetensors", keep=[0, 60])
    calls = []
    monkeypatch.setattr(
        flipflop_evolution,
        "track_fixed_points",
        lambda *args, **options: calls.append(1) or track_fixed_points(*args, **options),
    )

    def diagram():
        return flipflop_evolution._track(tmp_path, recipe, trial, trained, False)

    first = diagram()
    assert torch.equal(diagram().states, first.states)
    assert len(calls) == 1
    monkeypatch.setattr(flipflop_evolution, "STARTS", 5)
    diagram()
    assert len(calls) == 2
    monkeypatch.setattr(flipflop_evolution, "EVENT_TOLERANCE", 2.0)
    assert diagram().tolerance == 2
    assert diagram().tolerance == 2
    assert len(calls) == 3


def events_along(function, at):
    """Return the events of maps of one number, searched from equidistant starts."""

    def family(m):
        return ms.Dynamics(ms.adapt(lambda x, h: function(h, m), state_size=1), bounds=None)

    diagram = ms.track_fixed_points(
        family, at, starts=torch.linspace(-3, 3, 21, dtype=torch.float64)[:, None], tolerance=1e-2
    )
    assert diagram.notes == ()
    return [(event.name, event.change, round(event.at, 1) + 0.0) for event in diagram.events]


@representatives("-0.5")
@pytest.mark.parametrize("drift", [-0.5, -0.2, 0.5])
def test_branches_that_cross_in_a_moving_frame_are_not_exchanged(drift):
    def crossing(h, m):
        return h + 0.3 * (h - drift * m) * (m - (h - drift * m))

    assert events_along(crossing, [-1, 0.7]) == [("transcritical", "changed stability", 0.0)]


@representatives("at1")
@pytest.mark.parametrize("at", [(-1, 1), (-1, 0.7)])
def test_no_branch_is_continued_across_a_gap(at):
    events = events_along(lambda h, m: h + 0.3 * (m**2 - 0.09 - h**2), at)
    assert events == [("saddle-node", "vanished", -0.3), ("saddle-node", "appeared", 0.3)]


def test_a_smooth_bend_is_no_event():
    assert events_along(lambda h, m: h + 0.3 * (m**2 - h), [-1, 1]) == []


def test_float32_systems_and_wrong_types_are_refused():
    def family(m):
        return ms.Dynamics(ms.adapt(lambda x, h: torch.tanh(m * h), state_size=1), dtype=torch.float32)

    with pytest.raises(ValueError, match="float64"):
        ms.track_fixed_points(family, [0.5, 2.0])
    for at in (3, None, "ab"):
        with pytest.raises(TypeError, match="list of at least two numbers"):
            unwrap(increasing_parameters)(at)
    for option in ({"eigenvalues": 1.5}, {"seed": "x"}, {"tolerance": "a"}, {"count_at": 0.5}):
        with pytest.raises((TypeError, ValueError), match=r"must be a (whole )?(number|list of snapshots)"):
            unwrap(ms.track_fixed_points)(family, [0.5, 2.0], **option)


def test_the_figure_of_the_evolution_labels_its_snapshots():
    assert flipflop_evolution._spaced((0, 60, 150, 400)) == [0, 60, 150, 400]
    kept = flipflop_evolution._spaced(flipflop_evolution.SNAPSHOTS)
    assert kept[0] == 0
    assert kept[-1] == flipflop_evolution.SNAPSHOTS[-1]
    assert len(kept) < len(flipflop_evolution.SNAPSHOTS)


def test_the_figure_names_the_parameter():
    diagram = ms.track_fixed_points(symmetric_network, [0.5, 0.7], starts=GRID, tolerance=1e-2, parameter="gain")
    upper, lower = diagram.figure().axes
    assert upper.get_title() == "Fixed points over the gain"
    assert lower.get_xlabel() == "gain"
    assert [line.get_linestyle() for line in lower.lines] == ["None", "None"]  # the number jumps between snapshots
