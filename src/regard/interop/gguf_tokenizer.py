"""The tokenizer inside a GGUF file: byte-level BPE, as GPT-2's.

A file holds pieces, merges and what sort each piece is; how text is cut into words before the
merges is only named, so that only names are taken whose rule is known.
"""

from __future__ import annotations

from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.interop.huggingface.config_keys import Keys

UNKNOWN, CONTROL, WRITTEN = 2, 3, 4
"Sorts of pieces that are never cut: the unknown, marks, and words that somebody added."

ALONE = pre_tokenizers.Digits(individual_digits=True)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
CUTS = {
    "gpt-2": BYTES,
    "default": BYTES,
    "smollm": pre_tokenizers.Sequence([ALONE, BYTES]),
}
"How each name of a cut cuts."


def tokenizer_of(facts: Keys, *, name: str) -> Tokenizer:
    """From the keys `tokenizer.ggml.*`."""
    kind, cut = facts.table.get("tokenizer.ggml.model"), facts.table.get("tokenizer.ggml.pre")
    if kind != "gpt2":
        raise facts.error("tokenizer.ggml.model", "regard reads byte-level BPE (gpt2) in GGUF")
    if (cut or "default") not in CUTS:
        raise facts.error("tokenizer.ggml.pre", f"regard cuts as {', '.join(CUTS)}")
    pieces, merges = _list(facts, "tokens"), _list(facts, "merges")
    sorts = _list(facts, "token_type") if "tokenizer.ggml.token_type" in facts else []
    pairs = [tuple(merge.split(" ")) for merge in merges]
    try:
        engine = tokenizers.Tokenizer(
            models.BPE({piece: number for number, piece in enumerate(pieces)}, pairs)
        )
    except Exception as problem:  # the library raises bare Exception, whatever is wrong
        raise UserError(
            f"its pieces and merges make no tokenizer ({problem})",
            topic="import",
            where=facts.file,
        ) from None
    engine.pre_tokenizer = CUTS[cut or "default"]
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens(_of_sort(pieces, sorts, UNKNOWN, CONTROL))
    engine.add_tokens(
        [AddedToken(piece, normalized=False) for piece in _of_sort(pieces, sorts, WRITTEN)]
    )
    return Tokenizer(engine, name=name)


def _of_sort(pieces: list[str], sorts: list[int], *wanted: int) -> list[str]:
    return [piece for piece, sort in zip(pieces, sorts, strict=False) if sort in wanted]


def _list(facts: Keys, key: str) -> list[Any]:
    value = facts.table.get(f"tokenizer.ggml.{key}")
    if not isinstance(value, list):
        raise UserError(
            f"tokenizer.ggml.{key} is missing: the file has no tokenizer of its own",
            topic="import",
            where=facts.file,
        )
    return value
