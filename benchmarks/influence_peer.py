"""The value path of Mnemoscope and the effective attention of TransformerLens, on the same models.

    pip install transformer-lens==4.3.0
    python benchmarks/influence_peer.py --keep

Small models of transformers with random weights, on random tokens in float32: Mamba-2 and Qwen3-Next, whose first layer
is a Gated DeltaNet. TransformerLens wraps the same model (`boot_transformers(hf_model=...)`). Its matrix is that of
`compute_effective_attention` of the first layer's mixer, which for a delta rule omits the removal of keys and the
normalisation of q and k; a third line omits the removal alone. Ours is that of `value_paths`. The error is the norm of
the difference between `M v` and the reads of the recurrence, relative to the norm of the reads; values and reads are
those of `affine_layers`. Times are medians of 5 calls, of the matrix alone: its activations are in the cache, and our
parts in the layer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from common import command, folder, option_parser, write_json
from mnemoscope.cells import affine_layers
from mnemoscope.lenses.exact_influence import value_paths

STEPS, WORDS = 256, 64
QWEN = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64, "head_dim": 32}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
DELTA = {"linear_num_key_heads": 4, "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Mamba-2": ("Mamba2", {"num_heads": 8, "head_dim": 32, "n_groups": 1, "state_size": 32, "chunk_size": 64}),
    "Gated DeltaNet (Qwen3-Next)": ("Qwen3Next", {**QWEN, **EXPERTS, **DELTA, "pad_token_id": None}),
}


@dataclass(frozen=True)
class Measurement:
    """One line of the table."""

    model: str
    method: str
    error: float | None
    milliseconds: float | None
    reason: str = ""
    """Why there are no numbers."""


def main() -> None:
    """Measure, print, write."""
    options = option_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    rows = [row for name in MODELS for row in measure(name)]
    results = folder(options.keep)
    versions = {package: version(package) for package in ("transformer-lens", "transformers")}
    write_json(results / "influence_peer.json", versions=versions, rows=[asdict(row) for row in rows])
    (results / "influence_peer.md").write_text(table(rows))
    print(table(rows))


@torch.no_grad()
def measure(name: str) -> list[Measurement]:
    """Return the error and the time of both libraries."""
    model, tokens = build(name), torch.randint(WORDS, (1, STEPS), generator=torch.Generator().manual_seed(1))
    layer = affine_layers(model, tokens)[0]
    paths, reads = value_paths(layer), layer.reads().permute(1, 2, 0, 3)
    theirs = peer(name, model, tokens)
    methods: dict[str, Callable[[], Tensor]] = {
        "mnemoscope": lambda: value_paths(layer).matrix,
        "TransformerLens": theirs,
    }
    if layer.parts.erase is not None:
        kept = replace(layer, parts=layer.parts._replace(erase=None))
        methods["same q, k, beta and decay, no removal of keys"] = lambda: value_paths(kept).matrix
    found = []
    for method, matrix in methods.items():
        try:
            error = float((matrix() @ paths.values - reads).norm() / reads.norm())
        except RuntimeError as reason:  # a hook that the installed version of transformers does not call
            found.append(Measurement(name, method, None, None, str(reason)))
            continue
        found.append(Measurement(name, method, error, _median_ms(matrix)))
    return found


def build(name: str) -> Any:
    """Return a model with random weights."""
    import transformers

    torch.manual_seed(0)
    family, settings = MODELS[name]
    sizes = {"vocab_size": WORDS, "hidden_size": 128, "num_hidden_layers": 2 if family == "Mamba2" else 4}
    config = getattr(transformers, f"{family}Config")(**sizes, **settings)
    config.architectures = [f"{family}ForCausalLM"]
    return getattr(transformers, config.architectures[0])(config).eval()


def peer(name: str, model: Any, tokens: Tensor) -> Callable[[], Tensor]:
    """Return the function of TransformerLens that computes the matrix of the first layer."""
    from tokenizers import Tokenizer, models
    from transformer_lens.model_bridge import TransformerBridge  # type: ignore
    from transformers import PreTrainedTokenizerFast

    words = {"<eos>": 0, **{f"word{number}": number for number in range(1, WORDS)}}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="<eos>")), eos_token="<eos>", pad_token="<eos>"
    )
    bridge = TransformerBridge.boot_transformers(
        name, hf_model=model, tokenizer=tokenizer, device="cpu", dtype=torch.float32
    )
    _, cache = bridge.run_with_cache(tokens, use_cache=False)
    block = bridge.blocks[0]
    mixer = block.linear_attn if hasattr(block, "linear_attn") else block.mixer
    return lambda: mixer.compute_effective_attention(cache, layer_idx=0)


def _median_ms(function: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return 1e3 * statistics.median(seconds[1:])


def table(rows: list[Measurement]) -> str:
    """Return the results in Markdown."""
    lines = [f"`{command()}`", "", "| model | method | error of M v | ms |", "|---|---|---|---|"]
    for row in rows:
        numbers = row.reason + " |" if row.error is None else f"{row.error:.1e} | {row.milliseconds:.1f}"
        lines.append(f"| {row.model} | {row.method} | {numbers} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
