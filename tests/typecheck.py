"""What the import hook decorates every function with: shapes, and types in which an int is a float.

jaxtyping's own decorator binds the arguments of every call to a signature and checks them before the call and again
after it, which took two fifths of the time of tests that step through a loop. Here what was accepted once is known: a
call whose arguments and result have the types, and the tensors among them the shapes and dtypes, of an earlier one is
not looked at again. That holds for functions whose hints depend on nothing else; in all others beartype checks
every call.
"""

import dataclasses
import functools
import inspect
from abc import ABCMeta
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.door import die_if_unbearable
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
CONF = BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError)


def install(modules):
    """Have the functions and data classes of these modules, imported from here on, checked."""
    jaxtyping.jaxtyped = lambda typechecker: typechecker  # the hook writes `@jaxtyping.jaxtyped(typechecker=...)`
    jaxtyping.install_import_hook(modules, "tests.typecheck.checked")


def checked(one):
    """A function that checks its arguments and its result, or a class that checks its fields if it is a data class."""
    if isinstance(one, type):
        if dataclasses.is_dataclass(one) and "__init__" in vars(one):
            one.__init__ = checked(one.__init__)
        return one
    hints = {name: _resolved(hint, one.__globals__) for name, hint in one.__annotations__.items()}
    generating = inspect.isgeneratorfunction(one)  # what it gives is a generator, whatever the hint says of its items
    plain = all(is_plain(hint) for name, hint in hints.items() if not (generating and name == "return"))
    several = any(each.kind in VARIADIC for each in inspect.signature(one).parameters.values())
    if plain and not several:
        return _looked_at(one, hints, remember=True)
    # beartype's check of a generator begins with its first item, in the scope of whoever asks for that
    return _looked_at(one, hints, remember=False) if generating else _always(one, hints)


def is_plain(hint):
    """Whether the type of a value decides, and of a tensor its shape and dtype too."""
    if hint is Any or hint is None:
        return True
    if get_origin(hint) in (Union, UnionType):
        return all(map(is_plain, get_args(hint)))
    if get_origin(hint) is tuple:
        return ... not in get_args(hint) and all(map(is_plain, get_args(hint)))
    if not isinstance(hint, type) or get_origin(hint) is not None:
        return False
    if issubclass(hint, AbstractArray):
        return is_plain(hint.array_type)
    # some classes look at the value itself: protocols, nn.Parameter
    return type(hint).__instancecheck__ in (type.__instancecheck__, ABCMeta.__instancecheck__)


def kind_of(value):
    """All of a value that plain hints depend on."""
    kind = type(value)
    if isinstance(value, Tensor):
        return kind, value.dtype, value.shape
    if isinstance(value, tuple):
        return kind, *map(kind_of, value)
    return kind


def _looked_at(one, hints, remember):
    signature = inspect.signature(one)
    accepted = {}  # by the kinds of arguments, the kinds of results
    several = {name for name, each in signature.parameters.items() if each.kind in VARIADIC}

    def look(args, kwargs, *result):
        __tracebackhide__ = True
        with jaxtyped("context"):
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                values = [value] if name not in several else value.values() if isinstance(value, dict) else value
                for each in values:
                    _refuse_unlike(each, hints.get(name, Any), name, one)
            for value in result:
                _refuse_unlike(value, hints.get("return", Any), "result", one)

    @functools.wraps(one)
    def known(*args, **kwargs):
        __tracebackhide__ = True
        kinds = (*map(kind_of, args), *kwargs, *map(kind_of, kwargs.values())) if kwargs else tuple(map(kind_of, args))
        results = accepted.get(kinds)
        if results is None:
            look(args, kwargs)
            results = set()
            if remember:
                accepted[kinds] = results
        result = one(*args, **kwargs)
        kind = kind_of(result)
        if kind not in results:
            look(args, kwargs, result)
            results.add(kind)
        return result

    return known


def _refuse_unlike(value, hint, name, one):
    __tracebackhide__ = True
    try:
        die_if_unbearable(value, hint, conf=CONF)
    except TypeCheckError as error:
        raise TypeCheckError(f"{name!r} of {one.__module__}.{one.__qualname__}: {error}") from None


def _always(one, hints):
    written = one.__annotations__
    one.__annotations__ = hints
    try:
        typed = beartype(conf=CONF)(one)
    finally:
        one.__annotations__ = written

    @functools.wraps(one)
    def scoped(*args, **kwargs):
        __tracebackhide__ = True
        with jaxtyped("context"):
            return typed(*args, **kwargs)

    return scoped


def _resolved(hint, names):
    """The type that a hint names; any, where that is not known when the function is defined."""

    def holder():
        pass

    holder.__annotations__ = {"value": hint}
    try:
        return get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:  # not a NameError alone: a hint is any expression
        return Any
