"""Studies: all of them with their verdicts, and one as it is decided."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.reports.evidence import Evidence, read_evidence
from regard.reports.run_report import InlineChart
from regard.reports.study_report import (
    CHARTS,
    comparison_values,
    group_by_text,
    probe_attention,
)
from regard.reports.study_text import verdicts_by_score
from regard.runs.archive.record import RunRecord
from regard.studies.outcome import Outcome, read_outcome
from regard.studies.watch import WatchedRun, WatchedStudy, watch
from regard.web import plots
from regard.web.listing import ListedStudy, Listing, NotFoundError, id_of, stamp
from regard.web.pages import page
from regard.web.stream import Stamps, changes

MAX_KEPT = 8
"Studies whose evidence stays in memory."
FRESH_SECONDS = 5.0
"For which one that goes on is kept, unless its files change: who writes to it is in no stamp."


@dataclass(frozen=True)
class ShownStudy:
    """A study as it was at a stamp, read once for the page and all of its charts."""

    stamp: str
    read: float
    "When, on the monotonic clock."
    watched: WatchedStudy
    evidence: Evidence

    @property
    def is_stale(self) -> bool:
        """Whether time alone may have changed it."""
        return not self.watched.is_decided and time.monotonic() - self.read > FRESH_SECONDS


class Studies:
    """The views of studies."""

    def __init__(self, listing: Listing, stamps: Stamps) -> None:
        self._listing, self._stamps = listing, stamps
        self._kept: dict[str, ShownStudy] = {}
        self._verdicts: dict[str, tuple[float, Outcome | str]] = {}
        self._lock = threading.Lock()
        self._drawn: set[str] = set()
        "Addresses of charts that showed something: they will again, and need not be tried."

    def overview(self, request: Request) -> Response:
        """Every study with its verdict."""
        listed = list(self._listing.studies().values())
        cards = []
        for study in listed:
            outcome, reason = self._headline(study)
            judged = verdicts_by_score(outcome).get(outcome.decides, []) if outcome else []
            cards.append((study, outcome, reason, judged))
        runs = self._listing.runs()
        return page(
            "studies.html.j2",
            section="studies",
            cards=cards,
            runs=len(runs),
            root=self._listing.root,
            listing=self._listing,
        )

    def study(self, request: Request) -> Response:
        shown = self._shown(request.path_params["id"])
        watched = shown.watched
        address = f"/studies/{request.path_params['id']}"

        left = watched.seconds_left(now=datetime.now(UTC))
        return page(
            "study.html.j2",
            section="studies",
            **comparison_values(shown.evidence, self._places(shown, address)),
            attention={},
            watched=watched,
            address=address,
            seconds_left=left,
            grid=_grid(watched),
            run_ids=self._run_ids(watched),
            listed=self._listing.study(request.path_params["id"]),
        )

    def report(self, request: Request) -> Response:
        """The report, with charts that fit the window."""
        shown = self._shown(request.path_params["id"])
        if not shown.watched.is_decided:
            raise NotFoundError("the report is there once the study is decided", topic="page")
        address = f"/studies/{request.path_params['id']}"
        outcome = shown.watched.outcome
        return page(
            "study_report.html.j2",
            section="studies",
            **comparison_values(shown.evidence, self._places(shown, address)),
            attention=group_by_text(probe_attention(shown.watched.home, outcome)),
            address=address,
        )

    def chart(self, request: Request) -> Response:
        name, format = request.path_params["name"], request.path_params["format"]
        if name not in CHARTS or format not in plots.FORMATS:
            raise NotFoundError("there is no such chart", topic="page")
        shown = self._shown(request.path_params["id"])
        body, media_type = plots.answer(
            CHARTS[name], shown.evidence, format=format, options=request.query_params
        )
        return Response(body, media_type=media_type, headers={"cache-control": "no-store"})

    def numbers(self, request: Request) -> Response:
        """The outcome as JSON, as outcome.json has it; or every score as CSV."""
        shown = self._shown(request.path_params["id"])
        headers = {"cache-control": "no-store"}
        if request.path_params["format"] == "json":
            text = json.dumps(
                plots.finite(shown.watched.outcome.as_dict()), ensure_ascii=False, default=str
            )
            return Response(text, media_type="application/json", headers=headers)
        return Response(_scores_csv(shown.watched.outcome), media_type="text/csv", headers=headers)

    def events(self, request: Request) -> Response:
        study = self._listing.study(request.path_params["id"])
        return changes(self._stamps, study.id, lambda: stamp(study.folder))

    def _places(self, shown: ShownStudy, address: str) -> Callable[[str], list[InlineChart]]:
        """Where the browser draws each chart of a study."""

        def place(name: str) -> list[InlineChart]:
            at = f"{address}/charts/{name}"
            if at in self._drawn:
                return plots.place_at(at, version=shown.stamp)
            found = plots.place(CHARTS[name], shown.evidence, address=at, version=shown.stamp)
            self._drawn |= {at} if found else set()
            return found

        return place

    def _shown(self, id: str) -> ShownStudy:
        study = self._listing.study(id)
        now = stamp(study.folder)
        with self._lock:
            kept = self._kept.pop(id, None)
            if kept is None or kept.stamp != now or kept.is_stale:
                kept = _read(study, now)
            self._kept[id] = kept  # the last is the newest
            while len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            return kept

    def _headline(self, study: ListedStudy) -> tuple[Outcome | None, str]:
        """The outcome of a judged study, or why there is none."""
        known = self._verdicts.get(study.id)
        if known is None or known[0] != study.changed:
            try:
                found: Outcome | str = read_outcome(study.folder)
            except UserError as problem:
                found = "is being trained" if not study.is_judged else str(problem)
            self._verdicts[study.id] = known = (study.changed, found)
        outcome = known[1]
        return (outcome, "") if isinstance(outcome, Outcome) else (None, outcome)

    def _run_ids(self, watched: WatchedStudy) -> Mapping[str, str]:
        """By folder, of the runs that the listing has found."""
        root = self._listing.root
        known = self._listing.runs()
        ids = {
            str(run.folder): id_of(run.folder.relative_to(root).as_posix()) for run in watched.runs
        }
        return {folder: id for folder, id in ids.items() if id in known}


def _read(study: ListedStudy, now: str) -> ShownStudy:
    watched = watch(study.folder)
    running: dict[str, dict[int, RunRecord]] = {one.name: {} for one in watched.outcome.variants}
    for run in watched.runs:
        if (
            run.record is not None
            and run.record.events.steps
            and not run.has_ended
            and not run.trial
        ):
            running[run.variant][run.seed] = run.record
    evidence = replace(read_evidence(study.folder, watched.outcome), running=running)
    return ShownStudy(now, time.monotonic(), watched, evidence)


def _grid(watched: WatchedStudy) -> dict[str, list[WatchedRun]]:
    """The trainings of each variant, by seed; trials of tuning apart."""
    rows: dict[str, list[WatchedRun]] = {}
    for run in watched.runs:
        rows.setdefault(run.variant + (" · tuning" if run.trial else ""), []).append(run)
    return rows


def _scores_csv(outcome: Outcome) -> str:
    rows = outcome.estimates()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["of"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: plots.safe_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()
