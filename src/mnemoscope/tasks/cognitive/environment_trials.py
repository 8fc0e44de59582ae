"""Single trials of environments: observations, right actions, conditions and epochs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class EnvironmentTrial:
    """One trial of an environment."""

    observations: np.ndarray
    """Flat observations (time, features)."""
    answers: np.ndarray
    """The right action of every step; among a number of choices, the first one is 0."""
    counted: np.ndarray
    """Whether a step has a right action."""
    conditions: dict[str, float | str] = field(default_factory=dict)
    epochs: dict[str, tuple[int, int]] = field(default_factory=dict)


def record_trial(environment: Any, seed: int, longest: int) -> EnvironmentTrial:
    """Return a trial of an environment that builds whole trials, as those of neurogym do."""
    trial_based = environment.unwrapped
    if hasattr(trial_based, "seed"):
        trial_based.seed(seed)
    environment.reset(seed=seed)
    if hasattr(trial_based, "seed"):
        trial_based.seed(seed)  # what reset drew depends on the trials before
    conditions = trial_based.new_trial()
    if getattr(trial_based, "gt", None) is None or getattr(trial_based, "ob", None) is None:
        raise ValueError(f"{trial_based} offers no right actions (gt) for its trials, so that they cannot be targets.")
    steps = len(trial_based.gt)
    if steps > longest:
        raise ValueError(f"A trial has {steps} steps, more than longest = {longest}.")
    starts, ends = (dict(getattr(trial_based, name, None) or {}) for name in ("start_ind", "end_ind"))
    return EnvironmentTrial(
        np.array(trial_based.ob, dtype=np.float32).reshape(steps, -1),
        np.array(trial_based.gt) - _first_action(environment),
        np.ones(steps, dtype=bool),
        _plain(conditions if isinstance(conditions, Mapping) else {}),
        {name: (min(start, steps), min(max(ends[name], start), steps)) for name, start in starts.items()},
    )


def record_episode(environment: Any, seed: int, longest: int) -> EnvironmentTrial:
    """Return an episode in which the right action is taken at every step, or action 0 where none is right."""
    observation, info = environment.reset(seed=seed)
    conditions = _plain(info)
    observations, answers, counted = [], [], []
    for _ in range(longest):
        observations.append(_flat(environment, observation))
        answer = _right_action(environment)
        answers.append(0 if answer is None else answer)
        counted.append(answer is not None)
        observation, _, terminated, truncated, _ = environment.step(answers[-1] + _first_action(environment))
        if terminated or truncated:
            break
    else:
        raise ValueError(
            f"An episode did not end within longest = {longest} steps: raise longest, or wrap the environment in "
            f"gymnasium.wrappers.TimeLimit."
        )
    if not any(counted):
        raise ValueError(
            "No action is right at any step of an episode: the environment returns no info['gt'], and all actions have "
            "the same reward. Add gt to its info, or train an agent by rewards (mnemoscope.training.reinforcement)."
        )
    return EnvironmentTrial(np.stack(observations), np.array(answers), np.array(counted), conditions)


def _right_action(environment: Any) -> int | None:
    """Return the ground truth of this step, or the action with the highest reward; None if there is no such action."""
    rewards, first = [], _first_action(environment)
    for action in range(first, first + int(environment.action_space.n)):
        try:
            copy = deepcopy(environment)
        except Exception as error:
            raise ValueError(
                f"The right action is found by trying actions on copies of the environment, but copying it failed "
                f"({error}): let it offer new_trial, ob and gt."
            ) from error
        _, reward, _, _, info = copy.step(action)
        if "gt" in info:
            return int(info["gt"]) - first
        rewards.append(float(reward))
    return int(np.argmax(rewards)) if max(rewards) > min(rewards) else None


def _first_action(environment: Any) -> int:
    """Return the number of the first of several choices; 0 if actions are vectors."""
    return int(getattr(environment.action_space, "start", 0))


def _flat(environment: Any, observation: Any) -> np.ndarray:
    """Return an observation as a vector; a whole number becomes one-hot."""
    number = getattr(environment.observation_space, "n", None)
    if number is not None:
        return np.eye(int(number), dtype=np.float32)[int(observation) - int(environment.observation_space.start)]
    return np.asarray(observation, dtype=np.float32).reshape(-1)


def _plain(info: Mapping[str, Any]) -> dict[str, float | str]:
    """Return the numbers and words of a dictionary; other values are no conditions."""
    plain: dict[str, float | str] = {}
    for name, value in info.items():
        if isinstance(value, str):
            plain[name] = value
        elif isinstance(value, Real | np.number | np.bool_) and name != "gt":
            plain[name] = float(value)
    return plain
