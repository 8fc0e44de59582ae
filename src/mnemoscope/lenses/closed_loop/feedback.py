"""A network that reads what it writes: its output, as the next input, closes the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import is_number
from mnemoscope.cells import Cell, Model, Network, State, as_cell, scan
from mnemoscope.cells.cell import Box
from mnemoscope.cells.pretrained.module_cell import ModuleCell
from mnemoscope.cells.pretrained.module_state import MixerState, ModelState
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.whole_network import check_readout

Readout = nn.Module | Callable[[Tensor], Tensor]
"""From the outputs of a network (batch, features) to the logits of the next token."""


class LoopState(NamedTuple):
    """The state of a network in a closed loop, and the input that it reads next."""

    state: State
    input: Tensor


class LoopCell(Cell):
    """The closed loop of a network as a cell without input: z = (state, next input), z' = F(z).

    A step reads the input, updates the state, and forms the next input from the logits l of the next token:

        s' = step(x, s),    x' = E^T softmax(l(x, s') / T)

    with the inputs of all tokens in the rows of E. At temperature T = 0 this is the input of the token with the largest
    logit, as in greedy decoding. The map is then smooth in pieces: as long as no other token takes the lead, x' is
    constant and its derivative 0, which is what autograd returns.
    """

    def __init__(self, cell: Cell, read: Readout, table: Float[Tensor, "tokens features"], temperature: float) -> None:
        super().__init__()
        self.cell, self.read, self.temperature = cell, read, temperature
        self.table: Tensor
        self.register_buffer("table", table.detach().clone())

    def initial_state(self, batch: int) -> LoopState:
        """Return the initial state of the network with the mean input of all tokens."""
        return LoopState(_without_output(self.cell.initial_state(batch)), self.table.mean(0).expand(batch, -1).clone())

    def forward(self, x: Tensor, state: LoopState) -> LoopState:
        return self.advance(state)[0]

    def output(self, state: LoopState) -> Float[Tensor, "batch features"]:
        """Return the next input."""
        return state.input

    def advance(self, state: LoopState) -> tuple[LoopState, Float[Tensor, "batch tokens"]]:
        """Return the next state, and the logits from which its input was formed."""
        new = self.cell(state.input, state.state)
        return self.joined(new, self.read(self.cell.output_at(state.input, new)))

    def joined(self, state: State, logits: Float[Tensor, "batch tokens"]) -> tuple[LoopState, Tensor]:
        """Return the state of the network with the input that follows from logits, and the logits."""
        if self.temperature == 0:
            following = self.table[logits.argmax(-1)]
        else:
            following = torch.softmax(logits / self.temperature, -1) @ self.table
        return LoopState(_without_output(state), following), logits

    def bounds(self, low: Tensor, high: Tensor) -> Box | None:
        """Return the box of the network for inputs between those of its tokens, and the box of these inputs."""
        inputs = self.table.amin(0), self.table.amax(0)
        box = self.cell.bounds(*inputs)
        if box is None or bool((inputs[0] >= inputs[1]).any()):  # a box needs a width
            return None
        return torch.cat([box[0], inputs[0]]), torch.cat([box[1], inputs[1]])


def close_loop(
    network: Network,
    readout: Readout | None = None,
    *,
    temperature: float = 0.0,
    embed: nn.Module | Float[Tensor, "tokens features"] | None = None,
) -> Dynamics:
    """Return a network that reads its own outputs as an autonomous system, which every lens on a `Dynamics` takes.

    A state of the system is the state of the network and its next input, as one flat vector. At temperature 0 the next
    input is the most probable token, as in greedy decoding. At a temperature above 0 it is the mean input under the
    probabilities softmax(logits / temperature), which makes the map smooth, and which tends to the greedy one as the
    temperature falls to 0. That is not sampling: a sampled text is random, and has no fixed points or cycles.

    Args:
        network: a `Model`, a language model that `adapt` takes, or any other network together with its readout.
        readout: from the outputs of a network to the logits of the next token; a model has its own.
        temperature: 0 for greedy decoding, or a positive number.
        embed: the inputs of the tokens, (tokens, features), or a module that maps token numbers to inputs; by default
            those of the model, or one-hot inputs if a network has as many inputs as tokens.

    >>> import mnemoscope as ms
    >>> model = ms.Model(ms.cells.GRU(5, 16), output_size=5)
    >>> ms.find_fixed_points(close_loop(model, temperature=5.0)).kind
    ['stable']

    """
    if not is_number(temperature) or not 0 <= temperature < float("inf"):
        raise ValueError(
            f"temperature must be 0 (greedy decoding) or a positive and finite number, but is {temperature!r}."
        )
    cell, read, table = _parts(network, readout, embed)
    _check_parts(cell, read, table)
    return Dynamics(LoopCell(cell.time_first(), read, table, float(temperature)))


def loop_cell(dynamics: Dynamics) -> LoopCell:
    """Return the cell of a system that `close_loop` made."""
    assert isinstance(dynamics.cell, LoopCell)
    return dynamics.cell


def read_prompts(
    dynamics: Dynamics, prompts: Int[Tensor, "time batch"], mask: Tensor | None
) -> tuple[Float[Tensor, "batch size"], Float[Tensor, "batch tokens"]]:
    """Return the flat states in which prompts leave the system, and the logits of the first token after them."""
    loop = loop_cell(dynamics)
    xs = loop.table[prompts.to(loop.table.device)]
    outputs, state = scan(loop.cell, xs, mask=None if mask is None else mask.to(xs.device), outputs="last")
    joined, logits = loop.joined(state, loop.read(outputs[0]))
    return dynamics.flatten(joined), logits


def _parts(network: Network, readout: Any, embed: Any) -> tuple[Cell, Readout, Tensor]:
    """Return the cell, its readout and the inputs of the tokens."""
    check_readout(network, readout)
    if isinstance(network, Model):
        cell, read = network.cell, network.step_readout
        tokens = network.readout.out_features if isinstance(network.readout, nn.Linear) else cell.output_features
        encode = network.encode if embed is None and not isinstance(network.encode, nn.Identity) else embed
        return cell, read, _table(cell, tokens, encode, network.readout)
    cell = as_cell(network)
    _check_growth(cell)
    if readout is None and not cell.has_readout:
        raise ValueError(
            f"The outputs of this {type(cell).__name__} are features, not logits of tokens: pass readout=..., such as "
            f"an nn.Linear, or a whole model (ms.Model, or *ForCausalLM of transformers)."
        )
    read = nn.Identity() if readout is None else readout
    if embed is None and isinstance(cell, ModuleCell):
        embed = _own_embedding(cell)
    tokens = getattr(read, "out_features", None)
    return cell, read, _table(cell, tokens, embed, read)


def _table(cell: Cell, tokens: int | None, embed: Any, read: Any) -> Float[Tensor, "tokens features"]:
    """Return the inputs of all tokens, one in each row."""
    weight = next((each for each in cell.parameters() if each.is_floating_point()), torch.zeros(()))
    if isinstance(embed, Tensor):
        return embed.detach().to(weight)
    if embed is None:
        if cell.input_size is None or (tokens is not None and tokens != cell.input_size):
            raise ValueError(
                f"This {type(cell).__name__} takes {cell.input_size or 'any number of'} inputs and has logits of "
                f"{tokens or 'an unknown number of'} tokens, so that its inputs are not one-hot tokens: pass "
                f"embed=..., the inputs of all tokens (tokens, features), or an nn.Embedding."
            )
        return torch.eye(cell.input_size, dtype=weight.dtype, device=weight.device)
    inner = next((part for part in embed.modules() if isinstance(part, nn.Embedding)), None)
    count = tokens if inner is None else inner.num_embeddings
    if count is None:
        raise ValueError("The number of tokens is not known: pass embed=..., the inputs of all tokens, as a tensor.")
    numbers = torch.arange(count, device=weight.device)
    with torch.no_grad():
        return embed(numbers if inner is not None else torch.eye(count, dtype=weight.dtype, device=weight.device))


def _own_embedding(cell: ModuleCell) -> nn.Module:
    """Return the embedding of a language model of transformers, which takes embeddings in place of tokens."""
    if not hasattr(cell.module, "get_input_embeddings"):
        raise TypeError(
            f"{type(cell.module).__name__} takes tokens only, while a closed loop feeds back embeddings: use a "
            f"language model of transformers, or ms.Model."
        )
    return cell.module.get_input_embeddings()


def _check_growth(cell: Cell) -> None:
    if cell.grows:
        layers = getattr(cell, "attention_layers", ())
        where = f" in its attention layers ({', '.join(map(str, layers))})" if layers else ""
        raise ValueError(
            f"The state of {type(getattr(cell, 'module', cell)).__name__} grows with every token{where}, because it "
            f"keeps its whole past: no state ever recurs, so there are no cycles. Use a model without attention "
            f"layers; repetitions in a text that was generated otherwise can be counted in the text itself."
        )


def _check_parts(cell: Cell, read: Readout, table: Tensor) -> None:
    """Raise unless the inputs of the tokens suit the network, and there is a logit for each of them."""
    _check_growth(cell)
    if len(table) < 2:
        raise ValueError(f"A network chooses among at least two tokens, but there are {len(table)}.")
    if table.dim() != 2 or cell.input_size not in (None, table.shape[1]):
        raise ValueError(
            f"The inputs of the tokens must be (tokens, {cell.input_size or 'features'}), but their shape is "
            f"{tuple(table.shape)}."
        )
    with torch.no_grad():
        state = cell.initial_state(1)
        logits = read(cell.output_at(table[:1], cell(table[:1], state)))
    if logits.shape != (1, len(table)):
        raise ValueError(
            f"There are {len(table)} tokens, but the readout returns {tuple(logits.shape[1:])} logits for a state: it "
            f"must return one for each token."
        )


def _without_output(state: State) -> State:
    """Return the state of an adapted module without its output, which no step reads."""
    return state._replace(output=state.output[:, :0]) if isinstance(state, ModelState | MixerState) else state
