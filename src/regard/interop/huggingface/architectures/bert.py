"""BERT (Devlin et al., 2019) in Hugging Face's form: names, settings, both ways.

Post-norm blocks over tokens, places and texts; with a pooler and with a network before the output
layer where the file has them.
"""

from __future__ import annotations

from typing import Any, ClassVar

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
from regard.models.families.encoder import Encoder
from regard.models.families.transformer import Transformer

BLOCK = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.out": "attention.output.dense",
    "attention_residual.norm": "attention.output.LayerNorm",
    "mlp.up_proj": "intermediate.dense",
    "mlp.down_proj": "output.dense",
    "mlp_residual.norm": "output.LayerNorm",
}


@ARCHITECTURES.add("bert", model_types=("bert",))
class Bert(Architecture):
    """An encoder with post-norm, token types and, in some files, a pooler and an output network."""

    name = "bert"
    family = "encoder"
    prefix = "bert."
    adapted_prefix = ""
    head_names: ClassVar[tuple[str, ...]] = ("cls.",)
    objective = "masked"
    task = "FEATURE_EXTRACTION"
    blocks = "encoder.layer."

    head: ClassVar[dict[str, str]] = {
        "head.transform.linear": "cls.predictions.transform.dense",
        "head.transform.norm": "cls.predictions.transform.LayerNorm",
    }
    head_bias = "cls.predictions.bias"
    head_table = "cls.predictions.decoder"
    written_as = ("BertModel", "BertForMaskedLM")

    @property
    def first_place(self) -> int:
        """Rows of the position table before that of the first place."""
        return 0

    def settings(self, config: Keys, held: frozenset[str], remarks: list[str]) -> dict[str, Any]:
        self._refuse_others(config)
        activation = config.choice("hidden_act", ACTIVATIONS, default="gelu")
        network = f"{self.head['head.transform.linear']}.weight" in held
        if network and not self._network_bends_alike(activation):
            remarks.append(
                f"its output network bends by {config.table['hidden_act']}, ours by gelu: "
                "it is left out"
            )
            network = False
        segments = "embeddings.token_type_embeddings.weight" in held
        return {
            "context": config.integer("max_position_embeddings") - self.first_place,
            "layers": config.integer(self.layers_key),
            "heads": config.integer("num_attention_heads"),
            "width": config.integer("hidden_size"),
            "mlp_width": config.integer("intermediate_size"),
            "activation": activation,
            "norm_eps": config.number("layer_norm_eps", 1e-12),
            "norm_placement": "post",
            "tied": config.truth("tie_word_embeddings", default=True) or not network,
            **dropouts(
                config.number("hidden_dropout_prob", 0.1),
                config.number("attention_probs_dropout_prob", 0.1),
            ),
            "init_std": config.number("initializer_range", 0.02),
            "segments": config.integer("type_vocab_size", 2) if segments else 0,
            "embedding_norm": True,
            "head_transform": network,
            "pooler": "pooler.dense.weight" in held,
        }

    def tensor_map(self, family: Transformer) -> dict[str, TensorMapping]:
        assert isinstance(family, Encoder)
        modules = {"embedding.norm": TensorMapping("embeddings.LayerNorm")}
        for layer in range(family.layers):
            for ours, theirs in BLOCK.items():
                modules[f"stack.blocks.{layer}.{ours}"] = TensorMapping(
                    f"encoder.layer.{layer}.{theirs}"
                )
        if family.pooler:
            modules["pooler.linear"] = TensorMapping("pooler.dense")
        tables = {
            "embedding.tokens.weight": TensorMapping("embeddings.word_embeddings.weight"),
            "embedding.positions.weight": TensorMapping(
                "embeddings.position_embeddings.weight", skipped=self.first_place
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
            tables["head.tokens.weight"] = TensorMapping(f"{self.head_table}.weight")
        return tables | per_parameter(modules, suffixes=("weight", "bias"))

    def copies(self, family: Transformer) -> dict[str, str]:
        assert isinstance(family, Encoder)
        if not family.head_transform:
            return {}
        if family.tied:
            return {
                f"{self.head_table}.weight": "embeddings.word_embeddings.weight",
                f"{self.head_table}.bias": self.head_bias,
            }
        return {self.head_bias: f"{self.head_table}.bias"}

    def misfits(self, family: Transformer) -> list[str]:
        if not isinstance(family, Encoder):
            return [f'family = "{type(family).__name__.lower()}"']
        expected = {
            **PLAIN,
            "positions": Learned(),
            "norm": "layer",
            "norm_placement": "post",
            "biases": True,
            "embedding_norm": True,
            "patch_dim": 0,
        }
        wrong = misfits_of(family, expected)
        if family.key_value_heads not in (0, family.heads):
            wrong.append(f"key_value_heads = {family.key_value_heads}")
        if family.activation == "swiglu":
            wrong.append("activation = swiglu")
        elif family.head_transform and not self._network_bends_alike(family.activation):
            wrong.append(f"activation = {family.activation} beside head_transform = true")
        if not family.segments:
            wrong.append("segments = 0")
        if not (family.tied or family.head_transform):
            wrong.append("tied = false without head_transform")
        return wrong

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        assert isinstance(family, Encoder)
        return {
            "architectures": [self.written_as[family.head_transform]],
            "model_type": self.name,
            "vocab_size": vocabulary,
            "hidden_size": family.width,
            "num_hidden_layers": family.layers,
            "num_attention_heads": family.heads,
            "intermediate_size": family.resolved_mlp_width,
            "hidden_act": their_activation(family),
            "max_position_embeddings": family.context + self.first_place,
            "type_vocab_size": family.segments,
            "layer_norm_eps": family.norm_eps,
            "hidden_dropout_prob": family.dropout,
            "attention_probs_dropout_prob": attention_dropout(family),
            "initializer_range": family.init_std,
            "tie_word_embeddings": family.tied,
        }

    def left_out(self, family: Transformer) -> list[str]:
        assert isinstance(family, Encoder)
        if not family.boundary:
            return []
        return ["the network that tells spans from their ends (boundary) has no place there"]

    def bare_name(self, name: str) -> str:
        # The first BERT checkpoints call the two parameters of a norm by TensorFlow's names.
        spelled = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        return super().bare_name(spelled.replace("LayerNorm.beta", "LayerNorm.bias"))

    def _bias_name(self, family: Transformer) -> str:
        """The bias has two names, which are one where the table is tied; transformers adds the
        second in any case."""
        return self.head_bias if family.tied else f"{self.head_table}.bias"

    def _network_bends_alike(self, activation: str) -> bool:
        """BERT's output network has the activation of its blocks; ours has gelu."""
        return activation == "gelu"

    def _refuse_others(self, config: Keys) -> None:
        config.refuse(
            "position_embedding_type",
            usual=("absolute",),
            reason="regard has absolute positions for this architecture alone",
        )
        config.refuse("is_decoder", usual=(False,), reason="regard takes it as an encoder alone")
        config.refuse(
            "add_cross_attention", usual=(False,), reason="regard reads it without a source"
        )
