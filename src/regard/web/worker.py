"""The process that computes for the page: a line of JSON in, a line of JSON out.

    to its standard input       {"id": 7, "method": "lesson", "name": "one-key", "parameters": …}
    from its standard output    {"id": 7, "result": {…}}  or  {"id": 7, "error": "a sentence"}

It knows lessons and exercises by name, models of runs that were found (`playground/models.py`), the
attention workbench, and recipes as the page has checked them; `workers.py` starts, limits and ends
it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.lessons import lesson_info, run_lesson
from regard.lessons.exercise import Slot, build_sheet, sheet_dict
from regard.lessons.marking import mark_file
from regard.lessons.page import checks_html, numbers_html, typeset
from regard.lessons.run_lesson import LessonRun
from regard.web import plots
from regard.web.attention import methods as attention
from regard.web.playground import methods as playground
from regard.web.recipes.forecast import forecast

Params = Mapping[str, Any]


def lesson(params: Params) -> dict[str, Any]:
    """A lesson's numbers, its tables as HTML, and the specification of its chart."""
    run = run_lesson(params["name"], **params["parameters"])
    drawn, _ = plots.answer(_draw(run), None, format="json", options=params["options"])
    return {
        "run": plots.finite(run.as_dict()),
        "passed": run.passed,
        "seconds": run.seconds,
        "caption": str(typeset(run.result.caption)),
        "table": numbers_html(run),
        "checks": checks_html(run),
        "chart": json.loads(drawn),
    }


def chart(params: Params) -> dict[str, Any]:
    """A lesson's chart as a file, in hexadecimal."""
    run = run_lesson(params["name"], **params["parameters"])
    body, media_type = plots.answer(
        _draw(run), None, format=params["format"], options=params["options"]
    )
    return {"body": body.hex(), "media_type": media_type}


def sheet(params: Params) -> dict[str, Any]:
    """An exercise with the numbers of its seed, and the shapes of its answers."""
    slots = build_sheet(params["name"], params["seed"]).slots
    return {**sheet_dict(params["name"], params["seed"]), "slots": [_slot(one) for one in slots]}


def mark(params: Params) -> dict[str, Any]:
    """The mark of an answer; the sheet is built again from its seed."""
    lesson_info(params["name"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        answer = {"seed": params["seed"], "answer": params["answer"]}
        file.write_text(json.dumps(answer), encoding="utf-8")
        try:
            marked = mark_file(params["name"], file)
        except UserError as problem:
            raise UserError(problem.what, hint=problem.hint) from None  # the file is nobody's
    assert marked.mark is not None
    found, drawn = marked.mark, marked.mark.attention_map
    return {
        "passed": found.passed,
        "distance": plots.finite(found.distance),
        "tolerance": found.tolerance,
        "feedback": found.feedback,
        "map": drawn
        and {
            "rows": list(drawn.rows),
            "columns": list(drawn.columns),
            "values": plots.finite(drawn.values.reshape(len(drawn.rows), -1).tolist()),
        },
    }


METHODS: dict[str, Callable[[Params], dict[str, Any]]] = {
    "lesson": lesson,
    "chart": chart,
    "sheet": sheet,
    "mark": mark,
    **attention.METHODS,
    **playground.METHODS,
    "forecast": forecast,
}


def main() -> None:
    """Take one call after another until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a lesson prints is no answer
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": METHODS[call["method"]](call)}
        except UserError as problem:
            answer = {"error": str(problem)}
        except Exception:
            traceback.print_exc()
            answer = {"bug": traceback.format_exc().splitlines()[-1]}
        text = json.dumps({"id": call["id"], **answer}, default=str)
        print(text, file=answers, flush=True)


def _draw(run: LessonRun) -> plots.Draw:
    return lambda _, *, theme, width: run.result.chart(theme=theme, width=width)


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "name": slot.name,
        "shape": list(slot.shape),
        "type": slot.element_type,
        "format": slot.format,
    }


if __name__ == "__main__":
    main()
