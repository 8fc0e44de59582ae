"""Inspect a trained run with every lens that applies: the work behind `mnemoscope inspect`.

Which lenses apply depends on the network:

| network | lenses |
|---|---|
| relational network | problems, relations, occlusion, drift |
| network that attends to its past | attention, gradients |
| large Turing machine | tape, gradients, fixed points on a uniform tape |
| large network of affine layers | gradients, influence, transitions, memory capacity |
| small Turing machine | tape, gradients, fixed points, and the registered lenses on them |
| any other | gradients, memory capacity, fixed points, a slow manifold, variables, loops of text, and the registered
  lenses on them |
| affine layers, trained on pairs of keys and values | interference as well |

All but relational networks begin with behaviour, spans and measured influence, and those with layers that are affine in
their state with the influence of past inputs. Networks that learned a word problem also have state tracking, and those
whose task names a class that they hold have interventions on it (`held_classes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mnemoscope.inspection.attention import inspect_attention, why_no_fixed_points
from mnemoscope.inspection.behaviour import behaviour_sections, gradient_section
from mnemoscope.inspection.closed_loop import inspect_loops, loops_section
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.duration import Duration, inspect_duration
from mnemoscope.inspection.gradients import gradients_before_and_after
from mnemoscope.inspection.interference import inspect_interference, interference_section
from mnemoscope.inspection.intervention import Interventions, inspect_interventions, interventions_section
from mnemoscope.inspection.mechanism import TRAJECTORIES, inspect_mechanism, sample_states
from mnemoscope.inspection.on_task import constant_dynamics, visited_states
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions, refuse_fixed_point_options
from mnemoscope.inspection.page import LoadedRun, page_of_run
from mnemoscope.inspection.past_inputs import why_no_search
from mnemoscope.inspection.populations import inspect_populations
from mnemoscope.inspection.problems import inspect_problems
from mnemoscope.inspection.rank import inspect_rank
from mnemoscope.inspection.relations import inspect_relations
from mnemoscope.inspection.result import Inspection
from mnemoscope.inspection.spans import measure_spans, spans_section
from mnemoscope.inspection.tape import POOL, TapeFindings, inspect_tape, is_large, uniform_fixed_points_section
from mnemoscope.inspection.text import add_text, input_labels
from mnemoscope.inspection.tracking import inspect_tracking, tracking_section
from mnemoscope.inspection.trials import TrialFindings, contexts_of, inspect_trials, trials_section
from mnemoscope.inspection.uses import add_citations
from mnemoscope.inspection.variables import inspect_variables, variables_section
from mnemoscope.lenses import Loops, Variables, record_behaviour
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.tape import find_uniform_fixed_points, make_uniform
from mnemoscope.memory.attention import Attentive
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.relational import SingleStepModel
from mnemoscope.report import NetworkPage, Section, sentences
from mnemoscope.report.markup import check_report_extra
from mnemoscope.tasks import Batch, RelationalSequence, WordProblem
from mnemoscope.training import RunFolder, load_model

BATCH = 64
"""Test sequences whose states are starts of the search."""
ON_TEXT = ("influence", "transitions")
"""Lenses that a text of the options replaces the test sequences for."""
GRADIENT_BATCH = 8
"""Test sequences through which the loss is followed back."""


def inspect_run(folder: str | Path, *, options: InspectionOptions = DEFAULT_OPTIONS) -> Inspection:
    """Inspect a trained run; `.save()` writes `page.html` and the results into its folder.

    Fixed points are searched for at a constant input, zeros by default.
    """
    check_report_extra()
    folder = Path(folder)
    model, task, config = load_model(folder)
    run = LoadedRun(folder, model, task, config, options)
    if isinstance(model, SingleStepModel) and isinstance(task, RelationalSequence):
        return _inspect_relational(run, model, task)
    if isinstance(model.cell, TuringMachine):
        return _inspect_machine(run)
    if reason := why_no_search(model.cell, options):
        return _inspect_on_task(run, reason)
    if reason := why_no_fixed_points(model.cell):
        attends = isinstance(model.cell, Attentive)
        return _inspect_attentive(run, reason) if attends else _inspect_on_task(run, reason)
    return _inspect_recurrent(run)


def _inspect_relational(run: LoadedRun, model: SingleStepModel, task: RelationalSequence) -> Inspection:
    reason = "A relational network answers in one step: it has no state that could rest, and so no fixed points."
    refuse_fixed_point_options(run.options, reason)
    problems, relations = inspect_problems(model, task, run.config), inspect_relations(model, task, run.config)
    sections = [problems.section(), *relations.sections()]
    content = replace(page_of_run(run), lead=f"{problems.summary()} {reason}", sections=sections)
    lenses, results = ("relations", "occlusion", "drift"), relations.results()
    return _inspection(run, content, lenses, results, problems=problems, relations=relations)


def _inspect_attentive(run: LoadedRun, reason: str) -> Inspection:
    """Inspect a network that attends to its past; `reason` is why its page lists no fixed points."""
    refuse_fixed_point_options(run.options, reason)
    attention = inspect_attention(run.model, run.task, run.config)
    content = replace(page_of_run(run), lead=reason, sections=[attention.section()])
    return _inspection(run, content, ("attention", "gradients"), attention.results(), attention=attention)


def _inspect_on_task(run: LoadedRun, reason: str) -> Inspection:
    """Inspect a large network of affine layers, or a Transformer; `reason` is why its page lists no fixed points."""
    refuse_fixed_point_options(run.options, reason)
    found = _on_task(run)
    content = replace(page_of_run(run), lead=reason, sections=found.sections)
    return _inspection(run, content, found.lenses, found.results, _gradients(run), **found.findings)


def _inspect_machine(run: LoadedRun) -> Inspection:
    if run.options.certify:
        raise ValueError(
            "A certificate is for states of up to three numbers, which a tape and its heads exceed; omit certify."
        )
    tape = inspect_tape(run.model, run.task, run.config)
    return _inspect_large_machine(run, tape) if is_large(run.model.cell) else _inspect_recurrent(run, tape)


def _inspect_large_machine(run: LoadedRun, tape: TapeFindings) -> Inspection:
    """Inspect a machine with a large state, whose page lists only the fixed points on a uniform tape."""
    dynamics = constant_dynamics(run)
    visited = visited_states(run.model, dynamics, tape.batch.inputs).flatten(0, 1)
    starts = sample_states(visited, POOL, run.options.seed)
    points = find_uniform_fixed_points(dynamics, starts, seed=run.options.seed, progress=run.options.progress)
    sections = [uniform_fixed_points_section(points), tape.section()]
    content = replace(page_of_run(run, dynamics), lead=points.summary(), sections=sections)
    lenses = ("fixed-points", *TapeFindings.lenses)
    return _inspection(run, content, lenses, tape.results(), tape=tape, uniform_fixed_points=points)


def _inspect_recurrent(run: LoadedRun, tape: TapeFindings | None = None) -> Inspection:
    """Inspect a network by its fixed points, and by its tape if one is given."""
    by_task = contexts_of(run)
    contexts = by_task or {"constant input": constant_dynamics(run)}
    dynamics = next(iter(contexts.values()))
    # the page shows the network on its task, and the search starts from the states that it visits there
    batch = run.task.batch(BATCH, run.config.seed, 0, "test")
    visited = visited_states(run.model, dynamics, batch.inputs)

    def with_uniform_tapes(starts: Tensor) -> Tensor:
        return starts if tape is None else torch.cat([starts, make_uniform(dynamics, starts)])

    mechanism = inspect_mechanism(run.model.cell, contexts, visited, run.options, starts=with_uniform_tapes)
    on_task = _on_task(run)
    if by_task:
        assert mechanism.fixed_points is not None
        trials = inspect_trials(run, by_task, mechanism.contexts or {next(iter(by_task)): mechanism.fixed_points})
        on_task.add_trials(trials)
    sections, lenses, results = on_task.sections, on_task.lenses, {**mechanism.results, **on_task.results}
    if tape is not None:
        sections = [tape.section(), *sections]
        lenses = [*TapeFindings.lenses, *lenses]
        results |= tape.results()
    content = replace(
        page_of_run(run, dynamics),
        fixed_points=mechanism.fixed_points,
        # that of trials is searched on the time scale of the task
        slow_manifold=mechanism.slow_manifold if by_task else mechanism.settling,
        trajectories=visited[:, :TRAJECTORIES],
        sections=[*sections, *mechanism.sections],
        lead=on_task.headline,
    )
    return _inspection(
        run,
        content,
        [*mechanism.lenses, *lenses],
        results,
        _gradients(run) if tape is None else None,
        fixed_points=mechanism.fixed_points,
        slow_manifold=mechanism.slow_manifold,
        tape=tape,
        **on_task.findings,
    )


@dataclass
class _OnTask:
    """Findings of the lenses that belong to the task of a run."""

    sections: list[Section] = field(default_factory=list)
    lenses: list[str] = field(default_factory=list)
    results: dict[str, Result | None] = field(default_factory=dict)
    findings: dict[str, Any] = field(default_factory=dict)

    headline: str = ""

    def add(self, lens: str, section: Section) -> None:
        self.lenses.append(lens)
        self.sections.append(section)

    def add_trials(self, trials: TrialFindings) -> None:
        self.headline = trials.mechanism()
        self.sections.insert(0, trials_section(trials))
        self.lenses += trials.lenses()
        self.results |= trials.results
        self.findings["trials"] = trials


def _on_task(run: LoadedRun) -> _OnTask:
    """Apply the lenses on word problems, recall, variables, text and held classes, each if it suits the task."""
    found = _OnTask()
    if isinstance(run.task, WordProblem):
        tracking = inspect_tracking(run.model, run.task, run.config.seed)
        found.add("state-tracking", tracking_section(tracking))
        found.results["state_tracking"] = tracking
    variables = inspect_variables(run.model, run.task, run.task.batch(BATCH, run.config.seed, 0, "test"))
    if variables is not None:
        found.add("variables", variables_section(variables))
    loops = inspect_loops(run.model, run.task)
    if loops is not None:
        found.add("closed-loop", loops_section(loops))
    recall = inspect_interference(run)
    if recall is not None:
        found.add("interference", interference_section(recall))
    known = variables if isinstance(variables, Variables) else None
    interventions = inspect_interventions(run, known)
    if interventions is not None:
        found.add("intervention", interventions_section(interventions))
    _add_units(run, found)
    found.findings["interference"] = recall
    found.findings["variables"] = known
    found.findings["loops"] = loops if isinstance(loops, Loops) else None
    found.results |= found.findings
    if isinstance(interventions, Interventions):
        found.results |= interventions.results()
        found.findings["interventions"] = interventions
    return found


def _add_units(run: LoadedRun, found: _OnTask) -> None:
    """Add what the units do in trials, and which rank the task needs."""
    for inspected in (inspect_populations(run), inspect_rank(run)):
        if inspected is not None:
            found.sections += inspected.sections()
            found.lenses += inspected.lenses()
            found.results |= inspected.results


def _gradients(run: LoadedRun) -> Duration:
    """Return the gradients of the loss before and after training."""
    found = Duration()
    batch = run.task.batch(GRADIENT_BATCH, run.config.seed, 0, "test")
    if not is_quick(run.model.cell, len(batch.mask), GRADIENT_BATCH, run.options, passes=12):  # two networks, float64
        found.explain("Gradients of the loss", f"Not measured, since it takes long. {HOW_TO_MEASURE}")
        return found
    found.gradients = gradients_before_and_after(run.config, run.task, run.model, batch)
    found.add("gradients", partial(gradient_section, found.gradients))
    return found


def _inspection(
    run: LoadedRun,
    content: NetworkPage,
    lenses: Sequence[str],
    results: Mapping[str, Result | None],
    duration: Duration | None = None,
    **findings: Any,
) -> Inspection:
    """Return the findings with what the network does on test trials, and for how long it remembers, before them."""
    kept = {name: result for name, result in results.items() if result is not None}
    if not isinstance(run.model, SingleStepModel):
        batch = run.task.batch(BATCH, run.config.seed, 0, "test")
        behaviour = record_behaviour(run.model, batch.inputs, batch.targets, mask=run.task.recalled(batch))
        spans, note = measure_spans(run) if run.task.longest_span else (None, "")

        def sections() -> list[Section]:
            measured = [spans_section(spans, note, run.task.span_label)] if spans is not None or note else []
            return [*behaviour_sections(behaviour), *measured]

        duration = _duration(run, batch, Duration() if duration is None else duration)
        on_spans = "" if spans is None else spans.summary()
        headline = sentences(behaviour.summary(), _against_baseline(run), on_spans, duration.headline())
        content = replace(content, behaviour=headline, behaviour_sections=sections, duration_sections=duration.sections)
        first = {"behaviour": behaviour, "spans": spans, **duration.results}
        kept = {**{name: result for name, result in first.items() if result is not None}, **kept}
        lenses = ["behaviour", *duration.lenses, *lenses]
        findings |= {"behaviour": behaviour, "spans": spans}
        findings |= {
            "influence": duration.influence,
            "measured_influence": duration.measured_influence,
            "capacity": duration.capacity,
            "transitions": duration.transitions,
            "gradients": duration.gradients,
        }
    content = add_citations(content, lenses, run.config)
    return Inspection(content, kept, run.folder / "page.html", **findings)


def _duration(run: LoadedRun, batch: Batch, found: Duration) -> Duration:
    """Add how long a network remembers its test trials; of a text that was given, what affine layers keep of it."""
    inputs, lengths = batch.inputs, run.task.lengths_of(batch)
    if run.options.text is None:
        labels = input_labels(run.task, inputs)
        return inspect_duration(run.model.undecoded(), inputs, run.options, lengths=lengths, labels=labels, found=found)
    add_text(found, run, run.options.text)
    return inspect_duration(
        run.model, inputs, run.options, lengths=lengths, wanted=lambda lens: lens not in ON_TEXT, found=found
    )


def _against_baseline(run: LoadedRun) -> str:
    """Return a sentence on a loss that a network without memory, or a guess, reaches too; "" if it is lower."""
    result = RunFolder(run.folder).read_result()
    if not result.loss >= result.baseline:
        return ""
    return f"Its loss of {result.loss:.3g} is not below the {result.baseline:.3g} reached {run.task.baseline_label}."
