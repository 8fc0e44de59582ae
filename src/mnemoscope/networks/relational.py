"""Named networks that compare objects, with their published sizes.

A factory takes a relational task, or its sizes, and options that override its defaults. Its description and its source
come from the registry, where it has the name of the literature; two of these, "lstm" and "ntm", are cells' names too,
so that their factories are `relational_lstm` and `relational_ntm`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, Unpack

from torch import nn

from mnemoscope import registry
from mnemoscope.base.torch_state import restored_generators
from mnemoscope.relational.abstractor import Abstractor
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.esbn import ESBN
from mnemoscope.relational.mnm import MNM
from mnemoscope.relational.network import ModelOptions, ProblemLike, RelationalModel
from mnemoscope.relational.predinet import PrediNet
from mnemoscope.relational.recurrent import Recurrent, TuringReader
from mnemoscope.relational.relation_network import RelationNetwork
from mnemoscope.relational.transformer import Transformer

Model = TypeVar("Model", bound=RelationalModel)
MODELS: dict[str, Callable[..., RelationalModel]] = {}
"""The factories by their names in the registry."""


def relational_model(name: str, problem: ProblemLike, **options: Any) -> RelationalModel:
    """Return the named model of `MODELS` for a task.

    >>> from mnemoscope.relational import Sizes
    >>> relational_model("corelnet-l1", Sizes(objects=6, choices=2), l1=5.0).sparse.strength
    5.0
    """
    if name not in MODELS:
        raise ValueError(f"There is no relational model {name!r}; there are {', '.join(MODELS)}.")
    return MODELS[name](problem, **options)


def _widened_corelnet(problem: ProblemLike, **options: Unpack[ModelOptions]) -> CoRelNet:
    """Return a CoRelNet whose MLP is so wide that it has about as many parameters as ESBN (Kerg, C.7)."""
    with restored_generators():  # networks that are only counted must not change the random numbers
        narrow, wider = (_parameters(CoRelNet(problem, **options, hidden=hidden)) for hidden in (1, 2))
        wanted = _parameters(ESBN(problem))
    per_unit = wider - narrow
    hidden = 1 + (2 * (wanted - narrow) + per_unit) // (2 * per_unit)  # nearest; a tie goes to the larger, as published
    return CoRelNet(problem, **options, hidden=hidden)


def _parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def _factory(name: str, build: Callable[..., Model], **defaults: Any) -> Callable[..., Model]:
    """Return `build` with these defaults, described as in the registry, and add it to `MODELS`."""
    entry = registry.networks[name]
    factory = partial(build, **defaults)
    factory.__doc__ = f"{entry.name}: {entry.summary} ({entry.source})."
    MODELS[name] = factory
    return factory


corelnet = _factory("corelnet", CoRelNet)
corelnet_printed = _factory("corelnet-printed", CoRelNet, causal=False)
corelnet_t = _factory("corelnet-t", CoRelNet, decoder="transformer")
corelnet_recurrent = _factory("corelnet-recurrent", CoRelNet, decoder="recurrent")
corelnet_asymmetric = _factory("corelnet-asymmetric", CoRelNet, similarity="asymmetric")
corelnet_diff = _factory("corelnet-diff", CoRelNet, similarity="difference")
corelnet_mix = _factory("corelnet-mix", CoRelNet, similarity="mixture")
corelnet_random = _factory("corelnet-random", CoRelNet, trained_encoder=False)
corelnet_sensory = _factory("corelnet-sensory", CoRelNet, sensory=True)
corelnet_l1 = _factory("corelnet-l1", CoRelNet, l1=1.0)
corelnet_nhid = _factory("corelnet-nhid", _widened_corelnet)
corelnet_multi = _factory("corelnet-multi", CoRelNet, similarity="distance", relations=64, decoder="pairs")
corelnet_t_asymmetric = _factory("corelnet-t-asymmetric", CoRelNet, decoder="transformer", similarity="asymmetric")
corelnet_t_random = _factory("corelnet-t-random", CoRelNet, decoder="transformer", trained_encoder=False)
corelnet_t_sensory = _factory("corelnet-t-sensory", CoRelNet, decoder="transformer", sensory=True)
esbn = _factory("esbn", ESBN)
esbn_asymmetric = _factory("esbn-asymmetric", ESBN, similarity="asymmetric")
esbn_random = _factory("esbn-random", ESBN, trained_encoder=False)
esbn_sensory = _factory("esbn-sensory", ESBN, sensory=True)
esbn_l1 = _factory("esbn-l1", ESBN, l1=1.0)
predinet = _factory("predinet", PrediNet)
transformer = _factory("transformer", Transformer)
relation_network = _factory("relation-network", RelationNetwork)
relational_lstm = _factory("lstm", Recurrent)
relational_ntm = _factory("ntm", Recurrent, cell="ntm")
ntm_extra_step = _factory("ntm-extra-step", TuringReader)
mnm = _factory("mnm", MNM)
abstractor = _factory("abstractor", Abstractor)
