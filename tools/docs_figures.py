"""Draw the figures of the documentation: from the committed results of studies, and of trials of tasks.

    python -m tools.docs_figures                          all of them, into docs/figures
    python -m tools.docs_figures transfer-copy.paper      only this one
    python -m tools.docs_figures task.angle-memory        trials of a task
    python -m tools.docs_figures comparison.planted       planted systems, compared by their dynamics

A figure is the one that the page of its study shows, in the colours of a light page. Look at it after it has changed.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from mnemoscope import registry
from mnemoscope.drawing.palette import LIGHT
from mnemoscope.drawing.svg import COLOUR
from mnemoscope.lenses import compare
from mnemoscope.lenses.comparison.planted import DYNAMICS, planted_activity
from mnemoscope.replication.results import PresetResults, read_results

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
NAMES = (
    "transfer-copy.paper",
    "relational-cognitive.paper",
    "relational-cognitive.published",
    "matrix-copy.cpu",
    "length-generalisation.cpu",
    "flipflop-evolution.paper",
    "mante-selection.cpu",
)
"""Figures of pages, each by the study and the preset."""
TASK_NAMES = tuple(f"task.{entry.name}" for entry in registry.tasks if {"cognitive", "tokens"} & {*entry.tags})
"""Figures of trials, each by its task."""
SHORT_SEQUENCES: dict[str, dict[str, Any]] = {
    "mqar": {"vocabulary": 64, "length": 32, "random_fillers": False, "power": 0.5},
    "parity": {"shortest": 20, "longest": 24},
    "modular-arithmetic": {"shortest": 20, "longest": 24},
    "bracket-arithmetic": {"shortest": 30, "longest": 34},
    "selective-copy": {"length": 26, "data": 6},
    "induction-heads": {"length": 32},
    "string-copy": {"context": 64},
    "ngram-recall": {"packed": False, "longest": 12},
    "mad-recall": {"length": 32, "examples": 0, "next_tokens": False},
    "mad-noisy-recall": {"length": 32, "examples": 0, "next_tokens": False},
    "mad-fuzzy-recall": {"length": 32, "shortest_key": 3, "examples": 0, "next_tokens": False},
    "mad-selective-copy": {"length": 32, "copied": 5, "examples": 0},
    "mad-memorisation": {},
    "mad-compression": {"length": 16},
}
"""Options of the sequences that are drawn of tasks on tokens."""
PLANTED = "comparison.planted"
"""The comparison of planted systems in docs/compare.md."""


def main() -> None:
    """Draw the figures that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="STUDY.PRESET",
        help=f"one of {', '.join((*NAMES, *TASK_NAMES, PLANTED))}; by default all",
    )
    chosen = parser.parse_args().names or [*NAMES, *TASK_NAMES, PLANTED]
    FIGURES.mkdir(exist_ok=True)
    studies = [name for name in chosen if name not in (*TASK_NAMES, PLANTED)]
    results = read_results(ROOT / "results", None)[0] if studies else []
    drawn = {**draw(results, studies), **{name: draw_task(name) for name in chosen if name in TASK_NAMES}}
    if PLANTED in chosen:
        drawn[PLANTED] = draw_comparison()
    for name, text in drawn.items():
        path = FIGURES / f"{name}.svg"
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}, {len(text) / 1000:.0f} kB")


def draw(results: Sequence[PresetResults], names: Sequence[str]) -> dict[str, str]:
    """Return the figures of results as SVG, by the study and the preset."""
    by_name = {f"{each.study.name}.{each.preset}": each for each in results}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(f"There are no results of {', '.join(unknown)}. Known are {', '.join(by_name)}.")
    figures = {name: by_name[name].study.figure(by_name[name].finished) for name in names}
    return {name: _svg(figure) for name, figure in figures.items() if figure is not None}


def draw_task(name: str) -> str:
    """Return trials of a task as SVG, without noise; of a task on tokens, one short sequence."""
    name = name.removeprefix("task.")
    return _svg(registry.tasks.load(name)(**SHORT_SEQUENCES.get(name, {})).figure())


def draw_comparison() -> str:
    """Return the comparison of planted systems by their dynamics as SVG."""
    groups = [kind for kind in DYNAMICS for _ in range(3)]
    systems = [planted_activity(kind, 6 + 3 * (n % 3), 6 + 3 * (n % 3), trials=100) for n, kind in enumerate(groups)]
    names = [f"{kind} {n % 3 + 1}" for n, kind in enumerate(groups)]
    return _svg(compare(systems, groups=groups, names=names, draws=0).figure())


def _svg(figure: Figure) -> str:
    """Return a figure with the placeholders of a page's colours replaced by those on white."""
    target = io.StringIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "docs"}):
        figure.savefig(
            target, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white", bbox_inches="tight"
        )
    text = target.getvalue()
    for name, code in COLOUR.items():
        text = text.replace(code, LIGHT.get(name, LIGHT["stable"]))
    return text


if __name__ == "__main__":
    main()
