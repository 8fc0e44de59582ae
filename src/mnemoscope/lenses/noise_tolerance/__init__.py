"""How much noise in its state a network tolerates before its answers fail."""

from mnemoscope.lenses.noise_tolerance.lens import measure_noise_tolerance as measure_noise_tolerance
from mnemoscope.lenses.noise_tolerance.result import NoiseTolerance as NoiseTolerance
