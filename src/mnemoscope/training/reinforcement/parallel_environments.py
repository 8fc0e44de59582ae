"""Environments in several processes: Python runs one environment at a time, so that one process has one core."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Int
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.engines.local import SAFE_PATH, search_path
from mnemoscope.training.reinforcement.environments import MakeEnvironment, Outcome

START_PROCESS = """import sys
sys.path += [folder for folder in sys.argv[1:] if folder not in sys.path]
from mnemoscope.training.reinforcement.environment_process import main
sys.exit(main())"""
"""Program of a process. It finds the modules that this process can import."""


class ParallelEnvironments:
    """The same as `Environments`, with the copies divided among processes.

    Episodes depend on their seeds and actions alone, so observations and rewards are those of `Environments`, whatever
    the number of processes. Leave the context, or call `close`, to end the processes.

    Args:
        make: returns a new copy; it is sent to the processes by cloudpickle.
        number: number of copies.
        seed: seed of all episodes.
        stream: two streams with the same seed have no episode in common.
        processes: number of processes, at most one per copy.

    """

    def __init__(
        self, make: MakeEnvironment, number: int, seed: int = 0, stream: int = 0, *, processes: int = 2
    ) -> None:
        for name, value in (("number", number), ("processes", processes)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"There must be at least one environment and process, but {name} is {value!r}.")
        processes = min(processes, number)
        bounds = [number * process // processes for process in range(processes + 1)]
        self._ranges = [range(*pair) for pair in pairwise(bounds)]
        content = import_extra("cloudpickle", "rl", "Reinforcement learning needs").dumps(make)
        self._processes = [_Process() for _ in self._ranges]
        try:
            answers = self._ask_all("start", [(content, len(part), seed, stream, part.start) for part in self._ranges])
        except BaseException:
            self.close()
            raise
        self.actions: int = answers[0][0]
        """Number of actions."""
        self.observations = torch.cat([torch.from_numpy(observations) for _, observations in answers])
        """Present observation of each copy, (batch, ...)."""
        self.started = torch.ones(number, dtype=torch.bool)
        """Whether the present observation is the first of an episode."""

    def __len__(self) -> int:
        return len(self.started)

    def __enter__(self) -> ParallelEnvironments:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self, actions: Int[Tensor, " acting"], which: Int[Tensor, " acting"] | None = None) -> Outcome:
        """Act in every copy, or in the copies `which`, which rise; `observations` then describe the next step."""
        acting = torch.arange(len(self)) if which is None else which
        ends = torch.searchsorted(acting, torch.tensor([part.stop for part in self._ranges])).tolist()
        begins = [0, *ends[:-1]]
        requests = [
            (actions[begin:end].numpy(), None if end - begin == len(part) else (acting[begin:end] - part.start).numpy())
            if end > begin
            else None
            for part, begin, end in zip(self._ranges, begins, ends, strict=True)
        ]
        answers = [answer for answer in self._ask_all("step", requests) if answer is not None]
        observations, rewards, ended = (
            torch.cat([torch.from_numpy(part) for part in parts]) for parts in zip(*answers, strict=True)
        )
        if which is None:
            self.observations, self.started = observations, ended
        else:
            self.observations = self.observations.index_copy(0, which, observations)
            self.started = self.started.index_copy(0, which, ended)
        return Outcome(rewards, ended)

    def position(self) -> dict[str, Tensor]:
        """Return what `Environments.position` returns."""
        parts = self._ask_all("position", [()] * len(self._ranges))
        longest = max(part["done"].shape[1] for part in parts)
        done = [
            torch.nn.functional.pad(torch.from_numpy(part["done"]), (0, longest - part["done"].shape[1]), value=-1)
            for part in parts
        ]
        whole = {
            name: torch.cat([torch.from_numpy(part[name]) for part in parts]) for name in ("episodes", "observations")
        }
        return {"episodes": whole["episodes"], "done": torch.cat(done), "observations": whole["observations"]}

    def restore(self, position: Mapping[str, Tensor]) -> None:
        """Start the episodes of a `position` again, and replay their actions."""
        if len(position["episodes"]) != len(self):
            raise ValueError(f"A position of {len(position['episodes'])} environments does not suit {len(self)}.")
        parts = [slice(part.start, part.stop) for part in self._ranges]
        self._ask_all("restore", [({name: each[part] for name, each in position.items()},) for part in parts])
        self.observations, self.started = position["observations"].clone(), (position["done"] < 0).all(1)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()

    def _ask_all(self, name: str, requests: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Send the processes their requests, None for none, then wait for all answers; raise the first error."""
        asked = list(zip(self._processes, requests, strict=True))
        for process, request in asked:
            if request is not None:
                process.send(name, request)
        answers = [None if request is None else process.receive() for process, request in asked]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers


class _Process:
    """A process with some copies."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", START_PROCESS, *search_path()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **SAFE_PATH, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            pickle.dump((name, arguments), self._requests, protocol=5)
            self._requests.flush()
        except BrokenPipeError:
            raise self._lost() from None

    def receive(self) -> Any:
        try:
            return pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):  # the second, if it ended in the middle of an answer
            raise self._lost() from None

    def _lost(self) -> RuntimeError:
        return RuntimeError(
            f"A process of the environments has ended with exit status {self._process.wait()}; its last words are "
            f"above. Run the environments in this process (processes=1) to see the cause."
        )

    def close(self) -> None:
        with suppress(BrokenPipeError):  # the process has ended
            self._requests.close()
        self._answers.close()
        self._process.wait()
