"""At which accuracy float32 numbers are multiplied on a GPU: as torch's own products."""

from __future__ import annotations

import torch


def exact_products() -> bool:
    """Whether float32 keeps its accuracy: not if the user chose tf32, by torch's newer setting or by
    `torch.set_float32_matmul_precision`, which writes the newer one too (reading the older one may raise).
    """
    chosen = torch.backends.cuda.matmul.fp32_precision
    if chosen == "none":  # as for everything
        chosen = torch.backends.fp32_precision  # pyright: ignore[reportAttributeAccessIssue]
    return chosen != "tf32"
