"""The scoreboard, and whether the committed files are up to date with the results."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tools.docs_figures import FIGURES, NAMES, draw

from mnemoscope import registry
from mnemoscope.base.reading import read_json
from mnemoscope.cli import main
from mnemoscope.registry import citations
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.results import PresetResults, read_results, rewrite_results
from mnemoscope.replication.run_list import PlannedRun, read_run_list
from mnemoscope.replication.scoreboard import BODIES_OF_WORK, THIS_PROJECT, Line, Scoreboard, counts, make_scoreboard
from mnemoscope.replication.scoreboard_page import write_markdown, write_scoreboard, write_summary
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.replication.trial_files import claim_as_json, row_as_json
from mnemoscope.replication.verdict_counts import count_causes, count_verdicts
from mnemoscope.replication.verdicts import Judgement, Obstacle, Verdict, not_compared
from mnemoscope.store import find_study_results
from tests.slow import SLOW

pytestmark = pytest.mark.xdist_group("scoreboard")  # the fixture is slow: build it in one process only

HERE = Path(__file__).parents[2]
RESULTS = HERE / "results"
AGAIN = "run `make scoreboard`"


@pytest.fixture(scope="module")
def committed():
    found, problems = read_results(RESULTS, None)
    assert problems == []
    return found


@pytest.fixture(scope="module")
def board(committed):
    return make_scoreboard(committed, read_run_list(RESULTS / "run_list.toml"))


def test_the_scoreboard_is_up_to_date_with_the_results(board, tmp_path):
    made = write_markdown(tmp_path / "SCOREBOARD.md", board).read_text()
    links = re.compile(r"\]\([^)]*/results/")  # relative to the folder of the file
    assert links.sub("](results/", made) == (HERE / "SCOREBOARD.md").read_text(), AGAIN


def test_the_readme_has_the_summary_of_the_results(board, tmp_path):
    text = (HERE / "README.md").read_text()
    (tmp_path / "README.md").write_text(text)
    assert write_summary(tmp_path / "README.md", board).read_text() == text, AGAIN
    stale = re.sub(r"\d+ published numbers", "3 published numbers", text)
    assert stale != text
    (tmp_path / "README.md").write_text(stale)
    assert write_summary(tmp_path / "README.md", board).read_text() == text
    (tmp_path / "README.md").write_text("no place")
    with pytest.raises(ValueError, match="must have the marks"):
        write_summary(tmp_path / "README.md", board)
    assert (tmp_path / "README.md").read_text() == "no place"


def test_committed_results_have_the_rows_of_the_current_code(committed):
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


def test_no_two_claims_of_a_study_share_subject_and_quantity():
    for entry in registry.studies:
        keys = [(claim.subject, claim.quantity) for claim in entry.load().claims]
        assert len({*keys}) == len(keys), entry.name


def test_a_line_has_the_verdict_of_its_row(committed):
    rows = {
        (results.path, row.quantity, row.claim.name): row
        for results in committed
        for row in results.rows
        if row.claim is not None
    }
    for item in make_scoreboard(committed).items:
        for line in item.lines:
            if line.results is not None:
                row = rows[line.results.path, line.quantity, line.claim.name]
                assert (line.verdict, line.ours) == (row.verdict, row.ours)
            else:
                assert line.verdict in (Verdict.NOT_RUN, Verdict.NOT_COMPARED)


def test_open_questions_are_listed_together(board, tmp_path):
    text = write_markdown(tmp_path / "board.md", board).read_text()
    sections = dict(section.split("\n", 1) for section in text.split("\n## ")[1:])
    unknown, untested = sections["Causes that are unknown"], sections["Causes that no run has tested"]
    rows = [line for line in unknown.splitlines()[3:] if line]
    assert len(rows) >= sum(item.cause_unknown for item in board.published()) > 0
    assert "cause unknown" in unknown
    assert "cause unknown" not in untested


def test_every_claim_is_counted_once(board):
    assert len(board.items) == sum(len(entry.load().claims) for entry in registry.studies)
    assert sum(len(board.claims_of(work)) for work in board.works()) == len(board.items)
    found = counts(board.published())
    apart = len(board.claims_of(THIS_PROJECT)) + len(board.by_construction()) + len(board.reduced())
    apart += len(board.without_result())
    assert sum(found.values()) == len(board.items) - apart
    assert all(item.obstacle for item in board.published() if item.verdict is Verdict.NOT_COMPARED)
    assert f"Of {len(board.published())} published" in board.summary()
    assert f"{sum(found[verdict] for verdict in Verdict if verdict.compared)} are compared" in board.summary()
    numbers = [int(number) for number in re.findall(r"\d+", board.headline().partition("By a reduced recipe")[0])]
    total, compared, match, ours, compatible, better, worse, in_part, differ, *rest = numbers
    apart, known, unknown, untested, not_compared, *rest = rest
    assert match + compatible + better + worse + in_part + differ == compared
    assert worse + in_part + differ == apart == known + unknown + untested
    assert ours <= match
    *classes, not_run = rest
    assert sum(classes) == not_compared
    assert compared + not_compared + not_run == total


def test_sentences_agree_with_their_numbers_and_leave_out_zeros(board):
    one = dict.fromkeys(Verdict, 1)
    assert count_verdicts(one) == (
        "1 matches, 1 is compatible, 1 is better, 1 is worse, 1 matches in part, 1 differs, 1 is not comparable and 1 "
        "was not run"
    )
    two = count_verdicts({Verdict.NOT_RUN: 2, Verdict.MATCHES: 3, Verdict.BETTER: 0}, {Verdict.MATCHES: "2 of them so"})
    assert two == "3 match (2 of them so) and 2 were not run"
    assert count_verdicts({}) == ""
    assert count_causes(1, 0, 0) == "The cause of this last one is known."
    assert count_causes(0, 0, 2).startswith("Of these last 2, the cause is untested for 2: another recipe")
    assert count_causes(0, 0, 0) == ""
    empty = replace(board, items=())
    assert empty.headline() == "Of 0 published numbers and statements, 0 are compared."
    assert not re.search(r"\b(0 |1 (are|match|differ|were|state)\b)", board.summary())


STUDY = registry.studies.load("flipflop-cube")


def results_of(preset, *rows, path="results/x.json"):
    command, finished = f"mnemoscope study flipflop-cube --preset {preset}", [Finished(Trial("gru", {}, 0))]
    return PresetResults(STUDY, preset, list(rows), command, (1, 2), finished, Path(path))


def test_a_line_counts_the_trials_about_its_subject_whose_settings_the_preset_does_not_have_any_more():
    changed = [Finished(Trial("", {}, 0, about(network, m=8))) for network in ("elman", "elman", "gru")]
    results = replace(results_of("cpu"), changed=changed)
    for subject, expected in (
        (about("elman"), "2 trials by earlier settings"),
        (about("gru", m=8), "1 trial by earlier settings"),
        (about("gru", m=9), ""),
        (about("", "copy"), ""),
        (EVERYTHING, "3 trials by earlier settings"),
    ):
        claim = replace(STUDY.claims[0], subject=subject)
        assert Line("points", claim, "8", Judgement(), results).changed == expected
    assert Line("points", STUDY.claims[0], "", Judgement(), None).changed == ""


def row(name, verdict, ours="8", reason="", matching=None):
    judgement = Judgement(Verdict(verdict), reason, matching)
    return Row(f"{name}: stable fixed points", "8", ours, judgement, "", STUDY.claim("stable fixed points"))


def stable(*results):
    board = make_scoreboard(results)
    return next(item for item in board.items if item.study == STUDY.name and "stable" in item.lines[0].quantity)


def test_claims_without_a_measurement_are_not_run_or_not_compared():
    by_quantity = {item.lines[0].quantity: item for item in make_scoreboard([]).items if item.study == STUDY.name}
    assert {item.verdict for item in by_quantity.values()} == {"not run"}
    run = make_scoreboard([results_of("cpu", row("elman", "matches"))])
    by_quantity = {item.lines[0].quantity: item for item in run.items if item.study == STUDY.name}
    line = by_quantity["fixed points"].lines[0]
    assert (line.verdict, line.command) == ("not run", "mnemoscope study flipflop-cube --preset paper")


def test_a_claim_that_states_no_result_has_a_reason_and_is_counted_apart(board):
    ideas = board.without_result()
    assert ideas
    for item in ideas:
        assert item.claim.reason, item.claim.name
        assert (item.verdict, item.obstacle) == (Verdict.NOT_COMPARED, Obstacle.NO_RESULT)
        assert not item.published
    assert not any(item.obstacle is Obstacle.NO_RESULT for item in board.published())


def test_a_claim_that_was_not_run_has_the_device_time_of_the_run_list():
    study = registry.studies.load("denoise")
    preset = study.presets["published"]
    trials = study.trials(preset.settings, (0,))
    queue = "about 1 device hours of the run list, which come before it, are not done either"
    cases = (
        (1800.0, "", f"about 0.5 device hours a seed; {queue}"),
        (5_400_000.0, "two months", "1,500 device hours a seed: two months"),
    )
    for seconds, out_of_reach, expected in cases:
        planned = PlannedRun(study, "published", (trials[0],), (0,), seconds, "a row", out_of_reach)
        longer = replace(planned, preset="paper", seconds=2 * seconds)
        items = [item for item in make_scoreboard([], [longer, planned]).items if item.study == "denoise"]
        line = next(item.lines[0] for item in items if item.claim.subject == trials[0].subject)
        assert (line.judgement.reason, line.command) == (expected, "mnemoscope study denoise --preset published")
        others = [item.lines[0] for item in items if item.claim.subject != trials[0].subject]
        assert {other.judgement.reason for other in others} == {""}


def test_only_planned_trials_without_results_delay_a_row():
    study = registry.studies.load("denoise")
    first, second, third = study.trials(study.presets["published"].settings, (0,))[:3]
    planned = [
        PlannedRun(study, "published", (trial,), (0,), 3600.0, "a row", reason)
        for trial, reason in ((first, ""), (second, "two months"), (third, ""))
    ]

    def reason(results):
        lines = [item.lines[0] for item in make_scoreboard(results, planned).items if item.study == "denoise"]
        return next(line.judgement.reason for line in lines if line.claim.subject == third.subject)

    assert "about 1 device hours of the run list, which come before it" in reason([])
    done = replace(results_of("published"), study=study, rows=[], finished=[Finished(first)])
    assert reason([done]) == "about 1 device hours a seed"


def test_a_contrast_that_was_not_run_has_the_device_time_of_all_its_networks():
    study = registry.studies.load("ablations")
    trials = study.trials(study.presets["paper"].settings, (0,))
    planned = PlannedRun(study, "paper", tuple(trials), (0,), 360.0, "a row")
    items = [item for item in make_scoreboard([], [planned]).items if item.claim is study.claims[0]]
    assert [item.lines[0].judgement.reason for item in items] == ["about 0.6 device hours a seed"]  # of six networks


def test_a_comparison_and_a_mean_over_tasks_have_the_device_time_of_their_networks():
    def hours(name, quantity):
        study = registry.studies.load(name)
        trials = study.trials(study.presets["reduced"].settings, (0,))
        planned = PlannedRun(study, "reduced", tuple(trials), (0,), 3600.0, "a row")
        lines = [line for item in make_scoreboard([], [planned]).items for line in item.lines]
        return {line.judgement.reason for line in lines if line.study is study and line.quantity.startswith(quantity)}

    assert hours("mqar-widths", "deltanet against gla") == {"about 2 device hours a seed"}
    assert hours("mad", "mamba, mad-memorisation") == {"about 6 device hours a seed"}
    assert hours("mad", "mamba, mean of the six tasks") == {"11 device hours a seed"}  # six vocabularies of one task
    assert hours("formal-languages", "deltanet, modular-arithmetic: gain") == {"about 2 device hours a seed"}


def test_a_row_after_shorter_training_has_the_device_time_of_the_planned_run():
    trial = Trial("gru", {}, 0, STUDY.claim("stable fixed points").subject)
    planned = PlannedRun(STUDY, "paper", (trial,), (0,), 7200.0, "a row")
    judgement = not_compared(Obstacle.SHORTER_TRAINING, "7 iterations; 9 were published")
    short = results_of("paper", replace(row("gru", "matches"), judgement=judgement))
    lines = [line for item in make_scoreboard([short], [planned]).items for line in item.lines if line.results]
    assert [line.judgement.reason for line in lines] == [f"{judgement.reason}; planned, about 2 device hours a seed"]
    assert stable(short).lines[0].judgement == judgement


def test_the_compared_preset_nearest_to_the_published_one_is_shown():
    smoke, cpu, paper = (results_of(name, row(name, "matches")) for name in ("smoke", "cpu", "paper"))
    assert stable(smoke, cpu, paper).lines[0].preset == "paper"
    assert stable(smoke, cpu, paper, results_of("published", row("published", "differs"))).verdict == "differs"
    assert stable(smoke, cpu).lines[0].preset == "cpu"
    judgement = not_compared(Obstacle.OTHER_CONDITIONS, "other conditions")
    other = results_of("paper", replace(row("paper", "matches"), judgement=judgement))
    assert stable(smoke, cpu, other).lines[0].preset == "cpu"
    item = stable(other)
    assert (item.verdict, item.lines[0].judgement.reason) == ("not compared", "other conditions")
    assert (stable(smoke).verdict, stable(smoke).lines[0].ours) == ("not compared", "8")
    cause = results_of("recipes", replace(row("recipes", "differs"), measured=(8.0,) * 5))
    reduced = results_of("reduced", replace(row("reduced", "matches"), reduced="small: steps 9"))
    assert stable(cause, reduced).lines[0].preset == "reduced"  # the other preset tests a cause
    local = replace(cpu, path=Path("runs/studies/flipflop-cube/cpu/page.html"))
    assert stable(local, cpu).lines[0].results is local


@pytest.mark.parametrize("nearest", ["matches", "worse", "differs", "in part", Obstacle.UNDECIDED, Obstacle.CHANCE])
def test_no_preset_is_chosen_because_it_agrees(nearest):
    """The nearest preset is shown even if it does not agree, or decides nothing, and another one does."""
    ours = row("paper", "not compared" if isinstance(nearest, Obstacle) else nearest)
    if isinstance(nearest, Obstacle):
        ours = replace(ours, judgement=not_compared(nearest))
    paper, cpu = results_of("paper", ours), results_of("cpu", row("cpu", "matches"))
    assert stable(cpu, paper).lines[0].results is paper
    more = results_of("stability", replace(row("stability", nearest_verdict(nearest)), measured=(8.0,) * 5))
    assert stable(cpu, more).lines[0].results is more  # equally near, and more networks
    hindered = replace(ours, judgement=not_compared(Obstacle.SHORTER_TRAINING))
    assert stable(cpu, results_of("paper", hindered)).lines[0].results is cpu


def nearest_verdict(nearest):
    return "differs" if isinstance(nearest, Obstacle) else nearest


def test_lines_of_several_networks_form_one_item():
    assert stable(results_of("cpu", row("a", "matches"), row("b", "matches"))).verdict == "matches"
    assert stable(results_of("cpu", row("a", "matches"), row("b", "worse"))).verdict == "in part"
    in_part = stable(results_of("cpu", row("a", "in part", matching=(1, 2)))).lines[0]
    assert (str(in_part.judgement), in_part.judgement.reason) == ("matches in 1 of 2", "cause unknown")
    trained = replace(row("a", "matches"), recipe="learning_rate 0.001", diverged=1, measured=(8.0, 7.0))
    line = stable(results_of("cpu", trained)).lines[0]
    assert (line.mark, line.seeds) == (", by our recipe", "1 of 3, 1 diverged, ± 0.5")
    mixed = stable(results_of("cpu", row("a", "not compared"), row("b", "differs", reason="a misprint")))
    assert (mixed.verdict, len(mixed.lines), mixed.lines[1].judgement.reason) == ("differs", 2, "a misprint")


def test_verdicts_by_a_reduced_recipe_are_marked_and_counted_apart():
    full, other = make_scoreboard([results_of("cpu", row("a", "matches"))]), row("a", "worse")
    smaller = make_scoreboard([results_of("reduced", replace(other, reduced="small: steps 9"))])
    assert len(smaller.published()) == len(full.published()) - 1
    (item,) = smaller.reduced()
    assert (item.reduced, item.lines[0].mark, full.reduced()) == (True, ", by a reduced recipe", [])
    assert "By a reduced recipe, 1 more was tested and counted apart: 1 is worse." in smaller.headline()
    assert "reduced" not in full.headline()
    assert "not checked" not in smaller.headline()
    claim = replace(other.claim, source=replace(other.claim.source, unread=True))
    assert str(claim.source).endswith(", a figure that we have not checked")
    (item,) = make_scoreboard([results_of("reduced", replace(row("a", "matches"), reduced="small"))]).reduced()
    unread = Scoreboard((replace(item, claim=claim),), ())
    assert unread.remarks().endswith("1 of the 1 matches by a reduced recipe cites a figure that we have not checked.")


def test_a_claim_that_no_study_can_measure_says_why(monkeypatch):
    claim = replace(STUDY.claims[0], out_of_reach="there is no such network")
    monkeypatch.setattr(type(STUDY), "claims", (claim,))
    line = next(item for item in make_scoreboard([]).items if item.study == STUDY.name).lines[0]
    assert (line.verdict, line.judgement.reason) == ("not run", "there is no such network")


@pytest.mark.parametrize(
    "reason", ["other recipe: clip 1", "reduced recipe small: steps 9", "1 of 2 did not stay finite", "a misprint"]
)
def test_a_circumstance_that_was_not_tested_is_no_known_cause(reason):
    item = stable(results_of("cpu", row("a", "worse", reason=reason)))
    assert (item.cause_unknown, item.cause_untested) == (False, reason != "a misprint")
    assert not stable(results_of("cpu", row("a", "better", reason=reason))).cause_untested


def test_the_source_of_a_plugin_gets_a_section(monkeypatch, tmp_path):
    entry = "@article{ada1843,\n  author = {Lovelace, Ada},\n  year = {1843}\n}"
    monkeypatch.setattr(citations, "BIBTEX", {**citations.BIBTEX, "ada1843": entry})
    claim = Claim(EVERYTHING, "Bernoulli numbers", "B7", Source("ada1843", "Note G"), exactly(7))
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


def test_the_page_is_small_and_its_links_are_valid(committed, board, tmp_path):
    page = write_scoreboard(tmp_path / "deep" / "board.html", board)
    text = page.read_text()
    from_the_root = re.sub(r'href="[^"#]*/results/', 'href="results/', text)  # links as short in every checkout
    assert len(from_the_root) < 700 * sum(len(item.lines) for item in board.items)
    links = Links()
    links.feed(text)
    files = {target for target in links.targets if not target.startswith(("#", "data:"))}
    assert len(files) == len(committed)
    assert all((page.parent / target).resolve().is_file() for target in files)
    assert {target[1:] for target in links.targets if target.startswith("#")} <= {*links.ids}
    assert len(links.ids) == len({*links.ids})
    assert "mnemoscope study copy-200 --preset cpu" in "".join(links.text)
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_bars_in_cells_are_escaped(tmp_path, board):
    text = write_markdown(tmp_path / "board.md", board).read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 300
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {7, 9, 11}  # six, eight, or ten columns


def test_the_command_reads_results_and_reports_unreadable_files(tmp_path, capsys, monkeypatch):
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
    for name, reason in (("copy-200", "JSON"), ("denoise", "cannot be read"), ("tremolo", "no study")):
        assert reason in next(line for line in error.splitlines() if name in line)
    assert {each.name for each in tmp_path.iterdir()} == {"results"}  # only requested files are written
    for _ in range(2):  # the second call replaces the tables of the first
        assert main(["scoreboard", "--results", "results", "--markdown", "board.md"]) == 0
    assert "](results/fisher-table.cpu.json)" in (tmp_path / "board.md").read_text()
    assert not (tmp_path / "scoreboard.html").exists()


@pytest.mark.parametrize("result", [None, {}, {"J_tot": []}, {"J_tot": "x"}])
def test_measurements_of_the_wrong_type_are_reported(result, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = json.loads((RESULTS / "fisher-table.cpu.json").read_text())
    (tmp_path / "results").mkdir()
    content["trials"][0]["result"] = result
    content["trials"][1]["trial"]["name"] = "renamed"
    (tmp_path / "results" / "fisher-table.cpu.json").write_text(json.dumps(content))
    for words in (["scoreboard", "--json"], ["studies", "--json"]):
        assert main(words) == 0
        out, error = capsys.readouterr()
        assert "fisher-table.cpu.json" in (error if words[0] == "scoreboard" else out)


def test_rewritten_results_keep_the_measurements(tmp_path):
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
    arguments = ["scoreboard", "--results", str(tmp_path / "results"), "--root", "None", "--pages"]
    assert main([*arguments, str(tmp_path / "pages")]) == 0
    assert "Pages: 1 in" in capsys.readouterr().out
    text = (tmp_path / "pages" / "copy-200.paper.html").read_text()
    assert "nnrnn: recall" in text
    assert "<svg" in text
    assert main(["scoreboard", "--results", str(tmp_path / "none"), "--pages", str(tmp_path / "pages")]) == 2


@pytest.mark.parametrize("name", [pytest.param(name, marks=[SLOW] * (name != "transfer-copy.paper")) for name in NAMES])
def test_the_figures_of_the_docs_are_drawn_from_the_committed_results(name, committed):
    drawn = draw(committed, [name])[name]
    assert drawn == (FIGURES / f"{name}.svg").read_text(), "Run python -m tools.docs_figures."


def test_a_figure_without_results_is_refused(committed):
    with pytest.raises(ValueError, match=r"no results of copy-200\.large"):
        draw(committed, ["copy-200.large"])
