"""The attention workbench: its page, and what the browser asks for as somebody types or paints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response

from regard.attention.masks.mask import MASKS
from regard.core.settings import all_settings
from regard.runs.archive.index import ListedRun, RunState
from regard.runs.inspection.kinds_side_by_side import FreshWeights, available_kinds
from regard.web.attention.choice import (
    MAX_CHARACTERS,
    MAX_EXPRESSION,
    MAX_KINDS,
    PICTURE,
    AttentionChoice,
)
from regard.web.lesson_views import NOT_KEPT, while_waited_for
from regard.web.listing import Listing, NotFoundError
from regard.web.pages import page
from regard.web.workers import Workers

MAX_LISTED = 200
"Runs to choose from; the address takes any."
ANSWERS = {
    ("view", "json"): "attention",
    ("audit", "json"): "attention-audit",
    ("weights", "json"): "attention-numbers",
    ("weights", "csv"): "attention-table",
    **{
        (name, format): "attention-picture"
        for name in ("heads", "mask")
        for format in ("svg", "png")
    },
}
"Name and format of each answer, and the method of the worker that computes it."
EXAMPLES = ("causal", "bidirectional", "causal & sliding_window:4", "same-block:4", "prefix:3")


class AttentionViews:
    """The views of the workbench; what they compute is computed in workers."""

    def __init__(self, listing: Listing, workers: Workers) -> None:
        self._listing, self._workers = listing, workers

    async def workbench(self, request: Request) -> Response:
        """The form; the browser asks for the rest."""
        self._workers.prepare()
        choice = AttentionChoice.parse(request.query_params)
        chosen = self._listing.run(choice.run) if choice.run else None
        return page(
            "attention.html.j2",
            section="attention",
            choice=choice,
            kinds=available_kinds(),
            runs=self._runs(choice.run, chosen),
            weights=_weights(choice.fresh),
            masks=[entry.name for entry in MASKS],
            examples=EXAMPLES,
            max_kinds=MAX_KINDS,
            max_characters=MAX_CHARACTERS,
            max_expression=MAX_EXPRESSION,
        )

    async def answer(self, request: Request) -> Response:
        """What the address asks for: a view, an audit, numbers or a picture."""
        wanted = request.path_params["name"], request.path_params["format"]
        if wanted not in ANSWERS:
            raise NotFoundError("there is no such view", topic="page")
        given = dict(request.query_params)
        call = {"method": ANSWERS[wanted], "choice": given, "name": wanted[0], "format": wanted[1]}
        call["options"] = {key: given[key] for key in PICTURE if key in given}
        call |= self._place(AttentionChoice.parse(given))
        found = await while_waited_for(request, self._workers.run(call))
        if "media_type" in found:
            body = bytes.fromhex(found["body"])
            return Response(body, media_type=found["media_type"], headers=NOT_KEPT)
        text = json.dumps(found, ensure_ascii=False)
        return Response(text, media_type="application/json", headers=NOT_KEPT)

    def _place(self, choice: AttentionChoice) -> dict[str, str]:
        """Of the run's folder, which the browser never names."""
        if not choice.run:
            return {}
        run = self._listing.run(choice.run)
        return {"folder": str(run.folder), "root": str(self._listing.root)}

    def _runs(self, id: str, chosen: ListedRun | None) -> dict[str, str]:
        """Names of the finished runs by id, the last first, with the one that is chosen."""
        runs = self._listing.runs().items()
        finished = [(one, run) for one, run in runs if run.state is RunState.FINISHED]
        finished.sort(key=lambda pair: str(pair[1].facts.get("finished", "")), reverse=True)
        names = {one: run.name for one, run in finished[:MAX_LISTED]}
        return names if chosen is None else {id: chosen.name} | names


def _weights(chosen: FreshWeights) -> list[Mapping[str, Any]]:
    """The fields of fresh weights, for a form."""
    rows: list[Mapping[str, Any]] = []
    for name, field, doc in all_settings(FreshWeights):
        limits = {type(one).__name__: one for one in field.metadata}
        rows.append(
            {
                "name": name,
                "doc": doc,
                "value": getattr(chosen, name),
                "usual": field.default,
                "choices": get_args(field.annotation),
                "low": getattr(limits.get("Ge"), "ge", None),
                "high": getattr(limits.get("Le"), "le", None),
                "is_whole": field.annotation is int,
            }
        )
    return rows
