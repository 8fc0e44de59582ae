"""The Lyapunov lens: exponents by the QR method (Benettin et al. 1980; Shimada & Nagashima 1979; Geist et al. 1990).

Tangent vectors Q are advanced along a trajectory and orthonormalised again, J Q = Q' R. The logarithms of |R_ii| add up
to the logarithm of the volume that i vectors span, so their mean per step is the i-th exponent.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import show_slow, slow_bar
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_whole
from mnemoscope.cells import Lengths, Network, State, read_inputs
from mnemoscope.lenses.attractors.composition import as_map
from mnemoscope.lenses.attractors.lyapunov_result import LyapunovSpectrum
from mnemoscope.lenses.attractors.simulation import FAR
from mnemoscope.lenses.dynamics import Dynamics, as_dynamics
from mnemoscope.lenses.fixed_points.starts import StartStrategy, draw_starts

STARTS = 8
"""Random starts by default."""
BLOCKS = 20
"""Blocks of steps that give the standard error by their scatter."""
FORMED = 200
"""Largest state size at which a closed-form Jacobian is always formed: it costs less even for one vector."""
COPIED = 32
"""Largest state size at which autograd forms the Jacobian on copies of each state, if there is no closed form."""


@show_slow("exponents")
def lyapunov_spectrum(
    dynamics: Dynamics | Network,
    count: int | None = None,
    steps: int | None = None,
    transient: int = 500,
    starts: int | State | StartStrategy | None = None,
    *,
    every: int = 1,
    inputs: Float[Tensor, "time ..."] | np.ndarray | PackedSequence | None = None,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
    dt: float | None = None,
    seed: int = 0,
    progress: bool = True,
) -> LyapunovSpectrum:
    """Compute the leading Lyapunov exponents along trajectories from several starts.

    Args:
        dynamics: a map, or a flow, which is integrated in Runge-Kutta steps of length `dt`; or a network without input.
        count: number of exponents, the largest ones; by default all, or 10 for states of more than 100 numbers.
        steps: steps to average over, rounded down to whole blocks; 2,000 by default, or with `inputs` all that follow
            the transient.
        transient: steps before them, in which the state approaches its attractor and the tangent vectors align.
        starts: the number of random starts, states, or a strategy; by default 8, or one for each sequence of inputs.
        every: steps between two orthonormalisations. More than 1 saves little time, and loses directions once the
            largest and the smallest growth over that many steps are 16 digits apart.
        inputs: a sequence (time, features) for all starts or (time, starts, features), which is (starts, time,
            features) if the network is a torch.nn module with `batch_first`, that drives the network instead of its
            constant input. The exponents are then conditional on the inputs: the largest is negative if the
            network forgets its initial state. In a flow, each input is held for one step. A `PackedSequence` has one
            sequence for each start.
        mask: the shape of the inputs without their features, False where a sequence has no input; no step is taken
            there. The exponents of each start are averages over its own steps after the transient.
        lengths: number of inputs of each start, instead of a mask.
        dt: length of a time step of a flow.
        seed: seed of the starts and of the first tangent vectors.
        progress: show a progress bar after 3 seconds.

    >>> import mnemoscope as ms
    >>> shear = torch.tensor([[2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)  # the cat map: its Jacobian is constant
    >>> cat = ms.Dynamics(ms.adapt(lambda x, h: (h @ shear.T) % 1, state_size=2), bounds=(0, 1))
    >>> [round(value, 4) for value in lyapunov_spectrum(cat, steps=200, starts=2).mean.tolist()]  # log (3 +- 5^.5) / 2
    [0.9624, -0.9624]

    """
    dynamics = as_dynamics(dynamics, starts)
    system = as_map(dynamics, dt)
    count = _checked_count(system, count)
    check_whole(0, transient=transient)
    check_whole(1, every=every)
    generator = seeded_generator(seed)
    states = draw_starts(dynamics, _default_starts(dynamics, inputs) if starts is None else starts, generator)
    if inputs is None and (mask is not None or lengths is not None):
        raise ValueError("A mask and lengths describe sequences of inputs: pass inputs=... as well.")
    drawn = torch.randn(len(states), system.size, count, generator=generator, dtype=system.dtype).to(system.device)
    tangent_map, Q = TangentMap(system, count), torch.linalg.qr(drawn)[0]
    if inputs is None:
        block = _block_length(steps, transient, every, None)
        blocks = torch.full((len(states),), block)
        logs = block_growth(tangent_map, states, Q, transient, block, every, None, progress)
    else:
        drive, available = _checked_inputs(dynamics, inputs, len(states), mask, lengths)
        blocks = torch.tensor([_block_length(steps, transient, every, number) for number in available.tolist()])
        logs = states.new_zeros(len(states), BLOCKS, count)
        for block in blocks.unique().tolist():  # starts with blocks of the same length run together
            alike = (blocks == block).nonzero().flatten().to(states.device)
            run = (transient, block, every, drive[:, alike], progress)
            logs[alike] = block_growth(tangent_map, states[alike], Q[alike], *run)
    return LyapunovSpectrum(
        logs.cpu() / (dt or 1.0),
        BLOCKS * int(blocks.max()),
        system.size,
        dt,
        inputs is not None,
        None if bool((blocks == blocks[0]).all()) else BLOCKS * blocks,
        transient,
    )


def block_growth(
    tangent_map: TangentMap,
    x: Tensor,
    Q: Tensor,
    transient: int,
    block: int,
    every: int,
    drive: Tensor | None,
    progress: bool = False,
) -> Float[Tensor, "starts blocks count"]:
    """Return the mean logarithm of |R_ii| per step in each block."""
    limit = FAR * max(1.0, float(x.abs().max()))
    initial = x.clone()
    lost = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    logs = x.new_zeros(BLOCKS, len(x), Q.shape[2])
    with torch.no_grad():
        for time in slow_bar(range(transient + BLOCKS * block), "exponents", shown=progress):
            x, Q = tangent_map.step(x, Q, None if drive is None else drive[time])
            now = time - transient
            if (time + 1) % every and now != -1 and (now + 1) % block:
                continue
            diverged = ~(torch.isfinite(x).all(1) & torch.isfinite(Q).flatten(1).all(1) & (x.abs().amax(1) <= limit))
            if diverged.any():  # reset a diverged start, so that it does not disturb the arithmetic of the others
                lost |= diverged
                x = torch.where(diverged[:, None], initial, x)
                Q = torch.where(diverged[:, None, None], torch.eye(*Q.shape[1:], dtype=Q.dtype, device=Q.device), Q)
            Q, R = torch.linalg.qr(Q)
            if now >= 0:
                logs[now // block] += R.diagonal(dim1=1, dim2=2).abs().log()
    logs = logs / block
    logs[:, lost] = torch.nan
    return logs.transpose(0, 1).contiguous()


class TangentMap:
    """Advances states (batch, size) together with tangent vectors (batch, size, count).

    If the vectors are few compared with the size of the state, no Jacobian is formed: its product with them costs as
    much as that many steps. If they are many and the cell has a closed form, or the state is small, forming it is
    cheaper.
    """

    def __init__(self, dynamics: Dynamics, count: int) -> None:
        self.dynamics = dynamics
        worthwhile = dynamics.size <= FORMED or 4 * count >= dynamics.size
        self.formed = worthwhile and self._has_closed_form()

    def step(
        self,
        states: Float[Tensor, "batch size"],
        vectors: Float[Tensor, "batch size count"],
        inputs: Float[Tensor, "batch ..."] | None = None,
    ) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch size count"]]:
        """Return F(x), and F'(x) times the vectors."""
        if self.formed:
            new = self.dynamics(states) if inputs is None else self.dynamics.driven(inputs, states)
            return new, torch.bmm(self.dynamics.jacobian(states, inputs), vectors)
        if self.dynamics.size <= COPIED:
            new, J = self._jacobian_by_copies(states, inputs)
            return new, torch.bmm(J, vectors)
        step = self.dynamics if inputs is None else (lambda x: self.dynamics.driven(inputs, x))
        new, pull_back = torch.func.vjp(step, states)[:2]
        # The pull-back is linear, so its transpose is the push-forward, which needs no new pass through the cell.
        push = torch.func.vjp(lambda w: pull_back(w)[0], torch.zeros_like(new))[1]
        return new, torch.func.vmap(lambda v: push(v)[0], in_dims=2, out_dims=2)(vectors)

    def _jacobian_by_copies(self, states: Tensor, inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return F(x) and F'(x) from one backward pass, where copy i gives row i: faster than vmap if small."""
        size = self.dynamics.size
        with torch.enable_grad():
            copies = states.detach().repeat_interleave(size, 0).requires_grad_()
            repeated = None if inputs is None else inputs.repeat_interleave(size, 0)
            new = self.dynamics(copies) if repeated is None else self.dynamics.driven(repeated, copies)
            rows = torch.eye(size, dtype=new.dtype, device=new.device).repeat(len(states), 1)
            if new.requires_grad:
                J = torch.autograd.grad(new, copies, rows, materialize_grads=True)[0]
            else:
                J = torch.zeros_like(new)  # the step does not depend on the state
        return new.detach()[::size], J.reshape(-1, size, size)

    def _has_closed_form(self) -> bool:
        dynamics = self.dynamics
        with torch.no_grad():
            return dynamics.cell.jacobian(dynamics.input, dynamics.unflatten(dynamics.origin)) is not None


def _checked_count(system: Dynamics, count: int | None) -> int:
    if count is None:
        return system.size if system.size <= 100 else 10
    if not is_whole(count, 1) or count > system.size:
        raise ValueError(f"count must be from 1 to {system.size}, the size of the state, but is {count!r}.")
    return count


def _checked_inputs(
    system: Dynamics,
    inputs: Tensor | np.ndarray | PackedSequence,
    starts: int,
    mask: Tensor | None,
    lengths: Lengths | None,
) -> tuple[Float[Tensor, "time starts features"], Int[Tensor, " starts"]]:
    """Return the inputs of each start, time first and without gaps, and their number."""
    sequences = inputs if isinstance(inputs, PackedSequence) else torch.as_tensor(inputs)
    if isinstance(sequences, Tensor) and sequences.dim() == 2:
        if mask is not None or lengths is not None:
            raise ValueError(
                "Inputs (time, features) are one sequence for all starts: cut it instead of passing a mask or lengths, "
                "or pass one sequence for each start."
            )
        sequences = sequences.unsqueeze(0 if system.batch_first else 1)
    read = read_inputs(sequences, batch_first=system.batch_first, mask=mask, lengths=lengths)
    given, features = read.xs, system.input.shape[-1]
    if given.dim() != 3 or given.shape[1] not in (1, starts) or given.shape[2] != features or not len(given):
        layout = f"({starts}, time, {features})" if system.batch_first else f"(time, {starts}, {features})"
        shape = tuple(given.shape if isinstance(inputs, PackedSequence) else inputs.shape)
        raise ValueError(f"The inputs must be (time, {features}) or {layout}, with {starts} starts, but are {shape}.")
    given, available = read.without_gaps()
    given = given.detach().to(system.input)
    if not torch.isfinite(given).all():
        raise ValueError("The inputs contain NaN or infinite values.")
    return given.expand(-1, starts, -1), available.expand(starts)


def _default_starts(dynamics: Dynamics, inputs: Tensor | np.ndarray | PackedSequence | None) -> int:
    """Return the number of sequences of inputs, or `STARTS` where all starts have the same inputs."""
    if isinstance(inputs, PackedSequence):
        return int(inputs.batch_sizes[0])
    shape = () if inputs is None else np.shape(inputs)
    return shape[0 if dynamics.batch_first else 1] if len(shape) == 3 else STARTS


def _block_length(steps: int | None, transient: int, every: int, available: int | None) -> int:
    """Return the number of steps in each of the `BLOCKS` blocks."""
    if steps is None:
        steps = 2000 if available is None else available - transient
    if available is not None and transient >= available:
        raise ValueError(
            f"The inputs have {available} steps, and the first {transient} of them do not count: pass a shorter "
            f"transient, transient={available // 5} for example."
        )
    if available is not None and transient + steps > available:
        raise ValueError(
            f"{transient} steps of transient and {steps} after them need as many inputs, but there are {available}."
        )
    if not is_whole(steps, BLOCKS * every):
        raise ValueError(
            f"At least {BLOCKS * every} steps after the transient are needed, {every} for each of {BLOCKS} blocks, but "
            f"there are {steps!r}."
        )
    return steps // BLOCKS
