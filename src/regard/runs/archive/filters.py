"""Filter and sort runs by conditions and keys over their facts.

model.attention.kind=additive    model.layers>=3    dev.perplexity<120    finished>2026-11-01
"""

from __future__ import annotations

import math
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UserError, did_you_mean
from regard.runs.archive.index import Facts, ListedRun, natural_sort_key

ALIASES = {"family": "model.family", "attention": "model.attention.kind", "seed": "train.seed"}
"Short names of keys."
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Condition:
    """`key operator value` over a run's facts; false for a run without the key."""

    text: str
    key: str
    operator: str
    word: str
    "The value as written."
    value: Any
    "The value as TOML parses it: a number, true, a list; a bare word is a text."

    @classmethod
    def parse(cls, text: str) -> Condition:
        match = re.fullmatch(r"\s*([\w.-]+)\s*(<=|>=|!=|==?|<|>)\s*(.*?)\s*", text, re.DOTALL)
        if match is None or not match[3]:
            raise UserError(
                f"--where {text}: this is no condition",
                topic="runs",
                hint="Write key, operator (= != < <= > >=) and value: --where 'dev.perplexity<120'",
            )
        try:
            value = tomllib.loads(f"value = {match[3]}")["value"]
        except (ValueError, RecursionError):  # no TOML, or numbers and lists too large
            value = match[3]
        key = ALIASES.get(match[1], match[1])
        return cls(text, key, match[2].replace("==", "="), match[3], value)

    def is_comparable(self, fact: Any) -> bool:
        """Whether the operator applies to `fact` and the value; numbers and texts are ordered."""
        type_name = _type_name(fact)
        if self.operator not in ("=", "!=") and type_name not in ("number", "text"):
            return False
        return type_name in (_type_name(self.value), _type_name(self.word))

    def matches(self, facts: Facts) -> bool:
        fact = facts.get(self.key)
        if fact is None:
            return False
        if not self.is_comparable(fact):
            return self.operator == "!="
        # `name=3` means the text "3" if the run's value is a text.
        value = self.value if _type_name(fact) == _type_name(self.value) else self.word
        return OPERATORS[self.operator](fact, value)


def _type_name(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


def filter_runs(runs: Sequence[ListedRun], conditions: Iterable[Condition]) -> list[ListedRun]:
    """The runs that match every condition; a key that no run has is an error."""
    conditions = list(conditions)
    for condition in conditions:
        check_key(condition.key, runs, option=f"--where {condition.text}")
        values = [run.facts[condition.key] for run in runs if condition.key in run.facts]
        if values and not any(condition.is_comparable(value) for value in values):
            raise UserError(
                f"--where {condition.text}: {condition.key} is a {_type_name(values[0])} such as "
                f"{values[0]}, which cannot be compared so",
                topic="runs",
            )
    return [run for run in runs if all(condition.matches(run.facts) for condition in conditions)]


def sort_runs(runs: Sequence[ListedRun], key: str) -> list[ListedRun]:
    """Sort by a key, `-key` descending; runs without it, or with NaN, come last."""
    name = ALIASES.get(key.removeprefix("-"), key.removeprefix("-"))
    check_key(name, runs, option=f"--sort {key}")
    present = [run for run in runs if not _is_missing(run.facts.get(name))]
    present.sort(key=lambda run: _sort_key(run.facts[name]), reverse=key.startswith("-"))
    return present + [run for run in runs if _is_missing(run.facts.get(name))]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _sort_key(value: Any) -> tuple[float, list[tuple[int, str]]]:
    """Numbers by size, then texts in order."""
    if isinstance(value, int | float):
        return (value, [])
    return (math.inf, natural_sort_key(str(value)))


def check_key(key: str, runs: Sequence[ListedRun], *, option: str) -> None:
    """Refuse a key that none of the runs has; without runs any key passes."""
    if not runs or any(key in run.facts for run in runs):
        return
    keys = {name for run in runs for name in run.facts}
    dotted = sorted(name for name in keys if name.endswith(f".{key}"))
    close = f" — did you mean {dotted[0]}?" if dotted else did_you_mean(key, keys)
    raise UserError(
        f"{option}: no run here has the key {key}{close if 'did you mean' in close else ''}",
        topic="runs",
        hint="`regard runs --json` shows the keys of each run.",
    )
