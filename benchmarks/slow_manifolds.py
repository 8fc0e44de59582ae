"""How often the slow-manifold lens raises a false alarm, and how often it names a planted manifold.

    python benchmarks/slow_manifolds.py              200 systems without a slow manifold, 60 with one
    python benchmarks/slow_manifolds.py --number 50  fewer

`make numerics` runs the same trials. Trained networks are in slow_manifolds_trained.py.

A system without a slow manifold contracts to a point, has several isolated memories, oscillates or is chaotic. At most
2 of 200 may be called a slow manifold.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import mnemoscope as ms
from mnemoscope.cells import Cell
from mnemoscope.lenses.slow_manifold.planted import (
    planted_flat,
    planted_points,
    planted_ring,
    planted_sphere,
    planted_torus,
)


@dataclass(frozen=True)
class Outcome:
    """Numbers of systems tried and failed, and a line on each failure, from which it can be repeated."""

    tried: int
    failures: tuple[str, ...]


def false_alarm(trial: int, seed: int) -> str:
    """Apply the lens to a random system without a slow manifold; return its claim, empty if it claims none."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + trial)
    kind = tuple(WITHOUT)[trial % len(WITHOUT)]
    memory = _search(WITHOUT[kind](generator), generator)
    return f"trial {trial} of seed {seed} ({kind}): {memory.summary()}" if memory else ""


def wrong_shape(trial: int, seed: int) -> str:
    """Apply the lens to a random planted manifold; return what it finds if that has another topology than planted."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + trial)
    shape = tuple(WITH)[trial % len(WITH)]
    memory = _search(WITH[shape](generator), generator)
    return f"trial {trial} of seed {seed} ({shape}): {memory.summary()}" if memory.topology != shape else ""


def repeat(attempt: Callable[[int, int], str], number: int, seed: int = 0) -> Outcome:
    """Return the failures of this many trials."""
    messages = [attempt(trial, seed) for trial in range(number)]
    return Outcome(number, tuple(message for message in messages if message))


def _search(cell: Cell, generator: torch.Generator) -> ms.SlowManifold:
    dynamics = ms.Dynamics(cell)
    starts = _normal(generator, 300, dynamics.size)
    none = ms.find_fixed_points(dynamics, starts[:1])  # they do not matter here
    return ms.find_slow_manifold(dynamics, starts=starts, fixed_points=none, delays=(10,))


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _size(generator: torch.Generator) -> int:
    return int(torch.randint(2, 33, (), generator=generator))


def _random_network(generator: torch.Generator, low: float, high: float) -> Cell:
    """Return a random tanh network with a gain in this range: contracting, multistable, oscillating or chaotic."""
    size = _size(generator)
    W, b = _uniform(generator, low, high) * _normal(generator, size, size) / size**0.5, _normal(generator, size)
    b = 0.3 * b
    return ms.adapt(lambda x, h: torch.tanh(h @ W.to(h).T + b.to(h)), state_size=size)


def _untrained(generator: torch.Generator, module: type[nn.GRU] | type[nn.LSTM] | type[nn.RNN]) -> Cell:
    network = module(2, _size(generator))
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(1.5 * network.hidden_size**-0.5 * (2 * torch.rand(weight.shape, generator=generator) - 1))
    return ms.adapt(network)


def _hopfield(generator: torch.Generator) -> Cell:
    """Return a network with a few stored patterns."""
    patterns = torch.sign(_normal(generator, int(torch.randint(2, 5, (), generator=generator)), 24))
    W = patterns.T @ patterns / 24
    return ms.adapt(lambda x, h: torch.tanh(2 * h @ W.to(h)), state_size=24)


def _oscillator(generator: torch.Generator) -> Cell:
    angle = torch.tensor(_uniform(generator, 0.05, 3.0), dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    gain = _uniform(generator, 1.05, 2.0)
    return ms.adapt(lambda x, h: gain * (h @ turn.to(h).T) / (1 + h.square().sum(1, keepdim=True)).sqrt(), state_size=2)


WITHOUT = {
    "contracting": lambda g: planted_flat(_uniform(g, 0.3, 0.985), _uniform(g, 0.3, 0.985), seed=int(g.initial_seed())),
    "isolated points": lambda g: planted_points(
        _normal(g, int(torch.randint(2, 30, (), generator=g)), 3), pull=_uniform(g, 0.03, 0.5)
    ),
    "ring of points": lambda g: planted_ring(
        _uniform(g, 0.02, 0.08), int(torch.randint(2, 12, (), generator=g)), decay=_uniform(g, 0.2, 0.8)
    ),
    "weak network": lambda g: _random_network(g, 0.3, 1.0),
    "strong network": lambda g: _random_network(g, 1.0, 3.0),
    "untrained GRU": lambda g: _untrained(g, nn.GRU),
    "untrained LSTM": lambda g: _untrained(g, nn.LSTM),
    "untrained Elman": lambda g: _untrained(g, nn.RNN),
    "Hopfield": _hopfield,
    "oscillator": _oscillator,
}
"""Systems without a slow manifold, by kind."""

WITH = {
    "ring": lambda g: planted_ring(
        _uniform(g, 0, 1.2e-3), int(torch.randint(1, 5, (), generator=g)), size=_size(g), decay=_uniform(g, 0.2, 0.85)
    ),
    "line": lambda g: planted_flat(_uniform(g, 0.997, 1), size=_size(g), decay=_uniform(g, 0.2, 0.85)),
    "plane": lambda g: planted_flat(_uniform(g, 0.998, 1), _uniform(g, 0.998, 1), size=4 + _size(g)),
    "sphere": lambda g: planted_sphere(_uniform(g, 0, 5e-4), size=4 + _size(g)),
    "torus": lambda g: planted_torus(_uniform(g, 0, 5e-4), size=4 + _size(g)),
}
"""Systems with a slow manifold, by topology."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=200, help="systems without a slow manifold")
    parser.add_argument("--planted", type=int, default=60, help="systems with one")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for title, outcome in (
        ("called a slow manifold without one", repeat(false_alarm, options.number, options.seed)),
        ("planted manifolds with another answer", repeat(wrong_shape, options.planted, options.seed)),
    ):
        print(f"{title}: {len(outcome.failures)} of {outcome.tried}")
        print(Counter(line.partition("(")[2].partition(")")[0] for line in outcome.failures).most_common())
        for line in outcome.failures:
            print(f"  {line}")
