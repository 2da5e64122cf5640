"""GPT-2 (Radford et al., 2019): tensor names and settings, in both directions.

Queries, keys and values are one fused matrix; all matrices of the blocks are stored as (in, out).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.attention.positions.learned import Learned
from regard.interop.huggingface.architecture import (
    ACTIVATIONS,
    ARCHITECTURES,
    COMMON_SETTINGS,
    Architecture,
    TensorMapping,
    attention_dropout,
    different_settings,
    dropout_settings,
    per_parameter,
    transformers_activation,
)
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.transformer import Transformer

BLOCK = {
    "attention_residual.norm": TensorMapping("ln_1"),
    "attention.query": TensorMapping("attn.c_attn", chunk=0, chunks=3, transposed=True),
    "attention.key": TensorMapping("attn.c_attn", chunk=1, chunks=3, transposed=True),
    "attention.value": TensorMapping("attn.c_attn", chunk=2, chunks=3, transposed=True),
    "attention.out": TensorMapping("attn.c_proj", transposed=True),
    "mlp_residual.norm": TensorMapping("ln_2"),
    "mlp.up_proj": TensorMapping("mlp.c_fc", transposed=True),
    "mlp.down_proj": TensorMapping("mlp.c_proj", transposed=True),
}


@ARCHITECTURES.add("gpt2", model_types=("gpt2",))
class Gpt2(Architecture):
    """A decoder with pre-norm and learned positions."""

    name = "gpt2"
    family = "decoder"
    prefix = "transformer."
    peft_prefix = "transformer."
    head_prefixes = ("lm_head.", "score.")
    objective = "causal"
    peft_task = "CAUSAL_LM"
    block_prefix = "h."
    layers_key = "n_layer"

    def settings(
        self, config: ConfigKeys, available: frozenset[str], remarks: list[str]
    ) -> dict[str, Any]:
        config.check("scale_attn_weights", allowed=(True,), reason="regard always divides by √d")
        config.check(
            "scale_attn_by_inverse_layer_idx",
            allowed=(False,),
            reason="regard scales all layers equally",
        )
        config.check(
            "add_cross_attention",
            allowed=(False,),
            reason="regard imports it without cross-attention",
        )
        width = config.integer("n_embd")
        dropout = config.number("resid_pdrop", 0.1)
        embedding_dropout = config.number("embd_pdrop", 0.1)
        if embedding_dropout != dropout:
            remarks.append(
                f"embd_pdrop {embedding_dropout} differs from resid_pdrop {dropout}: in training "
                "regard uses the latter for both"
            )
        return {
            "context": config.integer("n_positions", 1024),
            "layers": config.integer(self.layers_key),
            "heads": config.integer("n_head"),
            "width": width,
            "mlp_width": config.integer("n_inner", 4 * width),
            "activation": config.choice("activation_function", ACTIVATIONS, default="gelu_new"),
            "norm_eps": config.number("layer_norm_epsilon", 1e-5),
            "tied": config.boolean("tie_word_embeddings", default=True),
            **dropout_settings(dropout, config.number("attn_pdrop", 0.1)),
            "init_std": config.number("initializer_range", 0.02),
        }

    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        modules = {"stack.norm": TensorMapping("ln_f")}
        for layer in range(family.layers):
            for ours, theirs in BLOCK.items():
                mapping = replace(theirs, name=f"h.{layer}.{theirs.name}")
                modules[f"stack.blocks.{layer}.{ours}"] = mapping
        tables = {
            "embedding.tokens.weight": TensorMapping("wte.weight"),
            "embedding.positions.weight": TensorMapping("wpe.weight"),
        }
        if not family.tied:
            tables["head.tokens.weight"] = TensorMapping("lm_head.weight")
        return tables | per_parameter(modules, suffixes=("weight", "bias"))

    def aliases(self, family: Transformer) -> dict[str, str]:
        return {"lm_head.weight": "wte.weight"} if family.tied else {}

    def unsupported_settings(self, family: Transformer) -> list[str]:
        expected = {
            **COMMON_SETTINGS,
            "positions": Learned(),
            "norm": "layer",
            "norm_placement": "pre",
            "biases": True,
        }
        unsupported = different_settings(family, expected)
        if family.key_value_heads not in (0, family.heads):
            unsupported.append(f"key_value_heads = {family.key_value_heads}")
        if family.activation == "swiglu":
            unsupported.append("activation = swiglu")
        return unsupported

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": self.name,
            "vocab_size": vocabulary,
            "n_embd": family.width,
            "n_layer": family.layers,
            "n_head": family.heads,
            "n_inner": family.resolved_mlp_width,
            "n_positions": family.context,
            "activation_function": transformers_activation(family),
            "layer_norm_epsilon": family.norm_eps,
            "resid_pdrop": family.dropout,
            "embd_pdrop": family.dropout,
            "attn_pdrop": attention_dropout(family),
            "initializer_range": family.init_std,
            "tie_word_embeddings": family.tied,
        }
