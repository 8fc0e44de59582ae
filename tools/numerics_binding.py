"""Planted binding models: networks with known variables, and what the variables lens says about them.

    python tools/numerics_binding.py --number 200 --seed 1

The lens is given the network alone. It passes if it finds the number and the size of the variables and the planted F,
calls F a signed selection exactly where one was planted, and explains the network. Then the network runs on trials
that the lens has not seen: the variables that the lens decodes, and those that its rule predicts from one state, are
compared with the true ones at all later times.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

import mnemoscope as ms
from mnemoscope.cells import Model
from mnemoscope.connectivity.signed_selection import SignedSelection
from mnemoscope.lenses.variables import BindingNetwork, planted_network

NEAR = 1e-6
"""Largest error of F in a linear network, whose memory modes have a condition of up to some thousands."""
FRESH, TRIALS = 20_290, 32
"""Seed and number of the trials that the lens has not seen."""
FAILURES = Path("runs/numerics/binding.jsonl")
"""Where failures are kept: one line for each model, with its family, seed and the lens's sentence."""


@dataclass(frozen=True)
class Planted:
    """A network with its true F, and the signed selection that F is, if it is one."""

    model: Model
    F: Tensor
    selection: SignedSelection | None
    read: Callable[[Tensor], Tensor] | None
    """Reads the variables (batch, variables, size) off states of a linear network, which holds them exactly; None: a
    saturating network, which holds their signs."""
    tolerance: float = NEAR


def _turned(matrix: Tensor, variables: int) -> Tensor:
    """Return [Q, 0, ..., 0]: the oldest variable, turned, comes up again."""
    return torch.cat([matrix, torch.zeros(len(matrix), (variables - 1) * len(matrix), dtype=matrix.dtype)], 1)


def rotation(draw: torch.Generator) -> Planted:
    """x(t) = R x(t - s), with a small or a large angle in each plane."""
    variables, planes = _whole(2, 5, draw), _whole(1, 2, draw)
    angles = 10 ** _uniform(-1.5, 0.2, draw, planes)
    turns = [torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])]) for a in angles]
    return _plant(_turned(torch.block_diag(*turns), variables), draw)


def orthogonal(draw: torch.Generator) -> Planted:
    """x(t) = Q x(t - s) with a random orthogonal Q."""
    size = _whole(2, 4, draw)
    Q = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=draw))[0]
    return _plant(_turned(Q, _whole(2, 5, draw)), draw)


def leaks(draw: torch.Generator) -> Planted:
    """Repeat copy with transients that inputs drive strongly and the readout sees."""
    F = SignedSelection.repeat_copy(_whole(2, 6, draw), _whole(1, 4, draw))
    return _plant(F, draw, float(_uniform(0.5, 3, draw)))


def short_lags(draw: torch.Generator) -> Planted:
    """Each element comes back after a lag of its own, so that held variables add to the inputs."""
    variables, size = _whole(2, 5, draw), _whole(2, 4, draw)
    lags = [variables, *(_whole(1, variables, draw) for _ in range(size - 1))]
    signs = [2 * _whole(0, 1, draw) - 1 for _ in range(size)]
    return _plant(SignedSelection(variables, tuple(lags), tuple(range(size)), tuple(signs)), draw)


def slow_transients(draw: torch.Generator) -> Planted:
    """Transients that fade slowly and that the readout sees strongly."""
    F = SignedSelection.repeat_copy(_whole(2, 5, draw), _whole(2, 4, draw))
    return _plant(F, draw, float(_uniform(0.5, 2, draw)), float(_uniform(0.8, 0.96, draw)))


def noisy_weights(draw: torch.Generator) -> Planted:
    """Repeat copy whose F is disturbed: an orthogonal map near the identity, which is no selection any more."""
    variables, size = _whole(2, 5, draw), _whole(2, 4, draw)
    noise = torch.randn(size, size, dtype=torch.float64, generator=draw) * float(_uniform(0.02, 0.2, draw))
    return _plant(_turned(torch.matrix_exp(noise - noise.mT), variables), draw)


def rounded_weights(draw: torch.Generator) -> Planted:
    """A signed selection in float32, which is still one."""
    planted = leaks(draw)
    return replace(planted, model=planted.model.float(), tolerance=1e-2)


def saturating(draw: torch.Generator) -> Planted:
    """A tanh network whose inputs outweigh the variables held, for any lags."""
    variables, size = _whole(2, 5, draw), _whole(1, 4, draw)
    lags = tuple(variables if element == 0 else _whole(1, variables, draw) for element in range(size))
    F = SignedSelection(variables, lags, tuple(range(size)), (1,) * size)
    return Planted(BindingNetwork(F).saturating(1 + float(_uniform(0.1, 0.5, draw))), F.matrix(), F, None)


FAMILIES: tuple[Callable[[torch.Generator], Planted], ...] = (
    rotation,
    orthogonal,
    leaks,
    short_lags,
    slow_transients,
    noisy_weights,
    rounded_weights,
    saturating,
)


def problem(planted: Planted) -> str:
    """Return what is wrong with the answer of the lens; empty if nothing is."""
    found = ms.find_variables(planted.model)
    size, memories = planted.F.shape
    if (found.variables, found.size) != (memories // size, size):
        return f"{found.variables} variables of {found.size} instead of {memories // size} of {size}: {found.reason}"
    error = float((found.F - planted.F).abs().max())
    if error > planted.tolerance:
        return f"F is off by {error:.2g}"
    if found.selection != planted.selection:
        return f"the rule is {found.selection} instead of {planted.selection}"
    if found.status != "explained":
        return f"{found.status}: {found.reason}"
    wrong = error_on_fresh_trials(planted, found)
    limit = max(NEAR, planted.tolerance)
    return f"on fresh trials, the variables differ from the true ones by {wrong:.2g}" if not wrong <= limit else ""


def error_on_fresh_trials(planted: Planted, found: ms.Variables) -> float:
    """Return the largest error of the variables that the lens decodes or predicts, relative to the largest variable.

    The lens predicts from its decoded state at the first settled time, N steps after the last input: then older copies
    of an element agree with newer ones. If the network saturates, the result is the share of wrong signs.
    """
    N, size = found.variables, found.size
    draw = torch.Generator().manual_seed(FRESH)
    bits = 2.0 * torch.randint(0, 2, (N, TRIALS, size), generator=draw, dtype=torch.float64) - 1
    steps = N + max(6 * N, 64)
    weights = planted.model.cell.parameters()
    inputs = torch.cat([bits, torch.zeros(steps, TRIALS, size, dtype=torch.float64)]).to(next(weights))
    with torch.no_grad():
        state, states = planted.model.cell.initial_state(TRIALS), []
        for u in inputs:
            state = planted.model.cell(u, state)
            states.append(state.double())
    h = torch.stack(states)[2 * N - 1 :]
    decoded = found.basis.read(h - found.fixed_point)
    if planted.read is None:
        decoded = decoded.sign()
        x = _by_loop(planted.F, [*bits], steps)
        true = torch.stack([torch.stack(x[time - N : time], 1) for time in range(2 * N, len(x) + 1)])
    else:
        true = planted.read(h)
    F = found.F if found.selection is None else found.selection.matrix()
    x = _by_loop(F, [*decoded[0].movedim(1, 0)], len(decoded) - 1)
    predicted = torch.stack([torch.stack(x[time : time + N], 1) for time in range(len(decoded))])
    if planted.read is None:
        return float(max((each.sign() != true).double().mean() for each in (decoded, predicted)))
    return float(max((each - true).abs().max() for each in (decoded, predicted)) / true.abs().max())


def _by_loop(F: Tensor, first: list[Tensor], steps: int) -> list[Tensor]:
    """Return the first N variables, and after them F of the last N."""
    x, N = list(first), len(first)
    for _ in range(steps):
        x.append(torch.cat(x[-N:], 1) @ F.mT)
    return x


def check(number: int = 400, seed: int = 1) -> dict[str, int | float | str]:
    """Compare the lens with planted models of all families in turn, and keep the models on which it fails."""
    started = time.process_time()
    failures: list[str] = []
    failed = dict.fromkeys((family.__name__ for family in FAMILIES), 0)
    for trial in range(number):
        family = FAMILIES[trial % len(FAMILIES)]
        wrong = problem(family(torch.Generator().manual_seed(1_000_003 * seed + trial)))
        if wrong:
            failed[family.__name__] += 1
            failures.append(
                json.dumps({"family": family.__name__, "seed": seed, "trial": trial, "problem": wrong}) + "\n"
            )
    FAILURES.unlink(missing_ok=True)  # those of an earlier run
    if failures:
        FAILURES.parent.mkdir(parents=True, exist_ok=True)
        FAILURES.write_text("".join(failures), encoding="utf-8")
    return {
        "tried": number,
        "passed": number - len(failures),
        "failed": len(failures),
        "failed by family": ", ".join(f"{name} {count}" for name, count in failed.items() if count) or "none",
        "seconds": round(time.process_time() - started, 1),
        "failures": str(FAILURES) if failures else "",
    }


def _plant(F: SignedSelection | Tensor, draw: torch.Generator, leak: float = 0.5, radius: float = 0.7) -> Planted:
    matrix = F.matrix() if isinstance(F, SignedSelection) else F
    size, memories = matrix.shape
    transients = _whole(2, 8, draw)
    units = memories + transients + _whole(0, 6, draw)
    net = planted_network(memories // size, size, units, transients, draw, F=F, leak=leak, radius=radius)
    return Planted(net.model, matrix, F if isinstance(F, SignedSelection) else None, net.basis.read)


def _whole(low: int, high: int, draw: torch.Generator) -> int:
    return int(torch.randint(low, high + 1, (), generator=draw))


def _uniform(low: float, high: float, draw: torch.Generator, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=draw)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(json.dumps(check(arguments.number, arguments.seed), indent=1))
