"""The guard: what is tried from outside, and that nothing of it reaches a view."""

from __future__ import annotations

import asyncio

import pytest
from tests.web.asgi import COOKIE, HOST, SESSION, ask, guarded, scope_of

from regard.web import guard as guard_module
from regard.web.guard import HEADERS, MAX_BODY, MAX_PATH, MAX_QUERY, Guard, Session


class Trap:
    """An application that remembers each request that reaches it."""

    def __init__(self):
        self.reached = []

    async def __call__(self, scope, receive, send):
        body = b""
        if scope["type"] == "http" and scope["method"] == "POST":
            body = (await receive())["body"]
        self.reached.append((scope["type"], scope.get("path"), body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in"})


POST = {"method": "POST", "headers": [("origin", f"http://{HOST}"), ("content-length", "0")]}


def posted(*headers, origin=f"http://{HOST}", length="0"):
    return {
        "method": "POST",
        "headers": [("origin", origin), ("content-length", length), *headers],
    }


ATTACKS = {
    # Other names of this machine, as DNS rebinding gives it, and names that only look right.
    "rebound host": ("/", {"host": "attacker.example:8321"}),
    "host without port": ("/", {"host": "127.0.0.1"}),
    "host with another port": ("/", {"host": "127.0.0.1:80"}),
    "host with a suffix": ("/", {"host": f"{HOST}.attacker.example"}),
    "host with a user": ("/", {"host": f"attacker@{HOST}"}),
    "host with a path": ("/", {"host": f"{HOST}/x"}),
    "host in other digits": ("/", {"host": "2130706433:8321"}),
    "host 0.0.0.0": ("/", {"host": "0.0.0.0:8321"}),
    "no host": ("/", {"host": None}),
    "two hosts": ("/", {"headers": [("host", "attacker.example")]}),
    "host of a proxy": ("/", {"host": "attacker.example", "headers": [("x-forwarded-host", HOST)]}),
    # Who has no cookie, or a wrong one.
    "no cookie": ("/", {"cookie": None}),
    "empty cookie": ("/", {"cookie": f"{SESSION.cookie}="}),
    "guessed cookie": ("/", {"cookie": f"{SESSION.cookie}=guessed"}),
    "key under another name": ("/", {"cookie": f"session={SESSION.key}"}),
    "key of another port": ("/", {"cookie": f"regard-8322={SESSION.key}"}),
    "cookie that is none": ("/", {"cookie": "\x01;;==,"}),
    "prefix of the key": ("/", {"cookie": f"{SESSION.cookie}={SESSION.key[:-1]}"}),
    "static file without cookie": ("/static/0/page.js", {"cookie": None}),
    "wrong token": ("/?token=guessed", {"cookie": None}),
    "empty token": ("/?token=", {"cookie": None}),
    "old token": (f"/?token={SESSION.token}", {"cookie": None}),
    "token elsewhere": (f"/runs?token={SESSION.token}", {"cookie": None}),
    "token by HEAD": (f"/?token={SESSION.token}", {"cookie": None, "method": "HEAD"}),
    "key as token": (f"/?token={SESSION.key}", {"cookie": None}),
    # Other origins that send with this browser's cookie.
    "foreign origin": ("/runs/delete", posted(origin="http://attacker.example")),
    "null origin": ("/runs/delete", posted(origin="null")),
    "origin of another port": ("/runs/delete", posted(origin="http://127.0.0.1:80")),
    "origin with TLS": ("/runs/delete", posted(origin=f"https://{HOST}")),
    "origin with a suffix": ("/runs/delete", posted(origin=f"http://{HOST}.attacker.example")),
    "two origins": ("/runs/delete", posted(("origin", "http://attacker.example"))),
    "no origin": ("/runs/delete", {"method": "POST", "headers": [("content-length", "0")]}),
    "training from a foreign origin": ("/recipe/train", posted(origin="http://attacker.example")),
    "training from a form of another site": ("/recipe/train", posted(origin="null")),
    "stop from a foreign origin": (f"/trainings/{'0' * 16}/stop", posted(origin="http://x")),
    "resume by reading": (f"/trainings/{'0' * 16}/resume", {"cookie": None}),
    "POST from another site": ("/runs/delete", posted(("sec-fetch-site", "cross-site"))),
    "read from another site": (
        "/runs",
        {"headers": [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]},
    ),
    "read from the same site's other port": (
        "/runs",
        {"headers": [("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")]},
    ),
    # Methods and protocols that nothing here has.
    "OPTIONS": ("/", {"method": "OPTIONS"}),
    "PUT": ("/", {"method": "PUT"}),
    "DELETE": ("/runs", {"method": "DELETE"}),
    "TRACE": ("/", {"method": "TRACE"}),
    "CONNECT": ("/", {"method": "CONNECT"}),
    "method in small letters": ("/", {"method": "get"}),
    "HTTP/1.0": ("/", {"http_version": "1.0"}),
    "HTTP/2": ("/", {"http_version": "2"}),
    # Addresses that lead elsewhere.
    "traversal": ("/static/0/../../../etc/passwd", {}),
    "escaped traversal": ("/static/0/%2e%2e/%2e%2e/etc/passwd", {}),
    "doubly escaped traversal": ("/static/0/%252e%252e/etc/passwd", {}),
    "escaped slash": ("/runs/..%2f..%2fetc", {}),
    "backslash": ("/runs/..\\..\\etc", {}),
    "null byte": ("/runs/a%00b", {}),
    "two slashes": ("//attacker.example/", {}),
    "absolute address": (f"http://{HOST}/runs", {}),
    "markup in the path": ("/runs/<script>", {}),
    "line break in the path": ("/runs/a\r\nset-cookie: x", {}),
    "address without slash": ("runs", {}),
    "long path": ("/" + "a" * MAX_PATH, {}),
    "long query": ("/?" + "a" * (MAX_QUERY + 1), {}),
    # Bodies.
    "large recipe": ("/recipe/check", posted(length=str(MAX_BODY + 1))),
    "training above the folder": ("/trainings/../../stop", posted()),
    "large body": ("/runs/delete", posted(length=str(MAX_BODY + 1))),
    "negative length": ("/runs/delete", posted(length="-1")),
    "length that is no number": ("/runs/delete", posted(length="1e3")),
    "two lengths": ("/runs/delete", posted(("content-length", "5"))),
    "reading with a body": ("/", {"headers": [("content-length", "5")]}),
    "reading in chunks": ("/", {"headers": [("transfer-encoding", "chunked")]}),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_is_tried_is_not_let_in(name):
    target, options = ATTACKS[name]
    trap = Trap()
    answer = ask(guarded(trap), target, **options)
    assert trap.reached == []
    assert 400 <= answer.status < 600
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]


def test_who_has_the_cookie_is_let_in_with_every_header():
    trap = Trap()
    answer = ask(guarded(trap), "/runs?q=x")
    assert (answer.status, answer.body) == (200, b"in")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert not {"access-control-allow-origin", "server"} & answer.headers.keys()
    assert ask(guarded(trap), "/runs/delete", body=b"run=1", **posted(length="5")).status == 200
    assert [path for _, path, _ in trap.reached] == ["/runs", "/runs/delete"]
    assert trap.reached[1][2] == b"run=1"


def test_no_policy_allows_what_a_page_could_be_made_to_run():
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "*" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'"} < set(policy.split("; "))


def test_the_token_is_exchanged_once():
    session = Session(cookie="regard-8321")
    door = Guard(Trap(), hosts=[HOST], session=session)
    wrong = ask(door, "/?token=guessed", cookie=None)
    assert wrong.status == 403
    first = ask(door, f"/?token={session.token}", cookie=None)
    assert (first.status, first.headers["location"]) == (303, "/")
    value, *attributes = first.headers["set-cookie"].split("; ")
    assert value == f"regard-8321={session.key}"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert session.token not in first.headers["set-cookie"]
    again = ask(door, f"/?token={session.token}", cookie=None)
    assert (again.status, "set-cookie" in again.headers) == (403, False)
    with_cookie = ask(door, f"/?token={session.token}", cookie=value)
    assert (with_cookie.status, with_cookie.headers["location"]) == (303, "/")


@pytest.mark.parametrize("kind", ["websocket", "tcp", "", "lifespans"])
def test_other_scope_types_reach_nothing(kind):
    trap = Trap()
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message["type"])

    scope = {**scope_of("/", headers=[("origin", f"http://{HOST}")]), "type": kind}
    asyncio.run(guarded(trap)(scope, receive, send))
    assert trap.reached == []
    assert sent == (["websocket.close"] if kind == "websocket" else [])


def test_a_body_that_comes_slowly_or_grows_is_refused(monkeypatch):
    monkeypatch.setattr(guard_module, "BODY_SECONDS", 0.05)
    trap = Trap()

    def post(receive):
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(guarded(trap)(scope_of("/runs/delete", **POST), receive, send))
        return sent[0]["status"]

    async def slowly():
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"a", "more_body": True}

    async def without_end():
        return {"type": "http.request", "body": b"a" * MAX_BODY, "more_body": True}

    async def broken_off():
        return {"type": "http.disconnect"}

    assert [post(one) for one in (slowly, without_end, broken_off)] == [408, 413, 400]
    assert trap.reached == []


def test_more_requests_than_a_person_makes_are_refused(monkeypatch):
    monkeypatch.setattr(guard_module, "PER_SECOND", 0)
    monkeypatch.setattr(guard_module, "BURST", 5)
    door = guarded(Trap())
    statuses = [ask(door, "/", cookie=COOKIE).status for _ in range(8)]
    assert statuses == [200] * 5 + [429] * 3
