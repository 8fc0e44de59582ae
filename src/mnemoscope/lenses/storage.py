"""Results as `.safetensors` files: tensors by name, and what is no tensor in the header. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from mnemoscope.base.files import write_atomically

_KEY = "mnemoscope"


def save_result(path: str | Path, kind: str, tensors: Mapping[str, Tensor], flags: Mapping[str, Any]) -> None:
    """Write a result of this kind; `flags` are numbers, truth values and texts."""
    paired = [name for name, tensor in tensors.items() if tensor.is_complex()]  # safetensors has no complex128
    real = {name: torch.view_as_real(tensor) if name in paired else tensor for name, tensor in tensors.items()}
    header = {"kind": kind, "flags": dict(flags), "complex": paired}
    content = save({name: tensor.contiguous() for name, tensor in real.items()}, {_KEY: json.dumps(header)})
    write_atomically(Path(path), content)


def load_result(path: str | Path, kind: str, words: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and flags of a result of this kind; `words` say what it is, should the file hold something else."""
    with safe_open(str(path), "pt") as file:
        header = json.loads((file.metadata() or {}).get(_KEY, "{}"))
        if header.get("kind") != kind:
            raise ValueError(f"{path} does not hold {words} saved by mnemoscope.")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name in header.get("complex", ()):
        # a copy: in the file pairs may lie at any multiple of 8 bytes, and torch crashes on complex numbers so placed
        tensors[name] = torch.view_as_complex(tensors[name].clone())
    return tensors, header["flags"]
