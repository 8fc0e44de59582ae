"""What a relational network compares, what its decoder reads, and how well it keeps unseen objects apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.relations import Confused, Drift, Occlusion, Relations
from mnemoscope.lenses.relations.figure import draw_confused, draw_drift, draw_occlusion, draw_relations
from mnemoscope.report.document import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks.relational import RelationalTask

WIDTH = 7.2
CONFUSED = 6
"""Pairs that are shown."""


def relations_section(seen: Relations, task: RelationalTask, problems: Sequence[int]) -> Section:
    """The section with the relations of some problems."""
    parts, held_out = [], " and ".join(task.held_out)
    of = f"with unseen {held_out}" if held_out else "that is new"
    for problem in problems:
        right = bool(seen.answers[problem] == seen.labels[problem])
        figure = draw_relations(seen, task, problem, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            f"A problem {of} that is answered {'right' if right else 'wrong'}. Row i of a matrix is of object i with "
            f"each other one. Scores are before the softmax; what is read of them is what the decoder "
            f"gets, blank where it gets nothing."
        )
        alt = "The images of a problem, and matrices of how alike its objects are, before and after a softmax."
        parts.append(figure_markup(figure, f"relations-{problem}", alt=alt, caption=caption))
    return Section("Relations", seen.summary(), "\n".join(parts))


def occlusion_section(found: Mapping[str, Occlusion], task: RelationalTask) -> Section:
    """The section with what the decoder reads, by the names of the sets of problems, such as seen and unseen."""
    parts = []
    for name, one in found.items():
        figure = draw_occlusion(one, task.rows, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            f"{name.capitalize()} objects: what the right answer loses, in the mean, when the relation of a pair is "
            f"replaced by its mean over the problems; lines are between rows of the problem. When hidden: the accuracy "
            f"that is left when all numbers of a kind are replaced. {one.summary()}"
        )
        alt = "Maps of what is lost with each pair of objects, and bars of the accuracy left without all of them."
        parts.append(figure_markup(figure, f"occlusion-{name}", alt=alt, caption=caption))
    lead = (
        "What the decoder gets is hidden from it, part by part. What matters is lost with it, unless another part "
        "tells the same."
    )
    return Section("What the decoder reads", lead, "\n".join(parts))


def drift_section(
    found: Drift, confused: Sequence[Confused] = (), images: Float[Tensor, "images 3 height width"] | None = None
) -> Section:
    """The section with how well objects are kept apart, seen and unseen, before and after training.

    Args:
        found: by the lens.
        confused: pairs of images to show, those of the test that are mistaken most often after training.
        images: of which they are.

    """
    figure = draw_drift(found, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
    caption = (
        "Similarities of the encoded and normalised objects of a problem, z . z. d' is the difference of the means by "
        "the root of the mean variance; AUC is how often a same pair is more alike than a different one. An object is "
        "mistaken for a different one if a softmax over its row gives that one more than half of what it gives to "
        "itself."
    )
    headings = ("Network", "Objects", "Mistaken pairs", "Problems with one", "Right of those", "Right of others")
    measured = (found.mistakes, found.troubled, found.accuracy(True), found.accuracy(False))
    rows = [
        (network, of, *(_percent(float(each[n, s])) for each in measured))
        for n, network in enumerate(found.networks)
        for s, of in enumerate(found.sets)
    ]
    alt = "Histograms of the similarities of same and of different pairs of objects."
    table = table_markup("Different objects that are mistaken for one another", headings, rows)
    body = figure_markup(figure, "drift", alt=alt, caption=caption) + table
    if confused and images is not None:
        shown = draw_confused(confused[:CONFUSED], images, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            f"Objects of the test that are mistaken for one another after training, the most frequent of "
            f"{len(confused)} pairs: how often, of all times that both stand in a problem."
        )
        body += figure_markup(
            shown, "confused", alt="Pairs of images that are mistaken for one another.", caption=caption
        )
    return Section("How well objects are kept apart", found.summary(), body)


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.2%}"
