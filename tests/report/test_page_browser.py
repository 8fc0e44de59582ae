"""The page in a real browser: it is drawn without errors or requests, and reacts to clicks."""

import re
from dataclasses import replace

import pytest
import torch

from mnemoscope.inspection.spectra import linearisation_section, matrix_section
from mnemoscope.inspection.variables import variables_section
from mnemoscope.lenses import find_variables, spectrum
from mnemoscope.lenses.variables import planted_network
from mnemoscope.report import NetworkPage, Section
from tests.lenses.points import empty
from tests.report.browser import BROWSER, visit
from tests.report.test_report import cube, full_page, walks
from tests.slow import SLOW

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here (Debian: apt install chromium)")


def visit_without_errors(*args, **options):
    """As `visit`, and assert that no error occurred."""
    answer = visit(*args, **options)
    assert answer["wrong"] == []
    assert answer["log"] == []
    assert answer["requests"] == []
    assert answer["undrawn"] == 0
    assert answer["wide"] <= 0, "the page is wider than the window"
    return answer


# Both run in one visit, since opening the page takes longest; the first restores the page.
TURNS = """
const plot = document.getElementById("plot-states");
const canvas = plot.querySelector("canvas");
answer.types = [...new Set(plot.data.map((trace) => trace.type))];
const pixels = () => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const blue = () => {  // pixels in the colour of the stable points
  const bytes = pixels();
  const wanted = getComputedStyle(document.documentElement).getPropertyValue("--stable").trim();
  const rgb = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
  let count = 0;
  const near = (at) => bytes[at + 3] > 200 && rgb.every((value, channel) => Math.abs(bytes[at + channel] - value) < 30);
  for (let at = 0; at < bytes.length; at += 4) count += near(at);
  return count;
};
const button = document.querySelector('[data-legend="states"] [data-tag="stable"]');
answer.blue = blue();
button.click();
answer.hidden = [blue(), button.getAttribute("aria-pressed")];
button.click();
answer.shown = [blue(), button.getAttribute("aria-pressed")];

const send = (kind, x, y, more = {}) => {
  const box = canvas.getBoundingClientRect();
  const place = { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, ...more };
  canvas.setPointerCapture = () => {};
  canvas.dispatchEvent(new PointerEvent(kind, place));
};
const first = pixels();
const differs = () => pixels().some((byte, at) => byte !== first[at]);
send("pointerdown", 200, 200);
send("pointermove", 260, 230);
send("pointerup", 260, 230);
answer.rotated = differs();
canvas.dispatchEvent(new MouseEvent("dblclick"));
answer.restored = !differs();
plot.focus();
canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, cancelable: true }));
answer.zoomed = differs();
plot.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
answer.reset = !differs();
plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
answer.turned = differs();
plot.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));

// Go over the plane of eigenvalues until a point answers.
const plane = document.getElementById("plot-eigenvalues");
const tip = plane.querySelector(".plot-tip");
answer.tip = null;
for (let x = 0; x < plane.clientWidth && !answer.tip; x += 6) {
  for (let y = 0; y < plane.clientHeight && !answer.tip; y += 6) {
    const box = plane.querySelector("canvas").getBoundingClientRect();
    const place = { clientX: box.left + x, clientY: box.top + y, pointerId: 1 };
    plane.querySelector("canvas").dispatchEvent(new PointerEvent("pointermove", place));
    if (!tip.hidden) answer.tip = tip.innerText;
  }
}
"""
SORTS = """
const table = document.querySelector("table");
const heads = [...table.querySelectorAll("thead th")];
const column = (at) => [...table.tBodies[0].rows].map((row) => row.cells[at].textContent.trim());
const click = (at) => heads[at].querySelector("button").click();
answer.first = [column(2), heads[2].getAttribute("aria-sort")];
click(2);
answer.down = [column(2), heads[2].getAttribute("aria-sort")];
click(7);
answer.starts = [column(7), heads[7].getAttribute("aria-sort"), heads[2].getAttribute("aria-sort")];
click(1);
answer.kinds = column(1);
click(0);
answer.numbers = column(0);
answer.focusable = heads.every((head) => head.querySelector("button").tabIndex === 0);

const plot = document.getElementById("plot-states");
const ring = () => plot.data.find((trace) => trace.meta.ring).x.length;
const row = table.querySelector('tr[data-point="13"]');
answer.before = ring();
row.querySelector("button").click();
for (let tries = 0; tries < 250 && ring() === answer.before; tries++) await pause(20);
answer.after = [ring(), row.className];
const modes = document.getElementById("plot-eigenvalues").data.find((trace) => trace.meta.ring).x.length;
answer.modes = modes;
row.querySelector("button").click();
for (let tries = 0; tries < 250 && ring() !== answer.before; tries++) await pause(20);
answer.again = [ring(), row.className];
const copy = document.querySelector('[data-copy="bibtex"]');
const before = copy.textContent;
copy.click();
for (let tries = 0; tries < 250 && copy.textContent === before; tries++) await pause(20);
answer.copied = copy.textContent;
"""


@pytest.fixture(scope="module")
def visited(tmp_path_factory):
    return visit_without_errors(full_page(), tmp_path_factory.mktemp("page"), f"{{ {TURNS} }} {{ {SORTS} }}")


@pytest.mark.xdist_group("visited")
def test_the_plots_are_drawn_rotate_and_answer(visited):
    assert visited["types"] == ["scatter3d"]
    assert visited["blue"] > 100
    assert visited["hidden"] == [0, "false"]
    assert visited["shown"] == [visited["blue"], "true"]
    for change in ("rotated", "restored", "zoomed", "reset", "turned"):
        assert visited[change], change
    assert re.match(r"fixed point \d+, mode \d+\nλ = ", visited["tip"])


@pytest.mark.xdist_group("visited")
def test_headings_sort_and_numbers_select(visited):
    ups = [0] * 8 + [1] * 12 + [2] * 6 + [3]
    assert visited["first"] == [[str(up) for up in ups], "ascending"]
    assert visited["down"] == [[str(up) for up in reversed(ups)], "descending"]
    assert visited["starts"] == [[str(number + 1) for number in range(27)], "ascending", None]
    assert visited["kinds"] == ["saddle"] * 19 + ["stable node"] * 8
    assert visited["numbers"] == [str(number) for number in range(27)]
    assert visited["focusable"]
    assert (visited["before"], visited["after"], visited["again"]) == (0, [1, "selected"], [0, ""])
    assert visited["modes"] == 16
    assert visited["copied"] in ("Copied", "Selected")


@SLOW
def test_the_page_follows_the_dark_colour_scheme(tmp_path):
    script = """
        const style = getComputedStyle(document.body);
        const marker = document.getElementById("plot-states").data.find((trace) => trace.meta.tags.includes("stable"));
        answer.colours = [style.backgroundColor, style.color, marker.marker.color];
    """
    answer = visit_without_errors(full_page(), tmp_path, script, ["--blink-settings=preferredColorScheme=0"])
    assert answer["colours"] == ["rgb(20, 23, 27)", "rgb(233, 231, 226)", "#56b4e9"]


@SLOW
def test_requests_are_blocked_and_detected(tmp_path):
    smuggler = Section("Smuggler", "", '<img src="http://127.0.0.1:9/pixel.png" alt="">')
    answer = visit(NetworkPage("Nothing else", empty(5), sections=[smuggler]), tmp_path)
    assert "securitypolicyviolation: http://127.0.0.1:9/pixel.png" in answer["wrong"]


@SLOW
def test_a_title_with_markup_does_not_run(tmp_path):
    title = "</title><script>document.documentElement.dataset.evil = 1</script>"
    answer = visit_without_errors(
        full_page(title=title, facts=[(title, title)], command=title),
        tmp_path,
        "answer.evil = document.documentElement.dataset.evil || null; answer.title = document.title;",
    )
    assert answer["evil"] is None
    assert answer["title"] == f"{title} · Mnemoscope"


@pytest.mark.parametrize(
    "case",
    [
        "nothing",
        *(
            pytest.param(case, marks=SLOW)
            for case in ("narrow", "one dimension", "flow in two dimensions", "motion only")
        ),
    ],
)
def test_pages_of_small_states_are_drawn_without_errors(case, tmp_path):
    one, two = cube(1, 1), replace(cube(2, 2), continuous=True, bounded=False)
    nothing = empty(5)
    page = {
        "narrow": full_page(),
        "one dimension": NetworkPage("One", one, trajectories=walks(one)),
        "flow in two dimensions": NetworkPage("Two", two),
        "nothing": NetworkPage("Nothing", nothing),
        "motion only": NetworkPage("Motion", nothing, trajectories=torch.randn(20, 3, 5).double()),
    }[case]
    answer = visit_without_errors(
        page,
        tmp_path,
        """
        answer.plots = document.querySelectorAll(".plot").length;
        const shown = document.getElementById("plot-states")?.data ?? [];
        const flat = shown.filter((trace) => trace.type === "scatter" && trace.mode === "markers" && !trace.meta.ring);
        answer.marks = flat.reduce((sum, trace) => sum + trace.x.length, 0);
        """,
        width=400,
    )
    assert answer["plots"] == {"nothing": 0, "motion only": 1}.get(case, 2)
    assert answer["marks"] == {"one dimension": 3, "flow in two dimensions": 9}.get(case, 0)


@SLOW
@pytest.mark.parametrize("width", [420, 1000])
def test_the_legend_of_the_training_curve_is_not_cut_off(width, tmp_path):
    # a loss that falls at the end leaves only the upper right corner, or the lower left, for the legend
    for name, losses in {"late": [0.9] * 15 + [1e-3] * 5, "early": [0.9] + [0.02, 0.01] * 10}.items():
        curve = [{"step": step, "train_loss": loss, "loss": loss} for step, loss in enumerate(losses)]
        folder = tmp_path / name
        folder.mkdir()
        answer = visit_without_errors(
            NetworkPage("Trained", cube(1, 1), curve=curve, baseline=0.9),
            folder,
            """
            const box = document.querySelector("#training svg").getBoundingClientRect();
            answer.outside = [...document.querySelectorAll("#training svg text")].filter((text) => {
              const own = text.getBoundingClientRect();
              return own.left < box.left || own.right > box.right;
            }).map((text) => text.textContent);
            answer.texts = document.querySelectorAll("#training svg text").length;
            """,
            width=width,
        )
        assert answer["texts"] > 5
        assert answer["outside"] == []


@SLOW
@pytest.mark.parametrize("width", [None, 390])
@pytest.mark.parametrize("gain", [0.8, 1.5], ids=["stable", "growing"])
def test_the_labels_of_the_recurrent_matrix_lie_inside_its_figure(gain, width, tmp_path):
    fp = cube()
    sections = [linearisation_section(fp), matrix_section(spectrum(gain * torch.randn(16, 16) / 4))]
    answer = visit_without_errors(
        NetworkPage("A matrix", fp, sections=sections),
        tmp_path,
        """
        const svg = document.querySelector("#recurrent-matrix svg");
        const frame = svg.getBoundingClientRect();
        answer.outside = [...svg.querySelectorAll("text")].filter((text) => {
          const box = text.getBoundingClientRect();
          return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
        }).map((text) => text.textContent);
        answer.texts = svg.querySelectorAll("text").length;
        answer.rows = document.querySelectorAll("#growth-near-the-fixed-points tbody tr").length;
        const scale = frame.width / svg.viewBox.baseVal.width;
        answer.size = parseFloat(getComputedStyle(svg.querySelector("text")).fontSize) * scale;
        const hints = [...document.querySelectorAll("#recurrent-matrix .hint, #growth-near-the-fixed-points .hint")];
        answer.hints = hints.filter((hint) => !hint.hidden).map((hint) => hint.textContent);
        """,
        width=width,
    )
    assert answer["outside"] == []
    assert answer["texts"] > 30
    assert answer["rows"] == 4
    assert answer["size"] > 11, "text in pixels of the screen"
    expected = ["Scroll the table sideways for more columns →", "Scroll the figure sideways →"]
    assert answer["hints"] == (expected if width == 390 else [])


@SLOW
@pytest.mark.parametrize("width", [None, 380])
def test_the_variables_section_is_drawn_inside_the_page(tmp_path, width):
    net = planted_network(3, 2, 12, 4, torch.Generator().manual_seed(0))
    section = variables_section(find_variables(net.model))
    answer = visit_without_errors(
        NetworkPage("Variables", empty(3), sections=[section]),
        tmp_path,
        """
        const drawn = [...document.querySelectorAll("#variables svg")];
        answer.sizes = drawn.map((svg) => svg.getBoundingClientRect().width);
        answer.pictures = document.querySelectorAll("#variables svg image").length;
        answer.outside = drawn.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
          const [own, whole] = [text.getBoundingClientRect(), svg.getBoundingClientRect()];
          return own.left < whole.left - 1 || own.right > whole.right + 1;
        }).map((text) => text.textContent));
        """,
        width=width,
    )
    assert len(answer["sizes"]) == 2
    assert all(size > 300 for size in answer["sizes"])
    assert answer["pictures"] == 2  # the wave, and F
    assert answer["outside"] == []
