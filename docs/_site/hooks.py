"""Hooks of mkdocs: they add generated pages, and translate links of the repository into links of the site.

The site has the folders of the repository: `docs/limits.md` becomes `limits.md`, README.md becomes the first page, and
results and benchmarks keep their paths.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
EXTRA_FILES = (
    "SCOREBOARD.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "LICENSE",
    "results/*.json",
    "results/RUNS.md",
    "results/run_list.toml",
    "results/arena/*.json",
    "benchmarks/results/*",
    "benchmarks/*.py",
)
"""Files outside docs that the site shows or links to, as patterns."""

ARENA_PAGE = "memory-arena.html"
"""Name of the page of the memory arena, in the site."""
GENERATED_FROM = {
    "results": "docs/studies.md",
    "src/mnemoscope/registry/cell_entries.py": "docs/cells.md",
    "src/mnemoscope/registry/network_entries.py": "docs/cells.md",
    "src/mnemoscope/registry/part_entries.py": "docs/cells.md",
    "src/mnemoscope/registry/task_entries.py": "docs/tasks.md",
    "src/mnemoscope/registry/lens_entries.py": "docs/which-lens.md",
    "src/mnemoscope/registry/study_entries.py": "docs/studies.md",
}
"""Files and folders of the repository, and the pages generated from them. Links to the former lead to the latter."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of the reference into the navigation, in place of its index."""
    sys.path.insert(0, str(Path(__file__).parent))  # mkdocs restores the path after it has imported the hooks
    from reference import navigation  # pyright: ignore[reportMissingImports]

    entries: list[dict[str, Any]] = config.nav or []
    config.nav = [{"Reference": navigation()} if "Reference" in entry else entry for entry in entries]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page, the generated pages, the notebooks as pages, and the files outside docs."""
    from generated import pages  # pyright: ignore[reportMissingImports]
    from notebooks import notebook_pages  # pyright: ignore[reportMissingImports]

    added = {"index.md": _first_page(), **pages(ROOT / "results")}
    for name, content in (added | notebook_pages(ROOT / "docs" / "gallery")).items():
        files.append(File.generated(config, name, content=content))
    for name, content in _arena_pages().items():
        files.append(File.generated(config, name, content=content))
    for pattern in EXTRA_FILES:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def _arena() -> Any:
    """Return the table of the memory arena."""
    from mnemoscope.arena.result import ArenaTable

    return ArenaTable.load(ROOT / "results" / "arena" / "memory.json")


def _arena_pages() -> dict[str, str | bytes]:
    """Return the page of the memory arena, with its fronts and learning curves, and the memory cards that it links.

    Cards are pages with their numbers; the figures for papers, which no page links, would take twice as long to draw.
    """
    from mnemoscope.arena.card.page import render_card
    from mnemoscope.arena.card_table import load_cards
    from mnemoscope.arena.page import card_folder, write_arena_page
    from mnemoscope.base.files import write_json

    table = _arena()
    with TemporaryDirectory() as folder:
        for task, cards in load_cards(ROOT / "results" / "arena" / "memory-cards", table.arena).items():
            for network, card in cards.items():
                place = card_folder(folder, network, task)
                place.mkdir(parents=True)
                (place / "card.html").write_text(render_card(card), encoding="utf-8")
                write_json(place / "card.json", card.to_dict())
        write_arena_page(Path(folder, ARENA_PAGE), table, None, f"mnemoscope arena memory --page {ARENA_PAGE}")
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _first_page() -> str:
    """Return the README, with the table of the memory arena and a link to its page below its picture."""
    from mnemoscope.arena.markdown import table_as_markdown

    before, mark, after = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- table of the arena -->")
    assert mark, "The README has no place for the table of the arena."
    more = f"[Intervals, parameters, times, fronts and learning curves, in tables that can be sorted]({ARENA_PAGE})."
    return f"{before}\n\n{table_as_markdown(_arena(), short=True)}\n\n{more}\n{after}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Translate the links of a page, except in code."""
    path = in_repository(page.file.src_uri)
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else _relinked(part, path) for number, part in enumerate(parts))


def in_repository(path: str) -> str:
    """Return the path in the repository of a page of the site."""
    if path == "index.md":
        return "README.md"
    return path if (ROOT / path).exists() else f"docs/{path}"


def in_site(path: str) -> str:
    """Return the path in the site of a file of the repository; a notebook leads to its page."""
    if path == "README.md":
        return "index.md"
    return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))


def _relinked(text: str, page: str) -> str:
    """Return Markdown of a page, given by its path in the repository, with links that are valid in the site."""

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[1].partition("#")
        if not target or ":" in target:
            return match[0]
        found = normpath(str(PurePosixPath(page).parent / target))
        found = GENERATED_FROM.get(found, found)
        return f"]({relpath(in_site(found), PurePosixPath(in_site(page)).parent)}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)
