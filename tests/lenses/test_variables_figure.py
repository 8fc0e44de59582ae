"""Variables as figures, as files, and as a section of the page."""

import itertools
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity.signed_selection import SignedSelection, parse_selection
from mnemoscope.drawing.axes import new_figure
from mnemoscope.inspection import InspectionOptions, inspect_run
from mnemoscope.inspection.variables import inspect_variables, variables_section
from mnemoscope.lenses import Variables, find_variables
from mnemoscope.lenses.variables import planted_network
from mnemoscope.lenses.variables.figure import draw_evidence, draw_variables, draw_wave
from mnemoscope.lenses.variables.theory import elman_model
from mnemoscope.lenses.variables.wave import cycle_path, signed_colours
from mnemoscope.report.document import render_document
from mnemoscope.tasks import RepeatCopy
from mnemoscope.training import train
from tests.report.test_report import Outline, plain
from tests.slow import representatives

STATUSES = ("none", "untested", "refuted", "explained")


def network(variables=3, size=2, **options):
    return planted_network(variables, size, 2 * variables * size, 4, torch.Generator().manual_seed(0), **options)


def variables_with(status):
    """Return an answer with this status, for a network with known variables."""
    net = network()
    if status == "none":
        found = find_variables(torch.nn.RNN(2, 12), torch.nn.Linear(12, 2))
    elif status == "untested":  # it takes one input more than a variable has elements
        B = torch.cat([net.B, torch.zeros(len(net.B), 1, dtype=torch.float64)], 1)
        found = find_variables(elman_model(net.A, B, net.C, "linear"))
    elif status == "refuted":
        found = find_variables(net.model, method="published", number=3)
    else:
        found = find_variables(net.model)
    assert found.status == status
    return found


# --- the wave -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        SignedSelection.repeat_copy(4, 3),
        SignedSelection.compose_copy(5),
        parse_selection("T3", 8, 8),
        parse_selection("T4", 8, 8),
        parse_selection("1 1 -6", 2, 3),  # all elements copy element 2, and none keeps it
    ],
)
@pytest.mark.parametrize("late", [0, 3])
def test_the_path_of_a_number_passes_equal_values(rule, late):
    N, size, steps = rule.variables, rule.size, 60
    first = torch.randn(N + late, 1, size, dtype=torch.float64)
    sequence = torch.cat([first, rule.simulate(first[late:], steps)[N:]])
    held = np.abs(np.stack([sequence[max(0, T - N + 1) : T + 1].flatten() for T in range(N - 1, steps)]))
    segments = cycle_path(rule, N + late, steps)
    path = np.concatenate(segments)
    assert path[:, 0].tolist() == list(range(path[0, 0], steps))  # one place at every step
    values = [held[T - N + 1, row] for T, row in path if T >= N - 1]
    assert np.allclose(values, values[0], rtol=0, atol=0)
    longest = max(rule.cycles(), key=lambda cycle: cycle.lag)
    assert sum(len(segment) for segment in segments[: len(longest.elements)]) == longest.lag
    assert N + late in {segment[0, 0] for segment in segments}  # F copies it as soon as inputs stop


def test_opacity_is_size_and_colour_is_sign():
    values = np.array([[0.5, -0.25], [0.0, 7.0]])
    picture = signed_colours(values, 3)
    assert picture.shape == (6, 6, 4)
    assert picture[::3, ::3, 3].tolist() == [[0.5, 0.25], [0.0, 1.0]]
    up, down = picture[0, 0, :3], picture[0, 3, :3]
    assert np.array_equal(up, picture[3, 3, :3])
    assert up[2] > up[0]  # blue
    assert down[0] > down[2]  # red
    assert signed_colours(np.array([[np.nan]]))[0, 0, 3] == 0


def test_the_wave_shows_the_decoded_values():
    found = variables_with("explained")
    figure = draw_wave(found, trial=5)
    (axes,) = figure.axes
    (image,) = axes.images
    shown = np.asarray(image.get_array())[::6, ::6, 3]
    steps = found.trials.input_steps + 4 * found.variables
    assert shown.shape == (6, max(steps, 16))
    expected = found.trials.decoded[: shown.shape[1], 5].flatten(1).mT.abs().clamp(max=1)
    assert np.allclose(shown, expected)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1, oldest", "2", "3, newest"]
    assert {text.get_text() for text in axes.texts} == {"inputs", "no input: the network runs freely"}
    with pytest.raises(IndexError, match="There are 64 trials, numbered from 0, but 64 was asked for"):
        draw_wave(found, trial=64)


def test_many_subspaces_have_few_labels():
    found = find_variables(network(30, 1).model, lasting=100)
    assert found.variables == 30
    labels = [label.get_text() for label in draw_wave(found).axes[0].get_yticklabels()]
    assert len(labels) <= 13
    assert (labels[0], labels[-1]) == ("1, oldest", "30, newest")


# --- the evidence ---------------------------------------------------------------------------------------------------

PANELS = ["Eigenvalues at the fixed point", "Scores of the modes", "Rank of the readings"]
PANELS += ["F, largest entry 1 (blue +)", "Decoding from the states", "Causal tests: share of the future"]


@representatives("untested-4")
@pytest.mark.parametrize(("status", "panels"), [("none", 2), ("untested", 4), ("refuted", 6), ("explained", 6)])
def test_unknown_evidence_has_no_panel(status, panels):
    found = variables_with(status)
    figure = draw_variables(found)
    wave, *evidence = figure.get_axes()
    titles = [axes.get_title() for axes in evidence]
    assert len(titles) == panels
    assert [title.partition(",")[0] for title in titles] == [title.partition(",")[0] for title in PANELS[:panels]]
    if found.trials is None:
        message = " ".join(text.get_text().replace("\n", " ") for text in wave.texts)
        assert found.reason in message
        assert message.startswith("No variables were found." if status == "none" else "Variables were found, but not")
    assert_nothing_overlaps(figure, evidence)


@representatives("none")
@pytest.mark.parametrize("status", STATUSES)
def test_the_evidence_fits_the_font_of_a_narrow_page(status):
    found = variables_with(status)
    figure = draw_evidence(
        found, columns=2, font_size=13, figure=new_figure(7.2, 3.7 * (1 if found.structure is None else 3))
    )
    assert_nothing_overlaps(figure, figure.get_axes())


def assert_nothing_overlaps(figure, panels):
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    boxes = [axes.get_tightbbox(renderer) for axes in panels]
    assert_apart(boxes)
    for axes, box in zip(panels, boxes, strict=True):
        assert box.x0 >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert axes.bbox.width > 0.22 * figure.bbox.width  # not squeezed by its labels
        legend = [axes.get_legend().get_window_extent(renderer)] if axes.get_legend() else []
        assert_apart([*legend, axes.xaxis.get_tightbbox(renderer), axes.title.get_window_extent(renderer), axes.bbox])
        assert_apart([text.get_window_extent(renderer) for text in axes.texts if text.get_text()])


def assert_apart(boxes):
    for first, second in itertools.combinations(boxes, 2):
        assert not first.padded(-1).overlaps(second.padded(-1)), (first, second)


def test_panels_show_the_numbers_of_the_result():
    found = variables_with("explained")
    plane, scores, ranks, F, decoding, tests = draw_evidence(found).axes
    marks = {marks.get_label(): marks.get_offsets() for marks in plane.collections}
    assert np.allclose(marks["memory modes"] @ [1, 1j], found.eigenvalues)
    assert np.allclose(marks["theory"] @ [1, 1j], found.theory)
    assert len(marks["others"]) == 12 - found.modes.count
    drawn = {marks.get_label(): marks.get_offsets() for marks in scores.collections}
    assert np.allclose(drawn["memory modes"][:, 1], found.modes.scores[:6])
    assert drawn["others"][:, 1].min() == pytest.approx(1e-4 * float(found.modes.scores[0]))
    assert [text.get_text() for text in ranks.texts] == ["+2", "+2", "+2"]
    assert np.asarray(F.collections[0].get_offsets()).tolist() == [[0, 0], [1, 1]]
    curves = {line.get_label(): line for line in decoding.lines}
    assert np.allclose(curves["signs"].get_ydata(), 1)
    assert curves["R²"].get_xdata()[0] == 3  # before that, some subspaces are empty
    assert [bar.get_width() for bar in tests.patches][: len(found.tests)] == [test.agreement for test in found.tests]
    assert [text.get_text() for text in tests.texts] == [test.name for test in found.tests]


def test_a_failed_test_has_a_cross():
    found = variables_with("refuted")
    tests = draw_evidence(found).axes[-1]
    failed = [test.name for test in found.tests if not test.passed]
    assert failed
    assert [text.get_text()[2:] for text in tests.texts if text.get_text().startswith("✗ ")] == failed


# --- files ----------------------------------------------------------------------------------------------------------


def assert_same(result, other):
    if isinstance(result, torch.Tensor):
        torch.testing.assert_close(result, other, rtol=0, atol=0, equal_nan=True)
    elif is_dataclass(result):
        assert type(result) is type(other)
        for field in fields(result):
            assert_same(getattr(result, field.name), getattr(other, field.name))
    elif isinstance(result, tuple):
        assert len(result) == len(other)
        for element, other_element in zip(result, other, strict=True):
            assert_same(element, other_element)
    else:
        assert result == other or (result != result and other != other)


@pytest.mark.parametrize("status", STATUSES)
def test_load_reads_what_save_wrote(status, tmp_path):
    found = variables_with(status)
    found.save(tmp_path / "variables.safetensors")
    back = Variables.load(tmp_path / "variables.safetensors")
    assert_same(found, back)
    assert back.summary() == found.summary()
    if status != "none":
        states = torch.randn(5, 12)
        torch.testing.assert_close(back.decode(states), found.decode(states), rtol=0, atol=0)


# --- page -----------------------------------------------------------------------------------------------------------


@representatives("none-No variables were found. No mode that inputs reach")
@pytest.mark.parametrize(
    ("status", "lead"),
    [
        ("none", "No variables were found. No mode that inputs reach"),
        ("untested", "The network holds 3 variables of 2 elements each in 6 memory modes of 12. They were not tested."),
        ("refuted", "The network seems to hold 3 variables of 2 elements each in 6 memory modes of 12, but they"),
        ("explained", "The network holds 3 variables of 2 elements each in 6 memory modes of 12. They explain its"),
    ],
)
def test_the_section_reports_the_variables_and_their_status(status, lead):
    found = variables_with(status)
    section = variables_section(found)
    assert section.lead.startswith(lead)
    assert found.reason in section.lead
    assert ("x(t) = x(t - 3), repeat copy" in section.lead) == (status in ("untested", "explained"))
    assert ("published method" in section.lead) == (status == "refuted")
    html = render_document("Variables", "", [section])
    elements = Outline(html).elements
    pictures = [attributes for tag, attributes in elements if attributes.get("role") == "img"]
    assert len(pictures) == (1 if found.trials is None else 2)
    assert all(attributes["aria-label"] for attributes in pictures)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "#0a0b" not in html
    text = plain(html)
    for test in found.tests:
        assert f"{test.name}{test.prediction}{test.agreement:.2%}" in text
    assert text.count("passed") == sum(test.passed for test in found.tests)
    assert text.count("failed") == sum(not test.passed for test in found.tests)


def test_the_section_gives_the_reason_if_variables_are_not_known():
    section = variables_section("The 5 steps are too short.")
    assert section.lead == "The variables of the network are not known: The 5 steps are too short."
    assert section.html == ""


def test_inspection_tests_the_variables_on_the_task():
    net = network()
    task = RepeatCopy(variables=3, size=2, test_horizon=12)
    found = inspect_variables(net.model, task, task.batch(8, 0, 0, "test"))
    assert found.status == "explained"
    assert found.trials.decoded.shape[:2] == (15, 8)
    short = RepeatCopy(variables=3, size=2, test_horizon=4)
    untested = inspect_variables(net.model, short, short.batch(8, 0, 0, "test"))
    assert untested.status == "untested"
    assert untested.reason.startswith("The 7 steps are too short")
    other = registry.tasks.load("flipflop")()
    assert inspect_variables(net.model, other, other.batch(2, 0, 0, "test")) is None


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_binding_run_shows_and_saves_the_variables(tmp_path):
    options = {"variables": 2, "size": 1, "horizon": 6, "test_horizon": 8}
    config = RunConfig("tiny", "repeat-copy", options, hidden_size=8, steps=2, batch_size=4)
    result = train(config, tmp_path, progress=False)
    inspection = inspect_run(result.folder, options=InspectionOptions(starts=4, progress=False))
    page = inspection.save()
    html = page.read_text(encoding="utf-8")
    assert inspection.variables is not None
    assert inspection.variables.reason in plain(html)
    assert '<section id="variables"' in html
    assert "@inproceedings{karuvally2023," in html
    assert_same(Variables.load(page.with_name("page.variables.safetensors")), inspection.variables)
