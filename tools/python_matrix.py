"""Run tests with every supported Python that this machine has, each in a separate environment.

    python tools/python_matrix.py tests/config tests/store      these tests
    python tools/python_matrix.py --python 3.13 tests/config    with one version

The versions are those of the classifiers in pyproject.toml. The search for interpreters covers the PATH and the
versions of pyenv. The environments are kept in build/matrix; with a wheel of torch for CUDA, each needs some gigabytes.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / "build" / "matrix"


def supported_versions() -> list[str]:
    """Return the versions of Python that the classifiers name, such as "3.11"."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"])
    return [match[1] for match in matches if match]


def find_interpreter(version: str) -> Path | None:
    """Return a working interpreter of this version; None if this machine has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    on_path = shutil.which(f"python{version}")
    for path in [*([Path(on_path)] if on_path else []), *installed]:
        question = [str(path), "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(question, capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip() == version:  # a shim of pyenv may exist without a version
            return path
    return None


def install(version: str, interpreter: Path) -> Path:
    """Create the environment of a version as `make` does, unless it is up to date, and return its Python."""
    folder = ENVIRONMENTS / version
    python, stamp = folder / "bin" / "python", folder / "installed"
    inputs = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if stamp.exists() and all(stamp.stat().st_mtime >= path.stat().st_mtime for path in inputs):
        return python
    pinned = ["--quiet", "--constraint", "constraints.txt"]
    subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
    subprocess.run([python, "-m", "pip", "install", *pinned, "--upgrade", "pip"], cwd=ROOT, check=True)
    package = ["--build-constraint", "constraints.txt", "--editable", ".[dev]"]
    subprocess.run([python, "-m", "pip", "install", *pinned, *package], cwd=ROOT, check=True)
    stamp.touch()
    return python


def main(arguments: Sequence[str] | None = None) -> int:
    """Test each version and print a table; return 1 if tests failed or no version was there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="+", help="files and folders for pytest")
    parser.add_argument("--python", action="append", metavar="VERSION", help="only this version; repeatable")
    given = parser.parse_args(arguments)
    results = {}
    for version in given.python or supported_versions():
        interpreter = find_interpreter(version)
        if interpreter is None:
            results[version] = "not run: this machine has no such interpreter"
            continue
        print(f"Python {version}: {interpreter}", flush=True)
        python = install(version, interpreter)
        command = [python, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "-p", "no:cacheprovider"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([*command, *given.tests], cwd=ROOT, env=environment, check=False)
        results[version] = "passed" if done.returncode == 0 else f"failed (pytest ended with {done.returncode})"
    for version, result in results.items():
        print(f"Python {version:5} {result}")
    failed = [result for result in results.values() if result.startswith("failed")]
    return 1 if failed or "passed" not in results.values() else 0


if __name__ == "__main__":
    sys.exit(main())
