"""The base class of all results of lenses: frozen dataclasses that save, load, summarise and draw themselves."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import fields, is_dataclass
from enum import Enum
from html import escape
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, TypedDict, TypeVar, get_args, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from mnemoscope.base.files import write_atomically
from mnemoscope.base.reading import checked_json
from mnemoscope.base.safetensors_header import read_safetensors_header
from mnemoscope.base.schema import checked
from mnemoscope.drawing.axes import Figure

_HEADER = "mnemoscope"
"""Key of our entry in the header of a `.safetensors` file."""

Flags = dict[str, Any]
"""The fields that are not tensors: numbers, truth values, strings, and lists of these."""
R = TypeVar("R", bound="Result")
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, SafetensorError)
"""Errors of a file whose fields are missing or of another type; the subclasses of Result unpack them freely."""


class _Header(TypedDict):
    """Our entry in the header of a file."""

    kind: str
    flags: Flags


class Result:
    """The answer of a lens. A subclass is a frozen dataclass that defines `summary`.

    Its fields are tensors, numbers, strings, tuples of numbers or strings, dataclasses with such fields, tuples of
    such dataclasses, or None.
    `save`, `load` and `to_dict` work on the fields. `figure` calls the function `drawn_by` of the module `figure` in
    the folder of the subclass, so that a result never imports its figure.
    """

    noun: ClassVar[str]
    """Name of the result in error messages: "fixed points", "an energy surface"."""
    drawn_by: ClassVar[str]
    """Name of the function in the sibling module `figure` that draws the result."""
    former_kinds: ClassVar[tuple[str, ...]] = ()
    """Kinds under which earlier versions saved this class; `save` writes the name of the class."""
    former_fields: ClassVar[dict[str, str]] = {}
    """Names of fields in files of earlier versions, and their names of today."""

    def summary(self) -> str:
        """Return the main findings in sentences."""
        raise NotImplementedError(f"{type(self).__name__} must define summary().")

    def figure(self, *args: Any, **options: Any) -> Figure:
        """Draw the result (needs the `report` extra); the arguments are those of the function `drawn_by`."""
        module = import_module(f"{type(self).__module__.rpartition('.')[0]}.figure")
        return getattr(module, self.drawn_by)(self, *args, **options)

    def save(self, path: str | Path) -> Path:
        """Write a `.safetensors` file, create its folder, and return its path; `load` and `ms.load_result` read it."""
        tensors, flags = self.pack()
        complex_names = [name for name, tensor in tensors.items() if tensor.is_complex()]
        # safetensors has no complex128, and refuses tensors that share memory
        real = {name: torch.view_as_real(tensor) if tensor.is_complex() else tensor for name, tensor in tensors.items()}
        real = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in real.items()}
        header = {"kind": type(self).__name__, "flags": flags, "complex": complex_names}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(Path(path), save(real, {_HEADER: json.dumps(header)}))
        return Path(path)

    @classmethod
    def load(cls: type[R], path: str | Path) -> R:
        """Read a file that `save` wrote."""
        header = _read_header(path)
        if header.get("kind") not in (cls.__name__, *cls.former_kinds):
            raise ValueError(f"{path} does not hold {cls.noun} saved by mnemoscope.")
        try:
            checked(header, _Header)
            with safe_open(str(path), "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            for name in header.get("complex", ()):
                # Clone: a pair may start at any multiple of 8 bytes, and torch crashes on complex numbers aligned so.
                tensors[name] = torch.view_as_complex(tensors[name].clone())
            return cls.unpack(tensors, header["flags"])
        except _DAMAGE as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise ValueError(f"{path} does not hold {cls.noun} as this version saves them: {reason}.") from error

    def pack(self) -> tuple[dict[str, Tensor], Flags]:
        """Return the tensors and the other fields by name, fields of an inner dataclass as `outer.inner`."""
        return _pack(self)

    @classmethod
    def unpack(cls: type[R], tensors: dict[str, Tensor], flags: Flags) -> R:
        """Return the result with the fields that `pack` of this or an earlier version returned."""
        tensors = {cls.former_fields.get(name, name): tensor for name, tensor in tensors.items()}
        flags = {cls.former_fields.get(name, name): flag for name, flag in flags.items()}
        return _unpack(cls, tensors, flags)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain Python values for `json.dumps`; a complex number becomes [real, imaginary]."""
        return _plain(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    def _repr_html_(self) -> str:
        """Return the summary and the figure as HTML, for notebooks."""
        text = f"<p><b>{type(self).__name__}</b>: {escape(self.summary())}</p>"
        try:
            figure = self.figure()
        except ImportError as error:
            return f"{text}<p>{escape(str(error))}</p>"
        image = BytesIO()
        figure.savefig(image, format="png", dpi=96)
        data = b64encode(image.getvalue()).decode()
        style = "max-width: 100%; height: auto"
        return f'{text}<img alt="{type(self).__name__}" style="{style}" src="data:image/png;base64,{data}">'


def _pack(data: Any) -> tuple[dict[str, Tensor], Flags]:
    tensors: dict[str, Tensor] = {}
    flags: Flags = {}
    for field in fields(data):
        name, value = field.name, getattr(data, field.name)
        if isinstance(value, Tensor):
            tensors[name] = value
        elif is_dataclass(value) or _holds_dataclasses(value):
            parts = {name: value} if is_dataclass(value) else {f"{name}.{i}": part for i, part in enumerate(value)}
            for prefix, part in parts.items():
                inner_tensors, inner_flags = _pack(part)
                tensors |= {f"{prefix}.{key}": tensor for key, tensor in inner_tensors.items()}
                flags |= {f"{prefix}.{key}": flag for key, flag in inner_flags.items()}
        elif value is not None:
            flags[name] = _flag(value, f"{type(data).__name__}.{name}")
    return tensors, flags


def _flag(value: Any, where: str) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_flag(item, where) for item in value]
    raise TypeError(f"{where} is a {type(value).__name__}, which cannot be saved: override pack and unpack.")


def _unpack(cls: Any, tensors: dict[str, Tensor], flags: Flags) -> Any:
    known = {field.name for field in fields(cls) if field.init}
    values: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if name in known}
    values |= {name: _tuples(flag) for name, flag in flags.items() if name in known}
    for name in sorted(_prefixes(tensors, flags) & known):
        inner, within = _dataclass_of_field(cls, name), (_below(name, tensors), _below(name, flags))
        numbers = sorted((prefix for prefix in _prefixes(*within) if prefix.isdecimal()), key=int)
        values[name] = (
            tuple(_unpack(inner, *(_below(number, part) for part in within)) for number in numbers)
            if numbers
            else _unpack(inner, *within)
        )
    return cls(**values)


def _holds_dataclasses(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(is_dataclass(part) for part in value)


def _prefixes(*parts: dict[str, Any]) -> set[str]:
    """Return the names before the first dot of all keys that have one."""
    return {key.partition(".")[0] for part in parts for key in part if "." in key}


def _below(prefix: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return the entries whose key begins with a prefix and a dot, without these."""
    return {key.partition(".")[2]: value for key, value in part.items() if key.startswith(f"{prefix}.")}


def _dataclass_of_field(cls: type, name: str) -> type:
    """Return the dataclass in the annotation of a field, such as `Starts` in `Starts | None`."""
    hint = get_type_hints(cls)[name]
    return next(part for part in (*get_args(hint), hint) if isinstance(part, type) and is_dataclass(part))


def _tuples(flag: Any) -> Any:
    return tuple(_tuples(item) for item in flag) if isinstance(flag, list) else flag


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (torch.view_as_real(value) if value.is_complex() else value).tolist()
    if isinstance(value, np.generic | np.ndarray):
        return _plain(torch.as_tensor(value))
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def load_result(path: str | Path) -> Result:
    """Read a file that a result of any lens has saved; the file knows the kind of the result.

    >>> import mnemoscope as ms, tempfile
    >>> path = ms.find_fixed_points(torch.nn.GRU(2, 3)).save(tempfile.mkdtemp() + "/points.safetensors")
    >>> type(ms.load_result(path)).__name__
    'FixedPoints'
    """
    kind, lenses = _read_header(path).get("kind"), import_module("mnemoscope.lenses")
    found = getattr(lenses, kind) if isinstance(kind, str) and kind in dir(lenses) else None
    if not (isinstance(found, type) and issubclass(found, Result)):
        raise ValueError(f"{path} does not hold the result of a lens saved by mnemoscope.")
    return found.load(path)


def _read_header(path: str | Path) -> Any:
    text = read_safetensors_header(path)["__metadata__"].get(_HEADER, "{}")
    return checked_json(text, f"The header of {path}")
