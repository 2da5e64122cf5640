"""Lessons with sliders: the form, its result as the sliders move, and the exercises."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.lessons.exercise import SEED_RANGE, exercise_names
from regard.lessons.parameters import parse_parameters
from regard.lessons.registry import LessonInfo, lesson_info, lessons_by_topic
from regard.web import plots
from regard.web.listing import NotFoundError
from regard.web.pages import page
from regard.web.workers import Workers

Answer = TypeVar("Answer")
OPTIONS = ("theme", "width")
"Of the picture; all else in an address is a parameter of the lesson."


class GoneError(Exception):
    """Nobody waits for the answer any more."""


class Lessons:
    """The views of lessons; what they compute is computed in workers."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def overview(self, request: Request) -> Response:
        self._workers.prepare()
        return page(
            "lessons.html.j2",
            section="lessons",
            topics=lessons_by_topic(),
            exercises=exercise_names(),
        )

    async def lesson(self, request: Request) -> Response:
        """The form; the browser asks for the result."""
        self._workers.prepare()
        info = _info(request)
        order = [one.name for lessons in lessons_by_topic().values() for one in lessons]
        at = order.index(info.name)
        return page(
            "lesson_page.html.j2",
            section="lessons",
            info=info,
            chosen=_parameters(request, info),
            has_exercise=info.name in exercise_names(),
            before=lesson_info(order[at - 1]) if at else None,
            after=lesson_info(order[at + 1]) if at + 1 < len(order) else None,
        )

    async def result(self, request: Request) -> Response:
        """The lesson with the parameters of the address, for the browser to show."""
        call = self._call(request, "lesson")
        return _json(await while_waited_for(request, self._workers.run(call)))

    async def numbers(self, request: Request) -> Response:
        """All that a run of the lesson computed as JSON, or its table as CSV."""
        format = request.path_params["format"]
        if format not in ("json", "csv"):
            raise NotFoundError("numbers are .json or .csv", topic="page")
        found = await while_waited_for(request, self._workers.run(self._call(request, "lesson")))
        if format == "json":
            return _json(found["run"])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        table = found["run"]["table"]
        writer.writerow(map(plots.safe_cell, table["columns"]))
        writer.writerows([plots.safe_cell(cell) for cell in row] for row in table["rows"])
        return Response(text.getvalue(), media_type="text/csv", headers=NOT_KEPT)

    async def chart(self, request: Request) -> Response:
        format = request.path_params["format"]
        if format not in plots.FORMATS:
            raise NotFoundError("there is no such chart", topic="page")
        call = {**self._call(request, "chart"), "format": format}
        drawn = await while_waited_for(request, self._workers.run(call))
        return Response(
            bytes.fromhex(drawn["body"]), media_type=drawn["media_type"], headers=NOT_KEPT
        )

    async def exercise(self, request: Request) -> Response:
        """The exercise with the numbers of a seed: a teacher's address gives every student one."""
        info = _info(request)
        if info.name not in exercise_names():
            raise NotFoundError(f"{info.name} has no exercise", topic="page")
        seed = _seed(request.query_params.get("seed", "1"))
        call = {"method": "sheet", "name": info.name, "seed": seed}
        sheet = await while_waited_for(request, self._workers.run(call))
        return page("exercise.html.j2", section="lessons", info=info, sheet=sheet, seed=seed)

    async def mark(self, request: Request) -> Response:
        """The mark of an answer that was filled in."""
        info = _info(request)
        try:
            given = json.loads(await request.body())
            seed, answer = given["seed"], given["answer"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError("give a seed and an answer, as JSON", topic="exercise") from None
        if info.name not in exercise_names() or not isinstance(answer, dict):
            raise UserError("give the answers by their names", topic="exercise")
        call = {"method": "mark", "name": info.name, "seed": _seed(str(seed)), "answer": answer}
        return _json(await while_waited_for(request, self._workers.run(call)))

    def _call(self, request: Request, method: str) -> dict[str, Any]:
        info = _info(request)
        options = {key: one for key, one in request.query_params.items() if key in OPTIONS}
        parameters = _parameters(request, info)
        return {"method": method, "name": info.name, "parameters": parameters, "options": options}


async def while_waited_for(request: Request, answer: Awaitable[Answer]) -> Answer:
    """The answer; cancelled once the browser has gone, as it does when a slider moves on."""
    working = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise GoneError
        return working.result()
    finally:
        gone.cancel()
        working.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _info(request: Request) -> LessonInfo:
    try:
        return lesson_info(request.path_params["name"])
    except UserError as problem:
        raise NotFoundError(problem.what, topic=problem.topic, hint=problem.hint) from None


def _parameters(request: Request, info: LessonInfo) -> Mapping[str, float | int | str]:
    """Those of the address, checked."""
    given = {key: one for key, one in request.query_params.items() if key not in OPTIONS}
    return parse_parameters(list(info.parameters), given, lesson=info.name)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 6:
        raise UserError(
            f"seed = {text[:20]!r}: a whole number from {SEED_RANGE.low:g} to {SEED_RANGE.high:g}",
            topic="exercise",
        )
    return int(text)


NOT_KEPT = {"cache-control": "no-store"}


def _json(value: Any) -> Response:
    text = json.dumps(value, ensure_ascii=False)
    return Response(text, media_type="application/json", headers=NOT_KEPT)
