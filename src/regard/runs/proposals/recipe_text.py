"""A recipe as commented TOML text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tomli_w

COMMENT_COLUMN = 33


class RecipeSetting(NamedTuple):
    key: str
    value: Any
    why: str = ""


Tables = Mapping[str, Sequence[RecipeSetting]]
"By table; the empty name holds the settings above all tables."


def recipe_toml(about: Sequence[str], tables: Tables) -> str:
    """`about` are the comments above everything; tables without settings are left out."""
    lines = [f"# {line}" for line in about]
    for table, settings in tables.items():
        if not settings:
            continue
        lines += ["", f"[{table}]"] if table else []
        lines += [_line(setting) for setting in settings]
    return "\n".join([*lines, ""])


def _line(setting: RecipeSetting) -> str:
    plain = f"{_key(setting.key)} = {toml_value(setting.value)}"
    return f"{plain:<{COMMENT_COLUMN}} # {setting.why}" if setting.why else plain


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


def toml_value(value: Any) -> str:
    """On one line, where tomli_w writes a list over several."""
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{_key(key)} = {toml_value(one)}' for key, one in value.items())} }}"
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return tomli_w.dumps({"x": value}).strip()[4:]
