"""The metric of foreign items: a column of scores, or one of regard's own metrics over columns.

Whether more or less of it is better follows from its name, or the user says it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.core.errors import UserError, closest
from regard.core.printable import first_few, truncate
from regard.data.numbers import THOUSANDS, has_decimal_comma
from regard.evaluation.formatting import join_words, quantity
from regard.evaluation.metrics.classification import ClassificationMetric
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.metric import Metric
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, perplexity, ratio
from regard.studies.judging.columns import find_column
from regard.studies.judging.item_table import LM_EVAL, ItemTable, as_key, is_missing
from regard.studies.judging.score_names import Bounds, bounds, direction, names_a_score

ALIASES = {"accuracy": ("acc", "correct", "is_correct"), "exact_match": ("em", "exact")}
"Columns that hold a known metric under another name."
LOSS_COLUMNS = {
    "nats": ("nats", "nll", "neg_log_likelihood"),
    "tokens": ("tokens", "n_tokens", "num_tokens"),
    "bytes": ("bytes", "n_bytes", "num_bytes"),
}
"What perplexity is computed from."

KNOWN = (*ClassificationMetric.score_names, *DocumentMetric.score_names, *ALIASES)
"Metrics that need no column of their own."

LM_EVAL_RATIOS: dict[str, ScoreFunction] = {
    "perplexity": perplexity,
    "word_perplexity": perplexity,
    "byte_perplexity": perplexity,
    "bits_per_byte": lambda sums: ratio(sums) / math.log(2),
}
"Scores of lm-evaluation-harness that are no mean over items."

WORDS_OF_TRUTH = {"true": 1.0, "false": 0.0, "correct": 1.0, "incorrect": 0.0}
"Texts that stand for a right or a wrong answer."


@dataclass(frozen=True)
class ItemMetric:
    """How the rows of a table become statistics, and their sums a score."""

    name: str
    statistics: Callable[[ItemTable], Values]
    "(c, n), for every row of a table."
    score_function: ScoreFunction
    lower_is_better: bool
    bounds: Bounds
    source: str
    "What it is computed from, in words."
    same: str | None = None
    "The column that must be equal for an item in every table."
    answers: tuple[str, str] | None = None
    "The columns of predicted and true labels, if it is computed from these."


def find_metric(
    tables: Sequence[ItemTable],
    name: str | None,
    *,
    lower_is_better: bool | None,
    predicted: str | None = None,
    truth: str | None = None,
) -> ItemMetric:
    """The metric of that name, or the only column that looks like one."""
    name = name or _only_metric(tables)
    known = _known_metric(tables, name, predicted=predicted, truth=truth)
    names = [name, *ALIASES.get(name, ())] if predicted is None else []
    columns = _first_of(tables, names)
    if columns is None and known is not None:
        return known
    if columns is None and name in ALIASES and (only := _only_score(tables)):
        columns = (only,)
    if columns is None:
        raise _no_metric(tables, name)
    lower, limits = direction(name, lower_is_better), bounds(name)
    if name in LM_EVAL_RATIOS and any(table.kind == LM_EVAL for table in tables):
        return _lm_eval_ratio(name, columns[0])
    return ItemMetric(
        name=name,
        statistics=lambda table: _column_statistics(table, columns, limits),
        score_function=ratio,
        lower_is_better=lower,
        bounds=limits,
        source=f"the mean of column {join_words(columns)}",
    )


def _first_of(tables: Sequence[ItemTable], names: Sequence[str]) -> tuple[str, ...] | None:
    """The names in use, of which each table has the first that it can; None if one has none."""
    first = [next((name for name in names if name in table.columns), None) for table in tables]
    found = tuple(dict.fromkeys(name for name in first if name is not None))
    return None if None in first else found


def _lm_eval_ratio(name: str, column: str) -> ItemMetric:
    """A score of lm-evaluation-harness whose items hold a log-likelihood, and what it is per."""

    def statistics(table: ItemTable) -> Values:
        values = np.ones((2, len(table)))
        for row, value in enumerate(table.columns[column]):
            parts = value if isinstance(value, list) else [value, 1.0]
            numbers = [_number(part) for part in parts]
            if len(numbers) != 2 or any(number is None for number in numbers):
                raise _no_number(table, column, row)
            values[:, row] = numbers
        values[0] *= -1
        return values

    return ItemMetric(
        name=name,
        statistics=statistics,
        score_function=LM_EVAL_RATIOS[name],
        lower_is_better=True,
        bounds=(0.0, math.inf) if name == "bits_per_byte" else (1.0, math.inf),
        source=f"computed from the log-likelihoods in column {column}",
    )


def _only_score(tables: Sequence[ItemTable]) -> str | None:
    """The one column that every file calls a score."""
    scores = {table.scores for table in tables}
    only = scores.pop() if len(scores) == 1 else ()
    return only[0] if len(only) == 1 else None


def _only_metric(tables: Sequence[ItemTable]) -> str:
    if only := _only_score(tables):
        return only
    found = [name for name in tables[0].columns if _is_metric(tables, name)]
    # A column whose values are no numbers is named by the error that says so.
    named = [name for name in tables[0].columns if names_a_score(name)]
    found = found or named[:1]
    if len(found) == 1:
        return found[0]
    shown = f"these could be it: {', '.join(found[:8])}" if found else "no column looks like it"
    raise tables[0].error(
        f"which metric decides is not said, and {shown}", hint="Name it with --metric."
    )


def _is_metric(tables: Sequence[ItemTable], name: str) -> bool:
    return names_a_score(name) and all(
        name in table.columns and _number(table.columns[name][0]) is not None for table in tables
    )


def _in_every(tables: Sequence[ItemTable], column: str) -> bool:
    return all(column in table.columns for table in tables)


def _no_metric(tables: Sequence[ItemTable], name: str) -> UserError:
    lacking = [one for one in tables if not {name, *ALIASES.get(name, ())} & one.columns.keys()]
    table = (lacking or list(tables))[0]
    if name in KNOWN:
        what = f"{name} is no column, and there are none to compute it from"
        return table.no_column(name, option="--metric", what=what)
    if guess := closest(name, [*table.columns, *KNOWN]):
        return table.error(f"no column {name}{guess}", hint="Name the metric with --metric.")
    return table.no_column(name, option="--metric")


def _column_statistics(table: ItemTable, columns: Sequence[str], limits: Bounds) -> Values:
    """(2, n): the values of the first of the columns that the table has, and 1 for each."""
    column = next(name for name in columns if name in table.columns)
    values = np.ones((2, len(table)))
    low, high = limits
    has_comma = has_decimal_comma(table.columns[column])
    for row, value in enumerate(table.columns[column]):
        is_decimal = has_comma and isinstance(value, str)
        number = _number(value.replace(",", ".") if is_decimal else value)
        if number is None:
            raise _no_number(table, column, row)
        if not low <= number <= high:
            raise _out_of_range(table, column, row, number, limits)
        values[0, row] = number
    return values


def _number(value: object) -> float | None:
    """A finite number, or a right or wrong answer as 1 or 0; None for anything else."""
    if isinstance(value, str):
        if value.strip().lower() in WORDS_OF_TRUTH:
            return WORDS_OF_TRUTH[value.strip().lower()]
        try:
            number = float(value)
        except ValueError:
            return None
    elif isinstance(value, bool | int | float | np.bool_ | np.integer):
        try:
            number = float(value)
        except OverflowError:
            return None
    else:
        return None
    return number if math.isfinite(number) else None


def _no_number(table: ItemTable, column: str, row: int) -> UserError:
    value = table.columns[column][row]
    if is_missing(value):
        state = "not a number" if isinstance(value, float) else "empty"
        hint = (
            "A missing answer is a wrong one: give it its score, or leave out the item in every "
            "file; of a model that diverged, leave out the seed."
        )
        return table.error(f"{column} is {state}", row=row, hint=hint)
    if isinstance(value, str) and THOUSANDS.fullmatch(value.strip()):
        what = f"{column} is {value!r}, which may be decimal or in thousands"
        return table.error(what, row=row, hint="Write numbers with a point, and without commas.")
    return table.error(
        f"{column} is {truncate(repr(value), 40)}, not a finite number",
        row=row,
        hint="Name a column of numbers, or of true and false, with --metric.",
    )


def _out_of_range(
    table: ItemTable, column: str, row: int, number: float, limits: Bounds
) -> UserError:
    low, high = limits
    what = f"between {low:g} and {high:g}" if math.isfinite(high) else f"at least {low:g}"
    percent = high == 1 and 2 <= number <= 100
    hint = "Divide by 100." if percent else "Correct the value, or name another column."
    return table.error(f"{column} is {number:g}, and must be {what}", row=row, hint=hint)


def _known_metric(
    tables: Sequence[ItemTable], name: str, *, predicted: str | None, truth: str | None
) -> ItemMetric | None:
    """One of regard's metrics, if the tables have the columns that it is computed from."""
    if name in ClassificationMetric.score_names:
        return _classification(tables, name, predicted=predicted, truth=truth)
    if name in DocumentMetric.score_names:
        return _perplexity(tables, name)
    return None


def _classification(
    tables: Sequence[ItemTable], name: str, *, predicted: str | None, truth: str | None
) -> ItemMetric | None:
    answer = find_column(tables, "predicted", predicted)
    label = find_column(tables, "truth", truth)
    if answer is None or label is None:
        return None
    labels = {
        as_key(value)
        for table in tables
        for column in (answer, label)
        for value in table.columns[column]
    }
    metric = ClassificationMetric(labels=tuple(sorted(labels)))

    def rows(table: ItemTable) -> list[dict[str, str]]:
        found = []
        for row, values in enumerate(table.rows(answer, label)):
            for column, value in zip((answer, label), values, strict=True):
                if is_missing(value) or isinstance(value, list | dict):
                    state = "empty" if is_missing(value) else "no label"
                    hint = "Give every item one label, or name another column."
                    raise table.error(f"{column} is {state}", row=row, hint=hint)
            found.append(dict(zip(("predicted", "truth"), map(as_key, values), strict=True)))
        return found

    _refuse_other_spelling(tables, answer, label)
    found = _of_metric(metric, name, rows, columns=(answer, label))
    return replace(found, answers=(answer, label))


def _refuse_other_spelling(tables: Sequence[ItemTable], answer: str, label: str) -> None:
    """Predictions of which not one is any item's truth, such as `yes` where that is 1, would all
    count as wrong."""
    for table in tables:
        predicted, true = (
            dict.fromkeys(as_key(one) for one in table.columns[name] if not is_missing(one))
            for name in (answer, label)
        )
        if predicted and true and not predicted.keys() & true.keys():
            raise table.error(
                f"{answer} is {_some(predicted)}, {label} is {_some(true)}, and none are the same",
                hint="Write both alike, or name a column of scores with --metric.",
            )


def other_spelling(tables: Sequence[ItemTable], metric: ItemMetric) -> list[str]:
    """How many answers only case or spaces make wrong, a sentence for each variant."""
    if metric.answers is None:
        return []
    found: dict[str, list[tuple[str, str]]] = {}
    for table in tables:
        pairs = ((as_key(one), as_key(true)) for one, true in table.rows(*metric.answers))
        found.setdefault(table.name, []).extend(
            (one, true)
            for one, true in pairs
            if one != true and one.strip().casefold() == true.strip().casefold()
        )
    return [
        f"{quantity(len(pairs), 'answers')} of {name} {'is' if len(pairs) == 1 else 'are'} wrong "
        f"by case or spaces alone, such as {pairs[0][0]!r} for {pairs[0][1]!r}"
        for name, pairs in found.items()
        if pairs
    ]


def _some(labels: Iterable[str]) -> str:
    return first_few([repr(truncate(one, 20)) for one in labels], 3)


def _perplexity(tables: Sequence[ItemTable], name: str) -> ItemMetric | None:
    columns = {
        role: next((one for one in names if _in_every(tables, one)), None)
        for role, names in LOSS_COLUMNS.items()
    }
    needed = ("nats", "bytes" if "byte" in name else "tokens")
    if any(columns[role] is None for role in needed):
        return None

    def rows(table: ItemTable) -> list[dict[str, float]]:
        found = [dict.fromkeys(LOSS_COLUMNS, 1.0) for _ in range(len(table))]
        for role in needed:
            column = str(columns[role])
            for row, value in enumerate(table.columns[column]):
                number = _number(value)
                if number is None:
                    raise _no_number(table, column, row)
                least = 0.0 if role == "nats" else 1.0
                if number < least:
                    raise _out_of_range(table, column, row, number, (least, math.inf))
                found[row][role] = number
        return found

    used = tuple(str(columns[role]) for role in needed)
    return _of_metric(DocumentMetric(), name, rows, columns=used)


def _of_metric(
    metric: Metric,
    name: str,
    rows: Callable[[ItemTable], Sequence[Mapping[str, Any]]],
    *,
    columns: Sequence[str],
) -> ItemMetric:
    """Computed from columns, of which the last belongs to the item and not to the variant."""
    return ItemMetric(
        name=name,
        statistics=lambda table: metric.statistics(rows(table)),
        score_function=metric.score_function(name),
        lower_is_better=not metric.higher_is_better(name),
        bounds=metric.bounds(name),
        source=f"computed from {join_words(columns)}",
        same=columns[-1],
    )
