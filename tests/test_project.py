"""The files around the code: one version everywhere, workflows that run what they promise, and a paper with sources."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from benchmarks.common import command
from tools import relation_tables
from tools.python_matrix import supported_versions

import mnemoscope
from mnemoscope.registry.citations import BIBTEX, OWN

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def read_yaml(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_version_citation_and_changelog_agree():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == mnemoscope.__version__
    assert f"title   = {{{citation['title']}}}" in OWN
    assert citation["authors"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["authors"]
    sections = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == mnemoscope.__version__


def test_the_workflow_tests_every_supported_python():
    workflow = read_yaml(".github/workflows/test.yml")
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == supported_versions()
    assert {"run": "make test"} in job["steps"]
    assert workflow["permissions"] == {"contents": "read"}


def test_the_workflows_call_targets_of_the_makefile():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            called |= {word for step in job["steps"] for word in re.findall(r"^make (\S+)", step.get("run", ""))}
    assert {"test", "build", "docs"} <= called <= {*targets}


def test_the_hooks_are_commands_of_make_lint():
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    (local,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff-check", "ruff-format", "language"]
    for hook in local["hooks"]:
        assert hook["language"] == "system"
        command = " ".join(hook["entry"].split()[:2]).removeprefix(".venv/bin/")
        assert command in lint


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_an_issue_form_has_what_its_host_requires(name):
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert form["name"]
    assert form["description"]
    names = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(names) == len({*names}) > 0
    assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")


def test_every_work_that_the_paper_cites_has_an_entry():
    added = re.findall(r"^@\w+\{(\w+),", (ROOT / "docs" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    body = PAPER.partition("\n---\n")[2]
    cited = {*re.findall(r"@(\w+)", body)}
    assert cited <= {*added, *BIBTEX}
    assert {*added} <= cited
    assert not {*added} & {*BIBTEX}, "references.bib has this work"


def test_the_paper_has_the_sections_and_the_length_of_a_software_paper():
    header, body = PAPER.removeprefix("---\n").split("\n---\n", 1)
    fields = yaml.safe_load(header)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= {*fields}
    for path in fields["bibliography"]:
        assert (ROOT / "docs" / path).is_file()
    titles = re.findall(r"^# (.*)$", body, re.MULTILINE)
    assert {"Summary", "Statement of need", "State of the field", "Functionality", "References"} <= {*titles}
    assert 250 < len(body.split()) < 1750


def test_the_numbers_of_the_paper_are_those_measured():
    lines = (ROOT / "SCOREBOARD.md").read_text(encoding="utf-8").splitlines()
    board = lines[lines.index("# Scoreboard") + 2]
    quoted = re.search(r"<!-- scoreboard -->(.*?)<!-- end -->", PAPER, re.DOTALL)
    assert quoted is not None
    assert board.startswith(" ".join(quoted[1].split()))
    measured = json.loads((ROOT / "benchmarks" / "results" / "fixed_points.json").read_text())
    assert measured["peer"]["commit"].startswith("1a30417 ")
    rows = [row for row in measured["rows"] if row["method"] != "growth with starts"]
    found = {(row["network"], row["method"]): row for row in rows}

    def counts(network, method):
        row = found[network, method]
        return row["points"], row["loose"], row["true"]

    for network in ("elman 64", "gru 64", "lstm 16"):
        assert counts(network, "mnemoscope, adaptive") == (27, 27, 27)
        assert 0.07 < found[network, "mnemoscope, adaptive"]["seconds"] < 0.135
    assert counts("elman 64", "mnemoscope, all starts") == (25, 25, 25)
    assert counts("gru 64", "mnemoscope, all starts") == (27, 27, 27)
    assert counts("elman 64", "fixed-point-finder, defaults") == (27, 27, 0)
    assert found["elman 64", "fixed-point-finder, defaults"]["largest_q"] < 4e-13
    assert counts("gru 64", "fixed-point-finder, defaults") == (0, 0, 0)
    assert counts("gru 64", "fixed-point-finder, float64") == (1024, 0, 0)
    assert counts("gru 64", "fixed-point-finder, tight, lr_init=0.1") == (27, 27, 27)
    assert found["lstm 16", "fixed-point-finder, defaults, starts h"]["error"].startswith("IndexError: ")
    seconds = {
        ("elman 64", "fixed-point-finder, defaults"): "1.9 s",
        ("gru 64", "fixed-point-finder, float64"): "91 s",
        ("gru 64", "fixed-point-finder, tight, lr_init=0.1"): "31 s",
        ("gru 64", "mnemoscope, all starts"): "0.43 s",
    }
    for row, text in seconds.items():
        assert f"{found[row]['seconds']:.2g} s" == text
        assert text in PAPER


def test_result_files_name_a_command_without_paths_of_a_machine(monkeypatch, tmp_path):
    here = Path.cwd() / "runs" / "a.jsonl"
    monkeypatch.setattr(
        sys, "argv", ["/x/recall.py", "--note", "two words", "--from-rows", str(here), f"--to={tmp_path}"]
    )
    assert command() == f"python benchmarks/recall.py --note 'two words' --from-rows runs/a.jsonl --to={tmp_path.name}"
    for file in (ROOT / "benchmarks" / "results").glob("*.json"):
        assert not re.search(r"[ ='\"]/\w+/", json.loads(file.read_text()).get("command", "")), file.name


def test_the_tables_on_relations_are_those_of_the_results():
    page = relation_tables.PAGE.read_text(encoding="utf-8")
    assert relation_tables.rewritten(page) == page, "run `python -m tools.relation_tables`"
    assert relation_tables.cell([1.0, 0.9]) == "95.0 ± 7.1 (1 of 2)"
