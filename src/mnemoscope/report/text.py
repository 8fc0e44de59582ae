"""A text whose tokens are coloured by a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class TextToken:
    """One token of a text."""

    text: str
    strength: float
    """From 0, no colour, to 1."""
    title: str
    """Shown when one points at the token."""


def text_markup(tokens: Sequence[TextToken], caption: str) -> str:
    """Return the markup of a text, with the strength of each token as the opacity of its ground."""
    spans = "".join(
        f'<span class="token" style="--m:{token.strength:.2f}" title="{escape(token.title)}">'
        f"{escape(_visible(token.text))}</span>"
        for token in tokens
    )
    below = f'<figcaption class="small">{escape(caption)}</figcaption>'
    return f'<figure class="drawn"><p class="tokens">{spans}</p>{below}</figure>'


def _visible(text: str) -> str:
    """Return a token with the marks of tokenizers for spaces, and of line breaks, as signs."""
    return (
        text.replace("\u0120", " ").replace("\u2581", " ").replace("\u010a", "\u21b5").replace("\n", "\u21b5")
        or "\u2205"
    )
