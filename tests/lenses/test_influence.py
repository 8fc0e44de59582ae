"""The influence of past inputs: derivatives of layers and networks, summaries, result and figure."""

import json
import re
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Block, Stack, affine_layers
from mnemoscope.cells.affine import MLSTM, GatedDeltaNet, Mamba2
from mnemoscope.cells.affine.layer import AffineLayer
from mnemoscope.lenses.exact_influence import (
    carried_derivatives,
    layer_derivatives,
    local_derivatives,
    network_derivatives,
    readers,
)
from mnemoscope.lenses.exact_influence.layer_derivatives import full_path
from mnemoscope.lenses.exact_influence.network_derivatives import model_path
from mnemoscope.lenses.exact_influence.result import _number
from mnemoscope.lenses.exact_influence.summaries import (
    by_lag,
    half_life,
    kept_for,
    lag_curve,
    participations,
    retention,
    windows,
)
from tests.cells.test_affine_cells import CELLS
from tests.lenses.test_value_paths import reads_as_used, trained
from tests.slow import representatives

TIME, BATCH = 6, 1


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def full_by_autograd(layer, state):
    """Return |d o_t / d x_s|^2 of a layer that starts in a state of its core, from the full Jacobian."""

    def reads(xs):
        features = layer.inputs.mix(layer.inputs.project(xs))
        used = reads_as_used(AffineLayer.of(layer.core, features, state))
        return torch.view_as_real(used).flatten(-2) if used.is_complex() else used

    J = torch.autograd.functional.jacobian(reads, layer.inputs.xs)  # batch heads time values, time batch inputs
    return torch.stack([J[b, ..., b, :] for b in range(J.shape[0])]).square().sum((1, 3, 5))


@pytest.fixture
def small_pieces(monkeypatch):
    """Divide six steps into two chunks, the second one filled up, these into two, and inputs into several blocks."""
    monkeypatch.setattr(readers, "CHUNK", 4)
    monkeypatch.setattr(carried_derivatives, "INSIDE", 2)
    monkeypatch.setattr(local_derivatives, "BLOCK", {"cpu": 200})


@pytest.mark.usefixtures("small_pieces")
@representatives("lru", "deltaproduct-gated", "mlstm", "mamba2", "mamba-negative")
@pytest.mark.parametrize("name", CELLS)
def test_the_full_influence_of_a_cell_is_its_jacobian(name):
    cell, xs = trained(name), randn(TIME, BATCH, 3)
    _, state = ms.scan(cell, randn(2, BATCH, 3))  # from a state that is not 0
    [layer] = affine_layers(cell, xs, state)
    found = full_path(layer)
    assert found.directions == 0
    assert found.standard_error == 0
    torch.testing.assert_close(found.energies, full_by_autograd(layer, state), rtol=1e-10, atol=1e-13)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("core", [lambda: GatedDeltaNet(3, 4, heads=2), lambda: MLSTM(3, 4)])
def test_the_full_influence_of_a_block_includes_its_convolution(core, monkeypatch):
    monkeypatch.setattr(readers, "CHUNK", 4)
    torch.manual_seed(0)
    block = Block(core(), width=3).double().requires_grad_(False)
    _, state = ms.scan(block, randn(2, BATCH, 3))
    [layer] = affine_layers(block, randn(TIME + 3, BATCH, 3), state)
    expected = full_by_autograd(layer, tuple(getattr(state, name) for name in ("S", "m") if hasattr(state, name)))
    torch.testing.assert_close(full_path(layer, 0).energies, expected, rtol=1e-10, atol=1e-13)
    gates_alone = value_part(layer)
    assert float((expected - gates_alone).clamp_min(0).sum() / expected.sum()) > 0.05  # M is not the whole influence


@pytest.mark.usefixtures("small_pieces")
def test_the_full_influence_in_the_block_of_h3_passes_both_branches():
    torch.manual_seed(0)
    [block] = ms.networks.blocks(3, 3, "s4d", 1, state_size=4, architecture="h3").double().requires_grad_(False).layers
    _, state = ms.scan(block, randn(2, BATCH, 3))
    [layer] = affine_layers(block, randn(TIME, BATCH, 3), state)
    torch.testing.assert_close(full_path(layer).energies, full_by_autograd(layer, (state.S,)), rtol=1e-10, atol=1e-13)


def value_part(layer):
    """Return the squared derivatives with all parts but the values held."""

    def reads(xs):
        values = layer.core.parts(layer.inputs.mix(layer.inputs.project(xs))).values
        moved = layer.parts._replace(values=values)
        return reads_as_used(AffineLayer("", layer.core, layer.features, moved, layer.start, layer.scales))

    J = torch.autograd.functional.jacobian(reads, layer.inputs.xs)
    return torch.stack([J[b, ..., b, :] for b in range(J.shape[0])]).square().sum((1, 3, 5))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("core", [lambda: Mamba2(3, 4, heads=2, state_size=2), lambda: MLSTM(3, 4)])
@pytest.mark.parametrize("columns", [1, 8])
def test_random_directions_are_unbiased_within_their_error(core, columns, monkeypatch):
    monkeypatch.setattr(layer_derivatives, "COLUMNS", (columns, columns))
    torch.manual_seed(1)
    [layer] = affine_layers(core().double().requires_grad_(False), randn(4, 1, 3))
    exact, found = full_path(layer, 0).energies, full_path(layer, 32, seed=3)
    assert found.standard_error == pytest.approx(((8 if columns == 1 else 2) / 32) ** 0.5)
    later = exact > 0
    errors = (found.energies[later] / exact[later] - 1).abs()
    assert float(errors.max()) < 4 * found.standard_error
    assert float(errors.mean()) < found.standard_error


def test_a_layer_that_does_not_know_its_inputs_is_differentiated_by_its_features():
    cell = trained("gla")
    features = randn(TIME, BATCH, cell.project.out_features)
    layer = AffineLayer.of(cell, features, cell.initial_state(BATCH))
    by_features = AffineLayer.of(cell, features, cell.initial_state(BATCH), _identity(features))
    expected = full_by_autograd(by_features, cell.initial_state(BATCH))
    torch.testing.assert_close(full_path(layer).energies, expected, rtol=1e-10, atol=1e-13)


def _identity(features):
    return ms.cells.affine.layer.LayerInputs(features, lambda xs: xs)


def network_by_autograd(model, encoded):
    def outputs(xs):
        return model.readout(ms.scan(model.cell, xs)[0]).transpose(0, 1)

    J = torch.autograd.functional.jacobian(outputs, encoded)  # batch time outputs, time batch inputs
    return torch.stack([J[b, :, :, :, b] for b in range(J.shape[0])]).square().sum((2, 4))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    cell = Stack([GatedDeltaNet(3, 4, heads=2, key_size=2), GatedDeltaNet(4, 4, heads=2, key_size=2)])
    return ms.Model(cell, 2, encode=torch.nn.Embedding(5, 3)).double().requires_grad_(False)


def test_the_influence_through_a_network_is_its_jacobian(model, monkeypatch):
    tokens = torch.randint(5, (TIME, BATCH))
    expected = network_by_autograd(model, model.encode(tokens))
    found = model_path(model, tokens)
    torch.testing.assert_close(found.energies, expected, rtol=1e-10, atol=1e-13)
    some = model_path(model, tokens, rows=3)
    torch.testing.assert_close(some.energies, expected[:, some.rows])
    monkeypatch.setattr(network_derivatives, "ROOM", {"cpu": 1})  # one pass at a time
    random = model_path(model, tokens, directions=12, rows=2)
    assert random.standard_error == pytest.approx((2 / 12) ** 0.5)
    assert float((random.energies.sum() / expected[:, random.rows].sum() - 1).abs()) < random.standard_error


def test_the_influence_on_more_outputs_than_features_is_the_jacobian_of_all_outputs(model):
    tokens = torch.randint(5, (TIME, BATCH))
    wide = ms.Model(model.cell, 9, encode=model.encode).double().requires_grad_(False)
    expected = network_by_autograd(wide, wide.encode(tokens))
    torch.testing.assert_close(model_path(wide, tokens).energies, expected, rtol=1e-10, atol=1e-13)


def test_the_lens_starts_from_a_given_state(model):
    tokens = torch.randint(5, (TIME, 2))
    _, state = ms.scan(model.cell, model.encode(tokens[:2]))
    found, whole = ms.influence(model, tokens[2:], state), ms.influence(model, tokens)
    torch.testing.assert_close(found.model, whole.model[2:, 2:])
    torch.testing.assert_close(found.layers[1].state_norms, whole.layers[1].state_norms[2:])
    assert not torch.allclose(found.model, ms.influence(model, tokens[2:]).model)


def test_a_long_input_takes_some_outputs_and_random_directions(model, monkeypatch):
    monkeypatch.setattr(network_derivatives, "WORK", {"cpu": 1})
    monkeypatch.setattr(network_derivatives, "DIRECTIONS", 1)
    found = model_path(model, torch.randint(5, (TIME, BATCH)))
    assert (found.rows.tolist(), found.directions) == ([0, TIME - 1], 1)


def test_token_numbers_without_an_embedding_are_refused():
    class Lookup(ms.cells.Cell):
        """Adds rows of a matrix to its state."""

        rows = torch.nn.Parameter(torch.eye(5, 2))

        def initial_state(self, batch):
            return torch.zeros(batch, 2)

        def forward(self, x, state):
            return state + self.rows[x]

    with pytest.raises(TypeError, match="pass model=False"):
        model_path(Lookup(), torch.randint(5, (TIME, BATCH)))


def test_products_of_matrices_and_of_their_numbers_agree(monkeypatch):
    W = randn(2, 3, 4, 5)
    by_numbers = carried_derivatives._packed_products(W)
    monkeypatch.setattr(carried_derivatives, "MATRIX", 0)
    torch.testing.assert_close(carried_derivatives._packed_products(W), by_numbers)
    r = randn(2, 3, 4, 1)
    squares = (r.mT @ W).square().sum((-2, -1))
    torch.testing.assert_close((carried_derivatives._products(r).squeeze(-1) * by_numbers).sum(-1), squares)


# --- summaries --------------------------------------------------------------------------------------------------------

ENERGIES = torch.tensor([[1.0, 0, 0], [4, 2, 0], [0, 6, 3]])
ROWS = torch.arange(3)


def test_summaries_of_a_small_matrix():
    length = torch.tensor(3)
    assert by_lag(ENERGIES, ROWS).tolist() == [[1, 0, 0], [2, 4, 0], [3, 6, 0]]
    assert lag_curve(ENERGIES, ROWS, length).tolist() == [2, 5, 0]
    assert half_life(torch.tensor([2.0, 5, 0.9])).item() == 2
    assert half_life(torch.tensor([2.0, 5, torch.nan])).item() == 2  # as many lags are known
    assert windows(ENERGIES, ROWS, length, 0.9).item() == pytest.approx(5 / 3)
    assert participations(ENERGIES, ROWS, length).item() == pytest.approx((1 + 36 / 20 + 81 / 45) / 3)
    assert kept_for(ENERGIES, ROWS).tolist() == [1, 1, 0]
    assert retention(ENERGIES, ROWS)[:2].tolist() == pytest.approx([4 / 6, 6 / 4])  # lag 2 has one input alone
    assert retention(ENERGIES, ROWS)[2].isnan()


@pytest.mark.parametrize("time", [1, 2, 5, 17])
def test_a_window_is_found_from_the_sums_of_all_older_inputs(time):
    energies, rows = randn(3, time, time).square().tril(), torch.arange(time)
    unneeded = (energies.cumsum(-1) <= 0.3 * energies.sum(-1, keepdim=True)).sum(-1)
    expected = (rows + 1 - unneeded).double().mean(-1)
    torch.testing.assert_close(windows(energies, rows, torch.full((3,), time), 0.7), expected)


def test_summaries_of_a_short_sequence_and_of_some_outputs_count_what_exists():
    short = ENERGIES.clone()
    short[2] = 0
    both, lengths = torch.stack([ENERGIES, short]), torch.tensor([3, 2])
    curves = lag_curve(both, ROWS, lengths)
    assert curves[1, :2].tolist() == [1.5, 4]
    assert curves[1, 2].isnan()
    assert windows(both, ROWS, lengths, 0.9)[1].item() == 1.5
    last = torch.tensor([2])
    assert lag_curve(ENERGIES[2:], last, torch.tensor(3)).tolist() == [3, 6, 0]


# --- the lens ---------------------------------------------------------------------------------------------------------


def test_the_lens_summarises_layers_and_network(model, tmp_path):
    tokens, labels = torch.randint(5, (TIME, 3)), list("abcdef")
    found = ms.influence(model, tokens, labels=labels, lengths=[6, 4, 5])
    assert [layer.heads for layer in found.layers] == [2, 2]
    for layer, part in zip(affine_layers(model, tokens), found.layers, strict=True):
        energies = ms.lenses.exact_influence.value_paths(layer).energies()
        torch.testing.assert_close(part.value, energies[0].sum(0).float())
        assert part.full.shape == (TIME, TIME)
        assert part.full_error == 0
        torch.testing.assert_close(part.state_norms, layer.states()[:, 0].flatten(1).norm(dim=1))
        assert part.value_curves[1].isnan().tolist() == [False] * 4 + [True] * 2
    torch.testing.assert_close(found.model, model_path(model, tokens).energies[0].float())
    text = found.summary()
    assert re.search(r"range from [\d.]+ \([\d.]+ to [\d.]+\) to [\d.]+ \([\d.]+ to [\d.]+\)", text)
    assert "are not part of this path" in text
    assert "95% interval" in text
    assert f"{found.label(found.best_kept[0])!r} at {found.best_kept[0]}" in text
    found.save(tmp_path / "influence.safetensors")
    assert ms.Influence.load(tmp_path / "influence.safetensors").summary() == text
    assert len(found.figure().axes) == 4


def test_inputs_of_a_short_first_sequence_are_compared_with_its_inputs_alone(model):
    tokens, labels = torch.randint(5, (TIME, 2)), [list("abcd"), list("abcdef")]
    for options in ({}, {"model": False}):
        padded = ms.influence(model, tokens, labels=labels, lengths=[4, TIME], **options)
        alone = ms.influence(model, tokens[:4, :1], **options)
        torch.testing.assert_close(padded.retention, alone.retention, equal_nan=True)
        assert padded.kept.tolist() == alone.kept.tolist()
        for with_padding, without in zip(padded.layers, alone.layers, strict=True):
            assert torch.equal(with_padding.head_half_lives[:1], without.head_half_lives)
        assert max(padded.best_kept) < 4
        assert repr(padded.label(padded.best_kept[0])) in padded.summary()


def test_a_single_output_is_the_last_and_an_earlier_end_has_none(model):
    found = ms.influence(model, torch.randint(5, (TIME, 2)), rows=1, lengths=[4, TIME])
    assert found.rows.tolist() == [TIME - 1]
    assert found.best_kept == []
    assert found.kept.tolist() == [0] * 4


def test_numbers_of_steps_are_spelled_with_their_limit():
    samples = torch.tensor([[2.0, 0.5, 0.1], [2.0, 2.0, 2.0]])
    assert _number(samples[:1], half_life, 3) == "1 step"
    assert _number(samples[1:], half_life, 3) == "3 or more steps"
    assert _number(samples, half_life, 3) == "3 or more steps (95% interval 1 to 3 or more)"


def test_the_value_path_alone_and_long_sequences(monkeypatch):
    from mnemoscope.lenses.exact_influence import lens

    monkeypatch.setattr(lens, "CELLS", 3)
    monkeypatch.setattr(lens, "ROOM", {"cpu": 40})  # one head of one sequence at a time
    cell = trained("mlstm")
    found = ms.influence(cell, randn(5, 2, 3), full=False, model=False)
    assert found.cell == 2
    assert found.layers[0].value.shape == (3, 3)
    assert found.model is None
    assert "step" in found.summary()
    assert "Through the whole network" not in found.summary()
    assert len(found.figure().axes) == 4
    whole = affine_layers(cell, torch.zeros(5, 2, 3, dtype=torch.float64))[0]
    assert found.layers[0].head_half_lives.shape == (2, whole.start.shape[1])


def test_estimates_state_their_error(model):
    found = ms.influence(model, torch.randint(5, (TIME, 1)), directions=2, rows=2)
    assert found.model_error == 1
    assert "standard error of a single influence is at most 100%" in found.summary()
    assert found.layers[0].full_error == 1  # of two directions and all values
    assert "interval" not in found.summary()  # of one sequence


@pytest.mark.parametrize(
    ("options", "message"),
    [({"share": 1.0}, "share must be between 0 and 1"), ({"directions": -1}, "directions"), ({"rows": -1}, "rows")],
)
def test_impossible_settings_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        ms.influence(model, torch.randint(5, (TIME, 1)), **options)


def test_a_network_without_affine_layers_is_refused():
    with pytest.raises(TypeError, match="measure_influence"):
        ms.influence(torch.nn.GRU(3, 4), torch.randn(TIME, 2, 3))


def test_the_page_states_what_was_measured():
    root = Path(__file__).parent.parent.parent
    page = " ".join((root / "docs" / "influence.md").read_text().split())
    ours, lens, others, mamba, gpu, peer = (
        json.loads((root / "benchmarks" / "results" / f"influence_{name}.json").read_text())
        for name in ("cpu", "cpu_lens", "cpu_lens_others", "cpu_lens_mamba", "cuda", "peer")
    )
    seconds = [row["seconds"] for row in ours["rows"]]
    assert f"takes {min(seconds):.1f} to {max(seconds):.1f} s on two cores" in page
    whole = {row["family"]: row["seconds"] for row in (*others["rows"], *lens["rows"])}
    before, [now] = whole.pop("mamba"), [row["seconds"] for row in mamba["rows"]]
    assert f"takes {min(whole.values()):.1f} to {max(whole.values()):.1f} s ([results]" in page
    assert f"Mamba, with 512 heads of one channel, takes {now:.0f} s" in page
    assert f"made Mamba faster, from {before:.0f} s" in page
    of_lens = [row["seconds"] for row in gpu["rows"] if row["path"] == "lens"]
    assert f"the whole lens {min(of_lens):.1f} to {max(of_lens):.1f} s" in page
    assert f"at most {max(row['error'] for row in ours['rows']):.0e} of the largest read" in page
    trained = json.loads((root / "benchmarks" / "results" / "influence_exact.json").read_text())["rows"]
    assert f"each of the {len(trained)} affine families" in page
    assert f"is at most {max(row['error'] for row in trained):.0e} of the largest read" in page
    mine, theirs, kept = (row["error"] for row in peer["rows"] if row["model"].startswith("Gated"))
    assert f"are off by {theirs:.0%} of their norm, those of `value_paths` by {mine:.0e} in float32" in page
    assert f"the error is {kept:.1%}" in page
