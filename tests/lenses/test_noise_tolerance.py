"""Noise in the state, relative to its size, against a plain loop over trials and against closed forms."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, Elman, Model, Stack
from mnemoscope.cells.state import leaves, map_state
from mnemoscope.lenses.noise_tolerance.noisy_steps import run_with_noise, state_deviations
from mnemoscope.tasks import Copy

CELLS = {
    "tanh": lambda: Elman(3, 6, nonlinearity="tanh"),
    "lstm": lambda: LSTM(3, 5),
    "stack": lambda: Stack([GRU(3, 4), GRU(4, 4)]),
    "mamba2": lambda: ms.networks.mamba2(3, 8),
    "mlstm": lambda: ms.networks.mlstm(3, 8, heads=2),
}


def made(name):
    torch.manual_seed(0)
    return CELLS[name](), torch.randn(7, 4, 3)


def reference(cell, xs, deviations, level, seed):
    """Return the noisy outputs of a loop over steps and trials, with the draws in the same order."""
    generator = torch.Generator().manual_seed(seed)
    state, outputs = cell.initial_state(xs.shape[1]), []
    for x in xs:
        singles = [cell(x[i : i + 1], map_state(lambda part, i=i: part[i : i + 1], state)) for i in range(len(x))]
        state = map_state(lambda *parts: torch.cat(parts), *singles)
        noisy = []
        for tensor, deviation in zip(leaves(state), deviations, strict=True):
            drawn = torch.zeros_like(tensor)
            if deviation:
                drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            noisy.append((tensor + level * deviation * drawn).to(tensor))
        each = iter(noisy)
        state = map_state(lambda _, each=each: next(each), state)
        outputs.append(cell.output_at(x, state))
    return torch.stack(outputs)


@pytest.mark.parametrize("name", CELLS)
@torch.no_grad()
def test_noisy_outputs_are_those_of_a_plain_loop(name):
    cell, xs = made(name)
    _, deviations = state_deviations(cell, xs)
    found = run_with_noise(cell, xs, deviations, [0.0, 0.1, 1.0], seed=3)
    for level, outputs in zip([0.0, 0.1, 1.0], found, strict=True):
        torch.testing.assert_close(outputs, reference(cell, xs, deviations, level, 3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
@torch.no_grad()
def test_noise_of_zero_changes_nothing(name):
    cell, xs = made(name)
    quiet, deviations = state_deviations(cell, xs)
    assert torch.equal(run_with_noise(cell, xs, deviations, [0.0], seed=0)[0], quiet)
    torch.testing.assert_close(quiet, ms.scan(cell, xs)[0], rtol=1e-5, atol=1e-6)


def test_deviations_are_the_root_mean_square_of_each_tensor():
    cell, xs = made("lstm")
    cache = ms.run_with_cache(cell, xs)[1]
    wanted = [float(cache[name].detach().double().square().mean().sqrt()) for name in ("h", "c")]
    assert state_deviations(cell, xs)[1] == pytest.approx(wanted)


def test_the_logarithm_of_a_scale_receives_no_noise():
    cell, xs = made("mlstm")
    *_, deviation = state_deviations(cell, xs)[1]
    assert deviation == 0


def test_the_variance_of_a_leaky_unit_is_that_of_the_geometric_series():
    decay, steps, level = 0.8, 60, 0.5
    cell = ms.adapt(lambda x, h: decay * h + x, state_size=1)
    xs = torch.ones(steps, 4000, 1)
    quiet, (deviation,) = state_deviations(cell, xs)
    noisy = run_with_noise(cell, xs, [deviation], [level], seed=0)[0]
    wanted = (level * deviation) ** 2 / (1 - decay**2)  # stationary after 60 steps
    # The standard error of a variance of 4,000 draws is 2.2%; four of them.
    assert float((noisy - quiet)[-1].var()) == pytest.approx(wanted, rel=0.09)


@pytest.fixture(scope="module")
def delay_line():
    """A delay line of ten registers that copies one symbol exactly, and its trials."""
    task = Copy(delay=8, symbols=1, alphabet=3)
    shift = torch.zeros(30, 30)
    shift[3:, :-3] = torch.eye(27)  # ten registers of three numbers

    class Line(ms.cells.Cell):
        def initial_state(self, batch):
            return torch.zeros(batch, 30)

        def forward(self, x, state):
            return state @ shift.T + torch.nn.functional.pad(x[:, :3], (0, 27))

        def output(self, state):
            empty = 0.5 - state[:, -3:].abs().sum(1, keepdim=True)
            return torch.cat([state[:, -3:], empty], 1)

    batch = task.batch(40, seed=0, number=0)
    return Line(), task, batch


def test_a_network_that_copies_exactly_fails_at_large_noise_alone(delay_line, tmp_path):
    cell, task, batch = delay_line
    found = ms.measure_noise_tolerance(
        cell, batch.inputs, batch.targets, mask=task.recalled(batch), levels=(0, 0.05, 0.5, 20)
    )
    assert found.scores[:2].tolist() == [1, 1]
    assert found.quiet == 1
    assert found.high[0] == 1
    assert 0.85 < found.low[0] < 1  # the interval of 40 right answers is no point
    assert found.scores[3] < 0.6
    assert found.tolerated in (0.05, 0.5)
    assert (found.low <= found.scores).all()
    assert (found.scores <= found.high).all()
    assert "100.0%" in found.summary()
    found.save(tmp_path / "noise.safetensors")
    again = ms.NoiseTolerance.load(tmp_path / "noise.safetensors")
    assert again.summary() == found.summary()
    assert len(again.figure().axes) == 1


def test_a_score_of_the_outputs_equals_the_accuracy_on_targets(delay_line):
    cell, task, batch = delay_line
    due = task.recalled(batch)

    def share(outputs):
        right = (outputs.argmax(-1) == batch.targets) & due
        return right.sum(0) / due.sum(0)

    levels = (0.3, 2.0)
    by_score = ms.measure_noise_tolerance(cell, batch.inputs, score=share, levels=levels)
    by_targets = ms.measure_noise_tolerance(cell, batch.inputs, batch.targets, mask=due, levels=levels)
    assert torch.equal(by_score.scores, by_targets.scores)
    assert torch.equal(by_score.low, by_targets.low)
    assert by_score.tolerated is None  # the score of a constant answer is unknown


def test_a_level_at_which_trials_diverge_has_no_score():
    cell = ms.adapt(lambda x, h: h * h + x, state_size=1)
    xs = torch.zeros(60, 8, 1)
    xs[0] = 0.9
    found = ms.measure_noise_tolerance(cell, xs, torch.zeros_like(xs), levels=(0.0, 8.0))
    assert found.scores[0].isfinite()
    assert found.scores[1].isnan()
    assert found.diverged[1] > 0
    assert "diverge" in found.summary()


def test_a_network_without_an_advantage_has_nothing_to_disturb():
    torch.manual_seed(0)
    model, xs = Model(GRU(2, 4), 2), torch.randn(10, 6, 2)
    found = ms.measure_noise_tolerance(model, xs, 1e3 * torch.randn(10, 6, 2), levels=(0.1,))
    assert found.informed is (found.quiet < found.uninformed)
    worse = ms.measure_noise_tolerance(model, xs, torch.zeros(10, 6, 2), levels=(0.1,))
    assert worse.tolerated is None
    assert "no better than a constant answer" in worse.summary()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (lambda: ms.networks.memrnn(3, 8), "grows with every step"),
        (lambda: ms.networks.relrnn(3, 8), "relevance scores"),
        (lambda: ms.networks.ntm(3, 8, slots=6, slot_size=4), "addresses"),
    ],
    ids=["memrnn", "relrnn", "ntm"],
)
def test_networks_whose_state_is_more_than_activity_are_refused(cell, message):
    with pytest.raises(TypeError, match=message):
        ms.measure_noise_tolerance(cell(), torch.zeros(4, 2, 3), torch.zeros(4, 2, 8))


def test_wrong_requests_name_the_remedy():
    cell, xs = made("tanh")
    with pytest.raises(ValueError, match="either targets"):
        ms.measure_noise_tolerance(cell, xs)
    with pytest.raises(ValueError, match="levels must be numbers from 0 on"):
        ms.measure_noise_tolerance(cell, xs, torch.zeros(7, 4, 6), levels=(-1,))
