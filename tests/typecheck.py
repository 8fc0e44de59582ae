"""Decorator that the import hook applies to every function: checks shapes, and types in which an int is a float.

The decorator of jaxtyping binds the arguments of every call to a signature and checks them before and after the call.
This took two fifths of the time of tests that step through a loop. The decorator here remembers accepted calls: if the
arguments and the result have the same types, and tensors the same shapes and dtypes, as in an earlier call, it does not
check them again. This is valid for functions whose hints depend on nothing else; for all others beartype checks the
calls. A function that was called 16 times in a test is checked in every 16th call only; `make test-all` checks every
call. The calls are counted anew in each test, so that which of them are checked does not depend on the tests before.
"""

import dataclasses
import functools
import inspect
import os
from abc import ABCMeta
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.door import die_if_unbearable
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
FIRST, EVERY = 16, 1 if "MNEMOSCOPE_SLOW" in os.environ else 16
CONF = BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError)


class Started:
    """How many tests have started in this process."""

    tests = 0


started = Started()


def install(modules):
    """Check the functions and data classes of these modules if they are imported after this call."""
    jaxtyping.jaxtyped = lambda typechecker: typechecker  # the hook writes `@jaxtyping.jaxtyped(typechecker=...)`
    jaxtyping.install_import_hook(modules, "tests.typecheck.checked")


def checked(target):
    """Return a function that checks its arguments and result, or a data class that checks its fields."""
    if isinstance(target, type):
        if dataclasses.is_dataclass(target) and "__init__" in vars(target):
            target.__init__ = checked(target.__init__)
        return target
    if ".triton_" in target.__module__:  # kernels are written in a language that only looks like Python
        return target
    return _check_some_calls(target)


def _check_some_calls(function):
    """Return a function that checks its first calls in a test, and every few calls after them."""
    calls, test, typed = 0, 0, None

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        nonlocal calls, test, typed
        if test != started.tests:
            calls, test = 0, started.tests
        calls += 1
        if calls > FIRST and calls % EVERY:
            return function(*args, **kwargs)
        if typed is None:  # not before the first call: most functions are imported only, and this takes a millisecond
            typed = _check_all_calls(function)
        return typed(*args, **kwargs)

    return wrapper


def _check_all_calls(function):
    hints = {name: _resolved(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    generating = inspect.isgeneratorfunction(function)  # then the result is a generator, whatever its items are
    plain = all(is_plain(hint) for name, hint in hints.items() if not (generating and name == "return"))
    variadic = any(parameter.kind in VARIADIC for parameter in inspect.signature(function).parameters.values())
    if plain and not variadic:
        return _check_new_kinds(function, hints, remember=True)
    # beartype checks a generator from its first item on, in the scope of the caller that requests it
    return _check_new_kinds(function, hints, remember=False) if generating else _check_with_beartype(function, hints)


def is_plain(hint):
    """Whether a check depends only on the type of a value, and for a tensor also on its shape and dtype."""
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
    # some classes inspect the value: protocols, nn.Parameter
    return type(hint).__instancecheck__ in (type.__instancecheck__, ABCMeta.__instancecheck__)


def kind_of(value):
    """Return the properties of a value on which plain hints depend."""
    kind = type(value)
    if isinstance(value, Tensor):
        return kind, value.dtype, None if value.is_nested else value.shape
    if isinstance(value, tuple):
        return kind, *map(kind_of, value)
    return kind


def _check_new_kinds(function, hints, remember):
    """Return a function that checks calls; with `remember`, only calls with kinds of values not accepted before."""
    signature = inspect.signature(function)
    accepted = {}  # kinds of results by kinds of arguments
    variadic = {name for name, parameter in signature.parameters.items() if parameter.kind in VARIADIC}

    def check(args, kwargs, *result):
        __tracebackhide__ = True
        with jaxtyped("context"):
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                values = [value] if name not in variadic else value.values() if isinstance(value, dict) else value
                for item in values:
                    _raise_unless_valid(item, hints.get(name, Any), name, function)
            for value in result:
                _raise_unless_valid(value, hints.get("return", Any), "result", function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        __tracebackhide__ = True
        kinds = (*map(kind_of, args), *kwargs, *map(kind_of, kwargs.values())) if kwargs else tuple(map(kind_of, args))
        results = accepted.get(kinds)
        if results is None:
            check(args, kwargs)
            results = set()
            if remember:
                accepted[kinds] = results
        result = function(*args, **kwargs)
        kind = kind_of(result)
        if kind not in results:
            check(args, kwargs, result)
            results.add(kind)
        return result

    return wrapper


def _raise_unless_valid(value, hint, name, function):
    __tracebackhide__ = True
    try:
        die_if_unbearable(value, hint, conf=CONF)
    except TypeCheckError as error:
        raise TypeCheckError(f"{name!r} of {function.__module__}.{function.__qualname__}: {error}") from None


def _check_with_beartype(function, hints):
    """Return a function that beartype checks in every call."""
    original = function.__annotations__
    function.__annotations__ = hints
    try:
        typed = beartype(conf=CONF)(function)
    finally:
        function.__annotations__ = original

    @functools.wraps(function)
    def scoped(*args, **kwargs):
        __tracebackhide__ = True
        with jaxtyped("context"):
            return typed(*args, **kwargs)

    return scoped


def _resolved(hint, names):
    """Return the type that a hint names, or Any if it is unknown."""

    def holder():
        pass

    holder.__annotations__ = {"value": hint}
    try:
        return get_type_hints(holder, names, include_extras=True)["value"]
    except Exception:  # not only NameError: a hint can be any expression
        return Any
