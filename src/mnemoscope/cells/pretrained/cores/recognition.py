"""Find the mixers of a module, and the recurrence of each, by the names of their classes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import nn

from mnemoscope.cells.pretrained.cores.mixer_core import MixerCore

_CORES = {
    "transformers.models.mamba.": {"MambaMixer": "selective:MambaCore"},
    "transformers.models.falcon_mamba.": {"FalconMambaMixer": "selective:MambaCore"},
    "transformers.models.mamba2.": {"Mamba2Mixer": "selective:Mamba2Core"},
    "transformers.models.bamba.": {"BambaMixer": "selective:Mamba2Core"},
    "transformers.models.zamba2.": {"Zamba2MambaMixer": "selective:Mamba2Core"},
    "transformers.models.qwen3_next.": {"Qwen3NextGatedDeltaNet": "delta:Qwen3NextCore"},
    "transformers.models.olmo_hybrid.": {"OlmoHybridGatedDeltaNet": "delta:GatedDeltaNetCore"},
    "transformers.models.kimi_linear.": {"KimiLinearDeltaAttention": "delta:KimiCore"},
    "transformers.models.recurrent_gemma.": {"RecurrentGemmaRecurrentBlock": "vectors:GriffinCore"},
    "transformers.models.xlstm.": {"xLSTMLayer": "exponential:LargeMLSTMCore"},
    "transformers.models.rwkv.": {"RwkvSelfAttention": "exponential:RWKVCore"},
    "xlstm.xlstm_large.": {"mLSTMLayer": "exponential:LargeMLSTMCore"},
    "xlstm.blocks.mlstm.": {"mLSTMLayer": "exponential:BlockMLSTMCore"},
    "mambapy.mamba.": {"MambaBlock": "selective:MambaCore"},
    "minGRU_pytorch.": {"minGRU": "vectors:MinGRUCore", "minLSTM": "vectors:MinLSTMCore"},
}
"""File of this folder and class of the recurrence, by the Python module and the name of the mixer's class."""


def cores_of(module: nn.Module) -> list[MixerCore]:
    """Return the recurrences of all mixers in a module, in order; raise a TypeError for a subclass of a known mixer."""
    found = []
    for part in module.modules():
        known = next((base for base in type(part).__mro__ if _core(base)), None)
        if known is None:
            continue
        if known is not type(part):
            raise TypeError(
                f"{_name(type(part))} is derived from {_name(known)} and may compute something else, so that its "
                f"recurrence is not known. If it computes the same, pass a {known.__name__} with its state_dict."
            )
        file, _, name = _core(known).partition(":")
        found.append(getattr(import_module(f"mnemoscope.cells.pretrained.cores.{file}"), name)(part))
    return found


def _core(kind: Any) -> str:
    """Return the entry of a class, or nothing."""
    for package, classes in _CORES.items():
        if f"{kind.__module__}.".startswith(package):
            return classes.get(kind.__name__, "")
    return ""


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__name__}"
