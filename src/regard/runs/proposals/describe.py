"""Lines that say what a table's columns hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from regard.core.printable import first_few
from regard.data.corpus import Split
from regard.data.numbers import parse_number
from regard.data.recognition.profile import ColumnProfile, is_missing, profile_column
from regard.data.recognition.reading import Reading
from regard.data.recognition.table import TableSample
from regard.data.recognition.words import count_words
from regard.evaluation.formatting import join_words, quantity

MAX_NAMED = 5
MIN_ROWS_OF_CLASS = 10
"With fewer a class is named: its scores say little."
UNBALANCED = 0.8


def table_line(tables: Mapping[Split, TableSample]) -> str:
    """`reviews.csv: 1,204 rows, separated by semicolons`, or each file with its split."""
    if len(tables) == 1:
        one = tables["train"]
        more = f" and {one.files - 1} more" if one.files > 1 else ""
        return f"{one.path.name}{more}: {one.describe()}"
    table = tables["train"]
    named = [f"{split} {one.path.name} {one.count()}" for split, one in tables.items()]
    others = [one.writing() for one in tables.values()]
    writing = table.writing() if all(other == table.writing() for other in others) else []
    differing = [
        f"{one.path.name} {', '.join(one.writing())}"
        for one in tables.values()
        if one.writing() and not writing
    ]
    return "; ".join([", ".join(named), *([", ".join(writing)] if writing else differing)])


def text_line(table: TableSample, reading: Reading) -> str:
    profiles = [_profile(table, name) for name in reading.inputs]
    each = [f"{one.name!r} {one.mean_words:,.0f} words on average" for one in profiles]
    if reading.task == "extractive":
        each[0] += f", {profiles[0].distinct:,} different"
    missing = max(one.rows - one.filled for one in profiles)
    return f"input: {', '.join(each)}" + (
        f"; {quantity(missing, 'rows')} without one" if missing else ""
    )


def label_line(table: TableSample, reading: Reading) -> str:
    """The classes and their balance, the range of numbers, or the length of texts."""
    assert reading.target is not None
    profile = _profile(table, reading.target)
    if reading.task in ("classification", "pairs"):
        return _balance(profile)
    if reading.task == "tagging":
        tags = [str(tag) for row in table.columns[profile.name] for tag in row or ()]
        counts = Counter(tags)
        named = [f"{tag} {n / len(tags):.0%}" for tag, n in counts.most_common(MAX_NAMED)]
        more = [f"{len(counts) - MAX_NAMED} more"] if len(counts) > MAX_NAMED else []
        return f"tags: {profile.name!r}, {len(counts)} different: {', '.join([*named, *more])}"
    if profile.numbers is not None and reading.task in ("regression", "similarity"):
        low, high = profile.numbers
        mean = fmean(parse_number(value) or 0.0 for value in profile.counts.elements())
        return f"target: {profile.name!r}, from {low:g} to {high:g}, {mean:.3g} on average"
    # Of several answers or references each is one.
    texts = [_as_list(value) for value in table.columns[profile.name] if not is_missing(value)]
    words = f"{fmean(count_words(text) for each in texts for text in each):,.1f} words on average"
    return f"target: {profile.name!r}, {words}, in {profile.filled:,} of {profile.rows:,} rows"


def _as_list(value: Any) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else [str(value)]


def columns_left_out(
    table: TableSample, reading: Reading, group: str | None, split_column: str | None
) -> str:
    """The other columns, each with its kind; empty if there is none."""
    used = {*reading.inputs, *reading.optional.values(), reading.target, group, split_column}
    others = [_profile(table, name) for name in table.columns if name not in used]
    if not others:
        return ""
    named = [f"{one.name!r} ({_kind(one)})" for one in others[:MAX_NAMED]]
    more = [f"{len(others) - MAX_NAMED} more"] if len(others) > MAX_NAMED else []
    return f"left out: {join_words([*named, *more])}"


def _balance(profile: ColumnProfile) -> str:
    named = [
        f"{label!r} {count / profile.filled:.0%}"
        for label, count in profile.counts.most_common(MAX_NAMED)
    ]
    more = [f"{profile.distinct - MAX_NAMED} more"] if profile.distinct > MAX_NAMED else []
    said = f"label: {profile.name!r}, {profile.distinct} classes: {', '.join([*named, *more])}"
    if profile.majority_rate >= UNBALANCED:
        said += f"; unbalanced: always {profile.counts.most_common(1)[0][0]!r} is right as often"
    rare = [label for label, count in profile.counts.items() if count < MIN_ROWS_OF_CLASS]
    if rare:
        shown = first_few(list(map(repr, rare)), 3)
        said += f"; fewer than {MIN_ROWS_OF_CLASS} rows: {shown}"
    if missing := profile.rows - profile.filled:
        said += f"; {quantity(missing, 'rows')} without one"
    return said


def _kind(profile: ColumnProfile) -> str:
    kinds = {"index": "row numbers", "category": f"{profile.distinct:,} values", "other": "objects"}
    return kinds.get(profile.kind, profile.kind)


def _profile(table: TableSample, name: str) -> ColumnProfile:
    return profile_column(name, table.columns[name])
