"""The study of selection by context: its verdicts hold for a network that is built to select, and fail for another."""

import pytest
import torch

import mnemoscope as ms
from mnemoscope.replication import Verdict
from mnemoscope.replication.study import Finished, Trial
from mnemoscope.studies.mante2013.linearisation import CROSSED, EVERY, dynamics_of, minimise_speed, record_grid
from mnemoscope.studies.mante2013.selection import STUDY, _cosine, _mean, _measured, analyse
from mnemoscope.tasks import ContextDecision
from tests.slow import representatives

TASK = ContextDecision(step=50.0, coherences="0.1 0.3")


def network(selects):
    """Hold x on a slow line; inputs move y and z alike in both contexts, and the context decides which drives x."""

    def step(u, h):
        x, y, z = h.unbind(1)
        motion, colour, by_motion, by_colour = u.unbind(1)
        carried = by_motion * y + by_colour * z if selects else y + z
        value = x + 0.002 * (x - x**3) + 0.2 * carried
        return torch.stack([value, 0.5 * y + 0.3 * motion, 0.5 * z + 0.3 * colour], 1)

    return ms.Model(ms.adapt(step, state_size=3, input_size=4, bounds=(-2, 2)), 1)


def verdicts(result):
    """Return the verdicts on two networks with these measurements; one alone decides nothing."""
    trials = STUDY.trials(STUDY.presets["cpu"].settings, (0, 1))[:2]
    rows = STUDY.summarise([Finished(trial, {"accuracy": 1.0, **result}) for trial in trials])
    return {row.claim.quantity: row.verdict for row in rows if row.claim is not None}


@representatives("True")
@pytest.mark.parametrize("selects", [True, False])
def test_verdicts_match_for_a_network_that_selects_and_fail_for_one_that_does_not(selects):
    result = analyse(network(selects), TASK, picture=selects)
    found = verdicts(result)
    assert found["slow points with one slow mode"] is Verdict.MATCHES
    assert found["line of slow points"] is Verdict.MATCHES
    assert found["lines of both contexts parallel"] is Verdict.MATCHES
    # the left eigenvector of x has the parts 1 and 0.2 / (1 - 0.5) of y and of z, or of the one that is let through
    kept = [each["kept"] for each in result["contexts"].values()]
    assert (min(kept) == 1e4) if selects else kept == pytest.approx([1.0, 1.0], rel=1e-3)
    expected = Verdict.MATCHES if selects else Verdict.DIFFERS
    assert found["relevant over irrelevant input, kept"] is expected
    assert found["irrelevant evidence left after the stimulus"] is expected
    assert STUDY.figure([Finished(Trial("x", {}, 0), result)]) is not None


def test_the_descent_ends_at_slow_points_of_the_line_where_the_states_were():
    model = network(selects=True)
    recording = record_grid(model, TASK)
    dynamics = dynamics_of(model, TASK, 0)
    part = recording.part(recording.table["context"].values == 0)
    steps = TASK.steps_of(TASK.stimulus)
    shown = part.in_epoch("stimulus").activity
    starts = shown[::EVERY].flatten(0, 1).double()
    limit = CROSSED * torch.cdist(shown[-1].double(), shown[-1].double()).max() / steps
    points = minimise_speed(dynamics, part, steps)
    assert len(points) == len(starts)
    assert bool(((dynamics(points) - points).norm(dim=1) <= limit).all())
    assert bool(((dynamics(starts) - starts).norm(dim=1) > limit).any())  # some starts are not slow yet
    # y carries evidence into x, so that states with y move until they have lost it: to x up to 0.4 |y| away
    assert bool(((points - starts)[:, 0].abs() <= 0.4 * starts[:, 1].abs() + 1e-9).all())


def test_a_network_without_a_line_fails():
    forgets = ms.Model(ms.adapt(lambda u, h: 0.5 * h + u[:, :2], state_size=2, input_size=4, bounds=(-4, 4)), 1)
    found = verdicts(analyse(forgets, TASK))
    assert found["line of slow points"] is Verdict.DIFFERS
    assert found["slowest time constant over the stimulus"] is Verdict.DIFFERS


@pytest.mark.parametrize("cosines", [(0.9, None), (None, 0.9)])
def test_a_number_is_unknown_if_that_of_one_context_is(cosines):
    result = {"contexts": {name: {"cosine with choice": each} for name, each in zip("ab", cosines, strict=True)}}
    assert _measured("line along the choice axis", result) != _measured("line along the choice axis", result)  # NaN
    rotating, known = torch.full((3, 2), torch.nan), torch.ones(3, 2)
    assert _cosine(_mean(rotating), _mean(known)) is None
    assert _cosine(_mean(known), _mean(known)) == pytest.approx(1)
    assert _measured("lines of both contexts parallel", {"contexts": {}, "parallel": None}) != 1
