"""Memory design: the network that holds most information about its past signals under constraints."""

from mnemoscope.lenses.design.lens import design_memory as design_memory
from mnemoscope.lenses.design.result import MemoryDesign as MemoryDesign
