"""The options of a command: their names, and which of them take a value. Mistakes are found before tyro parses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from mnemoscope.base.suggestions import did_you_mean
from mnemoscope.config.run_config import RunConfig

COMPLETION = ("tyro-print-completion", "tyro-write-completion")
"""Options of tyro that every command has."""


@dataclass(frozen=True)
class OptionNames:
    """The options of a command without their dashes, by the number of their values."""

    switches: frozenset[str]
    """Options without a value."""
    single: frozenset[str]
    """Options with one value."""
    several: frozenset[str]
    """Options with any number of values."""

    @property
    def known(self) -> frozenset[str]:
        return self.switches | self.single | self.several


@cache
def option_names(command: Any) -> OptionNames:
    """Return the options of a command, which is a dataclass; those of a `RunConfig` in a field belong to it."""
    switches, single, several = {"help"}, set(), set()
    hints = get_type_hints(command, include_extras=True)
    for field in fields(command):
        hint, name = hints[field.name], field.name.replace("_", "-")
        if hint is RunConfig:
            nested = option_names(RunConfig)
            switches |= nested.switches
            single |= nested.single
            several |= nested.several
        elif get_origin(hint) is Annotated:
            continue  # a position, or not on the command line
        elif hint is bool:
            switches |= {name, f"no-{name}"}  # which of the two exists depends on the default
        elif _takes_several(hint):
            several.add(name)
        else:
            single.add(name)
    return OptionNames(frozenset(switches), frozenset(single), frozenset(several))


def _takes_several(hint: Any) -> bool:
    """Whether values of this type are written as several words, such as a tuple or the pairs of a dict."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return any(isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Sequence | dict) for kind in kinds)


def name_options(message: str, command: Any) -> str:
    """Return a message in which arguments of Python functions are written as options of the command that has them.

    >>> from mnemoscope.cli.recordings import FitRecording
    >>> name_options('pass units="recorded", or cell=...', FitRecording)
    'pass --units recorded, or cell=...'
    >>> from mnemoscope.cli.commands import Train
    >>> name_options("Continue it with resume=True.", Train)
    'Continue it with --resume.'
    """
    names = option_names(command)

    def option(argument: re.Match[str]) -> str:
        name = argument["name"].replace("_", "-")
        value = argument["value"].strip("\"'")
        if name in names.switches and value in ("True", "False"):
            return f"--{name}" if value == "True" else f"--no-{name}"
        return f"--{name} {'VALUE' if value == '...' else value}" if name in names.known else argument[0]

    return re.sub(r"""(?<!--over )\b(?P<name>[a-z_]+)=(?P<value>"[^"]*"|'[^']*'|\.\.\.|[\w.]*\w)""", option, message)


def check_option_names(name: str, command: type, words: Sequence[str]) -> None:
    """Raise if the words of a command contain an unknown option, or an option whose value was forgotten."""
    names = option_names(command)
    for at, word in enumerate(words):
        flag, has_value, _ = word.partition("=")
        option = flag.removeprefix("--").replace("_", "-")
        if not flag.startswith("--") or option in COMPLETION:
            continue
        if option not in names.known:
            suggestion = did_you_mean(flag, [f"--{known}" for known in sorted(names.known)])
            raise ValueError(
                f"`mnemoscope {name}` has no option {flag}.{suggestion} `mnemoscope {name} --help` lists its options."
            )
        following = words[at + 1] if at + 1 < len(words) else None
        if option in names.single and not has_value and (following is None or following.startswith("--")):
            found = "the command ends" if following is None else f"{following} follows"
            raise ValueError(f"{flag} needs a value, but {found}. `mnemoscope {name} --help` describes it.")
