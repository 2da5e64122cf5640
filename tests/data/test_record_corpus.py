"""Records by role: types, missing columns, parts, built-in sets, fingerprints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.data.builtin import BUILTIN
from regard.data.corpus import SPLITS, Data, open_corpus
from regard.data.record_corpus import Record, RecordCorpus, open_records

COLUMNS = {"text": "review", "label": "stars"}


def put(path: Path, *rows: str) -> str:
    path.write_text("".join(f"{row}\n" for row in rows))
    return str(path)


def table(path: Path, count: int = 400) -> str:
    """Rows of 20 films, ten reviews each of which stand twice."""
    rows = (f"review {i // 2},{i % 5},film {i // 20}" for i in range(count))
    return put(path, "review,stars,film", *rows)


def opened(columns: dict[str, str] | None = None, **settings: Any) -> RecordCorpus:
    options = {name: settings.pop(name) for name in ("holds", "optional") if name in settings}
    return open_records(Data(**settings), columns or COLUMNS, **options)


def complaint(columns: dict[str, str] | None = None, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        opened(columns, **settings).rows("train")
    return str(caught.value)


def wrong_settings(**settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        read_settings(Data, {"corpus": "a.csv", **settings}, key="data")
    return str(caught.value)


def test_rows_by_role_say_where_they_stand(tmp_path: Path) -> None:
    name = put(tmp_path / "a.csv", "stars,review", "4,good", '1,"bad,\nvery"', "2,dull")
    corpus = opened(corpus=name, test=put(tmp_path / "t.csv", "review,stars", "t,1"), dev=0.4)
    rows = sorted(corpus.all_records(), key=lambda record: record.at)
    assert rows[:3] == [
        {"text": "good", "label": "4"},
        {"text": "bad,\nvery", "label": "1"},
        {"text": "dull", "label": "2"},
    ]
    assert [row.at for row in rows[:3]] == [
        f"{name}, row 2",
        f"{name}, row 3",
        f"{name}, row 4 (line 5)",
    ]
    assert corpus.rows("test") == [{"text": "t", "label": "1"}]


def test_json_and_parquet_keep_types(tmp_path: Path) -> None:
    values = {"stars": [4, True, 2.5, ["a", "b"]], "review": ["one", "two", "three", "four"]}
    lines = [
        json.dumps({"review": text, "stars": value})
        for text, value in zip(values["review"], values["stars"], strict=True)
    ]
    corpus = opened(corpus=put(tmp_path / "a.jsonl", *lines))
    assert [row["label"] for row in corpus.all_records()] == [4, True, 2.5, ["a", "b"]]
    typed = {"stars": [[1, 2], [], [3]], "review": ["one", "two", "three"], "n": [1, None, 3]}
    pq.write_table(pa.table(typed), tmp_path / "a.parquet")
    rows = opened({**COLUMNS, "n": "n"}, corpus=str(tmp_path / "a.parquet"), optional=("n",))
    assert rows.all_records() == [
        {"text": "one", "label": [1, 2], "n": 1},
        {"text": "two", "label": []},
        {"text": "three", "label": [3], "n": 3},
    ]


def test_missing_columns_name_the_setting_and_guess(tmp_path: Path) -> None:
    name = put(tmp_path / "a.csv", "revew,stars", "a,1")
    assert complaint(corpus=name) == (
        f"data: {name}: no column 'review'; there are 'revew', 'stars' — did you mean 'revew'? "
        "Set task.text to the column that holds the text, or set data.header = false if the file "
        "has no header line (columns are then 1, 2 and so on)."
    )
    told = complaint({"text": "revew", "label": "star"}, corpus=name)
    assert "no column 'star'" in told
    assert "did you mean 'stars'? Set task.label to the column that is meant" in told
    name = put(tmp_path / "a.jsonl", '{"review": "a", "stars": 1}', '{"review": "b"}')
    assert "line 2: no key 'stars'; there is 'review'. Set task.label" in complaint(corpus=name)
    name = put(tmp_path / "a.txt", "a")
    assert "no column 'stars'; there is 'text'. Set task.label" in complaint(corpus=name)


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    lines = ['{"review": "a", "stars": 1}', '{"review": "b"}', '{"review": "c", "stars": null}']
    corpus = opened(corpus=put(tmp_path / "a.jsonl", *lines), optional=("label",))
    assert corpus.all_records() == [{"text": "a", "label": 1}, {"text": "b"}, {"text": "c"}]
    plain = opened(corpus=put(tmp_path / "a.txt", "a", "b"), optional=("label",))
    assert plain.all_records() == [{"text": "a"}, {"text": "b"}]
    table = opened(corpus=put(tmp_path / "a.csv", "review", "a"), optional=("label",))
    assert table.all_records() == [{"text": "a"}]


def test_empty_and_bad_rows_are_counted(tmp_path: Path) -> None:
    lines = ['{"review": " ", "stars": 1}', '{"review": "b", "stars": null}', "{", '{"review": 3}']
    name = put(tmp_path / "a.jsonl", '{"review": "a", "stars": 1}', *lines)
    assert "line 3: 'stars' holds nothing" in complaint(corpus=name)
    corpus = opened(corpus=name, skip_bad_rows=True)
    assert corpus.all_records() == [{"text": "a", "label": 1}]
    assert (corpus.dropped.as_dict()["empty"], corpus.dropped.as_dict()["bad"]) == (1, 3)
    assert corpus.describe().endswith("1 empty row dropped, 3 bad rows dropped")
    assert "there is no document" in complaint(corpus=put(tmp_path / "b.csv", "review,stars"))
    assert "there is no document" in complaint(corpus=put(tmp_path / "c.csv"))


def test_a_role_may_hold_a_list_of_texts(tmp_path: Path) -> None:
    lines = ['{"s": ["a.", "b."], "t": "x"}', '{"s": [], "t": "y"}', '{"s": "c.", "t": "z"}']
    name = put(tmp_path / "a.jsonl", *lines)
    columns = {"source": "s", "target": "t"}
    corpus = opened(columns, corpus=name, holds={"source": "texts"})
    assert [row["source"] for row in corpus.all_records()] == [["a.", "b."], "c."]
    assert corpus.dropped.as_dict()["empty"] == 1
    assert "line 1: 's' holds a list, not text" in complaint(columns, corpus=name)
    name = put(tmp_path / "b.jsonl", '{"s": ["a", 1], "t": "x"}')
    told = complaint(columns, corpus=name, holds={"source": "texts"})
    assert "'s' holds a list, neither text nor a list of texts" in told


def test_columns_of_a_table_without_a_header_are_numbers(tmp_path: Path) -> None:
    rows = ["a\t1\tgood", "b\t2\tbad\textra\tmore", "", 'c\t3\t"dull']
    name = put(tmp_path / "a.tsv", *rows)
    columns = {"text": "3", "label": "2", "more": "5"}
    corpus = opened(columns, corpus=name, header=False, optional=("more",))
    assert corpus.all_records() == [
        {"text": "good", "label": "1"},
        {"text": "bad", "label": "2", "more": "more"},
        {"text": '"dull', "label": "3"},
    ]
    told = complaint({"text": "4", "label": "2"}, corpus=name, header=False)
    assert f"{name}, row 1: 3 columns where task.text asks for column 4. Set data.skip" in told
    told = complaint(corpus=name, header=False)
    assert "columns are called 1, 2, …, and task.text asks for 'review'" in told
    assert "task.text asks for '0'" in complaint({"text": "0"}, corpus=name, header=False)
    other = put(tmp_path / "a.jsonl", '{"1": "a"}')
    assert "data.header = false is for CSV and TSV" in complaint(corpus=other, header=False)
    texts = open_corpus(Data(corpus=name, header=False, text="1"))
    assert [text for _, text in texts.texts_with_split()] == ["a", "b", "c"]


def test_duplicates_and_groups_never_straddle(tmp_path: Path) -> None:
    name = table(tmp_path / "a.csv")
    by_text = opened(corpus=name, dev=0.3, test=0.3)
    texts = {part: {row["text"] for row in by_text.rows(part)} for part in SPLITS}
    assert sum(map(len, texts.values())) == 200
    by_film = opened({**COLUMNS, "film": "film"}, corpus=name, dev=0.3, test=0.3, group="film")
    films = {part: {row["film"] for row in by_film.rows(part)} for part in SPLITS}
    assert sum(map(len, films.values())) == 20
    assert by_film.describe().count("30 % of it by film") == 2
    assert opened(corpus=name, dev=0.3, test=0.3, group="film").rows("dev")[0].keys() == {
        "text",
        "label",
    }
    assert "no column 'fulm'" in complaint(corpus=name, group="fulm")
    assert "Set data.group to" in complaint(corpus=name, group="fulm")
    lm = open_corpus(Data(corpus=name, text="review", dev=0.3, test=0.3, group="film"))
    assert list(lm.texts("dev")) == [row["text"] for row in by_film.rows("dev")]


def test_a_row_without_a_group_falls_by_its_text(tmp_path: Path) -> None:
    rows = [f"review {i % 100},1," for i in range(200)]
    name = put(tmp_path / "a.csv", "review,stars,film", *rows)
    grouped = opened(corpus=name, group="film", dev=0.3, test=0.3)
    assert grouped.rows("dev") == opened(corpus=name, dev=0.3, test=0.3).rows("dev")


def test_parts_by_the_values_of_a_column(tmp_path: Path) -> None:
    name = table(tmp_path / "a.csv")
    dev, test = {"film": ["film 3"]}, {"film": ["film 1", "film 2"]}
    corpus = opened({**COLUMNS, "film": "film"}, corpus=name, dev=dev, test=test)
    assert {part: {row["film"] for row in corpus.rows(part)} for part in ("dev", "test")} == {
        "dev": {"film 3"},
        "test": {"film 1", "film 2"},
    }
    assert len(corpus.rows("train")) == 400 - 60
    assert "dev film = film 3 · test film = film 1, film 2" in corpus.describe()
    mixed = opened({**COLUMNS, "film": "film"}, corpus=name, dev=0.3, test=test, group="film")
    assert {row["film"] for row in mixed.rows("test")} == {"film 1", "film 2"}
    assert {row["film"] for row in mixed.rows("dev")}.isdisjoint({"film 1", "film 2"})
    streamed = open_corpus(Data(corpus=name, text="review", dev=dev, test=test))
    assert len(list(streamed.texts("dev"))) == 20


def test_values_that_no_row_has_are_refused(tmp_path: Path) -> None:
    name = table(tmp_path / "a.csv")
    told = complaint(corpus=name, test={"film": ["film 3", "flim 4"]})
    assert "data.test: no row has 'flim 4' in column 'film' — did you mean 'film 4'?" in told
    told = complaint(corpus=name, test={"film": "Warsaw"})
    assert "no row has 'Warsaw' in column 'film'. There are 'film 0', 'film 1', " in told
    assert "no column 'films'" in complaint(corpus=name, test={"films": ["film 3"]})
    with pytest.raises(UserError, match="no row has 'x'"):
        list(open_corpus(Data(corpus=name, text="review", dev={"film": ["x"]})).texts_with_split())
    both = complaint(corpus=name, dev={"stars": ["1"]}, test={"film": ["film 3"]})
    assert "data.dev and data.test both choose this row" in both
    assert f"{name}, row " in both


def test_numbers_and_truths_choose_as_they_are_written(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"t{i}", "year": 2000 + i, "odd": i % 2 == 1}) for i in range(8)]
    name = put(tmp_path / "a.jsonl", *lines)
    data = Data(corpus=name, dev={"year": [2001]}, test={"year": ["2002", 2003]})
    corpus = open_records(data, {"text": "text"})
    assert [row["text"] for row in corpus.rows("test")] == ["t2", "t3"]
    assert read_settings(Data, to_table(data)) == data
    odd = open_records(Data(corpus=name, dev=0.4, test={"odd": True}), {"text": "text"})
    assert [row["text"] for row in odd.rows("test")] == ["t1", "t3", "t5", "t7"]


def test_dev_out_of_test(tmp_path: Path) -> None:
    name, judged = table(tmp_path / "a.csv"), tmp_path / "t.csv"
    put(judged, "review,stars", *(f"judged {i // 2},1" for i in range(400)))
    data = Data(corpus=name, test=str(judged), dev_from_test=0.5)
    assert read_settings(Data, to_table(data)) == data
    assert "dev" not in to_table(data)
    corpus = open_records(data, COLUMNS)
    dev, test = ({row["text"] for row in corpus.rows(part)} for part in ("dev", "test"))
    assert len(dev) + len(test) == 200
    assert abs(len(dev) - 100) < 4 * 7.1  # 4 standard deviations
    assert len(corpus.rows("train")) == 400
    assert "dev 50 % of test" in corpus.describe()
    lm = open_corpus(data.model_copy(update={"text": "review"}))
    assert list(lm.texts("dev")) == [row["text"] for row in corpus.rows("dev")]
    share = opened(corpus=name, test=0.4, dev_from_test=0.5)
    assert min(len(share.rows(part)) for part in SPLITS) > 40
    other = open_records(data.model_copy(update={"split_seed": 1}), COLUMNS)
    assert other.fingerprints["dev"] != corpus.fingerprints["dev"]
    assert other.fingerprints["train"] == corpus.fingerprints["train"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"dev": 0.1, "dev_from_test": 0.5}, "data: dev and dev_from_test are both given"),
        ({"dev_from_test": 1.0}, "data.dev_from_test: 1.0 is not allowed"),
        ({"dev": 0}, "data.dev: 0 is no share"),
        ({"dev": {}}, "data.dev: name one column and its values"),
        ({"dev": {"a": ["x"], "b": ["y"]}}, "data.dev: name one column and its values"),
        ({"dev": {"a": []}}, "data.dev: give column 'a' a list of values"),
        ({"dev": {"a": ["x", "y"]}, "test": {"a": "y"}}, "'y' is chosen both for dev and for test"),
        ({"dev": "d.csv", "test": "t.csv", "group": "a"}, "group cuts shares, and no part is"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], told: str) -> None:
    assert told in wrong_settings(**settings)


def test_limit_is_for_each_source(tmp_path: Path) -> None:
    names = [table(tmp_path / "a.csv"), put(tmp_path / "b.csv", "review,stars", "b,1")]
    corpus = opened(corpus=names, limit=7)
    assert len(corpus.all_records()) == 8


def test_fingerprints_follow_the_rows_and_not_the_file(tmp_path: Path) -> None:
    first = opened(corpus=put(tmp_path / "a.csv", "review,stars,n", "a,1,x", "b,2,y"))
    second = opened(
        {"text": "t", "label": "l"}, corpus=put(tmp_path / "b.tsv", "l\tt", "1\ta", "2\tb")
    )
    other = opened(corpus=put(tmp_path / "c.csv", "review,stars", "a,1", "b,3"))
    assert first.fingerprints == second.fingerprints
    assert first.fingerprints != other.fingerprints
    turned = opened(corpus=put(tmp_path / "d.csv", "review,stars", "b,2", "a,1"))
    assert first.fingerprints["train"] != turned.fingerprints["train"]


def test_a_part_without_rows_is_refused(tmp_path: Path) -> None:
    corpus = opened(corpus=put(tmp_path / "a.csv", "review,stars", "a,1"))
    empty = next(part for part in SPLITS if not any(part == p for p, _ in corpus._parted))
    with pytest.raises(UserError, match=f"none of 1 rows fell into {empty}"):
        corpus.rows(empty)


@pytest.fixture
def sets() -> Iterator[None]:
    """Built-in sets of records, for the time of one test."""

    def identity() -> tuple[str, int, str]:
        return "a set", 1, "0" * 64

    def whole() -> Iterator[dict[str, Any]]:
        for i in range(60):
            part = ("train", "train", "dev", "test")[i % 4]
            yield {"text": f"text {i}", "label": i, "part": part}

    def two() -> Iterator[dict[str, Any]]:
        for i in range(200):
            part = "test" if i % 4 == 0 else "train"
            yield {"text": f"text {i}", "label": i, "part": part, "group": i // 4}

    BUILTIN.names()
    named: dict[str, Any] = {"whole-set": whole, "two-part-set": two}
    for name, part in named.items():
        columns = ("text", "label")
        BUILTIN.add(name, generated=True, identity=identity, columns=columns)(part)
    yield
    for name in named:
        BUILTIN.remove(name)


@pytest.mark.usefixtures("sets")
def test_a_built_in_set_keeps_its_parts(tmp_path: Path) -> None:
    columns = {"text": "text", "label": "label"}
    corpus = opened(columns, corpus="whole-set")
    assert {part: [row["label"] for row in corpus.rows(part)] for part in ("dev", "test")} == {
        "dev": list(range(2, 60, 4)),
        "test": list(range(3, 60, 4)),
    }
    assert corpus.describe() == "whole-set (generated) · dev its own · test its own"
    assert corpus.rows("dev")[0].at == "whole-set, row 3"
    assert corpus.rows("dev")[0].keys() == {"text", "label"}
    assert len(list(corpus.identities())) == 1
    assert list(open_corpus(Data(corpus="whole-set")).texts("test")) == [
        row["text"] for row in corpus.rows("test")
    ]
    judged = opened(columns, corpus=put(tmp_path / "a.csv", "text,label", "a,1"), test="whole-set")
    assert judged.rows("test") == corpus.rows("test")
    few = opened(columns, corpus="whole-set", limit=2)
    assert {part: len(few.rows(part)) for part in SPLITS} == {"train": 2, "dev": 2, "test": 2}


@pytest.mark.usefixtures("sets")
def test_a_set_of_two_parts_gets_a_dev_part_out_of_its_training_rows() -> None:
    corpus = opened({"text": "text", "label": "label"}, corpus="two-part-set", dev=0.3)
    assert [row["label"] for row in corpus.rows("test")] == list(range(0, 200, 4))
    groups = {part: {row["label"] // 4 for row in corpus.rows(part)} for part in ("train", "dev")}
    assert len(groups["dev"]) > 5
    assert groups["train"].isdisjoint(groups["dev"])


@pytest.mark.usefixtures("sets")
def test_what_a_set_brings_is_not_given_twice(tmp_path: Path) -> None:
    columns = {"text": "text", "label": "label"}
    mine = put(tmp_path / "a.csv", "text,label", "a,1")
    for settings in ({"test": mine}, {"test": {"label": [3]}}):
        told = complaint(columns, corpus="whole-set", **settings)
        assert told == "data: data.test: whole-set has a test part of its own. Take data.test out."
    told = complaint(columns, corpus="whole-set", dev_from_test=0.5)
    assert "data.dev_from_test: whole-set has a dev part of its own" in told
    told = complaint(columns, corpus=mine, dev="two-part-set")
    assert "two-part-set has no dev part" in told
    halved = opened(columns, corpus="two-part-set", dev_from_test=0.5)
    assert len(halved.rows("dev")) + len(halved.rows("test")) == 50
    told = complaint({"text": "txt"}, corpus="whole-set")
    assert "whole-set: no column 'txt'; there are 'text', 'label' — did you mean 'text'?" in told


def test_a_record_is_a_dict_with_a_place() -> None:
    record = Record({"a": 1}, at="x.csv, row 2")
    assert (record, record["a"], record.at, record.part) == ({"a": 1}, 1, "x.csv, row 2", None)
