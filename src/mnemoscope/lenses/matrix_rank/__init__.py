"""The rank that a trained recurrent matrix needs for a task."""

from mnemoscope.lenses.matrix_rank.lens import measure_rank as measure_rank
from mnemoscope.lenses.matrix_rank.result import RankScores as RankScores
