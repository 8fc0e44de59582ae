"""Find the variables of a trained network from its weights, and test them on the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from mnemoscope.base.array_types import Float
from mnemoscope.base.plurals import listed
from mnemoscope.base.progress import show_slow
from mnemoscope.base.seeds import seeded_generator
from mnemoscope.lenses.variables.interventions import PASSED, REMOVED, CausalTest, causal_tests
from mnemoscope.lenses.variables.linearisation import Linearisation, Readout, check_inputs, fit_to_states, linearise
from mnemoscope.lenses.variables.modes import KEPT, LASTING_STEPS, Modes, memory_modes
from mnemoscope.lenses.variables.result import Status, Variables
from mnemoscope.lenses.variables.structure import Structure, find_structure, structure_by_powers
from mnemoscope.lenses.variables.trials import Trials, random_inputs, run_trials

BATCH = 64
"""Number of random trials."""
LASTING_ALONG_STATES = 256
"""Steps that a mode must last by default if the linear step is fitted to states."""
RETAINED = 0.5
"""Lowest retention of variables that last; its inverse is the highest."""


@show_slow("variables")
def find_variables(
    network: Any,
    readout: Readout | None = None,
    *,
    inputs: Float[Tensor, "time batch features"] | PackedSequence | None = None,
    variables: Float[Tensor, "time batch size"] | None = None,
    number: int | None = None,
    method: Literal["modes", "published"] = "modes",
    around: Literal["rest", "states"] = "rest",
    rest: Float[Tensor, " units"] | None = None,
    lasting: int | None = None,
    seed: int = 0,
) -> Variables:
    """Find the variables that a network holds and the directions that hold them, and test whether they explain it.

    The search needs only the weights. The network is linearised at a fixed point; its memory modes are those that
    inputs reach, the readout sees and time does not erase; the readings of the last N steps are the variables; F maps
    them to the next one. Then the variables are tested: they are decoded from the states of trials, and states are
    changed to see whether the future changes as predicted. Karuvally et al. 2023, sections 5 to 11. The bases are found
    by modes, as the pseudo-inverse of the readout and powers of the recurrent matrix (`method="published"`) miss them
    in most trained networks.

    Args:
        network: a mnemoscope `Model`, or any network that `adapt` takes (torch.nn.RNN, GRU, LSTM, a cell), with
        readout: its readout of the state: an nn.Linear, a matrix (outputs, features), or a function of the output.
        inputs: sequences for the tests, in the layout of the network, as `variables`: (batch, time, ...) if it is a
            torch.nn module with `batch_first`; by default N random vectors of bits, then zeros. All trials have the
            same length, as states are changed at the same step of each: use one call for each length.
        variables: x(t) that the network should hold, such as a task's targets; by default the inputs, and then F of the
            last N variables.
        number: N, if it is known; estimated by default. The published method needs it.
        method: "modes" or "published".
        around: "rest": linearise at the fixed point, from the weights alone; "states": fit a linear step to the states
            that `inputs` lead to, which suits networks that saturate.
        rest: fixed point at which to linearise, a flat state; by default the one nearest to the initial state.
        lasting: steps that a mode must last to hold memory. The default is 32; 128 and 512 are tried if 32 leave it
            unclear where memory modes end and slow transients begin, or if the variables found do not explain the
            network. For `around="states"` it is 256: there memory modes do not fade, while products of variables,
            which a nonlinear network also forms, fade slowly.
        seed: seed of the trials and the tests.

    >>> from mnemoscope.lenses.variables.planted import planted_network
    >>> net = planted_network(3, 2, units=12, transients=4, generator=torch.Generator().manual_seed(0))
    >>> found = find_variables(net.model)
    >>> found.status, found.variables, found.size
    ('explained', 3, 2)

    """
    _check_options(method, around, number, lasting, inputs is not None, variables is not None)
    linear = linearise(network, readout, rest)
    if linear.dynamics.batch_first and variables is not None:
        variables = torch.as_tensor(variables).transpose(0, 1)
    if inputs is not None:
        inputs = check_inputs(linear, inputs)
        linear = fit_to_states(linear, inputs) if around == "states" else linear
    tried = (lasting,) if lasting else (LASTING_ALONG_STATES,) if around == "states" else LASTING_STEPS
    candidates = _candidates(linear, tried, number if method == "modes" else None)
    if method == "published":
        assert number is not None
        candidates = [(next(candidates)[0], structure_by_powers(linear.A, linear.C, number, linear.precision))]
    answers: list[Variables] = []
    for modes, structure in candidates:
        unclear = _why_unclear(modes, tried) if modes.count and method == "modes" else ""
        status, reason, tested = _examine(linear, modes, structure, inputs, variables, around, seed)
        reason = f"{reason[0].upper()}{reason[1:].rstrip('.')}.{unclear}"
        name, point, outputs = linear.name, linear.fixed_point, linear.rest_outputs
        answers.append(Variables(name, method, around, status, reason, point, outputs, modes, **tested))
        if status == "explained":
            return answers[-1]
    if len(answers) > 1:
        others = listed(map(str, sorted(answer.modes.steps for answer in answers[1:])))
        reason = f"{answers[0].reason} Modes that last for {others} steps do not explain the network either."
        return replace(answers[0], reason=reason)
    return answers[0]


def _examine(
    linear: Linearisation,
    modes: Modes,
    structure: Structure | str,
    inputs: Tensor | None,
    variables: Tensor | None,
    around: str,
    seed: int,
) -> tuple[Status, str, dict[str, Any]]:
    """Test a structure on the network; return the status, its reason, and the structure with its trials and tests."""
    if not modes.count:
        return "none", _why_no_modes(modes, linear, around), {}
    if isinstance(structure, str):
        return "none", structure, {}
    if inputs is None:
        features = linear.B.shape[1]
        if features != structure.basis.size:
            reason = (
                f"Variables have {structure.basis.size} elements, but the network takes {features} inputs: pass inputs "
                f"and variables for the tests"
            )
            return "untested", reason, {"structure": structure}
        inputs = random_inputs(linear, structure, BATCH, seeded_generator(seed))
    tried_out = run_trials(linear, structure, inputs, variables)
    if isinstance(tried_out, str):
        return "untested", tried_out, {"structure": structure}
    structure, trials = tried_out
    tests = causal_tests(linear, structure, trials, seeded_generator(seed))
    status, reason = _judge(trials, tests)
    method_note = {
        "rest": "The network was linearised at a fixed point; the tests use the network itself.",
        "states": "A linear step was fitted to the states of the network; the tests use the network itself.",
    }[around]
    method_note = "The network is linear." if linear.linear else method_note
    return status, f"{method_note} {reason}", {"structure": structure, "trials": trials, "tests": tests}


def _check_options(
    method: str, around: str, number: int | None, lasting: int | None, inputs: bool, variables: bool
) -> None:
    """Raise if options are unknown or contradict each other; `inputs`, `variables`: whether they were given."""
    if method not in ("modes", "published"):
        raise ValueError(f'method must be "modes" or "published", but is {method!r}.')
    if method == "published" and number is None:
        raise ValueError("The published method does not estimate the number of variables: pass number=N.")
    if (lasting is not None and lasting < 1) or (number is not None and number < 1):
        raise ValueError(f"lasting and number are at least 1, but {lasting=} and {number=}.")
    if around not in ("rest", "states"):
        raise ValueError(f'around must be "rest" or "states", but is {around!r}.')
    if not inputs and (variables or around == "states"):
        option = "variables=..." if variables else 'around="states"'
        raise ValueError(f"{option} needs trials: pass inputs=... as well.")


def _why_no_modes(modes: Modes, linear: Linearisation, around: str) -> str:
    longest = int((modes.eigenvalues.abs().clamp(max=1) ** modes.steps >= KEPT).sum())
    where = "at the fixed point" if around == "rest" else "of the linear step"
    why = (
        f"of {longest} that last, inputs reach none, or the readout sees none of those"
        if longest
        else f"the largest |lambda| {where} is {float(modes.eigenvalues.abs().max()):.3f}"
    )
    reason = (
        f"No mode that inputs reach and the readout sees lasts for {modes.steps} steps ({why}): the network holds "
        f"nothing there, or holds it by other means, such as several fixed points."
    )
    if linear.kinks and around == "rest":
        reason += (
            f" {linear.kinks} units rest at the kink of relu, where the derivative does not exist and 0 was used: try "
            f'around="states".'
        )
    return reason


def _candidates(
    linear: Linearisation, tried: tuple[int, ...], number: int | None
) -> Iterator[tuple[Modes, Structure | str]]:
    """Yield the modes that may hold the variables, with their structure, in the order in which to test them.

    Modes with a clear gap that are a succession of variables come first, from short times to long ones: a slow
    transient may be above a wide gap if inputs drive it strongly. Other successions follow, by the width of their gap.
    Without any succession, the first attempt is the only candidate.
    """
    attempts: list[tuple[Modes, Structure | str]] = []
    tested: set[int] = set()
    for steps in tried:
        modes = memory_modes(linear.A, linear.B, linear.C, steps)
        if not modes.count:
            attempts.append((modes, ""))
            break
        modes, structure = _first_succession(modes, linear, number)
        attempts.append((modes, structure))
        if modes.clear and isinstance(structure, Structure) and modes.count not in tested:
            tested.add(modes.count)
            yield modes, structure
    for modes, structure in sorted(attempts, key=lambda attempt: -attempt[0].gap):
        if isinstance(structure, Structure) and modes.count not in tested:
            tested.add(modes.count)
            yield modes, structure
    if not tested:
        yield attempts[0]


def _first_succession(modes: Modes, linear: Linearisation, number: int | None) -> tuple[Modes, Structure | str]:
    """Return the modes above the largest gap of the scores that are a succession of variables, and their structure.

    If no gap yields one, return the reason at the largest gap. Nonlinear networks also form products of variables,
    which last nearly as long; they do not fit into a succession.
    """
    tried = []
    for cut in modes.cuts():
        tried.append((cut, find_structure(cut, linear.C, number, linear.precision)))
        if isinstance(tried[-1][1], Structure):
            return tried[-1]
    return tried[0]


def _why_unclear(modes: Modes, tried: tuple[int, ...]) -> str:
    """Return a sentence on the gap below the memory modes if it is narrow, else nothing."""
    if modes.clear:
        return ""
    times = listed(map(str, tried))
    return (
        f" There is no clear gap between modes that last and modes that fade: the next score is only {modes.gap:.3g} "
        f"times lower, so that the number of memory modes is uncertain (tried: lasting={times})."
    )


def _judge(trials: Trials, tests: tuple[CausalTest, ...]) -> tuple[Status, str]:
    """Decide from decoding and tests whether the variables explain the network, and give the numbers."""
    score, unit, verb = (trials.sign_accuracy, "signs", "are") if trials.bits else (trials.r2, "variance", "is")
    over_time = trials.sign_accuracy_over_time if trials.bits else trials.r2_over_time
    early = float(over_time[trials.settled][: trials.number].mean())
    if early >= PASSED and not RETAINED <= trials.retention <= 1 / RETAINED:
        change = "fade" if trials.retention < RETAINED else "grow"
        return "refuted", (
            f"The variables {change}: after {trials.steps} steps they have {trials.retention:.3g} times their size."
        )
    if score < PASSED:
        return "refuted", f"Only {max(score, 0):.1%} of the {unit} of the variables {verb} decoded."
    failed = [test.name for test in tests if not test.passed]
    if failed:
        return "refuted", f"These interventions did not change the future as predicted: {', '.join(failed)}."
    lowest = min(test.score for test in tests if test.name != REMOVED)
    lost = next(test.agreement for test in tests if test.name == REMOVED)
    return "explained", (
        f"{score:.2%} of the {unit} {verb} decoded over {trials.steps} steps, at least {lowest:.2%} of the future is "
        f"as predicted after {len(tests) - 1} interventions, and {lost:.2%} of it is lost if the memory is removed."
    )
