"""Networks of several layers, each a recurrence in its published block."""

from __future__ import annotations

from typing import Any, Literal

from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.base.validation import check_whole
from mnemoscope.cells import SLSTM, Block, Cell, Stack
from mnemoscope.cells.affine import AffineCell, Mamba
from mnemoscope.cells.affine.channels import ChannelModel
from mnemoscope.cells.feed_forward import ChannelMixing
from mnemoscope.cells.surroundings import Surroundings
from mnemoscope.config.options import checked_options, options_of
from mnemoscope.memory.attention import CausalAttention, SinusoidalPositions
from mnemoscope.registry import cells

ARCHITECTURES: dict[str, Surroundings] = {
    "plain": Surroundings(activation="gelu", bias=True),
    "h3": Surroundings(convolution=4, entry="product", bias=True),
    "mamba": Mamba.surroundings,
}
"""Blocks that can surround any state-space model of channels."""


def blocks(
    input_size: int,
    hidden_size: int,
    family: str = "gated-deltanet",
    depth: int = 2,
    heads: int | None = None,
    key_size: int | None = None,
    state_size: int | None = None,
    factors: int | None = None,
    beta_max: float | None = None,
    architecture: str = "published",
    feed_forward: bool = False,
) -> Stack:
    """Return `depth` blocks of a family: norm, recurrence with short convolution, gate, norm, projection, residual.

    The parts around the recurrence are those of the family's publication (`cells.Surroundings`); docs/modern.md lists
    them. A linear map takes the inputs to `hidden_size` features, which the residual connections carry, and a norm
    follows the last block. The recurrences of some families have more features, as published: those of Mamba, Mamba-2,
    RetNet and mLSTM twice as many.

    Args:
        input_size: number of input features.
        hidden_size: number of features between the blocks, and of the outputs.
        family: name of a cell with the tag "affine", or "slstm".
        depth: number of blocks.
        heads: heads of each recurrence. This and the following are options of the family, with its defaults if None.
        key_size: number of keys of a head.
        state_size: size of the state of a state-space model.
        factors: number of delta rules per input in "deltaproduct".
        beta_max: largest beta of a delta rule, or of the decays of "mamba".
        architecture: the parts around the recurrence: "published", those of the family, or for a state-space model of
            channels, "s4d" or "mamba", those of another block: "plain" has GELU and no gate, "h3" multiplies two
            branches, the first after a convolution, and the output by a third (Fu et al. 2023), "mamba" has a
            convolution, SiLU and a SiLU gate (Gu & Dao 2024).
        feed_forward: whether a feed-forward layer follows every recurrence: that of the family's publication, or SwiGLU
            with 8/3 w inner features if it has none.

    >>> network = blocks(3, 16, "mamba2", depth=2, heads=4, state_size=8)
    >>> [layer.initial_state(1).S.shape for layer in network.layers]
    [torch.Size([1, 4, 8, 8]), torch.Size([1, 4, 8, 8])]

    """
    check_whole(1, input_size=input_size, hidden_size=hidden_size, depth=depth)
    core = cells.load(family) if family in cells else None
    if not (isinstance(core, type) and issubclass(core, AffineCell | SLSTM)):
        known = [*(entry.name for entry in cells if "affine" in entry.tags), "slstm"]
        problem = f"is no cell.{did_you_mean(family, known)}" if core is None else "has no block."
        raise ValueError(f"family must be one of {', '.join(known)}, but is {family!r}, which {problem}")
    given = {"heads": heads, "key_size": key_size, "state_size": state_size, "factors": factors, "beta_max": beta_max}
    others = options_of(core).keys() - given.keys()  # sizes, and options that blocks set as published
    given = {name: value for name, value in given.items() if value is not None}
    options: dict[str, Any] = checked_options(core, f"block of {family!r}", given, others)
    around = None
    if architecture == "published":
        cores = core.for_blocks(hidden_size, depth, **options)
    elif architecture in ARCHITECTURES and issubclass(core, ChannelModel):
        around = ARCHITECTURES[architecture]
        cores = core.for_architecture(hidden_size, depth, around, **options)
    else:
        raise ValueError(
            f'architecture must be "published", or for the families "s4d" and "mamba" one of '
            f"{', '.join(ARCHITECTURES)}, but is {architecture!r} for {family!r}."
        )
    layers = []
    mixing = feed_forward and core.surroundings.feed_forward == "channel mixing"
    for level, each in enumerate(cores):
        source, last = None if level else input_size, level == depth - 1
        layers.append(
            Block(each, hidden_size, around, source, last and not mixing, feed_forward=feed_forward and not mixing)
        )
        if mixing:
            layers.append(ChannelMixing(hidden_size, 1 - level / depth, each.passed, last))
    return Stack(layers)


def causal_transformer(
    input_size: int,
    hidden_size: int,
    depth: int = 2,
    heads: int = 4,
    positions: Literal["rotary", "sinusoidal", "none"] = "rotary",
    feed_forward: bool = True,
) -> Stack:
    """Return `depth` layers of causal attention: norm, attention, projection, residual connection, feed-forward layer.

    Norms are RMS norms before each part, and the feed-forward layer is SwiGLU with 8/3 w inner features. The state
    grows with every input (`CausalAttention`), so that lenses on fixed points and spectra do not apply. It is the
    baseline of studies about recurrences whose state does not grow.

    Args:
        input_size: number of input features.
        hidden_size: number of features between the layers, and of the outputs.
        depth: number of layers.
        heads: attention heads of each layer.
        positions: "rotary" turns queries and keys (Su et al. 2024), "sinusoidal" adds sines and cosines of the position
            to the inputs of the first layer (Vaswani et al. 2017), and "none" leaves the order to the causal mask.
        feed_forward: whether a feed-forward layer follows the attention.

    >>> network = causal_transformer(3, 16, depth=2)
    >>> [type(layer.core).__name__ for layer in network.layers], network.grows
    (['CausalAttention', 'CausalAttention'], True)

    """
    check_whole(1, input_size=input_size, hidden_size=hidden_size, depth=depth)
    if positions not in ("rotary", "sinusoidal", "none"):
        raise ValueError(f'positions must be "rotary", "sinusoidal" or "none", but is {positions!r}.')
    absolute = positions == "sinusoidal"
    turned = "none" if absolute else positions
    cores = [CausalAttention(hidden_size, hidden_size, heads, turned) for _ in range(depth)]
    first: list[Cell] = [SinusoidalPositions(input_size, hidden_size)] if absolute else []
    layers = [
        Block(core, hidden_size, None, None if level or absolute else input_size, level == depth - 1, feed_forward)
        for level, core in enumerate(cores)
    ]
    return Stack([*first, *layers])
