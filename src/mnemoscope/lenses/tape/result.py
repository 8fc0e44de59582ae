"""Results of the tape lens: a recorded tape, and the fixed points at which all slots are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mnemoscope.base.array_types import Bool, Complex, Float, Int
from mnemoscope.lenses.fixed_points.result import MARGIN, FixedPoints
from mnemoscope.lenses.result import Result


@dataclass(frozen=True, repr=False)
class Tape(Result):
    """Contents of a tape and positions of its heads (Graves et al. 2014, Fig 6; Renanse et al. 2021, Fig 6 and 8).

    >>> from mnemoscope.lenses.tape import record_tape
    >>> from mnemoscope.networks import ntm
    >>> tape = record_tape(ntm(3, 8, slots=6, slot_size=4), torch.randn(9, 2, 3))
    >>> tape.memory.shape, tape.write_weights.shape
    (torch.Size([9, 2, 6, 4]), torch.Size([9, 2, 1, 6]))
    """

    noun: ClassVar[str] = "a tape"
    drawn_by: ClassVar[str] = "draw_tape"

    inputs: Float[Tensor, "time batch features"]
    outputs: Float[Tensor, "time batch outputs"]
    memory: Float[Tensor, "time batch slots ..."]
    """Contents of every slot after each step."""
    added: Float[Tensor, "time batch writers ..."]
    """The add vector (or matrix) of each write head."""
    write_weights: Float[Tensor, "time batch writers slots"]
    read_weights: Float[Tensor, "time batch readers slots"]
    taken: Bool[Tensor, "time batch"] | None = None
    """False where a sequence has no input: nothing is written or read there, and weights are NaN. None if all
    sequences have an input at every step."""

    def __len__(self) -> int:
        """Return the number of steps of the longest sequence."""
        return self.inputs.shape[0]

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.inputs.shape[1]

    @property
    def sharpness(self) -> tuple[float, float]:
        """Mean over steps of the largest weight of a write head and of a read head: 1 if each uses a single slot."""
        return float(self.write_weights.amax(-1).nanmean()), float(self.read_weights.amax(-1).nanmean())

    def summary(self) -> str:
        write, read = self.sharpness
        fewest = "" if self.taken is None else f"{int(self.taken.sum(0).min())} to "
        return (
            f"{self.batch} sequence{'s' if self.batch > 1 else ''} of {fewest}{len(self)} steps on "
            f"{self.memory.shape[2]} slots. On average, the largest weight of a head is {write:.2f} when it writes and "
            f"{read:.2f} when it reads."
        )


@dataclass(frozen=True, repr=False)
class UniformFixedPoints(Result):
    """Fixed points of a machine at which all slots are equal, and their stability.

    A perturbation that is equal in all slots stays equal. Any other is a sum of waves around the ring of slots, and
    the waves do not mix. So all multipliers of the full state follow without its Jacobian.
    """

    noun: ClassVar[str] = "fixed points on a uniform tape"
    drawn_by: ClassVar[str] = "draw_multipliers"

    reduced: FixedPoints
    """Fixed points of `UniformTape`: the controller and one slot."""
    wave_multipliers: Complex[Tensor, "points waves numbers"]
    """Multipliers of waves 1, 2, ... around the tape, for the contents of a slot and the weights of all heads; the
    largest first."""
    size: int
    """Numbers in the state of the machine; the multipliers not listed here are 0."""

    def __len__(self) -> int:
        return len(self.reduced)

    @property
    def unstable_waves(self) -> Int[Tensor, " points"]:
        """Number of directions in which slots diverge from each other; `reduced.unstable` counts the other ones."""
        return (self.wave_multipliers.abs().log() > MARGIN).sum((1, 2))

    @property
    def unstable(self) -> Int[Tensor, " points"]:
        """Number of unstable directions of each point in the full state of the machine."""
        return self.reduced.unstable.to(self.unstable_waves) + self.unstable_waves

    @property
    def largest(self) -> Float[Tensor, "points 2"]:
        """Largest multiplier of perturbations that are equal in all slots, and of those that are not."""
        waves = torch.nn.functional.pad(self.wave_multipliers.abs().flatten(1), (1, 0))  # a single slot has no waves
        return torch.stack([self.reduced.eigenvalues.abs().amax(1), waves.amax(1)], 1)

    def summary(self) -> str:
        state = f"in a state of {self.size:,} numbers"
        others = "Fixed points with unequal slots were not searched for."
        if not len(self):
            return (
                f"No fixed point with equal slots was found {state}: the search missed it, or the machine never rests. "
                f"{others}"
            )
        stable = int((self.unstable == 0).sum())
        if len(self) == 1:
            found = f"1 fixed point with equal slots was found {state}; it is {'stable' if stable else 'not stable'}."
        else:
            found = f"{len(self)} fixed points with equal slots were found {state}; {stable or 'none'} of them stable."
        equal, unequal = self.largest[int(self.unstable.argmin())].tolist()
        multipliers = (
            f"At {'the most stable one' if len(self) > 1 else 'this point'}, a step multiplies the least stable "
            f"perturbation by {equal:.4g} if it is equal in all slots, and by {unequal:.4g} if it is not."
        )
        return f"{found} {multipliers} {self.reduced.completeness} {others}"
