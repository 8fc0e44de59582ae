"""Interventions on the class that a network holds: erased, swapped and transplanted, each beside random subspaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mnemoscope.base.plurals import listed, pluralise
from mnemoscope.cells import Cell, Model, scan
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE
from mnemoscope.inspection.cost import HOW_TO_MEASURE, is_quick
from mnemoscope.inspection.held_classes import HeldClass, held_class
from mnemoscope.inspection.options import InspectionOptions
from mnemoscope.inspection.page import LoadedRun
from mnemoscope.lenses import Intervention, Variables, measure_intervention
from mnemoscope.lenses.bootstrap import Interval
from mnemoscope.lenses.intervention.figure import draw_interventions
from mnemoscope.lenses.intervention.sequences import Readout
from mnemoscope.lenses.intervention.state_part import StatePart
from mnemoscope.lenses.intervention.subspace import Subspace, class_means, nearest_mean_accuracy
from mnemoscope.lenses.variables.basis import MemoryBasis
from mnemoscope.report import Section
from mnemoscope.report.markup import figure_markup, table_markup

TITLE = "Does it use what it holds?"
KINDS = ("erase", "swap", "transplant")
SIZES = ((256, 40), (128, 40), (128, 20))
"""Numbers of sequences, of which half are tested, and of random subspaces for each kind of intervention; the smaller
ones for long sequences and large networks."""


@dataclass(frozen=True)
class Interventions:
    """The three interventions on one class."""

    variable: str
    """Description of the class."""
    origin: str
    """Where the subspace comes from: "class means" or "find_variables"."""
    by_kind: dict[str, Intervention]

    def summary(self) -> str:
        """Return every effect with its control, and where they do not differ."""
        return " ".join(_sentences(self))

    def results(self) -> dict[str, Intervention]:
        """Return the three results by the names under which they are saved."""
        return {f"intervention-{kind}": result for kind, result in self.by_kind.items()}

    def section(self) -> Section:
        """Return the section with the figure of effects and controls, and their table."""
        figure = draw_interventions(
            tuple(self.by_kind.values()), COLOUR, figure=new_figure(7.2, 3.4), font_size=PAGE_FONT_SIZE
        )
        first = next(iter(self.by_kind.values()))
        caption = (
            f"{len(first.control)} random subspaces of the same dimension, orthogonal to the tested one; each state "
            f"moves by the same distance in them. Bars are 95% intervals over {first.reached.shape[1]} sequences; grey "
            f"dots are single subspaces."
        )
        alt = "Effect of each intervention beside that of random subspaces, with intervals, and over the later steps."
        return Section(
            TITLE, self.summary(), figure_markup(figure, "interventions", alt=alt, caption=caption) + _table(self)
        )


def inspect_interventions(run: LoadedRun, variables: Variables | None) -> Interventions | str | None:
    """Erase, swap and transplant the class that the task of a run names.

    The subspace is that of the newest variable, if `find_variables` found it, else the span of the class means. Returns
    the reason if nothing can be measured, and None for tasks that name no class.
    """
    held, cell, seed = None, run.model.cell, run.config.seed
    for sequences, controls in SIZES:
        held = held_class(run.task, sequences, seed, 0)
        if held is None:
            return None
        steps, tested = len(held.inputs) - held.at - 1, held.inputs.shape[1] // 2
        if is_quick(cell, steps, tested, run.options, passes=len(KINDS) * (controls + 2)):
            break
    else:
        return f"Not measured, since it takes long. {HOW_TO_MEASURE}"
    basis = None if variables is None else _newest(variables)
    other = held_class(run.task, sequences, seed, 1)
    assert other is not None
    held, other = (replace(each, inputs=_encoded(run.model, each.inputs)) for each in (held, other))
    return _interventions(cell, run.model.readout, held, other, basis, controls, run.options.seed)


def inspect_given_class(
    cell: Cell, readout: Readout, held: HeldClass, options: InspectionOptions
) -> Interventions | str:
    """Erase, swap and transplant a class that the caller of `inspect` named; the inputs are those of the cell.

    If the state has several tensors, a third of the sequences choose the one to change, and the others are measured.
    Returns the reason if nothing can be measured.
    """
    other, measured = held, held
    batch = held.inputs.shape[1]
    if len(cell.state_names(cell.initial_state(1))) > 1:
        first = torch.randperm(batch, generator=torch.Generator().manual_seed(options.seed)) % 3 == 0
        other, measured = held.of(first), held.of(~first)
    steps, tested = len(held.inputs) - held.at - 1, measured.inputs.shape[1] // 2
    for controls in dict.fromkeys(number for _, number in SIZES):
        if is_quick(cell, steps, tested, options, passes=len(KINDS) * (controls + 2)):
            return _interventions(cell, readout, measured, other, None, controls, options.seed)
    return f"Not measured, since it takes long. {HOW_TO_MEASURE}"


def interventions_section(found: Interventions | str) -> Section:
    """Return the section with the interventions, or with the reason why there are none."""
    return Section(TITLE, found, "") if isinstance(found, str) else found.section()


def _newest(variables: Variables) -> MemoryBasis | None:
    """Return the directions of the newest variable; None if no variables were found."""
    if variables.structure is None:
        return None
    basis = variables.structure.basis
    return MemoryBasis(basis.block(-1), basis.dual(-1), 1)


def _interventions(
    cell: Cell,
    readout: Readout,
    held: HeldClass,
    other: HeldClass,
    basis: MemoryBasis | None,
    controls: int,
    seed: int,
) -> Interventions | str:
    """Measure all kinds of intervention, in a basis or in the tensor from which `other` sequences decode the class."""
    try:
        name = None if basis is not None else _holder(cell, other)
        found = {kind: _measured(cell, readout, held, kind, basis, name, controls, seed) for kind in KINDS}
    except ValueError as error:
        return f"Interventions on {held.name} cannot be measured: {error}"
    return Interventions(held.name, "class means" if basis is None else "find_variables", found)


@torch.no_grad()
def _encoded(model: Model, inputs: Tensor) -> Tensor:
    return model.encode(inputs)


@torch.no_grad()
def _holder(cell: Cell, held: HeldClass) -> str | None:
    """Return the name of the tensor of the state from whose class means the class is decoded best; None for all of it.

    The sequences are others than those of the interventions, so that the choice does not favour these.
    """
    state = scan(cell, held.inputs[: held.at + 1])[1]
    known = held.classes >= 0
    labels = held.classes[known].unique(return_inverse=True)[1]
    first = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) % 2 == 0
    names = cell.state_names(state)
    accuracies: dict[str | None, float] = {}
    for name in (None, *names) if len(names) > 1 else (None,):
        states = StatePart.named(cell, state, name).read(state).cpu()[known]
        means = class_means(states[first], labels[first], int(labels.max()) + 1)
        if means.isfinite().all() and bool((means != means[0]).any()):
            subspace = Subspace.spanned((means - means.mean(0)).mT)
            right = nearest_mean_accuracy(subspace, states[~first], labels[~first], means)
            accuracies[name] = float(right.mean())
    return max(accuracies, key=lambda name: accuracies[name]) if accuracies else None


@torch.no_grad()
def _measured(
    cell: Cell,
    readout: Readout,
    held: HeldClass,
    kind: str,
    basis: MemoryBasis | None,
    name: str | None,
    controls: int,
    seed: int,
) -> Intervention:
    def answer(outputs: Tensor) -> Tensor:
        answers = readout(outputs)
        return answers if held.output is None else answers[..., [held.output]]

    return measure_intervention(
        cell,
        held.inputs,
        held.classes,
        at=held.at,
        kind=kind,
        directions=basis,
        name=name,
        readout=answer,
        answers=held.answers,
        mask=held.counts,
        controls=controls,
        seed=seed,
    )


# --- sentences --------------------------------------------------------------------------------------------------------


def _sentences(found: Interventions) -> Iterator[str]:
    first = next(iter(found.by_kind.values()))
    directions = f"{pluralise(first.dimension, 'direction')} of {first.part}"
    where = (
        f"The mean states of {found.variable} span {directions}"
        if found.origin == "class means"
        else f"find_variables found {directions} for {found.variable}"
    )
    assert first.decoded is not None
    yield (
        f"{where} after step {first.at}, which decode it in {float(first.decoded.mean()):.1%} of new sequences "
        f"(guessing {first.guessed:.1%})."
    )
    names = {"erase": "erased", "swap": "swapped", "transplant": "transplanted from another sequence"}
    for kind, result in found.by_kind.items():
        if not float(result.possible.sum()) > 0:
            yield f"If it is {names[kind]}, no answer could change, not even with the whole state of another sequence."
            continue
        yield (
            f"If it is {names[kind]}, {_share(result.effect, result.interval)} {result.unit}, and with random "
            f"subspaces {_share(float(result.control_effects.mean()), result.control_interval)}."
        )
    yield _verdict(found)


def _verdict(found: Interventions) -> str:
    """Return for which interventions effect and control differ."""
    shown = [kind for kind, result in found.by_kind.items() if result.shown]
    if len(shown) == len(found.by_kind):
        return "Effect and control differ in all three: the network uses what this subspace holds."
    if not next(iter(found.by_kind.values())).decodable:
        return "The subspace does not hold the class better than guessing, so that nothing was shown."
    others = _listed([kind for kind in found.by_kind if kind not in shown])
    missing = (
        f"Nothing was shown by {others}: the effect is not above that of random subspaces beyond chance, which is no "
        f"proof that the network does not use it."
    )
    if not shown:
        return missing
    return f"Effect and control differ in {_listed(shown)}: the network uses what this subspace holds. {missing}"


def _listed(kinds: list[str]) -> str:
    nouns = {"erase": "the erasure", "swap": "the swap", "transplant": "the transplant"}
    return listed(nouns[kind] for kind in kinds)


def _share(value: float, interval: Interval) -> str:
    low, high = (float(edge) for edge in interval)
    return f"{value:.1%} ({low:.1%} to {high:.1%})"


def _table(found: Interventions) -> str:
    headings = ("Intervention", "Effect", "Random subspaces", "Difference", "p", "")
    rows = []
    for kind, result in found.by_kind.items():
        if not float(result.possible.sum()) > 0:
            rows.append((kind, "–", "–", "–", "–", "nothing could change"))
            continue
        controls = _share(float(result.control_effects.mean()), result.control_interval)
        difference = _share(result.excess, result.excess_interval)
        verdict = "differs" if result.shown else "not shown"
        rows.append(
            (kind, _share(result.effect, result.interval), controls, difference, f"{result.p_value:.2g}", verdict)
        )
    first = next(iter(found.by_kind.values()))
    note = (
        "Within the subspace, a state moves to the mean of all classes (erase), to the mean of another class (swap), "
        "or to the state of a donor, a sequence of another class (transplant). Then the network continues with the "
        "inputs of its own sequence. Effect: the share of answers that change (erase), or of those that become the "
        "answers after the whole state of the other sequence (swap, transplant); for outputs that are values, the "
        "share of the way. p: the probability that a random subspace has at least this effect; "
        f"{len(first.control)} of them can show no less than {1 / (len(first.control) + 1):.2g}."
    )
    return table_markup("Effect and control, with 95% intervals over sequences", headings, rows) + (
        f'<p class="small">{note}</p>'
    )
