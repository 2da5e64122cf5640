"""Whether a tokenizer is the one that a checkpoint was trained with, as far as its files tell.

Ids of another tokenizer mean other words, and nothing fails: the model only answers nonsense. Two
things give it away: the ids that config.json names for special tokens, and rows of the token table
that no piece has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import SPECIAL_SPELLINGS, Tokenizer
from regard.interop.huggingface.checkpoint import read_table
from regard.interop.huggingface.config_keys import Keys

ROLES = {
    "bos": "start",
    "eos": "stop",
    "pad": "pad",
    "unk": "unk",
    "sep": "sep",
    "cls": "cls",
    "mask": "mask",
}
"What config.json calls the roles that `SPECIAL_SPELLINGS` spells."

STANDS_IN = {"pad": ("stop", "unk")}
"Nothing reads padding, and models without a token for it name another there."

ROUNDED_TO = 128
SMALL_SHARE = 0.05
"""Tables are rounded up for speed, mostly to a multiple of 64 or 128, and some keep a few hundred
rows to spare: 1.8 % of CodeGen's, 2.3 % of DeepSeek's. Beyond both it is no padding."""


def named_tokens(folder: Path) -> dict[str, str]:
    """What a folder's files beside tokenizer.json call the roles: `bos_token`, `<s>`."""
    files = [folder / "special_tokens_map.json", folder / "tokenizer_config.json"]
    tables = [read_table(file) for file in files if file.is_file()]
    found = {key: value for table in tables for key, value in table.items()}
    # Either the piece, or a table of how it is found in text.
    plain = {k: v.get("content") if isinstance(v, dict) else v for k, v in found.items()}
    return {k: v for k, v in plain.items() if k.endswith("_token") and isinstance(v, str)}


def check_vocabulary(
    tokenizer: Tokenizer, config: Keys, *, rows: int, named: Mapping[str, str]
) -> list[str]:
    """Refuse a tokenizer that contradicts config.json; what is only strange is said. `rows` are
    those of the token table, `named` what `named_tokens` found."""
    if tokenizer.size > rows:
        raise UserError(
            f"the tokenizer {tokenizer.name} has {tokenizer.size:,} pieces, the model a table of "
            f"{rows:,} rows",
            topic="import",
            where=config.file,
            hint="Put the tokenizer beside it that it was trained with.",
        )
    special = {t["content"] for t in tokenizer.to_dict()["added_tokens"] if t["special"]}
    for short, role in ROLES.items():
        ids = _ids(config, f"{short}_token_id")
        own = named.get(f"{short}_token")
        pieces = [tokenizer.tokens([i])[0] if i < tokenizer.size else None for i in ids]
        if ids and not any(_fits(piece, role, own=own, special=special) for piece in pieces):
            raise _contradiction(config, f"{short}_token_id", ids[0], pieces[0], tokenizer)
    return _said_of_surplus(rows - tokenizer.size, rows, tokenizer)


def _ids(config: Keys, key: str) -> list[int]:
    """One id or a list of them; −1 is how old files say that there is none."""
    value = config.table.get(key)
    given = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in given):
        raise config.error(key, "a whole number is needed")
    return [i for i in given if i >= 0]


def _fits(piece: str | None, role: str, *, own: str | None, special: set[str]) -> bool:
    """Whether a piece may play a role, which the tokenizer's `own` piece plays if there is one."""
    if piece is None:
        return False
    alike = (role, *STANDS_IN.get(role, ()))
    if piece == own or any(piece in SPECIAL_SPELLINGS[each] for each in alike):
        return True
    spelled_otherwise = any(piece in words for words in SPECIAL_SPELLINGS.values())
    return own is None and piece in special and not spelled_otherwise


def _contradiction(
    config: Keys, key: str, number: int, piece: str | None, tokenizer: Tokenizer
) -> UserError:
    what = (
        f"and the tokenizer {tokenizer.name} has {tokenizer.size:,} pieces"
        if piece is None
        else f"which is the piece {piece!r} of the tokenizer {tokenizer.name}"
    )
    return UserError(
        f"{key} is {number:,}, {what}: it seems to be another model's",
        topic="import",
        where=config.file,
        hint="Put the tokenizer beside it that it was trained with; if it is this one, "
        f"take {key} out of config.json.",
    )


def _said_of_surplus(surplus: int, rows: int, tokenizer: Tokenizer) -> list[str]:
    rounded = -(-tokenizer.size // ROUNDED_TO) * ROUNDED_TO
    if rows <= rounded or surplus <= SMALL_SHARE * rows:
        return []
    return [
        f"is {tokenizer.name} its tokenizer? {surplus:,} of its {rows:,} rows of tokens "
        f"({surplus / rows:.0%}) stand for no piece of it, far more than a table is rounded up by: "
        "with another model's tokenizer every id means another word"
    ]
