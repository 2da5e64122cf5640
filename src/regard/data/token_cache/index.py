"""The index of one split of a token cache: where each document is, over all shards, in order."""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from regard.core.files import sha256
from regard.data.splits import SPLITS, Split
from regard.data.token_cache.shards import Shard, TokenizedShard


class IndexWriter:
    """Appends shards to offsets.bin, bytes.bin and groups.bin; a context manager."""

    def __init__(self, folder: Path, split: Split, *, dtype: Any) -> None:
        folder.mkdir()
        self.folder, self.split, self.dtype = folder, split, np.dtype(dtype)
        self.documents = self.tokens = self.bytes = 0
        self.unknown = self.truncated = 0
        self.without_tokens: list[int] = []
        "Indices of the texts that are no document, because they have no token."
        self.shards: list[list[int]] = []
        self._digest = hashlib.sha256()
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / f"{name}.bin").open("wb"))
            for name in ("offsets", "bytes", "groups")
        }
        self._write("offsets", np.zeros(1, np.int64))

    def add(self, shard: Shard, tokenized: TokenizedShard) -> None:
        """The next shard; its texts are part of the fingerprint."""
        here = np.flatnonzero(shard.splits == SPLITS.index(self.split))
        facts = tokenized.facts["splits"][self.split]
        lengths = tokenized.array(self.split, "lengths", np.uint32).astype(np.int64)
        kept = lengths > 0
        texts = self.documents + len(self.without_tokens)
        self.without_tokens += (texts + np.flatnonzero(~kept)).tolist()
        sizes = tokenized.array(self.split, "bytes", np.uint32)[kept]
        begins = np.concatenate((np.zeros(1, np.int64), shard.ends[:-1]))
        for begin, end in zip(
            begins[here[kept]].tolist(), shard.ends[here[kept]].tolist(), strict=True
        ):
            # The length prefix distinguishes ("ab", "c") from ("a", "bc").
            self._digest.update((end - begin).to_bytes(8, "big"))
            self._digest.update(shard.content[begin:end])
        self._write("offsets", self.tokens + np.cumsum(lengths[kept]))
        self._write("bytes", sizes)
        self._write("groups", shard.groups[here[kept]])
        self.shards.append([facts["tokens"], int(np.count_nonzero(kept))])
        self.documents += int(np.count_nonzero(kept))
        self.tokens += facts["tokens"]
        self.bytes += int(sizes.sum(dtype=np.int64))
        self.unknown += facts["unknown"]
        self.truncated += facts["truncated_tokens"]

    def summary(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "unknown": self.unknown,
            "truncated_tokens": self.truncated,
            "without_tokens": self.without_tokens,
            "fingerprint": self._digest.hexdigest(),
            "dtype": self.dtype.name,
            "shards": self.shards,
            "files": {name: sha256(self.folder / f"{name}.bin") for name in self._files},
        }

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._stack:
            if error is None:
                for file in self._files.values():
                    file.flush()
                    os.fsync(file.fileno())

    def _write(self, name: str, values: Any) -> None:
        self._files[name].write(values.tobytes())
