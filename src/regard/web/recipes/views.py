"""The form of a recipe: its page, its answers as somebody types, and the TOML that is saved."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from regard.core.errors import UserError
from regard.core.ledger import ParameterCount
from regard.data.builtin import BUILTIN
from regard.runs.recipe import Recipe
from regard.web.lesson_views import while_waited_for
from regard.web.listing import Listing, NotFoundError
from regard.web.pages import page, render
from regard.web.recipes.draft import RecipeDraft, form_texts, read_draft
from regard.web.recipes.fields import (
    Texts,
    check_texts,
    form_catalogs,
    part_fields,
    read_texts,
    recipe_fields,
)
from regard.web.recipes.sources import MAX_LISTED, Sources
from regard.web.workers import Workers

BLANK = {"name": "my-model", "data.corpus": "python-docs"}
"What the form begins with."
NOT_KEPT = {"cache-control": "no-store"}
MAX_KNOWN = 64
"Recipes whose vocabulary is remembered, or whose starting point is."


class RecipeForm:
    """The views of the form."""

    def __init__(self, listing: Listing, workers: Workers) -> None:
        self._listing, self._workers = listing, workers
        self.sources = Sources(listing)
        self._starts: dict[str, tuple[float, Texts | None]] = {}
        self._vocabularies: dict[str, int] = {}
        "By data and tokenizer, as forecasts have found them."
        self._lock = threading.Lock()

    def show(self, request: Request) -> Response:
        """The form, filled in from the address: a starting point, or settings."""
        query = dict(request.query_params)
        if "from" in query:
            texts = self._start(query["from"])
        else:
            texts = check_texts(query.items()) or BLANK
        fields = recipe_fields(texts)
        draft = read_draft(texts, self.sources)
        return page(
            "recipe.html.j2",
            section="recipe",
            general=[one for one in fields if one.control in ("text", "source")],
            tables=[one for one in fields if one.control in ("part", "table")],
            draft=draft,
            starts=self._starting_points(),
            begun_from=query.get("from", ""),
            options=self._options(),
            home=self.sources.home.name,
            **self._counts(draft),
        )

    def part(self, request: Request) -> Response:
        """The settings of a part, for the form to show once it is chosen."""
        catalogs = form_catalogs()
        name = request.path_params["catalog"]
        catalog, part = catalogs.get(name), request.path_params["name"]
        key = request.query_params.get("key", "")
        if catalog is None or part not in catalog.names():
            raise NotFoundError("there is no such part", topic="page")
        if not all(word.isidentifier() for word in key.split(".")) or len(key) > 60:
            raise UserError("give the key of the setting", topic="page")
        fields = part_fields(catalog, part, key, {})
        html = render(
            "recipe_fields.html.j2",
            fields=fields,
            options=self._options(),
            summary=catalog.get(part).summary,
        )
        return Response(html, media_type="text/html", headers=NOT_KEPT)

    async def check(self, request: Request) -> Response:
        """The TOML of what stands in the form, errors by key, and parameters by formula."""
        texts = read_texts(await request.body())
        return _json(await run_in_threadpool(self._checked, texts))

    async def forecast(self, request: Request) -> Response:
        """Steps, time and memory, as `regard validate` measures them in a worker; with the size of
        the vocabulary that it finds, every parameter is counted."""
        texts = read_texts(await request.body())
        draft = await run_in_threadpool(read_draft, texts, self.sources)
        recipe = check_whole(draft)
        call = {
            "method": "forecast",
            "recipe": draft.table,
            "home": str(self.sources.home),
            "runs": self.sources.runs_folder.as_posix(),
        }
        found = await while_waited_for(request, self._workers.run(call))
        with self._lock:
            while len(self._vocabularies) >= MAX_KNOWN:
                del self._vocabularies[next(iter(self._vocabularies))]
            self._vocabularies[_vocabulary_key(recipe)] = found["vocabulary"]
        return _json(
            {
                "numbers": found,
                "forecast": render("recipe_forecast.html.j2", found=found),
                "counts": render(
                    "recipe_counts.html.j2", draft=draft, **self._counts(draft, found)
                ),
            }
        )

    async def toml(self, request: Request) -> Response:
        """The TOML of the settings in the address, as a file."""
        texts = check_texts(request.query_params.items())
        draft = await run_in_threadpool(read_draft, texts, self.sources)
        check_whole(draft)
        return Response(draft.toml, media_type="application/toml", headers=NOT_KEPT)

    def _checked(self, texts: Texts) -> dict[str, Any]:
        draft = read_draft(texts, self.sources)
        return {
            "toml": draft.toml,
            "errors": draft.errors,
            "name": draft.recipe.name if draft.recipe else "",
            "counts": render("recipe_counts.html.j2", draft=draft, **self._counts(draft)),
        }

    def _counts(self, draft: RecipeDraft, found: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Parameters by formula: from the settings alone, or as a forecast `found` them."""
        recipe = draft.recipe
        if found is not None:
            terms = [(ParameterCount(**one), True) for one in found["parameters_by_module"]]
            return {"terms": terms, "vocabulary": found["vocabulary"]}
        if recipe is None or recipe.init_from is not None:
            return {"terms": [], "vocabulary": None}
        vocabulary = self._vocabularies.get(_vocabulary_key(recipe))
        return {"terms": count_terms(recipe, vocabulary), "vocabulary": vocabulary}

    def _options(self) -> dict[str, Any]:
        """What settings that name data may take."""
        return {
            "corpora": BUILTIN.names(),
            "files": list(self.sources.files().values()),
            "models": dict(islice(self.sources.initial_models().items(), MAX_LISTED)),
        }

    def _starting_points(self) -> dict[str, dict[str, str]]:
        """Groups of names by id."""
        groups = {
            "Recipes": self.sources.recipes(),
            "Built-in recipes": self.sources.builtin_recipes(),
        }
        starts = {
            group: {
                id: path.stem
                for id, path in recipes.items()
                if self._texts_of(id, path) is not None
            }
            for group, recipes in groups.items()
        }
        runs = {id: run.name for id, run in list(self._listing.runs().items())[:MAX_KNOWN]}
        return {**starts, "Runs": runs}

    def _start(self, id: str) -> Texts:
        recipes = self.sources.recipes() | self.sources.builtin_recipes()
        path = recipes[id] if id in recipes else self._listing.run(id).folder
        texts = form_texts(Recipe.load(path), self.sources)
        return {**texts, "name": self._free_name(texts["name"])}

    def _texts_of(self, id: str, path: Path) -> Texts | None:
        """The form of a recipe's file, read again when it has changed; None if it has none here."""
        try:
            changed = path.stat().st_mtime
        except OSError:  # deleted meanwhile
            return None
        known = self._starts.get(id)
        if known is None or known[0] != changed:
            try:
                known = changed, form_texts(Recipe.load(path), self.sources)
            except UserError:  # a study, of another version, or with paths of its own
                known = changed, None
            self._starts[id] = known
        return known[1]

    def _free_name(self, name: str) -> str:
        """The name, or with a number: a run is never written over."""
        runs = self._listing.root
        names = [name, *(f"{name}-{number}" for number in range(2, 100))]
        return next((one for one in names if not (runs / one).exists()), name)


def check_whole(draft: RecipeDraft) -> Recipe:
    """The recipe; its first error if it has any."""
    if draft.recipe is None:
        raise UserError(next(iter(draft.errors.values()), "the recipe is not whole"))
    return draft.recipe


def count_terms(recipe: Recipe, vocabulary: int | None) -> list[tuple[ParameterCount, bool]]:
    """The parameters of each module, and whether the count is known: without a vocabulary only of
    those that do not depend on it."""
    if vocabulary is not None:
        return [(term, True) for term in recipe.model.count_parameters(vocabulary)]
    two, three = recipe.model.count_parameters(2), recipe.model.count_parameters(3)
    return [(a, a.value == b.value) for a, b in zip(two, three, strict=True)]


def _vocabulary_key(recipe: Recipe) -> str:
    table = recipe.to_table()
    return json.dumps([table["data"], table["tokenizer"], table.get("task")], sort_keys=True)


def _json(value: Mapping[str, Any]) -> Response:
    text = json.dumps(value, ensure_ascii=False)
    return Response(text, media_type="application/json", headers=NOT_KEPT)
