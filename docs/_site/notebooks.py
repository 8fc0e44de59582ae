"""The notebooks of the gallery as pages of the site: Markdown, and their pictures as files."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

EMBEDDED_PNG = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")


def notebook_pages(folder: Path) -> dict[str, str | bytes]:
    """Return the pages and pictures of all notebooks of a folder, by path in the site."""
    found: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        found |= notebook_page(path.stem, json.loads(path.read_text(encoding="utf-8")))
    return found


def notebook_page(name: str, notebook: dict[str, Any]) -> dict[str, str | bytes]:
    """Return the page of a notebook and its pictures, by path in the site."""
    pictures: dict[str, bytes] = {}

    def stored(encoded: str) -> str:
        """Keep a picture, and return its path relative to the page."""
        path = f"{name}/{len(pictures) + 1}.png"
        pictures[f"gallery/{path}"] = base64.b64decode(encoded)
        return path

    def shown(output: dict[str, Any]) -> str:
        """Return an output as Markdown or HTML."""
        if output["output_type"] == "stream":
            return f"```text\n{''.join(output['text']).rstrip()}\n```"
        data = {kind: "".join(text) for kind, text in output["data"].items()}
        if "text/html" in data:
            html = EMBEDDED_PNG.sub(lambda match: stored(match[1]), data["text/html"])
            return f'<div class="notebook-result">{html}</div>'
        if "image/png" in data:
            return f'<img alt="Figure of the code above" src="{stored(data["image/png"])}">'
        return f"```text\n{data['text/plain'].rstrip()}\n```"

    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(shown, cell["outputs"])]
    link = f'<a href="{name}.ipynb" download>Download this page as a notebook</a>'
    return {f"gallery/{name}.md": "\n\n".join([*parts, link]) + "\n", **pictures}
