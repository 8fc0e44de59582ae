"""Signed selections: ids, rules, continuation, cycles and spectrum, each against a slow obvious version."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mnemoscope.connectivity.signed_selection import FAMILY, SignedSelection, companion, parse_selection
from mnemoscope.lenses.variables import angle_error


@st.composite
def parts(draw):
    """Return the parts of a random selection; the test builds it, since the type checks draw random numbers."""
    s, d = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    lags = draw(st.lists(st.integers(1, s), min_size=d, max_size=d))
    elements = draw(st.lists(st.integers(0, d - 1), min_size=d, max_size=d))
    signs = draw(st.lists(st.sampled_from([1, -1]), min_size=d, max_size=d))
    return s, tuple(lags), tuple(elements), tuple(signs)


def random_selection(s: int, d: int, generator: np.random.Generator) -> SignedSelection:
    lags, elements, signs = generator.integers(1, s + 1, d), generator.integers(0, d, d), generator.choice([1, -1], d)
    return SignedSelection(s, *(tuple(map(int, each)) for each in (lags, elements, signs)))


# Continuation, against the description in the docstring, number by number.


@settings(max_examples=60, deadline=None)
@given(parts(), st.integers(0, 7), st.integers(0, 10**6))
def test_continued_takes_each_element_where_it_says(made_of, steps, seed):
    F = SignedSelection(*made_of)
    first = torch.randn(F.variables, 3, F.size, generator=torch.Generator().manual_seed(seed))
    sequence = F.simulate(first, steps)
    assert torch.equal(sequence[: F.variables], first)
    assert len(sequence) == F.variables + steps
    for time in range(F.variables, len(sequence)):
        for b in range(3):
            for a in range(F.size):
                assert sequence[time, b, a] == F.signs[a] * sequence[time - F.lags[a], b, F.elements[a]]


def test_continued_with_other_batch_dimensions():
    F = SignedSelection.compose_copy(3)
    first = torch.randn(3, 4, 5, 3)
    whole = F.simulate(first, 6)
    assert whole.shape == (9, 4, 5, 3)
    assert torch.equal(whole[:, 2, 3], F.simulate(first[:, 2, 3], 6))  # without a batch
    assert torch.equal(F.simulate(first, 1)[-1], whole[3])
    assert torch.equal(F.simulate(first, 0), first)


@settings(max_examples=60, deadline=None)
@given(parts(), st.integers(0, 10**6))
def test_matrix_and_companion_do_the_same(made_of, seed):
    F = SignedSelection(*made_of)
    first = torch.randn(F.variables, 1, F.size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    held = first.flatten()
    assert torch.equal(F.matrix() @ held, F.simulate(first, 1)[-1][0])
    moved = companion(F.matrix()) @ held
    assert torch.equal(moved, F.simulate(first, 1)[1:].flatten())


@given(parts())
def test_a_matrix_gives_its_selection_back(made_of):
    F = SignedSelection(*made_of)
    assert SignedSelection.from_matrix(F.matrix()) == F
    assert SignedSelection.from_matrix(F.matrix() + 1e-8) == F
    places = [
        sign * ((F.variables - lag) * F.size + element + 1)
        for lag, element, sign in zip(F.lags, F.elements, F.signs, strict=True)
    ]
    assert parse_selection(" ".join(map(str, places)), F.variables, F.size) == F
    assert parse_selection(",".join(map(str, places)), F.variables, F.size) == F


# Ids.


def slow_decode(task: tuple[int, int, int], s: int, d: int) -> torch.Tensor:
    """Build F from the definition: digits as text, exchanges in order."""
    chosen, permutation, negated = task
    digits = format(chosen, "b")[::-1].ljust(s * d, "0")
    places = [place for place, digit in enumerate(digits) if digit == "1"]
    for i in range(d):
        far = permutation // d**i % d
        a, b = places[i], places[i + far]
        places[i], places[i + far] = b, a
    F = torch.zeros(d, s * d, dtype=torch.float64)
    for element, place in enumerate(places):
        F[element, place] = -1 if negated // 2**element % 2 else 1
    return F


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_ids_against_a_slow_decoder(data):
    s, d = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    places = data.draw(st.lists(st.integers(0, s * d - 1), min_size=d, max_size=d, unique=True))
    exchanges = [data.draw(st.integers(0, d - 1 - i)) for i in range(d)]
    negated = data.draw(st.integers(0, 2**d - 1))
    task = (sum(1 << place for place in places), sum(far * d**i for i, far in enumerate(exchanges)), negated)
    F = SignedSelection.from_id(task, s, d)
    assert torch.equal(F.matrix(), slow_decode(task, s, d))
    assert parse_selection("/".join(map(str, task)), s, d) == F


@pytest.mark.parametrize("name", FAMILY)
def test_the_authors_family(name):
    F = parse_selection(name, 8, 8)
    assert torch.equal(F.matrix(), slow_decode(FAMILY[name], 8, 8))
    assert F == SignedSelection.from_id(FAMILY[name], 8, 8) == SignedSelection.from_id(name, 8, 8)


def test_what_the_family_is():
    assert parse_selection("T1", 8, 8) == SignedSelection.repeat_copy(8, 8) == parse_selection("repeat", 8, 8)
    assert parse_selection("T2", 8, 8) == SignedSelection.compose_copy(8) == parse_selection("compose", 8, 8)
    compose = [*zip(SignedSelection.compose_copy(8).lags, range(8), strict=True)]
    for name in ("T3", "T4"):  # the places of compose copy, permuted, some with a minus
        F = parse_selection(name, 8, 8)
        assert sorted(zip(F.lags, F.elements, strict=True)) == sorted(compose)
        assert [*zip(F.lags, F.elements, strict=True)] != compose
        assert {*F.signs} == {1, -1}


# Spectrum.


def non_zero(Phi: torch.Tensor) -> torch.Tensor:
    """The eigenvalues that are not 0, from the part of the space that Phi^n does not forget, where Phi is
    regular: numpy knows defective zeros only to the n-th root of its precision."""
    n = len(Phi)
    lasting = torch.linalg.matrix_power(Phi, n)  # entries 0, 1, -1: exact
    left, singular, _ = torch.linalg.svd(lasting)
    Q = left[:, singular > 0.5]  # products of signed selections have rows of one entry: singular values sqrt(k) or 0
    return torch.from_numpy(np.linalg.eigvals((Q.mT @ Phi @ Q).numpy())).to(torch.complex128)


def assert_same_spectrum(F: SignedSelection):
    Phi, expected = companion(F.matrix()), F.eigenvalues()
    found = non_zero(Phi)
    assert len(found) == len(expected)
    if not len(expected):
        return
    # on what lasts Phi is a signed permutation, in a skewed basis: nothing is defective, rounding is all there is
    torch.testing.assert_close(found.abs(), torch.ones(len(found), dtype=torch.float64), rtol=0, atol=1e-10)
    error = angle_error(found, expected)
    assert (error.missing, error.extra) == (0, 0)
    assert error.largest < 1e-10


@pytest.mark.parametrize("name", FAMILY)
def test_spectrum_of_the_family(name):
    assert_same_spectrum(parse_selection(name, 8, 8))


def test_spectrum_of_hundreds_of_random_selections():
    generator, forgetful, negative, repeated = np.random.default_rng(0), 0, 0, 0
    for _ in range(300):
        F = random_selection(int(generator.integers(1, 6)), int(generator.integers(1, 7)), generator)
        assert_same_spectrum(F)
        cycles = F.cycles()
        forgetful += sum(len(cycle.elements) for cycle in cycles) < F.size
        negative += any(cycle.sign < 0 for cycle in cycles)
        repeated += len({(cycle.lag, cycle.sign) for cycle in cycles}) < len(cycles)
    assert min(forgetful, negative, repeated) > 20  # all of these were among them


def test_numbers_of_modes():
    assert len(parse_selection("T1", 8, 8).eigenvalues()) == 64
    assert len(parse_selection("T2", 8, 8).eigenvalues()) == 36
    roots = SignedSelection.repeat_copy(4, 3).eigenvalues()
    torch.testing.assert_close(roots**4, torch.ones(12, dtype=torch.complex128))
    assert sorted(roots.angle().mul(2 / torch.pi).round().int().tolist()) == [-1] * 3 + [0] * 3 + [1] * 3 + [2] * 3
    negative = SignedSelection(2, (2,), (0,), (-1,)).eigenvalues()
    torch.testing.assert_close(negative, torch.tensor([1j, -1j], dtype=torch.complex128))


@settings(max_examples=60, deadline=None)
@given(parts())
def test_cycles_are_the_elements_that_come_back(made_of):
    """Follow each element for d steps and check whether it returns (slow reference)."""
    F = SignedSelection(*made_of)
    lasting = set()
    for start in range(F.size):
        at, lag, sign, around = start, 0, 1, []
        for _ in range(F.size):
            around.append(at)
            at, lag, sign = F.elements[at], lag + F.lags[at], sign * F.signs[at]
            if at == start:
                lasting.add((frozenset(around), lag, sign))
                break
    cycles = F.cycles()
    assert {(frozenset(cycle.elements), cycle.lag, cycle.sign) for cycle in cycles} == lasting
    assert len(cycles) == len(lasting) >= 1
    assert all(F.elements[a] == b for cycle in cycles for a, b in zip(cycle.elements, cycle.elements[1:], strict=False))


# Errors and their messages.

ONE = {"variables": 2, "lags": (1, 2), "elements": (0, 1), "signs": (1, -1)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variables": 0}, "at least one vector and one element, but self.variables=0"),
        ({"lags": (), "elements": (), "signs": ()}, "and d=0"),
        ({"signs": (1,)}, "a lag, an element and a sign, but there are 2, 2 and 1"),
        (
            {"lags": (1, 3)},
            "Element 1 is taken from 3 steps ago, but the last 2 vectors are kept: lags are from 1 to 2",
        ),
        ({"lags": (0, 1)}, "Element 0 is taken from 0 steps ago"),
        ({"elements": (2, 0)}, "Element 0 is taken from element 2, but they are numbered 0 to 1"),
        ({"elements": (-1, 0)}, "from element -1"),
        ({"signs": (1, 0)}, "Signs are 1 or -1, but that of element 1 is 0"),
    ],
)
def test_impossible_selections(change, words):
    with pytest.raises(ValueError, match=words):
        SignedSelection(**(ONE | change))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SignedSelection.from_id("T5", 8, 8), "Tasks by name are T1, T2, T3, T4, but 'T5'"),
        (lambda: SignedSelection.from_id("T1", 4, 8), "T1 has 8 vectors of 8 elements, but variables=4 and size=8"),
        (
            lambda: SignedSelection.from_id((1, 0, 0), 2, 2),
            r"2 binary digits 1 among the lowest 4, but 1 has them at \[0\]",
        ),
        (lambda: SignedSelection.from_id((17, 0, 0), 2, 2), r"but 17 has them at \[0, 4\]"),
        (lambda: SignedSelection.from_id((0, 0, 0), 2, 2), r"has them at \[\]"),
        (lambda: SignedSelection.from_id((-1, 0, 0), 2, 2), "The numbers of an id are at least 0, but -1"),
        (lambda: SignedSelection.from_id((3, -1, 0), 2, 2), "The numbers of an id are at least 0, but -1"),
        (
            lambda: SignedSelection.from_id((3, 2, 0), 2, 2),
            "exchanges place 1 with place 2, but there are only 2",
        ),
        (lambda: SignedSelection.from_id((3, 4, 0), 2, 2), "too many digits for 2 elements"),
        (lambda: SignedSelection.from_id((3, 0, 4), 2, 2), "too many digits for 2 elements"),
        (lambda: SignedSelection.from_matrix(torch.zeros(2, 3)), r"F must be \(d, s d\), but is \(2, 3\)"),
        (lambda: SignedSelection.from_matrix(torch.zeros(2, 0)), r"F must be \(d, s d\), but is \(2, 0\)"),
        (lambda: SignedSelection.from_matrix(torch.zeros(0, 0)), r"F must be \(d, s d\), but is \(0, 0\)"),
        (
            lambda: SignedSelection.from_matrix(torch.ones(1, 2)),
            "one entry 1 or -1, and zeros: F is not a signed selection",
        ),
        (lambda: SignedSelection.from_matrix(torch.tensor([[0.5, 0.0]])), "F is not a signed selection"),
        (lambda: SignedSelection.from_matrix(torch.tensor([[2.0, 0.0]])), "F is not a signed selection"),
        (lambda: SignedSelection.from_matrix(torch.tensor([[torch.nan, 1.0]])), "F is not a signed selection"),
        (lambda: companion(torch.zeros(2, 3)), r"F must be \(d, s d\), but is \(2, 3\)"),
        (lambda: companion(torch.zeros(0, 0)), r"F must be \(d, s d\), but is \(0, 0\)"),
        (lambda: SignedSelection(**ONE).simulate(torch.zeros(3, 1, 2), 1), r"first 2 vectors of 2 .* is \(3, 1, 2\)"),
        (lambda: SignedSelection(**ONE).simulate(torch.zeros(2, 1, 3), 1), r"shape is \(2, 1, 3\)"),
        (lambda: SignedSelection(**ONE).simulate(torch.zeros(2, 1, 2), -1), "steps must be at least 0, but is -1"),
        (lambda: parse_selection("", 2, 2), r"2 signed places, each from 1 to 4 .* but they are \[\]"),
        (lambda: parse_selection("1 0", 2, 2), r"but they are \[1, 0\]"),
        (lambda: parse_selection("1 2 3", 2, 2), r"but they are \[1, 2, 3\]"),
        (lambda: parse_selection("1/2", 2, 2), "an id such as"),
        (lambda: parse_selection("1/a/3", 2, 2), "an id such as"),
        (lambda: parse_selection("1/0/0", 2, 2), "2 binary digits 1"),
        (lambda: parse_selection("compose", 2, 3), "as many vectors as elements, but variables=2 and size=3"),
        (lambda: parse_selection("repeat", 0, 2), "at least one vector and one element"),
        (lambda: parse_selection("Repeat", 2, 2), "A rule is .* but is 'Repeat'"),
    ],
)
def test_bad_input_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
