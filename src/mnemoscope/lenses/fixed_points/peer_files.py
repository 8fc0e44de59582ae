"""Read the files in which fixed-point-finder saved its results (Golub & Sussillo 2018)."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Network
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fixed_points.result import FixedPoints

_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
"""Modules in which numpy, before and from version 2 on, defines how an array is unpickled."""
_TYPES = ("float16", "float32", "float64", "complex64", "complex128", "bool_", "int32", "int64", "dtype", "ndarray")


def import_fixed_points(
    path: str | Path, network: Network | None = None, *, condition: int | None = None
) -> FixedPoints:
    """Read the fixed points that fixed-point-finder saved by `fps.save(path)`.

    Only numbers and arrays are read: a file that names any other object is refused, since unpickling it could run code.

    Args:
        path: the file.
        network: the network of these points, a torch.nn module or anything that `adapt` takes. q and the Jacobians are
            computed anew in float64 at the saved states, which stay where they are. Without it, both are taken from
            the file, to the float32 precision that is its default. `ms.find_fixed_points(network, fp.states)` finds
            the exact points next to them.
        condition: which of the different inputs, 0, 1, ..., in the order in which they appear. Needed if the file has
            points at several inputs, which are as many different systems.

    """
    saved = _read(Path(path))
    states, given = _array(saved, "xstar", path), _inputs(saved, len(saved["xstar"]))
    rows, constant = _at_one_input(given, condition, path)
    states = states[rows]
    if network is not None:
        dynamics = Dynamics(network, constant)
        if states.shape[1] != dynamics.size:
            raise ValueError(
                f"The points of {path} have {states.shape[1]} numbers, but the state of the network has "
                f"{dynamics.size}; pass the network that they belong to."
            )
        states = states.to(dynamics.device)
        with torch.no_grad():
            q = 0.5 * dynamics.residual(states).square().sum(1)
            jacobians = dynamics.jacobian(states)
    else:
        if saved.get("J_xstar") is None or bool(np.isnan(saved["J_xstar"]).any()):
            raise ValueError(f"{path} holds no Jacobians: pass the network, with which they can be computed.")
        q, jacobians = _array(saved, "qstar", path)[rows], _array(saved, "J_xstar", path)[rows]
    reached = torch.ones(len(states), dtype=torch.int64)
    return FixedPoints(states.cpu(), q.cpu(), jacobians.cpu(), reached, continuous=False, bounded=False)


class _Unpickler(pickle.Unpickler):
    """Reads numbers, strings and arrays of numpy, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module in _ARRAYS and name == "_reconstruct") or (module == "numpy" and name in _TYPES):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is neither a number nor an array")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns of the alignment of files that Python 2 wrote
            saved = _Unpickler(file, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # damaged bytes raise almost any exception
        raise ValueError(f"{path} is not a file that fixed-point-finder saved: {error}.") from error
    if not isinstance(saved, dict) or not isinstance(saved.get("xstar"), np.ndarray) or saved["xstar"].ndim != 2:
        raise ValueError(f"{path} is not a file that fixed-point-finder saved: it has no array `xstar` of states.")
    return saved


def _array(saved: dict[str, Any], name: str, path: str | Path) -> Tensor:
    if not isinstance(saved.get(name), np.ndarray) or len(saved[name]) != len(saved["xstar"]):
        raise ValueError(f"{path} is damaged: `{name}` is not an array with one row for each point.")
    return torch.from_numpy(np.array(saved[name], dtype=np.float64))


def _inputs(saved: dict[str, Any], points: int) -> Float[Tensor, "points features"] | None:
    given = saved.get("inputs")
    if not isinstance(given, np.ndarray) or given.ndim != 2 or len(given) != points or bool(np.isnan(given).any()):
        return None
    return torch.from_numpy(np.array(given, dtype=np.float64))


def _at_one_input(
    given: Tensor | None, condition: int | None, path: str | Path
) -> tuple[Tensor | slice, Float[Tensor, " features"] | None]:
    """Return the rows of the points at one input, and this input."""
    if given is None or not len(given):
        return slice(None), None
    inputs = [list(row) for row in dict.fromkeys(map(tuple, given.tolist()))]
    if condition is None and len(inputs) > 1:
        listed = "; ".join(f"{number}: {row}" for number, row in enumerate(inputs[:10]))
        raise ValueError(
            f"{path} has points at {len(inputs)} inputs, which are as many systems: pass condition=0, 1, ... "
            f"({listed})."
        )
    if not 0 <= (condition or 0) < len(inputs):
        raise ValueError(f"{path} has points at {len(inputs)} inputs, but condition is {condition}.")
    constant = torch.tensor(inputs[condition or 0], dtype=torch.float64)
    return (given == constant).all(1), constant
