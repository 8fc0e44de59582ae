"""Tensors, and with them JSON, in files that are either whole or not there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mnemoscope.base.files import read_json, write_atomically, write_json

__all__ = ["read_json", "read_tensors", "write_json", "write_tensors"]

_HEADER = "mnemoscope"  # one key, for safetensors writes several in random order and the bytes must be the same


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
