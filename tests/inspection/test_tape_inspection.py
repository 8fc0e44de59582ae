"""The pages of Turing machines."""

import json
from html import unescape
from re import sub

import pytest
import torch

from mnemoscope.cli.entry_point import main
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.lenses.tape import Tape, record_tape
from mnemoscope.training import load_model, train
from tests.slow import SLOW


def run_of(folder, task, cell, hidden_size=4, **options):
    shape = {"rows": 3, "columns": 2} if task == "matrix-copy" else {"bits": 3}
    config = RunConfig("tiny", task, {**shape, "longest": 3}, cell, options, hidden_size, steps=2, batch_size=4,
                       evaluate_every=1, evaluate_batches=1)  # fmt: skip
    return train(config, folder, progress=False).folder


def text_of(page):
    return " ".join(unescape(sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


@SLOW
def test_the_page_of_a_small_machine_shows_tape_and_fixed_points(tmp_path):
    folder = run_of(tmp_path, "matrix-copy", "matntm", slots=4, slot_rows=2, slot_columns=2, layers=1)
    inspection = inspect_run(folder, options=InspectionOptions(starts=4, progress=False))
    page = inspection.save()
    html, text = page.read_text(encoding="utf-8"), text_of(page)
    assert html.count('<section id="the-tape"') == 1
    assert len(inspection.fixed_points)
    assert page.with_name("page.fixed_points.safetensors").exists()
    assert "tiny: matntm with 4 x 4 units" in text
    assert inspection.tape.tape.summary() in text
    assert "Before training: the gradient " in text
    assert "by the parts of the state" in text
    assert "@misc{graves2014," in html
    model, task, config = load_model(folder)
    batch = inspection.tape.batch
    assert len(batch.mask) == max(len(task.batch(8, config.seed, number, "test").mask) for number in range(8))
    kept = Tape.load(page.with_name("page.tape.safetensors"))
    assert torch.equal(kept.memory, record_tape(model, batch.inputs).memory)
    parts = GradientNorms.load(page.with_name("page.parts.safetensors"))
    norms = GradientNorms.load(page.with_name("page.gradients.safetensors"))
    torch.testing.assert_close(parts.norms.square().sum(0).sqrt(), norms.norms[1])


@pytest.mark.usefixtures("undrawn")
@SLOW
def test_the_page_of_a_large_machine_shows_fixed_points_with_equal_slots(tmp_path, capsys):
    folder = run_of(tmp_path, "bit-copy", "ntm", slots=40, slot_size=5)
    assert main(["inspect", str(folder)]) == 0
    output = capsys.readouterr().out
    size = 2 * 4 + 40 * 5 + 2 * 40 + 5
    words = f"1 fixed point with equal slots was found in a state of {size} numbers; it is "
    for where in (output, text_of(folder / "page.html")):
        assert words in where
        assert "Fixed points with unequal slots were not searched for." in where
        assert "on 40 slots" in where
    assert "tiny: ntm with 4 units" in text_of(folder / "page.html")
    assert '<section id="fixed-points-on-a-uniform-tape"' in (folder / "page.html").read_text(encoding="utf-8")
    assert (folder / "page.tape.safetensors").exists()
    assert main(["inspect", str(folder), "--input", *"0100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["uniform_fixed_points"] == 1
    assert "Constant input 0, 1, 0, 0" in text_of(folder / "page.html")
