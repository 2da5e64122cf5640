"""Similarity: scores come back in the person's range, words are learnt to mean the same."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.word import Word
from regard.evaluation.baselines.tfidf_cosine import WordCosine
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.retrieval.similarity import Similarity

MEANINGS = [(f"a{n}", f"b{n}", f"c{n}") for n in range(8)]
"Three words for each of eight meanings: two times in three a shared meaning shares no word."


def rows(count, seed):
    """Two meanings in each text; the score is how many both share, 0 to 2 (generated)."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        score = int(generator.integers(0, 3))
        meanings = generator.permutation(8)[: 4 - score].tolist()
        first, second = meanings[:2], meanings[2:] + meanings[:score]
        texts = (
            " ".join(MEANINGS[m][int(generator.integers(0, 3))] for m in side)
            for side in (first, second)
        )
        made.append(dict(zip(("one", "two"), texts, strict=True)) | {"points": 10 * score})
    return made


def write(place, made):
    place.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return str(place)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("similarity")
    recipe = Recipe.from_table(
        {
            "name": "alike",
            "data": {
                "corpus": write(home / "train.jsonl", rows(800, 0)),
                "dev": write(home / "dev.jsonl", rows(100, 1)),
                "test": write(home / "test.jsonl", rows(100, 2)),
            },
            "tokenizer": {"kind": "word", "minimum_count": 1},
            "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 8},
            "task": {
                "kind": "similarity",
                **{"first": "one", "second": "two", "score": "points", "highest": 20},
            },
            "train": {"epochs": 8, "batch_tokens": 400, "lr": 5e-3, "evaluate_every": 0},
        }
    )
    return regard.train(recipe, out=home / "run")


def figure(run, metric, of="model"):
    return next(
        row["value"]
        for row in run.figures()["figures"]
        if (row["part"], row["metric"], row["of"]) == ("test", metric, of)
    )


def test_what_means_the_same_is_learnt_where_counting_words_fails(trained):
    assert figure(trained, "spearman") > 0.8
    assert figure(trained, "spearman", WordCosine.label) < 0.7
    assert {row["verdict"] for row in trained.figures()["comparisons"]} == {"better than"}


def test_rows_of_ones_own_get_a_score_in_ones_own_range(trained, tmp_path):
    pairs = [{"one": "a1 a2", "two": "b1 b2"}, {"one": "a1 a2", "two": "b5 b6"}]
    alike, apart = regard.predict(trained.folder, write(tmp_path / "mine.jsonl", pairs))
    assert alike["predicted"] > 14 > 6 > apart["predicted"]
    assert "truth" not in alike
    assert "confidence" not in alike


def test_texts_have_vectors_whose_products_are_the_scores(trained):
    loaded = regard.load(trained.folder)
    vectors = loaded.encode(["a1 a2", "b1 b2", "b5 b6"])
    assert vectors.shape == (3, 32)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    record = Record({"first": "a1 a2", "second": "b1 b2"})
    [row] = loaded.problem.answer(loaded.model, [record])
    assert row["predicted"] == pytest.approx(20 * float(vectors[0] @ vectors[1]), abs=1e-4)
    assert loaded.encode([]).shape == (0, 32)


def test_measuring_again_gives_the_same(trained):
    assert regard.evaluate(trained.folder)["figures"] == trained.figures()["figures"]


def tools(context=8, family="encoder"):
    return Tools(Word(minimum_count=1).train(iter(["good bad film book"])), context, family)


def pair(score, first="good film", second="bad book"):
    return Record({"first": first, "second": second, "score": score}, at="pairs.csv, row 7")


def test_each_text_stands_alone_in_its_row():
    for family, specials in (("encoder", ("cls", "sep")), ("decoder", ("start", "stop"))):
        problem = Similarity(lowest=1, highest=5).build_problem(
            [pair("1"), pair(5)], tools(8, family)
        )
        [example] = problem.examples(pair("2"))
        roles = [problem.tools.tokenizer.require(role) for role in specials]
        for ids in (example.inputs, example.source):
            assert [ids[0], ids[-1]] == roles
        assert example.labels.tolist() == [0.25]
        assert example.weights.sum() == 1


def test_what_does_not_fit_is_counted():
    problem = Similarity().restore_problem({}, tools(context=4))
    assert problem.lost(pair(1, "good bad film book", "good bad film")) == 3


@pytest.mark.parametrize("score", ["", "much", True, None, "nan", 1.5, -0.1])
def test_a_score_outside_the_range_is_refused_before_anything_is_trained(score):
    with pytest.raises(UserError, match="no number from 0 to 1") as caught:
        Similarity().items([pair(0.5), pair(score)])
    assert "pairs.csv, row 7" in str(caught.value)


def test_equal_scores_teach_nothing():
    with pytest.raises(UserError, match="nothing to learn"):
        Similarity().build_problem([pair(1), pair("1")], tools())


def test_a_range_has_two_ends():
    table = {"name": "x", "data": {"corpus": "x.csv"}, "model": {"family": "encoder"}}
    with pytest.raises(UserError, match="above lowest"):
        Recipe.from_table(table | {"task": {"kind": "similarity", "lowest": 2, "highest": 2}})


def test_one_score_for_all_is_said():
    problem = Similarity().restore_problem({}, tools())
    rows = [{"item": n, "predicted": 0.5 + n / 1e6} for n in range(9)]
    assert problem.warnings(rows) == ("all 9 pairs get nearly the same score, 0.5",)
    assert not problem.warnings([*rows, {"item": 9, "predicted": 0.7}])


def test_a_model_of_texts_gives_no_vectors(trained):
    from dataclasses import replace

    loaded = regard.load(trained.folder)
    without = replace(loaded, saved=replace(loaded.saved, problem=None))
    with pytest.raises(UserError, match="gives no vectors"):
        without.encode(["a1"])
