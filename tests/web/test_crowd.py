"""Fifty clients at once for a while: every answer is one that was meant, and memory stays flat.

REGARD_CROWD_SECONDS says how long, by default 20; the memory is judged over the second half, when
everything that is kept has been kept once.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.web.page_process import PageProcess, page_process

from regard.web.listing import Listing

CLIENTS = 50
SECONDS = float(os.environ.get("REGARD_CROWD_SECONDS") or 20)
PAUSE = 0.8
"Mean seconds between two requests of a client."
MAX_GROWTH = 0.05
"Of the memory, from the third quarter of the time to the fourth."
STREAM_SECONDS = 2.0


def client(
    page: PageProcess, targets: list[str], until: float, seed: int, seen: Counter[str]
) -> None:
    generator = random.Random(seed)
    while time.monotonic() < until:
        time.sleep(generator.expovariate(1 / PAUSE))
        target = generator.choice(targets)
        try:
            if target.endswith("/events"):
                seen[listen(page, target)] += 1
            elif target == "/recipe/check":
                width = str(generator.randint(-3, 64))
                reply = page.post(target, {"data.corpus": "opinions", "model.width": width})
                seen[str(reply.status)] += 1
            else:
                seen[str(page.ask(target, seconds=60).status)] += 1
        except (OSError, http.client.HTTPException) as problem:
            seen[f"{target}: {problem!r}"] += 1


def listen(page: PageProcess, target: str) -> str:
    """Read a stream until its first event, and leave it open for a while."""
    connection = http.client.HTTPConnection(page.host, timeout=60)
    try:
        connection.request("GET", target, headers={"cookie": page.cookie})
        answer = connection.getresponse()
        first = answer.readline()
        time.sleep(STREAM_SECONDS)
        return "stream" if first == b"retry: 1000\n" else f"{target}: {first!r}"
    finally:
        connection.close()


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_fifty_clients_are_served_and_memory_stays_flat(hostile_root, tmp_path):
    runs = tmp_path / "runs"
    shutil.copytree(hostile_root, runs)
    listing = Listing(runs)
    (study,), ids = listing.studies(), list(listing.runs())
    targets = [
        *("/", "/runs", "/runs/events", "/runs?sort=-dev.perplexity", "/lessons", "/recipe"),
        *("/recipe/check", "/recipe?name=a&data.corpus=opinions", "/trainings", "/openapi.json"),
        *(f"/studies/{study}", f"/studies/{study}/events", f"/studies/{study}/scores.csv"),
        *(f"/runs/{id}" for id in ids[:3]),
        *(f"/runs/{ids[0]}/charts/loss.{format}" for format in ("json", "csv", "svg")),
        *(f"/compare/{ids[0]}/{ids[1]}", "/recipe/parts/attention/additive?key=model.attention"),
    ]
    seen: Counter[str] = Counter()
    memory: list[tuple[float, int]] = []
    with page_process(runs) as page:
        for target in targets:  # what is built at first use
            if not target.endswith("/events"):
                page.ask(target, body=b'{"values": {}}' if target == "/recipe/check" else None)
        began = time.monotonic()
        until = began + SECONDS
        threads = [
            threading.Thread(target=client, args=(page, targets, until, seed, seen))
            for seed in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            memory.append((time.monotonic() - began, page.memory()))
            time.sleep(0.25)
        for thread in threads:
            thread.join(90)
            assert not thread.is_alive()
        assert page.process.poll() is None
        assert page.ask("/").status == 200
    quarters = [
        statistics.fmean(size for at, size in memory if n <= 4 * at / SECONDS < n + 1)
        for n in range(4)
    ]
    print(
        f"\n{seen.total():,} requests of {CLIENTS} clients in {SECONDS:.0f} s: {dict(seen)}; MB by "
        f"quarter: {[round(one / 1e6, 1) for one in quarters]}, most "
        f"{max(size for _, size in memory) / 1e6:.1f}",
        file=sys.stderr,
    )
    assert set(seen) <= {"200", "204", "stream", "429"}, json.dumps(seen, indent=1)
    assert seen["429"] < 0.02 * seen.total()
    assert seen.total() > CLIENTS * SECONDS / 20
    assert quarters[3] < quarters[2] * (1 + MAX_GROWTH)
