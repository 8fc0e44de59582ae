"""The framework of `make soak` and `make numerics`: counts, reproductions, and the table of the page."""

import pytest
from tools import reliability
from tools.reliability import Batch, Check, NotRun, main, write_rows
from tools.soak.isolation import call, in_process

PAGE = "# Page\n\n<!-- some.program -->\n<!-- end of some.program -->\n\nThe end.\n"


def odd_cases_fail(case):
    case.notes["kills"] += 1
    (case.folder / "evidence.txt").write_text(str(case.random.random()))
    assert case.number % 2 == 0, "an odd number"
    return 1e-13


def unavailable(case):
    raise NotRun("no browser")


def one_map_fails(number, seed):
    return {"tried": number, "passed": number - 1, "failed": 1, "empty": 1}


CHECKS = (
    Check("numbers", "even and odd | cases", odd_cases_fail, 4, per_case=10),
    Check("browser", "a page", unavailable, 3),
    Batch(
        "maps", "all at once", lambda number, seed: {"tried": number, "passed": number - 1, "failed": 1, "empty": 1}, 5
    ),
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(reliability, "PAGE", page)
    monkeypatch.setattr(reliability, "FAILURES", tmp_path / "failures")
    monkeypatch.setattr(reliability, "commit", lambda: "abc")
    return page


def run(*words):
    return main("some.program", CHECKS, None, words)


def test_rows_are_written_and_replaced_alone(page, capsys):
    assert run("--seed", "7", "--write") == 1
    rows = [line.split(" | ")[0] for line in page.read_text().splitlines() if line.startswith("| ")]
    assert rows == ["| check", "| ---", "| numbers", "| browser", "| maps"]
    assert r"| numbers | even and odd \| cases | 40 | 20 | 20 | 4 kills; largest error 1.0e-13; cases 1, 3 | 7 |" in (
        page.read_text()
    )
    assert "| not run: no browser |" in page.read_text()
    assert "| 5 | 4 | 1 | empty 1 | 7 |" in page.read_text()
    assert page.read_text().endswith("\n\nThe end.\n")
    before = page.read_text()
    assert run("--seed", "8", "--only", "browser", "--write") == 0
    assert page.read_text() == before.replace("no browser | 7", "no browser | 8")


def test_several_processes_give_the_same_counts(page, tmp_path, capsys):
    rows = []
    for jobs in ("1", "2"):
        assert run("--seed", "7", "--only", "numbers", "--only", "browser", "--jobs", jobs, "--write") == 1
        rows.append(page.read_text())
    assert rows[0] == rows[1]
    assert sorted(path.name for path in (tmp_path / "failures" / "numbers").iterdir()) == ["7-1", "7-3"]


def test_a_failed_case_keeps_its_folder_and_is_repeated_alone(page, tmp_path, capsys):
    assert run("--seed", "7", "--only", "numbers") == 1
    kept = sorted(path.name for path in (tmp_path / "failures" / "numbers").iterdir())
    assert kept == ["7-1", "7-3"]
    folder = tmp_path / "failures" / "numbers" / "7-3"
    command, _, _ = (folder / "failure.txt").read_text().partition("\n")
    assert command == "python -m some.program --only numbers --seed 7 --case 3"
    evidence = (folder / "evidence.txt").read_text()
    capsys.readouterr()
    assert run(*command.split()[3:]) == 1
    assert (folder / "evidence.txt").read_text() == evidence
    assert "tried    10" in capsys.readouterr().out
    assert page.read_text() == PAGE


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    with pytest.raises(ValueError, match="has no lines"):
        write_rows(page, "some.program", [], [])


def test_a_process_that_fails_hangs_or_crashes_is_told_apart(tmp_path):
    def hang():
        while True:
            pass

    assert in_process(lambda: print("fine"), tmp_path).status == 0
    assert "no such number" in in_process(lambda: int("no such number"), tmp_path).text
    assert in_process(hang, tmp_path, seconds=0.05).stopped


def test_a_traceback_of_the_command_line_is_a_failure(monkeypatch):
    assert call(["--version"]).check((0,)).text.startswith("mnemoscope 0.")
    monkeypatch.setattr("mnemoscope.cli.main", lambda words: print("Traceback (most recent call last)") or 2)
    with pytest.raises(AssertionError, match="printed a traceback"):
        call([]).check()
    monkeypatch.setattr("mnemoscope.cli.main", lambda words: 2)
    with pytest.raises(AssertionError, match="without a message"):
        call([]).check()
