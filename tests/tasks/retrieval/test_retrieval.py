"""Retrieval: what belongs together is found among all documents, by rows or by judgements."""

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.models.families.encoder import Encoder
from regard.runs.preparation.prepare import source_text
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.retrieval.collection import Collection, read_collection, read_judgements
from regard.tasks.retrieval.query_rows import graded_documents, join_rows
from regard.tasks.retrieval.retrieval import Retrieval, text_id
from regard.tasks.retrieval.vector_search import log_denominators, search

TOPICS = [(f"a{one} a{two}", f"b{one} b{two}") for one in range(12) for two in range(one)]
"Query and document of each share no word: which a means which b has to be learnt (generated)."


def write(place: Path, rows) -> str:
    place.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(place)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pairs to learn from; queries alone, judged by a file, to be looked for in all documents."""
    home = tmp_path_factory.mktemp("retrieval")
    order = np.random.default_rng(0).permutation(len(TOPICS)).tolist()
    train, dev, test = order[:-20], order[-20:-10], order[-10:]
    write(home / "documents.jsonl", ({"id": n, "text": d} for n, (_, d) in enumerate(TOPICS)))
    pairs = ({"query": TOPICS[n][0], "document": TOPICS[n][1]} for n in train)
    write(home / "train.jsonl", pairs)
    for name, some in (("dev", dev), ("test", test)):
        write(home / f"{name}.jsonl", ({"query_id": f"q{n}", "query": TOPICS[n][0]} for n in some))
    lines = [f"q{n} 0 {n} 2" for n in (*dev, *test)] + [f"q{n} 0 {n - 1} 0" for n in dev if n]
    (home / "judgements.txt").write_text("\n".join(lines) + "\n")
    return home


def table(files):
    return {
        "name": "search",
        "data": {
            "corpus": str(files / "train.jsonl"),
            "dev": str(files / "dev.jsonl"),
            "test": str(files / "test.jsonl"),
        },
        "tokenizer": {"kind": "word", "minimum_count": 1},
        "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 8},
        "task": {
            "kind": "retrieval",
            "collection": str(files / "documents.jsonl"),
            "judgements": str(files / "judgements.txt"),
        },
        "train": {"epochs": 60, "batch_tokens": 200, "lr": 1e-2, "evaluate_every": 0},
    }


@pytest.fixture(scope="module")
def trained(files):
    return regard.train(Recipe.from_table(table(files)), out=files / "run")


def figures(run, split, metric):
    return {
        row["of"].split()[0]: row["value"]
        for row in run.figures()["figures"]
        if (row["part"], row["metric"]) == (split, metric)
    }


def test_what_was_never_paired_is_found_where_no_word_is_shared(trained):
    for metric in ("ndcg_at_10", "mrr"):
        found = figures(trained, "test", metric)
        assert found["model"] > 0.6  # chance among 66 documents: 0.07
        assert found["BM25"] == 0
    assert any(f"{len(TOPICS)} documents" in text for text in trained.figures()["remarks"])


def test_an_item_says_what_was_found_and_what_is_right(trained):
    lines = (trained.folder / "items" / "test.jsonl").read_text().splitlines()
    for item in map(json.loads, lines):
        number = item["record"]["query_id"][1:]
        assert item["truth"] == [number]
        assert item["found"][0]["document"] == item["predicted"]
        assert item["text"] == TOPICS[int(item["predicted"])][1]
        assert 0 < item["confidence"] <= 1
        # When the right one comes first, the two say the same of it.
        if item["predicted"] == number:
            assert np.exp(-item["loss"]) == pytest.approx(item["confidence"], rel=1e-4)


def test_figures_name_what_was_looked_through(trained):
    signatures = {row["signature"] for row in trained.figures()["figures"]}
    assert all(f"searched:{len(TOPICS)}:" in signature for signature in signatures)
    assert regard.evaluate(trained.folder)["figures"] == trained.figures()["figures"]


def test_a_query_of_ones_own_is_looked_for(trained, tmp_path):
    rows = [{"query": TOPICS[n][0]} for n in range(20)]
    answers = regard.predict(trained.folder, write(tmp_path / "mine.jsonl", rows))
    assert sum(row["predicted"] == str(n) for n, row in enumerate(answers)) > 12
    assert "truth" not in answers[0]


def test_a_model_gives_vectors_without_its_collection(trained, files):
    place = files / "documents.jsonl"
    kept = place.read_bytes()
    place.unlink()
    try:
        assert regard.load(trained.folder).encode(["a1 a0"]).shape == (1, 32)
    finally:
        place.write_bytes(kept)


def test_an_edited_collection_or_judgement_is_another_experiment(files):
    recipe = Recipe.from_table(table(files))
    before = source_text(recipe)
    for name in ("documents.jsonl", "judgements.txt"):
        kept = (files / name).read_bytes()
        (files / name).write_bytes(kept + b"\n")
        assert source_text(recipe) != before
        (files / name).write_bytes(kept)
    assert source_text(recipe) == before


def test_a_batch_is_not_taken_apart(files):
    asked = table(files)
    asked["train"]["accumulate"] = 2
    with pytest.raises(UserError, match=r"accumulate = 2 would hold each row"):
        Recipe.from_table(asked)
    asked["task"] = {"kind": "similarity"}  # rows of other tasks do not look at each other
    assert Recipe.from_table(asked).train.accumulate == 2


# Rows


def row(at="rows.csv, row 2", **values):
    return Record(values, at=at)


def test_rows_of_one_query_are_one_item():
    rows = [
        row(query="who", document="x", relevance="2"),
        row(query="when", document="y"),
        row(query="who ", document="z", relevance=0),
    ]
    who, when = join_rows(rows)
    assert graded_documents(who) == [("x", 2.0), ("z", 0.0)]
    assert graded_documents(when) == [("y", 1.0)]
    assert [relevant for relevant, _ in Retrieval().relevant(who)] == ["x"]


def test_queries_with_ids_are_told_apart_by_them():
    rows = [row(query="who", query_id=1, document="x"), row(query="who", query_id=2, document="y")]
    assert len(join_rows(rows)) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"document": ["x", "y"], "relevance": [1]}, "2 documents and 1 grades"),
        ({"document": "x", "relevance": "good"}, "the grade 'good' is no number"),
        ({"document": "x", "relevance": 0}, "has no relevant document"),
        ({}, "has no document and no judgement"),
    ],
)
def test_rows_that_cannot_be_judged_are_refused_with_their_place(values, message):
    with pytest.raises(UserError, match=message) as caught:
        Retrieval().items([row(query="who", **values)])
    assert "rows.csv, row 2" in str(caught.value)


def test_a_document_that_the_collection_lacks_is_refused(files):
    task = Retrieval(collection=str(files / "documents.jsonl"))
    with pytest.raises(UserError, match=r"is not in task\.collection"):
        task.items([row(query="a1", document="elsewhere")])


def test_judgements_need_a_collection(files):
    asked = table(files)
    del asked["task"]["collection"]
    with pytest.raises(UserError, match="set collection"):
        Recipe.from_table(asked)


def test_a_missing_column_is_named(files, tmp_path):
    asked = table(files)
    asked["task"] = {"kind": "retrieval", "document": "documents"}
    asked["data"] = {"corpus": write(tmp_path / "x.jsonl", [{"query": "a", "document": "b"}] * 9)}
    with pytest.raises(UserError, match="did you mean 'document'"):
        regard.train(Recipe.from_table(asked), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Files of judgements and documents


def test_judgements_are_read_as_people_write_them(tmp_path):
    trec, beir = tmp_path / "a.txt", tmp_path / "b.tsv"
    trec.write_text("1 0 184 3\n1 0  29 -1\n\n")
    beir.write_text("query-id\tcorpus-id\tscore\nq 2\td 1\t1\n")
    assert read_judgements([str(trec), str(beir)]) == {
        "1": {"184": 3.0, "29": -1.0},
        "q 2": {"d 1": 1.0},
    }


@pytest.mark.parametrize(
    ("line", "message"), [("1 0 184", ""), ("1 184 much", "is no judgement"), ("1 184 2", "judged")]
)
def test_a_bad_judgement_is_named_with_its_line(tmp_path, line, message):
    file = tmp_path / "judgements.txt"
    file.write_text(f"1 184 1\n{line}\n")
    if not message:  # three fields are query, document and grade
        assert read_judgements([str(file)])["1"] == {"184": 1.0, "0": 184.0}
        return
    with pytest.raises(UserError, match=message) as caught:
        read_judgements([str(file)])
    assert "line 2" in str(caught.value)


def test_an_id_that_stands_twice_is_refused(tmp_path):
    file = write(tmp_path / "d.jsonl", [{"id": 1, "text": "x"}, {"id": "1", "text": "y"}])
    with pytest.raises(UserError, match="'1' is there twice"):
        read_collection(file, name="id", text="text")


def test_without_a_collection_the_rows_are_looked_through():
    tokenizer = Word(minimum_count=1).train(iter(["x y z who when"]))
    problem = Retrieval().build_problem([], Tools(tokenizer, 8, "encoder"))
    records = [row(query="who", document=["x", "y"]), row(query="when", document="x")]
    body = Encoder(layers=1, heads=2, width=8, context=8).build(vocabulary=tokenizer.size, seed=0)
    answers = problem.answer(problem.attach_head(body, seed=0).eval(), records)
    assert [answer["searched"] for answer in answers] == [2, 2]
    assert answers[0]["truth"] == ["x", "y"]
    assert "loss" not in answers[0]
    examples = [e.labels.tolist() for record in records for e in problem.examples(record)]
    who, when, x, y = map(text_id, ("who", "when", "x", "y"))
    assert examples == [[who, x], [who, y], [when, x]]
    with pytest.raises(UserError, match="no document to look through"):
        problem.answer(problem.attach_head(body, seed=0), [row(query="who")])


def test_one_document_for_all_is_said():
    problem = Retrieval().restore_problem({}, Tools(Word().train(iter(["x"])), 8, "encoder"))
    assert problem.warnings([{"predicted": "x"}] * 5) == (
        "all 5 queries find the same document first",
    )
    assert not problem.warnings([{"predicted": "x"}, {"predicted": "y"}])


def test_shares_are_those_of_a_softmax_over_all(monkeypatch):
    monkeypatch.setattr("regard.tasks.retrieval.vector_search.DOCUMENT_BLOCK", 7)
    monkeypatch.setattr("regard.tasks.retrieval.vector_search.QUERY_BLOCK", 2)
    generator = np.random.default_rng(3)
    queries, documents = (generator.normal(size=(n, 5)).astype(np.float32) for n in (5, 30))
    scores = queries.astype(float) @ documents.T.astype(float) / 0.2
    totals = log_denominators(queries, documents, temperature=0.2)
    assert totals == pytest.approx(np.logaddexp.reduce(scores, axis=1), rel=1e-5)
    found = search(queries, documents, temperature=0.2)
    assert [one.places.tolist() for one in found] == (-scores).argsort(axis=1).tolist()


def test_texts_that_say_the_same_are_one_document():
    assert Collection.of(["x", "y", "x"]).names == ["x", "y"]
    assert Collection(["1", "2"], ["x", " x"]).index_by_text == {"x": 0}
