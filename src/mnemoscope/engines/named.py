"""Engines by name, with their options as the command line has them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module

from mnemoscope.config.options import Option, checked_options
from mnemoscope.engines.engine import Engine

ENGINES = {
    "local": "mnemoscope.engines.local:Local",
    "ray": "mnemoscope.engines.cluster:Ray",
    "slurm": "mnemoscope.engines.slurm:Slurm",
}


def engine(name: str, options: Mapping[str, Option] | None = None) -> Engine:
    """The engine of that name.

    >>> engine("local", {"at_once": 3}).at_once
    3
    >>> engine("local", {"jobs": 3})
    Traceback (most recent call last):
    ValueError: The engine 'local' has no option 'jobs'. Its options: at_once = None, gpus = 0, cores = None.
    """
    if name not in ENGINES:
        near = get_close_matches(name, ENGINES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no engine {name!r}.{hint} There are {', '.join(ENGINES)}.")
    module, _, attribute = ENGINES[name].partition(":")
    made = getattr(import_module(module), attribute)
    return made(**checked_options(made, f"engine {name!r}", options or {}))
