"""The state-tracking lens: the operators that a network has learned for the letters of a group, and when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, isclose, nan
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from mnemoscope.base.array_types import Complex, Float
from mnemoscope.base.groups import Group
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import Model
from mnemoscope.lenses.tracking.accuracy import sampled_accuracy
from mnemoscope.lenses.tracking.characters import CharacterTable, character_table
from mnemoscope.lenses.tracking.mixtures import (
    Mixtures,
    Predecessors,
    advance,
    separation_and_spread,
    start_mixtures,
)
from mnemoscope.lenses.tracking.recovery import displacement_left
from mnemoscope.lenses.tracking.representation import Representation, represent
from mnemoscope.lenses.tracking.result import StateTracking
from mnemoscope.lenses.tracking.simulation import advance_by_samples, balanced_noise, drawn_accuracy
from mnemoscope.lenses.tracking.words import MOST_WINDOWS, AffineMaps, WordReader

Method = Literal["auto", "moments", "closure", "words"]
FLAT = 0.98
"""Accuracy above which the curve is computed at fewer lengths."""
MOST_NUMBERS = 600_000
"""Numbers in the covariances of all components before a merger, which limit the default number of components."""
LARGEST = 20_000_000
"""The same with one component, above which moments are not computed: 160 MB."""
ROUNDING = 1e-9
"""Closure, relative to the least separation, below which class means are mapped onto each other."""


@show_slow("state tracking")
def state_tracking(
    model: Model,
    group: Group,
    *,
    probabilities: Sequence[float] | None = None,
    tokens: Float[Tensor, "tokens features"] | None = None,
    length: int = 1000,
    method: Method = "auto",
    components: int | None = None,
    samples: int = 20_000,
    words: int = 0,
    seed: int = 0,
) -> StateTracking:
    """Predict the accuracy of a network on words of every length, and read the representation that it has learned.

    The network reads the start of a word and then its letters, and classifies the product of all letters, each new one
    on the left. If its step is affine in the state, given the letter, mean and covariance of the state of each element
    follow from those one letter earlier, so they are exact at every length, without drawing a word. The step
    from the two moments to the accuracy is approximate: the states of an element are taken for a mixture of
    `components` Gaussians, and `samples` of them pass through the network's readout.

    Args:
        model: a network with a readout to the elements of the group, one class for each. Its inputs are one-hot, or
            numbers for an embedding: the letters in the order of `group.letters`, and the start of a word.
        group: the group and its letters.
        probabilities: probability of each letter; equal by default. Letters of a word are independent.
        tokens: the inputs of the letters, and of the start in the last row, if they are not one-hot.
        length: the longest words to consider; it stops earlier once the accuracy is near chance.
        method: "moments" as above. "closure" for a step that is not affine: moments from samples, as if the states of
            each element were Gaussian after every letter, an assumption whose error is not known. "words" draws random
            words instead. "auto" takes "moments" if the step is affine, the state small and a convolution sees few
            letters, else "words".
        components: Gaussians for each element. With 1, the tails are Gaussian. By default 16, or fewer, down to 2, if
            the covariances of all classes and letters would have more than 600,000 numbers.
        samples: number of states that are drawn at each length.
        words: number of random words to draw, to compare the prediction with the measured accuracy.
        seed: seed of these words.

    """
    _check_kinds(model, group, method)
    check_whole(1, length=length, samples=samples)
    if components is not None:
        check_whole(1, components=components)
    check_whole(0, words=words)
    reader = WordReader(model, group, tokens)
    chances = _probabilities(probabilities, reader.letters)
    if method == "auto" and (reader.windows > MOST_WINDOWS or _numbers(reader) > LARGEST):
        method = "words"
    if method != "words":
        _check_size(reader)
    maps = reader.affine_maps() if method in ("auto", "moments") else None
    if method == "moments" and maps is None:
        raise ValueError(
            f"The step of {type(reader.cell).__name__} is not affine in the state, so its moments have no closed form: "
            f"pass method='words' or method='closure'."
        )
    chosen = method if method != "auto" else "words" if maps is None else "moments"
    if chosen == "words":
        return _by_words(reader, chances, length, words or 4000, seed)
    if components is None:
        components = max(2, min(16, MOST_NUMBERS // _numbers(reader)))
    return _by_moments(reader, maps, chances, length, components if maps is not None else 1, samples, words, seed)


def _check_kinds(model: Any, group: Any, method: str) -> None:
    """Raise if the model has no readout, the group is only a name, or the method is not known."""
    if not isinstance(model, Model):
        raise TypeError(
            f"Elements are read from the classes of a Model, which has a readout, but a {type(model).__name__} was "
            f"given: pass Model(cell, output_size) with the trained readout."
        )
    if not isinstance(group, Group):
        raise TypeError(f"group must be a Group, as of named_group('S3'), but is {group!r}.")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {', '.join(get_args(Method))}, but is {method!r}.")


def _numbers(reader: WordReader) -> int:
    """Return how many numbers the covariances of one component of all classes and letters have."""
    return reader.classes * reader.letters * reader.size**2


def _check_size(reader: WordReader) -> None:
    """Raise if moments would take too much memory."""
    reader.check_windows()
    if _numbers(reader) > LARGEST:
        raise ValueError(
            f"Moments of a state of {reader.size} numbers, for {reader.classes} classes and {reader.letters} letters, "
            f"have {_numbers(reader):,} numbers, and {LARGEST:,} are the most: pass method='words'."
        )


def _by_words(reader: WordReader, chances: Tensor, length: int, words: int, seed: int) -> StateTracking:
    accuracy = drawn_accuracy(reader, chances, length, words, seed)
    lengths = torch.arange(1, length + 1)
    error = (accuracy * (1 - accuracy) / words).sqrt()
    unknown = torch.full_like(accuracy, nan)
    operators = _operators(reader, None, None)
    return StateTracking(
        "words", 1, reader.group.order, _names(reader), _period(reader.group), lengths, accuracy, error, unknown,
        unknown, False, nan, *operators, *displacement_left(reader, chances, seed), accuracy, words,
    )  # fmt: skip


def _by_moments(
    reader: WordReader,
    maps: AffineMaps | None,
    chances: Tensor,
    length: int,
    components: int,
    samples: int,
    words: int,
    seed: int,
) -> StateTracking:
    before, mixtures = Predecessors.of(reader), start_mixtures(reader, chances, components)
    means = _ClassMeans(reader)
    rows = [(number + 1, value, 0.0, nan, nan) for number, value in enumerate(_first_accuracies(reader, chances))]
    period = _period(reader.group)
    due, low = 1, 0
    for after in range(reader.window, length):
        if after + 1 >= due:  # then at `period` lengths in turn
            accuracy, error = sampled_accuracy(reader, mixtures, chances, samples)
            rows.append((after + 1, accuracy, error, *separation_and_spread(mixtures, reader.windows)))
            if after + 1 >= due + period - 1:
                due = max(after + 2, round((1.1 if accuracy > FLAT else 1.04) * (after + 1)))
            low = low + 1 if accuracy < _near_chance(reader) else 0
        if low >= 3 * period and means.complete(after):
            break
        if maps is not None:
            mixtures = advance(mixtures, maps, before, chances)
        else:
            noise = balanced_noise(reader.size, seed=after)
            mixtures = advance_by_samples(reader, mixtures, before, chances, noise)
        means.add(mixtures, after + 1)
    lengths, accuracy, error, separation, spread = torch.tensor(rows, dtype=torch.float64).unbind(1)
    representation = means.represent(maps)
    operators = _operators(reader, *representation)
    found = representation[0]
    exact = found is not None and bool(found.closure.max() < ROUNDING) and bool((accuracy > 1 - ROUNDING).all())
    last = int(lengths[-1])
    measured = drawn_accuracy(reader, chances, last, words, seed) if words else accuracy.new_empty(0)
    return StateTracking(
        "closure" if maps is None else "moments", components, reader.group.order, _names(reader), period,
        lengths.long(), accuracy, error, separation, spread, exact, _decay(reader, maps, before, chances), *operators,
        *displacement_left(reader, chances, seed), measured, words,
    )  # fmt: skip


def _first_accuracies(reader: WordReader, chances: Tensor) -> list[float]:
    """Return the accuracies while the words are no longer than the window, from all these words."""
    group, words = reader.group, reader.first_words()
    weights = chances[words].prod(0)
    products, found = torch.zeros(reader.windows, dtype=torch.long), []
    for letters, logits in reader.follow(words):
        products = torch.tensor(group.table)[torch.tensor(group.letters)[letters], products]
        found.append(float(weights @ (logits.argmax(-1) == products).to(weights)))
    return found


class _ClassMeans:
    """Mean state of each element, over words of some lengths at which every element occurs."""

    def __init__(self, reader: WordReader) -> None:
        self.reader = reader
        self.first = max(4, _diameter(reader.group))
        self.weights = torch.zeros(reader.classes, dtype=torch.float64)
        self.sums = torch.zeros(reader.classes, reader.size, dtype=torch.float64)

    def complete(self, length: int) -> bool:
        return length >= 2 * self.first

    def add(self, mixtures: Mixtures, length: int) -> None:
        if self.first <= length <= 2 * self.first:
            self.weights += mixtures.probabilities
            self.sums += (mixtures.weights.unsqueeze(-1) * mixtures.means).sum(1)

    def represent(self, maps: AffineMaps | None) -> tuple[Representation | None, CharacterTable | None]:
        """Return the representation on the means of the elements; with a convolution, maps are means over windows."""
        reader = self.reader
        shape = (reader.group.order, reader.windows)
        weights, sums = self.weights.view(shape).sum(1), self.sums.view(*shape, -1).sum(1)
        if maps is None or not bool((weights > 0).all()):
            return None, None
        table = character_table(reader.group)
        means = sums / weights.unsqueeze(1)
        return represent(reader.group, table, means, maps.matrices.mean(0), maps.offsets.mean(0)), table


class _Operators(NamedTuple):
    """The fields of `StateTracking` about operators, in their order."""

    eigenvalues: Complex[Tensor, "letters rank"]
    relations: Float[Tensor, "letters elements"]
    closure: Float[Tensor, "letters elements"]
    dimensions: tuple[int, ...]
    kernels: tuple[int, ...]
    multiplicities: Float[Tensor, " irreps"]


def _operators(reader: WordReader, found: Representation | None, table: CharacterTable | None) -> _Operators:
    letters, order = reader.letters, reader.group.order
    if found is None or table is None:
        none = torch.zeros(letters, 0, dtype=torch.float64)
        return _Operators(none.to(torch.complex128), none, none, (), (), none[0])
    kernels = tuple(table.kernel(row) for row in range(len(table.dimensions)))
    assert found.relations.shape == (letters, order)
    return _Operators(
        found.eigenvalues, found.relations, found.closure, tuple(table.dimensions.tolist()), kernels,
        found.multiplicities,
    )  # fmt: skip


def _decay(reader: WordReader, maps: AffineMaps | None, before: Predecessors, chances: Tensor) -> float:
    """Return the largest modulus of the mean operator on differences between elements, by power iteration."""
    if maps is None:
        return nan
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(reader.group.order, reader.windows, reader.size, generator=generator, dtype=torch.float64)
    values = (values - values.mean(0)).flatten(0, 1)  # the sum over elements stays 0
    A = maps.matrices[before.classes % reader.windows, before.letters]
    shares, logs = chances[before.letters], []
    for _ in range(400):
        values = torch.einsum("cl,cld->cd", shares, (A @ values[before.classes].unsqueeze(-1)).squeeze(-1))
        size = values.norm()
        if size == 0:
            return 0.0
        logs.append(size.log())
        values = values / size
    return float(torch.stack(logs[200:]).mean().exp())


def _near_chance(reader: WordReader) -> float:
    chance = 1 / reader.group.order
    return chance + 0.2 * (1 - chance)


def _diameter(group: Group) -> int:
    """Return the length of the longest of the shortest words for each element."""
    reached, new, steps = {0}, {0}, 0
    while len(reached) < group.order:
        new = {group.table[letter][element] for letter in group.letters for element in new}
        reached |= new
        steps += 1
    return steps


def _period(group: Group) -> int:
    """Return the greatest common divisor of the lengths of all words whose product is the identity."""
    distances, new = {0: 0}, [0]
    while new:
        pairs = [(element, group.table[letter][element]) for letter in group.letters for element in new]
        new = []
        for element, target in pairs:
            if target not in distances:
                distances[target] = distances[element] + 1
                new.append(target)
    steps = ((distances[g], distances[group.table[letter][g]]) for letter in group.letters for g in distances)
    return gcd(*(before + 1 - after for before, after in steps))


def _names(reader: WordReader) -> tuple[str, ...]:
    return tuple(reader.group.names[letter] for letter in reader.group.letters)


def _probabilities(given: Sequence[float] | None, letters: int) -> Float[Tensor, " letters"]:
    if given is None:
        return torch.full((letters,), 1 / letters, dtype=torch.float64)
    chances = torch.as_tensor(given, dtype=torch.float64)
    if chances.shape != (letters,) or bool((chances < 0).any()) or not isclose(float(chances.sum()), 1, abs_tol=1e-6):
        raise ValueError(f"{letters} letters need as many probabilities that sum to 1, but they are {list(given)}.")
    return chances / chances.sum()
