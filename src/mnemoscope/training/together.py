"""Relational networks with different seeds, trained at once: one kernel of a GPU does the same for all of them.

A step of a small network takes a GPU as long as it takes to start its kernels, whatever their size. The weights of
networks that differ in their seed alone are stacked, and `torch.vmap` runs all of them on their batches. Their losses
are independent and Adam is elementwise, so that each network is trained as it would be alone, up to rounding. Random
numbers that a network draws while it learns differ from those of a run alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn.attention import SDPBackend, sdpa_kernel

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.files import write_json
from mnemoscope.config.run_config import ENDLESS_EVALUATION, RunConfig
from mnemoscope.relational.network import RelationalModel, Scenes, SingleStepModel
from mnemoscope.tasks import RelationalSequence, Split
from mnemoscope.training.bptt import penalised_modules
from mnemoscope.training.build import build_model, build_task
from mnemoscope.training.checkpoint import Counters
from mnemoscope.training.graphed_pass import training_stream, warn_without_graphs
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.optimiser import build_optimiser, set_learning_rate
from mnemoscope.training.result import TrainResult, non_finite_loss
from mnemoscope.training.run_folder import RunFolder, environment
from mnemoscope.training.seeding import seeded
from mnemoscope.training.setup import cpu_settings

WARM_UP = 3
"""Steps of a new shape that run without a CUDA graph, before it is recorded."""


def train_together(configs: Sequence[RunConfig], roots: Sequence[Path]) -> list[TrainResult]:
    """Train the relational networks of several configurations at once, and return their results.

    Every run has a folder with the same files as one of `train`, without checkpoints; env.json has the number of
    networks as `together`, and `seconds` is each network's share of the time. A run that is interrupted starts again.

    Args:
        configs: configurations that differ in `seed` and in the `shape_seed` of the task alone.
        roots: the folder of all runs for each of them; the run is in `<root>/<name>/<hash>`.

    """
    _check(configs)
    folders = [RunFolder(config.folder(root)) for config, root in zip(configs, roots, strict=True)]
    if found := [folder.path for folder in folders if folder.status != "new"]:
        raise FileExistsError(f"There is a run in {found[0]} already: remove it, or leave out its configuration.")
    threads, device, seed = configs[0].threads, configs[0].device, configs[0].seed
    with cpu_settings(threads), training_stream(device), seeded("together", seed, device=device):
        group = _Group(configs)
        lines = group.train()
    return [group.write(place, folder, lines[place]) for place, folder in enumerate(folders)]


class _Problems(NamedTuple):
    """Batches of all networks, stacked."""

    images: Float[Tensor, "networks distinct channels height width"]
    objects: Int[Tensor, "networks batch objects"]
    labels: Int[Tensor, "networks batch"]


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
        self._most: dict[Split, int] = {}
        """Images of a batch, padded, by split; the batches that follow have as many or more."""

    def model(self, place: int) -> SingleStepModel:
        """Return one of the networks with its present weights, on the CPU."""
        model = self._models[place].cpu()
        assert isinstance(model, SingleStepModel)
        stacked = {**self._weights, **self._buffers}
        kept = {name: stacked[name][place].detach().cpu() for name in model.state_dict()}
        model.load_state_dict(kept)
        return model

    def write(self, place: int, folder: RunFolder, lines: list[dict[str, float]]) -> TrainResult:
        """Write the files of a finished run, and return its result."""
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

    def train(self) -> list[list[dict[str, float]]]:
        """Train the networks, and return the lines of metrics.jsonl of each of them."""
        config, counters = self.config, Counters()
        optimiser = build_optimiser(config, self._learned)
        lines: list[list[dict[str, float]]] = [[] for _ in self.configs]
        evaluated = [self.batches(number, "test") for number in range(config.evaluate_batches or ENDLESS_EVALUATION)]
        sums, begin, step = torch.zeros(2, len(self.configs), device=config.device), perf_counter(), _Step(self)
        following = self.batches(0)
        for counters.step in range(config.steps):
            rate = set_learning_rate(optimiser, config, counters)
            sums += step(following)
            optimiser.step()
            done = counters.step + 1
            if done < config.steps:
                following = self.batches(done)  # while a GPU is still at work
            if done % config.evaluate_every and done < config.steps:
                continue
            since = done % config.evaluate_every or config.evaluate_every
            loss, norm = (sums / since).tolist()
            tested = torch.stack([self.evaluate(batch) for batch in evaluated]).mean(0).tolist()
            sums.zero_()
            for place, history in enumerate(lines):
                line = {"step": done, "learning_rate": rate, "train_loss": loss[place], "gradient_norm": norm[place]}
                history.append(line | {"loss": tested[0][place], "accuracy": tested[1][place]})
            if not (torch.tensor([loss, norm, *tested]).isfinite().all()):
                raise non_finite_loss(f"The losses are {tested[0]}", done, Path("none"))
        self.seconds = perf_counter() - begin
        return lines

    def batches(self, number: int, split: Split = "train") -> _Problems:
        """Return the batches of all networks with this number, with the same number of images for all."""
        size = self.config.batch_size
        drawn: list[Scenes] = [
            task.relational.batch(size, config.seed, number, split)
            for task, config in zip(self.tasks, self.configs, strict=True)
        ]
        most = 2 ** (max(len(scenes.images) for scenes in drawn) - 1).bit_length()
        most = self._most[split] = max(most, self._most.get(split, 1))
        images = drawn[0].images.new_zeros(len(drawn), most, *drawn[0].images.shape[1:])
        for into, scenes in zip(images, drawn, strict=True):
            into[: len(scenes.images)] = scenes.images
        objects, labels = (torch.stack([getattr(scenes, name) for scenes in drawn]) for name in ("objects", "labels"))
        return _Problems(*(part.to(self.config.device) for part in (images, objects, labels)))

    def outcomes(self, problems: _Problems) -> tuple[Tensor, Tensor, Tensor]:
        """Return cost, loss and accuracy of each network."""

        def outcome(
            weights: dict[str, Tensor], buffers: dict[str, Tensor], *batch: Tensor
        ) -> tuple[Tensor, Tensor, Tensor]:
            return functional_call(self._objective, (weights, buffers), batch)

        with sdpa_kernel(SDPBackend.MATH):  # the fused kernels refuse the strides of stacked networks on a GPU
            return torch.vmap(outcome, randomness="different")(self._weights, self._buffers, *problems)

    @torch.no_grad()
    def evaluate(self, problems: _Problems) -> Float[Tensor, "2 networks"]:
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

    def run(self, problems: _Problems) -> Float[Tensor, "2 networks"]:
        """Set the gradients, which must be None, and return the loss and the norm of the gradient of each network."""
        cost, loss, _ = self.outcomes(problems)
        cost.sum().backward()
        squares = [weight.grad.flatten(1).square().sum(1) for weight in self.learned if weight.grad is not None]
        return torch.stack([loss.detach(), torch.stack(squares).sum(0).sqrt()])

    @property
    def learned(self) -> list[nn.Parameter]:
        """The stacked weights that are trained."""
        return [*self._learned.values()]


class _Step:
    """Callable that sets the gradients of a batch, by a CUDA graph once its shape is known; see `_Group.run`."""

    def __init__(self, group: _Group) -> None:
        self._group, self._graphed = group, group.config.device == "cuda" and group.config.cuda_graphs is not False
        self._shape: torch.Size | None = None
        self._seen = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._problems: _Problems | None = None
        self._result: Tensor | None = None

    def __call__(self, problems: _Problems) -> Float[Tensor, "2 networks"]:
        if problems.images.shape != self._shape:
            self._shape, self._seen, self._graph = problems.images.shape, 0, None
        self._seen += 1
        if self._graph is None:
            for weight in self._group.learned:
                weight.grad = None
        if not self._graphed or self._seen <= WARM_UP:
            return self._group.run(problems)
        if self._graph is None:
            self._problems = _Problems(*(part.clone() for part in problems))
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
                    self._result = self._group.run(self._problems)
            except RuntimeError as error:
                self._graphed = False
                warn_without_graphs(f"recording failed: {str(error).splitlines()[0]}")
                return self(problems)
            self._graph = graph
        assert self._problems is not None
        assert self._result is not None
        for into, part in zip(self._problems, problems, strict=True):
            into.copy_(part)
        self._graph.replay()
        return self._result


def _check(configs: Sequence[RunConfig]) -> None:
    if len(configs) < 2:
        raise ValueError(f"Two configurations or more are trained together, but {len(configs)} was given; use train.")
    first, *others = (_without_seeds(config) for config in configs)
    if any(other != first for other in others):
        raise ValueError("Networks that are trained together differ in seed and shape_seed alone.")
    for name in ("clip", "target_loss", "target_score", "patience"):
        if getattr(first, name) is not None:
            raise ValueError(f"{name} is for a single training; leave it out, or use train for each configuration.")


def _without_seeds(config: RunConfig) -> RunConfig:
    options = {name: value for name, value in config.task_options.items() if name != "shape_seed"}
    return replace(config, seed=0, task_options=options)


def _relational(config: RunConfig) -> RelationalSequence:
    task = build_task(config)
    if not isinstance(task, RelationalSequence):
        raise ValueError(f"Only relational networks are trained together, but the task is {config.task!r}.")
    return task


def _network(model: nn.Module) -> RelationalModel:
    assert isinstance(model, SingleStepModel)
    return model.network
