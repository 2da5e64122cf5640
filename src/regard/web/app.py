"""The application: its addresses, and the files that the browser is given."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.core.errors import UserError
from regard.web.attention.views import AttentionViews
from regard.web.description import describe
from regard.web.lesson_views import GoneError, Lessons
from regard.web.listing import Listing, NotFoundError
from regard.web.pages import error_page
from regard.web.playground.views import Playground
from regard.web.plots import EmptyChartError
from regard.web.recipes.views import RecipeForm
from regard.web.run_views import Runs
from regard.web.static_files import icon, static
from regard.web.stream import Stamps
from regard.web.study_views import Studies
from regard.web.trainings.processes import Trainings
from regard.web.trainings.views import TrainingViews
from regard.web.workers import Workers

ID = "{id:str}"


def build_app(root: Path) -> Starlette:
    """The page over the runs below `root`; it stands behind a guard."""
    listing, stamps, workers = Listing(root), Stamps(), Workers()
    recipe = RecipeForm(listing, workers)
    processes = Trainings(listing, home=recipe.sources.home)
    studies, runs, lessons = (
        Studies(listing, stamps),
        Runs(listing, stamps, processes),
        Lessons(workers),
    )
    trainings = TrainingViews(processes, recipe.sources, stamps)
    attention, playground = AttentionViews(listing, workers), Playground(listing, workers)
    chart = "charts/{name:str}.{format:str}"

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        listing.start()
        try:
            yield
        finally:
            await workers.close()

    return Starlette(
        routes=[
            Route("/", studies.overview),
            Route(f"/studies/{ID}", studies.study),
            Route(f"/studies/{ID}/{chart}", studies.chart),
            Route(f"/studies/{ID}/scores.{{format:str}}", studies.numbers),
            Route(f"/studies/{ID}/events", studies.events),
            Route(f"/studies/{ID}/report", studies.report),
            Route("/runs", runs.table),
            Route("/runs/events", runs.table_events),
            Route("/runs/sparklines.json", runs.sparklines),
            Route("/runs/chosen", runs.chosen),
            Route("/runs/delete", runs.delete, methods=["POST"]),
            Route(f"/runs/{ID}", runs.run),
            Route(f"/runs/{ID}/{chart}", runs.chart),
            Route(f"/runs/{ID}/results.json", runs.numbers),
            Route(f"/runs/{ID}/events", runs.events),
            Route("/compare/{a:str}/{b:str}", runs.compare),
            Route("/compare/{a:str}/{b:str}/losses.{format:str}", runs.compared_chart),
            Route("/attention", attention.workbench),
            Route("/attention/{name:str}.{format:str}", attention.answer),
            Route("/lessons", lessons.overview),
            Route("/lessons/{name:str}", lessons.lesson),
            Route("/lessons/{name:str}/result.json", lessons.result),
            Route("/lessons/{name:str}/numbers.{format:str}", lessons.numbers),
            Route("/lessons/{name:str}/chart.{format:str}", lessons.chart),
            Route("/lessons/{name:str}/exercise", lessons.exercise),
            Route("/lessons/{name:str}/mark", lessons.mark, methods=["POST"]),
            Route("/recipe", recipe.show),
            Route("/recipe/recipe.toml", recipe.toml),
            Route("/recipe/parts/{catalog:str}/{name:str}", recipe.part),
            Route("/recipe/check", recipe.check, methods=["POST"]),
            Route("/recipe/forecast", recipe.forecast, methods=["POST"]),
            Route("/recipe/save", trainings.save, methods=["POST"]),
            Route("/recipe/train", trainings.start, methods=["POST"]),
            Route("/trainings", trainings.overview),
            Route("/trainings/events", trainings.overview_events),
            Route(f"/trainings/{ID}", trainings.training),
            Route(f"/trainings/{ID}/events", trainings.events),
            Route(f"/trainings/{ID}/stop", trainings.stop, methods=["POST"]),
            Route(f"/trainings/{ID}/resume", trainings.resume, methods=["POST"]),
            Route("/openapi.json", describe),
            Route("/playground", playground.overview),
            Route(f"/playground/{ID}", playground.write),
            Route(f"/playground/{ID}/answers", playground.answers),
            Route(f"/playground/{ID}/answer.{{format:str}}", playground.answer),
            Route(f"/playground/{ID}/risk.{{format:str}}", playground.risk),
            Route(f"/playground/{ID}/curve.{{format:str}}", playground.curve),
            Route(f"/playground/{ID}/{{view:str}}.{{format:str}}", playground.numbers),
            Route("/static/{version:str}/{name:str}", static),
            Route("/favicon.ico", icon),
        ],
        exception_handlers={
            UserError: error_page,
            GoneError: _nothing,
            EmptyChartError: _nothing,
            HTTPException: _http_error,
            Exception: _bug,
        },
        lifespan=lifespan,
    )


def _nothing(request: Request, problem: Exception) -> Response:
    return Response(status_code=204)


def _http_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    what = "there is no such page" if problem.status_code == 404 else str(problem.detail)
    answer = error_page(request, NotFoundError(what, topic="page"))
    answer.status_code = problem.status_code
    return answer


def _bug(request: Request, problem: Exception) -> Response:
    """The traceback is for who started the server, the sentence for who looks."""
    traceback.print_exception(problem)
    return Response(
        f"this is a bug in regard: {type(problem).__name__}; the terminal says more\n",
        status_code=500,
        media_type="text/plain",
    )
