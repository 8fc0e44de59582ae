"""The first answer of a card: skill on the task, and mean skill in an arena, each against the size of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import Subject
from mnemoscope.arena.definition import Entrant
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.plurals import pluralise

NO_ARENA = "No results of an arena were given; pass --arena FILE, or arena=ArenaTable.load(FILE)."
ON_TASK, IN_ARENA = "skill on its task", "skill in the arena"
"""Names of the entries that the two panels show: of this trained network on one task, and of means over an arena's."""
NETWORKS, PLACE = "networks of the arena", "this network in the arena"
"""Names of the points of the second panel; the point of the first has the name of its entry."""


def what_it_remembers(subject: Subject, arena: ArenaTable | None) -> Answer:
    """Answer by the accuracy on the task, and by the scores in the arena."""
    accuracy = subject.accuracy
    interval = f"95% over {subject.batch.mask.shape[1]} sequences"
    skill = _skill(subject, interval)
    entries = [
        Entry("accuracy on its task", accuracy.mean, "%", accuracy.low, accuracy.high, interval),
        _without_memory(subject),
        skill,
        *_losses(subject),
    ]
    placed, points = _in_arena(subject, arena)
    return Answer("remembered", (*entries, *placed), (*_own_point(subject, skill), *points), ("behaviour",))


def _without_memory(subject: Subject) -> Entry:
    name = "accuracy without memory"
    if subject.chance is None:
        return not_applicable(name, "The task states none: its answers are values, or it is not known.")
    return Entry(name, subject.chance, "%", note="of the best predictor")


def _losses(subject: Subject) -> list[Entry]:
    if subject.result is None:
        return [not_decided("loss after training", "The network was passed without its run.")]
    loss, baseline = subject.result.loss, subject.result.baseline
    verdict = "" if loss < baseline else "not below it"
    return [
        Entry("loss after training", loss),
        Entry(f"loss {subject.task.baseline_label}", baseline, note=f"the network is {verdict}" if verdict else ""),
    ]


def _skill(subject: Subject, interval: str) -> Entry:
    """Return the accuracy on the task on the scale on which chance is 0 and no error is 1."""
    chance = subject.chance
    if chance is None:
        return not_applicable(ON_TASK, "The task states no accuracy without memory.")
    if chance == 1:
        return not_applicable(ON_TASK, "A network without memory makes no error.")
    value, low, high = ((each - chance) / (1 - chance) for each in subject.accuracy)
    return Entry(ON_TASK, value, "", low, high, interval, note="chance is 0, no error is 1")


def _own_point(subject: Subject, skill: Entry) -> list[Line]:
    """Return state size and skill of the network on its task; nothing without a state or a skill."""
    if subject.stateless or skill.value is None or skill.low is None or skill.high is None:
        return []
    return [Line.known(ON_TASK, [subject.state_size], [skill.value], [skill.low], [skill.high])]


def _in_arena(subject: Subject, arena: ArenaTable | None) -> tuple[list[Entry], list[Line]]:
    """Return the scores of the architecture in an arena, and the points of the networks that have run all its tasks."""
    if arena is None:
        return [not_decided(IN_ARENA, NO_ARENA)], []
    points, title = arena.points(), repr(arena.arena.name)
    networks = [_points(NETWORKS, points)] if points else []
    entrant = _entrant(subject, arena)
    if entrant is None:
        known = ", ".join(arena.networks)
        return [not_applicable(IN_ARENA, f"The arena {title} has no such network; it has {known}.")], networks
    skill, tasks = arena.mean_skill(entrant.name)
    if skill is None:
        return [not_decided(IN_ARENA, f"{entrant.name} has no finished run in the arena {title}.")], networks
    low, high = arena.mean_interval(entrant.name) or (None, None)
    kind = f"95% over {pluralise(len(arena.arena.seeds), 'seed')} of each task" if low is not None else ""
    mean = f"{entrant.name}, mean over {pluralise(tasks, 'task')}; chance is 0, no error is 1"
    complete = [each for each in arena.ranking() if each in points]  # means over different tasks have no common order
    if _network_of_run(subject, arena) is None:
        note = f"not of this run: of {mean}, of the size and by the recipe of the arena"
    elif entrant.name in complete:
        undecided = [complete.index(name) + 1 for name in arena.undecided(entrant.name) if name in complete]
        ranks = f", not decided against rank {', '.join(map(str, undecided))}" if undecided else ""
        note = f"rank {complete.index(entrant.name) + 1} of {len(complete)}{ranks}, as {mean}"
        networks.append(_points(PLACE, {entrant.name: points[entrant.name]}))
    else:
        note = f"no rank as {mean}; others have run more tasks"
    return [Entry(IN_ARENA, skill, "", low, high, kind, note=note), *_by_task(entrant, arena)], networks


def _network_of_run(subject: Subject, arena: ArenaTable) -> str | None:
    """Return the network of the arena's run that the card is about; None if the arena did not train it."""
    networks = {run.hash: run.network for run in arena.runs}
    return None if subject.config is None else networks.get(subject.config.hash)


def _points(name: str, points: Mapping[str, tuple[float, float]]) -> Line:
    states, skills = zip(*points.values(), strict=True)
    return Line(name, tuple(map(float, states)), tuple(map(float, skills)), labels=tuple(points))


def _by_task(entrant: Entrant, arena: ArenaTable) -> Iterator[Entry]:
    """Yield the accuracy of an architecture on each task of an arena."""
    for task in arena.tasks:
        cell = arena.cell(entrant.name, task)
        if cell.accuracy is not None:
            low, high = cell.interval or (None, None)
            kind = f"95% over {len(cell.accuracies)} seeds" if cell.interval else ""
            yield Entry(f"arena: accuracy of {entrant.name} on {task}", cell.accuracy, "%", low, high, kind)


def _entrant(subject: Subject, arena: ArenaTable) -> Entrant | None:
    """Return the network of the arena that the run belongs to, or else that has its cell and options."""
    if subject.config is None:
        return None
    if (name := _network_of_run(subject, arena)) is not None:
        return arena.arena.network(name)
    same = [
        each
        for each in arena.arena.networks
        if each.cell == subject.config.cell and each.cell_options == subject.config.cell_options
    ]
    return same[0] if len(same) == 1 else None
