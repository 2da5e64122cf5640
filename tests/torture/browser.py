"""A page as a browser reads it: chromium's own document, or Python's parser where there is none."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from tests.torture.harness import Failure

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=500"),
)
MARK = "xinjected"
"Of every element and attribute that a text tries to become."
SECONDS = 60


@cache
def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def document(page: Path, profile: Path) -> str:
    """The page as it stands after it was loaded, with whatever ran in it, as HTML."""
    browser = find_browser()
    if browser is None:
        return page.read_text(encoding="utf-8")
    command = [browser, *QUIET, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode or not done.stdout:
        raise AssertionError(f"{browser} ends with {done.returncode}: {done.stderr[-300:]!r}")
    return done.stdout.decode("utf-8", "replace")


def check_page(page: Path, profile: Path) -> None:
    """`Failure` if a text became an element or an attribute, or anything can run."""
    finder = _Finder()
    finder.feed(document(page, profile))
    if finder.found:
        raise Failure("believed", f"markup of a text became {finder.found[:3]}")
    if not finder.seen:
        raise AssertionError("the document is empty")


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.seen = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= tag == "body"
        runs = tag in ("script", "iframe", "object", "embed", "base")
        for name, value in attrs:
            called = name.startswith("on") or MARK in name
            runs |= called or (value or "").strip().lower().startswith("javascript:")
        if runs or MARK in tag:
            self.found.append(f"{self.get_starttag_text()} at {self.getpos()}"[:200])
