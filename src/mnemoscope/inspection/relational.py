"""What the lens of relational networks shows of a trained run, and how runs fare over how many shapes are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.config.options import changed_options
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.gradients import AFTER, BEFORE
from mnemoscope.inspection.problem import accuracy
from mnemoscope.lenses.relations import (
    Confused,
    Drift,
    Generalisation,
    Occlusion,
    Relations,
    Trained,
    measure_drift,
    measure_occlusion,
    record_relations,
)
from mnemoscope.relational import Comparing, Solver
from mnemoscope.relational.scenes import Scenes
from mnemoscope.report import Section
from mnemoscope.report.relations import drift_section, occlusion_section, relations_section
from mnemoscope.tasks import Problems
from mnemoscope.tasks.relational import HeldOut, RelationalTask
from mnemoscope.training import build_model, load_model

PROBLEMS, HIDDEN_IN = 256, 100
"""That are looked at, of each kind; and in which numbers are hidden, one after the other, which takes much longer."""
RECIPE = ("optimiser", "learning_rate", "momentum", "weight_decay", "schedule", "steps", "batch_size", "clip")
"""How a network is trained, whatever it is."""
OF_OBJECTS = frozenset({"shapes", "objects"})
"""What a task may hold out so that objects of its test are unseen."""


@dataclass(frozen=True)
class RelationsSeen:
    """What a trained network compares, what its decoder reads, and how well it keeps unseen objects apart."""

    task: RelationalTask
    drift: Drift
    """Before and after training, of what was trained with and of what was held out."""
    relations: Relations | None
    """On what was held out; None of a network that has no relations."""
    occlusion: dict[str, Occlusion]
    """On "seen" objects, which were trained with, and on "unseen" ones, which were held out, or, where none were, on
    "tested" ones; empty likewise."""
    confused: list[Confused]
    """Pairs of images that were held out and are mistaken for one another after training, the most frequent first."""
    images: Float[Tensor, "images 3 height width"]
    """Of which they are."""
    instead: str = ""
    """What a network without relations does."""

    def sections(self) -> list[Section]:
        """The sections of the page."""
        if self.relations is None:
            first = [Section("Relations", self.instead, "")]
        else:
            shown = self._shown()
            first = [relations_section(self.relations, self.task, shown), occlusion_section(self.occlusion, self.task)]
        return [*first, drift_section(self.drift, self.confused, self.images)]

    def save(self, page: Path) -> None:
        """Write all of it beside the page."""
        self.drift.save(page.with_name(f"{page.stem}.drift.safetensors"))
        if self.relations is not None:
            self.relations.save(page.with_name(f"{page.stem}.relations.safetensors"))
        for name, one in self.occlusion.items():
            one.save(page.with_name(f"{page.stem}.occlusion-{name}.safetensors"))

    def _shown(self) -> list[int]:
        """A problem that is answered right, and one that is answered wrong, where there are such."""
        assert self.relations is not None
        right = self.relations.answers == self.relations.labels
        return [int(which.nonzero()[0]) for which in (right, ~right) if bool(which.any())]


def look_at_relations(model: Solver, task: Problems, config: RunConfig) -> RelationsSeen:
    """The lens of relational networks on a trained run."""
    network = model.network
    fresh = build_model(config, task)
    assert isinstance(fresh, Solver)
    unseen = "unseen" if OF_OBJECTS & {*task.of.held_out} else "tested"
    scenes = {
        "seen": task.of.batch(PROBLEMS, config.seed, 0, "validation"),
        unseen: task.of.batch(PROBLEMS, config.seed, 0, "test"),
    }
    apart = measure_drift({BEFORE: fresh.network, AFTER: network}, scenes, task.of)
    confused = apart.confused(apart.networks.index(AFTER), apart.sets.index(unseen), scenes[unseen].objects)
    images = scenes[unseen].images
    if not isinstance(network, Comparing):
        instead = f"This network has no matrix of how alike its objects are: {network.instead}."
        return RelationsSeen(task.of, apart, None, {}, confused, images, instead)
    read = {name: measure_occlusion(network, _first(problems)) for name, problems in scenes.items()}
    return RelationsSeen(task.of, apart, record_relations(network, scenes[unseen], task.of), read, confused, images)


def _first(scenes: Scenes) -> Scenes:
    return Scenes(scenes.images, scenes.objects[:HIDDEN_IN], scenes.labels[:HIDDEN_IN])


def generalisation_of(runs: Sequence[str | Path]) -> Generalisation:
    """Accuracy of trained runs on seen and on unseen shapes, over how many were held out; its `figure` draws it.

    Args:
        runs: folders of runs of one relational task that holds shapes out, with any m, networks and seeds. Where they
            were not all trained in the same way, their names say how.

    """
    found, chances = [], {}
    trained = [(folder, *load_model(folder)) for folder in runs]
    recipes = [{name: getattr(config, name) for name in RECIPE} for *_, config in trained]
    varied = [name for name in RECIPE if len({recipe[name] for recipe in recipes}) > 1]
    for (folder, model, task, config), recipe in zip(trained, recipes, strict=True):
        if not isinstance(task, Problems) or not isinstance(task.of, HeldOut):
            raise ValueError(f"{folder} is a run of {config.task!r}, which holds no shapes out.")
        seen, unseen = (accuracy(model, task, config.seed, split) for split in ("validation", "test"))
        network = changed_options(registry.networks.load(config.cell), config.cell_options)
        problem = changed_options(registry.tasks.load(config.task), config.task_options)
        others = {name: value for name, value in problem.items() if name not in ("m", "shape_seed")}
        name = _with(config.cell, network | {name: recipe[name] for name in varied})
        found.append(Trained(name, task.of.m, seen, unseen))
        chances[_with(config.task, others)] = 1 / task.of.choices
    if len(chances) > 1:
        raise ValueError(f"Runs must be of one task, but are of {', '.join(chances)}.")
    return Generalisation(tuple(found), *chances.values())


def _with(name: str, options: Mapping[str, Any]) -> str:
    """What is trained, with the options in which it differs from its defaults."""
    return " ".join([name, *(f"{option}={value}" for option, value in sorted(options.items()))])
