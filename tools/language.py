"""Check the language of docstrings, comments, Markdown and notebooks against a list of phrases that read oddly.

    python tools/language.py                 every hit in the repository, and the counts
    python tools/language.py --check         fail if a count exceeds the one committed in language.toml
    python tools/language.py src/mnemoscope/cells docs/memory.md    only these

The list is in `language.toml`, with the number of hits that are still allowed. Lower these numbers as they fall.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
CODE = re.compile(r"```.*?```|`[^`\n]*`|^\s*(>>>|\.\.\.).*$", re.DOTALL | re.MULTILINE)
"""Code inside prose, which is not language."""


class Passage(NamedTuple):
    """A piece of prose and where it stands."""

    kind: str
    """"docstring", "comment" or "markdown"."""
    path: Path
    line: int
    text: str


def docstrings(path: Path, tree: ast.AST) -> Iterator[Passage]:
    """Yield the docstrings of a module: of itself, its classes and functions, and below constants and fields."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield Passage("docstring", path, statement.lineno, statement.value.value)


def comments(path: Path, source: str) -> Iterator[Passage]:
    """Yield the comments of a module, consecutive lines joined."""
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(noqa|pyright|fmt|type):", token.string):
            if block and token.start[0] != block[-1][0] + 1:
                yield Passage("comment", path, block[0][0], " ".join(text for _, text in block))
                block = []
            block.append((token.start[0], token.string.lstrip("# ")))
    if block:
        yield Passage("comment", path, block[0][0], " ".join(text for _, text in block))


def passages(path: Path) -> Iterator[Passage]:
    """Yield all prose of a Python file, a Markdown file or a notebook."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        yield from _prose_of_notebook(path, json.loads(source))
        return
    if path.suffix == ".py":
        yield from docstrings(path, ast.parse(source))
        yield from comments(path, source)
        return
    yield from paragraphs(path, source)


def paragraphs(path: Path, source: str) -> Iterator[Passage]:
    """Yield the paragraphs of Markdown without its code."""
    line = 1
    for paragraph in re.split(
        r"(\n\s*\n)", re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), source, flags=re.DOTALL)
    ):
        if paragraph.strip():
            yield Passage("markdown", path, line, paragraph)
        line += paragraph.count("\n")


def _prose_of_notebook(path: Path, notebook: dict[str, Any]) -> Iterator[Passage]:
    """Yield the prose of the cells; the line is the number of the cell."""
    for number, cell in enumerate(notebook["cells"], 1):
        read = paragraphs if cell["cell_type"] == "markdown" else comments
        yield from (passage._replace(line=number) for passage in read(path, "".join(cell["source"])))


def python_and_markdown(paths: list[Path]) -> Iterator[Path]:
    """Yield the files to check, below folders or as given."""
    for path in paths:
        below = (sorted(path.rglob(f"*.{suffix}")) for suffix in ("py", "md", "ipynb"))
        found = [path] if path.is_file() else [each for files in below for each in files]
        yield from (
            each for each in found if not {".venv", "build", "runs", "results"} & {*each.relative_to(ROOT).parts}
        )


def main() -> int:
    """Print the hits and the counts; return 1 if --check finds more than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="print only what exceeds the allowed counts")
    asked = parser.parse_args()
    settings = tomllib.loads((HERE / "language.toml").read_text(encoding="utf-8"))
    odd = [(phrase, re.compile(phrase, re.IGNORECASE)) for phrase in settings["phrases"]]
    odd_starts = [(phrase, re.compile(phrase)) for phrase in settings["starts"]]
    default = [ROOT / name for name in ("src", "tests", "benchmarks", "tools", "docs", ".github")]
    default += [path for path in sorted(ROOT.glob("*.md")) if path.name != "SCOREBOARD.md"]  # names of claims
    paths = [path.resolve() for path in asked.paths] or [path for path in default if path.exists()]
    hits, totals = Counter[str](), Counter[str]()
    for path in python_and_markdown(paths):
        for passage in passages(path):
            totals[passage.kind] += 1
            text = CODE.sub(" ", passage.text).strip()
            matches = [phrase.search(text) for _, phrase in odd]
            matches += [phrase.match(text) for _, phrase in odd_starts] if passage.kind != "markdown" else []
            words = sorted({match[0] for match in matches if match})
            if words:
                hits[passage.kind] += 1
                if not asked.check:
                    first = " ".join(text.split())[:110]
                    print(f"{path.relative_to(ROOT)}:{passage.line}: {', '.join(map(repr, words))}: {first}")
    for kind, total in totals.items():
        print(f"{hits[kind]} of {total} {kind} passages ({hits[kind] / total:.1%}) have an odd phrase.")
    if not asked.check:
        return 0
    too_many = [kind for kind in totals if hits[kind] > settings["allowed"][kind]]
    for kind in too_many:
        print(f"At most {settings['allowed'][kind]} are allowed for {kind}: `python tools/language.py` lists them all.")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
