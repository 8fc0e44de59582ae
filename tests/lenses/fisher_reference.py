"""A slow reference for Fisher memory."""

import torch


def slow_curve(A, w, noise, lags):
    """Return J(k) from a sum over the past that has converged."""
    C, P = torch.zeros_like(A), noise.clone()
    for _ in range(4000):
        C, P = C + P, A @ P @ A.T
    signals, signal = [], w
    for _ in range(lags):
        signals.append(signal @ torch.linalg.solve(C, signal))
        signal = A @ signal
    return torch.stack(signals)
