"""Safetensors files with a JSON header and a checksum, written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mnemoscope.base.files import write_atomically
from mnemoscope.base.reading import checked_json
from mnemoscope.base.safetensors_header import read_safetensors_header

_HEADER = "mnemoscope"  # a single key: safetensors orders several keys at random, and equal files need equal bytes
_CHECKSUM = "sha256"
"""Entry of the header with the checksum; files of earlier versions have none."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a safetensors file with a JSON header; equal contents give equal bytes."""
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    signed = {**header, _CHECKSUM: _checksum(copies, header)}
    write_atomically(path, save(copies, {_HEADER: json.dumps(signed, sort_keys=True)}))


def read_tensors(path: Path, schema: Any = dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    """Return the tensors, on the CPU, and the header of a file from `write_tensors`; the header has a schema."""
    text = read_safetensors_header(path)["__metadata__"].get(_HEADER)
    if text is None:
        raise ValueError(f"{path} was not written by mnemoscope: its header is missing.")
    header = checked_json(text, f"The header of {path}", schema)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a whole safetensors file: {error}. Was it cut short?") from error
    checksum = header.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _checksum(tensors, header):
        raise ValueError(
            f"{path} is damaged: its checksum does not fit its content. Restore the file from a copy, or write it "
            f"again (a run: overwrite=True, `--overwrite`)."
        )
    return tensors, header


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with a prefix, under the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _checksum(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the header, and of the name, dtype, shape and bytes of every tensor."""
    digest = sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)  # bytes: NumPy has no bfloat16
    return digest.hexdigest()
