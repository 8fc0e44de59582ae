"""Studies of tasks that can be solved: networks that solve their task early are compared too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from mnemoscope.config.run_config import RunConfig, changed
from mnemoscope.replication.claims import Claim, Row, with_reason
from mnemoscope.replication.learning_study import LearningStudy, finite
from mnemoscope.replication.study import Finished, Trial, count_diverged
from mnemoscope.replication.verdicts import AGREEING, APART, OTHER_RECIPE, Obstacle, Verdict

RECIPE = (
    "hidden_size",
    "optimiser",
    "learning_rate",
    "momentum",
    "weight_decay",
    "schedule",
    "clip",
    "leave_out",
    "batch_size",
    "cell_options",
)
"""Settings in which a recipe may differ from the published one."""
CURRICULUM_OPTIONS = ("curriculum", "mixed")
"""Options of tasks that change the order of the examples, but not the task."""


class SolvingStudy(LearningStudy):
    """Networks that are trained until they have solved their task, with recipes that need not be the published ones."""

    published_base: RunConfig
    """Recipe by which the published networks were trained."""
    published_changes: Mapping[str, Mapping[str, Any]]
    """Changes of this recipe for single networks, by name."""

    def solved(self, result: Mapping[str, Any]) -> bool:
        """Whether a network that stayed finite has solved its task."""
        raise NotImplementedError(f"{type(self).__name__} must define solved(result).")

    def trained_as_long(self, finished: Finished) -> bool:
        """Whether a network was trained as long as the published one."""
        return finished.result["steps"] >= self.published_recipe(finished.trial).steps

    def compare(
        self,
        trials: Sequence[Finished],
        claim: Claim,
        measured: Sequence[float],
        ours: str,
        remark: str = "",
        quantity: str = "",
        *,
        diverged: int | None = None,
    ) -> Row:
        """Compare networks that have solved their task, and others if they were trained as long as published.

        Networks that are better than published after fewer iterations are compared too: the published number is not the
        best that they can reach, whatever more iterations would do. If most networks have solved the task, the others
        count as ones that do not agree.
        """
        stable, quantity = finite(trials), quantity or claim.name
        steps = self.published_recipe(trials[0].trial).steps
        other = self.other_recipes_of(trials)
        remark = "; ".join(part for part in (remark, f"{OTHER_RECIPE}: {other}" if other else "") if part)
        unsolved = [not (self.solved(each.result) or self.trained_as_long(each)) for each in stable]
        if not any(unsolved):
            row = super().compare(trials, claim, measured, ours, remark, quantity, diverged=diverged)
            explained = row.verdict in AGREEING or row.judgement.reason or not other
            return row if explained else with_reason(row, f"{OTHER_RECIPE}: {other}")
        missing = count_diverged(trials) if diverged is None else diverged
        if claim.judge(measured, missing).verdict is Verdict.BETTER:
            return super().compare(trials, claim, measured, ours, remark, quantity, diverged=diverged)
        most = max(each.result["steps"] for each in stable)
        if len(measured) == len(stable) > 2 * sum(unsolved):
            values = [value for value, short in zip(measured, unsolved, strict=True) if not short]
            missing += sum(unsolved)
            row = super().compare(trials, claim, values, ours, remark, quantity, diverged=missing)
            row = _without_unsolved(row, values, sum(unsolved), len(trials), most)
            return replace(row, measured=tuple(measured), diverged=missing - sum(unsolved))
        too_short = f"{most:,} iterations; {steps:,} were published"
        return claim.not_compared(quantity, ours, remark, Obstacle.SHORTER_TRAINING, too_short, measured, missing)

    def published_recipe(self, trial: Trial) -> RunConfig:
        """Return the recipe by which the published network was trained."""
        changes = self.published_changes
        return changed(self.published_base, changes.get(trial.name, changes.get(trial.subject.network, {})))

    def other_recipe(self, trial: Trial) -> str:
        """Return the settings that differ from the published recipe, as text; empty if none does."""
        published, used = asdict(self.published_recipe(trial)), asdict(RunConfig(**trial.settings))
        theirs = {name: published[name] for name in RECIPE}
        theirs |= {name: published["task_options"].get(name) for name in CURRICULUM_OPTIONS}
        return differing_settings({**used["task_options"], **used}, theirs)


def _without_unsolved(row: Row, values: Sequence[float], unsolved: int, networks: int, most: int) -> Row:
    """Return the row with the reason that some networks have not solved the task, and the number of those that agree.

    Args:
        row: the row whose verdict is that of the other networks.
        values: the values of the networks that have solved the task.
        unsolved: number of networks that have not.
        networks: number of all networks, with those that diverged.
        most: most iterations of a network.

    """
    if row.verdict not in APART:
        return row
    agreement = None if row.claim is None else row.claim.agreement
    outside = 0 if agreement is None else sum(value not in agreement for value in values)
    reason = f"{OTHER_RECIPE}: {unsolved} of {networks} had not solved the task after {most:,} iterations"
    if outside:
        reason += f", and {outside} that had {'is' if outside == 1 else 'are'} outside of the range"
    agreeing = len(values) - outside
    matching = (agreeing, networks) if row.verdict is Verdict.IN_PART and agreeing else None
    return replace(row, judgement=replace(row.judgement, reason=reason, matching=matching))


def changed_options(network: Mapping[str, Any], task_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the network with more options of its task."""
    return {**network, "task_options": {**network.get("task_options", {}), **task_options}}


def ended(trials: Sequence[Finished]) -> str:
    """Return the number of iterations after which the training of each network ended, as text."""
    return f"training ended after {', '.join(_end(each.result) for each in trials)}"


def _end(result: Mapping[str, Any]) -> str:
    if "failed" in result:
        last = result["curve"].get("step") or [0]
        return f"{last[-1]:,.0f}, as it did not stay finite"
    without = f", {result['left out']:,} left out" if result.get("left out") else ""
    return f"{result['steps']:,} ({result['seconds']:,.0f} s{without})"


def differing_settings(settings: Mapping[str, Any], published: Mapping[str, Any]) -> str:
    """Return the settings that differ from published ones, as text.

    >>> differing_settings({"optimiser": "adam", "steps": 3000}, {"optimiser": "adam", "steps": 20000})
    'steps 3000'
    """
    pairs = [(name, settings.get(name), value) for name, value in published.items()]
    return ", ".join(f"{name} {_words(ours)}" for name, ours, theirs in pairs if ours != theirs)


def _words(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, Mapping) else str(value)
