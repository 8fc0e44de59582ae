"""Products of the columns of a delay embedding, without the embedding.

A row of the embedding E holds the activity `x[t], x[t - interval], ...` of one step t. A product of two columns is a
sum over steps, `K(a, b) = sum of x[t - a] x[t - b]^T`. Increasing both lags by an interval moves the sum by an
interval: it gains the first steps of each trial and loses its last ones. Thus only the blocks with a = 0 or a = -1 need
all steps, and the cost grows linearly with the number of delays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mnemoscope.base.array_types import Float, Int

FEW = 500_000
"""Steps of all trials times columns squared up to which the embedding itself is multiplied, which is faster."""
Activity = Float[np.ndarray, "time trials units"]
Products = Float[np.ndarray, "dims dims"]


@dataclass(frozen=True)
class DelayProducts:
    """Products of the columns of a delay embedding E."""

    all: Products
    """`E^T E`, over all steps."""
    before: Products
    """`E-^T E-`, over all steps that are followed by another one."""
    following: Products
    """`E-^T E+`, with the rows of the next step."""


def embed_delays(activity: Activity, delays: int, interval: int = 1) -> Float[np.ndarray, "steps trials dims"]:
    """Return the activity of each step followed by that of earlier steps; NaN after the end of a trial.

    >>> embed_delays(np.arange(4.0).reshape(4, 1, 1), 2)[:, 0].tolist()
    [[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]]
    """
    check_steps(activity, delays, interval)
    reach, last = (delays - 1) * interval, len(activity)
    return np.concatenate([activity[reach - lag : last - lag] for lag in range(0, reach + 1, interval)], 2)


def delay_products(activity: Activity, delays: int, interval: int = 1) -> DelayProducts:
    """Return the products of the columns of `embed_delays(activity, delays, interval)`."""
    check_steps(activity, delays, interval)
    reach, size = (delays - 1) * interval, delays * activity.shape[2]
    activity, ends = _zeros_after_end(activity)
    if activity.shape[0] * activity.shape[1] * size**2 <= FEW:
        return _products_of_few(activity, ends, delays, interval)
    lags = np.arange(0, reach + 1, interval)
    last = _rows(activity, ends[None], lags)[ends >= reach]
    long = ends > reach  # trials in which a step has a row and a successor
    activity, ends = (activity, ends) if long.all() else (activity[:, long], ends[long])
    before, following = _first_blocks(activity, ends, lags)
    if delays > 1:
        _fill_along_diagonals(before, following, *_changes(activity, ends, lags[:-1], reach, interval))
    before, following = before.reshape(size, size), following.reshape(size, size)
    return DelayProducts(before + last.T @ last, before, following)


def is_finite(values: Float[np.ndarray, "..."]) -> bool:
    """Return whether all numbers are finite; their sum shows it in one pass, unless it overflows."""
    return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def check_steps(activity: Activity, delays: int, interval: int) -> None:
    """Raise an error if no trial has a row of the embedding and a step after it."""
    needed = (delays - 1) * interval + 2
    longest = len(activity) if is_finite(activity) else int((~np.isnan(activity).any(2)).sum(0).max())
    if longest < needed:
        raise ValueError(
            f"{delays} delays of {interval} steps need trials of {needed} steps or more, but the longest has "
            f"{longest}. Pass fewer delays."
        )


def _products_of_few(activity: Activity, ends: np.ndarray, delays: int, interval: int) -> DelayProducts:
    """Return the products by their definition."""
    reach, size = (delays - 1) * interval, delays * activity.shape[2]
    embedded = embed_delays(activity, delays, interval)
    before, after = embedded[:-1], embedded[1:].reshape(-1, size)
    if ends.min() < len(activity) - 1:
        steps = np.arange(reach, len(activity))[:, None]
        before = before * (steps[:-1] < ends)[:, :, None]
        embedded = embedded * (steps <= ends)[:, :, None]
    rows, before = embedded.reshape(-1, size), before.reshape(-1, size)
    return DelayProducts(rows.T @ rows, before.T @ before, before.T @ after)


def _zeros_after_end(activity: Activity) -> tuple[Activity, Int[np.ndarray, " trials"]]:
    """Return the activity with zeros after the end of each trial, and its last step; -1 for a trial without steps."""
    if is_finite(activity):
        return activity, np.full(activity.shape[1], len(activity) - 1)
    present = np.isfinite(activity.sum(2))
    return np.where(present[:, :, None], activity, 0.0), present.sum(0) - 1


def _rows(activity: Activity, steps: Int[np.ndarray, "steps trials"], lags: np.ndarray) -> np.ndarray:
    """Return rows of the embedding at given steps of each trial, (steps * trials, lags * units)."""
    places = np.maximum(steps[:, :, None] - lags, 0)
    rows = activity[places, np.arange(activity.shape[1])[:, None]]
    return rows.reshape(steps.size, -1)


def _first_blocks(activity: Activity, ends: np.ndarray, lags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `E-^T E-` and `E-^T E+`, (delays, units, delays, units), with only their first rows and columns filled."""
    reach, units, count = int(lags[-1]), activity.shape[2], len(activity) - 1 - int(lags[-1])
    now, after = activity[reach:-1], activity[reach + 1 :].reshape(-1, units)
    if ends.min() < len(activity) - 1:
        now = now * (np.arange(reach, reach + count)[:, None] < ends)[:, :, None]  # only where a step follows
    now = now.reshape(-1, units)
    needed, places = np.unique(np.concatenate([lags, lags - 1]), return_inverse=True)
    here, next_step = places[: len(lags)], places[len(lags) :]
    delayed = [activity[reach - lag : reach - lag + count].reshape(-1, units) for lag in needed]
    with_now = np.stack([now.T @ each for each in delayed])
    with_after = np.stack([delayed[place].T @ after for place in here])
    before = np.empty((len(lags), units, len(lags), units))
    following = np.empty_like(before)
    before[0], before[:, :, 0] = with_now[here].transpose(1, 0, 2), with_now[here].transpose(0, 2, 1)
    following[:, :, 0], following[0] = with_after, with_now[next_step].transpose(1, 0, 2)
    return before, following


def _changes(
    activity: Activity, ends: np.ndarray, lags: np.ndarray, reach: int, interval: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the products gain at the first steps and lose at the last ones if both lags grow by an interval."""
    steps = np.arange(interval)[:, None]
    first, last = np.broadcast_to(reach - interval + steps, (interval, len(ends))), ends - interval + steps
    gained, lost = (_rows(activity, each, lags) for each in (first, last))
    gained_after, lost_after = (_rows(activity, each + 1, lags) for each in (first, last))
    shape = (len(lags), activity.shape[2]) * 2
    before = (gained.T @ gained - lost.T @ lost).reshape(shape)
    return before, (gained.T @ gained_after - lost.T @ lost_after).reshape(shape)


def _fill_along_diagonals(
    before: np.ndarray, following: np.ndarray, change: np.ndarray, change_after: np.ndarray
) -> None:
    """Fill the remaining blocks in place, each from the one before it on its diagonal."""
    for place in range(len(change)):
        before[place + 1, :, 1:] = before[place, :, :-1] + change[place]
        following[place + 1, :, 1:] = following[place, :, :-1] + change_after[place]
