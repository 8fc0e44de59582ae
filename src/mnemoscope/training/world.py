"""Several processes that train one model: each works on its part of every batch, and the gradients are added up.

This is not torch's DistributedDataParallel, but does what it does with less. In one buffer, reduced once per step,
travel the gradients, already weighted, so that unequal parts are exact, which parameters had one, the loss, and whether
someone pressed Ctrl-C. A backward pass may come in several windows, and what is unused in a part need not be searched
for. What DistributedDataParallel gains by sending early gradients while later ones are computed is not to be had here:
that of a recurrent matrix is complete only when the pass has come back to the first step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
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

from mnemoscope.base import distributed
from mnemoscope.base.array_types import Float
from mnemoscope.base.distributed import Elsewhere
from mnemoscope.cells.state import State, map_state

Error = TypeVar("Error", bound=BaseException)

PATIENCE = timedelta(hours=12)
"""How long to wait for another process. One that dies is noticed at once; one that evaluates on a whole data set, or
fetches it, may take long."""


class Sums(NamedTuple):
    """What was added up over the processes beside the gradients."""

    numbers: Float[Tensor, " numbers"]
    used: Float[Tensor, " parameters"]
    """In how many processes a parameter had a gradient at all."""


@dataclass(frozen=True)
class World:
    """The processes of one training, seen by one of them. Alone, there is nothing to add up or to tell.

    >>> World().part(5), World(rank=0, size=2).part(5), World(rank=1, size=2).part(5)
    (slice(0, 5, None), slice(0, 2, None), slice(2, 5, None))
    """

    rank: int = 0
    size: int = 1
    talk: Any = None
    """Group through which messages go, from CPU to CPU."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes, evaluates and speaks for all."""
        return self.rank == 0

    def part(self, number: int) -> slice:
        """Which of so many sequences are this process's own."""
        return slice(self.rank * number // self.size, (self.rank + 1) * number // self.size)

    def first(self, act: Callable[[], Any]) -> Any:
        """Let the first process do something; what it returns, JSON, is returned to all. If it fails, all stop."""
        if self.size == 1:
            return act()
        if not self.is_first:
            told = json.loads(self.from_first(None))
            if "error" in told:
                raise Elsewhere(f"Rank 0 of {self.size} processes stopped: {told['error']}")
            return told["made"]
        try:
            made = act()
        except BaseException as error:
            with suppress(RuntimeError):  # nobody may be left to hear it
                self.from_first(json.dumps({"error": str(error) or type(error).__name__}).encode())
            raise
        self.from_first(json.dumps({"made": made}).encode())
        return made

    def from_first(self, content: bytes | None) -> bytes:
        """Bytes of the first process, in every process."""
        if self.size == 1:
            return content or b""
        length = torch.tensor(len(content or b""))
        with self._together():
            dist.broadcast(length, 0, group=self.talk)
            sent = torch.empty(int(length), dtype=torch.uint8)
            if content:
                sent = torch.frombuffer(bytearray(content), dtype=torch.uint8)
            if len(sent):
                dist.broadcast(sent, 0, group=self.talk)
        return sent.numpy().tobytes()

    def common(self, error: Error) -> Error | Elsewhere:
        """What to raise for an error that all processes meet at the same place: only the first one tells it."""
        return error if self.is_first else Elsewhere(f"As rank 0 of {self.size} processes says: {error}")

    def add_up(self, parameters: Sequence[Tensor], numbers: Sequence[Tensor | float]) -> Sums:
        """Replace the gradients by their sums over the processes, and add up `numbers` with them.

        Which parameters have no gradient anywhere is known once a GPU has done its work; until `drop_unused` theirs is
        0.
        """
        device = parameters[0].device
        there = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        given = torch.stack([torch.as_tensor(number, device=device).detach() for number in numbers])
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for parameter in parameters:
            kinds.setdefault(parameter.dtype.to_real(), []).append(parameter)
        sums = given
        for number, (kind, those) in enumerate(kinds.items()):  # a single kind, but for mixtures of one's own
            pieces = [_flat(torch.zeros_like(each) if each.grad is None else each.grad) for each in those]
            more = [there.to(device, kind), given.to(kind)] if number == 0 else []
            buffer = torch.cat([*pieces, *more])
            with self._together():
                dist.all_reduce(buffer)
            if number == 0:
                sums = buffer[len(buffer) - len(there) - len(given) :]
            for each, piece in zip(those, buffer.split([*map(len, pieces), *map(len, more)]), strict=False):
                each.grad = _like(piece, each)
        return Sums(sums[len(there) :], sums[: len(there)])

    def whole(self, state: State | None, batch: int) -> State | None:
        """The state of all sequences, of which this process has its part."""
        if self.size == 1 or state is None:
            return state
        return map_state(lambda own: self._gathered(own, batch), state)

    def check_alike(self, model: nn.Module) -> None:
        """Raise unless the weights are the same in all processes, bit for bit, as they must be without being sent."""
        if self.size == 1:
            return
        bits = [_sum_of_bits(each) for each in chain(model.parameters(), model.buffers())]
        own = torch.stack(bits).cpu()
        extremes = torch.cat([own, -own])
        with self._together():
            dist.all_reduce(extremes, dist.ReduceOp.MAX, group=self.talk)
        if not torch.equal(extremes[: len(own)], -extremes[len(own) :]):
            names = [name for name, _ in chain(model.named_parameters(), model.named_buffers())]
            apart = extremes[: len(own)] != -extremes[len(own) :]
            which = ", ".join([name for name, differs in zip(names, apart.tolist(), strict=True) if differs][:3])
            raise self.common(
                RuntimeError(
                    f"The processes no longer have the same weights: {which} differ. All compute the same from the "
                    f"same sums, so that machines of one kind and equal versions of torch are needed, and a network "
                    f"that changes nothing but by its gradients: a buffer that follows the data sees only its part."
                )
            )

    def _gathered(self, own: Tensor, batch: int) -> Tensor:
        kind = own.dtype
        flat = _flat(own.to(torch.uint8) if kind == torch.bool else own)
        one = len(flat) // len(own)
        at = self.part(batch)
        everyone = flat.new_zeros(batch * one)
        everyone[at.start * one : at.stop * one] = flat
        with self._together():
            dist.all_reduce(everyone)  # the others have zeros there
        like = own.new_empty(batch, *own.shape[1:])
        return _like(everyone, like) if kind != torch.bool else everyone.view(like.shape).bool()

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise RuntimeError(
                f"Rank {self.rank} of {self.size} processes has lost the others. One of them has ended; what it says "
                f"itself is the reason. The last checkpoint is kept. ({reason})"
            ) from error


def drop_unused(parameters: Sequence[Tensor], sums: Sums) -> None:
    """Take the gradient off parameters that had none in any process: optimisers leave these as they are."""
    for parameter, number in zip(parameters, sums.used.tolist(), strict=True):
        if not number:
            parameter.grad = None


@contextmanager
def joined(device: str) -> Iterator[World]:
    """Meet the other processes of this training, if it was started as one of several, by gloo on CPUs and nccl on GPUs,
    of which each process has its own.

    Where someone has initialised torch.distributed already, that is what is used, and GPUs are theirs to assign.
    """
    if dist.is_available() and dist.is_initialized():
        yield World(dist.get_rank(), dist.get_world_size(), _talk())
        return
    place = distributed.place()
    if place.size == 1:
        yield World()
        return
    on_gpu = device == "cuda"
    if on_gpu and place.local >= torch.cuda.device_count():
        raise ValueError(
            f"Each process needs a GPU of its own, but there are {torch.cuda.device_count()} on this machine and this "
            f"is its process {place.local + 1}: start as many as there are GPUs (torchrun --nproc-per-node gpu)."
        )
    with torch.cuda.device(place.local) if on_gpu else nullcontext():
        dist.init_process_group(
            "nccl" if on_gpu else "gloo",
            # what processes told each other to meet is not forgotten: a second training has to begin another page
            store=PrefixStore(f"training {next(_numbers)}", _store()),
            rank=place.rank,
            world_size=place.size,
            timeout=PATIENCE,
            device_id=torch.device("cuda", place.local) if on_gpu else None,
        )
        try:
            yield World(place.rank, place.size, _talk())
        finally:
            dist.destroy_process_group()


def check_divisible(world: World, batch_size: int, model: nn.Module) -> None:
    """Raise if a batch cannot be divided among the processes, or the model needs all of it at once."""
    if batch_size < world.size:
        raise ValueError(
            f"Each process takes a part of every batch, but batch_size is {batch_size} and there are {world.size} "
            f"processes: use fewer, or larger batches."
        )
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            raise ValueError(
                f"{name} is a {type(module).__name__}, which normalises over all of a batch, but each of {world.size} "
                f"processes sees a part: use one process, or torch.nn.SyncBatchNorm on GPUs."
            )


_numbers = count()
"""Of the trainings of this process, which are the same in all."""


@cache
def _store() -> Any:
    """Where the processes find each other."""
    store, *_ = next(rendezvous("env://"))
    return store


def _talk() -> Any:
    return dist.group.WORLD if dist.get_backend() == "gloo" else dist.new_group(timeout=PATIENCE, backend="gloo")


def _flat(tensor: Tensor) -> Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).reshape(-1)


def _like(flat: Tensor, tensor: Tensor) -> Tensor:
    """The inverse of `_flat`."""
    if tensor.is_complex():
        return torch.view_as_complex(flat.view(*tensor.shape, 2))
    return flat.view(tensor.shape)


def _sum_of_bits(tensor: Tensor) -> Tensor:
    """A whole number that another tensor hardly has."""
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    kind = kinds.get(tensor.element_size(), torch.int64)
    return tensor.detach().contiguous().reshape(-1).view(kind).sum(dtype=torch.int64)
