"""MiniGrid rooms as tensors: all copies of a room take a step at the same time, on a CPU or a GPU.

MiniGrid itself generates the levels, or they are drawn with the same distribution. Its rules are repeated here for the
rooms of `rules.RULES`.
"""

from mnemoscope.training.reinforcement.grid.draws import draw_levels as draw_levels
from mnemoscope.training.reinforcement.grid.levels import (
    Levels as Levels,
    Release as Release,
    generate_levels as generate_levels,
)
from mnemoscope.training.reinforcement.grid.rooms import (
    BatchedRoom as BatchedRoom,
    DrawnRooms as DrawnRooms,
    GridRooms as GridRooms,
)
