"""Classification learns what words alone do not tell, and says when it has learnt nothing."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.tokenizers.word import Word
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.classification.labels import collect_labels, natural_sort_key
from regard.tasks.classification.pairs import PairClassification
from regard.tasks.classification.text import Classification

WORDS = ("good", "bad", "film", "book", "not", "very", "the", "was")


def rows(count, seed):
    """The first word decides (generated): order matters, the bag of words does not."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        words = generator.permutation(WORDS).tolist()
        label = "yes" if words.index("good") < words.index("bad") else "no"
        made.append({"text": " ".join(words), "label": label})
    return made


def write(place, made):
    place.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return str(place)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("classification")
    recipe = Recipe.from_table(
        {
            "name": "order",
            "data": {
                "corpus": write(home / "train.jsonl", rows(1500, 0)),
                "dev": write(home / "dev.jsonl", rows(150, 1)),
                "test": write(home / "test.jsonl", rows(150, 2)),
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "encoder", "layers": 2, "heads": 2, "width": 32, "context": 16},
            "task": {"kind": "classification"},
            "train": {"epochs": 16, "batch_tokens": 400, "lr": 4e-3, "evaluate_every": 0},
        }
    )
    return regard.train(recipe, out=home / "run")


def figure(run, split, metric, of="model"):
    return next(
        row["value"]
        for row in run.figures()["figures"]
        if (row["part"], row["metric"], row["of"]) == (split, metric, of)
    )


def test_order_is_learnt_where_counting_words_fails(trained):
    assert figure(trained, "test", "accuracy") > 0.9
    baselines = {row["of"] for row in trained.figures()["figures"]} - {"model"}
    assert {"majority class"} < baselines
    for of in baselines:
        assert figure(trained, "test", "accuracy", of) < 0.85  # pairs of words tell something
    verdicts = {(row["part"], row["verdict"]) for row in trained.figures()["comparisons"]}
    assert verdicts == {("dev", "better than"), ("test", "better than")}


def test_items_hold_what_was_asked_and_answered(trained):
    lines = (trained.folder / "items" / "test.jsonl").read_text().splitlines()
    items = [json.loads(line) for line in lines]
    right = sum(item["truth"] == item["predicted"] for item in items) / len(items)
    assert right == pytest.approx(figure(trained, "test", "accuracy"))
    assert {*items[0]["record"]} == {"text", "label"}
    assert all(0 < item["confidence"] <= 1 for item in items)


def test_a_file_of_ones_own_is_answered(trained, tmp_path):
    made = rows(40, 3)
    file = write(tmp_path / "mine.jsonl", [{"text": row["text"]} for row in made])
    answers = regard.predict(trained.folder, file)
    right = [a["predicted"] == row["label"] for a, row in zip(answers, made, strict=True)]
    assert sum(right) > 32
    assert "truth" not in answers[0]


def test_a_row_keeps_its_columns_and_its_place_also_where_there_is_no_text(trained, tmp_path):
    made = rows(3, 3)
    file = tmp_path / "mine.csv"
    lines = [f"{7 + n},{row['text'] if n != 1 else ''},x" for n, row in enumerate(made)]
    file.write_text("\n".join(["id,text,note", *lines]) + "\n")
    answers = regard.predict(trained.folder, file)
    assert [answer["record"]["id"] for answer in answers] == ["7", "8", "9"]
    assert [answer["predicted"] is None for answer in answers] == [False, True, False]
    assert answers[2]["at"].endswith("mine.csv, row 4")
    assert answers[2]["record"]["note"] == "x"


def test_measuring_again_gives_the_same(trained):
    again = regard.evaluate(trained.folder)
    assert again["figures"] == trained.figures()["figures"]


def test_a_model_without_a_task_answers_nothing(trained, tmp_path):
    loaded = regard.load(trained.folder)
    with pytest.raises(UserError, match="tells no tokens"):
        loaded.loss(["the film"])


def tools(context=8, family="encoder"):
    tokenizer = Word(minimum_count=1).train(iter([" ".join(WORDS)]))
    return Tools(tokenizer, context, family)


def test_rows_are_packed_as_the_family_reads_them():
    record = {"text": "good film", "label": "yes"}
    for family, specials in (("encoder", ("cls", "sep")), ("decoder", ("start", "stop"))):
        problem = Classification().build_problem(
            [record, {"text": "x", "label": "no"}], tools(8, family)
        )
        [example] = problem.examples(record)
        roles = [problem.tools.tokenizer.require(role) for role in specials]
        assert [example.inputs[0], example.inputs[-1]] == roles
        assert example.labels.tolist() == [1]  # no, yes
        assert example.weights.sum() == 1


def test_what_does_not_fit_is_counted():
    problem = PairClassification().restore_problem({"labels": ["0", "1"]}, tools(context=7))
    record = {"first": "good film", "second": "the book was very bad", "label": "1"}
    assert len(problem.examples(record)[0].inputs) == 7
    assert problem.lost(record) == 3


def test_labels_are_in_their_natural_order():
    made = [{"label": label} for label in ("10", "9", "b", "a", "-1")]
    assert collect_labels(made) == ["-1", "9", "10", "a", "b"]
    assert natural_sort_key("2") < natural_sort_key("10") < natural_sort_key("a")


def test_one_label_is_nothing_to_tell():
    with pytest.raises(UserError, match="every training row has the label 'yes'"):
        collect_labels([{"label": "yes"}] * 3)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("aabb", []),
        ("aabbc", ["1 label has one training row alone"]),
        ("aabcdefgh", ["7 labels have one training row alone"]),
    ],
)
def test_a_class_with_one_example_is_said(labels, said):
    train = [{"text": "good", "label": label} for label in labels]
    problem = Classification().build_problem(train, tools())
    remarks = problem.remarks(train)
    assert [text.startswith(start) for text, start in zip(remarks, said, strict=True)] == [
        True for _ in said
    ]
    assert all("'b', 'c', 'd', 'e', 'f', …" in text for text in remarks if text.startswith("7"))


def test_a_label_that_training_never_had_is_said():
    problem = Classification().restore_problem({"labels": ["a", "b"]}, tools())
    rows = [{"item": i, "truth": t, "predicted": p} for i, (t, p) in enumerate(("ab", "ba", "ca"))]
    assert any("'c' of 1 rows is in no training row" in line for line in problem.warnings(rows))


def test_rows_of_a_task_are_not_joined():
    table = {
        "name": "x",
        "data": {"corpus": "x.csv"},
        "model": {"family": "encoder"},
        "task": "classification",
        "train": {"batches": "packed"},
    }
    with pytest.raises(UserError, match="would join the rows"):
        Recipe.from_table(table)
    del table["train"]
    assert Recipe.from_table(table).train.batches == "bucketed"
    table["model"] = {"family": "recurrent"}
    with pytest.raises(UserError, match=r"'classification' is not for model\.family = 'recurrent'"):
        Recipe.from_table(table)
