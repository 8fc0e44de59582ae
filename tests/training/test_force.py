"""Readouts by least squares: recursive (FORCE) and all at once (ridge)."""

import numpy as np
import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import GRU, LSTM, EchoState, Elman, Model, Reservoirs
from mnemoscope.tasks import FlipFlop
from mnemoscope.training import RecursiveLeastSquares, fit_readout, ridge, train_force
from tests.slow import SLOW, representatives, slow


def samples(number, features, outputs, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    r = torch.randn(number, features, generator=generator, dtype=dtype).cumsum(0).sin()  # correlated, as rates are
    return r, torch.randn(number, outputs, generator=generator, dtype=dtype)


def slow_rls(r, f, alpha):
    """Eq 27-28 as corrected: the error before the update, and the update subtracts."""
    P, W = np.eye(r.shape[1]) / alpha, np.zeros((f.shape[1], r.shape[1]))
    for sample, target in zip(r, f, strict=True):
        e = W @ sample - target
        P = P - np.outer(P @ sample, sample @ P) / (1 + sample @ P @ sample)
        W = W - np.outer(e, P @ sample)
    return P, W


def learned(r, f, alpha=1.0, block=1, **options):
    learner = RecursiveLeastSquares(r.shape[1], alpha, **options)
    W = torch.zeros(f.shape[1], r.shape[1], dtype=r.dtype)
    for features, target in zip(r.split(block), f.split(block), strict=True):
        W += learner.update(features, features @ W.mT - target)
    return learner, W


@pytest.mark.parametrize("block", [1, 3, 32, 70])
def test_recursive_least_squares_is_the_equations_and_ridge_regression(block):
    r, f = samples(200, 15, 3)
    learner, W = learned(r, f, alpha=0.5, block=block)
    P_slow, W_slow = slow_rls(r.numpy(), f.numpy(), 0.5)
    np.testing.assert_allclose(learner.P.numpy(), P_slow, rtol=0, atol=1e-12)
    np.testing.assert_allclose(W.numpy(), W_slow, rtol=0, atol=1e-11)
    torch.testing.assert_close(W, ridge(r, f, alpha=0.5), rtol=0, atol=1e-11)


def test_forgetting_reduces_the_weight_of_the_past():
    r, f = samples(120, 6, 2)
    _, W = learned(r, f, alpha=1.0, forgetting=0.97)
    weight = 0.97 ** torch.arange(119, -1, -1, dtype=torch.float64)
    root = weight.sqrt()[:, None]
    expected = ridge(root * r, root * f, alpha=0.97**120)
    torch.testing.assert_close(W, expected, rtol=0, atol=1e-9)


def test_several_learners_equal_separate_ones():
    sets = [samples(50, 8, 2, seed) for seed in range(3)]
    together = RecursiveLeastSquares(8, 0.2, learners=(3,))
    W = torch.zeros(3, 2, 8, dtype=torch.float64)
    r, f = (torch.stack(part) for part in zip(*sets, strict=True))
    for t in range(50):
        step = r[:, t : t + 1]
        W += together.update(step, step @ W.mT - f[:, t : t + 1])
    for number, (features, target) in enumerate(sets):
        torch.testing.assert_close(W[number], learned(features, target, 0.2)[1], rtol=0, atol=1e-12)


@SLOW
@pytest.mark.parametrize(("dtype", "accuracy"), [(torch.float64, 1e-8), (torch.float32, 1e-2)])
def test_a_hundred_thousand_updates_keep_p_symmetric_and_positive(dtype, accuracy):
    """Half of the units nearly saturated, as rates are, so that the least eigenvalues of P fall far below 1 / alpha."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(12, 60, generator=generator, dtype=torch.float64)
    latent = torch.randn(100_000, 12, generator=generator, dtype=torch.float64)
    shift = torch.arange(60) % 2 * 2.0
    r = torch.tanh(latent @ mix / 3 + shift + 0.01 * torch.randn(100_000, 60, generator=generator, dtype=torch.float64))
    true = torch.randn(2, 60, generator=generator, dtype=torch.float64)
    f = r @ true.mT
    learner, W = learned(r.to(dtype), f.to(dtype), block=5)
    P = learner.P
    assert torch.equal(P, P.mT)
    assert torch.linalg.eigvalsh(P).min() > 0
    r = r.to(dtype).double()
    exact = torch.linalg.inv(r.mT @ r + torch.eye(60, dtype=torch.float64))
    assert (P - exact).norm() < 1e-8 * exact.norm()
    best = ridge(r, f.to(dtype).double(), alpha=1.0)
    assert (W.double() - best).norm() < accuracy * best.norm()


def test_ridge_with_few_and_with_many_samples_minimises_its_sum():
    for number in (10, 100):
        r, f = samples(number, 30, 2)
        W = ridge(r, f, alpha=0.3)
        slope = (W @ r.mT - f.mT) @ r + 0.3 * W
        assert slope.abs().max() < 1e-9


def slow_force(cell, inputs, targets, every, alpha):
    """Sussillo & Abbott's loop: step with the output before the update fed back, then learn."""
    W = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    N = W["recurrent"].shape[0]
    x, P, Wo = np.zeros(N), np.eye(N) / alpha, W["readout"].copy()
    z = Wo @ np.tanh(x)
    outputs = []
    for t, (u, f) in enumerate(zip(inputs, targets, strict=True)):
        x = (1 - cell.leak) * x + cell.leak * (W["recurrent"] @ np.tanh(x) + W["feedback"] @ z + W["drive"] @ u)
        r = np.tanh(x)
        z = Wo @ r
        outputs.append(z)
        if t % every == 0:
            P = P - np.outer(P @ r, r @ P) / (1 + r @ P @ r)
            Wo = Wo - np.outer(z - f, P @ r)
    return np.array(outputs), Wo


def reservoir(units=60, inputs=2, outputs=2, seed=0, **options):
    torch.manual_seed(seed)
    return EchoState(inputs, units, outputs, **options).double()


def signals(time=150, batch=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(time, batch, 2, generator=generator, dtype=torch.float64)
    return inputs, torch.tanh(inputs.cumsum(0) / 5)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_force_equals_the_published_loop(every):
    cell, (inputs, targets) = reservoir(), signals()
    outputs, W_o = slow_force(cell, inputs[:, 0].numpy(), targets[:, 0].numpy(), every, 0.7)
    run = train_force(cell, inputs, targets, every=every, alpha=0.7)
    np.testing.assert_allclose(run.outputs[:, 0].numpy(), outputs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(cell.readout.detach().numpy(), W_o, rtol=0, atol=1e-9)
    assert run.steps.tolist() == list(range(0, 150, every))
    assert "updates in 150 steps" in run.summary()


def test_several_reservoirs_are_trained_as_if_alone():
    inputs, targets = signals()
    together, alone = ([reservoir(seed=seed) for seed in range(3)] for _ in range(2))
    run = train_force(together, inputs, targets)
    assert run.outputs.shape == (150, 3, 1, 2)
    for number, (member, single) in enumerate(zip(together, alone, strict=True)):
        single_run = train_force(single, inputs, targets)
        torch.testing.assert_close(member.readout, single.readout, rtol=0, atol=1e-9)
        torch.testing.assert_close(run.outputs[:, number], single_run.outputs, rtol=0, atol=1e-9)


def test_a_batch_shares_one_readout():
    cell, (inputs, targets) = reservoir(outputs=2, feedback_scale=0.0), signals(batch=4)
    train_force(cell, inputs, targets, every=1, alpha=0.3)
    with torch.no_grad():
        rates, _ = ms.scan(cell, inputs)
    expected = ridge(rates.flatten(0, 1), targets.flatten(0, 1), alpha=0.3)
    torch.testing.assert_close(cell.readout.detach(), expected, rtol=0, atol=1e-8)


@representatives("Elman-True", "GRU-True", "LSTM-False")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [GRU, LSTM, Elman])
def test_force_and_ridge_give_any_cell_the_same_readout(kind, bias):
    torch.manual_seed(0)
    cell = kind(2, 20).double()
    inputs, targets = signals(batch=3)
    models = [Model(cell, 2, readout_bias=bias).double() for _ in range(2)]
    for model in models:
        torch.nn.init.zeros_(model.readout.weight)
        if bias:
            torch.nn.init.zeros_(model.readout.bias)
    train_force(models[0], inputs, targets, every=1, alpha=0.1)
    fit_readout(models[1], inputs, targets, alpha=0.1)
    for name, value in models[0].readout.named_parameters():
        torch.testing.assert_close(value, dict(models[1].readout.named_parameters())[name], rtol=0, atol=1e-8)


def test_masked_steps_are_not_learned():
    inputs, targets = signals(batch=2)
    mask = torch.rand(150, 2, generator=torch.Generator().manual_seed(1)) < 0.5
    spoiled = torch.where(mask.unsqueeze(-1), targets, 1e3)
    for way in (lambda *a, **k: train_force(*a, every=1, **k), fit_readout):
        cells = [reservoir(feedback_scale=0.0) for _ in range(2)]
        for cell, f in zip(cells, (targets, spoiled), strict=True):
            way(cell, inputs, f, mask=mask)
        torch.testing.assert_close(cells[0].readout, cells[1].readout)


def test_a_snapshot_equals_the_readout_of_a_shorter_run():
    inputs, targets = signals()
    cell = reservoir()
    run = train_force(cell, inputs, targets, keep=[0, 60, 150])
    assert [snapshot.step for snapshot in run.snapshots] == [0, 60, 150]
    short = reservoir()
    train_force(short, inputs[:60], targets[:60])
    torch.testing.assert_close(run.snapshots[1].readout, short.readout.detach())
    assert not run.snapshots[0].readout.any()
    torch.testing.assert_close(run.snapshots[2].readout, cell.readout.detach())


def test_a_teacher_forced_reservoir_generates_its_target_alone():
    """Ridge regression on teacher-driven states with noise: a sine wave that continues without input."""
    torch.manual_seed(0)
    cell = EchoState(1, 300, 1, gain=1.2, tau=5.0).double()
    time = torch.arange(3000, dtype=torch.float64)
    wave = torch.sin(2 * torch.pi * time / 40).view(-1, 1, 1)
    silence = torch.zeros(3000, 1, 1, dtype=torch.float64)
    fit_readout(cell, silence, wave, alpha=1e-3, washout=200, noise=1e-3)
    together = Reservoirs([cell])
    x, heard = together.initial_state(1), torch.zeros(1, 1, 1, dtype=torch.float64)
    for u, f in zip(together.driven(silence[:1000]), wave[:1000], strict=True):
        x = together.step(u, x, together.rates(x), heard)
        heard = f.view(1, 1, 1)
    z, _ = together.run_outputs(silence[:2000], x)
    z = z[1000:, 0, 0, 0]
    peaks = ((z[1:-1] > z[:-2]) & (z[1:-1] > z[2:])).sum().item()
    assert 24 <= peaks <= 26
    assert 0.8 < z.max() < 1.2


@SLOW
@pytest.mark.parametrize("dtype", [torch.float32, *slow(torch.float64)])
def test_force_trains_a_flip_flop(dtype):
    torch.manual_seed(1)
    cell = EchoState(2, 300, 2, input_scale=4.0).to(dtype)
    task = FlipFlop(2, 8000, rate=0.03, width=11, apart=30, settle=15)
    batch = task.batch(1, seed=0, number=0)
    train_force(cell, batch.inputs.to(dtype), batch.targets.to(dtype), mask=batch.mask)
    test = task.batch(1, seed=0, number=0, split="test")
    with torch.no_grad():
        z, _ = cell.as_model()(test.inputs.to(dtype))
    assert task.scores(z, test)["accuracy"] > 0.99
    assert task.loss(z, test) < 0.02


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda c, x, f: train_force(c, x, f, every=0), ValueError, "every counts"),
        (lambda c, x, f: train_force(c, x, f[:-1]), ValueError, "targets must have shape"),
        (lambda c, x, f: train_force(c, x, f * torch.nan), ValueError, "targets contain NaN"),
        (lambda c, x, f: train_force(c, x * torch.inf, f), ValueError, "inputs must be"),
        (lambda c, x, f: train_force(c, x, f, alpha=0.0), ValueError, "alpha must be positive"),
        (lambda c, x, f: train_force(c, x, f, forgetting=1.5), ValueError, "forgetting"),
        (lambda c, x, f: train_force(c, x, f, noise=-1.0), ValueError, "noise"),
        (lambda c, x, f: train_force(c, x, f, keep=[999]), ValueError, "keep holds"),
        (lambda c, x, f: train_force(c, x, f, mask=torch.ones(3, 1, dtype=torch.bool)), ValueError, "mask must be"),
        (lambda c, x, f: train_force(EchoState(2, 9).double(), x, f), ValueError, "has no outputs"),
        (lambda c, x, f: train_force(Model(c, 2), x, f), ValueError, "feeds back its own output"),
        (lambda c, x, f: train_force(Model(GRU(2, 4).double(), 2).double(), x, f, noise=0.1), ValueError, "takes none"),
        (lambda c, x, f: fit_readout(c, x, f, washout=150), ValueError, "washout"),
        (lambda c, x, f: fit_readout(c, x, f, mask=torch.zeros(150, 1, dtype=torch.bool)), ValueError, "No step is"),
        (lambda c, x, f: ridge(x[:, 0], f[:3, 0]), ValueError, "ridge takes"),
        (lambda c, x, f: ridge(x[:, 0] * torch.nan, f[:, 0]), ValueError, "150 of 150 samples"),
        (lambda c, x, f: RecursiveLeastSquares(0), ValueError, "at least one feature"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make(reservoir(), *signals())


def test_unbounded_growth_is_reported():
    torch.manual_seed(0)
    cell = EchoState(2, 20, 2, gain=30.0, tau=1.0, density=1.0, nonlinearity="relu")
    inputs, targets = (part.float() for part in signals())
    with pytest.raises(FloatingPointError, match="did not stay finite"):
        train_force(cell, inputs, targets)
    assert not cell.readout.any()  # as it was


def test_errors_average_over_counted_steps_of_large_batches():
    cell, (inputs, targets) = reservoir(), signals(time=3, batch=70)
    mask = torch.zeros(3, 70, dtype=torch.bool)
    mask[:, 4] = True
    run = train_force(cell, inputs, targets, every=1, mask=mask)
    expected = (run.outputs - targets)[:, 4].abs().mean(1)
    torch.testing.assert_close(run.errors, expected)


def test_fitting_twice_equals_fitting_once():
    cell, (inputs, targets) = reservoir(nonlinearity="logistic"), signals()
    fit_readout(cell, inputs, targets)
    first = cell.readout.detach().clone()
    fit_readout(cell, inputs, targets)
    assert torch.equal(first, cell.readout)
