"""LLaMA (Touvron et al., 2023) and its relatives: tensor names and settings, in both directions.

Rotary positions, RMSNorm, SwiGLU, grouped-query attention. SmolLM2 is a LLaMA; Mistral is one
within its sliding window.
"""

from __future__ import annotations

from typing import Any

from regard.attention.positions.rotary import Rotary
from regard.interop.huggingface.architecture import (
    ARCHITECTURES,
    COMMON_SETTINGS,
    Architecture,
    TensorMapping,
    attention_dropout,
    different_settings,
    dropout_settings,
    per_parameter,
)
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.transformer import Transformer
from regard.nn.mlp import ActivationName

NORMS = {
    "attention_residual.norm": "input_layernorm",
    "mlp_residual.norm": "post_attention_layernorm",
}
LINEARS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.out": "self_attn.o_proj",
    "mlp.gate_proj": "mlp.gate_proj",
    "mlp.up_proj": "mlp.up_proj",
    "mlp.down_proj": "mlp.down_proj",
}
GATED_ACTIVATIONS: dict[str, ActivationName] = {"silu": "swiglu"}
DEFAULT_ROPE_BASE = 10_000.0


@ARCHITECTURES.add("llama", model_types=("llama", "mistral"))
class Llama(Architecture):
    """A decoder with rotary positions, RMSNorm, SwiGLU and grouped-query attention."""

    name = "llama"
    family = "decoder"
    prefix = "model."
    peft_prefix = "model."
    head_prefixes = ("lm_head.", "score.")
    objective = "causal"
    peft_task = "CAUSAL_LM"
    block_prefix = "layers."

    def settings(
        self, config: ConfigKeys, available: frozenset[str], remarks: list[str]
    ) -> dict[str, Any]:
        width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
        key_value_heads = config.integer("num_key_value_heads", heads)
        if "head_dim" in config and config.integer("head_dim") * heads != width:
            raise config.error("head_dim", f"regard has heads of width {width} / {heads}")
        biases = config.boolean("attention_bias", default=False)
        if biases != config.boolean("mlp_bias", default=False):
            raise config.error(
                "attention_bias", "regard has biases in all linear layers or in none"
            )
        return {
            "context": _context(config, remarks),
            "layers": config.integer(self.layers_key),
            "heads": heads,
            "width": width,
            "key_value_heads": 0 if key_value_heads == heads else key_value_heads,
            "positions": {"kind": "rotary", "base": _rope_base(config)},
            "mlp_width": config.integer("intermediate_size"),
            "activation": config.choice("hidden_act", GATED_ACTIVATIONS, default="silu"),
            "norm": "rms",
            "norm_eps": config.number("rms_norm_eps", 1e-6),
            "biases": biases,
            "tied": config.boolean("tie_word_embeddings", default=False),
            **dropout_settings(0.0, config.number("attention_dropout", 0.0)),
            "init_std": config.number("initializer_range", 0.02),
        }

    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        norms, linears = {"stack.norm": TensorMapping("norm")}, {}
        for layer in range(family.layers):
            for ours, theirs in NORMS.items():
                norms[f"stack.blocks.{layer}.{ours}"] = TensorMapping(f"layers.{layer}.{theirs}")
            for ours, theirs in LINEARS.items():
                linears[f"stack.blocks.{layer}.{ours}"] = TensorMapping(f"layers.{layer}.{theirs}")
        tables = {"embedding.tokens.weight": TensorMapping("embed_tokens.weight")}
        if not family.tied:
            tables["head.tokens.weight"] = TensorMapping("lm_head.weight")
        suffixes = ("weight", "bias") if family.biases else ("weight",)
        return (
            tables
            | per_parameter(norms, suffixes=("weight",))
            | per_parameter(linears, suffixes=suffixes)
        )

    def aliases(self, family: Transformer) -> dict[str, str]:
        return {"lm_head.weight": "embed_tokens.weight"} if family.tied else {}

    def unsupported_settings(self, family: Transformer) -> list[str]:
        expected = {
            **COMMON_SETTINGS,
            "norm": "rms",
            "norm_placement": "pre",
            "activation": "swiglu",
        }
        rotary = isinstance(family.positions, Rotary)
        positions = {} if rotary else {"positions": Rotary()}
        return different_settings(family, {**expected, **positions})

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        assert isinstance(family.positions, Rotary)
        base = family.positions.base
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": self.name,
            "vocab_size": vocabulary,
            "hidden_size": family.width,
            "num_hidden_layers": family.layers,
            "num_attention_heads": family.heads,
            "num_key_value_heads": family.key_value_heads or family.heads,
            "head_dim": family.width // family.heads,
            "intermediate_size": family.resolved_mlp_width,
            "hidden_act": "silu",
            "max_position_embeddings": family.context,
            "rms_norm_eps": family.norm_eps,
            "rope_theta": base,
            "rope_parameters": {"rope_type": "default", "rope_theta": base},
            "attention_bias": family.biases,
            "mlp_bias": family.biases,
            "attention_dropout": attention_dropout(family),
            "initializer_range": family.init_std,
            "tie_word_embeddings": family.tied,
        }

    def export_remarks(self, family: Transformer) -> list[str]:
        if not family.dropout:
            return []
        return [f"LLaMA's config has no dropout = {family.dropout}: training continues without it"]


def _context(config: ConfigKeys, remarks: list[str]) -> int:
    """The context; Mistral's is limited to its window, within which attention is fully causal."""
    positions = config.integer("max_position_embeddings")
    if "sliding_window" not in config:
        return positions
    window = config.integer("sliding_window")
    if window < positions:
        remarks.append(
            f"its sliding_window is {window:,} positions: the context is limited to that, where "
            "regard computes the same"
        )
    return min(window, positions)


def _rope_base(config: ConfigKeys) -> float:
    """rope_theta; newer configs have it in a table, rope_parameters."""
    newer, older = config.section("rope_parameters"), config.section("rope_scaling")
    for section in (newer, older):
        for key in ("rope_type", "type"):
            section.check(key, allowed=("default",), reason="regard has no RoPE scaling")
        section.check("factor", allowed=(1, 1.0), reason="regard has no RoPE scaling")
    for section in (config, newer):
        section.check(
            "partial_rotary_factor", allowed=(1, 1.0), reason="regard rotates whole heads"
        )
    if "rope_theta" in newer:
        return newer.number("rope_theta")
    return config.number("rope_theta", DEFAULT_ROPE_BASE)
