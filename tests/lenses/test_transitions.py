"""The transitions lens against dense matrices, brute-force products and planted operators."""

import json
import re
from functools import reduce
from itertools import product
from math import cos, exp, inf, log, pi, sin
from pathlib import Path

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Block, Stack, affine_layers
from mnemoscope.cells.affine import KDA, RWKV7, DeltaNet, Parts
from mnemoscope.cells.affine.parts import carry_back, carry_state
from mnemoscope.lenses.transition_operators.actions import ACTIONS
from tests.cells.test_affine_cells import CELLS
from tests.planted_affine import Planted, delta_tokens, tokens
from tests.slow import SLOW, representatives


def inputs(time=9, batch=2, seed=0):
    return 3 * torch.randn(time, batch, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def cell_of(name):
    torch.manual_seed(1)
    return CELLS[name]().double()


def names(layer):
    """Return the actions of the first sequence and head."""
    return [ACTIONS[number] for number in layer.actions[:, 0, 0].tolist()]


def by_modulus(values):
    return sorted(values.tolist(), key=lambda value: (-round(abs(value), 9), round(value.imag, 9)))


@representatives("lru", "deltanet", "gated-deltanet", "kda", "rwkv7", "deltaproduct-gated", "mamba-negative")
@pytest.mark.parametrize("name", CELLS)
def test_spectra_are_those_of_the_dense_operators(name):
    cell, xs = cell_of(name), inputs()
    layer = ms.transitions(cell, xs)[0]
    A = affine_layers(cell, xs)[0].transitions().detach()
    singular = torch.linalg.svdvals(A)
    torch.testing.assert_close(layer.largest, singular[..., 0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(layer.smallest, singular[..., -1], rtol=1e-9, atol=1e-14)
    for step, head in ((0, 0), (8, -1)):
        found = torch.tensor(by_modulus(layer.eigenvalues[step, 1, head] + 0j))
        dense = torch.tensor(by_modulus(torch.linalg.eigvals(A[step, 1, head])))
        torch.testing.assert_close(found, dense, rtol=1e-9, atol=1e-9)
        departure = ms.spectrum(A[step, 1, head]).departure
        assert float(layer.departure[step, 1, head]) == pytest.approx(departure, abs=1e-7)


@pytest.mark.parametrize("name", ["lru", "rwkv7", "deltaproduct-gated", "mamba-negative"])
def test_operators_are_applied_without_being_formed(name):
    layer = affine_layers(cell_of(name), inputs())[0].precise()
    parts, A = layer.at(3), layer.transitions()[3]
    S = torch.randn(*A.shape[:3], 5, dtype=torch.float64).to(A)
    torch.testing.assert_close(carry_state(parts, S), A @ S)
    torch.testing.assert_close(carry_back(parts, S.mT), S.mT @ A)


@pytest.mark.parametrize("name", ["lru", "kda", "deltaproduct-gated", "mamba-negative"])
def test_growth_over_windows_is_that_of_the_products(name):
    cell, xs = cell_of(name), inputs(time=11)
    layer = ms.transitions(cell, xs, exponents=1)[0]
    A = affine_layers(cell, xs)[0].transitions().detach()
    assert layer.sizes.tolist() == [1, 2, 4, 8]
    for row, size in enumerate(layer.sizes.tolist()):
        products = torch.stack(
            [reduce(lambda P, A_t: A_t @ P, A[start : start + size]) for start in range(0, 11 - size + 1, size)]
        )
        norms = torch.linalg.matrix_norm(products, ord=2).log()
        radii = torch.linalg.eigvals(products).abs().amax(-1).log()
        torch.testing.assert_close(layer.growth[row], norms.mean(0), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layer.peaks[row], norms.amax(0), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layer.radii[row], radii.mean(0), rtol=1e-7, atol=1e-7)
    whole = torch.linalg.eigvals(reduce(lambda P, A_t: A_t @ P, A))[0, 0]
    assert float(layer.products[0, 0, 0].real) == pytest.approx(float(whole.abs().max().log()), rel=1e-9)


def test_many_windows_are_sampled_evenly():
    held = delta_tokens([[1.0, 0.0]], [0.5], [-0.1])
    layer = ms.transitions(held, torch.zeros(70, 1, 1, dtype=torch.float64))[0]
    assert layer.sizes.tolist() == [1, 2, 4, 8, 16, 32, 64]
    torch.testing.assert_close(layer.growth[:, 0, 0], -0.1 * layer.sizes.double())


def test_all_exponents_add_up_to_the_mean_logarithm_of_the_determinants():
    cell, xs = cell_of("kda"), inputs(time=30)
    layer = ms.transitions(cell, xs, transient=0)[0]
    determinants = affine_layers(cell, xs)[0].transitions().detach().det().abs().log().mean(0)
    torch.testing.assert_close(layer.exponents.sum(-1), determinants, rtol=1e-9, atol=1e-9)


def test_exponents_agree_with_the_lens_for_any_network():
    torch.manual_seed(0)
    cell = KDA(3, 1, heads=1, key_size=3).double()
    with torch.no_grad():
        cell.rate_bias.copy_(torch.tensor([-6.0, 0.0, 3.0]))  # three rates far apart
        cell.log_decay.fill_(0)
    xs = inputs(time=60)
    layer = ms.transitions(cell, xs, transient=20)[0]
    other = ms.lyapunov_spectrum(cell, inputs=xs, starts=torch.zeros(2, 3), transient=20, progress=False)
    torch.testing.assert_close(layer.exponents[:, 0], other.exponents, rtol=1e-7, atol=1e-8)


def test_a_diagonal_recurrence_has_the_mean_rates_as_exponents():
    layer = ms.transitions(cell_of("gla"), inputs(), transient=2)[0]
    rates = affine_layers(cell_of("gla"), inputs())[0].parts.log_decays[2:].mean(0).detach()
    torch.testing.assert_close(layer.exponents, rates.sort(descending=True).values)


def test_planted_operators_are_named():
    """I, a reflection, an erasure, a fading step, and a strong decay; the last token of a DeltaNet writes nothing."""
    cell = delta_tokens([[1.0, 0.0]] * 5, [0.0, 2.0, 1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0, -5.0])
    result = ms.transitions(cell, tokens([1, 0, 2, 3, 4]), labels=["flip", "wait", "wipe", "fade", "drop"])
    layer = result[0]
    assert names(layer) == ["reflect", "hold", "erase", "fade", "reset"]
    assert layer.eigenvalues[0, 0, 0].tolist() == [-1, 1]
    assert layer.does("write")[:, 0, 0].tolist() == [True, False, True, True, False]
    wipe = {name: float(share.mean) for name, share in result.by_label()["wipe"].items()}
    assert wipe == {**dict.fromkeys(ACTIONS, 0.0), "erase": 1.0, "write": 1.0}
    assert not result.by_label()["wipe"]["write"].known  # there is one sequence
    assert [(label, share.text()) for label, share in result.most("write", number=2)] == [
        ("flip", "100%"),
        ("wipe", "100%"),
    ]
    assert result.most("rotate") == []
    with pytest.raises(ValueError, match="action must be one of reset"):
        result.most("dance")
    assert layer.kept[1].item() == 1
    assert torch.isnan(layer.kept[0]).all()  # there was no state to keep
    assert layer.exponents[0, 0, 1].item() == -inf  # beta = 1 loses a direction for good
    assert layer.products[0, 0, 1].real.item() == -inf
    assert "some directions are lost" in result.summary()


def test_shares_of_labels_have_intervals_over_the_sequences_that_hold_them():
    cell = delta_tokens([[1.0, 0.0]] * 2, [0.0, 2.0])
    named = [["a", "a", "b"], ["a", "b", "b"], ["a", "a", "c"]]
    result = ms.transitions(cell, tokens([1, 0, 1], [1, 1, 0], [0, 0, 1]), labels=named)
    table = result.by_label()
    assert [float(table[label]["reflect"].mean) for label in "abc"] == pytest.approx([2 / 5, 2 / 3, 1])
    share = table["a"]["reflect"]  # 1 of 2, 1 of 1 and 0 of 2
    ratios = [
        sum((1, 1, 0)[row] for row in rows) / sum((2, 1, 2)[row] for row in rows)
        for rows in product(range(3), repeat=3)
    ]
    assert min(ratios) <= float(share.low) < float(share.mean) < float(share.high) <= max(ratios)
    assert share.known
    assert not table["c"]["reflect"].known
    layer = result[0]
    assert float(layer.mean_share("reflect").mean) == pytest.approx(5 / 9)
    assert f"reflect it at {layer.mean_share('reflect').text()}" in result.summary()
    assert layer.mean_share("reflect").text() == "56% (33% to 67%)"


def test_the_interval_of_a_time_is_that_of_its_exponent():
    layer = ms.transitions(cell_of("gla"), inputs())[0]
    times, exponents = layer.memory_time, layer.exponent
    for time, exponent in zip(times, exponents, strict=True):
        torch.testing.assert_close(time, -1 / exponent[:, 0])
    assert (times.low <= times.mean).all()
    assert (times.mean <= times.high).all()


def test_two_reflections_rotate():
    """By twice the angle between the keys; the product over six of them is the identity."""
    angle = pi / 6
    cell = delta_tokens([[[1.0, 0.0], [cos(angle), sin(angle)]]], [[2.0, 2.0]])
    layer = ms.transitions(cell, torch.zeros(6, 1, 1, dtype=torch.float64))[0]
    assert set(names(layer)) == {"rotate"}
    torch.testing.assert_close(layer.eigenvalues[0, 0, 0].angle().abs(), torch.full((2,), 2 * angle).double())
    torch.testing.assert_close(layer.exponents, torch.zeros(1, 1, 2).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(layer.products.exp().squeeze(), torch.ones(2).cdouble(), rtol=0, atol=1e-9)
    assert layer.memory_time.mean.item() > 1e10


def test_a_decay_of_infinite_rate_is_a_reset_with_exponents_of_minus_infinity():
    table = Parts(*(torch.ones(2, 1, 2).double() for _ in range(2)), torch.ones(2, 1, 1).double(),
                  torch.tensor([[[-0.1, -0.2]], [[-inf, -inf]]]).double())  # fmt: skip
    layer = ms.transitions(Planted(table), tokens([0, 0, 1, 0], [0, 0, 0, 0]), transient=0)[0]
    assert names(layer) == ["fade", "fade", "reset", "fade"]
    assert layer.exponents[0].flatten().tolist() == [-inf, -inf]
    torch.testing.assert_close(layer.exponents[1, 0], torch.tensor([-0.1, -0.2]).double())
    mean, low, high = (part.tolist() for part in layer.exponent)
    assert mean == low == high == [[-inf, -inf]]


def test_products_that_vanish_have_no_growth_to_compute():
    layer = ms.transitions(delta_tokens([[1.0]], [1.0]), torch.zeros(4, 1, 1, dtype=torch.float64))[0]
    assert (layer.growth == -inf).all()
    assert layer.exponents.item() == -inf
    assert layer.largest_growth == (0.0, 1)


def test_growth_counts_every_single_step():
    """Every third of 70 windows of one step is measured, and the only one that grows is not among them."""
    ones = torch.ones(2, 1, 2).double()
    shear = torch.tensor([[[0.0, 0]], [[1.0, 0]]]).double()  # A = I / 2, or [[0.5, 1], [0, 0.5]]
    second = torch.tensor([0.0, 1]).double().expand(2, 1, 2)
    cell = Planted(Parts(ones, ones, ones, torch.full_like(ones, log(0.5)), (shear, second)))
    layer = ms.transitions(cell, tokens([0, 1] + [0] * 68))[0]
    assert float(layer.peaks[0].max()) == pytest.approx(log(0.5))
    assert layer.largest_growth == (pytest.approx(0.5 + 0.5**0.5), 1)


def test_operators_of_mixed_signs_are_treated_as_general():
    ones = torch.ones(1, 1, 2).double()
    rotation = (torch.tensor([[[1.0, -1.0]]]).double(), ones)  # [[1, 1], [-1, -1]] added to a diagonal matrix
    cell = Planted(Parts(ones, ones, ones, torch.tensor([[[log(0.1), log(0.6)]]]).double(), rotation))
    layer = ms.transitions(cell, torch.zeros(3, 1, 1, dtype=torch.float64))[0]
    assert layer.structure == "general"
    assert set(names(layer)) == {"rotate"}


def test_rwkv7_neither_reflects_nor_is_bounded_by_1():
    """Its eigenvalues lie above e^-0.607 - 1 = -0.455, and its norm exceeds 1."""
    torch.manual_seed(0)
    cell = RWKV7(3, 8, heads=2, rank=2).double()
    with torch.no_grad():
        for weight in (cell.decay.weight, cell.rate.weight, cell.project.weight):
            weight.mul_(20)  # gates at their ends
    layer = ms.transitions(cell, inputs(time=60))[0]
    assert -0.4549 < exp(-exp(-0.5)) - 1 < -0.4547
    assert exp(-exp(-0.5)) - 1 < float(layer.eigenvalues.min()) < -0.3
    assert 1.05 < float(layer.largest.max()) < 1.2
    grown, _ = layer.largest_growth
    assert grown >= float(layer.largest.max()) - 1e-12
    assert f"States can grow up to {grown:.3g} times" in ms.transitions(cell, inputs(time=60)).summary()


def test_short_sequences_have_the_results_that_they_have_alone():
    cell, xs = cell_of("kda"), inputs(time=12)
    both = ms.transitions(cell, xs, lengths=[12, 7], transient=1)[0]
    alone = ms.transitions(cell, xs[:7, 1:], transient=1)[0]
    assert torch.isnan(both.largest[7:, 1]).all()
    assert (both.actions[7:, 1] == -1).all()
    assert not both.does("write")[7:, 1].any()
    assert not both.does("hold")[7:, 1].any()
    torch.testing.assert_close(both.largest[:7, 1:], alone.largest)
    torch.testing.assert_close(both.products[1:], alone.products)
    torch.testing.assert_close(both.growth[:3, 1:], alone.growth)
    assert torch.isnan(both.growth[3, 1]).all()
    mean, low, high = both.mean_growth
    torch.testing.assert_close(mean[:3], both.growth[:3].mean(1))
    torch.testing.assert_close(mean[3], both.growth[3, 0])  # only one sequence is as long
    assert ((low <= mean + 1e-12) & (mean <= high + 1e-12)).all()
    # the first directions are drawn for the whole batch, so that only the sum, log |det A|, is the same
    torch.testing.assert_close(both.exponents[1:].sum(-1), alone.exponents.sum(-1))
    gated = cell_of("gla")
    both, alone = ms.transitions(gated, xs, lengths=[12, 7])[0], ms.transitions(gated, xs[:7, 1:], transient=0)[0]
    torch.testing.assert_close(both.exponents[1:], alone.exponents)
    torch.testing.assert_close(both.products[1:], alone.products)


def test_every_layer_has_a_name_and_intervals_over_sequences(tmp_path):
    torch.manual_seed(0)
    network = Stack([Block(KDA(3, 4, heads=2), width=3), Block(DeltaNet(3, 4, beta_max=2.0), width=3)]).double()
    result = ms.transitions(network, inputs(batch=5))
    assert [layer.name for layer in result.layers] == ["layers.0", "layers.1"]
    assert result["layers.1"] is result[1]
    share = result[0].share("fade")
    assert ((share.low <= share.mean) & (share.mean <= share.high)).all()
    total = sum(result[1].share(name).mean for name in ACTIONS)
    torch.testing.assert_close(total, torch.ones(1).double())
    torch.testing.assert_close(result[1].share("fade").mean, result[1].does("fade").double().mean((0, 1)))
    path = tmp_path / "transitions.safetensors"
    result.save(path)
    loaded = ms.Transitions.load(path)
    assert loaded.summary() == result.summary()
    torch.testing.assert_close(loaded[1].eigenvalues, result[1].eigenvalues, equal_nan=True)


def test_a_summary_lists_the_first_layers():
    network = Stack([Block(DeltaNet(3, 4), width=3) for _ in range(5)]).double()
    assert "layers.3" in (text := ms.transitions(network, inputs()).summary())
    assert text.endswith("1 more layer is not listed.")


@pytest.mark.parametrize(("name", "labels"), [("deltaproduct-gated", list("abcdefghi")), ("s4d", None)])
def test_the_figure_shows_the_steps_with_their_labels(name, labels):
    figure = ms.transitions(cell_of(name), inputs(), labels=labels).figure()
    figure.canvas.draw()
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert (ticks == labels) == (labels is not None)
    assert len(figure.axes) == 4


def test_the_figure_marks_exponents_of_minus_infinity_and_many_heads():
    ones = torch.ones(1, 13, 2).double()
    table = Parts(ones, ones, ones, torch.full_like(ones, -inf))
    figure = ms.transitions(Planted(table), torch.zeros(3, 1, 1).double()).figure()
    figure.canvas.draw()
    assert any("minus infinity" in text.get_text() for text in figure.axes[2].texts)


def test_the_page_prints_what_it_shows(capsys):
    """Digits may differ between machines."""
    page = (Path(__file__).parents[2] / "docs" / "transitions.md").read_text()
    for code, shown in re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL):
        exec(compile(code, "docs/transitions.md", "exec"), {})
        assert re.sub(r"[\d.]+", "#", capsys.readouterr().out) == re.sub(r"[\d.]+", "#", shown)


def test_the_page_has_the_times_of_the_benchmark():
    root = Path(__file__).parents[2]
    page = " ".join((root / "docs" / "transitions.md").read_text().split())
    rows = json.loads((root / "benchmarks" / "results" / "transitions.json").read_text())["rows"]
    assert all(row["tokens"] == 2048 and row["transitions_s"] < 30 for row in rows)
    named = [row for row in rows if f"{row['transitions_s']:.2g} s (`{row['family']}`)" in page]
    assert len(named) == page.count(" s (`") == 6


class Tokenizer:
    def convert_ids_to_tokens(self, ids):
        return [f"<{number}>" for number in ids]


def test_a_tokenizer_labels_token_numbers():
    model = ms.Model(DeltaNet(3, 4), 2, encode=torch.nn.Embedding(5, 3))
    result = ms.transitions(model, torch.tensor([[1, 2], [3, 4]]), labels=Tokenizer())
    assert result.labels == (("<1>", "<3>"), ("<2>", "<4>"))


@SLOW
def test_a_pretrained_model_is_read_batch_first_with_its_tokens():
    pytest.importorskip("transformers")
    from tests.cells.tiny_models import causal_model

    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])  # sequences first
    model = causal_model("mamba2")
    result = ms.transitions(model, tokens, lengths=torch.tensor([4, 4]), labels=Tokenizer())
    assert result.labels[1] == ("<5>", "<6>", "<7>", "<8>")
    assert [layer.name for layer in result.layers] == ["layers.0", "layers.1"]
    decays = affine_layers(model, tokens)[1].parts.log_decays.detach()
    torch.testing.assert_close(result[1].largest, decays.squeeze(-1).exp().double())
    assert ms.fisher_memory(model, along=tokens, layer=1).curve.shape == (2, 4, 4)


def test_wrong_arguments_are_named():
    cell, xs = cell_of("gla"), inputs()
    with pytest.raises(TypeError, match="no layer that is affine"):
        ms.transitions(torch.nn.GRU(3, 4), xs.float())
    with pytest.raises(ValueError, match="one string for each of 9 steps"):
        ms.transitions(cell, xs, labels=["a", "b"])
    with pytest.raises(ValueError, match="A tokenizer labels token numbers"):
        ms.transitions(cell, xs, labels=Tokenizer())
    with pytest.raises(ValueError, match="the transient alone takes 9"):
        ms.transitions(cell, xs, transient=9)
    with pytest.raises(ValueError, match="exponents"):
        ms.transitions(cell, xs, exponents=0)
    result = ms.transitions(cell, xs, exponents=1)
    assert result[0].exponents.shape[-1] == 1
    with pytest.raises(ValueError, match="pass labels"):
        result.by_label()
    with pytest.raises(KeyError, match="There is no layer 'x'"):
        result["x"]
    for method in (result[0].does, result[0].share):
        with pytest.raises(ValueError, match="action must be one of reset"):
            method("dance")
