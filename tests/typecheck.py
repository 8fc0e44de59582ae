"""What the import hook decorates every function with: shapes, and types in which an int is a float.

jaxtyping's own decorator binds the arguments of every call to a signature and checks them before the call and again
after it, which took two fifths of the time of tests that step through a loop. Here beartype checks arguments and result
once each, in a scope in which every name of a dimension has one value.
"""

import dataclasses
import functools
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import TypeCheckError, jaxtyped

types = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=TypeCheckError))


def install(modules):
    """Have the functions and data classes of these modules, imported from here on, checked."""
    jaxtyping.jaxtyped = lambda typechecker: typechecker  # the hook writes `@jaxtyping.jaxtyped(typechecker=...)`
    jaxtyping.install_import_hook(modules, "typecheck.checked")


def checked(one):
    """A function that checks its arguments and its result, or a class that checks its fields if it is a data class."""
    if isinstance(one, type):
        if dataclasses.is_dataclass(one) and "__init__" in vars(one):
            one.__init__ = checked(one.__init__)
        return one
    written = one.__annotations__
    one.__annotations__ = {name: _resolved(hint, one.__globals__) for name, hint in written.items()}
    try:
        typed = types(one)
    finally:
        one.__annotations__ = written
    if typed is one:
        return one

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
