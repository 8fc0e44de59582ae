"""Networks that run step by step while their readout is taught."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.cells import EchoState, Model, Reservoirs
from mnemoscope.cells.cell import check_input
from mnemoscope.cells.loop import prepared_steps
from mnemoscope.cells.state import State

Network = EchoState | Sequence[EchoState] | Model


@runtime_checkable
class Student(Protocol):
    """A network that runs step by step, with a readout (learners, output, features) that changes meanwhile."""

    readout: Tensor
    z: Tensor | None
    """What is fed back at the next step."""

    def steps(self) -> Iterator[Tensor]:
        """The features (learners, batch, features) after each step."""
        ...

    def kept(self) -> Tensor:
        """A copy of the readout in the network's own form."""
        ...

    def write(self) -> None:
        """Give the readout to the network."""
        ...

    def as_given(self, outputs: Tensor) -> Tensor:
        """Outputs (time, learners, batch, output) in the form of the caller's inputs."""
        ...

    def last_state(self) -> State:
        """After the last step."""
        ...


class OfReservoirs:
    """W_o of echo state networks, which may be fed back."""

    def __init__(
        self, cells: Sequence[EchoState], single: bool, inputs: Tensor, state: State | None, noise: float, seed: int
    ) -> None:
        self.cells, self.single, self.inputs = cells, single, inputs
        self.together = Reservoirs(cells)
        if self.together.readout is None:
            raise ValueError("Nothing can be taught: the reservoir has no outputs; EchoState(..., output_size=...).")
        check_input(cells[0], inputs)
        self.readout = self.together.readout
        batch = inputs.shape[-2]
        if state is not None:
            state = state.unsqueeze(0) if single else state
        self.x = self.together.initial_state(batch) if state is None else state
        self.z: Tensor | None = None
        self.noise, self.generator = noise, torch.Generator().manual_seed(seed)

    def steps(self) -> Iterator[Tensor]:
        together = self.together
        rates = together.rates(self.x)
        if self.z is None:
            self.z = rates @ self.readout.mT
        for u in together.driven(self.inputs):
            self.x = together.step(u, self.x, rates, self.z)
            if self.noise:
                drawn = torch.randn(self.x.shape, generator=self.generator, dtype=self.x.dtype)
                self.x = self.x + self.noise * drawn.to(self.x.device)
            rates = together.rates(self.x)
            yield rates

    def kept(self) -> Tensor:
        return self.readout[0].clone() if self.single else self.readout.clone()

    def write(self) -> None:
        for cell, readout in zip(self.cells, self.readout, strict=True):
            assert cell.readout is not None
            cell.readout.copy_(readout)

    def as_given(self, outputs: Tensor) -> Tensor:
        return outputs[:, 0] if self.single else outputs

    def last_state(self) -> State:
        return self.x[0] if self.single else self.x


class OfModel:
    """The readout of any cell; a constant feature stands for its bias."""

    def __init__(self, model: Model, inputs: Tensor, state: State | None) -> None:
        self.cell, self.linear = model.cell, model.linear_readout
        with torch.no_grad():
            inputs = model.encode(inputs)
        check_input(self.cell, inputs)
        self.inputs = inputs
        self.state = self.cell.initial_state(inputs.shape[1]) if state is None else state
        weight = self.linear.weight.detach()
        parts = [weight] if self.linear.bias is None else [weight, self.linear.bias.detach().unsqueeze(1)]
        self.readout = torch.cat(parts, 1).unsqueeze(0).clone()
        self.z: Tensor | None = None

    def steps(self) -> Iterator[Tensor]:
        us, step = prepared_steps(self.cell, self.inputs)
        for u in us.unbind():
            self.state = step(u, self.state)
            features = self.cell.output(self.state)
            if self.linear.bias is not None:
                features = torch.cat([features, torch.ones_like(features[:, :1])], 1)
            yield features.unsqueeze(0)

    def kept(self) -> Tensor:
        return self.readout[0].clone()

    def write(self) -> None:
        width = self.linear.weight.shape[1]
        self.linear.weight.copy_(self.readout[0, :, :width])
        if self.linear.bias is not None:
            self.linear.bias.copy_(self.readout[0, :, width])

    def as_given(self, outputs: Tensor) -> Tensor:
        return outputs[:, 0]

    def last_state(self) -> State:
        return self.state


def student_of(network: Network, inputs: Tensor, state: State | None, noise: float, seed: int) -> Student:
    """The network as something that is taught."""
    if not isinstance(inputs, Tensor) or not torch.isfinite(inputs).all():
        raise ValueError("The inputs must be a tensor (time, batch, features) without NaN and infinite values.")
    if isinstance(network, Model):
        cell = network.cell
        if isinstance(cell, EchoState) and cell.readout is network.linear_readout.weight:
            return OfReservoirs([cell], True, inputs, state, noise, seed)
        if isinstance(cell, EchoState) and cell.feedback is not None:
            raise ValueError("This reservoir feeds back an output of its own; teach that: force(model.cell, ...).")
        if noise:
            raise ValueError("noise is added to the states of reservoirs; a Model of another cell takes none.")
        return OfModel(network, inputs, state)
    cells = [network] if isinstance(network, EchoState) else list(network)
    if not all(isinstance(cell, EchoState) for cell in cells):
        raise TypeError("force and fit_readout teach an EchoState, a list of them, or a Model (cell and readout).")
    return OfReservoirs(cells, isinstance(network, EchoState), inputs, state, noise, seed)
