"""The mechanism of a network's memory: fixed points, slow manifold, transitions, variables, attention or tape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import isfinite

import torch

from mnemoscope.arena.card.answers import Answer, Entry, Line, not_applicable, not_decided
from mnemoscope.arena.card.subject import NO_STATE, Subject
from mnemoscope.base.plurals import pluralise
from mnemoscope.inspection.cost import HOW_TO_MEASURE
from mnemoscope.inspection.duration import Duration
from mnemoscope.inspection.mechanism import Mechanism, inspect_mechanism
from mnemoscope.inspection.network import why_not_searched
from mnemoscope.inspection.on_task import constant_dynamics, visited_states
from mnemoscope.inspection.page import describe_constant
from mnemoscope.inspection.transitions import TITLE as TRANSITIONS_TITLE
from mnemoscope.inspection.trials import contexts_of
from mnemoscope.inspection.variables import inspect_variables
from mnemoscope.lenses import FixedPoints, LayerTransitions, Transitions, Variables, record_attention, record_tape
from mnemoscope.lenses.dynamics import Dynamics
from mnemoscope.lenses.transition_operators.actions import ACTIONS
from mnemoscope.memory.attention import Attentive, SparseBacktracking
from mnemoscope.memory.tape import TuringMachine

POINTS, MANIFOLD, OPERATORS = "fixed points", "slow manifold", "what a step does"
VARIABLES, CONSULTED = "variables", "attention or tape"
NAMES = (POINTS, MANIFOLD, OPERATORS, VARIABLES, CONSULTED)
OPERATOR_LINE = "operators of steps"
"""Name of the eigenvalues of operators in the panel."""
MOST_EIGENVALUES = 1500
"""Largest number of eigenvalues of one kind that a card keeps."""
RECORDED = 4
"""Test sequences whose attention is recorded."""


@dataclass(frozen=True)
class Rest:
    """Where a network rests at a constant input, or why that is not searched for."""

    dynamics: Dynamics | None = None
    mechanism: Mechanism | None = None
    context: str = ""
    """Name of the constant input."""
    reason: str = ""

    @property
    def points(self) -> tuple[Dynamics, FixedPoints] | None:
        """The system and its fixed points, if they were searched for."""
        if self.dynamics is None or self.mechanism is None or self.mechanism.fixed_points is None:
            return None
        return self.dynamics, self.mechanism.fixed_points


def find_rest(subject: Subject) -> Rest:
    """Search for fixed points and a slow manifold as the page of a run does, in the first context of its task."""
    if subject.stateless:
        return Rest(reason=NO_STATE)
    if reason := why_not_searched(subject.cell, subject.options):
        return Rest(reason=reason)
    contexts = contexts_of(subject)
    name, dynamics = next(iter(contexts.items())) if contexts else ("constant input", constant_dynamics(subject))
    visited = visited_states(subject.model, dynamics, subject.batch.inputs)
    wanted = ("fixed-points", "slow-manifold").__contains__
    found = inspect_mechanism(subject.cell, {name: dynamics}, visited, subject.options, wanted=wanted)
    where = f"in the context {name!r}" if contexts else f"at the input {describe_constant(subject, dynamics)}"
    return Rest(dynamics, found, where)


def by_which_mechanism(subject: Subject, found: Duration, rest: Rest) -> Answer:
    """Answer by every lens on mechanisms that applies."""
    if subject.stateless:
        return Answer("mechanism", tuple(not_applicable(name, NO_STATE) for name in NAMES))
    entries = (
        _fixed_points(rest),
        _slow_manifold(rest),
        _operators(found),
        _variables(subject),
        _consulted(subject),
    )
    lenses = {POINTS: "fixed-points", MANIFOLD: "slow-manifold", OPERATORS: "transitions", VARIABLES: "variables"}
    lenses[CONSULTED] = "tape" if isinstance(subject.cell, TuringMachine) else "attention"
    used = tuple(lenses[entry.name] for entry in entries if entry.status == "measured")
    return Answer("mechanism", entries, (*_eigenvalues(rest), *_operator_eigenvalues(found.transitions)), used)


def _fixed_points(rest: Rest) -> Entry:
    if rest.points is None:
        return _without_rest(POINTS, rest)
    fp = rest.points[1]
    counts = Counter(fp.kind)
    kinds = ", ".join(
        f"{number} {kind}{'s' if kind == 'saddle' and number > 1 else ''}" for kind, number in counts.most_common()
    )
    agrees = fp.doubt or "no sign of a missing point"
    complete = {True: agrees, False: "points are missing", None: "completeness unknown"}
    note = f"{f'of which {kinds}; ' if kinds else ''}{rest.context}; {complete[fp.may_be_complete]}"
    return Entry(POINTS, len(fp), bound="" if fp.may_be_complete and not fp.doubt else "at least", note=note)


def _without_rest(name: str, rest: Rest) -> Entry:
    """Return the reason: not decided if the search takes long, otherwise a fact about the network."""
    return (not_decided if HOW_TO_MEASURE in rest.reason else not_applicable)(name, rest.reason)


def _slow_manifold(rest: Rest) -> Entry:
    if rest.mechanism is None:
        return _without_rest(MANIFOLD, rest)
    manifold = rest.mechanism.settling
    if manifold:
        lasts = isfinite(manifold.lifetime)
        when = f"after about {manifold.lifetime:.2g} steps" if lasts else "never"
        if manifold.topologies[0] == "undecided":
            doubt = f": {manifold.doubts[0]}" if manifold.doubts[0] else ""
            return not_decided(MANIFOLD, f"Its shape is undecided{doubt}. Its drift alone loses a value {when}.")
        return Entry(MANIFOLD, note=f"{manifold.topologies[0]}; its drift alone loses a value {when}")
    if manifold is not None:
        return Entry(MANIFOLD, note=f"none: {manifold.reason}")
    texts = [section.lead for section in rest.mechanism.sections if section.title == "Slow manifold"]
    if texts:
        return not_decided(MANIFOLD, texts[0])
    return Entry(MANIFOLD, note="none on which most states settle")


def _operators(found: Duration) -> Entry:
    if found.transitions is None:
        if (reason := found.reasons.get(TRANSITIONS_TITLE)) is not None:
            return not_decided(OPERATORS, reason)
        return not_applicable(OPERATORS, "No layer is affine in its state.")
    layer = found.transitions.layers[-1]
    where = f"{layer.name} of {pluralise(len(found.transitions), 'layer')}: " if len(found.transitions) > 1 else ""
    return Entry(OPERATORS, note=f"{where}{_shares(layer)}")


def _shares(layer: LayerTransitions) -> str:
    shares = {name: layer.mean_share(name) for name in (*ACTIONS, "write")}
    listed = [f"{name} {share.text()}" for name, share in shares.items() if float(share.mean) >= 0.005]
    return ", ".join(listed) + " of steps"


def _variables(subject: Subject) -> Entry:
    found = inspect_variables(subject.model, subject.task, subject.batch)
    if found is None:
        return not_applicable(VARIABLES, "The task binds no variables.")
    if isinstance(found, str):
        return not_decided(VARIABLES, found)
    return _found_variables(found)


def _found_variables(found: Variables) -> Entry:
    if found.structure is None:
        return not_decided(VARIABLES, found.reason)
    verdict = {
        "refuted": "but they do not explain its behaviour",
        "untested": "which were not tested",
        "explained": "which explain its behaviour",
    }[found.status]
    return Entry(VARIABLES, found.variables, note=f"of {pluralise(found.size, 'element')}, {verdict}")


def _consulted(subject: Subject) -> Entry:
    cell = subject.cell
    inputs = subject.model.encode(subject.batch.inputs[:, :RECORDED]).detach()
    if isinstance(cell, TuringMachine):
        return Entry(CONSULTED, note=record_tape(cell, inputs).summary())
    if isinstance(cell, Attentive):
        if isinstance(cell.past, SparseBacktracking):
            return not_decided(CONSULTED, "The attention of sparse attentive backtracking is not recorded.")
        attention = record_attention(cell, inputs)
        age = float(attention.age.nanmean())
        kept = float(attention.kept.sum(1).double().mean())
        return Entry(CONSULTED, age, "steps", note=f"mean age of attended states; {kept:.1f} states kept on average")
    if cell.grows:
        return not_decided(CONSULTED, "The attention of these layers is not recorded.")
    return not_applicable(CONSULTED, "The network has neither.")


def _eigenvalues(rest: Rest) -> list[Line]:
    if rest.points is None:
        return []
    fp = rest.points[1]
    lines = []
    for kind in dict.fromkeys(fp.kind):
        chosen = torch.tensor([each == kind for each in fp.kind])
        lines.append(_plane(f"{kind} point", fp.eigenvalues[chosen].flatten()))
    return lines


def _operator_eigenvalues(transitions: Transitions | None) -> list[Line]:
    if transitions is None:
        return []
    values = transitions.layers[-1].eigenvalues.flatten()
    return [_plane(OPERATOR_LINE, values[~values.isnan()])]


def _plane(name: str, values: torch.Tensor) -> Line:
    """Return eigenvalues as points of the complex plane; of many, every n-th."""
    values = values.to(torch.complex128)[:: max(1, len(values) // MOST_EIGENVALUES)]
    return Line(name, tuple(values.real.tolist()), tuple(values.imag.tolist()))
