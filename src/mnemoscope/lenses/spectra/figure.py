"""Spectra and transients as figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mnemoscope.drawing.axes import new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE
from mnemoscope.lenses.spectra.growth import Growth
from mnemoscope.lenses.spectra.kreiss import ROUNDING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mnemoscope.lenses.spectra.lens import Spectrum
    from mnemoscope.lenses.spectra.transient_growth import Transients

STEPS = 60
"""Powers that are drawn at least."""
MOST_STEPS = 400
"""Powers that are drawn at most."""
BINS = 24
"""Of the histogram of angles, from 0 to pi."""


def draw_spectrum(
    seen: Spectrum, colours: Mapping[str, str] = LIGHT, *, figure: Any = None, columns: int = 3, font_size: float = 9
) -> Figure:
    """Plane, growth and singular values; Schur form, angles and sub-diagonals. Needs the `report` extra.

    Args:
        seen: the spectrum.
        colours: by the names of `LIGHT`.
        figure: an empty figure to draw into; a new one by default.
        columns: panels side by side.
        font_size: size of text, in points, that the layout has room for.

    """
    if figure is None:
        figure = new_figure(11.5, 7.2)
    panels = (_plane, _powers, _values, _form, _angles, _sub_diagonals)
    for number, draw in enumerate(panels):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, number + 1)
        draw(axes, seen, colours)
        style_axes(axes, colours, font_size)
    return figure


def draw_transients(seen: Transients, colours: Mapping[str, str] = LIGHT) -> Figure:
    """Spread across the units above the norm, mean and standard deviation over the ensemble (Kerg's thesis, Fig 1b)."""
    figure = new_figure(6, 5)
    top, bottom = figure.subplots(2, 1, sharex=True)
    times = seen.times.numpy()
    for axes, (mean, std), title, key in (
        (top, seen.spread, "Standard deviation across units", "saddle-2"),
        (bottom, seen.norm, "Norm", "stable"),
    ):
        middle, half = mean.numpy(), std.numpy()
        axes.fill_between(times, middle - half, middle + half, color=colours[key], alpha=0.25, linewidth=0)
        axes.plot(times, middle, color=colours[key], linewidth=1.6)
        positive = middle[np.isfinite(middle) & (middle > 0)]
        if len(positive) and positive.max() > 100 * middle[0]:
            axes.set_yscale("log", nonpositive="mask")
        axes.set_title(title)
        style_axes(axes, colours, 9)
    bottom.set_xlabel("step", color=colours["muted"])
    return figure


def _plane(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    grid = seen.pseudospectrum()
    x, y, sigma = grid.x.numpy(), grid.y.numpy(), grid.sigma.numpy()
    if seen.continuous:
        axes.axvline(0, color=colours["muted"], linewidth=1, zorder=1)
    else:
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], zorder=1)
    levels = _levels(sigma)
    if len(levels):
        depth = np.log10(np.maximum(sigma, 1e-300))
        style = {"colors": colours["stable"], "linewidths": 0.8, "linestyles": "solid", "zorder": 2}
        drawn = axes.contour(x, y, depth, levels=levels, **style)
        axes.clabel(drawn, levels[-4:], fmt=_power_of_ten)
    values = seen.eigenvalues.numpy()
    style = {"s": 14, "color": colours["ink"], "linewidth": 0, "zorder": 3}
    axes.scatter(np.real(values), np.imag(values), **style)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    axes.set_xlabel("Re λ")
    axes.set_ylabel("Im λ")
    axes.set_title("Eigenvalues and pseudospectra")


def _levels(sigma: np.ndarray) -> np.ndarray:
    """At most seven values that contours are drawn at: powers of ten, or 1, 2, 5 times one where the range is small.

    What fewer than a twelfth of the points fall below are spots about single eigenvalues, too small for the grid.
    """
    low, high = (float(np.log10(max(np.quantile(sigma, share), 1e-16))) for share in (1 / 12, 0.97))
    digits = np.log10([1, 2, 5]) if high - low < 2.5 else np.zeros(1)
    levels = (np.arange(np.floor(low), np.ceil(high) + 1)[:, None] + digits).ravel()
    levels = levels[(levels >= low) & (levels <= high)][::-1]
    return levels[:: max(1, -(-len(levels) // 7))][::-1]


def _power_of_ten(level: float) -> str:
    """Without raised letters of a smaller size: 0.02, 1, 10⁻³, 10⁷."""
    return f"{10**level:.1g}" if -2.5 < level < 0.9 else f"10{str(round(level)).translate(_RAISED)}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _powers(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    curve = _curve(seen)
    times, norms = curve.times.numpy(), curve.norms.numpy()
    bound = np.exp(times * seen.abscissa) if seen.continuous else seen.radius**times
    shown = max(norms.max(), 1.0)
    least = norms[norms > 0].min()
    floor = least if seen.unbounded else max(least, 1e-4 * shown, 1e-12)
    power = "exp(tA)" if seen.continuous else "Aᵗ"
    modes = "exp(αt)" if seen.continuous else "ρᵗ"
    below = 1e-3 * floor  # where a curve falls to 0, it leaves the picture
    style = {"color": colours["stable"], "linewidth": 2.2, "label": f"|{power}|"}
    axes.plot(times, np.maximum(norms, below), **style)
    style = {"color": colours["path"], "linewidth": 1.2, "label": f"{modes}: eigenvalues alone"}
    axes.plot(times, np.clip(bound, below, 1e3 * shown), **style)
    if np.isfinite(seen.kreiss) and seen.kreiss > 1 + ROUNDING:
        style = {"color": colours["saddle-2"], "linewidth": 1.2, "linestyle": (0, (4, 3))}
        axes.axhline(seen.kreiss, label=f"Kreiss constant {seen.kreiss:.3g}", **style)
    if shown > 20 * max(floor, 1e-300):
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(floor / 2, 2 * shown)
        axes.yaxis.set_major_formatter(lambda value, _: _power_of_ten(np.log10(value)))
        axes.yaxis.set_minor_formatter(lambda value, _: "")
    else:
        axes.set_ylim(0, 1.5 * shown)
    axes.set_xlabel("t" if seen.continuous else "step t")
    axes.legend(frameon=False, labelcolor=colours["ink"])
    axes.set_title("Growth of states")


def _curve(seen: Spectrum) -> Growth:
    """Long enough to show the hump and what follows it."""
    if seen.unbounded or seen.contracts:
        return seen.growth(STEPS)
    followed = seen.growth_until_settled
    if seen.continuous:
        return followed
    return seen.growth(int(min(max(STEPS, 1.5 * float(followed.times[-1]) + 1), MOST_STEPS)))


def _values(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    index = np.arange(1, len(seen) + 1)
    dot = "o" if len(seen) < 20 else None
    style = {"marker": dot, "markersize": 3.5, "clip_on": False}
    axes.axhline(1, color=colours["line"], linewidth=1, zorder=1)
    singular, moduli = seen.singular_values.numpy(), seen.eigenvalues.abs().numpy()
    axes.plot(index, singular, color=colours["stable"], linewidth=2.2, label="singular values", **style)
    axes.plot(index, moduli, color=colours["path"], linewidth=1.2, label="|λ|", **style)
    axes.set_ylim(0, 1.25 * max(seen.norm, 0.8))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("index")
    axes.legend(frameon=False, labelcolor=colours["ink"])
    axes.set_title("Singular values")


def _form(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    size, theta = len(seen), seen.schur.theta
    form = theta.abs().numpy() if theta.is_complex() else theta.numpy()
    reach = float(np.abs(form).max()) or 1.0
    each = max(1, 400 // size)  # pixels of an entry, so that a viewer that smooths does not blur them
    axes.imshow(_tinted(form / reach).repeat(each, 0).repeat(each, 1), extent=(0.5, size + 0.5, size + 0.5, 0.5))
    axes.set_xticks([1, size])
    axes.set_yticks([1, size])
    axes.set_xlabel(f"largest entry {reach:.3g}\ndeparture from normality {seen.relative_departure:.0%}")
    axes.set_title("Schur form, moduli" if theta.is_complex() else "Schur form (blue +, red −)")


def _tinted(values: np.ndarray) -> np.ndarray:
    """Values in [-1, 1] as colours whose opacity is their size, on whatever ground."""
    up, down = (
        np.array([int(PALETTE[key][0][at : at + 2], 16) / 255 for at in (1, 3, 5)]) for key in ("stable", "unstable")
    )
    tint = np.where(values[..., None] > 0, up, down)
    return np.concatenate([tint, np.sqrt(np.abs(values))[..., None]], axis=-1)


def _angles(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    angles = seen.schur.angles.numpy()
    low = -np.pi if seen.matrix.is_complex() else 0.0
    bins = np.linspace(low, np.pi, BINS + 1)
    axes.hist(angles, bins=bins, color=colours["stable"], alpha=0.8, rwidth=0.92)
    ticks = [0, np.pi / 2, np.pi] if low == 0 else [-np.pi, 0, np.pi]
    axes.set_xticks(ticks, labels=["0", "π/2", "π"] if low == 0 else ["−π", "0", "π"])
    axes.locator_params(axis="y", integer=True)
    axes.set_xlabel("angle of λ")
    if not len(angles):
        axes.set_yticks([])
        style = {"ha": "center", "va": "center", "transform": axes.transAxes, "color": colours["muted"]}
        axes.text(0.5, 0.5, "all eigenvalues are 0", **style)
    axes.set_title("Angles of rotation")


def _sub_diagonals(axes: Any, seen: Spectrum, colours: Mapping[str, str]) -> None:
    magnitude = seen.schur.sub_diagonals().magnitude.numpy()
    dot = "o" if len(magnitude) < 20 else None
    offsets = np.arange(1, len(magnitude) + 1)
    axes.plot(offsets, magnitude, color=colours["saddle-2"], linewidth=1.4, marker=dot, markersize=3.5)
    axes.set_ylim(0, 1.1 * max(np.nanmax(magnitude, initial=0), 0.01 * seen.norm, 1e-12))
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("offset below the diagonal")
    axes.set_title("Mean |t| of each sub-diagonal")
