"""Pages of networks that attend to their past."""

import json
from html import unescape
from re import sub

import pytest
import torch

from mnemoscope.cells import GRU, Elman
from mnemoscope.cli.entry_point import main
from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Dense
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.inspection.attention import SEQUENCES, why_no_fixed_points
from mnemoscope.lenses.attention import Attention, record_attention
from mnemoscope.lenses.gradients import GradientNorms, gradient_norms
from mnemoscope.memory.attention import Attentive, FullHistory, RelevanceScreen, SparseBacktracking
from mnemoscope.training import build_model, load_model, train
from tests.slow import representatives


def run_of(folder, cell, **options):
    config = RunConfig("tiny", "copy", {"delay": 6, "symbols": 3}, cell, hidden_size=6, steps=3, batch_size=4,
                       cell_options=options, evaluate_every=1, evaluate_batches=1)  # fmt: skip
    return train(config, folder, progress=False).folder


def text_of(page):
    return " ".join(unescape(sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


@pytest.mark.usefixtures("undrawn")
@representatives("relrnn-options0")
@pytest.mark.parametrize(("cell", "options"), [("relrnn", {"short_term": 2, "relevant": 3}), ("memrnn", {})])
def test_the_page_shows_attention_and_kept_states(tmp_path, cell, options):
    folder = run_of(tmp_path, cell, **options)
    inspection = inspect_run(folder, options=InspectionOptions(progress=False))
    page = inspection.save()
    assert inspection.fixed_points is None
    html, text = page.read_text(encoding="utf-8"), text_of(page)
    assert html.count('<section id="attention"') == 1
    assert ("has no fixed points" in text) == (cell == "memrnn")
    assert ("are never isolated" in text) == (cell == "relrnn")
    assert ("Relevant states held at the end" in text) == (cell == "relrnn")
    assert "Before training: the gradient " in text
    assert "κ = " in text
    assert "state-space" not in html
    assert "@inproceedings{kerg2020," in html
    model, task, config = load_model(folder)
    batch = task.batch(SEQUENCES, config.seed, 0, "test")
    kept = Attention.load(page.with_name("page.attention.safetensors"))
    assert torch.equal(kept.weights, record_attention(model.cell, batch.inputs).weights)
    assert kept.summary() in text
    norms = GradientNorms.load(page.with_name("page.gradients.safetensors"))
    assert norms.names == ("before training", "after training")
    for number, network in enumerate((build_model(config, task).double(), model.double())):
        found = gradient_norms(
            network.cell,
            batch.inputs.double(),
            lambda outputs, network=network: task.loss(network.readout(outputs), batch),
        ).norms[0]
        assert torch.allclose(norms.norms[number], found, rtol=1e-12)


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_sparse_backtracking_shows_gradients(tmp_path):
    inspection = inspect_run(run_of(tmp_path, "sab", attend_every=3), options=InspectionOptions(progress=False))
    page = inspection.save()
    text = text_of(page)
    assert "has no fixed points" in text
    assert "is not recorded" in text
    assert inspection.attention.attention is None
    assert inspection.attention.gradients.summary() in text
    assert not page.with_name("page.attention.safetensors").exists()


@pytest.mark.usefixtures("undrawn")
def test_inspect_prints_the_attention(tmp_path, capsys):
    folder = run_of(tmp_path, "relrnn")
    assert main(["inspect", str(folder), "--output", str(tmp_path / "other" / "page.html")]) == 0
    output = capsys.readouterr().out
    assert "A step attends" in output
    assert "After training: the gradient " in output
    assert (tmp_path / "other" / "page.attention.safetensors").exists()
    assert main(["inspect", str(folder), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert set(content) == {"network", "summary", "page"}
    assert main(["inspect", str(folder), "--input", *"0" * 10]) == 2
    assert "A constant input is for fixed points" in capsys.readouterr().err
    assert main(["inspect", str(folder), "--certify"]) == 2
    assert "A certificate is for fixed points" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_transformer_shows_its_task_and_no_fixed_points(tmp_path):
    folder = run_of(tmp_path, "causal-transformer", depth=1, heads=1)
    inspection = inspect_run(folder, options=InspectionOptions(progress=False))
    assert "its state grows" in text_of(inspection.save())
    assert inspection.fixed_points is None


def test_only_networks_that_attend_have_no_search_for_fixed_points():
    assert why_no_fixed_points(GRU(2, 3)) is None
    for past in (FullHistory(), SparseBacktracking()):
        assert "grows" in why_no_fixed_points(Attentive(Elman(2, 3), past))


def test_fixed_points_of_a_screen_are_not_isolated():
    """The relevant set stays the same with larger scores, and with other states in it."""
    torch.manual_seed(0)
    cell = Attentive(Elman(2, 3, "tanh", Dense.from_matrix(torch.eye(3) / 4)), RelevanceScreen(2, 2)).double()
    assert "never isolated" in why_no_fixed_points(cell)
    x = torch.zeros(1, 2, dtype=torch.float64)
    with torch.no_grad():
        state = cell.initial_state(1)
        for _ in range(120):
            state = cell(x, state)
        score = state.score.clone()
        score[:, 2:] += 1.0
        other = state._replace(score=score)
        for place in (state, other):
            for new, old in zip(cell(x, place), place, strict=True):
                assert torch.allclose(new, old, rtol=0, atol=1e-12)
        row = cell.alignment.row(torch.tensor([[0.9, -0.9, 0.5]], dtype=torch.float64))
        moved = other._replace(rows=torch.cat([other.rows[:, :3], row.unsqueeze(1)], dim=1))
        for _ in range(120):
            moved = cell(x, moved)
        assert torch.equal(moved.rows[:, 3], row)
        assert not torch.allclose(moved.s, state.s, atol=1e-3)
        assert torch.allclose(cell(x, moved).s, moved.s, rtol=0, atol=1e-12)
