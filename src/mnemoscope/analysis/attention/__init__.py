"""Attention to the past: what is attended to and kept, and what the theory says of gradients."""

from mnemoscope.analysis.attention.bounds import scaled, sparse_bound, uniform_bound, uniform_exponent
from mnemoscope.analysis.attention.dependencies import Dependencies
from mnemoscope.analysis.attention.looking import Attention, attention_of
from mnemoscope.analysis.attention.paths import (
    chi,
    chi_of,
    linear_norms,
    omega,
    polynomial,
    sparse_uniform,
    theta,
)

__all__ = [
    "Attention",
    "Dependencies",
    "attention_of",
    "chi",
    "chi_of",
    "linear_norms",
    "omega",
    "polynomial",
    "scaled",
    "sparse_bound",
    "sparse_uniform",
    "theta",
    "uniform_bound",
    "uniform_exponent",
]
