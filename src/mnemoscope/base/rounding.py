"""Numbers in files of results, which are kept short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def shortened(content: Any) -> Any:
    """Return plain data with every float rounded to five significant digits.

    >>> shortened({"loss": 0.123456789, "curve": [1.0, 2e-7 / 3], "steps": 1234567, "joules": None})
    {'loss': 0.12346, 'curve': [1.0, 6.6667e-08], 'steps': 1234567, 'joules': None}
    """
    if isinstance(content, float):
        return float(f"{content:.5g}")
    if isinstance(content, Mapping):
        return {name: shortened(value) for name, value in content.items()}
    return [shortened(value) for value in content] if isinstance(content, list | tuple) else content
