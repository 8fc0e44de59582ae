"""Results as `.safetensors` files: tensors by name, and what is no tensor in the header. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor


def save_result(path: str | Path, kind: str, tensors: Mapping[str, Tensor], flags: Mapping[str, Any]) -> None:
    """Write a result of this kind; `flags` are numbers, truth values and texts."""
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, str(path), {"mnemoscope": json.dumps({"kind": kind, "flags": dict(flags)})})


def load_result(path: str | Path, kind: str, words: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and flags of a result of this kind; `words` say what it is, should the file hold something else."""
    with safe_open(str(path), "pt") as file:
        header = json.loads((file.metadata() or {}).get("mnemoscope", "{}"))
        if header.get("kind") != kind:
            raise ValueError(f"{path} does not hold {words} saved by mnemoscope.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return tensors, header["flags"]
