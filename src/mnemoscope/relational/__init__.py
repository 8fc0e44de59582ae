"""Networks that compare objects: an encoder, context normalisation, and a mechanism that answers."""

from mnemoscope.relational.abstractor import Abstractor as Abstractor
from mnemoscope.relational.context_norm import ContextNorm as ContextNorm
from mnemoscope.relational.corelnet import CoRelNet as CoRelNet
from mnemoscope.relational.encoder import Encoder as Encoder
from mnemoscope.relational.esbn import ESBN as ESBN
from mnemoscope.relational.mnm import MNM as MNM
from mnemoscope.relational.network import (
    ProblemLike as ProblemLike,
    RelationalModel as RelationalModel,
    Scenes as Scenes,
    SingleStepModel as SingleStepModel,
    Sizes as Sizes,
)
from mnemoscope.relational.predinet import PrediNet as PrediNet
from mnemoscope.relational.recurrent import Recurrent as Recurrent, TuringReader as TuringReader
from mnemoscope.relational.relation_network import RelationNetwork as RelationNetwork
from mnemoscope.relational.similarity_model import Scores as Scores, SimilarityModel as SimilarityModel
from mnemoscope.relational.transformer import Transformer as Transformer
