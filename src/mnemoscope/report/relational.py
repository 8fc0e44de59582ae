"""What a relational network compares, what its decoder reads, and how well it keeps unseen objects apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from mnemoscope.analysis.relational import Drift, Occlusion, Relations
from mnemoscope.analysis.relational.drawing import draw_drift, draw_occlusion, draw_relations
from mnemoscope.relational.tasks import RelationalTask
from mnemoscope.report.frame import Section
from mnemoscope.report.sections import drawn, plain_table
from mnemoscope.report.svg import COLOUR, LARGEST_LETTERS

WIDTH = 7.2


def relations_section(seen: Relations, task: RelationalTask, problems: Sequence[int]) -> Section:
    """The section with the relations of some problems."""
    parts = []
    for problem in problems:
        right = bool(seen.answers[problem] == seen.labels[problem])
        figure = draw_relations(seen, task, problem, COLOUR, width=WIDTH, letters=LARGEST_LETTERS)
        caption = (
            f"A problem of unseen objects that is answered {'right' if right else 'wrong'}. Row i of a matrix is of "
            f"object i with each other one. Scores are before the softmax; what is read of them is what the decoder "
            f"gets, blank where it gets nothing."
        )
        alt = "The images of a problem, and matrices of how alike its objects are, before and after a softmax."
        parts.append(drawn(figure, f"relations-{problem}", alt=alt, caption=caption))
    return Section("Relations", seen.summary(), "\n".join(parts))


def occlusion_section(found: Mapping[str, Occlusion], task: RelationalTask) -> Section:
    """The section with what the decoder reads, by the names of the sets of problems, such as seen and unseen."""
    parts = []
    for name, one in found.items():
        figure = draw_occlusion(one, task.rows, COLOUR, width=WIDTH, letters=LARGEST_LETTERS)
        caption = (
            f"{name.capitalize()} objects: what the right answer loses, in the mean, when the relation of a pair is "
            f"replaced by its mean over the problems; lines are between rows of the problem. When hidden: the accuracy "
            f"that is left when all numbers of a kind are replaced. {one.summary()}"
        )
        alt = "Maps of what is lost with each pair of objects, and bars of the accuracy left without all of them."
        parts.append(drawn(figure, f"occlusion-{name}", alt=alt, caption=caption))
    lead = (
        "What the decoder gets is hidden from it, part by part. What matters is lost with it, unless another part "
        "tells the same."
    )
    return Section("What the decoder reads", lead, "\n".join(parts))


def drift_section(found: Drift) -> Section:
    """The section with how well objects are kept apart, seen and unseen, before and after training."""
    figure = draw_drift(found, COLOUR, width=WIDTH, letters=LARGEST_LETTERS)
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
    table = plain_table("Different objects that are mistaken for one another", headings, rows)
    return Section("Unseen objects", found.summary(), drawn(figure, "drift", alt=alt, caption=caption) + table)


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.2%}"
