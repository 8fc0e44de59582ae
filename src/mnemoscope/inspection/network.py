"""Inspect any network in one call: what it does on your inputs, for how long it remembers, and by which mechanism."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.validation import check_type
from mnemoscope.cells import Cell, Inputs, Lengths, Model, as_cell, run_with_cache
from mnemoscope.cells.state import Layout
from mnemoscope.inspection.attention import why_no_fixed_points
from mnemoscope.inspection.behaviour import behaviour_sections, gradient_section
from mnemoscope.inspection.duration import Duration, inspect_duration
from mnemoscope.inspection.given_trials import GivenTrials, encoded, read_trials
from mnemoscope.inspection.intervention import Interventions, inspect_given_class, interventions_section
from mnemoscope.inspection.lens_choice import refuse_for_tokens, wanted_lenses
from mnemoscope.inspection.mechanism import TRAJECTORIES, Mechanism, inspect_mechanism
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions, refuse_fixed_point_options
from mnemoscope.inspection.past_inputs import why_no_search
from mnemoscope.inspection.result import Inspection
from mnemoscope.inspection.run import inspect_run
from mnemoscope.inspection.tape import is_large
from mnemoscope.inspection.text import inspect_pretrained, is_pretrained
from mnemoscope.inspection.tokens import inspect_tokens
from mnemoscope.inspection.uses import add_citations
from mnemoscope.inspection.variables import variables_section
from mnemoscope.lenses import Behaviour, Dynamics, Variables, find_variables
from mnemoscope.lenses.intervention.sequences import Readout
from mnemoscope.lenses.result import Result
from mnemoscope.lenses.token_labels import Labels
from mnemoscope.lenses.whole_network import check_readout, in_evaluation_mode
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.report import NetworkPage, sentences
from mnemoscope.report.markup import check_report_extra

Contexts = Mapping[str, Sequence[float] | Tensor] | Sequence[float] | Tensor
"""Constant inputs by name, or one constant input."""
RANDOM_STARTS = (
    "The trajectories start at random states; inputs=... of ms.inspect, or --trials of the command, shows those of "
    "your trials instead."
)


@in_evaluation_mode
def inspect(
    network: Any,
    inputs: Tensor | PackedSequence | None = None,
    *,
    targets: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
    readout: Readout | None = None,
    variable: Tensor | None = None,
    at: int | None = None,
    contexts: Contexts | None = None,
    labels: Labels | None = None,
    lenses: Literal["auto"] | Collection[str] = "auto",
    name: str | None = None,
    options: InspectionOptions = DEFAULT_OPTIONS,
) -> Inspection:
    """Apply the lenses to a network, and return their results with a page that shows them.

    `.save("page.html")` writes the page, `.show()` opens it, and a notebook displays the main findings.

    Args:
        network: torch.nn.RNN, GRU or LSTM, a cell or a `Model`; or the folder of a run, which knows all the rest, or of
            a language model of transformers, with a text in the options.
        inputs: trials (time, batch, features), or (batch, time, features) for a module with `batch_first=True`; or
            token numbers, (time, batch) or (batch, time), of a network that has an embedding and affine layers. The
            search for fixed points starts from the states that they lead to. Without them it starts at random, and
            the page does not show behaviour.
        targets: the right answers, in the same layout: float values of the shape of the outputs, bool bits, or class
            numbers without the last dimension. NaN and negative classes do not count.
        mask: steps that count, (time, batch) in the same layout; all by default.
        lengths: number of steps of each trial, if they differ; what follows is padding, which has no effect. Inputs may
            also be a `PackedSequence`.
        readout: from the outputs of the network to its answers, such as a torch.nn.Linear.
        variable: a class number for each trial, or for each step in the same layout; the page then has interventions on
            it. A negative number leaves a trial out.
        at: step after which the state is changed in these interventions; by default the middle of the shortest trial.
        contexts: constant inputs at which to search for fixed points: one, or several by name, such as
            `{"attend colour": [1, 0], "attend motion": [0, 1]}`. Zeros by default.
        labels: names of the inputs of each step, for networks with affine layers: a list of strings, one such list for
            each trial, or a tokenizer.
        lenses: "auto", or the names of the lenses to apply, as `mnemoscope list lenses` prints them: behaviour,
            gradients, influence, measured-influence, memory-capacity, transitions, intervention, fixed-points,
            slow-manifold, spectra, fisher, variables.
        name: title of the page.
        options: seed, number of starts, progress bars, and whether to run measurements that take long.

    >>> import mnemoscope as ms
    >>> trials = torch.randn(30, 16, 2)
    >>> quiet = ms.inspection.InspectionOptions(progress=False)
    >>> found = ms.inspect(torch.nn.GRU(2, 4), trials, lenses=["fixed-points"], options=quiet)
    >>> found.fixed_points.kind
    ['stable']

    """
    check_type(
        InspectionOptions, "an ms.inspection.InspectionOptions, such as InspectionOptions(full=True)", options=options
    )
    if isinstance(network, str | Path):
        given = (inputs, targets, mask, lengths, readout, variable, at, contexts, labels, name)
        if any(value is not None for value in given) or lenses != "auto":
            raise ValueError("A run has its own task, trials and readout; omit all arguments but options.")
        return _inspect_folder(Path(network), options)
    check_report_extra()
    model, cell, readout = _parts(network, readout)
    if not all(torch.isfinite(weight).all() for weight in network.parameters()):
        raise ValueError("The network has NaN or infinite weights.")
    wanted = wanted_lenses(lenses, inputs, targets, variable)
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and not inputs.is_floating_point() and not inputs.is_complex():
        refused = {"targets": targets, "mask": mask, "readout": readout, "variable": variable, "contexts": contexts}
        refuse_for_tokens(lenses, refused, options)
        return inspect_tokens(model or cell, inputs, lengths=lengths, labels=labels, name=name, options=options)
    dynamical = cell  # remembers the layout of the network, in which its results take trajectories
    trials = read_trials(inputs, targets, mask, lengths, cell, model)
    behaviour = trials.behaviour(model or cell, readout) if trials is not None and wanted("behaviour") else None
    if cell.batch_first:
        model, cell = None if model is None else model.time_first(), cell.time_first()
    duration = _duration(trials, model, cell, readout, labels, options, wanted)
    reason = why_not_searched(cell, options)
    if reason:
        refuse_fixed_point_options(options, reason)
        if contexts is not None or (lenses != "auto" and wanted("fixed-points")):
            raise ValueError(f"Fixed points are not searched for; omit the contexts and the lenses on them. {reason}")
    given = None if trials is None else trials.inputs
    mechanism = None if reason else _mechanism(dynamical, model, given, contexts, options, wanted)
    variables = _variables(model, cell, readout, wanted)
    interventions = _interventions(trials, variable, at, model, cell, readout, options, wanted)
    title = name or f"{type(network).__name__}, {sum(weight.numel() for weight in network.parameters()):,} parameters"
    has_trials = trials is not None
    found = (behaviour, duration, mechanism, variables, interventions)
    return _collect(title, network, cell, options, reason, has_trials, *found)


def _inspect_folder(folder: Path, options: InspectionOptions) -> Inspection:
    """Inspect the folder of a run, or of a language model of transformers."""
    return inspect_pretrained(folder, options) if is_pretrained(folder) else inspect_run(folder, options=options)


def _duration(
    trials: GivenTrials | None,
    model: Model | None,
    cell: Cell,
    readout: Readout | None,
    labels: Labels | None,
    options: InspectionOptions,
    wanted: Callable[[str], bool],
) -> Duration:
    """Apply the lenses that show for how long the network remembers, and the gradients if the answers are known."""
    duration = Duration()
    if trials is not None and trials.targets is not None and wanted("gradients"):
        duration.gradients = trials.gradients(model, cell, readout)
        duration.add("gradients", partial(gradient_section, duration.gradients))
    xs, steps = (None, None) if trials is None else (trials.inputs.xs, trials.lengths)
    settings = {"readout": readout, "lengths": steps, "labels": labels, "wanted": wanted, "found": duration}
    inspect_duration(model or cell, xs, options, **settings)
    return duration


def _parts(network: Any, readout: Readout | None) -> tuple[Model | None, Cell, Readout | None]:
    """Return the model, if it is one, the cell, and the readout of the caller."""
    if not isinstance(network, nn.Module):
        raise TypeError(
            f"inspect takes a torch.nn module, a cell, a Model or the folder of a run, but got a "
            f"{type(network).__name__}. Wrap a function: ms.adapt(function, state_size=...)."
        )
    check_readout(network, readout)
    if isinstance(network, Model):
        return network, network.cell, None
    return None, as_cell(network), readout


def why_not_searched(cell: Cell, options: InspectionOptions) -> str:
    """Return why fixed points of a network are not searched for, as a sentence; "" if they are."""
    if isinstance(cell, TuringMachine) and is_large(cell):
        return "The state is too large for a list of fixed points; the page of a run shows those with equal slots."
    return why_no_fixed_points(cell) or why_no_search(cell, options)


def _mechanism(
    cell: Cell,
    model: Model | None,
    trials: Inputs | None,
    contexts: Contexts | None,
    options: InspectionOptions,
    wanted: Callable[[str], bool],
) -> Mechanism | None:
    named = _named_contexts(contexts, options)
    dynamics = {
        name: Dynamics(cell, None if constant is None else encoded(model, constant[None, None])[0, 0])
        for name, constant in named.items()
    }
    first = next(iter(dynamics.values()))
    visited = None
    if trials is not None:
        with torch.no_grad():
            inputs = encoded(model, trials.xs).to(first.input)
            visited = run_with_cache(first.cell, inputs, mask=trials.mask)[1].flat()
            visited = visited if trials.mask is None else visited.masked_fill(~trials.mask.unsqueeze(2), torch.nan)
    return inspect_mechanism(cell, dynamics, visited, options, wanted=wanted)


def _named_contexts(contexts: Contexts | None, options: InspectionOptions) -> dict[str, Tensor | None]:
    if contexts is None:
        return {"no input" if options.input is None else "given input": options.constant_input()}
    if options.input is not None:
        raise ValueError("Pass the constant input either as contexts or in the options, not in both.")
    if not isinstance(contexts, Mapping):
        return {"given input": torch.as_tensor(contexts, dtype=torch.get_default_dtype())}
    if not contexts:
        raise ValueError("contexts must name at least one constant input.")
    return {str(name): torch.as_tensor(x, dtype=torch.get_default_dtype()) for name, x in contexts.items()}


def _variables(
    model: Model | None, cell: Cell, readout: Readout | None, wanted: Callable[[str], bool]
) -> Variables | str | None:
    if not wanted("variables"):
        return None
    if model is None and not isinstance(readout, nn.Linear):
        raise ValueError('The lens "variables" needs the readout: pass a torch.nn.Linear as readout.')
    try:
        return find_variables(model) if model is not None else find_variables(cell, readout)
    except ValueError as error:
        return str(error)


def _interventions(
    trials: GivenTrials | None,
    variable: Tensor | None,
    at: int | None,
    model: Model | None,
    cell: Cell,
    readout: Readout | None,
    options: InspectionOptions,
    wanted: Callable[[str], bool],
) -> Interventions | str | None:
    if variable is None or trials is None or not wanted("intervention"):
        return None
    read = model.readout if model is not None else readout or nn.Identity()
    return inspect_given_class(cell, read, trials.held_class(variable, at, model), options)


def _collect(
    title: str,
    network: nn.Module,
    cell: Cell,
    options: InspectionOptions,
    reason: str,
    has_trials: bool,
    behaviour: Behaviour | None,
    duration: Duration,
    mechanism: Mechanism | None,
    variables: Variables | str | None,
    interventions: Interventions | str | None,
) -> Inspection:
    """Return the findings and the content of their page."""
    facts = [
        ("Network", f"{type(network).__name__}, {Layout(cell.initial_state(1)).size} numbers in a state"),
        ("Parameters", f"{sum(weight.numel() for weight in network.parameters()):,}"),
    ]
    content = NetworkPage(title, facts=facts, lead=reason, command=options.command or "ms.inspect(network, ...)")
    results: dict[str, Result] = {}
    lenses: list[str] = []
    if behaviour is not None:
        content = replace(content, behaviour_sections=partial(behaviour_sections, behaviour))
        results["behaviour"] = behaviour
        lenses.append("behaviour")
    headline = sentences("" if behaviour is None else behaviour.summary(), duration.headline())
    content = replace(content, behaviour=headline, duration_sections=duration.sections)
    results |= duration.results
    lenses += duration.lenses
    if mechanism is not None:
        results |= mechanism.results
        lenses += mechanism.lenses
        content = replace(
            content,
            facts=[*facts, ("Constant input", mechanism.constant_input)],
            fixed_points=mechanism.fixed_points,
            slow_manifold=mechanism.settling,
            trajectories=mechanism.trajectories[:, :TRAJECTORIES],
            origin="" if has_trials else RANDOM_STARTS,
            sections=mechanism.sections,
        )
    found = variables if isinstance(variables, Variables) else None
    if variables is not None:
        content = replace(content, sections=[*content.sections, variables_section(variables)])
        results |= {} if found is None else {"variables": found}
        lenses.append("variables")
    measured = interventions if isinstance(interventions, Interventions) else None
    if interventions is not None:
        content = replace(content, sections=[*content.sections, interventions_section(interventions)])
        results |= {} if measured is None else measured.results()
        lenses.append("intervention")
    return Inspection(
        add_citations(content, lenses),
        results,
        behaviour=behaviour,
        influence=duration.influence,
        measured_influence=duration.measured_influence,
        capacity=duration.capacity,
        transitions=duration.transitions,
        fixed_points=None if mechanism is None else mechanism.fixed_points,
        contexts={} if mechanism is None else mechanism.contexts,
        slow_manifold=None if mechanism is None else mechanism.slow_manifold,
        gradients=duration.gradients,
        variables=found,
        interventions=measured,
    )
