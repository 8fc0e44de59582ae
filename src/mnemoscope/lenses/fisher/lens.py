"""The Fisher memory lens: how much information about each past signal the state of a network holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Num
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import AffineLayer, Lengths, State
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher import routes
from mnemoscope.lenses.fisher.linearisation import MatrixCell, matrix_cell
from mnemoscope.lenses.fisher.matrix_system import MatrixSystem, Noise
from mnemoscope.lenses.fisher.operators import Dense
from mnemoscope.lenses.fisher.published import TERMS
from mnemoscope.lenses.fisher.result import FisherMemory
from mnemoscope.lenses.fisher.sources import Direction, linear_step, noise_factor
from mnemoscope.lenses.fisher.trajectory import trajectory_memory
from mnemoscope.lenses.fisher.values import layer_along, value_memory
from mnemoscope.lenses.systems import System

LAGS = 100
"""Default length of the curve of a linear system."""


@show_slow("Fisher memory")
def fisher_memory(
    system: System | MatrixSystem | AffineLayer,
    direction: Direction = None,
    *,
    along: Num[Tensor, "..."] | np.ndarray | PackedSequence | None = None,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
    state: State | None = None,
    noise: Noise = 1.0,
    lags: int | None = None,
    horizon: int | None = None,
    method: routes.Method = "exact",
    observed: routes.Observed = "all",
    terms: int = TERMS,
    route: routes.Route = "auto",
    layer: int | str | None = None,
) -> FisherMemory:
    """Compute the Fisher information that a network's state holds about each past signal.

    Without `along` the system is linear and, unless `horizon` is given, in its stationary state. With `along` any
    network is linearised at every step of the trajectories that these inputs drive; signals and noise are small. For
    a layer that is affine in its state, signals are by default the values that it writes: exact, per head, and faster
    by the cube of the number of values.

    Args:
        system: a square matrix A or a `Connectivity`; an `Elman` cell or torch.nn.RNN, whose recurrent matrix is used
            without its nonlinearity; a `Dynamics` or any network (its linearisation at `state`) or one fixed point,
            `fp[0]`; a `MatrixSystem`, whose state is a matrix, with or without a queue; or a `MatrixRNN` or
            `QueueMemory`, which is linearised as a `Dynamics` without input. Near its state such a cell is a
            `MatrixSystem` where possible, with noise in the newest matrix; the error of "published" gives the reason
            where it is not.
            With `along`: any network, which is copied and run in float64; or without it an `AffineLayer` of
            `mnemoscope.cells.affine_layers(network, inputs)`, which has its inputs.
        direction: the vector in which signals enter, w (size,). For cells and a `Dynamics` also the number of an input
            feature, which may be omitted if there is only one; for matrix cells also a matrix. A `MatrixSystem` has
            its own. With `along`, a direction in the space of the inputs: the number of a feature or a vector
            (features,); or None, for a network with layers that are affine in their state, to ask for the memory of
            one of them about the values that it writes. Gradients flow to tensors that are passed, not into cells.
        along: inputs that drive the trajectories, in the layout of the network: (batch, time, features) if it is a
            torch.nn module with `batch_first`, otherwise (time, batch, features); or a `PackedSequence`.
        mask: with `along`: the shape of the inputs without their features, False where a sequence has no input. The
            memory is that at the last input of each sequence, and lags count its inputs; where it has no more, the
            curve is NaN.
        lengths: with `along`: number of steps of each sequence, instead of a mask.
        state: the state (size,) at which a `Dynamics` or a network is linearised, 0 by default for a matrix cell. With
            `along`, the state in which the trajectories begin, by default the cell's initial state.
        noise: variance of the noise that enters every unit at every step, or its covariance (size, size). The
            covariance may be singular as long as the noise reaches every direction in time; with `along` it must be
            positive definite.
        lags: length of the curve; 100 by default, with `along` the whole trajectory.
        horizon: number of steps during which noise and signals have entered; None for a stationary state, which needs
            a spectral radius below 1.
        method: "published" uses the formulas of Renanse et al. for a `MatrixSystem`, or a cell that is one, as printed.
        observed: with a queue: the whole state, or only the newest matrix.
        terms: for "published" with a queue: passes through it after which divergent sums are cut off.
        route: for a `MatrixSystem`: "dense" forms the covariance of the flat state; "matrix-free" does not, and has no
            spatial matrix; "auto" uses the eigenbases of normal U and V, and is matrix-free for states of more than
            2500 numbers, for which there is no spatial matrix in any case.
        layer: with `along`: the number or the name of the affine layer whose memory of values is computed, if a network
            has several.

    >>> import torch
    >>> import mnemoscope as ms
    >>> V, v = 0.9 * torch.linalg.qr(torch.randn(50, 50))[0], torch.randn(50)
    >>> memory = ms.fisher_memory(V, v / v.norm())
    >>> round(memory.total.item(), 6)  # a normal network holds one signal in total, however it spreads it over time
    1.0

    Along inputs, a linear network has the memory of as many steps, whatever the trajectory:

    >>> cell = ms.cells.Elman(2, 8, "linear")
    >>> V, U = cell.connectivity().detach(), cell.drive.weight.detach()
    >>> memory = ms.fisher_memory(cell, 1, along=torch.randn(30, 1, 2))
    >>> torch.allclose(memory.curve[0], ms.fisher_memory(V, U[:, 1], lags=30, horizon=30).curve)
    True

    The memory of two recurrences about their values, in units of one write; that of a decay shared by all keys is 1:

    >>> xs = torch.randn(50, 4, 3)
    >>> for cell in ms.networks.mamba2(3, 16), ms.networks.deltanet(3, 16):
    ...     print(ms.fisher_memory(cell, along=xs).remaining.sum(-1).max() > 1 + 1e-6)
    tensor(False)
    tensor(True)

    """
    if isinstance(system, AffineLayer):
        _check_options_along(horizon, method, observed, terms, route)
        if direction is not None or along is not None or mask is not None or state is not None or layer is not None:
            raise ValueError("An AffineLayer has its inputs and its start: pass only lengths, noise and lags with it.")
        return value_memory(system, None if lengths is None else torch.as_tensor(lengths), noise=noise, lags=lags)
    if along is not None:
        _check_options_along(horizon, method, observed, terms, route)
        options = {"mask": mask, "lengths": lengths, "state": state}
        return _memory_along(system, direction, along, layer, noise, lags, options)
    if mask is not None or lengths is not None or layer is not None:
        raise ValueError("A mask, lengths and a layer belong to sequences of inputs: pass along=... as well.")
    options = _LinearOptions(LAGS if lags is None else lags, horizon, method, observed, terms, route)
    return _linear_memory(system, direction, state, noise, options)


class _LinearOptions(NamedTuple):
    """Options of a linear system, in the order in which `routes.matrix_memory` takes them."""

    lags: int
    horizon: int | None
    method: routes.Method
    observed: routes.Observed
    terms: int
    route: routes.Route

    def check(self) -> None:
        """Raise if an option has no valid value."""
        check_whole(1, lags=self.lags, horizon=1 if self.horizon is None else self.horizon)
        check_whole(0, terms=self.terms)
        if self.route not in get_args(routes.Route):
            raise ValueError(f"route must be one of {', '.join(get_args(routes.Route))}, but is {self.route!r}.")
        if self.observed not in ("all", "newest"):
            raise ValueError(f'observed must be "all" or "newest", but is {self.observed!r}.')


def _linear_memory(
    system: System | MatrixSystem, direction: Direction, state: State | None, noise: Noise, options: _LinearOptions
) -> FisherMemory:
    """Compute the memory of a linear system, or of the linearisation of another at a state."""
    options.check()
    if isinstance(system, MatrixSystem):
        if direction is not None or state is not None or not (isinstance(noise, (int, float)) and noise == 1):
            raise ValueError("A MatrixSystem has its own direction W and noise eps1, eps2.")
        return routes.matrix_memory(system, *options)
    linearised = matrix_cell(system, state)
    if linearised is not None:
        return _linearised_memory(linearised, direction, noise, options)
    _check_vector_options(options.method, options.route)
    if options.observed != "all":
        raise ValueError("A queue is part of a MatrixSystem; other systems are observed as a whole.")
    A, w = linear_step(system, direction, state)
    return routes.vector_memory(Dense(A), w, noise_factor(noise, len(w)), (len(w),), options.lags, options.horizon)


def _memory_along(
    system: System | MatrixSystem,
    direction: Direction,
    along: Num[Tensor, "..."] | np.ndarray | PackedSequence,
    layer: int | str | None,
    noise: Noise,
    lags: int | None,
    options: dict[str, Any],
) -> FisherMemory:
    """Compute the memory along inputs: of an affine layer about its values, or of a network about its inputs."""
    if direction is None and isinstance(system, nn.Module):
        chosen = layer_along(system, along, layer=layer, **options)
        if chosen is not None:
            return value_memory(*chosen, noise=noise, lags=lags)
    if layer is not None:
        raise ValueError("layer chooses an affine layer, whose values are the signals: omit layer or direction.")
    if not callable(system) or isinstance(system, Dynamics):
        raise TypeError(f"Along inputs a system is a network, not a {type(system).__name__}.")
    return trajectory_memory(system, along, direction, noise=noise, lags=lags, **options)


def _linearised_memory(
    linearised: MatrixCell, direction: Direction, noise: Noise, options: _LinearOptions
) -> FisherMemory:
    """Compute the memory of a matrix cell near its state: that of a `MatrixSystem`, or of the flat state."""
    w = linearised.source(direction)
    matrix_system = linearised.system(w, noise)
    if isinstance(matrix_system, MatrixSystem):
        return routes.matrix_memory(matrix_system, *options)
    _check_vector_options(options.method, options.route, reason=matrix_system)
    newest = linearised.queue is not None and options.observed == "newest"
    step = Dense(linearised.dynamics.jacobian(linearised.state)[0].cpu())
    shape = linearised.shape[1:] if newest else linearised.shape
    memory = routes.vector_memory(step, w, linearised.noise(noise), shape, options.lags, options.horizon)
    if linearised.queue is None:
        return memory
    return replace(memory, amplification=routes.strength_at_entry(memory.amplification))


def _check_vector_options(method: routes.Method, route: routes.Route, reason: str = "") -> None:
    """Raise if an option needs a `MatrixSystem`; `reason` says why a matrix network is not one."""
    if method == "published" and reason:
        raise ValueError(
            f"The published formulas are for networks X -> U^T X V with independent noise, and do not apply here: "
            f'{reason}. method="exact" takes it.'
        )
    if method != "exact":
        raise ValueError(
            f'This network has one method, "exact", but method is {method!r}; the published formulas are for '
            f"networks X -> U^T X V, with or without a queue."
        )
    if route == "matrix-free":
        because = f", and does not apply here: {reason}" if reason else "; omit route"
        raise ValueError(f"The matrix-free route is for a MatrixSystem{because}.")


def _check_options_along(horizon: int | None, method: str, observed: str, terms: int, route: str) -> None:
    """Raise if an option of a linear system was passed together with `along`."""
    given = {"horizon": horizon, "method": method, "observed": observed, "terms": terms, "route": route}
    defaults = {"horizon": None, "method": "exact", "observed": "all", "terms": TERMS, "route": "auto"}
    wrong = [name for name, value in given.items() if value != defaults[name]]
    if wrong:
        raise ValueError(f"Along inputs every step is linearised, and there is one method: omit {' and '.join(wrong)}.")
