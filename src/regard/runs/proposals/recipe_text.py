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
    if isinstance(setting.value, dict):
        inside = ", ".join(tomli_w.dumps({k: v}).strip() for k, v in setting.value.items())
        plain = f"{tomli_w.dumps({setting.key: 0}).partition(' =')[0]} = {{ {inside} }}"
    elif isinstance(setting.value, list | tuple):
        inside = ", ".join(tomli_w.dumps({"x": one}).strip()[4:] for one in setting.value)
        plain = f"{tomli_w.dumps({setting.key: 0}).partition(' =')[0]} = [{inside}]"
    else:
        plain = tomli_w.dumps({setting.key: setting.value}).rstrip()
    return f"{plain:<{COMMENT_COLUMN}} # {setting.why}" if setting.why else plain
