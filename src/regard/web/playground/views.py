"""The playground's views: which run, what it writes, and the numbers and pictures behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from regard.core.errors import UserError
from regard.runs.archive.index import ListedRun, RunState
from regard.web import plots
from regard.web.lesson_views import while_waited_for
from regard.web.listing import Listing, NotFoundError
from regard.web.pages import page
from regard.web.playground.address import NUMBERS, text_settings
from regard.web.workers import Workers

WRITING_FAMILIES = ("decoder", "encoder-decoder", "recurrent")
WRITING_TASKS = ("recall", "translation", "summarisation")
"Whose answers are texts: they can be watched token by token too."
TEXT_VIEWS = ("text", "lens", "heads")
MAX_LISTED = 300
GRACE_SECONDS = 4.0
"For an order that nobody waits for: ending the worker would cost its models too."


class Playground:
    """The views of the playground; models are run in workers."""

    def __init__(self, listing: Listing, workers: Workers) -> None:
        self._listing, self._workers = listing, workers

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

    async def numbers(self, request: Request) -> Response:
        """What a view shows: all of it as JSON, its table as CSV, its picture as SVG or PNG."""
        _, run = self._run(request)
        view, format = request.path_params["view"], request.path_params["format"]
        if view not in TEXT_VIEWS or format not in plots.FORMATS:
            raise NotFoundError("there is no such page", topic="page")
        order = self._order(run, f"playground-{view}", text_settings(request.query_params))
        return await self._answer(request, order, format)

    async def _answer(self, request: Request, order: Mapping[str, Any], format: str) -> Response:
        if format == "json":
            found = await while_waited_for(request, self._workers.run(order))
            text = json.dumps(plots.finite(found), ensure_ascii=False)
            return Response(text, media_type="application/json", headers=NOT_KEPT)
        options = {key: one for key, one in request.query_params.items() if key in PICTURE_OPTIONS}
        order = {**order, "do": f"{order['do']}-file", "format": format, "options": options}
        drawn = await while_waited_for(request, self._workers.run(order))
        return Response(
            bytes.fromhex(drawn["body"]), media_type=plots.FORMATS[format], headers=NOT_KEPT
        )

    def _order(self, run: ListedRun, deed: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        places = {"folder": str(run.folder), "root": str(self._listing.root)}
        return {"do": deed, "grace": GRACE_SECONDS, **places, **settings}

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


def _why_not(run: ListedRun) -> str:
    if run.state is not RunState.FINISHED:
        return f"{run.name} is {run.state.value}, so it has no model to try"
    return f"{run.name} predicts masked tokens and has no task: it neither writes nor answers"
