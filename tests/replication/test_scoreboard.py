"""The scoreboard, and that what is committed is up to date with the results."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mnemoscope import registry
from mnemoscope.base.files import read_json
from mnemoscope.cli import main
from mnemoscope.registry import citations
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Judgement, Row, Verdict
from mnemoscope.replication.results import PresetResults, read_results, rewrite_results
from mnemoscope.replication.scoreboard import BODIES_OF_WORK, THIS_PROJECT, counts, make_scoreboard
from mnemoscope.replication.scoreboard_page import write_markdown, write_scoreboard, write_summary
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.replication.trial_files import claim_as_json, row_as_json
from mnemoscope.store import find_study_results

pytestmark = pytest.mark.xdist_group("scoreboard")  # their fixture takes long: once, not in each process

HERE = Path(__file__).parents[2]
RESULTS = HERE / "results"
AGAIN = "run `make scoreboard`"


@pytest.fixture(scope="module")
def committed():
    found, problems = read_results(RESULTS, None)
    assert problems == []
    return found


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


def test_committed_results_are_those_of_the_current_code(committed):
    for results in committed:
        content = read_json(results.path)
        rows, claims = json.loads(
            json.dumps([[row_as_json(row) for row in results.rows], [*map(claim_as_json, results.study.claims)]])
        )
        assert content["rows"] == rows, f"{results.path}: {AGAIN}"
        assert content["claims"] == claims, f"{results.path}: {AGAIN}"
        assert list(content["of the preset"].values()) == list(results.of_preset), f"{results.path}: {AGAIN}"


def test_every_verdict_belongs_to_a_claim_of_its_study(committed):
    for results in committed:
        for row in results.rows:
            assert row.claim in results.study.claims if row.verdict.compared else True, (results.path, row.quantity)


def test_no_two_claims_of_a_study_are_about_the_same():
    for entry in registry.studies:
        about = [(claim.subject, claim.quantity) for claim in entry.load().claims]
        assert len({*about}) == len(about), entry.name


def test_a_verdict_is_that_of_its_row(committed):
    rows = {(results.path, row.quantity, row.claim.name): row
            for results in committed for row in results.rows if row.claim is not None}  # fmt: skip
    for item in make_scoreboard(committed).items:
        for line in item.lines:
            if line.results is not None:
                row = rows[line.results.path, line.quantity, line.claim.name]
                assert (line.verdict, line.ours) == (row.verdict, row.ours)
            else:
                assert line.verdict in (Verdict.NOT_RUN, Verdict.NOT_COMPARED)


def test_every_claim_is_counted_once(committed):
    board = make_scoreboard(committed)
    assert len(board.items) == sum(len(entry.load().claims) for entry in registry.studies)
    assert sum(len(board.claims_of(work)) for work in board.works()) == len(board.items)
    found = counts(board.published())
    assert sum(found.values()) == len(board.items) - len(board.claims_of(THIS_PROJECT))
    assert f"Of {len(board.published())} published" in board.summary()
    assert f"{sum(found[verdict] for verdict in Verdict if verdict.compared)} are compared" in board.summary()


STUDY = registry.studies.load("flipflop-cube")


def results_of(preset, *rows, path="results/x.json"):
    command, finished = f"mnemoscope study flipflop-cube --preset {preset}", [Finished(Trial("gru", {}, 0))]
    return PresetResults(STUDY, preset, list(rows), command, (1, 2), finished, Path(path))


def row(name, verdict, ours="8", reason="", matching=None):
    judgement = Judgement(Verdict(verdict), reason, matching)
    return Row(f"{name}: stable fixed points", "8", ours, judgement, "", STUDY.claim("stable fixed points"))


def stable(*results):
    board = make_scoreboard(results)
    return next(item for item in board.items if item.study == STUDY.name and "stable" in item.lines[0].quantity)


def test_what_was_not_run_and_what_is_not_measured():
    by_quantity = {item.lines[0].quantity: item for item in make_scoreboard([]).items if item.study == STUDY.name}
    assert {item.verdict for item in by_quantity.values()} == {"not run"}
    run = make_scoreboard([results_of("cpu", row("elman", "matches"))])
    by_quantity = {item.lines[0].quantity: item for item in run.items if item.study == STUDY.name}
    line = by_quantity["minutes for 20 points"].lines[0]
    assert (line.verdict, line.judgement.reason, line.results) == ("not compared", "it is not measured", None)
    assert by_quantity["fixed points"].verdict == "not run"


def test_the_preset_nearest_to_what_was_published_is_shown_if_it_was_compared():
    smoke, cpu, paper = (results_of(name, row(name, "matches")) for name in ("smoke", "cpu", "paper"))
    assert stable(smoke, cpu, paper).lines[0].preset == "paper"
    assert stable(smoke, cpu, paper, results_of("published", row("published", "differs"))).verdict == "differs"
    assert stable(smoke, cpu).lines[0].preset == "cpu"
    elsewhere = results_of("paper", row("paper", "not compared", reason="other conditions"))
    assert stable(smoke, cpu, elsewhere).lines[0].preset == "cpu"
    alone = stable(elsewhere)
    assert (alone.verdict, alone.lines[0].judgement.reason) == ("not compared", "other conditions")
    assert (stable(smoke).verdict, stable(smoke).lines[0].ours) == ("not compared", "8")
    own = replace(cpu, path=Path("runs/studies/flipflop-cube/cpu/page.html"))
    assert stable(own, cpu).lines[0].results is own


def test_several_networks_are_one_item():
    assert stable(results_of("cpu", row("a", "matches"), row("b", "matches"))).verdict == "matches"
    assert stable(results_of("cpu", row("a", "matches"), row("b", "worse"))).verdict == "in part"
    some = stable(results_of("cpu", row("a", "in part", matching=(1, 2)))).lines[0]
    assert (str(some.judgement), some.judgement.reason) == ("matches in 1 of 2", "it is not known why")
    mixed = stable(results_of("cpu", row("a", "not compared"), row("b", "differs", reason="a misprint")))
    assert (mixed.verdict, len(mixed.lines), mixed.lines[1].judgement.reason) == ("differs", 2, "a misprint")


def test_the_paper_of_a_plugin_has_a_section_of_its_own(monkeypatch, tmp_path):
    entry = "@article{ada1843,\n  author = {Lovelace, Ada},\n  year = {1843}\n}"
    monkeypatch.setattr(citations, "BIBTEX", {**citations.BIBTEX, "ada1843": entry})
    claim = Claim(EVERYTHING, "Bernoulli numbers", "B7", Source("ada1843", "Note G"), tolerance=(0, 1))
    monkeypatch.setattr(type(STUDY), "claims", (*STUDY.claims, claim))
    board = make_scoreboard([])
    assert board.works()[: len(BODIES_OF_WORK)] == list(BODIES_OF_WORK)
    assert board.works()[-1] == THIS_PROJECT
    assert [item.claim for item in board.claims_of("ada1843")] == [claim]
    text = write_markdown(tmp_path / "board.md", board).read_text()
    assert "## Lovelace 1843" in text
    assert "| Lovelace 1843, Note G |" in text


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
    for name, why in (("copy-200", "JSON"), ("denoise", "cannot be read"), ("tremolo", "no study")):
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
    rewrite_results(tmp_path)
    assert file.read_text() == source.read_text()
    newer = {**content, "environments": [{"mnemoscope": "99.0.0"}], "more": 1}
    file.write_text(json.dumps(newer))
    with pytest.raises(ValueError, match="newer than this one"):
        rewrite_results(tmp_path)
    assert read_json(file) == newer
    file.write_text(json.dumps({"study": "fisher-table"}))
    with pytest.raises(ValueError, match="another version"):
        rewrite_results(tmp_path)


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
