"""Examples in docstrings are shown as code: to Markdown, `>>>` would be a quotation within two others."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around each example."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(cleandoc(obj.docstring.value))


def fenced(text: str) -> str:
    """Each example with a fence before its first line and after its last, which an empty line follows."""
    return re.sub(r"(?m)^>>> .*(?:\n(?!\s*$).*)*", lambda found: f"```pycon\n{found[0]}\n```", text)
