"""The command `mnemoscope cite`, and the sources of all registered entries."""

import os
import re
import shutil
import sys

import pytest
import torch

from mnemoscope import connectivity, registry
from mnemoscope.cli import main
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.inspection import inspect_run
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.uses import parts_of, uses_of_config
from mnemoscope.memory import attention
from mnemoscope.memory.attention import Past
from mnemoscope.registry import citations
from mnemoscope.registry.citations import Use, add_bibtex, cited, commented_bibtex
from mnemoscope.replication import run_study
from mnemoscope.replication.cited_works import cited_by_study
from mnemoscope.sweeps import Sweep, parse_space, run_sweep
from mnemoscope.training import build_model, build_task, train
from tests.figures import leave_figures_empty
from tests.slow import representatives

TINY = RunConfig("tiny", task="flipflop", task_options={"bits": 1, "length": 8}, hidden_size=3, steps=2, batch_size=2)
ENTRIES = [(entries.kind, entry) for entries in registry.REGISTRIES.values() for entry in entries]


@pytest.mark.parametrize(("kind", "entry"), ENTRIES, ids=lambda each: getattr(each, "name", each))
def test_every_entry_has_a_source_that_it_cites(kind, entry):
    assert entry.source
    assert entry.cites, f"{kind} {entry.name} cites nothing: name its source, or mnemoscope"
    assert ("mnemoscope" in entry.cites) == ("mnemoscope" in entry.source)
    cited_works = {citations.short_name(key) for key in entry.cites}
    assert {*re.findall(r"(?:Kimi )?[A-Z][\w'-]+(?: et al\.| & [\w'-]+)? \d{4}", entry.source)} <= cited_works
    for part in entry.source.split("; "):
        assert any(name in part for name in cited_works), f"{part!r} names none of {cited_works}"


def test_every_entry_of_the_bibliography_is_cited():
    assert {*citations.BIBTEX} == {*cited(Use(kind, entry.name) for kind, entry in ENTRIES), *citations.ALWAYS}


def subclasses(kind):
    return {below for each in kind.__subclasses__() for below in (each, *subclasses(each))}


def test_every_matrix_and_every_past_is_registered_as_a_part():
    known = {entry.load() for entry in registry.parts}
    public = {each for each in vars(connectivity).values() if isinstance(each, type)}
    matrices = {each for each in public if issubclass(each, connectivity.Connectivity)}
    general = {connectivity.Connectivity, connectivity.Dense, connectivity.Unitary}
    assert matrices - general <= known
    assert {each for each in subclasses(Past) if each.__module__.startswith("mnemoscope")} <= known
    assert {getattr(attention, name) for name in ("Additive", "ScaledDot", "Separable")} <= known


@pytest.mark.parametrize("entry", list(registry.studies), ids=lambda entry: entry.name)
def test_a_study_lists_the_lenses_that_it_uses(entry):
    study = entry.load()
    assert {*study.lenses} <= {*registry.lenses.entries}
    modules = [sys.modules[kind.__module__] for kind in type(study).__mro__ if kind.__module__.startswith("mnemoscope")]
    functions = [value for module in modules for value in vars(module).values() if callable(value)]
    used = {lens.name for lens in registry.lenses if any(function is lens.load() for function in functions)}
    assert used <= {*study.lenses}


def test_parts_are_those_of_the_network():
    def parts(cell, **options):
        config = RunConfig("a", task="copy", cell=cell, cell_options=options, hidden_size=8)
        return [str(use) for use in parts_of(build_model(config, build_task(config)))]

    assert parts("lstm") == ["cell lstm"]
    assert parts("svd-rnn", basis="householder") == ["cell elman", "part householder", "part modrelu", "part singular"]
    assert parts("svd-rnn", basis="cayley", nonlinearity="tanh") == ["cell elman", "part cayley", "part singular"]
    assert parts("rellstm", alignment="dot") == ["cell lstm", "part relevance-screen", "part scaled-dot"]
    assert parts("sab") == ["cell lstm", "part additive", "part sparse-backtracking"]
    assert "part tape" in parts("ntm", slots=4)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_cites_its_task_optimiser_and_cell(name):
    config = PRESETS[name]
    uses = uses_of_config(config)
    assert Use("task", config.task) in uses
    assert Use("optimiser", config.optimiser) in uses
    assert Use(registry.learners(config.task).kind, config.cell) in uses


@representatives("primacy-bias", "screening-tradeoff")
@pytest.mark.parametrize("entry", list(registry.studies), ids=lambda entry: entry.name)
def test_a_study_cites_its_sources_and_the_parts_of_all_presets(entry):
    study = entry.load()
    smoke, whole = cited_by_study(study, "smoke"), cited_by_study(study)
    assert {*entry.cites, *study.cites} <= {*smoke} <= {*whole}
    assert commented_bibtex(whole).count("\n@") == len(whole)


def keys(out):
    return re.findall(r"^@\w+\{(\w+),", out, re.MULTILINE)


def test_cite_accepts_names_of_studies_and_cells(capsys):
    assert main(["cite", "copy-table", "--preset", "cpu"]) == 0
    out = capsys.readouterr().out
    assert keys(out) == sorted({*keys(out)})
    assert {"kerg2020", "kerg2022thesis", "hochreiter1997", "tieleman2012", "mnemoscope"} <= {*keys(out)}
    assert "% cell exprnn, part exponential, study copy-table\n@inproceedings{lezcano2019," in out
    assert main(["cite", "psmnist", "jang", "--keys"]) == 2  # a key is no name
    assert main(["cite", "psmnist", "gru", "--keys"]) == 0  # a preset, a task and a study; a cell
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert "study psmnist" in lines["kerg2019"]
    assert "task psmnist" in lines["lecun1998"]
    assert "cell gru" in lines["cho2014"]
    assert list(lines) == sorted(lines)


def test_cite_all_prints_the_whole_bibliography(capsys):
    assert main(["cite", "--all"]) == 0
    assert keys(capsys.readouterr().out) == sorted(citations.BIBTEX)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "Name what to cite"),
        (["--all", "gru"], "Name what to cite"),
        (["flipflop-cub"], "Did you mean 'flipflop-cube'"),
        (["runs/nothing/here"], "no file or folder"),
        (["copy-200", "--preset", "huge"], "presets smoke, cpu, paper"),
        (["gru", "--preset", "cpu"], "none of gru is one"),
    ],
)
def test_cite_refuses_unknown_and_missing_names(arguments, reason, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["cite", *arguments]) == 2
    out, error = capsys.readouterr()
    assert reason in error
    assert out == ""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    result = train(TINY, root, progress=False)
    with leave_figures_empty():
        inspect_run(result.folder, options=InspectionOptions(starts=4, progress=False)).save()
        run_study("fisher-table", "smoke", root=root, progress=False)
    return root


@pytest.mark.xdist_group("cite")
def test_cite_of_a_run_includes_the_lenses_of_its_page(root, capsys):
    folder = TINY.folder(root)
    assert main(["cite", str(folder), "--keys"]) == 0
    with_page = capsys.readouterr().out
    assert "cell elman" in with_page
    assert "lens fixed-points" in with_page
    assert "lens spectra" in with_page
    page = (folder / "page.html").read_text()
    assert all(line.split()[0] + "," in page for line in with_page.splitlines())
    assert main(["cite", str(folder / "config.toml"), "--keys"]) == 0
    assert "lens" not in capsys.readouterr().out


@pytest.mark.xdist_group("cite")
def test_cite_reads_folders_trials_and_summaries(root, capsys):
    (trial, *_) = sorted(root.glob("studies/*/*/*/trial.json"))
    for path, has_run in ((root, True), (root / "studies", False), (trial.parent, False)):
        assert main(["cite", str(path), "--keys"]) == 0
        out = capsys.readouterr().out
        assert "study fisher-table" in out
        assert "lens fisher" in out
        assert ("cell elman" in out) == has_run
    assert "@phdthesis{kerg2022thesis," in (trial.parent.parent / "page.html").read_text()
    summary = trial.parent.parent / "summary.json"
    assert main(["cite", str(summary), "--keys"]) == 0
    assert "study fisher-table" in capsys.readouterr().out


@pytest.mark.xdist_group("cite")
def test_cite_refuses_truncated_folders(root, tmp_path, capsys):
    source = TINY.folder(root)
    folder = tmp_path / "tiny" / source.name
    folder.mkdir(parents=True)

    def refused(reason):
        assert main(["cite", str(folder)]) == 2
        out, error = capsys.readouterr()
        assert reason in error
        assert out == ""

    refused("holds no run")
    (folder / "metrics.jsonl").write_bytes((source / "metrics.jsonl").read_bytes())
    refused("no config.toml")
    whole = (source / "config.toml").read_text()
    (folder / "config.toml").write_text(whole[:30])
    refused("TOML")
    lines = whole.splitlines(keepends=True)
    (folder / "config.toml").write_text("".join(lines[: lines.index("hidden_size = 3\n")]))  # valid, but incomplete
    refused("truncated")
    (folder / "config.toml").write_text(whole)
    (folder / "page.html").write_text((source / "page.html").read_text()[:4000])
    refused("mnemoscope inspect")
    (folder / "page.html").unlink()
    assert main(["cite", str(folder)]) == 0
    assert capsys.readouterr().out
    other = tmp_path / "notes.txt"
    other.write_text("no run")
    folder = other
    refused("neither a folder")
    folder = tmp_path / "some.json"
    folder.write_text("{}")
    refused("no results of a study")


def test_bibtex_entries_can_be_added(monkeypatch):
    monkeypatch.setattr(citations, "BIBTEX", dict(citations.BIBTEX))
    entry = "@misc{me2026,\n  author = {Me},\n  title = {Mine}\n}"
    add_bibtex(entry)
    add_bibtex(entry)
    assert citations.bibtex(["me2026"]) == entry
    with pytest.raises(ValueError, match="different BibTeX entry"):
        add_bibtex(entry.replace("Mine", "Yours"))
    with pytest.raises(ValueError, match="begins with"):
        add_bibtex("just words")


def test_an_unregistered_network_has_no_parts():
    assert parts_of(torch.nn.Linear(2, 2)) == []


def test_a_sweep_cites_its_search_method(tmp_path, capsys):
    sweep = Sweep(TINY, parse_space(["learning_rate=log:1e-3:1e-2"]), method="random", trials=1)
    run_sweep(sweep, root=tmp_path, progress=False)
    assert main(["cite", str(tmp_path / "sweeps"), "--keys"]) == 0
    out = capsys.readouterr().out
    assert re.search("bergstra2012 +search random", out)
    assert "task flipflop" in out


@pytest.mark.xdist_group("cite")
def test_cite_does_not_wait_for_a_page_that_is_a_pipe(root, tmp_path, capsys):
    shutil.copytree(TINY.folder(root), tmp_path / TINY.hash)
    (tmp_path / TINY.hash / "page.html").unlink()
    os.mkfifo(tmp_path / TINY.hash / "page.html")
    assert main(["cite", str(tmp_path / TINY.hash)]) == 2
    assert "page.html is a pipe" in capsys.readouterr().err


@pytest.mark.xdist_group("cite")
def test_a_damaged_run_among_several_names_does_not_stop_the_others(root, tmp_path, capsys):
    good = str(TINY.folder(root))
    bad = tmp_path / "0123456789"
    bad.mkdir()
    (bad / "config.toml").write_text("a = " + "[" * 5000)
    assert main(["cite", good, "--keys"]) == 0
    whole = capsys.readouterr().out
    assert main(["cite", good, str(bad), "--keys"]) == 1  # so that a script notices
    out, error = capsys.readouterr()
    assert out == whole
    assert str(bad) in error
    assert main(["cite", str(bad)]) == 2


@pytest.mark.xdist_group("cite")
def test_cite_reports_a_damaged_run_and_cites_the_rest(root, tmp_path, capsys):
    source = TINY.folder(root)
    shutil.copytree(source, tmp_path / "runs" / "tiny" / source.name)
    assert main(["cite", str(tmp_path / "runs"), "--keys"]) == 0
    whole = capsys.readouterr().out
    for name, content in (
        ("config.toml", "a = " + "[" * 5000),
        ("config.toml", 'device = "tpu"'),
        ("trial.json", "[]"),
        ("trial.json", "null"),
        ("trial.json", '{"trial": {"name": "renamed", "settings": {"device": "tpu", "task": "copy"}, "seed": 0}}'),
        ("trial.json", '{"trial": {"name": [], "settings": {}, "seed": 0}, "result": {}}'),
    ):
        folder = tmp_path / "runs" / "studies" / "copy-200" / "cpu" / "0123456789"
        folder.mkdir(parents=True)
        (folder / name).write_text(content)
        (tmp_path / "runs" / "sweep.json").write_text('{"method": 5}')
        assert main(["cite", str(tmp_path / "runs"), "--keys"]) == 0
        out, error = capsys.readouterr()
        assert out == whole
        assert "sweep.json" in error
        assert name in error
        shutil.rmtree(folder)
