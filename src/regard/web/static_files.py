"""Files that the browser is given: the page's own, the reports' styles, and the bundle of Vega."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import altair as alt
import vl_convert
from starlette.requests import Request
from starlette.responses import Response

from regard.web.listing import NotFoundError

MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STYLES = ("report.css", "comparison.css")
"Of the reports, whose parts the page shows."
VEGA = "vega.js"
BUNDLE = "window.vegaEmbed = vegaEmbed;"
"What the page takes of the bundle of Vega: it draws with the interpreter and evaluates no code."


def static_address(name: str) -> str:
    """Where a file is served; another content has another address, so none grows stale."""
    return f"/static/{static_version()}/{name}"


def static(request: Request) -> Response:
    """A file by its name."""
    served = static_files()
    name = request.path_params["name"]
    if name != VEGA and name not in served:
        raise NotFoundError("there is no such file", topic="page")
    return Response(
        vega_bundle() if name == VEGA else served[name],
        media_type=MEDIA_TYPES[Path(name).suffix],
        headers={"cache-control": "private, max-age=31536000, immutable"},
    )


def icon(request: Request) -> Response:
    return Response(static_files()["icon.svg"], media_type=MEDIA_TYPES[".svg"])


@cache
def static_files() -> dict[str, bytes]:
    """Every file by name: this package's own, and the reports' styles."""
    own = files("regard.web") / "static"
    served = {entry.name: entry.read_bytes() for entry in own.iterdir() if entry.is_file()}
    for name in STYLES:
        served[name] = (files("regard.reports") / "templates" / name).read_bytes()
    served["lesson.css"] = (files("regard.lessons") / "templates" / "lesson.css").read_bytes()
    return served


@cache
def vega_bundle() -> bytes:
    """Built when it is first needed, which takes a second."""
    vega_lite = alt.SCHEMA_VERSION.lstrip("v").rpartition(".")[0]
    bundle: str = vl_convert.javascript_bundle(BUNDLE, vl_version=vega_lite)
    return bundle.encode()


@cache
def static_version() -> str:
    """Of all files together."""
    content = b"".join(served for _, served in sorted(static_files().items()))
    content += f"{version('vl-convert-python')} {alt.SCHEMA_VERSION}".encode()
    return blake2b(content, digest_size=6).hexdigest()
