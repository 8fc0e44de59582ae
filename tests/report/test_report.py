import itertools
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from mnemoscope.drawing.axes import label_log_axis, new_figure
from mnemoscope.drawing.projection import principal_projection
from mnemoscope.drawing.svg import COLOUR, inline_svg
from mnemoscope.inspection import spectra as spectrum_section
from mnemoscope.lenses import spectrum
from mnemoscope.lenses.fixed_points import figure as drawing
from mnemoscope.lenses.fixed_points.outcomes import Starts, Status
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.view import ARM_LENGTH, MOST_TRAJECTORY_STATES, project_state_space
from mnemoscope.report import (
    NetworkPage,
    Section,
    eigenvalues as eigenvalue_section,
    markup,
    render_document,
    render_page,
    state_space as state_section,
    write_page,
)
from mnemoscope.report.fixed_points import completeness_verdict, headline
from tests.lenses.points import empty
from tests.slow import SLOW, representatives


def cube(size=16, bits=3):
    """h' = tanh(2 h) on `bits` coordinates and a contraction on the others, rotated by an orthogonal matrix.

    Each bit rests at -a, 0 or a, with a = tanh(2a), so that all 3 ** bits fixed points are known.
    """
    a = 1.0
    for _ in range(200):
        a = math.tanh(2 * a)
    gain = torch.cat([torch.full((bits,), 2.0), torch.linspace(0.1, 0.8, size - bits)]).double()
    turn = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64)).Q if size > bits else torch.eye(size).double()
    corners = torch.tensor(list(itertools.product([-a, 0.0, a], repeat=bits)), dtype=torch.float64)
    straight = torch.cat([corners, corners.new_zeros(len(corners), size - bits)], dim=1)
    slopes = gain * (1 - torch.tanh(gain * straight) ** 2)
    jacobians = turn @ torch.diag_embed(slopes) @ turn.T
    number = len(corners)
    q = torch.full((number,), 1e-30, dtype=torch.float64)
    return FixedPoints(straight @ turn.T, q, jacobians, torch.arange(number) + 1, False, True)


def walks(fp, time=30, batch=4):
    """Trajectories that wander among the fixed points."""
    size = fp.states.shape[1]
    return fp.states[torch.randint(len(fp), (time, batch))] + 0.01 * torch.randn(time, batch, size).double()


def outcome(counts):
    status = torch.cat([torch.full((number,), int(status)) for status, number in counts.items()])
    nothing = torch.zeros(len(status))
    return Starts(status, torch.full_like(status, -1), nothing, nothing.long())


def full_page(**changes):
    fp = cube()
    slow = replace(fp[[3, 7]], q=torch.tensor([3e-7, 8e-6], dtype=torch.float64))
    starts = outcome({Status.FIXED: 90, Status.SLOW: 6, Status.DIVERGED: 4})
    fp = replace(fp, slow=slow, starts=starts)
    curve = [{"step": step, "train_loss": 0.3 / (1 + step)} for step in range(50)]
    curve.append({"step": 49, "loss": 0.004, "accuracy": 0.99})
    page = NetworkPage(
        "A network that holds three bits",
        fp,
        [("Cell", "Elman"), ("Size", "16")],
        walks(fp),
        curve,
        0.33,
        ["elman1990", "sussillo2013"],
        "mnemoscope demo --seed 0",
    )
    return replace(page, **changes)


class Outline(HTMLParser):
    """The elements of a document, their attributes, and the text outside scripts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self.scripts, self._inside = [], "", [], ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.text += data


def plain(html):
    return re.sub(r"\s+", " ", Outline(html).text)


# --- projection -----------------------------------------------------------------------------------------------------


def test_three_principal_components_preserve_the_distances_of_the_cube():
    fp = cube()
    seen = project_state_space(fp)
    distances = torch.cdist(fp.states, fp.states)
    assert np.allclose(torch.cdist(*[torch.from_numpy(seen.points)] * 2), distances, atol=1e-7)
    assert seen.principal
    assert seen.labels == ("PC 1 (33%)", "PC 2 (33%)", "PC 3 (33%)")


def test_the_axes_are_orthonormal_and_follow_the_trajectories():
    paths = torch.randn(50, 3, 16).double() * torch.linspace(3, 0.1, 16)
    project = principal_projection(paths.reshape(-1, 16))
    assert np.allclose(project.axes @ project.axes.T, np.eye(3), atol=1e-12)
    cloud = paths.reshape(-1, 16).numpy()
    _, values, rows = np.linalg.svd(cloud - cloud.mean(0))
    assert np.allclose(np.abs(np.diag(project.axes @ rows[:3].T)), 1, atol=1e-9)
    assert np.allclose(project.share, (values**2 / (values**2).sum())[:3])


def test_unstable_directions_are_drawn_at_their_points():
    fp = cube()
    seen = project_state_space(fp)
    assert np.bincount(seen.owners, minlength=len(fp)).tolist() == fp.unstable.tolist()
    assert np.allclose(seen.segments.mean(1), seen.points[seen.owners])
    lengths = np.linalg.norm(seen.segments[:, 1] - seen.segments[:, 0], axis=1)
    extent = np.ptp(seen.points, axis=0).max()
    assert np.allclose(lengths, 2 * ARM_LENGTH * extent)  # they lie in the three components, so none is foreshortened


def test_a_complex_pair_spans_its_plane():
    rotation = 1.2 * torch.tensor([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 0.1]], dtype=torch.float64)
    fp = FixedPoints(
        torch.zeros(1, 3).double(), torch.zeros(1).double(), rotation[None], torch.ones(1).long(), False, True
    )
    arms = project_state_space(fp).segments
    assert len(arms) == 2
    directions = arms[:, 1] - arms[:, 0]
    assert np.linalg.matrix_rank(directions) == 2
    assert np.allclose(directions[:, 2], 0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_states_of_up_to_four_numbers_are_projected_without_loss_where_possible(size):
    fp = cube(size, min(size, 3))
    seen = project_state_space(fp, walks(fp))
    dims = {1: 2, 2: 2}.get(size, 3)
    assert seen.points.shape == (len(fp), dims)
    assert seen.paths.shape == (4, 30, dims)
    assert seen.principal == (size > 3)
    if size in (2, 3):
        assert np.allclose(seen.points, fp.states.numpy())
    if size == 1:
        assert np.allclose(seen.points[:, 1], fp.states[:, 0].numpy())
        assert seen.labels == ("time step", "state")


def test_the_unstable_direction_of_a_single_saddle_has_full_length():
    fp = cube()
    saddle = fp[fp.unstable == 1][0]
    arm = project_state_space(saddle).segments[0]
    assert np.linalg.norm(arm[1] - arm[0]) == pytest.approx(2 * ARM_LENGTH)


def test_many_trajectories_are_thinned_with_a_note():
    fp = cube()
    many = project_state_space(fp, torch.randn(1000, 40, 16).double())
    assert many.paths.shape == (30, 1000, 3)
    assert many.notes == ("30 of the 40 trajectories are drawn.",)
    long = project_state_space(fp, torch.randn(70_000, 1, 16).double())
    assert long.paths.shape[1] <= MOST_TRAJECTORY_STATES
    assert "one in 3 steps" in long.notes[0]


def test_states_that_are_not_finite_leave_a_gap():
    fp = cube()
    paths = walks(fp)
    paths[7, 2] = float("nan")
    paths[9, 2, 0] = float("inf")
    seen = project_state_space(fp, paths)
    assert np.isnan(seen.paths[2, [7, 9]]).all()
    assert np.isfinite(seen.paths[[0, 1, 3]]).all()


def test_trajectories_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"must have shape \(time, batch, 16\)"):
        project_state_space(cube(), torch.zeros(5, 2, 3).double())


# --- figure ---------------------------------------------------------------------------------------------------------


def test_groups_separate_the_fixed_points_of_the_cube_by_kind():
    found = drawing.groups(cube())
    assert [(group.key, len(group.members)) for group in found] == [
        ("stable", 8),
        ("saddle-1", 12),
        ("saddle-2", 6),
        ("saddle-3", 1),
    ]
    assert [group.key for group in drawing.groups(cube(3))][-1] == "unstable"


@representatives("True-1", "True-2")
@pytest.mark.parametrize("size", [1, 2, 3, 16])
@pytest.mark.parametrize("driven", [True, False])
def test_the_figure_has_two_panels_for_every_state_size(size, driven, tmp_path):
    fp = cube(size, min(size, 3))
    figure = fp.figure(walks(fp) if driven else None)
    assert len(figure.axes) == 2
    figure.savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").stat().st_size > 3000


def test_the_figure_without_points_and_the_figure_of_a_flow(tmp_path):
    nothing = drawing.draw_fixed_points(empty(5))
    nothing.savefig(tmp_path / "nothing.svg")
    assert [axes.get_title() for axes in nothing.axes] == [
        "States: no fixed point",
        "Eigenvalues; stable inside the circle",
    ]
    assert not any(axes.collections for axes in nothing.axes)
    flow = drawing.draw_fixed_points(replace(cube(2, 2), continuous=True))
    flow.savefig(tmp_path / "flow.svg")
    states, eigenvalues = flow.axes
    assert sum(len(points.get_offsets()) for points in states.collections) == 9
    assert sum(len(points.get_offsets()) for points in eigenvalues.collections) == 18
    assert eigenvalues.get_title() == "Eigenvalues; stable left of the line"
    assert not eigenvalues.patches  # no circle


def test_colours_are_distinguishable_on_both_backgrounds():
    for ground, at in (("#fdfdfb", 0), ("#14171b", 1)):
        for pair in drawing.PALETTE.values():
            assert _contrast(pair[at], ground) > 2.2
        for one, other in itertools.combinations([pair[at] for pair in drawing.PALETTE.values()], 2):
            assert min(_difference(one, other, eye) for eye in _EYES) > 20


# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB: normal, protan, deutan, tritan.
_EYES = [
    np.eye(3),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
]


def _linear(colour):
    value = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _contrast(one, other):
    lighter, darker = sorted(
        (np.array([0.2126, 0.7152, 0.0722]) @ _linear(colour) for colour in (one, other)), reverse=True
    )
    return (lighter + 0.05) / (darker + 0.05)


def _difference(one, other, eye):
    return np.linalg.norm(_lab(eye @ _linear(one)) - _lab(eye @ _linear(other)))


def _lab(linear):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(("low", "high"), [(0.78, 1.0), (0.3, 4.0), (1e-6, 1.0)])
def test_a_logarithmic_axis_has_several_plain_labels(low, high):
    figure = new_figure(4, 3)
    axes = figure.add_subplot()
    axes.plot([low, high])
    axes.set_yscale("log")
    label_log_axis(axes)
    figure.canvas.draw()
    bottom, top = axes.get_ylim()
    labels = [label for label in axes.get_yticklabels() if bottom <= label.get_position()[1] <= top]
    assert len(labels) >= 3
    assert all(float(label.get_text()) > 0 for label in labels)


# --- words ----------------------------------------------------------------------------------------------------------


def test_the_headline_counts_the_kinds_of_points():
    fp = cube()
    assert headline(fp) == (
        "At this input the network can rest at 27 points: 8 are stable, where a memory can stay; and 19 are saddles, "
        "near which paths part."
    )
    one = headline(fp[fp.unstable == 0][0])
    assert one.startswith("At this input one fixed point was found, and it is stable. A single stable point cannot ")
    assert "by a factor of e in" in one
    assert "1 is unstable in every direction" in headline(cube(3))
    assert headline(fp[fp.unstable == 1]) == (
        "At this input the network can rest at 12 points: all are saddles. None is stable, so the network stays at "
        "none of them: what it remembers, if anything, is in its motion."
    )
    assert "so the network does not stay there" in headline(fp[fp.unstable == 1][0])
    line = replace(fp, jacobians=torch.eye(16).double().expand(27, 16, 16))
    assert headline(line) == (
        "At this input the network can rest at many points, of which 27 were found: 27 are marginal, on the very edge "
        "of stability. They suggest a line or a surface of fixed points, a continuous attractor."
    )
    assert headline(empty(3, bounded=False)).startswith("No fixed point was found: ")
    assert "the search missed it" in headline(empty(3))


def test_the_verdict_follows_the_index_sum():
    fp = cube()
    assert completeness_verdict(fp).state == "complete"
    lost = replace(fp, starts=outcome({Status.FIXED: 27, Status.STALLED: 27}), reached=torch.ones(27).long())
    assert completeness_verdict(lost).badge == "Completeness in doubt"
    assert completeness_verdict(fp[fp.unstable > 0]).state == "unknown"  # a selection makes no claim of completeness
    saddles, corners = (replace(fp[chosen], bounded=True) for chosen in (fp.unstable > 0, fp.unstable == 0))
    assert completeness_verdict(saddles).state == "incomplete"
    assert "at least 8 points with an even number" in completeness_verdict(saddles).reason
    assert "at least 7 points with an odd number" in completeness_verdict(corners).reason
    assert completeness_verdict(replace(fp, bounded=False)).state == "unknown"
    degenerate = replace(fp, jacobians=torch.eye(16).double().expand(27, 16, 16))
    assert completeness_verdict(degenerate).state == "unknown"
    assert "degenerate" in completeness_verdict(degenerate).reason


@pytest.mark.parametrize("bounded", [True, False])
def test_the_verdict_agrees_with_may_be_complete(bounded):
    for fp in (cube(), cube()[3:9], cube(3), empty(3)):
        fp = replace(fp, bounded=bounded)
        assert (
            completeness_verdict(fp).state
            == {True: "complete", False: "incomplete", None: "unknown"}[fp.may_be_complete]
        )


# --- page -----------------------------------------------------------------------------------------------------------


def test_the_page_contains_all_its_parts(tmp_path):
    path = write_page(tmp_path / "new" / "page.html", full_page())
    html = path.read_text(encoding="utf-8")
    text = plain(html)
    for words in (
        "8 are stable, where a memory can stay",
        "Index sum agrees",
        "12 saddle, 1 unstable direction",
        "2 slow points, listed separately (q from 3e-07)",
        "Of 100 starts, 90 reached a fixed point, 6 ended at a slow point, 4 diverged.",
        "The test loss is 0.004 after 49 steps, 1.21 % of the 0.33 reached without memory.",
        "accuracy 0.99",
        "@article{sussillo2013,",
        "@software{mnemoscope,",
        "mnemoscope demo --seed 0",
        "torch " + torch.__version__,
    ):
        assert words in text, words
    headings = [tag for tag, _ in Outline(html).elements if re.fullmatch(r"h\d", tag)]
    assert headings == ["h1"] + ["h2"] * 6


def test_the_page_loads_nothing_from_outside():
    html = render_page(full_page())
    elements = Outline(html).elements
    for tag, attributes in elements:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            link = attributes.get(name) or ""
            assert link == "" or link.startswith(("#", "data:")), (tag, name, link)
    assert not any("@import" in (attributes.get("style") or "") for _, attributes in elements)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html
    assert html.count("const Plots = ") == 1
    assert len(html) < 300_000


def test_ids_are_unique_and_every_picture_has_a_description():
    elements = Outline(render_page(full_page())).elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    pictures = [attributes for tag, attributes in elements if attributes.get("role") == "img" or tag == "img"]
    assert len(pictures) == 3
    assert all(attributes["aria-label"] for attributes in pictures)
    assert all(tag != "svg" or {"aria-hidden", "role"} & set(attributes) for tag, attributes in elements)


@pytest.mark.usefixtures("undrawn")
def test_user_text_is_escaped():
    evil = '<script>alert("1")</script><img src=x onerror=alert(1)>'
    lens = Section(evil, evil, "<p>markup</p>")
    page = full_page(title=evil, facts=[(evil, evil)], command=evil, sections=[lens])
    html = render_page(page)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert html.count("&lt;script&gt;alert") >= 6
    assert "<p>markup</p>" in html
    usual = [tag for tag, _ in Outline(render_page(full_page())).elements].count("script")
    assert [tag for tag, _ in Outline(html).elements].count("script") == usual


def test_a_section_needs_no_template():
    lens = Section("Fisher memory", "How much of the past is left.", "<p>J_tot = 1</p>")
    html = render_page(full_page(sections=[lens, lens]))
    assert '<section id="fisher-memory"' in html
    assert '<section id="fisher-memory-2"' in html
    assert '<a href="#fisher-memory">Fisher memory</a>' in html
    alone = render_document("Only text", "", [lens])
    assert len(alone) < 30_000  # no plot, so no script of plots


def test_a_matplotlib_figure_uses_the_colours_of_the_page():
    figure = new_figure(3, 2)
    figure.add_subplot().plot([1, 2], color=COLOUR["saddle-2"])
    svg = inline_svg(figure, "mine", alt='with "quotes"')
    assert "var(--saddle-2)" in svg
    assert "#0a0b" not in svg
    assert svg.startswith('<div class="pane"><svg')
    assert "--units: 216" in svg  # three inches, from which the page computes the width on a phone
    assert 'aria-label="with &#34;quotes&#34;"' in svg
    assert "font-family" not in svg
    assert all(identity.startswith("mine-") for identity in re.findall(r'\bid="([^"]+)', svg))


def test_the_table_is_sorted_by_unstable_directions():
    html = render_page(full_page())
    table = html[html.index("<table") : html.index("</table>")]
    rows = re.findall(r'<tr data-point="(\d+)">(.*?)</tr>', table, re.DOTALL)
    ups = [int(re.findall(r'<td class="number" data-key="(\d+)"', row)[0]) for _, row in rows]
    assert ups == sorted(ups)
    assert sorted(int(name) for name, _ in rows) == list(range(27))
    assert len(re.findall(r"<th scope=\"col\".*?<button", table)) == 8
    assert 'data-point="s1"' in html


@representatives("True-2-eigenvalues", "True-16-states")
@pytest.mark.parametrize("spec", ["states", "eigenvalues"])
@pytest.mark.parametrize("size", [1, 2, 16])
@pytest.mark.parametrize("continuous", [True, False])
def test_figures_are_plain_data(spec, size, continuous):
    fp = replace(cube(size, min(size, 3)), continuous=continuous, slow=cube(size, min(size, 3))[:2])
    figure = (
        state_section.spec(fp, project_state_space(fp, walks(fp))) if spec == "states" else eigenvalue_section.spec(fp)
    )
    drawn = json.loads(json.dumps(figure, allow_nan=False))["data"]
    assert all(len(trace[axis]) == len(trace["x"]) for trace in drawn for axis in "xyz" if axis in trace)
    names = [name for trace in drawn for name in trace.get("customdata", ())]
    if spec == "states":
        assert sorted(names) == sorted([*map(str, range(len(fp))), "s0", "s1"])
        assert {trace["type"] for trace in drawn} == {"scatter3d" if size > 2 else "scatter"}
    else:
        assert sorted(names) == sorted(str(point) for point in range(len(fp)) for _ in range(size))
        assert any(trace.get("fill") == "toself" for trace in drawn) != continuous  # the unit circle is for maps


def test_the_hover_text_has_the_facts_of_the_table():
    fp = cube()
    figure = state_section.spec(fp, project_state_space(fp))
    text = next(
        text for trace in figure["data"] for text in trace.get("text", []) if text.startswith("<b>fixed point 13<")
    )
    assert text == (
        "<b>fixed point 13</b> · saddle<br>unstable directions: 3<br>largest |λ|: 2<br>"
        f"slowest time constant: {-1 / math.log(0.8):.3g}<br>q: 1e-30<br>reached by 14 starts"
    )


def test_infinite_and_unknown_time_constants_are_shown_and_can_be_sorted():
    fp = cube(3)
    marginal = replace(fp, jacobians=fp.jacobians.clone().index_fill_(0, torch.tensor([4]), 0.0))
    marginal.jacobians[4] += torch.eye(3).double()
    assert marginal.kind[4] == "marginal"
    html = render_page(NetworkPage("Marginal", marginal))
    assert 'data-key="inf">∞</td>' in html
    assert "1 is marginal, on the very edge of stability" in plain(html)


@representatives("1-None", "16-some", "2-some")
@pytest.mark.parametrize("trajectories", [None, "some"])
@pytest.mark.parametrize("size", [1, 2, 3, 16])
def test_pages_of_small_states_with_and_without_trajectories(size, trajectories):
    fp = cube(size, min(size, 3))
    html = render_page(NetworkPage("Little", fp, trajectories=None if trajectories is None else walks(fp)))
    assert "Training" not in plain(html)
    one = render_page(NetworkPage("One point", fp[0]))
    assert "one fixed point" in one


def test_the_page_without_fixed_points():
    nothing = empty(4)
    html = render_page(NetworkPage("Nothing", nothing))
    assert "Incomplete" in plain(html)
    assert "const Plots" not in html
    moving = render_page(NetworkPage("Nothing but motion", nothing, trajectories=torch.randn(9, 2, 4).double()))
    assert 'id="plot-states"' in moving


@representatives(
    "curve0-No finite loss was recorded.",
    "curve3-The training loss is 0 after 2 steps",
    "curve4-no better than the 1 reached without memory.",
)
@pytest.mark.parametrize(
    ("curve", "words"),
    [
        ([{"step": 5, "train_loss": float("nan")}], "No finite loss was recorded."),
        ([{"step": 1, "train_loss": 0.5}], "The training loss is 0.5 after 1 step,"),
        (
            [{"step": 1, "train_loss": 0.5}, {"step": 2, "train_loss": float("inf")}],
            "1 value not finite and not drawn.",
        ),
        ([{"step": 1, "train_loss": 0.0}, {"step": 2, "train_loss": 0.0}], "The training loss is 0 after 2 steps"),
        ([{"step": 3, "loss": 2.0, "done": True}], "no better than the 1 reached without memory."),
        ([{"step": step, "train_loss": 1 / (step + 1)} for step in range(9001)], "after 9000 steps"),
    ],
)
def test_the_training_section_describes_the_curve(curve, words):
    html = render_page(NetworkPage("Trained", cube(3), curve=curve, baseline=1.0))
    assert words in plain(html)
    assert "done" not in plain(html)
    drawn = {record["step"] for record in curve if math.isfinite(record.get("loss", record.get("train_loss")))}
    assert ('aria-label="Loss over' in html) == (len(drawn) > 1), "one value is no curve"


@SLOW
def test_a_large_network_makes_a_page_of_less_than_8_megabytes(tmp_path):
    points, size = 40, 1000
    states = torch.randn(points, size).double()
    slopes = 1.1 * torch.tanh(states)
    fp = FixedPoints(states, states[:, 0] ** 2, torch.diag_embed(slopes), torch.ones(points).long(), False, True)
    order = slopes.abs().argsort(1, descending=True)
    vectors = torch.nn.functional.one_hot(order, size).mT.to(torch.complex128)
    vars(fp)["_eigen"] = (slopes.gather(1, order).to(torch.complex128), vectors)
    vars(fp)["index"] = (1 - slopes).sign().prod(1).long()  # both are known, and would take a minute to compute
    page = full_page(fixed_points=fp, trajectories=torch.randn(1000, 64, size))
    path = write_page(tmp_path / "page.html", page)
    assert path.stat().st_size < 8e6
    assert "Only the 150 least stable of the 1000 eigenvalues of each point are drawn." in plain(
        path.read_text("utf-8")
    )


def test_rendering_is_deterministic():
    fp = cube()
    page = full_page(fixed_points=fp, trajectories=walks(fp))
    assert render_page(page) == render_page(page)


def test_importing_the_report_imports_no_extra():
    check = "import sys, mnemoscope.report; sys.exit(bool({'jinja2', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_raises_with_the_install_command(missing, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(markup, "_environment", markup._environment.__wrapped__)  # cached by earlier pages
    one = torch.ones(1).double()
    fp = FixedPoints(one[None], one, 0.5 * one[None, None], one.long(), False, True)
    with pytest.raises(ImportError, match=re.escape("pip install 'mnemoscope[report]'")):
        render_page(NetworkPage("Page", fp, curve=[{"step": step, "train_loss": 1.0} for step in (1, 2)]))
    if missing == "matplotlib":
        with pytest.raises(ImportError, match=re.escape("pip install 'mnemoscope[report]'")):
            drawing.draw_fixed_points(fp)


# --- spectra --------------------------------------------------------------------------------------------------------


def test_the_recurrent_matrix_is_drawn_in_the_colours_of_the_page():
    growing = spectrum(1.5 * torch.randn(12, 12) / 12**0.5)  # on a logarithmic axis
    section = spectrum_section.matrix_section(growing)
    html = render_page(full_page(sections=[section]))
    drawn = section.html
    assert 'role="img"' in drawn
    assert "var(--stable)" in drawn
    assert "#0a0b" not in drawn
    assert "tspan" not in drawn  # no superscripts, whose size the page would override
    assert re.search(">10[¹²³⁴⁵⁶⁷⁸⁹]+<", drawn)
    assert section.title == "Recurrent matrix"
    assert html.index("Recurrent matrix") < html.index("How to cite")
    assert "A 12 x 12 matrix" in plain(html)


def test_the_linearisation_table_has_one_row_per_kind():
    fp = cube()
    section = spectrum_section.linearisation_section(fp)
    text = plain(section.html)
    assert text.count("∞") == 3  # three kinds of saddle
    most = max((i for i, kind in enumerate(fp.kind) if kind == "stable"), key=lambda i: int(fp.reached[i]))
    seen = spectrum(fp[most])
    assert f"stable (8){most}{seen.radius:.3g}{seen.norm:.3g}0%1 " in text


def test_the_linearisation_table_gives_the_step_of_a_transient():
    jacobian = torch.tensor([[0.5, 0.0], [4.0, 0.5]]).double()
    one = torch.ones(1).long()
    fp = FixedPoints(torch.zeros(1, 2).double(), torch.zeros(1).double(), jacobian[None], one, False, True)
    text = plain(spectrum_section.linearisation_section(fp).html)
    assert "4.06 at step 1" in text
    flow = replace(fp, jacobians=jacobian[None] - torch.eye(2), continuous=True)
    text = plain(spectrum_section.linearisation_section(flow).html)
    assert "exp(tJ)" in text
    assert "at t = " in text
