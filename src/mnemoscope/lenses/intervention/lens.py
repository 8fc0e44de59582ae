"""The intervention lens: change a variable in the state, and compare the effect with that of random subspaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Bool, Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import Cell, Lengths, Model, Network, State, as_cell, read_inputs, scan
from mnemoscope.cells.state import leaves
from mnemoscope.lenses.controls import scale_to
from mnemoscope.lenses.intervention.result import Intervention
from mnemoscope.lenses.intervention.scores import Scale, Scores
from mnemoscope.lenses.intervention.state_part import StatePart, select
from mnemoscope.lenses.intervention.subspace import (
    Directions,
    Subspace,
    class_means,
    nearest_mean_accuracy,
    other_directions,
    random_subspace,
)

Readout = Callable[[Tensor], Tensor]


@show_slow("intervention")
@torch.no_grad()
def measure_intervention(
    network: Network,
    inputs: Tensor,
    variable: Tensor | None = None,
    *,
    at: int,
    kind: str = "transplant",
    directions: Directions | None = None,
    name: str | None = None,
    readout: Readout | None = None,
    answers: str = "values",
    mask: Tensor | None = None,
    lengths: Lengths | None = None,
    fit_share: float = 0.5,
    controls: int = 40,
    seed: int = 0,
) -> Intervention:
    """Erase, swap or transplant a variable in the state, and compare later answers with those of random subspaces.

    Some of the sequences determine the subspace that holds the variable: the span of the mean states of its classes, or
    given directions. In the others the state after step `at` is changed within that subspace, and the network
    continues from the changed state, as in `patch`:

    - "erase": to the mean state;
    - "swap": to the mean state of another class;
    - "transplant": to the state of another sequence, the donor, which is of another class if a variable is given.

    The answers at later steps are compared with those without a change, and for a swap or a transplant with those after
    the whole state was replaced by that of a donor (of the other class), on the same later inputs. Each control changes
    the state in the same way within a random subspace of the same dimension, drawn from the directions in which the
    states differ and orthogonal to the tested one. Its change is scaled, in each sequence, to the length of the tested
    one.

    Args:
        network: a `Model`, a cell, or any network that `adapt` takes.
        inputs: sequences, in the layout of the network.
        variable: a class number for each sequence, or for each step of each sequence, in the layout of the inputs. A
            negative number leaves a sequence out.
        at: step after which the state is changed; at least one step must follow.
        kind: "erase", "swap" or "transplant".
        directions: the subspace, as a matrix (size, directions) of the flat part of the state, or a basis such as
            `find_variables(...).basis`; by default found from the variable.
        name: tensor of the state to change, by its name in the cache of `run_with_cache`; by default the whole state.
        readout: from the outputs of a network to answers; by default the network's own, or none.
        answers: "values": outputs are numbers; "classes": the largest is the answer; "bits": their signs are.
        mask: False at steps that do not count, in the layout of the inputs.
        lengths: number of steps of each sequence; what follows is padding, which does not count. Sequences that have no
            step after `at` are left out.
        fit_share: share of the sequences that determine subspace and means, and are not tested.
        controls: number of random subspaces, at least 20.
        seed: seed of the choice of sequences, donors and random subspaces.

    A network that keeps its first input in one of eight units, where the others hold noise:

    >>> import mnemoscope as ms
    >>> keep = torch.tensor([1.0, *[0.0] * 7])
    >>> cell = ms.adapt(lambda x, h: keep * (h + x) + (1 - keep) * x.roll(1, 1), state_size=8, input_size=8)
    >>> inputs = torch.randn(4, 200, 8, generator=torch.Generator().manual_seed(0))
    >>> inputs[:, :, 0] = 0
    >>> inputs[0, :, 0] = 2.0 * torch.arange(200).remainder(2) - 1
    >>> found = measure_intervention(
    ...     cell, inputs, torch.arange(200) % 2, at=1, readout=lambda h: h[..., :1], answers="bits"
    ... )
    >>> found.effect, float(found.control_effects.max()) < 0.2, found.shown
    (1.0, True, True)

    """
    _check_options(kind, answers, at, fit_share, controls)
    given = _read(network, inputs, variable, at, readout, mask, lengths)
    target = given.target
    if target is None and (kind == "swap" or directions is None):
        what = "A swap moves states to the mean of another class" if kind == "swap" else "The subspace is not known"
        raise ValueError(
            f"{what}: pass variable, a class number for each sequence{', or directions' * (kind != 'swap')}."
        )
    generator = torch.Generator().manual_seed(seed)
    fit, test = _divided(target, given.xs.shape[1], fit_share, generator)
    state = scan(given.cell, given.xs[: at + 1])[1]
    part = StatePart.named(given.cell, state, name)
    flat = part.read(state).cpu()
    means = None if target is None else class_means(flat[fit], target[fit], int(target.max()) + 1)
    centre = flat[fit].mean(0) if means is None else means.mean(0)
    if directions is not None:
        subspace = Subspace.given(directions, flat.shape[1])
    else:
        assert means is not None
        subspace = Subspace.spanned((means - centre).mT)
    others = other_directions(flat, subspace)
    _check_others(subspace, others)

    aims, donors = _aims(kind, flat, test, target, means, centre, generator)
    run = _Continuation(given.cell, given.read, given.xs[at + 1 :][:, test.to(given.xs.device)])
    tested = select(state, test)
    donor = None if donors is None else run(select(state, donors))
    scale = Scale(answers, run(tested), donor, given.counts[at + 1 :][:, test])

    def score(change: Float[Tensor, "batch size"]) -> Scores:
        return scale.score(run(part.changed(tested, change.to(_device(tested)))))

    change = subspace.project(aims - flat[test])
    scores = score(change)
    random = [
        score(scale_to(random_subspace(others, subspace.dimension, generator).project(aims - flat[test]), change))
        for _ in range(controls)
    ]
    decoded = guessed = None
    if target is not None and means is not None:
        decoded = nearest_mean_accuracy(subspace, flat[test], target[test], means)
        guessed = float(torch.bincount(target[test]).max() / len(test))
    deviation = (flat[test] - centre).norm(dim=1).mean()
    return Intervention(
        kind=kind,
        answers=answers,
        part="the state" if name is None else name,
        at=at,
        dimension=subspace.dimension,
        span=others.shape[1],
        fitted=len(fit),
        size=float(change.norm(dim=1).mean() / deviation),
        decoded=decoded,
        guessed=guessed,
        possible=scale.effect,
        reached=scores.effect,
        control=torch.stack([each.effect for each in random]),
        side_possible=scale.side,
        side_reached=scores.side,
        side_control=torch.stack([each.side for each in random]),
    )


@dataclass(frozen=True)
class _Sequences:
    """The sequences in which a step follows the change, time first."""

    cell: Cell
    read: Readout
    xs: Tensor
    target: Int[Tensor, " batch"] | None
    """Class of each sequence at the step of the change, numbered from 0 without gaps; -1 for those without one."""
    counts: Bool[Tensor, "time batch"]
    """Whether each step counts."""


def _read(
    network: Network,
    inputs: Tensor,
    variable: Tensor | None,
    at: int,
    readout: Readout | None,
    mask: Tensor | None,
    lengths: Lengths | None,
) -> _Sequences:
    """Return the sequences that are longer than the step of the change, with everything that belongs to them."""
    model = network if isinstance(network, Model) else None
    if model is not None and readout is not None:
        raise ValueError("A Model has a readout of its own; omit readout, or pass model.cell.")
    cell = model.cell if model is not None else as_cell(network)
    given = read_inputs(inputs, batch_first=cell.batch_first, mask=mask)
    present = read_inputs(inputs, batch_first=cell.batch_first, lengths=lengths).mask
    xs = given.xs if model is None else model.encode(given.xs)
    steps, batch = xs.shape[:2]
    if at > steps - 2:
        raise ValueError(
            f"at must be at most {steps - 2}, so that a step follows it in sequences of {steps} steps, but is {at}. "
            f"Append an input to see the effect on the last answer."
        )
    counts = torch.ones(steps, batch, dtype=torch.bool) if given.mask is None else given.mask.cpu()
    going_on = torch.ones(batch, dtype=torch.bool)
    if present is not None:
        counts, going_on = counts & present.cpu(), present.cpu()[at + 1]
    target = _classes_at(variable, at, steps, batch, cell.batch_first, going_on)
    read = (readout or (lambda outputs: outputs)) if model is None else model.readout
    chosen = None if target is None else target[going_on]
    return _Sequences(cell.time_first(), read, xs[:, going_on.to(xs.device)], chosen, counts[:, going_on])


@dataclass(frozen=True)
class _Continuation:
    """Runs the later inputs of the tested sequences from any states."""

    cell: Cell
    read: Readout
    xs: Tensor

    def __call__(self, state: State) -> Float[Tensor, "steps batch outputs"]:
        return self.read(scan(self.cell, self.xs, state)[0]).double().cpu()


def _aims(
    kind: str,
    flat: Float[Tensor, "batch size"],
    test: Int[Tensor, " tested"],
    target: Int[Tensor, " batch"] | None,
    means: Float[Tensor, "classes size"] | None,
    centre: Float[Tensor, " size"],
    generator: Generator,
) -> tuple[Float[Tensor, "tested size"], Int[Tensor, " tested"] | None]:
    """Return the states towards which the tested ones are moved, and the sequences with whose whole state to compare.

    Donors are drawn from the tested sequences, so that none of them determined the subspace.
    """
    if kind == "erase":
        return centre.expand(len(test), -1), None
    donors = []
    for row in test.tolist():
        others = test[test != row] if target is None else test[target[test] != target[row]]
        donors.append(int(others[torch.randint(len(others), (), generator=generator)]))
    chosen = torch.tensor(donors)
    if kind == "transplant":
        return flat[chosen], chosen
    assert means is not None
    assert target is not None
    return means[target[chosen]], chosen


def _divided(
    target: Int[Tensor, " batch"] | None, batch: int, fit_share: float, generator: Generator
) -> tuple[Int[Tensor, " fit"], Int[Tensor, " test"]]:
    """Return the sequences that determine the subspace and those that are tested, with the same shares of classes."""
    fit: list[int] = []
    test: list[int] = []
    groups = (
        [torch.arange(batch)]
        if target is None
        else [(target == number).nonzero()[:, 0] for number in range(int(target.max()) + 1)]
    )
    for number, rows in enumerate(groups):
        if len(rows) < 2:
            what = "sequences" if target is None else f"sequences of the class {number}"
            raise ValueError(f"At least two {what} are needed, one of them to be tested, but there are {len(rows)}.")
        drawn = rows[torch.randperm(len(rows), generator=generator)].tolist()
        first = min(max(round(fit_share * len(rows)), 1), len(rows) - 1)
        fit += drawn[:first]
        test += drawn[first:]
    if len(test) < 2:
        raise ValueError("At least two sequences are tested, so that one can be the donor of the other: pass more.")
    return torch.tensor(sorted(fit)), torch.tensor(sorted(test))


def _classes_at(
    variable: Tensor | None, at: int, steps: int, batch: int, batch_first: bool, going_on: Bool[Tensor, " batch"]
) -> Int[Tensor, " batch"] | None:
    """Return the class of each sequence at a step, numbered from 0 without gaps; -1 for those that are left out."""
    if variable is None:
        return None
    given = torch.as_tensor(variable).cpu()
    if given.dim() == 2 and batch_first:
        given = given.T
    if given.shape not in ((batch,), (steps, batch)) or given.is_floating_point():
        layout = f"({batch}, {steps})" if batch_first else f"({steps}, {batch})"
        raise ValueError(
            f"variable must hold whole class numbers, ({batch},) for one per sequence or {layout} for one per step, "
            f"but is {given.dtype} of shape {tuple(torch.as_tensor(variable).shape)}."
        )
    here = (given if given.dim() == 1 else given[at]).long().masked_fill(~going_on, -1)
    classes = here[here >= 0].unique()
    if len(classes) < 2:
        raise ValueError(f"At least two classes are needed at step {at}, but there are {classes.tolist()}.")
    return torch.where(here >= 0, torch.searchsorted(classes, here), -1)


def _check_options(kind: str, answers: str, at: int, fit_share: float, controls: int) -> None:
    if kind not in ("erase", "swap", "transplant"):
        raise ValueError(f"kind must be 'erase', 'swap' or 'transplant', but is {kind!r}.")
    if answers not in ("values", "classes", "bits"):
        raise ValueError(f"answers must be 'values', 'classes' or 'bits', but is {answers!r}.")
    check_whole(0, at=at)
    check_whole(20, controls=controls)
    if not is_number(fit_share) or not 0 < fit_share < 1:
        raise ValueError(f"fit_share must be a number between 0 and 1, but is {fit_share!r}.")


def _check_others(subspace: Subspace, others: Tensor) -> None:
    if subspace.dimension > others.shape[1]:
        raise ValueError(
            f"The subspace has {subspace.dimension} directions, and the states differ in only {others.shape[1]} "
            f"others: a control needs as many. Use more sequences, fewer classes or fewer directions, such as those of "
            f"one variable of a basis."
        )


def _device(state: State) -> torch.device:
    return leaves(state)[0].device
