"""Supply: every package that `make` installs is pinned by version, and the supported Pythons are those tested."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from tools.python_matrix import supported_versions

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
PINS = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in LINES if line}


def needed(name: str, extra: str = "", seen: set[tuple[str, str]] | None = None) -> set[str]:
    """Return the installed distributions that a distribution needs with an extra, directly or not."""
    seen = set() if seen is None else seen
    if (name, extra) in seen:
        return set()
    seen.add((name, extra))
    try:
        requirements = [Requirement(line) for line in distribution(name).requires or []]
    except PackageNotFoundError:  # for another platform
        return set()
    found = {name}
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            for more in ("", *requirement.extras):
                found |= needed(canonicalize_name(requirement.name), more, seen)
    return found


def test_every_package_that_make_installs_is_pinned():
    installed = needed("mnemoscope", "dev") - {"mnemoscope"}
    assert len(installed) > 80  # the walk reaches what the dependencies need
    assert installed - PINS.keys() == set()
    backend = {Requirement(line).name for line in PROJECT["build-system"]["requires"]}
    assert backend | {"pip"} <= PINS.keys()


def test_the_extra_for_nwb_files_is_pinned_with_all_that_it_needs():
    """The walk reaches what pynwb needs where it is installed."""
    assert needed("pynwb") | {"pynwb", "hdmf", "h5py"} <= PINS.keys()


def test_the_constraints_name_versions_and_no_registry():
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in LINES if line)
    assert len(PINS) == sum(bool(line) for line in LINES)  # each package once


def test_pins_satisfy_the_requirements_of_the_project():
    extras = PROJECT["project"]["optional-dependencies"]
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    lines += [line for extra in extras.values() for line in extra]
    checked = [Requirement(line) for line in lines if canonicalize_name(Requirement(line).name) in PINS]
    assert len(checked) > 20
    assert [str(each) for each in checked if PINS[canonicalize_name(each.name)] not in each.specifier] == []


def test_make_installs_with_the_constraints_the_build_backend_included():
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert installs
    assert all("--constraint constraints.txt" in line for line in installs)
    assert any("--build-constraint constraints.txt" in line for line in installs if "--editable" in line)


def test_the_classifiers_name_exactly_the_pythons_that_may_install_the_package():
    allowed = SpecifierSet(PROJECT["project"]["requires-python"])
    assert supported_versions() == [f"3.{minor}" for minor in range(9, 30) if f"3.{minor}.0" in allowed]
