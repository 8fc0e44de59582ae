"""Published claims about reservoirs that hold three and four bits (Jang, sections 6 and 7, Fig 5 to 7)."""

from __future__ import annotations

from dataclasses import replace

from mnemoscope.replication.agreement import at_least, at_most, chosen, exactly
from mnemoscope.replication.claims import EVERYTHING, Claim, about
from mnemoscope.studies.jang.reservoirs import JANG

PUBLISHED_GAIN = about("g = 1.5")
"""Reservoirs with the gain of Table 1; those with another gain are measured, but nothing was published about them."""
FIXED_POINTS = Claim(
    EVERYTHING,
    "fixed points",
    "9-26",
    JANG("section 6: depending on the tolerance"),
    chosen(9, 26, "the printed range"),
    reason="a cube has 27, which a search from many starts finds; 20 starts were published",
)
INSIDE, OUTSIDE = (f"random outputs {where} the cube that go to a corner" for where in ("inside", "outside"))
EDGES, SPREAD, LATTICE = "edges with a saddle", "spread of the edges", "variance in three components"
EQUIDISTANT = chosen(0, 0.1, "our reading of 'roughly': a deviation of a tenth of the mean")
MINUTES, SETTLED = "minutes for 20 points", "change of the mean |W_o| in the last tenth of the training, as a share"
CENTRE, ACCURACY, ERROR = "unstable directions of the central point", "sign accuracy", "mean error during training"
TO_CORNERS = at_least(0.95, "our reading of the drawn trajectories: nearly all")
CUBE = (
    Claim(PUBLISHED_GAIN, "stable fixed points at the corners", 8, JANG("section 6 and Fig 6"), exactly(8)),
    replace(FIXED_POINTS, subject=PUBLISHED_GAIN),
    Claim(
        PUBLISHED_GAIN,
        MINUTES,
        "approximately 3",
        JANG("section 10.3"),
        chosen(2, 4, "one unit of the printed digit"),
        better="lower",
        reason="another processor, and Newton's method instead of conjugate gradients",
    ),
    Claim(
        PUBLISHED_GAIN,
        ACCURACY,
        "outputs follow the targets of the test",
        JANG("Fig 5b"),
        at_least(0.99, "all but one in 100 of the signs"),
    ),
    Claim(
        PUBLISHED_GAIN,
        ERROR,
        "kept small",
        JANG("Fig 5a and c"),
        at_most(0.1, "a tenth of the distance of a target from 0"),
    ),
    Claim(
        PUBLISHED_GAIN,
        SETTLED,
        "mean weights during training, drawn only",
        JANG("Fig 5d"),
        at_most(0.05, "our reading: weights that FORCE has learned settle; half of the share at a constant pace"),
    ),
    Claim(PUBLISHED_GAIN, INSIDE, "drawn, for example from (0.5, 0.5, 0.5)", JANG("section 6 and Fig 6"), TO_CORNERS),
    Claim(PUBLISHED_GAIN, OUTSIDE, "drawn, for example from (2, 2, 0)", JANG("section 6 and Fig 6"), TO_CORNERS),
    Claim(
        PUBLISHED_GAIN,
        CENTRE,
        "a saddle",
        JANG("section 6, and Fig 7d"),
        chosen(1, 999, "a saddle has unstable and stable directions, of 1,000"),
        by_construction=True,  # the untrained origin is one too at this gain
    ),
    Claim(
        PUBLISHED_GAIN,
        EDGES,
        "saddles form along the edges",
        JANG("section 9"),
        exactly(12, "all edges of a cube"),
    ),
    Claim(PUBLISHED_GAIN, SPREAD, "equidistant from all states one bit-flip away", JANG("section 6"), EQUIDISTANT),
    Claim(
        PUBLISHED_GAIN,
        LATTICE,
        "a 3D lattice",
        JANG("section 6"),
        at_least(0.9, "our reading: nine tenths of the variance of the eight memories"),
    ),
)
TESSERACT = (
    Claim(PUBLISHED_GAIN, "stable fixed points at the corners", 16, JANG("section 7: a tesseract"), exactly(16)),
    Claim(PUBLISHED_GAIN, SPREAD, "equidistant, single-bit transitions", JANG("section 7"), EQUIDISTANT),
)
