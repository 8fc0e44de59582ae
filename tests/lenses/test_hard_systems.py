"""Systems that mislead a naive fixed-point search: units of time, close roots, box edges, kinks, wrong derivatives."""

import math

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, Model, Stack
from mnemoscope.lenses import Adaptive, Box, Newton, Status
from mnemoscope.lenses.fixed_points.catalogue import Catalogue
from tests.slow import SLOW, representatives

D = torch.float64


def column(*values):
    return torch.tensor(values, dtype=D)[:, None]


def flow(function, size, **options):
    return ms.Dynamics(ms.adapt(function, state_size=size), continuous=True, **options)


@representatives("1000.0")
@pytest.mark.parametrize("unit", [1e3, 1.0, 1e-6])
def test_the_unit_of_time_does_not_change_the_points_of_a_flow(unit):
    """dx/dt = unit (2 tanh(2x) - x): the same points, kinds and indices in seconds as in milliseconds."""
    dynamics = flow(lambda x, h: unit * (2 * torch.tanh(2 * h) - h), 2, bounds=(-3, 3))
    fp = ms.find_fixed_points(dynamics, Box(80))
    assert len(fp) == 9
    assert sorted(fp.kind) == ["saddle"] * 4 + ["stable"] * 4 + ["unstable"]
    assert fp.index_sum == 1
    assert fp.may_be_complete
    assert fp.q.max() < 1e-25 * unit**2
    slowest = fp[[fp.kind.index("unstable")]].time_constants[0, 0].item()
    assert slowest == pytest.approx(1 / (3 * unit))  # the slope of 2 tanh(2x) - x at 0 is 3
    slow = ms.find_fixed_points(flow(lambda x, h: unit * (h * h + 1e-4), 1), column(-0.3, 0.2)).slow
    assert len(slow) == 1
    assert slow.q.item() == pytest.approx(0.5e-8 * unit**2, rel=1e-2)


def test_the_points_of_a_stiff_flow_have_indices():
    rates = torch.tensor([1e6, 1.0], dtype=D)
    fp = ms.find_fixed_points(flow(lambda x, h: rates * (h - h**3), 2, bounds=(-2, 2)), Box(60))
    assert sorted(fp.index.tolist()) == [-1] * 4 + [1] * 5
    assert "marginal" not in fp.kind


def test_the_rate_of_a_flow_can_be_given():
    f = lambda x, h: -h / 5  # noqa: E731
    assert flow(f, 1).rate == pytest.approx(0.2, rel=0.5)
    assert flow(f, 1, rate=7.0).rate == 7
    assert ms.find_fixed_points(flow(f, 1), column(1.0)).time_constants.item() == pytest.approx(5)
    assert flow(lambda x, h: torch.zeros_like(h), 1).rate == 1  # nothing moves
    with pytest.raises(ValueError, match="positive"):
        flow(f, 1, rate=0.0)
    with pytest.raises(ValueError, match="belongs to a flow"):
        ms.Dynamics(GRU(1, 2), rate=1.0)


def two_roots(gap):
    """Return a map with roots at u = 0 and u = gap, which the far stiffer v can hide."""

    def step(x, h):
        u, v = h.unbind(1)
        return torch.stack([u + u * (u - gap), v / 2], 1)

    return ms.Dynamics(ms.adapt(step, state_size=2))


@pytest.mark.parametrize("gap", [0.1, 0.01, 0.001])
def test_a_start_is_not_merged_into_the_neighbour_of_its_root(gap):
    dynamics = two_roots(gap)
    starts = torch.tensor([[0, 0], [gap, 1], [1.2 * gap, 1], [0.01 * gap, 1]], dtype=D)
    fp = ms.find_fixed_points(dynamics, starts)
    assert len(fp) == 2
    torch.testing.assert_close(fp.states[fp.starts.point, 0], torch.tensor([0, gap, gap, 0], dtype=D))
    assert fp.index_sum == 0


def test_a_recognised_root_is_confirmed_only_by_convergence():
    catalogue = Catalogue(two_roots(0.01))
    catalogue.offer(torch.zeros(1, 2, dtype=D), 1e-25)
    states = torch.tensor([[0.01, 1], [1e-4, 1], [0.0, 1e-9]], dtype=D)
    recognised = catalogue.recognise(states, catalogue.dynamics.residual(states))
    assert recognised.tolist() == [0, 0, 0]  # the stiff direction hides the other root
    assert catalogue.confirm(states, recognised).tolist() == [False, True, True]


def test_a_point_on_the_edge_of_a_declared_box_leaves_completeness_open():
    """The logistic map 2.5 h (1 - h) on (0, 1) has the roots 0, on the edge, and 0.6."""
    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lambda x, h: 2.5 * h * (1 - h), state_size=1, bounds=(0, 1))))
    torch.testing.assert_close(fp.states.sort(0).values, column(0.0, 0.6), rtol=0, atol=1e-12)
    assert fp.may_be_complete is None
    assert fp.kind == ["unstable" if state < 0.3 else "stable" for state in fp.states]


def test_a_declared_box_is_tested_for_invariance():
    gru = torch.nn.GRU(2, 8)
    assert ms.Dynamics(gru).invariant
    assert not ms.Dynamics(gru, bounds=(0.5, 1)).invariant
    assert ms.Dynamics(gru, bounds=(-2, 2)).invariant
    assert flow(lambda x, h: -h, 2, bounds=(-1, 1)).invariant
    assert not flow(lambda x, h: h, 2, bounds=(-1, 1)).invariant
    # leaves through one corner of 2^6 only, which a uniform sample would hardly hit
    corner = lambda x, h: 0.9 * h + 0.11 * (h > 0.999).all(1, keepdim=True)  # noqa: E731
    assert not ms.Dynamics(ms.adapt(corner, state_size=6, bounds=(-1, 1))).invariant
    assert ms.find_fixed_points(ms.Dynamics(gru, bounds=(0.5, 1)), Box(8)).may_be_complete is None


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (torch.no_grad()(lambda x, h: torch.tanh(2 * h)), "no_grad"),
        (lambda x, h: torch.tanh(h.detach()), "detach"),
        (lambda x, h: torch.nn.functional.dropout(h, 0.5), "random"),
        (lambda x, h: h - h.mean(0, keepdim=True), "mixes"),
        (lambda x, h: h.numpy(), "could not step"),
        (lambda x, h: h[:, :2], "keep the shape"),
        (lambda x, h: {}["missing"], "could not step"),
        (lambda x, h: h.mul_(0.5), "in place"),
        (lambda x, h: torch.tanh(h.squeeze(0)) if len(h) == 1 else torch.tanh(h), "could not step"),
    ],
)
def test_functions_that_cannot_be_analysed_are_refused(step, message):
    with pytest.raises(ValueError, match=message):
        ms.Dynamics(ms.adapt(step, state_size=4))


@pytest.mark.parametrize(
    ("step", "slope_at_4"),
    [
        (lambda x, h: torch.relu(h - 0.1), 1),
        (lambda x, h: h.abs(), 1),
        (lambda x, h: torch.sign(h), 0),  # its derivative is 0 almost everywhere, by differences too
        (lambda x, h: torch.sqrt(h), 0.25),  # outside its domain at most random states
    ],
)
def test_functions_with_kinks_and_domains_are_accepted(step, slope_at_4):
    for dtype in (torch.float32, torch.float64):
        dynamics = ms.Dynamics(ms.adapt(step, state_size=4), dtype=dtype)
        J = dynamics.jacobian(torch.full((1, 4), 4.0, dtype=dtype))
        torch.testing.assert_close(J, slope_at_4 * torch.eye(4, dtype=dtype)[None])


def test_weights_that_are_nan_are_refused():
    gru = torch.nn.GRU(2, 4)
    gru.weight_hh_l0.data[0, 0] = math.nan
    with pytest.raises(ValueError, match="NaN"):
        ms.Dynamics(gru)


def test_arguments_of_the_wrong_type_are_refused_with_an_explanation():
    network = torch.nn.GRU(3, 4)
    with pytest.raises(TypeError, match=r"network\.cell"):
        ms.Dynamics(Model(GRU(3, 4), 2))
    with pytest.raises(ValueError, match="must be torch"):
        ms.Dynamics(network, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="merge_distance"):
        ms.find_fixed_points(ms.Dynamics(network), merge_distance=-1)
    with pytest.raises(ValueError, match=r"\(low, high\)"):
        ms.Dynamics(network, bounds=(torch.zeros(3), 1.0))
    with pytest.raises(TypeError, match="not by True"):
        ms.find_fixed_points(ms.Dynamics(network))[True]
    inputs = [[0.0, 0, 1], torch.tensor([0.0, 0, 1]), torch.tensor([0.0, 0, 1]).numpy()]
    points = [ms.find_fixed_points(ms.Dynamics(network, x)).states for x in inputs]
    assert torch.equal(points[0], points[1])
    assert torch.equal(points[0], points[2])


def test_a_closed_form_that_does_not_fit_the_step_is_refused():
    class Wrong(GRU):
        def jacobian(self, x, state):
            return -super().jacobian(x, state)

    with pytest.raises(ValueError, match=r"in closed form is not the one by differences.*method `jacobian`"):
        ms.Dynamics(Wrong(3, 4))


def test_adaptive_takes_states_of_any_form():
    dynamics = ms.Dynamics(torch.nn.LSTM(1, 3))
    flat = torch.zeros(5, 6)
    results = [
        ms.find_fixed_points(dynamics, Adaptive(start))
        for start in (flat, flat.numpy(), dynamics.unflatten(flat), Box(5, 0.0, 1e-300))
    ]
    for result in results[1:]:
        torch.testing.assert_close(result.states, results[0].states)
    with pytest.raises(ValueError, match=r"\(starts, 6\)"):
        ms.find_fixed_points(dynamics, Adaptive(torch.zeros(5, 7)))


def test_starts_of_an_lstm_concentrate_where_its_points_lie():
    torch.manual_seed(0)
    dynamics = ms.Dynamics(torch.nn.LSTM(3, 100))
    _, high = dynamics.bounds
    assert high.max() > 50
    draws = Box(500).draw(dynamics, torch.Generator().manual_seed(0))
    assert dynamics.inside(draws).all()
    assert 0.4 < (draws[:, 100:].abs() < 2).double().mean() < 0.75
    assert draws.amin() < -10
    assert draws.amax() > 10
    assert len(ms.find_fixed_points(dynamics, Box(20))) == 1


def test_a_saturated_forget_gate_gives_no_box():
    lstm = LSTM(1, 2)
    lstm.bias_ih.data[2:4] = 800
    assert ms.Dynamics(lstm).bounds is None
    assert torch.isfinite(ms.find_fixed_points(ms.Dynamics(lstm)).starts.q).all()


def worst_lstm(inputs):
    """Return an LSTM whose memory can reach the edge of its box: open input gates and positive forget biases."""
    lstm = LSTM(inputs, 3).double()
    lstm.bias_ih.data[:3] = lstm.bias_ih.data[6:9] = 50  # i = g = 1
    lstm.bias_ih.data[3:6] = 1.5
    lstm.bias_hh.data[3:6] = 0.5
    return lstm


def test_the_box_of_an_lstm_is_kept_from_its_worst_corners():
    lstm = worst_lstm(1)
    x = torch.tensor([[0.7]], dtype=D)
    _, high = lstm.bounds(x[0], x[0])
    for unit in range(3):
        h = torch.sign(lstm.weight_hh[3 + unit])[None]
        after = lstm(x, ms.cells.LSTMState(h, high[None, 3:])).c[0, unit]
        assert after <= high[3 + unit] * (1 + 1e-12)
        assert after > high[3 + unit] * (1 - 1e-9)  # the box is tight


def test_the_box_of_a_stack_is_kept_from_its_worst_corners():
    lower = Elman(1, 2, connectivity=ms.connectivity.Dense(2, init="identity"), bias=False).double()
    lower.connectivity.matrix.data *= 50  # its output is any corner of the cube
    lstm = worst_lstm(2)
    stack = Stack([lower, lstm])
    x = torch.zeros(1, 1, dtype=D)
    _, high = stack.bounds(x[0], x[0])
    c_high = high[None, 5:]
    for unit in range(3):
        corner = torch.sign(lstm.weight_ih[3 + unit])[None]
        h = torch.sign(lstm.weight_hh[3 + unit])[None]
        after = stack(x, (corner, ms.cells.LSTMState(h, c_high)))[1].c[0, unit]
        assert after <= c_high[0, unit] * (1 + 1e-12)
        assert after > c_high[0, unit] * (1 - 1e-9)


def test_a_point_on_a_kink_is_marginal():
    """h' = relu(2 h): 0 attracts from below and repels above; torch's derivative there is 0."""
    mix = torch.tensor([[1.0, 0.3], [0.2, 1.0]], dtype=D)
    for size, step in ((1, lambda x, h: torch.relu(2 * h)), (2, lambda x, h: torch.relu(2 * h) @ mix)):
        fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(step, state_size=size)), torch.full((1, size), -0.5))
        assert fp.kind == ["marginal"]
        assert fp.index.tolist() == [0]


def test_a_small_but_certain_eigenvalue_has_an_index():
    """h' = h - 1e-7 (h - h^3) has slopes within MARGIN of 1: marginal by time scale, but isolated with index +-1."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h - 1e-7 * (h**3 - h), state_size=1, bounds=(-2, 2)))
    fp = ms.find_fixed_points(dynamics, column(-1.1, 0.05, 0.9))
    assert len(fp) == 3
    assert fp.kind == ["marginal"] * 3
    assert sorted(fp.index.tolist()) == [-1, 1, 1]
    assert fp.may_be_complete


def test_a_large_coordinate_does_not_hide_the_motion_of_a_small_one():
    """One coordinate is 1e6, the other moves by 0.03 per step: not slow, though q is small compared with 1e12."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: torch.stack([h[:, 0], h[:, 1] + 0.03 + 0 * h[:, 0]], 1), state_size=2))
    fp = ms.find_fixed_points(dynamics, torch.tensor([[1e6, 0.0]], dtype=D))
    assert len(fp) == 0
    assert fp.starts.counts() == {Status.STALLED: 1}


@pytest.mark.parametrize("size", [1e3, 1e8, 1e12])
def test_far_roots_of_a_rotation_are_found(size):
    """Rounding in one coordinate comes from the other, which is large."""
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=D)
    root = torch.tensor([size, 0.0], dtype=D)
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: (h - root) @ turn.T + root, state_size=2))
    fp = ms.find_fixed_points(dynamics, root + size * torch.randn(4, 2, dtype=D))
    assert len(fp) == 1
    torch.testing.assert_close(fp.states[0], root, rtol=1e-12, atol=1e-12 * size)


def test_limited_steps_lead_to_the_nearest_root():
    """h' = h + sin h: near the top of the sine, a full Newton step jumps over many roots."""
    fp = ms.find_fixed_points(
        ms.Dynamics(ms.adapt(lambda x, h: h + torch.sin(h), state_size=1)), column(0.3, 1.2, 1.5, 1.56)
    )
    assert fp.starts.counts() == {Status.FIXED: 4}
    assert len(fp) == 1
    assert fp.states.abs().max() < 1e-12


def test_a_minimiser_takes_over_where_newton_is_stuck():
    """Powell's (1970) example: Newton steps with decreasing q approach a singular point that is no minimum."""

    def residual(h):
        a, b = h.unbind(1)
        return torch.stack([a, 10 * a / (a + 0.1) + 2 * b * b], 1)

    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h + residual(h), state_size=2))
    start = torch.tensor([[3.4995, 2.7787]], dtype=D)

    class Alone(Newton):
        @property
        def settle(self):
            return None

    alone = ms.find_fixed_points(dynamics, start, solver=Alone()).starts
    with_minimiser = ms.find_fixed_points(dynamics, start, solver=Newton()).starts
    assert alone.status.item() == Status.STALLED
    assert with_minimiser.status.item() == Status.FIXED
    assert with_minimiser.steps.item() > alone.steps.item()


def test_the_next_wave_starts_between_untried_pairs():
    roots = torch.tensor([[0.0], [2.0], [8.0], [20.0]], dtype=D)
    tried = set()
    generator = torch.Generator().manual_seed(0)
    first = Adaptive(number=4).combine(roots, [1, 1, -1, -1], tried, generator)
    assert first[:, 0].tolist() == [1, 14, 4, 5]  # attractors, saddles, then mixed pairs, older ones first
    second = Adaptive(number=4).combine(roots, [1, 1, -1, -1], tried, generator)
    assert second[:2, 0].tolist() == [10, 11]  # no pair twice; mixtures fill the wave
    assert len(second) == 4
    assert -5 < second.min() < second.max() < 25


def test_no_inverses_are_stored_for_marginal_points():
    """Every state of h' = h is fixed."""
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h.clone(), state_size=20))
    catalogue = Catalogue(dynamics)
    states = torch.randn(300, 20, dtype=D)
    assert catalogue.offer(states, 1e-25).tolist() == list(range(300))
    assert len(catalogue._inverses) == 0
    wave = Adaptive(number=64).combine(catalogue.states, catalogue.index.tolist(), set(), torch.Generator())
    assert wave.shape == (64, 20)


def test_close_roots_in_a_stiff_direction_are_distinguished():
    """A 2-unit tanh network just past a fold: roots 0.067 apart, and a slow first unit."""
    network = torch.nn.RNN(1, 2).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.weight_hh_l0.copy_(torch.diag(torch.tensor([0.9, 5.0], dtype=D)))
        network.bias_hh_l0[1] = math.atanh(0.92443) - 5 * 0.92443
    dynamics = ms.Dynamics(network)
    fp = ms.find_fixed_points(dynamics)
    assert len(fp) == 3
    assert fp.may_be_complete
    middle = torch.tensor([[0.0, 0.8573443799404439]], dtype=D)
    many = torch.tensor([[0.0, 0.95]], dtype=D).repeat(128, 1)
    fp = ms.find_fixed_points(dynamics, torch.cat([many, middle]))
    torch.testing.assert_close(fp.states[fp.starts.point[-1]], middle[0])


@pytest.mark.parametrize("width", [0.05, 0.01])
def test_small_wells_next_to_a_slow_direction_are_found(width):
    def step(x, h):
        return torch.stack([0.99 * h[:, 0], width * torch.tanh(2 / width * h[:, 1])], 1)

    assert len(ms.find_fixed_points(ms.Dynamics(ms.adapt(step, state_size=2, bounds=(-1, 1))))) == 3


def test_many_equidistant_roots_are_found():
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h - 0.5 * torch.sin(62.8 * h) / 62.8, state_size=1))
    fp = ms.find_fixed_points(dynamics, torch.linspace(-0.5, 0.5, 400, dtype=D)[:, None])
    roots = math.pi / 62.8 * torch.arange(-9, 10, dtype=D)
    gaps = (fp.states - roots).abs().amin(0)
    assert gaps.max() < 1e-9


@SLOW
@pytest.mark.parametrize("bias", [8, 6, 10])
def test_large_memory_cells_leave_the_index_certain(bias):
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(2, 6)
    with torch.no_grad():
        lstm.bias_hh_l0[6:12] = bias
        lstm.weight_hh_l0.mul_(2)
    fp = ms.find_fixed_points(ms.Dynamics(lstm))
    assert "marginal" not in fp.kind
    assert (fp.index != 0).all()


def test_the_faces_of_a_box_are_tested_in_spite_of_rounding():
    for bounds in ((-2.2, 1.3), (-2.0, 1.0)):  # -2.2 + (1.3 + 2.2) is not 1.3
        dynamics = flow(lambda x, h: 2 - h, 2, bounds=bounds)
        assert not dynamics.invariant
        assert "leaves the declared box" in ms.find_fixed_points(dynamics, Box(9)).summary()


def test_far_attractors_are_found():
    fp = ms.find_fixed_points(ms.Dynamics(ms.adapt(lambda x, h: 0.5 * h + 1e9, state_size=1)))
    torch.testing.assert_close(fp.states, column(2e9))


@representatives("3")
@pytest.mark.parametrize("seed", range(5))
def test_threshold_linear_networks_are_solved_in_their_box(seed):
    torch.manual_seed(seed)
    W, b = torch.rand(3, 3, dtype=D) / 3, torch.rand(3, dtype=D)
    network = flow(lambda x, h: -h + torch.relu(h) @ W.T + b, 3, bounds=(0, 20))
    fp = ms.find_fixed_points(network, Box(20))
    expected = torch.linalg.solve(torch.eye(3, dtype=D) - W, b)  # all units are on, since W and b are positive
    torch.testing.assert_close(fp.states, expected[None])
    fp = ms.find_fixed_points(flow(lambda x, h: -h + 0.5 * torch.relu(h - 5) + 6, 1, bounds=(5.0, 10.0)), Box(9))
    torch.testing.assert_close(fp.states, column(7.0))


def test_functions_of_large_values_are_accepted():
    """The rounding of a difference of large numbers does not indicate a wrong derivative."""
    for drive, dtype in ((1e10, torch.float64), (1e4, torch.float32)):
        dynamics = ms.Dynamics(ms.adapt(lambda x, h, drive=drive: 0.5 * h + drive, state_size=1), dtype=dtype)
        assert dynamics.jacobian(torch.zeros(1, 1, dtype=dtype)).item() == 0.5


def test_a_degenerate_point_is_not_reported_as_a_continuous_attractor():
    dynamics = ms.Dynamics(ms.adapt(lambda x, h: h - h**3, state_size=2, bounds=(-1, 1)))
    assert "continuous attractor" not in ms.find_fixed_points(dynamics, Box(20)).summary()


def test_the_summary_gives_q_of_a_flow_in_units_of_its_rate():
    fp = ms.find_fixed_points(flow(lambda x, h: 1e3 * (h * h + 1e-4), 1), column(0.1))
    assert f"{fp.slow.q.item() / fp.rate**2:.1e} in units of rate^2" in fp.summary()
    assert "Of 1 start," in fp.summary()
