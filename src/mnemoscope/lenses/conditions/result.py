"""Results of one lens under several conditions: a mapping from the name of the condition to its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor

from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.lenses.result import Flags, Result


@dataclass(frozen=True, repr=False, eq=False)
class ByCondition(Result, Mapping[str, Any]):
    """Results by the name of the condition, in the order in which they were given.

    >>> import torch, mnemoscope as ms
    >>> wells = ms.adapt(lambda x, h: torch.tanh(2 * h + x), state_size=1, input_size=1, bounds=(-1, 1))
    >>> points = ms.by_condition(ms.find_fixed_points, wells, {"rest": [0.0], "push": [1.0]})
    >>> points["rest"].kind.count("stable"), list(points)
    (2, ['rest', 'push'])
    """

    noun: ClassVar[str] = "results by condition"
    drawn_by: ClassVar[str] = "draw_by_condition"

    names: tuple[str, ...]
    """Names of the conditions."""
    results: tuple[Result, ...]
    """The result of each condition."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(
                f"There is no condition {name!r}: the conditions are {', '.join(self.names)}."
                f"{did_you_mean(name, self.names)}"
            )
        return self.results[self.names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def pack(self) -> tuple[dict[str, Tensor], Flags]:
        """Return the tensors and flags of all results, each after the number of its condition."""
        tensors: dict[str, Tensor] = {}
        flags: Flags = {"names": list(self.names), "kinds": [type(result).__name__ for result in self.results]}
        for number, result in enumerate(self.results):
            inner_tensors, inner_flags = result.pack()
            tensors |= {f"{number}.{name}": tensor for name, tensor in inner_tensors.items()}
            flags |= {f"{number}.{name}": flag for name, flag in inner_flags.items()}
        return tensors, flags

    @classmethod
    def unpack(cls, tensors: dict[str, Tensor], flags: Flags) -> ByCondition:
        """Return the results that `pack` returned."""
        results = []
        for number, kind in enumerate(flags["kinds"]):
            prefix = f"{number}."
            parts = [
                {name.removeprefix(prefix): value for name, value in part.items() if name.startswith(prefix)}
                for part in (tensors, flags)
            ]
            results.append(getattr(import_module("mnemoscope.lenses"), kind).unpack(*parts))
        return cls(tuple(flags["names"]), tuple(results))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of each result as plain values, by condition."""
        return {name: result.to_dict() for name, result in self.items()}

    def summary(self) -> str:
        """Return the summary of each condition after its name."""
        return " ".join(f"{name}: {result.summary()}" for name, result in self.items())
