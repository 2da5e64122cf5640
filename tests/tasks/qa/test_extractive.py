import csv
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.task_models.span_model import SpanModel
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.qa.abstention import thin_curve
from regard.tasks.qa.extractive import Extractive, SpanProblem
from regard.tasks.qa.question import find_answer, read_question

TEXT = "Jill Birt was born in  Zürich (1874–1923), and “lived” there; Åse walked to Rome at night."
TEXTS = [TEXT, "a dog, a cat and the naïve old man of Łódź ½ ate 東京 rice"] * 3
WORDS, BYTES = Word(minimum_count=1).train(iter(TEXTS)), Bpe().train(iter(TEXTS))
words = Word(minimum_count=1).train(iter(["one two three four five six seven who when"]))


def row(context: str = TEXT, question: str = "who?", **values: Any) -> Record:
    return Record({"context": context, "question": question, **values}, at="questions.csv, row 2")


def make_problem(
    *records: Record, tokenizer: Tokenizer = WORDS, context: int = 64, **values: Any
) -> SpanProblem:
    return Extractive(**values).build_problem(records, Tools(tokenizer, context, "encoder"))


def make_model(problem: SpanProblem, *, seed: int = 0) -> SpanModel:
    family = Encoder(layers=1, heads=2, width=16, context=problem.tools.context)
    body = family.build(vocabulary=problem.tools.tokenizer.size, seed=seed)
    model = problem.attach_head(body, seed=seed)
    assert isinstance(model, SpanModel)
    return model.eval()


def test_examples_are_question_and_passage_in_two_segments() -> None:
    problem = make_problem(row("one two three", "who", answers="two"), tokenizer=words)
    [example] = problem.examples(row("one two three", "who", answers="two"))
    cls, sep = words.require("cls"), words.require("sep")
    assert example.inputs.tolist() == [
        cls,
        *words.encode("who"),
        sep,
        *words.encode("one two three"),
        sep,
    ]
    assert example.segments is not None
    assert example.segments.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert example.labels is not None
    assert example.labels.tolist() == [4, 4]
    assert example.weights.sum() == 1


def test_windows_without_the_answer_are_labelled_with_cls() -> None:
    long = row("one two three four five six seven", "who", answers="seven")
    problem = make_problem(long, tokenizer=words, context=8, stride=2)
    labels = [example.labels.tolist() for example in problem.examples(long)]  # type: ignore[union-attr]
    assert labels == [[0, 0], [0, 0], [6, 6]]


# Parsing of rows


@pytest.mark.parametrize(
    ("values", "truths", "text"),
    [
        ({"answers": ["Zürich", "Rome"], "answer_starts": [23, 0]}, ("Zürich", "Rome"), "Zürich"),
        ({"answers": "Rome"}, ("Rome",), "Rome"),
        ({"answers": " Rome ", "answer_starts": "71"}, ("Rome",), "Rome"),
        ({"answers": "Rome", "answer_starts": ""}, ("Rome",), "Rome"),
        ({"answers": ["Oslo", "Rome"]}, ("Oslo", "Rome"), "Rome"),
        ({"answers": ""}, (), None),
        ({"answers": []}, (), None),
        ({"answers": ["Rome"], "impossible": True}, (), None),
        ({"answers": "Rome", "impossible": "True"}, (), None),
        ({"answers": "Rome", "impossible": "false"}, ("Rome",), "Rome"),
        ({"answers": "Oslo"}, ("Oslo",), None),
        ({}, None, None),
    ],
)
def test_read_question_parses_answers(
    values: dict[str, Any], truths: tuple[str, ...] | None, text: str | None
) -> None:
    question = read_question(row(**values))
    assert question.truths == truths
    assert (None if question.span is None else TEXT[slice(*question.span)]) == text
    assert question.is_answer_missing == (truths == ("Oslo",))


def test_find_answer_prefers_whole_words_then_the_nearest_match() -> None:
    assert find_answer("party art art", "art", None) == (6, False)
    assert find_answer("party", "art", None) == (1, False)
    assert find_answer("art in art in art", "art", 9) == (7, True)
    assert find_answer("art in art", "art", 7) == (7, False)
    assert find_answer("art", "art", -3) == (0, True)
    assert find_answer("part", "Art", None) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"answers": ["Rome"], "answer_starts": [1, 2]}, "1 answers and 2 starts"),
        ({"answers": "Rome", "answer_starts": "soon"}, "'soon' is no whole number"),
        ({"answers": [4]}, "4 is no text"),
        ({"answers": "Rome", "question": " "}, "the question is no text, or empty"),
    ],
)
def test_malformed_rows_are_refused_with_their_number(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_question(row(**values))
    assert "questions.csv, row 2" in str(caught.value)


def test_untrainable_rows_are_left_out_and_counted() -> None:
    long = " ".join(["one two three four five six seven"] * 3)
    rows = [
        row("one two three", "who", answers="three"),
        row("one two three", "who", answers="eight"),
        row("one two three", "who", answers="two", answer_starts=[0]),
        row("one two three", "who", answers="hre"),
        row(long, "who", answers=" ".join(long.split()[2:9])),
    ]
    problem = make_problem(*rows, tokenizer=words, context=12, max_answer_tokens=5)
    assert [len(problem.examples(each)) > 0 for each in rows] == [True, False, True, True, False]
    remarks = problem.remarks(rows)
    beginnings = [
        "have an answer that is not in their passage",
        "have an answer that no window contains as a whole",
        "give a wrong start",
        "have an answer that begins or ends inside a token",
        "have an answer of more than task.max_answer_tokens = 5 tokens",
    ]
    assert len(remarks) == len(beginnings)
    for remark, beginning in zip(remarks, beginnings, strict=True):
        assert remark.startswith(f"1 of 5 training rows {beginning}")


def test_training_rows_without_any_answer_are_refused() -> None:
    with pytest.raises(UserError, match="none of 2 training rows"):
        make_problem(row(answers=""), row(answers="Oslo"))


def test_truncated_tokens_of_a_long_question_are_counted() -> None:
    long_question = row("one two three", "who " * 9, answers="two")
    long_passage = row("one two three four five six seven", "who", answers="")
    problem = make_problem(long_question, tokenizer=words, context=11)
    assert problem.truncated_tokens(long_question) == 9 - 4
    assert problem.truncated_tokens(long_passage) == 0


# Answers


def test_answers_are_spans_of_the_passage_or_empty() -> None:
    rows = [row(answers="Rome"), row(answers=""), row()]
    problem = make_problem(*rows, tokenizer=BYTES, context=24)
    model = make_model(problem)
    problem.tau = -1000.0
    answers = problem.answer(model, rows)
    assert [answer["item"] for answer in answers] == [0, 1, 2]
    for answer in answers:
        assert answer["predicted"]
        assert TEXT[answer["start"] :].startswith(answer["predicted"])
        assert answer["predicted"] == answer["predicted"].strip()
        assert 0 < answer["confidence"] <= 1
    assert (answers[0]["truths"], answers[0]["answerable"]) == (["Rome"], True)
    assert (answers[1]["truths"], answers[1]["answerable"]) == ([], False)
    assert "truths" not in answers[2]
    assert "loss" not in answers[2]
    problem.tau = 1000.0
    assert [answer["predicted"] for answer in problem.answer(model, rows)] == ["", "", ""]
    assert "answers none of 2 questions" in problem.warnings(problem.answer(model, rows[:2]))[0]


def test_the_window_with_the_largest_margin_answers() -> None:
    long = row("one two three four five six seven", "who", answers="seven")
    problem = make_problem(long, tokenizer=words, context=8, stride=2)
    model = make_model(problem, seed=3)
    [answer] = problem.answer(model, [long])
    windows = ["one two three four", "three four five six", "four five six seven"]
    margins = [
        each["best_score"] - each["null_score"]
        for each in problem.answer(model, [row(window, "who", answers="") for window in windows])
    ]
    assert answer["best_score"] - answer["null_score"] == pytest.approx(max(margins), abs=1e-5)
    assert answer["best"] in windows[margins.index(max(margins))]


def test_tune_chooses_the_best_threshold_on_dev_and_state_restores_it() -> None:
    rows = [
        row(f"{first} two {last}", "who", answers=last if first == "one" else "")
        for first in ("one", "four", "five")
        for last in ("three", "six", "seven")
    ]
    problem = make_problem(*rows, tokenizer=words)
    model = make_model(problem)
    [remark] = problem.tune(model, rows)
    assert remark.startswith(f"τ = {problem.tau:.4g} ")
    assert "9 questions of dev" in remark
    answers = problem.answer(model, rows)
    margins = [answer["best_score"] - answer["null_score"] for answer in answers]

    def mean_f1(tau: float) -> float:
        pairs = zip(answers, margins, strict=True)
        predicted = [answer["best"] if margin >= tau else "" for answer, margin in pairs]
        scored = zip(predicted, answers, strict=True)
        f1s = [exact_match_and_f1(text, answer["truths"])[1] for text, answer in scored]
        return sum(f1s) / len(f1s)

    assert mean_f1(problem.tau) == pytest.approx(max(map(mean_f1, [*margins, max(margins) + 1])))
    for tau, value in problem.curve:
        assert mean_f1(tau) == pytest.approx(value)
    scores = {each.name: each.value for each in score(problem.metric, answers, split="dev")}
    assert scores["f1"] == pytest.approx(mean_f1(problem.tau))
    restored = problem.task.restore_problem(json.loads(json.dumps(problem.state())), problem.tools)
    assert (restored.tau, restored.curve) == (problem.tau, problem.curve)
    assert restored.answer(model, rows) == answers
    assert problem.tables(answers, split="dev:12ab")["f1_by_threshold"][0].keys() == {"tau", "f1"}
    assert problem.tables(answers, split="test:12ab") == {}


def test_remark_where_every_dev_question_has_an_answer() -> None:
    rows = [row("one two three", "who", answers="two"), row("two three four", "who", answers="two")]
    problem = make_problem(*rows, tokenizer=words)
    [remark] = problem.tune(make_model(problem), rows)
    assert "Every question of dev has an answer" in remark


@given(st.integers(2, 900), st.data())
def test_thin_curve_keeps_its_ends_and_the_threshold(n: int, data: st.DataObject) -> None:
    curve = [(float(tau), 0.5) for tau in range(n)]
    chosen = float(data.draw(st.integers(0, n - 1)))
    thin = thin_curve(curve, [tau for tau, _ in curve], keep=chosen)
    assert len(thin) <= 200
    assert {0.0, chosen, float(n - 1)} <= {tau for tau, _ in thin}
    assert thin == sorted(thin)


def test_baseline_never_answers() -> None:
    rows = [row(answers="Rome"), row(answers=""), row(answers=["Rome"], impossible=True)]
    problem = make_problem(*rows)
    [(label, answers)] = problem.baselines(rows, {"dev": rows})
    assert label == "always no answer"
    scores = {each.name: each.value for each in score(problem.metric, answers["dev"], split="dev")}
    assert scores["exact_match"] == pytest.approx(2 / 3)
    assert scores["f1_answerable"] == 0


def test_answers_missing_from_the_passage_are_scored_and_reported() -> None:
    rows = [row(answers="Rome"), row(answers="Oslo")]
    problem = make_problem(*rows)
    answers = problem.answer(make_model(problem), rows)
    assert ("loss" in answers[0], "loss" in answers[1]) == (True, False)
    assert any(warning.startswith("1 of 2 questions") for warning in problem.warnings(answers))


def test_a_decoder_is_refused() -> None:
    problem = make_problem(row(answers="Rome"))
    body = Decoder(layers=1, heads=2, width=16, context=64).build(vocabulary=50, seed=0)
    with pytest.raises(UserError, match="encoder"):
        problem.attach_head(body, seed=0)
    with pytest.raises(UserError, match="extractive"):
        Recipe.from_table(
            {
                "name": "wrong",
                "data": {"corpus": "passages"},
                "model": {"family": "decoder"},
                "task": {"kind": "extractive"},
            }
        )


# A whole training

PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn")
TOWNS = ("Oslo", "Rome", "Bern", "Lyon", "Kyiv", "Cork")
VERBS = ("walked", "slept", "sang", "waited", "read", "ate")


def write_rows(file: Path, *, n: int, seed: int) -> None:
    """Passages of random words with a person, a town or both; questions ask for either."""
    random = Random(seed)
    with file.open("w", newline="") as out:
        table = csv.DictWriter(out, ["passage", "query", "answer"])
        table.writeheader()
        for _ in range(n):
            who, where = random.choice(PEOPLE), random.choice(TOWNS)
            verbs = random.sample(VERBS, 4)
            question, answer, other = random.choice((("Who?", who, where), ("Where?", where, who)))
            names = [answer, other] if random.random() < 0.6 else [other]
            words = random.sample(verbs + names, len(verbs) + len(names))
            answer = answer if answer in names else ""
            table.writerow({"passage": " ".join(words) + ".", "query": question, "answer": answer})


def test_training_learns_to_find_answers_and_to_abstain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for seed, (split, n) in enumerate({"train": 400, "dev": 60, "test": 60}.items()):
        write_rows(tmp_path / f"{split}.csv", n=n, seed=seed)
    recipe = Recipe.from_table(
        {
            "name": "find",
            "data": {"corpus": "train.csv", "dev": "dev.csv", "test": "test.csv"},
            "tokenizer": {"kind": "word"},
            "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 12},
            "task": {
                "kind": "extractive",
                "context": "passage",
                "question": "query",
                "answers": "answer",
            },
            "train": {
                "max_steps": 400,
                "batch_tokens": 600,
                "lr": 5e-3,
                "evaluate_every": 0,
                "threads": 1,
            },
        }
    )
    run = regard.train(recipe)
    results = run.results()
    scores = {(row.of, row.metric): row.value for row in results.estimates if row.split == "test"}
    assert scores["model", "f1"] > scores["always no answer", "f1"] + 0.3
    assert scores["model", "f1_answerable"] > 0.5  # on passages that are near none in training
    assert any("questions of dev" in remark for remark in results.remarks)
    verdicts = {row.split: row.verdict for row in results.comparisons}
    assert verdicts == {"dev": BaselineVerdict.TUNED, "test": "better than"}
    loaded = regard.load(run.folder)
    assert isinstance(loaded.problem, SpanProblem)
    assert loaded.problem.tau != 0
    assert results.tables["f1_by_threshold"][0]["split"] == "dev"
    assert regard.evaluate(run.folder).estimates == results.estimates
