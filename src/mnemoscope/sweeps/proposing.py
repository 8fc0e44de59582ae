"""Who chooses the points of a sweep: all at once, or Optuna, which is told how the earlier ones went."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol, runtime_checkable

from mnemoscope.sweeps.methods import METHODS
from mnemoscope.sweeps.search_space import Choices, Integers
from mnemoscope.sweeps.sweep import Point, Sweep

JOURNAL = "optuna.journal"


@runtime_checkable
class Proposer(Protocol):
    """Chooses points."""

    def next(self) -> list[Point]:
        """The points to run next; none: there are no more."""
        ...

    def chosen(self) -> list[Point]:
        """All points so far, also those of earlier times."""
        ...

    def tell(self, point: Point, value: float | None) -> None:
        """How good a point is; None: it has no finite value. A point that could not be run is not told."""
        ...


class AllAtOnce:
    """A grid or a random choice: nothing that is told changes it."""

    def __init__(self, sweep: Sweep) -> None:
        self.points = self.left = list(sweep.points())

    def next(self) -> list[Point]:
        """See `Proposer.next`."""
        points, self.left = self.left, []
        return points

    def chosen(self) -> list[Point]:
        """See `Proposer.chosen`."""
        return self.points

    def tell(self, point: Point, value: float | None) -> None:
        """See `Proposer.tell`."""


class Optuna:
    """Optuna's samplers, some points at a time, with its storage.

    Points are told in their order, all of one time before the next are chosen, and a sampler is made anew for each,
    with a seed from its number: what is chosen depends on nothing else, neither on who was faster nor on when it was
    interrupted. A point that was chosen and not told stays "running" in the storage, and is the first to be run when
    the sweep goes on.

    Args:
        sweep: what is sought, over what.
        folder: of the sweep.
        storage: URL of a database; None: a journal in the folder.

    """

    def __init__(self, sweep: Sweep, folder: Path, storage: str | None = None) -> None:
        self.optuna = _optuna(sweep.method)
        self.sweep = sweep
        self.proposed: set[int] = set()
        with self._quiet():
            kept = self._journal(folder / JOURNAL) if storage is None else self._database(storage)
            self.study = self.optuna.create_study(
                study_name=sweep.base.name, storage=kept, direction=f"{sweep.sought[:-3]}ize", load_if_exists=True
            )
        self._check()
        self.distributions = {name: self._distribution(values) for name, values in sweep.over.items()}

    def next(self) -> list[Point]:
        """See `Proposer.next`."""
        trials = self.study.get_trials(deepcopy=False)
        left = [each for each in trials if not each.state.is_finished() and each.number not in self.proposed]
        first, step = left[0].number if left else len(trials), self.sweep.at_a_time
        end = min(self.sweep.number, (first // step + 1) * step)
        with self._quiet():
            points = [self._begun(each) for each in left if each.number < end]
            points += [self._asked(self.study.ask, number) for number in range(len(trials), end)]
        self.proposed |= {point.number for point in points}
        return points

    def chosen(self) -> list[Point]:
        """See `Proposer.chosen`."""
        trials = self.study.get_trials(deepcopy=False)[: self.sweep.number]
        return [self._whole(each) for each in trials if self._is_whole(each)]

    def tell(self, point: Point, value: float | None) -> None:
        """See `Proposer.tell`. What did not stay finite is worse than all others: "pruned" says so to samplers."""
        state = self.optuna.trial.TrialState
        with self._quiet():
            self.study.sampler = self._sampler(point.number)
            self.study.tell(point.number, value, state.PRUNED if value is None else state.COMPLETE)

    def _begun(self, trial: Any) -> Point:
        """A point that was chosen before; a kill may have left a part of it to choose."""
        if self._is_whole(trial):
            return self._whole(trial)
        return self._asked(lambda: self.optuna.trial.Trial(self.study, trial._trial_id), trial.number)

    def _is_whole(self, trial: Any) -> bool:
        return {*trial.params} == {*self.distributions}

    def _whole(self, trial: Any) -> Point:
        return Point(trial.number, {name: trial.params[name] for name in self.distributions})

    def _asked(self, ask: Callable[[], Any], number: int) -> Point:
        self.study.sampler = self._sampler(number)
        trial = ask()
        if trial.number != number:
            raise RuntimeError(
                f"Another process writes to the Optuna study {self.sweep.base.name!r}: number {number} was expected, "
                f"but is {trial.number}. Stop it, and go on with --resume."
            )
        return Point(number, {name: _suggest(trial, name, each) for name, each in self.distributions.items()})

    def _sampler(self, number: int) -> Any:
        method, samplers = METHODS[self.sweep.method], self.optuna.samplers
        own = Random(f"{self.sweep.sampling_seed} {number}").getrandbits(31)
        make = getattr(samplers, method.sampler)
        if not method.counts:
            return make(seed=own, **method.options)
        independent = samplers.RandomSampler(seed=own)
        return make(
            seed=self.sweep.sampling_seed % 2**31,
            independent_sampler=independent,
            warn_independent_sampling=False,
            **method.options,
        )

    def _distribution(self, values: Any) -> Any:
        kinds = self.optuna.distributions
        if isinstance(values, Choices):
            return kinds.CategoricalDistribution(values.values)
        kind = kinds.IntDistribution if isinstance(values, Integers) else kinds.FloatDistribution
        return kind(values.low, values.high, log=values.log)

    def _journal(self, path: Path) -> Any:
        storages = self.optuna.storages
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)  # of one that was killed: the folder is ours alone
        _check_journal(path)
        return storages.JournalStorage(storages.journal.JournalFileBackend(str(path.resolve())))

    def _database(self, url: str) -> Any:
        from sqlalchemy.exc import SQLAlchemyError  # pyright: ignore[reportMissingImports]  # comes with Optuna

        try:
            return self.optuna.storages.RDBStorage(url)
        except (SQLAlchemyError, ImportError) as error:
            raise ValueError(f"The storage cannot be opened: {error}".splitlines()[0]) from error

    def _check(self) -> None:
        """Whether the study in the storage is of this sweep; a new one becomes it."""
        content = self.sweep.as_json()
        own = json.loads(json.dumps({name: content[name] for name in self.sweep.same()}))
        before = self.study.user_attrs.get("mnemoscope")
        if before is None and not self.study.get_trials(deepcopy=False):
            self.study.set_user_attr("mnemoscope", own)
        elif before != own:
            raise ValueError(
                f"The storage has an Optuna study named {self.sweep.base.name!r} that is not of this sweep: nothing "
                f"was written to it. Choose another name (`--name`) or storage."
            )

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Without what Optuna says of itself: studies that are created, methods that may change."""
        logging = self.optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.optuna.exceptions.ExperimentalWarning)
                yield
        finally:
            logging.set_verbosity(before)


def proposer(sweep: Sweep, folder: Path, storage: str | None = None) -> Proposer:
    """Who chooses the points of a sweep that has this folder."""
    return Optuna(sweep, folder, storage) if METHODS[sweep.method].sampler else AllAtOnce(sweep)


def storage_name(sweep: Sweep, storage: str | None) -> str:
    """Where Optuna keeps what it knows, without a password; nothing, if it is not asked. Raises if it cannot be."""
    if METHODS[sweep.method].sampler:
        _optuna(sweep.method)
        return JOURNAL if storage is None else without_password(storage)
    if storage is not None:
        raise ValueError(f"A storage is for the methods of Optuna; {sweep.method} needs none.")
    return ""


def without_password(text: str) -> str:
    """Text in which URLs do not show their passwords.

    >>> without_password("--storage mysql://me:secret@host/sweeps")
    '--storage mysql://me:***@host/sweeps'
    """
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


def _suggest(trial: Any, name: str, values: Any) -> Any:
    """By what everyone may call; of one that was chosen before a kill, what was chosen then."""
    if hasattr(values, "choices"):
        return trial.suggest_categorical(name, values.choices)
    suggest = trial.suggest_int if isinstance(values.low, int) else trial.suggest_float
    return suggest(name, values.low, values.high, log=values.log)


def _optuna(method: str) -> Any:
    needed = {"optuna": "Optuna", **({"cmaes": "cmaes"} if method == "cma-es" else {})}
    for module, name in needed.items():
        try:
            __import__(module)
        except ImportError as error:
            raise ModuleNotFoundError(f"The method {method} needs {name}: pip install 'mnemoscope[sweep]'.") from error
    import optuna  # pyright: ignore[reportMissingImports]
    import optuna.storages.journal  # pyright: ignore[reportMissingImports]

    return optuna


def _check_journal(path: Path) -> None:
    """A kill may have cut the last line of a journal, which nobody has read then; a cut elsewhere is told."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{path} is damaged in line {number}: {error}. Restore it, or choose another --name."
            ) from None
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
