"""Atomic writes: files and folders are complete or absent, and damage is detected."""

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core import files
from regard.core.errors import UserError
from regard.core.files import (
    atomic_folder,
    find_damage,
    folder_with_manifest,
    path_text,
    read_json,
    text_path,
    typed_path,
    write_json,
    write_output,
    write_text,
)


class PowerCutError(Exception):
    """Interrupts a write half-way."""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def with_manifest(tmp_path: Path) -> Path:
    with folder_with_manifest(tmp_path / "with_manifest") as inside:
        (inside / "a.txt").write_text("one")
        (inside / "b.bin").write_bytes(bytes(range(256)))
    return tmp_path / "with_manifest"


def test_text_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    write_text(file, "old")
    write_text(file, "nëw\n")
    assert file.read_text(encoding="utf-8") == "nëw\n"
    assert names_in(tmp_path) == ["note.txt"]


def test_written_files_are_readable_by_others(tmp_path: Path) -> None:
    write_text(tmp_path / "note.txt", "for all")
    assert (tmp_path / "note.txt").stat().st_mode & 0o777 == 0o644


def test_paths_are_written_in_utf_8_whatever_the_terminal() -> None:
    """Where paths are in ASCII, Python gives ü as two halves of characters."""
    assert path_text("runs/\udcc3\udcbc") == "runs/ü"
    assert text_path(path_text("runs/ü")) == Path("runs/ü")
    path_text(b"runs/\xff".decode("utf-8", "surrogateescape")).encode()


def test_a_user_who_does_not_exist_has_no_home() -> None:
    assert typed_path("~nobody-at-all/x.csv") == Path("~nobody-at-all/x.csv")
    assert typed_path("~/x.csv") == Path.home() / "x.csv"


def test_full_disk_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "note.txt"
    write_text(file, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text(file, "new")
    assert file.read_text() == "old"
    assert names_in(tmp_path) == ["note.txt"]


def test_text_is_fsynced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (order.append("rename"), replace(self, to))[1]
    )
    write_text(tmp_path / "note.txt", "text")
    assert order[:2] == ["fsync", "rename"]


def test_interrupted_folder_leaves_no_files(tmp_path: Path) -> None:
    target = tmp_path / "target"

    def interrupted_write() -> None:
        with atomic_folder(target) as inside:
            (inside / "half.txt").write_text("ha")
            assert not target.exists()
            raise PowerCutError

    with pytest.raises(PowerCutError):
        interrupted_write()
    assert names_in(tmp_path) == []


def test_interrupted_replacement_keeps_the_old_folder(with_manifest: Path) -> None:
    def interrupted_write() -> None:
        with folder_with_manifest(with_manifest) as inside:
            (inside / "a.txt").write_text("two")
            raise PowerCutError

    with pytest.raises(PowerCutError):
        interrupted_write()
    assert (with_manifest / "a.txt").read_text() == "one"
    assert find_damage(with_manifest) is None


def test_folder_is_replaced(with_manifest: Path) -> None:
    with folder_with_manifest(with_manifest) as inside:
        (inside / "only.txt").write_text("two")
    assert names_in(with_manifest) == ["manifest.json", "only.txt"]
    assert names_in(with_manifest.parent) == ["with_manifest"]


def test_manifest_lists_every_file(with_manifest: Path) -> None:
    assert find_damage(with_manifest) is None
    listed = json.loads((with_manifest / "manifest.json").read_text())["files"]
    assert listed.keys() == {"a.txt", "b.bin"}


@pytest.mark.parametrize("index", range(0, 256, 51))
@pytest.mark.parametrize("bit", [0, 7])
def test_flipped_bit_is_detected(with_manifest: Path, index: int, bit: int) -> None:
    content = bytearray((with_manifest / "b.bin").read_bytes())
    content[index] ^= 1 << bit
    (with_manifest / "b.bin").write_bytes(content)
    assert (find_damage(with_manifest) or "").startswith(
        f"{with_manifest / 'b.bin'} does not match"
    )


@pytest.mark.parametrize("name", ["a.txt", "b.bin", "manifest.json"])
def test_missing_file_is_named(with_manifest: Path, name: str) -> None:
    (with_manifest / name).unlink()
    assert find_damage(with_manifest) == f"{with_manifest / name} is missing"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": 3}', "null", '"files"'])
def test_damaged_manifest_is_named(with_manifest: Path, text: str) -> None:
    (with_manifest / "manifest.json").write_text(text)
    assert find_damage(with_manifest) == f"{with_manifest / 'manifest.json'} is damaged"


@given(value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers()))
def test_json_round_trip(value: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "round-trip.json"
    write_json(file, {**value, "schema": 3})
    assert read_json(file, schema=3) == {**value, "schema": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing"),
        (b"{", "damaged"),
        (b"\xff\xfe", "damaged"),
        (b'{"schema": 2}', "schema 2 is unknown; this regard reads schema 1"),
        (b"{}", "schema None"),
        (b"[1]", "schema None"),
    ],
)
def test_damaged_json_or_another_schema_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "state.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"run: .*state\.json") as caught:
        read_json(file, schema=1)
    assert message in str(caught.value)


def test_sha256_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert files.sha256(tmp_path / "empty").startswith("e3b0c44298fc1c149afbf4c8996fb924")


def test_a_folder_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    """Another process may have deleted the run that a report is written into."""
    with pytest.raises(UserError, match="does not exist any more"):
        write_text(tmp_path / "gone" / "report.html", "")


@pytest.mark.parametrize("content", ["text", b"\x89PNG"])
def test_a_file_that_the_user_names_is_written_whole(tmp_path: Path, content: str | bytes) -> None:
    target = tmp_path / "new" / "folder" / "page.html"
    write_output(target, content)
    assert target.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert [file.name for file in target.parent.iterdir()] == ["page.html"]
    with pytest.raises(UserError, match="is a folder"):
        write_output(target.parent, content, topic="inspect")
    with pytest.raises(UserError, match="cannot be written"):
        write_output(target / "inside a file.html", content)
    with pytest.raises(FileNotFoundError):
        write_output(tmp_path / "gone" / "report.html", b"", creates_folder=False)
