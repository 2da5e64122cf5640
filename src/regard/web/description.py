"""The page's addresses as an OpenAPI document, made from its routes: what tests walk at random.

Parameters of an address are read from the route, methods and the first line of the documentation
too; what a query or a body may hold is said here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

OPENAPI = "3.1.0"
Schema = dict[str, Any]

WORD: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}$"}
"In a path; the guard lets no other characters pass."
TEXT: Schema = {"type": "string", "maxLength": 200}
NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 100_000}
SETTINGS: Schema = {
    "type": "object",
    "properties": {
        "values": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "data.corpus": TEXT,
                "model.family": TEXT,
                "model.width": TEXT,
                "model.attention.kind": TEXT,
                "task.kind": TEXT,
                "train.lr": TEXT,
            },
            "additionalProperties": TEXT,
        }
    },
    "required": ["values"],
}
ANSWER: Schema = {
    "type": "object",
    "properties": {"seed": {"type": "integer"}, "answer": {"type": "object"}},
    "required": ["seed", "answer"],
}
RUNS: Schema = {"type": "object", "properties": {"run": {"type": "array", "items": TEXT}}}

MASK: Schema = {"anyOf": [{"enum": ["causal", "causal & sliding_window:4", "!causal"]}, TEXT]}
ATTENTION: dict[str, Schema] = {
    "text": TEXT,
    "kinds": TEXT,
    "mask": MASK,
    "declared": MASK,
    "layer": NUMBER,
    "query": NUMBER,
    "show": {"enum": ["map", "arcs", "all"]},
}
WRITING: dict[str, Schema] = {
    "prompt": TEXT,
    "temperature": {"type": "number", "minimum": 0, "maximum": 11},
    "top_k": NUMBER,
    "n": {"type": "integer", "minimum": 0, "maximum": 8},
    "branches": TEXT,
    "off": TEXT,
}
ANSWERING: dict[str, Schema] = {
    "item": NUMBER,
    "threshold": {"type": "number", "minimum": -1, "maximum": 2},
}

QUERIES: dict[str, dict[str, Schema]] = {
    "/runs": {"q": TEXT, "where": TEXT, "sort": TEXT, "page": NUMBER, "deleted": NUMBER},
    "/runs/chosen": {"do": {"enum": ["compare", "delete"]}, "run": TEXT},
    "/runs/sparklines.json": {"ids": TEXT},
    "/compare/{a}/{b}": {"split": {"enum": ["dev", "test", "train"]}},
    "/attention": ATTENTION,
    "/attention/{name}.{format}": ATTENTION,
    "/playground/{id}": WRITING,
    "/playground/{id}/{view}.{format}": WRITING,
    "/playground/{id}/answers": ANSWERING,
    "/playground/{id}/answer.{format}": ANSWERING,
    "/playground/{id}/risk.{format}": ANSWERING,
    "/playground/{id}/curve.{format}": ANSWERING,
    "/lessons/{name}/exercise": {"seed": NUMBER},
    "/recipe": {"from": TEXT, "name": TEXT, "data.corpus": TEXT, "train.lr": TEXT},
    "/recipe/recipe.toml": {"name": TEXT, "data.corpus": TEXT, "model.layers": TEXT},
    "/recipe/parts/{catalog}/{name}": {"key": TEXT},
}
"Queries of an address; those of charts, which all take the same, are not listed."
CHART: dict[str, Schema] = {"theme": {"enum": ["light", "dark"]}, "width": NUMBER}

BODIES: dict[str, tuple[str, Schema]] = {
    "/runs/delete": ("application/x-www-form-urlencoded", RUNS),
    "/lessons/{name}/mark": ("application/json", ANSWER),
    **{
        f"/recipe/{name}": ("application/json", SETTINGS)
        for name in ("check", "forecast", "save", "train")
    },
}

ANSWERS = {
    "200": "What was asked for.",
    "204": "There is nothing to draw.",
    "303": "It is done, and shown there.",
    "400": "A sentence that says what is wrong.",
    "403": "Not let in.",
    "404": "No such id.",
    "405": "Another method.",
    "413": "Too large.",
    "414": "Too long an address.",
    "429": "Too many requests.",
}
STREAM = "/events"
"Ends addresses that go on answering."


def openapi(routes: Iterable[BaseRoute]) -> Schema:
    """The document of these routes."""
    paths: dict[str, Schema] = {}
    for route in routes:
        if isinstance(route, Route):
            address = re.sub(r":\w+}", "}", route.path)
            operations = paths.setdefault(address, {})
            for method in sorted((route.methods or set()) - {"HEAD"}):
                operations[method.lower()] = _operation(route, address)
    info = {"title": "The page of regard serve", "version": "1"}
    return {"openapi": OPENAPI, "info": info, "paths": paths}


def describe(request: Request) -> Response:
    """This document."""
    return JSONResponse(openapi(request.app.routes), headers={"cache-control": "no-store"})


def _operation(route: Route, address: str) -> Schema:
    summary = (inspect.getdoc(route.endpoint) or "").partition("\n")[0]
    queries = QUERIES.get(address, CHART if "{format}" in address else {})
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": WORD}
        for name in route.param_convertors
    ] + [{"name": name, "in": "query", "schema": schema} for name, schema in queries.items()]
    described: Schema = {
        "summary": summary,
        "parameters": parameters,
        "responses": {code: {"description": text} for code, text in ANSWERS.items()},
    }
    if address in BODIES:
        media_type, schema = BODIES[address]
        described["requestBody"] = {"required": True, "content": {media_type: {"schema": schema}}}
    return described
