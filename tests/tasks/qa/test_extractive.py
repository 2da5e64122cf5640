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
from regard.evaluation.metrics.metric import TUNED, score
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.task_models.span_model import SpanModel
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.qa.extractive import Extractive, SpanProblem, thinned
from regard.tasks.qa.question import find_answer, read_question

TEXT = "Jill Birt was born in  Zürich (1874–1923), and “lived” there; Åse walked to Rome at night."
TEXTS = [TEXT, "a dog, a cat and the naïve old man of Łódź ½ ate 東京 rice"] * 3
WORDS, BYTES = Word(minimum_count=1).train(iter(TEXTS)), Bpe().train(iter(TEXTS))
words = Word(minimum_count=1).train(iter(["one two three four five six seven who when"]))


def row(context: str = TEXT, question: str = "who?", **values: Any) -> Record:
    return Record({"context": context, "question": question, **values}, at="asked.csv, row 2")


def problem_of(
    *records: Record, tokenizer: Tokenizer = WORDS, context: int = 64, **values: Any
) -> SpanProblem:
    return Extractive(**values).build_problem(records, Tools(tokenizer, context, "encoder"))


def model_of(problem: SpanProblem, *, seed: int = 0) -> SpanModel:
    family = Encoder(layers=1, heads=2, width=16, context=problem.tools.context)
    body = family.build(vocabulary=problem.tools.tokenizer.size, seed=seed)
    model = problem.attach_head(body, seed=seed)
    assert isinstance(model, SpanModel)
    return model.eval()


def test_a_row_is_question_then_passage_in_two_segments() -> None:
    problem = problem_of(row("one two three", "who", answers="two"), tokenizer=words)
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


def test_windows_without_the_answer_teach_that_there_is_none() -> None:
    long = row("one two three four five six seven", "who", answers="seven")
    problem = problem_of(long, tokenizer=words, context=8, stride=2)
    labels = [example.labels.tolist() for example in problem.examples(long)]  # type: ignore[union-attr]
    assert labels == [[0, 0], [0, 0], [6, 6]]


# What rows say


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
def test_answers_as_files_give_them(
    values: dict[str, Any], truths: tuple[str, ...] | None, text: str | None
) -> None:
    asked = read_question(row(**values))
    assert asked.truths == truths
    assert (None if asked.where is None else TEXT[slice(*asked.where)]) == text
    assert asked.is_unfound == (truths == ("Oslo",))


def test_answers_are_looked_for_as_words_and_near_their_start() -> None:
    assert find_answer("party art art", "art", None) == (6, False)
    assert find_answer("party", "art", None) == (1, False)
    assert find_answer("art in art in art", "art", 9) == (7, True)
    assert find_answer("art in art", "art", 7) == (7, False)
    assert find_answer("art", "art", -3) == (0, True)
    assert find_answer("part", "Art", None) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"answers": ["Rome"], "answer_starts": [1, 2]}, "1 answers and 2 starts"),
        ({"answers": "Rome", "answer_starts": "soon"}, "'soon' is no whole number"),
        ({"answers": [4]}, "4 is no text"),
        ({"answers": "Rome", "question": " "}, "the question is no text, or empty"),
    ],
)
def test_wrong_rows_are_refused_by_place(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read_question(row(**values))
    assert "asked.csv, row 2" in str(caught.value)


def test_what_cannot_be_taught_is_left_out_and_counted() -> None:
    long = " ".join(["one two three four five six seven"] * 3)
    rows = [
        row("one two three", "who", answers="three"),
        row("one two three", "who", answers="eight"),
        row("one two three", "who", answers="two", answer_starts=[0]),
        row("one two three", "who", answers="hre"),
        row(long, "who", answers=" ".join(long.split()[2:9])),
    ]
    problem = problem_of(*rows, tokenizer=words, context=12, max_answer_tokens=5)
    assert [len(problem.examples(one)) > 0 for one in rows] == [True, False, True, True, False]
    remarks = problem.remarks(rows)
    starts = ["1 of 5 training rows have an answer that is not in"]
    starts.append("1 of 5 training rows have an answer that is in no window whole")
    starts.append("1 of 5 training rows say a wrong start")
    starts.append("1 of 5 training rows have an answer that begins or ends inside a token")
    starts.append("1 of 5 training rows have an answer of more than task.longest_answer = 5 tokens")
    assert len(remarks) == len(starts)
    assert all(text.startswith(start) for text, start in zip(remarks, starts, strict=True))


def test_rows_without_any_answer_to_find_are_refused() -> None:
    with pytest.raises(UserError, match="none of 2 training rows has an answer that stands"):
        problem_of(row(answers=""), row(answers="Oslo"))


def test_a_long_question_loses_its_end_and_says_so() -> None:
    asked = row("one two three", "who " * 9, answers="two")
    problem = problem_of(asked, tokenizer=words, context=11)
    assert problem.lost(asked) == 9 - 4
    assert problem.lost(row("one two three four five six seven", "who", answers="")) == 0


# Answers


def test_answers_are_slices_of_the_passage_or_nothing() -> None:
    rows = [row(answers="Rome"), row(answers=""), row()]
    problem = problem_of(*rows, tokenizer=BYTES, context=24)
    model = model_of(problem)
    problem.tau = -1000.0
    given = problem.answer(model, rows)
    assert [one["item"] for one in given] == [0, 1, 2]
    for one in given:
        assert one["predicted"]
        assert TEXT[one["start"] :].startswith(one["predicted"])
        assert one["predicted"] == one["predicted"].strip()
        assert 0 < one["confidence"] <= 1
    assert (given[0]["truths"], given[0]["answerable"]) == (["Rome"], True)
    assert (given[1]["truths"], given[1]["answerable"]) == ([], False)
    assert "truths" not in given[2]
    assert "loss" not in given[2]
    problem.tau = 1000.0
    assert [one["predicted"] for one in problem.answer(model, rows)] == ["", "", ""]
    assert "answers none of 2 questions" in problem.warnings(problem.answer(model, rows[:2]))[0]


def test_the_window_with_the_largest_margin_answers() -> None:
    long = row("one two three four five six seven", "who", answers="seven")
    problem = problem_of(long, tokenizer=words, context=8, stride=2)
    model = model_of(problem, seed=3)
    [whole] = problem.answer(model, [long])
    pieces = ["one two three four", "three four five six", "four five six seven"]
    margins = [
        one["best_score"] - one["null_score"]
        for one in problem.answer(model, [row(piece, "who", answers="") for piece in pieces])
    ]
    assert whole["best_score"] - whole["null_score"] == pytest.approx(max(margins), abs=1e-5)
    assert whole["best"] in pieces[margins.index(max(margins))]


def test_the_threshold_is_the_best_on_dev_and_is_kept() -> None:
    rows = [
        row(f"{first} two {last}", "who", answers=last if first == "one" else "")
        for first in ("one", "four", "five")
        for last in ("three", "six", "seven")
    ]
    problem = problem_of(*rows, tokenizer=words)
    model = model_of(problem)
    [remark] = problem.tune(model, rows)
    assert f"τ = {problem.tau:.4g} was chosen on the 9 questions of dev" in remark
    given = problem.answer(model, rows)

    def f1(tau: float) -> float:
        said = [
            one["best"] if one["best_score"] >= one["null_score"] + tau else "" for one in given
        ]
        pairs = zip(said, given, strict=True)
        return sum(exact_match_and_f1(text, one["truths"])[1] for text, one in pairs) / len(given)

    margins = [one["best_score"] - one["null_score"] for one in given]
    assert f1(problem.tau) == pytest.approx(max(map(f1, [*margins, max(margins) + 1])))
    for tau, value in problem.curve:
        assert f1(tau) == pytest.approx(value)
    figures = {figure.name: figure.value for figure in score(problem.metric, given, split="dev")}
    assert figures["f1"] == pytest.approx(f1(problem.tau))
    again = problem.task.restore_problem(json.loads(json.dumps(problem.state())), problem.tools)
    assert (again.tau, again.curve) == (problem.tau, problem.curve)
    assert again.answer(model, rows) == given
    assert problem.tables(given, split="dev:12ab")["f1_by_threshold"][0].keys() == {"tau", "f1"}
    assert problem.tables(given, split="test:12ab") == {}


def test_a_dev_part_of_one_sort_is_said() -> None:
    rows = [row("one two three", "who", answers="two"), row("two three four", "who", answers="two")]
    problem = problem_of(*rows, tokenizer=words)
    [remark] = problem.tune(model_of(problem), rows)
    assert "Every question of dev has an answer" in remark


@given(st.integers(2, 900), st.data())
def test_a_thinned_curve_keeps_its_ends_and_what_was_chosen(n: int, data: st.DataObject) -> None:
    curve = [(float(number), 0.5) for number in range(n)]
    kept = float(data.draw(st.integers(0, n - 1)))
    thin = thinned(curve, keep=kept, most=200)
    assert len(thin) <= 200
    assert {0.0, kept, float(n - 1)} <= {tau for tau, _ in thin}
    assert thin == sorted(thin)


def test_the_baseline_never_answers() -> None:
    rows = [row(answers="Rome"), row(answers=""), row(answers=["Rome"], impossible=True)]
    problem = problem_of(*rows)
    [(label, parts)] = problem.baselines(rows, {"dev": rows})
    assert label == "always no answer"
    figures = {
        figure.name: figure.value for figure in score(problem.metric, parts["dev"], split="dev")
    }
    assert figures["exact_match"] == pytest.approx(2 / 3)
    assert figures["f1_answerable"] == 0


def test_answers_that_are_not_there_are_judged_and_said() -> None:
    rows = [row(answers="Rome"), row(answers="Oslo")]
    problem = problem_of(*rows)
    given = problem.answer(model_of(problem), rows)
    assert ("loss" in given[0], "loss" in given[1]) == (True, False)
    assert any(
        "1 of 2 questions have an answer that is not in" in w for w in problem.warnings(given)
    )


def test_a_decoder_is_refused() -> None:
    problem = problem_of(row(answers="Rome"))
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
PLACES = ("Oslo", "Rome", "Bern", "Lyon", "Kyiv", "Cork")
DOES = ("walked", "slept", "sang", "waited", "read", "ate")


def write_rows(file: Path, *, n: int, seed: int) -> None:
    """A passage names a person or a place or both, one word of many; questions ask for either."""
    random = Random(seed)
    with file.open("w", newline="") as out:
        table = csv.DictWriter(out, ["passage", "asked", "answer"])
        table.writeheader()
        for _ in range(n):
            who, where = random.choice(PEOPLE), random.choice(PLACES)
            told = random.sample(DOES, 4)
            question, answer, other = random.choice((("Who?", who, where), ("Where?", where, who)))
            named = [answer, other] if random.random() < 0.6 else [other]
            mixed = random.sample(told + named, len(told) + len(named))
            answer = answer if answer in named else ""
            table.writerow({"passage": " ".join(mixed) + ".", "asked": question, "answer": answer})


def test_a_training_learns_to_find_and_to_abstain(
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
                "question": "asked",
                "answers": "answer",
            },
            "train": {
                "max_steps": 250,
                "batch_tokens": 600,
                "lr": 5e-3,
                "evaluate_every": 0,
                "threads": 1,
            },
        }
    )
    run = regard.train(recipe)
    figures = run.figures()
    of_test = {
        (row["of"], row["metric"]): row["value"]
        for row in figures["figures"]
        if row["part"] == "test"
    }
    assert of_test["model", "f1"] > of_test["always no answer", "f1"] + 0.3
    assert of_test["model", "f1_answerable"] > 0.6
    assert any("was chosen on the 60 questions of dev" in remark for remark in figures["remarks"])
    verdicts = {row["part"]: row["verdict"] for row in figures["comparisons"]}
    assert verdicts == {"dev": TUNED, "test": "better than"}
    loaded = regard.load(run.folder)
    assert isinstance(loaded.problem, SpanProblem)
    assert loaded.problem.tau != 0
    assert figures["tables"]["f1_by_threshold"][0]["part"] == "dev"
    measured = regard.evaluate(run.folder)["figures"]
    assert measured == figures["figures"]
