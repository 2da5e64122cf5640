"""A server in a thread of the test's process, and what a browser needs to be let in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from regard.web.serve import bind, configuration


@dataclass(frozen=True)
class Served:
    port: int
    address: str
    "With the token."

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def served(root: Path) -> Iterator[Served]:
    """The page over the runs below `root`."""
    listening, address, guard = bind(root, port=0, expose_as=None)
    server = uvicorn.Server(configuration(guard))
    server.install_signal_handlers = lambda: None
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield Served(listening.getsockname()[1], address)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()
