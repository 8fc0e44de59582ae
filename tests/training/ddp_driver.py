"""Train the configurations that a file lists, in float64, in as many processes as torchrun starts.

The first argument is the file, the second the folder of the runs. A third argument "stop" interrupts rank 0 at step 7
of each run; "fail" adds a run in which rank 1 fails.
"""

import json
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from mnemoscope.base.distributed import OtherRankError, process_rank
from mnemoscope.config.run_config import RunConfig
from mnemoscope.relational.network import Scenes
from mnemoscope.tasks import Batch, Copy, Task
from mnemoscope.training import build_task, setup, train
from tests.tasks import data_sets


def in_float64(part):
    if isinstance(part, Scenes):
        return part._replace(images=part.images.double())
    return part.double() if part.is_floating_point() else part


def batches_in_float64(task: type[Task]) -> None:
    batch = task.batch
    task.batch = lambda *given, **more: Batch(*map(in_float64, batch(*given, **more)))


def with_an_idle_part(build):
    """Return a model with a parameter that no batch uses, and one that only sequences with a high start use."""

    def built(config, task):
        model = build(config, task)
        model.idle = nn.Parameter(torch.ones(3))
        model.seldom = nn.Parameter(torch.ones(()))
        forward = type(model).forward

        class Odd(type(model)):
            def forward(self, inputs, state=None):
                outputs, state = forward(self, inputs, state)
                if (high := inputs[0, :, 0] > 0.9).any():
                    outputs = outputs + 0.1 * self.seldom * high[:, None]
                return outputs, state

        model.__class__ = Odd
        return model

    return built


def fails(*_, **__):
    raise MemoryError("there is no room for this batch")


def stop(info):
    if info.step == 7:
        raise KeyboardInterrupt


def main(file: str, root: str, then: str = "") -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    data_sets.use(pytest.MonkeyPatch(), Path(root) / f"data {process_rank().rank}")
    configs = [RunConfig(**settings) for settings in json.loads(Path(file).read_text())]
    for kind in {type(build_task(config)) for config in configs}:
        batches_in_float64(kind)
    plain = setup.build_model
    for config in configs:
        setup.build_model = with_an_idle_part(plain) if config.name == "idle" else plain
        with suppress(KeyboardInterrupt, OtherRankError) if then == "stop" else nullcontext():
            train(config, root, resume=True, progress=False, callbacks=[stop] if then == "stop" else [])
    if then == "fail":
        if process_rank().rank == 1:
            Copy.batch = fails
        train(RunConfig("failing", "copy"), root, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
