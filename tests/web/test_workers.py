"""Workers: a request that goes while its worker is being cleared takes nothing with it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from regard.web.workers import Worker


def test_who_waits_for_a_clearing_may_go_and_the_next_is_answered(monkeypatch):
    """The worker is busy for one that is gone; the next goes too, and the one after is served."""

    async def three_requests() -> list[bool]:
        worker = Worker()
        cleared = asyncio.Event()

        async def clear() -> None:
            await cleared.wait()

        worker._clearing = asyncio.create_task(clear())
        impatient = asyncio.create_task(worker.answer({"do": "nothing"}))
        await asyncio.sleep(0)
        impatient.cancel()
        with suppress(asyncio.CancelledError):
            await impatient
        goes_on = not worker._clearing.done()
        cleared.set()
        await worker._clearing
        return [goes_on, worker._clearing.cancelled()]

    assert asyncio.run(three_requests()) == [True, False]
