"""Look at a network with every lens there is, and write its page: the work behind `mnemoscope inspect`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.cells import Cell, Model, run_with_cache
from mnemoscope.config.run_config import RunConfig
from mnemoscope.inspection.attention import AttentionSeen, look_at_attention, without_fixed_points
from mnemoscope.inspection.problem import ProblemsSeen, look_at_problems
from mnemoscope.inspection.relational import RelationsSeen, look_at_relations
from mnemoscope.inspection.tape import POOL, TapeSeen, is_large, look_at_tape
from mnemoscope.inspection.uses import uses_of_config
from mnemoscope.lenses import (
    Adaptive,
    Box,
    Dynamics,
    FixedPoints,
    Variables,
    find_fixed_points,
    find_variables,
)
from mnemoscope.lenses.tape import EvenRests, even_rests, evened
from mnemoscope.memory.tape import TuringMachine
from mnemoscope.registry.citations import Use, cited
from mnemoscope.relational import Solver
from mnemoscope.report import InspectedNetwork, NetworkPage, lens_sections, write_page
from mnemoscope.report.binding import binding_section
from mnemoscope.report.markup import check_report_extra
from mnemoscope.report.tape import rests_section
from mnemoscope.tasks import Batch, Problems, Task, VariableBinding
from mnemoscope.training import RunFolder, load_model

TRAJECTORIES = 24
"""How many trajectories a page shows."""


@dataclass(frozen=True)
class Inspection:
    """What was found, and where it was written."""

    fixed_points: FixedPoints | None
    """None of a network that attends to its past, of a large Turing machine, of which there are `rests`, and of a
    relational network."""
    page: Path
    saved: Path | None
    """The fixed points as a `.safetensors` file."""
    variables: Variables | None = None
    """What a network that was taught variable binding holds where, if it can be told; saved beside the page too."""
    attention: AttentionSeen | None = None
    """Of a network that attends to its past: what it attends to and keeps, and what of the loss reaches back; saved
    beside the page too."""
    tape: TapeSeen | None = None
    """Of a Turing machine: its tape, and what of the loss reaches back; saved beside the page too."""
    rests: EvenRests | None = None
    """Of a large Turing machine: where it rests with the same in all slots."""
    problems: ProblemsSeen | None = None
    """Of a relational network: how it answers."""
    relations: RelationsSeen | None = None
    """Of a relational network: what it compares, what its decoder reads, and how well it keeps unseen objects apart;
    saved beside the page too."""

    def summary(self) -> str:
        """The result in words."""
        parts = (self.fixed_points, self.rests, self.attention, self.tape, self.problems)
        return " ".join(one.summary() for one in parts if one is not None)


@dataclass(frozen=True)
class Look:
    """How to look at a network."""

    input: Sequence[float] | None = None
    """Constant input; zeros by default."""
    starts: int = 64
    """Starts of each wave of the search."""
    seed: int = 0
    """Seed of the search."""
    command: str = ""
    """What the page says it was made by."""
    progress: bool = True
    """Whether to show progress."""

    def tensor(self) -> Float[Tensor, " features"] | None:
        """The constant input as a tensor."""
        return None if self.input is None else torch.tensor(self.input)

    def find(self, dynamics: Dynamics, pool: Float[Tensor, "starts size"] | None = None) -> FixedPoints:
        """The fixed points, from the states of `pool` if given."""
        starts = Adaptive(pool, number=self.starts, patience=2)
        return find_fixed_points(dynamics, starts, seed=self.seed, progress=self.progress)


_USUAL = Look()


def inspect_run(folder: str | Path, *, page: str | Path | None = None, look: Look = _USUAL) -> Inspection:
    """The fixed points of a trained run at a constant input (zeros by default), and its page, in the run's folder.

    Of a network that attends to its past the page shows what it attends to and keeps in place of fixed points, of a
    Turing machine its tape too, and where its state is large only fixed points at which all slots hold the same; of a
    relational network, how it answers problems of its task, what it compares and what its decoder reads.
    """
    check_report_extra()
    folder = Path(folder)
    page = folder / "page.html" if page is None else Path(page)
    model, task, config = load_model(folder)
    if isinstance(model, Solver) and isinstance(task, Problems):
        return _inspect_solver(folder, page, look, model, task, config)
    machine = isinstance(model.cell, TuringMachine)
    why = None if machine else without_fixed_points(model.cell)
    if why is not None:
        _refuse_input(look, why)
    tape = look_at_tape(model, task, config) if machine else None
    if why is not None:
        return _inspect_alone(folder, page, look, why)
    constant = look.tensor()
    dynamics = Dynamics(model.cell, None if constant is None else model.encode(constant[None])[0])
    if tape is not None and is_large(model.cell):
        return _inspect_large(folder, page, look, tape, dynamics)
    # the page shows the task as it is met; the search starts from the states that are visited
    batch = task.batch(64, config.seed, 0, "test")
    with torch.no_grad():
        visited = run_with_cache(dynamics.cell, model.encode(batch.inputs).to(dynamics.input))[1].flat()
    generator = torch.Generator().manual_seed(look.seed)
    pool = visited.flatten(0, 1)
    pool = pool[torch.randperm(len(pool), generator=generator)[: look.starts]]
    fp = look.find(dynamics, pool if tape is None else torch.cat([pool, evened(dynamics, pool)]))
    memories = _memories(model, task, batch)
    content = _of_run(folder, model, task, config, look)
    said = lens_sections(InspectedNetwork(model.cell, dynamics, fp, visited))
    content = replace(
        content,
        facts=[*content.facts, ("Constant input", _input(dynamics))],
        fixed_points=fp,
        trajectories=visited[:, :TRAJECTORIES],
        sections=[
            *([] if tape is None else [tape.section()]),
            *([] if memories is None else [binding_section(memories)]),
            *chain(*said.values()),
        ],
    )
    more = [*(() if memories is None else ["variables"]), *(() if tape is None else _OF_TAPES), *said]
    content = _used(content, [*_OF_POINTS, *more], config)
    found = memories if isinstance(memories, Variables) else None
    return _write(fp, content, page, found, tape)


def _refuse_input(look: Look, why: str) -> None:
    if look.input is not None:
        raise ValueError(f"A constant input is for fixed points, and none are looked for; leave it away. {why}")


def _inspect_solver(
    folder: Path, page: Path, look: Look, model: Solver, task: Problems, config: RunConfig
) -> Inspection:
    """The page of a relational network."""
    why = "A relational network answers in one step: it has no state that could rest, and so no fixed points."
    _refuse_input(look, why)
    seen, compared = look_at_problems(model, task, config), look_at_relations(model, task, config)
    content = replace(
        _of_run(folder, model, task, config, look),
        lead=f"{seen.summary()} {why}",
        sections=[seen.section(), *compared.sections()],
    )
    write_page(page, _used(content, _OF_RELATIONS, config))
    compared.save(page)
    return Inspection(None, page, None, problems=seen, relations=compared)


def _inspect_alone(folder: Path, page: Path, look: Look, why: str) -> Inspection:
    """The page of a network that attends to its past; `why` says why it lists no fixed points."""
    model, task, config = load_model(folder)
    seen = look_at_attention(model, task, config)
    content = replace(_of_run(folder, model, task, config, look), lead=why, sections=[seen.section()])
    write_page(page, _used(content, ("attention", "gradients"), config))
    seen.save(page)
    return Inspection(None, page, None, attention=seen)


def _inspect_large(folder: Path, page: Path, look: Look, tape: TapeSeen, dynamics: Dynamics) -> Inspection:
    """The page of a machine with a large state, of whose fixed points it lists those on an even tape."""
    model, task, config = load_model(folder)
    batch = tape.batch
    with torch.no_grad():
        visited = run_with_cache(dynamics.cell, model.encode(batch.inputs).to(dynamics.input))[1].flat().flatten(0, 1)
    chosen = torch.randperm(len(visited), generator=torch.Generator().manual_seed(look.seed))[:POOL]
    rests = even_rests(dynamics, visited[chosen], seed=look.seed, progress=look.progress)
    content = _of_run(folder, model, task, config, look)
    content = replace(
        content,
        lead=rests.summary(),
        facts=[*content.facts, ("Constant input", _input(dynamics))],
        sections=[rests_section(rests), tape.section()],
    )
    write_page(page, _used(content, [*_OF_POINTS, *_OF_TAPES], config))
    tape.save(page)
    return Inspection(None, page, None, tape=tape, rests=rests)


def _of_run(folder: Path, model: Model, task: Task, config: RunConfig, look: Look) -> NetworkPage:
    """What a page says of a run, whatever its network is."""
    result = RunFolder(folder).read_result()
    if isinstance(model, Solver):
        learner = ("Network", f"{config.cell} {_options(config.cell_options)}")
        title = f"{config.cell} on {config.task}"
    else:
        units = f"{_size(model.cell, config.hidden_size)} units"
        learner, title = ("Cell", f"{config.cell}, {units}"), f"{config.cell} with {units}"
    facts = [
        learner,
        ("Parameters", f"{sum(p.numel() for p in model.parameters()):,}"),
        ("Task", f"{config.task} {_options(config.task_options)}"),
        ("Loss", f"{result.loss:.2e} after {result.steps:,} steps, {task.baseline_is} {result.baseline:.2e}"),
        *((name.capitalize(), _score(name, value, task)) for name, value in result.scores.items()),
        ("Seed", f"{config.seed}"),
    ]
    return NetworkPage(
        title=f"{config.name}: {title}",
        facts=facts,
        curve=RunFolder(folder).read_metrics(),
        baseline=result.baseline,
        baseline_is=task.baseline_is,
        command=look.command or shlex.join(["mnemoscope", "inspect", str(folder)]),
    )


def _size(cell: Cell, hidden_size: int) -> str:
    """Units of a cell; of one of matrices, or a machine that has such a controller, rows and columns of the state."""
    shape = getattr(cell, "shown_shape", None) or getattr(cell, "state_shape", None)
    return " x ".join(map(str, shape)) if shape else str(hidden_size)


def _score(name: str, value: float, task: Task) -> str:
    nothing = task.knowing_nothing() if name == "wrong bits" else ""
    return f"{value:.4f}, {nothing}" if nothing else f"{value:.4f}"


def inspect_cell(cell: Cell, title: str, page: str | Path, *, look: Look = _USUAL) -> Inspection:
    """The fixed points of any network at a constant input, and its page; trajectories start at random states."""
    check_report_extra()
    if not all(torch.isfinite(weight).all() for weight in cell.parameters()):
        raise ValueError("The network has NaN or infinite weights.")
    dynamics = Dynamics(cell, look.tensor())
    fp = look.find(dynamics)
    facts = [
        ("Cell", f"{type(cell).__name__}, {dynamics.size} numbers in a state"),
        ("Parameters", f"{sum(p.numel() for p in cell.parameters()):,}"),
        ("Constant input", _input(dynamics)),
    ]
    trajectories = _relaxations(dynamics, fp, look.seed)
    said = lens_sections(InspectedNetwork(cell, dynamics, fp, trajectories))
    sections = [*chain(*said.values())]
    content = NetworkPage(title, fp, facts, trajectories, command=look.command, sections=sections)
    return _write(fp, _used(content, [*_OF_POINTS, *said]), Path(page))


def _write(
    fp: FixedPoints,
    content: NetworkPage,
    page: Path,
    variables: Variables | None = None,
    tape: TapeSeen | None = None,
) -> Inspection:
    saved = page.with_name(f"{page.stem}.fixed_points.safetensors")
    saved.parent.mkdir(parents=True, exist_ok=True)
    fp.save(saved)
    if variables is not None:
        variables.save(page.with_name(f"{page.stem}.variables.safetensors"))
    if tape is not None:
        tape.save(page)
    write_page(page, content)
    return Inspection(fp, page, saved, variables, tape=tape)


def _memories(model: Model, task: Task, batch: Batch) -> Variables | str | None:
    """What a network holds that was taught variable binding, or why that cannot be told; None for other tasks."""
    if not isinstance(task, VariableBinding):
        return None
    try:
        return find_variables(model, inputs=batch.inputs, variables=batch.targets)
    except ValueError as error:
        return str(error)


def _relaxations(dynamics: Dynamics, fp: FixedPoints, seed: int, steps: int = 60) -> Float[Tensor, "time batch size"]:
    """The network left to itself from random states around the fixed points."""
    generator = torch.Generator().manual_seed(seed)
    reach = 1.5 * float(fp.states.abs().max()) if len(fp) else 1.0
    states = dynamics.clamp(Box(TRAJECTORIES, -reach - 0.1, reach + 0.1).draw(dynamics, generator))
    path = [states]
    with torch.no_grad():
        for _ in range(steps):
            path.append(dynamics(path[-1]))
    relaxed = torch.stack(path)
    return relaxed[:, torch.isfinite(relaxed).all(2).all(0)]


def _input(dynamics: Dynamics) -> str:
    values = dynamics.input[0].tolist()
    return "zeros" if not any(values) else ", ".join(f"{value:g}" for value in values)


def _options(options: dict[str, bool | int | float | str]) -> str:
    return "(" + ", ".join(f"{name} {value}" for name, value in options.items()) + ")" if options else ""


_OF_POINTS = ("fixed-points",)
_OF_RELATIONS = ("relations", "occlusion", "drift")
_OF_TAPES = ("tape", "gradients")


def _used(page: NetworkPage, lenses: Sequence[str], config: RunConfig | None = None) -> NetworkPage:
    """The page with its lenses, and with whom to cite for these and for the network."""
    lenses = list(dict.fromkeys(lenses))
    uses = [] if config is None else uses_of_config(config)
    return replace(page, lenses=lenses, cites=list(cited([*(Use("lens", name) for name in lenses), *uses])))
