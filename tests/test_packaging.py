"""The package: its wheel and source distribution are complete, install, and run outside a checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import mnemoscope
from tests.slow import SLOW

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


def files_below(folder):
    """Return the files below a folder, relative to it, without compiled bytecode."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


def included(builder):
    return {file.distribution_path for file in builder.recurse_included_files()}


def test_the_wheel_contains_every_file_of_the_package():
    """Python modules and data: presets, templates, references and the marker of typed packages."""
    files = included(WheelBuilder(str(ROOT)))
    assert files == files_below(SOURCE)
    assert {Path(file).suffix for file in files} >= {".py", ".bib", ".toml", ".html", ".css", ".js"}
    assert "mnemoscope/py.typed" in files


def test_the_source_distribution_contains_the_tests_and_the_licence():
    files = included(SdistBuilder(str(ROOT)))
    assert {f"src/{file}" for file in files_below(SOURCE)} <= files
    assert {f"tests/{file}" for file in files_below(ROOT / "tests")} <= files
    assert {"LICENSE", "Makefile", "README.md", "CHANGELOG.md", "constraints.txt", "pyproject.toml"} <= files


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution that `make build` writes."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, cwd=ROOT)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@SLOW
def test_the_built_files_have_the_version_and_the_licence(built):
    version = mnemoscope.__version__
    assert built["wheel"].name == f"mnemoscope-{version}-py3-none-any.whl"
    assert built["sdist"].name == f"mnemoscope-{version}.tar.gz"
    with zipfile.ZipFile(built["wheel"]) as wheel:
        assert f"mnemoscope-{version}.dist-info/licenses/LICENSE" in wheel.namelist()
        assert files_below(SOURCE) <= {*wheel.namelist()}
    with tarfile.open(built["sdist"]) as sdist:
        assert f"mnemoscope-{version}/LICENSE" in sdist.getnames()


@SLOW
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_demo_runs_from_an_installed_package_in_an_empty_folder(kind, built, tmp_path):
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    empty.mkdir()
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # the dependencies are those of this environment; the package must come from the built file
    borrowed = packages / "borrowed.pth"
    if kind == "sdist":
        borrowed.write_text(sysconfig.get_path("purelib") + "\n")  # the build needs hatchling
    options = ["--no-deps", "--ignore-installed", "--no-index", *(["--no-build-isolation"] if kind == "sdist" else [])]
    run(python, "-m", "pip", "install", "--quiet", *options, built[kind])
    borrowed.write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-P", "-c", "import mnemoscope; print(mnemoscope.__file__)", cwd=empty)
    assert Path(where.strip()).is_relative_to(environment)
    answer = json.loads(run(python, "-m", "mnemoscope", "demo", "--json", cwd=empty))
    assert answer["points"] == 27
    page = Path(answer["page"])
    assert page.is_relative_to(empty.resolve())
    assert "<svg" in page.read_text(encoding="utf-8")


def run(*words, cwd=None):
    """Return the output of a command; without this checkout on the import path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
