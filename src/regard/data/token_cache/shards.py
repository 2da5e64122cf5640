"""Shards of a token cache: a corpus in runs of documents, each tokenized on its own.

    <folder>/00012/{train,dev,test}.tokens.bin      uint16 or uint32 by vocabulary, concatenated
    <folder>/00012/{train,dev,test}.lengths.bin     uint32, tokens of each text
    <folder>/00012/{train,dev,test}.bytes.bin       uint32, UTF-8 bytes of each text's tokens
    <folder>/00012/shard.json                       what it was made from; manifest.json beside it

Where a shard ends depends on the texts alone: whoever tokenizes it, and in however many processes,
its files are the same. A document is never divided. A shard appears whole, by one rename.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.files import MANIFEST, find_damage, folder_with_manifest, sha256, write_json
from regard.core.untrusted import parse_json, read_limited
from regard.data.grouping import grouped_by_size
from regard.data.record_corpus import Record
from regard.data.splits import SPLITS, Split
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.whitespace import WhitespaceTokenizer

TokenizerLike = Tokenizer | WhitespaceTokenizer
SHARD_CHARACTERS = 1 << 23
"Characters of text in a shard; the last document may exceed it."
CHUNK_CHARACTERS = 1 << 21
"Characters of text that are tokenized at once."
NO_GROUP = 0
"Of a document that stands alone."
SHARD_FILE = "shard.json"


@dataclass(frozen=True)
class Shard:
    """Texts before they are tokenized, as bytes: records of Python take several times more."""

    number: int
    splits: NDArray[np.uint8]
    "Of each text, by index into SPLITS."
    ends: NDArray[np.int64]
    "Where each text ends in `content`."
    groups: NDArray[np.uint64]
    content: bytes
    "The texts in UTF-8, concatenated."

    @classmethod
    def of_records(cls, number: int, records: Sequence[tuple[Split, Record]]) -> Shard:
        texts = [record["text"].encode() for _, record in records]
        groups = [NO_GROUP if r.group is None else group_hash(r.group) for _, r in records]
        return cls(
            number,
            np.array([SPLITS.index(split) for split, _ in records], dtype=np.uint8),
            np.cumsum([len(text) for text in texts], dtype=np.int64),
            np.array(groups, dtype=np.uint64),
            b"".join(texts),
        )

    def __len__(self) -> int:
        return len(self.ends)

    def raw_texts(self) -> Iterator[bytes]:
        begin = 0
        for end in self.ends.tolist():
            yield self.content[begin:end]
            begin = end

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its texts and their splits."""
        digest = hashlib.sha256(self.splits.tobytes())
        digest.update(self.ends.tobytes())
        digest.update(self.content)
        return digest.hexdigest()


@dataclass(frozen=True)
class TokenizedShard:
    """A shard that was tokenized: its folder, and what its file says."""

    folder: Path
    facts: dict[str, Any]

    def array(self, split: Split, name: str, dtype: Any) -> NDArray[Any]:
        return np.fromfile(self.folder / f"{split}.{name}.bin", dtype)

    @property
    def manifest(self) -> str:
        """SHA-256 of its manifest, which holds those of its files."""
        return sha256(self.folder / MANIFEST)


def group_hash(group: str) -> int:
    """64 bits that stand for a group of documents; names of any length would fill memory."""
    return max(1, int.from_bytes(hashlib.blake2b(group.encode(), digest_size=8).digest(), "big"))


def cut_shards(records: Iterable[tuple[Split, Record]]) -> Iterator[Shard]:
    """The records in shards, in order."""
    groups = grouped_by_size(records, lambda one: len(one[1]["text"]), total=SHARD_CHARACTERS)
    for number, group in enumerate(groups):
        yield Shard.of_records(number, group)


def shard_folder(folder: Path, number: int) -> Path:
    return folder / f"{number:05}"


def find_shard(folder: Path, shard: Shard, *, made_with: str) -> TokenizedShard | None:
    """The shard as an earlier process left it, if it is whole and of these texts."""
    home = shard_folder(folder, shard.number)
    try:
        facts = parse_json(read_limited(home / SHARD_FILE))
        is_same = facts["texts"] == shard.digest and facts["made_with"] == made_with
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return TokenizedShard(home, facts) if is_same and find_damage(home) is None else None


def tokenize_shard(
    shard: Shard, folder: Path, tokenizer: TokenizerLike, *, max_tokens: int | None, made_with: str
) -> TokenizedShard:
    """Write the shard's folder; documents are truncated to `max_tokens`."""
    lengths, sizes, truncated = (np.zeros(len(shard), dtype=np.int64) for _ in range(3))
    dtype = token_dtype(tokenizer.size)
    tokens: dict[int, list[NDArray[Any]]] = {split: [] for split in range(len(SPLITS))}
    begin = 0
    for raws in grouped_by_size(shard.raw_texts(), len, total=CHUNK_CHARACTERS):
        rows = range(begin, begin + len(raws))
        encoded = tokenizer.encode_many([raw.decode() for raw in raws])
        for row, raw, ids in zip(rows, raws, encoded, strict=True):
            kept = ids if max_tokens is None else ids[:max_tokens]
            sizes[row], lengths[row], truncated[row] = len(raw), len(kept), len(ids) - len(kept)
            if len(kept) < len(ids):
                sizes[row] = min(len(raw), len(tokenizer.decode(kept).encode()))
        for split, parts in tokens.items():
            chosen = (
                ids[:max_tokens]
                for ids, row in zip(encoded, rows, strict=True)
                if shard.splits[row] == split
            )
            parts.append(np.fromiter(chain.from_iterable(chosen), dtype))
        begin += len(raws)
    facts: dict[str, Any] = {"texts": shard.digest, "made_with": made_with, "splits": {}}
    with folder_with_manifest(shard_folder(folder, shard.number)) as temporary:
        for split, parts in tokens.items():
            name, here = SPLITS[split], shard.splits == split
            joined = np.concatenate(parts)
            joined.tofile(temporary / f"{name}.tokens.bin")
            lengths[here].astype(np.uint32).tofile(temporary / f"{name}.lengths.bin")
            sizes[here].astype(np.uint32).tofile(temporary / f"{name}.bytes.bin")
            unknown = 0 if tokenizer.unk is None else np.count_nonzero(joined == tokenizer.unk)
            facts["splits"][name] = {
                "tokens": len(joined),
                "unknown": int(unknown),
                "truncated_tokens": int(truncated[here].sum()),
            }
        write_json(temporary / SHARD_FILE, facts)
    return TokenizedShard(shard_folder(folder, shard.number), facts)


def token_dtype(vocabulary: int) -> type[np.uint16 | np.uint32]:
    return np.uint16 if vocabulary <= 1 << 16 else np.uint32


def made_with(tokenizer: TokenizerLike, max_tokens: int | None) -> str:
    """What the files of a shard depend on besides its texts."""
    return json.dumps([tokenizer.fingerprint, max_tokens])
