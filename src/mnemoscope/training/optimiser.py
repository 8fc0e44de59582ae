"""The optimiser of a configuration, and its learning-rate schedule."""

from __future__ import annotations

from math import cos, pi

from torch import nn
from torch.optim import Optimizer

from mnemoscope import registry
from mnemoscope.config.run_config import RunConfig
from mnemoscope.connectivity import Connectivity
from mnemoscope.training.checkpoint import Counters


def build_optimiser(config: RunConfig, model: nn.Module) -> Optimizer:
    """Return the optimiser; with `orthogonal_learning_rate`, orthogonal and unitary matrices form a separate group."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise ValueError("The model has no parameters to train.")
    groups = [{"params": learned, "base_rate": config.learning_rate}]
    if config.orthogonal_learning_rate is not None:
        matrices = [module for module in model.modules() if isinstance(module, Connectivity)]
        orthogonal = {id(parameter): parameter for matrix in matrices for parameter in matrix.orthogonal_parameters()}
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
    optimiser_class = registry.optimisers.load(config.optimiser)
    return optimiser_class(groups, lr=config.learning_rate, weight_decay=config.weight_decay, **options)


def set_learning_rate(optimiser: Optimizer, config: RunConfig, counters: Counters) -> float:
    """Set the learning rates of the present step by the schedule, and return that of ordinary parameters."""
    factor = {
        "constant": 1.0,
        "cosine": (1 + cos(pi * counters.step / config.steps)) / 2,
        "plateau": 0.5**counters.worse,
    }[config.schedule]
    for group in optimiser.param_groups:
        group["lr"] = group["base_rate"] * factor
    return config.learning_rate * factor
