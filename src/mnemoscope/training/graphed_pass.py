"""The forward and backward pass of a training step as a CUDA graph, for networks that are bound by kernel launches.

A recurrent network without a fused scan launches some hundred small kernels per time step, and the CPU needs longer to
launch them than the GPU to run them. A CUDA graph records all launches of a pass once, and replays them by one call.
A replay repeats the same operations on the same addresses. It therefore computes the same numbers, as long as the pass
depends on nothing but the contents of its tensors: its inputs, which are copied to the addresses of the recording, the
weights, which the optimiser changes in place, and the random numbers of the GPU, which a replay draws as a pass does.

Shapes are fixed in a graph, so there is one graph per shape of a batch. Clipping and the optimiser run outside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from math import inf, isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Model
from mnemoscope.cells.state import State, leaves, map_state
from mnemoscope.tasks import Task
from mnemoscope.training.bptt import (
    BatchLoss,
    HasPenalty,
    Window,
    WindowOutputs,
    batch_accuracy,
    run_windows,
)

MOST_GRAPHS = 64
"""Shapes of batches that are recorded; batches of further shapes run without a graph."""
TOLERANCE = 1e-3
"""Largest relative difference between a replay and a pass. Both run the same kernels, and some kernels add up gradients
in an order that varies. A matrix that the recording took for a constant makes gradients differ far more, or vanish."""
_SYNCHRONISING = "called a synchronizing CUDA operation"
"""Torch's warning in the debug mode for synchronisation."""
_PROTOTYPE = "Synchronization debug mode is a prototype"
"""Beginning of torch's warning when that mode is first set."""

Pass = tuple[Float[Tensor, ""], State, list[WindowOutputs]]
"""Result of `run_windows`."""


class GraphedPass:
    """Callable that runs the windows of a batch forward and backward, as a CUDA graph from the fourth batch on.

    Per shape of a batch, the first pass is watched for reasons against a graph, a graph is recorded after the second,
    and the third is compared with a replay. A network that cannot be recorded is run without graphs; `refusal` has
    the reason, and with `warn` a warning gives it.
    """

    def __init__(self, model: Model, penalised: Sequence[HasPenalty], *, warn: bool = False) -> None:
        self._model, self._penalised, self._warn = model, penalised, warn
        self._recordings: dict[Hashable, _Recording | None] = {}
        """Graphs by shape; None after the first pass."""
        self._pool: Any = None
        self.refusal: str | None = None
        """Reason why this network is run without graphs; None while nothing speaks against them."""

    @property
    def graphs(self) -> int:
        """Number of graphs that are replayed."""
        return sum(each is not None and each.compared for each in self._recordings.values())

    def __call__(self, task: Task, windows: Sequence[Window], state: State | None, *, scored: bool) -> BatchLoss:
        """Add the gradients of the windows to the parameters, whose gradients must be None, and return the loss."""
        loss, state, outputs = self._run(task, windows, state, scored)
        return BatchLoss(loss, state, batch_accuracy(task, windows, outputs) if scored else None)

    def _run(self, task: Task, windows: Sequence[Window], state: State | None, scored: bool) -> Pass:
        def run() -> Pass:
            return run_windows(self._model, task, windows, state, self._penalised, keep_outputs=scored)

        if self.refusal is not None:
            return run()
        shape = _shape(task, windows, state, scored)
        if shape not in self._recordings:
            if len(self._recordings) == MOST_GRAPHS:
                return run()
            self._recordings[shape] = None
            return self._watched(task, windows, state, scored)
        recording = self._recordings[shape]
        if recording is None:
            result = run()
            self._record(shape, task, windows, state, scored)
            return result
        if not recording.compared:
            return self._compared(recording, run, windows, state)
        recording.replay(windows, state)
        return recording.result

    def _watched(self, task: Task, windows: Sequence[Window], state: State | None, scored: bool) -> Pass:
        """Run a pass, and set `refusal` if a graph could not repeat it."""
        device = next(self._model.parameters()).device
        moved = [window.to(device) for window in windows]
        before = torch.default_generator.get_state()
        with _synchronisations() as places:
            result = run_windows(self._model, task, moved, state, self._penalised, keep_outputs=scored)
        if places:
            self._refuse(f"the pass waits for the GPU at {places[0]}, as data-dependent control flow does")
        elif not torch.equal(before, torch.default_generator.get_state()):
            self._refuse("the pass draws random numbers on the CPU")
        return result

    def _record(
        self, shape: Hashable, task: Task, windows: Sequence[Window], state: State | None, scored: bool
    ) -> None:
        self._pool = torch.cuda.graph_pool_handle() if self._pool is None else self._pool
        parameters = [*self._model.parameters()]
        gradients = _take_gradients(parameters)
        try:
            self._recordings[shape] = _Recording(
                self._model, task, windows, state, self._penalised, scored, parameters, self._pool
            )
        except RuntimeError as error:
            self._refuse(f"recording failed: {str(error).splitlines()[0]}")
        finally:
            _set_gradients(parameters, gradients)

    def _compared(
        self, recording: _Recording, run: Callable[[], Pass], windows: Sequence[Window], state: State | None
    ) -> Pass:
        """Run a pass and a replay with the same random numbers and buffers, and compare them; return the pass."""
        numbers, buffers = torch.cuda.get_rng_state(), [buffer.clone() for buffer in self._model.buffers()]
        result, gradients = run(), _take_gradients(recording.parameters)
        torch.cuda.set_rng_state(numbers)
        for buffer, value in zip(self._model.buffers(), buffers, strict=True):
            buffer.copy_(value)
        recording.replay(windows, state)
        same = _relative_difference([result[0]], [recording.result[0]]) <= TOLERANCE
        same = same and _relative_difference(gradients, recording.gradients) <= TOLERANCE
        _set_gradients(recording.parameters, gradients)
        recording.compared = same
        finite = all(part.isfinite().all() for part in (result[0], *gradients) if part is not None)
        if not same and finite:  # otherwise the next pass of this shape is compared
            self._refuse("a replay gave another loss or gradient than a pass")
        return result

    def _refuse(self, reason: str) -> None:
        self.refusal = reason
        self._recordings.clear()
        if self._warn:
            warn_without_graphs(reason)


def warn_without_graphs(reason: str) -> None:
    """Warn that the steps run without CUDA graphs, which were asked for."""
    warnings.warn(
        f"The steps of this run are not replayed as CUDA graphs: {reason}. The numbers are the same, but the steps "
        f"take longer. Change this, or omit cuda_graphs to avoid this warning.",
        stacklevel=2,
    )


class _Recording:
    """A CUDA graph of a pass, with the tensors that it reads and writes."""

    def __init__(
        self,
        model: Model,
        task: Task,
        windows: Sequence[Window],
        state: State | None,
        penalised: Sequence[HasPenalty],
        scored: bool,
        parameters: Sequence[Tensor],
        pool: Any,
    ) -> None:
        device = parameters[0].device
        self._task = task  # its address is part of the shape, so that it must stay alive
        self._windows = [
            window.to(device, copy=True)._replace(share=torch.tensor(window.share, dtype=torch.float64, device=device))
            for window in windows
        ]
        self._state = None if state is None else map_state(torch.clone, state)
        self.parameters, self.compared = parameters, False
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            self._graph, pool=pool, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"
        ):
            self.result = run_windows(model, task, self._windows, self._state, penalised, keep_outputs=scored)
        self.gradients = _take_gradients(parameters)

    def replay(self, windows: Sequence[Window], state: State | None) -> None:
        """Run the graph on these windows; `result` and `gradients` then hold what it computed."""
        for kept, window in zip(self._windows, windows, strict=True):
            for into, part in zip(kept.tensors(), window.tensors(), strict=True):
                into.copy_(part)
            assert isinstance(kept.share, Tensor)
            kept.share.fill_(window.share)  # it depends on the mask: a shard has a varying part of the counted steps
        if self._state is not None and state is not None:
            for into, part in zip(leaves(self._state), leaves(state), strict=True):
                into.copy_(part)
        self._graph.replay()
        _set_gradients(self.parameters, self.gradients)


class _Shape(NamedTuple):
    """Everything that a recording fixes."""

    task: int
    scored: bool
    state: tuple[Hashable, ...] | None
    windows: tuple[Hashable, ...]


def _shape(task: Task, windows: Sequence[Window], state: State | None, scored: bool) -> _Shape:
    return _Shape(
        id(task),
        scored,
        None if state is None else tuple((part.shape, part.dtype) for part in leaves(state)),
        tuple((window.counts, *((part.shape, part.dtype) for part in window.tensors())) for window in windows),
    )


@contextmanager
def training_stream(device: str) -> Generator[None]:
    """Work on a separate stream of the GPU inside the context: the default stream cannot be recorded."""
    if device != "cuda":
        yield
        return
    before, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        yield
    before.wait_stream(stream)


@contextmanager
def _synchronisations() -> Generator[list[str]]:
    """Collect the places of the code at which the CPU waits for the GPU, or copies to it, inside the context."""
    places: list[str] = []
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    for warning in caught:
        if _SYNCHRONISING in str(warning.message):
            places.append(f"{warning.filename}:{warning.lineno}")
        elif not str(warning.message).startswith(_PROTOTYPE):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _take_gradients(parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradients, and set them to None."""
    gradients = [parameter.grad for parameter in parameters]
    _set_gradients(parameters, [None] * len(parameters))
    return gradients


def _set_gradients(parameters: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


def _relative_difference(expected: Sequence[Tensor | None], found: Sequence[Tensor | None]) -> float:
    """Return the largest `|found - expected| / |expected|`, in Euclidean norms; infinite where one of two is None."""
    largest = 0.0
    for one, other in zip(expected, found, strict=True):
        if (one is None) != (other is None):
            return inf
        if one is not None and other is not None:
            difference, size = (one - other).norm().item(), one.norm().item()
            if not isfinite(difference):
                return inf
            largest = max(largest, difference / size if size else difference)
    return largest
