"""RoBERTa (Liu et al., 2019): BERT with another head, and places counted from after the pad's id.

Its position table begins with rows that stand for no place, one more than the number of the pad
token; they are dropped here and put back as zeros on the way out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.architecture import ARCHITECTURES
from regard.interop.huggingface.architectures.bert import Bert
from regard.interop.huggingface.config_keys import Keys
from regard.models.families.transformer import Transformer

USUAL_PAD = 1


@ARCHITECTURES.add("roberta", model_types=("roberta", "xlm-roberta", "camembert"))
class Roberta(Bert):
    """As BERT, its places counted from after the pad token's id."""

    name = "roberta"
    prefix = "roberta."
    head_names = ("lm_head.", "classifier.")

    head: ClassVar[dict[str, str]] = {
        "head.transform.linear": "lm_head.dense",
        "head.transform.norm": "lm_head.layer_norm",
    }
    head_bias = "lm_head.bias"
    head_table = "lm_head.decoder"
    written_as = ("RobertaModel", "RobertaForMaskedLM")

    def __init__(self, *, pad: int = USUAL_PAD) -> None:
        self.pad = pad

    @classmethod
    def for_config(cls, config: Keys) -> Roberta:
        return cls(pad=config.integer("pad_token_id", USUAL_PAD))

    @classmethod
    def for_tokenizer(cls, tokenizer: Tokenizer) -> Roberta:
        if tokenizer.pad is None:
            raise UserError(
                f"roberta counts places by the pad token, and {tokenizer.name} has none",
                topic="export",
                hint="Export it as bert.",
            )
        return cls(pad=tokenizer.pad)

    @property
    def first_place(self) -> int:
        return self.pad + 1

    def config(self, family: Transformer, *, vocabulary: int) -> dict[str, Any]:
        return {**super().config(family, vocabulary=vocabulary), "pad_token_id": self.pad}

    def _network_bends_alike(self, activation: str) -> bool:
        return True  # its own bends by gelu whatever the blocks do
