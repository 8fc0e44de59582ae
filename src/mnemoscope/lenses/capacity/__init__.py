"""Linear memory capacity: how well linear readouts of the state recover past signals."""

from mnemoscope.lenses.capacity.lens import memory_capacity as memory_capacity
from mnemoscope.lenses.capacity.measurement import measure_memory_capacity as measure_memory_capacity
from mnemoscope.lenses.capacity.result import MemoryCapacity as MemoryCapacity
