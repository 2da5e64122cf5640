from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.data.corpus import open_corpus
from regard.data.record_corpus import Record
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.scoring import score
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.recurrent import Recurrent
from regard.models.model import Model
from regard.objectives import Vocabulary
from regard.objectives.salient import Salient
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.qa.recall import Recall, RecallProblem

TEXTS = ["Ada Lind. Ada was born in New Town .", "Where was Ada Lind born?", "Bo was born in Oslo"]
WORDS = Word(minimum_count=1).train(iter(TEXTS))
BYTES = Bpe().train(iter(TEXTS * 9))
BORN = "Where was (.+) born"


def row(question: str = "Where was Ada Lind born?", **values: Any) -> Record:
    return Record({"question": question, **values}, at="questions.tsv, row 3")


def make_problem(
    *,
    tokenizer: Tokenizer = WORDS,
    family: str = "decoder",
    context: int = 32,
    **values: Any,
) -> RecallProblem:
    return Recall(**values).build_problem([row(answer="Oslo")], Tools(tokenizer, context, family))


def make_model(problem: RecallProblem, *, seed: int = 0) -> Model:
    context = problem.tools.context
    family = (
        Decoder(layers=1, heads=2, width=16, context=context)
        if problem.is_single_row
        else Recurrent(layers=1, width=16, context=context)
    )
    body = family.build(vocabulary=problem.tools.tokenizer.size, seed=seed)
    return problem.attach_head(body, seed=seed).eval()


# Examples


def test_decoder_examples_are_question_masks_answer_with_loss_on_the_answer_only() -> None:
    [example] = make_problem().examples(row(answer="New Town"))
    start, mask, stop = (WORDS.require(role) for role in ("start", "mask", "stop"))
    question, answer = WORDS.encode("Where was Ada Lind born?"), WORDS.encode("New Town")
    ids = [start, *question, mask, mask, *answer, stop]
    assert example.inputs.tolist() == ids[:-1]
    assert example.targets.tolist() == ids[1:]
    scored = example.targets[example.weights > 0].tolist()
    assert scored == [*answer, stop]
    assert example.source is None


def test_decoder_examples_have_the_format_of_salient_pretraining() -> None:
    vocabulary = Vocabulary.from_tokenizer(BYTES)
    line = BYTES.encode("Ada Lind. born in Oslo")
    document = Document(np.array([vocabulary.start, *line, vocabulary.stop]), context=32)
    pretraining = Salient(shift=0, drop=1.0, before=0, after=0).example(
        document, np.random.default_rng(0), vocabulary=vocabulary
    )
    [example] = make_problem(tokenizer=BYTES).examples(row("Ada Lind.", answer="Oslo"))
    assert example.inputs.tolist() == pretraining.inputs.tolist()
    assert example.targets.tolist() == pretraining.targets.tolist()
    assert example.weights.tolist() == pretraining.weights.tolist()


def test_the_question_is_the_source_of_an_encoder_decoder() -> None:
    [example] = make_problem(family="recurrent").examples(row(answer="Oslo"))
    start, stop = WORDS.require("start"), WORDS.require("stop")
    assert example.source is not None
    assert example.source.tolist() == [start, *WORDS.encode("Where was Ada Lind born?")]
    assert example.targets.tolist() == [*WORDS.encode("Oslo"), stop]


def test_each_answer_is_a_training_example() -> None:
    assert len(make_problem().examples(row(answer=["Oslo", "New Town"]))) == 2
    assert make_problem().examples(row()) == []


@given(words=st.integers(1, 60), answer=st.integers(1, 40), context=st.integers(8, 40))
def test_truncated_tokens_are_counted(words: int, answer: int, context: int) -> None:
    problem = make_problem(context=context)
    record = row(" ".join(["Ada"] * words), answer=" ".join(["Oslo"] * answer))
    [example] = problem.examples(record)
    assert len(example.inputs) <= context
    stop, mask = WORDS.require("stop"), WORDS.require("mask")
    kept_words = example.inputs.tolist().count(WORDS.encode("Ada")[0])
    scored = example.targets[example.weights > 0].tolist()
    kept_answer = len([token for token in scored if token not in (stop, mask)])
    assert problem.truncated_tokens(record) == words - kept_words + answer - kept_answer
    assert (stop in scored) == (kept_answer == answer)


def test_a_context_too_short_for_a_question_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.context = 5 .* question.* task\.mask_tokens"):
        make_problem(context=5, mask_tokens=3)


# Answers


@pytest.mark.parametrize("family", ["decoder", "recurrent"])
def test_answers_have_confidences_and_do_not_depend_on_the_batch(family: str) -> None:
    problem = make_problem(family=family, samples=6)
    model = make_model(problem)
    records = [row(answer="Oslo"), row("Where was Bo born?"), row(answer=["Oslo", "New Town"])]
    answers = problem.answer(model, records)
    assert [answer["item"] for answer in answers] == [0, 1, 2]
    for answer in answers:
        assert 0 < answer["probability"] <= answer["probability_per_token"] <= 1
        assert answer["confidence"] == answer["probability"]
        assert answer["agreement"] * 6 == pytest.approx(round(answer["agreement"] * 6))
        assert answer["answered"] is True
    assert ("truths" in answers[1], "loss" in answers[1]) == (False, False)
    assert answers[2]["truths"] == ["Oslo", "New Town"]
    assert answers[0]["predicted"] == answers[2]["predicted"]
    assert problem.answer(model, records) == answers
    [first] = problem.answer(model, records[:1])
    assert first["predicted"] == answers[0]["predicted"]
    assert first["agreement"] == answers[0]["agreement"]


def test_answers_in_training_are_the_same_without_samples() -> None:
    problem = make_problem()
    model = make_model(problem)
    records = [row(answer="Oslo"), row("Where was Bo born?", answer="Oslo")]
    full, cheap = problem.answer(model, records), problem.answer_in_training(model, records)
    assert [row["predicted"] for row in full] == [row["predicted"] for row in cheap]
    assert "agreement" not in cheap[0]
    statistics = problem.metric.statistics
    assert statistics(cheap)[0].tolist() == statistics(full)[0].tolist()


def test_agreement_estimates_the_probability_of_a_one_token_answer() -> None:
    problem = make_problem(samples=400, max_new_tokens=1)
    [answer] = problem.answer(make_model(problem), [row()])
    probability = answer["probability"]
    standard_error = (probability * (1 - probability) / 400) ** 0.5
    assert abs(answer["agreement"] - probability) < 4 * standard_error + 1 / 400


# Abstention


def test_tune_answers_half_of_dev_and_state_restores_the_threshold() -> None:
    problem = make_problem(samples=2)
    model = make_model(problem)
    names = ["Ada", "Lind", "was", "Where", "born", "Bo"]
    records = [row(f"Where was {name} born?", answer="Oslo") for name in names]
    [remark] = problem.tune(model, records)
    answers = problem.answer(model, records)
    assert sum(answer["answered"] for answer in answers) == 3
    assert re.search(r"6 questions of dev .* 50 %", remark)
    restored = problem.task.restore_problem(json.loads(json.dumps(problem.state())), problem.tools)
    assert restored.abstention == problem.abstention
    assert restored.answer(model, records) == answers
    estimates = {each.name: each for each in score(problem.metric, answers, split="dev")}
    assert estimates["coverage"].value == 0.5
    assert estimates["exact_match_answered"].n == 3
    tables = problem.tables(answers, split="dev:12")
    assert tables.keys() == {"risk", "risk_coverage", "calibration"}
    assert {row["metric"] for row in tables["risk"]} == {"aurc", "ece", "accuracy_answered"}
    assert tables["risk_coverage"][-1]["coverage"] == 1


def test_unreachable_precision_leaves_every_question_unanswered() -> None:
    problem = make_problem(precision=0.9, samples=0)
    model = make_model(problem)
    records = [row(answer="nowhere"), row("Where was Bo born?", answer="nowhere")]
    [remark] = problem.tune(model, records)
    assert re.match("no threshold .* 2 questions of dev", remark)
    assert not any(answer["answered"] for answer in problem.answer(model, records))


# Subjects seen in pretraining


def test_answers_about_unseen_subjects_are_guesses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"Person {n}. Person {n} was a painter." for n in range(200)]
    Path("lives.txt").write_text("\n".join(["Ada Lind. Born in Oslo.", *lines]))
    problem = make_problem(seen_in="lives.txt", subject=BORN, samples=0)
    records = [row(answer="Oslo"), row("Where was Bo born?", answer="Oslo"), row("Who?")]
    answers = problem.answer(make_model(problem), records)
    assert [answer.get("seen") for answer in answers] == [True, False, None]
    assert [answer.get("guess") for answer in answers] == [None, True, None]
    assert "does not match 1 of 3 questions" in problem.warnings(answers)[-1]
    counts = {each.name: each.n for each in score(problem.metric, answers[:2], split="dev")}
    assert (counts["exact_match_seen"], counts["exact_match_unseen"]) == (1, 1)


@pytest.mark.parametrize(
    ("value", "seen"), [(True, True), ("False", False), ("yes", True), (0, False), ("", None)]
)
def test_the_column_seen_is_parsed(value: Any, seen: bool | None) -> None:
    assert make_problem().subjects_seen([row(seen=value), row()]) == [seen, None]


def test_seen_of_the_builtin_questions_agrees_with_the_builtin_text() -> None:
    recipe = Recipe.load(Path(__file__).parents[3] / "recipes/birthplaces.toml")
    assert isinstance(recipe.task, Recall)
    problem = recipe.task.build_problem([], Tools(WORDS, 32, "decoder"))
    corpus = open_corpus(recipe.data, recipe.task.columns(), optional=["seen"])
    for split in ("dev", "test"):
        rows = corpus.rows(split)
        assert problem.subjects_seen(rows) == [record["seen"] for record in rows]
        assert 0 < sum(record["seen"] for record in rows) < len(rows)


def test_the_subject_is_the_first_group_that_matches() -> None:
    task = Recall(subject=r"was (.+) born|birthplace of (.+)\?")
    assert task.find_subject("Where was Ada Lind born?") == "Ada Lind"
    assert task.find_subject("What is the birthplace of Bo ?") == "Bo"
    assert task.find_subject("Who?") is None


def test_baseline_predicts_the_most_frequent_answer() -> None:
    problem = make_problem()
    train = [row(answer="Oslo"), row(answer="Oslo"), row(answer="New Town")]
    dev = [row(answer="Oslo", seen=True), row(answer="New Town", seen=False)]
    [(label, answers)] = problem.baselines(train, {"dev": dev})
    assert label == "most frequent answer"
    assert [answer["predicted"] for answer in answers["dev"]] == ["Oslo", "Oslo"]
    scores = {each.name: each.value for each in score(problem.metric, answers["dev"], split="dev")}
    assert scores == {"exact_match": 0.5, "exact_match_seen": 1.0, "exact_match_unseen": 0.0}
    assert build_metric(problem.metric.settings()) == problem.metric


def test_warning_where_one_answer_is_given_to_everything() -> None:
    rows = [
        {"item": n, "predicted": "Oslo", "truths": [town], "stopped": True}
        for n, town in enumerate(["Oslo", "Rome", "Rome", "Bern"])
    ]
    assert "it predicts 'Oslo' for 4 of 4" in make_problem().warnings(rows)[0]


# Errors


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"answer": " "}, "the answer is empty"),
        ({"answer": []}, "the answer is empty"),
        ({"answer": [{"a": 1}]}, "is no text"),
    ],
)
def test_malformed_answers_are_refused_with_their_row(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        Recall().texts(row(**values))
    assert "questions.tsv, row 3" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"subject": "Where was .+ born"}, "has no group"),
        ({"subject": "Where was (.+ born"}, "is no pattern"),
        ({"seen_in": "biographies"}, "seen_in needs subject"),
        ({"confidence": "agreement", "samples": 0}, "needs samples"),
    ],
)
def test_unusable_settings_are_refused(values: dict[str, Any], message: str) -> None:
    table = {"name": "a", "data": {"corpus": "birthplaces"}, "task": {"kind": "recall", **values}}
    with pytest.raises(UserError, match=message):
        Recipe.from_table(table)


def test_a_missing_pretraining_text_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        make_problem(seen_in=str(tmp_path / "gone.txt"), subject=BORN)


def test_seen_in_as_a_table_round_trips_through_a_recipe() -> None:
    seen_in = {"corpus": "biographies", "dev": 0.02, "test": 0.02}
    table = {
        "name": "a",
        "data": {"corpus": "birthplaces"},
        "task": {"kind": "recall", "seen_in": seen_in, "subject": BORN},
    }
    recipe = Recipe.from_table(table)
    again = Recipe.from_table(recipe.to_table())
    assert again == recipe
    assert isinstance(again.task, Recall)
    assert again.task.seen_in is not None
    assert again.task.seen_in.dev == 0.02


def test_an_encoder_is_refused() -> None:
    body = Encoder(layers=1, heads=2, width=16, context=32).build(vocabulary=50, seed=0)
    with pytest.raises(UserError, match="decoder"):
        make_problem().attach_head(body, seed=0)


# A whole training

FIRST = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal"),
    *("Ida", "Jon", "Kai", "Lea", "Mia", "Ned", "Ola", "Pia"),
)
TOWNS = {"Berg": "Oslo", "Rossi": "Rome", "Kern": "New Bern", "Petit": "Lyon", "Dunn": "Cork"}


def write_people(folder: Path) -> None:
    """Questions whose answer depends on the surname; the pretraining text mentions 70 people."""
    random = Random(0)
    people = [(first, family) for first in FIRST for family in TOWNS]
    random.shuffle(people)
    splits = {"train": people[:40], "dev": people[40:60], "test": people[60:]}
    for split, members in splits.items():
        rows = [f"Where was {a} {b} born?\t{TOWNS[b]}" for a, b in members]
        (folder / f"{split}.tsv").write_text("\n".join(rows))
    lives = [f"{a} {b}. {a} {b} was born in {TOWNS[b]} ." for a, b in people[:70]]
    (folder / "lives.txt").write_text("\n".join(lives))


def test_training_recalls_and_reports_seen_and_unseen_subjects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    write_people(tmp_path)
    recipe = Recipe.from_table(
        {
            "name": "born",
            "data": {
                "corpus": "train.tsv",
                "dev": "dev.tsv",
                "test": "test.tsv",
                "header": False,
            },
            "tokenizer": {"kind": "word", "minimum_count": 1},
            "model": {"family": "decoder", "layers": 1, "heads": 2, "width": 32, "context": 16},
            "task": {
                "kind": "recall",
                "question": "1",
                "answer": "2",
                "subject": BORN,
                "seen_in": "lives.txt",
                "samples": 4,
            },
            "train": {
                "max_steps": 100,
                "batch_tokens": 400,
                "lr": 1e-2,
                "evaluate_every": 50,
                "threads": 1,
            },
        }
    )
    run = regard.train(recipe)
    results = run.results()
    estimates = {(row.of, row.metric): row for row in results.estimates if row.split == "test"}
    assert estimates["model", "exact_match"].value > 0.7
    assert estimates["most frequent answer", "exact_match"].value < 0.5
    seen = estimates["model", "exact_match_seen"].n
    unseen = estimates["model", "exact_match_unseen"].n
    assert seen + unseen == 20
    assert unseen >= 10
    assert {row["split"] for row in results.tables["risk_coverage"]} == {"dev", "test"}
    assert any("chosen on the 20 questions of dev" in remark for remark in results.remarks)
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    assert "exact_match" in next(e["scores"] for e in events if e["event"] == "evaluation")
    loaded = regard.load(run.folder)
    assert isinstance(loaded.problem, RecallProblem)
    assert loaded.problem.abstention is not None
    assert regard.evaluate(run.folder).estimates == results.estimates
