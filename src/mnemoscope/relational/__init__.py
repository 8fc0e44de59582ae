"""Networks that compare objects: an encoder, context normalisation, and a mechanism that answers."""

from mnemoscope.relational.abstractor import Abstractor
from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.encoder import Encoder
from mnemoscope.relational.esbn import ESBN
from mnemoscope.relational.mnm import MNM
from mnemoscope.relational.network import ProblemLike, RelationalModel, Sizes
from mnemoscope.relational.predinet import PrediNet
from mnemoscope.relational.recurrent import Recurrent
from mnemoscope.relational.relation_network import RelationNetwork
from mnemoscope.relational.scene_batch import Scenes
from mnemoscope.relational.similarity_model import Scores, SimilarityModel
from mnemoscope.relational.single_step import SingleStepModel
from mnemoscope.relational.transformer import Transformer

__all__ = [
    "ESBN",
    "MNM",
    "Abstractor",
    "CoRelNet",
    "ContextNorm",
    "Encoder",
    "PrediNet",
    "ProblemLike",
    "Recurrent",
    "RelationNetwork",
    "RelationalModel",
    "Scenes",
    "Scores",
    "SimilarityModel",
    "SingleStepModel",
    "Sizes",
    "Transformer",
]
