"""Retrieval: training, result rows, queries and judgements, collections and exact search."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.models.families.encoder import Encoder
from regard.runs.preparation.recipe_data import data_fingerprint
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.retrieval.collection import Collection, read_collection, read_judgements
from regard.tasks.retrieval.query_rows import graded_documents, join_rows
from regard.tasks.retrieval.retrieval import Retrieval, text_id
from regard.tasks.retrieval.vector_search import log_denominators, search


def word(side: str, number: int) -> str:
    """Unlike every other word, so that no query is near another."""
    return side + sha256(f"{side}{number}".encode()).hexdigest()[:7]


TOPICS = [
    (f"{word('a', one)} {word('a', two)}", f"{word('b', one)} {word('b', two)}")
    for one in range(12)
    for two in range(one)
]
"""Synthetic queries and their documents, which share no word: the model has to learn which a
belongs to which b."""


def write_jsonl(file: Path, rows) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training pairs; dev and test queries without documents, judged by a file; a collection."""
    home = tmp_path_factory.mktemp("retrieval")
    order = np.random.default_rng(0).permutation(len(TOPICS)).tolist()
    train, dev, test = order[:-20], order[-20:-10], order[-10:]
    write_jsonl(home / "documents.jsonl", ({"id": n, "text": d} for n, (_, d) in enumerate(TOPICS)))
    pairs = ({"query": TOPICS[n][0], "document": TOPICS[n][1]} for n in train)
    write_jsonl(home / "train.jsonl", pairs)
    for split, topics in (("dev", dev), ("test", test)):
        queries = ({"query_id": f"q{n}", "query": TOPICS[n][0]} for n in topics)
        write_jsonl(home / f"{split}.jsonl", queries)
    lines = [f"q{n} 0 {n} 2" for n in (*dev, *test)] + [f"q{n} 0 {n - 1} 0" for n in dev if n]
    (home / "judgements.txt").write_text("\n".join(lines) + "\n")
    return home


def recipe_table(files):
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
    return regard.train(Recipe.from_table(recipe_table(files)), out=files / "run")


def run_scores(run, split, metric):
    """The score of the model and of each baseline, by first word of its label."""
    return {
        row.of.split()[0]: row.value
        for row in run.results().estimates
        if (row.split, row.metric) == (split, metric)
    }


def test_training_retrieves_documents_that_share_no_word_with_the_query(trained):
    for metric in ("ndcg_at_10", "mrr"):
        scores = run_scores(trained, "test", metric)
        assert scores["model"] > 0.6  # chance among 66 documents: 0.07
        assert scores["BM25"] == 0
    assert any(f"{len(TOPICS)} documents" in text for text in trained.results().remarks)


def test_items_hold_found_and_relevant_documents(trained):
    lines = (trained.folder / "items" / "test.jsonl").read_text().splitlines()
    for item in map(json.loads, lines):
        number = item["record"]["query_id"][1:]
        assert item["truth"] == [number]
        assert item["found"][0]["document"] == item["predicted"]
        assert item["text"] == TOPICS[int(item["predicted"])][1]
        assert 0 < item["confidence"] <= 1
        # Where the relevant document is first, loss and confidence are of the same document.
        if item["predicted"] == number:
            assert np.exp(-item["loss"]) == pytest.approx(item["confidence"], rel=1e-4)


def test_signatures_identify_the_collection(trained):
    signatures = {row.signature for row in trained.results().estimates}
    assert all(f"searched:{len(TOPICS)}:" in signature for signature in signatures)
    assert regard.evaluate(trained.folder).estimates == trained.results().estimates


def test_predict_on_a_file_of_queries(trained, tmp_path):
    rows = [{"query": TOPICS[n][0]} for n in range(20)]
    answers = regard.predict(trained.folder, write_jsonl(tmp_path / "mine.jsonl", rows))
    assert sum(row["predicted"] == str(n) for n, row in enumerate(answers)) > 12
    assert "truth" not in answers[0]


def test_a_model_embeds_texts_without_its_collection(trained, files):
    file = files / "documents.jsonl"
    content = file.read_bytes()
    file.unlink()
    try:
        assert regard.load(trained.folder).encode(["a1 a0"]).shape == (1, 32)
    finally:
        file.write_bytes(content)


def test_an_edited_collection_or_judgement_changes_the_data_fingerprint(files):
    recipe = Recipe.from_table(recipe_table(files))
    before = data_fingerprint(recipe)
    for name in ("documents.jsonl", "judgements.txt"):
        content = (files / name).read_bytes()
        (files / name).write_bytes(content + b"\n")
        assert data_fingerprint(recipe) != before
        (files / name).write_bytes(content)
    assert data_fingerprint(recipe) == before


def test_accumulation_is_refused_where_rows_are_each_others_negatives(files):
    table = recipe_table(files)
    table["train"]["accumulate"] = 2
    with pytest.raises(UserError, match=r"accumulate = 2 would compare each row"):
        Recipe.from_table(table)
    table["task"] = {"kind": "similarity"}  # rows of other tasks are independent
    assert Recipe.from_table(table).train.accumulate == 2


# Rows


def row(at="rows.csv, row 2", **values):
    return Record(values, at=at)


def test_rows_of_one_query_are_joined():
    rows = [
        row(query="who", document="x", relevance="2"),
        row(query="when", document="y"),
        row(query="who ", document="z", relevance=0),
    ]
    who, when = join_rows(rows)
    assert graded_documents(who) == [("x", 2.0), ("z", 0.0)]
    assert graded_documents(when) == [("y", 1.0)]
    assert [document for document, _ in Retrieval().relevant_documents(who)] == ["x"]


def test_queries_with_different_ids_are_not_joined():
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
def test_rows_without_a_relevant_document_are_refused_with_their_number(values, message):
    with pytest.raises(UserError, match=message) as caught:
        Retrieval().items([row(query="who", **values)])
    assert "rows.csv, row 2" in str(caught.value)


def test_a_document_that_the_collection_lacks_is_refused(files):
    task = Retrieval(collection=str(files / "documents.jsonl"))
    with pytest.raises(UserError, match=r"is not in task\.collection"):
        task.items([row(query="a1", document="elsewhere")])


def test_judgements_need_a_collection(files):
    table = recipe_table(files)
    del table["task"]["collection"]
    with pytest.raises(UserError, match="set collection"):
        Recipe.from_table(table)


def test_a_missing_column_is_refused_by_name(files, tmp_path):
    table = recipe_table(files)
    table["task"] = {"kind": "retrieval", "document": "documents"}
    table["data"] = {
        "corpus": write_jsonl(tmp_path / "x.jsonl", [{"query": "a", "document": "b"}] * 9)
    }
    with pytest.raises(UserError, match="did you mean 'document'"):
        regard.train(Recipe.from_table(table), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Files of judgements and documents


def test_judgements_in_the_formats_of_trec_and_beir(tmp_path):
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
def test_malformed_judgements_are_refused_with_their_line(tmp_path, line, message):
    file = tmp_path / "judgements.txt"
    file.write_text(f"1 184 1\n{line}\n")
    if not message:  # three fields are query, document and grade
        assert read_judgements([str(file)])["1"] == {"184": 1.0, "0": 184.0}
        return
    with pytest.raises(UserError, match=message) as caught:
        read_judgements([str(file)])
    assert "line 2" in str(caught.value)


def test_a_duplicate_document_id_is_refused(tmp_path):
    file = write_jsonl(tmp_path / "d.jsonl", [{"id": 1, "text": "x"}, {"id": "1", "text": "y"}])
    with pytest.raises(UserError, match="'1' is there twice"):
        read_collection(file, id_column="id", text_column="text")


def test_without_a_collection_the_documents_of_the_rows_are_searched():
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
    with pytest.raises(UserError, match="no document to search"):
        problem.answer(problem.attach_head(body, seed=0), [row(query="who")])


def test_warning_where_all_queries_find_one_document():
    problem = Retrieval().restore_problem({}, Tools(Word().train(iter(["x"])), 8, "encoder"))
    [warning] = problem.warnings([{"predicted": "x"}] * 5)
    assert warning.startswith("all 5 queries find the same document")
    assert not problem.warnings([{"predicted": "x"}, {"predicted": "y"}])


def test_blocked_search_equals_the_full_softmax(monkeypatch):
    monkeypatch.setattr("regard.tasks.retrieval.vector_search.DOCUMENT_BLOCK", 7)
    monkeypatch.setattr("regard.tasks.retrieval.vector_search.QUERY_BLOCK", 2)
    generator = np.random.default_rng(3)
    queries, documents = (generator.normal(size=(n, 5)).astype(np.float32) for n in (5, 30))
    scores = queries.astype(float) @ documents.T.astype(float) / 0.2
    denominators = log_denominators(queries, documents, temperature=0.2)
    assert denominators == pytest.approx(np.logaddexp.reduce(scores, axis=1), rel=1e-5)
    results = search(queries, documents, temperature=0.2)
    assert [result.indices.tolist() for result in results] == (-scores).argsort(axis=1).tolist()


def test_equal_texts_are_one_document():
    assert Collection.from_texts(["x", "y", "x"]).ids == ["x", "y"]
    assert Collection(["1", "2"], ["x", " x"]).index_by_text == {"x": 0}
