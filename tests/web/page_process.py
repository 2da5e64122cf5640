"""A page in a process of its own, and a client that was let in, to kill it and to crowd it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Reply:
    status: int
    location: str
    body: bytes


@dataclass
class PageProcess:
    """A running server."""

    process: subprocess.Popen[str]
    host: str
    cookie: str

    def ask(self, target: str, *, body: bytes | None = None, seconds: float = 30.0) -> Reply:
        """One request on a connection of its own; raises `OSError` or `HTTPException` once the
        server is dead."""
        connection = http.client.HTTPConnection(self.host, timeout=seconds)
        headers = {"cookie": self.cookie, "origin": f"http://{self.host}"}
        try:
            connection.request("GET" if body is None else "POST", target, body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.getheader("location", ""), answer.read())
        finally:
            connection.close()

    def post(self, target: str, values: dict[str, str]) -> Reply:
        return self.ask(target, body=json.dumps({"values": values}).encode())

    def memory(self) -> int:
        """Bytes of the process that are in memory, where the system says it."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
        raise AssertionError("no VmRSS")


@contextmanager
def page_process(runs: Path, *options: str, **environment: str) -> Iterator[PageProcess]:
    """A server over `runs`, killed at the end if it still lives."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.web.serve_stand_in", str(runs), *options],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        page = PageProcess(process, address.netloc, "")
        connection = http.client.HTTPConnection(address.netloc, timeout=30)
        connection.request("GET", f"{address.path}?{address.query}")
        page.cookie = connection.getresponse().getheader("set-cookie", "").partition(";")[0]
        connection.close()
        yield page
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
