"""Similarity: training, scores in the user's range, embeddings, inputs, errors."""

import json
import re

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.evaluation.baselines.tfidf_cosine import TfidfCosine
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.retrieval.similarity import Similarity

MEANINGS = [(f"a{n}", f"b{n}", f"c{n}") for n in range(8)]
"Three synonyms for each of eight meanings: a shared meaning is a shared word one time in three."


def rows(count, seed):
    """Synthetic pairs of texts with two meanings each; the score counts shared meanings, 0 to 2."""
    generator = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        score = int(generator.integers(0, 3))
        meanings = generator.permutation(8)[: 4 - score].tolist()
        first, second = meanings[:2], meanings[2:] + meanings[:score]
        texts = (
            " ".join(MEANINGS[m][int(generator.integers(0, 3))] for m in side)
            for side in (first, second)
        )
        records.append(dict(zip(("one", "two"), texts, strict=True)) | {"points": 10 * score})
    return records


def write_jsonl(file, records):
    file.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("similarity")
    recipe = Recipe.from_table(
        {
            "name": "alike",
            "data": {
                "corpus": write_jsonl(home / "train.jsonl", rows(800, 0)),
                "dev": write_jsonl(home / "dev.jsonl", rows(100, 1)),
                "test": write_jsonl(home / "test.jsonl", rows(100, 2)),
            },
            "tokenizer": {"kind": "word", "minimum_count": 1},
            "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 8},
            "task": {
                "kind": "similarity",
                **{"first": "one", "second": "two", "score": "points", "max_score": 20},
            },
            "train": {"epochs": 8, "batch_tokens": 400, "lr": 5e-3, "evaluate_every": 0},
        }
    )
    return regard.train(recipe, out=home / "run")


def run_score(run, metric, of="model"):
    return next(
        row.value
        for row in run.results().estimates
        if (row.split, row.metric, row.of) == ("test", metric, of)
    )


def test_training_learns_synonyms_that_tfidf_cannot_see(trained):
    assert run_score(trained, "spearman") > 0.8
    assert run_score(trained, "spearman", TfidfCosine.label) < 0.7
    assert {row.verdict for row in trained.results().comparisons} == {"better than"}


def test_predicted_scores_are_in_the_range_of_the_task(trained, tmp_path):
    pairs = [{"one": "a1 a2", "two": "b1 b2"}, {"one": "a1 a2", "two": "b5 b6"}]
    similar, different = regard.predict(trained.folder, write_jsonl(tmp_path / "mine.jsonl", pairs))
    assert similar["predicted"] > 14 > 6 > different["predicted"]
    assert "truth" not in similar
    assert "confidence" not in similar


def test_scores_are_scaled_products_of_unit_embeddings(trained):
    loaded = regard.load(trained.folder)
    embeddings = loaded.encode(["a1 a2", "b1 b2", "b5 b6"])
    assert embeddings.shape == (3, 32)
    assert embeddings.dtype == np.float32
    assert np.linalg.norm(embeddings, axis=1) == pytest.approx(1, abs=1e-6)
    record = Record({"first": "a1 a2", "second": "b1 b2"})
    [row] = loaded.problem.answer(loaded.model, [record])
    cosine = float(embeddings[0] @ embeddings[1])
    assert row["predicted"] == pytest.approx(20 * cosine, abs=1e-4)
    assert loaded.encode([]).shape == (0, 32)


def test_evaluate_reproduces_the_results_of_training(trained):
    assert regard.evaluate(trained.folder).estimates == trained.results().estimates


def tools(context=8, family="encoder"):
    return Tools(Word(minimum_count=1).train(iter(["good bad film book"])), context, family)


def pair(score, first="good film", second="bad book"):
    return Record({"first": first, "second": second, "score": score}, at="pairs.csv, row 7")


def test_each_text_is_a_sequence_with_its_own_special_tokens():
    for family, specials in (("encoder", ("cls", "sep")), ("decoder", ("start", "stop"))):
        problem = Similarity(min_score=1, max_score=5).build_problem(
            [pair("1"), pair(5)], tools(8, family)
        )
        [example] = problem.examples(pair("2"))
        roles = [problem.tools.tokenizer.require(role) for role in specials]
        for ids in (example.inputs, example.source):
            assert [ids[0], ids[-1]] == roles
        assert example.labels.tolist() == [0.25]
        assert example.weights.sum() == 1


def test_truncated_tokens_are_counted():
    problem = Similarity().restore_problem({}, tools(context=4))
    assert problem.truncated_tokens(pair(1, "good bad film book", "good bad film")) == 3


@pytest.mark.parametrize("score", ["", "much", True, None, "nan", 1.5, -0.1])
def test_scores_outside_the_range_are_refused_before_training(score):
    with pytest.raises(UserError, match="no number from 0 to 1") as caught:
        Similarity().items([pair(0.5), pair(score)])
    assert "pairs.csv, row 7" in str(caught.value)


def test_training_rows_of_equal_score_are_refused():
    with pytest.raises(UserError, match="nothing to learn"):
        Similarity().build_problem([pair(1), pair("1")], tools())


def test_an_empty_range_is_refused():
    table = {"name": "x", "data": {"corpus": "x.csv"}, "model": {"family": "encoder"}}
    with pytest.raises(UserError, match="above min_score"):
        Recipe.from_table(table | {"task": {"kind": "similarity", "min_score": 2, "max_score": 2}})


def test_warning_where_all_pairs_get_one_score():
    problem = Similarity().restore_problem({}, tools())
    rows = [{"item": n, "predicted": 0.5 + n / 1e6} for n in range(9)]
    [warning] = problem.warnings(rows)
    assert re.fullmatch(r"all 9 pairs .* 0\.5", warning)
    assert not problem.warnings([*rows, {"item": 9, "predicted": 0.7}])


def test_a_language_model_gives_no_sentence_embeddings(trained):
    from dataclasses import replace

    loaded = regard.load(trained.folder)
    without = replace(loaded, saved=replace(loaded.saved, problem=None))
    with pytest.raises(UserError, match="has no sentence embeddings"):
        without.encode(["a1"])
