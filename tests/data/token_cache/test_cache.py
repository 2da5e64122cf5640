"""The token cache: lossless, atomic, verified on opening, rebuilt after any change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.text_files import write_lines

from regard.core.errors import UserError
from regard.data.corpus import SPLITS, Corpus, Data, open_corpus
from regard.data.token_cache import shards as token_shards
from regard.data.token_cache.building import build_cache, load_or_build_cache
from regard.data.token_cache.cache import (
    CacheDamagedError,
    TokenCache,
    cache_home,
    cache_key,
    open_cache,
)


class Letters:
    """A character tokenizer where `z` is unknown."""

    def __init__(self, *, size: int = 1000, fingerprint: str = "letters-1") -> None:
        self.size, self.fingerprint, self.unk = size, fingerprint, ord("z")

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        return [[ord(character) for character in text] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


def write_corpus(folder: Path, texts: list[str], **data: Any) -> Corpus:
    return open_corpus(Data(corpus=write_lines(folder / "a.txt", *texts), **data))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return write_corpus(tmp_path, [f"text {i} äz" * (i % 5 + 1) for i in range(300)], dev=0.2)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "home"))
    return cache_home()


def texts_in(cache: TokenCache, split: Any) -> list[str]:
    return [Letters().decode(ids.tolist()) for ids in cache.split(split)]


def test_cache_round_trip(corpus: Corpus, tmp_path: Path) -> None:
    cache = build_cache(corpus, Letters(), tmp_path / "cache")
    for name in SPLITS:
        split, texts = cache.split(name), list(corpus.texts(name))
        assert texts_in(cache, name) == texts
        assert split.bytes.tolist() == [len(text.encode()) for text in texts]
        assert split.lengths.tolist() == [len(text) for text in texts]
        assert split.unknown == sum(text.count("z") for text in texts)
        assert split.meta["tokens"] == sum(map(len, split.token_runs())) == sum(map(len, texts))
    assert (
        cache.split("train")[-1].tolist()
        == cache.split("train")[len(cache.split("train")) - 1].tolist()
    )
    with pytest.raises(IndexError):
        cache.split("dev")[len(cache.split("dev"))]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text("abcä", min_size=1, max_size=9), min_size=1, max_size=40), st.integers(1, 30)
)
def test_cache_is_independent_of_the_size_of_chunks(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    corpus = write_corpus(folder, texts)
    one_chunk = build_cache(corpus, Letters(), folder / "one", required=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_shards, "CHUNK_CHARACTERS", chunk)
        many_chunks = build_cache(corpus, Letters(), folder / "many", required=())
    assert one_chunk.meta == many_chunks.meta
    for split in SPLITS:
        assert texts_in(many_chunks, split) == texts_in(one_chunk, split)
        assert texts_in(one_chunk, split) == list(corpus.texts(split))


def test_token_dtype_follows_the_vocabulary_size(corpus: Corpus, tmp_path: Path) -> None:
    for size, dtype in ((1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)):
        cache = build_cache(corpus, Letters(size=size), tmp_path / str(size))
        assert cache.split("train")[0].dtype == dtype


def test_truncation_is_applied_and_counted(corpus: Corpus, tmp_path: Path) -> None:
    cache = build_cache(corpus, Letters(), tmp_path / "cache", max_tokens=9)
    split, texts = cache.split("train"), list(corpus.texts("train"))
    assert texts_in(cache, "train") == [text[:9] for text in texts]
    assert split.meta["truncated_tokens"] == sum(len(text[9:]) for text in texts) > 0
    assert split.bytes.tolist() == [len(text[:9].encode()) for text in texts]


def test_fingerprints_depend_on_texts_and_their_boundaries(tmp_path: Path) -> None:
    fingerprints = []
    for i, texts in enumerate((["ab", "c"], ["a", "bc"], ["c", "ab"], ["ab", "c"])):
        folder = tmp_path / str(i)
        folder.mkdir()
        files = {}
        for split in ("dev", "test"):
            (folder / split).write_text(split)
            files[split] = str(folder / split)
        cache = build_cache(write_corpus(folder, texts, **files), Letters(), folder / "cache")
        fingerprints.append(cache.split("train").fingerprint)
    assert len(set(fingerprints[:3])) == 3
    assert fingerprints[0] == fingerprints[3]


def test_empty_split_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"0\.05 of 2 documents .*\bdev\b"):
        build_cache(write_corpus(tmp_path, ["a", "b"]), Letters(), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_splits_with_the_same_texts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "copy.txt").write_text("a\nb\n")
    (tmp_path / "test.txt").write_text("t\n")
    corpus = write_corpus(
        tmp_path, ["a", "b"], dev=str(tmp_path / "copy.txt"), test=str(tmp_path / "test.txt")
    )
    with pytest.raises(UserError, match="train and dev hold exactly the same"):
        build_cache(corpus, Letters(), tmp_path / "cache")


def test_another_tokenizer_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    build_cache(corpus, Letters(), tmp_path / "cache")
    with pytest.raises(UserError, match=r"tokenizer letters-…, this one is capitals…"):
        open_cache(tmp_path / "cache", Letters(fingerprint="capitals"))


def truncate_tokens(folder: Path) -> None:
    file = folder / "shards" / "00000" / "train.tokens.bin"
    file.write_bytes(file.read_bytes()[:-2])


def remove_offsets(folder: Path) -> None:
    (folder / "dev" / "offsets.bin").unlink()


def truncate_meta(folder: Path) -> None:
    (folder / "meta.json").write_text('{"schema": 1, "splits"')


def change_schema(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "schema": 0}))


def change_fields(folder: Path) -> None:
    """Three that agree with each other: the file is JSON, and each value is possible."""
    meta = json.loads((folder / "meta.json").read_text())
    meta["splits"]["dev"] |= {"unknown": 7, "truncated": 1, "truncated_tokens": 3}
    (folder / "meta.json").write_text(json.dumps(meta))


def flip_a_key(folder: Path) -> None:
    file = folder / "meta.json"
    file.write_text(file.read_text().replace('"unknown"', '"unkoown"', 1))


def nest(folder: Path) -> None:
    (folder / "meta.json").write_text("[" * 200_000)


DAMAGES = [
    truncate_tokens,
    remove_offsets,
    truncate_meta,
    change_schema,
    change_fields,
    flip_a_key,
    nest,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_cache_is_detected_and_rebuilt(corpus: Corpus, home: Path, damage: Any) -> None:
    intact = load_or_build_cache(corpus, Letters())
    damage(intact.folder)
    with pytest.raises(CacheDamagedError, match="the token cache"):
        open_cache(intact.folder, Letters())
    rebuilt = load_or_build_cache(corpus, Letters())
    assert (rebuilt.folder, rebuilt.meta) == (intact.folder, intact.meta)
    assert texts_in(rebuilt, "dev") == list(corpus.texts("dev"))


def test_cache_is_reused_until_an_input_changes(corpus: Corpus, home: Path) -> None:
    progress: list[int] = []

    def on_progress(done: int, total: int | None) -> None:
        progress.append(done)

    first = load_or_build_cache(corpus, Letters(), on_progress=on_progress)
    assert progress == [300]
    assert load_or_build_cache(corpus, Letters(), on_progress=on_progress).folder == first.folder
    assert progress == [300]
    keys = {first.folder.name, cache_key(corpus, "letters-2")}
    keys.add(cache_key(open_corpus(corpus.data.model_copy(update={"max_tokens": 5})), "letters-1"))
    source = Path(str(corpus.data.corpus))
    source.write_text(source.read_text() + "one more\n")
    keys.add(cache_key(corpus, "letters-1"))
    assert len(keys) == 4


def test_failed_build_leaves_no_files_and_keeps_the_old_cache(
    corpus: Corpus, tmp_path: Path
) -> None:
    class Failing(Letters):
        def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
            raise RuntimeError

    folder = tmp_path / "caches" / "cache"
    build_cache(corpus, Letters(), folder)
    with pytest.raises(RuntimeError):
        build_cache(corpus, Failing(fingerprint="failing"), folder)
    assert [path.name for path in folder.parent.iterdir()] == ["cache"]
    open_cache(folder, Letters())


def test_documents_without_tokens_are_dropped_and_counted(corpus: Corpus, tmp_path: Path) -> None:
    class OnlyZero(Letters):
        def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
            return [[ord(c) for c in text if c == "0"] for text in texts]

    cache = build_cache(corpus, OnlyZero(), tmp_path / "cache", required=())
    split, texts = cache.split("train"), list(corpus.texts("train"))
    assert len(split) == sum("0" in text for text in texts)
    assert split.texts == len(texts)
    documents = [index for index, text in enumerate(texts) if "0" in text]
    assert [split.document_of_text(index) for index in documents] == list(range(len(split)))
    assert {split.document_of_text(text) for text in split.meta["without_tokens"]} == {None}
    assert (split.lengths > 0).all()


def test_default_cache_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache" / "regard"


def test_without_a_home_folder_the_cache_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(UserError, match="Set REGARD_CACHE"):
        cache_home()
