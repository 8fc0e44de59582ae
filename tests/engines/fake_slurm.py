"""The commands of Slurm that the engine and submitit call, acted by processes of this machine.

`install(folder)` writes them into a folder, to be put on PATH. As in Slurm 22.05 without accounting: there is no sacct,
the name of a job is 12, or 12_0 in an array, and cancelling sends SIGTERM to all processes that srun has started, and
SIGKILL to those that are left after a while. Jobs run one at a time. The folder also has the state of each job, in a
file `<name>.state`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
KILL_WAIT = 20.0
"""Seconds between the first signal to a cancelled job and the last."""


def install(folder):
    """Write the commands into a folder."""
    folder.mkdir()
    for name in COMMANDS:
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} {folder} "$@"\n')
        command.chmod(0o755)


def sbatch(folder, script):
    """Start a job, or the tasks of an array, in the background, and print the number."""
    number = str(1000 + len(list(folder.glob("*.state"))))
    array = re.search(r"#SBATCH --array=0-(\d+)", Path(script).read_text())
    names = [number] if array is None else [f"{number}_{task}" for task in range(int(array[1]) + 1)]
    for name in names:
        (folder / f"{name}.state").write_text("PENDING")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = [sys.executable, __file__, "run_jobs", str(folder), script, *names]
    subprocess.Popen(run, start_new_session=True, **quiet)
    print(f"Submitted batch job {number}")


def run_jobs(folder, script, *names):
    """Run the jobs that have not been cancelled."""
    for place, name in enumerate(names):
        state = folder / f"{name}.state"
        if state.read_text() == "CANCELLED":
            continue
        state.write_text("RUNNING")
        array, _, task = name.partition("_")
        numbers = {"JOB_ID": str(int(array) + place)}
        if task:
            numbers |= {"ARRAY_JOB_ID": array, "ARRAY_TASK_ID": task}
        layout = {"JOB_NUM_NODES": "1", "NTASKS": "1", "NODEID": "0", "PROCID": "0", "LOCALID": "0"}
        variables = {f"SLURM_{key}": value for key, value in {**numbers, **layout, "JOB_NODELIST": "here"}.items()}
        process = subprocess.Popen(["bash", script], env={**os.environ, **variables})
        code = _wait(process, folder / f"{name}.cancel")
        cancelled = (folder / f"{name}.cancel").exists()
        state.write_text("CANCELLED" if cancelled else "FAILED" if code else "COMPLETED")


def _wait(process, cancel):
    """Wait for a job, and stop it when the file `cancel` appears."""
    killed = None
    while process.poll() is None:
        if killed is None and cancel.exists():
            _signal_tasks(process.pid, signal.SIGTERM)
            killed = time.monotonic() + KILL_WAIT
        if killed is not None and time.monotonic() > killed:
            _signal_tasks(process.pid, signal.SIGKILL)
        time.sleep(0.05)
    return process.returncode


def _signal_tasks(script, number):
    """Send a signal to all processes below srun, whatever their session."""
    for srun in _children(script):
        waiting = _children(srun)
        while waiting:
            process = waiting.pop()
            waiting += _children(process)
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _children(process):
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def srun(folder, *words):
    """Run a command with its output in the files of the options."""
    words, files = list(words), {}
    variables = {"%A": "SLURM_ARRAY_JOB_ID", "%a": "SLURM_ARRAY_TASK_ID", "%j": "SLURM_JOB_ID", "%t": "SLURM_LOCALID"}
    while words[0].startswith("--"):
        option = words.pop(0)
        if option in ("--output", "--error"):
            path = words.pop(0)
            for mark, variable in variables.items():
                path = path.replace(mark, os.environ.get(variable, ""))
            files[option] = Path(path)
    with files["--output"].open("ab") as output, files["--error"].open("ab") as errors:
        sys.exit(subprocess.run(words, stdout=output, stderr=errors).returncode)


def squeue(folder, *words):
    """Print the states of jobs, also of those that have ended."""
    (numbers,) = (word.partition("=")[2].split(",") for word in words if word.startswith("--jobs="))
    states = [state for state in sorted(folder.glob("*.state")) if state.stem.partition("_")[0] in numbers]
    if not states:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    for state in states:
        print(state.stem, state.read_text())


def scancel(folder, *words):
    """Cancel jobs; running ones stop a while later."""
    for state in folder.glob("*.state"):
        if state.stem not in words and state.stem.partition("_")[0] not in words:
            continue
        if state.read_text() == "PENDING":
            state.write_text("CANCELLED")
        elif state.read_text() == "RUNNING":
            state.with_suffix(".cancel").touch()


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
