"""The token cache: what goes in comes out, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.data import token_cache as cache_module
from regard.data.corpus import SPLITS, Corpus, Data, open_corpus
from regard.data.token_cache import (
    CacheDamagedError,
    TokenCache,
    build_cache,
    cache_home,
    cache_key,
    load_or_build_cache,
    open_cache,
)


class Letters:
    """One token a character, `z` unknown: enough of a tokenizer, and easy to check."""

    def __init__(self, *, size: int = 1000, fingerprint: str = "letters-1") -> None:
        self.size, self.fingerprint, self.unk = size, fingerprint, ord("z")

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        return [[ord(character) for character in text] for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))


def corpus_of(folder: Path, texts: list[str], **data: Any) -> Corpus:
    path = folder / "a.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    return open_corpus(Data(corpus=str(path), **data))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return corpus_of(tmp_path, [f"text {i} äz" * (i % 5 + 1) for i in range(300)], dev=0.2)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "home"))
    return cache_home()


def texts_in(cache: TokenCache, part: Any) -> list[str]:
    return [Letters().decode(ids.tolist()) for ids in cache.split(part)]


def test_what_goes_in_comes_out(corpus: Corpus, tmp_path: Path) -> None:
    cache = build_cache(corpus, Letters(), tmp_path / "cache")
    for name in SPLITS:
        part, texts = cache.split(name), list(corpus.texts(name))
        assert texts_in(cache, name) == texts
        assert part.bytes.tolist() == [len(text.encode()) for text in texts]
        assert part.lengths.tolist() == [len(text) for text in texts]
        assert part.unknown == sum(text.count("z") for text in texts)
        assert part.meta["tokens"] == len(part.tokens) == sum(map(len, texts))
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
def test_chunks_and_buffers_do_not_show(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    corpus = corpus_of(folder, texts)
    whole = build_cache(corpus, Letters(), folder / "whole", required=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_module, "CHUNK", chunk)
        patch.setattr("regard.data.token_cache_writer.BUFFER_TOKENS", chunk)
        pieces = build_cache(corpus, Letters(), folder / "pieces", required=())
    assert whole.meta == pieces.meta
    for part in SPLITS:
        assert texts_in(pieces, part) == texts_in(whole, part) == list(corpus.texts(part))


def test_tokens_are_as_narrow_as_the_vocabulary_allows(corpus: Corpus, tmp_path: Path) -> None:
    for size, dtype in ((1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)):
        cache = build_cache(corpus, Letters(size=size), tmp_path / str(size))
        assert cache.split("train").tokens.dtype == dtype


def test_the_cut_is_applied_and_counted(corpus: Corpus, tmp_path: Path) -> None:
    cache = build_cache(corpus, Letters(), tmp_path / "cache", cut=9)
    part, texts = cache.split("train"), list(corpus.texts("train"))
    assert texts_in(cache, "train") == [text[:9] for text in texts]
    assert part.meta["lost_to_cut"] == sum(len(text[9:]) for text in texts) > 0
    assert part.bytes.tolist() == [len(text[:9].encode()) for text in texts]


def test_fingerprints_follow_texts_and_their_borders(tmp_path: Path) -> None:
    prints = []
    for i, texts in enumerate((["ab", "c"], ["a", "bc"], ["c", "ab"], ["ab", "c"])):
        folder = tmp_path / str(i)
        folder.mkdir()
        own = {}
        for part in ("dev", "test"):
            (folder / part).write_text(part)
            own[part] = str(folder / part)
        cache = build_cache(corpus_of(folder, texts, **own), Letters(), folder / "cache")
        prints.append(cache.split("train").fingerprint)
    assert len(set(prints[:3])) == 3
    assert prints[0] == prints[3]


def test_an_empty_part_says_how_to_mend_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"share of 0.05 of 2 documents leaves none for dev"):
        build_cache(corpus_of(tmp_path, ["a", "b"]), Letters(), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_parts_with_the_same_texts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "copy.txt").write_text("a\nb\n")
    (tmp_path / "test.txt").write_text("t\n")
    corpus = corpus_of(
        tmp_path, ["a", "b"], dev=str(tmp_path / "copy.txt"), test=str(tmp_path / "test.txt")
    )
    with pytest.raises(UserError, match="train and dev hold exactly the same texts"):
        build_cache(corpus, Letters(), tmp_path / "cache")


def test_another_tokenizer_is_refused_by_name(corpus: Corpus, tmp_path: Path) -> None:
    build_cache(corpus, Letters(), tmp_path / "cache")
    with pytest.raises(UserError, match=r"tokenizer letters-…, this one is capitals…"):
        open_cache(tmp_path / "cache", Letters(fingerprint="capitals"))


def damage_cut(folder: Path) -> None:
    file = folder / "train" / "tokens.bin"
    file.write_bytes(file.read_bytes()[:-2])


def damage_missing(folder: Path) -> None:
    (folder / "dev" / "offsets.bin").unlink()


def damage_meta(folder: Path) -> None:
    (folder / "meta.json").write_text('{"schema": 1, "parts"')


def damage_schema(folder: Path) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "schema": 0}))


@pytest.mark.parametrize("damage", [damage_cut, damage_missing, damage_meta, damage_schema])
def test_a_damaged_cache_is_found_and_built_anew(corpus: Corpus, home: Path, damage: Any) -> None:
    whole = load_or_build_cache(corpus, Letters())
    damage(whole.folder)
    with pytest.raises(CacheDamagedError, match="the token cache"):
        open_cache(whole.folder, Letters())
    anew = load_or_build_cache(corpus, Letters())
    assert (anew.folder, anew.meta) == (whole.folder, whole.meta)
    assert texts_in(anew, "dev") == list(corpus.texts("dev"))


def test_cached_reads_once_and_follows_every_change(corpus: Corpus, home: Path) -> None:
    heard: list[int] = []

    def on_progress(done: int, total: int | None) -> None:
        heard.append(done)

    first = load_or_build_cache(corpus, Letters(), on_progress=on_progress)
    assert heard == [300]
    assert load_or_build_cache(corpus, Letters(), on_progress=on_progress).folder == first.folder
    assert heard == [300]
    keys = {first.folder.name, cache_key(corpus, "letters-2")}
    keys.add(cache_key(open_corpus(corpus.data.model_copy(update={"cut": 5})), "letters-1"))
    source = Path(str(corpus.data.corpus))
    source.write_text(source.read_text() + "one more\n")
    keys.add(cache_key(corpus, "letters-1"))
    assert len(keys) == 4


def test_a_failed_build_leaves_nothing_and_keeps_the_old(corpus: Corpus, tmp_path: Path) -> None:
    class Failing(Letters):
        def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
            raise KeyboardInterrupt

    folder = tmp_path / "caches" / "cache"
    build_cache(corpus, Letters(), folder)
    with pytest.raises(KeyboardInterrupt):
        build_cache(corpus, Failing(), folder)
    assert [path.name for path in folder.parent.iterdir()] == ["cache"]
    open_cache(folder, Letters())


def test_documents_without_a_token_are_left_out_and_counted(corpus: Corpus, tmp_path: Path) -> None:
    class OnlyZero(Letters):
        def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
            return [[ord(c) for c in text if c == "0"] for text in texts]

    cache = build_cache(corpus, OnlyZero(), tmp_path / "cache", required=())
    part, texts = cache.split("train"), list(corpus.texts("train"))
    assert len(part) == sum("0" in text for text in texts)
    assert part.meta["without_tokens"] == len(texts) - len(part)
    assert (part.lengths > 0).all()


def test_home_is_the_users_unless_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache" / "regard"
