"""The affine recurrence that a layer of a network computes on given inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact, Int
from mnemoscope.cells.affine.parts import Parts, scale_sequence, scan_parts, scan_states, transition


@runtime_checkable
class Core(Protocol):
    """A recurrence that is affine in its state, as `AffineCell` is, which describes its methods."""

    def parts(self, features: Tensor) -> Parts: ...

    def finish(self, reads: Tensor, features: Tensor, scale: Tensor | None) -> Tensor: ...

    def denominators(self, reads: Tensor, scale: Tensor | None) -> Tensor | None: ...


@dataclass(frozen=True)
class LayerInputs:
    """The inputs of a layer, and the functions that compute its features from them: `mix(project(xs))`."""

    xs: Float[Tensor, "time batch inputs"]
    """Inputs before the norm, projection and convolution of the layer."""
    project: Callable[[Tensor], Tensor]
    """Acts on each step alone, and takes any leading dimensions."""
    mix: Callable[[Tensor], Tensor] = lambda projected: projected
    """Mixes the last steps of projected inputs (time, batch, ...), as a convolution does."""
    window: int = 1
    """Number of inputs on which the features of a step depend: that of the step, and those before it."""


@dataclass(frozen=True)
class AffineLayer:
    """One recurrent layer on given inputs: `S_t = A_t S_{t-1} + k_t v_t^T`, read by `q_t^T S_t`, with all its parts.

    Everything that is exact about the memory of a modern recurrence is a function of these. Tensors are time first,
    whatever the layout of the network.
    """

    name: str
    """Name of the layer in `run_with_cache`, such as "layers.3"; "" if the network is this one layer."""
    core: Core
    """The recurrence, an `AffineCell`."""
    features: Float[Tensor, "time batch features"]
    """The features that `core.parts` takes: projected, and convolved if the layer has a convolution."""
    parts: Parts
    """q, k, v, g, a and b at every step. If the state is scaled, they are relative to the scales, without
    `log_writes`."""
    start: Inexact[Tensor, "batch heads keys values"]
    """S before the first input."""
    scales: Float[Tensor, "time batch heads"] | None = None
    """m after every step, if the state is stored divided by exp(m)."""
    inputs: LayerInputs | None = None
    """Where the features come from, if that is known."""
    registers: int = 0
    """Number of rows of S, the last ones, that hold what is read: each step computes them anew from the others."""

    @classmethod
    def of(
        cls,
        core: Core,
        features: Float[Tensor, "time batch features"],
        state: tuple[Any, ...],
        inputs: LayerInputs | None = None,
    ) -> AffineLayer:
        """Return the layer of a core that takes these features from a state of it, (S,) or (S, m)."""
        S, *m = state
        parts, scales = scale_sequence(core.parts(features), m[0]) if m else (core.parts(features), None)
        return cls("", core, features, parts, S, scales, inputs)

    def named(self, name: str) -> AffineLayer:
        """Return this layer as part of a layer of that name."""
        return replace(self, name=f"{name}.{self.name}" if self.name else name)

    def memory(self) -> AffineLayer:
        """Return the layer without the rows of S that no step carries, for what does not depend on the reads."""
        if not self.registers:
            return self
        rows, parts = slice(-self.registers), self.parts
        a, b = (None, None) if parts.erase is None else (part[..., rows] for part in parts.erase)
        rates = parts.log_decays if parts.log_decays.shape[-1] == 1 else parts.log_decays[..., rows]
        erase = None if a is None or b is None or not bool(a.any()) else (a, b)
        q, k = parts.queries[..., rows], parts.keys[..., rows]
        kept = parts._replace(queries=q, keys=k, log_decays=rates, erase=erase)
        return replace(self, parts=kept, start=self.start[..., rows, :], registers=0)

    def precise(self) -> AffineLayer:
        """Return this layer with its parts and its start in float64, without gradients, for analysis."""
        parts = self.parts.in_precision(torch.float64)
        detached = Parts(*(_detached(part) for part in parts))
        start = self.start.detach().to(torch.complex128 if self.start.is_complex() else torch.float64)
        return replace(self, parts=detached, start=start)

    def reads(self) -> Inexact[Tensor, "time batch heads values"]:
        """Return `q^T S` at every step."""
        return scan_parts(self.parts, self.start)[0]

    def denominators(self) -> Float[Tensor, "time batch heads"] | None:
        """Return the numbers that divide the reads; None if the core has no normaliser."""
        return self.core.denominators(self.reads(), self.scales)

    def outputs(self) -> Float[Tensor, "time batch outputs"]:
        """Return the outputs of the core, before the gate, norm and projection of a block."""
        return self.core.finish(self.reads(), self.features, self.scales)

    def states(self) -> Inexact[Tensor, "time batch heads keys values"]:
        """Return S after every step."""
        return scan_states(self.parts, self.start)

    def at(self, step: int) -> Parts:
        """Return the parts of one step, (batch, ...)."""
        return self.parts.chosen(step)

    def between(self, first: int, after: int) -> Parts:
        """Return the parts of the steps from `first` to before `after`."""
        return self.parts.chosen(slice(first, after))

    def first_steps(self, steps: int, sequences: Int[Tensor, " chosen"]) -> AffineLayer:
        """Return the layer on the first steps of some sequences."""
        chosen = (slice(steps), sequences)
        scales = None if self.scales is None else self.scales[chosen]
        return replace(
            self,
            features=self.features[chosen],
            parts=self.parts.chosen(chosen),
            start=self.start[sequences],
            scales=scales,
        )

    def transitions(self) -> Inexact[Tensor, "time batch heads keys keys"]:
        """Return A at every step, which acts on every column of S."""
        return transition(self.parts)


def _detached(part: Any) -> Any:
    """Return a part without gradients; a and b are a tuple, and the number of micro-steps is no tensor."""
    if isinstance(part, tuple):
        return tuple(x.detach() for x in part)
    return part.detach() if isinstance(part, Tensor) else part
