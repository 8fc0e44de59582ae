"""Recognise modules of other libraries by the names of their classes, without importing the libraries."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from torch import nn

from mnemoscope.cells.cell import Cell


class _Kind(NamedTuple):
    """The classes that one cell adapts."""

    modules: tuple[str, ...]
    """Beginnings of the names of their Python modules."""
    names: tuple[str, ...]
    """Ends of the names of the classes."""
    cell: str
    """File of this folder and class of the cell."""


_CACHED = tuple(
    f"transformers.models.{family}."
    for family in ("mamba", "mamba2", "falcon_mamba", "qwen3_next", "kimi_linear", "olmo_hybrid", "zamba2", "bamba")
)
_WHOLE = ("ForCausalLM", "Model")
_KINDS = (
    _Kind(_CACHED, _WHOLE, "cached:CachedModel"),
    _Kind(
        _CACHED, ("MambaMixer", "Mamba2Mixer", "BambaMixer", "GatedDeltaNet", "DeltaAttention"), "cached:CachedMixer"
    ),
    _Kind(("transformers.models.rwkv.",), _WHOLE, "rwkv:RWKVModel"),
    _Kind(("transformers.models.rwkv.",), ("RwkvSelfAttention",), "rwkv:RWKVMixer"),
    _Kind(("transformers.models.recurrent_gemma.",), _WHOLE, "recurrent_gemma:GriffinModel"),
    _Kind(("transformers.models.recurrent_gemma.",), ("RecurrentBlock",), "recurrent_gemma:GriffinMixer"),
    _Kind(("transformers.models.xlstm.",), _WHOLE, "xlstm:LargeModel"),
    _Kind(("transformers.models.xlstm.",), ("xLSTMLayer", "xLSTMBlock"), "xlstm:LargeMixer"),
    _Kind(("xlstm.xlstm_large.",), ("mLSTMLayer", "mLSTMBlock"), "xlstm:LargeMixer"),
    _Kind(("xlstm.blocks.",), ("mLSTMLayer", "sLSTMLayer", "mLSTMBlock", "sLSTMBlock"), "xlstm:BlockCell"),
    _Kind(("xlstm.xlstm_block_stack", "xlstm.xlstm_lm_model"), ("xLSTMBlockStack", "xLSTMLMModel"), "xlstm:BlockStack"),
    _Kind(("mambapy.mamba.",), ("MambaBlock", "ResidualBlock"), "small_packages:MambaPyBlock"),
    _Kind(("mambapy.mamba.",), ("Mamba",), "small_packages:MambaPyModel"),
    _Kind(("minGRU_pytorch.",), ("minGRU", "minLSTM"), "small_packages:MinRNN"),
    _Kind(("minGRU_pytorch.minLM",), ("minLM",), "small_packages:MinLM"),
)
_LIBRARIES = ("transformers", "xlstm", "mambapy", "minGRU_pytorch")
"""Packages whose modules are recognised."""


def library_of(module: object) -> str | None:
    """Return the library that defines the class of a module or one of its bases; None if it is none of ours."""
    roots = (base.__module__.partition(".")[0] for base in type(module).__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)


def cell_from_library(module: nn.Module) -> Cell:
    """Return a cell for a module of one of the libraries; raise a TypeError that names its class otherwise."""
    kind = _kind(module)
    if kind is None:
        raise _unknown(module)
    file, _, name = kind.cell.partition(":")
    return getattr(import_module(f"mnemoscope.cells.pretrained.{file}"), name)(module)


def _kind(module: nn.Module) -> _Kind | None:
    """Return how to adapt a module, by the first of its classes that is known."""
    for base in type(module).__mro__:
        if base.__name__.endswith("PreTrainedModel"):  # also the base of classifiers, which are not known
            continue
        for kind in _KINDS:
            if f"{base.__module__}.".startswith(kind.modules) and base.__name__.endswith(kind.names):
                return kind
    return None


def _unknown(module: nn.Module) -> TypeError:
    library = library_of(module)
    kinds = [kind for kind in _KINDS if kind.modules[0].partition(".")[0] == library]
    known = "; ".join(
        f"*{', *'.join(kind.names)} of {', '.join(where.rstrip('.').rpartition('.')[2] for where in kind.modules)}"
        for kind in kinds
    )
    parts = [path for path, part in module.named_modules() if path and _kind(part)]
    inside = f" It contains one of them: pass module.{parts[0]}." if parts else ""
    name = f"{type(module).__module__}.{type(module).__name__}"
    return TypeError(
        f"{name} is not one of the modules of {library} that can be adapted: {known}.{inside} If it is a step "
        f"(x, state) -> state, pass ms.adapt(module, state=...)."
    )
