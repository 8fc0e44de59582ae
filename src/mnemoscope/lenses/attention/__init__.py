"""Attention to the past: which states a network attends to and keeps, and the theory of its gradients."""

from mnemoscope.lenses.attention.bounds import scaled, sparse_bound, uniform_bound, uniform_exponent
from mnemoscope.lenses.attention.lens import record_attention
from mnemoscope.lenses.attention.paths import (
    chi,
    chi_of,
    linear_norms,
    omega,
    polynomial,
    sparse_uniform,
    theta,
)
from mnemoscope.lenses.attention.result import Attention, AttentionDependencies

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
