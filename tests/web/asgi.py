"""Requests to an ASGI application as a server would make them, without a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

from regard.web.guard import Guard, Session

SECONDS = 60
HOST = "127.0.0.1:8321"
SESSION = Session(cookie="regard-8321", is_exchanged=True)
COOKIE = f"{SESSION.cookie}={SESSION.key}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def guarded(app: Any) -> Guard:
    return Guard(app, hosts=[HOST], session=SESSION)


def scope_of(
    target: str,
    *,
    method: str = "GET",
    headers: Iterable[tuple[str, str]] = (),
    cookie: str | None = COOKIE,
    host: str | None = HOST,
    **changes: Any,
) -> dict[str, Any]:
    path, _, query = target.partition("?")
    given = [*headers]
    given += [("host", host)] if host is not None else []
    given += [("cookie", cookie)] if cookie is not None else []
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in given],
        "server": ("127.0.0.1", 8321),
        "client": ("127.0.0.1", 50000),
        **changes,
    }


def ask(
    app: Callable[..., Awaitable[None]], target: str, *, body: bytes = b"", **options: Any
) -> Answer:
    """One request and its whole answer."""
    asked = _ask(app, scope_of(target, **options), [body])
    return asyncio.run_coroutine_threadsafe(asked, _loop()).result(SECONDS)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One for all requests, as in a server: workers and streams belong to it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


async def _ask(
    app: Callable[..., Awaitable[None]], scope: Mapping[str, Any], parts: Iterable[bytes]
) -> Answer:
    sent: list[dict[str, Any]] = []
    pieces = [*parts]
    messages = [
        {"type": "http.request", "body": piece, "more_body": n < len(pieces) - 1}
        for n, piece in enumerate(pieces)
    ]

    async def receive() -> Mapping[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    headers = {name.decode().lower(): value.decode() for name, value in start.get("headers", ())}
    return Answer(start.get("status", 0), headers, b"".join(one.get("body", b"") for one in sent))
