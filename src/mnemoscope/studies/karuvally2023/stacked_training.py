"""Many networks of the binding table trained at once: their weights are stacked, and each product is one for all.

A training step of one network is far too small for a GPU. The networks of one task and size differ in their seeds,
thresholds, L2 and initial weights, so that one batched product serves all of them. Initial weights, batches, clipping
and optimiser are those of `train`, and the numbers differ by rounding only. Each network gets a finished run folder,
which the study then measures as if it had trained the network itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.base.progress import Bar
from mnemoscope.base.tensor_files import write_tensors
from mnemoscope.base.torch_state import flushed_denormals
from mnemoscope.config.run_config import RunConfig
from mnemoscope.studies.karuvally2023 import epochs
from mnemoscope.tasks import Split, VariableBinding
from mnemoscope.training import build_model, build_task
from mnemoscope.training.metrics_file import MetricsFile
from mnemoscope.training.result import TrainResult
from mnemoscope.training.run_folder import RunFolder

TEST_BATCHES = 4
"""Test batches of an evaluation, as in `train`."""
OWN = ("seed", "curriculum_score", "weight_decay", "cell_options")
"""Settings in which the networks may differ; their cells may differ in the scale of the first input weights."""


class StackedScan(torch.autograd.Function):
    """States of stacked tanh networks, `h' = tanh(drive + h V^T)`, from the state 0.

    On a GPU the whole scan is one kernel; on a CPU, one product per step serves all networks.
    """

    @staticmethod
    def forward(ctx: Any, drive: Tensor, V: Tensor) -> Tensor:
        """Return the states (time, networks, batch, hidden)."""
        if drive.is_cuda:
            states = _kernel_states(drive, V)
        else:
            states = torch.empty_like(drive)
            h = torch.zeros_like(drive[0])
            for x, row in zip(drive.unbind(), states.unbind(), strict=True):
                h = torch.tanh(torch.baddbmm(x, h, V.mT), out=row)
        ctx.save_for_backward(states, V)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor]:
        """Return the gradients of the drive and of V."""
        states, V = ctx.saved_tensors
        if states.is_cuda:
            found = _kernel_gradients(gradients[0], states, V)
        else:
            found = gradients[0].clone()
            slopes = 1 - states.square()
            g = found[-1].mul_(slopes[-1])
            for time in range(len(found) - 2, -1, -1):
                g = found[time].baddbmm_(g, V).mul_(slopes[time])
        later, earlier = (part.transpose(0, 1).flatten(1, 2) for part in (found[1:], states[:-1]))
        return found, later.mT @ earlier  # (networks, hidden, hidden)


def _kernel_states(drive: Tensor, V: Tensor) -> Tensor:
    """Return the states by the kernel of one network, each tile of sequences with its matrix."""
    from mnemoscope.kernels import triton_elementwise

    flat = drive.flatten(1, 2)
    triton_elementwise.check_stack(flat, V)
    return triton_elementwise.forward(flat, torch.zeros_like(flat[0]), V, "tanh", None, None).view_as(drive)


def _kernel_gradients(gradient: Tensor, states: Tensor, V: Tensor) -> Tensor:
    """Return the gradient of the drive by the kernel of one network."""
    from mnemoscope.kernels import triton_elementwise

    flat, before = gradient.flatten(1, 2), states.flatten(1, 2)
    return triton_elementwise.adjoint(flat, before, V, "tanh", None, None)[0].view_as(states)


class Stack:
    """Networks of one task and size, with their optimiser; `step` trains all of them on one batch each."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        self.configs, first = configs, configs[0]
        self.task = _binding(first)
        self.stages = self.task.stages()
        self.device = torch.device(first.device)
        models = [build_model(config, self.task) for config in configs]
        self.names = [name for name, _ in models[0].named_parameters()]
        self.weights = [
            torch.stack([model.get_parameter(name).detach() for model in models]).to(self.device) for name in self.names
        ]
        graphed = self.device.type == "cuda"
        self.optimiser = torch.optim.Adam(self.weights, lr=first.learning_rate, fused=True, capturable=graphed)
        self._prepare_optimiser()
        count = len(configs)
        self.decay = torch.tensor([config.weight_decay for config in configs], device=self.device).view(-1, 1, 1)
        self.sums = torch.zeros(2, count, device=self.device)
        self.accuracy = torch.zeros(count, device=self.device)
        self.stage = [0] * count
        self.first = self._static(torch.zeros(self.task.variables, count, first.batch_size, self.task.size))
        self.sources: dict[int, tuple[Tensor, Tensor]] = {}
        self.shares: Tensor = torch.empty(0)
        self.replay: Callable[[], None] | None = None
        self._set_horizon()

    @property
    def horizon(self) -> int:
        """Longest horizon of the present stages."""
        return max(self.stages[stage].horizon for stage in self.stage)

    def _static(self, values: Tensor) -> Tensor:
        return values.to(self.device, copy=True)

    def draw(self, number: int, split: Split = "train") -> Float[Tensor, "variables networks batch size"]:
        """Return the first vectors of batch `number` of each network; networks of one seed share them."""
        size, seeds = self.configs[0].batch_size, [config.seed for config in self.configs]
        shortest = self.task.at(1)  # the first vectors are the same for every horizon
        drawn = {
            seed: shortest.batch(size, seed, number, split).inputs[: self.task.variables]
            for seed in dict.fromkeys(seeds)
        }
        return torch.stack([drawn[seed] for seed in seeds], 1)

    def run(self, first: Tensor, horizon: int) -> tuple[Tensor, Tensor]:
        """Return outputs and targets (time, networks, batch, size) of the steps that are due."""
        U, V, R = self.weights
        drive = first @ U.mT
        silence = drive.new_zeros(horizon, *drive.shape[1:])
        states = StackedScan.apply(torch.cat([drive, silence]), V)
        assert isinstance(states, Tensor)
        return states[len(first) :] @ R.mT, self._targets(first, horizon)

    def _targets(self, first: Tensor, horizon: int) -> Tensor:
        if horizon not in self.sources:  # kept on the device, as a CUDA graph needs
            place, sign = (part[first.shape[0] * self.task.size :] for part in self.task.F.sources(horizon))
            self.sources[horizon] = place.to(self.device), sign.to(self.first).view(-1, 1, 1)
        place, sign = self.sources[horizon]
        vectors = first.movedim(-1, 1).flatten(0, 1)  # (time and element, networks, batch)
        return (sign * vectors[place]).unflatten(0, (horizon, -1)).movedim(1, -1)

    def step(self, number: int) -> None:
        """Train on batch `number`, and enter the next stage where the accuracy suffices."""
        self.first.copy_(self.draw(number), non_blocking=True)
        if self.device.type == "cuda":
            self.replay = self.replay or _recorded(self._update, self._changed())
            self.replay()
        else:
            self._update()
        last = len(self.stages) - 1
        if any(stage < last for stage in self.stage):
            self._advance(self.accuracy.tolist())

    def _prepare_optimiser(self) -> None:
        """Create the moments of Adam: a step with gradients of 0 changes no weight."""
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight)
        self.optimiser.step()
        for state in self.optimiser.state.values():
            state["step"].zero_()

    def _changed(self) -> list[Tensor]:
        """Return everything that an update changes."""
        moments = [value for state in self.optimiser.state.values() for value in state.values()]
        return [*self.weights, *moments, self.sums]

    def _advance(self, accuracies: Sequence[float]) -> None:
        before, last = (self.stage, self.horizon), len(self.stages) - 1
        thresholds = [config.curriculum_score for config in self.configs]
        pairs = zip(self.stage, accuracies, thresholds, strict=True)
        self.stage = [stage + (stage < last and accuracy >= least) for stage, accuracy, least in pairs]
        if self.stage != before[0]:
            self._set_horizon(again=self.horizon != before[1])

    def _set_horizon(self, again: bool = True) -> None:
        """Set the share of each step and network in the loss; a longer horizon needs another recording."""
        horizons = torch.tensor([self.stages[stage].horizon for stage in self.stage])
        counted = torch.arange(self.horizon)[:, None] < horizons
        shares = (counted / horizons)[..., None, None]  # of the loss, the mean over the steps that are due
        if again:
            self.shares, self.replay = self._static(shares), None
        else:
            self.shares.copy_(shares)

    def _update(self) -> None:
        """One step of all networks: loss, gradient, clipping, Adam."""
        with torch.enable_grad():
            for weight in self.weights:
                weight.requires_grad_()
            outputs, targets = self.run(self.first, self.horizon)
            losses = (self.shares * (outputs - targets).square()).sum(0).mean((1, 2))
            gradients = torch.autograd.grad(losses.sum(), self.weights)
        with torch.no_grad():
            right = ((outputs > 0) == (targets > 0)).to(outputs)
            self.accuracy.copy_((self.shares * right).sum(0).mean((1, 2)))
            norms = sum(gradient.square().sum((1, 2)) for gradient in gradients)
            assert isinstance(norms, Tensor)
            norms = norms.sqrt()
            self.sums += torch.stack([losses, norms])
            scale = ((self.configs[0].clip or torch.inf) / (norms + 1e-6)).clamp_max(1).view(-1, 1, 1)
            for weight, gradient in zip(self.weights, gradients, strict=True):
                # the fused optimiser reads gradients in the order of the weights, whatever their strides
                weight.grad = torch.addcmul(scale * gradient, self.decay, weight).contiguous()
            self.optimiser.step()

    @torch.no_grad()
    def test(self, first: Tensor, horizons: Sequence[int]) -> tuple[list[float], list[float]]:
        """Return the loss and the accuracy of each network over its horizon."""
        outputs, targets = self.run(first, max(horizons))
        due = torch.tensor(horizons, device=self.device)
        shares = ((torch.arange(max(horizons), device=self.device)[:, None] < due) / due)[..., None, None]
        right = ((outputs > 0) == (targets > 0)).to(outputs)
        squared = (outputs - targets).square()
        losses, accuracies = ((shares * part).sum(0).mean((1, 2)).tolist() for part in (squared, right))
        return losses, accuracies

    def state_of(self, network: int) -> dict[str, Tensor]:
        """Return the weights of one network by name."""
        return {name: weight[network].detach() for name, weight in zip(self.names, self.weights, strict=True)}


def train_stacked(configs: Sequence[RunConfig], roots: Sequence[Path], progress: bool = True) -> list[TrainResult]:
    """Train the networks of these configurations at once, each in its folder under its root.

    Args:
        configs: runs of the binding table that differ in seed, threshold of the curriculum, L2 and the scale of the
            first input weights at most.
        roots: for each run, the folder of its trial; the run is in `<root>/<name>/<hash>`.
        progress: show a bar.

    """
    _check(configs)
    stack, first = Stack(configs), configs[0]
    folders = [RunFolder(config.folder(root)) for config, root in zip(configs, roots, strict=True)]
    for folder, config in zip(folders, configs, strict=True):
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.start(config)
    tests = torch.cat([stack.draw(number, "test") for number in range(TEST_BATCHES)], 2).to(stack.device)
    begin = perf_counter()
    line: dict[str, Sequence[float]] = {}
    for step in Bar(range(1, first.steps + 1), desc="stacked", unit="step", disable=not progress):
        with flushed_denormals():  # strong L2 shrinks weights to such numbers
            stack.step(step - 1)
        if step % first.evaluate_every == 0 or step == first.steps:
            horizons = [stack.task.test_horizon] * len(configs)
            measured = (*stack.test(tests, horizons), *(stack.sums / first.evaluate_every).tolist(), stack.stage)
            stack.sums.zero_()
            line = dict(zip(("loss", "accuracy", "train_loss", "gradient_norm", "stage"), measured, strict=True))
            for number, folder in enumerate(folders):
                values = {name: column[number] for name, column in line.items()}
                size = folder.metrics.stat().st_size if folder.metrics.exists() else 0
                with MetricsFile(folder.metrics, size) as metrics:
                    metrics.write({"step": step, "learning_rate": first.learning_rate, **values})
        if step % epochs.EPOCH == 0:
            stages = [stack.stages[stage].horizon for stage in stack.stage]
            accuracies = stack.test(stack.draw(step).to(stack.device), stages)[1]
            for number, folder in enumerate(folders):
                header = {"accuracy": accuracies[number]}
                write_tensors(epochs.epoch_file(folder.path, step // epochs.EPOCH), stack.state_of(number), header)
    seconds = (perf_counter() - begin) / len(configs)
    return [_finish(stack, number, folder, line, seconds) for number, folder in enumerate(folders)]


def _finish(
    stack: Stack, number: int, folder: RunFolder, line: Mapping[str, Sequence[float]], seconds: float
) -> TrainResult:
    config = stack.configs[number]
    model = build_model(config, stack.task)
    model.load_state_dict(stack.state_of(number))
    folder.save_model(model, config)
    scores = {"accuracy": line["accuracy"][number]}
    result = TrainResult(
        folder.path, config.steps, "steps", line["loss"][number], scores, stack.task.baseline(), seconds
    )
    folder.save_result(result)
    return result


def _recorded(update: Callable[[], None], changed: Sequence[Tensor]) -> Callable[[], None]:
    """Return a CUDA graph of an update as a function; what it changes is as before the trial runs that it needs."""
    kept = [(tensor, tensor.detach().clone()) for tensor in changed]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            update()
    torch.cuda.current_stream().wait_stream(stream)
    with torch.no_grad():
        for tensor, value in kept:
            tensor.copy_(value)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        update()
    return graph.replay


def _binding(config: RunConfig) -> VariableBinding:
    task = build_task(config)
    if not isinstance(task, VariableBinding):
        raise ValueError(f"Networks of variable binding are trained at once, but the task is {config.task!r}.")
    return task


def _check(configs: Sequence[RunConfig]) -> None:
    """Raise unless the configurations differ in the settings of `OWN` at most, and have the form that is stacked."""
    first = vars(configs[0])
    for config in configs:
        other = [name for name, value in vars(config).items() if value != first[name] and name not in OWN]
        if other:
            raise ValueError(f"Networks that are trained at once differ in {', '.join(OWN)} only, but in {other[0]}.")
    cell, schedule, optimiser = (first[name] for name in ("cell", "schedule", "optimiser"))
    cells = [config.cell_options for config in configs]
    plain = all(set(each) <= {"bias", "input_scale"} and not each.get("bias", True) for each in cells)
    if (cell, schedule, optimiser) != ("elman", "constant", "adam") or first["readout_bias"] or not plain:
        raise ValueError(
            "Networks that are trained at once are Elman networks with tanh and without biases, trained by Adam at a "
            "constant rate; train others by `train`."
        )
