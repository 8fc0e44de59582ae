"""Variables of a trained network from its weights: the extraction, from the network to the tested answer."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from mnemoscope.base.array_types import Float
from mnemoscope.lenses.variables.causal import causal_tests
from mnemoscope.lenses.variables.linearised import Linearised, Readout, checked_inputs, fitted, linearised
from mnemoscope.lenses.variables.memories import Status, Variables, judged
from mnemoscope.lenses.variables.modes import KEPT, LASTING_STEPS, Modes, memory_modes
from mnemoscope.lenses.variables.published import published_structure
from mnemoscope.lenses.variables.structure import Structure, structure
from mnemoscope.lenses.variables.trials import random_inputs, run_trials

BATCH = 64
LASTING_ALONG_STATES = 256


def find_variables(
    network: Any,
    readout: Readout | None = None,
    *,
    inputs: Float[Tensor, "time batch features"] | None = None,
    variables: Float[Tensor, "time batch size"] | None = None,
    number: int | None = None,
    method: Literal["modes", "published"] = "modes",
    around: Literal["rest", "states"] = "rest",
    rest: Float[Tensor, " units"] | None = None,
    lasting: int | None = None,
    seed: int = 0,
) -> Variables:
    """Which variables a network holds, in which directions, and whether that explains what it does.

    From the weights alone: the network is linearised where it rests; its memory modes are those that inputs reach, the
    readout sees and time does not wear out; the readings of the last N steps are the variables; what comes next is F.
    Then it is tried: variables are decoded from the states of trials, and states are changed to see whether the future
    changes as predicted. Karuvally et al. 2023, sections 5 to 11; the bases are found by modes, as the pseudo-inverse
    of the readout and powers of the recurrent matrix (`method="published"`) miss them in most trained networks.

    Args:
        network: a mnemoscope `Model`, or any network that `adapt` takes (torch.nn.RNN, GRU, LSTM, a cell), with
        readout: its readout of the state: an nn.Linear, a matrix (outputs, features), or a function of the output.
        inputs: sequences to try it on; by default N random vectors of bits, then zeros.
        variables: x(t) that the network should hold then, such as a task's targets after its inputs; by default the
            inputs, and then what F makes of them.
        number: N, if it is known; estimated by default. The published way needs it.
        method: "modes", or "published".
        around: "rest": linearised where the network rests, from the weights alone; "states": the linear step that is
            nearest to the network's own along the states that `inputs` lead to, which suits networks that saturate.
        rest: where to linearise, a flat state; by default the fixed point nearest to the initial state.
        lasting: steps that a mode must last to hold memory; 32 by default, and 256 along states, where memory modes
            do not fade, and products of variables, which a nonlinear network forms beside them, do so slowly.
        seed: of the trials and the tests.

    >>> from mnemoscope.lenses.variables.planted import planted
    >>> net = planted(3, 2, units=12, transients=4, generator=torch.Generator().manual_seed(0))
    >>> found = find_variables(net.model)
    >>> found.status, found.variables, found.size
    ('explained', 3, 2)

    """
    lasting = (LASTING_ALONG_STATES if around == "states" else LASTING_STEPS) if lasting is None else lasting
    _check(method, around, number, lasting, inputs is not None, variables is not None)
    looked = linearised(network, readout, rest)
    if inputs is not None:
        inputs = checked_inputs(looked, inputs)
        looked = fitted(looked, inputs) if around == "states" else looked
    modes = memory_modes(looked.A, looked.B, looked.C, lasting)

    def answer(status: Status, reason: str, found: Structure | None = None, **more: Any) -> Variables:
        return Variables(
            looked.name, method, around, status, reason, looked.fixed_point, looked.rest_outputs, modes, found, **more
        )

    if not modes.count:
        return answer("none", _nothing(modes, looked, around))
    if method == "published":
        assert number is not None
        found = published_structure(looked.A, looked.C, number)
    else:
        modes, found = _first_whole(modes, looked.C, number)
    if isinstance(found, str):
        return answer("none", f"{found[0].upper()}{found[1:].rstrip('.')}.")
    if inputs is None:
        features = looked.B.shape[1]
        if features != found.basis.size:
            reason = (
                f"Variables have {found.basis.size} elements, but the network takes {features} inputs: pass inputs and "
                f"variables to try it on."
            )
            return answer("untested", reason, found)
        inputs = random_inputs(found, BATCH, torch.Generator().manual_seed(seed))
    trials = run_trials(looked, found, inputs, variables)
    if isinstance(trials, str):
        return answer("untested", f"{trials[0].upper()}{trials[1:]}.", found)
    tests = causal_tests(looked, found, trials, torch.Generator().manual_seed(seed))
    near = {
        "rest": "The network was linearised where it rests, and tried as it is.",
        "states": "A linear network was fitted to its states, and it was tried as it is.",
    }[around]
    status, reason = judged(trials, tests, "The network is linear." if looked.linear else near)
    return answer(status, reason, found, trials=trials, tests=tests)


def _check(method: str, around: str, number: int | None, lasting: int, inputs: bool, variables: bool) -> None:
    """Whether the options go together; `inputs` and `variables`: whether they were given."""
    if method not in ("modes", "published"):
        raise ValueError(f'method must be "modes" or "published", but is {method!r}.')
    if method == "published" and number is None:
        raise ValueError("The published way does not tell how many variables there are: pass number=N.")
    if lasting < 1 or (number is not None and number < 1):
        raise ValueError(f"lasting and number are at least 1, but {lasting=} and {number=}.")
    if around not in ("rest", "states"):
        raise ValueError(f'around must be "rest" or "states", but is {around!r}.')
    if not inputs and (variables or around == "states"):
        what = "variables say what is held while inputs come" if variables else "states come from inputs"
        raise ValueError(f"{what[0].upper()}{what[1:]}: pass inputs=... as well.")


def _nothing(modes: Modes, looked: Linearised, around: str) -> str:
    """Why there are no memory modes."""
    longest = int((modes.eigenvalues.abs().clamp(max=1) ** modes.steps >= KEPT).sum())
    where = "where the network rests" if around == "rest" else "of the linear step"
    why = (
        f"of {longest} that last, inputs reach none, or the readout sees none of those"
        if longest
        else f"the largest |lambda| {where} is {float(modes.eigenvalues.abs().max()):.3f}"
    )
    reason = (
        f"No mode that inputs reach and the readout sees lasts for {modes.steps} steps ({why}): it holds nothing "
        f"there, or holds it by other means, such as several fixed points."
    )
    if looked.kinks and around == "rest":
        reason += (
            f" {looked.kinks} units rest at the kink of relu, where there is no derivative, and 0 was taken for it: "
            f'try around="states".'
        )
    return reason


def _first_whole(modes: Modes, C: Tensor, number: int | None) -> tuple[Modes, Structure | str]:
    """The largest gap of the scores above which the modes are a succession of variables; where none is, the largest
    of all, and why it is not.

    Nonlinear networks form products of variables, too, which last nearly as long; they have no place in a succession.
    """
    first = None
    for cut in modes.cuts():
        found = structure(cut, C, number)
        if not isinstance(found, str):
            return cut, found
        first = found if first is None else first
    assert first is not None
    return modes, first
