"""Texts on which a network is inspected, with their tokens as labels of the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Num
from mnemoscope.cells import as_cell
from mnemoscope.inspection.cost import HOW_TO_MEASURE
from mnemoscope.inspection.duration import Duration, add_past_inputs, add_transitions
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.inspection.past_inputs import affordable_steps, has_affine_layers
from mnemoscope.inspection.result import Inspection
from mnemoscope.inspection.tokens import inspect_tokens
from mnemoscope.report import sentences
from mnemoscope.tasks import Task, TokenTask


def input_labels(task: Task, inputs: Num[Tensor, "time batch ..."]) -> list[list[str]] | None:
    """Return the names of tokens or the characters of one-hot inputs, one list for each sequence; None if others."""
    if isinstance(task, TokenTask):
        return [[task.label(token) for token in column] for column in inputs.T.tolist()]
    if not task.characters:
        return None
    names = [symbol.replace("\n", "⏎") for symbol in task.characters]
    return [[names[number] for number in column] for column in inputs.argmax(-1).T.tolist()]


def encode_text(task: Task, text: str) -> Float[Tensor, "time 1 features"]:
    """Return a text as one-hot inputs of a task; capitals become small letters, and spaces `_`, if it has only these.

    >>> from mnemoscope.tasks import PennTreebank
    >>> encode_text(PennTreebank(), "To be").shape
    torch.Size([5, 1, 50])
    """
    if not task.characters:
        raise ValueError(
            f"The inputs of {type(task).__name__} are no text: omit --text, which is for runs on characters and for "
            f"pretrained language models."
        )
    if not any(symbol.isupper() for symbol in task.characters if symbol != "N"):
        text = text.lower()
    text = text if " " in task.characters else text.strip().replace(" ", "_")
    unknown = "".join(sorted({*text} - {*task.characters}))
    if unknown or not text:
        raise ValueError(
            f"The text must hold characters of {task.characters!r}, but "
            + (f"it also holds {unknown!r}: replace these." if unknown else "it is empty.")
        )
    numbers = torch.tensor([task.characters.index(character) for character in text])
    return torch.nn.functional.one_hot(numbers, len(task.characters)).float().unsqueeze(1)


def add_text(found: Duration, run: LoadedRun, text: str) -> None:
    """Add what the affine layers of a run keep of a text, and which of its characters write and erase."""
    inputs = encode_text(run.task, text)
    if not has_affine_layers(run.model, inputs):
        raise ValueError(
            "A text shows what layers that are affine in their state keep, and this run has none: omit it."
        )
    inputs, remark = _fitting(inputs, affordable_steps(run.model, inputs, run.options), "characters")
    if remark:
        found.explain("Text", remark)
    labels = input_labels(run.task, inputs)
    add_past_inputs(found, run.model, inputs, run.options, None, labels)
    add_transitions(found, run.model, inputs, run.options, None, labels)


def is_pretrained(folder: Path) -> bool:
    """Return whether a folder holds a model of transformers instead of a run."""
    return (folder / "config.json").is_file() and not (folder / "config.toml").is_file()


def inspect_pretrained(folder: Path, options: InspectionOptions) -> Inspection:
    """Inspect a language model of transformers, read from a folder of this machine, on the tokens of a text.

    Code in the folder is not run, and nothing is downloaded.
    """
    if not options.text:
        raise ValueError(
            f"{folder} holds a model of transformers, which is inspected on a text: pass --text FILE, or "
            f"InspectionOptions(text=...)."
        )
    transformers = _transformers()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    tokens = tokenizer(options.text, return_tensors="pt").input_ids
    name, cell = f"{type(model).__name__} in {folder.name}", as_cell(model)
    cut, remark = _fitting(tokens.T, affordable_steps(cell.time_first(), tokens.T, options), "tokens")
    found = inspect_tokens(cell, cut.T, labels=tokenizer, name=name, options=options)
    content = replace(found.content, lead=sentences(found.content.lead, remark))
    return replace(found, content=content, default_page=folder / "page.html")


def _fitting(inputs: Num[Tensor, "time 1 ..."], steps: int, unit: str) -> tuple[Num[Tensor, "kept 1 ..."], str]:
    """Return the first steps of a text, and a remark if there are more; "" otherwise."""
    if steps == len(inputs):
        return inputs, ""
    remark = f"The page shows the first {steps:,} of {len(inputs):,} {unit} of the text, since more take long."
    return inputs[:steps], f"{remark} {HOW_TO_MEASURE}"


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Models of transformers need that package: pip install 'mnemoscope[hf]'.", name=error.name
        ) from error
    return transformers
