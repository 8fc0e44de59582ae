"""The library fixed-point-finder (Golub & Sussillo 2018), run from its checkout; fixed_points.py compares with it.

It minimises q = |F(h) - h|^2 / 2 jointly over all starts by Adam. Its documentation names `torch.nn.RNN`,
`torch.nn.GRU` and wrappers with the same signature. It is used as its README and its example describe: the starts are
states that the network visits, with noise of standard deviation 0.5, and the input is zero.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

NAME = "fixed-point-finder"
TIGHT = {"dtype": "float64", "tol_q": 1e-26, "tol_dq": 1e-30}
"""Options that allow q < 1e-25: double precision and tolerances below it."""
TUNED = {**TIGHT, "lr_init": 0.1}
"""The best options that we found for gated networks."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    f"{NAME}, defaults": {},
    f"{NAME}, float64": {"dtype": "float64"},
    f"{NAME}, tight": TIGHT,
    f"{NAME}, tight, lr_init=0.1": TUNED,
}
"""Options of the search by the name of its row."""
WRAPPED = f"{NAME}, tight, lr_init=0.1, our wrapper"
"""Name of the row of an LSTM inside `ConcatenatedState`."""


class ConcatenatedState(nn.Module):
    """A torch LSTM with the signature of `torch.nn.RNN`: its state is h and c in one tensor."""

    batch_first = False

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h, c = state.chunk(2, dim=-1)
        outputs, (h, c) = self.lstm(inputs, (h.contiguous(), c.contiguous()))
        return outputs, torch.cat((h, c), dim=-1)


def searcher(
    checkout: Path, network: nn.Module, input_size: int, starts: Any, options: Mapping[str, Any]
) -> Callable[[], Tensor]:
    """Return a function that searches with fixed-point-finder and returns the reported points, in float64."""
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    finder_type = importlib.import_module("FixedPointFinderTorch").FixedPointFinderTorch
    dtype = getattr(torch, options.get("dtype", "float32"))

    def search() -> Tensor:
        finder = finder_type(network.to(dtype), verbose=False, **options)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # it optimises float64 starts in place, so that each search needs its own copy
            unique, _ = finder.find_fixed_points(copy.deepcopy(starts), np.zeros((1, input_size)))
        return torch.from_numpy(unique.xstar).double()

    return search
