"""Runs: the table of all of them, one run as its report has it, two compared, and deletion."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.reports.charts.run_charts import compared_losses, window_means
from regard.reports.evidence import differing_values
from regard.reports.run_report import RUN_CHARTS, InlineChart, report_values
from regard.runs.archive.deletion import check_deletable, delete_runs
from regard.runs.archive.filters import Condition, filter_runs, sort_runs
from regard.runs.archive.index import ListedRun, RunState
from regard.runs.archive.item_errors import ItemErrors, read_errors
from regard.runs.archive.read_run import read_run
from regard.runs.archive.record import RunRecord
from regard.runs.locking.lock import seems_written
from regard.web import plots
from regard.web.listing import Listing, NotFoundError, id_of, stamp
from regard.web.pages import page
from regard.web.stream import Stamps, changes
from regard.web.trainings.processes import Trainings

PAGE_SIZE = 100
MAX_CHOSEN = 100
"Runs that are deleted, or whose curves are asked for, at a time."
SPARK_POINTS = 40
MAX_DIFFERING = 30
COLUMNS = {
    "run": "run",
    "state": "state",
    "attention": "model.attention.kind",
    "parameters": "parameters",
    "steps": "steps",
    "seed": "train.seed",
    "on dev": "",
    "audit": "audit",
    "finished": "finished",
}
"Heading and key of each column; the score has the key of the metric that most runs have."


@dataclass(frozen=True)
class Row:
    """A run in the table."""

    id: str
    run: ListedRun
    score: float | None
    "Of its own metric, on dev."
    is_running: bool


class Runs:
    """The views of runs."""

    def __init__(self, listing: Listing, stamps: Stamps, trainings: Trainings) -> None:
        self._listing, self._stamps, self._trainings = listing, stamps, trainings

    def table(self, request: Request) -> Response:
        query = request.query_params
        every = list(self._listing.runs().values())
        words, where = query.get("q", ""), query.get("where", "")
        sort, problem = query.get("sort", "run"), ""
        selected = [run for run in every if words.lower() in run.name.lower()]
        try:
            conditions = [Condition.parse(text) for text in where.split(" and ") if text.strip()]
            selected = sort_runs(filter_runs(selected, conditions), sort)
        except UserError as wrong:
            problem = str(wrong)
        number = int(query["page"]) if query.get("page", "").isdecimal() else 1
        pages = max(math.ceil(len(selected) / PAGE_SIZE), 1)
        number = min(max(number, 1), pages)
        shown = selected[PAGE_SIZE * (number - 1) : PAGE_SIZE * number]

        def address(**changes: str) -> str:
            values = {"q": words, "where": where, "sort": sort, **changes}
            return "/runs?" + urlencode({key: one for key, one in values.items() if one})

        columns = {**COLUMNS, "on dev": _shared_score(selected)}
        return page(
            "runs.html.j2",
            section="runs",
            rows=[self._row(run) for run in shown],
            total=len(every),
            listing=self._listing,
            matching=len(selected),
            words=words,
            where=where,
            sort=sort,
            problem=problem,
            number=number,
            pages=pages,
            columns=columns,
            address=address,
            deleted=query.get("deleted", "") if query.get("deleted", "").isdecimal() else "",
            mixed_scores=len({run.facts.get("metric") for run in shown if "metric" in run.facts})
            > 1,
        )

    def run(self, request: Request) -> Response:
        run, record = self._read(request)
        address = f"/runs/{request.path_params['id']}"
        version = stamp(run.folder)

        def drawn(name: str) -> list[InlineChart]:
            place = f"{address}/charts/{name}"
            return plots.place(RUN_CHARTS[name], record, address=place, version=version)

        return page(
            "run.html.j2",
            section="runs",
            **report_values(record, drawn),
            listed=run,
            address=address,
            study=self._listing.study_of(run),
            training=self._trainings.find(request.path_params["id"]),
            is_running=not record.results and seems_written(run.folder),
        )

    def chart(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in RUN_CHARTS:
            raise NotFoundError("there is no such chart", topic="page")
        _, record = self._read(request)
        return _chart(RUN_CHARTS[name], record, request)

    def numbers(self, request: Request) -> Response:
        run, record = self._read(request)
        values = record.results.model_dump(mode="json") if record.results else run.facts
        text = json.dumps(plots.finite(values), ensure_ascii=False, default=str)
        return Response(text, media_type="application/json", headers={"cache-control": "no-store"})

    def events(self, request: Request) -> Response:
        run = self._listing.run(request.path_params["id"])
        return changes(self._stamps, request.path_params["id"], lambda: stamp(run.folder))

    def table_events(self, request: Request) -> Response:
        return changes(self._stamps, "", lambda: stamp(self._listing.root))

    def sparklines(self, request: Request) -> Response:
        """The training loss of some runs, as points of a small curve: {id: [[x, y], …]}."""
        ids = request.query_params.get("ids", "").split(",")[:MAX_CHOSEN]
        curves = {}
        for id in ids:
            try:
                curves[id] = _sparkline(read_run(self._listing.run(id).folder))
            except UserError:  # deleted or damaged: it has no curve
                continue
        text = json.dumps(curves)
        return Response(text, media_type="application/json", headers={"cache-control": "no-store"})

    def compare(self, request: Request) -> Response:
        """Two runs: settings that differ, curves, and who has which item right."""
        first, second = self._pair(request)
        records = [read_run(one.folder) for one in (first, second)]
        split = request.query_params.get("split", "dev")
        if split not in ("dev", "test"):
            raise UserError(f"split = {split!r}: dev or test", topic="page")
        errors: ItemErrors | None = None
        reason = ""
        try:
            errors = read_errors([first.folder, second.folder], split=split)
        except UserError as problem:
            reason = str(problem)
        ids = [_id(one, self._listing) for one in (first, second)]
        address = f"/compare/{ids[0]}/{ids[1]}"
        place = f"{address}/losses"
        return page(
            "compare.html.j2",
            section="runs",
            runs=[first, second],
            ids=ids,
            records=records,
            settings=differing_values([_settings(one) for one in records]),
            losses=plots.place(compared_losses, _named(records, [first, second]), address=place),
            errors=errors,
            differing=errors.differing(MAX_DIFFERING) if errors else [],
            reason=reason,
            split=split,
            address=address,
        )

    def compared_chart(self, request: Request) -> Response:
        first, second = self._pair(request)
        records = _named([read_run(one.folder) for one in (first, second)], [first, second])
        return _chart(compared_losses, records, request)

    def chosen(self, request: Request) -> Response:
        """Where the table's form leads: to a comparison of two runs, or to the question whether to
        delete those that were ticked."""
        ids = request.query_params.getlist("run")[:MAX_CHOSEN]
        if request.query_params.get("do") == "compare":
            if len(ids) != 2:
                raise UserError("tick two runs to compare them", topic="page")
            return RedirectResponse(f"/compare/{ids[0]}/{ids[1]}", status_code=303)
        return self._confirm(ids)

    def _confirm(self, ids: Sequence[str]) -> Response:
        runs = [self._listing.run(id) for id in ids]
        problem = "" if runs else "no run is ticked"
        try:
            check_deletable(runs, list(self._listing.runs().values()), root=self._listing.root)
        except UserError as wrong:
            problem = str(wrong)
        rows = [self._row(run) for run in runs]
        return page("delete.html.j2", section="runs", rows=rows, problem=problem)

    async def delete(self, request: Request) -> Response:
        """Delete what was confirmed, after the checks of `regard runs --delete`."""
        form = parse_qs((await request.body()).decode("latin-1"), max_num_fields=MAX_CHOSEN)
        runs = [self._listing.run(id) for id in form.get("run", [])]
        if not runs:
            raise UserError("no run is ticked", topic="page")
        check_deletable(runs, list(self._listing.runs().values()), root=self._listing.root)
        delete_runs(runs)
        for run in runs:
            self._trainings.forget(run.folder.relative_to(self._listing.root).as_posix())
        self._listing.forget()
        return RedirectResponse(f"/runs?deleted={len(runs)}", status_code=303)

    def _row(self, run: ListedRun) -> Row:
        metric = run.facts.get("metric")
        score = run.facts.get(f"dev.{metric}") if metric else None
        is_running = run.state is RunState.UNFINISHED and seems_written(run.folder)
        return Row(_id(run, self._listing), run, score, is_running)

    def _read(self, request: Request) -> tuple[ListedRun, RunRecord]:
        run = self._listing.run(request.path_params["id"])
        return run, read_run(run.folder)

    def _pair(self, request: Request) -> tuple[ListedRun, ListedRun]:
        first, second = (self._listing.run(request.path_params[side]) for side in ("a", "b"))
        return first, second


def _id(run: ListedRun, listing: Listing) -> str:
    return id_of(run.folder.relative_to(listing.root).as_posix())


def _shared_score(runs: Sequence[ListedRun]) -> str:
    """The key of the score that most of these runs are judged by."""
    metrics = [run.facts["metric"] for run in runs if "metric" in run.facts]
    return f"dev.{max(set(metrics), key=metrics.count)}" if metrics else ""


def _sparkline(record: RunRecord) -> list[list[float]]:
    steps = window_means(record.events.steps, SPARK_POINTS)
    return [[step.step, step.loss] for step in steps if math.isfinite(step.loss)]


def _settings(record: RunRecord) -> dict[str, Any]:
    try:
        return flatten(tomllib.loads(record.recipe))
    except (tomllib.TOMLDecodeError, RecursionError):  # edited since
        return {}


def _named(records: Sequence[RunRecord], runs: Sequence[ListedRun]) -> dict[str, RunRecord]:
    return {run.name: record for run, record in zip(runs, records, strict=True)}


def _chart(draw: plots.Draw, subject: object, request: Request) -> Response:
    format = request.path_params["format"]
    if format not in plots.FORMATS:
        raise NotFoundError("there is no such chart", topic="page")
    options = request.query_params
    body, media_type = plots.answer(draw, subject, format=format, options=options)
    return Response(body, media_type=media_type, headers={"cache-control": "no-store"})
