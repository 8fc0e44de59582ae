"""The page of a run that was trained on a word problem."""

from html import unescape

import pytest

from mnemoscope.cells import Elman, Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.inspection.tracking import TIMES, inspect_tracking, tracking_section
from mnemoscope.lenses import StateTracking
from mnemoscope.tasks import WordProblem
from mnemoscope.training import train
from tests.slow import SLOW


@pytest.mark.usefixtures("undrawn")
def test_the_section_has_the_summary_and_lengths_beyond_training():
    task = WordProblem("Z2", length=2, probabilities="0.7 0.3")
    tracking = inspect_tracking(Model(Elman(3, 2), 2), task, seed=0)
    assert int(tracking.lengths[-1]) == 2 * TIMES
    section = tracking_section(tracking)
    assert section.title == "State tracking"
    assert section.lead == tracking.summary()


@SLOW
def test_the_page_of_a_word_problem_shows_state_tracking(tmp_path):
    config = RunConfig("tiny", "word-problem", {"length": 4}, "deltanet", {"beta_max": 2.0}, 2, steps=2, batch_size=4,
                       evaluate_every=1, evaluate_batches=1)  # fmt: skip
    folder = train(config, tmp_path, progress=False).folder
    page = inspect_run(folder, options=InspectionOptions(starts=4, progress=False)).save()
    kept = StateTracking.load(page.with_name("page.state_tracking.safetensors"))
    assert kept.method == "moments"
    assert kept.summary()[:60] in unescape(page.read_text(encoding="utf-8"))
