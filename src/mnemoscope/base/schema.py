"""Check the types of values that were read from a file. Imports no torch.

A schema is a type annotation: a TypedDict, `dict[str, X]`, `list[X]`, a union, a Literal, or a plain type. A number
written without a decimal point is an integer, and fits where a float is expected. Keys that a TypedDict does not name
are allowed, because a newer version may write more of them.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

_NAMES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    NoneType: "null",
    list: "a list",
    dict: "an object",
}
_SHOWN = 60
"""Characters of a wrong value in an error message."""


def checked(content: Any, schema: Any, name: str = "") -> Any:
    """Return the content if it has the types of the schema; raise ValueError that names the wrong entry otherwise.

    `name` is the name of the content in the error.

    >>> checked({"loss": 1, "scores": {"accuracy": 0.5}}, dict[str, float | dict[str, float]])
    {'loss': 1, 'scores': {'accuracy': 0.5}}
    >>> checked([1, "2"], list[int])
    Traceback (most recent call last):
    ...
    ValueError: [1] must be an integer, but is '2'
    """
    _check(content, schema, name)
    return content


def _check(value: Any, schema: Any, name: str) -> None:
    """Raise ValueError unless `value`, the entry called `name`, has the types of the schema."""
    if schema is Any:
        return
    if is_typeddict(schema):
        _check_plain(value, dict, name)
        for key in sorted(schema.__required_keys__):
            if key not in value:
                raise ValueError(f"{_join(name, key)} is missing")
        hints = _hints(schema)
        for key in hints.keys() & value.keys():
            _check(value[key], hints[key], _join(name, key))
        return
    origin, arguments = get_origin(schema), get_args(schema)
    if origin in (Union, UnionType):
        _check_union(value, arguments, name)
    elif origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise _error(name, " or ".join(map(repr, arguments)), value)
    elif origin is list:
        _check_plain(value, list, name)
        for index, item in enumerate(value):
            _check(item, arguments[0], f"{name}[{index}]")
    elif origin is dict:
        _check_plain(value, dict, name)
        for key, item in value.items():
            _check(item, arguments[1], _join(name, key))
    else:
        _check_plain(value, schema, name)


@cache
def _hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema)


def _check_union(value: Any, choices: tuple[Any, ...], name: str) -> None:
    """Raise unless one of the choices fits; if only one is a table, its error is the most specific one."""
    errors = []
    for choice in choices:
        try:
            _check(value, choice, name)
        except ValueError as error:
            errors.append((choice, error))
        else:
            return
    if isinstance(value, dict | list):
        nested = [error for choice, error in errors if choice not in _NAMES]
        if len(nested) == 1:
            raise nested[0]
    raise _error(name, " or ".join(_NAMES.get(choice, "an object or a list") for choice in choices), value)


def _check_plain(value: Any, expected: Any, name: str) -> None:
    accepted = (int, float) if expected is float else (expected,)
    if type(value) not in accepted:
        raise _error(name, _NAMES[expected], value)


def _error(name: str, expected: str, value: Any) -> ValueError:
    text = repr(value)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return ValueError(f"{name or 'the content'} must be {expected}, but is {shown}")


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else str(key)
