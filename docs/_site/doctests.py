"""Show the examples of docstrings as code. Markdown would read `>>>` as nested quotations."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Griffe extension that puts a code fence around each example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of a module, class, function or attribute."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(cleandoc(obj.docstring.value))


def fenced(text: str) -> str:
    """Return the text with a fence around each example, which ends at an empty line."""
    return re.sub(r"(?m)^>>> .*(?:\n(?!\s*$).*)*", lambda found: f"```pycon\n{found[0]}\n```", text)
