"""Attention to the past: what is attended to and kept, and what the theory says of gradients."""

from mnemoscope.lenses.attention.bounds import scaled, sparse_bound, uniform_bound, uniform_exponent
from mnemoscope.lenses.attention.dependencies import AttentionDependencies
from mnemoscope.lenses.attention.lens import Attention, record_attention
from mnemoscope.lenses.attention.paths import (
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
    "AttentionDependencies",
    "chi",
    "chi_of",
    "linear_norms",
    "omega",
    "polynomial",
    "record_attention",
    "scaled",
    "sparse_bound",
    "sparse_uniform",
    "theta",
    "uniform_bound",
    "uniform_exponent",
]
