"""Relational networks trained at once: one kernel of a GPU does the same for all of them.

A step of a small network takes a GPU as long as it takes to start its kernels, whatever their size. The weights of
networks of the same shape are stacked, and `torch.vmap` runs all of them on their batches. Their losses are independent
and Adam is elementwise, so that each network is trained as it would be alone, up to rounding, but on other problems of
its task: drawing many batches at once takes a fraction of the time. Random numbers that a network draws while it learns
differ, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import conv2d, pad
from torch.overrides import TorchFunctionMode

from mnemoscope.base.array_types import Float
from mnemoscope.base.files import write_json
from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig
from mnemoscope.relational.network import RelationalModel, SingleStepModel, Sizes
from mnemoscope.tasks import RelationalSequence
from mnemoscope.training.bptt import penalised_modules
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.graphed_pass import training_stream
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.result import TrainResult, non_finite_loss
from mnemoscope.training.run_folder import RunFolder, environment
from mnemoscope.training.seeding import seeded
from mnemoscope.training.setup import cpu_settings
from mnemoscope.training.stacked_batches import StackedProblems, TrainingStream, evaluated_problems
from mnemoscope.training.stacked_step import StackedStep

AT_ONCE = 50
"""Batches that are drawn at once."""


def train_together(
    configs: Sequence[RunConfig], roots: Sequence[Path], *, at_once: int = AT_ONCE
) -> list[TrainResult | None]:
    """Train the relational networks of several configurations at once, and return their results.

    Every run has a folder with the same files as one of `train`, without checkpoints; env.json has the number of
    networks as `together`, and `seconds` is each network's share of the time. A run that is interrupted starts again.
    A network whose loss or gradient does not stay finite has no result and no folder; `train` reports what happened.

    Args:
        configs: configurations that differ in `name`, `seed`, `task` and `task_options` alone, with tasks whose
            problems have the same sizes.
        roots: the folder of all runs for each of them; the run is in `<root>/<name>/<hash>`.
        at_once: number of batches that are drawn at once. With 1 they are those of `train`, which takes longer.

    """
    _check(configs)
    folders = [RunFolder(config.folder(root)) for config, root in zip(configs, roots, strict=True)]
    if found := [folder.path for folder in folders if folder.status != "new"]:
        raise FileExistsError(f"There is a run in {found[0]} already: remove it, or leave out its configuration.")
    threads, device, seed = configs[0].threads, configs[0].device, configs[0].seed
    with cpu_settings(threads), training_stream(device), seeded("together", seed, device=device):
        group = _Group(configs)
        lines = group.train(at_once)
    return [group.write(place, folder, lines[place]) for place, folder in enumerate(folders)]


class _Objective(nn.Module):
    """The loss of one network on a batch, alone and with its penalties, and its accuracy."""

    def __init__(self, network: RelationalModel) -> None:
        super().__init__()
        self.network = network
        self.penalised = penalised_modules(network)

    def forward(self, images: Tensor, objects: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.network.answer(self.network.encode_valid(images, objects))
        loss = -logits.log_softmax(1).gather(1, labels[:, None]).mean()
        penalties = [module.penalty() for module in self.penalised] if self.training else []
        cost = loss + sum(penalty for penalty in penalties if penalty is not None)
        return cost, loss, (logits.argmax(1) == labels).to(loss.dtype).mean()


class _Group:
    """Networks that are trained together."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self.configs, self.config, self.seconds = configs, configs[0], 0.0
        self.tasks = [_relational(config) for config in configs]
        self._models = [build_model(config, task) for config, task in zip(configs, self.tasks, strict=True)]
        objectives = [_Objective(_network(model)).to(self.config.device) for model in self._models]
        self._weights, self._buffers = stack_module_state(objectives)
        self._objective = objectives[0]
        self._learned = nn.ParameterDict(
            {name.replace(".", "/"): nn.Parameter(w) for name, w in self._weights.items() if w.requires_grad}
        )
        self._weights |= {name.replace("/", "."): weight for name, weight in self._learned.items()}

    def model(self, place: int) -> SingleStepModel:
        """Return one of the networks with its present weights, on the CPU."""
        model = self._models[place].cpu()
        assert isinstance(model, SingleStepModel)
        stacked = {**self._weights, **self._buffers}
        kept = {name: stacked[name][place].detach().cpu() for name in model.state_dict()}
        model.load_state_dict(kept)
        return model

    def write(self, place: int, folder: RunFolder, lines: list[dict[str, float]]) -> TrainResult | None:
        """Write the files of a finished run, and return its result; None if the network did not stay finite."""
        if not torch.tensor([[*line.values()] for line in lines]).isfinite().all():
            return None
        config, last = self.configs[place], lines[-1]
        scores, baseline = {"accuracy": last["accuracy"]}, self.tasks[place].baseline()
        share = self.seconds / len(self.configs)
        result = TrainResult(folder.path, config.steps, "steps", last["loss"], scores, baseline, share)
        with folder.lock():
            folder.start(config)
            write_json(folder.path / "env.json", environment() | {"together": len(self.configs)})
            with MetricsFile(folder.metrics, 0) as metrics:
                for line in lines:
                    metrics.write(line)
            folder.save_model(self.model(place), config)
            folder.save_result(result)
        return result

    def train(self, at_once: int) -> list[list[dict[str, float]]]:
        """Train the networks, and return the lines of metrics.jsonl of each of them."""
        config = self.config
        drawn = [task.relational for task in self.tasks], [config.seed for config in self.configs], config.batch_size
        evaluated = evaluated_problems(*drawn, config.evaluate_batches or ENDLESS_EVALUATION, config.device)
        stream = TrainingStream(*drawn, at_once, config.device)
        lines: list[list[dict[str, float]]] = [[] for _ in self.configs]
        begin, step = perf_counter(), StackedStep(config, self._learned, self.outcomes, stream)
        for done in range(1, config.steps + 1):
            rate = step()
            if done % config.evaluate_every and done < config.steps:
                continue
            loss, norm = (step.take_sums() / (done % config.evaluate_every or config.evaluate_every)).tolist()
            tested = torch.stack([self.evaluate(batch) for batch in evaluated]).mean(0).tolist()
            for place, history in enumerate(lines):
                line = {"step": done, "learning_rate": rate, "train_loss": loss[place], "gradient_norm": norm[place]}
                history.append(line | {"loss": tested[0][place], "accuracy": tested[1][place]})
            if not torch.tensor([loss, norm, *tested]).isfinite().all(0).any():
                raise non_finite_loss(f"The losses are {tested[0]}", done, Path("none"))
        self.seconds = perf_counter() - begin
        return lines

    def outcomes(self, problems: StackedProblems) -> tuple[Tensor, Tensor, Tensor]:
        """Return cost, loss and accuracy of each network."""

        def outcome(
            weights: dict[str, Tensor], buffers: dict[str, Tensor], *batch: Tensor
        ) -> tuple[Tensor, Tensor, Tensor]:
            return functional_call(self._objective, (weights, buffers), batch)

        # the fused kernels of attention refuse the strides of stacked networks on a GPU
        with sdpa_kernel(SDPBackend.MATH), _UnfoldedConvolutions():
            return torch.vmap(outcome, randomness="different")(self._weights, self._buffers, *problems)

    @torch.no_grad()
    def evaluate(self, problems: StackedProblems) -> Float[Tensor, "2 networks"]:
        """Return loss and accuracy of each network in evaluation mode."""
        fast = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it has no rule for stacked networks
        self._objective.eval()
        try:
            _, loss, accuracy = self.outcomes(problems)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            self._objective.train()
        return torch.stack([loss, accuracy])


class _UnfoldedConvolutions(TorchFunctionMode):
    """Compute convolutions as products of matrices.

    Stacked networks would be one convolution with many groups, and GPU libraries have few fast kernels for those.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is conv2d:
            return _unfolded_convolution(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _unfolded_convolution(
    images: Float[Tensor, "number channels height width"],
    weight: Float[Tensor, "filters channels rows columns"],
    bias: Float[Tensor, " filters"],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
) -> Float[Tensor, "number filters high wide"]:
    assert groups == 1
    assert dilation == (1, 1)
    patches = pad(images, (padding[1], padding[1], padding[0], padding[0]))
    for dimension in (2, 3):  # torch.nn.functional.unfold would start a kernel for each image
        patches = patches.unfold(dimension, weight.shape[dimension], stride[dimension - 2])
    return torch.einsum("fcij,nchwij->nfhw", weight, patches) + bias[:, None, None]


def _check(configs: Sequence[RunConfig]) -> None:
    if len(configs) < 2:
        raise ValueError(f"Two configurations or more are trained together, but {len(configs)} was given; use train.")
    first, *others = (
        replace(config, name="together", seed=0, task=configs[0].task, task_options={}) for config in configs
    )
    if any(other != first for other in others):
        raise ValueError("Networks that are trained together differ in name, seed, task and task_options alone.")
    for name in ("clip", "target_loss", "target_score", "patience"):
        if getattr(first, name) is not None:
            raise ValueError(f"{name} is for a single training; leave it out, or use train for each configuration.")
    sizes = {_sizes(_relational(config)) for config in configs}
    if len(sizes) > 1:
        raise ValueError(f"Networks that are trained together have problems of one size, but these are {sizes}.")


def _sizes(task: RelationalSequence) -> Sizes:
    problem = task.relational
    return Sizes(problem.objects, problem.choices, problem.channels, problem.height, problem.width, problem.segments)


def _relational(config: RunConfig) -> RelationalSequence:
    task = build_task(config)
    if not isinstance(task, RelationalSequence):
        raise ValueError(f"Only relational networks are trained together, but the task is {config.task!r}.")
    return task


def _network(model: nn.Module) -> RelationalModel:
    assert isinstance(model, SingleStepModel)
    return model.network
