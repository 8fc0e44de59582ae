"""The tests check types and shapes of all calls: what breaks them is refused, in the package too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.cells import Elman
from mnemoscope.studies.jang.reservoirs import Memories
from tests.typecheck import EVERY, FIRST, checked, is_plain, started

if TYPE_CHECKING:
    from somewhere import Unknown


@checked
def product(a: Float[Tensor, "rows inner"], b: Float[Tensor, "inner columns"]) -> Float[Tensor, "rows columns"]:
    return a @ b


@checked
def wrong(a: Float[Tensor, "rows columns"]) -> Float[Tensor, "columns rows"]:
    return a


@checked
def unknown(a: Unknown, times: float) -> Unknown:
    return a * times


@checked
def rows(a: Float[Tensor, "rows columns"]) -> Iterator[Float[Tensor, " columns"]]:
    yield from a


@checked
@dataclass
class Pair:
    left: Float[Tensor, " size"]
    right: Int[Tensor, " size"]


def test_dimensions_of_one_name_are_of_one_size():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    assert product(torch.ones(5, 1), torch.ones(1, 5)).shape == (5, 5)  # another call, other sizes
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), b=torch.ones(3))
    with pytest.raises(TypeCheckError):
        product(torch.ones(2, 3), torch.ones(3, 4, dtype=torch.int64))


def test_results_are_held_against_the_arguments():
    assert wrong(torch.ones(2, 2)).shape == (2, 2)
    with pytest.raises(TypeCheckError):
        wrong(torch.ones(2, 3))


def test_hints_that_name_nothing_are_not_checked_and_others_are():
    assert unknown("a", 2) == "aa"  # an int is a float
    with pytest.raises(TypeCheckError):
        unknown("a", "2")


def test_calls_inside_a_call_have_dimensions_of_their_own():
    @checked
    def outer(a: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows rows"]:
        return product(a, a.mT)

    assert outer(torch.ones(2, 3)).shape == (2, 2)


@checked
def several(*parts: Float[Tensor, " columns"], **named: list[str]) -> Iterator[Float[Tensor, " columns"]]:
    yield from parts


def test_a_generator_is_checked_where_it_is_made_and_not_where_it_is_used():
    @checked
    def sums(a: Float[Tensor, "rows columns"], b: Float[Tensor, "columns rows"]) -> list[float]:
        first, second = rows(a), rows(b)
        third = several(*a, name=["a"])
        return [float(one.sum() + other.sum() + more.sum()) for one, other, more in zip(first, second, third)]  # noqa: B905

    for _ in range(2):
        assert sums(torch.ones(2, 3), torch.ones(3, 2)) == [8.0, 8.0]
        with pytest.raises(TypeCheckError, match="'a' of"):
            rows(torch.ones(3))
        with pytest.raises(TypeCheckError, match="'parts' of"):
            several(torch.ones(3), torch.ones(2))
        with pytest.raises(TypeCheckError, match="'named' of"):
            several(torch.ones(3), name=[1])


def test_fields_of_data_classes():
    Pair(torch.ones(2), torch.ones(2, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        Pair(torch.ones(2), torch.ones(3, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        Pair(torch.ones(2), torch.ones(2))


def test_names_and_hints_stay():
    assert product.__name__ == "product"
    assert unknown.__annotations__ == {"a": "Unknown", "times": "float", "return": "Unknown"}


class Two(NamedTuple):
    first: Tensor
    second: Tensor


@runtime_checkable
class Named(Protocol):
    name: str


@pytest.mark.parametrize(
    ("hint", "plain"),
    [(Any, True), (float, True), (Tensor, True), (int | None, True), (tuple[int, Float[Tensor, " a"]], True),
     (Two, True), (tuple[int, ...], False), (list[int], False), (Literal["a"], False), (Iterator[int], False),
     (Named, False), (torch.nn.Parameter, False), (tuple[list[int], int], False), (list[int] | None, False)],
)  # fmt: skip
def test_hints_that_the_type_decides(hint, plain):
    assert is_plain(hint) == plain


def test_an_accepted_call_does_not_cover_a_different_one():
    @checked
    def turned(pair: tuple[Float[Tensor, " a"], Float[Tensor, " b"]], size: int = 0) -> Float[Tensor, "a b"] | None:
        return None if size == 1 else pair[0][:, None] * pair[1] if size == 0 else pair[1][:, None] * pair[0]

    long, short = torch.ones(3), torch.ones(2)
    for _ in range(2):
        started.tests += 1  # all calls are among the first ones
        assert turned((long, short)).shape == (3, 2)
        assert turned((long, short), 1) is None
        assert turned((long, long), size=2).shape == (3, 3)
        for good in ((short, long), Two(short, long)):
            assert turned(good).shape == (2, 3)
        for bad in ((long, long[None]), (long, short.int()), Two(long, long[None]), (long,), [long, short]):
            with pytest.raises(TypeCheckError, match="'pair' of"):
                turned(bad)
        with pytest.raises(TypeCheckError, match="'result' of"):
            turned((long, short), 2)
        with pytest.raises(TypeCheckError, match="'size' of"):
            turned((long, short), size=0.0)
        with pytest.raises(TypeError, match="argument"):
            turned((long, short), 0, 0)


def call_often(function, *args):
    """Call a function until a check must have happened, however often it was called before."""
    for _ in range(EVERY):
        function(*args)


def test_the_package_is_checked():
    with pytest.raises(TypeCheckError):
        Elman(2, 3).output(torch.ones(4, 3, dtype=torch.long))
    with pytest.raises(TypeCheckError):
        Memories(torch.ones(4, 2), torch.ones(3, 2), torch.ones(3, dtype=torch.bool))


def test_a_function_that_is_called_often_is_checked_now_and_then():
    @checked
    def double(a: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        return 2 * a

    for _ in range(FIRST):
        double(torch.ones(3))
    with pytest.raises(TypeCheckError):
        call_often(double, torch.ones(2, 2))  # of a kind that was not accepted before


def test_the_calls_of_earlier_tests_do_not_count():
    @checked
    def double(a: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        return 2 * a

    for _ in range(3 * FIRST):
        double(torch.ones(3))
    started.tests += 1
    with pytest.raises(TypeCheckError):
        double(torch.ones(2, 2))
