"""Readers: the records of each format, and the error of each kind of bad file."""

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
from regard.data.readers import encoding as encoding_module
from regard.data.readers.formats import (
    Column,
    DropCounts,
    ReadOptions,
    file_format,
    read_records,
    read_texts,
)
from regard.data.readers.lines import read_lines
from regard.data.readers.tables import csv_header

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


def read(path: Path, *, column: str = "text", **settings: Any) -> list[str]:
    options = ReadOptions(columns={"text": Column(column)}, **settings)
    return list(read_texts(path, options, DropCounts()))


def read_error(path: Path, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(path, **settings)
    return str(caught.value)


def write_file(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("kind", WRITE)
def test_every_format_and_compression_gives_the_same_texts(
    tmp_path: Path, kind: str, compression: str
) -> None:
    content = COMPRESS[compression](WRITE[kind](TEXTS))
    assert read(write_file(tmp_path, f"a.{kind}{compression}", content)) == TEXTS


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
    path = write_file(tmp_path, "a.txt", "\ufeffone\r\n two\n\n \nthree\n")
    assert read(path) == ["one", " two", "three"]
    assert read(path, unit="paragraph") == ["one\n two", "three"]
    assert read(path, unit="file") == ["one\n two\n\n \nthree"]


def test_empty_rows_are_counted_once_however_often_the_file_is_read(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "text,n\na,1\n\n ,2\nb,3\n")
    dropped = DropCounts()
    for _ in range(2):
        assert list(read_texts(path, ReadOptions(), dropped)) == ["a", "b"]
    assert dropped.as_dict()["empty"] == 2
    assert str(dropped) == "2 empty rows dropped"


def test_csv_cells_with_line_ends_commas_and_long_text(tmp_path: Path) -> None:
    texts = ["two\nlines, one comma", "x" * 200_000]
    assert read(write_file(tmp_path, "a.csv", as_csv(texts).replace(b"\r\n", b"\n"))) == texts


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("declared", [False, True])
def test_csv_of_another_separator(tmp_path: Path, separator: str, declared: bool) -> None:
    first = f"sep={separator}\r\n" if declared else ""
    rows = ["label", "text"], ["1", "well, well"], ["0", f'"two{separator}\r\nlines"']
    content = first + "".join(separator.join(row) + "\r\n" for row in rows)
    path = write_file(tmp_path, "a.csv", content)
    assert read(path) == ["well, well", f"two{separator}\nlines"]
    assert csv_header(path) == ["label", "text"]
    ragged = write_file(tmp_path, "b.csv", content + separator.join("abc") + "\n")
    at = "row 4 (line 6)" if declared else "row 4 (line 5)"
    assert f"{at}: 3 columns where the header has 2" in read_error(ragged)
    name = {";": "semicolon", "\t": "tab", "|": "bar"}[separator]
    assert f"quote the {name}" in read_error(ragged)


def test_a_comma_in_the_header_separates_columns(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "text,is it; good|bad\na; b|c,1\n")
    assert read(path) == ["a; b|c"]
    assert read(write_file(tmp_path, "b.csv", "text\na;b\n")) == ["a;b"]
    # Without a header the first line may be prose.
    path = write_file(tmp_path, "c.csv", "one; two\nthree\n")
    assert read(path, column="1", header=False) == ["one; two", "three"]


def test_line_ends_of_macintoshs(tmp_path: Path) -> None:
    """Excel's "CSV (Macintosh)" ends lines with CR; beside LF, CR is no line end."""
    path = write_file(tmp_path, "a.csv", 'text,l\ra,1\r"b, c",2\r')
    assert read(path) == ["a", "b, c"]
    assert csv_header(path) == ["text", "l"]
    assert read(write_file(tmp_path, "a.txt", "a\rb\r")) == ["a", "b"]
    mixed = write_file(tmp_path, "b.csv", "text,l\ra,1\rb,2\nc,3\n")
    assert csv_header(mixed) == []
    message = read_error(mixed)
    assert "a carriage return in a cell that is not quoted" in message
    assert "save the file with line ends LF or CRLF" in message


def test_quotes_in_a_csv_of_tabs(tmp_path: Path) -> None:
    """The official files of STS-B are called .csv, separated by tabs, and quotes are ordinary."""
    content = 'text\tlabel\n"a\t1\nb\t2\n'
    assert "rename the file to .tsv" in read_error(write_file(tmp_path, "a.csv", content))
    assert read(write_file(tmp_path, "a.tsv", content)) == ['"a', "b"]


@pytest.mark.parametrize("indent", [None, 1])
def test_json_documents_that_are_a_table(tmp_path: Path, indent: int | None) -> None:
    """An object with one list of rows, and what DataFrame.to_json writes."""
    rows = [{"text": "a", "n": 1}, {"text": "b", "n": 2}]
    wrapped = json.dumps({"version": "1", "data": rows}, indent=indent)
    by_column = {name: {str(i): row[name] for i, row in enumerate(rows)} for name in rows[0]}
    assert read(write_file(tmp_path, "a.json", wrapped)) == ["a", "b"]
    assert read(write_file(tmp_path, "b.json", json.dumps(by_column, indent=indent))) == ["a", "b"]
    # Objects on several lines are rows, whatever they hold.
    line = json.dumps({"text": "a", "turns": [{"text": "b"}, {"text": "c"}]}) + "\n"
    assert read(write_file(tmp_path, "c.json", 2 * line)) == ["a", "a"]


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_json_document_with_a_list_of_objects(tmp_path: Path, indent: int | None) -> None:
    content = json.dumps([{"text": "a"}, {"text": {"of": "b"}}, 3, {"text": "c"}], indent=indent)
    path = write_file(tmp_path, "a.json", content)
    assert "item 2: 'text' holds" in read_error(path)
    assert read(path, skip_bad_rows=True) == ["a", "c"]
    assert "not valid JSON" in read_error(write_file(tmp_path, "b.json", content[:-3]))


def test_json_document_of_several_lines(tmp_path: Path) -> None:
    for number, document in enumerate(([{"text": "a"}], {"text": "a"})):
        content = json.dumps(document, indent=1)
        message = read_error(write_file(tmp_path, f"{number}.jsonl", content))
        assert "line 1: not valid JSON (a document of several lines)" in message
        assert "one whole object per line" in message
        assert "skip_bad_rows" not in message


def test_a_key_inside_an_object(tmp_path: Path) -> None:
    rows = [{"a": {"b": {"c": "deep"}}}, {"a.b.c": "flat"}, {"a": {"b": 3}}]
    path = write_file(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read(path, column="a.b.c", skip_bad_rows=True) == ["deep", "flat"]


def test_tsv_quotes_are_ordinary_characters(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.tsv", 'text\tlabel\n"Ask the Dust" looked\t1\n"unclosed\t0\n')
    assert read(path) == ['"Ask the Dust" looked', '"unclosed']


def test_ragged_row_is_an_error_or_dropped_and_counted(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "text,l\n" + "a,1\n" * 1202 + "b,c,1\n" + "d,2\n")
    message = read_error(path)
    assert message.startswith(f"data: {path}, row 1,204: 3 columns")
    assert "the header has 2" in message
    assert "data.skip_bad_rows = true" in message
    dropped = DropCounts()
    texts = list(read_texts(path, ReadOptions(skip_bad_rows=True), dropped))
    assert (len(texts), texts[-1], dropped.as_dict()["bad"]) == (1203, "d", 1)


def test_row_after_a_multiline_cell_is_located_by_line_too(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", 'text,l\n"a\nb\nc",1\nx,y,z\n')
    assert "row 3 (line 5): 3 columns" in read_error(path)


def test_unclosed_quote_is_never_skipped(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", 'text,l\na,1\n"b,2\nc,3\nd,4\n')
    assert "row 3: a quote is opened" in read_error(path, skip_bad_rows=True)


def test_missing_column_lists_the_columns(tmp_path: Path) -> None:
    message = read_error(write_file(tmp_path, "a.csv", "txet,label\na,1\n"))
    assert "no column 'text'; there are 'txet', 'label'" in message
    assert "did you mean 'txet'" in message
    message = read_error(write_file(tmp_path, "a.tsv", "body\tlabel\na\t1\n"))
    assert "'body', 'label'" in message
    assert "did you mean" not in message


JSON_CASES = [
    ("{", "line 2: not valid JSON (Expecting property name enclosed in double quotes at column 2)"),
    ('["a"]', "line 2: a JSON list where an object is needed"),
    ('{"texts": "a"}', "line 2: no key 'text'; there is 'texts' — did you mean 'texts'?"),
    ('{"text": 3}', "line 2: 'text' holds a number, not text"),
    ('{"text": "\\ud800"}', "line 2: half a surrogate pair"),
    ("[" * 100_000, "line 2: not valid JSON"),
]


@pytest.mark.parametrize(("line", "message"), JSON_CASES)
def test_bad_json_lines_are_errors_or_dropped_and_counted(
    tmp_path: Path, line: str, message: str
) -> None:
    path = write_file(tmp_path, "a.jsonl", f'{{"text": "good"}}\n{line}\n{{"text": "too"}}\n')
    assert message in read_error(path)
    dropped = DropCounts()
    assert list(read_texts(path, ReadOptions(skip_bad_rows=True), dropped)) == ["good", "too"]
    assert dropped.as_dict()["bad"] == 1


BYTES_CASES = [
    (b"a\nb\nc\0d\n", "line 3: a NUL byte, so this looks like a binary file"),
    ("schön\n".encode() + b"sch\xf6n\n", "line 2, byte 4: not valid UTF-8 (0xf6)"),
    (b"cut in the middle \xc3", "line 1, byte 19: not valid UTF-8 (0xc3)"),
]


@pytest.mark.parametrize(("content", "message"), BYTES_CASES)
def test_files_that_are_not_utf8(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in read_error(write_file(tmp_path, "a.txt", content))
    table = write_file(tmp_path, "a.tsv", b"text\n" + content)
    assert message.partition(": ")[2] in read_error(table)


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_truncated_and_damaged_compression(tmp_path: Path, compression: str) -> None:
    raw = "".join(f"line {i * 7919 % 10007}\n" for i in range(20_000)).encode()
    whole = COMPRESS[compression](raw)
    path = write_file(tmp_path, f"a.txt{compression}", whole[:-100])
    assert f"{path}: the {compression} file is truncated" in read_error(path)
    write_file(tmp_path, path.name, b"this was never compressed")
    assert f"{path}: the {compression} file is damaged" in read_error(path)


def test_truncated_damaged_and_compressed_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"{i * 7919 % 10007}" for i in range(5000)]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    assert f"{path}: the Parquet file is truncated" in read_error(path)
    path.write_bytes(whole[:200] + b"x" * 400 + whole[600:])
    assert f"{path}: the Parquet file is truncated" in read_error(path)
    compressed = write_file(tmp_path, "a.parquet.gz", gzip.compress(whole))
    assert "Parquet file inside another compression" in read_error(compressed)
    path.write_bytes(whole)
    assert "did you mean 'text'" in read_error(path, column="txt")


def test_parquet_column_of_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [1, 2]}), path)
    assert "column 'text' holds int64, not text" in read_error(path)


def test_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in read_error(tmp_path / "nowhere.txt")


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"))), st.integers(1, 9)
)
def test_lines_are_independent_of_block_boundaries(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(text + "\n" for text in texts).encode())
    raw = path.read_bytes()
    read_blocks = encoding_module.read_blocks
    encoding_module.read_blocks = lambda _: (raw[i : i + block] for i in range(0, len(raw), block))
    try:
        expected = [text.removeprefix("\ufeff") if i == 0 else text for i, text in enumerate(texts)]
        assert list(read_lines(path)) == expected
    finally:
        encoding_module.read_blocks = read_blocks


CELLS = st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), min_size=1)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8))
def test_records_of_a_table_are_its_cells(
    tmp_path_factory: pytest.TempPathFactory, table: list[list[str]]
) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["a", "b", "c"], *table])
    path = write_file(tmp_path_factory.mktemp("table"), "a.csv", out.getvalue())
    columns = {"last": Column("c", type="value"), "first": Column("a", type="value")}
    nonblank = [row for row in table if any(map(str.strip, row))]
    records = list(read_records(path, ReadOptions(columns=columns), DropCounts()))
    assert records == [{"last": last, "first": first} for first, _, last in nonblank]
    by_number = {"last": Column("3", type="value"), "first": Column("1", type="value")}
    without_header = list(
        read_records(path, ReadOptions(columns=by_number, header=False), DropCounts())
    )
    assert without_header[1:] == records


def test_memory_is_independent_of_the_file_size(tmp_path: Path) -> None:
    peaks = []
    for megabytes in (2, 8):
        path = write_file(
            tmp_path, f"{megabytes}.txt", ("word " * 20 + "\n") * (megabytes * 10_000)
        )
        tracemalloc.start()
        for _ in read_texts(path, ReadOptions(), DropCounts()):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@given(table=st.data())
def test_the_separator_is_found_whatever_the_cells_hold(
    tmp_path_factory: pytest.TempPathFactory, separator: str, table: st.DataObject
) -> None:
    """Three columns in every row, quoted where a cell needs it."""
    cells = st.text("ab ,;|\t.", min_size=1, max_size=6)
    rows = table.draw(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=1, max_size=9))
    out = io.StringIO()
    names = ["id", "text", "label"]
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows([names, *rows])
    path = write_file(tmp_path_factory.mktemp("table"), "a.csv", out.getvalue())
    assert csv_header(path) == names


def test_a_header_with_a_comma_in_a_name(tmp_path: Path) -> None:
    content = "id;text, as written;label\n1;well, well;0\n2;a, b, c;1\n"
    path = write_file(tmp_path, "a.csv", content)
    assert read(path, column="text, as written") == ["well, well", "a, b, c"]


def test_without_a_header_rows_that_agree_name_the_separator(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.csv", "good, really;1\nbad;0\nwell, well, well;1\n")
    assert read(path, column="1", header=False) == ["good, really", "bad", "well, well, well"]
