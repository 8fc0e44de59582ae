"""Relational models by the names of the literature, with their published sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import torch
from torch import nn

from mnemoscope.relational.abstractor import Abstractor
from mnemoscope.relational.corelnet import CoRelNet
from mnemoscope.relational.esbn import ESBN
from mnemoscope.relational.mnm import MNM
from mnemoscope.relational.network import Options, RelationalModel, Sized
from mnemoscope.relational.predinet import PrediNet
from mnemoscope.relational.recurrent import Recurrent
from mnemoscope.relational.relation_network import RelationNetwork
from mnemoscope.relational.transformer import Transformer

Build = Callable[..., RelationalModel]


def corelnet_nhid(problem: Sized, **options: Unpack[Options]) -> CoRelNet:
    """CoRelNet whose MLP is so wide that it has about as many parameters as ESBN (Kerg, C.7).

    >>> from mnemoscope.relational.network import Sizes
    >>> sum(weight.numel() for weight in corelnet_nhid(Sizes(objects=2, choices=2)).parameters())
    1910760
    """
    with torch.random.fork_rng(devices=[]):  # what is only counted takes no random numbers from what is used
        fewest, more = (_parameters(CoRelNet(problem, **options, hidden=hidden)) for hidden in (1, 2))
        wanted = _parameters(ESBN(problem))
    each = more - fewest
    hidden = 1 + (2 * (wanted - fewest) + each) // (2 * each)  # nearest; of two that are, the larger one, as published
    return CoRelNet(problem, **options, hidden=hidden)


MODELS: dict[str, Build] = {
    "corelnet": CoRelNet,
    "corelnet-printed": partial(CoRelNet, causal=False),
    "corelnet-t": partial(CoRelNet, decoder="transformer"),
    "corelnet-recurrent": partial(CoRelNet, decoder="recurrent"),
    "corelnet-asymmetric": partial(CoRelNet, similarity="asymmetric"),
    "corelnet-diff": partial(CoRelNet, similarity="difference"),
    "corelnet-mix": partial(CoRelNet, similarity="mixture"),
    "corelnet-random": partial(CoRelNet, trained_encoder=False),
    "corelnet-sensory": partial(CoRelNet, sensory=True),
    "corelnet-l1": partial(CoRelNet, l1=1.0),
    "corelnet-nhid": corelnet_nhid,
    "corelnet-multi": partial(CoRelNet, similarity="distance", relations=64, decoder="pairs"),
    "corelnet-t-asymmetric": partial(CoRelNet, decoder="transformer", similarity="asymmetric"),
    "corelnet-t-random": partial(CoRelNet, decoder="transformer", trained_encoder=False),
    "corelnet-t-sensory": partial(CoRelNet, decoder="transformer", sensory=True),
    "esbn": ESBN,
    "esbn-asymmetric": partial(ESBN, similarity="asymmetric"),
    "esbn-random": partial(ESBN, trained_encoder=False),
    "esbn-sensory": partial(ESBN, sensory=True),
    "esbn-l1": partial(ESBN, l1=1.0),
    "predinet": PrediNet,
    "transformer": Transformer,
    "relation-network": RelationNetwork,
    "lstm": Recurrent,
    "ntm": partial(Recurrent, cell="ntm"),
    "mnm": MNM,
    "abstractor": Abstractor,
}
"""Each takes a problem, and options that go before those here."""


def relational_model(name: str, problem: Sized, **options: Any) -> RelationalModel:
    """A model of `MODELS` for a task.

    >>> from mnemoscope.relational.network import Sizes
    >>> rmts = Sizes(objects=6, choices=2)
    >>> relational_model("corelnet-l1", rmts, l1=5.0).sparse.strength
    5.0
    """
    if name not in MODELS:
        raise ValueError(f"There is no relational model {name!r}; there are {', '.join(MODELS)}.")
    return MODELS[name](problem, **options)


def _parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())
