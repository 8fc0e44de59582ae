"""A network that reads words: one letter at a time, from states that belong to the last few letters."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.groups import Group
from mnemoscope.cells import Block, Cell, Model, Stack
from mnemoscope.cells.state import Layout, leaves

MOST_WINDOWS = 600
"""Largest number of windows of letters."""


@dataclass(frozen=True)
class AffineMaps:
    """`s' = A s + b`, one map for each window and letter."""

    matrices: Float[Tensor, "windows letters size size"]
    offsets: Float[Tensor, "windows letters size"]


class WordReader:
    """A model with one input for each letter, and one for the start of a word.

    The short convolution of a first layer holds the last letters. They form the window, which is known and not a part
    of the state here: a state is the vector of all other numbers. Windows are numbered in base `letters`, the last
    letter has the lowest digit.
    """

    def __init__(self, model: Model, group: Group, tokens: Float[Tensor, "tokens features"] | None = None) -> None:
        self.group, self.letters = group, len(group.letters)
        self.model = model.time_first()
        self.cell: Cell = self.model.cell.frozen(torch.float64, torch.device("cpu"))
        self.readout = _frozen(self.model.readout)
        encode = _frozen(self.model.encode)
        if tokens is None:
            tokens = _inputs_of(encode, self.letters + 1)
        tokens = torch.as_tensor(tokens).detach()
        if len(tokens) != self.letters + 1:
            raise ValueError(
                f"tokens has a row for each of the {self.letters} letters of the group, and a last one for the start "
                f"of a word, so {self.letters + 1}, but has {len(tokens)}."
            )
        with torch.no_grad():
            self.tokens = encode(tokens.double() if tokens.is_floating_point() else tokens)  # (letters + 1, features)
        if self.cell.input_size not in (None, self.tokens.shape[1]):
            raise ValueError(
                f"The network takes {self.cell.input_size} inputs, but a word problem with {self.letters} letters has "
                f"{self.tokens.shape[1]}: one for each letter, and the last for the start. Pass the group of the task, "
                f"or `tokens`, the inputs that stand for the letters."
            )
        self.layout = Layout(self.cell.initial_state(1))
        width = _convolution(self.cell)
        self.window = max(width - 1, 0)
        self.windows = self.letters**self.window
        # the register of a convolution is the first tensor of a state
        self.register_size = leaves(self.layout.example)[0].numel() if width else 0
        self.size = self.layout.size - self.register_size
        self._check_classes()

    def _check_classes(self) -> None:
        """Raise unless the network has one class for each element."""
        with torch.no_grad():
            classes = self._logits(self.tokens[-1:], self.start(1)).shape[-1]
        if classes != self.group.order:
            raise ValueError(
                f"The network has {classes} classes, but the group has {self.group.order} elements, and each is one "
                f"class: pass the group that the network was trained on, or a Model whose readout has a class for "
                f"each element, in the order of the group's table."
            )

    def check_windows(self) -> None:
        """Raise if there are too many windows to distinguish."""
        if self.windows > MOST_WINDOWS:
            raise ValueError(
                f"A convolution of width {self.window + 1} sees {self.window} letters before the present one: with "
                f"{self.letters} letters, {self.windows} windows must be distinguished, and {MOST_WINDOWS} are the "
                f"most. Pass a group with fewer letters, or method='words'."
            )

    @property
    def classes(self) -> int:
        """Number of pairs of an element and a window."""
        return self.group.order * self.windows

    @cached_property
    def registers(self) -> Float[Tensor, "windows numbers"]:
        """Register of the convolution after the letters of each window."""
        full = self.start(self.windows)
        for letters in self.first_words():
            full = self._advance(self.tokens[letters], full)
        return full[:, : self.register_size]

    def first_words(self) -> Int[Tensor, "length windows"]:
        """Return the word of each window, letter by letter."""
        words = list(product(range(self.letters), repeat=self.window))
        return torch.tensor(words, dtype=torch.long).view(self.windows, self.window).T

    def start(self, batch: int) -> Float[Tensor, "batch full"]:
        """Return flat states after the start of a word, with the register of a convolution."""
        return self._advance(self.tokens[-1:].expand(batch, -1), self.layout.flatten(self.cell.initial_state(batch)))

    def step(
        self,
        windows: Int[Tensor, " batch"],
        letters: Int[Tensor, " batch"],
        states: Float[Tensor, "batch size"],
        logits: bool = True,
    ) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch classes"] | None]:
        """Return the states after one more letter, and the logits there."""
        x, full = self.tokens[letters], torch.cat([self.registers[windows], states], 1)
        with torch.no_grad():
            new = self.cell(x, self.layout.unflatten(full))
            outputs = self.readout(self.cell.output_at(x, new)) if logits else None
        return self.layout.flatten(new)[:, self.register_size :], outputs

    def run(self, words: Int[Tensor, "length batch"]) -> Float[Tensor, "batch size"]:
        """Return the states after whole words."""
        full = self.start(words.shape[1])
        for letters in words:
            full = self._advance(self.tokens[letters], full)
        return full[:, self.register_size :]

    def states_after(
        self, letters: Int[Tensor, " batch"], full: Float[Tensor, "batch full"]
    ) -> Float[Tensor, "batch full"]:
        """Return flat states with their registers after one more letter."""
        return self._advance(self.tokens[letters], full)

    def follow(self, words: Int[Tensor, "length batch"]) -> Iterator[tuple[Int[Tensor, " batch"], Tensor]]:
        """Yield the letters of each step, and the logits (batch, classes) after it."""
        full = self.start(words.shape[1])
        for letters in words:
            x = self.tokens[letters]
            full = self._advance(x, full)
            with torch.no_grad():
                yield letters, self._logits(x, full)

    def affine_maps(self, tolerance: float = 1e-9) -> AffineMaps | None:
        """Return the maps of all windows and letters, or None if a step is not affine in the state.

        The step is applied to zero and to the unit vectors. Three random states test whether it is affine.
        """
        size, pairs = self.size, self.windows * self.letters
        generator = torch.Generator().manual_seed(0)
        tests = torch.randn(3, size, generator=generator, dtype=torch.float64)
        probes = torch.cat([torch.zeros(1, size, dtype=torch.float64), torch.eye(size, dtype=torch.float64), tests])
        found = []
        for pair in range(pairs):
            window, letter = (torch.full((len(probes),), index) for index in divmod(pair, self.letters))
            found.append(self.step(window, letter, probes, logits=False)[0])
        images = torch.stack(found)  # (pairs, probes, size)
        offsets, matrices = images[:, 0], (images[:, 1:-3] - images[:, :1]).mT
        expected = tests @ matrices.mT + offsets.unsqueeze(1)
        if (images[:, -3:] - expected).abs().max() > tolerance * images.abs().max():
            return None
        shape = (self.windows, self.letters)
        return AffineMaps(matrices.unflatten(0, shape), offsets.unflatten(0, shape))

    def _logits(self, x: Tensor, full: Tensor) -> Tensor:
        """Return the logits (batch, classes) of flat states that have just read the inputs x."""
        return self.readout(self.cell.output_at(x, self.layout.unflatten(full)))

    def _advance(self, x: Tensor, full: Tensor) -> Tensor:
        with torch.no_grad():
            return self.layout.flatten(self.cell(x, self.layout.unflatten(full)))


def _convolution(cell: Cell) -> int:
    """Return the width of the short convolution of a first layer; 0 if it has none."""
    first = cell.layers[0] if isinstance(cell, Stack) else cell
    return first.convolution.weight.shape[1] if isinstance(first, Block) and first.convolution is not None else 0


def _inputs_of(encode: torch.nn.Module, number: int) -> Tensor:
    """Return the inputs of the letters and of the start: their numbers for an embedding, and one-hot otherwise."""
    if not isinstance(encode, torch.nn.Embedding):
        return torch.eye(number)
    if encode.num_embeddings != number:
        raise ValueError(
            f"The network embeds {encode.num_embeddings} tokens, but a word problem with {number - 1} letters has "
            f"{number}: one for each letter, and the last for the start. Pass the group of the task."
        )
    return torch.arange(number)


def _frozen(module: torch.nn.Module) -> torch.nn.Module:
    return deepcopy(module).eval().requires_grad_(False).to(device="cpu", dtype=torch.float64)
