"""Ranges of agreement: how they are chosen, and what they decide."""

from collections import Counter
from dataclasses import replace
from math import inf
from random import Random
from statistics import mean, stdev

import pytest

from mnemoscope import registry
from mnemoscope.registry.citations import Source
from mnemoscope.replication import EVERYTHING, Claim
from mnemoscope.replication.agreement import as_printed, at_least, at_most, chosen, exactly
from mnemoscope.replication.differences import measure_difference
from mnemoscope.replication.verdicts import Obstacle


def test_a_printed_number_agrees_within_one_unit_of_its_last_digit_or_its_spread():
    near = as_printed("1.47")
    assert (near.low, near.high, near.chosen) == (1.46, 1.48, "one unit of the last printed digit")
    wide = as_printed("94.7%", deviation=5.4, seeds=9, high=1.0)
    assert (wide.low, wide.high, wide.chosen) == (0.893, 1.0, "the published spread")
    assert (wide.published, wide.error, wide.deviation) == pytest.approx((0.947, 0.018, 0.054))
    assert as_printed("1.47", error=0.03).low == 1.44
    assert as_printed("1.47", error=0.03).deviation is None  # of an unknown number of networks
    assert as_printed("49.9%", error=0.05).low == pytest.approx(0.498)  # the digit is wider than the spread
    assert (as_printed("12%").low, as_printed("12%").high) == (0.11, 0.13)
    with pytest.raises(ValueError, match="no number with a last digit"):
        as_printed("inf")
    with pytest.raises(ValueError, match="needs the number of seeds"):
        as_printed("94.7%", deviation=5.4)


def test_a_range_says_how_it_was_chosen_and_reads_well():
    for low, high, how in ((1.0, 0.0, "reversed"), (0.0, 1.0, "")):
        with pytest.raises(ValueError, match="needs low <= high and how it was chosen"):
            chosen(low, high, how)
    ranges = (exactly(8), at_most(2, "x"), at_least(-1, "x"), chosen(1, 2, "x"), chosen(-inf, inf, "x"))
    assert list(map(str, ranges)) == ["8", "at most 2", "at least -1", "1 to 2", "any value"]


def accuracy(agreement, **options):
    return Claim(EVERYTHING, "accuracy", "90%", Source("jang"), agreement, "higher", **options)


def test_the_mean_is_compared_with_a_printed_mean_and_each_network_with_a_count():
    published = accuracy(as_printed("90%", deviation=2.0, seeds=10, high=1.0))
    assert published.judge([0.85, 0.95, 0.89, 0.9, 0.91]).verdict == "matches"
    assert published.judge([0.85, 0.855, 0.845]).verdict == "worse"
    assert replace(published, reason="a misprint").judge([0.97, 0.975, 0.965]).verdict == "better"
    assert replace(published, reason="a misprint").judge([0.85, 0.855, 0.845]).reason == "a misprint"
    assert replace(published, better=None).judge([0.85, 0.855, 0.845]).verdict == "differs"
    row = published.compare("accuracy", [0.85, 0.95, 0.9], "85%, 95%, 90%")
    assert (row.successes, row.standard_error) == (1, pytest.approx(0.02887, abs=1e-5))
    assert row.interval == pytest.approx((0.7693, 1.0), abs=1e-4)  # at most 1
    each = replace(published, agreement=exactly(8))
    assert str(each.judge([8, 7])) == "matches in 1 of 2"
    assert str(each.judge([8, 8], diverged=1)) == "matches in 2 of 3"
    one = each.compare("points", [8], "8")
    assert (one.standard_error, one.interval) == (None, None)
    assert each.compare("points", [8, inf], "8, inf").standard_error is None
    assert published.compare("accuracy", [0.9, 0.9, inf], "inf").interval is None


def test_a_mean_outside_of_the_range_is_compatible_within_the_scatter_of_enough_seeds():
    published = accuracy(as_printed("90%", deviation=2.0, seeds=10))
    scattered = [0.6, 0.95, 0.98, 0.8, 0.9]
    assert published.judge(scattered).verdict == "compatible"
    failing = published.judge(scattered, diverged=1)  # without a count of networks that match
    assert (str(failing), failing.matching) == ("in part", None)
    assert failing.reason == (
        "the mean of the others is compatible, but outside of the range; 1 of 6 did not stay finite"
    )
    fewer = published.judge(scattered[:4])
    assert (fewer.obstacle, fewer.reason) == (
        "the seeds do not decide it",
        "4 of 5 networks; others may give 0.545 to 1.12",
    )
    assert published.judge([0.899, 0.9, 0.901]).verdict == "matches"  # their whole interval is in the range
    assert accuracy(as_printed("90%", deviation=2.0, seeds=3)).judge([0.85, 0.95, 0.9]).verdict == "matches"
    far = accuracy(as_printed("0.002", error=0.001))
    assert far.judge([1.57, 0.04, 1.09, 0.03, 0.26]).verdict == "better"  # five on one side, whatever their scatter
    assert far.judge([1.57, 0.002, 1.09, 0.03, 0.26]).verdict == "compatible"


def test_few_networks_are_judged_by_the_published_scatter_or_not_at_all():
    published = accuracy(as_printed("90%", deviation=2.0, seeds=10))
    assert published.judge([0.80]).verdict == "worse"
    assert published.judge([0.86]).reason == "one network of 5, below the range"
    assert (
        published.judge([0.75, 0.96]).reason == "two networks of 5, below the range"
    )  # they scatter more than 2 points
    assert published.judge([0.91, 0.95]).reason == "two networks of 5, above the range"
    rounded = accuracy(as_printed("90%", deviation=0.0, seeds=10))  # a deviation below the last digit
    assert (rounded.judge([0.92]).obstacle, rounded.judge([0.93]).verdict) == (Obstacle.TOO_FEW, "better")
    unknown = accuracy(as_printed("90%"))
    assert (unknown.judge([0.9]).obstacle, unknown.judge([0.1]).obstacle) == (Obstacle.TOO_FEW,) * 2
    assert unknown.judge([0.9]).reason == "one network of 5, in the range"
    assert unknown.judge([0.97, 0.97, 0.97]).verdict == "better"
    assert unknown.judge([0.92, 0.92, 0.92]).obstacle == Obstacle.UNDECIDED  # the source may scatter by its last digit
    assert replace(unknown, by_construction=True).judge([0.9]).verdict == "matches"


@pytest.mark.parametrize(("networks", "published"), [(5, 10), (3, 10), (1, 10), (5, 1)])
def test_networks_like_the_published_ones_seldom_differ_and_others_do(networks, published):
    random = Random(0)

    def judge(shift):
        source, ours = ([random.gauss(0.5, 0.05) for _ in range(number)] for number in (published, networks))
        spread = {"deviation": 100 * stdev(source), "seeds": published} if published > 1 else {}
        printed = as_printed(f"{100 * mean(source):.1f}%", **spread)
        return accuracy(printed).judge([each + shift * 0.05 for each in ours]).verdict.value

    draws = 400
    same, other = (Counter(judge(shift) for _ in range(draws)) for shift in (0, 3))
    assert same["better"] + same["worse"] < 0.07 * draws  # 4.6% and three standard errors of 400 draws
    assert other["matches"] + other["worse"] <= 0.01 * draws
    if published > 1 and networks >= 5:
        assert same["matches"] > 0.85 * draws
        assert other["better"] > 0.98 * draws
    else:
        assert other["better"] > 0.4 * draws


def test_the_best_of_three_is_compared_with_the_best_of_any_three_of_ours():
    published = accuracy(as_printed("0.971", seeds=3, high=1.0, best=True))
    assert published.judge([0.3, 0.971, 0.5]).verdict == "matches"
    assert published.judge([0.3, 0.972, 0.4, 0.5]).verdict == "compatible"  # one best is 0.5
    assert published.judge([0.3, 0.31, 0.32]).verdict == "worse"
    assert published.judge([0.971, 0.97]).obstacle == Obstacle.TOO_FEW
    assert published.compare("accuracy", [0.3, 0.971, 0.5], "0.971").interval is None  # that of a mean says nothing
    with pytest.raises(ValueError, match="needs their number"):
        as_printed("0.971", best=True)


def test_the_best_of_fewer_networks_than_published_is_not_compared():
    """The best of 10 networks may be well above that of 5."""
    published = accuracy(as_printed("0.971", seeds=10, high=1.0, best=True))
    judgement = published.judge([0.3, 0.31, 0.32, 0.3, 0.31])
    assert (judgement.obstacle, judgement.reason) == (Obstacle.TOO_FEW, "the best of 5 networks, and not of 10")
    assert published.judge([0.3, 0.31, 0.32, 0.3, 0.31] * 2).verdict == "worse"


@pytest.mark.parametrize("networks", [3, 6])
def test_the_best_of_networks_like_the_published_ones_seldom_differs_and_of_others_does(networks):
    random, draws = Random(0), 400

    def judge(shift):
        source, ours = ([random.gauss(0.5, 0.05) for _ in range(number)] for number in (3, networks))
        printed = as_printed(f"{max(source):.3f}", seeds=3, best=True)
        return accuracy(printed).judge([each + shift * 0.05 for each in ours]).verdict.value

    same, other = (Counter(judge(shift) for _ in range(draws)) for shift in (0, 10))
    assert same["better"] + same["worse"] < 0.07 * draws
    assert other["better"] > 0.5 * draws
    assert other["matches"] + other["worse"] == 0


def test_a_range_that_holds_chance_is_not_compared():
    claim = accuracy(as_printed("50.3%", deviation=0.5, seeds=10), chance=0.5)
    guesses = [0.503, 0.5, 0.497, 0.502, 0.503]
    judgement = claim.judge(guesses)
    assert (judgement.verdict, judgement.obstacle) == ("not compared", "agreement is also reached by chance")
    assert "0.5" in judgement.reason
    assert claim.judge(guesses, learner=True).verdict == "matches"
    assert replace(claim, chance=0.4).judge(guesses).verdict == "matches"
    assert claim.judge([0.56, 0.561]).reason == "neither is much above chance, 0.5"
    narrow = accuracy(as_printed("52.2%"), chance=0.5)
    assert narrow.judge([0.49, 0.5, 0.51, 0.52, 0.53]).reason == "neither is much above chance, 0.5"  # not compatible
    assert claim.judge([0.56, 0.561, 0.562]).verdict == "better"  # above a guess by more than the seeds scatter
    assert claim.judge([0.7, 0.71, 0.72]).verdict == "better"  # a guess is no reason to hide it
    wide = accuracy(as_printed("60%", deviation=18.0, seeds=10), chance=0.5)
    assert wide.judge([0.6, 0.61, 0.59, 0.6, 0.6]).verdict == "matches"  # clearly no guess
    assert wide.judge([0.9, 0.5, 0.4, 0.6, 0.6], learner=True).obstacle == "agreement is also reached by chance"


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
