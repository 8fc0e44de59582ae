"""Interventions: planted variables have an effect and their controls none, and a null network shows nothing."""

from importlib.util import find_spec

import pytest
import torch
from torch import nn

import mnemoscope as ms
from mnemoscope.lenses.controls import scale_to
from mnemoscope.lenses.intervention.scores import Scale
from mnemoscope.lenses.intervention.subspace import Subspace, other_directions
from mnemoscope.lenses.variables.basis import MemoryBasis

SIZE, BATCH, AT, CLASSES = 12, 60, 1, 3
LABELS = torch.arange(BATCH) % CLASSES


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def planted(used=True):
    """Return a network that holds a class in two of twelve directions and noise in the others, inputs, and a readout.

    The state decays by nothing, the noise of each step is added. Without `used`, the readout sees the noise alone.
    """
    basis = torch.linalg.qr(torch.randn(SIZE, SIZE, dtype=torch.float64, generator=generator()))[0]
    corners = 3 * torch.tensor([[1.0, 0.0], [-0.5, 0.75**0.5], [-0.5, -(0.75**0.5)]], dtype=torch.float64)
    codes = basis[:, :2] @ corners.T
    noise = 0.3 * torch.randn(5, BATCH, SIZE - 2, dtype=torch.float64, generator=generator(1))
    inputs = noise @ basis[:, 2:].T
    inputs[0] += codes[:, LABELS].T
    cell = ms.adapt(lambda x, h: h + x, state=torch.zeros(1, SIZE, dtype=torch.float64), input_size=SIZE)
    seen = codes if used else basis[:, 2:5]
    return cell, inputs, lambda outputs: outputs @ seen, basis


@pytest.mark.parametrize("answers", ["classes", "bits", "values"])
@pytest.mark.parametrize("kind", ["swap", "transplant"])
def test_a_planted_variable_moves_all_answers_and_its_controls_none(kind, answers):
    cell, inputs, readout, _ = planted()
    found = ms.measure_intervention(cell, inputs, LABELS, at=AT, kind=kind, readout=readout, answers=answers)
    assert found.dimension == 2
    assert found.span == SIZE - 2
    assert abs(found.effect - 1) < 0.05
    assert float(found.control_effects.abs().max()) < 0.05
    assert not found.side_effect > 0.01  # NaN where the donor's state changes every answer
    assert found.shown
    assert float(found.decoded.mean()) == 1
    assert "The network uses what this subspace holds" in found.summary()
    low, high = found.interval
    assert float(low) <= found.effect <= float(high)
    low, high = found.excess_interval
    assert 0 < float(low) <= found.excess <= float(high)
    assert float(low) < float(high)  # never a point, even if all sequences have the same effect
    assert found.by_step.shape == (3,)


def test_erasing_a_planted_variable_leaves_no_answer_and_its_controls_leave_all():
    cell, inputs, readout, _ = planted()
    found = ms.measure_intervention(cell, inputs, LABELS, at=AT, kind="erase", readout=readout)
    assert abs(found.effect - 1) < 0.05  # all of the variance between sequences is gone
    assert float(found.control_effects.max()) < 0.02
    changed = ms.measure_intervention(cell, inputs, LABELS, at=AT, kind="erase", readout=readout, answers="classes")
    assert changed.effect > 0.2  # the largest of three outputs near 0 often stays the same
    assert float(changed.control_effects.max()) == 0
    assert "other answers" not in changed.summary()


def test_a_variable_that_is_held_but_not_read_shows_nothing():
    cell, inputs, readout, _ = planted(used=False)
    found = ms.measure_intervention(cell, inputs, LABELS, at=AT, readout=readout, answers="classes")
    assert float(found.decoded.mean()) == 1
    assert found.effect < 0.1
    assert not found.shown
    summary = found.summary()
    assert "Nothing was shown" in summary
    assert "random subspaces" in summary.partition("Nothing")[0]  # no effect without its control
    assert "decodes 100.0%" in summary


def test_labels_that_the_state_does_not_hold_show_nothing():
    cell, inputs, readout, _ = planted()
    unrelated = torch.randint(2, (BATCH,), generator=generator(5))
    found = ms.measure_intervention(cell, inputs, unrelated, at=AT, readout=readout, answers="classes")
    assert not found.decodable
    assert not found.shown
    assert "does not hold the classes" in found.summary()


def test_given_directions_need_no_labels_and_a_basis_is_projected_along_its_duals():
    cell, inputs, readout, basis = planted()
    options = {"at": AT, "readout": readout, "answers": "classes"}
    by_labels = ms.measure_intervention(cell, inputs, LABELS, directions=basis[:, :2], **options)
    assert by_labels.effect == 1
    alone = ms.measure_intervention(cell, inputs, directions=basis[:, :2], **options)
    assert alone.decoded is None
    assert alone.decodable
    assert alone.shown
    skewed = MemoryBasis.from_vectors(basis[:, :2] @ torch.tensor([[1.0, 0.5], [0.0, 1.0]]).double(), 1)
    assert ms.measure_intervention(cell, inputs, directions=skewed, **options).effect == alone.effect
    oblique = MemoryBasis(basis[:, :1], basis[:, :1].T + basis[:, 3:4].T, 1)
    change = Subspace.given(oblique, SIZE).project(basis[:, 3][None])
    torch.testing.assert_close(change, basis[:, 0][None])
    one = ms.measure_intervention(cell, inputs, directions=basis[:, 5], **options)
    assert one.dimension == 1
    assert one.effect < 0.1


def test_the_network_continues_as_patch_does():
    torch.manual_seed(0)
    model = ms.Model(ms.networks.blocks(3, 8, "gated-deltanet", depth=2, heads=2), 4).double()
    inputs = torch.randn(5, 8, 3, dtype=torch.float64)
    labels = torch.arange(8) % 2
    name = "layers.0.S"
    found = ms.measure_intervention(model, inputs, labels, at=2, kind="erase", name=name)
    assert found.part == name
    states = ms.run_with_cache(model.cell, inputs)[1][name][2].detach()
    flat, tests = states.flatten(1), found.reached.shape[1]
    # the same experiment by hand: which sequences were tested follows from the seed
    draw = generator()
    fit, test = [], []
    for number in range(2):
        rows = (labels == number).nonzero()[:, 0]
        drawn = rows[torch.randperm(4, generator=draw)].tolist()
        fit, test = [*fit, *drawn[:2]], [*test, *drawn[2:]]
    fit, test = sorted(fit), sorted(test)
    assert len(test) == tests
    means = torch.stack([flat[[row for row in fit if labels[row] == number]].mean(0) for number in range(2)])
    direction = (means[1] - means[0]) / (means[1] - means[0]).norm()
    centre = means.mean(0)
    edited = flat - ((flat - centre) @ direction)[:, None] * direction
    after = ms.patch(model.cell, inputs, {(name, 2): edited.view_as(states)})[0]
    clean = ms.scan(model.cell, inputs)[0]
    before, then = (model.readout(outputs)[3:, test].detach() for outputs in (clean, after))
    torch.testing.assert_close(found.reached, (then - before).square().sum(2))
    torch.testing.assert_close(found.possible, (before - before.mean(1, keepdim=True)).square().sum(2))


def test_controls_are_orthogonal_to_the_subspace_and_move_the_state_as_far():
    states = torch.randn(30, 6, dtype=torch.float64, generator=generator())
    tested = Subspace.spanned(torch.randn(6, 2, dtype=torch.float64, generator=generator(1)))
    others = other_directions(states, tested)
    assert others.shape == (6, 4)
    torch.testing.assert_close(others.T @ tested.vectors, torch.zeros(4, 2, dtype=torch.float64), atol=1e-12, rtol=0)
    changes = scale_to(torch.randn(5, 3), torch.ones(5, 3))
    torch.testing.assert_close(changes.norm(dim=1), torch.full((5,), 3**0.5))


def test_scores_of_values_split_a_change_into_the_way_to_the_donor_and_aside():
    clean = torch.zeros(1, 2, 2, dtype=torch.float64)
    donor = torch.tensor([[[2.0, 0.0], [0.0, 4.0]]]).double()
    scale = Scale("values", clean, donor, torch.tensor([[True, True]]))
    scores = scale.score(torch.tensor([[[1.0, 3.0], [0.0, 4.0]]]).double())
    assert (scores.effect / scale.effect).tolist() == [[0.5, 1.0]]
    assert (scores.side / scale.side).tolist() == [9 / 4, 0.0]
    masked = Scale("values", clean, donor, torch.tensor([[True, False]]))
    assert masked.effect.tolist() == [[4.0, 0.0]]


def test_side_effects_and_steps_have_intervals_and_stand_beside_their_controls():
    cell, inputs, readout, _ = planted()
    options = {"at": AT, "readout": readout}
    found = ms.measure_intervention(cell, inputs, LABELS, answers="bits", **options)
    low, high = (float(edge) for edge in found.side_interval)
    assert low == found.side_effect == 0
    assert 0 < high < 0.3  # no other bit changes: Wilson's interval over sequences, not a point
    assert f"0.0% (95% interval 0.0% to {high:.1%}) change, and with random subspaces" in found.summary()
    aside = ms.measure_intervention(cell, inputs, LABELS, answers="values", **options)
    low, high = (float(edge) for edge in aside.side_interval)
    assert low < aside.side_effect < high
    assert f"{aside.side_effect**0.5:.1%} (95% interval {low**0.5:.1%} to {high**0.5:.1%})" in aside.summary()
    for each in (found, aside):
        first, last = each.by_step_interval
        assert (first <= each.by_step + 1e-12).all()
        assert (each.by_step <= last + 1e-12).all()
        assert (first < last).all()
    assert len(aside.figure().axes[0].get_xticks()) == 4


def test_a_mask_and_labels_for_each_step_are_in_the_layout_of_the_network():
    torch.manual_seed(1)
    gru, inputs = nn.GRU(2, 16, batch_first=True), torch.randn(20, 6, 2)
    labels = torch.full((20, 6), -1)
    labels[:18, 3] = torch.arange(18) % 2
    mask = torch.zeros(20, 6, dtype=torch.bool)
    mask[:, 5] = True
    found = ms.measure_intervention(gru, inputs, labels, at=3, mask=mask, kind="swap", controls=20)
    assert found.possible[0].sum() == 0
    assert found.possible.shape == (2, 10)  # steps 4 and 5; five of the nine sequences of each class
    assert found.fitted == 8
    assert len(found.control) == 20
    with pytest.raises(ValueError, match=r"of shape \(batch, time\) = \(20, 6\), but is torch.bool of shape \(6, 20\)"):
        ms.measure_intervention(gru, inputs, labels, at=3, mask=mask.T)


def test_padding_changes_nothing_and_sequences_that_have_ended_are_left_out():
    cell, inputs, readout, _ = planted()
    lengths = torch.tensor([5, 4, 3, 2] * (BATCH // 4))  # a step follows step 1 in all but the last
    padded = inputs.masked_fill(torch.arange(5)[:, None, None] >= lengths[:, None], torch.nan)
    options = {"at": AT, "readout": readout, "answers": "classes"}
    found = ms.measure_intervention(cell, padded.nan_to_num(99.0), LABELS, lengths=lengths, **options)
    other = ms.measure_intervention(cell, padded.nan_to_num(-7.0), LABELS, lengths=lengths, **options)
    kept = lengths > 2
    mask = torch.arange(5)[:, None] < lengths[kept]
    same = ms.measure_intervention(cell, inputs[:, kept], LABELS[kept], mask=mask, **options)
    assert found.fitted + found.reached.shape[1] == int(kept.sum())
    for name in ("reached", "possible", "control", "side_reached"):
        assert torch.equal(getattr(found, name), getattr(other, name))
        assert torch.equal(getattr(found, name), getattr(same, name))
    alone = ms.measure_intervention(cell, inputs, directions=torch.eye(SIZE)[:, :1], lengths=lengths, **options)
    assert alone.fitted + alone.reached.shape[1] == int(kept.sum())


def test_inputs_with_nan_are_refused_unless_they_are_padding():
    cell, inputs, readout, _ = planted()
    inputs = inputs.clone()
    inputs[-1, 0] = torch.nan
    with pytest.raises(ValueError, match="hold NaN or infinite values"):
        ms.measure_intervention(cell, inputs, LABELS, at=AT, readout=readout)


def test_nothing_to_look_for_is_reported_instead_of_a_ratio():
    cell, inputs, _, _ = planted()
    found = ms.measure_intervention(cell, inputs, LABELS, at=AT, readout=lambda outputs: 0 * outputs, answers="classes")
    assert "Nothing could be shown" in found.summary()


def test_complex_states_are_read_and_changed_in_two_real_numbers():
    torch.manual_seed(0)
    cell = ms.networks.lru(2, 4).double()
    inputs = torch.randn(4, 24, 2, dtype=torch.float64)
    found = ms.measure_intervention(cell, inputs, torch.arange(24) % 2, at=1, kind="transplant")
    assert found.span > 1
    assert torch.isfinite(found.control).all()


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.xdist_group("transformers")
def test_the_states_of_a_language_model_are_changed_without_its_last_output():
    from tests.cells.tiny_models import WORDS, causal_model

    model = causal_model("mamba2").double()
    tokens = torch.randint(1, WORDS, (12, 5), generator=generator())
    found = ms.measure_intervention(model, tokens, torch.arange(12) % 2, at=2, answers="classes", controls=20)
    state = ms.scan(model, tokens[:, :3])[1]
    numbers = sum(part.flatten(1).shape[1] for layer in state.layers for part in layer)
    assert found.span <= min(11, numbers)
    assert found.part == "the state"


def test_a_result_is_saved_and_drawn(tmp_path):
    cell, inputs, readout, _ = planted()
    for kind, answers in (("erase", "bits"), ("transplant", "values")):
        found = ms.measure_intervention(cell, inputs, LABELS, at=AT, kind=kind, readout=readout, answers=answers)
        found.save(tmp_path / "found.safetensors")
        loaded = ms.Intervention.load(tmp_path / "found.safetensors")
        assert loaded.summary() == found.summary()
        assert len(loaded.figure().axes) == 2


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"kind": "remove"}, "kind must be"),
        ({"answers": "words"}, "answers must be"),
        ({"at": 4}, "at must be at most 3"),
        ({"at": -1}, "at must be"),
        ({"controls": 5}, "at least 20"),
        ({"fit_share": 1.0}, "fit_share must be"),
        ({"variable": None}, "pass variable, a class number for each sequence, or directions"),
        ({"variable": None, "kind": "swap"}, "mean of another class"),
        ({"variable": LABELS[:5]}, "variable must hold"),
        ({"variable": torch.zeros(BATCH).long()}, "At least two classes"),
        ({"variable": torch.arange(BATCH)}, "At least two sequences of the class 0"),
        ({"directions": torch.eye(SIZE)}, "a control needs as many"),
        ({"directions": torch.eye(4)}, "whole state"),
        ({"directions": torch.zeros(SIZE, 1)}, "directions must be"),
        ({"name": "c"}, "no 'c'"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_remedy(change, match):
    cell, inputs, readout, _ = planted()
    options = {"variable": LABELS, "at": AT, "readout": readout, **change}
    with pytest.raises(ValueError, match=match):
        ms.measure_intervention(cell, inputs, **options)
    with pytest.raises(ValueError, match="readout of its own"):
        ms.measure_intervention(ms.Model(nn.GRU(2, 3), 2), inputs, LABELS, at=AT, readout=readout)
    with pytest.raises(ValueError, match="At least two sequences"):
        ms.measure_intervention(cell, inputs[:, :1], directions=torch.eye(SIZE)[:, :1], at=AT)
