"""Train the small language model of tests/models/recall, and write it there.

    python -m tools.recall_model                      about two minutes on one core
    python -m tools.recall_model --folder /tmp/model  into another folder

It is a Qwen3-Next of transformers without attention: two layers of Gated DeltaNet. It learns to recall: a sequence
shows PAIRS keys, each followed by its value, and then asks for each key once; the next token is the value of that key.
"""

from __future__ import annotations

import argparse
import json
import platform
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "models" / "recall"
KEYS, VALUES, PAIRS = 8, 8, 4
"""Numbers of possible keys and values, which are different tokens, and of pairs in a sequence."""
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "linear_attention"],
    "num_experts": 0,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "tie_word_embeddings": True,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
}
SEED, STEPS, BATCH, RATE = 0, 800, 32, 1e-2
SLOW_DECAY = -5.0
"""Initial bias of the decays. With that of transformers most of the memory is gone after a step, and nothing is learned
from it in thousands of steps."""


def sequences(number: int, generator: torch.Generator, pairs: int = PAIRS) -> Tensor:
    """Return sequences (number, 4 pairs) of pairs of a key and a value, and then the same pairs in another order."""
    keys = torch.rand(number, KEYS, generator=generator).argsort(1)[:, :pairs]
    values = KEYS + torch.randint(0, VALUES, (number, pairs), generator=generator)
    shown = torch.stack([keys, values], 2)
    order = torch.rand(number, pairs, generator=generator).argsort(1)
    asked = shown.gather(1, order.unsqueeze(-1).expand_as(shown))
    return torch.cat([shown, asked], 1).flatten(1)


def answers(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits (number, pairs, tokens) at the keys that are asked for, and the values of these keys."""
    half = tokens.shape[1] // 2
    return logits[:, half::2], tokens[:, half + 1 :: 2]


def train(steps: int = STEPS) -> tuple[Any, float]:
    """Return the trained model, and the fraction of right answers on new sequences."""
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM
    from transformers.models.qwen3_next import modeling_qwen3_next as modeling

    # sequences are padded to whole chunks, which have 64 steps by default
    modeling.torch_chunk_gated_delta_rule = partial(modeling.torch_chunk_gated_delta_rule, chunk_size=4 * PAIRS)
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    model = Qwen3NextForCausalLM(Qwen3NextConfig(vocab_size=KEYS + VALUES, **SIZES)).train()
    for depth in range(model.config.num_hidden_layers):
        torch.nn.init.constant_(model.get_parameter(f"model.layers.{depth}.linear_attn.dt_bias"), SLOW_DECAY)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        pairs = int(torch.randint(1, PAIRS + 1, (), generator=generator))  # few pairs are learned first
        tokens = sequences(BATCH, generator, pairs)
        logits, values = answers(model(tokens, use_cache=False).logits, tokens)
        loss = cross_entropy(logits.flatten(0, 1), values.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
    tokens = sequences(500, generator)
    with torch.no_grad():
        logits, values = answers(model.eval()(tokens, use_cache=False).logits, tokens)
    return model, float((logits.argmax(-1) == values).double().mean())


def main() -> None:
    """Train the model, and write its folder: weights, configuration, and how it was made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the model is written")
    parser.add_argument("--steps", type=int, default=STEPS, help="number of batches")
    options = parser.parse_args()
    import transformers

    model, accuracy = train(options.steps)
    model.save_pretrained(options.folder)
    (options.folder / "generation_config.json").unlink(missing_ok=True)
    made = {
        "command": "python -m tools.recall_model",
        "seed": SEED,
        "steps": options.steps,
        "batch": BATCH,
        "learning_rate": RATE,
        "accuracy": accuracy,
        "chance": 1 / VALUES,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
    (options.folder / "training.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"accuracy {accuracy:.4f}, written to {options.folder}")


if __name__ == "__main__":
    main()
