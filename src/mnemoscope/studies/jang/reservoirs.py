"""What the studies of flip-flop reservoirs share: how one is made, taught and tried, and which corners it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.cells import EchoState, Reservoirs
from mnemoscope.tasks import Batch, FlipFlop
from mnemoscope.training import train_force
from mnemoscope.training.seeding import seeded

LEFT_ALONE = 1000
"""Steps, a hundred time constants, for which a corner must be held to count as a memory."""


@dataclass(frozen=True)
class Recipe:
    """A flip-flop reservoir and its lesson. Jang's Table 1 tells six numbers after the bits; the rest is what works.

    As released, pulses of strength 1 do not overcome the feedback once learning has stopped: here the input is five
    times as strong, pulses keep a distance, and nothing is learned for `settle` steps after a flip.
    """

    bits: int = 3
    units: int = 1000
    gain: float = 1.5
    tau: float = 10.0
    every: int = 2
    steps: int = 30_000
    test_steps: int = 5_000
    nonlinearity: str = "tanh"
    density: float = 0.1
    input_scale: float = 5.0
    alpha: float = 1.0
    rate: float = 0.02
    width: int = 11
    apart: int = 30
    settle: int = 15

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Recipe:
        """From the settings of a trial, of which others are left aside."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in names})

    @property
    def as_published(self) -> bool:
        """Whether it has the numbers of Table 1, and is the recipe that works in all else but the nonlinearity."""
        return replace(self, nonlinearity="tanh") == Recipe(bits=self.bits)

    def settings(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def task(self, steps: int) -> FlipFlop:
        """The flip-flop, so many steps long."""
        return FlipFlop(self.bits, steps, self.rate, self.width, self.apart, self.settle)

    def reservoir(self, seed: int) -> EchoState:
        """An untaught one, in float32."""
        with seeded("reservoir", seed):
            return EchoState(
                self.bits,
                self.units,
                self.bits,
                gain=self.gain,
                tau=self.tau,
                density=self.density,
                nonlinearity=self.nonlinearity,
                input_scale=self.input_scale,
            )

    def test(self, seed: int, sequences: int = 1) -> Batch:
        """What it is tried on."""
        return self.task(self.test_steps).batch(sequences, seed, 0, "test")


@dataclass(frozen=True)
class Lesson:
    """A taught reservoir and how the learning went."""

    cell: EchoState
    steps: Tensor
    """Of the updates."""
    errors: Tensor
    """Mean |z - f| before each update."""
    snapshots: dict[int, Float[Tensor, "output hidden"]]
    """W_o after so many steps."""
    seconds: float

    def at(self, step: int) -> EchoState:
        """The reservoir as it was after so many steps."""
        W = dict(self.cell.named_parameters())
        return EchoState.from_weights(
            W["recurrent"],
            W["drive"],
            feedback=W["feedback"],
            readout=self.snapshots[step],
            bias=W["bias"],
            leak=self.cell.leak,
            nonlinearity=self.cell.phi,
            form=self.cell.form,
        )

    def curve(self, points: int = 100) -> dict[str, list[float]]:
        """Errors before the updates, averaged over as many spans of steps, for JSON."""
        spans = max(1, min(points, len(self.errors)))
        parts = zip(self.steps.double().tensor_split(spans), self.errors.double().tensor_split(spans), strict=True)
        means = [(steps.mean().item(), errors.mean().item()) for steps, errors in parts if len(steps)]
        return {"step": [round(step) for step, _ in means], "error": [float(f"{error:.4g}") for _, error in means]}


def lesson(
    recipe: Recipe,
    seed: int,
    file: Path,
    *,
    cell: EchoState | None = None,
    keep: Iterable[int] = (),
    progress: bool = False,
) -> Lesson:
    """Teach a reservoir by FORCE, or read what was taught before from `file`.

    Args:
        recipe: of the reservoir and the lesson.
        seed: of both.
        file: where the weights are kept (`.safetensors`).
        cell: the reservoir to begin with; an untaught one by default.
        keep: steps after which W_o is kept.
        progress: show a progress bar.

    """
    cell, keep = recipe.reservoir(seed) if cell is None else cell, sorted(keep)
    about = {"recipe": json.dumps(recipe.settings(), sort_keys=True), "seed": str(seed), "keep": str(keep)}
    if file.exists():
        return _read(cell, file, about)
    batch = recipe.task(recipe.steps).batch(1, seed, 0)
    begin = perf_counter()
    run = train_force(
        cell,
        batch.inputs,
        batch.targets,
        every=recipe.every,
        alpha=recipe.alpha,
        mask=batch.mask,
        keep=keep,
        progress=progress,
    )
    seconds = torch.tensor(perf_counter() - begin, dtype=torch.float64)
    kept = {f"snapshot.{one.step}": one.readout for one in run.snapshots}
    weights = {f"cell.{name}": value.detach() for name, value in cell.state_dict().items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    save_file({"steps": run.steps, "errors": run.errors, "seconds": seconds, **kept, **weights}, unfinished, about)
    unfinished.replace(file)  # all or nothing, so that an interrupted study does not read half a lesson
    return _read(cell, file, about)


def transferred(
    recipe: Recipe, seed: int, folder: Path, *, keep: Iterable[int] = (), progress: bool = False
) -> tuple[Lesson, Lesson]:
    """A lesson in one bit less, and the whole lesson of a reservoir that begins with its readout (Jang, section 7.1).

    W_r is the same in both. The smaller one has all columns of W_fb and B but the last; the last row of W_o, whose bit
    is new, begins at 0. The larger is `recipe.reservoir(seed)`: from one that is taught from nothing, its beginning
    alone differs.
    """
    if recipe.bits < 2:
        raise ValueError(f"A lesson in one bit less needs two bits or more, but bits is {recipe.bits}.")
    cell, fewer = recipe.reservoir(seed), recipe.bits - 1
    W_fb, W_o = cell.feedback, cell.readout
    assert W_fb is not None
    assert W_o is not None
    small = EchoState.from_weights(
        cell.recurrent,
        cell.drive[:, :fewer],
        feedback=W_fb[:, :fewer],
        bias=cell.bias,
        leak=cell.leak,
        nonlinearity=cell.phi,
        form=cell.form,
    )
    before = lesson(replace(recipe, bits=fewer), seed, folder / "before.safetensors", cell=small, progress=progress)
    with torch.no_grad():
        W_o[:fewer] = before.cell.get_parameter("readout")
    file = folder / "transferred.safetensors"
    return before, lesson(recipe, seed, file, cell=cell, keep=keep, progress=progress)


def _read(cell: EchoState, file: Path, about: dict[str, str]) -> Lesson:
    with safe_open(file, "pt") as opened:
        if opened.metadata() != about:
            raise ValueError(
                f"{file} holds another lesson (other settings, seed or snapshots); remove it, and it is taught anew."
            )
    stored = load_file(file)
    cell.load_state_dict({name.removeprefix("cell."): value for name, value in stored.items() if "cell." in name})
    kept = {int(name.removeprefix("snapshot.")): value for name, value in stored.items() if "snapshot." in name}
    return Lesson(cell, stored["steps"], stored["errors"], dict(sorted(kept.items())), float(stored["seconds"]))


def corners(bits: int) -> Float[Tensor, "corners bits"]:
    """All patterns of signs.

    >>> corners(2).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    return torch.tensor(list(product((-1.0, 1.0), repeat=bits)))


@dataclass(frozen=True)
class Memories:
    """What became of each corner that was written into a reservoir and left alone."""

    states: Float[Tensor, "corners hidden"]
    outputs: Float[Tensor, "corners bits"]
    held: Bool[Tensor, " corners"]
    """Whether all signs were still right at the end."""

    @property
    def error(self) -> float:
        """Mean |z - corner| of the corners that are held."""
        if not self.held.any():
            return float("nan")
        return (self.outputs - corners(self.outputs.shape[1])).abs()[self.held].mean().item()


def writing(recipe: Recipe, steps: int = LEFT_ALONE) -> Float[Tensor, "time corners bits"]:
    """Pulses that write every corner, channel after channel, and then nothing for so many steps."""
    signs = corners(recipe.bits)
    pause = 2 * recipe.apart
    inputs = torch.zeros(recipe.bits * pause + steps, len(signs), recipe.bits)
    for bit in range(recipe.bits):
        inputs[bit * pause : bit * pause + recipe.width, :, bit] = signs[:, bit]
    return inputs


@torch.no_grad()
def written(cell: EchoState, recipe: Recipe, steps: int = LEFT_ALONE) -> Memories:
    """Write every corner by pulses, channel after channel, and leave the reservoir alone for so many steps."""
    outputs, states = Reservoirs([cell]).run_outputs(writing(recipe, steps))
    last = outputs[-1, 0]
    return Memories(states[0], last, (last.sign() == corners(recipe.bits)).all(1))


@torch.no_grad()
def hearing(cell: EchoState, outputs: Float[Tensor, "throws bits"], steps: int = 100) -> Float[Tensor, "throws hidden"]:
    """The states of a reservoir that hears these outputs in place of its own, and no input, for so many steps.

    So one looks at states that no input leads to (Jang, section 6).
    """
    alone = Reservoirs([cell])
    x = alone.initial_state(len(outputs))
    for u in alone.driven(_silence(cell, steps, len(outputs))):
        x = alone.step(u, x, alone.rates(x), outputs.to(x).unsqueeze(0))
    return x[0]


@torch.no_grad()
def released(
    cell: EchoState, states: Float[Tensor, "throws hidden"], steps: int = LEFT_ALONE
) -> Float[Tensor, "throws bits"]:
    """The outputs of a reservoir that was left alone for so many steps from these states."""
    outputs, _ = Reservoirs([cell]).run_outputs(_silence(cell, steps, len(states)), states.unsqueeze(0))
    return outputs[-1, 0]


def _silence(cell: EchoState, steps: int, batch: int) -> Tensor:
    return cell.recurrent.new_zeros(steps, batch, cell.drive.shape[1])


@torch.no_grad()
def tried(cell: EchoState, recipe: Recipe, batch: Batch) -> dict[str, Any]:
    """How a reservoir follows its targets once learning has stopped: sign accuracy and mean squared error."""
    outputs = Reservoirs([cell]).run_outputs(batch.inputs)[0][:, 0]
    task = recipe.task(len(batch.inputs))
    return {"outputs": outputs, "mse": task.loss(outputs, batch).item(), **task.scores(outputs, batch)}


def table(values: Tensor, digits: int = 3) -> list[Any]:
    """Rounded numbers for JSON."""
    return [table(one, digits) if one.dim() else round(one.item(), digits) for one in values]


def spread_in_words(values: Sequence[float], form: str = ".3g") -> str:
    """Mean and standard deviation over the networks, or the one value."""
    numbers = torch.tensor(values, dtype=torch.float64)
    if len(numbers) == 1:
        return f"{numbers.item():{form}}"
    return f"{numbers.mean().item():{form}} +- {numbers.std().item():{form}}"
