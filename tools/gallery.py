"""Execute the notebooks of the gallery, and write them, their thumbnails and the gallery page.

    python tools/gallery.py                       all notebooks
    python tools/gallery.py docs/gallery/01_*     these notebooks
    python tools/gallery.py --page                only the thumbnails and the page, from the outputs as stored
    python tools/gallery.py --check               execute, write nothing, and fail if printed results have changed

A notebook is written in a normal form, so that an execution without changes leaves no difference. It runs in an empty
folder with one thread. Its first cell is a title and a line `**Question.** ...?`, its last cell a line
`**Answer.** ...`, and its last picture becomes the thumbnail. `make docs` turns each notebook into a page of the site.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from PIL import Image

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"
LIMIT = 180
"""CPU seconds that a notebook may take; seconds of wall time would depend on what else the machine does."""
THUMBNAIL_SIZE = (360, 240)
"""Largest width and height of a thumbnail, in pixels."""
TOLERANCE = 0.05
"""Largest relative change of a printed decimal number. Other machines round differently, and training amplifies it."""
ROUNDING = 1e-9
"""Decimal numbers below this are rounding errors, which are not compared."""
BAR = re.compile(r"\[\d\d:\d\d[<,]")
"""Part of every progress bar of tqdm."""
WIDGET = "application/vnd.jupyter.widget-view+json"
"""Type of the bars of ipywidgets."""
EMBEDDED_PNG = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
PAGE_HEAD = """# Gallery

Each notebook asks one question, trains its network in less than three minutes on two cores, and ends with an answer and
a picture. Run one with `pip install 'mnemoscope[report]' jupyterlab`, or execute all with `python tools/gallery.py`,
which writes this page.

| notebook | question and answer |
|---|---|
"""


@dataclass(frozen=True)
class Entry:
    """A notebook as the gallery page shows it."""

    path: Path
    title: str
    question: str
    answer: str
    picture: bytes
    """Last picture of the notebook, as PNG."""

    @property
    def thumbnail(self) -> Path:
        """Path of the thumbnail."""
        return self.path.parent / "thumbnails" / f"{self.path.stem}.png"


def notebooks(folder: Path = GALLERY) -> list[Path]:
    """Return the notebooks of a folder in the order of their numbers."""
    return sorted(folder.glob("*.ipynb"))


def read(path: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)


def execute(path: Path) -> Any:
    """Execute a notebook in an empty folder and return it in normal form; raise if a cell fails."""
    from nbclient import NotebookClient
    from traitlets.config import Config

    notebook = read(path)
    os.environ.update(OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join([str(ROOT / "src"), *sys.path[1:]]))
    with TemporaryDirectory() as folder, TemporaryDirectory() as sockets:
        place = {"metadata": {"path": folder}}
        # files instead of ports, to which other users could listen
        config = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        NotebookClient(notebook, timeout=10 * LIMIT, kernel_name="python3", resources=place, config=config).execute()
    return normal_form(notebook)


def normal_form(notebook: Any) -> Any:
    """Remove what differs between two executions: ids, times, versions and progress bars."""
    cells = []
    for cell in notebook.cells:
        kept = {"cell_type": cell.cell_type, "metadata": {}, "source": cell.source.strip()}
        if cell.cell_type == "code":
            kept |= {"execution_count": cell.execution_count, "outputs": _joined(cell.outputs)}
        cells.append(kept)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.from_dict({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4})


def _joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs of a cell without progress bars, and what it printed as one output per stream."""
    printed = {output.name: "" for output in outputs if output.output_type == "stream"}
    kept: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            printed[output.name] += output.text
        elif WIDGET not in output.get("data", ()):
            kept.append(_with_small_pictures(output) if "data" in output else {**output})
    lines = {name: _without_bars(text) for name, text in printed.items()}
    return [{"output_type": "stream", "name": name, "text": text} for name, text in lines.items() if text] + kept


def _without_bars(printed: str) -> str:
    """Return printed text as a terminal shows it, where a carriage return starts a line anew, without progress bars."""
    lines = [line.rpartition("\r")[2] if "\r" in line else line for line in printed.split("\n")]
    shown = "\n".join(line for line in lines if not BAR.search(line))
    return shown if shown.strip() else ""


def _with_small_pictures(output: Any) -> dict[str, Any]:
    """Return a displayed output with its pictures in 256 colours, which halves its size at least."""
    data = dict(output.data)
    if "image/png" in data:
        data["image/png"] = _few_colours(data["image/png"])
    if "text/html" in data:
        data["text/html"] = EMBEDDED_PNG.sub(
            lambda match: match[0].replace(match[1], _few_colours(match[1])), data["text/html"]
        )
    return {**output, "data": data, "metadata": {}}


def _few_colours(encoded: str) -> str:
    image = Image.open(BytesIO(base64.b64decode(encoded)))
    return encoded.strip() if image.mode == "P" else base64.b64encode(_png(image, 256)).decode()


def _png(image: Image.Image, colours: int) -> bytes:
    file = BytesIO()
    method = Image.Quantize.MAXCOVERAGE  # keeps the colours of thin lines apart, which are few pixels
    few = image.convert("RGB").quantize(colours, method, dither=Image.Dither.NONE)
    few.save(file, format="PNG", optimize=True)
    return file.getvalue()


def text(notebook: Any) -> str:
    """Return a notebook as the text of its file."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def pictures(notebook: Any) -> Iterator[bytes]:
    """Yield the pictures in the outputs of a notebook, as PNG."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            embedded = EMBEDDED_PNG.findall(data.get("text/html", ""))
            for encoded in [*embedded, *([data["image/png"]] if "image/png" in data else [])]:
                yield base64.b64decode(encoded)


def printed(notebook: Any) -> list[str]:
    """Return the lines of text in the outputs of a notebook: printed text, and the words of displayed results."""
    lines: list[str] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            shown = output.get("text", "") or re.sub(r"<[^>]*>", " ", data.get("text/html", ""))
            if not data.get("text/html") and "image/png" not in data:  # the text of a figure is only its size
                shown += data.get("text/plain", "")
            lines += shown.splitlines()
    return [line.strip() for line in lines if line.strip()]


def entry(path: Path) -> Entry:
    """Return title, question, answer and picture of an executed notebook; raise if one is missing."""
    notebook = read(path)
    first, last = notebook.cells[0], notebook.cells[-1]
    begin = re.match(r"# (?P<title>.+)\n\n\*\*Question\.\*\* (?P<question>.+\?)$", first.source, re.MULTILINE)
    end = re.match(r"\*\*Answer\.\*\* (?P<answer>.+\.)$", last.source, re.MULTILINE)
    if first.cell_type != "markdown" or begin is None:
        raise ValueError(f"{path}: the first cell must be a title and one line `**Question.** ...?`.")
    if last.cell_type != "markdown" or end is None:
        raise ValueError(f"{path}: the last cell must begin with one line `**Answer.** ...`.")
    shown = [*pictures(notebook)]
    if not shown:
        raise ValueError(f"{path} has no picture: execute it with `python tools/gallery.py {path}`.")
    return Entry(path, begin["title"], begin["question"], end["answer"], shown[-1])


def thumbnail(picture: bytes) -> bytes:
    """Return a picture as a small PNG."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.thumbnail(THUMBNAIL_SIZE, Image.Resampling.LANCZOS)
    return _png(image, 256)


def page(entries: list[Entry]) -> str:
    """Return the gallery page: a row for each notebook, with thumbnail, question and answer."""
    rows = []
    for each in entries:
        link, image = each.path.name, f"thumbnails/{each.thumbnail.name}"
        words = f"**[{each.title}]({link})**<br>{each.question}<br><br>{each.answer}"
        rows.append(f"| [![{each.title}]({image})]({link}) | {words} |\n")
    return PAGE_HEAD + "".join(rows)


def write_page() -> None:
    """Write the thumbnails and the gallery page from the notebooks as stored."""
    entries = [entry(path) for path in notebooks()]
    for each in entries:
        each.thumbnail.parent.mkdir(exist_ok=True)
        each.thumbnail.write_bytes(thumbnail(each.picture))
    (GALLERY / "index.md").write_text(page(entries), encoding="utf-8")


def changes(before: list[str], after: list[str]) -> list[str]:
    """Return the lines that differ in a word, in an integer, or in a decimal number by more than `TOLERANCE`."""
    if len(before) != len(after):
        return [f"{len(before)} printed lines are stored, and {len(after)} were printed now."]
    return [f"stored: {old}\nnow:    {new}" for old, new in zip(before, after, strict=True) if not _alike(old, new)]


_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def _alike(old: str, new: str) -> bool:
    if _NUMBER.sub("0", old) != _NUMBER.sub("0", new):
        return False
    for first, second in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        if first == second:
            continue
        if "." not in first and "e" not in first:
            return False
        a, b = (float(text.replace("−", "-").replace(",", "")) for text in (first, second))
        if abs(a - b) > max(TOLERANCE * abs(a), ROUNDING):
            return False
    return True


def main() -> int:
    """Execute notebooks, and write or compare them; return 1 if --check finds a change."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("notebooks", nargs="*", type=Path, help="the notebooks to execute (default: all)")
    parser.add_argument("--page", action="store_true", help="execute nothing; write thumbnails and page")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the printed results have changed")
    asked = parser.parse_args()
    changed = False
    for path in [] if asked.page else asked.notebooks or notebooks():
        begin = _kernel_seconds()
        notebook = execute(path)
        seconds = _kernel_seconds() - begin
        print(f"{path.name}: {seconds:.0f} s", flush=True)
        if not asked.check:
            path.write_text(text(notebook), encoding="utf-8")
            continue
        for change in changes(printed(read(path)), printed(notebook)):
            changed = True
            print(change)
        if seconds > LIMIT:
            changed = True
            print(f"A notebook may take {LIMIT} s.")
    if not asked.check:
        write_page()
    return int(changed)


def _kernel_seconds() -> float:
    """Return the CPU seconds of the kernels that have ended."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    sys.exit(main())
