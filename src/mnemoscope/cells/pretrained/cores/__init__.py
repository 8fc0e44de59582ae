"""The recurrences of mixers of other libraries as affine cells, which share the mixers' weights."""

from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore as MixerCore
from mnemoscope.cells.pretrained.cores.recognition import cores_of as cores_of
