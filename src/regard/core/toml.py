"""TOML with overrides by dotted key, and the line of each key for error messages.

table = read_toml(Path("mini-gpt.toml"), topic="recipe")
table.override("train.lr=1e-3")        table.locate("train.lr")  →  "--set train.lr"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from regard.core.errors import UserError
from regard.core.files import read_text
from regard.core.untrusted import MAX_DEPTH, check_depth, check_values

RECIPE_HINT = (
    "Give a recipe (TOML): `regard new YOUR_FILE` writes one; `regard recipes` lists some that run."
)
COPY_HINT = "`regard recipes --out recipes` copies the recipes that come with regard."
RUN_HINT = (
    "As a run it would be a folder: `regard runs` lists them, and `regard train RECIPE` makes one."
)
SYNTAX = 'Write tables as [model], settings as key = value, strings in "quotes".'
SYNTAX_HINTS = {
    "[“”„‘’]": 'Write straight quotes, ".',
    r"\\": "Write a path with /, or in single quotes, where \\ stays as it is.",
    r"=\s*(True|False)\b": "Write true and false in lower case.",
    r"=\s*None\b": "Leave the line out: TOML has no such value.",
    r"^\s*\w+\s*:": "Write = between a key and its value, not a colon.",
    r"^\s*\[[^\]]*\]\s*$": "Write each table once, and all its settings below it.",
    r"=\s*[A-Za-z./~]": 'Write texts and paths in "quotes".',
}
"By what stands in the line."
OTHER_RECIPES = (".yaml", ".yml", ".json", ".ini", ".cfg")
STUDY_HINT = "Give a study (TOML), such as recipes/masking.toml; `regard recipes` lists them."


@dataclass
class TomlTable:
    """A parsed TOML file and the overrides applied to it."""

    file: Path
    table: dict[str, Any]
    lines: Mapping[str, int]
    "Line number of each dotted key."
    changed: dict[str, str] = field(default_factory=dict)
    "What overrode a key: `--set train.lr`."

    @classmethod
    def of_dictionary(cls, table: Mapping[str, Any]) -> Self:
        """A table that comes from no file; the caller's own is never changed."""
        return cls(Path("the dictionary"), deepcopy(dict(table)), {})

    def override(self, text: str) -> None:
        """Apply an override written `a.b.c=value`."""
        key, value = parse_override(text)
        self.change(key, value, by=f"--set {key}")

    def change(self, key: str, value: Any, *, by: str) -> None:
        """Set a dotted key; errors about it name `by` as its origin."""
        *tables, last = key.split(".")
        table = self.table
        for name in tables:
            inner = table.setdefault(name, {})
            if isinstance(inner, str):  # model.attention = "dot", then a key inside it
                inner = table[name] = {"kind": inner}
            if not isinstance(inner, dict):
                raise UserError(f"{by}: {name} is not a table, so {key} cannot be set")
            table = inner
        if last == "kind" and table.get("kind") != value:
            table.clear()  # the other settings belong to the old kind
        table[last] = value
        self.changed[key] = by

    def locate(self, key: str) -> str:
        """Origin of a dotted key: `mini-gpt.toml, line 18`, or the override that set it."""
        for given, by in self.changed.items():
            if key == given or given.startswith(f"{key}.") or key.startswith(f"{given}."):
                return by
        while key and key not in self.lines:
            key = key.rpartition(".")[0]  # a key of an inline table is on its parent's line
        return f"{self.file}, line {self.lines[key]}" if key else str(self.file)


def parse_override(text: str) -> tuple[str, Any]:
    """Key and value of an override written `a.b.c=value`."""
    key, equals, given = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")) or key.count(".") >= MAX_DEPTH:
        raise UserError(f"--set {text}: write it as key=value, e.g. --set train.lr=1e-3")
    try:
        return key, _parse(f"value = {given}")["value"]
    except tomllib.TOMLDecodeError:
        return key, given  # a bare word is a string: --set model.attention.kind=dot
    except ValueError as problem:
        raise UserError(f"--set {key}: it is {problem}", topic="recipe") from None


def read_toml(file: Path, *, topic: str) -> TomlTable:
    """Parse a TOML file; a syntax error becomes a `UserError` with line and column."""
    if file.is_dir():
        raise UserError(
            f"{file} is a folder without recipe.toml, so it is no run",
            topic=topic,
            hint="Give a recipe (TOML), or a run folder such as runs/mini-gpt.",
        )
    hint = STUDY_HINT if topic == "study" else RECIPE_HINT
    if topic == "recipe" and not file.suffix and not file.exists():
        hint = RUN_HINT
    elif file.parts[0] == "recipes" and not file.parent.exists():  # not in a clone of regard
        hint = COPY_HINT
    text = read_text(file, topic=topic, hint=hint)
    try:
        return TomlTable(file, _parse(text), key_lines(text))
    except tomllib.TOMLDecodeError as problem:
        raise _syntax_error(file, text, problem, topic=topic) from None
    except ValueError as problem:
        raise UserError(f"holds {problem}", topic=topic, where=str(file), hint=hint) from None


def _parse(text: str) -> dict[str, Any]:
    """The table of a TOML text; a `ValueError` too for what no setting can be."""
    try:
        table = tomllib.loads(text)
        check_depth(table)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(f"tables nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as problem:  # too deep, or an integer of thousands of digits
        what = "an integer of more than 64 bits" if "digits" in str(problem) else str(problem)
        raise ValueError(what) from None
    check_values(table)
    return table


def flatten(table: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """Flatten nested tables into one with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        dotted = f"{key}.{name}" if key else name
        flat |= flatten(value, dotted) if isinstance(value, Mapping) else {dotted: value}
    return flat


def key_lines(text: str) -> dict[str, int]:
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


def _syntax_error(
    file: Path, text: str, problem: tomllib.TOMLDecodeError, *, topic: str
) -> UserError:
    if file.suffix != ".toml":
        hint = STUDY_HINT if topic == "study" else f"`regard new {file}` writes a recipe for data."
        if file.suffix in OTHER_RECIPES:
            hint = f"{SYNTAX} In Python, a dictionary will do: regard.train({{…}})."
        return UserError(
            f"is not a {topic}, which is a TOML file", topic=topic, where=str(file), hint=hint
        )
    located = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(problem), re.DOTALL)
    line = text.splitlines()[int(located[2]) - 1] if located else ""
    return UserError(
        f"not valid TOML: {located[1] if located else problem}",
        topic=topic,
        where=f"{file}, line {located[2]}, column {located[3]}" if located else str(file),
        hint=next((hint for sign, hint in SYNTAX_HINTS.items() if re.search(sign, line)), SYNTAX),
    )
