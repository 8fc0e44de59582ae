"""MiniGrid's rooms as tensors against MiniGrid itself."""

import json
from itertools import product

import gymnasium
import numpy as np
import pytest
import torch

from mnemoscope.cells.state import leaves
from mnemoscope.studies.kerg2022.guessing import largest_share
from mnemoscope.studies.kerg2022.minigrid import ROOMS
from mnemoscope.training.reinforcement import (
    PPO,
    BatchedRoom,
    Environments,
    GridRooms,
    build_grid_agent,
    minigrid,
    play_episodes,
    train_agent,
)
from mnemoscope.training.reinforcement.grid import DrawnRooms, draw_levels, generate_levels
from mnemoscope.training.reinforcement.grid.codes import EMPTY, code, tables
from mnemoscope.training.reinforcement.grid.rules import DONE, DROP, FORWARD, PICK_UP, TOGGLE
from mnemoscope.training.reinforcement.grid.stepping import step_by_operations
from mnemoscope.training.reinforcement.grid.view import visible
from tests.slow import slow

pytest.importorskip("minigrid", reason="needs mnemoscope[rl]")

PLACES = [place for pair in ROOMS.values() for place in pair]
UNREACHED = {"DoorKey-16x16"}
"""Rooms in which the random actions of a test do not reach the goal."""


def useful_actions(observations, generator):
    """Return random actions, most of which walk or use the object in front of the agent."""
    ahead, number = observations[:, 3, 5, 0].long(), len(observations)
    random = torch.randint(7, (number,), generator=generator)
    uses = torch.tensor([PICK_UP, DROP, TOGGLE, DONE])[random % 4]
    walks = torch.where(torch.rand(number, generator=generator) < 0.6, FORWARD, random % 2)
    chosen = torch.where((ahead >= 4) & (torch.rand(number, generator=generator) < 0.5), uses, walks)
    return torch.where(torch.rand(number, generator=generator) < 0.15, random, chosen)


@pytest.mark.parametrize(("place", "steps"), [*((place, 40) for place in PLACES), *slow(*((p, 700) for p in PLACES))])
def test_rooms_repeat_minigrid(place, steps):
    """Observations, rewards and ends are equal while the pool lasts."""
    expected, found = Environments(minigrid(place), 4, seed=3), BatchedRoom(place, steps).environments(4, seed=3)
    generator, rewarded = torch.Generator().manual_seed(1), 0
    for _ in range(steps):
        assert torch.equal(found.observations, expected.observations)
        assert torch.equal(found.started, expected.started)
        actions = useful_actions(expected.observations, generator)
        outcomes = found.step(actions), expected.step(actions)
        assert torch.equal(outcomes[0].rewards, outcomes[1].rewards)
        assert torch.equal(outcomes[0].ended, outcomes[1].ended)
        rewarded += int((outcomes[0].rewards > 0).sum())
    assert rewarded or steps < 700 or place in UNREACHED


class EarlierGoToObject(gymnasium.Wrapper):
    """GoToObject with the rule of gym-minigrid 1.0: "done" succeeds on the nine squares around the target."""

    def step(self, action):
        observation, reward, terminated, truncated, extra = self.env.step(action)
        room = self.env.unwrapped
        if action == DONE:
            near = all(abs(a - b) <= 1 for a, b in zip(room.agent_pos, room.target_pos, strict=True))
            reward = 1 - 0.9 * room.step_count / room.max_steps if near else 0
        return observation, reward, terminated, truncated, extra


@pytest.mark.parametrize("place", ["GoToObject-6x6-N2", "GoToDoor-5x5"])
def test_rooms_repeat_the_rules_of_an_earlier_release(place):
    from minigrid.wrappers import ImgObsWrapper

    def make():
        if place == "GoToObject-6x6-N2":
            return EarlierGoToObject(minigrid(place)())
        return ImgObsWrapper(gymnasium.make(f"MiniGrid-{place}-v0", disable_env_checker=True, max_steps=5 * 5**2))

    rooms = [BatchedRoom(place, 160, release) for release in ("gym-minigrid 1", "minigrid 3")]
    expected, found, present = Environments(make, 4), *(room.environments(4) for room in rooms)
    generator, differences = torch.Generator().manual_seed(0), 0
    for _ in range(40):
        assert torch.equal(found.observations, expected.observations)
        actions = useful_actions(expected.observations, generator)
        outcomes = [each.step(actions) for each in (found, expected, present)]
        assert torch.equal(outcomes[0].rewards, outcomes[1].rewards)
        assert torch.equal(outcomes[0].ended, outcomes[1].ended)
        differences += int((outcomes[0].rewards != outcomes[2].rewards).sum())
    assert differences


@pytest.mark.parametrize("place", [*PLACES[::2], *slow(*PLACES[1::2], "MemoryS13Random")])
def test_drawn_levels_have_the_distribution_of_minigrids_generator(place):
    """No value occurs only in MiniGrid's levels, and frequencies differ by less than 5 standard errors."""
    torch.manual_seed(0)
    generated, drawn = generate_levels(place, range(250)), draw_levels(place, 4000)
    assert (drawn.width, drawn.rule, drawn.limit) == (generated.width, generated.rule, generated.limit)
    frequencies = []
    for levels in (generated, drawn):
        at_target = levels.squares.gather(1, levels.targets.clamp(max=levels.squares.shape[1] - 1))
        relative = levels.place.unsqueeze(1) - levels.targets
        columns = [levels.squares, levels.place, levels.direction, levels.targets, at_target, relative + 999]
        table = torch.cat([column.reshape(len(levels.place), -1).long() for column in columns], 1)
        assert int(table.min()) >= 0
        cases = table + 2000 * torch.arange(table.shape[1])  # a number for each property and value
        frequencies.append(cases.flatten().bincount(minlength=2000 * table.shape[1]) / len(table))
    pooled = (250 * frequencies[0] + 4000 * frequencies[1]) / 4250
    error = (pooled * (1 - pooled) * (1 / 250 + 1 / 4000)).sqrt()
    common = pooled > 5 / 250  # with fewer expected, the difference is not normally distributed
    assert int((common & (pooled < 1)).sum()) > 10
    assert ((frequencies[0] - frequencies[1]).abs() <= 5 * error)[common].all()
    assert (frequencies[1] > 0)[frequencies[0] >= 3 / 250].all()


@pytest.mark.parametrize(("place", "number"), [("DoorKey-5x5", 48), ("MemoryS7", 16), ("RedBlueDoors-6x6", 1024)])
def test_small_rooms_have_so_many_different_levels(place, number):
    """A training of 16,384 levels contains them all."""
    torch.manual_seed(0)
    drawn = draw_levels(place, 16_384)
    table = torch.cat([drawn.squares.long(), drawn.place.unsqueeze(1), drawn.direction.unsqueeze(1)], 1)
    assert len(table.unique(dim=0)) == number


@pytest.mark.parametrize("release", ["minigrid 3", "gym-minigrid 1"])
def test_the_best_guess_succeeds_in_the_computed_share_of_drawn_levels(release):
    """In GoToObject, it is made on the square that is near the most objects; in Fetch, it is the most frequent kind."""
    torch.manual_seed(0)
    squares = draw_levels("GoToObject-6x6-N2", 3000).squares.view(3000, 1, 18, 18)
    objects = ((squares >= code(5)) & (squares < code(8))).float()
    beside = torch.tensor([[[[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]]])
    around = beside if release == "minigrid 3" else torch.ones(1, 1, 3, 3)
    inside = torch.nn.functional.conv2d(objects, around, padding=1)[:, 0, 7:-7, 7:-7]
    most = inside.flatten(1).max(1).values / 2
    assert most.mean().item() == pytest.approx(float(largest_share("GoToObject-6x6-N2", release)), abs=0.02)
    squares = draw_levels("Fetch-8x8-N3", 3000).squares
    frequent = torch.stack([(squares == number).sum(1) for number in range(code(5), code(7))]).max(0).values / 3
    assert frequent.mean().item() == pytest.approx(float(largest_share("Fetch-8x8-N3", release)), abs=0.015)
    assert largest_share("MemoryS7", release) is None


def test_renewed_levels_replace_those_of_the_next_episodes():
    torch.manual_seed(0)
    rooms = DrawnRooms("GoToDoor-8x8", 3)
    before = rooms.observations
    rooms.renew(steps=4)
    assert torch.equal(rooms.observations, before)  # the present episodes continue
    firsts = []
    for _ in range(4):
        assert rooms.step(torch.full((3,), DONE)).ended.all()
        firsts.append(rooms.observations)
    assert len(torch.cat(firsts).flatten(1).unique(dim=0)) == 12


def test_squares_have_the_properties_of_minigrid():
    """Each object of the rooms can be entered, carried, seen through and toggled as in MiniGrid."""
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Key, WorldObj

    class Toggling:
        carrying, grid = None, Grid(3, 3)

    known = tables("cpu")
    assert (known.enterable[EMPTY], known.portable[EMPTY], known.transparent[EMPTY]) == (True, False, 1)
    for kind in range(2, 10):  # goals are green, lava is red, and only doors have a state
        colours, states = (
            {8: (1,), 9: (0,)}.get(kind, range(6)),
            range(3) if kind == 4 else (0,),
        )
        for colour, state in product(colours, states):
            number, each = code(kind, colour, state), WorldObj.decode(kind, colour, state)
            assert known.triples[number].tolist() == [kind, colour, state]
            properties = (each.can_overlap(), each.can_pickup(), each.see_behind())
            assert (known.enterable[number], known.portable[number], known.transparent[number]) == properties
            environment = Toggling()
            environment.grid.set(1, 1, each)
            each.toggle(environment, (1, 1))
            left = environment.grid.get(1, 1)
            assert known.toggled[number] == (EMPTY if left is None else code(*left.encode()))
            if known.locked[number]:
                environment.carrying = Key(each.color)
                each.toggle(environment, (1, 1))
                assert known.key[number] == code(*environment.carrying.encode())
                assert known.unlocked[number] == code(*each.encode())


def test_the_same_squares_are_hidden_as_in_minigrid():
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Wall

    generator = np.random.default_rng(0)
    walls = generator.random((60, 7, 7)) < generator.uniform(0.05, 0.6, (60, 1, 1))
    found = visible(torch.from_numpy(~walls).long())
    for blocked, seen in zip(walls, found, strict=True):
        grid = Grid(7, 7)
        for column, row in zip(*blocked.nonzero(), strict=True):
            grid.set(int(column), int(row), Wall())
        assert np.array_equal(seen, grid.process_vis((3, 6)))


def test_after_the_last_level_copies_begin_again():
    rooms = BatchedRoom("GoToDoor-5x5", 6).environments(3)
    first = rooms.observations
    for _ in range(2):
        assert rooms.step(torch.full((3,), DONE)).ended.all()
    assert torch.equal(rooms.observations, first)


def test_restore_continues_at_a_position():
    levels = generate_levels("DoorKey-5x5", range(8))
    first, second = GridRooms(levels, 4), GridRooms(levels, 4)
    generator = torch.Generator().manual_seed(0)
    for _ in range(9):
        first.step(useful_actions(first.observations, generator))
    second.restore(first.position())
    for _ in range(5):
        actions = useful_actions(first.observations, generator)
        outcomes = first.step(actions), second.step(actions)
        assert torch.equal(first.observations, second.observations)
        assert torch.equal(outcomes[0].rewards, outcomes[1].rewards)
    with pytest.raises(ValueError, match="A position of 4 copies does not suit 2 copies of this room"):
        GridRooms(levels, 2).restore(first.position())


def test_unsuitable_rooms_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"LavaGapEnv, whose rules are not .* train in minigrid\('LavaGapS5'\)"):
        generate_levels("LavaGapS5", range(1))
    with pytest.raises(ValueError, match="3 copies cannot share 4 levels; give a multiple of 3"):
        GridRooms(generate_levels("MemoryS7", range(4)), 3)
    with pytest.raises(ValueError, match="in one process, but processes is 2"):
        train_agent(build_grid_agent("lstm"), BatchedRoom("MemoryS7"), PPO(), tmp_path, processes=2)


def test_training_and_playing_in_tensors_equals_that_in_minigrid(tmp_path):
    ppo, agents = PPO(steps=72, environments=4, rollout=9, minibatches=2, epochs=1, seed=2), []
    for name, room in (("minigrid", minigrid("GoToDoor-5x5")), ("tensors", BatchedRoom("GoToDoor-5x5", 80))):
        agents.append(build_grid_agent("memlstm", hidden_size=6, features=8))
        train_agent(agents[-1], room, ppo, tmp_path / name, progress=False)
    lines = [(tmp_path / name / "metrics.jsonl").read_text() for name in ("minigrid", "tensors")]
    assert lines[0] == lines[1]
    assert json.loads(lines[0].splitlines()[-1])["episodes"] > 0
    played = [play_episodes(agents[0], room, 4) for room in (minigrid("GoToDoor-5x5"), BatchedRoom("GoToDoor-5x5"))]
    assert torch.equal(played[0].rewards, played[1].rewards)
    assert torch.equal(played[0].lengths, played[1].lengths)


@pytest.mark.parametrize(("place", "steps"), [("MemoryS7", 3), *slow(*((small, 30) for small, _ in ROOMS.values()))])
@pytest.mark.parametrize("release", ["minigrid 3", *slow("gym-minigrid 1")])
def test_the_kernel_of_a_step_equals_the_operations(place, steps, release):
    """On a GPU, or in Triton's interpreter."""
    pytest.importorskip("triton")
    from mnemoscope.training.reinforcement.grid import triton_step

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rooms = BatchedRoom(place, 4, release).environments(2, seed=1, device=device)
    generator = torch.Generator().manual_seed(2)
    if place == "DoorKey-5x5":
        rooms._levels = rooms._levels._replace(limit=9)
    for _ in range(steps):
        actions = useful_actions(rooms.observations.cpu(), generator).to(device)
        given = (rooms._levels, rooms._position, rooms._level, actions, 2)
        for found, expected in zip(leaves(triton_step.step(*given)), leaves(step_by_operations(*given)), strict=True):
            assert torch.equal(found, expected)
        rooms.step(actions)


@pytest.mark.parametrize("levels", [8, None])
def test_a_resumed_run_in_tensors_equals_an_uninterrupted_one(levels, tmp_path, monkeypatch):
    ppo, room = PPO(steps=108, environments=4, rollout=9, minibatches=2, epochs=1), BatchedRoom("GoToDoor-5x5", levels)
    whole, part = (build_grid_agent("rellstm", hidden_size=6, features=8, short_term=2, relevant=2) for _ in range(2))
    train_agent(whole, room, ppo, tmp_path / "whole", progress=False)
    improve, calls = PPO.improve, []

    def interrupted(self, *args):
        calls.append(0)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return improve(self, *args)

    monkeypatch.setattr(PPO, "improve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_agent(part, room, ppo, tmp_path / "part", progress=False, checkpoint_every=1)
    train_agent(part, room, ppo, tmp_path / "part", resume=True, progress=False)
    assert len(calls) == 4
    assert all(torch.equal(weight, part.state_dict()[name]) for name, weight in whole.state_dict().items())
