"""Confidence intervals over sequences."""

import pytest
import torch

from mnemoscope.lenses.bootstrap import bootstrap_interval, interval_of_draws, wilson_interval


def values(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_mean_over_sequences_is_resampled_as_by_a_loop():
    samples = values(7, 2, 3)
    samples[2, 0, 1] = torch.nan
    low, high = bootstrap_interval(samples, draws=50, level=0.8, seed=4)
    rows = torch.randint(7, (50, 7), generator=torch.Generator().manual_seed(4))
    drawn = torch.stack([samples[chosen].nanmean(0) for chosen in rows])
    torch.testing.assert_close(low, torch.nanquantile(drawn, 0.1, dim=0))
    torch.testing.assert_close(high, torch.nanquantile(drawn, 0.9, dim=0))
    given = bootstrap_interval(samples, lambda part: part.nanmean(0), draws=50, level=0.8, seed=4)
    torch.testing.assert_close(given, (low, high))


def test_a_statistic_of_several_tensors_resamples_their_sequences_together():
    x = values(30)
    low, high = bootstrap_interval((x, 2 * x), lambda x, y: (x * y).sum() / x.square().sum(), draws=20)
    torch.testing.assert_close(low, torch.tensor(2.0).double())
    torch.testing.assert_close(high, torch.tensor(2.0).double())


def test_the_interval_of_a_mean_covers_it_as_often_as_it_promises():
    drawn = values(400, 40)
    intervals = [bootstrap_interval(row, draws=200, level=0.9, seed=number) for number, row in enumerate(drawn)]
    covered = sum(bool(low <= 0 <= high) for low, high in intervals) / len(intervals)
    assert 0.83 < covered < 0.94  # 0.9 with a standard error of 0.015, a little less by the small sample


def test_intervals_of_many_numbers_are_computed_in_parts(monkeypatch):
    drawn = values(20, 3, 4)
    drawn[3, 1] = torch.nan
    whole = interval_of_draws(drawn)
    monkeypatch.setattr("mnemoscope.lenses.bootstrap.MOST_ELEMENTS", 50)  # two columns of 20 draws at a time
    torch.testing.assert_close(interval_of_draws(drawn), whole)


def test_one_sequence_has_no_interval():
    assert all(bool(edge.isnan().all()) for edge in bootstrap_interval(values(1, 3), draws=5))


@pytest.mark.parametrize(
    ("samples", "options", "match"),
    [
        (torch.zeros(()), {}, "first dimension"),
        ((torch.zeros(3), torch.zeros(4)), {"statistic": lambda x, y: x}, "first dimension"),
        (torch.zeros(3), {"draws": 0}, "draws"),
        (torch.zeros(3), {"level": 1}, "level"),
        (torch.tensor([0.0, torch.inf]), {}, "infinite"),
    ],
)
def test_samples_and_options_that_give_no_interval_are_refused(samples, options, match):
    with pytest.raises(ValueError, match=match):
        bootstrap_interval(samples, **options)


def test_the_interval_of_a_share_solves_its_equation():
    p, n, z = 0.3, 20, 1.959963984540054
    for edge in wilson_interval(6, 20):  # |p - edge| = z standard errors, at the edge
        assert abs(abs(p - float(edge)) - z * float(edge * (1 - edge) / n) ** 0.5) < 1e-12
    low, high = wilson_interval(20, 20)
    assert float(low) < 1 == float(high)
