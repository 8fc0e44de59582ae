"""The memory card of a network as plain data, which saves, loads and draws itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from mnemoscope.arena.card.answers import QUESTIONS, Answer
from mnemoscope.base.files import refuse_link, write_atomically
from mnemoscope.base.reading import read_json
from mnemoscope.lenses.result import Result

KIND = "mnemoscope memory card"
"""Mark of the files of a card."""
FILES = "mnemoscope.arena.card.files"
"""Module that writes and draws a card; it is imported when needed, since it imports this one and matplotlib."""


class _File(TypedDict):
    """The content of card.json."""

    kind: str
    title: str
    network: str
    task: str
    training: str
    answers: list[dict[str, Any]]
    cites: list[str]
    provenance: dict[str, Any]


@dataclass(frozen=True, repr=False)
class MemoryCard(Result):
    """Standard page of a network: what it remembers, for how long, how much, how, when it fails, and its cost.

    Every card has the same six answers, with the same axes and units, so that two cards can be laid side by side.
    `card["cost"]["trainable parameters"].value` is a number of it.
    """

    noun: ClassVar[str] = "a memory card"
    drawn_by: ClassVar[str] = "draw_card"

    title: str
    network: str
    """Architecture and size."""
    task: str
    """Task and its options."""
    training: str
    """How the network was trained, or that it was not, as a sentence."""
    answers: tuple[Answer, ...]
    """One answer to each of `QUESTIONS`, in their order."""
    cites: tuple[str, ...]
    """BibTeX keys of the works to cite for the lenses, and for the network and the task of a run."""
    provenance: Mapping[str, Any]
    """Command, seeds, versions and machine."""

    def __getitem__(self, key: str) -> Answer:
        if key not in QUESTIONS:
            raise KeyError(f"A card has no answer {key!r}; there are {', '.join(QUESTIONS)}.")
        return self.answers[list(QUESTIONS).index(key)]

    @property
    def lenses(self) -> tuple[str, ...]:
        """Names of all lenses in use, in the order of the answers."""
        return tuple(dict.fromkeys(lens for answer in self.answers for lens in answer.lenses))

    def summary(self) -> str:
        """Return all entries, one line each below their question."""
        lines = [self.title, f"{self.network}; {self.task}. {self.training}"]
        for answer in self.answers:
            lines.append(answer.question)
            lines += [f"  {entry.name}: {entry.text()}" for entry in answer.entries]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values for JSON."""
        return {"kind": KIND, **super().to_dict()}

    def save(self, path: str | Path) -> Path:
        """Write card.html, card.json, card.pdf and card.svg into a folder, which is created; return its path.

        `load` reads it back.
        """
        files = import_module(FILES).card_files(self)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            refuse_link(folder / name)
        for name, content in files.items():
            write_atomically(folder / name, content)
        return folder

    @classmethod
    def load(cls, path: str | Path) -> MemoryCard:
        """Read a card from the folder that `save` wrote, or from its card.json."""
        file = Path(path) / "card.json" if Path(path).is_dir() else Path(path)
        content = read_json(file, _File)
        if content["kind"] != KIND or [answer.get("key") for answer in content["answers"]] != list(QUESTIONS):
            raise ValueError(f"{file} is not a memory card saved by mnemoscope.")
        try:
            answers = tuple(map(Answer.from_dict, content["answers"]))
        except (TypeError, KeyError) as error:
            raise ValueError(f"{file} is not a memory card as this version of mnemoscope saves it: {error}.") from error
        words = (content["title"], content["network"], content["task"], content["training"])
        return cls(*words, answers, tuple(content["cites"]), content["provenance"])

    def __repr__(self) -> str:
        return f"MemoryCard({self.title})"

    def _repr_html_(self) -> str:
        """Return the page as a picture, for notebooks."""
        try:
            return import_module(FILES).notebook_page(self)
        except ImportError as error:
            return f"<pre>{escape(self.summary())}</pre><p>{escape(str(error))}</p>"
