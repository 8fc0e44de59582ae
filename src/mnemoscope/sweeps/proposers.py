"""Proposers choose the points of a sweep: from a fixed list, or with Optuna from earlier results."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Protocol, runtime_checkable

from mnemoscope.base.files import refuse_link, separate
from mnemoscope.base.lazy_imports import import_extra
from mnemoscope.base.reading import checked_json, read_bytes
from mnemoscope.store.schemas import METRICS_LIMIT
from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.search_space import Choices, Integers
from mnemoscope.sweeps.sweep import Point, Sweep

JOURNAL = "optuna.journal"
"""File in the folder of a sweep in which Optuna keeps its state."""


@runtime_checkable
class Proposer(Protocol):
    """Chooses the points of a sweep, with the ask-and-tell interface of optimisation libraries."""

    def ask(self) -> list[Point]:
        """Return the points to run next; an empty list ends the sweep."""
        ...

    def proposed(self) -> list[Point]:
        """Return all points proposed so far, including those before an interruption."""
        ...

    def tell(self, point: Point, value: float | None) -> None:
        """Receive the objective of a point; None: it diverged. A failed point is not passed on."""
        ...


class FixedProposer:
    """A grid or a random search: the points do not depend on results."""

    def __init__(self, sweep: Sweep) -> None:
        self.points = self.remaining = list(sweep.points())

    def ask(self) -> list[Point]:
        points, self.remaining = self.remaining, []
        return points

    def proposed(self) -> list[Point]:
        return self.points

    def tell(self, point: Point, value: float | None) -> None:
        pass


class OptunaProposer:
    """A sampler of Optuna, which proposes some points at a time and keeps its state in a storage.

    The results of a batch are passed on in order before the next batch is proposed, and each point has a new sampler,
    seeded by its number. So the points depend neither on the speed of the runs nor on interruptions. A point without a
    result stays "running" in the storage, and is the first to run when the sweep resumes.

    Args:
        sweep: the sweep.
        folder: folder of the sweep.
        storage: URL of a database; None: a journal in the folder.

    """

    def __init__(self, sweep: Sweep, folder: Path, storage: str | None = None) -> None:
        self.optuna = _optuna(sweep.method)
        self.sweep = sweep
        self.asked: set[int] = set()
        with self._quiet():
            self.study = self._journal(folder / JOURNAL) if storage is None else self._open(self._database(storage))
        self._check()
        self.distributions = {name: self._distribution(values) for name, values in sweep.over.items()}

    def ask(self) -> list[Point]:
        trials = self.study.get_trials(deepcopy=False)
        pending = [trial for trial in trials if not trial.state.is_finished() and trial.number not in self.asked]
        first, step = pending[0].number if pending else len(trials), self.sweep.at_a_time
        end = min(self.sweep.point_count, (first // step + 1) * step)
        with self._quiet():
            points = [self._resumed(trial) for trial in pending if trial.number < end]
            points += [self._new(self.study.ask, number) for number in range(len(trials), end)]
        self.asked |= {point.number for point in points}
        return points

    def proposed(self) -> list[Point]:
        trials = self.study.get_trials(deepcopy=False)[: self.sweep.point_count]
        return [self._point(trial) for trial in trials if self._is_complete(trial)]

    def tell(self, point: Point, value: float | None) -> None:
        state = self.optuna.trial.TrialState  # samplers rank a "pruned" point below all others
        with self._quiet():
            self.study.sampler = self._sampler(point.number)
            self.study.tell(point.number, value, state.PRUNED if value is None else state.COMPLETE)

    def _resumed(self, trial: Any) -> Point:
        """Return a point proposed before an interruption; some of its values may still have to be chosen."""
        if self._is_complete(trial):
            return self._point(trial)
        return self._new(lambda: self.optuna.trial.Trial(self.study, trial._trial_id), trial.number)

    def _is_complete(self, trial: Any) -> bool:
        return {*trial.params} == {*self.distributions}

    def _point(self, trial: Any) -> Point:
        return Point(trial.number, {name: trial.params[name] for name in self.distributions})

    def _new(self, ask: Callable[[], Any], number: int) -> Point:
        """Return the point of a new trial, which must have the given number."""
        self.study.sampler = self._sampler(number)
        trial = ask()
        if trial.number != number:
            raise RuntimeError(
                f"Another process writes to the Optuna study {self.sweep.base.name!r}: number {number} was expected, "
                f"but is {trial.number}. Stop it, and continue with --resume."
            )
        return Point(number, {name: _suggest(trial, name, values) for name, values in self.distributions.items()})

    def _sampler(self, number: int) -> Any:
        method, samplers = METHODS[self.sweep.method], self.optuna.samplers
        seed = Random(f"{self.sweep.sampling_seed} {number}").getrandbits(31)
        make = getattr(samplers, method.sampler)
        if not method.counts:
            return make(seed=seed, **method.options)
        independent = {"independent_sampler": samplers.RandomSampler(seed=seed), "warn_independent_sampling": False}
        return make(seed=self.sweep.sampling_seed % 2**31, **independent, **method.options)

    def _distribution(self, values: Any) -> Any:
        kinds = self.optuna.distributions
        if isinstance(values, Choices):
            return kinds.CategoricalDistribution(values.values)
        kind = kinds.IntDistribution if isinstance(values, Integers) else kinds.FloatDistribution
        return kind(values.low, values.high, log=values.log)

    def _open(self, storage: Any) -> Any:
        """Return the study of this sweep in a storage; create it if needed."""
        name, direction = self.sweep.base.name, f"{self.sweep.goal[:-3]}ize"
        return self.optuna.create_study(study_name=name, storage=storage, direction=direction, load_if_exists=True)

    def _journal(self, path: Path) -> Any:
        storages = self.optuna.storages
        # a lock was left by a killed process: no other process uses this folder
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
        refuse_link(path)
        separate(path)
        _check_journal(path)
        try:
            study = self._open(storages.JournalStorage(storages.journal.JournalFileBackend(str(path.resolve()))))
            study.get_trials(deepcopy=False)
            return study
        except Exception as error:  # Optuna takes the entries of a journal without a check
            if isinstance(error, OSError):
                raise
            raise ValueError(
                f"{path} does not hold what Optuna writes ({type(error).__name__}: {error}). Restore it, or choose "
                f"another --name."
            ) from error

    def _database(self, url: str) -> Any:
        from sqlalchemy.exc import SQLAlchemyError  # pyright: ignore[reportMissingImports]  # comes with Optuna

        try:
            return self.optuna.storages.RDBStorage(url)
        except (SQLAlchemyError, ImportError) as error:
            raise ValueError(f"The storage cannot be opened: {error}".splitlines()[0]) from error

    def _check(self) -> None:
        """Raise if the study in the storage belongs to another sweep; mark a new study as that of this sweep."""
        content = self.sweep.as_json()
        identity = json.loads(json.dumps({name: content[name] for name in self.sweep.fixed_settings()}))
        before = self.study.user_attrs.get("mnemoscope")
        if before is None and not self.study.get_trials(deepcopy=False):
            self.study.set_user_attr("mnemoscope", identity)
        elif before != identity:
            raise ValueError(
                f"The storage has an Optuna study named {self.sweep.base.name!r} that does not belong to this "
                f"sweep; nothing was written to it. Choose another name (`--name`) or storage."
            )

    @contextmanager
    def _quiet(self) -> Generator[None]:
        """Silence messages of Optuna about created studies, and warnings about experimental methods."""
        logging = self.optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                yield
        finally:
            logging.set_verbosity(before)


def make_proposer(sweep: Sweep, folder: Path, storage: str | None = None) -> Proposer:
    """Return the proposer for the method of a sweep."""
    return OptunaProposer(sweep, folder, storage) if METHODS[sweep.method].sampler else FixedProposer(sweep)


def storage_name(sweep: Sweep, storage: str | None) -> str:
    """Return the place of Optuna's state, without a password; "" for methods without Optuna.

    Raises if Optuna is needed and not installed, or if a storage is given for a method without Optuna.
    """
    if METHODS[sweep.method].sampler:
        _optuna(sweep.method)
        return JOURNAL if storage is None else hide_passwords(storage)
    if storage is not None:
        raise ValueError(f"A storage is for the methods of Optuna; {sweep.method} needs none.")
    return ""


def hide_passwords(text: str) -> str:
    """Return the text with the passwords in URLs replaced by stars.

    >>> hide_passwords("--storage mysql://me:secret@host/sweeps")
    '--storage mysql://me:***@host/sweeps'
    """
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


def _suggest(trial: Any, name: str, values: Any) -> Any:
    """Return the value of a field, through the public interface of Optuna; a value chosen before stays the same."""
    if hasattr(values, "choices"):
        return trial.suggest_categorical(name, values.choices)
    suggest = trial.suggest_int if isinstance(values.low, int) else trial.suggest_float
    return suggest(name, values.low, values.high, log=values.log)


def _optuna(method: str) -> Any:
    """Import Optuna and what the method needs; raise an error with the command that installs it."""
    for module in ("optuna", "optuna.storages.journal", *(["cmaes"] if method == "cma-es" else [])):
        import_extra(module, "sweep", f"The method {method} needs")
    return import_module("optuna")


def _check_journal(path: Path) -> None:
    """Drop a truncated last line of a journal, which a kill may leave; raise on any other damage."""
    content = read_bytes(path, METRICS_LIMIT) if path.exists() else b""
    complete = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            checked_json(line, "it")
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged in line {number}: {error} Restore it, or choose another --name."
            ) from None
    if len(complete) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(complete))
