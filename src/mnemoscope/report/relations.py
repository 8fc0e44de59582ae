"""Sections about a relational network: its relations, what its decoder reads, and how it separates objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.lenses.relations import ConfusedPair, Drift, Occlusion, Relations
from mnemoscope.lenses.relations.figure import draw_confused_pairs, draw_drift, draw_occlusion, draw_relations
from mnemoscope.report.document import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks.relational import RelationalTask, picture

WIDTH = 7.2
"""Width of a figure, in inches."""
MOST_PAIRS = 6
"""Most pairs of images that are shown."""


def relations_section(found: Relations, task: RelationalTask, problems: Sequence[int]) -> Section:
    """Return the section with the relations of some problems."""
    parts, held_out = [], " and ".join(task.held_out)
    kind = f"problem with unseen {held_out}" if held_out else "new problem"
    for problem in problems:
        right = bool(found.answers[problem] == found.labels[problem])
        figure = draw_relations(
            found,
            problem,
            COLOUR,
            picture=picture(task, found.scenes, problem),
            answer_names=task.answers,
            width=WIDTH,
            font_size=PAGE_FONT_SIZE,
        )
        caption = (
            f"A {kind}, answered {'correctly' if right else 'wrongly'}. Row i of a matrix compares object i with the "
            f"others. Scores are the values before the softmax. Read are the values that the decoder receives; blank "
            f"entries are not read."
        )
        alt = "The images of a problem, and matrices of how alike its objects are, before and after a softmax."
        parts.append(figure_markup(figure, f"relations-{problem}", alt=alt, caption=caption))
    return Section("Relations", found.summary(), "\n".join(parts))


def occlusion_section(found: Mapping[str, Occlusion], task: RelationalTask) -> Section:
    """Return the section on what the decoder reads; `found` has the names of the sets of problems, such as unseen."""
    parts = []
    for name, occlusion in found.items():
        figure = draw_occlusion(occlusion, task.rows, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            f"{name.capitalize()} objects: mean loss for the right answer when the relation of a pair is replaced by "
            f"its mean over the problems. Lines separate the rows of a problem. The bars show the accuracy that "
            f"remains when all numbers of a kind are replaced. {occlusion.summary()}"
        )
        alt = "Maps of the loss from hiding each pair of objects, and bars of the accuracy without all of them."
        parts.append(figure_markup(figure, f"occlusion-{name}", alt=alt, caption=caption))
    lead = (
        "The parts of the decoder's input are hidden in turn. Hiding a part that matters costs accuracy, unless "
        "another part carries the same information."
    )
    return Section("What the decoder reads", lead, "\n".join(parts))


def drift_section(
    found: Drift, confused: Sequence[ConfusedPair] = (), images: Float[Tensor, "images 3 height width"] | None = None
) -> Section:
    """Return the section on how well seen and unseen objects are separated, before and after training.

    Args:
        found: the drift.
        confused: pairs of test images that are mistaken for each other after training, the most frequent first.
        images: the images to which `confused` refers.

    """
    figure = draw_drift(found, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
    caption = (
        "Similarities z . z of the encoded and normalised objects of a problem. d' is the difference of the means "
        "divided by the root of the mean variance. AUC is the probability that a same pair is more similar than a "
        "different one. An object is mistaken for another if a softmax over its row gives that one more than half of "
        "what it gives to itself."
    )
    headings = ("Network", "Objects", "Mistaken pairs", "Problems with one", "Accuracy on those", "Accuracy on others")
    measures = (found.mistakes, found.affected, found.accuracy(True), found.accuracy(False))
    rows = [
        (network, name, *(_percent(float(measure[n, s])) for measure in measures))
        for n, network in enumerate(found.networks)
        for s, name in enumerate(found.sets)
    ]
    alt = "Histograms of the similarities of same and of different pairs of objects."
    table = table_markup("Different objects that are mistaken for each other", headings, rows)
    body = figure_markup(figure, "drift", alt=alt, caption=caption) + table
    if confused and images is not None:
        pairs = draw_confused_pairs(confused[:MOST_PAIRS], images, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            f"The most frequent of {len(confused)} pairs of test objects that are mistaken for each other after "
            f"training, with the number of mistakes out of all problems in which both occur."
        )
        body += figure_markup(
            pairs, "confused", alt="Pairs of images that are mistaken for each other.", caption=caption
        )
    return Section("Separation of objects", found.summary(), body)


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.2%}"
