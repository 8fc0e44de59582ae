"""The page section on Fisher memory: how much information about past signals a network holds near a fixed point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import Figure, new_figure
from mnemoscope.drawing.svg import COLOUR, PHONE_WIDTH, add_legend, style_page_axes
from mnemoscope.inspection.spectra import LARGEST
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher import FisherMemory, fisher_memory
from mnemoscope.lenses.fisher.linearisation import matrix_cell
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report import InspectedNetwork, Section
from mnemoscope.report.markup import figure_markup
from mnemoscope.report.numbers import format_number

TITLE = "Memory near a fixed point"
CURVE_COLOURS = ("stable", "saddle-1", "unstable", "marginal", "slow", "path")
"""Colours of the curves, by name; there is one curve for each of the first input features."""
FEWEST_LAGS, MOST_LAGS = 12, 400
"""Range of the length of the curves, which is otherwise three of the slowest time constants."""


def memory_sections(network: InspectedNetwork) -> list[Section]:
    """Return the section on memory, if a fixed point is stable and the state is not too large."""
    fp = network.fixed_points
    section = memory_section(network.dynamics, fp) if len(fp) and fp.states.shape[1] <= LARGEST else None
    return [] if section is None else [section]


@dataclass(frozen=True)
class MemoryAtPoint:
    """Fisher memory near a stable fixed point, for signals of the first inputs that reach the state."""

    point: int
    """Number of the point, the stable one that most starts reached."""
    state: Float[Tensor, " size"]
    lags: int
    memories: Mapping[int, FisherMemory]
    """The memory of each input, by its number."""


def memory_at_point(dynamics: Dynamics, fp: FixedPoints) -> MemoryAtPoint | str:
    """Return the memory at the stable point that most starts reached, or why it has no meaning, as a sentence.

    Raise ValueError if it cannot be computed.
    """
    stable = [point for point, kind in enumerate(fp.kind) if kind == "stable"]
    if dynamics.continuous:
        return "The network is a flow in continuous time."
    if not stable:
        return "No stable fixed point was found."
    point = max(stable, key=lambda index: int(fp.reached[index]))
    state = fp.states[point]
    slowest = float(fp.time_constants[point].max())
    lags = int(min(max(3 * slowest, FEWEST_LAGS), MOST_LAGS))
    reached = dynamics.input_jacobian(state[None].to(dynamics.dtype)).any(0).nonzero().flatten().tolist()
    features = reached[: len(CURVE_COLOURS)]
    if not features:
        return f"No input changes the state near point {point}."
    try:
        memories = {feature: fisher_memory(dynamics, feature, state=state, lags=lags) for feature in features}
    except (ValueError, OverflowError) as error:
        raise ValueError(f"The memory at point {point} cannot be computed: {error}") from error
    return MemoryAtPoint(point, state, lags, memories)


def memory_section(dynamics: Dynamics, fp: FixedPoints) -> Section | None:
    """Return the section on memory at the stable point that most starts reached; None without such memory."""
    try:
        found = memory_at_point(dynamics, fp)
    except ValueError as error:
        return Section(TITLE, str(error), "")
    if isinstance(found, str):
        return None
    point, state, memories = found.point, found.state, found.memories
    published, remark = _published(dynamics, state, list(memories), found.lags)
    linearised = matrix_cell(dynamics, state)
    units = "every unit" if linearised is None or linearised.queue is None else "every unit of the newest matrix"
    lead = (
        f"At point {point}, where the network rests, noise enters {units} at every step, and small signals enter "
        f"through the inputs. The curve is the Fisher information of the state about a past signal, as a share of the "
        f"information with which the signal entered. In total the state holds {_totals(memories)}, in units of one "
        f"signal; a network with a normal matrix would hold 1, and no network of {dynamics.size} numbers more than "
        f"{dynamics.size}.{remark}"
    )
    alt = "Share of a signal's information that is left, over the steps since the signal entered, for each input."
    return Section(TITLE, lead, figure_markup(_draw(memories, published), "memory", alt=alt))


def _published(
    dynamics: Dynamics, state: Float[Tensor, " size"], features: list[int], lags: int
) -> tuple[dict[int, FisherMemory], str]:
    """Return the memory of a matrix network by the published formulas, and a sentence about it or about the error."""
    if matrix_cell(dynamics, state) is None:
        return {}, ""
    try:
        memories = {
            feature: fisher_memory(dynamics, feature, state=state, lags=lags, method="published")
            for feature in features
        }
    except ValueError as error:
        return {}, f" {error}"
    return memories, (
        f" The dashed curve follows the formulas published for matrix networks (Renanse et al. 2021, Theorem 1), with "
        f"{_totals(memories)}: they overstate the noise, and so understate the memory."
    )


def _totals(memories: Mapping[int, FisherMemory]) -> str:
    return ", ".join(
        f"{format_number(float(memory.relative))} of input {feature}" for feature, memory in memories.items()
    )


def _draw(memories: Mapping[int, FisherMemory], published: dict[int, FisherMemory]) -> Figure:
    figure = new_figure(PHONE_WIDTH, 3.1)
    axes = figure.add_subplot()
    for name, (feature, memory) in zip(CURVE_COLOURS, memories.items(), strict=False):
        axes.plot(memory.remaining.detach().numpy(), color=COLOUR[name], label=f"input {feature}")
        if feature in published:
            remaining = published[feature].remaining.detach().numpy()
            axes.plot(remaining, color=COLOUR[name], linestyle=(0, (4, 2)))
    axes.set(xlabel="steps since the signal entered", ylabel="share left", ylim=(0, None))
    add_legend(axes)
    style_page_axes(axes)
    return figure
