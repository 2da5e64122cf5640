"""Readers: what comes out of each format, and what each kind of bad file is told."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data.readers import lines as lines_module
from regard.data.readers.formats import (
    Column,
    DropCounts,
    ReadOptions,
    file_format,
    read_records,
    read_texts,
)
from regard.data.readers.lines import read_lines

TEXTS = ["The first one.", "Zwei, mit Komma und ß", '"quoted" words', "four"]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pa.Codec("zstd").compress(raw, asbytes=True),
}


def as_csv(texts: list[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["label", "text"])
    writer.writerows([i, text] for i, text in enumerate(texts))
    return out.getvalue().encode()


WRITE: dict[str, Callable[[list[str]], bytes]] = {
    "txt": lambda texts: "\n".join(texts).encode(),
    "csv": as_csv,
    "tsv": lambda texts: "".join(f"{t}\t{i}\n" for i, t in enumerate(["text", *texts])).encode(),
    "jsonl": lambda texts: "\n".join(json.dumps({"text": t}) for t in texts).encode(),
}


def read(path: Path, *, column: str = "text", **reading: Any) -> list[str]:
    asked = ReadOptions(columns={"text": Column(column)}, **reading)
    return list(read_texts(path, asked, DropCounts()))


def complaint(path: Path, **reading: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(path, **reading)
    return str(caught.value)


def put(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("kind", WRITE)
def test_every_format_and_compression_gives_the_same_texts(
    tmp_path: Path, kind: str, compression: str
) -> None:
    content = COMPRESS[compression](WRITE[kind](TEXTS))
    assert read(put(tmp_path, f"a.{kind}{compression}", content)) == TEXTS


def test_parquet_gives_its_column_and_counts_nulls(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3], "body": ["a", None, "c"]}), path)
    dropped = DropCounts()
    assert list(read_texts(path, ReadOptions({"text": Column("body")}), dropped)) == ["a", "c"]
    assert dropped.as_dict() == {"empty": 1, "bad": 0, "files": {str(path): {"empty": 1, "bad": 0}}}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.TXT", "txt"), ("a.csv.gz", "csv"), ("a.md", "txt"), ("a", "txt"), ("a.json.xz", "jsonl")],
)
def test_format_follows_the_name(name: str, kind: str) -> None:
    assert file_format(Path(name)) == kind


def test_units_of_plain_text(tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "\ufeffone\r\n two\n\n \nthree\n")
    assert read(path) == ["one", " two", "three"]
    assert read(path, unit="paragraph") == ["one\n two", "three"]
    assert read(path, unit="file") == ["one\n two\n\n \nthree"]


def test_empty_rows_are_counted_once_however_often_the_file_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "text,n\na,1\n\n ,2\nb,3\n")
    dropped = DropCounts()
    for _ in range(2):
        assert list(read_texts(path, ReadOptions(), dropped)) == ["a", "b"]
    assert dropped.as_dict()["empty"] == 2
    assert str(dropped) == "2 empty rows dropped"


def test_csv_cells_may_hold_line_ends_commas_and_long_text(tmp_path: Path) -> None:
    texts = ["two\nlines, one comma", "x" * 200_000]
    assert read(put(tmp_path, "a.csv", as_csv(texts).replace(b"\r\n", b"\n"))) == texts


def test_tsv_takes_quotes_as_they_stand(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", 'text\tlabel\n"Ask the Dust" looked\t1\n"unclosed\t0\n')
    assert read(path) == ['"Ask the Dust" looked', '"unclosed']


def test_ragged_row_is_named_or_dropped_and_counted(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "text,l\n" + "a,1\n" * 1202 + "b,c,1\n" + "d,2\n")
    assert complaint(path) == (
        f"data: {path}, row 1,204: 3 columns where the header has 2. Set data.skip_bad_rows = true "
        "to drop such rows (they are counted), or quote the comma."
    )
    dropped = DropCounts()
    texts = list(read_texts(path, ReadOptions(skip_bad_rows=True), dropped))
    assert (len(texts), texts[-1], dropped.as_dict()["bad"]) == (1203, "d", 1)


def test_a_row_after_a_cell_with_line_ends_names_its_line_too(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", 'text,l\n"a\nb\nc",1\nx,y,z\n')
    assert "row 3 (line 5): 3 columns" in complaint(path)


def test_an_unclosed_quote_is_never_skipped_since_it_swallows_the_rest(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", 'text,l\na,1\n"b,2\nc,3\nd,4\n')
    assert "row 3: a quote is opened and never closed" in complaint(path, skip_bad_rows=True)


def test_missing_column_names_those_there_are(tmp_path: Path) -> None:
    told = complaint(put(tmp_path, "a.csv", "txet,label\na,1\n"))
    assert "no column 'text'; there are 'txet', 'label' — did you mean 'txet'?" in told
    told = complaint(put(tmp_path, "a.tsv", "body\tlabel\na\t1\n"))
    assert "'body', 'label'" in told
    assert "did you mean" not in told


JSON_CASES = [
    ("{", "line 2: not valid JSON (Expecting property name enclosed in double quotes at column 2)"),
    ('["a"]', "line 2: a JSON list where an object is needed"),
    ('{"texts": "a"}', "line 2: no key 'text'; there is 'texts' — did you mean 'texts'?"),
    ('{"text": 3}', "line 2: 'text' holds a number, not text"),
    ('{"text": "\\ud800"}', "line 2: half a surrogate pair"),
    ("[" * 100_000, "line 2: not valid JSON"),
]


@pytest.mark.parametrize(("line", "told"), JSON_CASES)
def test_bad_json_lines_are_named_or_dropped_and_counted(
    tmp_path: Path, line: str, told: str
) -> None:
    path = put(tmp_path, "a.jsonl", f'{{"text": "good"}}\n{line}\n{{"text": "too"}}\n')
    assert told in complaint(path)
    dropped = DropCounts()
    assert list(read_texts(path, ReadOptions(skip_bad_rows=True), dropped)) == ["good", "too"]
    assert dropped.as_dict()["bad"] == 1


BYTES_CASES = [
    (b"a\nb\nc\0d\n", "line 3: a NUL byte, so this looks like a binary or UTF-16 file"),
    ("a\nb".encode("utf-16"), "line 1: a NUL byte"),
    ("gut\nalles schön\n".encode("latin1"), "line 2, byte 10: not valid UTF-8 (0xf6)"),
    (b"cut in the middle \xc3", "line 1, byte 19: not valid UTF-8 (0xc3)"),
]


@pytest.mark.parametrize(("content", "told"), BYTES_CASES)
def test_bytes_that_are_no_text(tmp_path: Path, content: bytes, told: str) -> None:
    assert told in complaint(put(tmp_path, "a.txt", content))
    table = put(tmp_path, "a.tsv", b"text\n" + content)
    assert told.partition(": ")[2] in complaint(table)


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_cut_and_damaged_compression(tmp_path: Path, compression: str) -> None:
    raw = "".join(f"line {i * 7919 % 10007}\n" for i in range(20_000)).encode()
    whole = COMPRESS[compression](raw)
    path = put(tmp_path, f"a.txt{compression}", whole[:-100])
    assert f"{path}: the {compression} file is cut short" in complaint(path)
    put(tmp_path, path.name, b"this was never compressed")
    assert f"{path}: the {compression} file is damaged" in complaint(path)


def test_cut_damaged_and_wrapped_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"{i * 7919 % 10007}" for i in range(5000)]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    assert f"{path}: the Parquet file is cut short or damaged" in complaint(path)
    path.write_bytes(whole[:200] + b"x" * 400 + whole[600:])
    assert f"{path}: the Parquet file is cut short or damaged" in complaint(path)
    wrapped = put(tmp_path, "a.parquet.gz", gzip.compress(whole))
    assert "Parquet file inside another compression" in complaint(wrapped)
    path.write_bytes(whole)
    assert "did you mean 'text'" in complaint(path, column="txt")


def test_parquet_column_of_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [1, 2]}), path)
    assert "column 'text' holds int64, not text" in complaint(path)


def test_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in complaint(tmp_path / "nowhere.txt")


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"))), st.integers(1, 9)
)
def test_lines_do_not_depend_on_where_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(text + "\n" for text in texts).encode())
    raw = path.read_bytes()
    whole = lines_module.blocks
    lines_module.blocks = lambda _: (raw[i : i + block] for i in range(0, len(raw), block))
    try:
        expected = [text.removeprefix("\ufeff") if i == 0 else text for i, text in enumerate(texts)]
        assert list(read_lines(path)) == expected
    finally:
        lines_module.blocks = whole


CELLS = st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), min_size=1)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8))
def test_records_of_a_table_are_its_cells(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]]
) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *table])
    path = put(tmp_path_factory.mktemp("table"), "a.csv", out.getvalue())
    asked = {"last": Column("c", holds="value"), "first": Column("a", holds="value")}
    filled = [row for row in table if any(map(str.strip, row))]
    records = list(read_records(path, ReadOptions(columns=asked), DropCounts()))
    assert records == [{"last": last, "first": first} for first, _, last in filled]
    numbers = {"last": Column("3", holds="value"), "first": Column("1", holds="value")}
    numbered = list(read_records(path, ReadOptions(columns=numbers, header=False), DropCounts()))
    assert numbered[1:] == records


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (2, 8):
        path = put(tmp_path, f"{megabytes}.txt", ("word " * 20 + "\n") * (megabytes * 10_000))
        tracemalloc.start()
        for _ in read_texts(path, ReadOptions(), DropCounts()):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
