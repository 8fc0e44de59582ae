"""Figures of spectra and pseudospectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnemoscope.drawing.axes import Figure, new_figure, style_axes
from mnemoscope.drawing.palette import LIGHT, PALETTE, Colours
from mnemoscope.lenses.spectra.kreiss import ROUNDING
from mnemoscope.lenses.spectra.powers import Growth
from mnemoscope.lenses.spectra.pseudospectra import Pseudospectrum
from mnemoscope.lenses.spectra.result import Spectrum

STEPS = 60
"""Smallest number of powers in the growth panel."""
MOST_STEPS = 400
"""Largest number of powers in the growth panel."""
BINS = 24
"""Number of bins of the histogram of angles, from 0 to pi."""


def draw_spectrum(
    spectrum: Spectrum, colours: Colours = LIGHT, *, figure: Any = None, columns: int = 3, font_size: float = 9
) -> Figure:
    """Draw eigenvalues, growth, singular values, Schur form, angles and sub-diagonals (needs the `report` extra).
    The panels fill an empty `figure`, by default a new one, in rows of `columns`.
    """
    if figure is None:
        figure = new_figure(11.5, 7.2)
    panels = (_draw_plane, _draw_growth, _draw_singular_values, _draw_schur_form, _draw_angles, _draw_sub_diagonals)
    for number, draw in enumerate(panels):
        axes = figure.add_subplot(-(-len(panels) // columns), columns, number + 1)
        draw(axes, spectrum, colours)
        style_axes(axes, colours, font_size)
    return figure


def draw_pseudospectrum(grid: Pseudospectrum, colours: Colours = LIGHT, *, font_size: float = 9) -> Figure:
    """Draw contours of sigma_min(z - A) in the complex plane (needs the `report` extra)."""
    figure = new_figure(4.5, 4.2)
    axes = figure.add_subplot()
    _draw_contours(axes, grid, colours)
    axes.set_title("Pseudospectra")
    style_axes(axes, colours, font_size)
    return figure


def _draw_plane(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    if spectrum.continuous:
        axes.axvline(0, color=colours["muted"], linewidth=1, zorder=1)
    else:
        turn = np.linspace(0, 2 * np.pi, 361)
        axes.fill(np.cos(turn), np.sin(turn), facecolor=colours["inside"], edgecolor=colours["muted"], zorder=1)
    _draw_contours(axes, spectrum.pseudospectrum(), colours)
    values = spectrum.eigenvalues.numpy()
    axes.scatter(np.real(values), np.imag(values), s=14, color=colours["ink"], linewidth=0, zorder=3)
    axes.set_title("Eigenvalues and pseudospectra")


def _draw_contours(axes: Any, grid: Pseudospectrum, colours: Colours) -> None:
    x, y, sigma = grid.x.numpy(), grid.y.numpy(), grid.sigma.numpy()
    levels = _contour_levels(sigma)
    if len(levels):
        depth = np.log10(np.maximum(sigma, 1e-300))
        style = {"colors": colours["stable"], "linewidths": 0.8, "linestyles": "solid", "zorder": 2}
        contours = axes.contour(x, y, depth, levels=levels, **style)
        axes.clabel(contours, levels[-4:], fmt=_power_of_ten)
    axes.set_aspect("equal", adjustable="box")
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel="Re λ", ylabel="Im λ")


def _contour_levels(sigma: np.ndarray) -> np.ndarray:
    """Return at most seven levels: powers of ten, or 1, 2, 5 times one where the range is small.

    Levels that fewer than a twelfth of the points are below would be spots around single eigenvalues, too small for
    the grid.
    """
    low, high = (float(np.log10(max(np.quantile(sigma, share), 1e-16))) for share in (1 / 12, 0.97))
    digits = np.log10([1, 2, 5]) if high - low < 2.5 else np.zeros(1)
    levels = (np.arange(np.floor(low), np.ceil(high) + 1)[:, None] + digits).ravel()
    levels = levels[(levels >= low) & (levels <= high)][::-1]
    return levels[:: max(1, -(-len(levels) // 7))][::-1]


def _power_of_ten(level: float) -> str:
    """Format 10^level without superscripts of a smaller size: 0.02, 1, 10⁻³, 10⁷."""
    return f"{10**level:.1g}" if -2.5 < level < 0.9 else f"10{str(round(level)).translate(_SUPERSCRIPTS)}"


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _draw_growth(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    curve = _growth_curve(spectrum)
    times, norms = curve.times.numpy(), curve.norms.numpy()
    bound = np.exp(times * spectrum.abscissa) if spectrum.continuous else spectrum.radius**times
    shown = max(norms.max(), 1.0)
    least = norms[norms > 0].min()
    floor = least if spectrum.unbounded else max(least, 1e-4 * shown, 1e-12)
    power, modes, time = ("exp(tA)", "exp(αt)", "t") if spectrum.continuous else ("Aᵗ", "ρᵗ", "step t")
    below = 1e-3 * floor  # a curve that falls to 0 leaves the panel
    axes.plot(times, np.maximum(norms, below), color=colours["stable"], linewidth=2.2, label=f"|{power}|")
    label = f"{modes}: eigenvalues alone"
    axes.plot(times, np.clip(bound, below, 1e3 * shown), color=colours["path"], linewidth=1.2, label=label)
    if np.isfinite(spectrum.kreiss) and spectrum.kreiss > 1 + ROUNDING:
        style = {"color": colours["saddle-2"], "linewidth": 1.2, "linestyle": (0, (4, 3))}
        axes.axhline(spectrum.kreiss, label=f"Kreiss constant {spectrum.kreiss:.3g}", **style)
    if shown > 20 * max(floor, 1e-300):
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(floor / 2, 2 * shown)
        axes.yaxis.set_major_formatter(lambda value, _: _power_of_ten(np.log10(value)))
        axes.yaxis.set_minor_formatter(lambda value, _: "")
    else:
        axes.set_ylim(0, 1.5 * shown)
    axes.legend(frameon=False, labelcolor=colours["ink"])
    axes.set(xlabel=time, title="Growth of states")


def _growth_curve(spectrum: Spectrum) -> Growth:
    """Return norms over enough steps to show the maximum and the decay after it."""
    if spectrum.unbounded or spectrum.contracts:
        return spectrum.growth(STEPS)
    settled = spectrum.growth_until_settled
    if spectrum.continuous:
        return settled
    return spectrum.growth(int(min(max(STEPS, 1.5 * float(settled.times[-1]) + 1), MOST_STEPS)))


def _draw_singular_values(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    index = np.arange(1, len(spectrum) + 1)
    style = {"marker": "o" if len(spectrum) < 20 else None, "markersize": 3.5, "clip_on": False}
    axes.axhline(1, color=colours["line"], linewidth=1, zorder=1)
    singular, moduli = spectrum.singular_values.numpy(), spectrum.eigenvalues.abs().numpy()
    axes.plot(index, singular, color=colours["stable"], linewidth=2.2, label="singular values", **style)
    axes.plot(index, moduli, color=colours["path"], linewidth=1.2, label="|λ|", **style)
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False, labelcolor=colours["ink"])
    axes.set(xlabel="index", ylim=(0, 1.25 * max(spectrum.norm, 0.8)), title="Singular values")


def _draw_schur_form(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    size, theta = len(spectrum), spectrum.schur.theta
    form = theta.abs().numpy() if theta.is_complex() else theta.numpy()
    largest = float(np.abs(form).max())
    pixels = max(1, 400 // size)  # of an entry, so that a viewer that smooths does not blur it
    axes.imshow(
        _tinted(form / (largest or 1.0)).repeat(pixels, 0).repeat(pixels, 1), extent=(0.5, size + 0.5, size + 0.5, 0.5)
    )
    axes.set(xticks=[1, size], yticks=[1, size])
    axes.set_xlabel(f"largest entry {largest:.3g}\ndeparture from normality {spectrum.relative_departure:.0%}")
    axes.set_title("Schur form, moduli" if theta.is_complex() else "Schur form (blue +, red −)")


def _tinted(values: np.ndarray) -> np.ndarray:
    """Return values in [-1, 1] as colours whose opacity is their size, for any background."""
    up, down = (
        np.array([int(PALETTE[key][0][start : start + 2], 16) / 255 for start in (1, 3, 5)])
        for key in ("stable", "unstable")
    )
    tint = np.where(values[..., None] > 0, up, down)
    return np.concatenate([tint, np.sqrt(np.abs(values))[..., None]], axis=-1)


def _draw_angles(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    angles = spectrum.schur.angles.numpy()
    low, labels = (-np.pi, ["−π", "0", "π"]) if spectrum.matrix.is_complex() else (0.0, ["0", "π/2", "π"])
    axes.hist(angles, bins=np.linspace(low, np.pi, BINS + 1), color=colours["stable"], alpha=0.8, rwidth=0.92)
    axes.set_xticks(np.linspace(low, np.pi, 3), labels=labels)
    axes.locator_params(axis="y", integer=True)
    axes.set(xlabel="angle of λ", title="Angles of rotation")
    if not len(angles):
        axes.set_yticks([])
        style = {"ha": "center", "va": "center", "transform": axes.transAxes, "color": colours["muted"]}
        axes.text(0.5, 0.5, "all eigenvalues are 0", **style)


def _draw_sub_diagonals(axes: Any, spectrum: Spectrum, colours: Colours) -> None:
    magnitude = spectrum.schur.sub_diagonals().magnitude.numpy()
    marker = "o" if len(magnitude) < 20 else None
    offsets = np.arange(1, len(magnitude) + 1)
    axes.plot(offsets, magnitude, color=colours["saddle-2"], linewidth=1.4, marker=marker, markersize=3.5)
    axes.set_ylim(0, 1.1 * max(np.nanmax(magnitude, initial=0), 0.01 * spectrum.norm, 1e-12))
    axes.locator_params(axis="x", integer=True)
    axes.set(xlabel="offset below the diagonal", title="Mean |t| of each sub-diagonal")
