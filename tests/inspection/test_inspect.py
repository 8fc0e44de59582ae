"""`ms.inspect`: any network in one call, with its inputs, targets, readout and contexts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.inspection import InspectionOptions, mechanism, slow_manifold
from mnemoscope.inspection.behaviour import gradient_section, measure_gradients
from mnemoscope.lenses.behaviour.scores import scored_steps

QUIET = InspectionOptions(starts=8, progress=False)
POINTS, SCORED = ("fixed-points",), ("behaviour", "gradients")


def trials(batch=6, time=20, features=2, seed=0):
    return torch.randn(time, batch, features, generator=torch.Generator().manual_seed(seed))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_module_is_run_in_its_own_layout(batch_first, tmp_path):
    gru, readout = nn.GRU(2, 4, batch_first=batch_first), nn.Linear(4, 1)
    inputs = trials()
    with torch.no_grad():
        targets = readout(gru(inputs.transpose(0, 1) if batch_first else inputs)[0])
    given = inputs.transpose(0, 1) if batch_first else inputs
    found = ms.inspect(gru, given, targets=targets, readout=readout, options=QUIET)
    assert found.behaviour.score < 1e-12  # the targets are the network's own answers
    assert found.behaviour.trials == 6
    assert torch.equal(found.behaviour.inputs, inputs[:, :3])
    # the pool of starts, and the trajectories of the page, are the states that the network visits
    visited = gru(given)[0].detach()
    visited = visited.transpose(0, 1) if batch_first else visited
    assert torch.allclose(found.content.trajectories.float(), visited, atol=1e-6)
    assert found.gradients.norms.shape == (1, 20, 6)
    page = found.save(tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    headings = ["Behaviour", "Error by position", "Gradients of the loss", "Influence of inputs", "Memory capacity"]
    places = [text.index(f">{heading}</h2>") for heading in (*headings, "State space", "Eigenvalues")]
    assert places == sorted(places)
    parts = [text.index(f'<p class="part">{part}') for part in ("What it does", "How long it", "How it remembers")]
    assert parts[0] < places[0] < parts[1] < places[2] < places[4] < parts[2] < places[5]
    assert found.behaviour.summary() in text
    assert {path.name for path in tmp_path.glob("*.safetensors")} >= {
        "page.behaviour.safetensors",
        "page.fixed_points.safetensors",
        "page.gradients.safetensors",
    }
    assert ms.Behaviour.load(tmp_path / "page.behaviour.safetensors").score == found.behaviour.score


@pytest.mark.usefixtures("undrawn")
def test_classes_bits_and_values_are_scored():
    inputs, outputs = trials(), torch.eye(3)[torch.arange(20 * 6).reshape(20, 6) % 3]

    class Answer(nn.Module):
        def forward(self, _):
            return outputs

    cell = nn.RNN(2, 3)
    right = outputs.argmax(2)
    some_wrong = right.clone()
    some_wrong[5] = (some_wrong[5] + 1) % 3
    some_wrong[6] = -100  # not scored
    found = ms.record_behaviour(cell, inputs, some_wrong, readout=Answer())
    assert found.kind == "classes"
    assert found.score == pytest.approx(18 / 19)
    assert found.by_step[5] == 0
    assert found.by_step[6].isnan()
    assert found.worst_step == 5
    assert "94.74% of the classes are right" in found.summary()

    bits = outputs > 0.5
    found = ms.record_behaviour(cell, inputs, bits, readout=lambda _: outputs - 0.5)
    assert (found.kind, found.score) == ("bits", 1.0)
    assert found.uninformed == pytest.approx(2 / 3, abs=1e-6)

    shifted = outputs + 0.1
    shifted[:, 0] = torch.nan
    found = ms.record_behaviour(cell, inputs, shifted, readout=Answer())
    assert found.kind == "values"
    assert found.score == pytest.approx(0.01, rel=1e-5)
    mask = torch.zeros(20, 6, dtype=torch.bool)
    mask[3] = True
    found = ms.record_behaviour(cell, inputs, outputs + torch.arange(20)[:, None, None], readout=Answer(), mask=mask)
    assert found.score == pytest.approx(9)
    for result in (found, ms.record_behaviour(cell, inputs)):
        result.figure().canvas.draw_idle()
        assert "<img" in result._repr_html_()


def test_gradients_are_those_of_the_loss_at_the_scored_steps():
    cell, inputs = ms.adapt(nn.RNN(2, 3).double()), trials().double()
    targets = torch.full((20, 6), -1)
    targets[7] = 1
    norms = measure_gradients(cell, inputs, targets, nn.Identity(), None).norms[0]
    assert (norms[:8] > 0).all()
    assert (norms[8:] == 0).all()  # the loss does not depend on later states
    with torch.no_grad():
        exact = ms.scan(cell, inputs, backend="loop")[0]  # as gradients at every step are computed, to the same bits
    section = gradient_section(measure_gradients(cell, inputs, exact, nn.Identity(), None))
    assert section.lead.startswith("The gradient of the loss is 0 at every step")
    assert section.html == ""


def test_contexts_are_searched_separately():
    rnn = nn.RNN(2, 2)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(2 * torch.eye(2))
        rnn.weight_ih_l0.copy_(5 * torch.eye(2))
        rnn.bias_ih_l0.zero_(), rnn.bias_hh_l0.zero_()
    contexts = {"rest": [0.0, 0.0], "first": [1.0, 0.0]}
    found = ms.inspect(rnn, contexts=contexts, lenses=POINTS, options=QUIET)
    assert {name: len(points) for name, points in found.contexts.items()} == {"rest": 9, "first": 3}
    assert found.fixed_points is found.contexts["rest"]
    assert "searched in 2 contexts" in found.html()
    alone = ms.inspect(rnn, contexts=torch.tensor([1.0, 0.0]), lenses=POINTS, options=QUIET)
    assert len(alone.fixed_points) == 3
    assert alone.contexts == {}


@pytest.mark.usefixtures("undrawn")
def test_a_model_brings_its_readout(tmp_path, monkeypatch):
    model = ms.Model(ms.cells.GRU(2, 4), output_size=3)
    found = ms.inspect(model, trials(), targets=torch.zeros(20, 6, dtype=torch.int64), name="mine", options=QUIET)
    assert found.behaviour.kind == "classes"
    assert found.content.title == "mine"
    assert "Behaviour" in repr(found) or "Over 6 trials" in repr(found)
    assert "<h3>mine</h3>" in found._repr_html_()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = found.show()
    assert opened == [page.as_uri()]
    assert "random states" not in page.read_text()
    alone = ms.inspect(model, lenses=POINTS, options=QUIET)
    assert "The trajectories start at random states" in alone.save(tmp_path / "alone.html").read_text()
    with pytest.raises(ValueError, match="Name the page"):
        found.save()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": torch.zeros(20, 2)}, r"inputs\[:, None\]"),
        ({"inputs": torch.zeros(20, 6, 3)}, "takes 2 features"),
        ({"inputs": torch.full((20, 6, 2), torch.nan)}, "NaN"),
        ({"inputs": torch.zeros(20, 6, 2), "targets": torch.zeros(20, 6, 1)}, "readout="),
        ({"inputs": torch.zeros(20, 6, 2), "targets": torch.zeros(20, 5, dtype=torch.int64)}, "class numbers"),
        ({"inputs": torch.zeros(20, 6, 2), "targets": torch.full((20, 6), 9)}, "class 9"),
        ({"inputs": torch.zeros(20, 6, 2), "targets": torch.full((20, 6), -1)}, "No step counts"),
        ({"inputs": torch.zeros(20, 6, 2), "targets": torch.zeros(6, dtype=torch.int64)}, "-1"),
        (
            {"inputs": torch.zeros(20, 6, 2), "targets": torch.zeros(20, 6), "readout": nn.Linear(4, 1)},
            r"targets\[\.\.\., None\]",
        ),
        ({"inputs": torch.zeros(20, 6, 2), "mask": torch.ones(20, 6)}, r"mask\.bool\(\)"),
        ({"inputs": torch.zeros(20, 6, 2), "readout": nn.Linear(3, 1)}, "takes 3 features, but the network has 4"),
        ({"lenses": ["fixed-point"]}, "fixed-points"),
        ({"lenses": ["behaviour"]}, "needs inputs"),
        ({"lenses": ["measured-influence"]}, "needs inputs"),
        ({"lengths": [3]}, "pass the inputs too"),
        ({"lenses": ["gradients"]}, "needs inputs and targets"),
        ({"lenses": ["slow-manifold"]}, 'add "fixed-points"'),
        ({"lenses": ["spectra"]}, 'add "fixed-points"'),
        ({"targets": torch.zeros(20, 6, 4)}, "pass the inputs too"),
        ({"lenses": ["variables"]}, "needs the readout"),
        ({"contexts": {}}, "at least one"),
    ],
)
def test_wrong_arguments_are_refused_with_the_remedy(arguments, message):
    with pytest.raises(ValueError, match=message):
        ms.inspect(nn.GRU(2, 4), options=QUIET, **arguments)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": torch.zeros(20, 2)}, r"\(batch, time, features\).*: inputs\[None\]"),
        ({"targets": torch.zeros(20, 6, 4)}, r"shape \(20, 6, 4\).* \(batch, time, outputs\) = \(6, 20, 4\)"),
        ({"targets": torch.zeros(20, 6, dtype=torch.int64)}, r"\(batch, time\) = \(6, 20\), but .* \(20, 6\)"),
    ],
)
def test_wrong_shapes_are_named_in_the_layout_of_the_network(arguments, message):
    with pytest.raises(ValueError, match=message):
        ms.inspect(nn.GRU(2, 4, batch_first=True), **({"inputs": torch.zeros(6, 20, 2)} | arguments), options=QUIET)


def test_a_mask_of_the_wrong_shape_is_named_in_the_layout_of_the_network():
    targets, mask = torch.zeros(20, 6, 4), torch.ones(6, 20, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"\(time, batch\) = \(20, 6\), not \(6, 20\)"):
        scored_steps(targets, mask)
    with pytest.raises(ValueError, match=r"\(batch, time\) = \(6, 20\), not \(20, 6\)"):
        scored_steps(targets, mask, batch_first=True)


def test_a_search_is_complete_where_points_are_easy_to_find_and_ends_where_they_are_not():
    blocks = torch.nn.RNN(1, 256, bias=False)  # three bits, each held by the mean of 85 units
    blocks.weight_hh_l0.data = torch.block_diag(*(1.5 / 85 * torch.ones(85, 85),) * 3, torch.zeros(1, 1))
    fp = InspectionOptions(progress=False).search(ms.Dynamics(blocks))
    assert (len(fp), fp.cut_off) == (27, False)
    torch.manual_seed(0)
    chaotic = torch.nn.RNN(1, 60, bias=False)
    chaotic.weight_hh_l0.data = 3 * torch.randn(60, 60) / 60**0.5
    dynamics = ms.Dynamics(chaotic)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mnemoscope.inspection.options.FEWEST_STEPS", 10)
        patch.setattr("mnemoscope.inspection.options.WORK", 1.0)
        assert QUIET.search(dynamics).stopped == "the limit of 10 solver steps was reached"


def test_options_of_fixed_points_are_refused_if_none_are_searched_for():
    attentive = ms.networks.memrnn(2, 4)
    assert ms.inspect(attentive, trials(), options=QUIET).fixed_points is None
    for arguments in ({"contexts": [0.0, 0.0]}, {"lenses": POINTS}, {"options": InspectionOptions(certify=True)}):
        with pytest.raises(ValueError, match="searched for; omit"):
            ms.inspect(attentive, trials(), **arguments)


def test_other_objects_are_refused():
    with pytest.raises(TypeError, match=r"ms\.adapt"):
        ms.inspect(lambda x, h: h)
    with pytest.raises(ValueError, match="omit all arguments but options"):
        ms.inspect("runs/nowhere", trials())
    broken = nn.GRU(2, 4)
    broken.weight_hh_l0.data[0, 0] = torch.inf
    with pytest.raises(ValueError, match="NaN or infinite weights"):
        ms.inspect(broken)


def test_trials_of_unequal_length_are_run_without_their_padding():
    gru, readout, inputs = nn.GRU(2, 4, batch_first=True), nn.Linear(4, 1), trials().transpose(0, 1).contiguous()
    lengths = [20, 7, 12, 20, 3, 9]
    inputs[1, 7:] = torch.nan
    with torch.no_grad():
        targets = readout(gru(inputs)[0])
    alone = ms.inspect(gru, inputs[1:2, :7], targets=targets[1:2, :7], readout=readout, lenses=SCORED, options=QUIET)
    settings = {"readout": readout, "options": QUIET}
    found = ms.inspect(
        gru, inputs, targets=targets, lengths=lengths, lenses=(*SCORED, "measured-influence", *POINTS), **settings
    )
    assert found.behaviour.summary().startswith("Over 6 trials of 3 to 20 steps, ")
    assert found.behaviour.score < 1e-12  # the padding of the targets is NaN too
    assert found.behaviour.position_answers.tolist() == [sum(length > step for length in lengths) for step in range(20)]
    assert found.behaviour.outputs[7:, 1].isnan().all()
    assert torch.allclose(found.behaviour.outputs[:7, 1], alone.behaviour.outputs[:, 0], atol=1e-6)
    assert found.gradients.norms[0, 7:, 1].isnan().all()
    assert found.content.trajectories[7:, 1].isnan().all()
    assert found.content.trajectories[:7, 1].isfinite().all()
    assert found.measured_influence.known
    packed = nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    again = ms.inspect(gru, packed, targets=targets, lenses=["behaviour"], **settings)
    assert again.behaviour.score == found.behaviour.score
    with pytest.raises(ValueError, match="pass lengths"):
        ms.inspect(gru, inputs, options=QUIET)


def test_scores_are_grouped_by_position_and_by_delay():
    pulses = torch.zeros(12, 40, 1)
    for trial in range(40):
        pulses[trial % 4, trial] = 1.0
    held = torch.ones(12, 40, dtype=torch.int64)
    held[pulses[..., 0].cumsum(0) == 0] = -1  # nothing to answer before the pulse

    def forgets(outputs):  # right until five steps after the pulse
        since = pulses[..., 0].cumsum(0).cumsum(0)
        return torch.stack([(since > 6).double(), (since <= 6).double()], 2)

    found = ms.record_behaviour(nn.RNN(1, 2), pulses, held, readout=forgets)
    assert found.positions_differ_from_steps
    assert found.by_position.tolist() == [1.0] * 6 + [0.0] * 6
    assert found.position_answers.tolist() == [40] * 9 + [30, 20, 10]
    # the input changes at the pulse and after it, so that four steps later it has been constant for three
    assert found.by_delay[:5].tolist() == [1.0] * 5
    assert found.by_delay[5:].tolist() == [0.0] * 6
    assert all(tick == round(tick) for tick in found.figure().axes[1].get_yticks())  # classes have no fractions
    steady = ms.record_behaviour(nn.RNN(1, 2), torch.randn(12, 40, 1), held.clamp_min(0), readout=forgets)
    assert steady.by_delay is None  # the input changes at every step
    assert not steady.positions_differ_from_steps
    wrong = ms.record_behaviour(nn.RNN(1, 2), pulses, held, readout=lambda outputs: -forgets(outputs))
    assert "no better than the constant answer" in wrong.summary()


def test_a_slow_manifold_of_a_network_with_long_steps_is_searched_for_only_if_the_options_ask(monkeypatch):
    monkeypatch.setattr(slow_manifold, "find_slow_manifold", lambda *_, **__: SimpleNamespace(share=0.0))
    points = ms.find_fixed_points(ms.Dynamics(nn.RNN(1, 1)), torch.zeros(1, 1))
    found = {}
    for name, cell in (("gru", nn.GRU(2, 128)), ("blocks", ms.networks.blocks(2, 2, "rwkv7", depth=4))):
        dynamics = ms.Dynamics(cell)
        visited = torch.zeros(1, 2, dynamics.size)
        for options in (QUIET, replace(QUIET, full=True)):
            found[name, options.full] = slow_manifold.inspect_slow_manifold(dynamics, visited, points, options)
    assert "Not searched for" in found.pop(("blocks", False))
    assert set(found.values()) == {None}  # the replaced search finds nothing


def test_the_page_says_that_a_slow_manifold_was_not_searched_for(monkeypatch):
    monkeypatch.setattr(slow_manifold, "is_quick_alone", lambda *_: False)
    cell = ms.Dynamics(nn.RNN(1, 1))
    wanted = {"fixed-points", "slow-manifold"}.__contains__
    found = mechanism.inspect_mechanism(cell.cell, {"zero": cell}, torch.zeros(2, 3, 1), QUIET, wanted=wanted)
    (section,) = found.sections
    assert section.title == "Slow manifold"
    assert "Not searched for" in section.lead
    assert "--full" in section.lead
    assert found.lenses == ["fixed-points"]
    assert found.settling is None
