"""A random walk over the declared API on a running server: whatever is sent, no answer is a 5xx.

schemathesis draws calls from the OpenAPI document that is made from the routes. REGARD_WALK_CALLS
says how many; `python -m pytest tests/web/test_api_walk.py` takes the few of the default.
"""

from __future__ import annotations

import copy
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

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
from regard.web.playground.views import answers, writes
from regard.web.static_files import static_files, static_version
from regard.web.trainings.processes import Trainings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

CALLS = int(os.environ.get("REGARD_WALK_CALLS") or 1500)
MIN_BATCH, MAX_BATCH = 4, 64
"Calls of an address until the next one has its turn: twice as many after a second or less."
LIKELY: dict[str, list[str]] = {
    "name": ["walked-0", "walked-1"],
    "data.corpus": ["opinions", "mixed-signals"],
    "model.family": ["encoder", "decoder"],
    "model.width": ["16", "17"],
    "model.attention.kind": ["dot", "additive"],
    "task.kind": ["classification"],
    "train.lr": ["0.01", "-1"],
    "prompt": ["The cat"],
    "text": ["the cat sat on the mat"],
    "kinds": ["dot", "dot,additive"],
}
"Values of queries and bodies that go further than any text."


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
def walked(hostile_root, trained_root, tmp_path, monkeypatch) -> Iterator[Served]:
    """A server whose trainings end at once."""
    command = [sys.executable, "-c", "print('no training')"]
    monkeypatch.setattr(
        app_module, "Trainings", lambda *given, **more: Trainings(*given, **more, command=command)
    )
    shutil.copytree(hostile_root, tmp_path / "runs")
    shutil.copytree(trained_root, tmp_path / "runs", dirs_exist_ok=True)
    with served(tmp_path / "runs") as server:
        yield server


def known_ids(root: Path) -> Callable[[str, str], list[str]]:
    """(an address, its parameter) → values that exist."""
    listing = Listing(root)
    studies = list(listing.studies())
    playable = [id for id, run in listing.runs().items() if writes(run) or answers(run)]
    runs = [*playable, *list(listing.runs())[:4]]
    lessons = [one.name for group in lessons_by_topic().values() for one in group][:6]
    names = {
        "/attention": sorted({name for name, _ in ANSWERS}),
        "/lessons": lessons,
        "/recipe": ["additive", "classification"],
        "/runs": list(RUN_CHARTS)[:4],
        "/static": sorted(static_files())[:6],
        "/studies": list(CHARTS)[:4],
    }
    known = {
        "a": runs,
        "b": runs,
        "format": ["json", "csv", "svg", "png"],
        "catalog": ["attention", "task"],
        "view": ["text", "lens", "heads"],
        "version": [static_version()],
    }

    def of(address: str, parameter: str) -> list[str]:
        if parameter == "id":
            by_section = {"/playground": playable, "/studies": studies}
            return by_section.get("/" + address.split("/")[1], runs)
        return names["/" + address.split("/")[1]] if parameter == "name" else known[parameter]

    return of


def with_known_values(document: dict, of: Callable[[str, str], list[str]], *, only: bool) -> dict:
    """The document, where a parameter may also be a value that exists; with `only`, none else in
    the path."""
    document = copy.deepcopy(document)
    for address, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                name, given = parameter["name"], parameter["schema"]
                if parameter["in"] == "path":
                    likely = {"enum": of(address, name)}
                    parameter["schema"] = likely if only else {"anyOf": [likely, given]}
                elif name in LIKELY:
                    parameter["schema"] = {"anyOf": [{"enum": LIKELY[name]}, given]}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                values = content["schema"]["properties"].get("values", {}).get("properties", {})
                for name in values.keys() & LIKELY.keys():
                    values[name] = {"anyOf": [{"enum": LIKELY[name]}, values[name]]}
    return document


def operations_of(document: dict, base: str) -> list:
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=base)
    found = [one.ok() for one in schema.get_all_operations()]
    return [one for one in found if not one.path.endswith(STREAM)]


def walk(operation, calls, session, base) -> Counter:
    """How often each status was answered to drawn calls of an operation."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=calls,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def call(case):
        answer = case.call(
            session=session, headers={"origin": base}, allow_redirects=False, timeout=300
        )
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (case.as_curl_command(), answer.text[:500])
        assert b"Traceback" not in answer.content

    call()
    return statuses


@pytest.mark.long
def test_no_call_of_the_declared_api_ends_in_an_error_of_the_server(walked, tmp_path):
    """Addresses get equal times, not equal numbers: some compute for seconds in a worker."""
    import requests

    root = tmp_path / "runs"
    assert "page.js" in static_files()
    session = requests.Session()
    session.get(walked.address, allow_redirects=False)
    document, of = openapi(build_app(root).routes), known_ids(root)
    before = file_digests(root)
    operations = [
        one
        for only in (True, False)
        for one in operations_of(with_known_values(document, of, only=only), walked.base)
    ]
    batches = dict.fromkeys(range(len(operations)), MIN_BATCH)
    seconds = dict.fromkeys(range(len(operations)), 0.0)
    statuses: Counter[tuple[str, int]] = Counter()
    while statuses.total() < CALLS:
        number = min(seconds, key=lambda number: seconds[number])
        operation, began = operations[number], time.monotonic()
        found = walk(operation, batches[number], session, walked.base)
        took = time.monotonic() - began
        seconds[number] += took
        if found.total() < batches[number]:  # it has no more that differ
            seconds[number] = math.inf
        elif took < 1:
            batches[number] = min(2 * batches[number], MAX_BATCH)
        before_it = statuses.total()
        statuses += Counter({(operation.path, status): n for status, n in found.items()})
        if before_it // 1000 < statuses.total() // 1000:
            print(f"{statuses.total():,} calls", flush=True)
    by_status: Counter[int] = Counter()
    for (_, status), count in statuses.items():
        by_status[status] += count
    addresses = {address for address, _ in statuses}
    print(f"\n{statuses.total():,} calls of {len(addresses)} addresses: {dict(by_status)}")
    assert addresses == {one.path for one in operations}
    assert by_status[200] > 0.1 * statuses.total()
    assert by_status[400] > 0
    gone = {name for name in before if name not in file_digests(root)}
    assert gone == set()
