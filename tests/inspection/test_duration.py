"""How long a network remembers: influence of inputs, capacity and spans, and which of them a page can afford."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.connectivity import Dense
from mnemoscope.inspection import InspectionOptions, cost
from mnemoscope.inspection.duration import inspect_duration
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.spans import measure_spans, spans_section
from mnemoscope.lenses import SpanScores
from mnemoscope.lenses.wide_readouts import narrow_readout
from mnemoscope.tasks import Adding, AssociativeRecall, BitCopy, Copy, Denoise, FlipFlop, TransferCopy, VariableBinding

QUIET = InspectionOptions(progress=False)


def line(length):
    """Return a delay line: unit k holds the input k steps ago."""
    cell = ms.cells.Elman(1, length, "linear", Dense.from_matrix(torch.diag(torch.ones(length - 1), -1)))
    with torch.no_grad():
        cell.drive.weight.copy_(torch.eye(length)[:, :1])
        if cell.drive.bias is not None:
            cell.drive.bias.zero_()
    return cell


def test_the_influence_in_a_delay_line_ends_with_the_line():
    inputs = torch.randn(20, 8, 1, generator=torch.Generator().manual_seed(0))
    found = ms.measure_influence(line(5), inputs, readout=lambda outputs: outputs[..., 3:4], sources=10, trials=8)
    # the output is the input of three steps ago, so a replaced input makes it that of the other trial, and only then
    assert found.curve.argmax() == 3
    assert (found.curve[torch.arange(20) != 3].nan_to_num() == 0).all()
    assert (found.state_curve[:5] > 0.1).all()
    assert (found.state_curve[5:].nan_to_num() == 0).all()
    assert "the outputs change most at lag 3" in found.summary()
    assert found.headline() == "An input still changes the state by at least half of its largest effect 4 steps later."
    short = ms.measure_influence(line(2), inputs, sources=10, trials=8)
    assert short.headline() == "An input still changes the state by at least half of its largest effect 1 step later."
    source = 4
    step = int(found.sources[source])
    assert found.outputs[source, :step].isnan().all()
    assert found.outputs[source, step + 3] > 0.3
    found.figure().canvas.draw_idle()


def test_the_headline_names_an_effect_that_grows():
    generator = torch.Generator().manual_seed(0)
    rnn, inputs = nn.RNN(1, 30, bias=False), torch.randn(30, 4, 1, generator=generator)
    with torch.no_grad():
        rnn.weight_ih_l0.fill_(0.1)
        rnn.weight_hh_l0.copy_(2.5 / 30**0.5 * torch.randn(30, 30, generator=generator))
    found = ms.measure_influence(rnn, inputs, sources=4)
    assert found.state_curve.nan_to_num().max() > 2 * found.state_curve[0]
    assert found.headline().endswith("% of the distance between trials, as in a decision or in chaos.")


def test_influence_compares_two_runs_of_the_network():
    gru, inputs = nn.GRU(2, 3, batch_first=True), torch.randn(4, 9, 2)
    readout = nn.Linear(3, 1)
    found = ms.measure_influence(gru, inputs, readout=readout, sources=3)
    changed = inputs.clone()
    changed[:, 4] = inputs.roll(1, 0)[:, 4]
    with torch.no_grad():
        old, new = (readout(gru(each)[0]).double() for each in (inputs, changed))
    distance = (old - old.roll(1, 0)).square().mean().sqrt()
    expected = (new - old).square().mean((0, 2)).sqrt() / distance
    assert found.sources.tolist() == [0, 4, 8]
    assert torch.allclose(found.outputs[1, 4:], expected[4:], atol=1e-5)


def test_the_influence_on_many_classes_is_that_on_their_outputs():
    torch.manual_seed(0)
    model, inputs = ms.Model(nn.GRU(2, 3), output_size=50).double(), torch.randn(9, 4, 2, dtype=torch.float64)
    of_outputs = ms.measure_influence(model.cell, inputs, readout=lambda outputs: model.readout(outputs))
    found = ms.measure_influence(model, inputs)
    torch.testing.assert_close(found.outputs, of_outputs.outputs, rtol=1e-10, atol=0, equal_nan=True)
    assert narrow_readout(model.readout)(torch.zeros(3, dtype=torch.float64)).shape == (3,)
    narrow = nn.Linear(3, 3)
    assert narrow_readout(narrow) is narrow


def test_padding_has_no_influence():
    gru, inputs, lengths = nn.GRU(2, 3), torch.randn(9, 4, 2), torch.tensor([9, 6, 9, 4])
    found = ms.measure_influence(gru, inputs, lengths=lengths)
    padded = inputs.clone()
    padded[6:, 1], padded[4:, 3] = 7.0, -7.0
    again = ms.measure_influence(gru, padded, lengths=lengths)
    assert torch.equal(found.outputs.nan_to_num(), again.outputs.nan_to_num())


def test_influence_is_unknown_where_all_trials_are_the_same():
    found = ms.measure_influence(nn.GRU(1, 2), torch.ones(5, 3, 1))
    assert not found.known
    assert "not known" in found.summary()
    deaf = line(2)
    deaf.drive.weight.data.zero_()
    silent = ms.measure_influence(deaf, torch.randn(5, 3, 1), readout=lambda outputs: outputs + torch.randn(5, 1, 1))
    assert not silent.known  # nothing differs between trials
    with pytest.raises(ValueError, match="at least two"):
        ms.measure_influence(nn.GRU(1, 2), torch.ones(5, 1, 1))
    with pytest.raises(ValueError, match="readout of its own"):
        ms.measure_influence(ms.Model(nn.GRU(1, 2), 1), torch.ones(5, 2, 1), readout=nn.Identity())


def test_a_growing_state_has_an_influence_on_outputs_alone():
    found = ms.measure_influence(ms.networks.memrnn(2, 3), torch.randn(6, 3, 2))
    assert found.known
    assert found.states is None
    assert "outputs" in found.headline()
    with pytest.raises(ValueError, match="grows"):
        _ = found.state_curve
    found.figure().canvas.draw_idle()


def test_what_takes_long_is_left_out_with_a_message(monkeypatch):
    inputs = torch.randn(8, 4, 2)
    monkeypatch.setattr(cost, "BUDGET", 0)
    found = inspect_duration(ms.cells.GRU(2, 3), inputs, QUIET)
    assert found.results == {}
    assert all("--full" in section.lead for section in found.sections())
    assert found.headline() == ""
    everything = inspect_duration(ms.cells.GRU(2, 3), inputs, replace(QUIET, full=True))
    assert everything.lenses == ["measured-influence", "memory-capacity"]
    model = ms.Model(ms.cells.GRU(6, 3), output_size=5)
    run = LoadedRun(Path(), model, Copy(delay=4, symbols=2, alphabet=4), ms.RunConfig("tiny", task="copy"), QUIET)
    spans, note = measure_spans(run)
    assert spans is None
    assert note.startswith("A delay of 1, 2, 4, 6, 8, 16 takes long")
    assert spans_section(spans, note, "delay").lead == note


@pytest.mark.usefixtures("undrawn")
def test_a_small_transformer_is_quick_and_a_long_text_is_not():
    """It reads its keys and values at every step, and does not compare them by weights again, as MemRNN does."""
    transformer = ms.networks.causal_transformer(60, 60, depth=2, heads=2)
    assert cost.is_quick(transformer, 64, 16, QUIET, passes=32)
    assert not cost.is_quick(transformer, 4096, 16, QUIET, passes=32)
    assert not cost.is_quick(ms.networks.memrnn(60, 200), 64, 16, QUIET, passes=32)


def test_affine_layers_have_a_section_on_their_operators(monkeypatch):
    inputs, network = torch.randn(8, 4, 2), ms.networks.blocks(2, 4, "deltanet", depth=2)
    found = inspect_duration(network, inputs, QUIET, lengths=torch.tensor([8, 8, 5, 8]), wanted=["transitions"].count)
    assert found.lenses == ["transitions"]
    assert [layer.name for layer in found.results["transitions"].layers] == ["layers.0", "layers.1"]
    (section,) = found.sections()
    assert "layers.1</th>" in section.html.replace(" ", "")
    assert section.html.count("<svg") == 2
    (one,) = inspect_duration(ms.networks.gla(2, 4), inputs[:, :1], QUIET, wanted=["transitions"].count).sections()
    assert "the largest Lyapunov exponent, a head keeps" in one.lead
    monkeypatch.setattr(cost, "BUDGET", 0)
    slow = inspect_duration(network, inputs, QUIET, wanted=["transitions"].count)
    assert "8 steps of these layers take long" in slow.sections()[0].lead
    assert slow.results == {}


def test_the_capacity_of_an_unstable_network_is_explained():
    growing = ms.cells.Elman(1, 2, "linear", Dense.from_matrix(3.0 * torch.eye(2)))
    (section,) = inspect_duration(growing, None, QUIET).sections()
    assert "cannot be measured" in section.lead


def test_accuracy_is_measured_at_spans_beyond_training():
    task = Copy(delay=4, symbols=2, alphabet=4)
    model = ms.Model(ms.cells.GRU(6, 3), output_size=5)
    run = LoadedRun(Path(), model, task, ms.RunConfig("tiny", task="copy"), QUIET)
    scores, note = measure_spans(run)
    assert note == ""
    assert scores.spans.tolist() == [1, 2, 4, 6, 8, 16]
    assert scores.trained == 4
    batch = task.at(16).batch(64, 0, 0, "validation")
    with torch.no_grad():
        expected = task.at(16).scores(model(batch.inputs)[0], batch)["accuracy"]
    assert scores.accuracy[-1] == pytest.approx(expected)
    assert scores.chance.tolist() == [0.25] * 6
    assert "16, the longest measured" in scores.summary()
    assert 'aria-label="Accuracy at each delay."' in spans_section(scores, note, "delay").html


def test_chance_is_that_of_each_span_or_unknown():
    """At the spans of a flip-flop one pulse comes at the first step, which does not count: a sign is a guess."""
    config = ms.RunConfig("tiny", task="flipflop")
    run = LoadedRun(Path(), ms.Model(ms.cells.GRU(1, 2), 1), FlipFlop(bits=1, length=8), config, QUIET)
    scores, _ = measure_spans(run)
    assert scores.chance.tolist() == pytest.approx([0.5] * len(scores.spans), abs=1e-9)
    config = ms.RunConfig("tiny", task="adding")
    run = LoadedRun(Path(), ms.Model(ms.cells.GRU(2, 2), 1), Adding(length=8), config, QUIET)
    scores, note = measure_spans(run)
    assert scores.chance is None
    assert "Dashed" not in spans_section(scores, note, "length").html


def test_the_summary_of_spans_names_the_longest_in_training():
    measured = SpanScores("length", torch.tensor([3, 6]), torch.tensor([1.0, 0.5]).double(), 8, 64)
    assert "at an interval of 6, " in replace(measured, label="interval").summary()
    assert measured.summary() == "The accuracy is 50.0% at a length of 6, the longest possible in training is 8."
    longer = replace(measured, trained=2)
    assert longer.summary() == "The accuracy is 50.0% at a length of 6."


@pytest.mark.parametrize(
    ("task", "label", "longest", "steps"),
    [
        (Copy(delay=7, symbols=3), "delay", 7, 9 + 6),
        (Denoise(delay=8, symbols=3), "delay", 8, 9 + 4),
        (TransferCopy(delay=7, test_delay=30, symbols=3), "delay", 7, 9 + 6),
        (Adding(length=8), "length", 8, 9),
        (BitCopy(bits=2, longest=6), "length", 6, 2 * 9 + 1),
        (AssociativeRecall(most=4), "number of items", 4, None),
        (VariableBinding(variables=2, size=2, horizon=5), "horizon", 5, 2 + 9),
        (FlipFlop(bits=2, length=12), "holding time", 11, 10),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str | int) else None,
)
def test_a_task_can_be_set_to_any_span(task, label, longest, steps):
    assert (task.span_label, task.longest_span) == (label, longest)
    for split in ("train", "test"):
        batch = task.at(9).batch(2, 0, 0, split)
        assert steps is None or len(batch.mask) == steps


def test_spans_that_a_task_cannot_have_are_refused():
    with pytest.raises(ValueError, match="from step 3 on"):
        FlipFlop(length=12, settle=3).at(2)
    with pytest.raises(ValueError, match="omit apart"):
        FlipFlop(length=12, apart=2).at(4)
    assert FlipFlop(length=12, apart=2).longest_span == 0
    batch = FlipFlop(bits=2, length=12).at(5).batch(4, 0, 0)
    assert batch.mask[:-1].sum() == 0
    assert batch.mask[-1].all()
    assert (batch.inputs[1:] == 0).all()
    symbols = Copy(delay=4, symbols=3)
    drawn = symbols.batch(2, 0, 0)
    assert symbols.recalled(drawn).sum(0).tolist() == [3, 3]


def test_an_effect_that_is_gone_at_the_next_step_is_named():
    memoryless = line(1)
    found = ms.measure_influence(memoryless, torch.randn(5, 3, 1))
    assert found.headline() == "One step later, an input changes the state by less than half of its first effect."
    found = ms.measure_influence(line(9), torch.randn(5, 3, 1))
    assert found.headline().endswith("after 4 steps, the longest time measured.")
    deaf = replace(found, states=torch.zeros(5, 5).double())
    assert deaf.headline() == "Inputs do not change the state."
    assert "the state changes not at all" in deaf.summary()
