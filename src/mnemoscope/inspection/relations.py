"""A relational network: its relations, what its decoder reads, and how well it separates unseen objects."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.config.run_config import RunConfig
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.gradients import AFTER, BEFORE
from mnemoscope.lenses.relations import (
    ConfusedPair,
    Drift,
    Occlusion,
    Relations,
    measure_drift,
    measure_occlusion,
    record_relations,
)
from mnemoscope.lenses.relations.figure import draw_confused_pairs, draw_drift, draw_occlusion, draw_relations
from mnemoscope.lenses.result import Result
from mnemoscope.relational import Scenes, SimilarityModel, SingleStepModel
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup
from mnemoscope.tasks import RelationalSequence
from mnemoscope.tasks.relational import RelationalTask, picture
from mnemoscope.training import build_model

PROBLEMS, OCCLUDED_PROBLEMS = 256, 100
"""Problems of each kind; and the fewer problems for occlusion, which takes much longer."""
OBJECT_WORDS = frozenset({"shapes", "objects"})
"""Entries of `RelationalTask.held_out` for which the objects of a test are unseen."""
WIDTH = 7.2
"""Width of a figure, in inches."""
MOST_PAIRS = 6
"""Most pairs of images that are shown."""
DRIFT_HEADINGS = "Network", "Objects", "Mistaken pairs", "Problems with one", "Accuracy on those", "Accuracy on others"


@dataclass(frozen=True)
class RelationFindings:
    """Relations of a trained network, the parts that its decoder reads, and its separation of unseen objects."""

    task: RelationalTask
    drift: Drift
    """Before and after training, on seen and on held-out objects."""
    relations: Relations | None
    """On held-out objects; None for a network without relations."""
    occlusion: dict[str, Occlusion]
    """On "seen" objects, and on "unseen" ones, or "tested" ones if none were held out; empty without relations."""
    confused: list[ConfusedPair]
    """Pairs of test images that are mistaken for each other after training, the most frequent first."""
    images: Float[Tensor, "images 3 height width"]
    """Test images, to which `confused` refers."""
    instead: str = ""
    """Behaviour of a network without relations, as a sentence."""

    def sections(self) -> list[Section]:
        """Return the sections of the page."""
        if self.relations is None:
            return [Section("Relations", self.instead, ""), self._drift_section()]
        return [self._relations_section(self.relations), self._occlusion_section(), self._drift_section()]

    def results(self) -> dict[str, Result | None]:
        """Return the results that are saved next to the page."""
        occlusion = {f"occlusion-{name}": found for name, found in self.occlusion.items()}
        return {"drift": self.drift, "relations": self.relations, **occlusion}

    def _relations_section(self, found: Relations) -> Section:
        """Return the section with the relations of a problem answered correctly and of one answered wrongly."""
        parts, held_out = [], " and ".join(self.task.held_out)
        kind = f"problem with unseen {held_out}" if held_out else "new problem"
        correct = found.answers == found.labels
        for answered, chosen in (("correctly", correct), ("wrongly", ~correct)):
            if not bool(chosen.any()):
                continue
            problem = int(chosen.nonzero()[0])
            content = {"picture": picture(self.task, found.scenes, problem), "answer_names": self.task.answers}
            figure = draw_relations(found, problem, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE, **content)
            caption = (
                f"A {kind}, answered {answered}. Row i of a matrix compares object i with the others. Scores are the "
                f"values before the softmax. Read are the values that the decoder receives; blank entries are not read."
            )
            alt = "The images of a problem, and matrices of how alike its objects are, before and after a softmax."
            parts.append(figure_markup(figure, f"relations-{problem}", alt=alt, caption=caption))
        return Section("Relations", found.summary(), "\n".join(parts))

    def _occlusion_section(self) -> Section:
        """Return the section on what the decoder reads."""
        parts = []
        for name, occlusion in self.occlusion.items():
            figure = draw_occlusion(occlusion, self.task.rows, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
            caption = (
                f"{name.capitalize()} objects: mean loss for the right answer when the relation of a pair is replaced "
                f"by its mean over the problems. Lines separate the rows of a problem. The bars show the accuracy that "
                f"remains when all numbers of a kind are replaced. {occlusion.summary()}"
            )
            alt = "Maps of the loss from hiding each pair of objects, and bars of the accuracy without all of them."
            parts.append(figure_markup(figure, f"occlusion-{name}", alt=alt, caption=caption))
        lead = (
            "The parts of the decoder's input are hidden in turn. Hiding a part that matters costs accuracy, unless "
            "another part carries the same information."
        )
        return Section("What the decoder reads", lead, "\n".join(parts))

    def _drift_section(self) -> Section:
        """Return the section on how well seen and unseen objects are separated, before and after training."""
        found = self.drift
        figure = draw_drift(found, COLOUR, width=WIDTH, font_size=PAGE_FONT_SIZE)
        caption = (
            "Similarities z . z of the encoded and normalised objects of a problem. d' is the difference of the means "
            "divided by the root of the mean variance. AUC is the probability that a same pair is more similar than a "
            "different one. An object is mistaken for another if a softmax over its row gives that one more than half "
            "of what it gives to itself."
        )
        measures = (found.mistakes, found.affected, found.accuracy(True), found.accuracy(False))
        rows = [
            (network, name, *(_percent(float(measure[n, s])) for measure in measures))
            for n, network in enumerate(found.networks)
            for s, name in enumerate(found.sets)
        ]
        alt = "Histograms of the similarities of same and of different pairs of objects."
        body = figure_markup(figure, "drift", alt=alt, caption=caption)
        body += table_markup("Different objects that are mistaken for each other", DRIFT_HEADINGS, rows)
        if self.confused:
            style = {"width": WIDTH, "font_size": PAGE_FONT_SIZE}
            pairs = draw_confused_pairs(self.confused[:MOST_PAIRS], self.images, COLOUR, **style)
            caption = (
                f"The most frequent of {len(self.confused)} pairs of test objects that are mistaken for each other "
                f"after training, with the number of mistakes out of all problems in which both occur."
            )
            alt = "Pairs of images that are mistaken for each other."
            body += figure_markup(pairs, "confused", alt=alt, caption=caption)
        return Section("Separation of objects", found.summary(), body)


def inspect_relations(model: SingleStepModel, task: RelationalSequence, config: RunConfig) -> RelationFindings:
    """Apply the lenses on relational networks to a trained run."""
    network = model.network
    untrained = build_model(config, task)
    assert isinstance(untrained, SingleStepModel)
    tested = "unseen" if OBJECT_WORDS & {*task.relational.held_out} else "tested"
    scenes = {
        "seen": task.relational.batch(PROBLEMS, config.seed, 0, "validation"),
        tested: task.relational.batch(PROBLEMS, config.seed, 0, "test"),
    }
    kinds = {name: task.relational.kinds(problems.images.cpu()) for name, problems in scenes.items()}
    drift = measure_drift({BEFORE: untrained.network, AFTER: network}, scenes, kinds)
    confused = drift.confused_pairs(drift.networks.index(AFTER), drift.sets.index(tested), scenes[tested].objects)
    images = scenes[tested].images
    if not isinstance(network, SimilarityModel):
        instead = f"This network has no matrix of how alike its objects are: {network.mechanism}."
        return RelationFindings(task.relational, drift, None, {}, confused, images, instead)
    relations = record_relations(network, scenes[tested], kinds[tested])
    occlusion = {name: measure_occlusion(network, _first(problems)) for name, problems in scenes.items()}
    return RelationFindings(task.relational, drift, relations, occlusion, confused, images)


def _first(scenes: Scenes) -> Scenes:
    return Scenes(scenes.images, scenes.objects[:OCCLUDED_PROBLEMS], scenes.labels[:OCCLUDED_PROBLEMS])


def _percent(share: float) -> str:
    return "–" if isnan(share) else f"{share:.2%}"
