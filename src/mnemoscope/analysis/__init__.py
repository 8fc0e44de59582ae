"""The lenses."""

from mnemoscope.analysis.dynamics import Dynamics

__all__ = ["Dynamics"]
