"""Proximal policy optimisation of recurrent agents."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.validation import check_whole
from mnemoscope.connectivity import Connectivity
from mnemoscope.training import NonFiniteLoss
from mnemoscope.training.loop import Penalised
from mnemoscope.training.reinforcement.actor_critic import ActorCritic
from mnemoscope.training.reinforcement.advantages import generalised_advantages
from mnemoscope.training.reinforcement.rollout import Rollout, Sequences, cut, first_states


@dataclass(frozen=True)
class PPO:
    """Proximal policy optimisation with a clipped ratio (Schulman et al. 2017, Eq 7 and 9), for recurrent networks.

    Where episodes begin within a rollout, it is cut: a sequence is what of one episode lies in one rollout, and begins
    with the initial state. One whose episode began in an earlier rollout begins with the state that the network came to
    then, which is kept as it is while the weights change; through it no gradient goes back, so that gradients reach
    back `rollout` steps at most. From there on all states are computed again with the present weights. Sequences stand
    side by side, filled up at their ends: no output depends on what comes later, and what stands there has no part in
    the loss. So before the first step of the optimiser every ratio is 1.

    A limit of steps counts as an end like any other (see `Outcome.ended`): where the reward depends on the limit, as in
    MiniGrid, it belongs to the task.

    The defaults are common ones; none of them is given by Kerg, B.2.
    """

    steps: int = 100_000
    """Steps in all environments together; whole rollouts, so that the last may go beyond."""
    environments: int = 16
    """How many are stepped together."""
    rollout: int = 128
    """Steps in each of them from one change of the weights to the next."""
    epochs: int = 4
    """How often each rollout is learned from."""
    minibatches: int = 8
    """Steps of the optimiser in each of them; fewer where there are fewer sequences."""
    learning_rate: float = 1e-3
    """Of Adam."""
    discount: float = 0.99
    """Of a reward, for every step that it lies ahead."""
    trace: float = 0.95
    """Lambda of the generalised advantages."""
    clip: float = 0.2
    """How far the ratio of new to old probability may be from 1 and still be learned from."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which is to be large."""
    value: float = 0.5
    """Weight of the squared error of the values."""
    clip_norm: float = 0.5
    """Largest norm of the gradient, longer ones are shortened to it."""
    seed: int = 0
    """Of the episodes, of the actions, and of the order in which they are learned from."""

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
        """Adam, of all that learns."""
        return Adam([one for one in agent.parameters() if one.requires_grad], lr=self.learning_rate)

    def improve(self, agent: ActorCritic, optimiser: Optimizer, rollout: Rollout) -> dict[str, float]:
        """Learn from a rollout; returns means over the optimiser's steps. Orders come from the global generator."""
        advantages = generalised_advantages(
            rollout.rewards, rollout.values, rollout.ended, rollout.last_values, self.discount, self.trace
        )
        returns = advantages + rollout.values
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        sequences, told = cut(rollout.started), []
        for _ in range(self.epochs):
            for which in sequences.minibatches(self.minibatches):
                loss, parts = self.loss(agent, rollout, scaled, returns, sequences, which)
                told.append(parts | {"gradient_norm": self._step(agent, optimiser, loss)})
        return {name: sum(one[name] for one in told) / len(told) for name in told[0]}

    def loss(
        self,
        agent: ActorCritic,
        rollout: Rollout,
        advantages: Float[Tensor, "time batch"],
        returns: Float[Tensor, "time batch"],
        sequences: Sequences,
        which: Int[Tensor, " chosen"],
    ) -> tuple[Float[Tensor, ""], dict[str, float]]:
        """Of some sequences of a rollout, the mean over their steps; and its parts."""
        times, mask = sequences.at(which)
        place = (times, sequences.member[which].expand_as(times))
        learns_itself = any(isinstance(part, Penalised) for part in agent.cell.modules())  # and counts the steps
        outlook, _ = agent.outlook(
            rollout.observations[place],
            first_states(agent, rollout, sequences, which),
            mask if learns_itself else None,
        )
        log_policy = outlook.log_policy[mask]  # (steps, actions): only what belongs to a sequence
        actions, before, advantage, wanted = (
            each[place][mask] for each in (rollout.actions, rollout.log_probabilities, advantages, returns)
        )
        log_ratio = log_policy.gather(1, actions.unsqueeze(1)).squeeze(1) - before
        policy = clipped_loss(log_ratio, advantage, self.clip).mean()
        value = (outlook.values[mask] - wanted).square().mean() / 2
        entropy = -(log_policy.exp() * log_policy).sum(1).mean()
        with torch.no_grad():
            ratio = log_ratio.exp()
            parts = {
                "policy_loss": policy.item(),
                "value_loss": value.item(),
                "entropy": entropy.item(),
                "divergence": (ratio - 1 - log_ratio).mean().item(),  # estimates KL(old | new), never below 0
                "clipped": ((ratio - 1).abs() > self.clip).float().mean().item(),
            }
        return policy + self.value * value - self.entropy * entropy, parts

    def _step(self, agent: ActorCritic, optimiser: Optimizer, loss: Tensor) -> float:
        optimiser.zero_grad()
        loss.backward()
        for part in agent.cell.modules():
            if isinstance(part, Penalised) and (penalty := part.penalty()) is not None and penalty.requires_grad:
                penalty.backward()
        norm = nn.utils.clip_grad_norm_(agent.parameters(), self.clip_norm).item()
        if not (isfinite(loss.item()) and isfinite(norm)):
            raise NonFiniteLoss(
                f"The loss is {loss.item()} and its gradient's norm {norm}; lower learning_rate or clip_norm, or "
                f"change the initial weights."
            )
        optimiser.step()
        for matrix in agent.cell.modules():
            if isinstance(matrix, Connectivity):
                matrix.after_step()
        return norm


def clipped_loss(
    log_ratio: Float[Tensor, " steps"], advantages: Float[Tensor, " steps"], clip: float
) -> Float[Tensor, " steps"]:
    """`-min(r A, clip(r, 1 - clip, 1 + clip) A)`, r = exp(log_ratio): no reward for going further than the clip.

    >>> clipped_loss(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]), clip=0.2)
    tensor([-1.2000,  1.6487])
    """
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
