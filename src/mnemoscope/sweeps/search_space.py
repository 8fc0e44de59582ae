"""Which values the fields of a run may take, as data: lists and distributions. Imports no torch.

On the command line and in a TOML file they are words: `0.1,0.3`, `uniform:0:1`, `log:1e-4:1e-2`, `integers:16:128`,
`log-integers:16:1024`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, floor, isfinite, log
from pathlib import Path
from random import Random
from typing import Any

from mnemoscope.config.options import Option

Value = Option | None
FORMS = "values such as 0.001,0.003, or uniform:LOW:HIGH, log:LOW:HIGH, integers:LOW:HIGH, log-integers:LOW:HIGH"


@dataclass(frozen=True)
class Choices:
    """One of these values, all alike."""

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a list of values is empty")
        words = [_word(value) for value in self.values]
        twice = [word for n, word in enumerate(words) if word in words[:n]]
        if twice:
            raise ValueError(f"the value {twice[0]} is there twice")

    @property
    def words(self) -> str:
        """As it stands on the command line."""
        return ",".join(map(_word, self.values))

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values that show whether all fit."""
        return self.values

    def draw(self, random: Random) -> Value:
        """One at random."""
        return self.values[floor(random.random() * len(self.values))]


@dataclass(frozen=True)
class Uniform:
    """A number between two, evenly; or evenly in its logarithm."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    @property
    def words(self) -> str:
        """As it stands on the command line."""
        return f"{'log' if self.log else 'uniform'}:{self.low!r}:{self.high!r}"

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values that show whether all fit."""
        return (self.low, self.high)

    def draw(self, random: Random) -> Value:
        """One at random."""
        share = random.random()
        if not self.log:
            return self.low + share * (self.high - self.low)
        return min(self.high, exp(log(self.low) + share * (log(self.high) - log(self.low))))


@dataclass(frozen=True)
class Integers:
    """A whole number from `low` to `high`, both included, evenly; or evenly in its logarithm."""

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    @property
    def words(self) -> str:
        """As it stands on the command line."""
        return f"{'log-integers' if self.log else 'integers'}:{self.low}:{self.high}"

    @property
    def ends(self) -> tuple[Value, ...]:
        """Values that show whether all fit."""
        return (self.low, self.high)

    def draw(self, random: Random) -> Value:
        """One at random."""
        share = random.random()
        if not self.log:
            return self.low + floor(share * (self.high - self.low + 1))
        low, high = log(self.low - 0.5), log(self.high + 0.5)  # the ends have a whole interval too
        return min(self.high, max(self.low, round(exp(low + share * (high - low)))))


Distribution = Choices | Uniform | Integers
Space = Mapping[str, Distribution]


def distribution(words: str) -> Distribution:
    """What the words say.

    >>> distribution("log:1e-4:1e-2")
    Uniform(low=0.0001, high=0.01, log=True)
    >>> distribution("tanh,relu").values, distribution("none,0.5,true,16").values
    (('tanh', 'relu'), (None, 0.5, True, 16))
    """
    kind, *ends = words.split(":")
    if kind not in ("uniform", "log", "integers", "log-integers"):
        return Choices(tuple(map(_value, words.split(",")))) if words else Choices(())
    whole, logarithmic = "integers" in kind, kind.startswith("log")
    try:
        low, high = map(int if whole else float, ends)
    except ValueError:
        what = "whole numbers" if whole else "numbers"
        raise ValueError(f"{words!r} is not {kind}:LOW:HIGH with two {what}") from None
    return Integers(int(low), int(high), logarithmic) if whole else Uniform(low, high, logarithmic)


def space(words: Iterable[str]) -> dict[str, Distribution]:
    """Fields and what they may be, each as `field=values`.

    >>> space(["hidden_size=32,64", "cell_options.bias=true,false"])["hidden_size"]
    Choices(values=(32, 64))
    """
    over: dict[str, Distribution] = {}
    for each in words:
        name, sign, values = each.partition("=")
        if not sign or not name:
            raise ValueError(f"{each!r} is not FIELD=VALUES: {FORMS}.")
        _add(over, name, values)
    return over


def space_of_file(path: str | Path) -> dict[str, Distribution]:
    """The same from a TOML file that looks like the configuration of a run, but has a list, or the words of a
    distribution, where that has a value.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    over: dict[str, Distribution] = {}
    for name, value in content.items():
        for key, each in ({f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else
                          {name: value}).items():  # fmt: skip
            _add(over, key, each, f"In {path}: ")
    return over


def _add(over: dict[str, Distribution], name: str, values: Any, where: str = "") -> None:
    if name in over:
        raise ValueError(f"{where}{name} is given twice.")
    if not isinstance(values, str | list):
        raise ValueError(f"{where}{name} is {values!r}, but {FORMS} were expected; of one value, a list: [{values!r}].")
    try:
        over[name] = distribution(values) if isinstance(values, str) else Choices(tuple(values))
    except ValueError as error:
        raise ValueError(f"{where}{name}: {error}. There are {FORMS}.") from None


def _check_range(low: float, high: float, logarithmic: bool) -> None:
    if not (isfinite(low) and isfinite(high) and low < high):
        raise ValueError(f"the lower end, {low!r}, must be below the upper one, {high!r}, and both finite")
    if logarithmic and low <= 0:
        raise ValueError(f"of a logarithmic range, the lower end must be above 0, but is {low!r}")


def _value(word: str) -> Value:
    """A value from a word: a number, true, false or none; anything else, or what is in double quotes, is a string."""
    if word.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word.lower()]
    if word.startswith('"'):
        return json.loads(word)
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word


def _word(value: Value) -> str:
    if isinstance(value, str):
        return json.dumps(value) if _value(value) != value or "," in value else value
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
