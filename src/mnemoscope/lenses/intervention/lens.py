"""The intervention lens: change a variable in the state, and compare the effect with that of random subspaces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from mnemoscope.base.array_types import Float, Int
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.base.validation import check_whole, is_number
from mnemoscope.cells import Lengths, Network, scan
from mnemoscope.lenses.controls import scale_to
from mnemoscope.lenses.intervention.continuation import Continuation, Experiment
from mnemoscope.lenses.intervention.result import Intervention
from mnemoscope.lenses.intervention.scores import Scale
from mnemoscope.lenses.intervention.sequences import Readout, divided_sequences, read_sequences
from mnemoscope.lenses.intervention.state_part import StatePart, select
from mnemoscope.lenses.intervention.subspace import (
    Directions,
    Subspace,
    class_means,
    nearest_mean_accuracy,
    other_directions,
    random_subspace,
)
from mnemoscope.lenses.whole_network import in_evaluation_mode


@show_slow("intervention")
@in_evaluation_mode
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
    given = read_sequences(network, inputs, variable, at, readout, mask, lengths)
    _check_known(kind, given.target is not None, directions is not None)
    generator = seeded_generator(seed)
    fit, test = divided_sequences(given.target, given.xs.shape[1], fit_share, generator)
    state = scan(given.cell, given.xs[: at + 1])[1]
    part = StatePart.named(given.cell, state, name)
    flat = part.read(state).cpu()
    fitted = _Fitted.of(flat[fit], None if given.target is None else given.target[fit], directions)
    others = other_directions(flat, fitted.subspace)
    _check_others(fitted.subspace, others)

    aims, donors = _aims(kind, flat, test, given.target, fitted, generator)
    run = Continuation(given.cell, given.read, given.xs[at + 1 :][:, test.to(given.xs.device)])
    tested = select(state, test)
    donor = None if donors is None else run(select(state, donors))
    scale = Scale(answers, run(tested), donor, given.counts[at + 1 :][:, test])
    change, random_changes = _changes(aims - flat[test], fitted.subspace, others, controls, generator)
    scores, *random = Experiment(run, part, tested, scale).scores([change, *random_changes])

    decoded, guessed = _decoded(fitted, flat[test], None if given.target is None else given.target[test])
    return Intervention(
        kind=kind,
        answers=answers,
        part="the state" if name is None else name,
        at=at,
        dimension=fitted.subspace.dimension,
        span=others.shape[1],
        fitted=len(fit),
        size=float(change.norm(dim=1).mean() / (flat[test] - fitted.centre).norm(dim=1).mean()),
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
class _Fitted:
    """The subspace of a variable with its means, from the sequences that are not tested."""

    subspace: Subspace
    means: Float[Tensor, "classes size"] | None
    """Mean state of each class; None without a variable."""
    centre: Float[Tensor, " size"]
    """Mean of the class means, or of the states without a variable."""

    @classmethod
    def of(
        cls, states: Float[Tensor, "fit size"], target: Int[Tensor, " fit"] | None, directions: Directions | None
    ) -> _Fitted:
        means = None if target is None else class_means(states, target, int(target.max()) + 1)
        centre = states.mean(0) if means is None else means.mean(0)
        if directions is not None:
            return cls(Subspace.given(directions, states.shape[1]), means, centre)
        assert means is not None
        return cls(Subspace.spanned((means - centre).mT), means, centre)


def _changes(
    way: Float[Tensor, "test size"],
    subspace: Subspace,
    others: Float[Tensor, "size directions"],
    controls: int,
    generator: torch.Generator,
) -> tuple[Float[Tensor, "test size"], list[Float[Tensor, "test size"]]]:
    """Return the changes towards the aims within the subspace, and those within random ones, of the same lengths."""
    change = subspace.project(way)
    drawn = (random_subspace(others, subspace.dimension, generator) for _ in range(controls))
    return change, [scale_to(control.project(way), change) for control in drawn]


def _decoded(
    fitted: _Fitted, states: Float[Tensor, "test size"], target: Int[Tensor, " test"] | None
) -> tuple[Float[Tensor, " test"] | None, float | None]:
    """Return whether the nearest class mean is the right one, and the share of the commonest class; None if unknown."""
    if target is None or fitted.means is None:
        return None, None
    decoded = nearest_mean_accuracy(fitted.subspace, states, target, fitted.means)
    return decoded, float(torch.bincount(target).max() / len(target))


def _aims(
    kind: str,
    flat: Float[Tensor, "batch size"],
    test: Int[Tensor, " tested"],
    target: Int[Tensor, " batch"] | None,
    fitted: _Fitted,
    generator: Generator,
) -> tuple[Float[Tensor, "tested size"], Int[Tensor, " tested"] | None]:
    """Return the states towards which the tested ones are moved, and the sequences with whose whole state to compare.

    Donors are drawn from the tested sequences, so that none of them determined the subspace.
    """
    if kind == "erase":
        return fitted.centre.expand(len(test), -1), None
    donors = []
    for row in test.tolist():
        others = test[test != row] if target is None else test[target[test] != target[row]]
        donors.append(int(others[torch.randint(len(others), (), generator=generator)]))
    chosen = torch.tensor(donors)
    if kind == "transplant":
        return flat[chosen], chosen
    assert fitted.means is not None
    assert target is not None
    return fitted.means[target[chosen]], chosen


def _check_options(kind: str, answers: str, at: int, fit_share: float, controls: int) -> None:
    if kind not in ("erase", "swap", "transplant"):
        raise ValueError(f"kind must be 'erase', 'swap' or 'transplant', but is {kind!r}.")
    if answers not in ("values", "classes", "bits"):
        raise ValueError(f"answers must be 'values', 'classes' or 'bits', but is {answers!r}.")
    check_whole(0, at=at)
    check_whole(20, controls=controls)
    if not is_number(fit_share) or not 0 < fit_share < 1:
        raise ValueError(f"fit_share must be a number between 0 and 1, but is {fit_share!r}.")


def _check_known(kind: str, classes: bool, directions: bool) -> None:
    """Raise unless there is a subspace, and for a swap another class."""
    if classes or (kind != "swap" and directions):
        return
    what = "A swap moves states to the mean of another class" if kind == "swap" else "The subspace is not known"
    raise ValueError(f"{what}: pass variable, a class number for each sequence{', or directions' * (kind != 'swap')}.")


def _check_others(subspace: Subspace, others: Tensor) -> None:
    if subspace.dimension > others.shape[1]:
        raise ValueError(
            f"The subspace has {subspace.dimension} directions, and the states differ in only {others.shape[1]} "
            f"others: a control needs as many. Use more sequences, fewer classes or fewer directions, such as those of "
            f"one variable of a basis."
        )
