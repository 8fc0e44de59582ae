"""The lenses on Turing machines: fixed points, gradients through the tape, and the figure of the tape."""

from dataclasses import replace
from itertools import product
from math import atanh, expm1, log, pi

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, Model
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.inspection.tape import longest_sequence, tape_figure
from mnemoscope.lenses import Adaptive
from mnemoscope.lenses.attractors import Kind
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.lenses.tape import UniformTape, find_uniform_fixed_points, make_uniform, record_tape
from mnemoscope.lenses.tape.figure import draw_tape, used_slots
from mnemoscope.memory.tape import FeedForward, TuringMachine
from mnemoscope.memory.tape.bounds import ROOM
from mnemoscope.networks import matntm, ntm
from mnemoscope.tasks import Batch, BitCopy
from tests.lenses.fisher_reference import slow_curve
from tests.slow import SLOW, representatives, slow


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


# fixed points of a machine


ERASE, ADD = 0.5, 0.3


def scripted_machine(slots, move, gamma=2.0, gate=0.3, numbers=2):
    """A machine with constant head parameters.

    The write head moves by `move` slots and sharpens by gamma; the read head spreads over all slots.
    """
    machine = TuringMachine(FeedForward(1 + numbers, 2), slots, (numbers,)).double()
    logit = log(gate / (1 - gate))
    beta, sharp, blunt = (log(expm1(value)) for value in (0.1, gamma - 1, 0.2))  # softplus of these
    moves = [9.0 * (one == move) for one in (-1, 0, 1)]
    key, erase, add = [0.5] * numbers, [log(ERASE / (1 - ERASE))] * numbers, [atanh(ADD)] * numbers
    rest = [beta, logit, sharp, beta, 0.0, blunt]
    with torch.no_grad():
        machine.heads.maps[0].weight.zero_()
        machine.heads.maps[0].bias.copy_(
            torch.tensor([*key, *key, *erase, *add, *moves, 0.0, 9.0, 0.0, *rest], dtype=torch.float64)
        )
    return machine


def test_a_head_that_keeps_its_place_has_a_fixed_point_for_every_set_of_slots():
    """`w_i ~ (g / N + (1 - g) w_i)^gamma` has one solution for every set of slots, all on a uniform tape."""
    slots, gamma, gate = 3, 2.0, 0.3
    machine = scripted_machine(slots, 0, gamma, gate)
    dynamics = ms.Dynamics(machine, torch.tensor([0.75]))
    fp = ms.find_fixed_points(dynamics, Adaptive(number=10))
    assert len(fp) == 2**slots - 1
    assert fp.may_be_complete
    state = dynamics.unflatten(fp.states)
    again = machine(torch.full((len(fp), 1), 0.75, dtype=torch.float64), state)
    for new, old in zip(again, state, strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=1e-10)
    torch.testing.assert_close(state.memory, torch.full_like(state.memory, ADD / ERASE), rtol=0, atol=1e-10)
    w, (_, stay, _) = state.write_weights[:, 0], torch.tensor([0.0, 9.0, 0.0]).double().softmax(0)
    mixed = gate / slots + (1 - gate) * w
    moved = stay * mixed + (1 - stay) / 2 * (mixed.roll(1, 1) + mixed.roll(-1, 1))
    torch.testing.assert_close(w, moved**gamma / (moved**gamma).sum(1, keepdim=True), rtol=0, atol=1e-10)
    assert {tuple(row) for row in (w > 1 / slots - 1e-6).int().tolist()} == set(product((0, 1), repeat=slots)) - {
        (0,) * slots
    }
    assert fp.kind.count("stable") == slots
    # overwriting reduces the content of a slot by the factor 1 - w e per step
    (alone,) = (point for point in range(len(fp)) if w[point, 0] > 0.9)
    for weight in w[alone]:
        assert ((fp.eigenvalues[alone] - (1 - weight * ERASE)).abs() < 1e-8).sum() >= 2


@SLOW
def test_a_moving_head_cycles_around_the_tape():
    """Its only fixed point spreads over all slots; waves of its weights grow there by gamma (1 - g) and rotate."""
    slots, gamma, gate = 4, 2.0, 0.3
    dynamics = ms.Dynamics(scripted_machine(slots, 1, gamma, gate))
    fp = ms.find_fixed_points(dynamics, Adaptive(number=10))
    assert (len(fp), fp.may_be_complete) == (1, True)
    weights = dynamics.unflatten(fp.states).write_weights
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / slots), rtol=0, atol=1e-10)
    shift, moves = torch.tensor([0.0, 0.0, 9.0]).double().softmax(0), torch.tensor([-1, 0, 1])
    for wave in range(1, slots):
        turned = (shift * torch.exp(-2j * pi * wave * moves / slots)).sum()
        assert (fp.eigenvalues[0] - gamma * (1 - gate) * turned).abs().min() < 1e-6
    seen = ms.find_attractors(dynamics, 3, transient=200, steps=50, max_period=8)
    assert seen.kind == [Kind.CYCLE]
    assert seen.periods.tolist() == [slots]


def test_the_fixed_points_of_a_random_machine_have_equal_slots():
    torch.manual_seed(6)
    machine = matntm(4, 3, layers=2, slots=4, slot_rows=2, slot_columns=2, output_size=4).double()
    dynamics = ms.Dynamics(machine, randn(4))
    fp = ms.find_fixed_points(dynamics, Adaptive(number=10))
    assert len(fp)
    assert fp.may_be_complete
    state = dynamics.unflatten(fp.states)
    torch.testing.assert_close(state.memory, state.memory[:, :1].expand_as(state.memory), rtol=0, atol=1e-8)
    again = machine(dynamics.input.expand(len(fp), -1), state)
    torch.testing.assert_close(again, state, rtol=0, atol=1e-10)


MACHINES = {
    "ntm": lambda: ntm(3, 4, slots=5, slot_size=2),
    "learned memory": lambda: ntm(3, 4, slots=5, slot_size=2, controller="feed-forward", initial_memory="learned"),
    "two writers": lambda: ntm(3, 4, slots=5, slot_size=2, write_heads=2, read_heads=2, reach=2),
    "gru": lambda: TuringMachine(GRU(3 + 2, 4), 3, (2,)),
    "one slot": lambda: ntm(3, 4, slots=1, slot_size=2, reach=0),
    "matntm": lambda: matntm(3, 3, slots=4, slot_rows=2, slot_columns=3, layers=2, read_heads=2),
    "matrix lstm": lambda: matntm(3, 3, slots=4, slot_rows=2, slot_columns=2, controller="lstm", write_heads=2),
}


def difference_jacobian(dynamics, state, wide=1e-6):
    """Return the Jacobian by central differences."""
    steps = wide * torch.eye(dynamics.size, dtype=torch.float64)
    return ((dynamics(state + steps) - dynamics(state - steps)) / (2 * wide)).T


@pytest.mark.parametrize("name", MACHINES)
def test_the_jacobian_of_a_machine_matches_central_differences(name):
    """A machine has no Jacobian in closed form; lenses use `torch.func`."""
    machine = MACHINES[name]().double()
    dynamics = ms.Dynamics(machine, randn(3))
    start = map_state(lambda part: part.detach() + 0.1 * torch.rand_like(part), machine.initial_state(2))
    states = dynamics.layout.flatten(start)
    assert machine.jacobian(dynamics.input.expand(2, -1), start) is None
    for state, J in zip(states, dynamics.jacobian(states), strict=True):
        torch.testing.assert_close(
            J, difference_jacobian(dynamics, state), rtol=1e-6, atol=1e-7
        )  # rounding over 1e-6, and curvature


@representatives("elman")
@pytest.mark.parametrize("name", ["elman", "matntm"])
def test_lenses_at_a_fixed_point_of_a_machine_see_its_linearisation(name):
    torch.manual_seed(0)
    make = {
        "elman": lambda: TuringMachine(Elman(2 + 2, 3, "tanh"), 3, (2,)),
        "matntm": lambda: matntm(2, 2, layers=2, slots=3, slot_rows=1, slot_columns=2),
    }
    dynamics = ms.Dynamics(make[name](), randn(2))
    fp = ms.find_fixed_points(dynamics, Adaptive(number=10))
    assert fp.kind == ["stable"]
    (point,) = fp.states
    A, x, wide = difference_jacobian(dynamics, point), dynamics.input, torch.tensor([[1e-6, 0.0]]).double()
    w = (dynamics.driven(x + wide, point[None]) - dynamics.driven(x - wide, point[None]))[0] / 2e-6
    found = ms.spectrum(fp[0]).eigenvalues.abs().sort(descending=True)[0][:4]
    expected = torch.linalg.eigvals(A).abs().sort(descending=True)[0][:4]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    memory = ms.fisher_memory(dynamics, 0, state=point, lags=6)
    curve = slow_curve(A, w, torch.eye(dynamics.size).double(), 6)
    torch.testing.assert_close(memory.curve, curve, rtol=1e-5, atol=1e-10)
    # a small perturbation decays as the linearisation predicts
    push = 1e-4 * torch.linalg.eigh((A + A.T) / 2)[1][:, -1]
    torch.testing.assert_close(dynamics((point + push)[None])[0] - point, A @ push, rtol=0, atol=1e-7)


@representatives("ntm", "matrix lstm")
@pytest.mark.parametrize("name", MACHINES)
@torch.no_grad()
def test_no_trajectory_of_a_machine_leaves_the_box(name):
    torch.manual_seed(7)
    machine = MACHINES[name]().double()
    for weight in machine.parameters():
        weight.mul_({"matntm": 1.5, "matrix lstm": 1.0}.get(name, 3.0))  # so that states come near the box
    ends = torch.tensor([-2.0, 0.0, 1.0]).double(), torch.tensor([1.0, 3.0, 1.5]).double()
    low, high = machine.bounds(*ends)
    layout = ms.cells.Layout(machine.initial_state(1))
    assert low.shape == high.shape == (layout.size,)
    inside, corners = torch.rand(2, 200, layout.size, dtype=torch.float64)
    begin = layout.flatten(machine.initial_state(200))
    slack = 1e-12 * (1 + high - low)
    for state in (begin, low + (high - low) * inside, torch.where(corners < 0.5, low, high)):
        for _ in range(20):
            assert ((state >= low - slack) & (state <= high + slack)).all()
            x = ends[0] + (ends[1] - ends[0]) * torch.rand(200, 3, dtype=torch.float64).round()
            state = layout.flatten(machine(x, layout.unflatten(state)))


@representatives("2")
@pytest.mark.parametrize("writers", [1, 2, 3])
def test_the_box_of_a_memory_is_no_larger_than_need_be(writers):
    """Heads that write to one slot and erase as little as possible fill it up to the stated bound."""
    machine = TuringMachine(FeedForward(1 + 2, 2), 1, (2,), write_heads=writers, reach=0).double()
    with torch.no_grad():
        machine.heads.maps[0].weight.zero_()
        state = machine.initial_state(1)
        for _ in range(100):
            state = machine(torch.zeros(1, 1).double(), state)
        orders = machine.heads(torch.zeros(1, 2).double())
    e, a = orders.erase[0, :, 0], orders.add[0, :, 0]
    filled = a.sum() / (1 - (1 - e).prod())
    torch.testing.assert_close(state.memory[0, 0, 0], filled)
    _, high = machine.bounds(torch.zeros(1).double(), torch.zeros(1).double())
    bound = writers * a.abs().max() / (1 - (1 - e.min()) ** writers)
    assert high[2].item() == pytest.approx(ROOM * bound.item())
    assert filled.abs() <= bound * (1 + 1e-12)


def test_bounds_are_none_where_no_box_is_known():
    ends = torch.zeros(3), torch.ones(3)
    assert TuringMachine(Elman(3 + 2, 4, "relu"), 3, (2,)).bounds(*ends) is None
    assert TuringMachine(ms.cells.Stack([Elman(3 + 2, 4), GRU(4, 4)]), 3, (2,)).bounds(*ends) is None
    machine = ntm(3, 4, slots=5, slot_size=2)
    assert machine.bounds(*ends) is not None
    with torch.no_grad():
        machine.heads.maps[0].bias[4:8] -= 100  # so that nothing need ever be erased
    assert machine.bounds(*ends) is None


@SLOW
def test_uniform_starts_stay_uniform_and_find_all_points():
    torch.manual_seed(3)
    machine = ntm(3, 4, slots=4, slot_size=2).double()
    with torch.no_grad():
        for weight in machine.parameters():
            weight.mul_(3)
    dynamics = ms.Dynamics(machine)
    starts = make_uniform(dynamics, dynamics.origin + 0.3 * randn(16, dynamics.size))
    for states in (starts, dynamics(starts)):
        even = dynamics.unflatten(states)
        for part in (even.memory, even.read_weights.mT, even.write_weights.mT):
            torch.testing.assert_close(part, part[:, :1].expand_as(part), rtol=0, atol=1e-12)
        torch.testing.assert_close(even.read_weights.sum(2), torch.ones(16, 1).double())
    fp = ms.find_fixed_points(dynamics, starts)
    assert len(fp) == 3
    torch.testing.assert_close(dynamics(fp.states), fp.states, rtol=0, atol=1e-10)
    found = find_uniform_fixed_points(dynamics, starts[:8], number=4)
    assert len(found) == 3
    assert found.reduced.may_be_complete
    small = UniformTape(dynamics.cell)
    states = dynamics.flatten(small.full_state(ms.Dynamics(small).unflatten(found.reduced.states)))
    assert torch.cdist(fp.states, states).amin(1).max() < 1e-8
    for look in (lambda other: make_uniform(other, randn(1, 3)), find_uniform_fixed_points):
        with pytest.raises(TypeError, match="GRU"):
            look(ms.Dynamics(GRU(2, 3)))


@representatives("ntm")
@pytest.mark.parametrize("name", MACHINES)
def test_multipliers_of_uniform_points_are_those_of_the_full_jacobian(name):
    torch.manual_seed(4)
    machine = MACHINES[name]().double()
    dynamics = ms.Dynamics(machine, randn(3))
    found = find_uniform_fixed_points(dynamics, number=2)
    assert len(found)
    even = UniformTape(dynamics.cell)
    states = dynamics.flatten(even.full_state(ms.Dynamics(even).unflatten(found.reduced.states)))
    torch.testing.assert_close(dynamics(states), states, rtol=0, atol=1e-10)
    jacobians = dynamics.jacobian(states)
    for J, together, apart in zip(jacobians, found.reduced.eigenvalues, found.wave_multipliers, strict=True):
        whole = torch.linalg.eigvals(J)
        for value in torch.cat([together, apart.flatten()]):
            if value.abs() > 1e-3:  # eigenvalues near 0 of a defective matrix are not known that well
                nearest = (whole - value).abs().argmin()
                assert (whole[nearest] - value).abs() < 1e-8
                whole = torch.cat([whole[:nearest], whole[nearest + 1 :]])
        assert whole.abs().max() < 2e-3  # each multiplier was matched once, and none is left
    assert found.unstable.tolist() == [int((torch.linalg.eigvals(J).abs() > 1 + 1e-5).sum()) for J in jacobians]
    assert f"{len(found)} fixed point" in found.summary()


# gradients through a tape


@pytest.mark.parametrize("name", ["ntm", "matntm"])
def test_gradients_by_part_match_autograd_for_each_part(name):
    torch.manual_seed(9)
    machine = MACHINES[name]().double()
    xs = randn(5, 2, 3)

    def loss(outputs):
        return outputs[-2:].square().sum()

    parts = ms.gradient_norms(machine, xs, loss, by="part")
    assert parts.names == ("controller", "memory", "read weights", "write weights", "reads")
    whole = ms.gradient_norms(machine, xs, loss)
    torch.testing.assert_close(parts.norms.square().sum(0), whole.norms[0].square())
    # gradient of the loss with respect to one part of the state after step t
    state, outputs = machine.initial_state(2), []
    for t, x in enumerate(xs):
        state = map_state(lambda part: part.detach().requires_grad_(), machine(x, state))
        later, seen = state, [machine.output(state)]
        for after in xs[t + 1 :]:
            later = machine(after, later)
            seen.append(machine.output(later))
        found = torch.autograd.grad(loss(torch.stack([*outputs, *seen])), leaves(state), materialize_grads=True)
        outputs.append(machine.output(state).detach())
        squares = [part.square().flatten(1).sum(1) for part in found]
        inner = len(squares) - 4
        expected = torch.stack([sum(squares[:inner]), *squares[inner:]]).sqrt()
        torch.testing.assert_close(parts.norms[:, t], expected)
    assert (parts.norms[1:4, -1] == 0).all()  # no head reads after the last step
    assert (parts.norms[[0, 4], -1] > 0).all()


def test_the_summary_names_steps_without_a_gradient():
    """Outputs depend on the controller and the reads; weights and memory only affect later steps."""
    torch.manual_seed(0)
    machine = matntm(4, 3, slots=4, slot_rows=2, slot_columns=2, output_size=4)
    parts = ms.gradient_norms(machine, torch.randn(6, 2, 4), lambda outputs: outputs.square().sum(), by="part")
    for name, norms in zip(parts.names, parts.norms, strict=True):
        words = GradientNorms(norms[None]).summary()
        at, reference = (4, "step 4") if name in ("memory", "read weights", "write weights") else (5, "the last")
        ratio = norms[0].mean() / norms[at].mean()
        assert f"at the first step it is {ratio:.3g} of its value at {reference}" in words
        silent = ", and at the last step it is 0: the loss does not depend on the state there."
        assert words.endswith(silent) is (at == 4)
    early = ms.gradient_norms(GRU(3, 4), torch.randn(7, 2, 3), lambda outputs: outputs[3].sum()).summary()
    assert "of its value at step 3, and at steps 4 to 6 it is 0: " in early
    assert "inf" not in parts.summary() + early
    nothing = GradientNorms(torch.zeros(1, 3, 1)).summary()
    assert nothing == "The gradient has no measurable decay; it arrives nowhere."


def test_gradients_by_part_of_a_tensor_state_and_of_a_masked_sequence():
    torch.manual_seed(10)
    xs, mask = randn(4, 2, 3), torch.tensor([[1, 1], [1, 1], [1, 0], [1, 0]]).bool()
    parts = ms.gradient_norms(LSTM(3, 4).double(), xs, lambda outputs: outputs[-1].sum(), by="part", mask=mask)
    assert parts.names == ("h", "c")
    assert torch.equal(parts.norms.isnan(), ~mask.expand(2, 4, 2))
    assert ms.gradient_norms(GRU(3, 4).double(), xs, lambda outputs: outputs[-1].sum(), by="part").names == ("state",)


# the figure


def test_the_tape_figure_shows_outputs_at_the_steps_that_count():
    task = BitCopy(bits=2, shortest=1, longest=4, mixed=True)
    batch = task.batch(5, seed=3, number=0)
    lengths = batch.mask.sum(0)
    assert lengths.max() > lengths.min()
    assert lengths[longest_sequence(batch)] == lengths.max()
    machine = Model(ntm(3, 4, slots=5, slot_size=2), 2)
    tape = record_tape(machine, batch.inputs)
    assert "as probabilities of a 1" in tape_figure(tape, batch)
    with pytest.raises(ValueError, match="same sequences"):
        tape_figure(record_tape(machine, batch.inputs[1:]), batch)


@pytest.mark.parametrize(
    ("used", "shown"),
    [
        ("1110000000", [0, 1, 2]),
        ("0001110000", [3, 4, 5]),
        ("1100000011", [8, 9, 0, 1]),  # a head stepped back from slot 0
        ("0000000001", [9]),
        ("1001000010", [8, 9, 0, 1, 2, 3]),  # shorter runs stay
        ("1000010000", [0, 1, 2, 3, 4, 5]),  # of two runs as long, that at the end is left out
        ("1110111111", [4, 5, 6, 7, 8, 9, 0, 1, 2]),
        ("1111111111", list(range(10))),
        ("0000000000", list(range(10))),
        ("1", [0]),
        ("0", [0]),
    ],
)
def test_used_slots_omits_the_longest_unused_run(used, shown):
    weights = torch.tensor([0.5 if each == "1" else 0.01 for each in used])
    assert used_slots(weights) == shown


@representatives("True")
@pytest.mark.parametrize("matrices", [True, False])
def test_slots_of_a_ring_keep_their_numbers(matrices):
    """Heads move from slot 117 past the end of 120 slots to slot 3."""
    pytest.importorskip("matplotlib")
    machine = matntm(4, 3, output_size=4, slots=120) if matrices else ntm(4, 3, slots=120, slot_size=5)
    tape = record_tape(Model(machine, 4), torch.zeros(7, 1, 4))
    walked = torch.eye(120)[torch.arange(117, 124) % 120].view(7, 1, 1, 120)
    tape = replace(tape, write_weights=walked, read_weights=walked)
    figure = draw_tape(tape)
    figure.draw_without_rendering()
    panels = {axes.get_title(): axes for axes in figure.axes}
    for title in ("Where it writes", "Where it reads"):
        assert (panels[title].images[0].get_array() == torch.eye(7).numpy()).all()
        ticks = {place: label.get_text() for place, label in
                 zip(panels[title].get_yticks(), panels[title].get_yticklabels(), strict=True)}  # fmt: skip
        assert [ticks[place] for place in sorted(ticks) if place in (0, 2, 4, 6)] == ["117", "119", "1", "3"]
    last = panels["Tape at the end"]
    if matrices:
        assert last.get_xlabel() == "slots 117 to 3"
    else:
        order = [117, 118, 119, 0, 1, 2, 3]
        assert (last.images[0].get_array() == tape.memory[-1, 0, order].numpy()).all()


def overlap(one, other):
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 0 < min(one.y1, other.y1) - max(one.y0, other.y0)


@representatives("True-5-5-1")
@pytest.mark.parametrize(("slots", "steps", "heads"), [(5, 5, 1), (12, 32, 1), (120, 90, 1), (12, 32, 2)])
@pytest.mark.parametrize("matrices", [True, *slow(False)])
def test_no_label_of_the_figure_is_cut_off_or_overlaps(matrices, slots, steps, heads, monkeypatch):
    """No label is cut off or overlaps a label, an image or a colour bar, at the font size of a narrow page."""
    pytest.importorskip("matplotlib")
    torch.manual_seed(0)
    figures, size = [], 25 if matrices else 8
    target = "mnemoscope.inspection.tape.figure_markup"
    monkeypatch.setattr(target, lambda figure, *_, **__: figures.append(figure) or "")
    how = {"slots": slots, "read_heads": heads, "write_heads": heads}
    machine = matntm(25, 9, output_size=25, **how) if matrices else ntm(8, 6, slot_size=5, **how)
    xs = torch.rand(steps, 1, size).round()
    batch = Batch(xs, torch.rand(steps, 1, size) > 0.5, torch.arange(steps)[:, None] >= steps // 2)
    shape = (5, 5) if matrices else None
    tape_figure(record_tape(Model(machine, size), xs), batch, shape)
    (figure,) = figures
    figure.draw_without_rendering()
    words = {}
    for axes in figure.axes:
        ticks = [each for axis, low, high in ((axes.xaxis, *axes.get_xlim()), (axes.yaxis, *sorted(axes.get_ylim())))
                 for place, each in zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
                 if low <= place <= high]  # fmt: skip
        texts = [text for text in (axes.title, axes.xaxis.label, axes.yaxis.label, *ticks) if text.get_text()]
        words |= {text: text.get_window_extent() for text in texts}
    assert len(words) > 20
    boxes = list(words.values())
    for number, (text, box) in enumerate(words.items()):
        assert box.x0 >= 0, text
        assert box.x1 <= figure.bbox.x1, text
        assert not any(overlap(box, other) for other in boxes[:number]), text
        assert not any(overlap(box, axes.bbox) for axes in figure.axes), text
    outputs = next(axes for axes in figure.axes if axes.get_title() == "Outputs")
    assert outputs.images[0].get_clim() == (0, 1)
    tape = next(axes for axes in figure.axes if axes.get_title() == "Tape at the end")
    low, high = tape.images[0].get_clim()
    assert low == -high < 0


def test_the_lenses_are_registered():
    assert ms.registry.lenses.load("tape") is ms.record_tape
    assert ms.registry.lenses.load("gradients") is ms.gradient_norms
