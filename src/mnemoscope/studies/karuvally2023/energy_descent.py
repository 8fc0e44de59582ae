"""Which printed energy of the episodic memory falls, and which rises (Karuvally et al. 2023, and notes on its energy).

The notes derive an energy of the discrete memory (Eq 25 and 26), print it again with other signs (Eq 28 and 29, 35, 45
and 47), leave open whether it falls, and assume that it is bounded. Here each is put to random steps of random
memories. With V_d frozen, Eq 25 falls on all of them by two divergences of Bregman's, for every convex function; the
others rise.

V_d is taken as each equation has it. Eq 28 and 29 are written with V_d = sigma_f(V_f) of the time before the step, by
Eq 27, on both sides of it; the others with any V_d that stays during the step: on every other one those rates too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import EpisodicMemory, EpisodicState
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.bregman import beyond_rounding, step_descent
from mnemoscope.lenses.energy.lyapunov import lyapunov_functions
from mnemoscope.lenses.energy.recurrence import Recurrence
from mnemoscope.lenses.energy.schedule import Schedule
from mnemoscope.lenses.energy.terms import VARIANTS, flow_energy_rate, map_energy
from mnemoscope.lenses.energy.weights import Weights
from mnemoscope.registry.citations import Source
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about
from mnemoscope.replication.computing import ComputedStudy, legend_above, rounded
from mnemoscope.replication.study import Finished, Preset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACTIVATIONS = ("tanh", "logistic", "softmax", "relu", "polynomial", "linear")
BOUNDED = ACTIVATIONS[:3]
NETWORKS = 40
"""Memories of each case that does not say how many; its steps are shared among them."""
SETTLING = 10
"""Steps after which V_d has been following for a while."""
SEARCHED = 60
"""Steps of the search for an energy below its bound."""
STARTS = 16
"""Its starts in each memory."""
TRACE = 12
"""Steps of the trajectory that is drawn."""
EXACT = 1e-12
_notes = partial(Source, "energy_notes")
_derived = Source("mnemoscope")
_NAMES = {
    "exact": "Eq 25, V_d frozen",
    "following": "Eq 25, V_d following",
    "printed 28": "Eq 28/29",
    "printed 35": "Eq 35",
    "printed 45": "Eq 45/47",
}


def random_memory(generator: torch.Generator, sigma_f: str, sigma_h: str = "linear", alphas: bool = False) -> Weights:
    """2 to 16 features and 1 to 12 memories, of random strength; `alphas`: with random alpha_s and alpha_c."""
    features, memories = (
        int(torch.randint(low, high + 1, (), generator=generator)) for low, high in ((2, 16), (1, 12))
    )
    gain, alpha_s, alpha_c = (torch.rand(3, generator=generator, dtype=torch.float64) * 1.7 + 0.3).tolist()
    Xi = gain * torch.randn(features, memories, generator=generator, dtype=torch.float64) / features**0.5
    Phi = torch.randn(memories, memories, generator=generator, dtype=torch.float64) / memories**0.5
    return Weights.from_matrices(Xi, Phi, sigma_f, sigma_h, *((alpha_s, alpha_c) if alphas else ()))


def random_steps(generator: torch.Generator, weights: Weights, steps: int) -> tuple[Tensor, Tensor]:
    """V_f, and V_d: the rates of V_f on every other step, as in Eq 27, else those of another state."""
    x, other = (2 * torch.randn(steps, weights.features, generator=generator, dtype=torch.float64) for _ in range(2))
    y = weights.sigma_f(other)
    y[::2] = weights.sigma_f(x[::2])
    return x, y


def rising(weights: Weights, x: Float[Tensor, "steps features"], y: Float[Tensor, "steps features"]) -> dict[str, int]:
    """How many of these steps raise each of the energies; Eq 28 and 29 with V_d = sigma_f(x), as Eq 27 asks."""
    counts = {}
    for variant in VARIANTS:
        held = weights.sigma_f(x) if variant == "printed 28" else y
        old, new = map_energy(weights, x, held, variant), map_energy(weights, weights.step(x, held), held, variant)
        counts[variant] = int(beyond_rounding(new.total - old.total, old.size + new.size).sum())
    counts["following"] = int(step_descent(weights, x, weights.sigma_f(x), following=True).rises.sum())
    return counts


def descended(weights: Weights, x: Float[Tensor, "starts features"], y: Float[Tensor, "starts features"]) -> Tensor:
    """V_f where a search for the lowest energy ends: some from x by Adam, some by steps of the memory before that."""
    stepped = x
    for _ in range(SEARCHED):
        stepped = weights.step(stepped, y)
    start = torch.where((torch.arange(len(x)) % 2 == 0)[:, None], x, stepped)
    found = start.clone().requires_grad_()
    search = torch.optim.Adam([found], lr=0.1)
    for _ in range(SEARCHED):
        search.zero_grad()
        map_energy(weights, found, y).total.sum().backward()
        search.step()
    return found.detach()


def below(weights: Weights, x: Float[Tensor, "states features"], y: Tensor) -> tuple[int, float]:
    """How many states are below the bound by more than rounding, and the least share of it that they are above."""
    energy, bound = map_energy(weights, x, y), lower_bound(weights, y).value
    under = beyond_rounding(bound - energy.total, energy.size + bound.abs())
    return int(under.sum()), float(((energy.total - bound) / bound.abs().clamp_min(1e-300)).min())


def later_rising(weights: Weights, x: Float[Tensor, "steps features"]) -> int:
    """How many steps raise Eq 25 where V_d has been following for a while."""
    for _ in range(SETTLING):
        x = weights.step(x, weights.sigma_f(x))
    return int(step_descent(weights, x, weights.sigma_f(x), following=True).rises.sum())


def flow_rising(weights: Weights, x: Float[Tensor, "states features"], y: Tensor, T_d: float) -> int:
    """At how many states of the three populations the energy of the flow rises: V_f after a step from x under V_d = y,
    memories at rest with both.
    """
    memory = EpisodicMemory(weights.Xi, weights.Phi, weights.sigma_f, weights.sigma_h, T_d=T_d)
    f = weights.step(x, y)
    state = EpisodicState(f, weights.memory_drive(weights.sigma_f(f), y), y)
    with torch.no_grad():
        rate = flow_energy_rate(weights, state, memory(torch.zeros_like(f), state), 1.0, 1.0)
    return int(beyond_rounding(rate.total, rate.size).sum())


def elman_rising(generator: torch.Generator, sigma: str, states: int) -> tuple[int, int]:
    """Rises where a Lyapunov function exists, and steps: W symmetric, or positive too; positive S and a schedule."""
    size = int(torch.randint(2, 13, (), generator=generator))
    W, Xi = (torch.randn(size, size, generator=generator, dtype=torch.float64) / size for _ in range(2))
    start = 2 * torch.randn(states, size, generator=generator, dtype=torch.float64)
    b = torch.randn(size, generator=generator, dtype=torch.float64)
    seen = []
    for kind, own in (("two-step", W + W.mT), ("one-step", W @ W.mT)):
        recurrence = Recurrence.from_matrix(own, b, sigma)
        rates = [recurrence.sigma(start)]
        for _ in range(4):
            rates.append(recurrence.step(rates[-1]))
        along = torch.stack(rates)
        best = next(one for one in lyapunov_functions(recurrence) if one.kind == kind)
        seen.append(beyond_rounding(best.energy(along).total.diff(dim=0), best.size(along)))
    schedule = Schedule(Weights.from_matrices(Xi, W @ W.mT, sigma), hold=2)
    along = schedule.run(schedule.weights.sigma_f(start), 4)
    energy = schedule.energy(along, schedule.delayed(along), settled=True)
    seen.append(beyond_rounding(energy.total.diff(dim=0), energy.size[1:] + energy.size[:-1]))
    return sum(int(rises.sum()) for rises in seen), sum(rises.numel() for rises in seen)


def _cases(steps: int, **more: Any) -> dict[str, dict[str, Any]]:
    return {name: {"sigma": name, "steps": steps, **more} for name in ACTIVATIONS}


def _networks(case: Mapping[str, Any]) -> int:
    return case.get("networks", NETWORKS)


class EnergyDescent(ComputedStudy):
    """Random steps of random memories, under each of the printed energies."""

    name = "energy-descent"
    title = "Which energy of the episodic memory falls"
    question = "Does any printed energy fall at every step, and can it fall for ever?"
    claims = (
        Claim(about("Eq 25/26, V_d frozen"), "rising steps", "not stated", _notes("its update is called not complete")),
        Claim(about("Eq 28/29"), "rising steps", "not stated", _notes("4.1: ends in a question")),
        Claim(about("Eq 35, tanh"), "rising steps", "not stated", _notes("section 5: breaks off")),
        Claim(
            about("Eq 45/47"),
            "rising steps",
            "none: a proof is begun",
            _notes("section 6: not finished"),
            tolerance=(0, 0),
            reason="it has other signs than Eq 25, which falls",
        ),
        Claim(about("Eq 25, V_d following"), "rising steps", "not stated", _notes("Eq 3-7: T_d -> 0")),
        Claim(about("the same, after ten steps"), "rising steps", "not stated", _notes("Eq 3-7: T_d -> 0")),
        Claim(
            about("Eq 3, flow"),
            "rising states",
            "none",
            Source("karuvally2023", "Eq 3 and the definition before it"),
            tolerance=(0, 0),
            reason="V_d moves; frozen, it falls",
        ),
        Claim(about("Eq 3, flow, V_d frozen"), "rising states", "none", _derived, tolerance=(0, 0)),
        Claim(about("Eq 25"), "worst error of the identity", "below 1e-12", _derived, tolerance=(0, EXACT)),
        Claim(about("any sigma_h, alphas"), "rising steps", "none", _derived, tolerance=(0, 0)),
        Claim(about("any sigma_h, alphas"), "worst error", "below 1e-12", _derived, tolerance=(0, EXACT)),
        Claim(EVERYTHING, "below the bound, where one exists", "none", _derived, tolerance=(0, 0)),
        Claim(
            about("relu, polynomial, linear"),
            "unbounded memories",
            "none, assumed",
            _notes("section 6"),
            tolerance=(0, 0),
            reason="their rates are unbounded",
        ),
        Claim(about("Elman"), "rises of functions that exist", "none", _derived, tolerance=(0, 0)),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "120 steps, by six memories, of each activation: it shows that the machinery works.",
            {"cases": _cases(120, networks=6)},
        ),
        "cpu": Preset(
            "20,000 steps of each of six activations, three seeds; a minute or two on one core.",
            {"cases": _cases(20_000)},
            (0, 1, 2),
        ),
        "paper": Preset(
            "200,000 steps of each of six activations, five seeds; minutes. The source has no experiment.",
            {"cases": _cases(200_000)},
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("karuvally2023",)
    lenses = ("energy",)
    caption = (
        "Left: share of random steps on which each printed energy rises, by activation; Eq 25 with V_d frozen rises on "
        "none. Right: a tanh memory from one start, with V_d frozen, or following for the curve of that name; "
        "change of each energy since then, in units of its largest."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        sigma, networks = case["sigma"], _networks(case)
        each = case["steps"] // networks
        counts = dict.fromkeys([*_NAMES, "later", "flow", "flow frozen", "general", "below", "lyapunov"], 0)
        states, gap = 0, 1.0
        errors: dict[str, list[Tensor]] = {"exact": [], "general": []}
        unbounded = unknown = followed = 0
        for _ in range(networks):
            weights = random_memory(generator, sigma)
            x, y = random_steps(generator, weights, each)
            for name, count in rising(weights, x, y).items():
                counts[name] += count
            errors["exact"].append(step_descent(weights, x, y).error.max())
            bound = lower_bound(weights, y)
            unbounded, unknown = unbounded + (bound.exists is False), unknown + (bound.exists is None)
            if bound.exists:
                x_low = descended(weights, x[:STARTS], y[:STARTS])
                for here, held in ((x, y), (x_low, y[:STARTS])):
                    under, least = below(weights, here, held)
                    counts["below"], states, gap = counts["below"] + under, states + len(here), min(gap, least)
            counts["later"] += later_rising(weights, x) if sigma in BOUNDED else 0  # others leave for infinity
            counts["flow"] += flow_rising(weights, x, y, 1.0)
            counts["flow frozen"] += flow_rising(weights, x, y, float("inf"))
            other = ACTIVATIONS[int(torch.randint(len(ACTIVATIONS), (), generator=generator))]
            general = random_memory(generator, sigma, other, alphas=True)
            seen = step_descent(general, *random_steps(generator, general, each))
            counts["general"] += int(seen.rises.sum())
            errors["general"].append(seen.error.max())
            rises, steps = elman_rising(generator, sigma, each // 10 + 1)
            counts["lyapunov"], followed = counts["lyapunov"] + rises, followed + steps
        worst = {name: float(torch.stack(own).max()) for name, own in errors.items()}  # NaN, if there were any, is kept
        trace = _trace(generator) if sigma == "tanh" else {}
        return {
            "steps": networks * each,
            "followed": followed,
            "rises": counts,
            "error": worst,
            "states": states,
            "gap": gap,
            "unbounded": unbounded,
            "unknown": unknown,
            "trace": trace,
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        bounded = [one for one in results if one.trial.settings["sigma"] in BOUNDED]
        free = [one for one in results if one not in bounded]

        def count(
            number: int, key: str, trials: Sequence[Finished] = results, counted: str = "steps", remark: str = ""
        ) -> Row:
            rises = [one.result["rises"][key] for one in trials]
            steps = sum(one.result[counted] for one in trials)
            share = sum(rises) / steps
            ours = f"{sum(rises):,} of {steps:,}" + (f" ({share:.0%})" if sum(rises) else "")
            remark = remark or (_by_activation(trials, key) if sum(rises) else "")
            return self.row(trials, self.claims[number], rises, ours, remark)

        def error(number: int, key: str) -> Row:
            errors = [one.result["error"][key] for one in results]
            remark = "relative to the absolute sum of all terms"
            return self.row(results, self.claims[number], errors, f"{max(errors):.1e}", remark)

        tanh = [one for one in results if one.trial.settings["sigma"] == "tanh"]
        pooled = f"with its sign for every activation, {_share(results, 'printed 35'):.0f}% of all steps: "
        gaps = [
            min((one.result["gap"] for one in trials if one.result["states"]), default=1.0)
            for trials in (bounded, free)
        ]
        searched = (
            f"random states, and such as a descent on V_f finds; least height above it, of |bound|: {gaps[0]:.2g} for "
            f"{', '.join(BOUNDED)}, {gaps[1]:.1e} for others"
        )
        unbounded, unknown = (sum(one.result[key] for one in free) for key in ("unbounded", "unknown"))
        return [
            count(0, "exact"),
            count(1, "printed 28"),
            count(2, "printed 35", tanh, remark=pooled + _by_activation(results, "printed 35")),
            count(3, "printed 45"),
            count(4, "following"),
            count(5, "later", bounded),
            count(6, "flow"),
            count(7, "flow frozen"),
            error(8, "exact"),
            count(9, "general"),
            error(10, "general"),
            count(11, "below", [one for one in results if one.result["states"]], "states", searched),
            self.row(
                free,
                self.claims[12],
                [one.result["unbounded"] for one in free],
                f"{unbounded} of {sum(_networks(one.trial.settings) for one in free)}",
                f"not known of {unknown}; the rest has alpha_s |Xi|^2 < 1",
            ),
            count(13, "lyapunov", counted="followed"),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.6)
        left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
        keys = ("printed 28", "printed 35", "printed 45", "following", "exact")
        series = dict(zip(keys, ("saddle-1", "marginal", "unstable", "slow", "stable"), strict=True))
        named = [name for name in ACTIVATIONS if any(one.trial.settings["sigma"] == name for one in results)]
        for number, key in enumerate(keys):
            shares = [_share([one for one in results if one.trial.settings["sigma"] == name], key) for name in named]
            at = [place + (number - 2) * 0.16 for place in range(len(named))]
            left.barh(at, shares, height=0.15, color=COLOUR[series[key]], label=_NAMES[key])
            if key == "exact":
                left.plot(shares, at, "o", markersize=4, color=COLOUR[series[key]], clip_on=False)
        left.set_yticks(range(len(named)), named)
        left.invert_yaxis()
        left.set(xlabel="rising steps, %", xlim=(0, None))
        trace = next((one.result["trace"] for one in results if one.trial.settings["sigma"] == "tanh"), None)
        for key, values in (trace or {}).items():
            reach = max(abs(value) for value in values) or 1.0
            right.plot([value / reach for value in values], color=COLOUR[series[key]], linewidth=1.8)
        right.axhline(0, color=COLOUR["muted"], linewidth=0.8)
        right.set(xlabel="step", ylabel="change since the start")
        for axes in (left, right):
            style_page_axes(axes)
        left.grid(axis="y", visible=False)
        left.tick_params(axis="y", labelsize=PAGE_FONT_SIZE, length=0)
        legend_above(figure, 2)
        return figure


def _trace(generator: torch.Generator) -> dict[str, list[float]]:
    """The energies along one trajectory, minus their first value; one that is `following` has a V_d that does."""
    weights = random_memory(generator, "tanh")
    x, y = (part[1] for part in random_steps(generator, weights, 2))
    fields, following = [x], [x]
    for _ in range(TRACE):
        fields.append(weights.step(fields[-1], y))
        following.append(weights.step(following[-1], weights.sigma_f(following[-1])))
    along, free = torch.stack(fields), torch.stack(following)
    traces = {variant: map_energy(weights, along, y.expand_as(along), variant).total for variant in VARIANTS}
    traces["following"] = map_energy(weights, free, weights.sigma_f(free)).total
    return {name: rounded(values - values[0]) for name, values in traces.items()}


def _share(results: Sequence[Finished], key: str) -> float:
    return 100 * sum(one.result["rises"][key] for one in results) / sum(one.result["steps"] for one in results)


def _by_activation(results: Sequence[Finished], key: str) -> str:
    shares = {
        name: _share(own, key)
        for name in ACTIVATIONS
        if (own := [one for one in results if one.trial.settings["sigma"] == name])
    }
    return ", ".join(f"{name} {share:.0f}%" for name, share in shares.items())


STUDY = EnergyDescent()
