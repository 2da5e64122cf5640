"""The playground's views: which run, what it writes, and the numbers and pictures behind it."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from regard.core.errors import UserError
from regard.core.settings import read_settings
from regard.core.toml import read_toml
from regard.reports.charts.selective_chart import selective_chart
from regard.runs.archive.index import ListedRun, RunState
from regard.tasks import TASKS, Task
from regard.web import plots
from regard.web.lesson_views import while_waited_for
from regard.web.listing import Listing, NotFoundError
from regard.web.pages import page
from regard.web.playground.address import (
    NUMBERS,
    answer_settings,
    text_settings,
    threshold_of,
)
from regard.web.playground.files import csv_text
from regard.web.playground.thresholds import SelectiveCurve, count_items, point_table
from regard.web.workers import Workers

WRITING_FAMILIES = ("decoder", "encoder-decoder", "recurrent")
WRITING_TASKS = ("recall", "translation", "summarisation")
"Whose answers are texts: they can be watched token by token too."
TEXT_VIEWS = ("text", "lens", "heads")
MAX_LISTED = 300
MAX_CURVES = 32
GRACE_SECONDS = 4.0
"For a call that nobody waits for: ending the worker would cost its models too."


class Playground:
    """The views of the playground; models are run in workers."""

    def __init__(self, listing: Listing, workers: Workers) -> None:
        self._listing, self._workers = listing, workers
        self._curves: OrderedDict[tuple[str, int], SelectiveCurve] = OrderedDict()

    def overview(self, request: Request) -> Response:
        """The runs that have something to show, the last finished first."""
        runs = [
            (id, run) for id, run in self._listing.runs().items() if writes(run) or answers(run)
        ]
        runs.sort(key=lambda pair: str(pair[1].facts.get("finished", "")), reverse=True)
        return page(
            "playground_runs.html.j2",
            section="playground",
            writing=[pair for pair in runs if writes(pair[1])][:MAX_LISTED],
            answering=[pair for pair in runs if answers(pair[1])][:MAX_LISTED],
            listing=self._listing,
        )

    async def write(self, request: Request) -> Response:
        """A model writes; the browser asks for the text."""
        id, run = self._run(request)
        if not writes(run):
            if answers(run):
                query = f"?{urlencode(list(request.query_params.multi_items()))}"
                return RedirectResponse(f"/playground/{id}/answers{query.rstrip('?')}", 303)
            raise UserError(_why_not(run), topic="playground")
        self._workers.prepare()
        settings = text_settings(request.query_params)
        if "prompt" not in request.query_params:
            settings["prompt"] = next(filter(None, run.facts.get("samples.prompts") or ()), "")
        return page(
            "playground.html.j2",
            section="playground",
            id=id,
            run=run,
            settings=settings,
            numbers=NUMBERS,
            answers=answers(run),
            address=f"/playground/{id}",
        )

    async def answers(self, request: Request) -> Response:
        """A task's model answers, or says that it does not know."""
        id, run = self._run(request)
        if not answers(run):
            raise UserError(_why_not(run), topic="playground")
        self._workers.prepare()
        return await run_in_threadpool(self._answers_page, request, id, run)

    def _answers_page(self, request: Request, id: str, run: ListedRun) -> Response:
        roles = input_roles(run)
        settings = answer_settings(request.query_params, list(roles))
        try:
            curve = self._curve(run)
            why_no_curve = ""
        except UserError as problem:
            curve, why_no_curve = None, problem.what
        return page(
            "playground_answers.html.j2",
            section="playground",
            id=id,
            run=run,
            roles=roles,
            settings=settings,
            dev_rows=count_items(run.folder),
            curve=curve,
            why_no_curve=why_no_curve,
            writes=writes(run),
            address=f"/playground/{id}",
        )

    async def answer(self, request: Request) -> Response:
        """The answer to the row of an address, as JSON or CSV."""
        _, run = self._run(request)
        format = request.path_params["format"]
        if not answers(run) or format not in ("json", "csv"):
            raise NotFoundError("there is no such page", topic="page")
        settings = answer_settings(request.query_params, list(input_roles(run)))
        call = self._call(run, "playground-answer", settings)
        if format == "json":
            return await self._json(request, call)
        found = await while_waited_for(request, self._workers.run(call))
        row = {
            key: value if isinstance(value, str | int | float) else json.dumps(value)
            for key, value in found.items()
            if value not in (None, [], {})
        }
        return Response(csv_text([row]), media_type=plots.FORMATS["csv"], headers=NOT_KEPT)

    def risk(self, request: Request) -> Response:
        """Risk and coverage at the thresholds of dev, as JSON or CSV."""
        _, run = self._run(request)
        format = request.path_params["format"]
        if not answers(run) or format not in ("json", "csv"):
            raise NotFoundError("there is no such page", topic="page")
        curve = self._curve(run)
        if format == "json":
            table = {**curve.as_dict(), "chosen": None}
            if (threshold := threshold_of(request.query_params)) is not None:
                table["chosen"] = point_table(curve.at(threshold))
            text = json.dumps(table)
            return Response(text, media_type="application/json", headers=NOT_KEPT)
        rows = [
            {
                "threshold": point.threshold,
                **{
                    f"{name}{bound}": getattr(estimate, bound.strip("_") or "value")
                    for name, estimate in (("coverage", point.coverage), ("risk", point.risk))
                    for bound in ("", "_low", "_high", "_n")
                },
            }
            for point in curve.points
        ]
        return Response(csv_text(rows), media_type=plots.FORMATS["csv"], headers=NOT_KEPT)

    def curve(self, request: Request) -> Response:
        """The curve's specification, picture or data, with the threshold of the address."""
        _, run = self._run(request)
        format = request.path_params["format"]
        if not answers(run) or format not in plots.FORMATS:
            raise NotFoundError("there is no such chart", topic="page")
        curve, threshold = self._curve(run), threshold_of(request.query_params)
        chosen = None if threshold is None else curve.at(threshold)
        body, media_type = plots.answer(
            lambda points, *, theme, width: selective_chart(
                points, chosen, theme=theme, width=width
            ),
            curve.points,
            format=format,
            options=request.query_params,
        )
        return Response(body, media_type=media_type, headers=NOT_KEPT)

    def _curve(self, run: ListedRun) -> SelectiveCurve:
        key = (str(run.folder), (run.folder / "results.json").stat().st_mtime_ns)
        if key not in self._curves:
            self._curves[key] = SelectiveCurve.of_run(run.folder)
            while len(self._curves) > MAX_CURVES:
                self._curves.popitem(last=False)
        return self._curves[key]

    async def numbers(self, request: Request) -> Response:
        """What a view shows: all of it as JSON, its table as CSV, its picture as SVG or PNG."""
        _, run = self._run(request)
        view, format = request.path_params["view"], request.path_params["format"]
        if view not in TEXT_VIEWS or format not in plots.FORMATS:
            raise NotFoundError("there is no such page", topic="page")
        settings = text_settings(request.query_params)
        if format == "json":
            return await self._json(request, self._call(run, f"playground-{view}", settings))
        options = {key: one for key, one in request.query_params.items() if key in PICTURE_OPTIONS}
        call = self._call(run, "playground-file", settings)
        call |= {"view": view, "format": format, "options": options}
        made = await while_waited_for(request, self._workers.run(call))
        body, media_type = bytes.fromhex(made["body"]), plots.FORMATS[format]
        return Response(body, media_type=media_type, headers=NOT_KEPT)

    async def _json(self, request: Request, call: Mapping[str, Any]) -> Response:
        found = await while_waited_for(request, self._workers.run(call))
        text = json.dumps(plots.finite(found))
        return Response(text, media_type="application/json", headers=NOT_KEPT)

    def _call(self, run: ListedRun, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        places = {"folder": str(run.folder), "root": str(self._listing.root)}
        return {"method": method, "grace": GRACE_SECONDS, **places, **settings}

    def _run(self, request: Request) -> tuple[str, ListedRun]:
        id = request.path_params["id"]
        return id, self._listing.run(id)


PICTURE_OPTIONS = ("theme", "width")
NOT_KEPT = {"cache-control": "no-store"}


def writes(run: ListedRun) -> bool:
    """Whether its model writes text, as far as its recipe says."""
    is_task = run.facts.get("task.kind", WRITING_TASKS[0]) in WRITING_TASKS
    family = run.facts.get("model.family")
    return run.state is RunState.FINISHED and is_task and family in WRITING_FAMILIES


def answers(run: ListedRun) -> bool:
    """Whether its model answers rows of a task."""
    return run.state is RunState.FINISHED and "task.kind" in run.facts


def input_roles(run: ListedRun) -> dict[str, str]:
    """The user's column for each input of a run's task."""
    kind = cast(type[Task], TASKS.get(str(run.facts["task.kind"])).part)
    task = read_settings(kind, _task_table(run))
    return {role: task.columns()[role] for role in task.input_columns()}


def _task_table(run: ListedRun) -> dict[str, Any]:
    """Settings of the task, as its recipe has them."""
    table = read_toml(run.folder / "recipe.toml", topic="run").table["task"]
    return {key: value for key, value in table.items() if key != "kind"}


def _why_not(run: ListedRun) -> str:
    if run.state is not RunState.FINISHED:
        return f"{run.name} is {run.state.value}, so it has no model to try"
    return f"{run.name} predicts masked tokens and has no task: it neither writes nor answers"
