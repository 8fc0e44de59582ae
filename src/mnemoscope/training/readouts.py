"""Readouts that are trained while their network runs step by step, without gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mnemoscope.base.seeds import seeded_generator
from mnemoscope.cells import EchoState, Model, Reservoirs
from mnemoscope.cells.cell import check_input
from mnemoscope.cells.state import State
from mnemoscope.cells.unrolled import prepared_steps

Network = EchoState | Sequence[EchoState] | Model


class TrainableReadout(ABC):
    """A network that runs step by step, with a readout matrix that may change between steps.

    Several reservoirs are trained in parallel; a single network is the case of one learner.
    """

    single: bool
    """Whether the caller's inputs, outputs and readout have no dimension of learners."""
    weight: Tensor
    """Readout matrices, (learners, output, features)."""
    z: Tensor | None = None
    """Output that is fed back at the next step, (learners, batch, output)."""

    @abstractmethod
    def steps(self) -> Iterator[Tensor]:
        """Yield the features after each step, (learners, batch, features)."""

    @abstractmethod
    def write_back(self) -> None:
        """Copy the readout into the network."""

    @abstractmethod
    def last_state(self) -> State:
        """Return the state after the last step."""

    def snapshot(self) -> Tensor:
        """Return a copy of the readout in the form of the network's readout."""
        return self.weight[0].clone() if self.single else self.weight.clone()

    def like_inputs(self, outputs: Tensor) -> Tensor:
        """Return outputs (time, learners, batch, output) with the leading dimensions of the caller's inputs."""
        return outputs[:, 0] if self.single else outputs


class ReservoirReadout(TrainableReadout):
    """W_o of one or several echo state networks, whose output may be fed back."""

    def __init__(
        self, cells: Sequence[EchoState], single: bool, inputs: Tensor, state: State | None, noise: float, seed: int
    ) -> None:
        self.cells, self.single, self.inputs = cells, single, inputs
        self.reservoirs = Reservoirs(cells)
        if self.reservoirs.readout is None:
            raise ValueError("Nothing can be trained: the reservoir has no outputs; EchoState(..., output_size=...).")
        check_input(cells[0], inputs)
        self.weight = self.reservoirs.readout
        batch = inputs.shape[-2]
        if state is not None:
            state = state.unsqueeze(0) if single else state
        self.x = self.reservoirs.initial_state(batch) if state is None else state
        self.noise, self.generator = noise, seeded_generator(seed)

    def steps(self) -> Iterator[Tensor]:
        reservoirs = self.reservoirs
        rates = reservoirs.rates(self.x)
        if self.z is None:
            self.z = rates @ self.weight.mT
        for u in reservoirs.driven(self.inputs):
            self.x = reservoirs.step(u, self.x, rates, self.z)
            if self.noise:
                noise = torch.randn(self.x.shape, generator=self.generator, dtype=self.x.dtype)
                self.x = self.x + self.noise * noise.to(self.x.device)
            rates = reservoirs.rates(self.x)
            yield rates

    def write_back(self) -> None:
        for cell, weight in zip(self.cells, self.weight, strict=True):
            assert cell.readout is not None
            cell.readout.copy_(weight)

    def last_state(self) -> State:
        return self.x[0] if self.single else self.x


class ModelReadout(TrainableReadout):
    """The linear readout of a `Model` of any cell; a constant feature stands for its bias."""

    single = True

    def __init__(self, model: Model, inputs: Tensor, state: State | None) -> None:
        self.cell, self.linear = model.cell, model.linear_readout
        with torch.no_grad():
            inputs = model.encode(inputs)
        check_input(self.cell, inputs)
        self.inputs = inputs
        self.state = self.cell.initial_state(inputs.shape[1]) if state is None else state
        weight = self.linear.weight.detach()
        columns = [weight] if self.linear.bias is None else [weight, self.linear.bias.detach().unsqueeze(1)]
        self.weight = torch.cat(columns, 1).unsqueeze(0).clone()

    def steps(self) -> Iterator[Tensor]:
        us, step = prepared_steps(self.cell, self.inputs)
        for x, u in zip(self.inputs.unbind(), us.unbind(), strict=True):
            self.state = step(u, self.state)
            features = self.cell.output_at(x, self.state)
            if self.linear.bias is not None:
                features = torch.cat([features, torch.ones_like(features[:, :1])], 1)
            yield features.unsqueeze(0)

    def write_back(self) -> None:
        width = self.linear.weight.shape[1]
        self.linear.weight.copy_(self.weight[0, :, :width])
        if self.linear.bias is not None:
            self.linear.bias.copy_(self.weight[0, :, width])

    def last_state(self) -> State:
        return self.state


def trainable_readout(
    network: Network, inputs: Tensor, state: State | None, noise: float, seed: int
) -> TrainableReadout:
    """Return the readout of a network, ready to run over `inputs`."""
    if not isinstance(inputs, Tensor) or not torch.isfinite(inputs).all():
        raise ValueError("The inputs must be a tensor (time, batch, features) without NaN and infinite values.")
    if isinstance(network, Model):
        cell = network.cell
        if isinstance(cell, EchoState) and cell.readout is network.linear_readout.weight:
            return ReservoirReadout([cell], True, inputs, state, noise, seed)
        if isinstance(cell, EchoState) and cell.feedback is not None:
            raise ValueError(
                "This reservoir feeds back its own output, not that of the model; train that output: "
                "train_force(model.cell, ...)."
            )
        if noise:
            raise ValueError("noise is added to the states of reservoirs; a Model of another cell takes none.")
        return ModelReadout(network, inputs, state)
    cells = [network] if isinstance(network, EchoState) else list(network)
    if not all(isinstance(cell, EchoState) for cell in cells):
        raise TypeError("train_force and fit_readout take an EchoState, a list of them, or a Model (cell and readout).")
    return ReservoirReadout(cells, isinstance(network, EchoState), inputs, state, noise, seed)


def check_targets(readout: TrainableReadout, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return targets (time, learners, batch, output); raise unless they suit the inputs and the readout."""
    expected = (*inputs.shape[:-1], readout.weight.shape[-2])
    if tuple(targets.shape) != expected:
        raise ValueError(f"The targets must have shape {expected}, as the inputs, but have {tuple(targets.shape)}.")
    if not torch.isfinite(targets).all():
        raise ValueError("The targets contain NaN or infinite values.")
    targets = targets.to(readout.weight)
    if targets.dim() == 4:
        return targets
    return targets.unsqueeze(1).expand(-1, readout.weight.shape[0], -1, -1)


def check_mask(mask: Tensor | None, targets: Tensor) -> Tensor:
    """Return the mask (time, learners, batch), all True for None; raise unless it suits the targets."""
    shape = targets.shape[:-1]
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=targets.device)
    whole = mask.unsqueeze(1) if mask.dim() == 2 else mask
    if mask.dtype != torch.bool or whole.dim() != 3 or whole.shape[0] != shape[0] or whole.shape[2] != shape[2]:
        raise ValueError(
            f"mask must be of bool and of shape (time, batch) = {(shape[0], shape[2])}, but is {mask.dtype} of shape "
            f"{tuple(mask.shape)}."
        )
    return whole.expand(shape).to(targets.device)
