"""Which results of studies there are, and where: those of the project, and one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemoscope.base.files import read_json


@dataclass(frozen=True)
class Held:
    """What one file or folder holds of one preset of one study."""

    study: str
    preset: str
    path: Path
    """A file of results, or the folder of one's own trials."""
    trials: int
    """Finished ones."""
    of_preset: tuple[int, int] | None
    """How many of the preset's own trials are finished, and how many it has; None: the file does not tell."""
    command: str | None = None
    problem: str | None = None
    """Why it cannot be read."""

    @property
    def words(self) -> str:
        """How many of the preset's trials are finished.

        >>> Held("a", "cpu", Path("a"), 14, (12, 42)).words
        '12 of 42, and 2 with other seeds or settings'
        """
        if self.problem is not None:
            return self.problem
        if self.of_preset is None:
            return str(self.trials)
        done, all_of = self.of_preset
        more = f", and {self.trials - done} with other seeds or settings" if self.trials > done else ""
        return (f"all {all_of}" if done == all_of else f"{done} of {all_of}") + more


def held_results(results: str | Path | None = None, root: str | Path | None = None) -> list[Held]:
    """What `<results>/<study>.<preset>.json` and `<root>/studies/<study>/<preset>` hold; a folder that is None or not
    there holds nothing.
    """
    files = sorted(Path(results).glob("*.*.json")) if results is not None else []
    folders = sorted(Path(root).glob("studies/*/*/")) if root is not None else []
    return [_in_file(path) for path in files] + [held for held in map(_in_folder, folders) if held is not None]


def _in_file(path: Path) -> Held:
    study, preset = path.stem.rsplit(".", 1)
    try:
        content = read_json(path)
        return Held(study, preset, path, len(content["trials"]), _of_preset(content), content.get("command"))
    except (ValueError, KeyError, TypeError, OSError) as error:
        return Held(study, preset, path, 0, None, problem=_problem(error))


def _in_folder(folder: Path) -> Held | None:
    """The trials that are there count, whatever the summary of an earlier time may say."""
    study, preset = folder.parent.name, folder.name
    files = list(folder.glob("*/trial.json"))
    if not files and not any(each.is_dir() for each in folder.iterdir()):
        return None
    broken = [path for path in files if _broken(path)]
    trials = len(files) - len(broken)
    if broken:
        return Held(study, preset, folder, trials, None, problem=f"{broken[0]} cannot be read: was it cut short?")
    try:
        content = read_json(folder / "summary.json") if (folder / "summary.json").exists() else {}
        known = _of_preset(content) if len(content.get("trials", [])) == trials else None
    except (ValueError, KeyError, TypeError, OSError) as error:
        return Held(study, preset, folder, trials, None, problem=_problem(error))
    return Held(study, preset, folder, trials, known, content.get("command"))


def _broken(path: Path) -> bool:
    try:
        return "result" not in read_json(path)
    except (ValueError, TypeError, OSError):
        return True


def _of_preset(content: dict[str, Any]) -> tuple[int, int] | None:
    told = content.get("of the preset")
    return None if told is None else (int(told["finished"]), int(told["trials"]))


def _problem(error: Exception) -> str:
    return f"cannot be read: {error}" if not isinstance(error, KeyError) else f"cannot be read: {error} is missing"
