"""How long a small signal is told by the state, near the fixed point where the network rests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, add_legend, inline_svg, style_page_axes
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.fisher import FisherMemory, fisher_memory
from mnemoscope.lenses.fisher.linearisation import matrix_cell
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.report.document import Section
from mnemoscope.report.numbers import format_number
from mnemoscope.report.registered_lenses import InspectedNetwork
from mnemoscope.report.spectra import LARGEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_FEATURES = 6
"""Input features with a curve of their own."""
FEWEST_LAGS, MOST_LAGS = 12, 400


def memory_sections(looked: InspectedNetwork) -> list[Section]:
    """Memory near a fixed point, if there is one that is stable and the state is not too large."""
    fp = looked.fixed_points
    section = memory_section(looked.dynamics, fp) if len(fp) and fp.states.shape[1] <= LARGEST else None
    return [] if section is None else [section]


def memory_section(dynamics: Dynamics, fp: FixedPoints) -> Section | None:
    """The section with the Fisher memory at the stable point that most starts reached; None where there is none."""
    stable = [point for point, kind in enumerate(fp.kind) if kind == "stable"]
    if dynamics.continuous or not stable:
        return None
    point = max(stable, key=lambda one: int(fp.reached[one]))
    state = fp.states[point]
    slowest = float(fp.time_constants[point].max())
    lags = int(min(max(3 * slowest, FEWEST_LAGS), MOST_LAGS))
    features = dynamics.input_jacobian(state[None].to(dynamics.dtype)).any(0).nonzero().flatten().tolist()
    try:
        memories = {
            feature: fisher_memory(dynamics, feature, state=state, lags=lags) for feature in features[:MOST_FEATURES]
        }
    except (ValueError, OverflowError) as error:
        return Section("Memory near a fixed point", f"At point {point} it cannot be told: {error}", "")
    if not memories:
        return None
    published, said = _published(dynamics, state, list(memories), lags)
    left = ", ".join(f"{format_number(float(one.relative))} of input {feature}" for feature, one in memories.items())
    near = matrix_cell(dynamics, state)
    entered = "every unit" if near is None or near.queue is None else "every unit of the newest matrix"
    lead = (
        f"At point {point}, where the network rests, noise enters {entered} at every step, and small signals enter by "
        f"the inputs. The curve is the Fisher information that the state has of a signal some steps ago, as a share of "
        f"what it was worth as it entered. Of all past signals the state holds {left}; a network with a normal "
        f"matrix would hold 1, and none of {dynamics.size} numbers more than {dynamics.size}.{said}"
    )
    alt = "Share of the information of a signal that is left, over the steps since it came, for each input."
    html = f'<figure class="drawn">{inline_svg(_draw(memories, published), "memory", alt=alt)}</figure>'
    return Section("Memory near a fixed point", lead, html)


def _published(
    dynamics: Dynamics, state: Float[Tensor, " size"], features: list[int], lags: int
) -> tuple[dict[int, FisherMemory], str]:
    """Of matrix networks, what the published formulas tell, and a sentence on it or on why they do not apply."""
    if matrix_cell(dynamics, state) is None:
        return {}, ""
    try:
        found = {one: fisher_memory(dynamics, one, state=state, lags=lags, method="published") for one in features}
    except ValueError as error:
        return {}, f" {error}"
    shares = ", ".join(f"{format_number(float(one.relative))} of input {feature}" for feature, one in found.items())
    return found, (
        f" Dashed is what the formulas published for matrix networks tell (Renanse et al. 2021, Theorem 1), {shares}: "
        f"they overstate the noise, and so understate the memory."
    )


def _draw(memories: dict[int, FisherMemory], published: dict[int, FisherMemory]) -> Figure:
    figure = new_figure(7.2, 3.1)
    axes = figure.add_subplot()
    names = ("stable", "saddle-1", "unstable", "marginal", "slow", "path")
    for name, (feature, memory) in zip(names, memories.items(), strict=False):
        share = (memory.curve / memory.input_information).detach().numpy()
        axes.plot(share, color=COLOUR[name], label=f"input {feature}")
        if feature in published:
            share = (published[feature].curve / published[feature].input_information).detach().numpy()
            axes.plot(share, color=COLOUR[name], linestyle=(0, (4, 2)))
    axes.set(xlabel="steps since the signal came", ylabel="share that is left", ylim=(0, None))
    add_legend(axes)
    style_page_axes(axes)
    return figure
