"""Settings of a comparison of item tables."""

from __future__ import annotations

from dataclasses import dataclass

from regard.studies.judging.columns import RowFilter


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    """What is compared, and which columns hold it; None: found by the usual names."""

    metric: str | None = None
    id: str | None = None
    seed: str | None = None
    group: str | None = None
    variant: str | None = None
    predicted: str | None = None
    truth: str | None = None
    where: tuple[RowFilter, ...] = ()
    reference: str | None = None
    lower_is_better: bool | None = None
