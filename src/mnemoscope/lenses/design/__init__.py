"""Memory design: the network that holds most information about its past signals under constraints."""

from mnemoscope.lenses.design.lens import design_memory
from mnemoscope.lenses.design.result import MemoryDesign

__all__ = ["MemoryDesign", "design_memory"]
