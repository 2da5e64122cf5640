"""The tokenizer in a GGUF file: byte-level BPE as in GPT-2.

A file has pieces, their types and merges, but only the name of the pre-tokenizer; unknown names are
refused.
"""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.config_keys import ConfigKeys

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
"GGUF token types of pieces that are never split: unknown, control tokens, user-defined words."

SINGLE_DIGITS = pre_tokenizers.Digits(individual_digits=True)
BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
PRE_TOKENIZERS = {
    "gpt-2": BYTE_LEVEL,
    "default": BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([SINGLE_DIGITS, BYTE_LEVEL]),
}
"Pre-tokenizers by their names in GGUF."


def build_gguf_tokenizer(metadata: ConfigKeys, *, name: str) -> Tokenizer:
    """The tokenizer of the metadata `tokenizer.ggml.*`."""
    kind = metadata.table.get("tokenizer.ggml.model")
    pre_tokenizer = metadata.table.get("tokenizer.ggml.pre") or "default"
    if kind != "gpt2":
        raise metadata.error("tokenizer.ggml.model", "regard reads byte-level BPE (gpt2) in GGUF")
    if pre_tokenizer not in PRE_TOKENIZERS:
        raise metadata.error("tokenizer.ggml.pre", f"regard knows {', '.join(PRE_TOKENIZERS)}")
    pieces, merges = _list(metadata, "tokens"), _list(metadata, "merges")
    types = _list(metadata, "token_type") if "tokenizer.ggml.token_type" in metadata else []
    pairs = [tuple(merge.split(" ")) for merge in merges]
    try:
        engine = tokenizers.Tokenizer(
            models.BPE({piece: number for number, piece in enumerate(pieces)}, pairs)
        )
    except Exception as problem:  # the library raises bare Exception, whatever is wrong
        raise UserError(
            f"its pieces and merges are not a valid BPE tokenizer ({problem})",
            topic="import",
            where=metadata.file,
        ) from None
    engine.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(_with_type(pieces, types, UNKNOWN, CONTROL))
    engine.add_tokens(
        [AddedToken(piece, normalized=False) for piece in _with_type(pieces, types, USER_DEFINED)]
    )
    return Tokenizer(engine, name=name)


def _with_type(pieces: list[str], types: list[int], *selected: int) -> list[str]:
    return [piece for piece, type_ in zip(pieces, types, strict=False) if type_ in selected]


def _list(metadata: ConfigKeys, key: str) -> list[Any]:
    value = metadata.table.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list):
        raise UserError(
            f"tokenizer.ggml.{key} is missing: the file has no tokenizer",
            topic="import",
            where=metadata.file,
        )
    return value
