"""A process with some copies of an environment, which `ParallelEnvironments` starts.

It reads requests from standard input and writes answers to standard output, each pickled: the name of a method of
`Environments` and its arguments, and what the method returns, or the error that it raises. Only the two processes of
one run exchange these messages. Prints of the environments go to standard error.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import IO, Any

import torch
from torch import Tensor

from mnemoscope.training.reinforcement.environments import Environments


def main() -> int:
    """Answer requests until the input closes, and return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process finishes its step, and then closes the input
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answer_requests(sys.stdin.buffer, answers)
    return 0


def answer_requests(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Build the environments of the first request, and answer all requests until there are no more."""
    environments: Environments | None = None
    while True:
        try:
            name, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            if environments is None:
                make, *rest = arguments
                environments = Environments(pickle.loads(make), *rest)
                answer = environments.actions, environments.observations
            else:
                answer = _REQUESTS[name](environments, *arguments)
        except Exception as error:
            answer = error
        pickle.dump(_as_arrays(answer), answers, protocol=5)
        answers.flush()


def _step(environments: Environments, actions: Any, which: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Act in the copies `which`; return their observations, rewards, and whether their episodes ended."""
    which = None if which is None else torch.from_numpy(which)
    outcome = environments.step(torch.from_numpy(actions), which)
    seen = environments.observations if which is None else environments.observations[which]
    return seen, outcome.rewards, outcome.ended


_REQUESTS: dict[str, Callable[..., Any]] = {
    "step": _step,
    "position": Environments.position,
    "restore": Environments.restore,
}
"""Requests after the first one."""


def _as_arrays(answer: Any) -> Any:
    """Return an answer with arrays instead of tensors, which pickle at a fraction of the cost."""
    if isinstance(answer, tuple):
        return tuple(map(_as_arrays, answer))
    if isinstance(answer, dict):
        return {name: _as_arrays(part) for name, part in answer.items()}
    return answer.numpy() if isinstance(answer, Tensor) else answer
