"""Serve the page until Ctrl-C: the socket, the guard in front of the application, the address."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.core.errors import UserError
from regard.web.app import build_app
from regard.web.guard import Guard, Session

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"
HEADER_SECONDS = 10.0
"Until a new connection has sent the first request."
MAX_CONNECTIONS = 512
MAX_HEADER_BYTES = 16_384


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection on which no whole request comes: it would be held open."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._impatient = self.loop.call_later(HEADER_SECONDS, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._impatient.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


def serve(
    root: Path,
    *,
    port: int,
    expose_as: str | None,
    opens_browser: bool,
    say: Callable[[str], None],
) -> None:
    """Serve the runs below `root`; `say` gets the address to open. `expose_as` is the name by which
    other machines reach this one: then the page listens to them, without encryption."""
    if not root.is_dir():
        raise UserError(
            "there is no such folder",
            topic="serve",
            where=str(root),
            hint="`regard train` creates runs/ in the working folder; else give --in FOLDER.",
        )
    listening, address, guard = bind(root, port=port, expose_as=expose_as)
    say(address)
    if opens_browser:
        webbrowser.open(address)
    asyncio.run(uvicorn.Server(configuration(guard)).serve(sockets=[listening]))


def bind(root: Path, *, port: int, expose_as: str | None) -> tuple[socket.socket, str, Guard]:
    """The socket, the address to open once, and what answers there."""
    listening = _listen(EVERYWHERE if expose_as else LOOPBACK, port)
    port = listening.getsockname()[1]
    session = Session(cookie=f"regard-{port}")
    names = [expose_as] if expose_as else [LOOPBACK, "localhost"]
    guard = Guard(build_app(root), hosts=[f"{name}:{port}" for name in names], session=session)
    return listening, f"http://{names[0]}:{port}/?token={session.token}", guard


def configuration(guard: Guard) -> uvicorn.Config:
    """Of the server: HTTP/1.1 alone, small headers, and nobody in front who could be believed."""
    return uvicorn.Config(
        guard,
        http=ImpatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        interface="asgi3",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )


def _listen(host: str, port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as problem:
        listening.close()
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise UserError(
            f"port {port} cannot be used ({reason})",
            topic="serve",
            hint="Give another one with --port, or 0 for any that is free.",
        ) from None
    listening.listen(128)
    return listening
