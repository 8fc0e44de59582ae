"""Matrices with logarithmic colours, of which the page shows the number under the pointer."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from mnemoscope.base.array_types import Float
from mnemoscope.base.lazy_imports import import_report_extra

MOST = 128
"""Rows and columns of a matrix on a page; a larger one is averaged."""
DECADES = 4
"""Powers of ten that the colours span."""
LEVELS = 90
"""Number of colours; the level of a cell is one printable character."""


@dataclass(frozen=True)
class Matrix:
    """The influence of inputs (columns) on outputs (rows)."""

    title: str
    values: Float[Tensor, "rows columns"]
    """At least 0."""
    rows: Sequence[int]
    """Steps of the outputs."""
    steps: int = 1
    """Steps of the inputs that a column stands for."""


def matrix_markup(matrices: Sequence[Matrix], labels: Sequence[str] | None = None) -> str:
    """Return the markup of matrices side by side; labels are those of the steps."""
    figures = "".join(_figure(matrix) for matrix in matrices)
    data = escape(json.dumps(list(labels or []), ensure_ascii=False))
    return f'<div class="matrices" data-labels="{data}">{figures}</div>'


def _figure(matrix: Matrix) -> str:
    values, rows, steps = _averaged(matrix)
    top = float(values.max()) or 1.0
    levels = _levels(values, top)
    text = "".join(chr(35 + level) if level != 57 else "!" for level in levels.flatten().tolist())  # 57 is a backslash
    alt = f"{matrix.title}: influence of {values.shape[1] * steps} inputs on {len(rows)} outputs."
    return (
        f'<figure class="matrix" data-top="{top:.6g}" data-columns="{values.shape[1]}" data-steps="{steps}" '
        f'data-rows="{escape(json.dumps(rows))}" data-levels="{escape(text)}" data-decades="{DECADES}" '
        f'data-count="{LEVELS}"><img alt="{escape(alt)}" src="data:image/png;base64,{_image(levels)}">'
        f'<figcaption class="small"><b>{escape(matrix.title)}</b>, at most {top:.2g}; output downwards, input to the '
        f"right. <output></output></figcaption></figure>"
    )


def _averaged(matrix: Matrix) -> tuple[Tensor, list[int], int]:
    """Return at most MOST rows and columns, the first step of each row, and the steps of a column."""
    down, right = (-(-size // MOST) for size in matrix.values.shape)
    values = avg_pool2d(matrix.values[None].double(), (down, right), ceil_mode=True)[0]
    return values, list(matrix.rows)[::down], matrix.steps * right


def _levels(values: Tensor, top: float) -> Tensor:
    """Return 0 where a value is 0, and otherwise its logarithm as a whole number from 1 to LEVELS - 1."""
    logarithms = torch.log10(values.clamp_min(1e-300) / top) / DECADES + 1
    return torch.where(values > 0, 1 + (logarithms.clamp(0, 1) * (LEVELS - 2)).round().long(), 0)


def _image(levels: Tensor) -> str:
    """Return an image with one pixel for each cell, transparent where the influence is 0."""
    colour_maps = import_report_extra("matplotlib").colormaps
    colours = colour_maps["viridis"](levels.numpy() / (LEVELS - 1))
    colours[..., 3] = (levels > 0).numpy()
    target = BytesIO()
    import_report_extra("matplotlib.image").imsave(target, colours, format="png")
    return b64encode(target.getvalue()).decode()
