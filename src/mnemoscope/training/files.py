"""JSON and tensors in files that are either whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mnemoscope.files import write_atomically

_HEADER = "mnemoscope"  # one key, for safetensors writes several in random order and the bytes must be the same


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """A JSON file for people: indented, in order, a list of numbers on one line."""
    write_atomically(path, (_indented(content) + "\n").encode())


def _indented(content: Any, margin: str = "") -> str:
    inner = margin + "  "
    if isinstance(content, Mapping) and content:
        lines = [f"{inner}{json.dumps(str(name))}: {_indented(value, inner)}" for name, value in content.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(content, (list, tuple)) and any(isinstance(value, (Mapping, list, tuple)) for value in content):
        return "[\n" + ",\n".join(inner + _indented(value, inner) for value in content) + f"\n{margin}]"
    return json.dumps(content, allow_nan=False)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}. Was it cut short or edited?") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} should hold a JSON object, but holds a {type(content).__name__}.")
    return content


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """A safetensors file with a JSON header of our own; equal contents give equal bytes."""
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, save(own, {_HEADER: json.dumps(header, sort_keys=True)}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the CPU, and the header of a file from `write_tensors`."""
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(_HEADER)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}. Was it cut short?") from error
    if header is None:
        raise ValueError(f"{path} was not written by mnemoscope: its header is missing.")
    return tensors, json.loads(header)
