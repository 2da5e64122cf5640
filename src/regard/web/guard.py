"""The guard: all that comes from outside passes it first, and what it does not know is refused.

It stands in front of every scope type and knows no routes, so a view that is added later cannot be
forgotten. A request is let in if it names a host that is served, comes from this page, is small,
and has the session's cookie. The cookie is given once, for the token in the printed address.

It defends against pages of other origins (DNS rebinding, CSRF, reading answers across origins),
other users of this machine, and markup in names, labels and texts. Who may read the terminal or
the runs' folder may do all that the page can.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

READING = ("GET", "HEAD")
METHODS = (*READING, "POST")
PATH = re.compile(rb"/[A-Za-z0-9._/-]*")
"Of a target; ids and names need no other characters, and no escapes."
MAX_PATH = 300
MAX_QUERY = 12_000
"Of an address: a sentence or a prompt of some hundred words, escaped, and a painted mask."
MAX_BODY = 64 * 1024
BODY_SECONDS = 10.0
"Until all of a body has come."
MAX_OPEN = 256
"Requests at a time, streams included."
BURST, PER_SECOND = 400, 100
"Requests: how many at once, and how many go on."

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: a form would then be sent with the origin "null", and refused.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"Of every answer."


@dataclass
class Session:
    """What lets a browser in: the token of the printed address, once, then the cookie."""

    cookie: str
    "Its name; cookies are shared by the ports of a host, so it has the port."
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    "The cookie's value."
    is_exchanged: bool = False

    def exchange(self, token: str) -> bool:
        """Whether this is the token, for the first time."""
        fits = secrets.compare_digest(token.encode(), self.token.encode())
        first, self.is_exchanged = not self.is_exchanged, self.is_exchanged or fits
        return fits and first

    def knows(self, cookies: Iterable[str]) -> bool:
        """Whether one of these Cookie headers has the key."""
        found = False
        for header in cookies:
            try:
                morsel = SimpleCookie(header).get(self.cookie)
            except CookieError:
                continue
            value = morsel.value if morsel is not None else ""
            found |= secrets.compare_digest(value.encode(), self.key.encode())
        return found


class RefusedError(Exception):
    """A request that is not let in: status, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Guard:
    """An ASGI application in front of another; `hosts` are the exact values of a Host header."""

    def __init__(self, app: App, *, hosts: Iterable[str], session: Session) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)
        self.session = session
        self._open = 0
        self._tokens, self._filled = float(BURST), time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # from the server itself, not from outside
            await self.app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        guarded = _with_headers(send)
        self._open += 1
        try:
            headers = _headers(scope)
            self._check_rate()
            self._check_target(scope, headers)
            self._check_origin(scope["method"], headers)
            if (token := _token(scope)) is not None:
                await self._let_in(token, headers, guarded)
                return
            if not self.session.knows(headers.get("cookie", ())):
                raise RefusedError(403, NOT_LET_IN)
            if scope["method"] == "POST":
                receive = await _received(headers, receive)
            elif headers.get("content-length", ["0"]) != ["0"] or "transfer-encoding" in headers:
                raise RefusedError(400, "a request for reading has no body")
            await self.app(scope, receive, guarded)
        except RefusedError as refusal:
            await _answer(guarded, refusal.status, refusal.sentence)
        finally:
            self._open -= 1

    def _check_rate(self) -> None:
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + PER_SECOND * (now - self._filled))
        self._filled = now
        if self._open > MAX_OPEN or self._tokens < 1:
            raise RefusedError(429, "too many requests: wait a moment")
        self._tokens -= 1

    def _check_target(self, scope: Scope, headers: Mapping[str, list[str]]) -> None:
        if scope.get("http_version") != "1.1":
            raise RefusedError(505, "only HTTP/1.1")
        if scope["method"] not in METHODS:
            raise RefusedError(405, "only GET, HEAD and POST")
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            raise RefusedError(421, "this host is not served here")
        path, query = scope.get("raw_path") or b"", scope.get("query_string") or b""
        if len(path) > MAX_PATH or len(query) > MAX_QUERY:
            raise RefusedError(414, "the address is too long")
        if not PATH.fullmatch(path) or b".." in path or b"//" in path:
            raise RefusedError(400, "no such address")

    def _check_origin(self, method: str, headers: Mapping[str, list[str]]) -> None:
        """POST only from a page of this host; reading across origins only as a navigation."""
        if method not in READING:
            origins = headers.get("origin", [])
            if len(origins) != 1 or origins[0].lower() != f"http://{headers['host'][0].lower()}":
                raise RefusedError(403, "this was not sent by this page")
        site = headers.get("sec-fetch-site", ["same-origin"])
        mode = headers.get("sec-fetch-mode", ["navigate"])
        if site[0] not in ("same-origin", "none") and (mode != ["navigate"] or method == "POST"):
            raise RefusedError(403, "another site may not read this page")

    async def _let_in(self, token: str, headers: Mapping[str, list[str]], send: Send) -> None:
        """Exchange the token for the cookie, and lead to the address without it."""
        answer = [(b"location", b"/"), (b"cache-control", b"no-store"), (b"content-length", b"0")]
        if self.session.exchange(token):
            cookie = f"{self.session.cookie}={self.session.key}; HttpOnly; SameSite=Strict; Path=/"
            answer.append((b"set-cookie", cookie.encode()))
        elif not self.session.knows(headers.get("cookie", ())):
            raise RefusedError(403, NOT_LET_IN)
        await send({"type": "http.response.start", "status": 303, "headers": answer})
        await send({"type": "http.response.body", "body": b""})


NOT_LET_IN = (
    "this page is for the browser that opened the address `regard serve` printed; it works once. "
    "Start `regard serve` again for another"
)


def _headers(scope: Scope) -> dict[str, list[str]]:
    """Every value of each header: one that comes twice may mean two things."""
    headers: dict[str, list[str]] = {}
    for name, value in scope.get("headers", ()):
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _token(scope: Scope) -> str | None:
    if scope["method"] != "GET" or scope["path"] != "/":
        return None
    query = parse_qs((scope.get("query_string") or b"").decode("latin-1"), keep_blank_values=True)
    return next(iter(query.get("token", ())), None)


async def _received(headers: Mapping[str, list[str]], receive: Receive) -> Receive:
    """The body, whole and small, before a view sees the request; then what follows it."""
    length = headers.get("content-length", ["0"])
    if len(length) != 1 or not length[0].isdigit() or int(length[0]) > MAX_BODY:
        raise RefusedError(413, f"more than {MAX_BODY // 1024} KB")
    body, more = b"", True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedError(400, "the request broke off")
                body, more = body + message.get("body", b""), message.get("more_body", False)
                if len(body) > MAX_BODY:
                    raise RefusedError(413, f"more than {MAX_BODY // 1024} KB")
    except TimeoutError:
        raise RefusedError(408, f"the request took longer than {BODY_SECONDS:.0f} s") from None
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = {name.encode(): value.encode() for name, value in HEADERS.items()}
            rest = [pair for pair in message.get("headers", ()) if pair[0].lower() not in ours]
            message = {**message, "headers": [*rest, *ours.items()]}
        await send(message)

    return guarded


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = f"{sentence}.\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
