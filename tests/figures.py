"""Figures that stay empty, for tests that read the text of a page: drawing takes half of the time of a page."""

import io
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def leave_figures_empty():
    """Write an empty picture wherever a page draws a figure; figures that are saved to files are drawn."""
    from matplotlib.figure import Figure

    draw = Figure.savefig

    def save(figure, target, **options):
        if isinstance(target, io.StringIO):
            target.write('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
        else:
            draw(figure, target, **options)

    with patch.object(Figure, "savefig", save):
        yield
