"""Instead of Ray: a cluster whose trainings are functions, run when the engine listens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from regard.studies.engines.ray.cluster import Node, NodeError, ProcessGoneError
from regard.studies.engines.ray.folder_transfer import decode, encode

Training = Callable[[str, Mapping[str, Any]], Iterator[bytes]]
"(node, spec) -> messages"


class FakeCluster:
    def __init__(self, nodes: Sequence[str], training: Training) -> None:
        self.alive = list(nodes)
        self.training = training
        self.tried: list[tuple[str, str]] = []
        "(node, job)"
        self.closed = self.stopped = False
        self.cancelled: list[Any] = []
        self.memory = 8e9

    def nodes(self) -> list[Node]:
        return [Node(name, f"10.0.0.{name}", 1, self.memory) for name in self.alive]

    def put(self, chunks: Iterator[bytes]) -> list[bytes]:
        return list(chunks)

    def submit(self, spec: bytes, contents: Any, *, without: Sequence[str], **_: Any) -> Any:
        header, _payload = decode(spec)
        free = [name for name in self.alive if name not in without]
        if not free:
            return iter(())
        node = free[len(self.tried) % len(free)]
        self.tried.append((node, header["name"]))
        return self._messages(node, header)

    def _messages(self, node: str, spec: Mapping[str, Any]) -> Iterator[bytes]:
        yield encode({"kind": "node", "id": node, "address": f"10.0.0.{node}"})
        yield from self.training(node, spec)

    def ready(self, streams: Sequence[Any], *, seconds: float) -> list[Any]:
        return list(streams)

    def receive(self, stream: Any) -> bytes | None:
        return next(stream, None)

    def stop_trainings(self) -> None:
        self.stopped = True

    def cancel(self, stream: Any) -> None:
        self.cancelled.append(stream)

    def close(self) -> None:
        self.closed = True


def finished(events: str = "") -> Iterator[bytes]:
    """The minimal run folder of a training that ended."""
    files = {"results.json": "{}", "final/config.json": "{}", "events.jsonl": events}
    yield from folder(files)
    yield encode({"kind": "end", "exit_code": 0, "log": ""})


def folder(files: Mapping[str, str]) -> Iterator[bytes]:
    from hashlib import sha256

    rows = [
        [name, len(text), sha256(text.encode()).hexdigest(), True] for name, text in files.items()
    ]
    yield encode({"kind": "folder", "files": rows})
    for text in files.values():
        if text:
            yield encode({"kind": "bytes"}, text.encode())


def failed(text: str, code: int = 2) -> Iterator[bytes]:
    yield encode({"kind": "end", "exit_code": code, "log": f"progress\n{text}\n"})


def gone() -> Iterator[bytes]:
    raise ProcessGoneError("the node died")
    yield b""


def broken(text: str) -> Iterator[bytes]:
    raise NodeError(text)
    yield b""


def checkpoint(step: int) -> Iterator[bytes]:
    event = json.dumps({"event": "step", "step": step, "loss": 1.0, "seconds": float(step)})
    yield from folder({"recipe.toml": "x", "events.jsonl": event + "\n"})
