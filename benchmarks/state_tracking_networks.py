"""Networks for benchmarks/state_tracking.py: recipes, training of many networks at once, and measured accuracies.

    python benchmarks/state_tracking_networks.py --folder runs/tracking --device cuda

Networks of one recipe differ in their seed and in the length of the words in training. They are trained together, by
`torch.vmap` over their weights: Adam at 1e-2 with a cosine schedule, batches of 96 words for each, 3,000 steps, equal
letters unless the recipe has probabilities. For each network that learned its task, the accuracy at every length is
then measured on fresh words, and written with the weights.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import cos, pi
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn.functional import cross_entropy, one_hot

from mnemoscope.cells import Block, Cell, Elman, Model, Stack
from mnemoscope.cells.affine import DeltaProduct
from mnemoscope.cells.surroundings import Surroundings
from mnemoscope.tasks import WordProblem

BATCH, STEPS, RATE, SEGMENT, AT_ONCE = 96, 3000, 1e-2, 64, 512
"""Words in a batch, training steps, first learning rate, steps and words that are measured at once."""
LEARNED = 0.99
"""Accuracy at the length in training from which a network counts as trained."""


@dataclass(frozen=True)
class Recipe:
    """A task, a kind of network, and the networks to train."""

    name: str
    task: WordProblem
    kind: str = "cell"
    """"cell" is one recurrence with a linear readout; see `KINDS`."""
    factors: int = 1
    heads: int = 2
    lengths: tuple[int, ...] = (8, 16, 32, 64)
    seeds: int = 8
    """Number of networks for each length."""
    steps: int = STEPS

    @property
    def members(self) -> list[tuple[int, int]]:
        """Length and seed of each network."""
        return [(length, seed) for length in self.lengths for seed in range(self.seeds)]

    @property
    def stem(self) -> str:
        """Name of the recipe's files, without their ending."""
        return self.name.replace(",", "").replace(" ", "_")

    def build(self, seed: int) -> Model:
        """Return a network with initial weights."""
        torch.manual_seed(seed)
        return KINDS[self.kind](self)


def _recurrence(recipe: Recipe, inputs: int, gated: bool = True) -> DeltaProduct:
    return DeltaProduct(inputs, 4 * recipe.heads, recipe.heads, recipe.factors, gated=gated)


def _cell(recipe: Recipe) -> Model:
    return Model(_recurrence(recipe, recipe.task.input_size), recipe.task.output_size)


def _perceptron(recipe: Recipe) -> Model:
    """Return a cell that is read by a hidden layer of 32 units."""
    model = _cell(recipe)
    features, classes = model.cell.output_features, recipe.task.output_size
    model.readout = nn.Sequential(nn.Linear(features, 32), nn.GELU(), nn.Linear(32, classes))  # type: ignore
    return model


def _blocks(recipe: Recipe, depth: int, surroundings: Surroundings) -> Model:
    width = 4 * recipe.heads
    layers: list[Cell] = [
        Block(
            _recurrence(recipe, width, gated=False),
            width,
            surroundings,
            None if level else recipe.task.input_size,
            last=level == depth - 1,
        )
        for level in range(depth)
    ]
    return Model(Stack(layers), recipe.task.output_size)


PLAIN, PUBLISHED = Surroundings(norm="rms", gate="silu"), Surroundings(convolution=4, norm="rms", gate="silu")
KINDS: dict[str, Callable[[Recipe], Model]] = {
    "cell": _cell,
    "mlp readout": _perceptron,
    "norm": lambda recipe: _blocks(recipe, 1, PLAIN),
    "convolution": lambda recipe: _blocks(recipe, 1, PUBLISHED),
    "two layers": lambda recipe: _blocks(recipe, 2, PLAIN),
    "two layers, convolution": lambda recipe: _blocks(recipe, 2, PUBLISHED),
    "tanh": lambda recipe: Model(Elman(recipe.task.input_size, 32), recipe.task.output_size),
}
BASIC = (
    Recipe("Z2", WordProblem("Z2"), factors=1),
    Recipe("Z6", WordProblem("Z6"), factors=2, seeds=16),
    Recipe("S3", WordProblem("S3"), factors=2, seeds=16),
    Recipe("S3 by two", WordProblem("S3", "generators"), factors=1, seeds=12),
)
"""One recurrence with a linear readout."""
TWO = WordProblem("S3", "generators")
A5 = Recipe("A5 by two", WordProblem("A5", "generators"), factors=2, heads=4, lengths=(16, 24), seeds=4, steps=800)
"""Words of at least 12 letters reach all 60 elements."""
OTHERS = tuple(
    Recipe(name, task, kind, factors, heads, (16, 32), seeds, steps)
    for name, task, kind, factors, heads, seeds, steps in (
        ("S3 by two, norm", TWO, "norm", 1, 4, 8, 1500),
        ("S3 by two, convolution", TWO, "convolution", 1, 4, 8, 1500),
        ("S3 by two, two layers", TWO, "two layers", 1, 4, 8, 1500),
        ("S3 by two, two layers, convolution", TWO, "two layers, convolution", 1, 4, 8, 1500),
        ("S3 by two, unequal letters", replace(TWO, probabilities="0.3 0.7"), "cell", 1, 2, 8, 1500),
        ("S3, mlp readout", WordProblem("S3"), "mlp readout", 2, 2, 8, 1500),
        ("Z2, norm", WordProblem("Z2"), "norm", 1, 4, 8, 1500),
        ("Z2, convolution", WordProblem("Z2"), "convolution", 1, 4, 8, 1500),
        ("Z2, two layers", WordProblem("Z2"), "two layers", 1, 4, 8, 1500),
        ("Z2, mlp readout", WordProblem("Z2"), "mlp readout", 1, 2, 8, 1500),
        ("Z2, unequal letters", WordProblem("Z2", probabilities="0.8 0.2"), "cell", 1, 2, 8, 1500),
        ("Z2, tanh", WordProblem("Z2"), "tanh", 1, 2, 4, 1500),
        ("S3 by two, tanh", TWO, "tanh", 1, 2, 4, 3000),
    )
)
"""Other letters, surroundings and readouts, and tanh networks."""
BEYOND = (A5, *OTHERS)
"""Recipes beyond the basic ones."""
RECIPES = {recipe.name: recipe for recipe in (*BASIC, *BEYOND)}


# --- words ------------------------------------------------------------------------------------------------------------


def draw_words(task: WordProblem, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return letters by number (..., length) and the products of the words up to each of them."""
    group, device = task.build_group(), generator.device
    table = torch.tensor(group.table, device=device)
    chances = torch.tensor(task.letter_probabilities(), dtype=torch.float32, device=device)
    drawn = torch.rand(shape, generator=generator, device=device)
    words = torch.searchsorted(chances.cumsum(0)[:-1], drawn, right=True)
    products = torch.tensor(group.letters, device=device)[words]
    span = 1
    while span < shape[-1]:  # doubles the number of letters in each product
        products = torch.cat([products[..., :span], table[products[..., span:], products[..., :-span]]], -1)
        span *= 2
    return words, products


def encode(task: WordProblem, words: Tensor, start: bool) -> Tensor:
    """Return one-hot inputs (networks, time, batch, letters + 1) of words (networks, batch, length)."""
    if start:
        words = torch.cat([words.new_full((*words.shape[:-1], 1), task.input_size - 1), words], -1)
    return one_hot(words.transpose(-1, -2), task.input_size).to(torch.float32)


# --- many networks at once --------------------------------------------------------------------------------------------


class Ensemble:
    """Networks of one recipe with stacked weights."""

    def __init__(self, recipe: Recipe, device: str, members: list[tuple[int, int]] | None = None) -> None:
        self.recipe, self.device = recipe, device
        self.members = recipe.members if members is None else members
        networks = [recipe.build(1000 * length + seed) for length, seed in self.members]
        weights, _ = stack_module_state(networks)
        self.weights = {name: weight.detach().to(device).requires_grad_() for name, weight in weights.items()}
        self.frame = networks[0].to(device)

    def run(self, xs: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """Return the logits of all networks (networks, time, batch, classes), and their last states."""
        if states is None:
            return vmap(self._one, randomness="error")(self.weights, xs)
        return vmap(self._one)(self.weights, xs, states)

    def _one(self, weights: dict[str, Tensor], xs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        return functional_call(_Whole(self.frame), {f"model.{name}": w for name, w in weights.items()}, (xs, state))


class _Whole(nn.Module):
    """A model without the checks of `scan`, which would take the loop inside a transform of torch.func."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, xs: Tensor, state: Any) -> tuple[Tensor, Any]:
        cell = self.model.cell
        state = cell.initial_state(xs.shape[1]) if state is None else state
        for layer in cell.layers if isinstance(cell, Stack) else (cell,):
            xs, after = _run_layer(layer, xs, state[0] if isinstance(cell, Stack) else state)
            state = (*state[1:], after) if isinstance(cell, Stack) else after
        return self.model.readout(xs), state


def _run_layer(layer: Any, xs: Tensor, state: Any) -> tuple[Tensor, Any]:
    if not isinstance(layer, Elman) and xs.device.type != "cpu":  # on a CPU the loop is faster for short words
        return layer.fast_path(xs, state, None).run()
    outputs = []
    for x in xs:
        output, state = layer.step(x, state)
        outputs.append(output)
    return torch.stack(outputs), state


def train(recipe: Recipe, device: str, seconds: float, log: Callable[[str], None]) -> Ensemble | None:
    """Return trained networks, or None if there was not enough time."""
    ensemble = Ensemble(recipe, device)
    generator = torch.Generator(device).manual_seed(7)
    lengths = torch.tensor([length for length, _ in ensemble.members], device=device)
    longest = max(recipe.lengths)
    counts = torch.arange(1, longest + 1, device=device) <= lengths.unsqueeze(1)
    counts = counts / lengths.unsqueeze(1) / BATCH  # each network's loss is a mean over its letters
    optimiser = torch.optim.Adam(ensemble.weights.values(), RATE)
    began = time.monotonic()
    for step in range(recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = RATE * 0.5 * (1 + cos(pi * step / recipe.steps))
        words, products = draw_words(recipe.task, (len(lengths), BATCH, longest), generator)
        logits, _ = ensemble.run(encode(recipe.task, words, start=True))
        targets = products.transpose(1, 2)
        losses = cross_entropy(logits[:, 1:].flatten(0, 2), targets.flatten(), reduction="none").view_as(targets)
        optimiser.zero_grad()
        (losses.sum(-1) * counts).sum().backward()
        optimiser.step()
        if step % 500 == 0:
            passed = time.monotonic() - began
            log(f"{recipe.name}: step {step}, {passed:.0f} s, mean loss {losses.detach().mean():.3f}")
            if step and passed * recipe.steps / step > seconds:
                log(f"{recipe.name}: given up, it would take {passed * recipe.steps / step:.0f} s")
                return None
    return ensemble


@torch.no_grad()
def measure(ensemble: Ensemble, length: int, words: int, seed: int = 11) -> Tensor:
    """Return the share of right products after each letter (networks, length), on fresh words."""
    task, networks = ensemble.recipe.task, len(ensemble.members)
    generator = torch.Generator(ensemble.device).manual_seed(seed)
    right = torch.zeros(networks, length, device=ensemble.device)
    for _ in range(words // AT_ONCE):
        drawn, products = draw_words(task, (1, AT_ONCE, length), generator)
        _, states = ensemble.run(encode(task, drawn[..., :0], start=True).expand(networks, -1, -1, -1))
        for first in range(0, length, SEGMENT):
            piece = slice(first, first + SEGMENT)
            xs = encode(task, drawn[..., piece], start=False).expand(networks, -1, -1, -1)
            logits, states = ensemble.run(xs, states)
            right[:, piece] += (logits.argmax(-1) == products[..., piece].transpose(1, 2)).sum(-1)
    return right / words


# --- files ------------------------------------------------------------------------------------------------------------


def keep(ensemble: Ensemble, folder: Path, length: int, words: int) -> int:
    """Write weights and measured accuracies of the networks that learned their task; return their number."""
    at_length = measure(ensemble, max(ensemble.recipe.lengths), min(words, 2048))
    accuracies = [float(row[:size].mean()) for row, (size, _) in zip(at_length, ensemble.members, strict=True)]
    learned = [index for index, accuracy in enumerate(accuracies) if accuracy >= LEARNED]
    name = ensemble.recipe.stem
    (folder / f"{name}.learned.json").write_text(
        json.dumps([[*member, round(a, 4)] for member, a in zip(ensemble.members, accuracies, strict=True)])
    )
    if learned:
        chosen = torch.tensor(learned, device=ensemble.device)
        ensemble.weights = {key: weight.detach()[chosen] for key, weight in ensemble.weights.items()}
        ensemble.members = [ensemble.members[index] for index in learned]
        curves = measure(ensemble, length, words)
        tensors = {**ensemble.weights, "members": torch.tensor(ensemble.members), "measured": curves}
        save_file({key: t.cpu().contiguous() for key, t in tensors.items()}, folder / f"{name}.safetensors")
    return len(learned)


def load(recipe: Recipe, folder: Path) -> Iterator[tuple[tuple[int, int], Model, Tensor]]:
    """Return length and seed, network and measured accuracies of each trained network, in float64."""
    tensors = load_file(folder / f"{recipe.stem}.safetensors")
    members, measured = tensors.pop("members"), tensors.pop("measured")
    for index, (length, seed) in enumerate(members.tolist()):
        model = recipe.build(0)
        model.load_state_dict({name: weight[index] for name, weight in tensors.items()})
        yield (length, seed), model.double().eval(), measured[index].double()


def main() -> None:
    """Train, measure and write the chosen recipes, as long as there is time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs") / "tracking")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=list(RECIPES), metavar="RECIPE")
    parser.add_argument("--seeds", type=int, help="networks for each length; by default those of the recipe")
    parser.add_argument("--lengths", type=int, nargs="*", help="lengths in training; by default those of the recipe")
    parser.add_argument("--steps", type=int, help="training steps; by default those of the recipe")
    parser.add_argument("--length", type=int, default=1024, help="letters of the words that measure accuracy")
    parser.add_argument("--words", type=int, default=8192, help="number of these words")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin and go on with a recipe only if time is left")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    end = time.monotonic() + given.seconds
    for name in given.only:
        left = end - time.monotonic()
        chosen = {key: getattr(given, key) for key in ("seeds", "lengths", "steps")}
        recipe = replace(RECIPES[name], **{key: value for key, value in chosen.items() if value is not None})
        ensemble = train(recipe, given.device, left, lambda line: print(line, flush=True)) if left > 0 else None
        if ensemble is not None:
            number = keep(ensemble, given.folder, given.length, given.words)
            print(f"{name}: {number} networks learned, {end - time.monotonic():.0f} s left", flush=True)


if __name__ == "__main__":
    main()
