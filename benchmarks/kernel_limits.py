"""Shared memory, registers and spills of the fused kernels, compiled for GPUs that need not be here.

    python benchmarks/kernel_limits.py --keep                      all kernels, default sizes
    python benchmarks/kernel_limits.py --only affine --gpus A100   one family, for one GPU
    python benchmarks/kernel_limits.py --units 128 256 --batches 16 --dtypes float32

The name of the file with the results names the families, if they are not all.

Triton compiles for any GPU without having one. The library chooses its path for each size as on the GPU. The
kernels are compiled with the assembler that comes with Triton, and their need is compared with the limits of the GPU.
Nothing is run: a kernel that fits is not thereby correct or fast. The part "elsewhere" has the kernels that the library
chooses on an H200, compiled for GPUs that have no room for them.

Compiled kernels are kept in Triton's cache: a run that is repeated takes seconds.

Shared memory is that of a block, registers and spilled bytes are those of a thread. A GPU has 65,536 registers in a
multiprocessor and up to 255 in a thread; numbers that do not fit there are spilled to memory.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime.errors import PTXASError
from triton.runtime.jit import JITFunction, MockTensor

from common import command, folder, library_commit, option_parser, write_json
from kernel_cases import FAMILIES, TIME, Case, tensor
from mnemoscope.base.progress import Bar
from mnemoscope.kernels import triton_elementwise, triton_launch, triton_steps

UNITS, BATCHES = [64, 128, 256, 512, 1024], [1, 16, 128, 1024]
"""Default sizes."""
DTYPES = ("float32", "bfloat16", "complex64")


@dataclass(frozen=True)
class GPU:
    """A GPU and the limits by which the library chooses."""

    capability: tuple[int, int]
    shared: int
    """Most bytes of shared memory that a block may have (CUDA C++ Programming Guide, technical specifications)."""
    processors: int

    def properties(self) -> SimpleNamespace:
        """Return what torch would report."""
        return SimpleNamespace(
            multi_processor_count=self.processors,
            shared_memory_per_block_optin=self.shared,
            major=self.capability[0],
            minor=self.capability[1],
        )


GPUS = {
    "H200": GPU((9, 0), 227 * 1024, 132),
    "A100": GPU((8, 0), 163 * 1024, 108),
    "RTX 3090": GPU((8, 6), 99 * 1024, 82),
    "RTX 4090": GPU((8, 9), 99 * 1024, 128),
    "RTX 5090": GPU((12, 0), 99 * 1024, 170),
}
DEFAULT_GPUS = ["H200", "A100", "RTX 4090", "RTX 5090"]


@dataclass(frozen=True)
class Row:
    """A kernel of a case on a GPU."""

    family: str
    name: str
    units: int
    batch: int
    dtype: str
    gpu: str
    choice: str
    """Whose choice of a path the kernel belongs to: of the GPU's limits, or of an H200."""
    kernel: str
    sizes: str
    """Constants of the kernel that are sizes."""
    warps: int
    shared: int
    limit: int
    registers: int | None
    """None if the assembler refused the kernel."""
    spilled: int | None
    """Bytes of a thread in local memory."""
    fits: bool


# --- compiling without a GPU ------------------------------------------------------------------------------------------


class Driver:
    """A driver of Triton that only names its target."""

    def __init__(self, gpu: str) -> None:
        self.name, self.target = gpu, GPUTarget("cuda", 10 * GPUS[gpu].capability[0] + GPUS[gpu].capability[1], 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> str:
        return str(self.target.arch)

    def get_current_stream(self, device: str) -> int:
        return 0


@contextmanager
def compiling(gpu: str, limits: str, done: list[tuple[str, dict[str, Any], Any]]) -> Generator[None]:
    """Compile every launched kernel for `gpu` instead of running it; the library sees the limits of another GPU."""
    run, seen = JITFunction.run, GPUS[limits]

    def compile_only(self: Any, *given: Any, grid: Any, warmup: bool, **constants: Any) -> None:
        mocked = (MockTensor(x.dtype, list(x.shape)) if isinstance(x, Tensor) else x for x in given)
        try:
            kernel = run(self, *mocked, grid=grid, warmup=True, **constants)
        except (CompilationError, PTXASError, RuntimeError) as error:
            kernel = error
        done.append((self.__name__, constants, kernel))

    with ExitStack() as stack:
        replace = partial(patch.object, autospec=False)
        stack.enter_context(replace(JITFunction, "run", compile_only))
        stack.enter_context(replace(triton_launch, "_compile", lambda launches: None))
        stack.enter_context(replace(torch.cuda, "device", lambda device: nullcontext()))
        stack.enter_context(replace(torch.cuda, "get_device_properties", lambda device: seen.properties()))
        stack.enter_context(replace(torch.cuda, "get_device_capability", lambda device: seen.capability))
        stack.enter_context(replace(triton_elementwise, "run_steps", library_steps))
        stack.enter_context(replace(triton_elementwise, "run_adjoint_steps", library_adjoint))
        triton.runtime.driver.set_active(Driver(gpu))  # type: ignore
        yield


def library_steps(recurrence: Any, us: Tensor, *_: Tensor, adjoint: bool = False) -> None:
    """Launch the kernel of a path whose products are the library's; it captures a CUDA graph, which needs a GPU."""
    batch, units = us.shape[1:]
    blocks = len(triton_steps.LEFT) if recurrence.exact and us.dtype == torch.float32 else 1
    width = min(1024, max(16, triton.next_power_of_2(units)))
    constants: dict[str, Any] = {
        "BLOCKS": blocks,
        "WIDTH": width,
        "TYPE": triton_steps._TYPES[us.dtype],
        "PHI": recurrence.phi,
    }
    constants |= {"MASKED": recurrence.mask is not None, "ADJOINT": adjoint, "num_warps": 4}
    table = tensor(5, dtype=torch.int64)
    buffers = (tensor(batch, units), tensor(batch, units, dtype=us.dtype), tensor(batch, units), tensor(units))
    triton_steps._elementwise[batch, 1](table, table, 0, *buffers, batch, units, **constants)


library_adjoint = partial(library_steps, adjoint=True)


@cache
def needed(cubin: bytes) -> tuple[int, int]:
    """Return the registers of a thread, and its bytes of local memory."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(cubin)
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        usage = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {name: max(map(int, re.findall(rf"{name}:(\d+)", usage))) for name in ("REG", "STACK", "LOCAL")}
    return found["REG"], found["STACK"] + found["LOCAL"]


def measure(case: Case, gpu: str, limits: str) -> list[Row]:
    """Return one row for each kernel of a case."""
    done: list[tuple[str, dict[str, Any], Any]] = []
    with compiling(gpu, limits, done):
        case.run()
    rows = {}
    for kernel, constants, compiled in done:
        sizes = {name: value for name, value in constants.items() if isinstance(value, int) and name.isupper()}
        sizes = " ".join(f"{name}={value}" for name, value in sizes.items() if not isinstance(value, bool))
        shared, registers, spilled = 0, None, None
        if not isinstance(compiled, Exception):
            shared, (registers, spilled) = compiled.metadata.shared, needed(compiled.asm["cubin"])
        limit = GPUS[gpu].shared
        fits = registers is not None and shared <= limit
        choice = "own" if gpu == limits else f"that of the {limits}"
        about = (case.family, case.name, case.units, case.batch, str(case.dtype)[6:], gpu, choice)
        warps = constants.get("num_warps", 4)
        row = Row(*about, kernel.strip("_"), sizes, warps, shared, limit, registers, spilled, fits)
        rows.setdefault((row.kernel, sizes, shared, registers), row)
    return [*rows.values()]


# --- the results ------------------------------------------------------------------------------------------------------


def choices(gpus: list[str], units: list[int], batches: list[int]) -> list[dict[str, Any]]:
    """Return the way in which an Elman scan in float32 runs on each GPU."""
    rows = []
    for N in units:
        for B in batches:
            ways = {}
            for gpu in gpus:
                with patch.object(torch.cuda, "get_device_properties", lambda device, gpu=gpu: GPUS[gpu].properties()):
                    ways[gpu] = triton_elementwise.plan(tensor(TIME, B, N), tiled=False).way
            rows.append({"units": N, "batch": B, **ways})
    return rows


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def kernels_table(rows: list[Row], gpus: list[str]) -> str:
    """Return one line for each kernel and size, with a column for each GPU."""
    lines: dict[tuple[str, ...], dict[str, Row]] = {}
    batches: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        key = (row.name, row.dtype, str(row.units), row.kernel, row.sizes, str(row.warps))
        lines.setdefault(key, {})[row.gpu] = row
        if row.batch not in batches.setdefault(key, []):
            batches[key].append(row.batch)
    heads = ["scan", "dtype", "units", "batch", "kernel", "warps", *gpus]
    body = []
    for key, found in lines.items():
        name, dtype, units, kernel, _, warps = key
        cells = [_cell(found[gpu]) if gpu in found else "" for gpu in gpus]
        body.append([name, dtype, units, ", ".join(map(str, batches[key])), kernel, warps, *cells])
    return table(heads, body)


def _cell(row: Row) -> str:
    if row.registers is None:
        return "**does not compile**"
    text = f"{row.shared / 1024:.1f} / {row.registers} / {row.spilled}"
    return text if row.fits else f"**{text}: does not fit**"


ELMAN = """## How an Elman scan in float32 runs

vector: one program takes one sequence through all times; block: one program takes a tile of sequences; grid: programs
that synchronise share the units; steps: one matrix product of the library per step."""


def report(rows: list[Row], chosen: list[dict[str, Any]], gpus: list[str]) -> str:
    """Return the page with all tables."""
    own = [row for row in rows if row.choice == "own"]
    others = [row for row in rows if row.choice != "own"]
    limits = table(
        ["GPU", "compute capability", "shared memory of a block, KiB", "multiprocessors"],
        [[g, "{}.{}".format(*GPUS[g].capability), str(GPUS[g].shared // 1024), str(GPUS[g].processors)] for g in gpus],
    )
    ways = table(["units", "batch", *gpus], [[str(row[name]) for name in ("units", "batch", *gpus)] for row in chosen])
    spilling = [row for row in own if row.gpu == "H200" and row.spilled]
    misfits = [f"{row.name}, {row.units} units, {row.kernel}, {row.gpu}" for row in own if not row.fits]
    parts = [
        "# What the fused kernels need of a GPU",
        f"`{command()}`, library at {library_commit()}, Triton {triton.__version__}.",
        "Compiled for these GPUs, not run on them.",
        limits,
        "Kernels of the chosen paths that do not fit: " + (", ".join(misfits) or "none") + ".",
        *([ELMAN, ways] if chosen else []),
        "## Kernels",
        "Shared memory of a block in KiB / registers of a thread / spilled bytes of a thread.",
    ]
    for name in dict.fromkeys(row.family for row in own):
        parts += [f"### {name}", kernels_table([row for row in own if row.family == name], gpus)]
    if others:
        parts += [
            "## Elsewhere",
            "Kernels that the library chooses on an H200, compiled for GPUs that have no room for them.",
            kernels_table(others, gpus),
        ]
    parts += [
        "## Spilled registers on the H200",
        kernels_table(spilling, ["H200"]) if spilling else "None.",
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Compile, print what does not fit, and write the results."""
    parser = option_parser(__doc__)
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), choices=FAMILIES, help="families of kernels")
    parser.add_argument(
        "--units", nargs="+", type=int, default=UNITS, help="units, keys of a head or slots of a tape; %(default)s"
    )
    parser.add_argument(
        "--batches",
        nargs="+",
        type=int,
        default=BATCHES,
        help="sequences; %(default)s. Kernels other than those of Elman cells, GRU and LSTM do not depend on them",
    )
    parser.add_argument("--gpus", nargs="+", default=DEFAULT_GPUS, choices=GPUS, help="%(default)s")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES), choices=DTYPES, help="%(default)s")
    parser.add_argument("--scans", nargs="+", help="names of scans as in the table, or parts of them")
    args = parser.parse_args()
    if knobs.runtime.interpret:
        raise SystemExit("TRITON_INTERPRET is set, so that nothing is compiled; unset it.")
    cases = [case for name in args.only for case in FAMILIES[name](args.units, args.batches)]
    cases = [case for case in cases if str(case.dtype)[6:] in args.dtypes]
    if args.scans:
        cases = [case for case in cases if any(part in case.name for part in args.scans)]
    rows: list[Row] = []
    for case, gpu in Bar([(case, gpu) for gpu in args.gpus for case in cases], desc="compiling"):
        rows += measure(case, gpu, gpu)
        if case.family == "elman" and _limited(case, gpu):
            rows += measure(case, gpu, "H200")
    for row in rows:
        if not row.fits:
            print(f"{row.gpu}: {row.kernel} ({row.name}, {row.units} units, {row.choice} choice) does not fit")
    chosen = choices(args.gpus, args.units, args.batches) if "elman" in args.only else []
    families = "" if len(args.only) == len(FAMILIES) else f"_{'_'.join(args.only)}"
    path = folder(args.keep) / f"kernel_limits{families}.json"
    gpus = {name: asdict(GPUS[name]) for name in args.gpus}
    write_json(path, triton=triton.__version__, gpus=gpus, elman=chosen, rows=[asdict(row) for row in rows])
    path.with_suffix(".md").write_text(report(rows, chosen, args.gpus))
    print(f"Written to {path.with_suffix('.md')}.")


def _limited(case: Case, gpu: str) -> bool:
    """Whether an Elman scan would run in another way if the GPU had more shared memory."""
    units = case.units * (2 if case.dtype.is_complex else 1)
    drive = triton_elementwise.Drive((TIME, case.batch, units), case.dtype.to_real(), torch.device("cuda"))
    with patch.object(torch.cuda, "get_device_properties", lambda device: GPUS[gpu].properties()):
        return triton_elementwise.limited_choice(drive, tiled=case.dtype.is_complex) is not None


if __name__ == "__main__":
    main()
