"""Check the header of a safetensors file before a library maps the file into memory. Imports no torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypedDict

from mnemoscope.base.reading import TEXT_LIMIT, checked_json, open_regular
from mnemoscope.base.schema import checked

_LARGEST_SIZE = 2**63
"""Sizes and positions of tensors are integers of 64 bits."""


class TensorEntry(TypedDict):
    """The description of one tensor in the header."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def read_safetensors_header(path: str | Path) -> dict[str, Any]:
    """Return the header of a safetensors file: an entry per tensor, and the texts of `__metadata__`.

    Raises ValueError if the file is shorter or longer than the header says, or is not a regular file.
    """
    with open_regular(path) as file:
        total = os.fstat(file.fileno()).st_size
        size = int.from_bytes(file.read(8), "little")
        if total < 8 or size > min(total - 8, TEXT_LIMIT):
            raise ValueError(f"{path} is truncated, or not a safetensors file.")
        text = file.read(size)
    header = checked_json(text, f"The header of {path}")
    metadata = header.pop("__metadata__", {})
    try:
        checked(header, dict[str, TensorEntry])
        checked(metadata, dict[str, str])
    except ValueError as error:
        raise ValueError(f"The header of {path} is damaged: {error}.") from error
    for name, entry in header.items():
        if not all(0 <= number < _LARGEST_SIZE for number in (*entry["shape"], *entry["data_offsets"])):
            raise ValueError(f"The header of {path} is damaged: {name} has an impossible shape or position.")
    end = max((offset for entry in header.values() for offset in entry["data_offsets"]), default=0)
    if total != 8 + size + end:
        raise ValueError(f"{path} is truncated: it has {total:,} bytes, but its header describes {8 + size + end:,}.")
    return {**header, "__metadata__": metadata}
