"""Descent of the printed energies of the episodic memory (Karuvally et al. 2023, and notes on its energy).

The notes derive an energy of the discrete memory (Eq 25 and 26), print it again with other signs (Eq 28 and 29, 35, 45
and 47), and assume that it is bounded. They call each of these an energy and begin to prove that it falls, which they
leave open; so a printed energy agrees with the notes if no step raises it. This study evaluates each energy on random
steps of random memories. With V_d frozen, Eq 25 falls on all steps, by the sum of two Bregman divergences, for every
convex function; the others rise on some.

Each equation is evaluated with the V_d for which it is written. Eq 28 and 29 take V_d = sigma_f(V_f) from before the
step (Eq 27) on both sides of the step. The others hold for any V_d that stays constant during the step; every second
step uses those rates too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.lenses.energy.bounds import lower_bound
from mnemoscope.lenses.energy.bregman import step_descent
from mnemoscope.lenses.energy.terms import VARIANTS, map_energy
from mnemoscope.registry.citations import Source
from mnemoscope.replication.agreement import at_most, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, Row, about, unpublished
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, rounded
from mnemoscope.replication.learning_study import by_name
from mnemoscope.replication.study import Finished, Preset
from mnemoscope.studies.karuvally2023.energy_rises import (
    SETTLING,
    count_below,
    count_elman_rises,
    count_flow_rises,
    count_later_rises,
    count_rises,
    descend,
    random_memory,
    random_steps,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACTIVATIONS = ("tanh", "logistic", "softmax", "relu", "polynomial", "linear")
BOUNDED = ACTIVATIONS[:3]
"""Activations with bounded rates."""
NETWORKS = 40
"""Default number of memories in a case; they share its steps."""
STARTS = 16
"""Starts of the search for an energy below its bound, in each memory."""
TRACE = 12
"""Steps of the trajectory that is drawn."""
EXACT = 1e-12
"""Largest relative error of an identity that counts as exact."""
_notes = partial(Source, "energy_notes")
_derived = Source("mnemoscope")
_NAMES = {
    "exact": "Eq 25, V_d frozen",
    "following": "Eq 25, V_d following",
    "printed 28": "Eq 28/29",
    "printed 35": "Eq 35",
    "printed 45": "Eq 45/47",
}


def _is_energy(equation: str, place: str, reason: str = "") -> Claim:
    """Return the claim that a printed energy falls: an energy is a function that no step raises."""
    agreement = exactly(0, "our reading of 'energy': no step raises it")
    return Claim(about(equation), "rising steps", "an energy: none", _notes(place), agreement, reason=reason)


def _cases(steps: int, **more: Any) -> dict[str, dict[str, Any]]:
    return {name: {"sigma": name, "steps": steps, **more} for name in ACTIVATIONS}


def _networks(case: Mapping[str, Any]) -> int:
    return case.get("networks", NETWORKS)


class EnergyDescent(ComputedStudy):
    """Evaluate each printed energy on random steps of random memories."""

    name = "energy-descent"
    title = "Which energy of the episodic memory falls"
    question = "Does any printed energy fall at every step, and is it bounded below?"
    claims = (
        _is_energy("Eq 25/26, V_d frozen", "section 4: its discrete update is called not complete"),
        _is_energy("Eq 28/29", "4.1: ends in a question", "its third term has another sign than in Eq 25, which falls"),
        _is_energy("Eq 35, tanh", "section 5: breaks off", "it lacks a minus sign, with which it is Eq 25"),
        _is_energy("Eq 45/47", "section 6: not finished", "it has other signs than Eq 25, which falls"),
        _is_energy("Eq 25, V_d following", "Eq 3-7: T_d -> 0", "V_d moves at every step; frozen, the energy falls"),
        Claim(
            about("Eq 3, flow"),
            "rising states",
            "none",
            Source("karuvally2023", "Eq 3 and the definition before it"),
            exactly(0, "none may rise"),
            reason="V_d moves; frozen, it falls",
        ),
        Claim(about("Eq 3, flow, V_d frozen"), "rising states", "none", _derived, exactly(0, "none may rise")),
        Claim(
            about("Eq 25"),
            "worst error of the identity",
            "below 1e-12",
            _derived,
            at_most(EXACT, "rounding in float64"),
        ),
        Claim(about("any sigma_h, alphas"), "rising steps", "none", _derived, exactly(0, "none may rise")),
        Claim(
            about("any sigma_h, alphas"), "worst error", "below 1e-12", _derived, at_most(EXACT, "rounding in float64")
        ),
        Claim(EVERYTHING, "below the bound, where one exists", "none", _derived, exactly(0, "none may rise")),
        Claim(
            about("relu, polynomial, linear"),
            "unbounded memories",
            "none, assumed",
            _notes("section 6"),
            exactly(0, "none may rise"),
            reason="their rates are unbounded",
        ),
        Claim(about("Elman"), "rises of functions that exist", "none", _derived, exactly(0, "none may rise")),
    )
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "120 steps of six memories for each activation; checks only that the code runs.",
            {"cases": _cases(120, networks=6)},
        ),
        "cpu": Preset(
            "20,000 steps for each of six activations, three seeds; a minute or two on one core.",
            {"cases": _cases(20_000)},
            (0, 1, 2),
        ),
        "paper": Preset(
            "200,000 steps for each of six activations, five seeds; minutes. The source has no experiment.",
            {"cases": _cases(200_000)},
            (0, 1, 2, 3, 4),
        ),
    }
    cites = ("karuvally2023",)
    lenses = ("energy",)
    caption = (
        "Left: share of random steps on which each printed energy rises, by activation; Eq 25 with V_d frozen rises on "
        "none. Right: change of each energy of a tanh memory since the start of a trajectory, relative to its largest "
        "change; V_d is frozen, except for the curve with V_d following."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        sigma, networks = case["sigma"], _networks(case)
        steps = case["steps"] // networks
        counts = dict.fromkeys([*_NAMES, "later", "flow", "flow frozen", "general", "below", "lyapunov"], 0)
        states, gap = 0, 1.0
        errors: dict[str, list[Tensor]] = {"exact": [], "general": []}
        unbounded = unknown = followed = 0
        for _ in range(networks):
            weights = random_memory(generator, sigma)
            x, y = random_steps(generator, weights, steps)
            for name, count in count_rises(weights, x, y).items():
                counts[name] += count
            errors["exact"].append(step_descent(weights, x, y).error.max())
            bound = lower_bound(weights, y)
            unbounded, unknown = unbounded + (bound.exists is False), unknown + (bound.exists is None)
            if bound.exists:
                x_low = descend(weights, x[:STARTS], y[:STARTS])
                for here, held in ((x, y), (x_low, y[:STARTS])):
                    under, least = count_below(weights, here, held)
                    counts["below"], states, gap = counts["below"] + under, states + len(here), min(gap, least)
            counts["later"] += count_later_rises(weights, x) if sigma in BOUNDED else 0  # others diverge
            counts["flow"] += count_flow_rises(weights, x, y, 1.0)
            counts["flow frozen"] += count_flow_rises(weights, x, y, float("inf"))
            other = ACTIVATIONS[int(torch.randint(len(ACTIVATIONS), (), generator=generator))]
            general = random_memory(generator, sigma, other, alphas=True)
            descent = step_descent(general, *random_steps(generator, general, steps))
            counts["general"] += int(descent.rises.sum())
            errors["general"].append(descent.error.max())
            rises, elman_steps = count_elman_rises(generator, sigma, steps // 10 + 1)
            counts["lyapunov"], followed = counts["lyapunov"] + rises, followed + elman_steps
        worst = {name: float(torch.stack(values).max()) for name, values in errors.items()}  # max keeps NaN
        trace = _trace(generator) if sigma == "tanh" else {}
        return {
            "steps": networks * steps,
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
        bounded = [finished for finished in results if finished.trial.name in BOUNDED]
        unbounded_rates = [finished for finished in results if finished not in bounded]

        def count(
            number: int, key: str, trials: Sequence[Finished] = results, counted: str = "steps", remark: str = ""
        ) -> Row:
            rises = [finished.result["rises"][key] for finished in trials]
            remark = remark or (_by_activation(trials, key) if sum(rises) else "")
            return self.compare(trials, self.claims[number], rises, _rising(trials, key, counted), remark)

        def error(number: int, key: str) -> Row:
            errors = [finished.result["error"][key] for finished in results]
            remark = "relative to the absolute sum of all terms"
            return self.compare(results, self.claims[number], errors, f"{max(errors):.1e}", remark)

        tanh = by_name(results).get("tanh", [])
        pooled = f"with the same sign for every activation, {_share(results, 'printed 35'):.0f}% of all steps: "
        gaps = [
            min((finished.result["gap"] for finished in trials if finished.result["states"]), default=1.0)
            for trials in (bounded, unbounded_rates)
        ]
        searched = (
            f"random states and states found by descent on V_f; least height above the bound, relative to |bound|: "
            f"{gaps[0]:.2g} for {', '.join(BOUNDED)}, {gaps[1]:.1e} for others"
        )
        unbounded, unknown = (
            sum(finished.result[key] for finished in unbounded_rates) for key in ("unbounded", "unknown")
        )
        return [
            count(0, "exact"),
            count(1, "printed 28"),
            count(2, "printed 35", tanh, remark=pooled + _by_activation(results, "printed 35")),
            count(3, "printed 45"),
            count(4, "following"),
            unpublished(
                f"Eq 25, V_d following, after {SETTLING} steps: rising steps",
                _rising(bounded, "later"),
                _by_activation(bounded, "later"),
            ),
            count(5, "flow"),
            count(6, "flow frozen"),
            error(7, "exact"),
            count(8, "general"),
            error(9, "general"),
            count(10, "below", [finished for finished in results if finished.result["states"]], "states", searched),
            self.compare(
                unbounded_rates,
                self.claims[11],
                [finished.result["unbounded"] for finished in unbounded_rates],
                f"{unbounded} of {sum(_networks(finished.trial.settings) for finished in unbounded_rates)}",
                f"unknown for {unknown}; the others have alpha_s |Xi|^2 < 1",
            ),
            count(12, "lyapunov", counted="followed"),
        ]

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 4.6)
        left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
        keys = ("printed 28", "printed 35", "printed 45", "following", "exact")
        series = dict(zip(keys, ("saddle-1", "marginal", "unstable", "slow", "stable"), strict=True))
        groups = by_name(results)
        for number, key in enumerate(keys):
            shares = [_share(trials, key) for trials in groups.values()]
            at = [place + (number - 2) * 0.16 for place in range(len(groups))]
            left.barh(at, shares, height=0.15, color=COLOUR[series[key]], label=_NAMES[key])
            if key == "exact":
                left.plot(shares, at, "o", markersize=4, color=COLOUR[series[key]], clip_on=False)
        left.set_yticks(range(len(groups)), groups)
        left.invert_yaxis()
        left.set(xlabel="rising steps, %", xlim=(0, None))
        traces = [finished.result["trace"] for finished in groups.get("tanh", [])]
        for key, values in traces[0].items() if traces else ():
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
    """Return the energies along one trajectory, minus their first value; V_d is frozen except in `following`."""
    weights = random_memory(generator, "tanh")
    x, y = (part[1] for part in random_steps(generator, weights, 2))
    fields, following = [x], [x]
    for _ in range(TRACE):
        fields.append(weights.step(fields[-1], y))
        following.append(weights.step(following[-1], weights.sigma_f(following[-1])))
    along, free = torch.stack(fields), torch.stack(following)
    traces: dict[str, Tensor] = {
        variant: map_energy(weights, along, y.expand_as(along), variant).total for variant in VARIANTS
    }
    traces["following"] = map_energy(weights, free, weights.sigma_f(free)).total
    return {name: rounded(values - values[0]) for name, values in traces.items()}


def _rising(trials: Sequence[Finished], key: str, counted: str = "steps") -> str:
    """Return the number of steps that raise the energy `key`, as text."""
    rises, steps = sum(each.result["rises"][key] for each in trials), sum(each.result[counted] for each in trials)
    return f"{rises:,} of {steps:,}" + (f" ({rises / steps:.0%})" if rises else "")


def _share(results: Sequence[Finished], key: str) -> float:
    """Return the percentage of steps that raise the energy `key`."""
    rises = sum(finished.result["rises"][key] for finished in results)
    return 100 * rises / sum(finished.result["steps"] for finished in results)


def _by_activation(results: Sequence[Finished], key: str) -> str:
    """Return the percentage of rising steps for each activation, as text."""
    return ", ".join(f"{name} {_share(trials, key):.0f}%" for name, trials in by_name(results).items())


STUDY = EnergyDescent()
