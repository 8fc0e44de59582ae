"""Speed, memory and accuracy of affine recurrences, compared with the literal loop and with flash-linear-attention.

    python benchmarks/affine.py --keep                                 on a CPU: the loop and the chunks
    python benchmarks/affine.py --device cuda --peer FOLDER --keep     on a GPU: also fla-core, unpacked in that folder

Forward and backward, from the numbers that a family computes from its inputs (queries, keys, values, rates, beta) to
their gradients. One thread on a CPU: 512 tokens, batch 1. On a GPU: 2,048 micro-steps, batch 8. Always 8 heads of 64;
deltaproduct has two micro-steps per token. fla-core takes the batch first, and gets its numbers in this order.

Times are medians, of CPU time on a CPU; in the first call kernels are compiled, and a peer that tunes itself does so.
Memory is what is kept for the backward pass on a CPU, and the peak of both passes on a GPU, without inputs and their
gradients. The error is the largest of outputs and gradients, each relative to its norm, against the same recurrence in
float64.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from common import command, folder, option_parser, synchronise, take_turns, write_json
from mnemoscope.kernels import affine_scan, diagonal_scan

HEADS, SIZE = 8, 64
FAMILIES = ("retnet", "mamba-2", "hgrn2", "gla", "deltanet", "gated deltanet", "kda", "rwkv-7", "deltaproduct")
Leaves = dict[str, Tensor]


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    family: str
    method: str
    dtype: str
    first_s: float
    """Seconds of the first call."""
    forward_ms: float
    both_ms: float
    memory_mib: float
    error: float


def main() -> None:
    """Measure, print, write."""
    options = _options()
    torch.set_num_threads(1)
    if options.peer:
        sys.path.insert(0, options.peer)
    results, name, rows = folder(options.keep), f"affine_{options.device}{options.suffix}", []
    for family in (*options.families, *options.others):
        rows += measure_diagonal(options) if family == "diagonal" else measure_family(family, options)
        write_json(results / f"{name}.json", threads=1, rows=[asdict(row) for row in rows])
        (results / f"{name}.md").write_text(table(rows))
    print(table(rows))


# --- families ---------------------------------------------------------------------------------------------------------


def draw(family: str, tokens: int, batch: int) -> Leaves:
    """Return random leaves in float32, time first."""
    micro = 2 if family == "deltaproduct" else 1
    steps = (tokens * micro, batch, HEADS)
    rates = SIZE if family in ("hgrn2", "gla", "kda", "rwkv-7") else 1
    given = {
        "q": torch.randn(tokens, batch, HEADS, SIZE) / SIZE**0.5,
        "k": normalize(torch.randn(*steps, SIZE), dim=-1),
        "v": torch.randn(*steps, SIZE),
    }
    if family == "hgrn2":
        del given["k"]  # 1 - exp(g)
    if family not in ("retnet", "deltanet"):
        given["g"] = -torch.rand(tokens, batch, HEADS, rates) if micro > 1 else -torch.rand(*steps, rates)
        given["g"] = given["g"] * (0.6 if family == "rwkv-7" else 0.2)
    if family == "rwkv-7":
        given["alpha"] = torch.rand(*steps, SIZE)
    elif family not in ("retnet", "mamba-2", "hgrn2", "gla"):
        given["beta"] = torch.rand(*steps, 1)
    return given


def ours(family: str, given: Leaves, backend: str, chunk: int | None = None) -> Tensor:
    """Return the outputs of `affine_scan`."""
    q, k, v = given["q"], _keys(given), given["v"]
    erase, micro = None, len(k) // len(q)
    g = given["g"] if "g" in given else torch.zeros_like(k[..., :1])
    if family == "retnet":
        g = torch.log1p(-(2.0 ** (-5 - torch.arange(HEADS, dtype=torch.float64, device=k.device))))
        g = g.to(torch.promote_types(k.dtype, torch.float32)).unsqueeze(-1).expand(*k.shape[:-1], 1)
    if micro > 1:  # only the first micro-step decays
        g = torch.nn.functional.pad(g.unsqueeze(1), (0, 0) * 3 + (0, micro - 1)).flatten(0, 1)
    if "alpha" in given:
        erase = (-given["alpha"] * k, k)
    elif "beta" in given:
        written = given["beta"] * k
        erase, k = (-written, k if family == "deltanet" else g.exp().to(k.dtype) * k), written
    return affine_scan(q, k, v, g, erase, micro_steps=micro, chunk=chunk, backend=backend)[0]  # type: ignore


def _keys(given: Leaves) -> Tensor:
    return given["k"] if "k" in given else 1 - given["g"].exp()


def peer(family: str, x: Leaves) -> Tensor:
    """Return the outputs of fla-core, which takes and returns the batch first."""
    from fla.ops import (  # type: ignore
        delta_rule,
        gated_delta_product,
        gated_delta_rule,
        gla,
        kda,
        retention,
        rwkv7,
        simple_gla,
    )

    qkv = (x["q"], _keys(x), x["v"])
    g, beta = (x[name].squeeze(-1) if name in x else None for name in ("g", "beta"))
    if family == "rwkv-7":
        return rwkv7.chunk_rwkv7(x["q"], x["g"], x["k"], x["v"], -x["k"], x["alpha"] * x["k"], scale=1.0)[0]
    run = {
        "retnet": retention.chunk_retention,
        "mamba-2": partial(simple_gla.chunk_simple_gla, g=g),
        "hgrn2": partial(gla.chunk_gla, g=x.get("g")),
        "gla": partial(gla.chunk_gla, g=x.get("g")),
        "deltanet": partial(delta_rule.chunk_delta_rule, beta=beta),
        "gated deltanet": partial(gated_delta_rule.chunk_gated_delta_rule, g=g, beta=beta),
        "kda": partial(kda.chunk_kda, g=x.get("g"), beta=beta),
        "deltaproduct": partial(gated_delta_product.chunk_gated_delta_product, g=g, beta=beta, num_householder=2),
    }[family]
    return run(*qkv, scale=1.0)[0]


# --- measurements -----------------------------------------------------------------------------------------------------


def measure_family(family: str, options: argparse.Namespace) -> list[Measurement]:
    """Measure all methods on the same numbers."""
    torch.manual_seed(0)
    cuda = options.device == "cuda"
    tokens = 512 if not cuda else 1024 if family == "deltaproduct" else 2048
    given = {name: x.to(options.device) for name, x in draw(family, tokens, 8 if cuda else 1).items()}
    methods: dict[tuple[str, torch.dtype], Callable[[Leaves], Tensor]] = {}
    if cuda:
        for dtype in (torch.float32, torch.bfloat16):
            methods["mnemoscope", dtype] = partial(ours, family, backend="triton", chunk=options.chunk)
        if options.peer:
            methods["fla-core", torch.bfloat16] = partial(peer, family)
        methods["torch, chunks", torch.float32] = partial(ours, family, backend="chunks")
    else:
        methods["mnemoscope", torch.float32] = partial(ours, family, backend="chunks")
        methods["loop", torch.float32] = partial(ours, family, backend="loop")
    return measure(family, given, methods, options)


def measure_diagonal(options: argparse.Namespace) -> list[Measurement]:
    """Measure the first-order scan, `h_t = a_t h_{t-1} + u_t`."""
    torch.manual_seed(0)
    tokens, batch = (2048, 8) if options.device == "cuda" else (512, 8)
    shape, rows = (tokens, batch, HEADS * SIZE), []
    for family, a in (
        ("diagonal, real", torch.rand(shape)),
        ("diagonal, complex", torch.polar(torch.rand(shape), torch.randn(shape))),
    ):
        given = {"a": a.to(options.device), "u": torch.randn(shape, dtype=a.dtype, device=options.device)}
        methods: dict[tuple[str, Any], Callable[[Leaves], Tensor]] = {
            ("mnemoscope", a.dtype): _diagonal,
            ("loop", a.dtype): _diagonal_loop,
        }
        rows += measure(family, given, methods, options)
    return rows


def _diagonal(given: Leaves) -> Tensor:
    return diagonal_scan(given["a"], given["u"], torch.zeros_like(given["u"][0]))


def _diagonal_loop(given: Leaves) -> Tensor:
    h, hs = torch.zeros_like(given["u"][0]), []
    for a, u in zip(given["a"].unbind(), given["u"].unbind(), strict=True):
        h = a * h + u
        hs.append(h)
    return torch.stack(hs)


def measure(
    family: str, given: Leaves, methods: dict[tuple[str, Any], Callable[[Leaves], Tensor]], options: argparse.Namespace
) -> list[Measurement]:
    """Return a row per method; repeats take turns. A method that fails gets no row, and the reason is printed."""
    exact, into = methods[next(iter(methods))], None
    if options.device == "cuda" and family in FAMILIES:
        exact = partial(ours, family, backend="chunks")
    wide = {name: x.to(torch.complex128 if x.is_complex() else torch.float64) for name, x in given.items()}
    with torch.no_grad():
        into = torch.randn_like(exact(wide))
    expected = _both(exact, _leaves(wide, into.dtype), into)
    work, firsts, errors, memory = {}, {}, {}, {}
    for key, method in methods.items():
        leaves, into_method = _leaves(given, key[1]), into.to(key[1])
        batch_first = key[0] == "fla-core"
        if batch_first:
            leaves = _leaves({name: x.transpose(0, 1).contiguous() for name, x in given.items()}, key[1])
            into_method = into_method.transpose(0, 1).contiguous()
        try:
            synchronise(options.device)
            start = time.perf_counter()
            found = _both(method, leaves, into_method)
            synchronise(options.device)
        except Exception as error:  # a peer may refuse the version of Triton
            print(f"{family}, {key[0]}: {type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}")
            continue
        firsts[key] = time.perf_counter() - start
        found = [x.transpose(0, 1) for x in found] if batch_first else found
        errors[key] = max(((x.to(y.dtype) - y).norm() / y.norm()).item() for x, y in zip(found, expected, strict=True))
        memory[key] = _memory(method, leaves, into_method, options.device)
        work[*key, "forward"] = partial(_forward, method, leaves)
        work[*key, "both"] = partial(_both, method, leaves, into_method)
    wait = partial(synchronise, options.device)
    wall, cpu = take_turns(work, options.repeats, 1, wait)
    seconds = wall if options.device == "cuda" else cpu
    rows = []
    for key, first in firsts.items():
        forward, both = (1e3 * seconds[*key, part] for part in ("forward", "both"))
        dtype = str(key[1]).removeprefix("torch.")
        rows.append(Measurement(family, key[0], dtype, first, forward, both, memory[key], errors[key]))
        print(rows[-1], flush=True)
    return rows


def _leaves(given: Leaves, dtype: torch.dtype) -> Leaves:
    return {name: x.detach().to(dtype).requires_grad_() for name, x in given.items()}


def _forward(method: Callable[[Leaves], Tensor], leaves: Leaves) -> None:
    with torch.no_grad():
        method(leaves)


def _both(method: Callable[[Leaves], Tensor], leaves: Leaves, into: Tensor) -> list[Tensor]:
    """Return outputs and gradients."""
    outputs = method(leaves)
    return [outputs.detach(), *torch.autograd.grad(outputs, list(leaves.values()), into.to(outputs.dtype))]


def _memory(method: Callable[[Leaves], Tensor], leaves: Leaves, into: Tensor, device: str) -> float:
    """Return mebibytes: the peak of both passes on a GPU, what is kept for the backward pass on a CPU."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        _both(method, leaves, into)
        gradients = sum(x.nbytes for x in leaves.values())
        return (torch.cuda.max_memory_allocated() - before - gradients) / 2**20
    kept = {}

    def keep(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        outputs = method(leaves)
    for x in leaves.values():
        kept.pop(x.untyped_storage().data_ptr(), None)
    del outputs
    return sum(kept.values()) / 2**20


def table(rows: list[Measurement]) -> str:
    """Return a Markdown table."""
    lines = [
        f"`{command()}`",
        "",
        "| family | method | dtype | first call, s | forward, ms | forward + backward, ms | memory, MiB | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.family} | {row.method} | {row.dtype} | {row.first_s:.1f} | {row.forward_ms:.2f} | {row.both_ms:.2f} "
        f"| {row.memory_mib:.0f} | {row.error:.0e} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _options() -> argparse.Namespace:
    parser = option_parser(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peer", help="folder with fla-core, unpacked, and einops")
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--others", nargs="*", choices=["diagonal"], default=["diagonal"])
    parser.add_argument("--chunk", type=int, help="steps of a chunk in Triton, instead of the default")
    parser.add_argument("--suffix", default="", help="end of the names of the files with the results")
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
