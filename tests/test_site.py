"""The documentation has no broken link, neither in the repository nor in the site that `make docs` builds."""

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mnemoscope import lenses, registry
from tests.links import broken_in_markdown, broken_in_site, markdown_files
from tests.report.browser import BROWSER, FLAGS
from tests.slow import SLOW

pytestmark = pytest.mark.xdist_group("site")  # build the site once, not in each process

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", markdown_files(ROOT), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_markdown_file_has_no_broken_link(page):
    assert broken_in_markdown(page) == []


def test_broken_links_of_markdown_are_detected(tmp_path):
    (tmp_path / "there.md").write_text("# A `title`, with (marks)\n\n```\n# no title\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md) [b](there.md#a-title-with-marks) [c](#here) [d](https://example.org) `[e](code)`\n"
        "[f](nowhere.md) ![g](no.png) [h](there.md#no-title) [i](#there) [j](there.md#)\n"
    )
    assert broken_in_markdown(page) == ["nowhere.md", "no.png", "there.md#no-title", "#there"]


def test_broken_links_of_a_site_are_detected(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">1</a><a href="#bottom">2</a><a href="sub/page.html#in">3</a>'
        '<a href="sub/page.html#out">4</a><img src="no.png"><script src="https://example.org/x.js"></script>'
    )
    (tmp_path / "sub" / "page.html").write_text('<p id="in"><a href="../index.html">5</a> <a href="../sub/">6</a></p>')
    broken, remote = broken_in_site(tmp_path)
    assert broken == [("index.html", "#bottom"), ("index.html", "sub/page.html#out"), ("index.html", "no.png"),
                      ("page.html", "../sub/")]  # fmt: skip
    assert remote == [("index.html", "https://example.org/x.js")]


def test_the_page_of_tasks_lists_those_that_need_options(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    rows = importlib.import_module("generated").tasks().splitlines()
    assert {entry.name for entry in registry.tasks} <= {
        row.split("`")[1] for row in rows if row.startswith("| ") and "`" in row
    }
    [environment] = [row for row in rows if "`environment, longest" in row]
    assert "depends on the options" in environment


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built in strict mode: a warning of mkdocs, such as an unknown reference, is an error."""
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join([str(ROOT / "src"), *(path for path in sys.path if path)])
    quick = {"MNEMOSCOPE_SITE_SEARCH": "false", "MNEMOSCOPE_SITE_SIGNATURES": "false"}
    environment = {**os.environ, **quick, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@SLOW  # `make docs` builds the site too, and fails at a broken link
def test_the_site_has_no_broken_link_and_loads_nothing_from_elsewhere(site):
    broken, remote = broken_in_site(site)
    assert broken == []
    assert remote == []


@SLOW
def test_the_site_lists_every_registered_name(site):
    texts = {name: (site / f"{name}.html").read_text() for name in ("cells", "tasks", "api/index", "studies")}
    for name, kinds in (("cells", ("cell", "relational network")), ("tasks", ("task",)), ("api/index", ("lens",)),
                        ("studies", ("study",))):  # fmt: skip
        for kind in kinds:
            for entry in registry.REGISTRIES[kind]:
                assert f"<code>{entry.name}</code>" in texts[name], f"{kind} {entry.name}"
    assert "results/copy-200.cpu.json" in texts["studies"]


@SLOW
def test_the_reference_has_a_page_for_each_lens_with_its_public_names(site):
    named = {name: getattr(lenses, name) for name in dir(lenses) if not name.startswith("_")}
    for name, member in named.items():
        if not inspect.ismodule(member):
            folder = member.__module__.removeprefix("mnemoscope.lenses.").partition(".")[0]
            shared = folder in ("dynamics", "result")  # modules, which have no page of a lens
            page = site / "api" / f"mnemoscope.lenses{'' if shared else '.' + folder}.html"
            assert f'id="mnemoscope.lenses.{name}"' in page.read_text(), name
    menu = (site / "api" / "mnemoscope.lenses.attention.html").read_text()
    assert 'href="mnemoscope.lenses.fixed_points.html"' in menu


SEARCH = """<!DOCTYPE html><html><body><script src="iframe-worker.js"></script><script>
const worker = new Worker("%s");
const docs = [{location: "a.html", title: "Rings", text: "a ring of slow states"},
              {location: "b.html", title: "Tapes", text: "what a machine writes"}];
const config = {lang: ["en"], separator: "[\\\\s\\\\-]+", pipeline: ["stopWordFilter"],
                fields: {title: {boost: 1}, text: {boost: 1}, tags: {boost: 1}}};
worker.addEventListener("message", ({data}) => {
  if (data.type === 1) worker.postMessage({type: 2, data: "ring"});
  else document.body.append("found " + data.data.items.flat().map((item) => item.location));
});
worker.postMessage({type: 0, data: {config, docs, options: {suggest: false}}});
</script></body></html>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here (Debian: apt install chromium)")
@SLOW
def test_the_search_works_on_pages_that_are_opened_from_disk(site, tmp_path):
    (script,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    page = site / "search-from-disk.html"
    page.write_text(SEARCH % script.relative_to(site).as_posix())
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout
    assert "found a.html" in shown


@SLOW
def test_the_reference_shows_examples_as_code(site):
    page = (site / "api" / "mnemoscope.tasks.html").read_text()
    assert '<span class="gp">&gt;&gt;&gt; </span>' in page
    assert "<blockquote>" not in page
    assert 'id="mnemoscope.tasks.Copy"' in page
