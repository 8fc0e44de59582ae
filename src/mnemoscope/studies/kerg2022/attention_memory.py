"""Memory of training as sequences grow, with and without attention to the past (Kerg, section 4.7 and Fig 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from mnemoscope import registry
from mnemoscope.base.array_types import Float
from mnemoscope.base.torch_state import restored_generators
from mnemoscope.cells import Cell, scan
from mnemoscope.drawing.axes import new_figure
from mnemoscope.drawing.svg import COLOUR, PAGE_FONT_SIZE, style_page_axes
from mnemoscope.replication.agreement import Agreement, at_most, chosen
from mnemoscope.replication.claims import Claim, Row, about
from mnemoscope.replication.computed_study import ComputedStudy, legend_above, plain_powers
from mnemoscope.replication.learning_study import colours
from mnemoscope.replication.study import Finished, Preset, Trial
from mnemoscope.studies.kerg2022.notation import thesis
from mnemoscope.tasks import Denoise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROWTH = {"rnn": 1, "lstm": 1, "memrnn": 2, "sab": 2, "relrnn": 1, "rellstm": 1}
"""Published power of T with which the memory of a network grows."""
IN_WORDS = {1: "linear", 2: "quadratic"}
BACKENDS: dict[Literal["loop", "fused"], str] = {"loop": "step by step", "fused": "as one operator"}
"""How a sequence is run. Step by step, the gradient keeps what every step has read, as in the published code."""
LENGTHS = (200, 400, 600, 800, 1000, 2000)
EXPONENT = "exponent of memory in T"
SAME_FACTOR = "factor by which MemRNN / SAB changes from T = 1,000 to 2,000"
IDENTICAL = "memory of RelLSTM / RelRNN"
INCREASE = "increase from T = 400 to 800, as a share of MemRNN's"
BATCH, OF_THE_GPU = 10, 12.0
"""Sequences of a published batch, and GB of the GPU of section 4.7, a TitanXP."""
OVERFLOW = f"GB for {BATCH} sequences at T = 2,000"
OVERFLOWS = {"copy": "B.4 Table 2", "denoise": "chapter 4 Table 2"}
"""Tasks that MemRNN learned at T = 1,000, and whose training ran out of memory at T = 2,000."""
FIG_2_CENTRE, FIG_2_RIGHT = thesis("section 4.7 and Fig 2 (centre)"), thesis("section 4.7 and Fig 2 (right)")


def _growth(power: int) -> Agreement:
    return chosen(power - 0.25, power + 0.25, "our reading: a quarter off, so that linear and quadratic lie far apart")


def _claims() -> Iterable[Claim]:
    for network, power in GROWTH.items():
        yield Claim(about(network), EXPONENT, IN_WORDS[power], FIG_2_CENTRE, _growth(power))
    constant = chosen(0.8, 1.25, "our reading of 'a constant factor': 1 in 4 off; it would be 2 if SAB were linear")
    yield Claim(about("sab"), SAME_FACTOR, "only a constant factor less", FIG_2_CENTRE, constant)
    identical = chosen(0.9, 1.1, "our reading of 'identical' for lines of a figure: within a tenth")
    yield Claim(about("rellstm"), IDENTICAL, "identical", thesis("section 4.7, footnote 1"), identical)
    little = at_most(0.1, "our reading of 'very little' in a figure that MemRNN fills: a tenth")
    for network in ("rnn", "lstm", "rellstm"):
        yield Claim(about(network), INCREASE, "very little", FIG_2_RIGHT, little)
    too_much = chosen(
        OF_THE_GPU,
        4 * OF_THE_GPU,
        "more than the 12 GB of the published GPU; T = 1,000 still fitted, and memory is at most quadratic in T",
    )
    for task, place in OVERFLOWS.items():
        yield Claim(about("memrnn", task), OVERFLOW, "out of memory", thesis(place), too_much)


AS_PUBLISHED = Preset(
    "As published: 128 units, sequences of 200 to 2,000 steps; a minute, and 4 GB of memory.",
    {"cases": {name: {"network": name, "units": 128, "lengths": LENGTHS} for name in GROWTH}},
)


class AttentionMemory(ComputedStudy):
    """Count the numbers that a forward pass keeps for the gradient, at several lengths of the denoise task.

    The peak of a training step on a GPU, which the source shows, is this memory plus that of a few temporary tensors;
    `benchmarks/attention.py` measures it. Every tensor counts once, and parameters do not count. Memory is proportional
    to the batch, which has one sequence here.
    """

    name = "attention-memory"
    title = "Memory of training with attention to the past"
    question = "How does the memory of training grow with the length of the sequence?"
    claims = tuple(_claims())
    presets: Mapping[str, Preset] = {
        "smoke": Preset(
            "Networks of 8 units and sequences of up to 60 steps, to check that the code runs.",
            {"cases": {name: {"network": name, "units": 8, "lengths": (15, 30, 60)} for name in GROWTH}},
        ),
        "cpu": AS_PUBLISHED,
        "paper": AS_PUBLISHED,
    }
    cites = ("kerg2020", "ke2018")
    caption = (
        "Memory that a forward pass keeps for the gradient, per sequence, against its length. Left: step by step, as "
        "in the published code. Right: the same networks with the scans of this library."
    )

    def compute(self, generator: torch.Generator, **case: Any) -> dict[str, Any]:
        tasks = {length: Denoise(delay=length) for length in case["lengths"]}
        inputs = {length: task.batch(1, generator.initial_seed(), 0).inputs for length, task in tasks.items()}
        with restored_generators():
            torch.default_generator.manual_seed(generator.initial_seed())
            cell = registry.cells.load(case["network"])(next(iter(tasks.values())).input_size, case["units"])
        return {
            backend: [[length, kept_for_gradient(cell, xs, backend)] for length, xs in inputs.items()]
            for backend in BACKENDS
        }

    def summarise(self, results: Sequence[Finished]) -> list[Row]:
        memory = {each.trial.name: dict(each.result["loop"]) for each in results}
        rows = []
        for each in results:
            name = each.trial.name
            for backend, in_words in BACKENDS.items():
                used = dict(each.result[backend])
                power, (last, most) = growth(used), list(used.items())[-1]
                remark = f"{most / 1e6:,.1f} MB per sequence at T = {last:,}, {in_words}"
                if backend == "loop":
                    rows.append(self.row([each], EXPONENT, [power], ".2f", remark))
                else:
                    rows.append(Row(f"{name}: {EXPONENT}, {in_words}", "", f"{power:.2f}", remark=remark))
        rows += self._comparison(results, "sab", SAME_FACTOR, _change_of_ratio(memory, "memrnn", "sab"))
        rows += self._comparison(results, "rellstm", IDENTICAL, _last_ratio(memory, "rellstm", "relrnn"))
        rows += self._overflows(results)
        for name in memory:
            if self.find_claim(INCREASE, about(name)):
                rows += self._comparison(results, name, INCREASE, _share_of_increase(memory, name, "memrnn"))
        return rows

    def _overflows(self, results: Sequence[Finished]) -> list[Row]:
        """Return the rows about trainings that ran out of memory; both tasks have about T + 20 steps."""
        trials = [each for each in results if each.trial.name == "memrnn"]
        needed = [BATCH * dict(each.result["loop"]).get(2000, 0) / 1e9 for each in trials]
        if not any(needed):
            return []
        before = ", ".join(f"{BATCH * dict(each.result['loop'])[1000] / 1e9:.1f}" for each in trials)
        remark = f"step by step; {before} GB at T = 1,000; measured on the denoise task"
        claims = [self.claim(OVERFLOW, about("memrnn", task)) for task in OVERFLOWS]
        return [self.compare(trials, claim, needed, f"{needed[0]:.1f}", remark) for claim in claims]

    def _comparison(self, results: Sequence[Finished], network: str, quantity: str, value: float | None) -> list[Row]:
        """Return the row of a comparison with another network, or nothing if it was not measured."""
        trials = [each for each in results if each.trial.name == network]
        return [] if value is None else [self.row(trials, quantity, [value], ".3g", "step by step")]

    def as_published(self, trial: Trial) -> bool:
        return tuple(trial.settings["lengths"]) == LENGTHS

    def figure(self, results: Sequence[Finished]) -> Figure:
        figure = new_figure(7.2, 3.8)
        panels = dict(zip(BACKENDS, figure.subplots(1, 2, sharey=True), strict=True))
        for each, colour in zip(results, colours(), strict=False):
            for backend, axes in panels.items():
                lengths, used = zip(*each.result[backend], strict=True)
                axes.plot(lengths, [n / 1e6 for n in used], color=colour, marker=".", label=each.trial.name)
        for backend, axes in panels.items():
            axes.set(xlabel="steps", xscale="log", yscale="log")
            axes.set_title(BACKENDS[backend], fontsize=PAGE_FONT_SIZE, color=COLOUR["muted"])
            for axis in (axes.xaxis, axes.yaxis):
                plain_powers(axis)
            style_page_axes(axes)
        panels["loop"].set_ylabel("MB per sequence")
        lines, labels = panels["loop"].get_legend_handles_labels()
        legend_above(figure, 3, dict(zip(labels, lines, strict=True)))
        return figure


def kept_for_gradient(cell: Cell, xs: Float[Tensor, "time batch features"], backend: Literal["loop", "fused"]) -> int:
    """Return the bytes of the distinct tensors that a forward pass keeps for the backward pass, without parameters."""
    kept: dict[int, Tensor] = {}  # the tensors stay alive, so that no address is used twice

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = scan(cell, xs, backend=backend)[0]
    for parameter in cell.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert outputs.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def growth(memory: Mapping[int, int]) -> float:
    """Return the exponent of memory in T, between the two longest sequences.

    >>> growth({10: 1, 100: 5, 200: 20})
    2.0
    """
    (shorter, less), (longer, more) = sorted(memory.items())[-2:]
    return log(more / less) / log(longer / shorter)


def _last_ratio(memory: Mapping[str, Mapping[int, int]], one: str, other: str) -> float | None:
    if one not in memory or other not in memory:
        return None
    last = max(memory[one])
    return memory[one][last] / memory[other][last]


def _change_of_ratio(memory: Mapping[str, Mapping[int, int]], one: str, other: str) -> float | None:
    if one not in memory or other not in memory:
        return None
    before, last = sorted(memory[one])[-2:]
    return (memory[one][last] / memory[other][last]) / (memory[one][before] / memory[other][before])


def _share_of_increase(memory: Mapping[str, Mapping[int, int]], network: str, other: str) -> float | None:
    if other not in memory or not {400, 800} <= set(memory[network]):
        return None
    return (memory[network][800] - memory[network][400]) / (memory[other][800] - memory[other][400])


STUDY = AttentionMemory()
