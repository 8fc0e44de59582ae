"""Load a recurrent network of torch.nn from a file of weights, without running code stored in the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from mnemoscope.base.safetensors_header import read_safetensors_header

NetworkClass = Literal["rnn", "gru", "lstm"]
TorchNonlinearity = Literal["tanh", "relu"]
_GATES: dict[str, int] = {"rnn": 1, "gru": 3, "lstm": 4}
_MODULES: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_NAME = re.compile(
    r"(?P<prefix>.*?)(?P<kind>weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)(?P<layer>_l\d+)?(_reverse)?"
)


def load_network(
    path: str | Path, network: NetworkClass, *, nonlinearity: TorchNonlinearity = "tanh", prefix: str | None = None
) -> nn.RNNBase:
    """Return the torch.nn.RNN, GRU or LSTM whose weights are in a `.safetensors` or `.pt` file of a state dict.

    Args:
        path: the file. A `.pt` file is read with `weights_only=True`: it may contain tensors, but no code.
        network: the class of the network; sizes and number of layers follow from the weights.
        nonlinearity: nonlinearity of an RNN, which the weights do not contain.
        prefix: prefix of the names, such as "encoder.rnn."; needed only if the file has several recurrent networks.

    """
    _check_choice("network", network, get_args(NetworkClass))
    _check_choice("nonlinearity", nonlinearity, get_args(TorchNonlinearity))
    where = str(path)
    found = _select(_read(Path(path)), prefix, where)
    if any(name.endswith("_reverse") for name in found):
        raise ValueError(f"{where} holds a bidirectional network, which is not a map from state to state.")
    found = {name if "_l" in name else f"{name}_l0": tensor for name, tensor in found.items()}  # a cell is one layer
    missing = [name for name in ("weight_ih_l0", "weight_hh_l0") if name not in found]
    if missing:
        raise ValueError(f"{where} has no {' and no '.join(missing)} under that prefix, so it is no recurrent network.")
    _check_tensors(found, where)
    gates, rows = _GATES[network], found["weight_ih_l0"].shape[0]
    hidden, remainder = divmod(rows, gates)
    projection = found["weight_hr_l0"].shape[0] if "weight_hr_l0" in found else 0
    if remainder or found["weight_hh_l0"].shape[1] != (projection or hidden):
        fits = [name for name, count in _GATES.items() if found["weight_hh_l0"].shape[1] * count == rows]
        hint = f" They fit {' or '.join(fits)}." if fits else ""
        raise ValueError(
            f"The weights in {where} do not fit the class {network!r}: weight_ih has {rows} rows and weight_hh "
            f"{found['weight_hh_l0'].shape[1]} columns.{hint}"
        )
    options: dict[str, Any] = {"nonlinearity": nonlinearity} if network == "rnn" else {}
    if projection:
        options["proj_size"] = projection
    layers = sum(name.startswith("weight_ih_l") for name in found)  # a gap shows when the weights are loaded
    try:
        with torch.device("meta"):
            module = _MODULES[network](
                found["weight_ih_l0"].shape[1], hidden, num_layers=layers, bias="bias_ih_l0" in found, **options
            )
        module.load_state_dict(found, assign=True)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"The weights in {where} do not fit together: {error}") from error
    return module


def load_inputs(path: str | Path) -> Tensor:
    """Return the numbers of a `.npy` file, or the tensor of a `.pt` file, in float32; code in a file is never run."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        if path.suffix == ".npy":
            found = torch.from_numpy(np.load(path, allow_pickle=False))
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make the parsers raise anything
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{path} is no .npy file of numbers and no .pt file of a tensor. ({reason})") from error
    if not isinstance(found, Tensor) or found.is_complex():
        kind = "complex numbers" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise ValueError(f"{path} holds {kind}, not a tensor of inputs (time, trials, features).")
    return found.float()


def _check_tensors(weights: dict[str, Tensor], where: str) -> None:
    """Raise unless all weights are dense tensors of finite real numbers, matrices or vectors, that hold their data."""
    for name, tensor in weights.items():
        reason = _unusable(tensor)
        if not reason and tensor.dim() != (1 if name.startswith("bias") else 2):
            reason = f"has the shape {tuple(tensor.shape)}"
        if reason:
            raise ValueError(f"{name} in {where} {reason}.")


def _unusable(tensor: Tensor) -> str:
    """Return why a tensor cannot be a weight of a torch.nn network, as the end of a sentence; "" if it can."""
    if tensor.is_meta:
        return "is a meta tensor: it has a shape, but no numbers. Save the state dict of the network after it is loaded"
    if tensor.is_nested:
        return "is a nested tensor, which has rows of several lengths"
    if tensor.layout is not torch.strided:
        return "is a sparse tensor; save tensor.to_dense() instead"
    if tensor.is_quantized:
        return "is quantised; save tensor.dequantize() instead"
    if tensor.is_complex():
        return "is complex, but the networks of torch.nn compute with real numbers: the imaginary part would be lost"
    if tensor.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        return f"has the dtype {str(tensor.dtype).removeprefix('torch.')}; save tensor.float() instead"
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        return "is expanded: it stores fewer numbers than its shape has; save tensor.contiguous() instead"
    if not torch.isfinite(tensor).all():
        return "has entries that are NaN or infinite"
    return ""


def _check_choice(what: str, given: object, choices: tuple[str, ...]) -> None:
    if given not in choices:
        listed = ", ".join(map(repr, choices))
        hint = f" Did you mean {given.lower()!r}?" if isinstance(given, str) and given.lower() in choices else ""
        raise ValueError(f"{what} must be one of {listed}, but is {given!r}.{hint}")


def _select(weights: dict[str, Tensor], prefix: str | None, where: str) -> dict[str, Tensor]:
    """Return the recurrent weights with one prefix, by their names without it."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        match = _NAME.fullmatch(str(name))
        if match and isinstance(tensor, Tensor):
            found.setdefault(match["prefix"], {})[name.removeprefix(match["prefix"])] = tensor
    if not found:
        raise ValueError(f"{where} holds no weights of a torch.nn recurrent network (weight_ih_l0, weight_hh_l0, ...).")
    if prefix is None:
        if len(found) > 1:
            names = ", ".join(repr(name) for name in found)
            raise ValueError(f"{where} holds several recurrent networks; choose one by prefix: {names}.")
        prefix = next(iter(found))
    if prefix not in found:
        raise ValueError(f"{where} has no recurrent network under {prefix!r}, but under {', '.join(map(repr, found))}.")
    return found[prefix]


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.suffix == ".safetensors":
        read_safetensors_header(path)
        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(f"{path} is not a safetensors file: {error}.") from error
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make the parser of pickles raise anything
        raise ValueError(
            f"{path} could not be read as a state dict. A file that holds a whole pickled module runs its author's "
            f"code when it is opened, so it is refused: save module.state_dict() instead. "
            f"({(str(error) or type(error).__name__).splitlines()[0]})"
        ) from error
    for name in ("state_dict", "model_state_dict", "model"):  # the customary wrappings of a training checkpoint
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}; a state dict was expected.")
    return content
