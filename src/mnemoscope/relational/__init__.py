"""Networks that compare objects: an encoder, context normalisation, and what answers from there."""

from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.encoder import Encoder
from mnemoscope.relational.esbn import ESBN
from mnemoscope.relational.network import RelationalModel, Sized, Sizes
from mnemoscope.relational.predinet import PrediNet
from mnemoscope.relational.recurrent import Recurrent
from mnemoscope.relational.relation_network import RelationNetwork
from mnemoscope.relational.scenes import Scenes
from mnemoscope.relational.transformer import Transformer

__all__ = [
    "ESBN",
    "CoRelNet",
    "ContextNorm",
    "Encoder",
    "PrediNet",
    "Recurrent",
    "RelationNetwork",
    "RelationalModel",
    "Scenes",
    "Sized",
    "Sizes",
    "Transformer",
]
