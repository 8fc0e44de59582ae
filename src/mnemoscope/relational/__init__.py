"""Networks that compare objects: an encoder, context normalisation, and what answers from there."""

from mnemoscope.relational.abstractor import Abstractor
from mnemoscope.relational.comparing import Comparing, Scores
from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.encoder import Encoder
from mnemoscope.relational.esbn import ESBN
from mnemoscope.relational.mnm import MNM
from mnemoscope.relational.network import RelationalModel, Sized, Sizes
from mnemoscope.relational.predinet import PrediNet
from mnemoscope.relational.recurrent import Recurrent
from mnemoscope.relational.relation_network import RelationNetwork
from mnemoscope.relational.scenes import Scenes
from mnemoscope.relational.solver import Solver
from mnemoscope.relational.transformer import Transformer

__all__ = [
    "ESBN",
    "MNM",
    "Abstractor",
    "CoRelNet",
    "Comparing",
    "ContextNorm",
    "Encoder",
    "PrediNet",
    "Recurrent",
    "RelationNetwork",
    "RelationalModel",
    "Scenes",
    "Scores",
    "Sized",
    "Sizes",
    "Solver",
    "Transformer",
]
