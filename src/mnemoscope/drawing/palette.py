"""The colours of all figures."""

from collections.abc import Mapping

Colours = Mapping[str, str]
"""Colours of a figure, by the names of `LIGHT`; a page passes its own under the same names."""

PALETTE: dict[str, tuple[str, str]] = {
    "stable": ("#0072b2", "#56b4e9"),
    "saddle-1": ("#d9a214", "#b06b15"),
    "saddle-2": ("#a95509", "#feb425"),
    "saddle-3": ("#50290d", "#fbe7ab"),
    "unstable": ("#da0e53", "#f0276f"),
    "marginal": ("#8d26e4", "#b066f0"),
    "slow": ("#2fae90", "#7ba6a1"),
}
"""Colours on a light and on a dark background. Any two differ by more than 20 in CIELAB, also for colour-blind eyes."""

CATEGORIES = ("stable", "unstable", "saddle-1", "slow", "marginal", "saddle-2", "saddle-3")
"""Names of the colours of lines that differ in kind, such as conditions, in the order of their use."""

LIGHT: dict[str, str] = {
    "ink": "#1b1f24",
    "muted": "#59626c",
    "line": "#dfdfd8",
    "path": "#9aa1a9",
    "inside": "#f5f5f1",
    **{name: pair[0] for name, pair in PALETTE.items()},
}
"""Colours of a figure on white."""
