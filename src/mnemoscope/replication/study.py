"""What a study is: something published, the trials that test it, and both side by side."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mnemoscope.config.hashing import without_later_defaults
from mnemoscope.training.run_folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NOT_COMPARED = "not compared"
"""The verdict where nothing was published, or under other conditions."""
OTHER_CONDITIONS = "other conditions than published"


@dataclass(frozen=True)
class Published:
    """One published number or statement, as data."""

    quantity: str
    value: float | str
    source: str
    """Which table, figure or section says so."""
    agreeing: tuple[float, float] | None = None
    """Lowest and highest measured value that agrees with it; None: it is not measured here."""
    better: Literal["higher", "lower"] | None = None
    """Which values are better than it; None: neither, or it is not for us to say."""
    because: str = ""
    """Why ours cannot agree with it, where that is known: a misprint, an error in a proof."""

    def verdict(self, measured: Sequence[float]) -> str:
        """Whether what was measured, once per network, lies in the range that agrees, or all of it on one side.

        >>> Published("stable fixed points", 8, "Fig 6", agreeing=(8, 8)).verdict([8, 7, 8])
        'agrees in 2 of 3'
        >>> Published("accuracy", "96%", "Table 2", agreeing=(0.95, 0.97), better="higher").verdict([0.93, 0.94])
        'worse'
        """
        if self.agreeing is None or not measured:
            return NOT_COMPARED
        low, high = self.agreeing
        count = sum(low <= value <= high for value in measured)
        if count:
            return "agrees" if count == len(measured) else f"agrees in {count} of {len(measured)}"
        sides = {"higher" if value > high else "lower" for value in measured}
        if self.better is None or len(sides) > 1:
            return "differs"
        return "better" if self.better in sides else "worse"

    def beside(self, quantity: str, measured: Sequence[float], ours: str, remark: str = "") -> Row:
        """What was measured, and `ours`, its words, beside this."""
        verdict = self.verdict(measured)
        because = "" if verdict == "agrees" else self.because
        if verdict == NOT_COMPARED:
            because = "the study names no range that would agree" if self.agreeing is None else "nothing was measured"
        return Row(quantity, str(self.value), ours, verdict, remark, self.quantity, because)

    def not_beside(self, quantity: str, ours: str, remark: str, because: str) -> Row:
        """The same where it cannot be compared, and why."""
        told = f"{remark}; {because}" if remark else because
        return Row(quantity, str(self.value), ours, NOT_COMPARED, told, self.quantity, because)


@dataclass(frozen=True)
class Trial:
    """One run of a study: everything that determines its result."""

    name: str
    settings: Mapping[str, Any]
    seed: int

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of the settings and the seed; the trial's folder is named by them."""
        settings = without_later_defaults(self.settings)  # of runs, so that a new field leaves old trials finished
        content = json.dumps({"name": self.name, "settings": settings, "seed": self.seed}, sort_keys=True)
        return sha256(content.encode()).hexdigest()[:10]


@dataclass(frozen=True)
class Row:
    """One line of a study's table: published beside ours."""

    quantity: str
    published: str
    ours: str
    verdict: str = NOT_COMPARED
    """Whether ours agrees, by the range that the study declares beside what was published."""
    remark: str = ""
    stated: str = ""
    """Quantity of the `Published` it stands beside, if that is not its own."""
    because: str = ""
    """Why it was not compared, or why it differs, where that is known."""


@dataclass(frozen=True)
class Preset:
    """A size in which a study can be run: `smoke` (seconds, part of the tests), `cpu`, `paper`."""

    summary: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Finished:
    """A trial and what it measured."""

    trial: Trial
    result: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Versions and machine that made it."""


class Study(ABC):
    """One published table or figure. A new study is one file with one subclass, and one line in the registry."""

    name: str
    title: str
    question: str
    """What the study asks, in a sentence."""
    published: Sequence[Published]
    presets: Mapping[str, Preset]
    cites: Sequence[str] = ()
    """Keys into `citations.BIBTEX`."""
    lenses: Sequence[str] = ()
    """Names of the lenses that its trials look through."""
    caption: str = ""
    """What the figure shows."""

    @abstractmethod
    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        """The grid of runs for the settings of a preset."""

    @abstractmethod
    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        """Run one trial; what it measures must fit into JSON. `folder` is the trial's own."""

    def environment(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Versions and machine that made a trial, which has just been run in `folder`."""
        return environment()

    @abstractmethod
    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        """Published beside ours."""

    def stated(self, quantity: str) -> Published:
        """What was published of a quantity."""
        return next(one for one in self.published if one.quantity == quantity)

    def as_published(self, trial: Trial) -> bool:
        """Whether a trial has the published conditions; a verdict stands only under these."""
        return True

    def compared(
        self,
        own: Sequence[Finished],
        stated: Published,
        quantity: str,
        measured: Sequence[float],
        ours: str,
        remark: str,
    ) -> Row:
        """What was measured in these trials, and `ours`, its words, beside what was published."""
        if all(self.as_published(one.trial) for one in own):
            return stated.beside(quantity, measured, ours, remark)
        return stated.not_beside(quantity, ours, remark, OTHER_CONDITIONS)

    def figure(self, results: Sequence[Finished]) -> Figure | None:
        """What one would rather look at than read, drawn with `report.svg` in the page's colours."""
        return None
