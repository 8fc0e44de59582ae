"""Precision of float32 products on a GPU, as set for torch's products."""

from __future__ import annotations

import torch


def exact_products() -> bool:
    """Whether float32 products keep their precision, because the user has not chosen tf32.

    The newer setting of torch decides; `torch.set_float32_matmul_precision` writes it too, and reading the older one
    may raise.
    """
    chosen = torch.backends.cuda.matmul.fp32_precision
    if chosen == "none":  # inherits the general setting
        chosen = torch.backends.fp32_precision  # pyright: ignore[reportAttributeAccessIssue]
    return chosen != "tf32"
