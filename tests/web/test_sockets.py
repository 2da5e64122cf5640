"""The server as it listens: oddities of HTTP that a guard in Python never sees as such."""

from __future__ import annotations

import http.client
import re
import socket
import time

import pytest
from tests.web.served import served

from regard.web import serve


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("runs")) as running:
        yield running


@pytest.fixture(scope="module")
def cookie(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", server.address.removeprefix(server.base))
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 303
    return answer.headers["set-cookie"].partition(";")[0]


def exchange(server, text: bytes, *, timeout: float = 30.0) -> bytes:
    """All that comes back for some bytes, until the server closes or falls silent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout) as connection:
        connection.sendall(text)
        received = b""
        try:
            while part := connection.recv(65536):
                received += part
        except (TimeoutError, ConnectionError):
            pass
        return received


def statuses(answer: bytes) -> list[int]:
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


def test_the_cookie_lets_in_and_nothing_says_what_serves(server, cookie):
    host = f"Host: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\nConnection: close\r\n"
    answer = exchange(server, f"GET / HTTP/1.1\r\n{host}\r\n".encode())
    assert statuses(answer) == [200]
    assert b"Studies" in answer
    assert b"\nserver:" not in answer.lower()


ODD = {
    "HTTP/1.0": "GET / HTTP/1.0\r\n{host}{cookie}\r\n",
    "HTTP/1.0 without host": "GET / HTTP/1.0\r\n{cookie}\r\n",
    "HTTP/0.9": "GET /\r\n",
    "absolute address": "GET http://attacker.example/ HTTP/1.1\r\n{host}{cookie}{close}\r\n",
    "two hosts": "GET / HTTP/1.1\r\n{host}Host: attacker.example\r\n{cookie}{close}\r\n",
    "host with a blank": "GET / HTTP/1.1\r\nHost : attacker.example\r\n{cookie}{close}\r\n",
    "folded header": "GET / HTTP/1.1\r\nHost: attacker.example\r\n {bare}\r\n{cookie}{close}\r\n",
    "asterisk": "OPTIONS * HTTP/1.1\r\n{host}{cookie}{close}\r\n",
    "authority": "CONNECT attacker.example:80 HTTP/1.1\r\n{host}{cookie}{close}\r\n",
    "no method": " / HTTP/1.1\r\n{host}{cookie}\r\n",
    "bare line feeds in a header": "GET / HTTP/1.1\r\n{host}X: a\nCookie: b\r\n{close}\r\n",
    "null byte in a header": "GET / HTTP/1.1\r\n{host}X: a\0b\r\n{cookie}{close}\r\n",
    "length and chunks": (
        "POST /runs/delete HTTP/1.1\r\n{host}{origin}Content-Length: 4\r\n"
        "Transfer-Encoding: chunked\r\n{close}\r\n0\r\n\r\n"
    ),
    "two lengths": (
        "POST /runs/delete HTTP/1.1\r\n{host}{origin}{cookie}Content-Length: 4\r\n"
        "Content-Length: 40\r\n{close}\r\nrun="
    ),
    "chunks that lie": (
        "POST /runs/delete HTTP/1.1\r\n{host}{origin}{cookie}"
        "Transfer-Encoding: chunked\r\n{close}\r\nzz\r\nabc\r\n0\r\n\r\n"
    ),
    "upgrade without cookie": (
        "GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ),
    "upgrade to HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "headers without end": "GET / HTTP/1.1\r\n{host}X: "
    + "a" * serve.MAX_HEADER_BYTES
    + "\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_requests_are_refused(server, cookie, name):
    bare = f"127.0.0.1:{server.port}"
    text = ODD[name].format(
        host=f"Host: {bare}\r\n",
        bare=bare,
        cookie=f"Cookie: {cookie}\r\n",
        origin=f"Origin: http://{bare}\r\n",
        close="Connection: close\r\n",
    )
    answer = exchange(server, text.encode("latin-1"), timeout=1.0)
    assert all(400 <= status < 600 for status in statuses(answer)), answer[:200]
    assert b"Studies" not in answer


def test_a_request_smuggled_behind_another_is_judged_by_itself(server, cookie):
    inner = "GET /runs HTTP/1.1\r\nHost: attacker.example\r\n\r\n"
    outer = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\n\r\n{inner}"
    answer = exchange(server, outer.encode(), timeout=2.0)
    assert statuses(answer) == [200, 421]


def test_a_connection_that_stays_silent_is_closed(server, monkeypatch):
    monkeypatch.setattr(serve, "HEADER_SECONDS", 0.2)
    began = time.monotonic()
    for said in (b"", b"GET / HTTP/1.1\r\nHost: 127"):
        assert exchange(server, said, timeout=3.0) == b""
    assert time.monotonic() - began < 3.0


def test_only_this_machine_is_listened_to(server):
    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection(("127.0.0.2", server.port), timeout=1.0).close()
