"""The token cache: a corpus encoded once, then memory-mapped, so that memory does not grow with it.

    <folder>/meta.json                  what it holds and from what it was made; written last
    <folder>/<part>/tokens.bin          uint16 or uint32 by vocabulary, documents end to end
    <folder>/<part>/offsets.bin         int64, documents + 1: document i is tokens[o[i]:o[i+1]]
    <folder>/<part>/bytes.bin           uint32, UTF-8 bytes of each document, for loss per byte

A cut document counts the bytes of what its kept tokens decode to, at most its own: exact for
byte-level tokenizers that cut between characters, an estimate where decoding changes spaces or
spelling. The folder is made under a temporary name and renamed whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.files import sha256, sync_folder, write_json
from regard.core.settings import table_of
from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.token_cache_writer import SplitWriter

SCHEMA = 2
CHUNK = 1 << 21
"Characters of text that are encoded at once."
ABANDONED = 24 * 3600
"Seconds after which an unfinished build is taken to be dead."

OnProgress = Callable[[int, int | None], None]


class TokenizerLike(Protocol):
    """What the cache asks of a tokenizer."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def unk(self) -> int | None: ...
    def encode_many(self, texts: list[str]) -> Sequence[Sequence[int]]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class CacheDamagedError(UserError):
    """The folder is no whole cache: `cached` builds it anew."""


def no_progress(done: int, total: int | None) -> None:
    """For callers who do not watch."""


def cache_home() -> Path:
    """`$REGARD_CACHE`, else `~/.cache/regard`."""
    given = os.environ.get("REGARD_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "regard"


def cache_key(corpus: Corpus, tokenizer_fingerprint: str) -> str:
    """Changes with the settings, with any byte of any source, and with the tokenizer."""
    made_from = {
        "schema": SCHEMA,
        "data": table_of(corpus.data),
        "sources": [(role, *identity) for role, identity in corpus.identities()],
        "tokenizer": tokenizer_fingerprint,
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]


def cached(
    corpus: Corpus, tokenizer: TokenizerLike, *, on_progress: OnProgress = no_progress
) -> TokenCache:
    """The cache of this corpus under this tokenizer: opened where it exists, else built."""
    folder = cache_home() / "tokens" / cache_key(corpus, tokenizer.fingerprint)
    try:
        return open_cache(folder, tokenizer)
    except CacheDamagedError:
        return build_cache(corpus, tokenizer, folder, cut=corpus.data.cut, on_progress=on_progress)


def build_cache(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    folder: Path,
    *,
    cut: int | None = None,
    required: Collection[Split] = SPLITS,
    on_progress: OnProgress = no_progress,
) -> TokenCache:
    """Encode `corpus` into `folder` in one reading; `on_progress` hears of documents done.

    Every part in `required` must hold a document.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(folder)
    under_way = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        writers = {
            part: SplitWriter(under_way / part, vocabulary=tokenizer.size, unk=tokenizer.unk)
            for part in SPLITS
        }
        with contextlib.ExitStack() as stack:
            for writer in writers.values():
                stack.enter_context(writer)
            done = 0
            for chunk in _chunks(corpus.parted()):
                encoded = tokenizer.encode_many([text for _, text in chunk])
                for (part, text), ids in zip(chunk, encoded, strict=True):
                    kept = ids if cut is None else ids[:cut]
                    raw = text.encode()
                    size = len(raw)
                    if len(kept) < len(ids):
                        size = min(size, len(tokenizer.decode(kept).encode()))
                    writers[part].add(raw, kept, size=size, lost=len(ids) - len(kept))
                done += len(chunk)
                on_progress(done, None)
        parts = {part: writer.summary() for part, writer in writers.items()}
        _refuse_empty(parts, corpus, required)
        _refuse_same(parts)
        meta = {
            "schema": SCHEMA,
            "corpus": corpus.name,
            "generated": corpus.generated,
            "tokenizer": tokenizer.fingerprint,
            "vocabulary": tokenizer.size,
            "cut": cut,
            "dropped": corpus.dropped.as_dict(),
            "parts": parts,
        }
        write_json(under_way / "meta.json", meta)
        _put_in_place(under_way, folder, tokenizer)
    finally:
        shutil.rmtree(under_way, ignore_errors=True)  # nothing is left there when all went well
    return open_cache(folder, tokenizer)


def open_cache(folder: Path, tokenizer: TokenizerLike) -> TokenCache:
    """The cache in `folder`, checked to be whole and to be this tokenizer's."""
    try:
        meta = json.loads((folder / "meta.json").read_bytes())
        if meta["schema"] != SCHEMA:
            raise _damaged(folder, f"of another version of regard (schema {meta['schema']})")
        made_with = meta["tokenizer"]
        cache = TokenCache(folder, meta)
        for part in SPLITS:
            _check_files(cache.part(part))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise _damaged(folder, f"damaged or not there ({problem})") from problem
    if made_with != tokenizer.fingerprint:
        raise UserError(
            f"the token cache {folder} was made with tokenizer {made_with[:8]}…, this one is "
            f"{tokenizer.fingerprint[:8]}… ({tokenizer.size:,} pieces): ids would mean other words",
            topic="data",
            hint="Give the tokenizer it was made with, or build the cache anew.",
        )
    return cache


@dataclass(frozen=True)
class CachedSplit:
    """Documents as arrays of token ids, read from disk as they are touched."""

    folder: Path
    meta: dict[str, Any]

    def __len__(self) -> int:
        return int(self.meta["documents"])

    def __getitem__(self, i: int) -> NDArray[Any]:
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def tokens(self) -> NDArray[Any]:
        "All ids, documents end to end."
        return _map(self.folder / "tokens.bin", np.dtype(self.meta["dtype"]))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        return _map(self.folder / "offsets.bin", np.dtype(np.int64))

    @cached_property
    def bytes(self) -> NDArray[np.uint32]:
        "UTF-8 bytes of each document."
        return _map(self.folder / "bytes.bin", np.dtype(np.uint32))

    @property
    def lengths(self) -> NDArray[np.int64]:
        "Tokens of each document."
        return np.diff(self.offsets)

    @property
    def fingerprint(self) -> str:
        "SHA-256 of the texts, in order."
        return str(self.meta["fingerprint"])

    @property
    def unknown(self) -> int:
        "How many tokens are the unknown token."
        return int(self.meta["unknown"])


@dataclass(frozen=True)
class TokenCache:
    """The parts of one corpus under one tokenizer."""

    folder: Path
    meta: dict[str, Any]

    def part(self, name: Split) -> CachedSplit:
        return CachedSplit(self.folder / name, self.meta["parts"][name])


def _map(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _chunks(texts: Iterator[tuple[Split, str]]) -> Iterator[list[tuple[Split, str]]]:
    chunk: list[tuple[Split, str]] = []
    size = 0
    for part, text in texts:
        chunk.append((part, text))
        size += len(text)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _check_files(part: CachedSplit) -> None:
    counts = {"tokens": part.tokens, "offsets": part.offsets, "bytes": part.bytes}
    due = {"tokens": part.meta["tokens"], "offsets": len(part) + 1, "bytes": len(part)}
    for name, array in counts.items():
        if len(array) != due[name]:
            raise ValueError(f"{name}.bin holds {len(array):,} of {due[name]:,}")
        if sha256(part.folder / f"{name}.bin") != part.meta["files"][name]:
            raise ValueError(f"{name}.bin is not as it was written")
    if part.offsets[-1] != len(part.tokens):
        raise ValueError("offsets.bin and tokens.bin disagree")


def _refuse_empty(
    parts: dict[Split, dict[str, Any]], corpus: Corpus, required: Collection[Split]
) -> None:
    total = sum(part["documents"] for part in parts.values())
    for name in required:
        if parts[name]["documents"]:
            continue
        if name in corpus.shares:
            share = corpus.shares[name]
            what = f"a share of {share:g} of {total:,} documents leaves none for {name}"
            hint = f"Give data.{name} a larger share or a file of its own, or give more text"
        else:
            what = f"all {total:,} documents fell into other parts, {name} has none"
            hint = "Give more text, or smaller shares to data.dev and data.test"
        unit = corpus.data.unit
        smaller = f', or smaller documents than data.unit = "{unit}"' if unit != "line" else ""
        raise UserError(what, topic="data", where=corpus.name, hint=f"{hint}{smaller}.")


def _refuse_same(parts: dict[Split, dict[str, Any]]) -> None:
    seen: dict[str, Split] = {}
    for name, part in parts.items():
        twin = seen.setdefault(part["fingerprint"], name)
        if twin != name and part["documents"]:
            raise UserError(
                f"{twin} and {name} hold exactly the same texts",
                topic="data",
                where=f"data.{name}",
                hint="Give other files, or a share such as 0.05.",
            )


def _clear_abandoned(folder: Path) -> None:
    """Remove what a killed build left, once nobody can still be at it."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        if time.time() - left.stat().st_mtime > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)


def _put_in_place(under_way: Path, folder: Path, tokenizer: TokenizerLike) -> None:
    try:
        under_way.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Someone else was quicker, or the old one is damaged: keep a whole one, replace the rest.
        with contextlib.suppress(CacheDamagedError):
            open_cache(folder, tokenizer)
            return
        shutil.rmtree(folder)
        under_way.rename(folder)
    sync_folder(folder.parent)


def _damaged(folder: Path, what: str) -> CacheDamagedError:
    return CacheDamagedError(
        f"the token cache {folder} is {what}",
        topic="data",
        hint="Remove the folder; the next training builds it anew.",
    )
