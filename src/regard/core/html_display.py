"""What a notebook shows for a result: HTML, drawn by the packages above the one that made it.

A result knows nothing of pages, so its class says only that it has one. `regard.api` sets the
renderer when it is imported; without it a notebook shows the text.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import ClassVar

from regard.core.errors import UserError


class HtmlDisplay:
    """Base class of results that a notebook shows as in their report."""

    render_html: ClassVar[Callable[[HtmlDisplay], str] | None] = None

    def _repr_html_(self) -> str | None:
        if HtmlDisplay.render_html is None:
            return None
        try:
            return HtmlDisplay.render_html(self)
        except UserError as problem:  # its folder was deleted or damaged since
            return f"<p>{escape(str(problem))}</p>"
