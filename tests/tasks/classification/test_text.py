"""Text and pair classification: training, result rows, inputs, labels, remarks and warnings."""

import json

import numpy as np
import pytest

import regard
from regard.core.errors import UserError
from regard.data.tokenizers.word import Word
from regard.runs.recipe import Recipe
from regard.tasks import Problem, Tools
from regard.tasks.classification.labels import collect_labels, natural_sort_key
from regard.tasks.classification.pairs import PairClassification
from regard.tasks.classification.text import Classification

WORDS = ("good", "bad", "film", "book", "not", "very", "the", "was")


def rows(count, seed):
    """Synthetic texts labelled by the order of two words; all have the same bag of words."""
    generator = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        words = generator.permutation(WORDS).tolist()
        label = "yes" if words.index("good") < words.index("bad") else "no"
        records.append({"text": " ".join(words), "label": label})
    return records


def write_jsonl(file, records):
    file.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("classification")
    recipe = Recipe.from_table(
        {
            "name": "order",
            "data": {
                "corpus": write_jsonl(home / "train.jsonl", rows(1500, 0)),
                "dev": write_jsonl(home / "dev.jsonl", rows(150, 1)),
                "test": write_jsonl(home / "test.jsonl", rows(150, 2)),
            },
            "tokenizer": {"kind": "word"},
            "model": {"family": "encoder", "layers": 2, "heads": 2, "width": 32, "context": 16},
            "task": {"kind": "classification"},
            "train": {"epochs": 10, "batch_tokens": 400, "lr": 4e-3, "evaluate_every": 0},
        }
    )
    return regard.train(recipe, out=home / "run")


def run_score(run, split, metric, of="model"):
    return next(
        row.value
        for row in run.results().estimates
        if (row.split, row.metric, row.of) == (split, metric, of)
    )


def test_training_learns_word_order_that_tfidf_cannot_see(trained):
    assert run_score(trained, "test", "accuracy") > 0.9
    baselines = {row.of for row in trained.results().estimates} - {"model"}
    assert {"majority class"} < baselines
    for of in baselines:
        assert run_score(trained, "test", "accuracy", of) < 0.85  # bigrams have some information
    verdicts = {(row.split, row.verdict) for row in trained.results().comparisons}
    assert verdicts == {("dev", "better than"), ("test", "better than")}


def test_items_hold_record_and_prediction(trained):
    lines = (trained.folder / "items" / "test.jsonl").read_text().splitlines()
    items = [json.loads(line) for line in lines]
    right = sum(item["truth"] == item["predicted"] for item in items) / len(items)
    assert right == pytest.approx(run_score(trained, "test", "accuracy"))
    assert {*items[0]["record"]} == {"text", "label"}
    assert all(0 < item["confidence"] <= 1 for item in items)


def test_predict_on_a_file_without_labels(trained, tmp_path):
    records = rows(40, 3)
    file = write_jsonl(tmp_path / "mine.jsonl", [{"text": row["text"]} for row in records])
    answers = regard.predict(trained.folder, file)
    right = [a["predicted"] == row["label"] for a, row in zip(answers, records, strict=True)]
    assert sum(right) > 32
    assert "truth" not in answers[0]


def test_predict_keeps_columns_and_row_numbers_also_of_empty_texts(trained, tmp_path):
    file = tmp_path / "mine.csv"
    lines = [f"{7 + n},{row['text'] if n != 1 else ''},x" for n, row in enumerate(rows(3, 3))]
    file.write_text("\n".join(["id,text,note", *lines]) + "\n")
    answers = regard.predict(trained.folder, file)
    assert [answer["record"]["id"] for answer in answers] == ["7", "8", "9"]
    assert [answer["predicted"] is None for answer in answers] == [False, True, False]
    assert answers[2]["at"].endswith("mine.csv, row 4")
    assert answers[2]["record"]["note"] == "x"


def test_evaluate_reproduces_the_results_of_training(trained):
    again = regard.evaluate(trained.folder)
    assert again.estimates == trained.results().estimates


def test_a_classifier_has_no_token_loss(trained):
    loaded = regard.load(trained.folder)
    with pytest.raises(UserError, match="predicts no tokens"):
        loaded.loss(["the film"])


def tools(context=8, family="encoder"):
    tokenizer = Word(minimum_count=1).train(iter([" ".join(WORDS)]))
    return Tools(tokenizer, context, family)


def test_special_tokens_of_each_family():
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


def test_truncated_tokens_are_counted():
    problem = PairClassification().restore_problem({"labels": ["0", "1"]}, tools(context=7))
    record = {"first": "good film", "second": "the book was very bad", "label": "1"}
    assert len(problem.examples(record)[0].inputs) == 7
    assert problem.truncated_tokens(record) == 3


def test_labels_are_in_natural_order():
    records = [{"label": label} for label in ("10", "9", "b", "a", "-1")]
    assert collect_labels(records) == ["-1", "9", "10", "a", "b"]
    assert natural_sort_key("2") < natural_sort_key("10") < natural_sort_key("a")


def test_a_single_label_is_refused():
    with pytest.raises(UserError, match="every training row has the label 'yes'"):
        collect_labels([{"label": "yes"}] * 3)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("aabb", []),
        ("aabbc", ["1 label has only one training row"]),
        ("aabcdefgh", ["7 labels have only one training row"]),
    ],
)
def test_remarks_name_labels_with_one_row(labels, expected):
    train = [{"text": "good", "label": label} for label in labels]
    problem = Classification().build_problem(train, tools())
    remarks = problem.remarks(train)
    assert len(remarks) == len(expected)
    assert all(text.startswith(start) for text, start in zip(remarks, expected, strict=True))
    assert all("'b', 'c', 'd', 'e', 'f', …" in text for text in remarks if text.startswith("7"))


def test_warnings_name_labels_that_training_lacks():
    problem = Classification().restore_problem({"labels": ["a", "b"]}, tools())
    rows = [{"item": i, "truth": t, "predicted": p} for i, (t, p) in enumerate(("ab", "ba", "ca"))]
    assert any("'c' of 1 rows" in line for line in problem.warnings(rows))


def test_packed_batches_are_refused_for_tasks():
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


@pytest.mark.parametrize("labels", [("yes", "no"), ("yes", "unseen")])
def test_an_evaluation_in_training_passes_each_row_once_and_has_the_loss_of_training(
    trained, labels, monkeypatch
):
    problem, model = (loaded := regard.load(trained.folder)).problem, loaded.model
    records = [{"text": "good film", "label": labels[0]}, {"text": "bad", "label": labels[1]}]
    separately = Problem.loss_and_answers(problem, model, records)
    passed = []
    hidden_states = type(model).hidden_states
    monkeypatch.setattr(
        type(model),
        "hidden_states",
        lambda self, batch: passed.append(len(batch.rows)) or hidden_states(self, batch),
    )
    assert problem.loss_and_answers(model, records) == separately
    assert sum(passed) == len(records)
