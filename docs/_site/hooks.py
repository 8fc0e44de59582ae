"""What mkdocs calls: generated pages join the written ones, and links that hold in the repository hold in the site.

The site has the folders of the repository: `docs/limits.md` is `limits.md` there, README.md its first page, and results
and benchmarks lie where links to them say.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent.parent
BESIDE = ("SCOREBOARD.md", "LICENSE", "results/*.json", "benchmarks/results/*", "benchmarks/*.py")
"""What is shown or linked to, and does not lie in docs."""

SHOWN = {
    "results": "docs/studies.md",
    "src/mnemoscope/registry/cell_entries.py": "docs/cells.md",
    "src/mnemoscope/registry/task_entries.py": "docs/tasks.md",
    "src/mnemoscope/registry/lens_entries.py": "docs/lenses.md",
    "src/mnemoscope/registry/study_entries.py": "docs/studies.md",
}
"""What a link to a file or folder of the repository leads to here: what was made from it."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page, what lies beside docs, and the generated pages."""
    sys.path.insert(0, str(Path(__file__).parent))
    from generated import pages  # pyright: ignore[reportMissingImports]

    added = {"index.md": (ROOT / "README.md").read_text(encoding="utf-8"), **pages(ROOT / "results")}
    for name, text in added.items():
        files.append(File.generated(config, name, content=text))
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they must be here; code is left alone."""
    at = in_repository(page.file.src_uri)
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if number % 2 else _relinked(part, at) for number, part in enumerate(parts))


def in_repository(place: str) -> str:
    """Where a page of the site lies in the repository."""
    if place == "index.md":
        return "README.md"
    return place if (ROOT / place).exists() else f"docs/{place}"


def in_site(place: str) -> str:
    """The other way round."""
    if place == "README.md":
        return "index.md"
    return place.removeprefix("docs/")


def _relinked(text: str, at: str) -> str:
    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[1].partition("#")
        if not target or ":" in target:
            return match[0]
        found = normpath(str(PurePosixPath(at).parent / target))
        found = SHOWN.get(found, found)
        return f"]({relpath(in_site(found), PurePosixPath(in_site(at)).parent)}{mark}{anchor})"

    return re.sub(r"\]\(([^)\s]+)\)", link, text)
