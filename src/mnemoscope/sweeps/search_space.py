"""The search space of a sweep: the values that each field of a run may take, as lists or ranges. Imports no torch.

On the command line and in a TOML file they are written as text: `0.1,0.3`, `uniform:0:1`, `log:1e-4:1e-2`,
`integers:16:128`, `log-integers:16:1024`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, floor, isfinite, log
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from mnemoscope.base.reading import read_toml
from mnemoscope.config.options import Option

Value = Option | None
FORMS = "values such as 0.001,0.003, or uniform:LOW:HIGH, log:LOW:HIGH, integers:LOW:HIGH, log-integers:LOW:HIGH"
"""Notations of values, for error messages."""


@dataclass(frozen=True)
class Choices:
    """A list of equally likely values."""

    values: tuple[Value, ...]
    """The values, each once."""

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a list of values is empty")
        texts = [_format_value(value) for value in self.values]
        repeated = [text for index, text in enumerate(texts) if text in texts[:index]]
        if repeated:
            raise ValueError(f"the value {repeated[0]} is there twice")

    @property
    def text(self) -> str:
        """The notation of the command line."""
        return ",".join(map(_format_value, self.values))

    @property
    def probes(self) -> tuple[Value, ...]:
        """Values to check before a sweep: all values."""
        return self.values

    def draw(self, random: Random) -> Value:
        """Return a random value."""
        return self.values[floor(random.random() * len(self.values))]


@dataclass(frozen=True)
class Uniform:
    """A number from `low` to `high`, uniformly distributed; with `log`, its logarithm is uniformly distributed."""

    low: float
    high: float
    log: bool = False

    kinds: ClassVar = ("uniform", "log")
    """Names of the range in the notation of the command line: without and with `log`."""

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise ValueError(f"the lower end, {self.low!r}, must be below the upper, {self.high!r}, and both finite")
        if self.log and self.low <= 0:
            raise ValueError(f"the lower end of a logarithmic range must be above 0, but is {self.low!r}")

    @property
    def text(self) -> str:
        """The notation of the command line."""
        return f"{self.kinds[self.log]}:{self.low!r}:{self.high!r}"

    @property
    def probes(self) -> tuple[Value, ...]:
        """Values to check before a sweep: both ends of the range."""
        return (self.low, self.high)

    def draw(self, random: Random) -> Value:
        """Return a random value."""
        fraction = random.random()
        if not self.log:
            return self.low + fraction * (self.high - self.low)
        return min(self.high, exp(log(self.low) + fraction * (log(self.high) - log(self.low))))


@dataclass(frozen=True)
class Integers(Uniform):
    """An integer from `low` to `high`, both included, uniform in the integer or, with `log`, in its logarithm."""

    kinds: ClassVar = ("integers", "log-integers")

    def draw(self, random: Random) -> Value:
        fraction = random.random()
        if not self.log:
            return self.low + floor(fraction * (self.high - self.low + 1))
        low, high = log(self.low - 0.5), log(self.high + 0.5)  # each end has an interval of width 1, like the others
        return min(self.high, max(self.low, round(exp(low + fraction * (high - low)))))


Distribution = Choices | Uniform


def parse_distribution(text: str) -> Distribution:
    """Return the list or range that a text denotes.

    >>> parse_distribution("log:1e-4:1e-2")
    Uniform(low=0.0001, high=0.01, log=True)
    >>> parse_distribution("tanh,relu").values, parse_distribution("none,0.5,true,16").values
    (('tanh', 'relu'), (None, 0.5, True, 16))
    """
    kind, *ends = text.split(":")
    if kind not in Uniform.kinds + Integers.kinds:
        return Choices(tuple(map(_parse_value, text.split(",")))) if text else Choices(())
    range_class: type[Uniform] = Integers if kind in Integers.kinds else Uniform
    try:
        low, high = map(int if range_class is Integers else float, ends)
    except ValueError:
        numbers = "whole numbers" if range_class is Integers else "numbers"
        raise ValueError(f"{text!r} is not {kind}:LOW:HIGH with two {numbers}") from None
    return range_class(low, high, log=kind.startswith("log"))


def parse_space(assignments: Iterable[str]) -> dict[str, Distribution]:
    """Return a search space by field, from texts of the form `field=values`.

    >>> parse_space(["hidden_size=32,64", "cell_options.bias=true,false"])["hidden_size"]
    Choices(values=(32, 64))
    """
    space: dict[str, Distribution] = {}
    for assignment in assignments:
        name, sign, values = assignment.partition("=")
        if not sign or not name:
            raise ValueError(f"{assignment!r} is not FIELD=VALUES: {FORMS}.")
        _add(space, name, values)
    return space


def read_space(path: str | Path) -> dict[str, Distribution]:
    """Return the search space in a TOML file.

    The file has the form of a configuration of a run, with a list or the text of a range in place of each value.
    """
    space: dict[str, Distribution] = {}
    for name, value in read_toml(path).items():
        fields = (
            {f"{name}.{key}": option for key, option in value.items()} if isinstance(value, dict) else {name: value}
        )
        for field, values in fields.items():
            _add(space, field, values, f"In {path}: ")
    return space


def _add(space: dict[str, Distribution], name: str, values: Any, where: str = "") -> None:
    if name in space:
        raise ValueError(f"{where}{name} is given twice.")
    if not isinstance(values, str | list):
        raise ValueError(
            f"{where}{name} is {values!r}, but {FORMS} were expected; for one value, a list: [{values!r}]."
        )
    try:
        space[name] = parse_distribution(values) if isinstance(values, str) else Choices(tuple(values))
    except ValueError as error:
        raise ValueError(f"{where}{name}: {error}. There are {FORMS}.") from None


def short_text(value: Any) -> str:
    """Return a value for tables and labels, with four digits of a fraction."""
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _parse_value(text: str) -> Value:
    """Return the value of a text: a number, true, false or none; any other or quoted text is a string."""
    if text.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text.lower()]
    if text.startswith('"'):
        return json.loads(text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _format_value(value: Value) -> str:
    """Return the text of a value, the inverse of `_parse_value`."""
    if isinstance(value, str):
        return json.dumps(value) if _parse_value(value) != value or "," in value else value
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
