"""Folders as messages: what arrives is what was sent, whole or not at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journeys.workspace import file_digests

from regard.studies.engines.ray import folder_transfer
from regard.studies.engines.ray.folder_transfer import (
    FileEntry,
    FolderReceiver,
    TransferError,
    decode,
    encode,
    list_files,
    restore_interrupted,
    send_folder,
)


def receive(messages, folder):
    receiver = None
    for message in messages:
        header, payload = decode(message)
        if header["kind"] == "folder":
            receiver = FolderReceiver(folder, header)
        else:
            receiver.take(payload)
    assert receiver.is_complete
    receiver.commit()


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@given(
    files=st.dictionaries(
        st.sampled_from(["a", "b/c", "b/d", "final/e", "checkpoints/step-000001/f"]),
        st.binary(max_size=40),
        min_size=1,
    ),
    size=st.integers(1, 50),
)
def test_a_folder_arrives_as_it_was(tmp_path_factory, files, size):
    home = tmp_path_factory.mktemp("transfer")
    sent = write(home / "sent", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_transfer, "CHUNK_BYTES", size)
        receive(send_folder(sent, list_files(sent), held={}), home / "arrived")
    assert file_digests(home / "arrived") == file_digests(sent)


def test_what_the_other_side_has_does_not_travel(tmp_path):
    before = {"checkpoints/step-000001/weights": b"w" * 100, "events.jsonl": b"one\n"}
    sent, arrived = write(tmp_path / "sent", before), write(tmp_path / "arrived", before)
    held = {file.name: file.sha256 for file in list_files(arrived)}
    write(sent, {"events.jsonl": b"one\ntwo\n", "results.json": b"{}"})
    messages = list(send_folder(sent, list_files(sent), held=held))
    assert not any(b"wwww" in message for message in messages)
    receive(messages, arrived)
    assert file_digests(arrived) == file_digests(sent)


def test_files_that_are_being_written_do_not_travel(tmp_path):
    folder = write(tmp_path, {"a": b"1", ".a.x7": b"half", "checkpoints/.step-000002.q/w": b"half"})
    assert [file.name for file in list_files(folder)] == ["a"]


@pytest.mark.parametrize("harm", ["shorter", "flipped", "stopped"])
def test_a_transfer_that_is_not_whole_leaves_the_folder_as_it_was(tmp_path, harm):
    sent = write(tmp_path / "sent", {"a": b"new", "b": b"b" * 10})
    arrived = write(tmp_path / "arrived", {"a": b"old"})
    header, first, second = send_folder(sent, list_files(sent), held={})
    receiver = FolderReceiver(arrived, decode(header)[0])
    receiver.take(decode(first)[1])
    if harm == "stopped":
        receiver.abandon()
    else:
        payload = decode(second)[1]
        changed = payload + b"!" if harm == "shorter" else b"c" + payload[1:]
        with pytest.raises(TransferError, match="b is not what was sent"):
            receiver.take(changed)
    assert (arrived / "a").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "..\\out", ""])
def test_a_name_outside_of_the_folder_is_refused(tmp_path, name):
    header = decode(encode({"kind": "folder", "files": [[name, 1, "00", True]]}))[0]
    with pytest.raises(TransferError, match="no file inside"):
        FolderReceiver(tmp_path / "run", header)
    assert list(tmp_path.iterdir()) == []
    assert FileEntry("a/b", 1, "").path == Path("a", "b")


def test_what_a_kill_left_is_cleared_and_a_folder_moved_away_comes_back(tmp_path):
    write(tmp_path / ".seed-0.x1.old", {"a": b"kept"})
    write(tmp_path / ".seed-0.x1", {"a": b"half"})
    write(tmp_path / ".seed-1.x2", {"a": b"another run's"})
    (tmp_path / ".seed-0.lock").touch()
    restore_interrupted(tmp_path / "seed-0")
    assert (tmp_path / "seed-0/a").read_bytes() == b"kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(".seed-0.lock", ".seed-1.x2", "seed-0")
    ]
