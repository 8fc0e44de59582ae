"""Find the stored results of studies: the project's results, and those of the user's runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.base.reading import read_json
from mnemoscope.store.schemas import Summary, TrialFile


@dataclass(frozen=True)
class StoredResults:
    """The stored results of one preset of one study."""

    study: str
    """Name of the study."""
    preset: str
    """Name of the preset."""
    path: Path
    """File of results, or folder of trials."""
    trials: int
    """Number of finished trials."""
    of_preset: tuple[int, int] | None
    """Number of finished trials among those of the preset, and number of trials of the preset; None: unknown."""
    command: str | None = None
    """Command that produced the results; None: unknown."""
    problem: str | None = None
    """Why the results cannot be read; None: they can."""

    @property
    def progress(self) -> str:
        """How many trials of the preset are finished, or why the results cannot be read.

        >>> StoredResults("a", "cpu", Path("a"), 14, (12, 42)).progress
        '12 of 42, and 2 with other seeds or settings'
        """
        if self.problem is not None:
            return self.problem
        if self.of_preset is None:
            return str(self.trials)
        finished, total = self.of_preset
        others = f", and {self.trials - finished} with other seeds or settings" if self.trials > finished else ""
        return (f"all {total}" if finished == total else f"{finished} of {total}") + others


def find_study_results(results: str | Path | None = None, root: str | Path | None = None) -> list[StoredResults]:
    """Return the results in `<results>/<study>.<preset>.json` and in `<root>/studies/<study>/<preset>`.

    A folder that is None or does not exist has no results.
    """
    files = sorted(Path(results).glob("*.*.json")) if results is not None else []
    folders = sorted(Path(root).glob("studies/*/*/")) if root is not None else []
    return [_in_file(path) for path in files] + [found for found in map(_in_folder, folders) if found is not None]


def _in_file(path: Path) -> StoredResults:
    study, preset = path.stem.rsplit(".", 1)
    try:
        content = read_json(path, Summary)
    except (ValueError, OSError) as error:
        return StoredResults(study, preset, path, 0, None, problem=f"cannot be read: {error}")
    return StoredResults(study, preset, path, len(content["trials"]), _of_preset(content), content.get("command"))


def _in_folder(folder: Path) -> StoredResults | None:
    """Count the trials that exist: the summary may be older than the last trial."""
    study, preset = folder.parent.name, folder.name
    files = list(folder.glob("*/trial.json"))
    if not files and not any(path.is_dir() for path in folder.iterdir()):
        return None
    reasons = [reason for reason in map(_damage, files) if reason]
    trials = len(files) - len(reasons)
    if reasons:
        return StoredResults(study, preset, folder, trials, None, problem=f"cannot be read: {reasons[0]}")
    try:
        summary = folder / "summary.json"
        content: dict[str, Any] = read_json(summary, Summary) if summary.exists() else {"trials": []}
    except (ValueError, OSError) as error:
        return StoredResults(study, preset, folder, trials, None, problem=f"cannot be read: {error}")
    known = _of_preset(content) if len(content["trials"]) == trials else None
    return StoredResults(study, preset, folder, trials, known, content.get("command"))


def _damage(path: Path) -> str:
    """Return why a trial.json cannot be read; "" if it can."""
    try:
        read_json(path, TrialFile)
    except (ValueError, OSError) as error:
        return str(error)
    return ""


def _of_preset(content: dict[str, Any]) -> tuple[int, int] | None:
    counts = content.get("of the preset")
    return None if counts is None else (counts["finished"], counts["trials"])
