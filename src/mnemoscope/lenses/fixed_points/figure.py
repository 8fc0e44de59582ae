"""Figure of fixed points: the state space next to the eigenvalues. The page shares its grouping by kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.axes import add_space, label_axes, new_figure
from mnemoscope.drawing.palette import LIGHT, PALETTE
from mnemoscope.drawing.projection import ChosenAxes, join_lines
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.fixed_points.view import StateSpaceView, project_state_space
from mnemoscope.lenses.recording.paths import Colouring, as_recording, condition_paths, draw_condition_paths
from mnemoscope.lenses.recording.result import Recording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_EIGENVALUES = 6000
"""Approximate upper limit of the eigenvalues that are drawn: the same number, and at least 8, of each point."""
MARKERS = {"stable": "o", "saddle": "D", "unstable": "s", "marginal": "P"}
"""Matplotlib marker of each kind."""


@dataclass(frozen=True)
class Group:
    """Fixed points that are drawn alike."""

    key: str
    """Key into `PALETTE`."""
    kind: str
    label: str
    """Text in the legend."""
    members: list[int]
    """Indices of the points."""

    @property
    def colour(self) -> str:
        """Colour on a light background."""
        return PALETTE[self.key][0]


def groups(fp: FixedPoints) -> list[Group]:
    """Group fixed points by kind, and saddles also by their number of unstable directions (1, 2, 3 or more)."""
    members: dict[tuple[int, str], list[int]] = {}
    order = ("stable", "saddle-1", "saddle-2", "saddle-3", "unstable", "marginal")
    for point, (kind, up) in enumerate(zip(fp.kind, fp.unstable.tolist(), strict=True)):
        key = f"saddle-{min(up, 3)}" if kind == "saddle" else kind
        members.setdefault((order.index(key), key), []).append(point)
    return [
        Group(key, key.partition("-")[0], _label(key, int(fp.unstable[points].max())), points)
        for (_, key), points in sorted(members.items())
    ]


def drawn_eigenvalues(fp: FixedPoints) -> NDArray[np.complex128]:
    """Return the eigenvalues that are drawn (points, modes), the least stable ones of each point."""
    modes = max(8, MOST_EIGENVALUES // max(len(fp), 1))
    return fp.eigenvalues[:, :modes].numpy()


def draw_fixed_points(
    fp: FixedPoints,
    trajectories: Float[Tensor, "time batch size"] | Recording | None = None,
    *,
    colour: Colouring | None = None,
    axes: ChosenAxes | None = None,
) -> Figure:
    """Draw the state space with trajectories, fixed points and unstable directions, next to the eigenvalues.

    Needs the `report` extra. The figure belongs to no window: show it in a notebook, or call its `savefig`.
    """
    if trajectories is None and colour is not None:
        raise ValueError("colour is the condition of trajectories: pass a recording or states to draw.")
    states = trajectories.activity if isinstance(trajectories, Recording) else trajectories
    view = project_state_space(fp, states, axes)
    figure = new_figure(11, 5.2)
    grid = figure.add_gridspec(1, 2, wspace=0.12)
    left = add_space(figure, len(view.labels), grid[0])
    if trajectories is not None and colour is not None:
        draw_condition_paths(left, condition_paths(*as_recording(trajectories, colour), LIGHT), view.project)
        view = replace(view, paths=view.paths[:0])  # drawn already
    _draw_states(left, fp, view)
    _draw_eigenvalues(figure.add_subplot(grid[1]), fp)
    handles, labels = left.get_legend_handles_labels()
    if handles:
        legend = figure.legend(
            handles, labels, loc="outside lower center", ncols=3 if len(labels) < 10 else 5, frameon=False, fontsize=9
        )
        for handle in filter(None, legend.legend_handles):
            handle.set(alpha=1)
    return figure


def _draw_states(axes: Any, fp: FixedPoints, view: StateSpaceView) -> None:
    if len(view.paths):
        axes.plot(
            *join_lines(view.paths).T, color="0.55", linewidth=0.6, alpha=view.opacity, zorder=1, label="trajectories"
        )
    for group in groups(fp):
        arms = join_lines(view.segments[np.isin(view.owners, group.members)])
        axes.plot(*arms.T, color=group.colour, linewidth=1.4, zorder=2)
        style = {"color": group.colour, "edgecolor": "white", "linewidth": 0.6, "zorder": 3, "s": 42}
        label = f"{group.label} ({len(group.members)})"
        axes.scatter(*view.points[group.members].T, marker=MARKERS[group.kind], label=label, **style)
    if len(view.slow):
        style = {"facecolor": "none", "edgecolor": PALETTE["slow"][0], "linewidth": 1.2, "zorder": 3, "s": 36}
        axes.scatter(*view.slow.T, label=f"slow point ({len(view.slow)})", **style)
    label_axes(axes, view.labels)
    axes.set_title("States" if len(fp) else "States: no fixed point", fontsize=11)
    if len(view.labels) == 2:
        axes.spines[["top", "right"]].set_visible(False)


def _draw_eigenvalues(axes: Any, fp: FixedPoints) -> None:
    if fp.continuous:
        axes.axvline(0, color="0.5", linewidth=1, zorder=1)
    else:
        angle = np.linspace(0, 2 * np.pi, 361)
        axes.fill(np.cos(angle), np.sin(angle), facecolor="0.97", edgecolor="0.5", linewidth=1, zorder=1)
        axes.set_aspect("equal", adjustable="datalim")
    values = drawn_eigenvalues(fp)
    for group in groups(fp):
        chosen = values[group.members].ravel()
        axes.scatter(chosen.real, chosen.imag, s=14, color=group.colour, alpha=0.8, linewidth=0, zorder=2)
    axes.set(xlabel="Re λ", ylabel="Im λ")
    axes.set_title("Eigenvalues; stable " + ("left of the line" if fp.continuous else "inside the circle"), fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def _label(key: str, up: int) -> str:
    if not key.startswith("saddle"):
        return key
    count = "3 or more" if up > 3 else str(up)
    return f"saddle, {count} unstable direction{'s' * (up > 1)}"
