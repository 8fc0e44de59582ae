"""The first answer of a card: accuracy on the task, and place in the arena, against the size of the state."""

from __future__ import annotations

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import Subject
from mnemoscope.arena.definition import Entrant
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.plurals import pluralise

NO_ARENA = "No results of an arena were given; pass --arena FILE, or arena=ArenaTable.load(FILE)."
OWN, OTHERS = "this network", "arena"
"""Names of the points of the panel."""


def what_it_remembers(subject: Subject, arena: ArenaTable | None) -> Answer:
    """Answer by the accuracy on the task, and by the scores in the arena."""
    accuracy = subject.accuracy
    entries = [
        Entry(
            "accuracy on its task", accuracy.mean, "%", accuracy.low, accuracy.high,
            f"95% over {subject.batch.mask.shape[1]} sequences",
        ),
        _without_memory(subject),
        *_losses(subject),
    ]  # fmt: skip
    placed, others = _in_arena(subject, arena)
    own = _own_point(subject)
    lines = tuple(line for line in (others, own) if line is not None)
    return Answer("remembered", (*entries, *placed), lines, ("behaviour",))


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


def _own_point(subject: Subject) -> Line | None:
    """Return state size and skill of the network on its task; None without a state or a known chance."""
    chance = subject.chance
    if subject.stateless or chance is None or chance == 1:
        return None
    skill, low, high = ((value - chance) / (1 - chance) for value in subject.accuracy)
    return Line.known(OWN, [subject.state_size], [skill], [low], [high])


def _in_arena(subject: Subject, arena: ArenaTable | None) -> tuple[list[Entry], Line | None]:
    """Return the scores of the architecture in an arena, and the points of all networks."""
    name = "skill in the arena"
    if arena is None:
        return [not_applicable(name, NO_ARENA)], None
    points = arena.points()
    others = Line(
        OTHERS,
        tuple(float(state) for state, _ in points.values()),
        tuple(float(skill) for _, skill in points.values()),
        labels=tuple(points),
    )
    entrant = _entrant(subject, arena)
    if entrant is None:
        known = ", ".join(arena.networks)
        return [not_applicable(name, f"The arena {arena.arena.name!r} has no such network; it has {known}.")], others
    skill, tasks = arena.mean_skill(entrant.name)
    if skill is None:
        return [not_decided(name, f"{entrant.name} has no finished run in the arena {arena.arena.name!r}.")], others
    mean = f"{entrant.name}, mean over {pluralise(tasks, 'task')}; chance is 0, no error is 1"
    complete = [each for each in arena.ranking() if each in points]  # means over different tasks have no common order
    if entrant.name in complete:
        ranked = f"rank {complete.index(entrant.name) + 1} of {len(complete)} as {mean}"
    else:
        ranked = f"no rank as {mean}; others have run more tasks"
    entries = [Entry(name, skill, note=ranked)]
    for task in arena.tasks:
        cell = arena.cell(entrant.name, task)
        if cell.accuracy is not None:
            low, high = cell.interval or (None, None)
            kind = f"95% over {len(cell.accuracies)} seeds" if cell.interval else ""
            entries.append(Entry(f"arena: accuracy on {task}", cell.accuracy, "%", low, high, kind))
    return entries, others


def _entrant(subject: Subject, arena: ArenaTable) -> Entrant | None:
    """Return the network of the arena that the run belongs to, or else that has its cell and options."""
    if subject.config is None:
        return None
    by_hash = {run.hash: run.network for run in arena.runs}
    if (name := by_hash.get(subject.config.hash)) is not None:
        return arena.arena.network(name)
    same = [
        each
        for each in arena.arena.networks
        if each.cell == subject.config.cell and each.cell_options == subject.config.cell_options
    ]
    return same[0] if len(same) == 1 else None
