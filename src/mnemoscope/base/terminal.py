"""Make text safe for a terminal, and decide whether there is one for progress bars."""

from __future__ import annotations

import re
import sys

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences, such as colours
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b]*(?:\x07|\x1b\\)?"  # control strings, such as titles and links
    r"|\x1b.?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and newline, marks that reverse the direction of text, and halves of characters."""


def printable(text: str) -> str:
    r"""Return the text without escape sequences and control characters, which may come from a file or a folder name.

    >>> printable("a\x1b[31mred\x1b[0m \x1b]0;title\x07b\rc")
    'ared bc'
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def shows_progress(as_json: bool = False) -> bool:
    """Whether a command draws bars: on a terminal, and not if it prints JSON. In a log file they would be noise."""
    return not as_json and sys.stderr.isatty()
