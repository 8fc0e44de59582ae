"""Engines: jobs in separate processes, which neither affect each other nor outlive their parent."""

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tqdm import tqdm

import mnemoscope
from mnemoscope.base import progress
from mnemoscope.base.files import TEMPORARY_PREFIX, write_atomically
from mnemoscope.base.progress import Bar, redirect_progress
from mnemoscope.engines import Job, Local, Outcome, Progress, build_engine, local, shared_gpu
from mnemoscope.engines.folder_transfer import FolderChanges, pack_folder, unpack_folder
from mnemoscope.engines.local import available_cores
from mnemoscope.engines.ray_cluster import _check_reachable, _run_on_node
from mnemoscope.engines.shared_gpu import CONTROL
from mnemoscope.replication import run_study
from tests.slow import SLOW, after

TESTS = Path(__file__).parent
SOURCES = Path(mnemoscope.__file__).parents[1]


@pytest.fixture(autouse=True)
def _jobs_are_found(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]))


def job(name, root="", **arguments):
    return Job(f"{name} {arguments}", f"engine_jobs:{name}", arguments, str(root))


def ended(engine, jobs, *seconds):
    return [event for event in engine.events(jobs, *seconds) if isinstance(event, Outcome)]


def test_an_unreachable_ray_cluster_is_reported():
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))  # bound all the while, so that no other process takes it
        address = f"127.0.0.1:{port.getsockname()[1]}"
        for unused in (address, f"ray://{address}"):
            with pytest.raises(ConnectionError, match=f"No Ray cluster answers at {unused}"):
                _check_reachable(unused)
        port.listen()
        _check_reachable(address)
        _check_reachable(f"ray://{address}")
    for unchecked in (None, "auto", "local"):
        _check_reachable(unchecked)


def test_every_job_runs_and_the_cores_are_divided(tmp_path):
    outcomes = ended(Local(2), [job("write", root=tmp_path, number=n) for n in range(6)])
    assert len(outcomes) == 6
    assert not any(outcome.error for outcome in outcomes)
    written = {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != "begun"}
    assert written == {str(n): str(max(1, available_cores() // 2)) for n in range(6)}


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def write_control(folder, monkeypatch, fails_on="nothing"):
    """Put a program in the place of NVIDIA's, which notes how it is called, and leaves a process that runs on."""
    program, calls = folder / CONTROL, folder / "calls"
    program.write_text(
        f"""#!/bin/sh
read line
echo "$1$line, pipes $([ -d "$CUDA_MPS_PIPE_DIRECTORY" ] && echo there)" >> {calls}
[ "$1" = -d ] && sleep 8 &
[ "$1$line" = "{fails_on}" ] && echo "no device" && exit 3
exit 0
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return calls


def test_jobs_that_share_a_gpu_find_the_service_which_ends_after_them(tmp_path, monkeypatch):
    calls = write_control(tmp_path, monkeypatch)
    monkeypatch.setattr(shared_gpu, "PATIENCE", 4.0)  # less than the process that is left runs: nobody waits for it
    (outcome,) = ended(Local(1, share_gpu=True), [job("note", root=tmp_path, variable="CUDA_MPS_PIPE_DIRECTORY")])
    assert outcome.error is None
    folder = Path((tmp_path / "CUDA_MPS_PIPE_DIRECTORY").read_text())
    assert folder.is_absolute()
    assert not folder.exists()
    assert calls.read_text().splitlines() == [f"{call}, pipes there" for call in ("-d", "get_server_list", "quit")]
    assert "CUDA_MPS_PIPE_DIRECTORY" not in os.environ


SHARING = """
from mnemoscope.engines.shared_gpu import multi_process_service
with multi_process_service():
    print("runs", flush=True)
    input()
"""


def test_the_service_ends_when_the_process_that_started_it_is_killed(tmp_path, monkeypatch):
    calls = write_control(tmp_path, monkeypatch)
    process = subprocess.Popen([sys.executable, "-c", SHARING], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"runs\n"
    assert "quit" not in calls.read_text()
    process.kill()
    process.communicate()
    wait_until(lambda: "quit, pipes there" in calls.read_text())


def test_a_service_that_does_not_end_hides_no_error(tmp_path, monkeypatch):
    write_control(tmp_path, monkeypatch, fails_on="quit")
    with pytest.raises(KeyError, match="first") as raised, shared_gpu.multi_process_service():
        raise KeyError("first")
    assert any("quit failed with exit code 3" in note for note in raised.value.__notes__)
    with pytest.warns(match="did not end: .*quit failed with exit code 3"), shared_gpu.multi_process_service():
        pass


def test_an_interrupted_start_of_the_service_ends_it(tmp_path, monkeypatch):
    calls, control = write_control(tmp_path, monkeypatch), shared_gpu._control

    def interrupted(variables, *arguments, **options):
        control(variables, *arguments, **options)
        if arguments == ("-d",):
            raise KeyboardInterrupt

    monkeypatch.setattr(shared_gpu, "_control", interrupted)
    with pytest.raises(KeyboardInterrupt), shared_gpu.multi_process_service():
        pass
    assert calls.read_text().splitlines() == ["-d, pipes there", "quit, pipes there"]


@pytest.mark.parametrize(("gpus", "found"), [(0, "0,1"), (1, "0"), (2, "0")])
def test_jobs_use_the_numbers_that_the_service_gives_to_the_gpus_it_sees(tmp_path, monkeypatch, gpus, found):
    write_control(tmp_path, monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    ended(Local(1, gpus, share_gpu=True), [job("note", root=tmp_path, variable="CUDA_VISIBLE_DEVICES")])
    assert (tmp_path / "CUDA_VISIBLE_DEVICES").read_text() == found


def test_a_service_that_cannot_start_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=f"there is no {CONTROL} here"):
        ended(Local(1, share_gpu=True), [])
    monkeypatch.undo()
    write_control(tmp_path, monkeypatch, fails_on="get_server_list")
    with pytest.raises(RuntimeError, match="get_server_list failed with exit code 3: no device"):
        ended(Local(1, share_gpu=True), [])


def test_a_failing_or_crashing_job_affects_no_other(tmp_path):
    jobs = [
        job("fail", words="not so"),
        job("crash"),
        *(job("write", root=tmp_path, number=n) for n in range(3)),
    ]
    outcomes = ended(Local(2), jobs)
    errors = {outcome.job.target: outcome for outcome in outcomes if outcome.error is not None}
    assert errors.keys() == {"engine_jobs:fail", "engine_jobs:crash"}
    assert errors["engine_jobs:fail"].error == "ValueError: not so"
    assert "before it fails" in errors["engine_jobs:fail"].log
    assert errors["engine_jobs:crash"].error == "ended without an answer, killed by SIGSEGV"
    assert {"0", "1", "2"} < {path.name for path in tmp_path.iterdir()}


def test_a_missing_function_is_reported():
    (outcome,) = ended(Local(1), [Job("none", "engine_jobs:nothing")])
    assert outcome.error is not None
    assert "nothing" in outcome.error


def test_progress_arrives_between_prints():
    sent = job("count", number=3)
    *events, end = Local(1).events([sent])
    assert isinstance(end, Outcome)
    assert end.error is None
    assert events[-1] == Progress(sent, done=3, total=3, description="counting")
    assert all(isinstance(event, Progress) for event in events)


def test_a_node_of_a_cluster_sends_few_messages_about_progress(tmp_path):
    sent, files = job("count", number=9).as_json(), pack_folder(tmp_path)
    lines = {pause: list(_run_on_node(sent, files, 1, "", pause, 1e6)) for pause in (0.0, 1e6)}
    all_of_them, few = ([line for line in each if "progress" in line] for each in lines.values())
    assert (len(few), all_of_them[0]) == (1, few[0])
    assert len(all_of_them) > 5
    assert all(each[-1]["error"] is None for each in lines.values())


def test_bars_draw_unless_they_are_redirected(capsys):
    for _ in Bar(range(2), desc="drawn"):
        pass
    assert "drawn: 100%" in capsys.readouterr().err
    states = []
    with redirect_progress(states.append):
        for _ in Bar(range(2), desc="redirected", mininterval=0):
            pass
    assert states
    assert "redirected" not in capsys.readouterr().err


def test_a_redirected_bar_shows_no_widget_in_a_notebook(monkeypatch):
    shown = []

    def open_widget(bar, display=True):
        shown.append(display)
        bar.disable = True

    monkeypatch.setattr(tqdm, "__init__", open_widget)
    monkeypatch.setattr(progress, "tqdm", type("tqdm_notebook", (), {}))
    Bar()
    with redirect_progress(lambda _: None):
        Bar()
    assert shown == [True, False]


def test_modules_of_the_working_directory_replace_none_of_python(tmp_path, monkeypatch):
    for name in ("random", "queue", "mnemoscope"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the working directory was run')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCES), str(TESTS)]))
    (outcome,) = ended(Local(1), [job("import_all", names=["random", "queue", "tempfile"])])
    assert outcome.error is None, outcome.log


def test_modules_that_this_process_finds_are_found_by_jobs(tmp_path, monkeypatch):
    (tmp_path / "study_of_a_user.py").write_text("def measure(root): open('measured', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as `python -m mnemoscope` and a notebook
    (outcome,) = ended(Local(1), [Job("measure", "study_of_a_user:measure")])
    assert outcome.error is None, outcome.log
    assert (tmp_path / "measured").exists()


def test_a_job_that_gets_sigterm_saves_and_reports(tmp_path):
    (outcome,) = ended(Local(1), [job("preempted", root=tmp_path)])
    assert outcome.error == "Terminated: the checkpoint is written"


def test_closing_the_events_stops_the_jobs(tmp_path):
    outcomes = Local(2).events([job("interrupted", tmp_path), job("write", tmp_path, number=1)])
    next(outcomes)  # the second one
    while not (tmp_path / "waits").exists():
        time.sleep(0.01)
    outcomes.close()
    assert (tmp_path / "checkpoint").exists()


def test_after_the_time_running_jobs_are_interrupted_and_no_more_start(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "STOP_TIMEOUT", 0.2)
    long = replace(job("write", tmp_path, number=0), least_seconds=1000.0)
    running = [job("interrupted", tmp_path), job("stubborn", tmp_path)]
    outcomes = ended(Local(2), [long, *running, job("write", tmp_path, number=1)], 0.3)
    assert {outcome.job.target for outcome in outcomes} == {each.target for each in running}
    assert all(outcome.interrupted for outcome in outcomes)
    assert not (tmp_path / "begun").exists()


def test_jobs_that_end_before_the_time_are_not_interrupted(tmp_path):
    outcomes = ended(Local(2), [job("write", tmp_path, number=0), job("fail", words="not so")], 1000.0)
    assert [outcome.interrupted for outcome in outcomes] == [False, False]


SUPERVISOR = """
import sys
from mnemoscope.base.files import write_atomically
from mnemoscope.engines import Job, Local
folder, number, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
jobs = [Job(str(n), "engine_jobs:write", {"number": n, "wait": wait}, folder) for n in range(number)]
for event in Local(2).events(jobs):
    assert getattr(event, "error", None) is None, event
"""


@pytest.mark.parametrize("events", after(1, [3, 0, 1, 2, 4, 5, 6, 7, 8]))
def test_after_a_kill_only_unfinished_jobs_run_again(tmp_path, events):
    """Kill the parent after so many starts and ends of jobs, then run all again: only unfinished jobs start twice."""
    number = 4
    command = [sys.executable, "-c", SUPERVISOR, str(tmp_path), str(number), "0.02"]
    first = subprocess.Popen(command)
    while len(_begun(tmp_path)) + len(_finished(tmp_path)) < events:
        assert first.poll() in (None, 0)
        time.sleep(0.001)
    first.kill()
    first.wait()
    finished = _finished(tmp_path)
    began = Counter(number for number, _ in _begun(tmp_path))
    subprocess.run(command, check=True)
    assert _finished(tmp_path) == {str(n) for n in range(number)}
    again = Counter(number for number, _ in _begun(tmp_path))
    for name in finished:
        assert again[name] == began[name] == 1
    assert all(again[name] <= 2 for name in again)


def test_jobs_end_with_their_parent_process(tmp_path):
    command = [sys.executable, "-c", SUPERVISOR, str(tmp_path), "2", "1000"]
    supervisor = subprocess.Popen(command)
    while len(_begun(tmp_path)) < 2:
        time.sleep(0.01)
    supervisor.kill()
    supervisor.wait()
    workers, end = [process for _, process in _begun(tmp_path)], time.monotonic() + 500
    while any(map(_alive, workers)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(_alive, workers))


def _begun(folder):
    """Return the numbers of the started jobs, each with its process."""
    begun = folder / "begun"
    return [line.split() for line in begun.read_text().splitlines()] if begun.exists() else []


def _finished(folder):
    """Return the numbers of the finished jobs."""
    return {path.name for path in folder.iterdir() if path.name.isdigit()}


def _alive(process):
    try:
        return Path(
            f"/proc/{process}/cmdline"
        ).read_bytes()  # empty for a process that has ended but was not waited for
    except OSError:
        return b""


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="max_jobs"):
        Local(0)
    with pytest.raises(ValueError, match="module:name"):
        Job("x", "print")


@SLOW
def test_an_engine_gives_the_same_rows_of_a_study(tmp_path):
    here = run_study("fisher-delay-line", "smoke", root=tmp_path / "here", progress=False)
    there = run_study("fisher-delay-line", "smoke", root=tmp_path / "there", progress=False, engine=Local(2))
    assert here.rows == there.rows
    again = run_study(
        "fisher-delay-line", "smoke", root=tmp_path / "there", resume=True, progress=False, engine=Local(2)
    )
    assert again.reused == again.trials


@pytest.mark.skipif(find_spec("submitit") is None, reason="needs mnemoscope[slurm]")
def test_slurm_runs_in_local_processes(tmp_path):
    options = {"cluster": "local", "folder": str(tmp_path / "slurm"), "poll_every": 0.1}
    jobs = [job("write", tmp_path, number=1), job("fail", words="not so"), job("crash")]
    outcomes = {outcome.job.target: outcome.error for outcome in ended(build_engine("slurm", options), jobs)}
    assert outcomes == {
        "engine_jobs:write": None,
        "engine_jobs:fail": "ValueError: not so",
        "engine_jobs:crash": "ended without an answer, killed by SIGSEGV",
    }


def test_unknown_engines_and_options_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"no engine 'lokal'\. Did you mean 'local'"):
        build_engine("lokal")
    with pytest.raises(ValueError, match=r"has no option 'partitions'\. Did you mean 'partition'"):
        build_engine("slurm", {"partitions": "gpu"})
    for name, module in (("ray", "ray"), ("slurm", "submitit")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ModuleNotFoundError, match=rf"mnemoscope\[{name}\]"):
            build_engine(name)


def test_packed_folders_unpack_completely(tmp_path):
    there = tmp_path / "there"
    (there / "run").mkdir(parents=True)
    (there / "trial.json").write_text("{}")
    (there / "run" / "model").write_bytes(b"weights")
    (there / f"{TEMPORARY_PREFIX}1-model").write_bytes(b"half")
    here = tmp_path / "here"
    unpack_folder(pack_folder(there), here)
    assert {path.relative_to(here).as_posix() for path in here.rglob("*") if path.is_file()} == {
        "trial.json",
        "run/model",
    }
    unpack_folder(pack_folder(tmp_path / "nowhere"), tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())


def test_a_copy_follows_the_changes_of_a_folder(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    (there / "failed.log").write_text("an earlier attempt")
    (there / "config.toml").write_text("same")
    unpack_folder(pack_folder(there), here)
    changes = FolderChanges(there)
    assert changes.pack() == (b"", [])

    (there / "run").mkdir()
    (there / "run" / "metrics.jsonl").write_text("1")
    (there / "failed.log").unlink()
    (there / f"{TEMPORARY_PREFIX}1").mkdir()
    (there / f"{TEMPORARY_PREFIX}1" / "half").touch()
    (here / "config.toml").write_text("changed here")  # it has not changed there, and must not be sent again
    content, removed = changes.pack()
    unpack_folder(content, here, removed)
    assert {path.name: path.read_text() for path in here.rglob("*") if path.is_file()} == {
        "metrics.jsonl": "1",
        "config.toml": "changed here",
    }
    (there / "run" / "metrics.jsonl").write_text("12")
    unpack_folder(changes.pack()[0], here)
    assert (here / "run" / "metrics.jsonl").read_text() == "12"
    assert changes.pack() == (b"", [])


def test_a_node_sends_the_files_of_a_job_while_it_runs(tmp_path):
    """A job that is interrupted, or whose node is lost, then continues from them."""
    folder, last = tmp_path / "a", tmp_path / "last"
    sent = replace(job("save", number=4, folder="a", seen=str(last)), folder="a").as_json()
    folder.mkdir()
    (folder / "saved").write_text("2")  # the checkpoint of an earlier attempt
    last.touch()
    seen = []
    for message in _run_on_node(sent, pack_folder(folder), 1, "", 0.0, 0.0):
        unpack_folder(message["files"], folder, message["removed"])
        seen.append((folder / "saved").read_text())
        write_atomically(last, seen[-1].encode())
    assert seen[-1] == "4"
    assert {"3", "4"} <= {*seen} <= {"2", "3", "4"}


ON_NODE = """
import sys
from mnemoscope.engines.ray_cluster import _run_on_node
for _ in _run_on_node(sys.argv[1], b"", 1, "", 0.0, 1e6):
    print("a message", flush=True)
"""


def test_a_job_that_ray_kills_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    sent = job("save", number=1000, folder="a").as_json()
    process = subprocess.Popen([sys.executable, "-c", ON_NODE, sent], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"a message\n"
    wait_until(lambda: list(tmp_path.glob("mnemoscope-*/a/saved")))
    process.kill()
    process.communicate()
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_the_log_of_a_failed_trial_is_saved(tmp_path):
    class Failing:
        def events(self, jobs):
            return (Outcome(job, 0.1, "ValueError: not so", "where it failed") for job in jobs)

    with pytest.raises(RuntimeError, match=r"ValueError: not so \(see .*failed\.log\)") as raised:
        run_study("fisher-delay-line", "smoke", root=tmp_path, progress=False, engine=Failing())
    assert str(raised.value).startswith("No trial was finished.")
    logs = list(tmp_path.glob("studies/fisher-delay-line/smoke/*/failed.log"))
    assert logs
    assert all(log.read_text() == "where it failed" for log in logs)


def test_a_file_that_is_replaced_within_a_tick_of_the_clock_is_packed_again(tmp_path):
    path, changes = tmp_path / "job" / "checkpoint", FolderChanges(tmp_path / "job")
    path.parent.mkdir()
    for content in (b"first", b"later"):
        write_atomically(path, content)
        os.utime(path, ns=(10**18, 10**18))
        packed, _ = changes.pack()
        unpack_folder(packed, tmp_path / "back")
        assert (tmp_path / "back" / "checkpoint").read_bytes() == content
