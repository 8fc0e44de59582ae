"""Markers of tyro for the arguments of commands, importable without tyro.

Without tyro the modules of commands can still be imported, so that `main` can name the extra to install.
"""

from typing import TYPE_CHECKING, Optional, TypeVar

if TYPE_CHECKING:
    from tyro.conf import Positional, Suppress
else:
    try:
        from tyro.conf import Positional, Suppress
    except ImportError:
        Positional, Suppress = Optional, dict[TypeVar("T"), str]

__all__ = ["Positional", "Suppress"]
