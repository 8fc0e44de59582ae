"""Further training of a model that exists."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.tasks import FlipFlop


def test_fine_tuning_lowers_the_loss_in_place_and_leaves_constants():
    torch.manual_seed(0)
    task = FlipFlop(bits=1, length=10)
    model = ms.Model(ms.networks.gru(1, 4), 1)
    model.readout.bias.requires_grad_(False)
    bias = model.readout.bias.clone()
    batch = task.batch(64, 1, 0, "test")

    def loss():
        with torch.no_grad():
            return task.loss(model(batch.inputs)[0], batch).item()

    before = loss()
    assert ms.fine_tune(model, task, steps=20, batch_size=16, learning_rate=0.02) is model
    assert loss() < 0.9 * before
    assert torch.equal(model.readout.bias, bias)


def test_matrices_with_limits_stay_within_them():
    torch.manual_seed(0)
    model = ms.Model(ms.networks.nnrnn(1, 8, clamp=0.01), 1)
    ms.fine_tune(model, ms.tasks.FlipFlop(bits=1, length=20), steps=30, batch_size=8, learning_rate=1e-2)
    gamma = dict(model.named_parameters())["cell.connectivity.gamma"]
    assert ((gamma - 1).abs() <= 0.01 + 1e-6).all()


def test_a_model_without_parameters_to_train_is_refused():
    model = ms.Model(ms.networks.gru(1, 4), 1).requires_grad_(False)
    with pytest.raises(ValueError, match="no parameters to train"):
        ms.fine_tune(model, ms.tasks.FlipFlop(bits=1, length=20), steps=1, batch_size=4)
