"""NVIDIA's Multi-Process Service: kernels of several processes run on one GPU at the same time, not in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mnemoscope.engines.afterwards import run_if_killed

CONTROL = "nvidia-cuda-mps-control"
"""Program that starts and ends the service."""
QUIT = 'echo quit | "$0"; rm -rf "$1"'
"""Program of the shell that ends the service and removes its folder."""
PATIENCE = 60.0
"""Time that the program has to answer, in seconds."""


@contextmanager
def multi_process_service() -> Generator[dict[str, str]]:
    """Run the service inside the context, and yield the environment variables of processes that use it.

    The service has its own folder, and ends with the context, also if this process is killed.
    """
    if shutil.which(CONTROL) is None:
        raise RuntimeError(
            f"Jobs cannot share the GPU: there is no {CONTROL} here. It comes with NVIDIA's driver on Linux. Without "
            f"share_gpu, the jobs take turns on the GPU."
        )
    with tempfile.TemporaryDirectory(prefix="mps-", ignore_cleanup_errors=True) as home:
        variables = {name: str(Path(home, name)) for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")}
        for folder in variables.values():
            Path(folder).mkdir()
        with run_if_killed(["sh", "-c", QUIT, CONTROL, home], variables):
            try:
                _control(variables, "-d")  # Ctrl-C may come while the service starts
                _control(variables, command="get_server_list")  # the program answers only if the service runs
                visible = os.environ.get("CUDA_VISIBLE_DEVICES")
                seen = ",".join(names_under_the_service(visible.split(","))) if visible else None
                yield variables if seen is None else {**variables, "CUDA_VISIBLE_DEVICES": seen}
            except BaseException as error:
                try:
                    _control(variables, command="quit")
                except Exception as second:  # the first error is the one that matters
                    error.add_note(f"Then the service did not end: {second}")
                raise
            try:
                _control(variables, command="quit")
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:  # the jobs have ended well
                warnings.warn(f"NVIDIA's Multi-Process Service did not end: {error}", stacklevel=2)


def names_under_the_service(gpus: Sequence[str]) -> list[str]:
    """Return the names that processes of the service use for the GPUs that it sees.

    It numbers these from 0; a name that is no number, such as GPU-8932f937, is kept.

    >>> names_under_the_service(["2", "3"]), names_under_the_service(["GPU-8932f937"])
    (['0', '1'], ['GPU-8932f937'])
    """
    return [str(place) if name.strip().isdigit() else name for place, name in enumerate(gpus)]


def _control(variables: Mapping[str, str], *arguments: str, command: str = "") -> None:
    """Call the program, and give it a command on its standard input."""
    with tempfile.TemporaryFile() as output:  # no pipe, which the service would inherit and keep open
        code = subprocess.run(
            [CONTROL, *arguments],
            input=f"{command}\n".encode(),
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
            timeout=PATIENCE,
        ).returncode
        output.seek(0)
        said = output.read().decode(errors="replace")
    if code != 0:
        logs = [path.read_text() for path in sorted(Path(variables["CUDA_MPS_LOG_DIRECTORY"]).iterdir())]
        reason = "\n".join(text.strip() for text in (said, *logs) if text.strip()) or "it gave no reason"
        called = " ".join([CONTROL, *arguments]) + (f" < {command}" if command else "")
        raise RuntimeError(f"{called} failed with exit code {code}: {reason}")
