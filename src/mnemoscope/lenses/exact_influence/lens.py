"""The influence lens: how much every past input matters for every output."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float, Int, Num
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import Lengths, Model, Network, affine_layers, as_cell, read_inputs
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.cells.affine.parts import scan_states
from mnemoscope.cells.state import State
from mnemoscope.lenses.exact_influence.device_limits import of_device
from mnemoscope.lenses.exact_influence.layer_derivatives import full_path
from mnemoscope.lenses.exact_influence.network_derivatives import model_path
from mnemoscope.lenses.exact_influence.result import Influence, LayerInfluence
from mnemoscope.lenses.exact_influence.summaries import (
    half_life,
    kept_for,
    lag_curve,
    participations,
    retention,
    windows,
)
from mnemoscope.lenses.exact_influence.value_path import value_energies
from mnemoscope.lenses.token_labels import Labels, read_labels
from mnemoscope.lenses.whole_network import in_evaluation_mode

ROOM = {"cpu": 64_000_000, "cuda": 256_000_000}
"""Numbers of value paths, or of states, that are in memory at a time."""
CELLS = 512
"""Rows and columns of the matrices of a result."""


@show_slow("influence")
@in_evaluation_mode
@torch.no_grad()
def influence(
    network: Network | Model,
    inputs: Num[Tensor, "time batch ..."] | PackedSequence,
    state: State | None = None,
    *,
    labels: Labels | None = None,
    lengths: Lengths | None = None,
    share: float = 0.9,
    full: bool = True,
    model: bool = True,
    directions: int | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> Influence:
    """Compute how much every past input matters for every output of a network whose layers are affine in their state.

    There are three answers. The value path of a head is exact: its reads are `M v`, plus what is left of the state
    before the first input. It is not the whole influence of an input, which also acts through gates, keys, queries and
    convolutions: the full influence of a layer is the derivative of its reads by its inputs. Across layers only the
    derivative of the whole network counts. Derivatives hold for small changes; `measure_influence` replaces inputs.

    Args:
        network: a `Model`, a cell, or a module that `adapt` takes, with at least one affine layer (`affine_layers`).
        inputs: sequences in the layout of the network, or token numbers.
        state: the state before the first input, as in `scan`; by default the initial state.
        labels: one string for each step, a list of such lists, or a tokenizer, for the tokens in summary and figures.
        lengths: number of steps of each sequence; what follows is padding.
        share: share of the influence that a window holds.
        full: whether to compute the full influence of each layer.
        model: whether to differentiate the whole network.
        directions: number of random directions by which derivatives are estimated; 0 for exact ones. By default they
            are exact unless that takes long, and the summary states the error.
        rows: number of outputs of the whole network that are differentiated; 0 for all. By default all, unless that
            takes long.
        seed: seed of the random directions.

    >>> import mnemoscope as ms
    >>> network = ms.networks.blocks(3, 8, "gated-deltanet", depth=2, heads=2)
    >>> found = ms.influence(network, torch.randn(20, 4, 3))
    >>> [(layer.name, layer.heads, tuple(layer.full.shape)) for layer in found.layers]
    [('layers.0', 2, (20, 20)), ('layers.1', 2, (20, 20))]

    """
    if not is_number(share) or not 0 < share < 1:
        raise ValueError(f"share must be between 0 and 1, but is {share!r}.")
    for name, number in {"directions": directions, "rows": rows}.items():
        if number is not None:
            check_whole(0, **{name: number})
    layers = affine_layers(network, inputs, state, lengths=lengths)
    cell = network.cell if isinstance(network, Model) else as_cell(network, state)
    given = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths)
    time, batch = given.xs.shape[:2]
    mask = given.mask
    steps = torch.full((batch,), time) if mask is None else mask.sum(0).cpu()
    size = ceil(time / CELLS)
    found, total = [], torch.zeros(time, time, dtype=torch.float64)
    for layer in layers:
        part, first = _of_layer(layer, steps, share, size, (directions, seed) if full else None)
        found.append(part)
        total += first / first.sum().clamp_min(torch.finfo(first.dtype).tiny)
    names = next(iter(read_labels(labels, given.xs, steps.tolist())), ())
    if not model:
        of_tokens = _of_tokens(total, torch.arange(time), int(steps[0]))
        return Influence(tuple(found), steps, names, *of_tokens, share, size)
    runnable = (network if isinstance(network, Model) else cell).time_first()
    path = model_path(runnable, given.xs, mask, state, rows=rows, directions=directions, seed=seed)
    of_tokens = _of_tokens(path.energies[0], path.rows, int(steps[0]))
    return Influence(
        tuple(found),
        steps,
        names,
        *of_tokens,
        share,
        size,
        model=_pooled(path.energies[0], (1, size)),
        rows=path.rows,
        model_curves=lag_curve(path.energies, path.rows, steps),
        model_windows=windows(path.energies, path.rows, steps, share),
        model_error=path.standard_error,
    )


def _of_layer(
    layer: AffineLayer, lengths: Int[Tensor, " sequences"], share: float, size: int, full: tuple[int | None, int] | None
) -> tuple[LayerInfluence, Float[Tensor, "time time"]]:
    """Return the findings on a layer, and the squared influences in the first sequence, full ones if wanted."""
    rows = torch.arange(len(layer.features), device=layer.features.device)
    lengths = lengths.to(rows.device)
    sequences = torch.arange(len(lengths), device=rows.device)
    parts = [
        _of_values(layer.first_steps(len(rows), some), rows, lengths[some], share)
        for some in sequences.split(max(1, of_device(ROOM, rows) // len(rows) ** 2))
    ]
    first = parts[0][0]
    curves, lives, spans, numbers = (torch.cat([part[i] for part in parts]) for i in range(1, 5))
    matrix = _pooled(first, (size, size))
    found = LayerInfluence(layer.name, matrix, curves, lives, spans, numbers, _state_norms(layer))
    if full is None:
        return found, first
    path = full_path(layer, *full)
    energies = path.energies.double().masked_fill(rows.unsqueeze(-1) >= lengths[:, None, None], 0.0)
    first, curves = energies[0].cpu(), lag_curve(energies, rows, lengths).cpu()
    of_full = {"full": _pooled(first, (size, size)), "full_error": path.standard_error}
    return replace(found, full_curves=curves, **of_full), first


def _of_values(
    layer: AffineLayer, rows: Tensor, lengths: Tensor, share: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the value path of the first of some sequences, its curves, and the summaries of each head."""
    time, batch = layer.parts.queries.shape[:2]
    total, columns = torch.zeros(batch, time, time, dtype=torch.float64, device=rows.device), []
    past_end = rows.unsqueeze(-1) >= lengths[:, None, None, None]
    short, denominators = bool(past_end.any()), layer.denominators()
    for energies in value_energies(layer, max(1, of_device(ROOM, rows) // (batch * time**2)), denominators):
        energies = energies.masked_fill(past_end, 0.0) if short else energies
        each = lengths.unsqueeze(1).expand(energies.shape[:2])
        summaries = (
            half_life(lag_curve(energies, rows, each)),
            windows(energies, rows, each, share),
            participations(energies, rows, each),
        )
        columns.append([x.double().cpu() for x in summaries])
        total += energies.sum(1)
    joined = (torch.cat(parts, 1) for parts in zip(*columns, strict=True))
    lives, spans, numbers = joined
    return total[0].cpu(), lag_curve(total, rows, lengths).cpu(), lives, spans, numbers


def _state_norms(layer: AffineLayer) -> Float[Tensor, " time"]:
    """Return the norm of the state of all heads along the first sequence."""
    first = layer.first_steps(len(layer.features), torch.zeros(1, dtype=torch.long, device=layer.features.device))
    S, norms = first.start, []
    for steps in torch.arange(len(first.features)).split(max(1, of_device(ROOM, S) // S.numel())):
        states = scan_states(first.between(int(steps[0]), int(steps[-1]) + 1), S)
        squares = states.abs().square().sum((-2, -1))[:, 0].double()
        norms.append(squares if first.scales is None else squares * torch.exp(2 * first.scales[steps, 0].double()))
        S = states[-1]
    return torch.cat(norms).sum(-1).sqrt().cpu()


def _of_tokens(
    energies: Float[Tensor, "rows time"], rows: Int[Tensor, " rows"], length: int
) -> tuple[Float[Tensor, " length"], Int[Tensor, " length"]]:
    """Return the retention of each input of a sequence of this length, and the last lag at which it is kept."""
    there = rows < length  # padding is no input with which another one is compared
    energies, rows = energies[there, :length], rows[there]
    return retention(energies, rows), kept_for(energies, rows)


def _pooled(energies: Float[Tensor, "rows time"], cell: tuple[int, int]) -> Float[Tensor, "some cells"]:
    """Return the means over cells of a matrix."""
    if cell == (1, 1):
        return energies.float()
    return avg_pool2d(energies[None], cell, ceil_mode=True)[0].float()
