"""Readouts trained by ridge regression on the states of one run."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.training.least_squares import ridge
from mnemoscope.training.readouts import Network, check_mask, check_targets, trainable_readout


def fit_readout(
    network: Network,
    inputs: Float[Tensor, "time ... features"],
    targets: Float[Tensor, " ..."],
    *,
    alpha: float = 1.0,
    washout: int = 0,
    mask: Bool[Tensor, " ..."] | None = None,
    noise: float = 0.0,
    seed: int = 0,
) -> None:
    """Train a readout by ridge regression on the states of one run (Jaeger 2001). The network changes in place.

    A reservoir with feedback is run with teacher forcing: the targets are fed back in place of the outputs. `noise` on
    its states keeps the reservoir stable when it later receives its own outputs.

    Args:
        network: an EchoState with outputs, a list of them, or a Model of any cell.
        inputs: (time, batch, features); for several reservoirs also (time, reservoirs, batch, features).
        targets: the same leading dimensions as the inputs.
        alpha: weight of |W_o|^2.
        washout: steps at the beginning that are left out.
        mask: (time, batch); steps where it is False are left out.
        noise: standard deviation of Gaussian noise added to the states of reservoirs at every step.
        seed: seed of the noise.

    >>> from mnemoscope.cells import EchoState, Model
    >>> model = Model(EchoState(1, 50), output_size=1)
    >>> xs = torch.rand(300, 1, 1)
    >>> fit_readout(model, xs, xs.roll(3, 0), alpha=1e-6, washout=10)

    """
    if not 0 <= washout < len(inputs):
        raise ValueError(f"washout leaves out steps at the beginning, fewer than {len(inputs)}, but is {washout}.")
    readout = trainable_readout(network, inputs, None, noise, seed)
    targets = check_targets(readout, inputs, targets)
    mask = check_mask(mask, targets).clone()
    mask[:washout] = False
    if not mask.any():
        raise ValueError("No step is left to train on: the mask and the washout leave out every step.")
    features = []
    readout.z = torch.zeros_like(targets[0])  # before the first target, the feedback is 0
    with torch.no_grad():
        for step, target in zip(readout.steps(), targets.unbind(), strict=True):
            features.append(step)
            readout.z = target
        recorded = torch.stack(features)  # (time, learners, batch, features)
        for learner in range(readout.weight.shape[0]):
            counted = mask[:, learner]
            readout.weight[learner] = ridge(recorded[:, learner][counted], targets[:, learner][counted], alpha)
        readout.write_back()
