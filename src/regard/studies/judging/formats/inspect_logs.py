"""Logs of inspect-ai: a zip archive (.eval) or one JSON document with a list of samples.

The score of each scorer is a column under the scorer's name; `metadata.KEY` are columns too. The
archive is compressed by Zstandard, which Python's zipfile reads from version 3.14 on, so its
members are located by zipfile and decompressed by pyarrow.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.core.errors import UserError
from regard.core.toml import flatten
from regard.core.untrusted import parse_json
from regard.studies.judging.formats.archives import archive_read, read_member
from regard.studies.judging.item_table import ItemTable

ZSTANDARD = 93
LOCAL_HEADER_BYTES = 30
VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0}
"Right, partly right, wrong, no answer: as inspect-ai's own accuracy counts them."
EPOCH = "epoch"
HEADERS = ("header.json", "_journal/start.json")
"Of a log that is finished, and of one that is not."
SAMPLE = re.compile(r"samples/.+\.json")


def read_eval_log(path: Path) -> ItemTable:
    """The samples of an .eval archive."""
    hint = "Copy it again, or write it with `inspect log convert`."
    with (
        archive_read(path, noun="not a log of inspect-ai", hint=hint),
        zipfile.ZipFile(path) as archive,
        path.open("rb") as file,
    ):
        members = {member.filename: member for member in archive.infolist()}
        names = sorted(name for name in members if SAMPLE.fullmatch(name))
        start = next((one for one in HEADERS if one in members), None)
        if start is None:
            raise ValueError("no header")
        header = parse_json(_read(archive, file, members[start]))
        if not isinstance(header, dict) or not isinstance(header.get("eval"), dict):
            raise ValueError("it does not say what was evaluated")
        samples = (
            (name.removeprefix("samples/"), parse_json(_read(archive, file, members[name])))
            for name in names
        )
        return samples_table(path, header["eval"], samples)


def samples_table(
    path: Path, evaluation: Mapping[str, Any], samples: Iterable[tuple[str, Mapping[str, Any]]]
) -> ItemTable:
    """A row for each sample and epoch, called after the model."""
    scorers: dict[str, None] = {}

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        for at, sample in samples:
            try:
                row = _row(sample)
            except ValueError as problem:
                hint = "Copy the log again."
                where = f"{path}, {at}"
                raise UserError(str(problem), topic="judge", where=where, hint=hint) from None
            scorers.update(dict.fromkeys(sample.get("scores") or ()))
            yield at, row

    table = ItemTable.of_rows(rows(), name=path.stem, source=str(path))
    return replace(
        table,
        kind="inspect-ai log",
        name=str(evaluation.get("model") or path.stem),
        task=str(evaluation.get("task") or "").rpartition("/")[2],
        scores=tuple(scorers),
        repeats=EPOCH,
    )


def _row(sample: Any) -> dict[str, Any]:
    if not isinstance(sample, Mapping):
        raise ValueError("a sample is no object")
    if not isinstance(sample.get("scores") or {}, Mapping):
        raise ValueError("its scores are no object")
    scores = {
        name: _value(score.get("value") if isinstance(score, Mapping) else score)
        for name, score in (sample.get("scores") or {}).items()
    }
    values = {key: sample[key] for key in ("id", EPOCH, "target") if key in sample}
    target = values.get("target")
    if isinstance(target, list):
        values["target"] = "\n".join(map(str, target))
    return flatten({**values, "metadata": sample.get("metadata") or {}, **scores})


def _value(value: Any) -> Any:
    return VALUES.get(value, value) if isinstance(value, str) else value


def _read(archive: zipfile.ZipFile, file: Any, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != ZSTANDARD:
        with archive.open(member) as opened:
            return read_member(opened, member.filename)
    import pyarrow as pa

    file.seek(member.header_offset)
    header = file.read(LOCAL_HEADER_BYTES)
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    file.seek(name_length + extra_length, 1)
    compressed = pa.BufferReader(file.read(member.compress_size))
    with pa.CompressedInputStream(compressed, "zstd") as stream:
        content = read_member(stream, member.filename)
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename} does not match its checksum")
    return content


def is_log(document: Mapping[str, Any]) -> bool:
    """Whether a document says what was evaluated, and has samples."""
    evaluation, samples = document.get("eval"), document.get("samples")
    is_list = isinstance(samples, list) and all(isinstance(one, Mapping) for one in samples)
    return isinstance(evaluation, Mapping) and is_list


def samples_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The samples of a JSON log, with their locations."""
    for number, sample in enumerate(document["samples"], 1):
        yield f"sample {number:,}", sample
