"""Server-sent events: a page hears that something changed, and asks for itself again.

Events carry no data but a stamp, so there is one way to render a page, and a reader that missed
some is up to date after the next. All readers of one folder share one search of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

POLL_SECONDS = 0.25
BUSY_FRACTION = 0.1
"Of the time that searching for changes may take."
REPEAT_SECONDS = 10.0
"After which a page is asked to look again all the same: what is left to train has become less."

Stamp = Callable[[], str]


class Stamps:
    """The stamp of each folder that somebody watches, searched once for all of them."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def current(self, key: str, stamp: Stamp) -> str:
        async with self._locks.setdefault(key, asyncio.Lock()):
            until, value = self._known.get(key, (0.0, ""))
            began = time.monotonic()
            if began >= until:
                value = await run_in_threadpool(stamp)
                ended = time.monotonic()
                pause = max(POLL_SECONDS, (ended - began) / BUSY_FRACTION)
                self._known[key] = (ended + pause, value)
            return value


def changes(stamps: Stamps, key: str, stamp: Stamp) -> Response:
    """A stream that says `change` whenever the stamp does."""

    async def events() -> AsyncIterator[str]:
        last = await stamps.current(key, stamp)
        said = time.monotonic()
        yield f"retry: 1000\nevent: ready\ndata: {last}\n\n"
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await stamps.current(key, stamp)
            if now != last or time.monotonic() - said > REPEAT_SECONDS:
                last, said = now, time.monotonic()
                yield f"event: change\ndata: {now}\n\n"

    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)
