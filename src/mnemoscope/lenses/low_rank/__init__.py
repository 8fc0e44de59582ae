"""Low-rank networks: latent variables, mean fields, populations, and the rank that a task needs."""

from mnemoscope.lenses.low_rank.latent_cell import LatentCell as LatentCell
from mnemoscope.lenses.low_rank.lens import measure_reduction as measure_reduction
from mnemoscope.lenses.low_rank.reduction import mean_field as mean_field, reduce_network as reduce_network
from mnemoscope.lenses.low_rank.result import Reduction as Reduction
