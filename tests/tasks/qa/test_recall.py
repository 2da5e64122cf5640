from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.chunks import Document
from regard.data.record_corpus import Record, open_records
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.evaluation.metrics.metric import build_metric, score
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
    return Record({"question": question, **values}, at="asked.tsv, row 3")


def problem_of(
    *,
    tokenizer: Tokenizer = WORDS,
    family: str = "decoder",
    context: int = 32,
    **values: Any,
) -> RecallProblem:
    return Recall(**values).build_problem([row(answer="Oslo")], Tools(tokenizer, context, family))


def model_of(problem: RecallProblem, *, seed: int = 0) -> Model:
    context = problem.tools.context
    family = (
        Decoder(layers=1, heads=2, width=16, context=context)
        if problem.is_single_row
        else Recurrent(layers=1, width=16, context=context)
    )
    body = family.build(vocabulary=problem.tools.tokenizer.size, seed=seed)
    return problem.attach_head(body, seed=seed).eval()


# Rows


def test_a_decoder_reads_question_marks_answer_in_one_row_and_tells_the_answer_alone() -> None:
    [example] = problem_of().examples(row(answer="New Town"))
    start, mask, stop = (WORDS.require(role) for role in ("start", "mask", "stop"))
    question, answer = WORDS.encode("Where was Ada Lind born?"), WORDS.encode("New Town")
    whole = [start, *question, mask, mask, *answer, stop]
    assert example.inputs.tolist() == whole[:-1]
    assert example.targets.tolist() == whole[1:]
    told = example.targets[example.weights > 0].tolist()
    assert told == [*answer, stop]
    assert example.source is None


def test_the_row_is_what_salient_pretraining_shows_of_a_gap_at_the_end() -> None:
    vocabulary = Vocabulary.from_tokenizer(BYTES)
    line = BYTES.encode("Ada Lind. born in Oslo")
    document = Document(np.array([vocabulary.start, *line, vocabulary.stop]), context=32)
    shown = Salient(shift=0, drop=1.0, before=0, after=0).example(
        document, np.random.default_rng(0), vocabulary=vocabulary
    )
    [asked] = problem_of(tokenizer=BYTES).examples(row("Ada Lind.", answer="Oslo"))
    assert asked.inputs.tolist() == shown.inputs.tolist()
    assert asked.targets.tolist() == shown.targets.tolist()
    assert asked.weights.tolist() == shown.weights.tolist()


def test_a_source_model_reads_the_question_as_its_source() -> None:
    [example] = problem_of(family="recurrent").examples(row(answer="Oslo"))
    start, stop = WORDS.require("start"), WORDS.require("stop")
    assert example.source is not None
    assert example.source.tolist() == [start, *WORDS.encode("Where was Ada Lind born?")]
    assert example.targets.tolist() == [*WORDS.encode("Oslo"), stop]


def test_several_answers_each_teach() -> None:
    assert len(problem_of().examples(row(answer=["Oslo", "New Town"]))) == 2
    assert problem_of().examples(row()) == []


@given(words=st.integers(1, 60), answer=st.integers(1, 40), context=st.integers(8, 40))
@settings(max_examples=60)
def test_what_does_not_fit_is_counted(words: int, answer: int, context: int) -> None:
    problem = problem_of(context=context)
    record = row(" ".join(["Ada"] * words), answer=" ".join(["Oslo"] * answer))
    [example] = problem.examples(record)
    assert len(example.inputs) <= context
    stop, mask = WORDS.require("stop"), WORDS.require("mask")
    asked = example.inputs.tolist().count(WORDS.encode("Ada")[0])
    told = example.targets[example.weights > 0].tolist()
    kept = len([token for token in told if token not in (stop, mask)])
    assert problem.lost(record) == words - asked + answer - kept
    assert (stop in told) == (kept == answer)


def test_a_context_without_room_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.context = 5 has no room for a question"):
        problem_of(context=5, marks=3)


# Answers


@pytest.mark.parametrize("family", ["decoder", "recurrent"])
def test_answers_carry_both_confidences_and_map_back(family: str) -> None:
    problem = problem_of(family=family, samples=6)
    model = model_of(problem)
    records = [row(answer="Oslo"), row("Where was Bo born?"), row(answer=["Oslo", "New Town"])]
    answers = problem.answer(model, records)
    assert [one["item"] for one in answers] == [0, 1, 2]
    for one in answers:
        assert 0 < one["probability"] <= one["probability_per_token"] <= 1
        assert one["confidence"] == one["probability"]
        assert one["agreement"] * 6 == pytest.approx(round(one["agreement"] * 6))
        assert one["answered"] is True
    assert ("truths" in answers[1], "loss" in answers[1]) == (False, False)
    assert answers[2]["truths"] == ["Oslo", "New Town"]
    assert answers[0]["predicted"] == answers[2]["predicted"]
    assert problem.answer(model, records) == answers
    [first] = problem.answer(model, records[:1])
    assert first["predicted"] == answers[0]["predicted"]
    assert first["agreement"] == answers[0]["agreement"]


def test_a_glance_says_the_same_without_draws() -> None:
    problem = problem_of()
    model = model_of(problem)
    records = [row(answer="Oslo"), row("Where was Bo born?", answer="Oslo")]
    full, quick = problem.answer(model, records), problem.answer_in_training(model, records)
    assert [one["predicted"] for one in full] == [one["predicted"] for one in quick]
    assert "agreement" not in quick[0]
    assert (
        problem.metric.statistics(quick)[0].tolist() == problem.metric.statistics(full)[0].tolist()
    )


def test_draws_agree_about_as_often_as_the_answer_is_probable() -> None:
    problem = problem_of(samples=400, max_new_tokens=1)
    [one] = problem.answer(model_of(problem), [row()])
    error = (one["probability"] * (1 - one["probability"]) / 400) ** 0.5
    assert abs(one["agreement"] - one["probability"]) < 4 * error + 1 / 400


# The threshold


def test_the_threshold_answers_half_of_dev_and_is_kept() -> None:
    problem = problem_of(samples=2)
    model = model_of(problem)
    names = ["Ada", "Lind", "was", "Where", "born", "Bo"]
    records = [row(f"Where was {name} born?", answer="Oslo") for name in names]
    [remark] = problem.tune(model, records)
    answers = problem.answer(model, records)
    assert sum(one["answered"] for one in answers) == 3
    assert "chosen on the 6 questions of dev to answer 50 % of them" in remark
    again = problem.task.restore_problem(json.loads(json.dumps(problem.state())), problem.tools)
    assert again.abstention == problem.abstention
    assert again.answer(model, records) == answers
    figures = {one.name: one for one in score(problem.metric, answers, split="dev")}
    assert figures["coverage"].value == 0.5
    assert figures["exact_match_answered"].n == 3
    tables = problem.tables(answers, split="dev:12")
    assert tables.keys() == {"risk", "risk_coverage", "calibration"}
    assert {one["metric"] for one in tables["risk"]} == {"aurc", "ece", "accuracy_answered"}
    assert tables["risk_coverage"][-1]["coverage"] == 1


def test_a_precision_that_dev_never_reaches_leaves_all_unanswered() -> None:
    problem = problem_of(precision=0.9, samples=0)
    model = model_of(problem)
    records = [row(answer="nowhere"), row("Where was Bo born?", answer="nowhere")]
    [remark] = problem.tune(model, records)
    assert remark.startswith("no threshold chosen on the 2 questions of dev")
    assert not any(one["answered"] for one in problem.answer(model, records))


# Seen and not


def test_what_pretraining_never_named_is_a_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"Person {n}. Person {n} was a painter." for n in range(200)]
    Path("lives.txt").write_text("\n".join(["Ada Lind. Born in Oslo.", *lines]))
    problem = problem_of(seen_in="lives.txt", subject=BORN, samples=0)
    records = [row(answer="Oslo"), row("Where was Bo born?", answer="Oslo"), row("Who?")]
    answers = problem.answer(model_of(problem), records)
    assert [one.get("seen") for one in answers] == [True, False, None]
    assert [one.get("guess") for one in answers] == [None, True, None]
    assert "task.subject does not fit 1 of 3 questions" in problem.warnings(answers)[-1]
    figures = {one.name: one.n for one in score(problem.metric, answers[:2], split="dev")}
    assert (figures["exact_match_seen"], figures["exact_match_unseen"]) == (1, 1)


@pytest.mark.parametrize(
    ("value", "seen"), [(True, True), ("False", False), ("yes", True), (0, False), ("", None)]
)
def test_the_column_says_what_was_seen(value: Any, seen: bool | None) -> None:
    assert problem_of().seen([row(seen=value), row()]) == [seen, None]


def test_the_built_in_questions_and_lives_agree_on_who_was_seen() -> None:
    [shipped] = Path(__file__).parents[3].glob("recipes/birthplaces.toml")
    recipe = Recipe.load(shipped)
    assert isinstance(recipe.task, Recall)
    problem = recipe.task.build_problem([], Tools(WORDS, 32, "decoder"))
    corpus = open_records(recipe.data, recipe.task.columns(), optional=["seen"])
    for split in ("dev", "test"):
        rows = corpus.rows(split)
        assert problem.seen(rows) == [record["seen"] for record in rows]
        assert 0 < sum(record["seen"] for record in rows) < len(rows)


def test_subjects_come_from_the_first_group_that_fits() -> None:
    task = Recall(subject=r"was (.+) born|birthplace of (.+)\?")
    assert task.subject_of("Where was Ada Lind born?") == "Ada Lind"
    assert task.subject_of("What is the birthplace of Bo ?") == "Bo"
    assert task.subject_of("Who?") is None


def test_the_baseline_says_the_most_frequent_answer() -> None:
    problem = problem_of()
    train = [row(answer="Oslo"), row(answer="Oslo"), row(answer="New Town")]
    dev = [row(answer="Oslo", seen=True), row(answer="New Town", seen=False)]
    [(label, parts)] = problem.baselines(train, {"dev": dev})
    assert label == "most frequent answer"
    assert [one["predicted"] for one in parts["dev"]] == ["Oslo", "Oslo"]
    figures = {one.name: one.value for one in score(problem.metric, parts["dev"], split="dev")}
    assert figures == {"exact_match": 0.5, "exact_match_seen": 1.0, "exact_match_unseen": 0.0}
    assert build_metric(problem.metric.settings()) == problem.metric


def test_one_answer_to_everything_is_said() -> None:
    rows = [
        {"item": n, "predicted": "Oslo", "truths": [place], "stopped": True}
        for n, place in enumerate(["Oslo", "Rome", "Rome", "Bern"])
    ]
    assert "it predicts 'Oslo' for 4 of 4" in problem_of().warnings(rows)[0]


# What is refused


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"answer": " "}, "the answer is empty"),
        ({"answer": []}, "the answer is empty"),
        ({"answer": [{"a": 1}]}, "is no text"),
    ],
)
def test_rows_without_an_answer_are_refused_by_place(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        Recall().texts(row(**values))
    assert "asked.tsv, row 3" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"subject": "Where was .+ born"}, "has no group"),
        ({"subject": "Where was (.+ born"}, "is no pattern"),
        ({"seen_in": "biographies"}, "seen_in needs subject"),
        ({"confidence": "agreement", "samples": 0}, "needs samples"),
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any], said: str) -> None:
    table = {"name": "a", "data": {"corpus": "birthplaces"}, "task": {"kind": "recall", **values}}
    with pytest.raises(UserError, match=said):
        Recipe.from_table(table)


def test_a_pretraining_text_that_is_not_there_is_said_before_training(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        problem_of(seen_in=str(tmp_path / "gone.txt"), subject=BORN)


def test_a_table_of_data_survives_a_recipe() -> None:
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
        problem_of().attach_head(body, seed=0)


# A whole training

FIRST = (
    *("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hal"),
    *("Ida", "Jon", "Kai", "Lea", "Mia", "Ned", "Ola", "Pia"),
)
TOWNS = {"Berg": "Oslo", "Rossi": "Rome", "Kern": "New Bern", "Petit": "Lyon", "Dunn": "Cork"}


def write_people(folder: Path) -> None:
    """A family's town is where all of it were born; the pretraining text names some people."""
    random = Random(0)
    people = [(first, family) for first in FIRST for family in TOWNS]
    random.shuffle(people)
    parts = {"train": people[:40], "dev": people[40:60], "test": people[60:]}
    for split, some in parts.items():
        rows = [f"Where was {a} {b} born?\t{TOWNS[b]}" for a, b in some]
        (folder / f"{split}.tsv").write_text("\n".join(rows))
    told = [f"{a} {b}. {a} {b} was born in {TOWNS[b]} ." for a, b in people[:70]]
    (folder / "lives.txt").write_text("\n".join(told))


def test_a_training_recalls_and_knows_when_it_guesses(
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
    figures = run.figures()
    of_test = {
        (one["of"], one["metric"]): one for one in figures["figures"] if one["part"] == "test"
    }
    assert of_test["model", "exact_match"]["value"] > 0.7
    assert of_test["most frequent answer", "exact_match"]["value"] < 0.5
    seen, unseen = (of_test["model", f"exact_match_{way}"]["n"] for way in ("seen", "unseen"))
    assert seen + unseen == 20
    assert unseen >= 10
    assert {one["part"] for one in figures["tables"]["risk_coverage"]} == {"dev", "test"}
    assert any("chosen on the 20 questions of dev" in remark for remark in figures["remarks"])
    looks = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    assert "exact_match" in next(e["figures"] for e in looks if e["event"] == "evaluation")
    loaded = regard.load(run.folder)
    assert isinstance(loaded.problem, RecallProblem)
    assert loaded.problem.abstention is not None
    assert regard.evaluate(run.folder)["figures"] == figures["figures"]
