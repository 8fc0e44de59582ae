"""The two-dimensional example and the derivatives of q by which Jang finds fixed points (sections 3, 3.1 and 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mnemoscope.cells import adapt
from mnemoscope.lenses import Dynamics, find_fixed_points
from mnemoscope.replication.agreement import Agreement, at_most, exactly
from mnemoscope.replication.claims import Claim, Row, Subject, about
from mnemoscope.replication.computed_study import ComputedStudy
from mnemoscope.replication.study import Finished, Preset, listed
from mnemoscope.studies.jang.reservoirs import JANG

PLANE, DERIVATIVES = about("plane"), about("derivatives")
POINTS = {"(1, 1/2)": (1.0, 0.5), "(1, -1/2)": (1.0, -0.5), "(0, 0)": (0.0, 0.0)}
"""Printed fixed points of Eq 14 and 15."""
UNSTABLE = {"(1, 1/2)": 0, "(1, -1/2)": 0, "(0, 0)": 1}
"""Unstable directions of the printed kinds: two stable nodes and a saddle."""
EQUAL = at_most(1e-9, "equal up to rounding in float64")
MISPRINT = "F is (0, 1) there; the third point is (-1, -1/2), where both kinds are as printed"
QUANTITIES: dict[str, tuple[str, str, Agreement, str]] = {
    "gradient of q, J^T F": ("equal", "Eq 9", EQUAL, ""),
    "Jacobian, W (1 - tanh^2) - I": ("equal", "Eq 20", EQUAL, ""),
    "Hessian J^T J at fixed points": ("equal, since the other term vanishes", "Eq 12 and 13", EQUAL, ""),
    "Hessian of q at any state": (
        "equal",
        "Eq 11",
        EQUAL,
        "its second sum must have the second derivatives of F instead of products of first ones",
    ),
}
"""For each derivative: the statement, its place, the range of its relative error that agrees, and its error."""


def _flow(_: Tensor, state: Tensor) -> Tensor:
    """Return the velocity of Eq 14 and 15."""
    x, y = state.unbind(-1)
    return torch.stack([(1 - x.square()) * y, x / 2 - y], -1)


def _claims() -> list[Claim]:
    claims = [Claim(PLANE, "fixed points", 3, JANG("section 3.1 and Fig 2"), exactly(3))]
    for name, unstable in UNSTABLE.items():
        reason = MISPRINT if name == "(1, -1/2)" else ""
        kind = "saddle" if unstable else "stable node"
        distance = at_most(1e-8, "the precision of the search")
        claims += [
            Claim(PLANE, f"distance of a fixed point from {name}", "0", JANG("section 3.1"), distance, reason=reason),
            Claim(PLANE, f"unstable directions at {name}", kind, JANG("section 3.1"), exactly(unstable), reason=reason),
        ]
    for name, (value, place, agreement, reason) in QUANTITIES.items():
        source = JANG(place)
        claims.append(Claim(DERIVATIVES, name, value, source, agreement, reason=reason, by_construction=not reason))
    return claims


class WorkedExamples(ComputedStudy):
    """Search the fixed points of the example, and compare the printed derivatives with automatic ones."""

    name = "worked-examples"
    title = "Jang's examples of the search for fixed points"
    question = "Are the fixed points of the example in the plane, and the derivatives of q, as printed?"
    claims = tuple(_claims())
    presets: Mapping[str, Preset] = {
        "smoke": Preset("One network of 4 units.", {"cases": {PLANE: {}, DERIVATIVES: {"units": 4, "networks": 1}}}),
        "cpu": Preset(
            "The example, and ten tanh networks of 12 units; seconds.",
            {"cases": {PLANE: {}, DERIVATIVES: {"units": 12, "networks": 10}}},
        ),
        "paper": Preset(
            "The same with 50 networks.", {"cases": {PLANE: {}, DERIVATIVES: {"units": 12, "networks": 50}}}
        ),
    }
    cites = ("jang", "sussillo2013")
    lenses = ("fixed-points",)

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        return self._derivatives(generator, **case) if case else self._plane()

    def _plane(self) -> dict[str, Any]:
        system = adapt(_flow, state_size=2)
        fp = find_fixed_points(Dynamics(system, continuous=True, bounds=(-2.0, 2.0)))
        printed = torch.tensor([*POINTS.values()], dtype=torch.float64)
        distance, nearest = torch.cdist(printed, fp.states).min(1)
        jacobians = torch.func.vmap(torch.func.jacrev(lambda state: _flow(state, state)))(printed)
        return {
            "points": [[round(value, 6) for value in state] for state in fp.states.tolist()],
            "distance": distance.tolist(),
            "unstable": fp.unstable[nearest].tolist(),
            "unstable at the printed point": (torch.linalg.eigvals(jacobians).real > 0).sum(1).tolist(),
        }

    def _derivatives(self, generator: torch.Generator, units: int, networks: int) -> dict[str, Any]:
        errors = dict.fromkeys(QUANTITIES, 0.0)
        for _ in range(networks):
            W = 1.5 * torch.randn(units, units, generator=generator).double() / units**0.5
            x = torch.randn(units, generator=generator).double()
            system = adapt(lambda _, state, W=W: torch.tanh(state) @ W.mT - state, state_size=units)
            fp = find_fixed_points(Dynamics(system, continuous=True, bounds=(-float(units), float(units))))
            for name, error in _errors(W, x, fp.states).items():
                errors[name] = max(errors[name], error)
        return {"errors": errors}

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        rows = []
        for finished in results:
            subject, result = finished.trial.subject, finished.result
            measured = _plane_values(result) if "points" in result else result["errors"]
            for name, value in measured.items():
                ours = str(value) if isinstance(value, int) else f"{value:.1e}"
                rows.append(self._row(finished, name, value, ours, subject))
        return rows

    def _row(self, finished: Finished, name: str, value: float, ours: str, subject: Subject) -> Row:
        found = finished.result.get("points", ())
        remark = f"found: {'; '.join(f'({listed(point)})' for point in found)}" if name == "fixed points" else ""
        return self.compare([finished], self.claim(name, subject), [value], ours, remark)


def _plane_values(result: Mapping[str, Any]) -> dict[str, float]:
    values: dict[str, float] = {"fixed points": len(result["points"])}
    for place, name in enumerate(POINTS):
        values[f"distance of a fixed point from {name}"] = result["distance"][place]
        values[f"unstable directions at {name}"] = result["unstable at the printed point"][place]
    return values


def _errors(W: Tensor, x: Tensor, fixed_points: Tensor) -> dict[str, float]:
    """Return the relative errors of the printed derivatives at x, and of J^T J at the fixed points."""

    def F(state: Tensor) -> Tensor:
        return W @ torch.tanh(state) - state

    def q(state: Tensor) -> Tensor:
        return F(state).square().sum() / 2

    def J(state: Tensor) -> Tensor:
        return W * (1 - torch.tanh(state).square()) - torch.eye(len(W), dtype=W.dtype)

    exact, hessian = torch.func.jacrev(F)(x), torch.func.jacrev(torch.func.jacrev(q))
    printed = J(x).mT @ J(x) + torch.einsum("k,ki,kj->ij", F(x), J(x), J(x))
    at_rest = max(_relative(J(state).mT @ J(state), hessian(state)) for state in fixed_points)
    values = (
        _relative(J(x).mT @ F(x), torch.func.grad(q)(x)),
        _relative(J(x), exact),
        at_rest,
        _relative(printed, hessian(x)),
    )
    return dict(zip(QUANTITIES, values, strict=True))


def _relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


STUDY = WorkedExamples()
