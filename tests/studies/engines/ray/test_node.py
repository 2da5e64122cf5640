"""What a node does with a spec, without Ray and with a worker that trains at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.journeys.workspace import file_digests

from regard.core.files import folder_with_manifest
from regard.studies.engines.ray import node as node_module
from regard.studies.engines.ray.folder_transfer import (
    FileEntry,
    FolderReceiver,
    chunks,
    decode,
    list_files,
)
from regard.studies.engines.ray.node import code_version, train_on_node


class InstantWorker:
    """Trains in one step: `work` makes the run folder and returns the exit code."""

    is_free = True
    work: Any = None

    def __init__(self, log: Path, *, cwd: Path, options: Any, wake: Any) -> None:
        self.log, self.cwd, self.polls = log, cwd, 0
        log.write_text("")
        assert options == ("--abandon", str(cwd.parent))

    def train(self, folder: Path, *, recipe: Path, log: Path, **spec: Any) -> None:
        self.exit_code = type(self).work(self.cwd / folder, self.cwd / recipe, log, spec)
        self.polls = 0

    def poll(self) -> int | None:
        self.polls += 1
        return self.exit_code if self.polls > 2 else None

    def close(self) -> None:
        """There is no process."""

    request_stop = close


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(node_module, "_slots", {})
    monkeypatch.setattr(node_module, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(node_module.tempfile, "gettempdir", lambda: str(tmp_path / "node"))
    monkeypatch.setattr(node_module, "WorkerProcess", type("Worker", (InstantWorker,), {}))
    (tmp_path / "node").mkdir()
    return tmp_path


def spec(files: Mapping[str, Path], run: Path | None = None, **changes: Any) -> Any:
    """A spec and the contents it refers to."""
    rows, contents = [], {}
    for name, path in files.items():
        [entry] = [one for one in list_files(path.parent) if one.name == path.name]
        rows.append([name, entry.size, entry.sha256])
        contents[entry.sha256] = list(chunks(path))
    entries: list[FileEntry] = list_files(run) if run is not None else []
    for entry in entries:
        assert run is not None
        contents[entry.sha256] = list(chunks(run / entry.path))
    table = {
        "code": code_version(),
        "study": "s",
        "name": "a-seed0",
        "recipe": "name = 'a'\n",
        "folder": "runs/s/a/seed-0",
        "shared": False,
        "files": rows,
        "own_files": [],
        "run": [list(entry) for entry in entries],
        "expected": {},
    }
    return json.loads(json.dumps(table | changes)), contents


def train(table: Any, contents: Any, target: Path) -> list[Any]:
    """Receives what arrives into `target`; the headers of the other messages."""
    headers, receiver = [], None
    for message in train_on_node(table, contents, fetch=bytes, is_stopped=lambda: False):
        header, payload = decode(message)
        if header["kind"] == "folder":
            receiver = FolderReceiver(target, header)
        elif header["kind"] == "bytes":
            assert receiver is not None
            receiver.take(payload)
        else:
            headers.append(header)
        if receiver is not None and receiver.is_complete:
            receiver.commit()
            receiver = None
    return headers


def test_files_arrive_and_the_run_travels_back_with_its_checkpoints(home: Path) -> None:
    (home / "texts").mkdir()
    (home / "texts/a.txt").write_text("text")
    (home / "interrupted").mkdir()
    (home / "interrupted/events.jsonl").write_text("one\n")

    def work(run: Path, recipe: Path, log: Path, given: Any) -> int:
        assert recipe.read_text() == "name = 'a'\n"
        assert (recipe.parent / "texts/a.txt").read_text() == "text"
        assert (run / "events.jsonl").read_text() == "one\n", "it goes on"
        with (run / "events.jsonl").open("a") as events:
            events.write("two\nhalf a li")
        with folder_with_manifest(run / "checkpoints/step-000005") as checkpoint:
            (checkpoint / "model.safetensors").write_bytes(b"w" * 1000)
        log.write_text("said\n")
        return 0

    node_module.WorkerProcess.work = staticmethod(work)  # type: ignore[attr-defined]
    files = {"texts/a.txt": home / "texts/a.txt"}
    arrived = home / "arrived"
    messages = list(
        train_on_node(*spec(files, home / "interrupted"), fetch=bytes, is_stopped=lambda: False)
    )
    folders = [decode(one)[0] for one in messages if decode(one)[0]["kind"] == "folder"]
    assert len(folders) == 2, "once with the checkpoint, once at the end"
    sent_again = {name: travels for name, _, _, travels in folders[1]["files"]}
    assert sent_again["events.jsonl"]
    assert not sent_again["checkpoints/step-000005/model.safetensors"]
    headers = train(*spec(files, home / "interrupted"), arrived)
    assert headers[-1] == {"kind": "end", "exit_code": 0, "log": "said\n"}
    assert (arrived / "events.jsonl").read_text() == "one\ntwo\nhalf a li"
    assert len(file_digests(arrived)) == 3
    assert list((home / "node").rglob("seed-0")) == [], "the node keeps no run"


def test_a_node_with_other_sources_trains_nothing(home: Path) -> None:
    other = code_version() | {"sources": "0" * 64}
    assert train(*spec({}, code=other), home / "arrived") == [
        {"kind": "unusable", "reason": "its regard has other source files"}
    ]
    old = code_version() | {"version": "9.9"}
    [header] = train(*spec({}, code=old), home / "arrived")
    assert header["reason"].endswith(", not 9.9")


def test_a_full_disk_of_a_node_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device", "/scratch/files/9f2c")

    monkeypatch.setattr(node_module, "_write", full)
    (home / "a.txt").write_text("text")
    [header] = train(*spec({"a.txt": home / "a.txt"}), home / "arrived")
    assert header == {
        "kind": "end",
        "exit_code": 2,
        "log": "disk: No space left on device (/scratch/files/9f2c)",
    }


def test_what_killed_processes_left_is_removed(home: Path) -> None:
    import getpass

    abandoned = home / f"node/regard-ray-{getpass.getuser()}/other/slot-1"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    node_module.WorkerProcess.work = staticmethod(lambda *_: 3)  # type: ignore[attr-defined]
    assert train(*spec({}), home / "arrived")[-1]["exit_code"] == 3
    assert not abandoned.parent.exists()
