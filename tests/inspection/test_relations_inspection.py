"""The page of a relational network, and the generalisation of runs."""

from html import unescape
from re import sub

import pytest
import torch

from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.inspection.generalisation import measure_generalisation
from mnemoscope.inspection.relations import OCCLUDED_PROBLEMS, PROBLEMS
from mnemoscope.lenses.relations import (
    Drift,
    Occlusion,
    Relations,
    measure_drift,
    measure_occlusion,
    record_relations,
)
from mnemoscope.relational import Scenes
from mnemoscope.training import build_model, load_model, train
from tests.slow import SLOW


def run_of(root, task, cell, steps=2, **options):
    config = RunConfig("lens", task, cell=cell, task_options=options, steps=steps, batch_size=8, evaluate_every=2,
                       evaluate_batches=1)  # fmt: skip
    return train(config, root, progress=False).folder


@SLOW
def test_measure_generalisation_evaluates_seen_and_unseen_shapes(tmp_path):
    runs = [run_of(tmp_path, "same-different", "corelnet", m=m) for m in (98, 0)]
    found = measure_generalisation(runs)
    assert found.chance == 0.5
    for run, network in zip(runs, found.runs, strict=True):
        model, task, config = load_model(run)
        for split, ours in (("validation", network.seen), ("test", network.unseen)):
            right = []
            for number in range(10):
                scenes = task.relational.batch(100, config.seed, number, split)
                right += (model.network(scenes.images, scenes.objects).argmax(1) == scenes.labels).tolist()
            assert ours == pytest.approx(sum(right) / 1000, abs=1e-6)  # means in float32
    assert [network.held_out for network in found.runs] == [98, 0]
    with pytest.raises(ValueError, match="one task, but are of same-different, comparison"):
        measure_generalisation([runs[0], run_of(tmp_path, "comparison", "corelnet")])
    with pytest.raises(ValueError, match="one task, but are of same-different, same-different spurious=colour"):
        measure_generalisation([runs[0], run_of(tmp_path, "same-different", "corelnet", spurious="colour", m=98)])
    written = [run_of(tmp_path, "same-different", "corelnet", steps=1, m=98, **options)
               for options in ({"spurious": "nothing"}, {"shape_seed": 1})]  # fmt: skip
    assert set(measure_generalisation(written).curves()) == {"corelnet"}  # explicit defaults change nothing
    assert set(measure_generalisation([runs[0], written[0]]).curves()) == {"corelnet steps=1", "corelnet steps=2"}
    with pytest.raises(ValueError, match="'relational-game', which holds no shapes out"):
        measure_generalisation([run_of(tmp_path, "relational-game", "corelnet")])


def text_of(page):
    return " ".join(unescape(sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


@SLOW
@pytest.mark.parametrize("cell", ["corelnet-sensory", pytest.param("lstm", marks=SLOW)])
def test_the_page_of_a_relational_run_shows_its_relations(tmp_path, cell):
    inspection = inspect_run(run_of(tmp_path, "same-different", cell), options=InspectionOptions(progress=False))
    page = inspection.save()
    html, text, found = page.read_text(encoding="utf-8"), text_of(page), inspection.relations
    compares = cell != "lstm"
    assert '<section id="relations"' in html
    assert '<section id="separation-of-objects"' in html
    assert ('<section id="what-the-decoder-reads"' in html) == compares
    assert found.drift.summary() in text
    assert "@misc{kerg2022," in html
    model, task, config = load_model(page.parent)
    unseen = task.relational.batch(PROBLEMS, config.seed, 0, "test")
    kept = Drift.load(page.with_name("page.drift.safetensors"))
    before = build_model(config, task)
    seen = task.relational.batch(PROBLEMS, config.seed, 0, "validation")
    expected = measure_drift(
        {"before training": before.network, "after training": model.network}, {"seen": seen, "unseen": unseen}
    )
    assert kept.networks == expected.networks
    assert torch.equal(kept.similarities, expected.similarities)
    if not compares:
        assert "it reads the objects in sequence" in text
        assert found.relations is None
        return
    kept = Relations.load(page.with_name("page.relations.safetensors"))
    assert torch.equal(kept.relations, record_relations(model.network, unseen).relations)
    assert found.relations.summary() in text
    for name in ("seen", "unseen"):
        kept = Occlusion.load(page.with_name(f"page.occlusion-{name}.safetensors"))
        assert kept.accuracy == found.occlusion[name].accuracy
        assert kept.summary() in text
    first = Scenes(unseen.images, unseen.objects[:OCCLUDED_PROBLEMS], unseen.labels[:OCCLUDED_PROBLEMS])
    assert torch.equal(
        kept.pairs.log_odds.nan_to_num(), measure_occlusion(model.network, first).pairs.log_odds.nan_to_num()
    )
