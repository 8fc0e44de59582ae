"""The notebooks of the gallery: executed, in normal form, with a question, an answer and a picture; on the page."""

import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import nbformat
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image
from tools import gallery

from mnemoscope.drawing.axes import new_figure
from tests.slow import SLOW

ROOT = Path(__file__).parent.parent
NOTEBOOKS = gallery.notebooks()
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@each_notebook
def test_a_notebook_is_valid_and_in_normal_form(path):
    notebook = gallery.read(path)
    nbformat.validate(notebook)
    assert gallery.text(gallery.normal_form(notebook)) == path.read_text(encoding="utf-8")
    assert path.stat().st_size < 300_000


@each_notebook
def test_a_notebook_was_executed_in_order_without_errors_and_warnings(path):
    cells = code_cells(gallery.read(path))
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]


@each_notebook
def test_a_notebook_begins_with_a_question_and_ends_with_a_picture_and_an_answer(path):
    entry = gallery.entry(path)
    last = code_cells(gallery.read(path))[-1]
    assert [*gallery.pictures(nbformat.from_dict({"cells": [last]}))][-1] == entry.picture
    assert len(entry.answer.split(". ")) == 1
    assert 8 < len(entry.answer.split()) < 60


@each_notebook
def test_the_numbers_in_the_text_of_a_notebook_are_in_its_code_or_its_results(path):
    notebook = gallery.read(path)
    shown = {*NUMBER.findall("\n".join([*gallery.printed(notebook), *(cell.source for cell in code_cells(notebook))]))}
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    prose = re.sub(r"\[[^\]]*\]\([^)]*\)", " ", prose)  # cited works and their years
    assert {*NUMBER.findall(prose)} - shown == set()


@each_notebook
def test_a_notebook_contains_no_path_of_a_machine(path):
    text = "\n".join([*gallery.printed(gallery.read(path)), *(cell.source for cell in gallery.read(path).cells)])
    assert not re.findall(r"(?<![\w.:/])(?:/(?:home|root|tmp|Users|work|usr|var|opt)/|[A-Z]:\\)\S*", text)


@each_notebook
def test_a_thumbnail_shows_the_last_picture(path):
    entry = gallery.entry(path)
    assert entry.thumbnail.stat().st_size < 30_000
    stored, drawn = (
        np.asarray(Image.open(BytesIO(data)).convert("RGB"), dtype=float)
        for data in (entry.thumbnail.read_bytes(), gallery.thumbnail(entry.picture))
    )
    assert stored.shape == drawn.shape
    assert np.abs(stored - drawn).mean() < 1


def test_the_gallery_page_shows_every_notebook_and_no_other_thumbnail():
    entries = [gallery.entry(path) for path in NOTEBOOKS]
    assert (gallery.GALLERY / "index.md").read_text(encoding="utf-8") == gallery.page(entries)
    assert sorted((gallery.GALLERY / "thumbnails").iterdir()) == sorted(entry.thumbnail for entry in entries)


@SLOW
@each_notebook
def test_a_notebook_runs_in_time_and_prints_the_same(path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gallery.py"), "--check", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the tool ---------------------------------------------------------------------------------------------------------


def toy(*cells):
    return nbformat.from_dict({"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def code(*outputs):
    metadata = {"execution": {"iopub.execute_input": "2026-01-01T00:00:00Z"}, "id": "b2"}
    return {"cell_type": "code", "metadata": metadata, "source": "1\n", "execution_count": 1,
            "outputs": [*outputs]}  # fmt: skip


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def test_the_normal_form_has_no_ids_times_and_bars_and_one_output_per_stream():
    bar = [stream("\r50%|█ | 1/2 [00:00<00:00]", "stderr"), stream("\r100%|██| 2/2 [00:01<00:00]\n", "stderr")]
    widget = {"output_type": "display_data", "metadata": {}, "data": {gallery.WIDGET: {"model_id": "b2"}}}
    first = gallery.normal_form(toy(code(stream("a\n"), *bar, widget, stream("b\n"))))
    assert gallery.text(first) == gallery.text(gallery.normal_form(toy(code(stream("a\nb\n")))))
    assert first.cells[0].outputs == [stream("a\nb\n")]
    assert not re.search(r"b2|2026|%", gallery.text(first))
    warned = gallery.normal_form(toy(code(*bar, stream("careful\n", "stderr"))))
    assert warned.cells[0].outputs == [stream("careful\n", "stderr")]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("27 fixed points", "27 fixed points", True),
        ("27 fixed points", "26 fixed points", False),
        ("loss 0.0240", "loss 0.0241", True),
        ("loss 0.0240", "loss 0.0340", False),
        ("loss 0.02", "lost 0.02", False),
        ("q at most 1.6e-32", "q at most 3.6e-30", True),
        ("1,024 starts", "1,025 starts", False),
        ("drift -0.50", "drift 0.50", False),
    ],
)
def test_printed_lines_are_compared_by_words_integers_and_decimals(before, after, same):
    assert (gallery.changes([before], [after]) == []) == same


def test_a_missing_line_is_a_change():
    assert gallery.changes(["a", "b"], ["a"]) == ["2 printed lines are stored, and 1 were printed now."]


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        ([markdown("# Title"), markdown("**Answer.** Yes.")], "first cell"),
        ([markdown("# Title\n\n**Question.** Why?"), markdown("Yes.")], "last cell"),
        ([markdown("# Title\n\n**Question.** Why?"), markdown("**Answer.** Yes.")], "no picture"),
    ],
)
def test_an_entry_names_what_its_notebook_lacks(cells, missing, tmp_path):
    path = tmp_path / "toy.ipynb"
    path.write_text(gallery.text(toy(*cells)))
    with pytest.raises(ValueError, match=missing):
        gallery.entry(path)


def test_a_figure_is_displayed_as_the_value_of_a_cell_without_pyplot():
    data, _ = DisplayFormatter().format(new_figure(1, 1))
    assert {*data} == {"text/plain", "image/png"}
    assert data["image/png"].startswith(b"\x89PNG")
