"""Tiny models with random weights, of each family that can be adapted. They are built without any download."""

from typing import Any

import torch

WORDS = 11
"""Size of the vocabulary."""
_HYBRID = {"num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 16}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 8, "pad_token_id": None}
_MAMBA = {"hidden_size": 8, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 2}
_DELTA = {"linear_num_key_heads": 2, "linear_key_head_dim": 4, "linear_value_head_dim": 4}
_GRIFFIN = {"num_attention_heads": 2, "num_key_value_heads": 1, "lru_width": 16, "attention_window_size": 4}
_SSD = {"num_hidden_layers": 3, "hidden_size": 16}

CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("Mamba", _MAMBA),
    "mamba2": (
        "Mamba2",
        {**_MAMBA, "num_heads": 4, "head_dim": 4, "n_groups": 2, "chunk_size": 4, "time_step_limit": (0.01, 0.1)},
    ),
    "falcon-mamba": ("FalconMamba", _MAMBA),
    "rwkv": ("Rwkv", {"hidden_size": 8, "attention_hidden_size": 12, "num_hidden_layers": 2, "context_length": 32}),
    "recurrent-gemma": (
        "RecurrentGemma",
        {**_GRIFFIN, "hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 32, "pad_token_id": 0},
    ),
    "griffin-without-attention": (
        "RecurrentGemma",
        {**_GRIFFIN, "hidden_size": 16, "num_hidden_layers": 2, "block_types": ["recurrent"], "pad_token_id": 0},
    ),
    "xlstm": ("xLSTM", {"hidden_size": 16, "num_hidden_layers": 2, "num_heads": 2, "chunk_size": 4}),
    "xlstm-square": (
        "xLSTM",
        {"hidden_size": 16, "num_hidden_layers": 2, "num_heads": 2, "chunk_size": 4, "qk_dim_factor": 1.0},
    ),
    "qwen3-next": (
        "Qwen3Next",
        {
            **_HYBRID,
            **_EXPERTS,
            **_DELTA,
            "hidden_size": 16,
            "num_hidden_layers": 4,
            "head_dim": 8,
            "linear_num_value_heads": 4,
            "num_experts": 4,
            "shared_expert_intermediate_size": 8,
        },
    ),
    "kimi-linear": (
        "KimiLinear",
        {
            **_HYBRID,
            **_EXPERTS,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "layer_types": ["linear_attention", "full_attention"],
            "head_dim": 8,
            "kv_lora_rank": 8,
            "qk_nope_head_dim": 4,
            "qk_rope_head_dim": 4,
            "v_head_dim": 4,
            "linear_num_heads": 2,
            "linear_head_dim": 4,
            "n_routed_experts": 4,
        },
    ),
    "kimi-without-attention": (
        "KimiLinear",
        {
            **_EXPERTS,
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "intermediate_size": 16,
            "num_attention_heads": 2,
            "linear_num_heads": 2,
            "linear_head_dim": 4,
            "n_routed_experts": 4,
        },
    ),
    "olmo-hybrid": (
        "OlmoHybrid",
        {
            **_HYBRID,
            **_DELTA,
            "hidden_size": 16,
            "num_hidden_layers": 4,
            "linear_num_value_heads": 2,
            "pad_token_id": None,
        },
    ),
    "zamba2": (
        "Zamba2",
        {
            **_SSD,
            **_HYBRID,
            "mamba_d_state": 4,
            "n_mamba_heads": 4,
            "mamba_headdim": 8,
            "mamba_ngroups": 1,
            "chunk_size": 4,
            "adapter_rank": 2,
            "num_mem_blocks": 1,
            "layers_block_type": ["linear_attention", "hybrid", "linear_attention"],
        },
    ),
    "bamba": (
        "Bamba",
        {
            **_SSD,
            **_HYBRID,
            "attn_layer_indices": [1],
            "mamba_d_state": 4,
            "mamba_n_heads": 4,
            "mamba_d_head": 8,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 4,
        },
    ),
}
MIXERS = {
    "mamba": "backbone.layers.1.mixer",
    "mamba2": "backbone.layers.1.mixer",
    "falcon-mamba": "backbone.layers.1.mixer",
    "rwkv": "rwkv.blocks.1.attention",
    "recurrent-gemma": "model.layers.1.temporal_block",
    "xlstm": "backbone.blocks.1.mlstm_layer",
    "qwen3-next": "model.layers.1.linear_attn",
    "kimi-linear": "model.layers.0.self_attn",
    "olmo-hybrid": "model.layers.1.linear_attn",
    "zamba2": "model.layers.2.mamba",
    "bamba": "model.layers.2.mamba",
}
"""Where a mixer is in its model. It is not the first layer, so that its number matters."""


def causal_model(name: str, seed: int = 0, **options: Any) -> Any:
    """Return a model with weights large enough that its states matter, in float32 and evaluation mode."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind, sizes = CONFIGURATIONS[name]
    config = getattr(transformers, f"{kind}Config")(**{"vocab_size": WORDS, **sizes, **options})
    torch.manual_seed(seed)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(0.4 / parameter.std().clamp(min=1e-2))
    return model
