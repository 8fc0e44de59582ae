"""Ranges of agreement: how they are chosen, and what they decide."""

from dataclasses import replace
from math import inf

import pytest

from mnemoscope import registry
from mnemoscope.registry.citations import Source
from mnemoscope.replication import EVERYTHING, Claim
from mnemoscope.replication.agreement import as_printed, at_least, at_most, chosen, exactly
from mnemoscope.replication.differences import measure_difference


def test_a_printed_number_agrees_within_one_unit_of_its_last_digit_or_its_spread():
    near = as_printed("1.47")
    assert (near.low, near.high, near.chosen) == (1.46, 1.48, "one unit of the last printed digit")
    wide = as_printed("94.7%", spread=5.4, high=1.0)
    assert (wide.low, wide.high, wide.chosen) == (0.893, 1.0, "the published spread")
    assert as_printed("49.9%", spread=0.05).low == pytest.approx(0.498)  # the digit is wider than the spread
    assert (as_printed("12%").low, as_printed("12%").high) == (0.11, 0.13)
    with pytest.raises(ValueError, match="no number with a last digit"):
        as_printed("inf")


def test_a_range_says_how_it_was_chosen_and_reads_well():
    for low, high, how in ((1.0, 0.0, "reversed"), (0.0, 1.0, "")):
        with pytest.raises(ValueError, match="needs low <= high and how it was chosen"):
            chosen(low, high, how)
    ranges = (exactly(8), at_most(2, "x"), at_least(-1, "x"), chosen(1, 2, "x"), chosen(-inf, inf, "x"))
    assert list(map(str, ranges)) == ["8", "at most 2", "at least -1", "1 to 2", "any value"]


def test_the_mean_is_compared_with_a_printed_mean_and_each_network_with_a_count():
    mean = Claim(EVERYTHING, "accuracy", "90%", Source("jang"), as_printed("90%"), better="higher")
    assert mean.judge([0.85, 0.95]).verdict == "matches"
    assert mean.judge([0.85, 0.85]).verdict == "worse"
    assert mean.judge([0.85, 0.855, 0.845]).verdict == "worse"
    assert replace(mean, reason="a misprint").judge([0.95, 0.955, 0.945]).reason == "a misprint"
    undecided = mean.judge([0.6, 0.95, 0.98])  # worse on average, but not beyond what other seeds would change
    assert undecided.obstacle == "the seeds do not decide it"
    assert undecided.reason == "other seeds may give 0.599 to 1.09"
    assert mean.judge([0.1, 0.85, 0.88]).verdict == "worse"  # all of them are
    row = mean.compare("accuracy", [0.85, 0.95], "85%, 95%")
    assert (row.successes, row.standard_error) == (0, pytest.approx(0.05))
    each = replace(mean, agreement=exactly(8))
    assert str(each.judge([8, 7])) == "matches in 1 of 2"
    assert each.compare("points", [8], "8").standard_error is None
    assert each.compare("points", [8, inf], "8, inf").standard_error is None


def test_a_range_that_holds_chance_is_not_compared():
    claim = Claim(EVERYTHING, "accuracy", "50.3% ± 0.5", Source("jang"), as_printed("50.3%", spread=0.5), chance=0.5)
    judgement = claim.judge([0.503])
    assert (judgement.verdict, judgement.obstacle) == ("not compared", "agreement is also reached by chance")
    assert "0.5" in judgement.reason
    assert replace(claim, chance=0.4).judge([0.503]).verdict == "matches"
    assert replace(claim, better="higher").judge([0.7]).verdict == "better"  # a guess is no reason to hide it


def test_a_difference_must_exceed_two_standard_errors_of_the_seeds():
    clear = measure_difference([[0.90, 0.91, 0.92]], [[0.80, 0.81, 0.79]])
    assert (str(clear), clear.judge(0.01).verdict) == ("+11.0 ± 0.8", "matches")
    assert measure_difference([[0.80, 0.81, 0.79]], [[0.90, 0.91, 0.92]]).judge(0.01).verdict == "differs"
    noisy = measure_difference([[0.95, 0.75, 0.90]], [[0.80, 0.85, 0.78]])
    assert (noisy.judge(0.01).verdict, noisy.judge(0.01).obstacle) == ("not compared", "the seeds do not decide it")
    single = measure_difference([[0.95]], [[0.80, 0.85]])
    assert "single seed" in single.judge(0.01).reason
    same = measure_difference([[1.0, 1.0]], [[0.5, 0.5]])
    assert (same.error, same.judge(0.01).verdict) == (0.0, "matches")
    no_worse = measure_difference([[0.90, 0.901, 0.899]], [[0.905, 0.904, 0.906]])
    assert (no_worse.judge(-0.02).verdict, no_worse.judge(0.01).verdict) == ("matches", "differs")


def test_many_comparisons_and_few_seeds_need_a_larger_difference():
    sides = [[0.9, 0.92, 0.94]], [[0.8, 0.82, 0.78]]
    one, many = measure_difference(*sides), measure_difference(*sides, comparisons=50)
    assert 2 < one.reach < many.reach
    scattered = [0.1 * seed for seed in range(200)]
    assert measure_difference([scattered], [scattered]).reach == pytest.approx(2.0, abs=0.02)


def test_several_networks_count_as_their_mean():
    difference = measure_difference([[0.8, 0.9], [0.6, 0.7]], [[0.5, 0.5]])
    assert difference.gain == pytest.approx(0.25)
    assert difference.error == pytest.approx((2 * 0.005 / 2 / 4) ** 0.5)


def test_every_claim_says_how_its_range_was_chosen():
    for entry in registry.studies:
        for claim in entry.load().claims:
            assert claim.agreement is None or claim.agreement.chosen, (entry.name, claim.name)
            assert "prototype" not in str(claim.value) or claim.source.work == "mnemoscope", (entry.name, claim.name)
