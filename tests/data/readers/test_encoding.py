"""The encodings that strangers' files have: each is read, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard.data.readers.encoding as encoding_module
from regard.core.errors import UserError
from regard.data.readers.encoding import detect_encoding, utf8_blocks
from regard.data.readers.lines import read_lines

GERMAN = "Straße;Größe\r\n„Schön“, sagte sie – für 5 €;2\r\n"


@pytest.mark.parametrize(
    ("codec", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16-le"),
        ("cp1252", "cp1252"),
    ],
)
def test_what_spreadsheets_write(tmp_path: Path, codec: str, found: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(GERMAN.encode(codec))
    assert detect_encoding(path) == found
    assert list(read_lines(path)) == GERMAN.split("\r\n")[:-1]


def test_big_endian_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffschön\n".encode("utf-16-be"))
    assert list(read_lines(path)) == ["schön"]


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("Очень хороший фильм\nпонравился\n", "cp1251"),
        ("Bardzo ładny, błyskotliwy i śmieszny film, książka też; można\n", "cp1250"),
        ("très réussi, élégant, déjà vu, à côté\n", "mac_roman"),
        ("素晴らしい映画でした\n", "shift_jis"),
        ("非常好看的电影\n", "gbk"),
    ],
)
def test_other_old_encodings_are_refused_not_misread(tmp_path: Path, text: str, codec: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode(codec))
    with pytest.raises(UserError, match=r"line 1.*not valid UTF-8"):
        list(read_lines(path))


def test_damaged_utf8_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("schön\n".encode() + b"sch\xf6n\n")
    assert detect_encoding(path) == "utf-8"
    with pytest.raises(UserError, match="line 2, byte 4"):
        list(read_lines(path))


def test_half_a_character_of_utf16(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\ntwo\n".encode("utf-16") + b"x")
    with pytest.raises(UserError, match="not valid UTF-16"):
        list(read_lines(path))


LETTERS = st.characters(codec="cp1252", exclude_categories=["Cc", "Cs"])


@given(
    st.sampled_from(["utf-8", "utf-16", "utf-16-le", "utf-16-be"]),
    st.text(LETTERS),
    st.integers(1, 5),
)
def test_blocks_are_utf8_wherever_they_are_cut(codec: str, text: str, size: int) -> None:
    marked = text if codec in ("utf-8", "utf-16") else "\ufeff" + text
    raw = marked.encode(codec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            encoding_module,
            "read_blocks",
            lambda _: (raw[i : i + size] for i in range(0, len(raw), size)),
        )
        found = b"".join(utf8_blocks(Path("any"))).decode()
    assert found.removeprefix("\ufeff") == text
