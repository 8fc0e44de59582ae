"""Write TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def format_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML text: plain values and tuples first, then one table for each mapping.

    >>> print(format_toml({"name": "try", "options": {"odd key": 1e-5}, "log": ("wandb",)}), end="")
    name = "try"
    log = ["wandb"]
    <BLANKLINE>
    [options]
    "odd key" = 1e-05
    """
    tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
    lines = [f"{name} = {_value(value)}" for name, value in settings.items() if name not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def with_tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings read from TOML or JSON, with tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # JSON and TOML escape the same characters, except DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)
