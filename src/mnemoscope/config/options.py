"""Options of tasks, cells and engines: the parameters that a TOML file or the command line can set by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, partial
from inspect import Parameter
from math import isnan
from types import NoneType, UnionType
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints

from mnemoscope.base.suggestions import did_you_mean

Option = bool | int | float | str


def options_of(target: Callable[..., Any]) -> dict[str, Parameter]:
    """Return the parameters of a class or function that a TOML file can hold, by name.

    Parameters that are passed on, `**options: Unpack[Table]`, are listed in the table. Their defaults are those of the
    class that takes them: a base of `target`, or of the class that it returns. Arguments of a `partial` count as
    defaults.

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


def required_options(target: Callable[..., Any]) -> list[str]:
    """Return the names of the options that have no default.

    >>> def build(size: int, *, bias: bool = True) -> list: ...
    >>> required_options(build)
    ['size']
    """
    return [name for name, parameter in options_of(target).items() if parameter.default is parameter.empty]


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, with annotations evaluated from text to types."""
    if not (isinstance(target, type) and is_dataclass(target)):
        return inspect.signature(target, eval_str=True)
    hints = get_type_hints(target)  # evaluates the fields of a base class in the module of that base
    signature = inspect.signature(target)
    return signature.replace(
        parameters=[parameter.replace(annotation=hints[name]) for name, parameter in signature.parameters.items()]
    )


def _default(made: type, name: str) -> Any:
    """Return the default of a parameter in the first class, of `made` and its bases, that has it."""
    for base in made.__mro__:
        parameters = inspect.signature(vars(base)["__init__"]).parameters if "__init__" in vars(base) else {}
        if name in parameters:
            return parameters[name].default
    raise TypeError(f"Neither {made.__name__} nor a base of it takes {name!r}.")


def changed_options(target: Callable[..., Any], options: Mapping[str, Option]) -> dict[str, Option]:
    """Return the options that differ from the defaults of `target`, converted to its types; unknown ones are kept."""
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
    """Return options converted to the types of `target`, or raise an error that lists the options there are.

    Args:
        target: class or function that takes the options.
        what: name of the target in error messages, such as "cell 'gru'".
        options: options by name.
        given: parameters that the caller sets, and that are therefore no options.

    """
    known = {name: parameter for name, parameter in options_of(target).items() if name not in given}
    listing = ", ".join(_described(parameter) for parameter in known.values()) or "none"
    checked = {}
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"The {what} has no option {name!r}.{did_you_mean(name, known)} Its options: {listing}.")
        try:
            checked[name] = fit(value, known[name].annotation)
        except TypeError as error:
            raise ValueError(f"Option {name!r} of the {what} must be {error}. Its options: {listing}.") from None
    if missing := [name for name in required_options(target) if name in known and name not in checked]:
        raise ValueError(f"The {what} needs the option {' and '.join(map(repr, missing))}. Its options: {listing}.")
    return checked


def _described(parameter: Parameter) -> str:
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name} = {parameter.default!r}"


def fit(value: object, annotation: Any) -> Any:
    """Return `value` converted to the type of an annotation.

    A value that fits stays unchanged. An integer becomes a float where only a float fits, and a string where only a
    string fits: an option may be a list of numbers in one string, and a list of one number looks like an integer. The
    words true and false become truth values where no string fits, because the command line has no other notation.

    Raises TypeError with the message "<what was expected>, but is <what was given>".

    >>> fit(1, float | None), fit(1, int | float), fit(1, str), fit("true", bool)
    (1.0, 1, '1', True)
    """
    if type(value) is annotation and annotation in (bool, int, str):
        return value
    origin, arguments, choices = _anatomy(annotation)
    if origin is dict:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError(f"a table of options, but is {value!r}")
        key_type, value_type = arguments
        try:
            return {fit(key, key_type): fit(item, value_type) for key, item in value.items()}
        except TypeError as error:
            raise TypeError(f"a table of options, each value {error}") from None
    if origin in (tuple, Sequence):
        inner = arguments[0]
        if not isinstance(value, list | tuple):
            raise TypeError(f"a list, each item {_expected(plain(inner))}, but is {value!r}")
        try:
            return tuple(fit(item, inner) for item in value)
        except TypeError as error:
            raise TypeError(f"a list, each item {error}") from None
    if isinstance(value, float) and isnan(value):
        raise TypeError(f"{_expected(choices)}, but is nan")
    for choice in choices:
        if type(value) is choice or (type(value) is type(choice) and value == choice):
            return value
    if float in choices and type(value) is int:
        return float(value)
    if str in choices and type(value) is int:
        return str(value)
    if bool in choices and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise TypeError(f"{_expected(choices)}, but is {value!r}")


@cache  # a study builds thousands of configurations
def _anatomy(annotation: Any) -> tuple[Any, tuple[Any, ...], list[Any]]:
    """Return the origin, the arguments and the plain types of an annotation."""
    return get_origin(annotation), get_args(annotation), plain(annotation)


def plain(annotation: Any) -> list[Any]:
    """Return the plain types and the literal values of an annotation, which are those that a TOML file can hold.

    >>> print(plain(float | None), plain(Literal["a", "b"]), plain(list[int]))
    [<class 'float'>, <class 'NoneType'>] ['a', 'b'] []
    """
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return [choice for part in get_args(annotation) for choice in plain(part)]
    if origin is Literal:
        return list(get_args(annotation))
    return [annotation] if annotation in (bool, int, float, str, NoneType) else []


def _expected(choices: list[Any]) -> str:
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a string", NoneType: "None"}
    return " or ".join(names[choice] if isinstance(choice, type) else repr(choice) for choice in choices)
