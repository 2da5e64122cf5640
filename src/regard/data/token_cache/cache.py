"""The token cache: a corpus tokenized once, then memory-mapped, so memory does not grow with it.

    <folder>/meta.json                  content and origin; written last
    <folder>/shards/00012/              token ids of a run of documents: `shards.py`
    <folder>/<split>/offsets.bin        int64, documents + 1: document i has the ids o[i] to o[i+1],
                                        counted over all shards
    <folder>/<split>/bytes.bin          uint32, UTF-8 bytes of each document, for bits per byte
    <folder>/<split>/groups.bin         uint64, hash of each document's group, 0 if it has none

The bytes of a truncated document are those that its remaining tokens decode to, at most its own:
exact for byte-level tokenizers that cut between characters, an estimate where decoding changes
spaces or spelling. The folder is built under a hidden name and renamed: `building.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.files import MANIFEST, find_damage, sha256
from regard.core.seal import checksum
from regard.core.settings import to_table
from regard.core.untrusted import parse_json, read_limited
from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.token_cache.shards import TokenizerLike, shard_folder

SCHEMA = 6
SHARDS = "shards"


class CacheDamagedError(UserError):
    """The folder is not a valid cache; `building.load_or_build_cache` builds it again."""


def cache_home() -> Path:
    """`$REGARD_CACHE`, else `~/.cache/regard`."""
    if given := os.environ.get("REGARD_CACHE"):
        return Path(given)
    try:
        return Path.home() / ".cache" / "regard"
    except RuntimeError:  # a container whose user has no name
        what, hint = "there is no home folder for the cache", "Set REGARD_CACHE to a folder."
        raise UserError(what, topic="data", hint=hint) from None


def cache_key(corpus: Corpus, tokenizer_fingerprint: str) -> str:
    """Hash of the settings, of every source file and of the tokenizer."""
    inputs = {
        "schema": SCHEMA,
        "data": to_table(corpus.data),
        "sources": [(role, *identity) for role, identity in corpus.identities()],
        "tokenizer": tokenizer_fingerprint,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:24]


def open_cache(folder: Path, tokenizer: TokenizerLike) -> TokenCache:
    """The cache in `folder`, verified to be intact and built with this tokenizer."""
    try:
        meta = parse_json(read_limited(folder / "meta.json"))
        if meta["schema"] != SCHEMA:
            raise _damaged_error(folder, f"of another version of regard (schema {meta['schema']})")
        if meta.pop("checksum") != checksum(meta):
            raise _damaged_error(folder, "damaged (meta.json is not what was written)")
        expected = meta["tokenizer"]
        cache = TokenCache(folder, meta)
        _check_shards(cache)
        for split in SPLITS:
            _check_files(cache.split(split))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise _damaged_error(folder, f"damaged or missing ({problem})") from problem
    if expected != tokenizer.fingerprint:
        raise UserError(
            f"the token cache {folder} was built with tokenizer {expected[:8]}…, this one is "
            f"{tokenizer.fingerprint[:8]}… ({tokenizer.size:,} pieces): its ids mean other tokens",
            topic="data",
            hint="Give the tokenizer it was built with, or build the cache again.",
        )
    return cache


@dataclass(frozen=True)
class CachedSplit:
    """One split: documents as memory-mapped arrays of token ids."""

    folder: Path
    meta: dict[str, Any]

    def __len__(self) -> int:
        return int(self.meta["documents"])

    def __getitem__(self, i: int) -> NDArray[Any]:
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        i %= len(self)
        shard = bisect_right(self._first_documents, i) - 1
        begin, end = (int(at) - self._first_tokens[shard] for at in self.offsets[i : i + 2])
        return self._shard(shard)[begin:end]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def token_runs(self) -> Iterator[NDArray[Any]]:
        """All ids in order, a shard at a time, of which one is mapped: pages that stay mapped count
        as this process's memory."""
        return map(self._map_shard, range(len(self.meta["shards"])))

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.meta["dtype"])
        return dtype

    def _shard(self, number: int) -> NDArray[Any]:
        """The ids of a shard, mapped when they are first read."""
        if number not in self._mapped:
            self._mapped[number] = self._map_shard(number)
        return self._mapped[number]

    def _map_shard(self, number: int) -> NDArray[Any]:
        file = shard_folder(self.folder.parent / SHARDS, number) / f"{self.name}.tokens.bin"
        return _memory_map(file, self.dtype)

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def _mapped(self) -> dict[int, NDArray[Any]]:
        return {}

    @cached_property
    def _first_documents(self) -> list[int]:
        return list(accumulate((documents for _, documents in self.meta["shards"]), initial=0))

    @cached_property
    def _first_tokens(self) -> list[int]:
        return list(accumulate((tokens for tokens, _ in self.meta["shards"]), initial=0))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        return _memory_map(self.folder / "offsets.bin", np.dtype(np.int64))

    @cached_property
    def bytes(self) -> NDArray[np.uint32]:
        "UTF-8 bytes of each document."
        return _memory_map(self.folder / "bytes.bin", np.dtype(np.uint32))

    @cached_property
    def groups(self) -> NDArray[np.uint64]:
        "Hash of each document's group; `NO_GROUP` where it stands alone."
        return _memory_map(self.folder / "groups.bin", np.dtype(np.uint64))

    @property
    def texts(self) -> int:
        "Number of texts: the documents, and the texts without a token."
        return len(self) + len(self.meta["without_tokens"])

    def document_of_text(self, text: int) -> int | None:
        """Index of the document that a text became; None if it has no token."""
        skipped = self.meta["without_tokens"]
        before = bisect_left(skipped, text)
        return None if text in skipped[before : before + 1] else text - before

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
        "Number of unknown tokens."
        return int(self.meta["unknown"])


@dataclass(frozen=True)
class TokenCache:
    """The splits of one corpus under one tokenizer."""

    folder: Path
    meta: dict[str, Any]

    def split(self, name: Split) -> CachedSplit:
        return CachedSplit(self.folder / name, self.meta["splits"][name])


def _memory_map(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


def _check_shards(cache: TokenCache) -> None:
    """Each file of a shard against its manifest, and the manifest against meta.json."""
    for number, manifest in enumerate(cache.meta["shards"]):
        folder = shard_folder(cache.folder / SHARDS, number)
        if sha256(folder / MANIFEST) != manifest:
            raise ValueError(f"{folder.name}/{MANIFEST} does not match its SHA-256")
        if damage := find_damage(folder):
            raise ValueError(damage)


def _check_files(split: CachedSplit) -> None:
    documents = len(split)
    for name, array, length in (
        ("offsets", split.offsets, documents + 1),
        ("bytes", split.bytes, documents),
        ("groups", split.groups, documents),
    ):
        if len(array) != length:
            raise ValueError(f"{name}.bin holds {len(array):,} of {length:,}")
        if sha256(split.folder / f"{name}.bin") != split.meta["files"][name]:
            raise ValueError(f"{name}.bin does not match its SHA-256")
    if split.offsets[-1] != sum(tokens for tokens, _ in split.meta["shards"]):
        raise ValueError("offsets.bin and the shards disagree")


def _damaged_error(folder: Path, what: str) -> CacheDamagedError:
    return CacheDamagedError(
        f"the token cache {folder} is {what}",
        topic="data",
        hint="Remove the folder; the next training builds it again.",
    )
