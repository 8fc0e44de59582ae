"""The processes that train one model together: each runs its shard of every batch, and the gradients are summed.

This replaces torch's DistributedDataParallel by something smaller. One buffer, reduced once per step, holds the
gradients, a flag per parameter that had one, the loss, and whether a process received Ctrl-C. The gradients are already
weighted, so that unequal shards are exact. A backward pass may consist of several windows, and unused parameters need
no search. DistributedDataParallel gains speed by sending early gradients while later ones are computed; a recurrent
network offers no such gain, as the gradient of its matrix is complete only when the pass is back at the first step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from mnemoscope.base.array_types import Float
from mnemoscope.base.distributed import OtherRankError, process_rank
from mnemoscope.cells.state import State, map_state

Error = TypeVar("Error", bound=BaseException)

TIMEOUT = timedelta(hours=12)
"""Longest wait for another process. A process that dies is noticed immediately; one that downloads a data set, or
evaluates on all of it, may take long."""


class GradientSums(NamedTuple):
    """Sums over the processes that accompany the summed gradients."""

    numbers: Float[Tensor, " numbers"]
    used: Float[Tensor, " parameters"]
    """For each parameter, the number of processes in which it had a gradient."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of one distributed run, seen from one of them. Alone, every collective is a no-op.

    >>> ProcessGroup().shard(5)
    slice(0, 5, None)
    >>> [ProcessGroup(rank, world_size=2).shard(5) for rank in (0, 1)]
    [slice(0, 2, None), slice(2, 5, None)]
    """

    rank: int = 0
    world_size: int = 1
    cpu_group: Any = None
    """torch's process group for messages between CPUs."""

    @property
    def is_main(self) -> bool:
        """Whether this process evaluates, writes files and calls the callbacks: rank 0."""
        return self.rank == 0

    def shard(self, sequences: int) -> slice:
        """Return which of so many sequences belong to this process."""
        return slice(self.rank * sequences // self.world_size, (self.rank + 1) * sequences // self.world_size)

    def on_main(self, function: Callable[[], Any]) -> Any:
        """Call a function on rank 0 and return its result, which must be JSON, on all ranks.

        If it raises, the other ranks raise `OtherRankError`.
        """
        if self.world_size == 1:
            return function()
        if not self.is_main:
            message = json.loads(self.broadcast(None))
            if "error" in message:
                raise OtherRankError(f"Rank 0 of {self.world_size} processes stopped: {message['error']}")
            return message["result"]
        try:
            result = function()
        except BaseException as error:
            with suppress(RuntimeError):  # the other ranks may have ended
                self.broadcast(json.dumps({"error": str(error) or type(error).__name__}).encode())
            raise
        self.broadcast(json.dumps({"result": result}).encode())
        return result

    def broadcast(self, content: bytes | None) -> bytes:
        """Return the bytes that rank 0 passes, on every rank."""
        if self.world_size == 1:
            return content or b""
        length = torch.tensor(len(content or b""))
        with self._lost_peer_explained():
            dist.broadcast(length, 0, group=self.cpu_group)
            buffer = torch.empty(int(length), dtype=torch.uint8)
            if content:
                buffer = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            if len(buffer):
                dist.broadcast(buffer, 0, group=self.cpu_group)
        return buffer.numpy().tobytes()

    def shared_error(self, error: Error) -> Error | OtherRankError:
        """Return what to raise for an error that all ranks meet in the same place: only rank 0 reports it."""
        return error if self.is_main else OtherRankError(f"Rank 0 of {self.world_size} processes reports: {error}")

    def sum_gradients(self, parameters: Sequence[Tensor], numbers: Sequence[Tensor | float]) -> GradientSums:
        """Replace the gradients by their sums over the processes, and return the sums of `numbers`.

        Which parameters have no gradient on any rank is known only after a GPU has finished. Until
        `clear_unused_gradients`, their gradient is 0.
        """
        device = parameters[0].device
        present = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        given = torch.stack([torch.as_tensor(number, device=device).detach() for number in numbers])
        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            by_dtype.setdefault(parameter.dtype.to_real(), []).append(parameter)
        sums = given
        for index, (dtype, group) in enumerate(by_dtype.items()):  # one dtype, unless a user's model mixes several
            pieces = [_flat(torch.zeros_like(each) if each.grad is None else each.grad) for each in group]
            extra = [present.to(device, dtype), given.to(dtype)] if index == 0 else []
            buffer = torch.cat([*pieces, *extra])
            with self._lost_peer_explained():
                dist.all_reduce(buffer)
            if index == 0:
                sums = buffer[len(buffer) - len(present) - len(given) :]
            for parameter, piece in zip(group, buffer.split([*map(len, pieces), *map(len, extra)]), strict=False):
                parameter.grad = _unflat(piece, parameter)
        return GradientSums(sums[len(present) :], sums[: len(present)])

    def gather_state(self, state: State | None, batch: int) -> State | None:
        """Return the state of all sequences of a batch, from the shards of all processes."""
        if self.world_size == 1 or state is None:
            return state
        return map_state(lambda shard: self._gather(shard, batch), state)

    def check_same_weights(self, model: nn.Module) -> None:
        """Raise unless the weights are equal on all ranks, bit for bit; they are never sent, only computed alike."""
        if self.world_size == 1:
            return
        checksums = torch.stack([_checksum(each) for each in chain(model.parameters(), model.buffers())]).cpu()
        extremes = torch.cat([checksums, -checksums])
        with self._lost_peer_explained():
            dist.all_reduce(extremes, dist.ReduceOp.MAX, group=self.cpu_group)
        differs = extremes[: len(checksums)] != -extremes[len(checksums) :]
        if differs.any():
            names = [name for name, _ in chain(model.named_parameters(), model.named_buffers())]
            differing = [name for name, unequal in zip(names, differs.tolist(), strict=True) if unequal]
            raise self.shared_error(
                RuntimeError(
                    f"The processes no longer have the same weights: {', '.join(differing[:3])} differ. All processes "
                    f"compute the weights from the same sums, which needs machines of one kind, equal versions of "
                    f"torch, and a network that changes by its gradients only: a buffer that follows the data sees "
                    f"only its shard."
                )
            )

    def _gather(self, shard: Tensor, batch: int) -> Tensor:
        dtype = shard.dtype
        flat = _flat(shard.to(torch.uint8) if dtype == torch.bool else shard)
        size = len(flat) // len(shard)  # numbers of one sequence
        place = self.shard(batch)
        buffer = flat.new_zeros(batch * size)
        buffer[place.start * size : place.stop * size] = flat
        with self._lost_peer_explained():
            dist.all_reduce(buffer)  # the other ranks have zeros in this range
        whole = shard.new_empty(batch, *shard.shape[1:])
        return _unflat(buffer, whole) if dtype != torch.bool else buffer.view(whole.shape).bool()

    @contextmanager
    def _lost_peer_explained(self) -> Generator[None]:
        try:
            yield
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise RuntimeError(
                f"Rank {self.rank} of {self.world_size} processes has lost the others. One of them has ended; its own "
                f"message gives the reason. The last checkpoint is kept. ({reason})"
            ) from error


def clear_unused_gradients(parameters: Sequence[Tensor], sums: GradientSums) -> None:
    """Set the gradient to None for parameters that had none on any rank: optimisers skip these."""
    for parameter, users in zip(parameters, sums.used.tolist(), strict=True):
        if not users:
            parameter.grad = None


@contextmanager
def join_process_group(device: str) -> Generator[ProcessGroup]:
    """Join the other processes of this run, if a launcher started several: gloo on CPUs, nccl with a GPU per process.

    If the caller has initialised torch.distributed, that process group is used, and the caller assigns the GPUs.
    """
    if dist.is_available() and dist.is_initialized():
        yield ProcessGroup(dist.get_rank(), dist.get_world_size(), _cpu_group())
        return
    process = process_rank()
    if process.world_size == 1:
        yield ProcessGroup()
        return
    on_gpu = device == "cuda"
    if on_gpu and process.local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"Each process needs a GPU of its own, but there are {torch.cuda.device_count()} on this machine and this "
            f"is its process {process.local_rank + 1}: start as many as there are GPUs (torchrun --nproc-per-node gpu)."
        )
    with torch.cuda.device(process.local_rank) if on_gpu else nullcontext():
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            # the store remembers the rendezvous of earlier runs, so each run needs its own prefix
            store=PrefixStore(f"training {next(_run_numbers)}", _store()),
            rank=process.rank,
            world_size=process.world_size,
            timeout=TIMEOUT,
            device_id=torch.device("cuda", process.local_rank) if on_gpu else None,
        )
        try:
            yield ProcessGroup(process.rank, process.world_size, _cpu_group())
        finally:
            dist.destroy_process_group()


def check_divisible(group: ProcessGroup, batch_size: int, model: nn.Module) -> None:
    """Raise if the batch has too few sequences for the processes, or if the model needs all of the batch in one."""
    if batch_size < group.world_size:
        raise ValueError(
            f"Each process takes a shard of every batch, but batch_size is {batch_size} and there are "
            f"{group.world_size} processes: use fewer, or larger batches."
        )
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            raise ValueError(
                f"{name} is a {type(module).__name__}, which normalises over all of a batch, but each of "
                f"{group.world_size} processes sees a shard: use one process, or torch.nn.SyncBatchNorm on GPUs."
            )


_run_numbers = count()
"""Numbers of the distributed runs of this process; they agree between the ranks."""


@cache
def _store() -> Any:
    """Return the key-value store through which the processes find each other."""
    store, *_ = next(rendezvous("env://"))
    return store


def _cpu_group() -> Any:
    return dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(timeout=TIMEOUT, backend="gloo")


def _flat(tensor: Tensor) -> Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)


def _unflat(flat: Tensor, like: Tensor) -> Tensor:
    """Invert `_flat` for a tensor of the shape and kind of `like`."""
    if like.is_complex():
        return torch.view_as_complex(flat.view(*like.shape, 2))
    return flat.view(like.shape)


def _checksum(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor's bit patterns, a whole number that different tensors hardly share."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    dtype = integers.get(tensor.element_size(), torch.int64)
    return tensor.detach().contiguous().reshape(-1).view(dtype).sum(dtype=torch.int64)
