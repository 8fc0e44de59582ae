"""The section on interventions: which class the sequences of a task hold, and effects with controls."""

from dataclasses import replace

import pytest
import torch

import mnemoscope as ms
from mnemoscope.inspection import InspectionOptions, intervention
from mnemoscope.inspection.held_classes import LATER, held_class
from mnemoscope.inspection.intervention import Interventions, inspect_interventions, interventions_section
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses.variables import planted_network
from mnemoscope.tasks import (
    Adding,
    Copy,
    DelayedMatch,
    FlipFlop,
    KeyValueRecall,
    MultiQueryRecall,
    PerceptualDecision,
    ReadySetGo,
    RepeatCopy,
    WordProblem,
)


def run_of(tmp_path, model, task):
    config = ms.RunConfig("tiny", task="flipflop", cell="gru", hidden_size=4)
    return LoadedRun(tmp_path, model, task, config, InspectionOptions(progress=False))


class Units(torch.nn.Module):
    """Reads some units unchanged."""

    def __init__(self, units):
        super().__init__()
        self.units = units

    def forward(self, outputs):
        return outputs[..., self.units]


@pytest.fixture
def flipflop(tmp_path):
    """A network of six units whose first two solve a flip-flop, while the others hold noise."""
    turn = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)))[0]

    def step(x, h):
        pulse = torch.cat([x, x.roll(1, 1), x.flip(1)], 1)
        held = torch.where(pulse[:, :2] != 0, pulse[:, :2], h[:, :2])
        return torch.cat([held, torch.tanh(h @ turn + pulse)[:, 2:]], 1)

    model = ms.Model(ms.adapt(step, state_size=6, input_size=2), 2)
    model.readout = Units([0, 1])
    return run_of(tmp_path, model, FlipFlop(bits=2, length=20))


@pytest.mark.usefixtures("undrawn")
def test_a_bit_that_a_network_uses_differs_from_random_subspaces_in_all_three(flipflop):
    found = inspect_interventions(flipflop, None)
    assert isinstance(found, Interventions)
    assert [*found.by_kind] == ["erase", "swap", "transplant"]
    assert found.by_kind["swap"].effect == 1
    assert found.by_kind["swap"].control_effects.mean() < 0.2
    section = interventions_section(found)
    assert section.lead == found.summary()
    assert "The mean states of the first bit span 1 direction of the state after step 10" in section.lead
    assert section.lead.count("and with random subspaces") == 3
    assert section.lead.endswith("Effect and control differ in all three: the network uses what this subspace holds.")
    assert "95% intervals over sequences" in section.html


def test_the_summary_says_where_effect_and_control_do_not_differ(flipflop):
    found = inspect_interventions(flipflop, None)
    alike = {kind: replace(each, control=each.reached.expand_as(each.control)) for kind, each in found.by_kind.items()}
    nothing = replace(found, by_kind=alike).summary()
    assert "Nothing was shown by the erasure, the swap and the transplant: the effect is not above that" in nothing
    some = replace(found, by_kind={**found.by_kind, "swap": alike["swap"]}).summary()
    assert "differ in the erasure and the transplant: the network uses" in some
    assert "Nothing was shown by the swap" in some
    blind = {kind: replace(each, decoded=each.decoded * 0) for kind, each in found.by_kind.items()}
    assert replace(found, by_kind=blind).summary().endswith("better than guessing, so that nothing was shown.")
    frozen = replace(found.by_kind["swap"], possible=found.by_kind["swap"].possible * 0)
    still = replace(found, by_kind={**found.by_kind, "swap": frozen})
    assert "If it is swapped, no answer could change" in still.summary()
    assert "nothing could change" in still.section().html


def test_the_reason_is_given_where_nothing_is_measured(flipflop, tmp_path, monkeypatch):
    assert inspect_interventions(replace(flipflop, task=Adding()), None) is None
    few = run_of(tmp_path, ms.Model(ms.networks.gru(3, 1), 6), WordProblem("S3", "generators", length=8))
    reason = inspect_interventions(few, None)
    assert reason.startswith("Interventions on the product of the word cannot be measured: The subspace has 1 dir")
    assert interventions_section(reason).lead == reason
    monkeypatch.setattr(intervention, "is_quick", lambda *args, passes: False)
    assert inspect_interventions(flipflop, None).startswith("Not measured, since it takes long.")


def test_the_tensor_that_decodes_the_class_is_chosen(tmp_path):
    task = KeyValueRecall(keys=8, values=3, fewest=4, most=6, queries=4, apart=True)
    torch.manual_seed(0)
    model = ms.Model(ms.networks.blocks(task.input_size, 8, family="deltanet", depth=1, heads=1), task.output_size)
    found = inspect_interventions(run_of(tmp_path, model, task), None)
    assert found.by_kind["swap"].part == "layers.0.S"


def test_directions_of_variables_are_used_if_they_were_found(tmp_path):
    net = planted_network(2, 1, units=6, transients=3, generator=torch.Generator().manual_seed(0))
    variables = ms.find_variables(net.model)
    run = run_of(tmp_path, net.model.float(), RepeatCopy(variables=2, size=1, horizon=4))
    found = inspect_interventions(run, variables)
    assert found.origin == "find_variables"
    assert "find_variables found 1 direction of the state for the first bit of the newest vector" in found.summary()
    assert found.by_kind["transplant"].effect == 1
    assert inspect_interventions(run, replace(variables, structure=None)).origin == "class means"


@pytest.mark.parametrize(
    "task",
    [
        WordProblem("Z3", length=6),
        DelayedMatch(),
        KeyValueRecall(keys=8, values=4, fewest=2, most=5, queries=3, apart=True),
        MultiQueryRecall(vocabulary=20, pairs=3, length=16),
        RepeatCopy(variables=2, size=2),
        FlipFlop(bits=2, length=60),
        Copy(delay=3, symbols=2, alphabet=4),
    ],
    ids=lambda task: type(task).__name__,
)
def test_the_class_determines_the_answers_that_are_compared(task):
    held = held_class(task, 64, 0, 0)
    assert len(held.inputs) == len(held.counts) <= held.at + 200
    assert int(held.counts[held.at + 1 :].any(1).sum()) in range(1, LATER + 1)
    assert held.counts[: held.at + 1].shape[0] == held.at + 1
    assert len(held.classes[held.classes >= 0].unique()) > 1


def test_trials_of_recall_have_one_key_first_and_its_value_is_the_class():
    task = KeyValueRecall(keys=8, values=4, fewest=2, most=5, queries=3, apart=True)
    held = held_class(task, 64, 0, 0)
    keys = held.inputs[..., :8]
    assert (keys[0].argmax(-1) == 0).all()
    assert (held.inputs[1, :, 8:].argmax(-1) == held.classes).all()
    assert (keys[0:8:2].sum(0) <= 1).all()  # the keys of a list still differ
    asks = keys[8:, :, 0] > 0
    assert (held.counts[8:] == asks).all()


def test_trials_of_mqar_have_one_key_first_and_its_value_is_the_class():
    task = MultiQueryRecall(vocabulary=20, pairs=3, length=16)
    held = held_class(task, 64, 0, 0)
    assert (held.inputs[0] == 1).all()
    assert (held.inputs[1] == 10 + held.classes).all()
    assert held.classes.unique().tolist() == list(range(8))
    for sequence in held.inputs[:6].T:  # keys still differ, and so do values
        assert len({*sequence[0::2].tolist()}) == len({*sequence[1::2].tolist()}) == 3
    assert held.at == 5
    assert (held.inputs[held.counts] == 1).all()
    asked = held.counts.sum(0)
    assert ((asked == 1) | (asked == 0)).all()  # a late query is not compared
    assert asked.double().mean() > 0.9


def test_tasks_without_a_held_class_have_none():
    assert held_class(ReadySetGo(), 8, 0, 0) is None
    assert held_class(PerceptualDecision(longest_delay=0.0, shortest_delay=0.0), 8, 0, 0) is None


def held_input():
    """A network that keeps the sign of its first input in one of eight units, with its trials and these signs."""
    keep = torch.tensor([1.0, *[0.0] * 7])
    cell = ms.adapt(lambda x, h: keep * (h + x) + (1 - keep) * x.roll(1, 1), state_size=8, input_size=8)
    inputs = torch.randn(6, 60, 8, generator=torch.Generator().manual_seed(0))
    signs = torch.arange(60) % 2
    inputs[:, :, 0] = 0
    inputs[0, :, 0] = 2.0 * signs - 1
    return cell, inputs, signs


QUIET = InspectionOptions(progress=False)
ALONE = {"lenses": ["intervention"], "options": QUIET}


@pytest.mark.usefixtures("undrawn")
def test_a_given_variable_is_erased_swapped_and_transplanted(tmp_path):
    cell, inputs, signs = held_input()
    given = {"readout": Units([0]), "targets": (inputs[:1, :, :1] > 0).expand(6, -1, -1)}
    lengths = torch.full((60,), 6)
    lengths[:4] = 4  # these have no step after the change
    found = ms.inspect(cell, inputs, variable=signs, at=3, lengths=lengths, **given, **ALONE)
    assert found.interventions.by_kind["swap"].effect == 1
    assert found.interventions.by_kind["swap"].at == 3
    assert found.interventions.by_kind["swap"].fitted + found.interventions.by_kind["swap"].reached.shape[1] == 56
    assert "The mean states of the given variable span 1 direction of the state after step 3" in found.summary()
    assert "Does it use what it holds?" in found.save(tmp_path / "page.html").read_text()
    assert (tmp_path / "page.intervention-swap.safetensors").exists()


def test_a_given_variable_may_change_by_step_and_the_tensor_that_holds_it_is_chosen():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(2, 6, batch_first=True)
    inputs = torch.randn(60, 8, 2)
    variable = (inputs[..., 0].cumsum(1) > 0).long()  # (batch, time), as the inputs
    found = ms.inspect(lstm, inputs, variable=variable, mask=torch.ones(60, 8, dtype=torch.bool), **ALONE)
    result = found.interventions.by_kind["transplant"]
    assert (result.at, result.answers) == (3, "values")
    assert result.fitted + result.reached.shape[1] == 40  # the others chose the tensor
    assert result.part in ("the state", "h", "c", "layers.0.h", "layers.0.c")


def test_interventions_on_a_given_variable_need_inputs_classes_and_a_later_step(monkeypatch):
    cell, inputs, signs = held_input()
    with pytest.raises(ValueError, match="pass the inputs too"):
        ms.inspect(cell, variable=signs, options=QUIET)
    with pytest.raises(ValueError, match="needs inputs and variable"):
        ms.inspect(cell, inputs, **ALONE)
    with pytest.raises(ValueError, match="at must be from 0 to 4"):
        ms.inspect(cell, inputs, variable=signs, at=5, **ALONE)
    with pytest.raises(ValueError, match="variable must hold whole class numbers"):
        ms.inspect(cell, inputs, variable=signs[:9], **ALONE)
    monkeypatch.setattr(intervention, "is_quick", lambda *args, passes: False)
    found = ms.inspect(cell, inputs, variable=signs, targets=(inputs[..., 0] > 0).long(), **ALONE)
    assert found.interventions is None
    assert found.content.sections[-1].lead.startswith("Not measured, since it takes long.")
