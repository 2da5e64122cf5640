"""Judging results that regard did not make, from files or from values in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.api.arguments import as_path
from regard.core.errors import UserError

if TYPE_CHECKING:
    from regard.studies.judging.item_table import ItemTable
    from regard.studies.judging.settings import JudgeSettings
    from regard.studies.outcome import Outcome


def judge(
    *results: Any,
    metric: str | None = None,
    id: str | None = None,
    seed: str | None = None,
    group: str | None = None,
    variant: str | None = None,
    predicted: str | None = None,
    truth: str | None = None,
    where: Mapping[str, object] | None = None,
    reference: str | None = None,
    lower_is_better: bool | None = None,
    out: str | PathLike[str] | None = None,
) -> Outcome:
    """Compare results that regard did not make, with the verdicts of a study.

    Each of `results` is a file of items, or anything with columns (a data frame, an Arrow table, a
    mapping of arrays); a lone mapping without a column of variants holds results by name, which may
    be arrays of scores too: (items) or (seeds, items). The first is the reference. `metric` is a
    column or a known metric, the other names are columns; without them the usual names are tried,
    and `remarks` says which. With `out` the outcome and its report are written to that folder.
    """
    from regard.studies.judging.columns import RowFilter
    from regard.studies.judging.item_table import as_key
    from regard.studies.judging.settings import JudgeSettings
    from regard.studies.judging.sources import tables_of

    if not results:
        raise UserError("nothing to judge", topic="judge", hint="Give two results or more.")
    settings = JudgeSettings(
        metric=metric,
        id=id,
        seed=seed,
        group=group,
        variant=variant,
        predicted=predicted,
        truth=truth,
        where=tuple(RowFilter(name, as_key(value)) for name, value in (where or {}).items()),
        reference=reference,
        lower_is_better=lower_is_better,
    )
    tables = tables_of(results, metric=metric, variant=variant)
    return _judge(tables, settings, command="regard.judge(…)", out=out)


def judge_files(
    files: Sequence[tuple[str, Path]],
    settings: JudgeSettings,
    *,
    command: str,
    out: str | PathLike[str] | None,
) -> Outcome:
    """Judge (variant, file), and write the outcome with its report to `out` or runs/NAME."""
    from regard.studies.judging.sources import read_files

    outcome = _judge(read_files(files), settings, command=command, out=None)
    name = re.sub(r"[^\w.-]+", "-", outcome.name).strip("-")
    return _write(outcome, Path("runs") / name if out is None else as_path(out, "out"))


def _judge(
    tables: list[ItemTable],
    settings: JudgeSettings,
    *,
    command: str,
    out: str | PathLike[str] | None,
) -> Outcome:
    from regard.studies.judging.judge import judge_tables
    from regard.studies.judging.sources import describe

    outcome = judge_tables(tables, settings, sources=describe(tables), command=command)
    return outcome if out is None else _write(outcome, as_path(out, "out"))


def _write(outcome: Outcome, home: Path) -> Outcome:
    from regard.reports.study_report import write_comparison_report
    from regard.studies.compare import keep_looks
    from regard.studies.outcome import OUTCOME_FILE, write_outcome

    if home.exists() and not home.is_dir():
        raise UserError("not a folder", topic="judge", where=str(home), hint="Give another --out.")
    is_judged = (home / OUTCOME_FILE).is_file() and not (home / "study.toml").exists()
    if home.exists() and any(home.iterdir()) and not is_judged:
        raise UserError(
            "holds something else than an earlier judgement",
            topic="judge",
            where=str(home),
            hint="Give another --out.",
        )
    home.mkdir(parents=True, exist_ok=True)
    keep_looks(outcome, home)
    written = write_outcome(home, outcome)
    write_comparison_report(home, written)
    return written
