"""Findings about the relations of a trained relational network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.config.run_config import RunConfig
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
from mnemoscope.relational import SimilarityModel, SingleStepModel
from mnemoscope.relational.network import Scenes
from mnemoscope.report import Section
from mnemoscope.report.relations import drift_section, occlusion_section, relations_section
from mnemoscope.tasks import RelationalSequence
from mnemoscope.tasks.relational import RelationalTask
from mnemoscope.training import build_model

PROBLEMS, OCCLUDED_PROBLEMS = 256, 100
"""Problems of each kind; and the fewer problems for occlusion, which takes much longer."""
OBJECT_WORDS = frozenset({"shapes", "objects"})
"""Entries of `RelationalTask.held_out` for which the objects of a test are unseen."""


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
            first = [Section("Relations", self.instead, "")]
        else:
            examples = self._examples(self.relations)
            first = [
                relations_section(self.relations, self.task, examples),
                occlusion_section(self.occlusion, self.task),
            ]
        return [*first, drift_section(self.drift, self.confused, self.images)]

    def save(self, page: Path) -> None:
        """Write all results next to the page."""
        self.drift.save(page.with_name(f"{page.stem}.drift.safetensors"))
        if self.relations is not None:
            self.relations.save(page.with_name(f"{page.stem}.relations.safetensors"))
        for name, occlusion in self.occlusion.items():
            occlusion.save(page.with_name(f"{page.stem}.occlusion-{name}.safetensors"))

    @staticmethod
    def _examples(relations: Relations) -> list[int]:
        """Return one problem with a right and one with a wrong answer, as far as they exist."""
        right = relations.answers == relations.labels
        return [int(which.nonzero()[0]) for which in (right, ~right) if bool(which.any())]


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
