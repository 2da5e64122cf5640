"""Pages as answers: the reports' templates in the page's layout, and one sentence for an error."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from regard.core.errors import UserError
from regard.evaluation import formatting
from regard.lessons import number_format
from regard.lessons.page import anchor, typeset
from regard.reports import study_text
from regard.reports.run_report import page_templates
from regard.web.listing import NotFoundError, id_of
from regard.web.static_files import static_address

LAYOUT = "layout.html.j2"
SECTIONS = {
    "studies": "/",
    "runs": "/runs",
    "attention": "/attention",
    "playground": "/playground",
    "recipe": "/recipe",
    "lessons": "/lessons",
}
"Of the navigation, by name: their addresses."
TEMPLATES = ("web", "lessons", "reports")
"Packages, the first that has a template of a name."


def page(template: str, *, section: str, status: int = 200, **values: Any) -> Response:
    """A page; `section` is where it stands in the navigation."""
    html = render(template, layout=LAYOUT, section=section, sections=SECTIONS, **values)
    return HTMLResponse(html, status_code=status, headers={"cache-control": "no-store"})


def render(template: str, **values: Any) -> str:
    """A template as HTML: a part of a page."""
    return _templates().get_template(template).render(**values)


def error_page(request: Request, problem: Exception) -> Response:
    """What is wrong, in the sentence that the command line would print."""
    assert isinstance(problem, UserError)
    status = 404 if isinstance(problem, NotFoundError) else 400
    files = (".json", ".csv", ".svg", ".png", ".toml")
    if request.url.path.endswith(files) or request.method == "POST":
        return Response(
            f"{problem}\n",
            status_code=status,
            media_type="text/plain",
            headers={"cache-control": "no-store"},
        )
    return page(
        "error.html.j2", section="", status=status, sentence=str(problem).removeprefix("page: ")
    )


def ago(then: float) -> str:
    """`3 min ago`, for seconds since 1970."""
    seconds = max(time.time() - then, 0.0)
    if seconds < 60:
        return "just now"
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{formatting.quantity(int(seconds / size), unit)} ago"
    return ""


@cache
def _templates() -> Environment:
    templates = page_templates().overlay(
        loader=ChoiceLoader([PackageLoader(f"regard.{name}") for name in TEMPLATES])
    )
    # Its own tables: those of an overlay are the reports' own.
    templates.filters = dict(templates.filters)
    for function in (
        number_format.format_value,
        number_format.format_measured,
        number_format.format_expected,
        typeset,
        anchor,
        ago,
        id_of,
    ):
        templates.filters[function.__name__] = function
    templates.globals = {**templates.globals, "static": static_address, "study_text": study_text}
    return templates
