"""Which of the runs are meant, and in which order: conditions and sorting keys over their facts.

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
from regard.runs.archive.index import Facts, ListedRun, in_order

SHORT = {"family": "model.family", "attention": "model.attention.kind", "seed": "train.seed"}
"Keys that may be said shorter."
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
    """`key operator value` over a run's facts; a run that has no such key never meets it."""

    text: str
    key: str
    operator: str
    word: str
    "The value as it was written."
    value: Any
    "The value as TOML reads it: a number, true, a list; a bare word is a text."

    @classmethod
    def parse(cls, text: str) -> Condition:
        said = re.fullmatch(r"\s*([\w.-]+)\s*(<=|>=|!=|==?|<|>)\s*(.*?)\s*", text, re.DOTALL)
        if said is None or not said[3]:
            raise UserError(
                f"--where {text}: this is no condition",
                topic="runs",
                hint="Write key, operator (= != < <= > >=) and value: --where 'dev.perplexity<120'",
            )
        try:
            value = tomllib.loads(f"value = {said[3]}")["value"]
        except (ValueError, RecursionError):  # no TOML, or numbers and lists beyond reason
            value = said[3]
        key = SHORT.get(said[1], said[1])
        return cls(text, key, said[2].replace("==", "="), said[3], value)

    def fits(self, seen: Any) -> bool:
        """Whether `seen` and the value can be compared so; only numbers and texts have an order."""
        sort = _sort_of(seen)
        if self.operator not in ("=", "!=") and sort not in ("number", "text"):
            return False
        return sort in (_sort_of(self.value), _sort_of(self.word))

    def meets(self, facts: Facts) -> bool:
        seen = facts.get(self.key)
        if seen is None:
            return False
        if not self.fits(seen):
            return self.operator == "!="
        # `name=3` means the text "3" where the run's value is a text.
        value = self.value if _sort_of(seen) == _sort_of(self.value) else self.word
        return OPERATORS[self.operator](seen, value)


def _sort_of(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


def choose(runs: Sequence[ListedRun], conditions: Iterable[Condition]) -> list[ListedRun]:
    """The runs that meet every condition; a key that no run has is an error."""
    asked = list(conditions)
    for condition in asked:
        check_key(condition.key, runs, said=f"--where {condition.text}")
        seen = [run.facts[condition.key] for run in runs if condition.key in run.facts]
        if seen and not any(condition.fits(value) for value in seen):
            raise UserError(
                f"--where {condition.text}: {condition.key} holds a {_sort_of(seen[0])} such as "
                f"{seen[0]}, which cannot be compared so",
                topic="runs",
            )
    return [run for run in runs if all(condition.meets(run.facts) for condition in asked)]


def sort_runs(runs: Sequence[ListedRun], key: str) -> list[ListedRun]:
    """By a key, `-key` from the largest; runs without it, or whose value is NaN, come last."""
    name = SHORT.get(key.removeprefix("-"), key.removeprefix("-"))
    check_key(name, runs, said=f"--sort {key}")
    have = [run for run in runs if not _is_nothing(run.facts.get(name))]
    have.sort(key=lambda run: _rank(run.facts[name]), reverse=key.startswith("-"))
    return have + [run for run in runs if _is_nothing(run.facts.get(name))]


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _rank(value: Any) -> tuple[float, list[tuple[int, str]]]:
    """Numbers by size, then texts in order."""
    if isinstance(value, int | float):
        return (value, [])
    return (math.inf, in_order(str(value)))


def check_key(key: str, runs: Sequence[ListedRun], *, said: str) -> None:
    """Refuse a key that none of the runs has; where there are no runs, nothing can be known."""
    if not runs or any(key in run.facts for run in runs):
        return
    keys = {known for run in runs for known in run.facts}
    ends = sorted(known for known in keys if known.endswith(f".{key}"))
    close = f" — did you mean {ends[0]}?" if ends else did_you_mean(key, keys)
    raise UserError(
        f"{said}: no run here has the key {key}{close if 'did you mean' in close else ''}",
        topic="runs",
        hint="`regard runs --json` shows the keys of each run.",
    )
