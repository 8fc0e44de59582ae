"""Products of the columns of a delay embedding, without the embedding.

A row of the embedding E holds the activity `x[t], x[t - interval], ...` of one step t. A product of two columns is a
sum over steps: `E^T E` has the blocks `sum of x[t - a] x[t - b]^T`. Increasing both lags by an interval moves the sum
by an interval: it gains early steps of each trial and loses late ones. Thus only the blocks with a = 0 or b = 0 need
all steps, `S(lag) = sum of x[t] x[t - lag]^T`, and the cost grows linearly with the number of delays. Products with
the next step, `sum of x[t - a] x[t + 1 - b]^T`, are made of the same sums. Views of the activity suffice for them, so
that the embedding itself is written only where it is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mnemoscope.base.array_types import Float, Int

FEW = 500_000
"""Steps of all trials times columns squared up to which the embedding itself is multiplied, which is faster."""
Activity = Float[np.ndarray, "time trials units"]
Products = Float[np.ndarray, "systems dims dims"]
Blocks = Float[np.ndarray, "systems delays units delays units"]
"""The same products, by lag and unit."""
Rows = Float[np.ndarray, "systems steps trials delays units"]
"""Rows of the embedding, by lag and unit."""


@dataclass(frozen=True)
class DelayProducts:
    """Products of the columns of the delay embedding E of each system."""

    all: Products
    """`E^T E`, over all steps."""
    last: Float[np.ndarray, "systems trials dims"]
    """The rows of E that no other follows: those of the last step of each trial, 0 for a trial without rows."""
    following: Products
    """`E-^T E+`, the rows that are followed by another one with the rows of the next step."""


def embed_delays(activity: Activity, delays: int, interval: int = 1) -> Float[np.ndarray, "steps trials dims"]:
    """Return the activity of each step followed by that of earlier steps; NaN after the end of a trial.

    >>> embed_delays(np.arange(4.0).reshape(4, 1, 1), 2)[:, 0].tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """
    finite, reach, last = is_finite(activity), (delays - 1) * interval, len(activity)
    _check_longest(last if finite else int((~np.isnan(activity).any(2)).sum(0).max()), delays, interval)
    return np.concatenate([activity[reach - lag : last - lag] for lag in range(0, reach + 1, interval)], 2)


def delay_products(systems: Sequence[Activity], delays: int, interval: int = 1) -> DelayProducts:
    """Return the products of the columns of `embed_delays(activity, delays, interval)` of systems of the same shape."""
    _, trials, units = systems[0].shape
    reach, size = (delays - 1) * interval, delays * units
    if len(systems[0]) * trials * size**2 <= FEW and all(map(is_finite, systems)):
        return _products_of_few(systems, delays, interval)
    lags = np.arange(0, reach + 1, interval)
    systems, ends = zip(*map(_zeros_after_end, systems), strict=True)
    _check_longest(min(int(each.max()) for each in ends) + 1, delays, interval)
    around = np.arange(interval + 1)[:, None]
    first = np.full(trials, reach - interval) + around
    early = np.stack([_rows(each, first, lags) for each in systems])  # to the first row
    late = np.stack([_rows(each, end - interval + 1 + around, lags) for each, end in zip(systems, ends, strict=True)])
    early[:, -2, :, -1] = late[:, -1, :, 0] = 0.0  # before the first step, and after the last one
    for number, end in enumerate(ends):
        if end.min() < reach:  # trials without a row
            early[number, :, end < reach] = late[number, :, end < reach] = 0.0
    products, following = _first_blocks(systems, lags.tolist(), early)
    if delays > 1:
        _fill_along_diagonals(products, following, early[:, :, :, :-1], late[:, :, :, :-1])
    shape = (len(systems), size, size)
    last, beyond = (late[:, step].reshape(-1, trials, size) for step in (-2, -1))
    return DelayProducts(products.reshape(shape), last, following.reshape(shape) - last.mT @ beyond)


def is_finite(values: Float[np.ndarray, "..."]) -> bool:
    """Return whether all numbers are finite; their sum shows it in one pass, unless it overflows."""
    return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def _check_longest(longest: int, delays: int, interval: int) -> None:
    """Raise an error if the longest trial has no row of the embedding with a step after it."""
    needed = (delays - 1) * interval + 2
    if longest < needed:
        raise ValueError(
            f"{delays} delays of {interval} steps need trials of {needed} steps or more, but the longest has "
            f"{longest}. Pass fewer delays."
        )


def _products_of_few(systems: Sequence[Activity], delays: int, interval: int) -> DelayProducts:
    """Return the products by their definition, for trials of equal length."""
    (time, trials, units), reach = systems[0].shape, (delays - 1) * interval
    _check_longest(time, delays, interval)
    size, number = delays * units, len(systems)
    embedded = np.empty((time - reach, trials, delays, units))  # reused by all systems: new memory takes time
    rows, last = embedded.reshape(-1, size), np.empty((number, trials, size))
    products, following = np.empty((2, number, size, size))
    for each, activity in enumerate(systems):
        for place in range(delays):
            embedded[:, :, place] = activity[reach - place * interval : time - place * interval]
        products[each], last[each], following[each] = rows.T @ rows, rows[-trials:], rows[:-trials].T @ rows[trials:]
    return DelayProducts(products, last, following)


def _zeros_after_end(activity: Activity) -> tuple[Activity, Int[np.ndarray, " trials"]]:
    """Return the activity with zeros after the end of each trial, and its last step; -1 for a trial without steps."""
    if is_finite(activity):
        return activity, np.full(activity.shape[1], len(activity) - 1)
    present = np.isfinite(activity.sum(2))
    return np.where(present[:, :, None], activity, 0.0), present.sum(0) - 1


def _rows(activity: Activity, steps: Int[np.ndarray, "steps trials"], lags: np.ndarray) -> np.ndarray:
    """Return rows of the embedding at given steps of each trial; steps that no trial has count as its ends."""
    places = np.minimum(np.maximum(steps[:, :, None] - lags, 0), len(activity) - 1)
    return activity[places, np.arange(activity.shape[1])[:, None]]


def _first_blocks(systems: Sequence[Activity], lags: list[int], early: Rows) -> tuple[Blocks, Blocks]:
    """Return `E^T E`, and `E^T` with the rows of the next step, with only their first rows and columns filled.

    The activity is 0 after the end of a trial, so that the next step of its last row counts as 0 at lag 0.
    """
    _, trials, units = systems[0].shape
    needed = {each + more for each in lags for more in (-1, 0, 1)} - {-1}
    sums = {lag: np.stack([_lagged(each, lags[-1], lag) for each in systems]) for lag in needed}
    # The sums of the next step begin one step later.
    before_first = early[:, -1, :, 0].mT @ early[:, -2].reshape(len(systems), trials, -1)
    products, following = np.empty((2, len(systems), len(lags), units, len(lags), units))
    for place, lag in enumerate(lags):
        products[:, 0, :, place], products[:, place, :, 0] = sums[lag], sums[lag].mT
        following[:, place, :, 0] = (sums[lag + 1] - before_first[:, :, place * units : (place + 1) * units]).mT
        if place:
            following[:, 0, :, place] = sums[lag - 1]
    return products, following


def _lagged(activity: Activity, reach: int, lag: int) -> Float[np.ndarray, "units units"]:
    """Return the sum of `x[t] x[t - lag]^T` over the steps from `reach`, or from `lag` if it is larger."""
    now, before = activity[max(reach, lag) :], activity[max(reach - lag, 0) : len(activity) - lag]
    return now.reshape(-1, activity.shape[2]).T @ before.reshape(-1, activity.shape[2])


def _fill_along_diagonals(products: Blocks, following: Blocks, early: np.ndarray, late: np.ndarray) -> None:
    """Fill the remaining blocks in place, each from the one before it on its diagonal.

    It gains the rows of early steps and loses those of late ones.
    """
    number, _, _, delays, units = early.shape
    gained, gained_after, lost, lost_after = (
        rows.reshape(number, -1, delays * units) for each in (early, late) for rows in (each[:, :-1], each[:, 1:])
    )
    shape = (number, delays, units, delays, units)
    change = (gained.mT @ gained - lost.mT @ lost).reshape(shape)
    change_after = (gained.mT @ gained_after - lost.mT @ lost_after).reshape(shape)
    for place in range(delays):
        products[:, place + 1, :, 1:] = products[:, place, :, :-1] + change[:, place]
        following[:, place + 1, :, 1:] = following[:, place, :, :-1] + change_after[:, place]
