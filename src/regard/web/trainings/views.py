"""Trainings of the page: all of them, and one with its progress, its output, stop and resume."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from regard.core.errors import UserError
from regard.runs.archive.read_run import read_run
from regard.web.listing import stamp
from regard.web.pages import page
from regard.web.recipes.draft import read_draft
from regard.web.recipes.fields import Texts, read_texts
from regard.web.recipes.sources import Sources
from regard.web.recipes.views import check_whole
from regard.web.stream import Stamps, changes
from regard.web.trainings.processes import ObservedTraining, Trainings

NOT_KEPT = {"cache-control": "no-store"}


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    step: int
    steps: int | None
    loss: float | None

    @property
    def fraction(self) -> float:
        return self.step / self.steps if self.steps else 0.0


class TrainingViews:
    """The views of trainings that are started here."""

    def __init__(self, trainings: Trainings, sources: Sources, stamps: Stamps) -> None:
        self._trainings, self._sources, self._stamps = trainings, sources, stamps

    def overview(self, request: Request) -> Response:
        rows = [(one, progress_of(one)) for one in self._trainings.all()]
        return page("trainings.html.j2", section="recipe", rows=rows)

    def overview_events(self, request: Request) -> Response:
        def now() -> str:
            return " ".join(f"{one.training.id} {_stamp(one)}" for one in self._trainings.all())

        return changes(self._stamps, "trainings", now)

    def training(self, request: Request) -> Response:
        found = self._trainings.get(request.path_params["id"])
        return page(
            "training.html.j2",
            section="recipe",
            observed=found,
            progress=progress_of(found),
            output=found.training.output(),
            has_run=(found.training.run / "recipe.toml").is_file(),
        )

    def events(self, request: Request) -> Response:
        id = request.path_params["id"]
        self._trainings.get(id)
        return changes(self._stamps, f"training {id}", lambda: _stamp(self._trainings.get(id)))

    async def save(self, request: Request) -> Response:
        """Write the recipe of the form beside the runs."""
        texts = read_texts(await request.body())
        return await run_in_threadpool(self._save, texts)

    async def start(self, request: Request) -> Response:
        """Save the recipe of the form and train it."""
        texts = read_texts(await request.body())
        return await run_in_threadpool(self._start, texts)

    def stop(self, request: Request) -> Response:
        training = self._trainings.stop(request.path_params["id"])
        return RedirectResponse(f"/trainings/{training.id}", status_code=303)

    def resume(self, request: Request) -> Response:
        training = self._trainings.resume(request.path_params["id"])
        return RedirectResponse(f"/trainings/{training.id}", status_code=303)

    def _save(self, texts: Texts) -> Response:
        draft = read_draft(texts, self._sources)
        file = self._trainings.save(check_whole(draft), draft.toml)
        return _json({"file": file.name, "said": f"saved as {file.name}, beside the runs"})

    def _start(self, texts: Texts) -> Response:
        draft = read_draft(texts, self._sources)
        training = self._trainings.start(check_whole(draft), draft.toml)
        return _json({"id": training.id, "address": f"/trainings/{training.id}"})


def progress_of(observed: ObservedTraining) -> Progress | None:
    """From the run's events; None before there are any."""
    try:
        record = read_run(observed.training.run)
    except (UserError, OSError):
        return None
    events = record.events
    loss = events.steps[-1].loss if events.steps else None
    return Progress(events.last_step, events.start.steps, loss)


def _stamp(observed: ObservedTraining) -> str:
    try:
        size = observed.training.output_file.stat().st_size
    except OSError:
        size = 0
    run = observed.training.run
    return f"{observed.state} {size} {stamp(run) if run.is_dir() else ''}"


def _json(value: dict[str, Any]) -> Response:
    text = json.dumps(value, ensure_ascii=False)
    return Response(text, media_type="application/json", headers=NOT_KEPT)
