"""Effect of a finite dynamic range on memory (Renanse et al. 2021, section 2.5).

Averaged over the directions w in which signals can enter, every linearised network holds one signal: `sum_k tr(C^-1
A^k A^kT) = N`, also along a trajectory. Saturation reduces the memory of networks that hold more than one signal for
one direction. Noise is as strong as the signals here, so the linearisation overstates the memory of older signals under
strong noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import hypot, log10
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Elman
from mnemoscope.cells.nonlinearities import make_nonlinearity
from mnemoscope.connectivity import Dense
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.lenses import MatrixSystem, fisher_memory, measure_memory_capacity, memory_capacity
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_least, at_most
from mnemoscope.replication.claims import Claim, Row, about, unpublished
from mnemoscope.replication.study import Finished, Preset, Study, Trial, listed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"linear": "ink", "tanh": "stable", "logistic": "saddle-2", "relu": "saddle-1"}
SATURATING = ("tanh", "logistic")
DRAWN = ("rotation", "delay line", "amplifying line")
EDGE = "small rotation"
"""A network that only tests the published bound."""
REACH = 2.7
"""Standard errors above a ratio that are allowed for: two, at the level of the lowest of three networks and two units.
"""
STRENGTHS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 10.0)
STRONG_TO_WEAK = "J_tot, strong / weak signals"
DECREASE = at_most(0.95, "'may': in one of the three networks a decrease of 5%, and beyond two standard errors")
PAPER = partial(Source, "renanse2021")


def network(name: str, seed: int) -> MatrixSystem:
    """Return one of the linear networks, for signals and noise of variance 1; `W` has length 1.

    >>> network("delay line", 0).map().dense()[1, 0].item()
    1.0
    """
    if name in ("rotation", EDGE):
        size, gain = (4, 0.95) if name == "rotation" else (2, 0.98)
        generator = torch.Generator().manual_seed(seed)
        draw = [torch.randn(size, size, generator=generator, dtype=torch.float64) for _ in range(3)]
        U, V = (gain**0.5 * torch.linalg.qr(matrix)[0] for matrix in draw[:2])
        return MatrixSystem(U, V, draw[2] / draw[2].norm())
    gain, row_gain = {"delay line": 1.0, "amplifying line": 1.25}[name], 0.9  # with one row, U is a number below 1
    V = torch.diag(torch.full((15,), gain / row_gain, dtype=torch.float64), 1)
    return MatrixSystem(torch.full((1, 1), row_gain, dtype=torch.float64), V, torch.eye(16, dtype=torch.float64)[:1])


class Preactivations(Cell):
    """Preactivations of a network: `a' = A f(a) + w s + z`, where `x = f(a)` and `x' = f(A x + w s + z)`.

    Inputs are (s, z). The noise z enters inside f, so it is additive in a, as Fisher memory assumes. Where f is
    invertible, a and f(a) carry the same information; with ReLU, a carries more about the last step than x.
    """

    def __init__(self, A: Float[Tensor, "size size"], w: Float[Tensor, " size"], phi: str) -> None:
        super().__init__()
        self.register_buffer("A", A)
        self.register_buffer("w", w)
        self.phi = make_nonlinearity(phi, len(w))
        self.size = len(w)
        self.input_size = 1 + self.size

    def initial_state(self, batch: int) -> Float[Tensor, "batch size"]:
        return self.get_buffer("w").new_zeros(batch, self.size)

    def forward(self, x: Float[Tensor, "batch inputs"], state: Float[Tensor, "batch size"]) -> Tensor:
        return self.phi(state) @ self.get_buffer("A").mT + x[:, :1] * self.get_buffer("w") + x[:, 1:]

    def jacobian(self, x: Tensor, state: Tensor) -> Tensor:
        """Return `A diag(f'(a))`."""
        return self.get_buffer("A") * self.phi.derivative(state).unsqueeze(-2)


class NonlinearCapacity(Study):
    """Measure Fisher memory along noisy trajectories and linear memory capacity, for units with and without a range."""

    name = "nonlinear-capacity"
    title = "Memory in a finite dynamic range"
    question = "How does a saturating nonlinearity change the memory of a network, and does the published bound hold?"
    seeded = False
    claims = (
        *(Claim(about(phi), STRONG_TO_WEAK, "may decrease", PAPER("2.5.1"), DECREASE) for phi in SATURATING),
        Claim(
            about("relu"),
            STRONG_TO_WEAK,
            "no problem for its bound",
            PAPER("2.5.1"),
            at_least(1 - 1e-6, "no decrease: ReLU of a multiple is the multiple of ReLU, so the strength cancels"),
            by_construction=True,
        ),
        Claim(
            about("linear"),
            "J_tot / Tr(Sigma^-1) Tr(Psi^-1) E|X|^2",
            "at most 1",
            PAPER("Eq 33"),
            agreement=at_most(1, "an inequality"),
            reason="it bounds the published formulas, not the exact total",
        ),
        Claim(
            about("tanh"),
            "J_tot / Tr(Sigma^-1) Tr(Psi^-1) N^2 R",
            "below 1",
            PAPER("Eq 33, R = 1"),
            agreement=at_most(1, "an inequality"),
            reason="signals and noise have no range inside f",
        ),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Smoke test: two strengths, short trajectories; some seconds.",
            {"strengths": (0.01, 3.0), "steps": 30, "batch": 2, "measured": 1000, "delays": 20},
        ),
        "cpu": Preset(
            "Nine strengths, 16 trajectories of 150 steps, 20,000 steps of signals; a minute on one core.",
            {"strengths": STRENGTHS, "steps": 150, "batch": 16, "measured": 20_000, "delays": 60},
        ),
        "paper": Preset(
            "As cpu, with 64 trajectories, 100,000 steps of signals and three seeds. The source has only the bound and "
            "no experiment.",
            {"strengths": STRENGTHS, "steps": 150, "batch": 64, "measured": 100_000, "delays": 100},
            (0, 1, 2),
        ),
    }
    cites = ("renanse2021", "ganguli2008", "jaeger2001")
    lenses = ("fisher", "memory-capacity")
    caption = (
        "x' = f(A x + w s + z) with signals s and noise z of equal strength, in units of the range of tanh. Top: "
        "Fisher memory, linearised along noisy trajectories, in units of one signal; under strong noise it overstates "
        "the memory of older signals. Bottom: signals that linear readouts recover. Dashed: the bound of Eq 33 for "
        "units between -1 and 1. Dotted: the most that linear networks in that range can hold, which is 0 once noise "
        "alone fills the range."
    )

    def trials(self, settings: Mapping[str, Any], seeds: Iterable[int]) -> list[Trial]:
        pairs = [(name, phi) for name in DRAWN for phi in COLOURS] + [(EDGE, "linear")]
        return [
            Trial(f"{name}, {phi}", {"network": name, "phi": phi, **settings}, seed, about(name, phi=phi))
            for seed in seeds
            for name, phi in pairs
        ]

    def run(self, trial: Trial, folder: Path, progress: bool) -> dict[str, Any]:
        settings = trial.settings
        system = network(settings["network"], trial.seed)
        A, w = system.map().dense(), system.source()
        measured = [_measure(A, w, strength, settings, trial.seed) for strength in settings["strengths"]]
        memory, capacity = fisher_memory(A, w), memory_capacity(A, w, noise=1.0, lags=settings["delays"])
        published = fisher_memory(system, method="published")
        constant = _published_constant(system)
        weakest, strongest = log10(settings["strengths"][0]), log10(settings["strengths"][-1])
        grid = torch.logspace(weakest, strongest, 200, dtype=torch.float64).tolist()
        mean_square = float(_mean_square(A, w))
        by_strength = {name: [values[name] for values in measured] for name in measured[0]}
        return by_strength | {
            "linear_total": float(memory.total),
            "linear_capacity": float(capacity.total),
            "published_total": float(published.total),
            "published_bound": constant * mean_square,  # before E|X|^2 is replaced by N^2 R
            "grid": grid,
            "range_published": [constant * system.size / s**2 for s in grid],
            "range_exact": [max(0.0, memory.saturation_bound(1 / s)) for s in grid],
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        bound, in_range = self.claims[-2:]
        rows = [_decrease(self.claim(STRONG_TO_WEAK, about(phi)), results) for phi in (*SATURATING, "relu")]
        for name in dict.fromkeys(run.trial.settings["network"] for run in results):
            runs = [run for run in results if run.trial.settings["network"] == name]
            by_phi = {phi: [run.result for run in runs if run.trial.settings["phi"] == phi] for phi in COLOURS}
            linear = by_phi["linear"]
            exact = [result["linear_total"] / result["published_bound"] for result in linear]
            published = listed((result["published_total"] / result["published_bound"] for result in linear), ".3g")
            remark = f"for the exact J_tot; {published} for the published one; E|X|^2 in place of N^2 R"
            rows.append(_row(f"{name}, linear: J_tot / bound", bound, exact, remark))
            if name == EDGE:
                continue
            tanh, strongest = by_phi["tanh"], runs[0].trial.settings["strengths"][-1]
            worst = [result["total"][-1] / result["range_published"][-1] for result in tanh]
            remark = f"R = 1, strength {strongest:g}: inside f, signals and noise have no range"
            rows.append(_row(f"{name}, tanh: J_tot / bound", in_range, worst, remark))
            rows += _checks(name, linear)
        return rows

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(10.0, 6.4)
        panels = figure.subplots(2, len(DRAWN), sharex=True)
        for column, name in enumerate(DRAWN):
            runs = [run for run in results if run.trial.settings["network"] == name]
            above, below = panels[0, column], panels[1, column]
            strengths = runs[0].trial.settings["strengths"]
            for phi, colour in COLOURS.items():
                same = [run.result for run in runs if run.trial.settings["phi"] == phi]
                for axes, quantity in ((above, "total"), (below, "capacity")):
                    values = [fmean(result[quantity][at] for result in same) for at in range(len(strengths))]
                    axes.plot(strengths, values, color=COLOUR[colour], marker="o", markersize=3.5, label=phi)
            for quantity, style in (("range_published", (0, (4, 3))), ("range_exact", "dotted")):
                grid, bound = runs[0].result["grid"], runs[0].result[quantity]
                above.plot(grid, bound, color=COLOUR["muted"], linestyle=style, linewidth=1.4)
            above.set_title(name, color=COLOUR["ink"], size=PAGE_FONT_SIZE)
            above.set(xscale="log", ylim=(0, 1.25 * max(max(run.result["total"]) for run in runs)))
            below.set(xscale="log", ylim=(0, None), xlabel="strength")
            below.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            for axes in (above, below):
                style_page_axes(axes)
        panels[0, 0].set_ylabel("Fisher memory, total")
        panels[1, 0].set_ylabel("signals recovered")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        style = {"frameon": False, "labelcolor": COLOUR["ink"], "fontsize": PAGE_FONT_SIZE}
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), **style)
        return figure


def _measure(A: Tensor, w: Tensor, strength: float, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Return Fisher memory in units of one signal, along trajectories of noise and signals, and memory capacity."""
    size, phi = len(w), settings["phi"]
    generator = torch.Generator().manual_seed(seed)
    xs = strength * torch.randn(
        settings["steps"], settings["batch"], 1 + size, generator=generator, dtype=torch.float64
    )
    memory = fisher_memory(Preactivations(A, w, phi), 0, along=xs, noise=strength**2)
    totals = memory.total * strength**2
    cell = Elman(1 + size, size, phi, Dense.from_matrix(A), bias=False).double()
    cell.drive.weight = torch.nn.Parameter(torch.cat([w[:, None], torch.eye(size, dtype=torch.float64)], 1))
    noise = torch.full((1 + size,), strength**2, dtype=torch.float64)
    noise[0] = 0
    capacity = measure_memory_capacity(
        cell,
        0,
        signal="normal",
        strength=strength,
        noise=noise,
        seed=seed,
        steps=settings["measured"],
        delays=settings["delays"],
    )
    return {
        "total": float(totals.mean()),
        "total_error": float(totals.std() / len(totals) ** 0.5),
        "capacity": float(capacity.total),
        "capacity_error": capacity.total_error,
    }


def _published_constant(system: MatrixSystem) -> float:
    """Return `Tr(Sigma^-1) Tr(Psi^-1)`, with Sigma and Psi of Eq 9: the sums over columns and over rows."""
    traces = []
    for matrix in (system.U, system.V):
        covariance = fisher_memory(matrix.mT, torch.ones(len(matrix)), lags=1).factor
        assert covariance is not None
        traces.append(torch.cholesky_inverse(covariance).trace())
    return float(traces[0] * traces[1])


def _mean_square(A: Tensor, w: Tensor) -> Tensor:
    """Return `E|X|^2` of the linear network, under noise and signals of variance 1."""
    noise = torch.eye(len(w), dtype=w.dtype) + w[:, None] * w
    S = fisher_memory(A, w, noise=noise, lags=1).factor
    assert S is not None
    return S.square().sum()


def _row(quantity: str, claim: Claim, measured: Sequence[float], remark: str) -> Row:
    return claim.compare(quantity, measured, listed(measured, ".3g"), remark)


def _decrease(claim: Claim, results: Sequence[Finished]) -> Row:
    """Return the row for the memory of strong signals as a share of that of weak ones, by the lowest of the networks.

    The measured value is the ratio plus `REACH` standard errors over trajectories and seeds, for saturating units.
    """
    phi, ratios, highest = claim.subject.network, {}, {}
    for name in DRAWN:
        settings = {"network": name, "phi": phi}
        same = [run.result for run in results if settings.items() <= run.trial.settings.items()]
        weak, strong = (fmean(result["total"][end] for result in same) for end in (0, -1))
        errors = [hypot(*(result["total_error"][end] for result in same)) / len(same) for end in (0, -1)]
        ratios[name] = strong / weak
        highest[name] = ratios[name] * (1 + REACH * hypot(errors[0] / weak, errors[1] / strong))
    ours = ", ".join(f"{name} {ratio:.3g}" for name, ratio in ratios.items())
    if phi == "relu":
        return claim.compare(claim.name, list(ratios.values()), ours)
    lowest = min(highest, key=highest.__getitem__)
    return claim.compare(claim.name, [highest[lowest]], ours, f"{lowest}: below {highest[lowest]:.3g} with other noise")


def _checks(name: str, linear: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return rows that compare the lens along trajectories and the measured capacity with their closed forms."""
    difference = max(abs(total / result["linear_total"] - 1) for result in linear for total in result["total"])
    totals = listed((result["total"][0] for result in linear), ".4g")
    known = listed((result["linear_total"] for result in linear), ".4g")
    measured = ", ".join(f"{result['capacity'][0]:.3g} +- {result['capacity_error'][0]:.1g}" for result in linear)
    exact = listed((result["linear_capacity"] for result in linear), ".3g")
    remark = f"in closed form {known}; relative difference {difference:.0e}"
    return [
        unpublished(f"{name}, linear: J_tot, trajectories", totals, remark),
        unpublished(f"{name}, linear: recovered", measured, f"in closed form {exact}"),
    ]


STUDY = NonlinearCapacity()
