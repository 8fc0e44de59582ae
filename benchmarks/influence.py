"""Speed and accuracy of the exact influence of past inputs.

    python benchmarks/influence.py --paths value --keep      on a CPU, two threads
    python benchmarks/influence.py --paths lens --suffix _lens --repeats 1 --keep
    python benchmarks/influence.py --paths lens --suffix _adapted --repeats 1 --families mamba2-hf qwen3-next-hf --keep
    python benchmarks/influence.py --device cuda --keep      on a GPU, all paths of all families

A block of each family with 8 heads of 64 (512 features) takes one random sequence of 2,048 steps in float32; `mamba`
and `rg-lru` have a head for each of their channels. The families that end in "hf" are whole language models of
transformers with random weights and four layers of the same size, which take random tokens; the fourth layer of
Qwen3-Next is attention, which counts in the derivative of the whole network only. "value" computes M of every head;
"full" the derivatives of the reads by the inputs of the block through values, keys, gates and convolution; "lens" is
`ms.influence` of this one block with its default settings, the derivative of the whole network included. Times are the
best of `--repeats` runs after a short one. "CPU seconds" are those of all threads, which depend less on what else the
machine does. The error of "value" is the largest difference between `M v` and the reads, relative to the largest read,
in float64 with 512 steps; that of "full" is the largest standard error of a single number.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

import mnemoscope as ms
from common import command, folder, option_parser, synchronise, write_json
from mnemoscope.cells import affine_layers
from mnemoscope.lenses.exact_influence import full_path, value_paths

FAMILIES = ("mamba2", "gla", "deltanet", "gated-deltanet", "kda", "rwkv7", "mlstm", "retnet", "mamba", "rg-lru")
HEADS, WIDTH, STEPS = 8, 512, 2048
WORDS = 64
ADAPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba2-hf": (
        "Mamba2",
        {
            "hidden_size": WIDTH // 2,
            "num_heads": HEADS,
            "head_dim": 64,
            "n_groups": 1,
            "state_size": 64,
            "chunk_size": 64,
        },
    ),
    "qwen3-next-hf": (
        "Qwen3Next",
        {
            "hidden_size": WIDTH,
            "linear_num_key_heads": HEADS,
            "linear_num_value_heads": HEADS,
            "linear_key_head_dim": 64,
            "linear_value_head_dim": 64,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "head_dim": 64,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": WIDTH,
            "shared_expert_intermediate_size": WIDTH,
            "pad_token_id": None,
        },
    ),
}
"""Models of transformers, with the name and the options of their configuration."""


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    family: str
    path: str
    steps: int
    seconds: float
    cpu_seconds: float
    error: float | None


def main() -> None:
    """Measure, print, write."""
    parser = option_parser(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--families", nargs="+", default=FAMILIES)
    parser.add_argument("--paths", nargs="+", default=("value", "full", "lens"))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--suffix", default="", help="end of the name of the files with the results")
    options = parser.parse_args()
    torch.set_num_threads(2)
    results, name = folder(options.keep), f"influence_{options.device}{options.suffix}"
    rows: list[Measurement] = []
    for family in options.families:
        for path in options.paths:
            rows.append(measure(family, path, options.steps, options.device, options.repeats))
            print(rows[-1], flush=True)
            write_json(results / f"{name}.json", threads=2, rows=[asdict(row) for row in rows])
            (results / f"{name}.md").write_text(table(rows))
    print(table(rows))


def block(family: str) -> torch.nn.Module:
    """Return one block with 8 heads of 64, or a model of transformers."""
    torch.manual_seed(0)
    if family in ADAPTED:
        import transformers

        name, sizes = ADAPTED[family]
        config = getattr(transformers, f"{name}Config")(vocab_size=WORDS, num_hidden_layers=4, **sizes)
        return getattr(transformers, f"{name}ForCausalLM")(config).eval().requires_grad_(False)
    options: dict[str, Any] = {} if family in ("mamba", "rg-lru") else {"heads": HEADS}
    if family == "mamba2":
        options["state_size"] = 64
    if family == "gated-deltanet":
        options["key_size"] = 64
    width = width_of(family)
    return ms.networks.blocks(width, width, family, depth=1, **options).requires_grad_(False)


def width_of(family: str) -> int:
    """Return the width of a block whose recurrence has 512 features."""
    return WIDTH // 2 if family in ("mamba", "mamba2", "mlstm", "retnet") else WIDTH


def measure(family: str, path: str, steps: int, device: str, repeats: int) -> Measurement:
    """Time one computation, and find its error."""
    network = block(family).to(device)
    adapted = family in ADAPTED
    xs = torch.randint(WORDS, (1, steps)) if adapted else torch.randn(steps, 1, width_of(family))
    xs = xs.to(device)
    error = 0.0

    def compute() -> None:
        nonlocal error
        if path == "lens":
            ms.influence(network, xs)
            return
        [layer] = affine_layers(network, xs)
        if path == "full":
            error = full_path(layer).standard_error
            return
        number = max(1, 64_000_000 // steps**2)  # heads whose M are in memory together
        for first in range(0, layer.start.shape[1], number):
            value_paths(layer, slice(first, first + number))

    seconds, cpu_seconds, whole = [], [], xs
    for repeat in range(repeats + 1):
        xs = whole if repeat else whole[:, :64] if adapted else whole[:64]
        # the first run loads and compiles, and does not count
        synchronise(device)
        start, cpu_start = time.perf_counter(), time.process_time()
        compute()
        synchronise(device)
        seconds.append(time.perf_counter() - start)
        cpu_seconds.append(time.process_time() - cpu_start)
    if path == "value":
        error = _error(network, xs)
    return Measurement(family, path, steps, min(seconds[1:]), min(cpu_seconds[1:]), error or None)


def _error(network: torch.nn.Module, xs: torch.Tensor) -> float:
    """Return the largest difference between `M v` and the reads in float64."""
    [layer] = affine_layers(network.double(), xs[:512].double())
    paths, reads, denominators = value_paths(layer, slice(0, HEADS)), layer.reads(), layer.denominators()
    if denominators is not None:
        reads = reads[..., :-1] / denominators.unsqueeze(-1)
    reads = reads.permute(1, 2, 0, 3)[:, :HEADS]
    return float((paths.reads() - reads).abs().max() / reads.abs().max())


def table(rows: list[Measurement]) -> str:
    """Return the results in Markdown."""
    lines = [f"`{command()}`", "", "| family | path | steps | seconds | CPU seconds | error |"]
    lines += ["|---|---|---|---|---|---|"]
    for row in rows:
        error = "" if row.error is None else f"{row.error:.0e}" if row.path == "value" else f"up to {row.error:.0%}"
        lines.append(
            f"| {row.family} | {row.path} | {row.steps:,} | {row.seconds:.2f} | {row.cpu_seconds:.2f} | {error} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
