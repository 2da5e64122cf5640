"""A random walk over the declared API on a running server: whatever is sent, no answer is a 5xx.

schemathesis draws calls from the OpenAPI document that is made from the routes. REGARD_WALK_CALLS
says how many; `python -m pytest tests/web/test_api_walk.py` takes the few of the default.
"""

from __future__ import annotations

import copy
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.routing import Route
from tests.journeys.workspace import file_digests
from tests.web.asgi import ask, guarded
from tests.web.served import Served, served

from regard.lessons.registry import lessons_by_topic
from regard.reports.run_report import RUN_CHARTS
from regard.reports.study_report import CHARTS
from regard.web import app as app_module
from regard.web.app import build_app
from regard.web.attention.views import ANSWERS
from regard.web.description import BODIES, QUERIES, STREAM, openapi
from regard.web.listing import Listing
from regard.web.static_files import static_files, static_version
from regard.web.trainings.processes import Trainings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

CALLS = int(os.environ.get("REGARD_WALK_CALLS") or 1500)
SLOW = ("/recipe/forecast", "/lessons/{name}/", "/attention/", "/playground/{id}/")
"Addresses that compute in workers: they get fewer calls."
SLOW_CALLS = 20


def test_every_route_is_described_and_nothing_else(hostile_root):
    app = build_app(hostile_root)
    document = openapi(app.routes)
    described = {
        (address, method.upper())
        for address, operations in document["paths"].items()
        for method in operations
    }
    served_routes = {
        (route.path.replace(":str}", "}"), method)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert described == served_routes
    addresses = set(document["paths"])
    assert QUERIES.keys() | BODIES.keys() <= addresses
    posts = {address for address, method in described if method == "POST"}
    bodiless = {f"/trainings/{{id}}/{verb}" for verb in ("stop", "resume")}
    assert posts - BODIES.keys() <= bodiless | posts_of_other_pages(posts)
    assert ask(guarded(app), "/openapi.json").status == 200


def posts_of_other_pages(posts: set[str]) -> set[str]:
    """Bodies that are not described yet are walked as any text."""
    return {one for one in posts if not one.startswith(("/runs", "/recipe", "/trainings"))}


@pytest.fixture
def walked(hostile_root, tmp_path, monkeypatch) -> Iterator[Served]:
    """A server whose trainings end at once."""
    command = [sys.executable, "-c", "print('no training')"]
    monkeypatch.setattr(
        app_module, "Trainings", lambda *given, **more: Trainings(*given, **more, command=command)
    )
    shutil.copytree(hostile_root, tmp_path / "runs")
    with served(tmp_path / "runs") as server:
        yield server


def with_known_values(document: dict, root) -> dict:
    """The document, where a parameter may also be an id that exists."""
    listing = Listing(root)
    runs, studies = list(listing.runs()), list(listing.studies())
    lessons = [one.name for group in lessons_by_topic().values() for one in group]
    answers = sorted({name for name, _ in ANSWERS})
    names = [
        *list(RUN_CHARTS)[:4],
        *list(CHARTS)[:4],
        *lessons[:3],
        "page.js",
        "additive",
        *answers,
    ]
    known: dict[str, list[str]] = {
        "id": [*runs[:4], *studies],
        "a": runs[:3],
        "b": runs[:3],
        "name": names,
        "format": ["json", "csv", "svg"],
        "catalog": ["attention", "task"],
        "view": ["text", "lens", "heads"],
        "version": [static_version()],
    }
    document = copy.deepcopy(document)
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path":
                    likely = {"enum": known[parameter["name"]]}
                    parameter["schema"] = {"anyOf": [likely, parameter["schema"]]}
    return document


def walk(operation, calls, session, base) -> Counter:
    """How often each status was answered to drawn calls of an operation."""
    statuses: Counter[tuple[str, int]] = Counter()

    @settings(
        max_examples=max(calls, 1),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case):
        answer = case.call(
            session=session, headers={"origin": base}, allow_redirects=False, timeout=120
        )
        statuses[operation.path, answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text[:500])
        assert "Traceback" not in answer.text

    call()
    return statuses


@pytest.mark.long
def test_no_call_of_the_declared_api_ends_in_an_error_of_the_server(walked, tmp_path):
    import requests

    root = tmp_path / "runs"

    assert "page.js" in static_files()
    session = requests.Session()
    session.get(walked.address, allow_redirects=False)
    document = with_known_values(openapi(build_app(root).routes), root)
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=walked.base)
    before = file_digests(root)
    operations = [one.ok() for one in schema.get_all_operations()]
    operations = [one for one in operations if not one.path.endswith(STREAM)]
    statuses: Counter[tuple[str, int]] = Counter()
    for operation in operations:
        calls = CALLS // len(operations)
        if operation.path.startswith(SLOW):
            calls = min(calls, SLOW_CALLS)

        statuses += walk(operation, calls, session, walked.base)
    by_status = Counter()
    for (_, status), count in statuses.items():
        by_status[status] += count
    print(f"\n{statuses.total():,} calls of {len(operations)} operations: {dict(by_status)}")
    assert statuses.total() > 0.5 * min(CALLS, 1500)
    assert by_status[200] > 0
    assert by_status[400] > 0
    gone = {name for name in before if name not in file_digests(root)}
    assert gone == set()
