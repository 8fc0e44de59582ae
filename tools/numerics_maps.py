"""Random two-dimensional tanh maps: the fixed points that the library finds against an exhaustive reference.

The reference shares no code with the library. A fixed point of h = tanh(W h + b) solves one scalar equation: with
u = atanh(h_1), the first row gives h_2 = (u - W_11 tanh u - b_1) / W_12, and the second row must hold. Intervals of u
are bisected until a bound on the function excludes a root, or a bound on its derivative shows that it is monotone, so
that the signs at the ends decide.

    python tools/numerics_maps.py --number 2000 --seed 1
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

import mnemoscope as ms

SPREADS = (1.0, 2.0, 4.0, 6.0, 10.0)
"""Standard deviations of the entries of W; that of the biases is a third of it, or 0 in a third of the maps."""
DEEPEST = 60
"""Bisections after which an interval counts as undecided: its function has a double root, to rounding."""
NEAR = 1e-6
"""Largest distance between a root and the point that was found for it."""
CERTIFIED = 10
"""One in this many maps is also certified, and the certificate compared with the reference."""
FAILURES = Path("runs/numerics/maps.jsonl")
"""Where failures are kept: one line for each map, with its weights and the seed."""

Range = tuple[np.ndarray, np.ndarray]
"""Lower and upper ends of intervals."""


@dataclass(frozen=True)
class Map:
    """h' = tanh(W h + b)."""

    W: np.ndarray
    b: np.ndarray

    def dynamics(self) -> ms.Dynamics:
        """Return the map as a torch.nn.RNN at zero input."""
        network = torch.nn.RNN(1, 2).double()
        weights = {"weight_ih_l0": np.zeros((2, 1)), "weight_hh_l0": self.W, "bias_ih_l0": self.b}
        weights["bias_hh_l0"] = np.zeros(2)
        network.load_state_dict({name: torch.tensor(weight) for name, weight in weights.items()})
        return ms.Dynamics(network)


@dataclass(frozen=True)
class Comparison:
    """One search against the reference."""

    roots: int
    """Number of fixed points."""
    undecided: int
    """Number of intervals in which the reference could not decide."""
    found: int
    """Number of points that the search reports."""
    missed: int
    """Number of fixed points that it does not report."""
    invented: int
    """Number of points that it reports although they are none."""
    claimed: bool
    """Whether it sees no sign of a missing point."""
    certified: bool | None
    """Whether the certificate claims that the set is complete; None if it was not computed."""
    seconds: float
    """CPU time of the search."""

    @property
    def failed(self) -> bool:
        """Whether a point is missing or invented."""
        return self.missed > 0 or self.invented > 0


def random_map(generator: np.random.Generator) -> Map:
    """Draw the spread of the weights, then biases and weights."""
    spread = generator.choice(SPREADS)
    b = generator.normal(size=2) * spread / 3 * (generator.random() > 1 / 3)
    return Map(spread * generator.normal(size=(2, 2)), b)


def exhaustive_roots(system: Map) -> tuple[np.ndarray, int]:
    """Return all fixed points (roots, 2), and the number of intervals that may hold a double root."""
    (a, c), (d, e) = system.W
    b1, b2 = system.b
    if abs(c) < 1e-9:
        raise ValueError("The reference divides by W_12, which is 0 here.")

    def second(u: np.ndarray) -> np.ndarray:
        return (u - a * np.tanh(u) - b1) / c

    def value(u: np.ndarray) -> np.ndarray:
        return second(u) - np.tanh(d * np.tanh(u) + e * second(u) + b2)

    def slope_ranges(low: np.ndarray, high: np.ndarray) -> tuple[Range, Range]:
        """Return the ranges of the derivatives of h_2 and of the function over intervals of u."""
        middle, radius = 0.5 * (low + high), 0.5 * (high - low)
        of_tanh = _tanh_slopes(low, high)
        of_second = _scaled((1 - a * of_tanh[0], 1 - a * of_tanh[1]), 1 / c)
        first_part, second_part = _scaled(of_tanh, d), _scaled(of_second, e)
        of_inner = first_part[0] + second_part[0], first_part[1] + second_part[1]
        # the range of the inner argument, by the mean value theorem
        inner, spread = d * np.tanh(middle) + e * second(middle) + b2, _largest(of_inner) * radius
        of_outer = _tanh_slopes(inner - spread, inner + spread)
        products = np.stack([of_outer[i] * of_inner[j] for i in (0, 1) for j in (0, 1)])
        return of_second, (of_second[0] - products.max(0), of_second[1] - products.min(0))

    edge = abs(a) + abs(c) + abs(b1) + 1
    low, high = np.array([-edge]), np.array([edge])
    roots: list[float] = []
    for _ in range(DEEPEST):
        of_second, slopes = slope_ranges(low, high)
        middle, radius = 0.5 * (low + high), 0.5 * (high - low)
        rootless = np.abs(value(middle)) > _largest(slopes) * radius * (1 + 1e-9) + 1e-14
        rootless |= np.abs(second(middle)) > 1 + _largest(of_second) * radius + 1e-12  # h_2 lies in [-1, 1]
        monotone = ~rootless & (slopes[0] * slopes[1] > 0)
        crosses = monotone & (value(low) * value(high) <= 0)
        roots += [_bisect(value, *bracket) for bracket in zip(low[crosses], high[crosses], strict=True)]
        rest = ~rootless & ~monotone
        low, high = np.concatenate([low[rest], middle[rest]]), np.concatenate([middle[rest], high[rest]])
        if not len(low):
            break
    u = np.sort(np.array(roots))
    u = u[np.diff(u, prepend=-np.inf) > 1e-12]  # a root at the common end of two intervals counts once
    return np.stack([np.tanh(u), second(u)], axis=1), len(low)


def _tanh_slopes(low: np.ndarray, high: np.ndarray) -> Range:
    """Return the range of the derivative of tanh over intervals."""
    ends = np.stack([1 - np.tanh(low) ** 2, 1 - np.tanh(high) ** 2])
    return ends.min(0), np.where((low <= 0) & (high >= 0), 1.0, ends.max(0))


def _scaled(interval: Range, factor: float) -> Range:
    ends = np.stack([interval[0] * factor, interval[1] * factor])
    return ends.min(0), ends.max(0)


def _largest(interval: Range) -> np.ndarray:
    return np.maximum(np.abs(interval[0]), np.abs(interval[1]))


def _bisect(value: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> float:
    """Return the place between `low` and `high` where the sign changes, to rounding."""
    sign = np.sign(value(np.array(low)))
    while low < 0.5 * (low + high) < high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.sign(value(np.array(middle))) == sign else (low, middle)
    return 0.5 * (low + high)


def compare(system: Map, certify: bool = False) -> Comparison:
    """Search the fixed points of a map, and compare them with the reference."""
    roots, undecided = exhaustive_roots(system)
    started = time.process_time()
    fp = ms.find_fixed_points(system.dynamics(), certify=certify)
    seconds = time.process_time() - started
    apart = np.abs(roots[:, None] - fp.states.numpy()[None]).max(2)
    return Comparison(
        roots=len(roots),
        undecided=undecided,
        found=len(fp),
        missed=int((apart.min(1, initial=np.inf) > NEAR).sum()),
        invented=int((apart.min(0, initial=np.inf) > NEAR).sum()),
        claimed=bool(fp.may_be_complete),
        certified=None if fp.certificate is None else fp.certificate.complete,
        seconds=seconds,
    )


def check(number: int = 2000, seed: int = 1) -> dict[str, int | float | str]:
    """Compare the search with the reference on random maps, and keep the maps on which it fails."""
    generator = np.random.default_rng(seed)
    results: list[Comparison] = []
    failures: list[str] = []
    for trial in range(number):
        system = random_map(generator)
        results.append(compare(system, certify=trial % CERTIFIED == 0))
        if results[-1].failed and not results[-1].undecided:
            weights = {"seed": seed, "trial": trial, "W": system.W.tolist(), "b": system.b.tolist()}
            failures.append(json.dumps(weights | asdict(results[-1])) + "\n")
    if failures:
        FAILURES.parent.mkdir(parents=True, exist_ok=True)
        FAILURES.write_text("".join(failures))
    decided = [result for result in results if not result.undecided]
    return {
        "tried": number,
        "passed": len(decided) - len(failures),
        "failed": len(failures),
        "undecided by the reference": number - len(decided),
        "empty": sum(result.found == 0 for result in decided),
        "incomplete": sum(result.missed > 0 for result in decided),
        "incomplete without a sign": sum(result.missed > 0 and result.claimed for result in decided),
        "invented": sum(result.invented > 0 for result in decided),
        "certified": sum(bool(result.certified) for result in results),
        "not certified": sum(result.certified is False for result in results),
        "certified wrongly": sum(result.failed and bool(result.certified) for result in decided),
        "milliseconds per map": round(1e3 * sum(result.seconds for result in results) / number, 1),
        "reproductions": str(FAILURES) if failures else "",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=2000, help="number of maps")
    parser.add_argument("--seed", type=int, default=1, help="seed of the maps")
    options = parser.parse_args()
    print(json.dumps(check(options.number, options.seed), indent=1))
