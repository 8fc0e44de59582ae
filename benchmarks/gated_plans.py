"""Time of every grid of a scan of gates or leaky units on a GPU, beside cuDNN: what `kernels/gated_plans.py` rests on.

    python benchmarks/gated_plans.py --keep                         all sizes
    python benchmarks/gated_plans.py --cells lstm --sizes 256 --batches 16

Forward and backward together and forward alone, microseconds per step, float32, medians of repeats that take turns.
"cuDNN" has the accuracy of float32 as all plans do, "cuDNN, tf32" is its default; it has no GORU, sLSTM or leaky
units, which are compared with the loop of this library. The error of a plan is that of its outputs and gradients,
relative to a loop in float64, the largest of all, without and with a mask; that of cuDNN is without a mask, since it
takes none.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn
from triton.runtime.errors import OutOfResources

import mnemoscope as ms
from common import command, folder, option_parser, synchronise, take_turns, write_json
from mnemoscope.cells import GORU, GRU, LSTM, SLSTM, Cell, LeakyRNN
from mnemoscope.cells.sequence import Backend
from mnemoscope.kernels import gated, gated_plans, leaky, slstm
from mnemoscope.kernels.grids import Grid
from scans import run_once

T = TypeVar("T")
INPUTS = 10
"""Input features."""
CELLS = {"lstm": LSTM, "gru": GRU, "goru": GORU, "slstm": SLSTM, "leaky": LeakyRNN}
GRIDS = [Grid(share, warps) for warps in (8, 4) for share in (4, 8, 16)]
"""Plans that are measured, where the GPU has room for them."""
CHECKED = 50
"""Steps over which errors are measured."""


@dataclass(frozen=True)
class Row:
    """A way to run a case."""

    cell: str
    units: int
    batch: int
    steps: int
    way: str
    forward_us: float | None
    both_us: float | None
    error: float | None
    failure: str = ""


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--cells", nargs="+", default=[*CELLS])
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 512, 1024])
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 128])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    kept, rows = folder(options.keep), []
    for kind, units, batch in product(options.cells, options.sizes, options.batches):
        found = one_case(kind, units, batch, options.steps, options.repeats)
        print("\n".join(line(row) for row in found), flush=True)
        rows += found  # written after each case: a run that is cut off keeps those before
        write_json(kept / "gated_plans.json", rows=[asdict(row) for row in rows])
        (kept / "gated_plans.md").write_text(table(rows))
    print(f"Written to {kept}/gated_plans.{{json,md}}")


def one_case(kind: str, units: int, batch: int, steps: int, repeats: int) -> list[Row]:
    """Measure all plans of one size, and cuDNN."""
    torch.manual_seed(0)
    cell = CELLS[kind](INPUTS, units).cuda()
    xs, g = torch.randn(steps, batch, INPUTS).cuda(), torch.randn(steps, batch, units).cuda()
    few = xs[:CHECKED], g[:CHECKED]
    mask = torch.rand(CHECKED, batch, device="cuda") < 0.7
    exact, doubles = deepcopy(cell).double(), [x.double() for x in few]
    expected = {given: results(exact, doubles[0], doubles[1], given, "loop") for given in (None, mask)}
    work: dict[tuple[str, bool], Callable[[], None]] = {}
    errors, rows, lengths = {}, [], {}
    networks = {"gru": nn.GRU, "lstm": nn.LSTM}
    if kind in networks:
        network = networks[kind](INPUTS, units).cuda()
        for backward, tf32 in product((False, True), repeat=2):
            name = "cuDNN, tf32" if tf32 else "cuDNN"
            work[name, backward] = partial(run_once, lambda xs: network(xs)[0], xs, g, tf32, backward)
        with patch.object(gated_plans, "gated_plan", lambda *_: None):
            errors["cuDNN"] = error(results(cell, *few, None), expected[None])
    else:
        for backward in (False, True):
            loop = partial(run_once, lambda xs: ms.scan(cell, xs, backend="loop")[0], *few, False, backward)
            work["loop", backward], lengths["loop"] = loop, CHECKED
    sums = 1 if kind == "leaky" else 4  # of each unit
    for plan in (grid for grid in GRIDS if grid.fits(torch.device("cuda"), batch, units, sums * grid.share)):
        name = f"{plan.share} units, {plan.warps} warps"
        both, alone = (partial(run_once, lambda xs: ms.scan(cell, xs)[0], xs, g, False, grad) for grad in (True, False))
        try:
            found = {given: by_plan(plan, partial(results, cell, *few, given)) for given in expected}
            errors[name] = max(error(found[given], expected[given]) for given in expected)
            by_plan(plan, both)
            synchronise("cuda")
        except (OutOfResources, RuntimeError) as failure:  # without room on the GPU
            rows.append(Row(kind, units, batch, steps, name, None, None, None, str(failure).splitlines()[0]))
        else:
            work[name, False], work[name, True] = partial(by_plan, plan, alone), partial(by_plan, plan, both)
    wall, _ = take_turns(work, repeats, 1, partial(synchronise, "cuda"))
    times = {key: 1e6 * value / lengths.get(key[0], steps) for key, value in wall.items()}
    for name in dict.fromkeys(name for name, _ in work):
        rows.append(Row(kind, units, batch, steps, name, times[name, False], times[name, True], errors.get(name)))
    return rows


def by_plan(plan: Grid, call: Callable[[], T]) -> T:
    """Return what a call gives whose scans of gates, with their backward passes, take a plan."""
    with (
        patch.multiple(gated_plans, FEW_UNITS=0, FEW_SEQUENCES=0, gated_plan=lambda *_: plan),
        patch.object(gated, "gated_plan", lambda *_: plan),
        patch.object(slstm, "gated_grid", lambda *_: plan),
        patch.object(leaky, "_grid", lambda *_: plan),
    ):
        return call()


def results(cell: Cell, xs: Tensor, g: Tensor, mask: Tensor | None, backend: Backend = "auto") -> list[Tensor]:
    """Return outputs and gradients."""
    outputs = ms.scan(cell, xs, mask=mask, backend=backend)[0]
    return [outputs, *torch.autograd.grad(outputs, list(cell.parameters()), g)]


def error(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest relative error."""
    return max(
        float((one - other).norm().detach() / other.norm().detach()) for one, other in zip(found, expected, strict=True)
    )


def line(row: Row) -> str:
    """Return a row for the terminal."""
    about = f"{row.cell:5} N {row.units:5} batch {row.batch:4} {row.way:36}"
    if row.both_us is None or row.forward_us is None:
        return f"{about} {row.failure}"
    shown = "" if row.error is None else f"  error {row.error:.1e}"
    return f"{about} {row.forward_us:8.2f} {row.both_us:8.2f} us{shown}"


def table(rows: list[Row]) -> str:
    """Return the measurements as a Markdown table, without the plans that have no room."""
    lines = [
        "# Plans of scans of gates",
        "",
        f"`{command()}`, {torch.cuda.get_device_name()}, float32. Median microseconds per step. A plan of a grid is "
        "named by the units of one program and its warps.",
        "",
        "| cell | N | batch | T | way | forward | forward + backward | x cuDNN | x cuDNN, tf32 | relative error |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    both = {(row.cell, row.units, row.batch, row.way): row.both_us for row in rows}
    for row in rows:
        if row.both_us is None or row.forward_us is None:
            continue
        case = (row.cell, row.units, row.batch)
        ratios = [
            f"{row.both_us / peer:.2f}" if (peer := both.get((*case, name))) else ""
            for name in ("cuDNN", "cuDNN, tf32")
        ]
        shown = "" if row.error is None else f"{row.error:.1e}"
        lines.append(
            f"| {row.cell} | {row.units} | {row.batch} | {row.steps} | {row.way} | {row.forward_us:.2f} | "
            f"{row.both_us:.2f} | {' | '.join(ratios)} | {shown} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
