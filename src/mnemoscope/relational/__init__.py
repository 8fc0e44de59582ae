"""Networks that compare objects: an encoder, context normalisation, and what answers from there."""

from mnemoscope.relational.context_norm import ContextNorm
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.encoder import Encoder
from mnemoscope.relational.network import RelationalModel, Sized, Sizes
from mnemoscope.relational.scenes import Scenes

__all__ = ["CoRelNet", "ContextNorm", "Encoder", "RelationalModel", "Scenes", "Sized", "Sizes"]
