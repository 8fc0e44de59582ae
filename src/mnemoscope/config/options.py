"""Options by name, as they stand in a TOML file or on the command line: which there are, and whether they fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import partial
from inspect import Parameter
from math import isnan
from types import NoneType, UnionType
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints

Option = bool | int | float | str


def options_of(target: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a class or function that a TOML file can hold, by name.

    Of parameters that are handed on, `**options: Unpack[Table]`, the table says which they are, and their defaults are
    those of the class that takes them: a base of `target`, or of what it returns. What a `partial` fills in is a
    default.

    >>> def build(size: int, *, bias: bool = True) -> list: ...
    >>> print(*options_of(partial(build, bias=False)).values(), sep=", ")
    size: int, bias: bool = False
    """
    inner, filled = (target.func, target.keywords) if isinstance(target, partial) else (target, {})
    signature = _signature(inner)
    made = inner if isinstance(inner, type) else signature.return_annotation
    found: dict[str, Parameter] = {}
    for name, parameter in signature.parameters.items():
        if get_origin(parameter.annotation) is Unpack:
            (table,) = get_args(parameter.annotation)
            for key, hint in get_type_hints(table).items():
                found[key] = Parameter(key, Parameter.KEYWORD_ONLY, default=_default(made, key), annotation=hint)
        else:
            found[name] = parameter
    found |= {name: found[name].replace(default=value) for name, value in filled.items()}
    return {name: parameter for name, parameter in found.items() if {*plain(parameter.annotation)} - {NoneType}}


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """With annotations that are types, and no text."""
    if not (isinstance(target, type) and is_dataclass(target)):
        return inspect.signature(target, eval_str=True)
    hints = get_type_hints(target)  # of a field, in the module of the class that has it, which may be a base
    signature = inspect.signature(target)
    return signature.replace(
        parameters=[each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    )


def _default(made: type, name: str) -> Any:
    """That of the first among a class and its bases which names the parameter."""
    for base in made.__mro__:
        parameters = inspect.signature(vars(base)["__init__"]).parameters if "__init__" in vars(base) else {}
        if name in parameters:
            return parameters[name].default
    raise TypeError(f"Nothing that {made.__name__} is made of takes {name!r}.")


def changed_options(target: Callable[..., Any], options: Mapping[str, Option]) -> dict[str, Option]:
    """The options that differ from the defaults of `target`, as it will get them; unknown ones are kept."""
    known = options_of(target)
    changed = {}
    for name, value in options.items():
        if name in known:
            with suppress(TypeError):
                value = fit(value, known[name].annotation)
            if (type(value), value) == (type(known[name].default), known[name].default):
                continue
        changed[name] = value
    return changed


def checked_options(
    target: Callable[..., Any], what: str, options: Mapping[str, Any], given: Iterable[str] = ()
) -> dict[str, Any]:
    """The options as `target`, which is `what`, wants them, or an error that says which there are; those that are
    `given` otherwise are not among them.
    """
    known = {name: parameter for name, parameter in options_of(target).items() if name not in given}
    listing = ", ".join(_described(parameter) for parameter in known.values()) or "none"
    checked = {}
    for name, value in options.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"The {what} has no option {name!r}.{hint} Its options: {listing}.")
        try:
            checked[name] = fit(value, known[name].annotation)
        except TypeError as error:
            raise ValueError(f"Option {name!r} of the {what} must be {error}. Its options: {listing}.") from None
    missing = [name for name, parameter in known.items() if parameter.default is parameter.empty]
    if missing := [name for name in missing if name not in checked]:
        raise ValueError(f"The {what} needs the option {' and '.join(map(repr, missing))}. Its options: {listing}.")
    return checked


def _described(parameter: Parameter) -> str:
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name} = {parameter.default!r}"


def fit(value: object, annotation: Any) -> Any:
    """`value` as the annotation wants it: itself, or an integer as a float where only a float fits, and as a string
    where only a string fits: a list of numbers, written as one, may be of one. The words true and false, as a command
    line has them, are bools where no string fits, in a TOML file too.

    Raises TypeError with the words "<what is expected>, but is <what was given>".

    >>> fit(1, float | None), fit(1, int | float), fit(1, str), fit("true", bool)
    (1.0, 1, '1', True)
    """
    if get_origin(annotation) is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError(f"a table of options, but is {value!r}")
        key_type, value_type = get_args(annotation)
        try:
            return {fit(key, key_type): fit(item, value_type) for key, item in value.items()}
        except TypeError as error:
            raise TypeError(f"a table of options, each of them {error}") from None
    if get_origin(annotation) in (tuple, Sequence):
        inner = get_args(annotation)[0]
        if not isinstance(value, list | tuple):
            raise TypeError(f"a list, each of it {_words(plain(inner))}, but is {value!r}")
        try:
            return tuple(fit(item, inner) for item in value)
        except TypeError as error:
            raise TypeError(f"a list, each of it {error}") from None
    choices = plain(annotation)
    if isinstance(value, float) and isnan(value):
        raise TypeError(f"{_words(choices)}, but is nan")
    for choice in choices:
        if type(value) is choice or (type(value) is type(choice) and value == choice):
            return value
    if float in choices and type(value) is int:
        return float(value)
    if str in choices and type(value) is int:
        return str(value)
    if bool in choices and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise TypeError(f"{_words(choices)}, but is {value!r}")


def plain(annotation: Any) -> list[Any]:
    """The plain types and the literal values that an annotation admits; others cannot stand in a TOML file.

    >>> print(plain(float | None), plain(Literal["a", "b"]), plain(list[int]))
    [<class 'float'>, <class 'NoneType'>] ['a', 'b'] []
    """
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return [choice for part in get_args(annotation) for choice in plain(part)]
    if origin is Literal:
        return list(get_args(annotation))
    return [annotation] if annotation in (bool, int, float, str, NoneType) else []


def _words(choices: list[Any]) -> str:
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a string", NoneType: "None"}
    return " or ".join(names[choice] if isinstance(choice, type) else repr(choice) for choice in choices)
