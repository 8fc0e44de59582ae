"""Gradients of a linear recurrent network with attention, as a polynomial in its matrix (Kerg, B.1).

For `h_{t+1} = V s_t + U x_{t+1} + b`, `s_t = h_t + sum_i alpha_{i,t} h_i`, with weights through which no
gradient passes, each path from h_t to s_{t+k} over s hidden states contributes V^s times the product of its weights
(Proposition B.1.7). Hence

    ds_{t+k} / dh_t = sum_s V^s chi_{0:k}(s)                                            (B.1.116)

The printed sums run over all subsets of the steps between. Here each is computed by a recursion over k in which all
terms are positive, so that nothing cancels. Steps are numbered from 1, as in the source.

Corrections to the print: `J_k` is dh_{k+1} / ds_k (Proposition 4.4.1), not the derivative of Lemma B.1.2; the
second factor of B.1.18 is `F_{i_s, i_{s-1}}`; and the convention `theta_{l:k}(0) = 1` is also needed for l = k, where
B.1.183 and B.1.215 are used with k = 1 and with k = s.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Float, Inexact


def omega(t: int, k: int, most: int, start: int = 0) -> Float[Tensor, " orders"]:
    """Return the sums omega_{l:k}(s) of products of s distinct `1 / (t + i)`, l <= i < k, for s = 0 ... most (B.1.121).

    l is `start`. These are the elementary symmetric polynomials; each further factor extends them by one term.

    >>> omega(1, 3, 2)  # 1 + 1/2 + 1/3, and 1/2 + 1/3 + 1/6
    tensor([1.0000, 1.8333, 1.0000], dtype=torch.float64)
    """
    _check(t, k, most)
    sums = _unit(most + 1)
    for i in range(start, k):
        sums = sums + _shifted(sums) / (t + i)
    return sums


def theta(t: int, k: int, most: int, start: int = 0) -> Float[Tensor, " orders"]:
    """Return the sums theta_{l:k}(s) over tuples of steps, s = 0 ... most, l = `start` (B.1.122); 1 for s = 0.

    A tuple ends at some i_s = i, and its other elements are a path from 0 to i: `theta_{0:k}(s) = sum_{i < k}
    chi_{0:i}(s - 1)`.
    """
    _check(t, k, most)
    return _unit(most + 1) + _shifted(_uniform(t, k, most + 1, start)[1])


def chi(t: int, k: int, most: int | None = None) -> Float[Tensor, " orders"]:
    """Return the coefficients chi_{0:k}(s), s = 0 ... most (or k), of uniform attention, `alpha = 1 / t` (B.1.117).

    A path to s_{t+k} comes from any earlier s_{t+i} by attention, with weight 1 / (t + k), or from the previous one by
    recurrence, with weight 1: `chi_{0:k}(s) = theta_{0:k}(s) / (t + k) + chi_{0:k-1}(s - 1)`. The cost is O(k s).

    >>> chi(1, 1)  # ds_2/dh_1: 1/2 by attention, and (1 + 1/2) V (1 + 1) through h_2
    tensor([0.5000, 3.0000], dtype=torch.float64)
    """
    most = k if most is None else most
    _check(t, k, most)
    before, total = _uniform(t, k, most + 1)
    weight = 1 / (t + k)
    one = _unit(most + 1)
    return weight * (one + _shifted(total)) + (_shifted(before) if k else one)


def chi_of(weights: Float[Tensor, "time time"], t: int, k: int, most: int | None = None) -> Float[Tensor, " orders"]:
    """Return the coefficients chi_{0:k}(s) of any weights (B.1.274 for sparse ones), at a cost of O(k^2 s).

    The rows of `weights` are the steps that attend, the columns the states.

    `chi_{0:k}(s) = sum_{j < k} (alpha_{t+j+1, t+k} + 1_{j = k-1}) chi_{0:j}(s - 1)`, `chi_{0:k}(0) = alpha_{t, t+k} +
    1_{k = 0}`.
    """
    most = k if most is None else most
    _check(t, k, most)
    if weights.dim() != 2 or weights.shape[0] != weights.shape[1] or len(weights) < t + k:
        raise ValueError(
            f"Weights of at least {t + k} steps are needed, (time, time), but their shape is {tuple(weights.shape)}."
        )
    paths = weights.new_zeros(k + 1, most + 1)
    for i in range(k + 1):
        at = weights[t + i - 1]  # steps are numbered from 1
        paths[i, 0] = at[t - 1] + (i == 0)
        if i:
            paths[i, 1:] = at[t : t + i] @ paths[:i, :-1] + paths[i - 1, :-1]
    return paths[k]


def sparse_uniform(attended: Bool[Tensor, "time time"]) -> Float[Tensor, "time time"]:
    """Return the kappa-sparse uniform attention of B.1.4: `1 / kappa_t` on the states that step t attends to."""
    number = attended.sum(1, keepdim=True)
    if not bool(number.all()):
        empty = int((number.squeeze(1) == 0).nonzero()[0])
        raise ValueError(f"Every step must attend to at least one state, but step {empty} attends to none.")
    return attended.double() / number


def polynomial(V: Inexact[Tensor, "size size"], coefficients: Float[Tensor, " orders"]) -> Inexact[Tensor, "size size"]:
    """Return `sum_s V^s chi(s)`, by Horner's rule."""
    eye = torch.eye(len(V), dtype=V.dtype, device=V.device)
    total = torch.zeros_like(V)
    for coefficient in coefficients.flip(0):
        total = V @ total + coefficient * eye
    return total


def linear_norms(
    V: Float[Tensor, "size size"], weights: Float[Tensor, "time time"], scale: float = 1.0
) -> Float[Tensor, " time"]:
    """Return `|ds_T / dh_t|` (Frobenius) of the linear network at every t, with T the last step, in one backward pass.

    `ds_T/dh_t = scale (ds_T/ds_t + sum_{i >= t} alpha_{t,i} ds_T/ds_i)`, `ds_T/ds_t = ds_T/dh_{t+1} V`.

    Args:
        V: the recurrent matrix.
        weights: a row for each step that attends, a column for each state.
        scale: the factor in `s = scale (h + c)`; 1 in the source.

    """
    length, size = len(weights), len(V)
    V, weights = V.double(), weights.double()
    into_s = V.new_zeros(length, size, size)
    into_s[-1] = torch.eye(size, dtype=V.dtype)
    norms = V.new_zeros(length)
    for t in reversed(range(length)):
        into_h = scale * (into_s[t] + torch.tensordot(weights[t:, t], into_s[t:], 1))
        norms[t] = into_h.norm()
        if t:
            into_s[t - 1] = into_h @ V
    return norms


def _uniform(t: int, k: int, orders: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """Return chi_{l:i} of the last i < k, and the sum over all i."""
    last = total = torch.zeros(orders, dtype=torch.float64)
    one = _unit(orders)
    for i in range(start, k):
        begins = 1.0 if i == 0 else 0.0  # h_t itself
        last = (one + _shifted(total)) / (t + i) + _shifted(last) + begins * one
        total = total + last
    return last, total


def _shifted(values: Tensor) -> Tensor:
    """Move each order to the next higher one."""
    return torch.cat([values.new_zeros(1), values[:-1]])


def _unit(orders: int) -> Tensor:
    one = torch.zeros(orders, dtype=torch.float64)
    one[0] = 1.0
    return one


def _check(t: int, k: int, most: int) -> None:
    if t < 1 or k < 0 or most < 0:
        raise ValueError(f"t must be 1 or more, and k and s 0 or more, but t is {t}, k is {k} and s goes up to {most}.")
