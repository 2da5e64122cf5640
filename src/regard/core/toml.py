"""Reading TOML that people write: dotted changes, and where each key stands, for errors.

table = read_toml(Path("mini-gpt.toml"), topic="recipe")
table.override("train.lr=1e-3")        table.locate("train.lr")  →  "--set train.lr"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.core.errors import UserError


@dataclass
class TomlTable:
    """A file's table, with the changes made to it since."""

    file: Path
    table: dict[str, Any]
    lines: Mapping[str, int]
    "Where each dotted key stands."
    changed: dict[str, str] = field(default_factory=dict)
    "Who changed a key: `--set train.lr`."

    def override(self, text: str) -> None:
        """Write `a.b.c=value` into the table."""
        key, equals, given = text.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise UserError(f"--set {text}: write it as key=value, e.g. --set train.lr=1e-3")
        try:
            value = tomllib.loads(f"value = {given}")["value"]
        except tomllib.TOMLDecodeError:
            value = given  # a bare word is a string: --set model.attention.kind=dot
        self.change(key, value, by=f"--set {key}")

    def change(self, key: str, value: Any, *, by: str) -> None:
        """Give a dotted key a value; errors about it say that it comes from `by`."""
        *tables, last = key.split(".")
        table = self.table
        for name in tables:
            inner = table.setdefault(name, {})
            if isinstance(inner, str):  # model.attention = "dot" and a change inside it
                inner = table[name] = {"kind": inner}
            if not isinstance(inner, dict):
                raise UserError(f"{by}: {name} is not a table, so {key} cannot be set")
            table = inner
        if last == "kind" and table.get("kind") != value:
            table.clear()  # the settings beside it belong to the kind that was
        table[last] = value
        self.changed[key] = by

    def locate(self, key: str) -> str:
        """Where a dotted key stands: `mini-gpt.toml, line 18`, or who gave it."""
        for given, by in self.changed.items():
            if key == given or given.startswith(f"{key}.") or key.startswith(f"{given}."):
                return by
        while key and key not in self.lines:
            key = key.rpartition(".")[0]  # a key in an inline table stands on its parent's line
        return f"{self.file}, line {self.lines[key]}" if key else str(self.file)


def read_toml(file: Path, *, topic: str) -> TomlTable:
    """The file's table; what is no TOML is said with line and column."""
    text = _text_of(file, topic=topic)
    try:
        return TomlTable(file, tomllib.loads(text), _lines_of(text))
    except tomllib.TOMLDecodeError as problem:
        raise _not_toml(file, problem, topic=topic) from None


def flat(table: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        dotted = f"{key}.{name}" if key else name
        found |= flat(value, dotted) if isinstance(value, Mapping) else {dotted: value}
    return found


def _lines_of(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    header = ""
    for number, line in enumerate(text.splitlines(), 1):
        if table := re.match(r"\s*\[+\s*([^\]#]+?)\s*\]+", line):
            header = table[1]
            lines.setdefault(header, number)
        elif key := re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line):
            name = key[1].strip("\"'")
            lines.setdefault(f"{header}.{name}" if header else name, number)
    return lines


def _not_toml(file: Path, problem: tomllib.TOMLDecodeError, *, topic: str) -> UserError:
    what = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(problem), re.DOTALL)
    return UserError(
        f"not valid TOML: {what[1] if what else problem}",
        topic=topic,
        where=f"{file}, line {what[2]}, column {what[3]}" if what else str(file),
        hint='Tables are written [model], settings key = value, words in "quotes".',
    )


def _text_of(file: Path, *, topic: str) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except FileNotFoundError:
        raise UserError(
            f"{file} does not exist",
            topic=topic,
            hint="`regard new YOUR_FILE` writes one; recipes/ has some that run.",
        ) from None
    except IsADirectoryError:
        raise UserError(
            f"{file} is a folder, and no run: it has no recipe.toml",
            topic=topic,
            hint="Give a recipe (TOML), or a run folder such as runs/mini-gpt.",
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"{file} is not text in UTF-8", topic=topic, hint="Give a recipe (TOML)."
        ) from None
    except OSError as problem:
        raise UserError(f"{file} cannot be read ({problem.strerror})", topic=topic) from None
