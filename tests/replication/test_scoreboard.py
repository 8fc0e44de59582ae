"""The scoreboard, and that what is committed is up to date with the results."""

import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mnemoscope import registry
from mnemoscope.base.files import read_json
from mnemoscope.cli import main
from mnemoscope.replication.results import Told, read_told, retell
from mnemoscope.replication.scoreboard import COMPARED, KINDS, OTHERS, OURS, counts, make_scoreboard, work_of
from mnemoscope.replication.scoreboard_page import write_markdown, write_scoreboard, write_summary
from mnemoscope.replication.study import Finished, Row, Trial
from mnemoscope.store import find_study_results

pytestmark = pytest.mark.xdist_group("scoreboard")  # their fixture takes long: once, not in each process

HERE = Path(__file__).parents[2]
RESULTS = HERE / "results"
AGAIN = "run `make scoreboard`"


@pytest.fixture(scope="module")
def committed():
    told, problems = read_told(RESULTS, None)
    assert problems == []
    return told


def test_the_scoreboard_is_up_to_date_with_the_results(committed, tmp_path):
    made = write_markdown(tmp_path / "SCOREBOARD.md", make_scoreboard(committed)).read_text()
    links = re.compile(r"\]\([^)]*/results/")  # from where it was written now
    assert links.sub("](results/", made) == (HERE / "SCOREBOARD.md").read_text(), AGAIN


def test_the_readme_has_the_summary_of_the_results(committed, tmp_path):
    text = (HERE / "README.md").read_text()
    (tmp_path / "README.md").write_text(text)
    assert write_summary(tmp_path / "README.md", make_scoreboard(committed)).read_text() == text, AGAIN
    stale = re.sub(r"Of \d+ published", "Of 3 published", text)
    assert stale != text
    (tmp_path / "README.md").write_text(stale)
    assert write_summary(tmp_path / "README.md", make_scoreboard(committed)).read_text() == text
    (tmp_path / "README.md").write_text("no place")
    with pytest.raises(ValueError, match="must have the lines"):
        write_summary(tmp_path / "README.md", make_scoreboard(committed))
    assert (tmp_path / "README.md").read_text() == "no place"


def test_results_tell_what_the_code_of_today_does(committed):
    for one in committed:
        content = read_json(one.path)
        assert content["rows"] == [asdict(row) for row in one.rows], f"{one.path}: {AGAIN}"
        assert list(content["of the preset"].values()) == list(one.of_preset), f"{one.path}: {AGAIN}"
        assert content["published"] == json.loads(json.dumps([asdict(said) for said in one.study.published])), AGAIN


def test_every_verdict_stands_beside_something_published(committed):
    for one in committed:
        published = {said.quantity for said in one.study.published}
        lost = [row.quantity for row in one.rows if row.verdict != "not compared"]
        lost = [
            row for row in lost if not published & {row, *(each.stated for each in one.rows if each.quantity == row)}
        ]
        assert lost == [], one.path


def test_a_verdict_is_never_better_than_that_of_its_row(committed):
    rows = {(one.path, row.quantity): row for one in committed for row in one.rows}
    words = {"matches": "agrees", "in part": "agrees in", "not compared": "not compared"}
    for item in make_scoreboard(committed).items:
        for line in item.lines:
            if line.told is not None:
                row = rows[line.told.path, line.quantity]
                assert row.verdict.startswith(words.get(line.kind, line.kind))
                assert line.ours == row.ours
            else:
                assert line.kind in ("not run", "not compared")


def test_all_that_was_published_is_counted_once(committed):
    board = make_scoreboard(committed)
    assert len(board.items) == sum(len(entry.load().published) for entry in registry.studies)
    assert sum(len(board.of_work(work)) for work in board.works()) == len(board.items)
    found = counts(board.published())
    assert {*found} <= {*KINDS}
    assert sum(found.values()) == len(board.items) - len(board.of_work(OURS))
    assert f"Of {len(board.published())} published" in board.summary()
    assert f"{sum(found[kind] for kind in COMPARED)} are compared" in board.summary()


STUDY = registry.studies.load("flipflop-cube")


def told(preset, *rows, path="results/x.json"):
    command, finished = f"mnemoscope study flipflop-cube --preset {preset}", [Finished(Trial("gru", {}, 0))]
    return Told(STUDY, preset, list(rows), command, (1, 2), finished, Path(path))


def row(name, verdict, ours="8", because=""):
    return Row(f"{name}: stable fixed points", "8", ours, verdict, "", "stable fixed points", because)


def stable(*all_told):
    board = make_scoreboard(all_told)
    return next(item for item in board.items if item.study == STUDY.name and "stable" in item.lines[0].quantity)


def test_what_was_not_run_and_what_is_not_measured():
    by_quantity = {item.lines[0].quantity: item for item in make_scoreboard([]).items if item.study == STUDY.name}
    assert {item.kind for item in by_quantity.values()} == {"not run"}
    run = make_scoreboard([told("cpu", row("elman", "agrees"))])
    by_quantity = {item.lines[0].quantity: item for item in run.items if item.study == STUDY.name}
    line = by_quantity["minutes for 20 points"].lines[0]
    assert (line.verdict, line.because, line.told) == ("not compared", "it is not measured", None)
    assert by_quantity["fixed points"].kind == "not run"


def test_the_preset_nearest_to_what_was_published_is_shown_if_it_was_compared():
    smoke, cpu, paper = (told(name, row(name, "agrees")) for name in ("smoke", "cpu", "paper"))
    assert stable(smoke, cpu, paper).lines[0].preset == "paper"
    assert stable(smoke, cpu, paper, told("published", row("published", "differs"))).kind == "differs"
    assert stable(smoke, cpu).lines[0].preset == "cpu"
    elsewhere = told("paper", row("paper", "not compared", because="other conditions"))
    assert stable(smoke, cpu, elsewhere).lines[0].preset == "cpu"
    alone = stable(elsewhere)
    assert (alone.kind, alone.lines[0].because) == ("not compared", "other conditions")
    assert (stable(smoke).kind, stable(smoke).lines[0].ours) == ("not compared", "8")
    own = replace(cpu, path=Path("runs/studies/flipflop-cube/cpu/page.html"))
    assert stable(own, cpu).lines[0].told is own


def test_several_networks_are_one_item():
    assert stable(told("cpu", row("a", "agrees"), row("b", "agrees"))).kind == "matches"
    assert stable(told("cpu", row("a", "agrees"), row("b", "worse"))).kind == "in part"
    assert stable(told("cpu", row("a", "agrees in 1 of 2"))).lines[0].verdict == "matches in 1 of 2"
    mixed = stable(told("cpu", row("a", "not compared"), row("b", "differs", because="a misprint")))
    assert (mixed.kind, len(mixed.lines), mixed.lines[1].because) == ("differs", 2, "a misprint")


def test_sources_are_told_apart():
    assert work_of("Jang, section 6", "") == "Jang"
    assert work_of("this project: |W|^2, unlike Kerg", "Kerg") == OURS
    assert work_of("an earlier prototype of this machine, not published", "Renanse") == OURS
    assert work_of("pytorch-ntm; an earlier prototype", "Renanse") == OTHERS
    assert work_of("what the theory implies", "Karuvally et al. 2023, section 9") == "Karuvally et al. 2023"
    assert work_of("notes on the energy, section 6", "Karuvally et al. 2023") == "Notes on its energy"


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets, self.ids, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.targets += [value for name, value in attrs if name == "href"]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_light_and_its_links_lead_somewhere(committed, tmp_path):
    page = write_scoreboard(tmp_path / "deep" / "board.html", make_scoreboard(committed))
    text = page.read_text()
    assert len(text) < 400_000
    seen = Links()
    seen.feed(text)
    files = {target for target in seen.targets if not target.startswith(("#", "data:"))}
    assert len(files) == len(committed)
    assert all((page.parent / target).resolve().is_file() for target in files)
    assert {target[1:] for target in seen.targets if target.startswith("#")} <= {*seen.ids}
    assert len(seen.ids) == len({*seen.ids})
    assert "mnemoscope study copy-200 --preset cpu" in "".join(seen.text)
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_tables_survive_bars_in_words(tmp_path, committed):
    text = write_markdown(tmp_path / "board.md", make_scoreboard(committed)).read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 300
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {7, 10}  # six columns, or nine by source


def test_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["scoreboard"]) == 2
    assert "not with the package" in capsys.readouterr().err
    results = tmp_path / "results"
    results.mkdir()
    content = (RESULTS / "fisher-table.cpu.json").read_text()
    (results / "fisher-table.cpu.json").write_text(content)
    (results / "copy-200.cpu.json").write_text(content[:100])
    (results / "denoise.cpu.json").write_text('{"trials": [{"trial": {"name": "a", "seed": 0}}]}')
    (results / "tremolo.cpu.json").write_text(content)
    assert main(["scoreboard", "--json"]) == 0
    out, error = capsys.readouterr()
    lines = [line for line in json.loads(out)["lines"] if line["study"] == "fisher-table"]
    assert len(lines) == 18
    assert lines[0]["command"] == "mnemoscope study fisher-table --preset cpu"
    assert len(error.splitlines()) == 3
    for name, why in (("copy-200", "JSON"), ("denoise", "cannot be told"), ("tremolo", "no study")):
        assert why in next(line for line in error.splitlines() if name in line)
    assert {each.name for each in tmp_path.iterdir()} == {"results"}  # nothing is written that was not asked for
    assert main(["scoreboard", "--results", "results", "--markdown", "board.md"]) == 0
    assert "](results/fisher-table.cpu.json)" in (tmp_path / "board.md").read_text()
    assert not (tmp_path / "scoreboard.html").exists()


def test_results_are_told_again_and_what_was_measured_stays(tmp_path):
    source = RESULTS / "fisher-table.cpu.json"
    content = read_json(source)
    older = {name: value for name, value in content.items() if name != "of the preset"}
    older["rows"] = older["rows"][:1]
    file = tmp_path / source.name
    file.write_text(json.dumps(older))
    assert find_study_results(tmp_path)[0].of_preset is None
    retell(tmp_path)
    assert file.read_text() == source.read_text()
    newer = {**content, "environments": [{"mnemoscope": "99.0.0"}], "more": 1}
    file.write_text(json.dumps(newer))
    with pytest.raises(ValueError, match="newer than this one"):
        retell(tmp_path)
    assert read_json(file) == newer
    file.write_text(json.dumps({"study": "fisher-table"}))
    with pytest.raises(ValueError, match="another version"):
        retell(tmp_path)


def test_pages_are_written_from_results_alone(tmp_path, capsys):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "copy-200.paper.json").write_text((RESULTS / "copy-200.paper.json").read_text())
    words = ["scoreboard", "--results", str(tmp_path / "results"), "--root", "None", "--pages"]
    assert main([*words, str(tmp_path / "pages")]) == 0
    assert "Pages: 1 in" in capsys.readouterr().out
    text = (tmp_path / "pages" / "copy-200.paper.html").read_text()
    assert "nnrnn: recall" in text
    assert "<svg" in text
    assert main(["scoreboard", "--results", str(tmp_path / "none"), "--pages", str(tmp_path / "pages")]) == 2
