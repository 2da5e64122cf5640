"""The token cache: a corpus tokenized once, then memory-mapped, so memory does not grow with it.

    <folder>/meta.json                  content and origin; written last
    <folder>/<split>/tokens.bin         uint16 or uint32 by vocabulary, documents concatenated
    <folder>/<split>/offsets.bin        int64, documents + 1: document i is tokens[o[i]:o[i+1]]
    <folder>/<split>/bytes.bin          uint32, UTF-8 bytes of each document, for bits per byte
    <folder>/<split>/groups.bin         uint64, hash of each document's group, 0 if it has none

The bytes of a truncated document are those that its remaining tokens decode to, at most its own:
exact for byte-level tokenizers that cut between characters, an estimate where decoding changes
spaces or spelling. The folder is written under a temporary name and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.files import sha256, sync_folder, write_json
from regard.core.progress import OnProgress, no_progress
from regard.core.seal import checksum
from regard.core.settings import to_table
from regard.core.untrusted import parse_json, read_limited
from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.grouping import grouped_by_size
from regard.data.record_corpus import Record
from regard.data.token_cache_writer import SplitWriter

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.data.tokenizers.whitespace import WhitespaceTokenizer

    TokenizerLike = Tokenizer | WhitespaceTokenizer

SCHEMA = 5
CHUNK_CHARACTERS = 1 << 21
"Characters of text that are tokenized at once."
ABANDONED_SECONDS = 24 * 3600
"Age after which an unfinished build counts as dead."


class CacheDamagedError(UserError):
    """The folder is not a valid cache; `load_or_build_cache` builds it again."""


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


def load_or_build_cache(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    *,
    on_progress: OnProgress = no_progress,
) -> TokenCache:
    """The cache of this corpus under this tokenizer; built if there is none."""
    folder = cache_home() / "tokens" / cache_key(corpus, tokenizer.fingerprint)
    try:
        return open_cache(folder, tokenizer)
    except CacheDamagedError:
        return build_cache(
            corpus, tokenizer, folder, max_tokens=corpus.data.max_tokens, on_progress=on_progress
        )


def build_cache(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    folder: Path,
    *,
    max_tokens: int | None = None,
    required: Collection[Split] = SPLITS,
    on_progress: OnProgress = no_progress,
) -> TokenCache:
    """Tokenize `corpus` into `folder` in one pass; `on_progress` receives documents done.

    Documents are truncated to `max_tokens`. Every split in `required` must have a document.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(folder)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        writers = {
            split: SplitWriter(temporary / split, vocabulary=tokenizer.size, unk=tokenizer.unk)
            for split in SPLITS
        }
        with contextlib.ExitStack() as stack:
            for writer in writers.values():
                stack.enter_context(writer)
            done = 0
            records = corpus.stream()
            for chunk in grouped_by_size(records, _characters, total=CHUNK_CHARACTERS):
                encoded = tokenizer.encode_many([record["text"] for _, record in chunk])
                for (split, record), ids in zip(chunk, encoded, strict=True):
                    kept = ids if max_tokens is None else ids[:max_tokens]
                    raw = record["text"].encode()
                    size = len(raw)
                    if len(kept) < len(ids):
                        size = min(size, len(tokenizer.decode(kept).encode()))
                    truncated = len(ids) - len(kept)
                    writers[split].add(
                        raw, kept, size=size, truncated=truncated, group=record.group
                    )
                done += len(chunk)
                on_progress(done, None)
        splits = {split: writer.summary() for split, writer in writers.items()}
        _check_not_empty(splits, corpus, required)
        _check_splits_differ(splits)
        meta = {
            "schema": SCHEMA,
            "corpus": corpus.name,
            "generated": corpus.generated,
            "tokenizer": tokenizer.fingerprint,
            "vocabulary": tokenizer.size,
            "max_tokens": max_tokens,
            "dropped": corpus.dropped.as_dict(),
            "splits": splits,
        }
        write_json(temporary / "meta.json", {**meta, "checksum": checksum(meta)})
        _move_into_place(temporary, folder, tokenizer)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # already renamed if all went well
    return open_cache(folder, tokenizer)


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
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    @cached_property
    def tokens(self) -> NDArray[Any]:
        "All ids, documents concatenated."
        return _memory_map(self.folder / "tokens.bin", np.dtype(self.meta["dtype"]))

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


def _characters(document: tuple[Split, Record]) -> int:
    return len(document[1]["text"])


def _check_files(split: CachedSplit) -> None:
    arrays = {
        "tokens": split.tokens,
        "offsets": split.offsets,
        "bytes": split.bytes,
        "groups": split.groups,
    }
    documents = len(split)
    lengths = {
        "tokens": split.meta["tokens"],
        "offsets": documents + 1,
        "bytes": documents,
        "groups": documents,
    }
    for name, array in arrays.items():
        if len(array) != lengths[name]:
            raise ValueError(f"{name}.bin holds {len(array):,} of {lengths[name]:,}")
        if sha256(split.folder / f"{name}.bin") != split.meta["files"][name]:
            raise ValueError(f"{name}.bin does not match its SHA-256")
    if split.offsets[-1] != len(split.tokens):
        raise ValueError("offsets.bin and tokens.bin disagree")


def _check_not_empty(
    splits: dict[Split, dict[str, Any]], corpus: Corpus, required: Collection[Split]
) -> None:
    total = sum(split["documents"] for split in splits.values())
    for name in required:
        if splits[name]["documents"]:
            continue
        if name in corpus.data.fractions:
            fraction = corpus.data.fractions[name]
            what = f"a fraction of {fraction:g} of {total:,} documents leaves none for {name}"
            hint = f"Give data.{name} a larger fraction or a file of its own, or give more text"
        else:
            what = f"all {total:,} documents fell into other splits, {name} has none"
            hint = "Give more text, or smaller fractions to data.dev and data.test"
        unit = corpus.data.unit
        smaller = f', or smaller documents than data.unit = "{unit}"' if unit != "line" else ""
        raise UserError(what, topic="data", where=corpus.name, hint=f"{hint}{smaller}.")


def _check_splits_differ(splits: dict[Split, dict[str, Any]]) -> None:
    seen: dict[str, Split] = {}
    for name, split in splits.items():
        twin = seen.setdefault(split["fingerprint"], name)
        if twin != name and split["documents"]:
            raise UserError(
                f"{twin} and {name} hold exactly the same texts",
                topic="data",
                where=f"data.{name}",
                hint="Give other files, or a fraction such as 0.05.",
            )


def _clear_abandoned(folder: Path) -> None:
    """Remove temporary folders of killed builds."""
    for leftover in folder.parent.glob(f".{folder.name}-*"):
        if time.time() - leftover.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(leftover, ignore_errors=True)


def _move_into_place(temporary: Path, folder: Path, tokenizer: TokenizerLike) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        # Another process was faster, or the old one is damaged: keep a valid one, else replace it.
        with contextlib.suppress(CacheDamagedError):
            open_cache(folder, tokenizer)
            return
        shutil.rmtree(folder)
        temporary.rename(folder)
    sync_folder(folder.parent)


def _damaged_error(folder: Path, what: str) -> CacheDamagedError:
    return CacheDamagedError(
        f"the token cache {folder} is {what}",
        topic="data",
        hint="Remove the folder; the next training builds it again.",
    )
