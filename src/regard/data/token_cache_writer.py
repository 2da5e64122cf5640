"""Writes one split of the token cache: buffered, counted, fingerprinted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from regard.core.files import sha256

NO_GROUP = 0
"In groups.bin: a document that stands alone."
BUFFER_TOKENS = 1 << 18
"Tokens buffered before a write."


def group_hash(group: str) -> int:
    """64 bits that stand for a group of documents; names of any length would fill memory."""
    return max(1, int.from_bytes(hashlib.blake2b(group.encode(), digest_size=8).digest(), "big"))


class SplitWriter:
    """Appends documents to tokens.bin, offsets.bin, bytes.bin and groups.bin; a context manager."""

    def __init__(self, folder: Path, *, vocabulary: int, unk: int | None) -> None:
        folder.mkdir()
        self.folder = folder
        self.dtype = np.uint16 if vocabulary <= 1 << 16 else np.uint32
        self.unk = unk
        self.documents = self.tokens = self.bytes = 0
        self.unknown = self.truncated = 0
        self.without_tokens: list[int] = []
        "Indices of the texts that are no document, because they have no token."
        self._digest = hashlib.sha256()
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / f"{name}.bin").open("wb"))
            for name in ("tokens", "offsets", "bytes", "groups")
        }
        self._ids: list[int] = []
        self._ends: list[int] = [0]
        self._sizes: list[int] = []
        self._groups: list[int] = []

    def add(
        self,
        raw: bytes,
        ids: Sequence[int],
        *,
        size: int,
        truncated: int,
        group: str | None = None,
    ) -> None:
        """One document: `raw` in UTF-8, `size` its bytes after truncation, `truncated` tokens."""
        if not ids:
            self.without_tokens.append(self.documents + len(self.without_tokens))
            return
        # The length prefix distinguishes ("ab", "c") from ("a", "bc").
        self._digest.update(len(raw).to_bytes(8, "big") + raw)
        self.documents += 1
        self.tokens += len(ids)
        self.bytes += size
        self.truncated += truncated
        self._ids.extend(ids)
        self._ends.append(self.tokens)
        self._sizes.append(size)
        self._groups.append(NO_GROUP if group is None else group_hash(group))
        if len(self._ids) >= BUFFER_TOKENS:
            self._flush()

    def summary(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "unknown": self.unknown,
            "truncated_tokens": self.truncated,
            "without_tokens": self.without_tokens,
            "fingerprint": self._digest.hexdigest(),
            "dtype": np.dtype(self.dtype).name,
            "files": {name: sha256(self.folder / f"{name}.bin") for name in self._files},
        }

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._stack:
            if error is None:
                self._flush()
                for file in self._files.values():
                    file.flush()
                    os.fsync(file.fileno())

    def _flush(self) -> None:
        ids = np.array(self._ids, dtype=self.dtype)
        if self.unk is not None:
            self.unknown += int(np.count_nonzero(ids == self.unk))
        self._files["tokens"].write(ids.tobytes())
        self._files["offsets"].write(np.array(self._ends, dtype=np.int64).tobytes())
        self._files["bytes"].write(np.array(self._sizes, dtype=np.uint32).tobytes())
        self._files["groups"].write(np.array(self._groups, dtype=np.uint64).tobytes())
        self._ids, self._ends, self._sizes, self._groups = [], [], [], []
