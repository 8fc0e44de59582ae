"""Attention to the past: which states a network attends to and keeps, and the theory of its gradients."""

from mnemoscope.lenses.attention.bounds import (
    scaled as scaled,
    sparse_bound as sparse_bound,
    uniform_bound as uniform_bound,
    uniform_exponent as uniform_exponent,
)
from mnemoscope.lenses.attention.lens import record_attention as record_attention
from mnemoscope.lenses.attention.paths import (
    chi as chi,
    chi_of as chi_of,
    linear_norms as linear_norms,
    omega as omega,
    polynomial as polynomial,
    sparse_uniform as sparse_uniform,
    theta as theta,
)
from mnemoscope.lenses.attention.result import Attention as Attention, AttentionDependencies as AttentionDependencies
