"""GPT-2 (Radford et al., 2019): names and settings, both ways.

Queries, keys and values are one matrix there, and all matrices of its blocks stand as (in, out).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.attention.positions.learned import Learned
from regard.interop.huggingface.architecture import (
    ACTIVATIONS,
    ARCHITECTURES,
    PLAIN,
    Architecture,
    TensorMapping,
    attention_dropout,
    dropouts,
    misfits_of,
    per_parameter,
    their_activation,
)
from regard.interop.huggingface.config_keys import Keys
from regard.models.families.decoder import Decoder
from regard.models.families.transformer import Transformer

BLOCK = {
    "attention_residual.norm": TensorMapping("ln_1"),
    "attention.query": TensorMapping("attn.c_attn", part=0, parts=3, turned=True),
    "attention.key": TensorMapping("attn.c_attn", part=1, parts=3, turned=True),
    "attention.value": TensorMapping("attn.c_attn", part=2, parts=3, turned=True),
    "attention.out": TensorMapping("attn.c_proj", turned=True),
    "mlp_residual.norm": TensorMapping("ln_2"),
    "mlp.up_proj": TensorMapping("mlp.c_fc", turned=True),
    "mlp.down_proj": TensorMapping("mlp.c_proj", turned=True),
}


@ARCHITECTURES.add("gpt2", model_types=("gpt2",))
class Gpt2(Architecture):
    """A decoder with pre-norm and learned positions."""

    name = "gpt2"
    family = "decoder"
    prefix = "transformer."
    adapted_prefix = "transformer."
    head_names = ("lm_head.", "score.")
    objective = "causal"
    task = "CAUSAL_LM"
    blocks = "h."
    layers_key = "n_layer"

    def settings(self, config: Keys, held: frozenset[str], remarks: list[str]) -> dict[str, Any]:
        config.refuse("scale_attn_weights", usual=(True,), reason="regard always divides by √d")
        config.refuse(
            "scale_attn_by_inverse_layer_idx",
            usual=(False,),
            reason="regard scales every layer alike",
        )
        config.refuse(
            "add_cross_attention", usual=(False,), reason="regard reads it without a source"
        )
        width = config.integer("n_embd")
        dropped = config.number("resid_pdrop", 0.1)
        embedded = config.number("embd_pdrop", 0.1)
        if embedded != dropped:
            remarks.append(
                f"embd_pdrop {embedded} differs from resid_pdrop {dropped}: in training regard "
                "drops both by the second"
            )
        return {
            "context": config.integer("n_positions", 1024),
            "layers": config.integer(self.layers_key),
            "heads": config.integer("n_head"),
            "width": width,
            "mlp_width": config.integer("n_inner", 4 * width),
            "activation": config.choice("activation_function", ACTIVATIONS, default="gelu_new"),
            "norm_eps": config.number("layer_norm_epsilon", 1e-5),
            "tied": config.truth("tie_word_embeddings", default=True),
            **dropouts(dropped, config.number("attn_pdrop", 0.1)),
            "init_std": config.number("initializer_range", 0.02),
        }

    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        modules = {"stack.norm": TensorMapping("ln_f")}
        for layer in range(family.layers):
            for ours, theirs in BLOCK.items():
                named = replace(theirs, name=f"h.{layer}.{theirs.name}")
                modules[f"stack.blocks.{layer}.{ours}"] = named
        tables = {
            "embedding.tokens.weight": TensorMapping("wte.weight"),
            "embedding.positions.weight": TensorMapping("wpe.weight"),
        }
        if not family.tied:
            tables["head.tokens.weight"] = TensorMapping("lm_head.weight")
        return tables | per_parameter(modules, suffixes=("weight", "bias"))

    def copies(self, family: Transformer) -> dict[str, str]:
        return {"lm_head.weight": "wte.weight"} if family.tied else {}

    def misfits(self, family: Transformer) -> list[str]:
        if not isinstance(family, Decoder):
            return [f'family = "{type(family).__name__.lower()}"']
        expected = {
            **PLAIN,
            "positions": Learned(),
            "norm": "layer",
            "norm_placement": "pre",
            "biases": True,
        }
        wrong = misfits_of(family, expected)
        if family.key_value_heads not in (0, family.heads):
            wrong.append(f"key_value_heads = {family.key_value_heads}")
        if family.activation == "swiglu":
            wrong.append("activation = swiglu")
        return wrong

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
            "activation_function": their_activation(family),
            "layer_norm_epsilon": family.norm_eps,
            "resid_pdrop": family.dropout,
            "embd_pdrop": family.dropout,
            "attn_pdrop": attention_dropout(family),
            "initializer_range": family.init_std,
            "tie_word_embeddings": family.tied,
        }
