"""The closed-loop lens: let a network read its own outputs, and find the repetitions in which it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole, is_whole
from mnemoscope.cells import Lengths, Model, Network, as_cell, read_inputs
from mnemoscope.lenses.closed_loop.feedback import Readout, close_loop, loop_cell, read_prompts
from mnemoscope.lenses.closed_loop.floquet import COUNT, NEAR, confirm_loop
from mnemoscope.lenses.closed_loop.generation import Generation, distances_to, first_tokens, generate, orbit_of
from mnemoscope.lenses.closed_loop.result import Loops
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.whole_network import in_evaluation_mode

TRACED = 6
"""Prompts of each loop whose distance from it is kept over time."""
DRAWN = 6
"""Number of loops, those with most prompts, for which such distances are kept."""

UNKNOWN = torch.full((COUNT,), complex("nan"), dtype=torch.complex128)
"""Multipliers of a loop that was not analysed."""

Vocabulary = Sequence[str] | Callable[[list[int]], str]
"""Names of the tokens, or a function from token numbers to a text, such as `tokenizer.decode`."""


@show_slow("loops")
@in_evaluation_mode
def find_loops(
    network: Network,
    prompts: Tensor,
    readout: Readout | None = None,
    *,
    temperature: float = 0.0,
    embed: nn.Module | Float[Tensor, "tokens features"] | None = None,
    vocabulary: Vocabulary | None = None,
    lengths: Lengths | None = None,
    steps: int = 1000,
    max_period: int = 64,
    patience: int = 4,
    confirm: int = 12,
    progress: bool = False,
) -> Loops:
    """Find the repetition loops of a network that reads its own outputs, and the share of prompts that ends in each.

    The network reads each prompt, and then its own most probable token at every step. A prompt has settled to a loop if
    its tokens repeat at the end of `steps` tokens and its state returns after each repetition. The loop is then a limit
    cycle of the autonomous system `close_loop(network)`. Newton's method confirms it as in `find_cycles`, and the
    derivative along the loop gives its multipliers. Prompts that end in the same tokens are in one loop only if they
    end in the same states.

    The computation is in float64. A network in float32 may choose another token where two are almost equally probable;
    `leads` shows how near a loop comes to that.

    Args:
        network: a `Model`, a language model that `adapt` takes, or any other network together with its readout.
        prompts: token numbers, in the layout of the network: (time, batch), or (batch, time) for a model of
            transformers or a torch.nn module with `batch_first`.
        readout: from the outputs of a network to the logits of the next token; a model has its own.
        temperature: 0 for greedy decoding, or a positive number, as in `close_loop`.
        embed: the inputs of the tokens, as in `close_loop`.
        vocabulary: names of all tokens, or a function from token numbers to a text, such as `tokenizer.decode`; by
            default their numbers.
        lengths: number of tokens of each prompt; what follows is padding.
        steps: number of tokens to generate, at least 4 times `max_period`.
        max_period: longest loop that is searched, in tokens.
        patience: how many times `steps` more tokens are generated as long as the tokens of a prompt repeat while its
            state still moves. Networks with a long memory settle late.
        confirm: number of loops, those with most prompts, that Newton's method confirms and whose multipliers are
            computed.
        progress: show a progress bar after 3 seconds.

    A network that repeats its last three tokens:

    >>> import mnemoscope as ms
    >>> def shift(x, h):
    ...     return torch.cat([h[:, 2:], x], 1)
    >>> cell = ms.adapt(shift, state_size=6, input_size=2, output=lambda h: h[:, :2])
    >>> loops = find_loops(cell, torch.tensor([[0, 1], [0, 0], [1, 0]]), nn.Identity(), vocabulary="ab", max_period=8)
    >>> loops.texts, loops.shares.tolist(), loops.multipliers[0].abs().max().item()
    (('aab',), [1.0], 0.0)

    """
    _check_numbers(steps, max_period, patience, confirm)
    dynamics = close_loop(network, readout, temperature=temperature, embed=embed)
    cell = network.cell if isinstance(network, Model) else as_cell(network)
    given = read_inputs(prompts, batch_first=cell.batch_first, lengths=lengths)
    _check_prompts(given.xs, len(loop_cell(dynamics).table))
    name = _naming(vocabulary, len(loop_cell(dynamics).table))
    with torch.no_grad():
        starts, logits = read_prompts(dynamics, given.xs, given.mask)
    begun = first_tokens(starts, logits, 2 * max_period)
    generation, periods, repeating = _settle(dynamics, begun, steps, max_period, patience, progress)
    found, member, phase = _grouped(dynamics, generation, periods)
    extent = generation.extent
    for loop in found[:confirm]:
        loop.orbit, loop.multipliers, loop.confirmed = confirm_loop(dynamics, loop.orbit, extent)
    traced, distances = _approach(dynamics, generation, found, member, phase)
    return Loops(
        temperature=float(temperature),
        steps=len(generation.tokens) - 1,
        max_period=max_period,
        states=(torch.stack([loop.orbit[0] for loop in found]) if found else starts[:0]).cpu(),
        member=member,
        entered=generation.entries(periods),
        traced=traced,
        distances=distances,
        extent=extent,
        **_columns(found, name),
        **_unsettled(generation, torch.where(periods == 0, repeating, 0), name),
    )


def _columns(found: list[_Loop], name: Callable[[list[int]], str]) -> dict[str, Any]:
    """Return what is known of each loop, by the names of the result."""
    empty = torch.zeros(0)
    return {
        "periods": torch.tensor([len(loop.tokens) for loop in found], dtype=torch.int64),
        "tokens": torch.cat([loop.tokens for loop in found]) if found else empty.long(),
        "texts": tuple(name(loop.tokens.tolist()) for loop in found),
        "multipliers": torch.stack([loop.multipliers for loop in found]) if found else UNKNOWN[None][:0],
        "confirmed": torch.tensor([loop.confirmed for loop in found], dtype=torch.bool),
        "leads": torch.stack([loop.lead for loop in found]).double() if found else empty.double(),
    }


def _unsettled(
    generation: Generation, moving: Int[Tensor, " prompts"], name: Callable[[list[int]], str]
) -> dict[str, Any]:
    """Return which prompts repeat tokens while their state still moves, given the periods of these, and the tokens."""
    repeated = Counter(
        _necklace(generation, prompt, period) for prompt, period in enumerate(moving.tolist()) if period
    ).most_common()
    return {
        "repeating": moving > 0,
        "repeated": tuple(name(list(tokens)) for tokens, _ in repeated),
        "repeated_counts": torch.tensor([count for _, count in repeated], dtype=torch.int64),
    }


def _settle(
    dynamics: Dynamics, begun: Generation, steps: int, max_period: int, patience: int, progress: bool
) -> tuple[Generation, Int[Tensor, " prompts"], Int[Tensor, " prompts"]]:
    """Generate tokens, and more of them while some repeat and their state still moves.

    Return also the periods of the prompts whose state has returned, and those of the tokens; 0 for none.
    """
    generation = generate(dynamics, begun, steps, progress)
    periods, repeating = generation.repetitions(max_period)
    for _ in range(patience):
        if not bool(((repeating > 0) & (periods == 0)).any()):
            break
        generation = generate(dynamics, generation, steps, progress)
        periods, repeating = generation.repetitions(max_period)
    return generation, periods, repeating


@dataclass
class _Loop:
    """A loop; its first state reads its first token, with which it comes first in the order of token numbers."""

    tokens: Int[Tensor, " period"]
    orbit: Float[Tensor, "period size"]
    lead: Tensor
    multipliers: Tensor = UNKNOWN
    confirmed: bool = False


def _grouped(
    dynamics: Dynamics, generation: Generation, periods: Int[Tensor, " prompts"]
) -> tuple[list[_Loop], Int[Tensor, " prompts"], Int[Tensor, " prompts"]]:
    """Return the loops, those with most prompts first, that of each prompt or -1, and the place of its last state."""
    found: list[_Loop] = []
    member, phase = torch.full_like(periods, -1), torch.zeros_like(periods)
    extent = generation.extent
    for prompt, period in enumerate(periods.tolist()):
        if not period:
            continue
        last = generation.states[prompt]
        tokens = _last_tokens(generation, prompt, period)
        turn = _first_rotation(tokens)
        key = tokens[turn:] + tokens[:turn]
        for number, loop in enumerate(found):
            if loop.tokens.tolist() == key:
                apart = (loop.orbit - last).norm(dim=1)
                if float(apart.min()) <= NEAR * extent:
                    member[prompt], phase[prompt] = number, int(apart.argmin())
                    break
        else:
            orbit, lead = orbit_of(dynamics, last, period)
            member[prompt], phase[prompt] = len(found), (period - turn) % period
            found.append(_Loop(torch.tensor(key), orbit.roll(-turn, 0), lead))
    order = sorted(range(len(found)), key=lambda loop: -int((member == loop).sum()))
    place = torch.tensor([*(order.index(loop) for loop in range(len(order))), -1])  # member -1 stays -1
    return [found[loop] for loop in order], place[member], phase


def _approach(
    dynamics: Dynamics,
    generation: Generation,
    found: list[_Loop],
    member: Int[Tensor, " prompts"],
    phase: Int[Tensor, " prompts"],
) -> tuple[Int[Tensor, " traced"], Float[Tensor, "traced time"]]:
    """Return some prompts of each of the first loops, and their distances from it over time, in units of the extent."""
    traced = torch.tensor(
        [row for loop in range(min(len(found), DRAWN)) for row in (member == loop).nonzero()[:TRACED, 0].tolist()],
        dtype=torch.int64,
    )
    if not len(traced):
        return traced, torch.zeros(0, len(generation.tokens), dtype=torch.float64)
    orbits = [loop.orbit for loop in found]
    return traced, distances_to(dynamics, generation, orbits, member, phase, traced).double() / generation.extent


def _last_tokens(generation: Generation, prompt: int, period: int) -> list[int]:
    """Return the tokens of a loop from the next input of the last state on, as they were read a period earlier."""
    return generation.tokens[-1 - period : -1, prompt].tolist()


def _necklace(generation: Generation, prompt: int, period: int) -> tuple[int, ...]:
    """Return the tokens that a prompt repeats, in their first rotation."""
    tokens = _last_tokens(generation, prompt, period)
    turn = _first_rotation(tokens)
    return (*tokens[turn:], *tokens[:turn])


def _first_rotation(tokens: list[int]) -> int:
    """Return the number of tokens by which a loop is turned so that it comes first in the order of token numbers."""
    return min(range(len(tokens)), key=lambda turn: tokens[turn:] + tokens[:turn])


def _naming(vocabulary: Vocabulary | None, tokens: int) -> Callable[[list[int]], str]:
    """Return a function from token numbers to a text."""
    if vocabulary is not None and not isinstance(vocabulary, Sequence):
        return vocabulary
    names = list(map(str, range(tokens))) if vocabulary is None else list(vocabulary)
    if len(names) != tokens:
        raise ValueError(f"The vocabulary must name each of {tokens} tokens, but has {len(names)} names.")
    between = "" if vocabulary is not None and all(len(name) == 1 for name in names) else " "
    return lambda numbers: between.join(names[number] for number in numbers)


def _check_numbers(steps: int, max_period: int, patience: int, confirm: int) -> None:
    check_whole(1, max_period=max_period)
    check_whole(0, confirm=confirm, patience=patience)
    if not is_whole(steps, 4 * max_period):
        raise ValueError(
            f"steps must be a whole number, at least {4 * max_period}, 4 times the longest period of {max_period}, but "
            f"is {steps!r}."
        )


def _check_prompts(prompts: Tensor, tokens: int) -> None:
    if prompts.dim() != 2 or prompts.is_floating_point() or prompts.dtype == torch.bool:
        one_hot = "; of one-hot inputs, pass inputs.argmax(-1)" * (prompts.dim() == 3)
        raise ValueError(
            f"Prompts are token numbers, two-dimensional and whole, but are {prompts.dtype} of shape "
            f"{tuple(prompts.shape)}{one_hot}."
        )
    if not prompts.numel() or not 0 <= int(prompts.min()) <= int(prompts.max()) < tokens:
        found = f"{int(prompts.min())} to {int(prompts.max())}" if prompts.numel() else "none"
        raise ValueError(f"Prompts hold token numbers from 0 to {tokens - 1}, but here they are {found}.")
