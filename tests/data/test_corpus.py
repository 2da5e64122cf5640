"""The [data] settings and the corpus they open: sources, splits, errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.text_files import write_lines

from regard.core.catalog import Entry
from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.data.corpus import SPLITS, Corpus, Data, open_corpus, split_point
from regard.data.readers.records import Column, ReadOptions
from regard.data.sources import BuiltinSource


def write_numbered(path: Path, count: int) -> str:
    return write_lines(path, *(f"text number {i}" for i in range(count)))


def texts_by_split(corpus: Corpus) -> dict[str, list[str]]:
    return {split: list(corpus.texts(split)) for split in SPLITS}


def error_message(**data: Any) -> str:
    with pytest.raises(UserError) as caught:
        list(open_corpus(Data(**data)).texts_with_split())
    return str(caught.value)


def test_settings_round_trip_through_a_table() -> None:
    data = Data(corpus=["a.txt", "b.txt"], dev="dev.txt", test=0.1, limit=10)
    assert read_settings(Data, to_table(data)) == data


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"corpus": "a", "dev": 0.5}, "data.dev: 0.5 is not a valid fraction"),
        ({"corpus": "a", "test": 0}, "data.test: 0 is not a valid fraction"),
        ({"corpus": "a", "dev": True}, "data.dev: give a name, a path"),
        ({"corpus": 3}, "data.corpus: give a name, a path, a pattern or a list of these, not 3"),
        ({"corpus": []}, "data.corpus: the name is empty"),
        ({"corpus": "a", "dev": [0.1]}, "not [0.1]"),
        ({"corpus": "a", "unit": "word"}, "data.unit = 'word' is not allowed"),
        ({"corpus": "a", "max_tokens": 0}, "data.max_tokens = 0 is not allowed"),
        ({"corpus": "a", "column": "body"}, "unknown setting data.column"),
        ({"corpus": "a", "cut": 9}, "unknown setting data.cut — did you mean data.max_tokens?"),
        ({}, "data.corpus is missing"),
    ],
)
def test_invalid_settings_are_named_by_key(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_settings(Data, table, key="data")
    assert message in str(caught.value)


def test_fractions_split_the_texts_without_loss(tmp_path: Path) -> None:
    corpus = open_corpus(Data(corpus=write_numbered(tmp_path / "a.txt", 4000), dev=0.1, test=0.2))
    splits = texts_by_split(corpus)
    assert sorted(chain.from_iterable(splits.values())) == sorted(
        f"text number {i}" for i in range(4000)
    )
    # 4 standard deviations of a binomial around each fraction
    assert abs(len(splits["dev"]) - 400) < 4 * 19
    assert abs(len(splits["test"]) - 800) < 4 * 26
    one_pass = {
        split: [text for found, text in corpus.texts_with_split() if found == split]
        for split in SPLITS
    }
    assert one_pass == splits


def test_duplicates_stay_together_and_order_does_not_matter(tmp_path: Path) -> None:
    texts = [f"text {i % 50}" for i in range(200)]
    forwards = open_corpus(Data(corpus=write_lines(tmp_path / "a.txt", *texts), dev=0.3, test=0.3))
    backwards = open_corpus(
        Data(corpus=write_lines(tmp_path / "b.txt", *texts[::-1]), dev=0.3, test=0.3)
    )
    sets = {split: set(texts) for split, texts in texts_by_split(forwards).items()}
    assert sum(map(len, sets.values())) == 50
    assert sets == {split: set(texts) for split, texts in texts_by_split(backwards).items()}


def test_split_depends_on_the_seed_and_dev_not_on_the_fraction_of_test(tmp_path: Path) -> None:
    name = write_numbered(tmp_path / "a.txt", 500)
    dev = {
        (seed, test): list(open_corpus(Data(corpus=name, split_seed=seed, test=test)).texts("dev"))
        for seed in (0, 1)
        for test in (0.05, 0.4)
    }
    assert dev[0, 0.05] != dev[1, 0.05]
    assert dev[0, 0.05] == dev[0, 0.4]


@given(st.text(), st.integers())
def test_split_points_lie_in_the_unit_interval(group: str, seed: int) -> None:
    assert 0 <= split_point(group.encode(errors="replace").decode(), seed=seed) < 1


def test_groups_are_not_divided(tmp_path: Path) -> None:
    def texts() -> Iterator[dict[str, str]]:
        return ({"text": f"text {i}", "group": f"group {i // 10}"} for i in range(1000))

    entry = Entry("corpus", "grouped", texts, {"generated": True})
    source = BuiltinSource("grouped", ReadOptions(), entry)
    corpus = Corpus(
        Data(corpus="grouped", dev=0.3, test=0.3), {"train": [source]}, {"text": Column()}
    )
    groups = {
        split: {int(text.split()[1]) // 10 for text in texts}
        for split, texts in texts_by_split(corpus).items()
    }
    assert sum(map(len, groups.values())) == 100
    assert min(map(len, groups.values())) > 10
    assert corpus.generated
    assert "(generated)" in corpus.describe()


def test_separate_files_for_dev_and_test(tmp_path: Path) -> None:
    corpus = open_corpus(
        Data(
            corpus=write_numbered(tmp_path / "a.txt", 100),
            dev=write_lines(tmp_path / "dev.txt", "d"),
            test=[write_lines(tmp_path / "test.txt", "t"), write_lines(tmp_path / "more.txt", "u")],
        )
    )
    splits = texts_by_split(corpus)
    assert (len(splits["train"]), splits["dev"], splits["test"]) == (100, ["d"], ["t", "u"])


def test_same_file_for_train_and_dev_or_test_is_refused(tmp_path: Path) -> None:
    name = write_numbered(tmp_path / "a.txt", 9)
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    assert "given both as data.corpus and as data.dev" in error_message(corpus=name, dev=name)
    message = error_message(corpus=name, test=str(tmp_path / "link.txt"))
    assert "given both as data.corpus and as data.test" in message
    assert "given twice in data.corpus" in error_message(corpus=[name, str(tmp_path / "*.txt")])
    assert "both as data.corpus and as data.dev" in error_message(
        corpus="python-docs", dev="python-docs"
    )


def test_folders_globs_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "in" / "b.txt", "b")
    write_lines(tmp_path / "in" / "deep" / "a.csv", "text", "a")
    write_lines(tmp_path / "in" / "README.md", "not data")
    write_lines(tmp_path / "in" / ".hidden.txt", "hidden")
    write_lines(tmp_path / "notes" / "n.md", "note")

    def texts(name: str) -> list[str]:
        return [text for _, text in open_corpus(Data(corpus=name)).texts_with_split()]

    monkeypatch.chdir(tmp_path)
    assert texts("in") == ["b", "a"]
    assert texts("notes") == ["note"]
    assert texts("in/*.md") == ["not data"]
    assert texts("**/*.txt") == ["b"]
    assert "1 files of other formats" in open_corpus(Data(corpus="in")).describe()


def test_missing_sources(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no such file, folder or built-in corpus" in error_message(corpus="nowhere.txt")
    assert "did you mean python-docs?" in error_message(corpus="python-doc")
    assert "no file matches this pattern" in error_message(corpus=str(tmp_path / "*.txt"))
    assert "there is no file in this folder" in error_message(corpus=str(tmp_path / "empty"))


def test_empty_file_is_an_error_unless_there_are_others(tmp_path: Path) -> None:
    empty = write_lines(tmp_path / "in" / "a.txt")
    message = error_message(corpus=empty)
    assert message.startswith(f"data: {empty}: ")
    assert "no document in this file" in message
    blank = write_lines(tmp_path / "in" / "b.txt", "", " ")
    assert "in this file: 2 empty rows dropped" in error_message(corpus=blank)
    write_lines(tmp_path / "in" / "c.txt", "text")
    corpus = open_corpus(Data(corpus=str(tmp_path / "in")))
    assert [text for _, text in corpus.texts_with_split()] == ["text"]
    assert corpus.dropped.as_dict()["empty"] == 2


def test_limit_takes_the_first_documents(tmp_path: Path) -> None:
    corpus = open_corpus(Data(corpus=write_numbered(tmp_path / "a.txt", 100), limit=7))
    assert sorted(text for _, text in corpus.texts_with_split()) == [
        f"text number {i}" for i in range(7)
    ]


def test_edited_file_has_another_identity(tmp_path: Path) -> None:
    name = write_lines(tmp_path / "a.txt", "one")
    corpus = open_corpus(Data(corpus=name))
    before = list(corpus.identities())
    write_lines(tmp_path / "a.txt", "two")
    after = list(corpus.identities())
    assert (before[0][1].size, before[0][1].name) == (after[0][1].size, after[0][1].name)
    assert before[0][1].sha256 != after[0][1].sha256


class FakeTable:
    """The methods of a Hugging Face dataset that are used here."""

    def __init__(self, columns: dict[str, list[Any]], file: Path) -> None:
        self.columns, self.cache_files = columns, [{"filename": str(file)}]
        self.column_names = list(columns)

    def select_columns(self, names: list[str]) -> FakeTable:
        return self

    def iter(self, batch_size: int) -> Any:
        yield from (batch.to_pydict() for batch in pa.table(self.columns).to_batches(batch_size))


def test_hub_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(write_lines(tmp_path / "x.arrow", "content"))
    calls = []

    def load_dataset(name: str, config: str | None, *, split: str) -> FakeTable:
        calls.append((name, config, split))
        if name == "nobody/nothing":
            raise ConnectionError("no route\nto the hub")
        return FakeTable({"text": ["a", None, "b"], "label": [1, 2, 3]}, file)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    corpus = open_corpus(Data(corpus="hub:user/name:config", dev="hub:user/name@test"))
    assert [text for _, text in corpus.texts_with_split()] == ["a", "b", "a", "b"]
    assert calls == [("user/name", "config", "train"), ("user/name", None, "test")]
    assert corpus.dropped.as_dict()["empty"] == 2
    assert [identity.size for _, identity in corpus.identities()] == [8, 8]
    assert "could not be loaded (no route)" in error_message(corpus="hub:nobody/nothing")
    assert "there are 'text', 'label'" in error_message(corpus="hub:a", text="body")
    assert "row 1: 'label' holds a number" in error_message(corpus="hub:a", text="label")


def test_hub_without_the_datasets_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'regard[hub]'" in error_message(corpus="hub:imdb")
    assert "name is missing" in error_message(corpus="hub:")
