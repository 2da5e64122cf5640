"""A sealed file that changed is never believed: edited, damaged, added or lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.core.seal import SEAL, break_seal, check_sealed, find_change, write_and_seal

LAST = "results.json"


@pytest.fixture(scope="module")
def sealed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sealed")
    (home / "items").mkdir()
    for name in ("recipe.toml", "items/dev.jsonl"):
        (home / name).write_text(f"content of {name}\n", encoding="utf-8")
    others = [home / "recipe.toml", home / "items" / "dev.jsonl"]
    write_and_seal(home / LAST, {"perplexity": 88.9}, sealed_with=others)
    return home


@pytest.fixture
def home(sealed_once: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "run"
    shutil.copytree(sealed_once, copied)
    return copied


def test_files_as_written_pass(home: Path) -> None:
    assert json.loads((home / LAST).read_bytes()) == {"perplexity": 88.9, "sealed": True}
    for name in (LAST, "recipe.toml", "items/dev.jsonl"):
        check_sealed(home, name, topic="run", hint="")


@given(data=st.data())
def test_every_flipped_bit_is_found(sealed_once: Path, data: st.DataObject) -> None:
    """In a file by its own reader, in the seal by all."""
    name = data.draw(st.sampled_from([LAST, "recipe.toml", "items/dev.jsonl", SEAL]))
    file = sealed_once / name
    before = file.read_bytes()
    position = data.draw(st.integers(0, 8 * len(before) - 1))
    flipped = bytearray(before)
    flipped[position // 8] ^= 1 << position % 8
    try:
        file.write_bytes(flipped)
        changes = [find_change(sealed_once, one) for one in (LAST, "recipe.toml")]
        changes.append(find_change(sealed_once, "items/dev.jsonl"))
        assert sum(one is not None for one in changes) == (3 if name == SEAL else 1)
    finally:
        file.write_bytes(before)


def test_an_edit_is_told_from_damage_by_its_date(home: Path) -> None:
    (home / LAST).write_text('{"perplexity": 98.9}\n', encoding="utf-8")
    assert "is damaged" in (find_change(home, LAST) or "")
    sealed = (home / SEAL).stat().st_mtime
    os.utime(home / LAST, (sealed + 3600, sealed + 3600))
    assert "was edited after it was sealed (on 20" in (find_change(home, LAST) or "")


def test_lost_and_added_files_are_named(home: Path) -> None:
    (home / "items" / "dev.jsonl").unlink()
    (home / "items" / "test.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"items/dev\.jsonl: is missing, though it was sealed"):
        check_sealed(home, "items/dev.jsonl", topic="run", hint="")
    assert "was added after" in (find_change(home, "items/test.jsonl") or "")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', "[" * 100_000])
def test_a_damaged_seal_vouches_for_nothing(home: Path, text: str) -> None:
    (home / SEAL).write_text(text, encoding="utf-8")
    assert "the seal" in (find_change(home, LAST) or "") or SEAL in (find_change(home, LAST) or "")


def test_a_broken_seal_seals_nothing(home: Path) -> None:
    break_seal(home)
    break_seal(home)
    (home / LAST).write_text("anything", encoding="utf-8")
    assert find_change(home, LAST) is None


def test_a_kill_between_seal_and_file_leaves_the_former_file_good(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study is judged again: its earlier verdicts, and with them its looks, are not lost."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    before = (home / LAST).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("regard.core.seal.write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            write_and_seal(home / LAST, {"perplexity": 77.7})
    assert find_change(home, LAST) is None
    write_and_seal(home / LAST, {"perplexity": 77.7})
    assert find_change(home, LAST) is None
    (home / LAST).write_bytes(before)
    assert "is damaged" in (find_change(home, LAST) or "")
