"""The store: runs as a table with their problems, selection, export, and the results of studies."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path

import pytest

import mnemoscope
from mnemoscope.cli import main
from mnemoscope.config import PRESETS, RunConfig
from mnemoscope.store import find_study_results, informative_columns, read_runs, select, write_csv, write_parquet
from mnemoscope.training import train
from tests.slow import representatives

CONFIG = RunConfig("try", task="copy", task_options={"delay": 5}, cell="gru", steps=40)


def tensors(numbers=4):
    header = json.dumps({"w": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4 * numbers)


def make_run(folder, config=CONFIG, loss=None, version=mnemoscope.__version__, **scores):
    """Write the folder of a run as training does: finished if a loss is given, else unfinished."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config.to_toml())
    (folder / "env.json").write_text(json.dumps({"mnemoscope": version}))
    (folder / "checkpoint.safetensors").write_bytes(tensors())
    lines = [{"step": 10 * n, "train_loss": 9.0, "loss": 1 / n, "accuracy": n / 10} for n in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if loss is not None:
        result = {"steps": 40, "stopped": "steps", "loss": loss, "scores": scores, "baseline": 2.0, "seconds": 3.5}
        (folder / "result.json").write_text(json.dumps(result))
        (folder / "model.safetensors").write_bytes(tensors())
    return folder


@pytest.fixture
def runs(tmp_path):
    root = tmp_path / "runs"
    make_run(root / "try" / "a", loss=0.5, accuracy=0.9)
    make_run(root / "try" / "b", replace(CONFIG, seed=1, task_options={"delay": 7}), loss=0.25, accuracy=0.95)
    make_run(root / "try" / "c", replace(CONFIG, seed=2))
    make_run(root / "studies" / "copy-200" / "cpu" / "0123" / "copy-200" / "d", replace(CONFIG, cell="lstm"), loss=0.1)
    return root


def files_of(root):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def test_every_run_is_a_row(runs):
    before = files_of(runs)
    table = read_runs(runs)
    assert files_of(runs) == before
    assert [Path(row["folder"]).name for row in table] == ["d", "a", "b", "c"]
    assert [row["status"] for row in table] == ["finished"] * 3 + ["unfinished"]
    assert [(row["study"], row["preset"]) for row in table] == [("copy-200", "cpu")] + [(None, None)] * 3
    assert [row["loss"] for row in table] == [0.1, 0.5, 0.25, 0.5]
    assert [row["accuracy"] for row in table] == [None, 0.9, 0.95, 0.2]  # of the last evaluation, if unfinished
    assert [row["steps"] for row in table] == [40, 40, 40, 20]
    assert {row["config.steps"] for row in table} == {40}
    assert [row["task_options.delay"] for row in table] == [5, 5, 7, 5]
    assert {row["problem"] for row in table} == {None}
    assert len({tuple(row) for row in table}) == 1  # the same keys in the same order
    assert table[0]["learning_rate"] == 1e-3


def test_informative_columns_are_those_that_differ(runs):
    columns = "name study preset status cell seed task_options.delay steps loss accuracy seconds folder"
    assert informative_columns(read_runs(runs)) == columns.split()
    assert informative_columns([]) == []


def test_a_trained_run_is_read_with_its_result(tmp_path):
    config = replace(PRESETS["flipflop"], hidden_size=4, steps=4, evaluate_every=2, task_options={"bits": 1})
    result = train(config, tmp_path, progress=False)
    (row,) = read_runs(tmp_path)
    assert (row["status"], row["problem"]) == ("finished", None)
    for name in ("steps", "loss", "baseline", "seconds", "stopped"):
        assert row[name] == getattr(result, name)
    assert result.scores == {name: row[name] for name in result.scores}
    (result.folder / "result.json").unlink()
    (after,) = read_runs(tmp_path)
    assert after["status"] == "unfinished"
    columns = list(row)
    between = columns[columns.index("baseline") + 1 : columns.index("seconds")]
    assert between == list(result.scores)  # no other entry of metrics.jsonl counts as a score
    assert {name: after[name] for name in result.scores} == result.scores


def truncate(path):
    path.write_bytes(path.read_bytes()[:8])


BROKEN = {
    "config.toml": ("broken", "config.toml cannot be read"),
    "result.json": ("broken", "result.json is not a JSON file"),
    "env.json": ("finished", "env.json is not a JSON file"),
    "model.safetensors": ("finished", "model.safetensors is truncated"),
}
MISSING = {
    "config.toml": ("finished", "config.toml is missing"),
    "env.json": ("finished", "env.json is missing"),
    "model.safetensors": ("unfinished", "model.safetensors is missing"),
}


@pytest.mark.parametrize(("name", "expected"), BROKEN.items())
def test_a_truncated_file_is_reported_and_the_other_runs_are_read(runs, name, expected):
    truncate(runs / "try" / "a" / name)
    before = files_of(runs)
    table = {Path(row["folder"]).name: row for row in read_runs(runs)}
    assert table["a"]["status"] == expected[0]
    assert expected[1] in table["a"]["problem"]
    assert [table[name]["problem"] for name in "bcd"] == [None] * 3
    assert files_of(runs) == before


@pytest.mark.parametrize(("name", "expected"), MISSING.items())
def test_a_missing_file_is_reported(runs, name, expected):
    (runs / "try" / "a" / name).unlink()
    row = next(row for row in read_runs(runs) if row["folder"].endswith("/a"))
    assert row["status"] == expected[0]
    assert expected[1] in row["problem"]


def test_a_truncated_last_line_of_metrics_is_ignored(runs):
    with (runs / "try" / "c" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 30, "lo')
    row = next(row for row in read_runs(runs) if row["folder"].endswith("/c"))
    assert (row["steps"], row["status"], row["problem"]) == (20, "unfinished", None)
    with (runs / "try" / "c" / "metrics.jsonl").open("a") as file:
        file.write("\n")
    row = next(row for row in read_runs(runs) if row["folder"].endswith("/c"))
    assert row["status"] == "broken"
    assert "metrics.jsonl cannot be read" in row["problem"]


def test_a_run_of_a_newer_version_is_read_and_flagged(runs):
    folder = make_run(runs / "try" / "e", loss=0.3, version="99.1.0", accuracy=0.5)
    (folder / "config.toml").write_text('tremolo = 3\nloss = "huber"\n' + CONFIG.to_toml())
    row = next(row for row in read_runs(runs) if row["folder"].endswith("/e"))
    assert (row["status"], row["loss"], row["tremolo"], row["config.loss"]) == ("finished", 0.3, 3, "huber")
    assert "written by mnemoscope 99.1.0, which is newer" in row["problem"]
    (folder / "env.json").write_text(
        json.dumps({"mnemoscope": "0.0.9"})
    )  # an unknown setting of an older version is a problem
    row = next(row for row in read_runs(runs) if row["folder"].endswith("/e"))
    assert "config.toml is not as this version writes it" in row["problem"]


def test_an_agent_has_the_settings_of_its_trial(tmp_path):
    folder = make_run(tmp_path / "studies" / "minigrid" / "cpu" / "0123" / "run", loss=0.3)
    (folder / "config.toml").unlink()
    trial = {"name": "DoorKey, rellstm", "settings": {"ppo": {"steps": 7}}, "seed": 3}
    (folder.parent / "trial.json").write_text(json.dumps({"trial": trial, "result": {}}))
    (row,) = read_runs(tmp_path)
    columns = [row[name] for name in ("name", "study", "ppo.steps", "seed", "status", "problem")]
    assert columns == ["DoorKey, rellstm", "minigrid", 7, 3, "finished", None]


def test_a_folder_without_runs_is_empty_and_a_missing_one_an_error(tmp_path):
    assert read_runs(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="root of the runs"):
        read_runs(tmp_path / "nowhere")


ROWS = [
    {"cell": "gru", "loss": 0.5, "seed": 1, "bias": True},
    {"cell": "lstm", "loss": 0.25, "seed": 2, "bias": False},
    {"cell": "gru", "loss": None, "seed": 3, "bias": None},
    {"cell": "elman", "loss": 2, "seed": 4, "bias": True},
]


@pytest.mark.parametrize(("sign", "compare"), [("<", lt), ("<=", le), (">", gt), (">=", ge), ("=", eq), ("!=", ne)])
@pytest.mark.parametrize("value", [0.25, 0.5, 1.0, 3.0])
def test_a_condition_compares_numbers(sign, compare, value):
    chosen = [row["seed"] for row in select(ROWS, [f"loss {sign} {value}"])]
    known = [row["seed"] for row in ROWS if row["loss"] is not None and compare(row["loss"], value)]
    assert chosen == sorted(known + ([3] if sign == "!=" else []))  # an unknown value is not equal


def test_a_condition_compares_text():
    def seeds(*where):
        return [row["seed"] for row in select(ROWS, where)]

    assert seeds("cell=gru") == seeds("cell == gru") == [1, 3]
    assert seeds("cell!=gru") == [2, 4]
    assert seeds("cell=gru", "loss<1") == [1]
    assert seeds("bias=true") == [1, 4]
    assert seeds("loss=none") == [3]
    assert seeds("cell=true") == []


def test_unknown_values_come_last_in_a_sorted_table():
    assert [row["seed"] for row in select(ROWS, sort="loss")] == [2, 1, 4, 3]
    assert [row["seed"] for row in select(ROWS, sort="loss", descending=True)] == [4, 1, 2, 3]
    assert [row["seed"] for row in select(ROWS, sort="cell")] == [4, 1, 3, 2]
    assert select(ROWS, sort="seed", columns=["loss", "cell"])[0] == {"loss": 0.5, "cell": "gru"}


@pytest.mark.parametrize("wrong", ["loss", "loss>", "<3", "loss>big", "cell>3", "loss=>3", "los>3"])
def test_a_wrong_condition_is_refused_with_a_reason(wrong):
    with pytest.raises(ValueError, match=r"such as 'accuracy>0.9'.*cell, loss|needs a number|holds none|mean 'loss'"):
        select(ROWS, [wrong])


def test_an_unknown_column_is_refused_with_a_suggestion():
    for more in ({"sort": "sed"}, {"columns": ["cell", "sed"]}):
        with pytest.raises(
            ValueError, match=r"no column 'sed'. Did you mean 'seed'\? There are cell, loss, seed, bias"
        ):
            select(ROWS, **more)


def test_a_descending_order_needs_a_column():
    with pytest.raises(ValueError, match="needs a column to sort by"):
        select(ROWS, descending=True)


def test_csv_files_hold_the_table(tmp_path):
    path = write_csv(tmp_path / "new" / "runs.csv", ROWS)
    with path.open(newline="") as file:
        back = list(csv.DictReader(file))
    assert back == [{name: "" if value is None else str(value) for name, value in row.items()} for row in ROWS]
    assert write_csv(path, [], ["name", "seed"]).read_text() == "name,seed\n"


def test_parquet_files_hold_the_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    mixed = [row | {"option": option} for row, option in zip(ROWS, (1, "a", None, 2.5), strict=True)]
    back = parquet.read_table(write_parquet(tmp_path / "runs.parquet", mixed)).to_pylist()
    assert [row | {"option": None} for row in back] == [row | {"option": None} for row in ROWS]
    assert [row["option"] for row in back] == ["1", "a", None, "2.5"]


def test_parquet_without_pyarrow_names_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'mnemoscope\[table\]'"):
        write_parquet(tmp_path / "runs.parquet", ROWS)
    assert list(tmp_path.iterdir()) == []


def test_the_command_runs_selects_sorts_and_exports(runs, tmp_path, capsys):
    def run(*words):
        status = main(["runs", "--root", str(runs), *words])
        return status, *capsys.readouterr()

    status, out, _ = run("--where", "accuracy>0.1", "cell=gru", "--sort", "loss", "--columns", "seed", "loss", "--json")
    assert (status, json.loads(out)) == (
        0,
        [{"seed": 1, "loss": 0.25}, {"seed": 0, "loss": 0.5}, {"seed": 2, "loss": 0.5}],
    )
    truncate(runs / "try" / "a" / "result.json")
    status, out, error = run()
    assert (status, len(out.splitlines()), out.splitlines()[-1]) == (0, 7, "4 runs.")
    assert out.startswith("All runs: ")
    assert "try/a: result.json is not a JSON file" in error
    assert run("--csv", str(tmp_path / "t.csv"))[0] == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 5
    assert "config.steps" in (tmp_path / "t.csv").read_text().splitlines()[0]
    status, out, error = run("--where", "accuracy")
    assert (status, out) == (2, "")
    assert "is not a condition" in error
    status, out, error = run("--where", "loss>1e9", "--columns", "nothing")
    assert status == 2
    assert "There is no column 'nothing'" in error


TRIAL = {"trial": {"name": "gru", "settings": {}, "seed": 0}, "result": {}}


def test_the_command_studies_shows_the_state_of_each_study(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["studies"]) == 0
    out, error = capsys.readouterr()
    assert "not run here" in out  # the project may have run it
    assert "not with the package" in error
    (tmp_path / "results").mkdir()
    summary = {"command": "mnemoscope study copy-200", "of the preset": {"finished": 12, "trials": 42}}
    (tmp_path / "results" / "copy-200.cpu.json").write_text(json.dumps({**summary, "trials": [TRIAL] * 14}))
    (tmp_path / "results" / "psmnist.paper.json").write_text('{"trials": [')
    (tmp_path / "results" / "tremolo.cpu.json").write_text('{"trials": []}')
    trial = tmp_path / "runs" / "studies" / "fisher-table" / "smoke"
    (trial / "0123").mkdir(parents=True)
    assert main(["studies"]) == 0
    out, error = capsys.readouterr()
    line = next(line for line in out.splitlines() if line.startswith("copy-200"))
    assert "12 of 42, and 2 with other seeds or settings" in line
    assert "results/copy-200.cpu.json" in line
    assert "not a JSON file" in next(line for line in out.splitlines() if line.startswith("psmnist"))
    minigrid = next(line for line in out.splitlines() if line.startswith("minigrid"))
    assert "not run" in minigrid
    assert "not run here" not in minigrid
    assert "0 of 2" in next(
        line for line in out.splitlines() if line.startswith("fisher-table")
    )  # computed from the study's preset
    assert "'tremolo', which is no study" in error
    assert main(["studies", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["copy-200"]["results"][0]["trials of the preset"] == 42
    assert (rows["copy-200"]["state"], rows["minigrid"]["state"]) == ("run", "not run")
    assert main(["studies", "--results", "nowhere"]) == 2
    assert "no folder nowhere" in capsys.readouterr().err


def test_a_trial_newer_than_the_summary_is_counted(tmp_path):
    folder = tmp_path / "studies" / "copy-200" / "cpu"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "trial.json").write_text(json.dumps(TRIAL))
    summary = {"trials": [TRIAL], "of the preset": {"finished": 1, "trials": 9}}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert [(found.trials, found.of_preset) for found in find_study_results(root=tmp_path)] == [(1, (1, 9))]
    (folder / "b").mkdir()
    (folder / "b" / "trial.json").write_text(json.dumps(TRIAL))
    assert [(found.trials, found.of_preset) for found in find_study_results(root=tmp_path)] == [(2, None)]
    assert find_study_results(tmp_path / "nowhere", tmp_path / "nowhere") == []
    (folder / "b" / "trial.json").write_text('{"result"')
    (found,) = find_study_results(root=tmp_path)
    assert found.trials == 1
    assert "b/trial.json is not a JSON file" in found.progress


def test_the_commands_runs_and_studies_do_not_import_torch(runs):
    words = [["runs", "--root", str(runs)], ["studies", "--results", "results", "--root", str(runs / "try")]]
    run = "import sys; from mnemoscope.cli import main"
    code = f"{run}; [main(each) for each in {words}]; sys.exit('torch' in sys.modules)"
    here = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, cwd=here)


def test_integers_and_texts_of_any_kind_fit_into_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"steps": 2**70, "seed": 1, "name": "a\ud800", "loss": 1},
        {"steps": 1, "seed": None, "name": "b", "loss": 2.5},
    ]
    table = parquet.read_table(write_parquet(tmp_path / "a.parquet", rows))
    assert table.to_pydict() == {"steps": [2.0**70, 1.0], "seed": [1, None], "name": ["a?", "b"], "loss": [1.0, 2.5]}


def test_a_table_is_written_to_the_file_that_a_link_names(tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "table.csv")
    write_csv(link, [{"a": 1}])
    assert (tmp_path / "table.csv").read_text() == "a\n1\n"
    assert link.is_symlink()


def test_a_table_is_written_to_a_pipe(tmp_path):
    """As to /dev/stdout, which must not be replaced by a file."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_csv(tmp_path / "pipe", [{"a": 1}])
    assert os.read(reader, 100) == b"a\n1\n"
    os.close(reader)


def test_only_the_end_of_long_metrics_is_read(runs):
    path = next(path for path in sorted(runs.rglob("metrics.jsonl")) if path.parent.name == "c")
    line = json.dumps({"step": 30, "loss": 0.125}) + "\n"
    with path.open("r+b") as file:
        file.truncate(1 << 32)  # takes no room on the disk
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line.encode())
    (row,) = [row for row in read_runs(runs) if Path(row["folder"]).name == "c"]
    assert (row["steps"], row["loss"], row["problem"]) == (30, 0.125, None)


DAMAGE = {
    "metrics.jsonl": [
        "[]\n",
        "[" * 100_000 + "\n",
        '{"step": "7"}\n',
        '{"loss": [1]}\n',
        "fifo",
        "/dev/zero",
        "folder",
    ],
    "checkpoint.safetensors": ["[]", "fifo", "folder"],
    "env.json": ["[" * 100_000, '{"mnemoscope": 5}', "null", "fifo", "/dev/zero"],
    "result.json": ['{"loss": ' + "1" * 5000 + "}", '{"loss": "low"}', '{"scores": []}', "[]", "fifo"],
    "config.toml": [
        "a = " + "[" * 3000 + "]" * 3000,
        'name = ["x"]',
        "seed = 1979-05-27",
        "/dev/zero",
        "folder",
        'device = "quantum:7"',
        f"hidden_size = {2**63}",
        f"hidden_size = {2**70}",
        "hidden_size = []",
    ],
    "model.safetensors": ["null", "fifo", "folder"],
}


def damage(path, content):
    """Write a file, or make a pipe, a folder or a link to a device instead."""
    if content == "fifo":
        os.mkfifo(path)
    elif content == "folder":
        path.mkdir()
    elif content.startswith("/"):
        path.symlink_to(content)
    else:
        path.write_text(content)


@representatives(
    "checkpoint.s-folder",
    "config.toml-a = [[[[[[[[",
    "config.toml-hidden_size 2",
    "config.toml-seed = 1979-",
    "metrics.json-fifo",
    'metrics.json-{"loss": [1]',
    'metrics.json-{"step": "7"',
    "model.safete-null",
    "result.json-[]",
    'result.json-{"loss": 111',
    'result.json-{"scores": [',
)
@pytest.mark.parametrize(
    ("name", "content"),
    [(name, each) for name, contents in DAMAGE.items() for each in contents],
    ids=lambda text: text[:12],
)
def test_one_damaged_file_flags_its_row_and_stops_no_listing(runs, name, content, capsys):
    damaged = "c" if name in ("metrics.jsonl", "checkpoint.safetensors") else "b"  # c is not finished
    path = next(path for path in sorted(runs.rglob(name)) if path.parent.name == damaged)
    path.unlink()
    damage(path, content)
    rows = {Path(row["folder"]).name: row for row in read_runs(runs)}
    assert sorted(rows) == ["a", "b", "c", "d"]
    assert name in rows[damaged]["problem"]
    assert all(row["problem"] is None for row in rows.values() if row is not rows[damaged])
    for words in ([], ["--json"], ["--sort", "loss"], ["--csv", str(runs / "table.csv")]):
        assert main(["runs", "--root", str(runs), *words]) == 0
    assert name in capsys.readouterr().err


@representatives("[[[[[[[[[[[[", "fifo", '{"trials": 9', '{"trials": [')
@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"trials": ' + "9" * 5000 + "}", "null", '{"trials": [[]]}', "fifo", "/dev/zero"],
    ids=lambda text: text[:12],
)
def test_damaged_results_of_a_study_stop_no_listing(tmp_path, capsys, content):
    trial = tmp_path / "runs" / "studies" / "fisher-table" / "smoke" / "0123456789"
    trial.mkdir(parents=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "copy-200.cpu.json").write_text(json.dumps({"trials": [TRIAL]}))
    for path in (trial / "trial.json", trial.parent / "summary.json", tmp_path / "results" / "fisher-table.cpu.json"):
        damage(path, content)
    folders = ["--results", str(tmp_path / "results"), "--root", str(tmp_path / "runs")]
    for command in ("studies", "scoreboard"):
        assert main([command, *folders, "--json"]) == 0
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert "fisher-table.cpu.json" in text
        assert "trial.json" in text
    rows = find_study_results(tmp_path / "results", tmp_path / "runs")
    assert [row.problem is None for row in rows] == [True, False, False]


def test_an_endless_version_is_shortened(runs):
    path = next(path for path in sorted(runs.rglob("env.json")) if path.parent.name == "b")
    path.write_text(json.dumps({"mnemoscope": "9" * 5000}))
    (problem,) = [row["problem"] for row in read_runs(runs) if row["problem"] is not None]
    assert "which is newer than this one" in problem
    assert len(problem) < 200


def test_names_from_files_bring_no_escape_sequences_to_the_terminal(runs, capsys):
    path = next(path for path in sorted(runs.rglob("config.toml")) if path.parent.name == "b")
    text = path.read_text().replace('cell = "', 'cell = "\\u001b[31m')
    path.write_text(text)
    assert main(["runs", "--root", str(runs)]) == 0
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert "elman" in captured.out or "gru" in captured.out


def test_a_cell_of_a_csv_file_never_begins_a_formula(tmp_path):
    rows = [{"=name": "=1+1", "text": "-2+3", "number": -0.5, "as text": "-1e-3"}, {"=name": "@x", "text": "\tx"}]
    rows[1] |= {"number": None, "as text": "a"}
    path = write_csv(tmp_path / "a.csv", rows)
    assert path.read_text() == "'=name,text,number,as text\n'=1+1,'-2+3,-0.5,-1e-3\n'@x,'\tx,,a\n"


def test_a_csv_file_contains_no_escape_sequences_and_no_formula_behind_one(tmp_path):
    path = write_csv(tmp_path / "a.csv", [{"\x1b[31m@sum": "\x1b]0;title\x07=1+1", "b": "\x00-2+3"}])
    assert path.read_text() == "'@sum,b\n'=1+1,'-2+3\n"
