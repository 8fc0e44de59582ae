"""Trials of gymnasium environments: ground truth or rewards as targets, conditions, epochs and refusals."""

import json

import numpy as np
import pytest
import torch

from mnemoscope.cli import main
from mnemoscope.tasks.cognitive.environment import EnvironmentTask
from mnemoscope.training import load_model

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces


class Cue(gymnasium.Env):
    """Shows a cue, waits, and rewards the action of that number at the end."""

    observation_space = spaces.Box(0, 1, (3,))
    action_space = spaces.Discrete(3)
    truth = False
    pays = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.wait, self.now = int(self.np_random.integers(3)), int(self.np_random.integers(1, 4)), 0
        return np.eye(3, dtype=np.float32)[self.cue], {"cue": self.cue, "side": "abc"[self.cue], "other": [1]}

    def step(self, action):
        self.now += 1
        due = self.now == self.wait + 2
        reward = self.pays * float(action == self.cue) if due else 0.0
        info = {"gt": self.cue if due else 0} if self.truth else {}
        return np.zeros(3, np.float32), reward, due, False, info


class TrialBased(Cue):
    """Builds whole trials as environments of neurogym do."""

    def __init__(self, dt=50):
        self.dt = dt

    def seed(self, seed):
        self.random = np.random.default_rng(seed)

    def new_trial(self):
        cue, delay = int(self.random.integers(1, 3)), int(self.random.integers(2, 5))
        self.ob, self.gt = np.zeros((delay + 2, 3), np.float32), np.zeros(delay + 2, int)
        self.ob[0, cue] = self.random.uniform(0.5, 1)
        self.gt[-1] = cue
        self.start_ind = {"cue": 0, "delay": 1, "decision": delay + 1}
        self.end_ind = {"cue": 1, "delay": delay + 1, "decision": delay + 2}
        return {"ground_truth": cue}


CUED_TRIALS = "MnemoscopeCuedTrials-v0"
gymnasium.register(CUED_TRIALS, entry_point=TrialBased)


class Endless(Cue):
    """Never ends."""

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, False, {}


class Uncopied(Cue):
    """Refuses to be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("no copies")


class Continuous(TrialBased):
    """Has vectors as actions."""

    action_space = spaces.Box(-1, 1, (2,))

    def new_trial(self):
        trial = super().new_trial()
        self.gt = np.stack([self.gt, -self.gt], 1) / 2.0
        return trial


class Numbered(Cue):
    """Has the observations 5, 6, 7 and 8."""

    observation_space = spaces.Discrete(4, start=5)

    def reset(self, *, seed=None, options=None):
        return 5 + int(super().reset(seed=seed)[0].argmax()), {}

    def step(self, action):
        return 8, *super().step(action)[1:]


class Shifted(Cue):
    """Has the actions 1, 2 and 3."""

    action_space = spaces.Discrete(3, start=1)

    def step(self, action):
        *rest, info = super().step(action - 1)
        return *rest, {name: truth + 1 for name, truth in info.items()}


def test_actions_may_begin_at_any_number():
    environment = Shifted()
    for environment.truth in (False, True):
        trials = EnvironmentTask(environment).trials(6, seed=0, number=0)
        last = trials.batch.targets[trials.lengths - 1, torch.arange(6)]
        assert torch.equal(last.double(), trials.table["cue"].values)


def test_rewards_decide_which_action_is_right_and_only_where_they_differ():
    task = EnvironmentTask(Cue())
    trials = task.trials(20, seed=0, number=0)
    batch, cue = trials.batch, trials.table["cue"].values
    assert (task.input_size, task.output_size) == (3, 3)
    last = trials.lengths - 1
    assert torch.equal(batch.mask.sum(0), torch.ones(20, dtype=torch.long))
    assert batch.mask[last, torch.arange(20)].all()
    assert torch.equal(batch.targets[last, torch.arange(20)].double(), cue)
    assert torch.equal(batch.inputs[0].argmax(1).double(), cue)
    assert trials.table["side"].labels == ("a", "b", "c")
    assert trials.table.names == ("cue", "side")
    assert all(torch.equal(a, b) for a, b in zip(batch, task.batch(20, seed=0, number=0), strict=True))
    assert torch.equal(task.recalled(batch), batch.mask)


def test_ground_truth_in_the_info_counts_at_every_step():
    class WithGroundTruth(Cue):
        truth = True

    batch = EnvironmentTask(WithGroundTruth()).batch(5, seed=0, number=0)
    assert int(batch.mask.sum()) > 5


def test_trials_with_ground_truth_have_conditions_epochs_and_a_step():
    task = EnvironmentTask(TrialBased())
    trials = task.trials(30, seed=0, number=3)
    again = task.trials(30, seed=0, number=3)
    assert torch.equal(trials.batch.inputs, again.batch.inputs)
    assert trials.table.step == 50
    assert [epoch.name for epoch in trials.table.epochs] == ["cue", "delay", "decision", "whole trial"]
    decision = trials.table.epoch("decision").starts
    truth = trials.table["ground_truth"].values
    assert torch.equal(trials.batch.targets[decision, torch.arange(30)].double(), truth)
    assert trials.table.epoch("delay").lengths.unique().tolist() == [2, 3, 4]
    perfect = torch.nn.functional.one_hot(trials.batch.targets, 3).float()
    assert task.scores(perfect, trials.batch) == {"accuracy": 1.0}
    assert task.loss(100 * perfect, trials.batch).item() == pytest.approx(0, abs=1e-6)
    assert 0 < task.baseline() < np.log(3)


def test_vectors_become_values_and_numbers_become_one_hot():
    task = EnvironmentTask(Continuous())
    batch = task.batch(6, seed=0, number=0)
    assert batch.targets.shape[2] == task.output_size == 2
    assert task.scores(batch.targets, batch)["accuracy"] == 1
    assert task.scores(batch.targets + 0.2, batch)["accuracy"] == 0
    assert 0 < task.baseline() < 1
    numbered = EnvironmentTask(Numbered()).batch(4, seed=0, number=0)
    assert torch.equal(numbered.inputs[:2].sum(2), torch.ones(2, 4))
    assert (numbered.inputs[1, :, 3] == 1).all()


def test_an_environment_is_named_by_its_id_and_takes_arguments():
    assert EnvironmentTask(CUED_TRIALS).batch(2, seed=0, number=0).inputs.shape[1:] == (2, 3)
    assert EnvironmentTask(CUED_TRIALS, arguments='{"dt": 20}').trials(2, seed=0, number=0).table.step == 20
    for wrong in ("dt=20", "[20]"):
        with pytest.raises(ValueError, match="arguments must be a JSON object"):
            EnvironmentTask(CUED_TRIALS, arguments=wrong)


def test_an_environment_is_trained_by_its_name_on_the_command_line(tmp_path, capsys):
    words = ["train", "--task", "environment", "--hidden-size", "4", "--steps", "2", "--batch-size", "2", "--json"]
    words += ["--evaluate-batches", "1", "--root", str(tmp_path), "--task-options"]
    assert main([*words, "environment", CUED_TRIALS, "arguments", '{"dt": 20}']) == 0
    folder = json.loads(capsys.readouterr().out)["folder"]
    assert load_model(folder)[1] == EnvironmentTask(CUED_TRIALS, arguments='{"dt": 20}')
    assert main([*words, "longest", "5"]) == 2
    assert "needs the option 'environment'" in capsys.readouterr().err


def test_environments_without_right_actions_are_refused():
    class Free(Cue):
        pays = 0.0

    class Boxed(Cue):
        action_space = spaces.Box(-1, 1, (2,))

    class Texts(Cue):
        observation_space = spaces.Text(3)

    class NoTruth(TrialBased):
        def new_trial(self):
            return {}

    for environment, why in (
        (Free(), r"No action is right at any step .* Add gt to its info"),
        (Endless(), "did not end within longest = 20 steps"),
        (Uncopied(), r"copying it failed \(no copies\)"),
        (NoTruth(), "offers no right actions"),
    ):
        with pytest.raises(ValueError, match=why):
            EnvironmentTask(environment, longest=20).batch(1, seed=0, number=0)
    with pytest.raises(ValueError, match=r"A trial has .* steps, more than longest = 2"):
        EnvironmentTask(TrialBased(), longest=2).batch(1, seed=0, number=0)
    with pytest.raises(ValueError, match="right action must be one of a number of choices"):
        EnvironmentTask(Boxed())
    with pytest.raises(ValueError, match="Observations must be arrays or whole numbers"):
        EnvironmentTask(Texts())
