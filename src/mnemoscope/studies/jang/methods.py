"""How Jang's networks are searched and trained: descents on q (section 3) and FORCE updates (Eq 27 and 28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, spread
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.jang.reservoirs import JANG

DESCENTS, UPDATES = about("descents"), about("updates")
SAME, SLOWER = "starts that lead to the same minimum", "steps of gradient descent for each of the second order"
WEIGHTS, INVERSE = "Eq 27: relative error of the weights", "Eq 28: relative error of P"
GAIN = 1.5
"""Scale of the recurrent weights (Table 1)."""
AT_REST = 1e-8
"""Length of the gradient of q at which a descent ends."""
MOST_STEPS = 200_000
NEAR = 1e-3
"""Distance between the ends of two descents, for each unit, up to which they are the same minimum."""
MISPRINT = "its weights before and after the update are exchanged; the other way around, it is exact"
Vector = NDArray[np.float64]


class Descent(NamedTuple):
    """End of a descent on q."""

    state: Vector
    steps: int
    at_rest: bool
    """Whether the gradient of q vanishes at the end."""


class Network(NamedTuple):
    """The network of Eq 18, `F(x) = W tanh(x) - x`, and its energy `q = |F|^2 / 2`."""

    W: Vector

    def velocity(self, x: Vector) -> Vector:
        """Return F."""
        return self.W @ np.tanh(x) - x

    def jacobian(self, x: Vector) -> Vector:
        """Return the matrix of Eq 20."""
        return self.W * (1 - np.tanh(x) ** 2) - np.eye(len(x))

    def energy(self, x: Vector) -> float:
        """Return q."""
        return float(self.velocity(x) @ self.velocity(x)) / 2

    def gradient(self, x: Vector) -> Vector:
        """Return Eq 9."""
        return self.jacobian(x).T @ self.velocity(x)

    def hessian(self, x: Vector) -> Vector:
        """Return the approximation of Eq 13."""
        return self.jacobian(x).T @ self.jacobian(x)

    def descend(self, x: Vector) -> Descent:
        """Follow the negative gradient; a step that does not lower q enough is halved, and the next one is longer."""
        energy, gradient, length = self.energy(x), self.gradient(x), 0.1
        for step in range(MOST_STEPS):
            size = float(gradient @ gradient)
            if size <= AT_REST**2:
                return Descent(x, step, True)
            while (lower := self.energy(x - length * gradient)) > energy - length * size / 2:
                length /= 2
                if not length:  # rounding: no step along the gradient lowers q
                    return Descent(x, step, False)
            x = x - length * gradient
            energy, gradient, length = lower, self.gradient(x), 1.5 * length
        return Descent(x, MOST_STEPS, False)

    def descend_by_curvature(self, x: Vector) -> Descent:
        """Descend by conjugate gradients inside a trust region, as in section 10.3."""
        options = {"gtol": AT_REST, "maxiter": MOST_STEPS}
        found = minimize(self.energy, x, jac=self.gradient, hess=self.hessian, method="trust-ncg", options=options)
        return Descent(found.x, int(found.nit), bool(np.linalg.norm(self.gradient(found.x)) <= 2 * AT_REST))


class Methods(ComputedStudy):
    """Compare two descents from the same states, and FORCE updates with the weights of a regularised regression."""

    name = "jang-methods"
    title = "Jang's methods: descents and FORCE updates"
    question = "Do first and second order find the same minima of q, and are the updates of FORCE as printed?"
    claims = (
        Claim(
            DESCENTS,
            SAME,
            "typically",
            JANG("section 3"),
            at_least(0.5, "our reading of 'typically': at least half of the starts"),
        ),
        Claim(
            DESCENTS,
            SLOWER,
            "extremely slowly",
            JANG("section 3"),
            at_least(10, "our reading of 'extremely slowly': in the median ten times as many steps"),
        ),
        Claim(
            UPDATES,
            WEIGHTS,
            "recursive least squares",
            JANG("Eq 27"),
            at_most(1e-9, "those of a regularised regression, up to rounding in float64"),
            reason=MISPRINT,
        ),
        Claim(
            UPDATES,
            INVERSE,
            "the inverse correlation matrix",
            JANG("Eq 28 and section 10.2"),
            at_most(1e-9, "that of all states and the first P, up to rounding in float64"),
            by_construction=True,
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "One network of 4 units.",
            {
                "cases": {
                    DESCENTS: {"units": 4, "networks": 1, "starts": 2},
                    UPDATES: {"units": 4, "outputs": 1, "states": 8},
                }
            },
        ),
        "cpu": Preset(
            "Ten networks of 12 units with ten starts each, and 300 updates of 100 units; two minutes on one core.",
            {
                "cases": {
                    DESCENTS: {"units": 12, "networks": 10, "starts": 10},
                    UPDATES: {"units": 100, "outputs": 3, "states": 300},
                }
            },
        ),
        "paper": Preset(
            "The same with 30 networks, and 1,000 updates of 300 units; minutes. The source has no numbers for these.",
            {
                "cases": {
                    DESCENTS: {"units": 12, "networks": 30, "starts": 10},
                    UPDATES: {"units": 300, "outputs": 3, "states": 1000},
                }
            },
        ),
    }
    cites = ("jang", "sussillo2009", "sussillo2013")
    lenses = ("fixed-points",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        random = np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))
        return _descents(random, **case) if "starts" in case else _updates(random, **case)

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for finished in results:
            result, subject = finished.result, finished.trial.subject
            if subject == UPDATES:
                for quantity in (WEIGHTS, INVERSE):
                    remark = f"corrected {result['corrected']:.1e}" if quantity == WEIGHTS else ""
                    value = result[quantity]
                    rows.append(
                        self.compare([finished], self.claim(quantity, subject), [value], f"{value:.1e}", remark)
                    )
                continue
            same, ratios = result["same"], result["ratios"]
            unfinished = f"{result['unfinished']} of {len(same)} descents of the first order did not come to rest"
            ours = f"{sum(same)} of {len(same)}"
            rows.append(self.compare([finished], self.claim(SAME, subject), [sum(same) / len(same)], ours, unfinished))
            middle = median(ratios)
            claim = self.claim(SLOWER, subject)
            rows.append(self.compare([finished], claim, [middle], f"{middle:.0f}, of {spread(ratios)}", unfinished))
        return rows


def _descents(random: np.random.Generator, units: int, networks: int, starts: int) -> dict[str, Any]:
    """Return for each start whether both descents end in the same minimum, and the ratio of their steps."""
    same, ratios, unfinished = [], [], 0
    for _ in range(networks):
        network = Network(GAIN * random.standard_normal((units, units)) / units**0.5)
        for start in random.standard_normal((starts, units)):
            first, second = network.descend(start), network.descend_by_curvature(start)
            distance = float(np.linalg.norm(first.state - second.state))
            same.append(first.at_rest and second.at_rest and distance <= NEAR * units**0.5)
            ratios.append(first.steps / max(second.steps, 1))
            unfinished += not first.at_rest
    return {"same": same, "ratios": [round(ratio, 2) for ratio in ratios], "unfinished": unfinished}


def _updates(random: np.random.Generator, units: int, outputs: int, states: int) -> dict[str, float]:
    """Return the errors of P and of the weights after updates on random rates with random targets."""
    rates = np.tanh(GAIN * random.standard_normal((states, units)))
    targets = random.standard_normal((states, outputs))
    P, printed, corrected = np.eye(units), np.zeros((outputs, units)), np.zeros((outputs, units))
    for r, target in zip(rates, targets, strict=True):
        P = P - np.outer(P @ r, P @ r) / (1 + r @ P @ r)
        corrected = corrected - np.outer(corrected @ r - target, P @ r)
        printed = printed + np.outer(printed @ r - target, P @ r)  # Eq 27, solved for the later weights
    inverse = np.linalg.inv(np.eye(units) + rates.T @ rates)
    weights = targets.T @ rates @ inverse
    return {
        INVERSE: _relative(P, inverse),
        WEIGHTS: _relative(printed, weights),
        "corrected": _relative(corrected, weights),
    }


def _relative(found: Vector, expected: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


STUDY = Methods()
