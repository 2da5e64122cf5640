"""Building a token cache: shards tokenized in several processes, indexed in order, put in place.

    .<key>.building/     shards that are done; a preparation that was killed goes on from them
    .<key>.lock          who builds holds it: another process waits, and finds the cache

Token ids and their order depend on the corpus and the tokenizer alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

from filelock import FileLock, UnixFileLock

from regard.core.errors import UserError
from regard.core.files import sync_folder, write_json
from regard.core.progress import OnProgress, no_progress
from regard.core.seal import checksum
from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.token_cache.cache import (
    SCHEMA,
    SHARDS,
    CacheDamagedError,
    TokenCache,
    cache_home,
    cache_key,
    open_cache,
)
from regard.data.token_cache.index import IndexWriter
from regard.data.token_cache.processes import ProcessEndedError, tokenize_in_processes
from regard.data.token_cache.shards import (
    Shard,
    TokenizedShard,
    TokenizerLike,
    cut_shards,
    find_shard,
    made_with,
    token_dtype,
    tokenize_shard,
)
from regard.data.tokenizers.tokenizer import Tokenizer

ABANDONED_SECONDS = 7 * 24 * 3600
"Age after which an unfinished build is removed."
UNFINISHED = f".{'[0-9a-f]' * 24}[.-]*"
"Names of unfinished builds: the key of a cache, hidden."


def load_or_build_cache(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    *,
    processes: int = 1,
    on_progress: OnProgress = no_progress,
) -> TokenCache:
    """The cache of this corpus under this tokenizer; built if there is none."""
    folder = cache_home() / "tokens" / cache_key(corpus, tokenizer.fingerprint)
    with suppress(CacheDamagedError):
        return open_cache(folder, tokenizer)
    with _building_folder(folder) as building:
        with suppress(CacheDamagedError):  # another process has built it meanwhile
            return open_cache(folder, tokenizer)
        _build(
            corpus,
            tokenizer,
            building,
            max_tokens=corpus.data.max_tokens,
            required=SPLITS,
            processes=processes,
            on_progress=on_progress,
        )
        _move_into_place(building, folder)
    return open_cache(folder, tokenizer)


def build_cache(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    folder: Path,
    *,
    max_tokens: int | None = None,
    required: Collection[Split] = SPLITS,
    processes: int = 1,
    on_progress: OnProgress = no_progress,
) -> TokenCache:
    """Tokenize `corpus` into `folder` in one pass; `on_progress` receives documents done.

    Documents are truncated to `max_tokens`. Every split in `required` must have a document.
    """
    with _building_folder(folder) as building:
        _build(
            corpus,
            tokenizer,
            building,
            max_tokens=max_tokens,
            required=required,
            processes=processes,
            on_progress=on_progress,
        )
        _move_into_place(building, folder)
    return open_cache(folder, tokenizer)


def _build(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    building: Path,
    *,
    max_tokens: int | None,
    required: Collection[Split],
    processes: int,
    on_progress: OnProgress,
) -> None:
    # An index is written again: it takes no time beside tokenizing.
    for leftover in (*(building / split for split in SPLITS), *building.glob(f"{SHARDS}/.*")):
        shutil.rmtree(leftover, ignore_errors=True)
    tokenized = _tokenized(
        corpus, tokenizer, building / SHARDS, max_tokens=max_tokens, processes=processes
    )
    manifests: list[str] = []
    done = 0
    with ExitStack() as stack:
        dtype = token_dtype(tokenizer.size)
        indices = {
            split: stack.enter_context(IndexWriter(building / split, split, dtype=dtype))
            for split in SPLITS
        }
        stack.enter_context(closing(tokenized))
        for shard, files in tokenized:
            for index in indices.values():
                index.add(shard, files)
            manifests.append(files.manifest)
            os.utime(building)  # alive, for `_clear_abandoned`
            done += len(shard)
            on_progress(done, None)
    for later in building.glob(f"{SHARDS}/[0-9]*"):  # of a build of more text into the same folder
        if int(later.name) >= len(manifests):
            shutil.rmtree(later)
    splits = {split: index.summary() for split, index in indices.items()}
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
        "shards": manifests,
    }
    write_json(building / "meta.json", {**meta, "checksum": checksum(meta)})


def _tokenized(
    corpus: Corpus,
    tokenizer: TokenizerLike,
    folder: Path,
    *,
    max_tokens: int | None,
    processes: int,
) -> Generator[tuple[Shard, TokenizedShard]]:
    shards = cut_shards(corpus.stream())
    first = list(islice(shards, 2))
    everything = chain(first, shards)
    # Of a single shard this process is done before another one has started.
    if processes > 1 and len(first) > 1 and isinstance(tokenizer, Tokenizer) and sys.executable:
        yield from tokenize_in_processes(
            everything, folder, tokenizer, max_tokens=max_tokens, processes=processes
        )
        return
    same = made_with(tokenizer, max_tokens)
    for shard in everything:
        found = find_shard(folder, shard, made_with=same)
        yield (
            shard,
            found
            or tokenize_shard(shard, folder, tokenizer, max_tokens=max_tokens, made_with=same),
        )


@contextmanager
def _building_folder(folder: Path) -> Iterator[Path]:
    """The folder that `folder` is built in, held by this process alone. What it holds stays if the
    process is killed or stopped, and is removed after an error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_abandoned(folder.parent)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    building = folder.with_name(f".{folder.name}.building")
    with ExitStack() as stack:
        try:
            lock.acquire()
            stack.callback(_release, lock)
        except NotImplementedError:  # a file system without locks: nobody else finds this folder
            building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        building.mkdir(exist_ok=True)
        try:
            yield building
        except ProcessEndedError:
            raise
        except Exception:
            shutil.rmtree(building, ignore_errors=True)
            raise
        shutil.rmtree(building, ignore_errors=True)  # already renamed if it was needed


def _release(lock: Any) -> None:
    if isinstance(lock, UnixFileLock):  # the other locks remove their file themselves
        with suppress(OSError):
            # While the lock is held: a process that opened the file before sees it is gone.
            os.unlink(lock.lock_file)  # noqa: PTH108 — a str
    lock.release()


def _clear_abandoned(parent: Path) -> None:
    """Remove what killed builds left and nobody went on with."""
    for leftover in parent.glob(UNFINISHED):
        with suppress(OSError):
            if time.time() - leftover.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)


def _move_into_place(building: Path, folder: Path) -> None:
    """A valid cache stays where another process was faster, which happens without locks alone."""
    if folder.exists():
        shutil.rmtree(folder)
    building.chmod(0o755)
    building.rename(folder)
    sync_folder(folder.parent)


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
