"""Flip-flop reservoirs, shared by several studies: build, train and score them, and test which corners they hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float
from mnemoscope.base.files import write_atomically
from mnemoscope.base.safetensors_header import read_safetensors_header
from mnemoscope.cells import EchoState, Reservoirs
from mnemoscope.registry.citations import Source
from mnemoscope.tasks import Batch, FlipFlop
from mnemoscope.training import train_force
from mnemoscope.training.seeding import seeded

JANG = partial(Source, "jang")
"""Source in the paper, given its place there."""
LEFT_ALONE = 1000
"""Steps without input (a hundred time constants) for which a reservoir must hold a corner to count as a memory."""


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of a flip-flop reservoir and of its training.

    Jang's Table 1 gives the six numbers that follow `bits`; the others are our choice. In the released code, pulses of
    strength 1 do not overcome the feedback after learning has stopped. Therefore the input here is five times as
    strong, pulses keep a minimum distance, and learning pauses for `settle` steps after each flip.
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
    def from_settings(cls, settings: Mapping[str, Any]) -> Recipe:
        """Return the recipe in the settings of a trial; settings that are not part of a recipe are ignored."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in settings.items() if name in names})

    @classmethod
    def released(cls, bits: int) -> Recipe:
        """Return the recipe of the released code: dense W_r, inputs of strength 1, pulses that may overlap, no pauses.

        Each pulse arrives in a random channel, so that a channel has a share of `rate`.
        """
        return cls(bits, density=1.0, input_scale=1.0, rate=0.02 / bits, apart=0, settle=0)

    def as_published(self, bits: int) -> bool:
        """Whether all numbers are those of Table 1, and the others ours or released; the nonlinearity may differ."""
        return replace(self, nonlinearity="tanh") in (Recipe(bits), Recipe.released(bits))

    def settings(self) -> dict[str, Any]:
        """Return the recipe as plain data."""
        return asdict(self)

    def task(self, steps: int) -> FlipFlop:
        """Return the flip-flop task with sequences of `steps` steps."""
        return FlipFlop(self.bits, steps, self.rate, self.width, self.apart, self.settle)

    def reservoir(self, seed: int) -> EchoState:
        """Return an untrained reservoir in float32."""
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
        """Return the test batch."""
        return self.task(self.test_steps).batch(sequences, seed, 0, "test")


@dataclass(frozen=True)
class TrainedReservoir:
    """A trained reservoir and the history of its training."""

    cell: EchoState
    steps: Tensor
    """Steps of the updates."""
    errors: Tensor
    """Mean |z - f| before each update."""
    snapshots: dict[int, Float[Tensor, "output hidden"]]
    """W_o by the number of steps after which it was kept."""
    seconds: float
    """Duration of the training."""

    def at(self, step: int) -> EchoState:
        """Return the reservoir as it was after `step` steps of training."""
        return self.cell.with_readout(self.snapshots[step])

    def curve(self, points: int = 100) -> dict[str, list[float]]:
        """Return the errors before the updates, averaged over at most `points` intervals, for JSON."""
        spans = max(1, min(points, len(self.errors)))
        parts = zip(self.steps.double().tensor_split(spans), self.errors.double().tensor_split(spans), strict=True)
        means = [(steps.mean().item(), errors.mean().item()) for steps, errors in parts if len(steps)]
        return {"step": [round(step) for step, _ in means], "error": [float(f"{error:.4g}") for _, error in means]}


def train_reservoir(
    recipe: Recipe,
    seed: int,
    file: Path,
    *,
    cell: EchoState | None = None,
    keep: Iterable[int] = (),
    progress: bool = False,
) -> TrainedReservoir:
    """Train a reservoir by FORCE, or read the trained one from `file` if it exists.

    Args:
        recipe: hyper-parameters of the reservoir and of its training.
        seed: seed of the reservoir and of the training data.
        file: file for the weights (`.safetensors`).
        cell: initial reservoir; an untrained one by default.
        keep: steps after which a snapshot of W_o is kept.
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
    kept = {f"snapshot.{snapshot.step}": snapshot.readout for snapshot in run.snapshots}
    weights = {f"cell.{name}": value.detach() for name, value in cell.state_dict().items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"steps": run.steps, "errors": run.errors, "seconds": seconds, **kept, **weights}
    write_atomically(file, save(content, about))
    return _read(cell, file, about)


def train_transferred(
    recipe: Recipe, seed: int, folder: Path, *, keep: Iterable[int] = (), progress: bool = False
) -> tuple[TrainedReservoir, TrainedReservoir]:
    """Train a reservoir on one bit less, then one on all bits that starts from its readout (Jang, section 7.1).

    W_r is the same in both. The smaller reservoir has all columns of W_fb and B except the last. In the larger one,
    the last row of W_o, which belongs to the new bit, starts at 0. The larger one is `recipe.reservoir(seed)`, so that
    it differs from a reservoir trained from scratch only in its initial readout.

    Returns:
        The smaller and the larger trained reservoir.

    """
    if recipe.bits < 2:
        raise ValueError(f"Training on one bit less needs two bits or more, but bits is {recipe.bits}.")
    cell, fewer = recipe.reservoir(seed), recipe.bits - 1
    smaller, file = replace(recipe, bits=fewer), folder / "before.safetensors"
    before = train_reservoir(smaller, seed, file, cell=_first_channels(cell, fewer), progress=progress)
    with torch.no_grad():
        cell.get_parameter("readout")[:fewer] = before.cell.get_parameter("readout")
    file = folder / "transferred.safetensors"
    return before, train_reservoir(recipe, seed, file, cell=cell, keep=keep, progress=progress)


def _first_channels(cell: EchoState, bits: int) -> EchoState:
    """Return a copy of a reservoir with only its first `bits` inputs and outputs, and a readout of zeros."""
    W = dict(cell.named_parameters())
    return EchoState.from_weights(
        W["recurrent"],
        W["drive"][:, :bits],
        feedback=W["feedback"][:, :bits],
        bias=W["bias"],
        leak=cell.leak,
        nonlinearity=cell.phi,
        form=cell.form,
    )


def _read(cell: EchoState, file: Path, about: dict[str, str]) -> TrainedReservoir:
    if read_safetensors_header(file)["__metadata__"] != about:
        raise ValueError(
            f"{file} holds a reservoir trained with other settings, another seed or other snapshots; remove the "
            f"file to train again."
        )
    try:
        stored = load_file(file)
        cell.load_state_dict({name.removeprefix("cell."): value for name, value in stored.items() if "cell." in name})
        kept = {int(name.removeprefix("snapshot.")): value for name, value in stored.items() if "snapshot." in name}
        return TrainedReservoir(
            cell, stored["steps"], stored["errors"], dict(sorted(kept.items())), float(stored["seconds"])
        )
    except (SafetensorError, LookupError, RuntimeError, ValueError) as error:
        raise ValueError(f"{file} is damaged ({error}); remove the file to train again.") from error


def corners(bits: int) -> Float[Tensor, "corners bits"]:
    """Return all patterns of signs.

    >>> corners(2).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    return torch.tensor(list(product((-1.0, 1.0), repeat=bits)))


@dataclass(frozen=True)
class Memories:
    """State of a reservoir after each corner was written into it and a time without input."""

    states: Float[Tensor, "corners hidden"]
    outputs: Float[Tensor, "corners bits"]
    held: Bool[Tensor, " corners"]
    """Whether all signs are still right at the end."""

    @property
    def error(self) -> float:
        """Mean |z - corner| over the corners that are held."""
        if not self.held.any():
            return float("nan")
        return (self.outputs - corners(self.outputs.shape[1])).abs()[self.held].mean().item()


def writing_pulses(recipe: Recipe, steps: int = LEFT_ALONE) -> Float[Tensor, "time corners bits"]:
    """Return inputs that write every corner by pulses, one channel after the other, then are 0 for `steps` steps."""
    signs = corners(recipe.bits)
    pause = 2 * (recipe.apart or Recipe.apart)
    inputs = torch.zeros(recipe.bits * pause + steps, len(signs), recipe.bits)
    for bit in range(recipe.bits):
        inputs[bit * pause : bit * pause + recipe.width, :, bit] = signs[:, bit]
    return inputs


@torch.no_grad()
def measure_memories(cell: EchoState, recipe: Recipe, steps: int = LEFT_ALONE) -> Memories:
    """Write every corner into the reservoir by pulses, then run it without input for `steps` steps."""
    outputs, states = Reservoirs([cell]).run_outputs(writing_pulses(recipe, steps))
    last = outputs[-1, 0]
    return Memories(states[0], last, (last.sign() == corners(recipe.bits)).all(1))


@torch.no_grad()
def clamped_states(
    cell: EchoState, outputs: Float[Tensor, "starts bits"], steps: int = 100
) -> Float[Tensor, "starts hidden"]:
    """Return the states after `steps` steps with the feedback clamped to `outputs` and no input.

    This reaches states to which no input leads (Jang, section 6).
    """
    reservoir = Reservoirs([cell])
    x = reservoir.initial_state(len(outputs))
    for u in reservoir.driven(_silence(cell, steps, len(outputs))):
        x = reservoir.step(u, x, reservoir.rates(x), outputs.to(x).unsqueeze(0))
    return x[0]


@torch.no_grad()
def final_outputs(
    cell: EchoState, states: Float[Tensor, "starts hidden"], steps: int = LEFT_ALONE
) -> Float[Tensor, "starts bits"]:
    """Return the outputs of a reservoir after `steps` steps without input from these states."""
    outputs, _ = Reservoirs([cell]).run_outputs(_silence(cell, steps, len(states)), states.unsqueeze(0))
    return outputs[-1, 0]


def _silence(cell: EchoState, steps: int, batch: int) -> Tensor:
    return cell.recurrent.new_zeros(steps, batch, cell.drive.shape[1])


@torch.no_grad()
def score_reservoir(cell: EchoState, recipe: Recipe, batch: Batch) -> dict[str, Any]:
    """Return the outputs, sign accuracy and mean squared error of a reservoir with fixed weights."""
    outputs = Reservoirs([cell]).run_outputs(batch.inputs)[0][:, 0]
    task = recipe.task(len(batch.inputs))
    return {"outputs": outputs, "mse": task.loss(outputs, batch).item(), **task.scores(outputs, batch)}


def rounded_lists(values: Tensor, digits: int = 3) -> list[Any]:
    """Return the values as nested lists of rounded numbers, for JSON."""
    return [rounded_lists(value, digits) if value.dim() else round(value.item(), digits) for value in values]


def mean_and_deviation(values: Sequence[float], form: str = ".3g") -> str:
    """Return the mean and standard deviation over the networks as text, or the only value."""
    numbers = torch.tensor(values, dtype=torch.float64)
    if len(numbers) == 1:
        return f"{numbers.item():{form}}"
    return f"{numbers.mean().item():{form}} +- {numbers.std().item():{form}}"
