"""Files that are whole or not there, whatever happens on the way."""

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
    read_json,
    write_json,
    write_text,
)


class PowerCutError(Exception):
    """Stands for whatever stops a program half-way."""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    with folder_with_manifest(tmp_path / "sealed") as inside:
        (inside / "a.txt").write_text("one")
        (inside / "b.bin").write_bytes(bytes(range(256)))
    return tmp_path / "sealed"


def test_a_text_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    write_text(file, "old")
    write_text(file, "nëw\n")
    assert file.read_text(encoding="utf-8") == "nëw\n"
    assert names_in(tmp_path) == ["note.txt"]


def test_others_may_read_what_was_written(tmp_path: Path) -> None:
    write_text(tmp_path / "note.txt", "for all")
    assert (tmp_path / "note.txt").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "note.txt"
    write_text(file, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_text(file, "new")
    assert file.read_text() == "old"
    assert names_in(tmp_path) == ["note.txt"]


def test_a_text_is_on_the_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (order.append("rename"), replace(self, to))[1]
    )
    write_text(tmp_path / "note.txt", "text")
    assert order[:2] == ["fsync", "rename"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    made = tmp_path / "made"

    def cut_short() -> None:
        with atomic_folder(made) as inside:
            (inside / "half.txt").write_text("ha")
            assert not made.exists()
            raise PowerCutError

    with pytest.raises(PowerCutError):
        cut_short()
    assert names_in(tmp_path) == []


def test_a_folder_that_fails_leaves_the_one_it_would_have_replaced(sealed: Path) -> None:
    def cut_short() -> None:
        with folder_with_manifest(sealed) as inside:
            (inside / "a.txt").write_text("two")
            raise PowerCutError

    with pytest.raises(PowerCutError):
        cut_short()
    assert (sealed / "a.txt").read_text() == "one"
    assert find_damage(sealed) is None


def test_a_folder_is_replaced_by_a_new_one(sealed: Path) -> None:
    with folder_with_manifest(sealed) as inside:
        (inside / "only.txt").write_text("two")
    assert names_in(sealed) == ["manifest.json", "only.txt"]
    assert names_in(sealed.parent) == ["sealed"]


def test_a_sealed_folder_is_whole(sealed: Path) -> None:
    assert find_damage(sealed) is None
    listed = json.loads((sealed / "manifest.json").read_text())["files"]
    assert listed.keys() == {"a.txt", "b.bin"}


@pytest.mark.parametrize("place", range(0, 256, 51))
@pytest.mark.parametrize("bit", [0, 7])
def test_any_flipped_bit_is_found(sealed: Path, place: int, bit: int) -> None:
    content = bytearray((sealed / "b.bin").read_bytes())
    content[place] ^= 1 << bit
    (sealed / "b.bin").write_bytes(content)
    assert (
        find_damage(sealed) == f"{sealed / 'b.bin'} does not match its manifest (damaged or edited)"
    )


@pytest.mark.parametrize("name", ["a.txt", "b.bin", "manifest.json"])
def test_a_missing_file_is_named(sealed: Path, name: str) -> None:
    (sealed / name).unlink()
    assert find_damage(sealed) == f"{sealed / name} is missing"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"files": 3}', "null", '"files"'])
def test_a_damaged_manifest_is_named(sealed: Path, text: str) -> None:
    (sealed / "manifest.json").write_text(text)
    assert find_damage(sealed) == f"{sealed / 'manifest.json'} is damaged"


@given(value=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers()))
def test_json_comes_back(value: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "comes-back.json"
    write_json(file, {**value, "schema": 3})
    assert read_json(file, schema=3) == {**value, "schema": 3}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "is missing"),
        (b"{", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b'{"schema": 2}', "has schema 2, this regard reads schema 1"),
        (b"{}", "has schema None"),
        (b"[1]", "has schema None"),
    ],
)
def test_json_that_is_not_ours_is_said_in_words(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "state.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=r"run: .*state\.json") as refused:
        read_json(file, schema=1)
    assert says in str(refused.value)


def test_sha256_is_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert files.sha256(tmp_path / "empty").startswith("e3b0c44298fc1c149afbf4c8996fb924")
