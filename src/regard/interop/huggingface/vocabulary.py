"""Check that a tokenizer is the one a checkpoint was trained with.

With another tokenizer's ids nothing fails, but the outputs are nonsense. Two signs reveal it: the
ids of special tokens in config.json, and rows of the token embedding without a piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import SPECIAL_SPELLINGS, Tokenizer
from regard.interop.huggingface.checkpoint import read_json_table
from regard.interop.huggingface.config_keys import ConfigKeys

ROLES = {
    "bos": "start",
    "eos": "stop",
    "pad": "pad",
    "unk": "unk",
    "sep": "sep",
    "cls": "cls",
    "mask": "mask",
}
"Role of a special token in config.json → role in `SPECIAL_SPELLINGS`."

SUBSTITUTE_ROLES = {"pad": ("stop", "unk")}
"Padding is masked, so models without a pad token name another one for it."

ROW_MULTIPLE = 128
MAX_SPARE_FRACTION = 0.05
"""Embeddings are rounded up for speed, mostly to a multiple of 64 or 128; some have a few hundred
spare rows: 1.8 % of CodeGen's, 2.3 % of DeepSeek's. Beyond both, the tokenizer is in doubt."""


def read_special_tokens(folder: Path) -> dict[str, str]:
    """Special tokens by role, from the files beside tokenizer.json: `bos_token` → `<s>`."""
    files = [folder / "special_tokens_map.json", folder / "tokenizer_config.json"]
    tables = [read_json_table(file) for file in files if file.is_file()]
    merged = {key: value for table in tables for key, value in table.items()}
    # The value is the piece itself, or the table of an AddedToken.
    pieces = {k: v.get("content") if isinstance(v, dict) else v for k, v in merged.items()}
    return {k: v for k, v in pieces.items() if k.endswith("_token") and isinstance(v, str)}


def check_vocabulary(
    tokenizer: Tokenizer, config: ConfigKeys, *, rows: int, special_tokens: Mapping[str, str]
) -> list[str]:
    """Refuse a tokenizer that contradicts config.json; remarks about what is only suspicious.

    `rows` counts the rows of the token embedding, `special_tokens` are those of
    `read_special_tokens`.
    """
    if tokenizer.size > rows:
        raise UserError(
            f"the tokenizer {tokenizer.name} has {tokenizer.size:,} pieces, the token embedding "
            f"{rows:,} rows",
            topic="import",
            where=config.file,
            hint="Replace it with the tokenizer that the model was trained with.",
        )
    special = {t["content"] for t in tokenizer.to_dict()["added_tokens"] if t["special"]}
    for short, role in ROLES.items():
        ids = _ids(config, f"{short}_token_id")
        named = special_tokens.get(f"{short}_token")
        pieces = [tokenizer.tokens([i])[0] if i < tokenizer.size else None for i in ids]
        if ids and not any(_fits(piece, role, named=named, special=special) for piece in pieces):
            raise _contradiction(config, f"{short}_token_id", ids[0], pieces[0], tokenizer)
    return _spare_row_remarks(rows - tokenizer.size, rows, tokenizer)


def _ids(config: ConfigKeys, key: str) -> list[int]:
    """One id or a list of them; −1 means none in old files."""
    value = config.table.get(key)
    given = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in given):
        raise config.error(key, "a whole number is needed")
    return [i for i in given if i >= 0]


def _fits(piece: str | None, role: str, *, named: str | None, special: set[str]) -> bool:
    """Whether a piece may have a role; `named` is the role's piece in the tokenizer's files."""
    if piece is None:
        return False
    roles = (role, *SUBSTITUTE_ROLES.get(role, ()))
    if piece == named or any(piece in SPECIAL_SPELLINGS[each] for each in roles):
        return True
    has_other_role = any(piece in words for words in SPECIAL_SPELLINGS.values())
    return named is None and piece in special and not has_other_role


def _contradiction(
    config: ConfigKeys, key: str, number: int, piece: str | None, tokenizer: Tokenizer
) -> UserError:
    what = (
        f"and the tokenizer {tokenizer.name} has {tokenizer.size:,} pieces"
        if piece is None
        else f"which is the piece {piece!r} of the tokenizer {tokenizer.name}"
    )
    return UserError(
        f"{key} is {number:,}, {what}: it seems to belong to another model",
        topic="import",
        where=config.file,
        hint="Replace it with the tokenizer that the model was trained with; if it is this one, "
        f"remove {key} from config.json.",
    )


def _spare_row_remarks(spare: int, rows: int, tokenizer: Tokenizer) -> list[str]:
    rounded = -(-tokenizer.size // ROW_MULTIPLE) * ROW_MULTIPLE
    if rows <= rounded or spare <= MAX_SPARE_FRACTION * rows:
        return []
    return [
        f"is {tokenizer.name} its tokenizer? {spare:,} of its {rows:,} token embeddings "
        f"({spare / rows:.0%}) have no piece, far more than rounding up explains: "
        "with another model's tokenizer every id means another word"
    ]
