"""The parts around a recurrence in its published block, as data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from torch import nn

from mnemoscope.cells.convolution import Delay, ShortConvolution
from mnemoscope.cells.feed_forward import FeedForward
from mnemoscope.cells.norms import GroupedRMSNorm, HeadNorm


@dataclass(frozen=True)
class Surroundings:
    """Norms, convolution, gate and projection around a recurrence.

    >>> print(Surroundings(convolution=4, norm="rms", gate="silu", expand=2))
    2 w features, convolution 4, RMS norm of each head, silu gate
    """

    embedding_norm: bool = False
    """Whether a norm follows the linear map of the inputs of a network."""
    input_norm: Literal["rms", "layer"] = "rms"
    """Norm of the inputs of the block, and of the outputs of the last one."""
    shift: bool = False
    """Whether the recurrence takes the last input as well as the present one (a token shift)."""
    convolution: int = 0
    """Width of the convolution of the features over time; 0 for no convolution."""
    convolution_bias: bool = True
    """Whether the convolution has a bias."""
    norm: Literal["none", "rms", "layer", "all"] = "none"
    """Norm of each head's reads: "rms" with weights that the heads share, "layer" with weights for every feature. "all"
    is an RMS norm of all features after the gate, or of each of `Recurrence.groups` groups of them."""
    norm_bias: bool = True
    """Whether layer norms have biases."""
    eps: float = 1e-5
    """Number that the norm of the reads adds to the variance."""
    entry: Literal["linear", "silu", "product"] = "linear"
    """Function of the features that enters a `ChannelModel`: "linear" for the features themselves, "silu" for their
    SiLU, "product" for k v of three branches k, v and q, of which q multiplies the output (the gates of H3). A
    convolution acts on k alone."""
    activation: Literal["none", "gelu"] = "none"
    """Function of the output of the recurrence, before its projection."""
    gate: Literal["none", "silu", "sigmoid", "gelu", "glu", "half glu", "inner"] = "none"
    """Function of a linear map of the block's input, by which the output of the recurrence is multiplied. "glu" takes
    GELU of the output, y, and makes the output projection W a gated linear unit; "half glu" is `y * sigmoid(W y)`;
    "inner" is a gate inside the recurrence."""
    low_rank_gate: bool = False
    """Whether the map of the gate is a product of two, with as many features between them as a head has values."""
    projection: bool = True
    """Whether a linear map follows, the output projection."""
    bias: bool = False
    """Whether the gate and the output projection have biases."""
    expand: float = 1.0
    """Features of the recurrence for each feature of the block."""
    feed_forward: Literal["swiglu", "geglu", "tanh geglu", "gelu", "channel mixing"] = "swiglu"
    """Feed-forward layer after the recurrence, if one is wanted (`FeedForward`, `ChannelMixing`)."""
    inner: float = 8 / 3
    """Inner features of the feed-forward layer for each feature of the block."""

    def __str__(self) -> str:
        """Describe the parts in the order of the computation."""
        gates = {"glu": "GELU and gated linear unit", "half glu": "GELU and half a gated linear unit", "none": ""}
        gate = gates.get(self.gate, f"{self.gate} gate{' of low rank' * self.low_rank_gate}")
        norms = {"rms": "RMS norm of each head", "layer": "layer norm of each head"}
        parts = [
            "layer norm of the input" if self.input_norm == "layer" else "",
            f"{Fraction(self.expand).limit_denominator(9)} w features" if self.expand != 1 else "",
            "token shift" if self.shift else "",
            f"convolution {self.convolution}" if self.convolution else "",
            "product of two branches, times a third" if self.entry == "product" else "",
            norms.get(self.norm, ""),
            "GELU" if self.activation == "gelu" else "",
            gate,
            "RMS norm of all features" if self.norm == "all" else "",
            "" if self.projection else "no output projection",
        ]
        return ", ".join(part for part in parts if part)

    def make_input_norm(self, width: int) -> nn.Module:
        """Return the norm of the inputs of a block."""
        return nn.RMSNorm(width, eps=1e-6) if self.input_norm == "rms" else nn.LayerNorm(width, bias=self.norm_bias)

    def make_embedding(self, inputs: int, width: int) -> nn.Module:
        """Return the map of the inputs of a network to the features of its first block."""
        embedding = nn.Linear(inputs, width)
        return nn.Sequential(embedding, self.make_input_norm(width)) if self.embedding_norm else embedding

    def make_convolution(self, channels: int) -> ShortConvolution | None:
        """Return the convolution over time, or the token shift, of that many features; None without any."""
        if self.shift:
            return Delay(channels) if channels else None
        wanted = channels and self.convolution
        return ShortConvolution(channels, self.convolution, self.convolution_bias) if wanted else None

    def make_head_norm(self, heads: int, size: int) -> nn.Module:
        """Return the norm of the reads of each head, (..., heads, size)."""
        if self.norm == "rms":
            return nn.RMSNorm(size, eps=self.eps)
        return HeadNorm(heads, size, self.norm_bias, self.eps) if self.norm == "layer" else nn.Identity()

    def make_last_norm(self, size: int, groups: int) -> nn.Module:
        """Return the norm of all features after the gate."""
        return GroupedRMSNorm(size, groups, self.eps) if self.norm == "all" else nn.Identity()

    def make_projection(self, size: int, width: int) -> nn.Module:
        """Return the output projection."""
        if self.projection:
            return nn.Linear(size, 2 * width if self.gate == "glu" else width, bias=self.bias)
        if size != width:
            raise ValueError(
                f"A block of width {width} without output projection needs a recurrence with {width} outputs, "
                f"but it has {size}."
            )
        return nn.Identity()

    def make_feed_forward(self, width: int) -> nn.Module:
        """Return the norm and the feed-forward layer after the recurrence."""
        if self.feed_forward == "channel mixing":
            raise ValueError("Channel mixing has a state: put a layer ChannelMixing after the block instead.")
        layer = FeedForward(width, self.feed_forward, round(self.inner * width), self.bias)
        return nn.Sequential(self.make_input_norm(width), layer)

    def make_gate(self, width: int, size: int, heads: int) -> nn.Module | None:
        """Return the linear map of the gate; None for a block without such a map."""
        if self.gate in ("none", "glu", "half glu", "inner"):
            return None
        if self.low_rank_gate:
            rank = size // heads
            return nn.Sequential(nn.Linear(width, rank, bias=False), nn.Linear(rank, size, bias=self.bias))
        return nn.Linear(width, size, bias=self.bias)
