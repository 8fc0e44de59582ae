"""The page of a network with affine layers: tokens by their memory, heads, matrices and state norms."""

import re

import pytest
import torch

import mnemoscope as ms
from mnemoscope.cells import Stack
from mnemoscope.cells.affine import GLA
from mnemoscope.inspection import InspectionOptions, past_inputs
from mnemoscope.inspection.duration import Duration, add_past_inputs
from mnemoscope.inspection.past_inputs import find_past_inputs, label_inputs, past_input_sections, why_no_search
from mnemoscope.report import NetworkPage
from mnemoscope.report.matrices import LEVELS, Matrix, matrix_markup
from mnemoscope.report.text import TextToken, text_markup
from tests.report.browser import BROWSER, visit
from tests.slow import SLOW

QUIET = InspectionOptions(progress=False)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return ms.Model(Stack([GLA(2, 2), GLA(2, 2)]), 2, encode=torch.nn.Embedding(3, 2))


@pytest.fixture(scope="module")
def inspection(model):
    torch.manual_seed(0)
    return ms.inspect(model, torch.randint(3, (5, 2)), labels=list("a<b'\n"), name="tiny", options=QUIET)


@pytest.mark.usefixtures("undrawn")
def test_tokens_are_inspected_by_what_the_network_keeps_of_them(inspection, tmp_path):
    assert len(inspection.influence.layers) == 2
    assert inspection.fixed_points is None
    assert inspection.transitions.labels[0] == inspection.influence.labels
    page = inspection.save(tmp_path / "page.html")
    text = page.read_text()
    assert len(text) < 200_000
    headings = ["What it keeps of its inputs", "Heads by half-life", "Which input matters for which output"]
    for heading in (*headings, "Size of the state", "What each step does to the state"):
        assert f">{heading}</h2>" in text
    assert [re.sub("<[^>]*>", "", token) for token in re.findall(r'<span class="token".*?</span>', text)] == [
        "a", "&lt;", "b", "&#x27;", "\u21b5"]  # fmt: skip
    assert text.count('<figure class="matrix"') == 3
    assert (tmp_path / "page.influence.safetensors").exists()


@SLOW
@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here (Debian: apt install chromium)")
def test_a_matrix_shows_the_number_under_the_pointer(inspection, tmp_path):
    found = inspection.influence
    page = NetworkPage("matrix", sections=past_input_sections(found)[2:3])
    script = """
    const image = document.querySelector(".matrix img"), box = image.getBoundingClientRect();
    const at = { clientX: box.left + box.width * 0.1, clientY: box.top + box.height * 0.9 };
    image.dispatchEvent(new PointerEvent("pointermove", at));
    answer.text = document.querySelector(".matrix output").textContent;
    """
    answer = visit(page, tmp_path, script)
    assert answer["wrong"] == []
    place, value = answer["text"].rsplit(": ", 1)
    assert place == "output 4 (\n), input 0 (a)"
    shown, exact = float(value.removeprefix("at most ")), float(found.model[4, 0])
    assert shown == pytest.approx(max(exact, float(found.model.max()) * 1e-4), rel=0.07)  # 4 decades in 88 levels


def test_matrices_are_averaged_and_their_levels_are_characters():
    values = torch.arange(300.0 * 300).view(300, 300)
    html = matrix_markup([Matrix("big", values, range(300))])
    assert 'data-columns="100"' in html
    assert 'data-steps="3"' in html
    levels = re.search('data-levels="([^"]*)"', matrix_markup([Matrix("x", torch.logspace(-5, 0, 90)[None], [0])]))[1]
    assert "\\" not in levels
    assert levels.endswith(chr(35 + LEVELS - 1))
    nothing = matrix_markup([Matrix("zero", torch.zeros(2, 2), [0, 1])])
    assert 'data-levels="####"' in nothing


def test_texts_show_spaces_and_line_breaks():
    html = text_markup([TextToken("\u0120the", 0.5, "a"), TextToken("", 0, "b")], "caption")
    assert '--m:0.50" title="a"> the<' in html
    assert ">\u2205<" in html


def test_inputs_with_one_feature_and_tokens_have_labels():
    tokens = torch.tensor([[0, 2], [1, 1]])
    assert label_inputs(tokens) == [["0", "1"], ["2", "1"]]
    assert label_inputs(torch.nn.functional.one_hot(tokens).float()) == [["0", "1"], ["2", "1"]]
    assert label_inputs(torch.randn(2, 2, 3)) is None


def test_inputs_of_float_numbers_get_the_same_sections():
    cell = ms.networks.minlstm(2, 2)
    found = ms.inspect(cell, torch.randn(6, 3, 2), lenses=["influence"], options=QUIET)
    assert found.influence.labels == ()
    assert found.influence.lengths.tolist() == [6, 6, 6]
    assert found.results.keys() == {"influence"}
    gru = ms.inspect(torch.nn.GRU(2, 2), torch.randn(6, 3, 2), lenses=["influence"], options=QUIET)
    assert gru.influence is None


def test_many_layers_and_tokens_are_shortened(inspection, monkeypatch):
    monkeypatch.setattr(past_inputs, "LAYERS", 1)
    monkeypatch.setattr(past_inputs, "TOKENS", 3)
    text = past_inputs._text_section(inspection.influence)
    assert text.html.count('class="token"') == 3
    assert "The first 3 of 5 inputs" in text.html
    assert "1 of 2 layers are shown" in past_inputs._matrix_section(inspection.influence).lead


def test_long_inputs_are_explained_and_some_sequences_chosen(model, monkeypatch):
    tokens, given = torch.randint(3, (5, 9)), {}
    monkeypatch.setattr(past_inputs, "influence", lambda network, inputs, **options: given.update(options))
    find_past_inputs(model, tokens, QUIET, labels=[list("abcde")] * 9, lengths=torch.full((9,), 4))
    assert given["labels"] == [list("abcde")] * 8
    assert given["lengths"].tolist() == [4] * 8
    monkeypatch.setattr(past_inputs, "BUDGET", 1.0)
    assert find_past_inputs(model, tokens, QUIET) is None
    found = Duration()
    add_past_inputs(found, model, tokens, QUIET, None, None)
    assert "take long" in found.sections()[0].lead


def test_fixed_points_of_large_affine_networks_are_not_searched_for():
    assert "one fixed point" in why_no_search(ms.networks.blocks(3, 32, "gated-deltanet", depth=2), QUIET)
    assert why_no_search(ms.networks.blocks(3, 4, "gla"), QUIET) == ""
    assert why_no_search(ms.networks.blocks(3, 32, "slstm", depth=2), QUIET) == ""
    assert why_no_search(ms.networks.gru(3, 300), QUIET) == ""


def test_fixed_points_of_deep_blocks_are_searched_for_on_request():
    """Their states are small, but each Jacobian takes a pass through all blocks for every number."""
    deep = ms.networks.blocks(3, 8, "rwkv7", depth=4, heads=2)
    assert "one fixed point" in why_no_search(deep, QUIET)
    assert "full=True" in why_no_search(deep, QUIET)
    assert "full=True" not in why_no_search(ms.networks.blocks(3, 32, "gated-deltanet", depth=2), QUIET)  # no use there
    assert why_no_search(deep, InspectionOptions(full=True)) == ""
    assert why_no_search(ms.networks.blocks(3, 8, "rwkv7", depth=2, heads=2), QUIET) == ""
    assert why_no_search(GLA(2, 2), QUIET) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": torch.zeros(5, 2)}, "omit targets"),
        ({"lenses": ["fixed-points"]}, "omit lenses"),
        ({"options": InspectionOptions(certify=True)}, "omit certify"),
    ],
)
def test_settings_that_tokens_do_not_have_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        ms.inspect(model, torch.randint(3, (5, 2)), **options)
