"""Save and load networks of leaky units with a linear readout, such as those fitted to a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mnemoscope.base.reading import checked_json
from mnemoscope.base.safetensors_header import read_safetensors_header
from mnemoscope.cells.leaky_rnn import LeakyRNN
from mnemoscope.cells.leaky_units import Form
from mnemoscope.cells.model import Model
from mnemoscope.connectivity import Dense

KEY = "fitted_network"
"""Name under which the header of a file describes the network."""


class Description(TypedDict):
    """Settings of the units, which the weights do not contain."""

    form: Form
    leak: float
    nonlinearity: str
    bias: bool


def save_fitted_network(model: Model, path: str | Path) -> Path:
    """Write the weights of a fitted network, with the settings of its units, and return the path of the file.

    Args:
        model: a `LeakyRNN` with a dense matrix and a named nonlinearity, and a linear readout; `ms.fit_network` makes
            one unless a cell was given.
        path: a `.safetensors` file.

    """
    cell = model.cell
    activation = cell.phi.description() if isinstance(cell, LeakyRNN) else None
    if not isinstance(cell, LeakyRNN) or not isinstance(cell.connectivity, Dense) or activation is None:
        raise ValueError(
            f"Only a LeakyRNN with a dense matrix and a named nonlinearity is saved with its settings, but the cell is "
            f"{type(cell).__name__}: save model.state_dict(), and build the network again to load it."
        )
    bias = cell.bias is not None
    description = Description(form=cell.form, leak=cell.leak, nonlinearity=activation.name, bias=bias)
    weights = {name: weight.detach().contiguous() for name, weight in model.state_dict().items()}
    path = Path(path)
    save_file(weights, path, {KEY: json.dumps(description)})
    return path


def load_fitted_network(path: str | Path) -> Model:
    """Return the network of a file that `NetworkFit.save` or `mnemoscope fit` wrote.

    >>> from tempfile import TemporaryDirectory
    >>> model = Model(LeakyRNN(2, 5, form="rate"), 7)
    >>> with TemporaryDirectory() as folder:
    ...     again = load_fitted_network(save_fitted_network(model, f"{folder}/fit.safetensors"))
    >>> again.cell.form, again.cell.hidden_size, again.linear_readout.out_features
    ('rate', 5, 7)
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if not holds_fitted_network(path):
        raise ValueError(
            f"{path} does not describe a fitted network: pass a file that NetworkFit.save or `mnemoscope fit` wrote; "
            f"for weights of torch.nn networks, mnemoscope.cells.load_network."
        )
    text = read_safetensors_header(path)["__metadata__"][KEY]
    described = checked_json(text, f"The description of the network in {path}", Description)
    try:
        weights = load_file(path)
        outputs, inputs = len(weights["readout.weight"]), weights["cell.drive"].shape[1]
        size = len(weights["cell.drive"])
        cell = LeakyRNN(
            inputs, size, described["nonlinearity"], None, described["leak"], described["form"], described["bias"]
        )
        model = Model(cell, outputs, readout_bias="readout.bias" in weights).to(weights["cell.drive"].dtype)
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError, ValueError, KeyError, IndexError) as error:
        raise ValueError(f"The network in {path} is damaged: {error}") from error
    if not all(bool(torch.isfinite(weight).all()) for weight in weights.values()):
        raise ValueError(f"The network in {path} has weights that are NaN or infinite: fit it again.")
    return model


def holds_fitted_network(path: str | Path) -> bool:
    """Return whether a file says that it holds a fitted network."""
    return Path(path).suffix == ".safetensors" and KEY in read_safetensors_header(path)["__metadata__"]
