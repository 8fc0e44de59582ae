"""How gradients travel back through time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Inexact
from mnemoscope.cells import Cell, State
from mnemoscope.cells.loop import hold
from mnemoscope.cells.state import leaves, map_state, named_leaves
from mnemoscope.lenses.storage import load_result, save_result
from mnemoscope.memory.attention import Attentive

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Loss = Callable[[Tensor], Tensor]
"""From the outputs (time, batch, features) to one number."""


@dataclass(frozen=True)
class GradientNorms:
    """What of a loss reaches back to each step, of one network or of several side by side (Kerg, Fig 2 left), or of the
    parts of one network's state.

    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Dense
    >>> half = Elman(2, 3, "linear", Dense.holding(torch.eye(3) / 2))
    >>> gradients_of(half, torch.randn(5, 1, 2), lambda outputs: outputs[-1].sum()).summary()
    'From step to step back the gradient shrinks to 0.5 of itself; at the first step it is 0.0625 of that at the last.'
    """

    norms: Float[Tensor, "networks time batch"]
    """`|dL / dh_t|` of each sequence; NaN where it has no step."""
    names: tuple[str, ...] = ("",)
    """Of the networks, as "before training", "after training", or of the parts of a state."""

    def __len__(self) -> int:
        """Networks."""
        return len(self.names)

    @property
    def curve(self) -> Float[Tensor, "networks time"]:
        """log10 of the mean norm over sequences that have a step; -inf where nothing arrives, NaN where none has."""
        return self.norms.nanmean(2).log10()

    @property
    def decay(self) -> Float[Tensor, " networks"]:
        """What a gradient is multiplied by from step to step back: the slope of a straight line through the curve, by
        least squares over the steps where something arrives. NaN where there are fewer than two.
        """
        return torch.stack([_slope(curve) for curve in self.curve])

    def beside(self, other: GradientNorms) -> GradientNorms:
        """Both, side by side; of the same length and batch."""
        if self.norms.shape[1:] != other.norms.shape[1:]:
            raise ValueError(
                f"Gradients are compared over the same steps and sequences, but one has (time, batch) = "
                f"{tuple(self.norms.shape[1:])} and the other {tuple(other.norms.shape[1:])}."
            )
        return GradientNorms(torch.cat([self.norms, other.norms]), self.names + other.names)

    def summary(self) -> str:
        """The result in words."""
        said = []
        for name, curve, decay in zip(self.names, self.curve, self.decay.tolist(), strict=True):
            verb = "shrinks" if decay < 1 else "grows"
            to = f"{verb} to {decay:.3g} of itself" if not isnan(decay) else "cannot be followed"
            head = f"{name[0].upper()}{name[1:]}: from" if name else "From"
            said.append(f"{head} step to step back the gradient {to}; {_ends(curve)}.")
        return " ".join(said)

    def __repr__(self) -> str:
        return f"GradientNorms({self.summary()})"

    def save(self, path: str | Path) -> None:
        """Write one `.safetensors` file; `GradientNorms.load` reads it back."""
        save_result(path, "GradientNorms", {"norms": self.norms.detach().clone()}, {"names": self.names})

    @classmethod
    def load(cls, path: str | Path) -> GradientNorms:
        """Read what `save` wrote."""
        tensors, flags = load_result(path, "GradientNorms", "gradient norms")
        return cls(tensors["norms"], tuple(flags["names"]))

    def figure(self) -> Figure:
        """Log |dL/dh_t| against t (needs the `report` extra)."""
        from mnemoscope.lenses.attention.figure import draw_gradients

        return draw_gradients(self)


def gradients_of(
    cell: Cell,
    xs: Inexact[Tensor, "time batch ..."],
    loss: Loss,
    *,
    name: str = "",
    state: State | None = None,
    mask: Tensor | None = None,
) -> GradientNorms:
    """`gradient_norms` as a result that can be compared, drawn and kept; arguments as there.

    Of a model on a task, before and after training:

        before = gradients_of(model.cell, model.encode(batch.inputs),
                              lambda outputs: task.loss(model.readout(outputs), batch), name="before training")
        before.beside(after).figure()
    """
    return GradientNorms(gradient_norms(cell, xs, loss, state, mask).detach().double().cpu().unsqueeze(0), (name,))


def gradients_by_part(
    cell: Cell,
    xs: Inexact[Tensor, "time batch ..."],
    loss: Loss,
    *,
    state: State | None = None,
    mask: Tensor | None = None,
) -> GradientNorms:
    """`|dL / ds_t|` of each part s of a state: which way gradients take. Arguments as of `gradient_norms`.

    Of a Turing machine the parts are the controller, the memory, the (logarithms of the) weights of heads, and what was
    read: what comes back to the memory has skipped the steps since it was written, where gradients through the
    controller must take them one by one. Memory that is nearly empty has large gradients: the cosine of a short slot
    with a key turns with every small change. Squares of all parts add up to those of `gradient_norms`, but where a cell
    attends to its past, which that looks at otherwise.

    >>> from mnemoscope.networks import ntm
    >>> gradients_by_part(ntm(3, 8, slots=6), torch.randn(9, 2, 3), lambda outputs: outputs[-1].sum()).names
    ('controller', 'memory', 'read weights', 'write weights', 'reads')
    """
    begin = cell.initial_state(xs.shape[1]) if state is None else state
    parts = [name.partition(".")[0].replace("_", " ") for name, _ in named_leaves(begin)]
    squares = _squares(cell, xs, loss, begin, mask).double().cpu()
    names = tuple(dict.fromkeys(parts))
    own = [squares[[leaf for leaf, part in enumerate(parts) if part == name]].sum(0) for name in names]
    return GradientNorms(torch.stack(own).sqrt(), names)


def gradient_norms(
    cell: Cell,
    xs: Inexact[Tensor, "time batch ..."],
    loss: Loss,
    state: State | None = None,
    mask: Tensor | None = None,
) -> Float[Tensor, "time batch"]:
    """`|dL / dh_t|` of every state along a sequence: what of the loss reaches back to time t, by all paths.

    Of a cell that attends to its past, h_t is the output of the inner cell: its gradient comes through s_t and through
    all later attention (Kerg, 4.4.1), exactly, in memory that grows with time alone. Of any other cell h_t is the whole
    state. Where a cell cuts gradients off while it learns (`SparseBacktracking`, `HDetach` in training mode), these are
    the ones it learns by.

    Args:
        cell: the recurrent cell.
        xs: inputs (time, batch, ...).
        loss: from the outputs (time, batch, features) to one number.
        state: where to start; the cell's initial state unless given.
        mask: (time, batch), False where a sequence has no input: its state is held there, and the norm is NaN.

    A rotation passes gradients on as they are:

    >>> from mnemoscope.cells import Elman
    >>> from mnemoscope.connectivity import Exponential
    >>> cell = Elman(2, 4, "linear", Exponential(4))
    >>> norms = gradient_norms(cell, torch.randn(6, 1, 2), lambda outputs: outputs[-1, 0, 0])
    >>> norms.flatten().round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]

    """
    state = cell.initial_state(xs.shape[1]) if state is None else state
    if not isinstance(cell, Attentive):
        return _squares(cell, xs, loss, state, mask).sum(0).sqrt()
    xs = _masked(xs, mask)
    with torch.enable_grad():
        norms = _of_attentive(cell, xs, loss, state, mask)
    return norms if mask is None else norms.masked_fill(~mask, torch.nan)


def _masked(xs: Tensor, mask: Tensor | None) -> Tensor:
    """As in scan: what is not looked at must not spoil the gradients."""
    if mask is None:
        return xs
    _check_mask(xs, mask)
    return xs.masked_fill(~mask.view(*mask.shape, *(1,) * (xs.dim() - 2)), 0)


@torch.enable_grad()
def _squares(
    cell: Cell, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> Float[Tensor, "tensors time batch"]:
    """`|dL / ds_t|^2` of every tensor s of the state; NaN where a sequence has no step."""
    us, step = cell.prepare(_masked(xs, mask))
    outputs, probes = [], []
    for t, u in enumerate(us.detach().unbind()):
        new = step(u, state)
        probe = map_state(lambda tensor: torch.zeros_like(tensor, requires_grad=True), new)
        new = map_state(torch.add, new, probe)  # nothing is added; the gradient there is that of the state
        state = new if mask is None else hold(mask[t], new, state)
        probes.append(leaves(probe))
        outputs.append(cell.output(state))
    flat = [tensor for at in probes for tensor in at]
    found = iter(torch.autograd.grad(loss(torch.stack(outputs)), flat, materialize_grads=True))
    squares = torch.stack([torch.stack([next(found).abs().square().flatten(1).sum(1) for _ in at]) for at in probes], 1)
    return squares if mask is None else squares.masked_fill(~mask, torch.nan)


def _of_attentive(
    cell: Attentive, xs: Tensor, loss: Loss, state: State, mask: Tensor | None
) -> Float[Tensor, "time batch"]:
    h = cell.cell.output(state.inner)
    nudges = h.new_zeros(len(xs), *h.shape).requires_grad_()
    outputs = cell.watched(xs, state, mask=mask, nudges=nudges)
    (found,) = torch.autograd.grad(loss(outputs), nudges, materialize_grads=True)
    return found.norm(dim=-1)


def _check_mask(xs: Tensor, mask: Tensor) -> None:
    wanted = tuple(xs.shape[:2])
    if tuple(mask.shape) != wanted or mask.dtype != torch.bool:
        raise ValueError(
            f"mask must be of bool and of shape (time, batch) = {wanted}, but is {mask.dtype} of shape "
            f"{tuple(mask.shape)}."
        )


def _ends(curve: Float[Tensor, " time"]) -> str:
    """How the curve begins and ends, in words, and where it is smallest between."""
    taken, arrives = (one.nonzero().flatten().tolist() for one in (~curve.isnan(), curve > -torch.inf))
    if not arrives:
        return "none arrives"
    first, last, end = taken[0], arrives[-1], taken[-1]
    ratio = float(10 ** (curve[first] - curve[last]))
    words = f"at the first step it is {ratio:.3g} of that at {'the last' if last == end else f'step {last}'}"
    least = min(arrives, key=curve.tolist().__getitem__)
    words += f", and smallest at step {least}" if first < least < last else ""
    if last == end:
        return words
    later = "the last step" if last + 1 == end else f"steps {last + 1} to {end}"
    return f"{words}, and at {later} it is 0: the loss does not depend on what is there then"


def _slope(curve: Float[Tensor, " time"]) -> Float[Tensor, ""]:
    arrives = curve.isfinite()
    if int(arrives.sum()) < 2:
        return curve.new_tensor(torch.nan)
    back = -torch.arange(len(curve), dtype=curve.dtype)[arrives]
    back, logs = back - back.mean(), curve[arrives] - curve[arrives].mean()
    return 10 ** (back @ logs / (back @ back))
