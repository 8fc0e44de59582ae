"""The figures that this package draws. Importing this module imports matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class InlineFigure(Figure):
    """A figure that a notebook displays as the value of a cell, without pyplot and without `%matplotlib inline`."""

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        self.savefig(image, format="png", dpi=96)
        return image.getvalue()
