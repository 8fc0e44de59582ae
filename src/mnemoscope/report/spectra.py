"""The recurrent matrix, and how small differences grow near the fixed points."""

from __future__ import annotations

from mnemoscope.cells import Elman
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, inline_svg
from mnemoscope.lenses.fixed_points.figure import Group, groups
from mnemoscope.lenses.fixed_points.result import FixedPoints
from mnemoscope.lenses.spectra import Spectrum, spectrum
from mnemoscope.lenses.spectra.figure import draw_spectrum
from mnemoscope.report.document import Section
from mnemoscope.report.markup import table_markup
from mnemoscope.report.numbers import format_number
from mnemoscope.report.registered_lenses import InspectedNetwork

LARGEST = 512
"""States with more numbers than this are not looked at: the page would wait for it."""


def spectra_sections(looked: InspectedNetwork) -> list[Section]:
    """Growth near the fixed points, and the matrix of an Elman cell, if the state is not too large."""
    fp = looked.fixed_points
    if fp.states.shape[1] > LARGEST:
        return []
    near = [linearisation_section(fp)] if len(fp) else []
    return [*near, matrix_section(spectrum(looked.cell))] if isinstance(looked.cell, Elman) else near


def matrix_section(seen: Spectrum) -> Section:
    """The section with the recurrent matrix of a network."""
    figure = draw_spectrum(seen, COLOUR, figure=new_figure(7.2, 10.2), columns=2, font_size=PAGE_FONT_SIZE)
    alt = (
        "Eigenvalues and pseudospectra, growth of powers, singular values, Schur form, angles of rotation and mean "
        "size of each sub-diagonal of the recurrent matrix."
    )
    html = f'<figure class="drawn">{inline_svg(figure, "matrix", alt=alt)}</figure>'
    lead = (
        f"The matrix alone, without the nonlinearity. {seen.summary()} Contours show how far eigenvalues could move if "
        f"the matrix were changed by as much as their label says."
    )
    return Section("Recurrent matrix", lead, html)


def linearisation_section(fp: FixedPoints) -> Section:
    """The section with the Jacobian of one fixed point of each kind, that which most starts reached."""
    largest = "Largest Re\u00a0λ" if fp.continuous else "Largest |\u2060λ|"
    power = "|exp(tJ)|" if fp.continuous else "|Jᵗ|"
    headings = ("Kind", "Point", largest, "Largest singular value", "Departure from normality", f"Largest {power}")
    lead = (
        f"A small difference from a fixed point shrinks or grows in the end as the eigenvalues of its Jacobian J say; "
        f"until then it may grow by as much as the largest {power}. Of each kind, the point that most starts reached."
    )
    rows = [_row(fp, group) for group in groups(fp)]
    return Section("Growth near the fixed points", lead, table_markup("Jacobians of fixed points", headings, rows))


def _row(fp: FixedPoints, group: Group) -> tuple[str, ...]:
    point = max(group.members, key=lambda member: int(fp.reached[member]))
    seen = spectrum(fp[point])
    leading = seen.abscissa if fp.continuous else seen.radius
    amplification = format_number(seen.amplification)
    if not seen.unbounded and seen.amplification > 1:
        followed = seen.growth_until_settled
        at = f"t = {format_number(followed.time)}" if fp.continuous else f"step {followed.time:.0f}"
        amplification = f"{amplification} at {at}" if followed.settled else f"{amplification} at least"
    shares = (f"{seen.relative_departure:.0%}", amplification)
    return (
        f"{group.label} ({len(group.members)})",
        str(point),
        format_number(leading),
        format_number(seen.norm),
        *shares,
    )
