"""RoBERTa (Liu et al., 2019): BERT with another head, and position ids that begin at pad id + 1.

The first pad id + 1 rows of its position embedding are unused; they are dropped on import and
exported as zeros.
"""

from __future__ import annotations

from typing import Any, ClassVar

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import ARCHITECTURES
from regard.interop.huggingface.architectures.bert import Bert
from regard.interop.huggingface.config_keys import ConfigKeys
from regard.models.families.transformer import Transformer

DEFAULT_PAD_ID = 1


@ARCHITECTURES.add("roberta", model_types=("roberta", "xlm-roberta", "camembert"))
class Roberta(Bert):
    """BERT with position ids that begin at pad id + 1."""

    name = "roberta"
    prefix = "roberta."
    head_prefixes = ("lm_head.", "classifier.")

    head: ClassVar[dict[str, str]] = {
        "head.transform.linear": "lm_head.dense",
        "head.transform.norm": "lm_head.layer_norm",
    }
    classifier_name = "classifier.out_proj"
    head_bias = "lm_head.bias"
    head_linear = "lm_head.decoder"
    class_names = ("RobertaModel", "RobertaForMaskedLM")

    def __init__(self, *, pad: int = DEFAULT_PAD_ID, pooler: str = Bert.pooler_name) -> None:
        self.pad = pad
        self.pooler_name = pooler

    @classmethod
    def for_config(cls, config: ConfigKeys) -> Roberta:
        plain = cls(pad=config.integer("pad_token_id", DEFAULT_PAD_ID))
        is_classifier = config.class_name.endswith("ForSequenceClassification")
        return plain.with_classifier() if is_classifier else plain

    def with_classifier(self) -> Roberta:
        # Its classification head begins with what is a pooler in BERT.
        return Roberta(pad=self.pad, pooler="classifier.dense")

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer) -> Roberta:
        if tokenizer.pad is None:
            raise UserError(
                f"roberta counts positions from the pad id, and {tokenizer.name} has no pad token",
                topic="export",
                hint="Export it as bert.",
            )
        return cls(pad=tokenizer.pad)

    @property
    def position_offset(self) -> int:
        return self.pad + 1

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        return {**super().config(family, vocabulary=vocabulary), "pad_token_id": self.pad}

    def _transform_activation_fits(self, activation: str) -> bool:
        return True  # gelu, whatever the activation of the blocks
