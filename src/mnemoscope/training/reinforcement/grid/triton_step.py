"""One step of all copies of a room as one kernel: a program takes one copy through the rules of `rules` and `view`."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mnemoscope.kernels.devices import on_device
from mnemoscope.training.reinforcement.grid import codes, rules
from mnemoscope.training.reinforcement.grid.levels import Levels
from mnemoscope.training.reinforcement.grid.view import offsets, row_table

CONSTANTS = {
    "EMPTY": codes.EMPTY,
    "GOAL": codes.GOAL,
    "LAVA": codes.LAVA,
    "STATES": codes.STATES,
    "PER_OBJECT": rules.PER_OBJECT,
    "LEFT": rules.LEFT,
    "RIGHT": rules.RIGHT,
    "FORWARD": rules.FORWARD,
    "PICK_UP": rules.PICK_UP,
    "DROP": rules.DROP,
    "TOGGLE": rules.TOGGLE,
    "DONE": rules.DONE,
}
"""Constants of the kernel."""


def step(levels: Levels, position: rules.Position, level: Tensor, actions: Tensor, copies: int) -> tuple[Any, ...]:
    """Return the fields of a `stepping.Stepped`."""
    device, rule = str(level.device), rules.RULES[levels.rule]
    new = rules.Position(*(torch.empty_like(part) for part in position))
    new_level, batch, places = torch.empty_like(level), len(level), levels.squares.shape[1]
    observations = torch.empty(batch, 7, 7, 3, dtype=torch.uint8, device=level.device)
    rewards, ended = levels.rewards.new_empty(batch), torch.empty(batch, dtype=torch.bool, device=level.device)
    with on_device(level):
        _step[(batch,)](
            *position,
            level,
            actions,
            *levels[:4],
            levels.rewards,
            *codes.tables(device),
            row_table(device),
            offsets(levels.width, device),
            *new,
            new_level,
            observations,
            rewards,
            ended,
            copies,
            len(levels.squares),
            places,
            levels.width,
            levels.limit,
            JUDGE=rule.judge,
            PICKS_UP=rule.picks_up,
            OCCLUDED=levels.occluded,
            PLACES=triton.next_power_of_2(places),
            **CONSTANTS,
            num_warps=1,
        )
    return new, new_level, observations, rewards, ended


@triton.jit
def _step(
    squares,
    place,
    direction,
    carried,
    steps,
    targets,
    level,
    actions,
    level_squares,
    level_place,
    level_direction,
    level_targets,
    level_rewards,
    triples,
    enterable,
    portable,
    transparent,
    toggled,
    locked,
    key,
    unlocked,
    row_results,
    offsets,
    new_squares,
    new_place,
    new_direction,
    new_carried,
    new_steps,
    new_targets,
    new_level,
    observations,
    rewards,
    all_ended,
    copies,
    number,
    places,
    width,
    limit,
    JUDGE: tl.constexpr,
    PICKS_UP: tl.constexpr,
    OCCLUDED: tl.constexpr,
    PLACES: tl.constexpr,
    EMPTY: tl.constexpr,
    GOAL: tl.constexpr,
    LAVA: tl.constexpr,
    STATES: tl.constexpr,
    PER_OBJECT: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    FORWARD: tl.constexpr,
    PICK_UP: tl.constexpr,
    DROP: tl.constexpr,
    TOGGLE: tl.constexpr,
    DONE: tl.constexpr,
):
    b = tl.program_id(0).to(tl.int64)
    squares += b * places
    action = tl.load(actions + b)
    if not PICKS_UP:
        action = tl.where(action == PICK_UP, TOGGLE, action)
    at = tl.load(place + b)
    facing = tl.load(direction + b)
    held = tl.load(carried + b)
    taken = tl.load(steps + b) + 1
    first_target = tl.load(targets + 2 * b)
    second_target = tl.load(targets + 2 * b + 1)

    # the action
    front = at + (1 - 2 * (facing // 2)) * (1 + facing % 2 * (width - 1))
    ahead = tl.load(squares + front).to(tl.int64)
    kind = ahead // PER_OBJECT
    picks = (action == PICK_UP) & (tl.load(portable + ahead) != 0) & (held == EMPTY)
    drops = (action == DROP) & (ahead == EMPTY) & (held != EMPTY)
    opens = (tl.load(locked + ahead) != 0) & (held == tl.load(key + ahead))
    after_toggle = tl.where(opens, tl.load(unlocked + ahead), tl.load(toggled + ahead))
    new_ahead = tl.where(action == TOGGLE, after_toggle, tl.where(drops, held, ahead))
    new_ahead = tl.where(picks, EMPTY, new_ahead)
    walks = (action == FORWARD) & (tl.load(enterable + ahead) != 0)
    at = tl.where(walks, front, at)
    facing = (facing + 4 + tl.where(action == RIGHT, 1, 0) - tl.where(action == LEFT, 1, 0)) % 4
    held = tl.where(picks, ahead, tl.where(drops, EMPTY, held))

    # end and success, as the functions of `rules.JUDGES`
    if JUDGE == "doors in order":
        red_before = tl.load(squares + first_target).to(tl.int64) % STATES == 0
        blue_before = tl.load(squares + second_target).to(tl.int64) % STATES == 0
        red = tl.where(front == first_target, new_ahead % STATES == 0, red_before)
        blue = tl.where(front == second_target, new_ahead % STATES == 0, blue_before)
        ended = blue | (red & blue_before)
        succeeded = blue & red_before
    elif JUDGE == "announced":
        distance = tl.abs(at - first_target)
        succeeded = (action == DONE) & ((distance == 1) | (distance == width))
        ended = (action == DONE) | (action == TOGGLE)
    elif JUDGE == "announced nearby":
        distance = tl.abs(at - first_target)
        succeeded = (action == DONE) & ((distance <= 1) | (tl.abs(distance - width) <= 1))
        ended = (action == DONE) | (action == TOGGLE)
    elif JUDGE == "reached":
        succeeded = at == first_target
        ended = succeeded | (at == second_target)
    elif JUDGE == "fetched":
        succeeded = held == first_target
        ended = held != EMPTY
    else:
        succeeded = (action == FORWARD) & (kind == GOAL)
        ended = succeeded | ((action == FORWARD) & (kind == LAVA))
    ended = ended | (taken >= limit)
    tl.store(rewards + b, tl.where(succeeded, tl.load(level_rewards + taken), 0.0))
    tl.store(all_ended + b, ended)

    # the next level, where the episode has ended
    now = tl.load(level + b)
    now = tl.where(ended, (now + copies) % number, now)
    at = tl.where(ended, tl.load(level_place + now), at)
    facing = tl.where(ended, tl.load(level_direction + now), facing)
    held = tl.where(ended, EMPTY, held)
    tl.store(new_level + b, now)
    tl.store(new_place + b, at)
    tl.store(new_direction + b, facing)
    tl.store(new_carried + b, held)
    tl.store(new_steps + b, tl.where(ended, 0, taken))
    tl.store(new_targets + 2 * b, tl.where(ended, tl.load(level_targets + 2 * now), first_target))
    tl.store(new_targets + 2 * b + 1, tl.where(ended, tl.load(level_targets + 2 * now + 1), second_target))
    level_squares += now * places
    every = tl.arange(0, PLACES)
    kept = tl.load(squares + every, mask=(every < places) & ~ended, other=0)
    kept = tl.where(every == front, new_ahead.to(tl.uint8), kept)
    fresh = tl.load(level_squares + every, mask=(every < places) & ended, other=0)
    tl.store(new_squares + b * places + every, tl.where(ended, fresh, kept), mask=every < places)

    # the view: 49 squares, column by column
    lane = tl.arange(0, 64)
    column = lane // 7
    row = lane % 7
    inside = lane < 49
    seen_at = at + tl.load(offsets + facing * 49 + lane, mask=inside, other=0)
    kept = tl.load(squares + seen_at, mask=inside & ~ended, other=0).to(tl.int64)
    kept = tl.where(seen_at == front, new_ahead, kept)
    fresh = tl.load(level_squares + seen_at, mask=inside & ended, other=0).to(tl.int64)
    code = tl.where(ended, fresh, kept)
    if OCCLUDED:
        clear = tl.load(transparent + code, mask=inside, other=0)
        seen = at * 0 + 8  # the agent's square, as a bit
        for back in tl.static_range(7):
            bits = tl.sum(tl.where(inside & (row == 6 - back), clear << column, 0), 0)
            result = tl.load(row_results + ((seen << 7) | bits))
            visible = ((result >> 7) >> column) & 1
            code = tl.where((row == 6 - back) & (visible == 0), 0, code)
            seen = result & 127
    code = tl.where(lane == 27, held, code)
    for part in tl.static_range(3):
        value = tl.load(triples + code * 3 + part, mask=inside, other=0)
        tl.store(observations + (b * 49 + lane) * 3 + part, value, mask=inside)
