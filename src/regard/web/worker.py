"""The process that computes for the page: a line of JSON in, a line of JSON out.

    to its standard input       {"order": 7, "do": "lesson", "name": "one-key", "parameters": {}, …}
    from its standard output    {"order": 7, "done": {…}}  or  {"order": 7, "refused": "a sentence"}

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
from regard.web.attention import deeds as attention
from regard.web.playground import deeds as playground
from regard.web.recipes.forecast import forecast

Order = Mapping[str, Any]


def lesson(order: Order) -> dict[str, Any]:
    """A lesson's numbers, its tables as HTML, and the specification of its chart."""
    run = run_lesson(order["name"], **order["parameters"])
    drawn, _ = plots.answer(_draw(run), None, format="json", options=order["options"])
    return {
        "run": plots.finite(run.as_dict()),
        "passed": run.passed,
        "seconds": run.seconds,
        "caption": str(typeset(run.result.caption)),
        "table": numbers_html(run),
        "checks": checks_html(run),
        "chart": json.loads(drawn),
    }


def chart(order: Order) -> dict[str, Any]:
    """A lesson's chart as a file, in hexadecimal."""
    run = run_lesson(order["name"], **order["parameters"])
    body, media_type = plots.answer(
        _draw(run), None, format=order["format"], options=order["options"]
    )
    return {"body": body.hex(), "media_type": media_type}


def sheet(order: Order) -> dict[str, Any]:
    """An exercise with the numbers of its seed, and the shapes of its answers."""
    slots = build_sheet(order["name"], order["seed"]).slots
    return {**sheet_dict(order["name"], order["seed"]), "slots": [_slot(one) for one in slots]}


def mark(order: Order) -> dict[str, Any]:
    """The mark of an answer; the sheet is built again from its seed."""
    lesson_info(order["name"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        answer = {"seed": order["seed"], "answer": order["answer"]}
        file.write_text(json.dumps(answer), encoding="utf-8")
        try:
            marked = mark_file(order["name"], file)
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


DEEDS: dict[str, Callable[[Order], dict[str, Any]]] = {
    "lesson": lesson,
    "chart": chart,
    "sheet": sheet,
    "mark": mark,
    **attention.DEEDS,
    **playground.DEEDS,
    "forecast": forecast,
}


def main() -> None:
    """Take one order after another until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a lesson prints is no answer
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer: dict[str, Any] = {"done": DEEDS[order["do"]](order)}
        except UserError as problem:
            answer = {"refused": str(problem)}
        except Exception:
            traceback.print_exc()
            answer = {"bug": traceback.format_exc().splitlines()[-1]}
        text = json.dumps({"order": order["order"], **answer}, default=str)
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
