"""How long a network remembers: the influence of inputs, the measured memory capacity, and operators of the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float, Int, Num
from mnemoscope.cells import Cell, Model
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.past_inputs import find_past_inputs, has_affine_layers, past_input_sections
from mnemoscope.inspection.transitions import TITLE as TRANSITIONS_TITLE, inspect_transitions, transitions_section
from mnemoscope.lenses import (
    GradientNorms,
    Influence,
    MeasuredInfluence,
    MemoryCapacity,
    Transitions,
    measure_influence,
    measure_memory_capacity,
)
from mnemoscope.lenses.capacity.figure import draw_capacity
from mnemoscope.lenses.replacement.figure import draw_measured_influence
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.token_labels import Labels
from mnemoscope.memory.attention import Attentive
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.report.numbers import format_number

TRIALS, SOURCES, FEWEST_SOURCES = 16, 32, 8
"""Trials and replaced steps for the influence of inputs; for long trials or large networks fewer steps are replaced."""
SIGNALS, DELAYS, WASHOUT = 2000, 60, 100
"""Steps from which the capacity is measured, its longest delay, and the steps before in each sequence."""
SEQUENCES = (40, 20, 10)
"""Sequences among which these steps are divided: as many as are quick."""


@dataclass
class Duration:
    """Findings on how long a network remembers, and the sections of its page."""

    gradients: GradientNorms | None = None
    influence: Influence | None = None
    measured_influence: MeasuredInfluence | None = None
    capacity: MemoryCapacity | None = None
    transitions: Transitions | None = None
    parts: list[Callable[[], Section | list[Section]]] = field(default_factory=list)
    """Functions that draw a section, or several."""
    lenses: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why a lens was not applied, by the title of its section."""

    def sections(self) -> list[Section]:
        """Return the sections of the page."""
        drawn = [part() for part in self.parts]
        return [section for part in drawn for section in (part if isinstance(part, list) else [part])]

    def add(self, lens: str, section: Callable[[], Section | list[Section]]) -> None:
        """Add the section of a lens that was applied, or several."""
        self.lenses.append(lens)
        self.parts.append(section)

    def explain(self, title: str, reason: str) -> None:
        """Add a section that gives the reason why a lens was not applied."""
        self.reasons[title] = reason
        self.parts.append(partial(Section, title, reason, ""))

    @property
    def results(self) -> dict[str, Result]:
        """The results by name."""
        named = {
            "gradients": self.gradients,
            "influence": self.influence,
            "measured-influence": self.measured_influence,
            "capacity": self.capacity,
            "transitions": self.transitions,
        }
        return {name: result for name, result in named.items() if result is not None}

    def headline(self) -> str:
        """Return for how long an input has an effect, in a sentence; "" if it was not measured."""
        return "" if self.measured_influence is None else self.measured_influence.headline()


def inspect_duration(
    network: Cell | Model,
    inputs: Num[Tensor, "time batch ..."] | None,
    options: InspectionOptions,
    *,
    readout: Callable[[Tensor], Tensor] | None = None,
    lengths: Int[Tensor, " batch"] | None = None,
    labels: Labels | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
    found: Duration | None = None,
) -> Duration:
    """Find the influence of the inputs and the memory capacity of a network that takes sequences time first.

    The capacity of networks with attention or a tape is not measured, since their states are read at many places. If
    layers are affine in their state, the operators of their steps are computed, too. The results are added to `found`,
    if it is given.
    """
    found = Duration() if found is None else found
    if inputs is not None and wanted("influence") and has_affine_layers(network, inputs):
        add_past_inputs(found, network, inputs, options, lengths, labels)
    if inputs is not None and inputs.shape[1] > 1 and wanted("measured-influence"):
        _add_influence(found, network, inputs, options, {"readout": readout, "lengths": lengths})
    cell = network.cell if isinstance(network, Model) else network
    if not isinstance(cell, Attentive | TuringMachine) and cell.input_size is not None and wanted("memory-capacity"):
        _add_capacity(found, cell, _encoded(network, inputs), options)
    if inputs is not None and wanted("transitions"):
        add_transitions(found, network, inputs, options, lengths, labels)
    return found


def add_past_inputs(
    found: Duration,
    network: Cell | Model,
    inputs: Tensor,
    options: InspectionOptions,
    lengths: Int[Tensor, " batch"] | None,
    labels: Labels | None,
) -> None:
    """Add what a network with affine layers keeps of its inputs."""
    influence = find_past_inputs(network, inputs, options, lengths=lengths, labels=labels)
    if influence is None:
        long = f"Not computed, since {len(inputs):,} steps of this network take long."
        reason = f"{long} Pass shorter sequences, or a shorter text. {HOW_TO_MEASURE}"
        found.explain("What it keeps of its inputs", reason)
        return
    found.influence = influence
    found.add("influence", partial(past_input_sections, influence))


def influence_section(influence: MeasuredInfluence) -> Section:
    """Return the section on what the input of one step changes later."""
    drawn = new_figure(7.2, 4.2)
    figure = draw_measured_influence(influence, COLOUR, figure=drawn, font_size=PAGE_FONT_SIZE)
    alt = "Change of the outputs at every step after the input of another step was replaced, and the mean over the lag."
    caption = (
        "The unit is the distance between two trials. Left: each row is one replaced step; white where all trials have "
        "the same input. A change that lasts is a trace of the input: whether the network can use it, its behaviour "
        "shows. In a chaotic network every change lasts."
    )
    html = figure_markup(figure, "influence", alt=alt, caption=caption)
    return Section("Influence of inputs", influence.summary(), html)


def capacity_section(capacity: MemoryCapacity, feature: int, strength: float) -> Section:
    """Return the section on the memory capacity."""
    figure = draw_capacity(capacity, COLOUR, figure=new_figure(7.2, 3.4), font_size=PAGE_FONT_SIZE)
    alt = "Share of a past signal that a linear readout recovers, over the steps since the signal, and its sum."
    lead = (
        f"Random signals with a standard deviation of {format_number(strength)} enter input {feature}, the others are "
        f"0; linear readouts are fitted to recover each past signal. {capacity.summary()}"
    )
    caption = (
        "The band is two standard errors. The readouts are fitted to a limited number of steps; with more, they may "
        "recover more. These signals are not those of a task."
    )
    return Section("Memory capacity", lead, figure_markup(figure, "capacity", alt=alt, caption=caption))


def _add_influence(
    found: Duration, network: Cell | Model, inputs: Tensor, options: InspectionOptions, settings: dict[str, Any]
) -> None:
    cell = network.cell if isinstance(network, Model) else network
    trials = min(TRIALS, inputs.shape[1])
    counts = (SOURCES, SOURCES // 2, FEWEST_SOURCES)
    number = next((count for count in counts if is_quick(cell, len(inputs), trials, options, count)), None)
    if number is None:
        reason = f"Not measured, since {len(inputs):,} steps of this network take long. {HOW_TO_MEASURE}"
        found.explain("Influence of inputs", reason)
        return
    influence = measure_influence(network, inputs, sources=number, trials=trials, **settings)
    if influence.known:
        found.measured_influence = influence
        found.add("measured-influence", partial(influence_section, influence))


def _add_capacity(found: Duration, cell: Cell, encoded: Tensor | None, options: InspectionOptions) -> None:
    title, signals = "Memory capacity", max(SIGNALS, 6 * cell.output_features)
    lengths = {number: ceil(signals / number) for number in SEQUENCES}
    quick = (n for n in SEQUENCES if is_quick(cell, WASHOUT + DELAYS + lengths[n], 3 * n, options))
    number = next(quick, None)
    if number is None:
        found.explain(title, f"Not measured, since it takes long. {HOW_TO_MEASURE}")
        return
    feature, strength = _strongest(encoded)
    settings: dict[str, Any] = {"delays": DELAYS, "washout": WASHOUT, "seed": options.seed}
    settings |= {"steps": lengths[number], "sequences": number, "ridge": None}
    try:
        capacity = measure_memory_capacity(cell, feature, strength=strength, **settings)
    except ValueError as error:
        found.explain(title, f"The memory capacity cannot be measured: {error}")
        return
    found.capacity = capacity
    found.add("memory-capacity", partial(capacity_section, capacity, feature, strength))


def add_transitions(
    found: Duration,
    network: Cell | Model,
    inputs: Tensor,
    options: InspectionOptions,
    lengths: Tensor | None,
    labels: Labels | None,
) -> None:
    """Add what each step does to the state of a network with affine layers."""
    result = inspect_transitions(network, inputs, options, lengths=lengths, labels=labels)
    if isinstance(result, str):
        found.explain(TRANSITIONS_TITLE, result)
    elif result is not None:
        found.transitions = result
        found.add("transitions", partial(transitions_section, result))


@torch.no_grad()
def _encoded(network: Cell | Model, inputs: Tensor | None) -> Tensor | None:
    return network.encode(inputs) if isinstance(network, Model) and inputs is not None else inputs


def _strongest(inputs: Float[Tensor, "time batch features"] | None) -> tuple[int, float]:
    """Return the input feature that varies most, and its standard deviation; the first and 1 without inputs."""
    if inputs is None or inputs.is_complex():
        return 0, 1.0
    deviations = inputs.detach().flatten(0, 1).double().std(0)
    feature = int(deviations.argmax())
    return (feature, float(deviations[feature])) if float(deviations[feature]) > 0 else (0, 1.0)
