"""Building a token cache in shards: in any number of processes, killed, damaged, or done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.text_files import write_lines

from regard.core.errors import UserError
from regard.data.corpus import SPLITS, Corpus, Data, open_corpus
from regard.data.token_cache import building as token_building
from regard.data.token_cache import shards as token_shards
from regard.data.token_cache.building import UNFINISHED, build_cache, load_or_build_cache
from regard.data.token_cache.cache import TokenCache, cache_home, open_cache
from regard.data.token_cache.processes import ProcessEndedError, TokenProcess, tokenize_in_processes
from regard.data.token_cache.shards import cut_shards, find_shard, made_with
from regard.data.tokenizers.character import Character
from regard.data.tokenizers.tokenizer import Tokenizer

ALPHABET = "abc äß€😀z"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Character().train(iter([ALPHABET[:-1]]))  # z is unknown


def write_corpus(folder: Path, texts: list[str], **data: Any) -> Corpus:
    return open_corpus(Data(corpus=write_lines(folder / "a.txt", *texts), **data))


def some_texts(count: int) -> list[str]:
    drawn = random.Random(0)
    return ["".join(drawn.choices(ALPHABET, k=drawn.randint(1, 90))) + "a" for _ in range(count)]


def ids_of(cache: TokenCache) -> dict[str, list[list[int]]]:
    return {split: [ids.tolist() for ids in cache.split(split)] for split in SPLITS}


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text("abz ä", min_size=1, max_size=9), min_size=1, max_size=40),
    st.integers(1, 60),
    st.none() | st.integers(1, 5),
)
def test_ids_do_not_depend_on_shards(
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Tokenizer,
    texts: list[str],
    characters: int,
    max_tokens: int | None,
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    corpus = write_corpus(folder, [text + "b" for text in texts])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_shards, "SHARD_CHARACTERS", characters)
        cache = build_cache(corpus, tokenizer, folder / "c", max_tokens=max_tokens, required=())
    for split in SPLITS:
        encoded = [tokenizer.encode(text)[:max_tokens] for text in corpus.texts(split)]
        assert ids_of(cache)[split] == encoded
        assert list(chain.from_iterable(run.tolist() for run in cache.split(split).token_runs())) \
            == list(chain.from_iterable(encoded))  # fmt: skip
    assert len(cache.meta["shards"]) == len(list(_cut(corpus, characters)))


def _cut(corpus: Corpus, characters: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_shards, "SHARD_CHARACTERS", characters)
        yield from cut_shards(corpus.stream())


def test_ids_do_not_depend_on_the_number_of_processes(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_shards, "SHARD_CHARACTERS", 700)
    corpus = write_corpus(tmp_path, [*some_texts(300), "same", "same"], dev=0.2, test=0.2)
    caches = [
        build_cache(corpus, tokenizer, tmp_path / str(n), processes=n, max_tokens=40)
        for n in (1, 2)
    ]
    assert len(caches[0].meta["shards"]) > 10
    assert caches[0].meta == caches[1].meta
    assert ids_of(caches[0]) == ids_of(caches[1])


def test_groups_and_bytes_are_in_the_order_of_the_documents(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_shards, "SHARD_CHARACTERS", 50)
    rows = [{"text": text, "author": f"author {i % 7}"} for i, text in enumerate(some_texts(60))]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    corpus = open_corpus(Data(corpus=str(file), group="author", dev=0.3, test=0.3))
    cache = build_cache(corpus, tokenizer, tmp_path / "cache")
    for split in SPLITS:
        records = [record for found, record in corpus.stream() if found == split]
        assert cache.split(split).bytes.tolist() == [len(r["text"].encode()) for r in records]
        groups = [token_shards.group_hash(str(record.group)) for record in records]
        assert cache.split(split).groups.tolist() == groups


BUILD = """
import sys, time
from pathlib import Path
from regard.data.token_cache import building as token_building
from regard.data.token_cache import shards as token_shards
from regard.data.corpus import Data, open_corpus
from regard.data.tokenizers.tokenizer import Tokenizer

token_shards.SHARD_CHARACTERS = 3000
folder, processes, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
made, tokenize = [], token_building.tokenize_shard

def counted(shard, *arguments, **settings):
    made.append(shard.number)
    time.sleep(pause)
    return tokenize(shard, *arguments, **settings)

token_building.tokenize_shard = counted
corpus = open_corpus(Data(corpus=str(folder / "a.txt"), dev=0.2, test=0.2))
cache = token_building.load_or_build_cache(
    corpus, Tokenizer.load(folder / "tokenizer"), processes=processes,
    on_progress=lambda done, total: print("done", done, flush=True),
)
print("made", len(made), cache.folder)
"""


def start_build(folder: Path, *, processes: int = 1, pause: float = 0.0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(folder), str(processes), str(pause)],
        env=os.environ | {"REGARD_CACHE": str(folder / "home")},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def built(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(token_shards, "SHARD_CHARACTERS", 3000)
    tokenizer.save(tmp_path / "tokenizer")
    return write_corpus(tmp_path, some_texts(2500), dev=0.2, test=0.2)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_killed_build_goes_on(
    built: Corpus, tmp_path: Path, tokenizer: Tokenizer, processes: int
) -> None:
    loaded = Tokenizer.load(tmp_path / "tokenizer")
    process = start_build(tmp_path, processes=processes, pause=0.02)
    assert process.stdout is not None
    for _ in range(6):
        assert process.stdout.readline().startswith("done")
    process.kill()
    process.communicate()
    [building] = (cache_home() / "tokens").glob(f"{UNFINISHED[:-1]}building")
    done = {file: file.stat().st_mtime_ns for file in building.glob("shards/0*/shard.json")}
    assert len(done) >= 6
    cache = load_or_build_cache(built, loaded, processes=processes)
    kept = [cache.folder / file.relative_to(building) for file in done]
    assert [file.stat().st_mtime_ns for file in kept] == list(done.values())
    assert [path.name for path in cache.folder.parent.iterdir()] == [cache.folder.name]
    again = build_cache(built, loaded, tmp_path / "whole")
    assert (again.meta, ids_of(again)) == (cache.meta, ids_of(cache))


def test_two_preparations_do_the_work_once(built: Corpus, tmp_path: Path) -> None:
    both = [start_build(tmp_path, pause=0.02) for _ in range(2)]
    lines = [process.communicate(timeout=120)[0].splitlines()[-1].split() for process in both]
    shards = len(list(cut_shards(built.stream())))
    assert sorted(int(line[1]) for line in lines) == [0, shards]
    assert lines[0][2] == lines[1][2]


def test_a_damaged_shard_is_made_again(tmp_path: Path, tokenizer: Tokenizer, built: Corpus) -> None:
    [first, *_] = cut_shards(built.stream())
    same = made_with(tokenizer, None)
    made = token_shards.tokenize_shard(first, tmp_path, tokenizer, max_tokens=None, made_with=same)
    assert find_shard(tmp_path, first, made_with=same) is not None
    assert find_shard(tmp_path, first, made_with=made_with(tokenizer, 5)) is None
    file = made.folder / "train.tokens.bin"
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert find_shard(tmp_path, first, made_with=same) is None
    file.write_bytes(content)
    other = next(cut_shards((split, record) for split, record in list(built.stream())[1:]))
    assert find_shard(tmp_path, other, made_with=same) is None


def test_a_process_that_is_killed_is_one_sentence(
    tmp_path: Path, tokenizer: Tokenizer, built: Corpus
) -> None:
    process = TokenProcess(tmp_path / "shards", tokenizer, max_tokens=None)
    shards = iter(list(cut_shards(built.stream())))
    process.tokenize(next(shards))
    process._process.kill()
    process._process.wait()
    with pytest.raises(ProcessEndedError, match="a process that tokenizes has ended"):
        process.tokenize(next(shards))
    process.close()


def test_what_a_process_refuses_is_said(
    tmp_path: Path, tokenizer: Tokenizer, built: Corpus
) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(UserError, match="a file"):
        list(
            tokenize_in_processes(
                cut_shards(built.stream()),
                tmp_path / "a file",
                tokenizer,
                max_tokens=None,
                processes=2,
            )
        )


def test_abandoned_builds_are_removed_and_nothing_else(
    built: Corpus, tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = cache_home() / "tokens"
    home.mkdir(parents=True)
    names = {f".{'a' * 24}.building": False, f".{'b' * 24}.building": True, ".mine-old": True}
    for name, stays in names.items():
        (home / name).mkdir()
        age = 0 if stays and name != ".mine-old" else 2 * token_building.ABANDONED_SECONDS
        os.utime(home / name, (time.time() - age,) * 2)
    cache = load_or_build_cache(built, tokenizer)
    assert {path.name for path in home.iterdir()} == {
        cache.folder.name, *(name for name, stays in names.items() if stays)
    }  # fmt: skip
    open_cache(cache.folder, tokenizer)
