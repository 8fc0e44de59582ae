"""The parts around a recurrence in its published block, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn


@dataclass(frozen=True)
class Surroundings:
    """Norm, convolution and gate around a recurrence.

    >>> print(Surroundings(convolution=4, norm="rms", gate="silu", expand=2))
    2 w features, convolution 4, RMS norm of each head, silu gate
    """

    convolution: int = 0
    """Width of the convolution of the features over time; 0 for no convolution."""
    norm: Literal["none", "rms", "layer", "gated"] = "none"
    """Norm of each head's reads ("rms", "layer"), or RMS norm of all features after the gate ("gated")."""
    gate: Literal["none", "silu", "sigmoid", "gelu", "glu"] = "none"
    """Function of a linear map of the block's input, by which the output of the recurrence is multiplied; "glu" takes
    GELU of the output and makes the output projection a gated linear unit."""
    expand: float = 1.0
    """Features of the recurrence for each feature of the block."""

    def __str__(self) -> str:
        """Describe the parts in the order of the computation."""
        norms = {"rms": "RMS norm of each head", "layer": "layer norm of each head", "gated": "RMS norm after the gate"}
        gates = {"glu": "GELU and gated linear unit", "none": ""}
        parts = [
            f"{self.expand:g} w features" if self.expand != 1 else "",
            f"convolution {self.convolution}" if self.convolution else "",
            norms.get(self.norm, ""),
            gates.get(self.gate, f"{self.gate} gate"),
        ]
        return ", ".join(part for part in parts if part)

    def head_norm(self, size: int) -> nn.Module:
        """Return the norm of the reads of one head, (..., size)."""
        if self.norm == "rms":
            return nn.RMSNorm(size, eps=1e-5)
        return nn.LayerNorm(size) if self.norm == "layer" else nn.Identity()
