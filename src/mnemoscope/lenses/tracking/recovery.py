"""Whether a network corrects errors: how much of a displacement towards another element is left after more letters."""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.lenses.bootstrap import bootstrap_interval
from mnemoscope.lenses.tracking.words import WordReader

FIRST, LETTERS, FRACTION, WORDS_PER_ELEMENT = 8, 24, 0.25, 40
"""Letters before the displacement and after it, its size in distances between class means, and the number of words."""


def displacement_left(
    reader: WordReader, probabilities: Float[Tensor, " letters"], seed: int = 0
) -> tuple[Float[Tensor, " letters_after"], Float[Tensor, "2 letters_after"]]:
    """Return the share of a displacement that is left after 0, 1, 2, ... letters, and its 95% interval over words.

    The state of a word is moved a quarter of the way from the mean of its element to that of another, and both states
    read the same letters. Their distance is divided by that between the means of the two elements. Affine maps treat
    all differences alike, so the share stays near 1 or grows; a network with an attractor for each element returns to
    it. The share falls as well if the network forgets the word; its accuracy shows which of the two it is.
    """
    group, table = reader.group, torch.tensor(reader.group.table)
    elements = torch.tensor(group.letters)
    number = max(WORDS_PER_ELEMENT * group.order, 400)
    generator = seeded_generator(seed)
    words = torch.multinomial(probabilities, number * (FIRST + LETTERS), True, generator=generator)
    words = words.view(FIRST + LETTERS, number)
    states, product = reader.start(number), torch.zeros(number, dtype=torch.long)
    for letters in words[:FIRST]:
        states, product = reader.states_after(letters, states), table[elements[letters], product]
    registers = reader.register_size
    other = product[torch.randperm(number, generator=generator)]  # elements that occur at this length
    kept = other != product
    apart = _between(states, product, other, group.order)
    apart[:, :registers] = 0
    moved = states + FRACTION * apart
    above, below = [], []
    for letters in words[FIRST:]:
        above.append(_squares((moved - states)[kept, registers:]))
        below.append(_squares(apart[kept, registers:]))
        states, moved = reader.states_after(letters, states), reader.states_after(letters, moved)
        product, other = table[elements[letters], product], table[elements[letters], other]
        apart = _between(states, product, other, group.order)
    above.append(_squares((moved - states)[kept, registers:]))
    below.append(_squares(apart[kept, registers:]))
    squares = torch.stack(above, 1), torch.stack(below, 1)  # each (words, letters after)
    return _share(*squares), torch.stack(bootstrap_interval(squares, _share))


def _between(states: Tensor, product: Int[Tensor, " batch"], other: Int[Tensor, " batch"], order: int) -> Tensor:
    """Return the difference between the means of the other element and of the element of each state."""
    sums = torch.zeros(order, states.shape[1], dtype=states.dtype).index_add_(0, product, states)
    means = sums / torch.bincount(product, minlength=order).clamp_min(1).unsqueeze(1)
    return means[other] - means[product]


def _squares(differences: Float[Tensor, "words size"]) -> Float[Tensor, " words"]:
    return differences.square().sum(1)


def _share(
    above: Float[Tensor, "words letters_after"], below: Float[Tensor, "words letters_after"]
) -> Float[Tensor, " letters_after"]:
    """Return the ratio of two root mean squares over words, relative to the first."""
    ratio = (above.sum(0) / below.sum(0).clamp_min(torch.finfo(torch.float64).tiny)).sqrt()
    return ratio / ratio[0]
