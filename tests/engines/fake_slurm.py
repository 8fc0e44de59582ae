"""The commands of Slurm that submitit calls, acted by processes of this machine: sbatch, srun, sacct and scancel.

`install(folder)` writes them into a folder, to be put on PATH. A job array runs one task at a time. The folder also
has the state of each task, in a file `<array>_<task>.state`, and the process group of the one that runs.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

COMMANDS = ("sbatch", "srun", "sacct", "scancel")


def install(folder):
    """Write the commands into a folder."""
    folder.mkdir()
    for name in COMMANDS:
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} {folder} "$@"\n')
        command.chmod(0o755)


def sbatch(folder, script):
    """Start the tasks of a script's array in the background, and print the number of the array."""
    array = str(1000 + len(list(folder.glob("*_0.state"))))
    last = int(re.search(r"#SBATCH --array=0-(\d+)", Path(script).read_text())[1])
    for task in range(last + 1):
        (folder / f"{array}_{task}.state").write_text("PENDING")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    run = [sys.executable, __file__, "run_array", str(folder), script, array, str(last + 1)]
    subprocess.Popen(run, start_new_session=True, **quiet)
    print(f"Submitted batch job {array}")


def run_array(folder, script, array, number):
    """Run the tasks of an array that have not been cancelled."""
    for task in range(int(number)):
        state = folder / f"{array}_{task}.state"
        if state.read_text() == "CANCELLED":
            continue
        state.write_text("RUNNING")
        numbers = {"JOB_ID": str(int(array) + task), "ARRAY_JOB_ID": array, "ARRAY_TASK_ID": str(task)}
        layout = {"JOB_NUM_NODES": "1", "NTASKS": "1", "NODEID": "0", "PROCID": "0", "LOCALID": "0"}
        names = {f"SLURM_{name}": value for name, value in {**numbers, **layout, "JOB_NODELIST": "here"}.items()}
        process = subprocess.Popen(["bash", script], env={**os.environ, **names}, start_new_session=True)
        (folder / "running").write_text(str(process.pid))
        code = process.wait()
        if state.read_text() != "CANCELLED":
            state.write_text("FAILED" if code else "COMPLETED")


def srun(folder, *words):
    """Run a command with its output in the files of the options."""
    words, files = list(words), {}
    while words[0].startswith("--"):
        option = words.pop(0)
        if option in ("--output", "--error"):
            path = words.pop(0).replace("%A", os.environ["SLURM_ARRAY_JOB_ID"])
            files[option] = Path(path.replace("%a", os.environ["SLURM_ARRAY_TASK_ID"]).replace("%t", "0"))
    with files["--output"].open("ab") as output, files["--error"].open("ab") as errors:
        sys.exit(subprocess.run(words, stdout=output, stderr=errors).returncode)


def sacct(folder, *words):
    print("JobID|State|NodeList")
    for state in sorted(folder.glob("*.state")):
        print(f"{state.stem}|{state.read_text()}|here")


def scancel(folder, *words):
    """Cancel tasks; a running one is killed at once, where Slurm would grant it some seconds."""
    for state in folder.glob("*.state"):
        if state.stem in words or state.stem.partition("_")[0] in words:
            before = state.read_text()
            state.write_text("CANCELLED")
            if before == "RUNNING":
                os.killpg(int((folder / "running").read_text()), signal.SIGKILL)


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
