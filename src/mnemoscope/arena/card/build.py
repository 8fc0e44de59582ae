"""Make the memory card of a run, or of a network with its task."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemoscope.arena.card.amount import how_much
from mnemoscope.arena.card.answers import Answer
from mnemoscope.arena.card.cost import what_it_costs
from mnemoscope.arena.card.duration import how_long
from mnemoscope.arena.card.failures import how_it_fails
from mnemoscope.arena.card.mechanism import by_which_mechanism, find_rest
from mnemoscope.arena.card.remembered import what_it_remembers
from mnemoscope.arena.card.result import MemoryCard
from mnemoscope.arena.card.subject import Subject, subject_of_run
from mnemoscope.arena.result import ArenaTable
from mnemoscope.base.progress import Bar, is_visible
from mnemoscope.cells import Model
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.duration import Duration, inspect_duration
from mnemoscope.inspection.options import DEFAULT_OPTIONS, InspectionOptions
from mnemoscope.inspection.text import input_labels
from mnemoscope.inspection.uses import uses_of_config
from mnemoscope.registry.citations import Use, cited
from mnemoscope.tasks import Task
from mnemoscope.training.run_folder import environment

PARTS = 7
"""Parts of the work that the progress bar counts: six answers, and the search for rest."""

STOPPED = {"steps": "", "target": ", until it reached its target", "patience": ", until it made no more progress"}
"""Why a training ended, as the end of a sentence."""


def memory_card(
    network: str | Path | Model,
    task: Task | None = None,
    *,
    seed: int = 0,
    name: str | None = None,
    trained: bool | None = None,
    arena: ArenaTable | None = None,
    options: InspectionOptions = DEFAULT_OPTIONS,
) -> MemoryCard:
    """Answer the six questions of the memory card for a run, or for a `Model` with its task.

    `card.save("folder")` writes card.html, card.json, card.pdf and card.svg. The lenses, and the limits beyond which
    they are not applied, are those of `inspect`. All numbers but times depend on the network, the seeds and the
    versions alone.

    Args:
        network: the folder of a finished run, which knows task, seed and training; or a `Model`.
        task: the task of a model, on whose test sequences the card is measured.
        seed: seed of these sequences; that of the run for a run.
        name: title of the card of a model; the name of its cell by default.
        trained: whether a model was trained, which the card states; None if it is not known.
        arena: results of an arena, in which the network is placed.
        options: seed of the search for fixed points, progress, and whether to measure what takes long.

    >>> import torch
    >>> import mnemoscope as ms
    >>> from mnemoscope.tasks import FlipFlop
    >>> _ = torch.manual_seed(0)
    >>> quiet = ms.inspection.InspectionOptions(progress=False)
    >>> model = ms.Model(ms.cells.GRU(1, 4), output_size=1)
    >>> card = ms.memory_card(model, FlipFlop(bits=1, length=20), trained=False, options=quiet)
    >>> card["cost"]["state"].value, card.training
    (4, 'The network was not trained.')

    """
    if isinstance(network, Model):
        if task is None:
            raise ValueError("The card of a Model is measured on its task: pass memory_card(model, task).")
        subject = Subject(network.time_first().eval(), task, seed, options)
        title, training = name or subject.kind, _given_training(trained)
        words = (f"{subject.kind}, {subject.parameters:,} trainable parameters", repr(task))
    else:
        if task is not None or name is not None or trained is not None or seed != 0:
            raise ValueError("A run knows its task, seed, name and training; omit them.")
        subject = subject_of_run(Path(network), options)
        title, training, words = _words_of_run(subject)
    answers = _answers(subject, arena)
    uses = [Use("lens", lens) for answer in answers for lens in answer.lenses]
    uses += [] if subject.config is None else uses_of_config(subject.config)
    return MemoryCard(title, *words, training, answers, tuple(cited(uses)), _provenance(subject, network, arena))


def _answers(subject: Subject, arena: ArenaTable | None) -> tuple[Answer, ...]:
    shown = subject.options.progress and is_visible()
    subject = replace(subject, options=replace(subject.options, progress=False))  # one bar for the whole card
    with Bar(total=PARTS, desc="card", unit="part", leave=False, disable=not shown) as bar:

        def done(answer: Any) -> Any:
            bar.update()
            return answer

        remembered = done(what_it_remembers(subject, arena))
        found = Duration() if subject.stateless else _duration(subject)
        duration = done(how_long(subject, found))
        rest = done(find_rest(subject))
        amount = done(how_much(subject, found, rest.points))
        mechanism = done(by_which_mechanism(subject, found, rest))
        failures = done(how_it_fails(subject))
        return remembered, duration, amount, mechanism, failures, done(what_it_costs(subject))


def _duration(subject: Subject) -> Duration:
    inputs, labels = subject.batch.inputs, input_labels(subject.task, subject.batch.inputs)
    return inspect_duration(subject.model.undecoded(), inputs, subject.options, lengths=subject.lengths, labels=labels)


def _given_training(trained: bool | None) -> str:
    if trained is None:
        return "How the network was trained is not known: it was passed without a run."
    return "The network was trained; its run was not passed." if trained else "The network was not trained."


def _words_of_run(subject: Subject) -> tuple[str, str, tuple[str, str]]:
    """Return title, sentence on training, and the words for network and task."""
    config, result = subject.config, subject.result
    assert config is not None
    assert result is not None
    sizes = "" if subject.stateless else f", size {config.hidden_size}"
    network = f"{config.cell}{sizes}{_options(config.cell_options)}, {subject.parameters:,} trainable parameters"
    training = f"Trained for {result.steps:,} steps with seed {config.seed}{STOPPED[result.stopped]}."
    if not result.loss < result.baseline:
        training += f" Its loss is not below that {subject.task.baseline_label}."
    return (
        f"{config.name}: {_kind(config)} on {config.task}",
        training,
        (network, f"{config.task}{_options(config.task_options)}"),
    )


def _kind(config: RunConfig) -> str:
    """Return the name of the network; blocks have that of their family, too."""
    family = config.cell_options.get("family")
    return config.cell if family is None else f"{family} {config.cell}"


def _options(options: dict[str, Any]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in options.items())})" if options else ""


def _provenance(subject: Subject, network: Any, arena: ArenaTable | None) -> dict[str, Any]:
    """Return the command, the run, the seeds, the versions and the machine."""
    made_from: dict[str, Any] = {}
    if subject.config is not None:
        made_from = {"run": f"{subject.config.name}/{subject.config.hash}", "config": subject.config.to_toml()}
    default = "ms.memory_card(model, task, ...)"
    if subject.config is not None:
        default = shlex.join(["mnemoscope", "card", str(network)])
    return {
        "command": subject.options.command or default,
        **made_from,
        "seed of the sequences": subject.seed,
        "seed of the search": subject.options.seed,
        "arena": None if arena is None else arena.arena.name,
        "machine of the card": environment(),
    }
