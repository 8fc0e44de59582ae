"""The page sections on spectra: the recurrent matrix, and the growth of small differences near the fixed points."""

from __future__ import annotations

from mnemoscope.cells import Elman
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.fixed_points.figure import Group, groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.spectra import Spectrum, spectrum
from mnemoscope.lenses.spectra.figure import draw_spectrum
from mnemoscope.report import InspectedNetwork, Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.report.numbers import format_number

LARGEST = 512
"""Largest state, in numbers, whose spectra a page shows; larger ones would delay the page."""


def spectra_sections(network: InspectedNetwork) -> list[Section]:
    """Return the sections on the fixed points and on the matrix of an Elman cell, if the state is not too large."""
    fp = network.fixed_points
    if fp.states.shape[1] > LARGEST:
        return []
    sections = [linearisation_section(fp)] if len(fp) else []
    return [*sections, matrix_section(spectrum(network.cell))] if isinstance(network.cell, Elman) else sections


def matrix_section(result: Spectrum) -> Section:
    """Return the section on the recurrent matrix of a network."""
    figure = draw_spectrum(result, COLOUR, figure=new_figure(7.2, 10.2), columns=2, font_size=PAGE_FONT_SIZE)
    alt = (
        "Eigenvalues and pseudospectra, growth of powers, singular values, Schur form, angles of rotation and mean "
        "size of each sub-diagonal of the recurrent matrix."
    )
    lead = (
        f"The matrix alone, without the nonlinearity. {result.summary()} Contours show how far eigenvalues can move if "
        f"the matrix is perturbed by the norm on their label."
    )
    return Section("Recurrent matrix", lead, figure_markup(figure, "matrix", alt=alt))


def linearisation_section(fp: FixedPoints) -> Section:
    """Return the section on the Jacobians of fixed points: one point of each kind, which most starts reached."""
    largest = "Largest Re\u00a0λ" if fp.continuous else "Largest |\u2060λ|"
    power = "|exp(tJ)|" if fp.continuous else "|Jᵗ|"
    headings = ("Kind", "Point", largest, "Largest singular value", "Departure from normality", f"Largest {power}")
    lead = (
        f"In the long run a small difference from a fixed point shrinks or grows by the eigenvalues of its Jacobian J; "
        f"before that it may grow by up to the largest {power}. The table has the point of each kind that most starts "
        f"reached."
    )
    rows = [_row(fp, group) for group in groups(fp)]
    return Section("Growth near the fixed points", lead, table_markup("Jacobians of fixed points", headings, rows))


def _row(fp: FixedPoints, group: Group) -> tuple[str, ...]:
    point = max(group.members, key=lambda member: int(fp.reached[member]))
    result = spectrum(fp[point])
    return (
        f"{group.label} ({len(group.members)})",
        str(point),
        format_number(result.abscissa if fp.continuous else result.radius),
        format_number(result.norm),
        f"{result.relative_departure:.0%}",
        _amplification(result),
    )


def _amplification(result: Spectrum) -> str:
    """Return the largest norm of a power and its time, or that it is a lower bound."""
    value = format_number(result.amplification)
    if result.unbounded or result.amplification <= 1:
        return value
    growth = result.growth_until_settled
    time = f"t = {format_number(growth.time)}" if result.continuous else f"step {growth.time:.0f}"
    return f"{value} at {time}" if growth.settled else f"at least {value}"
