"""Studies of tasks that can be solved: a network that does so early is compared all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.replication.learning import LearningStudy, finite
from mnemoscope.replication.study import Finished, Published, Row, Trial

RECIPE = ("hidden_size", "optimiser", "learning_rate", "momentum", "weight_decay", "schedule", "clip", "leave_out",
          "batch_size", "cell_options")  # fmt: skip
"""Settings in which a training may differ from a published one."""
TAUGHT = ("curriculum", "mixed")
"""Options of tasks that change how they are taught, and not what is to be learned."""


class SolvingStudy(LearningStudy):
    """Networks that are trained until they have solved their task, with recipes that need not be the published ones."""

    told: RunConfig
    """How the published networks were trained."""
    as_told: Mapping[str, Mapping[str, Any]]
    """Changes of it, network by network."""

    def solved(self, result: Mapping[str, Any]) -> bool:
        """Whether a network that stayed finite has solved its task."""
        raise NotImplementedError(f"{type(self).__name__} must define solved(result).")

    def compared(
        self, own: Sequence[Finished], stated: Published, quantity: str, measured: Sequence[float], ours: str,
        remark: str,
    ) -> Row:  # fmt: skip
        """A network that has solved its task is compared however few iterations it took; one that has not, only after
        as many as published.
        """
        whole = finite(own)
        if len(whole) < len(own):  # those that are left are no fair sample
            row = stated.beside(quantity, (), ours, remark)
            return replace(row, because=f"{len(own) - len(whole)} of {len(own)} did not stay finite")
        steps = self.published_recipe(own[0].trial).steps
        other = self.other_recipe(own[0].trial)
        remark = "; ".join(part for part in (remark, f"other recipe: {other}" if other else "") if part)
        if all(self.solved(one.result) or one.result["steps"] >= steps for one in whole):
            row = super().compared(own, stated, quantity, measured, ours, remark)
            plain = row.verdict == "agrees" or row.because or not other
            return row if plain else replace(row, because=f"other recipe: {other}")
        short = f"{max(one.result['steps'] for one in whole):,} iterations; {steps:,} were published"
        return stated.not_beside(quantity, ours, remark, short)

    def published_recipe(self, trial: Trial) -> RunConfig:
        """How the published network of that name was trained."""
        return changed(self.told, self.as_told.get(trial.name, self.as_told.get(network_of(trial), {})))

    def other_recipe(self, trial: Trial) -> str:
        """In which settings a network was trained otherwise than published, in words; empty where in none."""
        published, used = self.published_recipe(trial), RunConfig(**trial.settings)
        pairs = [(name, getattr(used, name), getattr(published, name)) for name in RECIPE]
        pairs += [(name, used.task_options.get(name), published.task_options.get(name)) for name in TAUGHT]
        return ", ".join(f"{name} {_words(ours)}" for name, ours, theirs in pairs if ours != theirs)


def changed_options(network: Mapping[str, Any], task_options: Mapping[str, Any]) -> dict[str, Any]:
    """The network with more options of its task."""
    return {**network, "task_options": {**network.get("task_options", {}), **task_options}}


def network_of(trial: Trial) -> str:
    """Its name, without the conditions behind a comma, such as the delay at which it was trained."""
    return trial.name.split(",")[0]


def ended(own: Sequence[Finished]) -> str:
    """After how many iterations the training of each network ended."""
    return f"training ended after {', '.join(_end(one.result) for one in own)}"


def _end(result: Mapping[str, Any]) -> str:
    if "failed" in result:
        last = result["curve"].get("step") or [0]
        return f"{last[-1]:,.0f}, as it did not stay finite"
    without = f", {result['left out']:,} left out" if result.get("left out") else ""
    return f"{result['steps']:,} ({result['seconds']:,.0f} s{without})"


def _words(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, Mapping) else str(value)
