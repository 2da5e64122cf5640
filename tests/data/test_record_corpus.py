"""Records by role: types, missing columns, splits, built-in sets, fingerprints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.data.text_files import write_lines

from regard.core.errors import UserError
from regard.core.settings import read_settings, to_table
from regard.data.builtin import BUILTIN
from regard.data.corpus import SPLITS, Corpus, Data, open_corpus
from regard.data.record_corpus import Record, fingerprint_rows
from regard.data.splits import split_point

COLUMNS = {"text": "review", "label": "stars"}


def write_table(path: Path, count: int = 400) -> str:
    """Rows of 20 films with ten reviews each, every review twice."""
    rows = (f"review {i // 2},{i % 5},film {i // 20}" for i in range(count))
    return write_lines(path, "review,stars,film", *rows)


def open_rows(columns: dict[str, str] | None = None, **settings: Any) -> Corpus:
    options = {name: settings.pop(name) for name in ("types", "optional") if name in settings}
    return open_corpus(Data(**settings), columns or COLUMNS, **options)


def error_message(columns: dict[str, str] | None = None, **settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        open_rows(columns, **settings).rows("train")
    return str(caught.value)


def settings_error(**settings: Any) -> str:
    with pytest.raises(UserError) as caught:
        read_settings(Data, {"corpus": "a.csv", **settings}, key="data")
    return str(caught.value)


def test_rows_by_role_with_their_location(tmp_path: Path) -> None:
    name = write_lines(tmp_path / "a.csv", "stars,review", "4,good", '1,"bad,\nvery"', "2,dull")
    corpus = open_rows(
        corpus=name, test=write_lines(tmp_path / "t.csv", "review,stars", "t,1"), dev=0.4
    )
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
    corpus = open_rows(corpus=write_lines(tmp_path / "a.jsonl", *lines))
    assert [row["label"] for row in corpus.all_records()] == [4, True, 2.5, ["a", "b"]]
    typed = {"stars": [[1, 2], [], [3]], "review": ["one", "two", "three"], "n": [1, None, 3]}
    pq.write_table(pa.table(typed), tmp_path / "a.parquet")
    rows = open_rows({**COLUMNS, "n": "n"}, corpus=str(tmp_path / "a.parquet"), optional=("n",))
    assert rows.all_records() == [
        {"text": "one", "label": [1, 2], "n": 1},
        {"text": "two", "label": []},
        {"text": "three", "label": [3], "n": 3},
    ]


def test_missing_columns_name_the_setting_and_a_guess(tmp_path: Path) -> None:
    name = write_lines(tmp_path / "a.csv", "revew,stars", "a,1")
    message = error_message(corpus=name)
    assert message.startswith(f"data: {name}: no column 'review'")
    for said in (
        "there are 'revew', 'stars'",
        "did you mean 'revew'",
        "Set task.text",
        "data.header = false",
    ):
        assert said in message
    message = error_message({"text": "revew", "label": "star"}, corpus=name)
    assert "no column 'star'" in message
    assert "did you mean 'stars'? Set task.label" in message
    name = write_lines(tmp_path / "a.jsonl", '{"review": "a", "stars": 1}', '{"review": "b"}')
    message = error_message(corpus=name)
    assert "line 2: no key 'stars'" in message
    assert "there is 'review'" in message
    assert "task.label" in message
    name = write_lines(tmp_path / "a.txt", "a")
    message = error_message(corpus=name)
    assert "no column 'stars'; there is 'text'" in message
    assert "task.label" in message


def test_optional_columns_may_be_missing(tmp_path: Path) -> None:
    lines = ['{"review": "a", "stars": 1}', '{"review": "b"}', '{"review": "c", "stars": null}']
    corpus = open_rows(corpus=write_lines(tmp_path / "a.jsonl", *lines), optional=("label",))
    assert corpus.all_records() == [{"text": "a", "label": 1}, {"text": "b"}, {"text": "c"}]
    plain_text = open_rows(corpus=write_lines(tmp_path / "a.txt", "a", "b"), optional=("label",))
    assert plain_text.all_records() == [{"text": "a"}, {"text": "b"}]
    csv_table = open_rows(
        corpus=write_lines(tmp_path / "a.csv", "review", "a"), optional=("label",)
    )
    assert csv_table.all_records() == [{"text": "a"}]


def test_empty_and_bad_rows_are_counted(tmp_path: Path) -> None:
    lines = ['{"review": " ", "stars": 1}', '{"review": "b", "stars": null}', "{", '{"review": 3}']
    name = write_lines(tmp_path / "a.jsonl", '{"review": "a", "stars": 1}', *lines)
    assert "line 3: 'stars' holds nothing" in error_message(corpus=name)
    corpus = open_rows(corpus=name, skip_bad_rows=True)
    assert corpus.all_records() == [{"text": "a", "label": 1}]
    assert (corpus.dropped.as_dict()["empty"], corpus.dropped.as_dict()["bad"]) == (1, 3)
    dropped = corpus.describe().rpartition(" · ")[2]
    assert dropped.split(", ") == ["1 empty row dropped", "3 bad rows dropped"]
    assert "there is no document" in error_message(
        corpus=write_lines(tmp_path / "b.csv", "review,stars")
    )
    assert "there is no document" in error_message(corpus=write_lines(tmp_path / "c.csv"))


def test_role_with_a_list_of_texts(tmp_path: Path) -> None:
    lines = ['{"s": ["a.", "b."], "t": "x"}', '{"s": [], "t": "y"}', '{"s": "c.", "t": "z"}']
    name = write_lines(tmp_path / "a.jsonl", *lines)
    columns = {"source": "s", "target": "t"}
    corpus = open_rows(columns, corpus=name, types={"source": "texts"})
    assert [row["source"] for row in corpus.all_records()] == [["a.", "b."], "c."]
    assert corpus.dropped.as_dict()["empty"] == 1
    assert "line 1: 's' holds a list" in error_message(columns, corpus=name)
    name = write_lines(tmp_path / "b.jsonl", '{"s": ["a", 1], "t": "x"}')
    message = error_message(columns, corpus=name, types={"source": "texts"})
    assert "'s' holds a list, neither text nor" in message


def test_columns_are_numbered_without_a_header(tmp_path: Path) -> None:
    rows = ["a\t1\tgood", "b\t2\tbad\textra\tmore", "", 'c\t3\t"dull']
    name = write_lines(tmp_path / "a.tsv", *rows)
    columns = {"text": "3", "label": "2", "more": "5"}
    corpus = open_rows(columns, corpus=name, header=False, optional=("more",))
    assert corpus.all_records() == [
        {"text": "good", "label": "1"},
        {"text": "bad", "label": "2", "more": "more"},
        {"text": '"dull', "label": "3"},
    ]
    message = error_message({"text": "4", "label": "2"}, corpus=name, header=False)
    assert f"{name}, row 1: 3 columns" in message
    assert "task.text names column 4" in message
    message = error_message(corpus=name, header=False)
    assert "1, 2, …, and task.text is 'review'" in message
    assert "task.text is '0'" in error_message({"text": "0"}, corpus=name, header=False)
    other = write_lines(tmp_path / "a.jsonl", '{"1": "a"}')
    assert "data.header = false is for CSV" in error_message(corpus=other, header=False)
    texts = open_corpus(Data(corpus=name, header=False, text="1"))
    assert [text for _, text in texts.texts_with_split()] == ["a", "b", "c"]


def test_duplicates_and_groups_never_straddle_splits(tmp_path: Path) -> None:
    name = write_table(tmp_path / "a.csv")
    by_text = open_rows(corpus=name, dev=0.3, test=0.3)
    texts = {split: {row["text"] for row in by_text.rows(split)} for split in SPLITS}
    assert sum(map(len, texts.values())) == 200
    by_film = open_rows({**COLUMNS, "film": "film"}, corpus=name, dev=0.3, test=0.3, group="film")
    films = {split: {row["film"] for row in by_film.rows(split)} for split in SPLITS}
    assert sum(map(len, films.values())) == 20
    assert by_film.describe().count("30 % of it by film") == 2
    assert open_rows(corpus=name, dev=0.3, test=0.3, group="film").rows("dev")[0].keys() == {
        "text",
        "label",
    }
    assert "no column 'fulm'" in error_message(corpus=name, group="fulm")
    assert "Set data.group to" in error_message(corpus=name, group="fulm")
    lm = open_corpus(Data(corpus=name, text="review", dev=0.3, test=0.3, group="film"))
    assert list(lm.texts("dev")) == [row["text"] for row in by_film.rows("dev")]


def test_records_know_their_group(tmp_path: Path) -> None:
    name = write_table(tmp_path / "a.csv")
    rows = open_rows({**COLUMNS, "film": "film"}, corpus=name, dev=0.3, test=0.3, group="film")
    assert all(row.group == row["film"] for row in rows.all_records())
    assert {row.group for row in open_rows(corpus=name).all_records()} == {None}


def test_files_of_dev_and_test_give_groups_where_they_have_the_column(tmp_path: Path) -> None:
    name, with_film = (write_table(tmp_path / file) for file in ("a.csv", "dev.csv"))
    without = write_lines(tmp_path / "test.csv", "review,stars", "the end,5")
    corpus = open_rows(corpus=name, dev=with_film, test=without, group="film")
    assert {row.group for row in corpus.rows("dev")} == {f"film {i}" for i in range(20)}
    assert [row.group for row in corpus.rows("test")] == [None]
    assert all("data.group" not in row for row in corpus.all_records())


def test_row_without_a_group_is_split_by_its_text(tmp_path: Path) -> None:
    rows = [f"review {i % 100},1," for i in range(200)]
    name = write_lines(tmp_path / "a.csv", "review,stars,film", *rows)
    grouped = open_rows(corpus=name, group="film", dev=0.3, test=0.3)
    assert grouped.rows("dev") == open_rows(corpus=name, dev=0.3, test=0.3).rows("dev")


def test_splits_by_the_values_of_a_column(tmp_path: Path) -> None:
    name = write_table(tmp_path / "a.csv")
    dev, test = {"film": ["film 3"]}, {"film": ["film 1", "film 2"]}
    corpus = open_rows({**COLUMNS, "film": "film"}, corpus=name, dev=dev, test=test)
    assert {split: {row["film"] for row in corpus.rows(split)} for split in ("dev", "test")} == {
        "dev": {"film 3"},
        "test": {"film 1", "film 2"},
    }
    assert len(corpus.rows("train")) == 400 - 60
    described = corpus.describe().split(" · ")
    assert {"dev film = film 3", "test film = film 1, film 2"} <= set(described)
    mixed = open_rows({**COLUMNS, "film": "film"}, corpus=name, dev=0.3, test=test, group="film")
    assert {row["film"] for row in mixed.rows("test")} == {"film 1", "film 2"}
    assert {row["film"] for row in mixed.rows("dev")}.isdisjoint({"film 1", "film 2"})
    streamed = open_corpus(Data(corpus=name, text="review", dev=dev, test=test))
    assert len(list(streamed.texts("dev"))) == 20


def test_unseen_split_values_are_refused(tmp_path: Path) -> None:
    name = write_table(tmp_path / "a.csv")
    message = error_message(corpus=name, test={"film": ["film 3", "flim 4"]})
    assert "data.test: no row has 'flim 4'" in message
    assert "column 'film'" in message
    assert "did you mean 'film 4'" in message
    message = error_message(corpus=name, test={"film": "Warsaw"})
    assert "no row has 'Warsaw' in column 'film'" in message
    assert "'film 0', 'film 1', " in message
    assert "no column 'films'" in error_message(corpus=name, test={"films": ["film 3"]})
    with pytest.raises(UserError, match="no row has 'x'"):
        list(open_corpus(Data(corpus=name, text="review", dev={"film": ["x"]})).texts_with_split())
    message = error_message(corpus=name, dev={"stars": ["1"]}, test={"film": ["film 3"]})
    assert "data.dev and data.test both select this row" in message
    assert f"{name}, row " in message


def test_split_by_numbers_and_booleans(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"t{i}", "year": 2000 + i, "odd": i % 2 == 1}) for i in range(8)]
    name = write_lines(tmp_path / "a.jsonl", *lines)
    data = Data(corpus=name, dev={"year": [2001]}, test={"year": ["2002", 2003]})
    corpus = open_corpus(data, {"text": "text"})
    assert [row["text"] for row in corpus.rows("test")] == ["t2", "t3"]
    assert read_settings(Data, to_table(data)) == data
    odd = open_corpus(Data(corpus=name, dev=0.4, test={"odd": True}), {"text": "text"})
    assert [row["text"] for row in odd.rows("test")] == ["t1", "t3", "t5", "t7"]


def test_dev_from_test(tmp_path: Path) -> None:
    name, held_out = write_table(tmp_path / "a.csv"), tmp_path / "t.csv"
    write_lines(held_out, "review,stars", *(f"held_out {i // 2},1" for i in range(400)))
    data = Data(corpus=name, test=str(held_out), dev_from_test=0.5)
    assert read_settings(Data, to_table(data)) == data
    assert "dev" not in to_table(data)
    corpus = open_corpus(data, COLUMNS)
    dev, test = ({row["text"] for row in corpus.rows(split)} for split in ("dev", "test"))
    assert len(dev) + len(test) == 200
    assert abs(len(dev) - 100) < 4 * 7.1  # 4 standard deviations
    assert len(corpus.rows("train")) == 400
    assert "dev 50 % of test" in corpus.describe()
    lm = open_corpus(data.model_copy(update={"text": "review"}))
    assert list(lm.texts("dev")) == [row["text"] for row in corpus.rows("dev")]
    by_fraction = open_rows(corpus=name, test=0.4, dev_from_test=0.5)
    assert min(len(by_fraction.rows(split)) for split in SPLITS) > 40
    other = open_corpus(data.model_copy(update={"split_seed": 1}), COLUMNS)
    assert other.rows("dev") != corpus.rows("dev")
    assert other.rows("train") == corpus.rows("train")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dev": 0.1, "dev_from_test": 0.5}, "data: dev and dev_from_test are both given"),
        ({"dev_from_test": 1.0}, "data.dev_from_test: 1.0 is not allowed"),
        ({"dev": 0}, "data.dev: 0 is not a valid fraction"),
        ({"dev": {}}, "data.dev: name one column and its values"),
        ({"dev": {"a": ["x"], "b": ["y"]}}, "data.dev: name one column and its values"),
        ({"dev": {"a": []}}, "data.dev: give column 'a' a list of values"),
        (
            {"dev": {"a": ["x", "y"]}, "test": {"a": "y"}},
            "'y' is selected both for dev and for test",
        ),
    ],
)
def test_contradicting_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    assert message in settings_error(**settings)


def test_limit_applies_to_each_source(tmp_path: Path) -> None:
    names = [
        write_table(tmp_path / "a.csv"),
        write_lines(tmp_path / "b.csv", "review,stars", "b,1"),
    ]
    corpus = open_rows(corpus=names, limit=7)
    assert len(corpus.all_records()) == 8


def fingerprint(corpus: Corpus) -> str:
    return fingerprint_rows(corpus.all_records())


def test_fingerprints_depend_on_rows_not_on_files(tmp_path: Path) -> None:
    first = open_rows(corpus=write_lines(tmp_path / "a.csv", "review,stars,n", "a,1,x", "b,2,y"))
    second = open_rows(
        {"text": "t", "label": "l"}, corpus=write_lines(tmp_path / "b.tsv", "l\tt", "1\ta", "2\tb")
    )
    other = open_rows(corpus=write_lines(tmp_path / "c.csv", "review,stars", "a,1", "b,3"))
    assert fingerprint(first) == fingerprint(second)
    assert fingerprint(first) != fingerprint(other)
    reversed_rows = open_rows(corpus=write_lines(tmp_path / "d.csv", "review,stars", "b,2", "a,1"))
    assert fingerprint(first) != fingerprint(reversed_rows)


def test_empty_split_is_refused(tmp_path: Path) -> None:
    corpus = open_rows(corpus=write_lines(tmp_path / "a.csv", "review,stars", "a,1"))
    filled = {split for split, _ in corpus._records_with_split}
    empty = next(split for split in SPLITS if split not in filled)
    with pytest.raises(UserError, match=f"none of 1 rows fell into {empty}"):
        corpus.rows(empty)


@pytest.fixture
def builtin_sets() -> Iterator[None]:
    """Built-in sets of records, registered for one test."""

    def three_splits() -> Iterator[dict[str, Any]]:
        for i in range(60):
            split = ("train", "train", "dev", "test")[i % 4]
            yield {"text": f"text {i}", "label": i, "split": split}

    def two_splits() -> Iterator[dict[str, Any]]:
        for i in range(200):
            split = "test" if i % 4 == 0 else "train"
            yield {"text": f"text {i}", "label": i, "split": split, "group": i // 4}

    BUILTIN.names()
    functions: dict[str, Any] = {"three-split-set": three_splits, "two-split-set": two_splits}
    for name, function in functions.items():
        columns = ("text", "label")
        BUILTIN.add(name, generated=True, columns=columns)(function)
    yield
    for name in functions:
        BUILTIN.remove(name)


def test_set_of_the_users_is_read_again_at_each_pass_and_checked() -> None:
    passes = []

    def mine() -> Iterator[object]:
        passes.append(len(passes))
        yield {"text": "a"}
        yield "b"

    BUILTIN.names()
    BUILTIN.add("mine", generated=False)(mine)
    try:
        corpus = open_corpus(Data(corpus="mine"))
        for _ in range(2):
            with pytest.raises(
                UserError, match=r"mine \(.*test_record_corpus.py.* a str, not a dict"
            ):
                list(corpus.texts("train"))
        assert len(passes) >= 2
    finally:
        BUILTIN.remove("mine")


def test_set_declares_only_what_is_known() -> None:
    with pytest.raises(UserError, match="'mine': unknown property column — did you mean columns"):
        BUILTIN.add("mine", generated=True, column=("text",))


@pytest.mark.usefixtures("builtin_sets")
def test_builtin_set_with_predefined_splits(tmp_path: Path) -> None:
    columns = {"text": "text", "label": "label"}
    corpus = open_rows(columns, corpus="three-split-set")
    assert {split: [row["label"] for row in corpus.rows(split)] for split in ("dev", "test")} == {
        "dev": list(range(2, 60, 4)),
        "test": list(range(3, 60, 4)),
    }
    assert corpus.describe().split(" · ") == [
        "three-split-set (generated)",
        "dev predefined",
        "test predefined",
    ]
    assert corpus.rows("dev")[0].at == "three-split-set, row 3"
    assert corpus.rows("dev")[0].keys() == {"text", "label"}
    assert len(list(corpus.identities())) == 1
    assert list(open_corpus(Data(corpus="three-split-set")).texts("test")) == [
        row["text"] for row in corpus.rows("test")
    ]
    held_out = open_rows(
        columns, corpus=write_lines(tmp_path / "a.csv", "text,label", "a,1"), test="three-split-set"
    )
    assert held_out.rows("test") == corpus.rows("test")
    few = open_rows(columns, corpus="three-split-set", limit=2)
    assert {split: len(few.rows(split)) for split in SPLITS} == {"train": 2, "dev": 2, "test": 2}


@pytest.mark.usefixtures("builtin_sets")
def test_missing_dev_split_is_drawn_from_train() -> None:
    corpus = open_rows({"text": "text", "label": "label"}, corpus="two-split-set", dev=0.3)
    assert [row["label"] for row in corpus.rows("test")] == list(range(0, 200, 4))
    groups = {
        split: {row["label"] // 4 for row in corpus.rows(split)} for split in ("train", "dev")
    }
    assert len(groups["dev"]) > 5
    assert groups["train"].isdisjoint(groups["dev"])


@pytest.mark.usefixtures("builtin_sets")
def test_predefined_splits_cannot_be_given_again(tmp_path: Path) -> None:
    columns = {"text": "text", "label": "label"}
    file = write_lines(tmp_path / "a.csv", "text,label", "a,1")
    for settings in ({"test": file}, {"test": {"label": [3]}}):
        message = error_message(columns, corpus="three-split-set", **settings)
        assert "data.test: three-split-set has a predefined test split" in message
        assert message.endswith("Remove data.test.")
    message = error_message(columns, corpus="three-split-set", dev_from_test=0.5)
    assert "data.dev_from_test: three-split-set has a predefined dev split" in message
    message = error_message(columns, corpus=file, dev="two-split-set")
    assert "two-split-set has no dev split" in message
    halved = open_rows(columns, corpus="two-split-set", dev_from_test=0.5)
    assert len(halved.rows("dev")) + len(halved.rows("test")) == 50
    message = error_message({"text": "txt"}, corpus="three-split-set")
    assert "three-split-set: no column 'txt'" in message
    assert "there are 'text', 'label'" in message
    assert "did you mean 'text'" in message


def test_record_is_a_dict_with_a_location() -> None:
    record = Record({"a": 1}, at="x.csv, row 2")
    assert (record, record["a"], record.at, record.split) == ({"a": 1}, 1, "x.csv, row 2", None)


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ({"text": "a", "split": "valid"}, "split 'valid'.*train, dev, test"),
        ({"body": "a"}, "no text, but body.*columns="),
        ({"text": "a", "weight": object()}, "JSON.*object.*files="),
    ],
)
def test_row_of_the_users_is_refused(row: dict[str, Any], facts: str) -> None:
    BUILTIN.names()
    BUILTIN.add("mine", generated=False)(lambda: iter([row]))
    try:
        corpus = open_corpus(Data(corpus="mine"))
        with pytest.raises(UserError, match=facts):
            list(corpus.identities())
    finally:
        BUILTIN.remove("mine")


def test_set_has_to_say_whether_it_is_generated() -> None:
    with pytest.raises(UserError, match="corpus 'mine': generated is missing"):
        BUILTIN.add("mine")


@pytest.mark.parametrize(
    ("settings", "found"),
    [({}, "2 different texts"), ({"group": "n"}, "1 different values of n")],
)
def test_split_without_rows_says_how_few_the_rows_are(
    tmp_path: Path, settings: dict[str, str], found: str
) -> None:
    (tmp_path / "a.csv").write_text("text,label,n\n" + "a,x,1\nb,y,1\n" * 20)
    data = Data(corpus=(str(tmp_path / "a.csv"),), dev=0.01, test=0.01, **settings)
    with pytest.raises(UserError, match="none of 40 rows fell into dev, for they have " + found):
        open_corpus(data, {"text": "text", "label": "label"}).rows("dev")


def test_empty_label_is_refused_or_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\na,x\nb, \nc,y\n")
    columns = {"text": "text", "label": "label"}
    data = Data(corpus=(str(tmp_path / "a.csv"),))
    corpus = open_corpus(data, columns, types={"label": "label"})
    with pytest.raises(UserError, match="row 3: 'label' holds nothing"):
        corpus.all_records()
    data = Data(corpus=(str(tmp_path / "a.csv"),), skip_bad_rows=True)
    corpus = open_corpus(data, columns, types={"label": "label"})
    assert [row["label"] for row in corpus.all_records()] == ["x", "y"]
    assert corpus.dropped.total("bad") == 1


@given(st.integers(3, 60), st.sampled_from([0.05, 0.01, 0.3]), st.integers(0, 5))
def test_a_fraction_of_few_records_leaves_no_split_empty(
    tmp_path_factory: pytest.TempPathFactory, count: int, fraction: float, seed: int
) -> None:
    file = tmp_path_factory.mktemp("few") / "few.txt"
    file.write_text("".join(f"sentence {number}\n" for number in range(count)))
    data = {"corpus": str(file), "dev": fraction, "test": fraction, "split_seed": seed}
    texts = file.read_text().splitlines()
    for split in ("dev", "test"):
        assume(not all(inside(text, split, data) for text in texts))
    corpus = open_corpus(read_settings(Data, data))
    splits = {split: list(corpus.texts(split)) for split in SPLITS}
    assert splits["dev"]
    assert splits["test"]
    assert sum(map(len, splits.values())) == count
    for split in ("dev", "test"):
        drawn = [text for text in texts if inside(text, split, data)]
        if drawn:  # the fraction alone suffices, and nothing is changed
            assert splits[split] == drawn
        else:
            assert len(splits[split]) == 1


def inside(text: str, split: str, data: dict[str, Any]) -> bool:
    point = split_point(text, seed=data["split_seed"])
    return point < data["dev"] if split == "dev" else point >= 1 - data["test"]
