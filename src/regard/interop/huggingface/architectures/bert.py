"""BERT (Devlin et al., 2019): tensor names and settings, in both directions.

Post-norm blocks over token, position and segment embeddings; pooler and head transform if the file
has them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from regard.attention.positions.learned import Learned
from regard.interop.huggingface.architecture import (
    ACTIVATIONS,
    ARCHITECTURES,
    Architecture,
    TensorMapping,
    attention_dropout,
    dropout_settings,
    per_parameter,
    transformers_activation,
)
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.encoder import Encoder
from regard.models.families.transformer import Transformer

BLOCK = {
    "attention.query": TensorMapping("attention.self.query"),
    "attention.key": TensorMapping("attention.self.key"),
    "attention.value": TensorMapping("attention.self.value"),
    "attention.out": TensorMapping("attention.output.dense"),
    "attention_residual.norm": TensorMapping("attention.output.LayerNorm"),
    "mlp.up_proj": TensorMapping("intermediate.dense"),
    "mlp.down_proj": TensorMapping("output.dense"),
    "mlp_residual.norm": TensorMapping("output.LayerNorm"),
}


@ARCHITECTURES.add("bert", model_types=("bert",))
class Bert(Architecture):
    """An encoder with post-norm, token types and, in some files, pooler and head transform."""

    name = "bert"
    family = "encoder"
    prefix = "bert."
    peft_prefix = ""
    head_prefixes: ClassVar[tuple[str, ...]] = ("cls.",)
    objective = "masked"
    peft_task = "FEATURE_EXTRACTION"
    block_prefix = "encoder.layer."

    head: ClassVar[dict[str, str]] = {
        "head.transform.linear": "cls.predictions.transform.dense",
        "head.transform.norm": "cls.predictions.transform.LayerNorm",
    }
    head_bias = "cls.predictions.bias"
    head_linear = "cls.predictions.decoder"
    pooler_name = "pooler.dense"
    classifier_name = "classifier"
    class_names = ("BertModel", "BertForMaskedLM")

    @property
    def position_offset(self) -> int:
        """Rows of the position embedding before that of the first position."""
        return 0

    def settings(
        self, config: ConfigKeys, available: frozenset[str], remarks: list[str]
    ) -> dict[str, Any]:
        self._check_supported(config)
        activation = config.choice("hidden_act", ACTIVATIONS, default="gelu")
        transform = f"{self.head['head.transform.linear']}.weight" in available
        if transform and not self._transform_activation_fits(activation):
            remarks.append(
                f"the activation of its head transform is {config.table['hidden_act']}, ours is "
                "gelu: the head transform is left out"
            )
            transform = False
        segments = "embeddings.token_type_embeddings.weight" in available
        return {
            "context": config.integer("max_position_embeddings") - self.position_offset,
            "layers": config.integer(self.layers_key),
            "heads": config.integer("num_attention_heads"),
            "width": config.integer("hidden_size"),
            "mlp_width": config.integer("intermediate_size"),
            "activation": activation,
            "norm_eps": config.number("layer_norm_eps", 1e-12),
            "norm_placement": "post",
            "tied": config.boolean("tie_word_embeddings", default=True) or not transform,
            **dropout_settings(
                config.number("hidden_dropout_prob", 0.1),
                config.number("attention_probs_dropout_prob", 0.1),
            ),
            "init_std": config.number("initializer_range", 0.02),
            "segments": config.integer("type_vocab_size", 2) if segments else 0,
            "embedding_norm": True,
            "head_transform": transform,
            "pooler": f"{self.pooler_name}.weight" in available,
        }

    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        family = _as_encoder(family)
        modules = {
            "embedding.norm": TensorMapping("embeddings.LayerNorm"),
            **self.in_every_block(family, BLOCK),
        }
        if family.pooler:
            modules["pooler.linear"] = TensorMapping(self.pooler_name)
        tables = {
            "embedding.tokens.weight": TensorMapping("embeddings.word_embeddings.weight"),
            "embedding.positions.weight": TensorMapping(
                "embeddings.position_embeddings.weight", skipped_rows=self.position_offset
            ),
        }
        if family.segments:
            tables["embedding.segments.weight"] = TensorMapping(
                "embeddings.token_type_embeddings.weight"
            )
        if family.head_transform:
            modules |= {ours: TensorMapping(theirs) for ours, theirs in self.head.items()}
            tables["head.tokens.bias"] = TensorMapping(self._bias_name(family))
        if not family.tied:
            tables["head.tokens.weight"] = TensorMapping(f"{self.head_linear}.weight")
        return tables | per_parameter(modules, suffixes=("weight", "bias"))

    def aliases(self, family: Transformer) -> dict[str, str]:
        family = _as_encoder(family)
        if not family.head_transform:
            return {}
        if family.tied:
            return {
                f"{self.head_linear}.weight": "embeddings.word_embeddings.weight",
                f"{self.head_linear}.bias": self.head_bias,
            }
        return {self.head_bias: f"{self.head_linear}.bias"}

    def supported_settings(self, family: Transformer) -> dict[str, Collection[Any]]:
        return {
            "positions": (Learned(),),
            "norm": ("layer",),
            "norm_placement": ("post",),
            "biases": (True,),
            "embedding_norm": (True,),
            "patch_dim": (0,),
            "key_value_heads": (0, family.heads),
            "activation": ACTIVATIONS.values(),
        }

    def unsupported_settings(self, family: Transformer) -> list[str]:
        family = _as_encoder(family)
        unsupported = super().unsupported_settings(family)
        gated = family.activation not in ACTIVATIONS.values()
        fits = self._transform_activation_fits(family.activation)
        if family.head_transform and not (gated or fits):
            unsupported.append(f"activation = {family.activation} beside head_transform = true")
        if not family.segments:
            unsupported.append("segments = 0")
        if not (family.tied or family.head_transform):
            unsupported.append("tied = false without head_transform")
        return unsupported

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        family = _as_encoder(family)
        return {
            "architectures": [self.class_names[family.head_transform]],
            "model_type": self.name,
            "vocab_size": vocabulary,
            "hidden_size": family.width,
            "num_hidden_layers": family.layers,
            "num_attention_heads": family.heads,
            "intermediate_size": family.resolved_mlp_width,
            "hidden_act": transformers_activation(family),
            "max_position_embeddings": family.context + self.position_offset,
            "type_vocab_size": family.segments,
            "layer_norm_eps": family.norm_eps,
            "hidden_dropout_prob": family.dropout,
            "attention_probs_dropout_prob": attention_dropout(family),
            "initializer_range": family.init_std,
            "tie_word_embeddings": family.tied,
        }

    def export_remarks(self, family: Transformer) -> list[str]:
        family = _as_encoder(family)
        if not family.boundary:
            return []
        return ["BERT has no span boundary head (boundary): it is left out"]

    def bare_name(self, name: str) -> str:
        # The first BERT checkpoints have TensorFlow's names for the parameters of a norm.
        renamed = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        return super().bare_name(renamed.replace("LayerNorm.beta", "LayerNorm.bias"))

    def _bias_name(self, family: Transformer) -> str:
        """The output bias has two names; transformers adds the second one, and ties both if the
        embedding is tied."""
        return self.head_bias if family.tied else f"{self.head_linear}.bias"

    def _transform_activation_fits(self, activation: str) -> bool:
        """BERT's head transform has the activation of its blocks; ours has gelu."""
        return activation == "gelu"

    def _check_supported(self, config: ConfigKeys) -> None:
        config.check(
            "position_embedding_type",
            allowed=("absolute",),
            reason="regard has only absolute positions for this architecture",
        )
        config.check("is_decoder", allowed=(False,), reason="regard imports it as an encoder only")
        config.check(
            "add_cross_attention",
            allowed=(False,),
            reason="regard imports it without cross-attention",
        )


def _as_encoder(family: Transformer) -> Encoder:
    assert isinstance(family, Encoder)  # as declared by `Bert.family`
    return family
