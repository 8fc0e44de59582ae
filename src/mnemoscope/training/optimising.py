"""The optimiser of a configuration, and its learning rate over time."""

from __future__ import annotations

from math import cos, pi

from torch.optim import Optimizer

from mnemoscope import registry
from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Connectivity
from mnemoscope.training.checkpoint import Counters


def build_optimiser(config: RunConfig, model: Model) -> Optimizer:
    """The optimiser; orthogonal and unitary matrices are a group of their own if they have their own learning rate."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise ValueError("The model has no parameters to train.")
    groups = [{"params": learned, "base_rate": config.learning_rate}]
    if config.orthogonal_learning_rate is not None:
        matrices = [module for module in model.modules() if isinstance(module, Connectivity)]
        orthogonal = {id(parameter): parameter for each in matrices for parameter in each.orthogonal_parameters()}
        if not orthogonal:
            raise ValueError(
                f"orthogonal_learning_rate is for orthogonal and unitary matrices, of which {config.cell!r} has none."
            )
        rest = [parameter for parameter in learned if id(parameter) not in orthogonal]
        groups = [
            {"params": list(orthogonal.values()), "base_rate": config.orthogonal_learning_rate},
            {"params": rest, "base_rate": config.learning_rate},
        ]
    for name, default in (("smoothing", None), ("momentum", 0.0)):
        if getattr(config, name) != default and config.optimiser != "rmsprop":
            raise ValueError(f"{name} is for the optimiser rmsprop, but the optimiser is {config.optimiser}.")
    options = {"momentum": config.momentum} if config.momentum else {}
    options |= {} if config.smoothing is None else {"alpha": config.smoothing}
    made = registry.optimisers.load(config.optimiser)
    return made(groups, lr=config.learning_rate, weight_decay=config.weight_decay, **options)


def set_learning_rate(optimiser: Optimizer, config: RunConfig, done: Counters) -> float:
    """The schedule, a function of what is done; returns the rate of most parameters."""
    factor = {
        "constant": 1.0,
        "cosine": (1 + cos(pi * done.step / config.steps)) / 2,
        "plateau": 0.5**done.worse,
    }[config.schedule]
    for group in optimiser.param_groups:
        group["lr"] = group["base_rate"] * factor
    return config.learning_rate * factor
