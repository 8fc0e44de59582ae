"""Proximal policy optimisation (PPO) of recurrent agents, with generalised advantage estimation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.connectivity import attach_matrices
from mnemoscope.training.bptt import penalised_modules
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.rollout import Rollout, Sequences, first_states, send, split_episodes
from mnemoscope.training.result import NonFiniteLoss


@dataclass(frozen=True)
class PPO:
    """Proximal policy optimisation with a clipped ratio (Schulman et al. 2017, Eq 7 and 9), for recurrent networks.

    A rollout is cut where episodes start, so that a sequence is the part of one episode in one rollout. A sequence
    whose episode starts in the rollout starts with the initial state. A sequence whose episode started earlier starts
    with the network's state at that time, which is kept fixed while the weights change. No gradient passes through it,
    so gradients reach back `rollout` steps at most. All later states are recomputed with the present weights. Sequences
    are padded at their ends to equal length: no output depends on later steps, and the loss ignores the padding. Before
    the first optimiser step, every ratio is therefore 1.

    A limit of steps counts as an end like any other (see `Outcome.ended`): where the reward depends on the limit, as in
    MiniGrid, the limit is part of the task.

    The defaults are common ones; Kerg, B.2 gives none of them.
    """

    steps: int = 100_000
    """Steps in all environments together, rounded up to whole rollouts."""
    environments: int = 16
    """Environments that are stepped in parallel."""
    rollout: int = 128
    """Steps of a rollout in each environment."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 8
    """Optimiser steps per epoch; fewer if there are fewer sequences."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    discount: float = 0.99
    """Discount factor of rewards per step."""
    trace: float = 0.95
    """Lambda of the generalised advantages."""
    clip: float = 0.2
    """Largest distance from 1 at which the ratio of new to old probability still gets a gradient."""
    entropy: float = 0.01
    """Weight of the entropy bonus of the policy."""
    value: float = 0.5
    """Weight of the squared error of the values."""
    clip_norm: float = 0.5
    """Largest norm of the gradient; longer gradients are scaled down to it."""
    seed: int = 0
    """Seed of the episodes, the actions and the order of the minibatches."""

    def __post_init__(self) -> None:
        counts = ("steps", "environments", "rollout", "epochs", "minibatches")
        check_whole(1, **{name: getattr(self, name) for name in counts})
        for name in ("learning_rate", "clip", "clip_norm"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be above 0 and finite, but is {getattr(self, name)}.")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, but is {getattr(self, name)}.")
        for name in ("entropy", "value", "seed"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be at least 0 and finite, but is {getattr(self, name)}.")

    def optimiser(self, agent: ActorCritic) -> Optimizer:
        """Return Adam for all parameters that require a gradient; on a GPU, its step is one kernel."""
        parameters = [each for each in agent.parameters() if each.requires_grad]
        optimiser = Adam(parameters, lr=self.learning_rate, fused=parameters[0].is_cuda)
        attach_matrices(agent, optimiser)
        return optimiser

    def improve(self, agent: ActorCritic, optimiser: Optimizer, rollout: Rollout) -> dict[str, float]:
        """Train on a rollout, and return means over the optimiser steps.

        The order of the sequences is drawn from torch's global generator.
        """
        advantages = generalised_advantages(
            rollout.rewards, rollout.values, rollout.ended, rollout.last_values, self.discount, self.trace
        )
        returns = advantages + rollout.values
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        sequences, records = split_episodes(rollout.started.cpu()), []
        for _ in range(self.epochs):
            for which in sequences.minibatches(self.minibatches):
                loss, parts = self.loss(agent, rollout, scaled, returns, sequences, which)
                norm = self._step(agent, optimiser, loss)
                records.append({"loss": loss.detach(), "gradient_norm": norm, **parts})
        return _means(records)

    def loss(
        self,
        agent: ActorCritic,
        rollout: Rollout,
        advantages: Float[Tensor, "time batch"],
        returns: Float[Tensor, "time batch"],
        sequences: Sequences,
        which: Int[Tensor, " chosen"],
    ) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, ""]]]:
        """Return the mean loss over the steps of the sequences `which` of a rollout, and the parts of this loss.

        Sequences are on the CPU, so that no index is computed on a GPU, which the CPU would have to wait for.
        """
        times, mask = sequences.padded_times(which)
        place = times * rollout.actions.shape[1] + sequences.member[which]  # in a rollout whose steps are in one row
        real = mask.flatten().nonzero().squeeze(1)  # places of real steps among the padded ones
        device = rollout.values.device
        steps, real = send(place.flatten()[real], device), send(real, device)
        features = agent.encode(rollout.observations.flatten(0, 1)[steps])
        padded = features.new_zeros(mask.numel(), features.shape[-1]).index_copy(0, real, features)
        (log_policy, values), _ = agent.run_encoded(
            padded.unflatten(0, mask.shape),
            first_states(agent, rollout, sequences, which),
            send(mask, device) if penalised_modules(agent.cell) else None,  # a penalty is a mean over the real steps
        )
        log_policy = log_policy.flatten(0, 1).index_select(0, real)  # (steps, actions), without the padding
        actions, old_log_probabilities, advantage, target_values = (
            each.flatten()[steps] for each in (rollout.actions, rollout.log_probabilities, advantages, returns)
        )
        log_ratio = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1) - old_log_probabilities
        policy = clipped_loss(log_ratio, advantage, self.clip).mean()
        value = (values.flatten().index_select(0, real) - target_values).square().mean() / 2
        entropy = -(log_policy.exp() * log_policy).sum(1).mean()
        with torch.no_grad():
            ratio = log_ratio.exp()
            parts = {
                "policy_loss": policy.detach(),
                "value_loss": value.detach(),
                "entropy": entropy.detach(),
                "divergence": (ratio - 1 - log_ratio).mean(),  # estimates KL(old | new), never negative
                "clipped": ((ratio - 1).abs() > self.clip).to(ratio.dtype).mean(),
            }
        return policy + self.value * value - self.entropy * entropy, parts

    def _step(self, agent: ActorCritic, optimiser: Optimizer, loss: Tensor) -> Float[Tensor, ""]:
        """Make an optimiser step, and return the norm of the gradient."""
        optimiser.zero_grad()
        loss.backward()
        for module in penalised_modules(agent.cell):
            if (penalty := module.penalty()) is not None and penalty.requires_grad:
                penalty.backward()
        norm = nn.utils.clip_grad_norm_(agent.parameters(), self.clip_norm)
        optimiser.step()
        return norm


def _means(records: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
    """Return means over optimiser steps, or raise if a loss or a gradient was not finite; waits for a GPU once."""
    table = torch.stack([torch.stack([*record.values()]) for record in records]).tolist()
    for total, norm, *_ in table:
        if not (isfinite(total) and isfinite(norm)):
            raise NonFiniteLoss(
                f"The loss is {total} and its gradient's norm {norm}; lower learning_rate or clip_norm, or change the "
                f"initial weights."
            )
    means = {name: sum(column) / len(table) for name, column in zip(records[0], zip(*table, strict=True), strict=True)}
    return {name: mean for name, mean in means.items() if name != "loss"}


def clipped_loss(
    log_ratio: Float[Tensor, " steps"], advantages: Float[Tensor, " steps"], clip: float
) -> Float[Tensor, " steps"]:
    """Return `-min(r A, clip(r, 1 - clip, 1 + clip) A)` with r = exp(log_ratio).

    A ratio beyond the clip gains nothing more.

    >>> clipped_loss(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]), clip=0.2)
    tensor([-1.2000,  1.6487])
    """
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def generalised_advantages(
    rewards: Float[Tensor, "time batch"],
    values: Float[Tensor, "time batch"],
    ended: Bool[Tensor, "time batch"],
    last_values: Float[Tensor, " batch"],
    discount: float = 0.99,
    trace: float = 0.95,
) -> Float[Tensor, "time batch"]:
    """Return the advantages `A_t = sum_k (discount trace)^k d_{t+k}` (Schulman et al. 2016, Eq 16).

    The sum ends with the episode, and `d_t = r_t + discount V_{t+1} - V_t`.

    Args:
        rewards: r_t, reward of the action at step t.
        values: V_t, value before that action.
        ended: whether the action ended an episode; the next value then belongs to another episode and does not count.
        last_values: V after the last step.
        discount: discount factor of rewards per step.
        trace: lambda. 0 uses the values after one step, 1 uses the rewards alone.

    >>> no = torch.zeros(2, 1, dtype=torch.bool)
    >>> generalised_advantages(torch.ones(2, 1), torch.zeros(2, 1), no, torch.zeros(1), discount=1.0, trace=0.5).T
    tensor([[1.5000, 1.0000]])

    """
    for name, value in (("discount", discount), ("trace", trace)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be between 0 and 1, but is {value}.")
    continues = 1 - ended.to(rewards)
    next_values = torch.cat([values[1:], last_values.unsqueeze(0)])
    deltas = rewards + discount * continues * next_values - values
    advantage, advantages = torch.zeros_like(last_values), []
    for delta, factor in zip(deltas.flip(0), continues.flip(0), strict=True):
        advantage = delta + discount * trace * factor * advantage
        advantages.append(advantage)
    return torch.stack(advantages[::-1])
