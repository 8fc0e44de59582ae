"""One network at several inputs: results by condition, selection vectors, and figures of conditions."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.base.trial_table import Condition, TrialTable
from mnemoscope.drawing.projection import chosen_projection
from mnemoscope.lenses import FixedPoints


def points_of(*matrices):
    """Fixed points at 0 of the linear maps with these matrices."""
    J = torch.stack([torch.as_tensor(matrix, dtype=torch.float64) for matrix in matrices])
    zeros = torch.zeros(J.shape[:2], dtype=torch.float64)
    return FixedPoints(zeros, zeros[:, 0], J, torch.ones(len(J), dtype=torch.int64), False, False)


def identity_error(fp):
    return float((fp.left_eigenvectors.mT @ fp.eigenvectors - torch.eye(fp.states.shape[1])).abs().max())


@pytest.fixture(scope="module")
def context_network():
    """A line attractor that integrates the first or the second input, as the sign of the third says."""

    def step(u, h):
        x, y = h.unbind(1)
        motion, colour, context = u.unbind(1)
        chosen = torch.sigmoid(6 * context) * motion + torch.sigmoid(-6 * context) * colour
        return torch.stack([torch.tanh(1.1 * x + 0.1 * chosen), 0.5 * y + 0.2 * (motion - colour)], 1)

    return ms.adapt(step, state_size=2, input_size=3, bounds=(-1, 1))


CONTEXTS = {"motion": [0.0, 0.0, 1.0], "colour": [0.0, 0.0, -1.0]}


@pytest.fixture(scope="module")
def points(context_network):
    return ms.by_condition(ms.find_fixed_points, context_network, CONTEXTS)


@pytest.fixture(scope="module")
def recording(context_network):
    table = TrialTable.of(
        {"context": [0, 0, 1, 1], "coherence": [-0.2, 0.2, -0.2, 0.2]},
        {"stimulus": (2, 8)},
        labels={"context": ("motion", "colour")},
    )
    inputs = torch.zeros(12, 4, 3)
    inputs[:, :, 2] = torch.tensor([1.0, 1.0, -1.0, -1.0])
    inputs[2:8, :, 0] = table["coherence"].values.float()
    return ms.record_activity(context_network, inputs, table)


def test_left_eigenvectors_are_biorthogonal_and_belong_to_the_eigenvalues():
    fp = points_of(*(torch.randn(3, 12, 12) / 3))
    assert identity_error(fp) < 1e-11
    left = fp.left_eigenvectors
    error = left.mT @ fp.jacobians.to(left) - fp.eigenvalues.unsqueeze(2) * left.mT
    assert error.abs().max() < 1e-11
    unit = left / left.norm(dim=1, keepdim=True)
    products = (unit.mT @ fp.eigenvectors).diagonal(dim1=1, dim2=2).abs()
    assert torch.allclose(fp.eigenvalue_conditions, 1 / products)


def test_repeated_eigenvalues_have_biorthogonal_vectors():
    basis = torch.randn(5, 5, dtype=torch.float64)
    repeated = basis @ torch.diag(torch.tensor([0.9, 0.5, 0.5, 0.5, 0.1]).double()) @ basis.inverse()
    assert identity_error(points_of(repeated)) < 1e-11


def test_a_normal_jacobian_has_conditions_of_one():
    symmetric = torch.randn(6, 6, dtype=torch.float64)
    fp = points_of(symmetric + symmetric.T)
    assert torch.allclose(fp.eigenvalue_conditions, torch.ones(1, 6).double())


def test_defective_eigenvalues_are_flagged_and_spoil_no_others():
    chain = torch.diag(torch.ones(4, dtype=torch.float64), 1)  # nilpotent, with one eigenvector
    chain[3:] = 0
    chain[4] = torch.tensor([0.3, 0, 0, 0, 0.99])
    fp = points_of(chain)
    assert fp.ill_conditioned.tolist() == [[False, True, True, True, True]]
    left = fp.left_eigenvectors[0, :, 0].real
    assert (left @ chain - fp.eigenvalues[0, 0].real * left).abs().max() < 1e-12


def test_no_points_have_no_left_eigenvectors():
    assert points_of(torch.eye(3))[[]].left_eigenvectors.shape == (0, 3, 3)


def test_the_selection_vector_predicts_where_a_pulse_ends():
    J = torch.tensor([[0.999, 0.6, 0.0], [0.0, 0.5, 0.2], [0.0, 0.0, 0.3]], dtype=torch.float64)
    B = torch.randn(3, 2, dtype=torch.float64)
    network = ms.adapt(lambda u, h: h @ J.T + u @ B.T, state_size=3, input_size=2)
    found = ms.selection_vectors(ms.Dynamics(network), points_of(J), along=torch.eye(3)[0])
    state = B.T.clone()  # the states after a unit of each input
    for _ in range(60):
        state = state @ J.T
    assert torch.allclose(state[:, 0], found.gains[0] * 0.999**60, rtol=1e-6)
    assert torch.allclose(found.direct[0], B[0])
    assert found.time_constants[0] == pytest.approx(999.5, rel=1e-3)
    assert found.reliable.all()
    assert "999" in found.summary()
    assert len(found.figure().axes) == 2


def test_a_slow_rotation_has_no_selection_vector():
    turn = 0.99 * torch.tensor([[0.8, -0.6], [0.6, 0.8]], dtype=torch.float64)
    system = ms.Dynamics(ms.adapt(lambda u, h: h @ turn.T + u, state_size=2, input_size=2))
    found = ms.selection_vectors(system, points_of(turn))
    assert found.left.isnan().all()
    assert "complex" in found.summary()


def test_each_context_selects_its_own_input(context_network, points):
    systems = {name: ms.Dynamics(context_network, torch.tensor(x)) for name, x in CONTEXTS.items()}
    found = ms.by_condition(
        ms.selection_vectors, systems, fixed_points=points, features=("motion", "colour", "context")
    )
    for name, ignored in (("motion", 1), ("colour", 0)):
        cosines = found[name].cosines.abs()
        assert (cosines[:, 1 - ignored] > 0.2).all()
        assert (cosines[:, ignored] < 0.01).all()
        assert (found[name].right[:, 0] > 0.99).all()  # along the points, with one sign
    with pytest.raises(ValueError, match="one for each"):
        ms.selection_vectors(systems["motion"], points["motion"], features=("motion",))
    with pytest.raises(ValueError, match="have 3 numbers"):
        ms.selection_vectors(systems["motion"], points_of(torch.eye(3)))
    with pytest.raises(ValueError, match="no fixed points of this system: pass the Dynamics in which"):
        ms.selection_vectors(ms.Dynamics(systems["motion"].cell, [0.5, 0.0, 0.0]), points["motion"])
    with pytest.raises(ValueError, match="along must have 2"):
        ms.selection_vectors(systems["motion"], points["motion"], along=torch.ones(3))
    assert "no fixed point" in ms.selection_vectors(systems["motion"], points["motion"][[]]).summary()


def test_results_by_condition_are_a_mapping_that_is_saved(points, tmp_path):
    assert {name: len(fp) for name, fp in points.items()} == {"motion": 3, "colour": 3}
    assert points.summary().startswith("motion: 3 fixed points")
    points.save(tmp_path / "points.safetensors")
    again = ms.ByCondition.load(tmp_path / "points.safetensors")
    assert again.summary() == points.summary()
    assert torch.equal(again["colour"].states, points["colour"].states)
    assert points.to_dict()["motion"]["continuous"] is False
    with pytest.raises(KeyError, match="Did you mean 'motion'"):
        points["motions"]


def test_the_encoder_of_a_model_is_applied():
    model = ms.Model(torch.nn.RNN(2, 3), 1, encode=torch.nn.Linear(1, 2))
    seen = ms.by_condition(lambda system: points_of(torch.diag(system.input[0])), model, {"on": [1.0], "off": None})
    assert torch.allclose(seen["on"].jacobians[0].diagonal(), model.encode(torch.ones(1)).double())
    assert not seen["off"].jacobians.any()
    family = ms.interpolate_inputs(model, {0.0: [0.0], 1.0: [1.0]})
    assert torch.allclose(family(1.0).input[0], model.encode(torch.ones(1)).double())


@pytest.mark.parametrize(("inputs", "message"), [(None, "by name"), ({}, "no condition")])
def test_conditions_need_inputs(context_network, inputs, message):
    with pytest.raises(ValueError, match=message):
        ms.by_condition(ms.find_fixed_points, context_network, inputs)


def test_systems_take_no_further_inputs(context_network):
    with pytest.raises(ValueError, match="omit the inputs"):
        ms.by_condition(ms.find_fixed_points, {"a": ms.Dynamics(context_network)}, {"a": [0.0]})


def test_all_conditions_share_one_figure(points, recording):
    figure = points.figure(recording, colour=("context", "coherence"))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "motion: stable (2)" in labels
    assert "context colour, coherence 0.2" in labels
    assert figure.axes[0].get_xlabel() == "state 1"
    labels = [text.get_text() for text in points.figure(recording).legends[0].get_texts()]
    assert labels[0] == "trajectories"  # all trials together have no mean
    one = ms.by_condition(ms.find_fixed_points, ms.adapt(lambda x, h: 0.5 * h, state_size=1), {"rest": None})
    assert one.figure().axes[0].get_ylabel() == "condition"


@pytest.mark.parametrize("lens", ["cycles", "attractors"])
def test_cycles_and_attractors_are_compared_too(lens):
    flip = ms.adapt(lambda x, h: -torch.tanh(2 * h + x), state_size=2, input_size=2, bounds=(-1, 1))
    inputs = {"rest": [0.0, 0.0], "push": [0.1, 0.0]}
    if lens == "cycles":
        found = ms.by_condition(ms.find_cycles, flip, inputs, periods=2, starts=torch.full((1, 2), 0.9))
        expected = ["rest", "push"]
    else:
        options = {"transient": 50, "steps": 40, "max_period": 4, "progress": False}
        found = ms.by_condition(ms.find_attractors, flip, inputs, starts=torch.full((1, 2), 0.9), **options)
        expected = ["rest: cycle (1)", "push: cycle (1)"]
    assert [text.get_text() for text in found.figure().legends[0].get_texts()] == expected


def test_conditions_without_states_have_an_empty_figure(points):
    none = ms.ByCondition(("motion",), (points["motion"][[]],))
    assert not none.figure().legends


def test_results_without_states_are_drawn_alone(context_network):
    spectra = ms.by_condition(lambda system: ms.spectrum(system, state=torch.zeros(2)), context_network, CONTEXTS)
    with pytest.raises(ValueError, match=r"\['motion'\].figure"):
        spectra.figure()


def test_mean_inputs_are_those_of_an_epoch(recording):
    means = recording.mean_inputs("context", epoch="stimulus")
    assert torch.allclose(means["context motion"], torch.tensor([0.0, 0.0, 1.0]).double(), atol=1e-7)
    along = recording.part([0, 1]).inputs_along("coherence", epoch="stimulus")
    assert list(along) == [-0.2, 0.2]
    assert along[0.2][0] == pytest.approx(0.2)
    assert recording.inputs_along("coherence")[0.2][0] == pytest.approx(0.1)
    with pytest.raises(ValueError, match="no inputs"):
        ms.Recording(recording.activity, recording.table).mean_inputs("context")
    late = ms.Recording(recording.activity, TrialTable.of({}, {"late": ([12] * 4, [12] * 4)}), recording.inputs)
    with pytest.raises(ValueError, match="no input in the epoch 'late'"):
        late.mean_inputs(epoch="late")


def test_a_stimulus_axis_is_tracked_in_one_call():
    leaky = ms.adapt(lambda x, h: torch.tanh(0.5 * h + x), state_size=1, input_size=1)
    along = {-1.0: [-1.0], 0.4: [0.4], 1.0: [1.0]}
    family = ms.interpolate_inputs(leaky, along, parameter="coherence", unit="%")
    diagram = ms.track_fixed_points(family, starts=torch.zeros(1, 1))
    assert diagram.parameter == "coherence (%)"
    assert len(diagram) == 1
    assert diagram.snapshots.tolist() == [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.4, 0.5, 0.75, 1]
    with pytest.raises(ValueError, match="omit at"):
        ms.interpolate_inputs(leaky, along, at=[0, 1])
    with pytest.raises(ValueError, match="at="):
        ms.track_fixed_points(lambda gain: family(0.0))


def test_axes_are_directions_units_or_components():
    states = torch.randn(50, 4, dtype=torch.float64)
    direction = torch.tensor([0.0, 3.0, 4.0, 0.0])
    project = chosen_projection(states, {"choice": direction})
    drawn = project(states.numpy())
    assert torch.allclose(torch.from_numpy(drawn[:, 0]), states @ direction.double() / 5)
    assert project.labels == ("choice", "PC 1 without choice")
    assert abs(project.axes[0] @ project.axes[1]) < 1e-12
    assert chosen_projection(states, (0, 2)).labels == ("unit 0", "unit 2")
    for axes, message in (
        ({"a": torch.ones(3)}, "4 numbers"),
        ({"a": torch.zeros(4)}, "length above 0"),
        ((4,), "units from 0 to 3"),
        ((), "1 to 3"),
    ):
        with pytest.raises(ValueError, match=message):
            chosen_projection(states, axes)


def test_trajectories_are_coloured_by_condition(points, recording):
    figure = points["motion"].figure(recording, colour="context", axes={"choice": torch.tensor([1.0, 0.0])})
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[:2] == ["context motion", "context colour"]
    assert figure.axes[0].get_xlabel() == "choice"
    side = Condition("side", torch.tensor([0, 1, 2, 2]))
    figure = points["motion"].figure(recording.activity, colour=side)
    colours = {line.get_color() for line in figure.axes[0].get_lines() if line.get_label().startswith("side")}
    assert len(colours) == 3
    with pytest.raises(ValueError, match="without conditions"):
        points["motion"].figure(recording.activity, colour="side")
    with pytest.raises(ValueError, match="pass a recording"):
        points["motion"].figure(colour="side")
    one = points_of(torch.eye(1))
    assert one.figure(torch.randn(5, 4, 1).double(), colour=side).axes[0].get_xlabel() == "time step"


def test_a_recording_draws_trajectories(recording):
    figure = recording.figure(axes="components")
    assert figure.axes[0].get_xlabel() == "state 1"
    assert len(figure.legends[0].get_texts()) == 2
    assert recording.figure(colour="coherence", axes=(1,)).axes[0].get_xlabel() == "unit 1"
    single = ms.Recording(torch.randn(5, 3, 1).double()).figure(axes="components")
    assert single.axes[0].get_xlabel() == "step"


def test_regression_axes_find_planted_directions():
    motion, colour = torch.cartesian_prod(torch.arange(-2.0, 3.0), torch.arange(-2.0, 3.0)).double().unbind(1)
    first, second = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64))[0].T
    time = torch.tensor([0.0, 1.0, 0.5])[:, None, None]
    activity = time * (motion[:, None] * first + 3 * colour[:, None] * (second + first))
    activity = activity + 0.01 * torch.randn(3, 25, 6)
    activity[2, :5] = torch.nan
    recording = ms.Recording(activity.double(), TrialTable.of({"motion": motion, "colour": colour, "same": colour}))
    axes = ms.regression_axes(recording, "motion", "colour", components=2)
    assert axes["motion"] @ first > 0.999
    assert axes["colour"] @ second > 0.999
    raw = ms.regression_axes(recording, "motion", "colour", orthogonal=False)
    assert raw["colour"] @ (first + second) / 2**0.5 > 0.999
    for names, message in ((("colour", "same"), "determine each other"), ((), "Name the conditions")):
        with pytest.raises(ValueError, match=message):
            ms.regression_axes(recording, *names)
    with pytest.raises(ValueError, match="one value in all"):
        ms.regression_axes(recording.part([0, 1, 2, 3]), "motion")
    with pytest.raises(ValueError, match="No step has more trials"):
        ms.regression_axes(recording.part([0, 1]), "colour")
    copied = ms.Recording(activity[:, :, :1].double() * torch.ones(2), recording.table).part(slice(5, None))
    with pytest.raises(ValueError, match="differs from the others"):
        ms.regression_axes(copied, "motion", "colour")
