"""The study of gradients with and without attention, and its parts."""

from math import log10

import pytest
import torch

from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import task_gradients
from mnemoscope.lenses.attention import record_attention
from mnemoscope.lenses.gradients import GradientNorms
from mnemoscope.replication import Finished
from mnemoscope.studies.kerg2022 import attention_gradients, screening_tradeoff
from mnemoscope.studies.kerg2022.attention_gradients import AFTER, BACK, bound_of, reach
from mnemoscope.training import build_model, build_task, load_model, train
from tests.slow import representatives

STUDY = attention_gradients.STUDY


def run_of(folder, cell, task="denoise", **changes):
    options = {"delay": 6, "symbols": 3}
    short = {"hidden_size": 6, "steps": 2, "batch_size": 4, "evaluate_every": 1, "evaluate_batches": 1}
    return train(RunConfig("tiny", task, options, cell, **short, **changes), folder, progress=False).folder


def slow_norms(model, task, batch):
    """Return |dL/dh_t| of the symbols' loss, one h at a time; without attention h is the whole state."""
    inputs, targets = batch.inputs.double(), batch.targets
    states = []
    for t in range(len(inputs)):
        state, outputs = model.cell.initial_state(inputs.shape[1]), []
        for now, x in enumerate(inputs):
            state = model.cell(x, state)
            if now == t:
                push = torch.zeros_like(state, requires_grad=True)
                state = state + push
            outputs.append(model.readout(state))
        due = targets != task.alphabet
        loss = torch.nn.functional.cross_entropy(torch.stack(outputs)[due], targets[due])
        states.append(torch.autograd.grad(loss, push)[0].norm(dim=1))
    return torch.stack(states)


def test_the_measured_gradient_is_that_of_the_symbols(tmp_path):
    folder = run_of(tmp_path, "rnn")
    found = STUDY.measure(folder)
    model, task, config = load_model(folder)
    batch = task.batch(attention_gradients.SEQUENCES, config.seed, 0, "validation")
    for place, network in enumerate((build_model(config, task).double(), model.double())):
        slow = slow_norms(network, task, batch)
        assert found["curves"][place] == pytest.approx(slow.mean(1).log10().tolist(), rel=1e-5)
        back = []
        for b in range(slow.shape[1]):
            symbols = [t for t in range(6) if batch.inputs[t, b, :8].any()]
            back.append(log10(float(slow[symbols[0], b] / slow[-1, b])))
        assert found["back"][place] == pytest.approx(sum(back) / len(back), rel=1e-5)
    assert "skips" not in found


@pytest.mark.parametrize("cell", ["memrnn", "relrnn", "sab"])
def test_the_bounds_are_those_of_the_recorded_attention(tmp_path, cell):
    folder = run_of(tmp_path, cell, "copy", embedding=4)
    found = STUDY.measure(folder)
    if cell == "sab":
        assert bound_of(found, "1/κᵈ") is None
        return
    model, task, config = load_model(folder)
    batch = task.batch(attention_gradients.SEQUENCES, config.seed, 0, "validation")
    with torch.no_grad():
        attention = record_attention(model.cell, model.encode(batch.inputs))
    dependencies = attention.dependencies()
    weights, kept, pairs = 0.0, 0, [(t, b) for t in range(3) for b in range(10)]  # the symbols come first
    for t, b in pairs:
        weights += float(attention.weights[-3:, t, b].mean()) * 3 / len(pairs)
        kept += bool(attention.chosen[-3, t, b])
    assert found["on symbols"] == pytest.approx(weights, rel=1e-5)
    assert found.get("kept") == (kept / len(pairs) if cell == "relrnn" else None)
    line = bound_of(found, "1/κᵈ")
    last = found["curves"][1][-1]
    for t in range(len(line)):
        bound = last - int(dependencies.skips[t].max()) * log10(dependencies.sparsity)
        assert float(line[t]) == pytest.approx(bound)
    uniform = bound_of(found, "1/T")
    assert (uniform is None) == (cell == "relrnn")
    if uniform is not None:
        assert uniform.tolist() == pytest.approx([last - log10(12)] * 12)


def finished(name, preset, back, seed=0, **result):
    trial = next(trial for trial in STUDY.trials(STUDY.presets[preset].settings, (seed,)) if trial.name == name)
    curve = {"step": [100.0], "accuracy": [0.5], "loss": [1.0]}
    learned = {"parameters": 7, "curve": curve, "accuracy": 0.5, "loss": 1.0, "steps": 100, "seconds": 1.0}
    gradients = {"curves": [[-3.0, -2.0], [back - 2.0, -2.0]], "back": [-1.0, back], "decay": [0.1, 0.1]}
    return Finished(trial, {**learned, **gradients, **result})


@representatives("lstm--1.0-differs", "rnn-5.0-matches")
@pytest.mark.parametrize(
    ("network", "back", "verdict"),
    [
        ("rnn", 5.0, "matches"),
        ("rnn", -5.0, "differs"),
        ("lstm", -5.0, "matches"),
        ("lstm", -1.0, "differs"),
        ("rellstm", 1.0, "matches"),
        ("rellstm", 4.0, "differs"),
        ("rnn-orth", 0.0, "not compared"),
    ],
)
def test_verdicts_follow_the_published_figure(network, back, verdict):
    trials = [finished(f"{network}, denoise", "published", back, seed, steps=200_000) for seed in (0, 1)]
    rows = {row.quantity: row for row in STUDY.summarise(trials)}
    row = rows[f"{network}, denoise: {AFTER}, {BACK}"]
    assert row.verdict == verdict
    assert [float(value) for value in row.ours.split(", ")] == [back, back]
    shorter = {row.quantity: row for row in STUDY.summarise([finished(f"{network}, denoise", "published", back)])}
    assert shorter[row.quantity].verdict == "not compared"
    smaller = {row.quantity: row for row in STUDY.summarise([finished(f"{network}, denoise", "cpu", back)])}
    assert smaller[row.quantity].verdict == "not compared"


def test_a_norm_below_the_bound_is_reported():
    for back, remark in ((0.0, "above the bound at every step"), (-1.5, "below the bound somewhere")):
        trial = finished("relrnn, copy", "cpu", back, kappa=10, skips=[1, 0], full=False)
        row = {row.quantity: row for row in STUDY.summarise([trial])}[
            f"relrnn, copy: {AFTER}, least decades above 1/κᵈ"
        ]
        assert row.remark == remark
        assert float(row.ours) == pytest.approx(back + 1.0)


def test_the_figure_has_a_panel_for_each_network_and_task():
    bounds = {"lstm": {}, "memrnn": {"kappa": 4, "skips": [1, 0], "full": True}}
    trials = [
        finished(f"{network}, {task}", "cpu", 0.0, **result)
        for network, result in bounds.items()
        for task in ("copy", "denoise")
    ]
    panels = STUDY.figure(trials).axes
    assert [axes.get_title() for axes in panels] == ["lstm, copy", "lstm, denoise", "memrnn, copy", "memrnn, denoise"]
    assert [len(axes.lines) for axes in panels] == [2, 2, 4, 4]
    assert STUDY.figure([]).axes


def test_a_zero_gradient_has_a_finite_reach():
    norms = torch.tensor([[0.0], [1.0]]).double().unsqueeze(0)
    assert float(reach(GradientNorms(norms), torch.tensor([0]))) == pytest.approx(-307.65, abs=0.01)


def test_the_tradeoff_measures_the_gradient_at_h_only(tmp_path):
    folder = run_of(tmp_path, "rellstm")
    found = screening_tradeoff.STUDY.measure(folder)["gradient"]
    model, task, config = load_model(folder)
    batch = task.batch(screening_tradeoff.SEQUENCES, config.seed, 0, "validation")
    network = model.double()
    perturbations = torch.zeros(len(batch.inputs), 10, 6, dtype=torch.float64, requires_grad=True)
    outputs = network.cell.scan_outputs(batch.inputs.double(), perturbations=perturbations)
    loss = task.loss(network.readout(outputs), batch)
    (grad,) = torch.autograd.grad(loss, perturbations)
    assert found == pytest.approx(grad.norm(dim=-1).log10().mean(1).flip(0).tolist(), rel=1e-5)


def test_measuring_gradients_leaves_the_model_unchanged():
    config = RunConfig("tiny", "copy", {"delay": 3}, "relrnn", hidden_size=4, embedding=3)
    task = build_task(config)
    model = build_model(config, task)
    task_gradients(task, model, task.batch(2, 0, 0))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_attention_weights_are_compared_where_the_task_is_solved():
    learned = {"accuracy": 1.0, "attended": 12.0, "on symbols": 0.6}
    both = [finished("memrnn, copy", "weights", 0.0, seed, **learned) for seed in (0, 1)]
    rows = {row.quantity: row for row in STUDY.summarise(both)}
    row = rows[f"memrnn, copy: {attention_gradients.ON_SYMBOLS}"]
    assert (row.ours, row.verdict) == ("0.60, 0.60", "matches")
    assert rows[f"memrnn, copy: {attention_gradients.ATTENDED}"].claim is None
    unsolved = STUDY.summarise([finished("memrnn, copy", "weights", 0.0, **learned | {"accuracy": 0.9})])
    assert {each.quantity: each.verdict for each in unsolved}[row.quantity] == "not compared"
