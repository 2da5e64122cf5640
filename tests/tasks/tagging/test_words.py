"""Tagging: training, words and their first tokens, files of words and tags, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.word import Word
from regard.evaluation.baselines.word_tags import WordTags
from regard.runs.archive.item_errors import read_errors
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.tagging.words import Tagging

NAMES = {
    "PER": (("Ada", "Max", "Eva", "Jon"), ("Hill", "Ford", "Brook")),
    "LOC": (("Bath", "Deal", "Wells"), ("Spa", "Docks", "Bay")),
}
FILLERS = ("then", "we", "saw", "it", "again", "today", "and")


def sentence(generator: np.random.Generator) -> tuple[list[str], list[str]]:
    """A person and a place in either order, among words outside of spans."""
    words, tags = [], []
    for kind in generator.permutation([*NAMES]).tolist():
        name = [str(generator.choice(part)) for part in NAMES[kind]]
        words += [*generator.choice(FILLERS, 2).tolist(), *name]
        tags += ["O", "O", f"B-{kind}", f"I-{kind}"]
    return words, tags


def write_conll(file, count, seed):
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        words, tags = sentence(generator)
        lines += [f"{word} X {tag}" for word, tag in zip(words, tags, strict=True)] + [""]
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    home = tmp_path_factory.mktemp("tagging")
    recipe = Recipe.from_table(
        {
            "name": "names",
            "data": {
                "corpus": write_conll(home / "train.conll", 250, 0),
                "dev": write_conll(home / "dev.conll", 60, 1),
                "test": write_conll(home / "test.conll", 60, 2),
            },
            "tokenizer": {"kind": "word", "minimum_count": 1},
            "model": {"family": "encoder", "layers": 1, "heads": 2, "width": 32, "context": 16},
            "task": {"kind": "tagging"},
            "train": {
                "epochs": 4,
                "batch_tokens": 200,
                "lr": 1e-2,
                "evaluate_every": 0,
                "threads": 1,
            },
        }
    )
    return regard.train(recipe, out=home / "run")


def run_scores(run, of="model"):
    return {
        row.metric: row.value
        for row in run.results().estimates
        if (row.split, row.of) == ("test", of)
    }


def test_spans_are_learned_and_the_baseline_stands_beside(trained):
    model, words = run_scores(trained), run_scores(trained, WordTags.label)
    assert model["span_f1"] > 0.9
    assert model.keys() == words.keys() == {*Tagging.score_names}


def test_words_without_tags_are_predicted(trained, tmp_path):
    (tmp_path / "mine.conll").write_text("today\nwe\nAda\nHill\n\nit\nBath\nSpa\n")
    first, second = regard.predict(trained.folder, tmp_path / "mine.conll")
    assert first["predicted"].split() == ["O", "O", "B-PER", "I-PER"]
    assert second["predicted"].split() == ["O", "B-LOC", "I-LOC"]
    assert "truth" not in first


def test_errors_show_whole_sentences(trained):
    errors = read_errors([trained.folder], split="test")
    assert len(errors.items[0].input.split()) == len(errors.items[0].truth.split())
    assert {item.is_correct[0] for item in errors.items} <= {True, False}


def test_evaluate_reproduces_the_results_of_training(trained):
    assert regard.evaluate(trained.folder).estimates == trained.results().estimates


def problem(context=16, tokenizer=None):
    tokenizer = tokenizer or Word(minimum_count=1).train(iter(["we saw Ada again"]))
    row = Record({"tokens": ["we", "saw"], "tags": ["O", "B-X"]})
    return Tagging().build_problem([row], Tools(tokenizer, context, "encoder"))


BPE = Bpe(vocabulary=280).train(iter(["we saw Ada again and again near the big river"] * 20))
WORDS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=9)


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(3, 40))
def test_each_word_has_the_position_of_its_first_token(words, context):
    tagging = problem(context, BPE)
    tagged = tagging._sequence(Record({"tokens": words}))
    _, offsets = BPE.encode_with_offsets(" ".join(words))
    begins = [len(" ".join(words[:n])) + (n > 0) for n in range(len(words))]
    covering = [
        [at for at, (low, high) in enumerate(offsets) if low < begin + len(word) and high > begin]
        for word, begin in zip(words, begins, strict=True)
    ]
    kept = len(tagged.sequence.ids) - 2
    expected = {n: found[0] + 1 for n, found in enumerate(covering) if found and found[0] < kept}
    assert dict(tagged.positions) == expected


def test_words_behind_the_context_get_the_most_frequent_tag_and_no_loss():
    tagging = problem(context=4)
    record = Record({"tokens": ["we", "saw", "Ada", "again"], "tags": ["O", "B-X", "O", "B-X"]})
    [example] = tagging.examples(record)
    assert example.weights.tolist() == [0, 1, 1, 0]
    assert tagging.truncated_tokens(record) == 2
    certain = np.log(np.eye(2)[[1, 1]] + 1e-9)
    row = tagging._row(0, record, certain)
    assert len(row["predicted"].split()) == 4
    assert row["predicted"].split()[2:] == [tagging.tags[0]] * 2


@pytest.mark.parametrize(
    ("tokens", "tags", "message"),
    [
        (["a", "b"], ["O"], "2 words and 1 tags"),
        ([], [], "without a word"),
        (["a b"], ["O"], "'a b' among the tokens"),
        (["a"], [" "], "among the tags"),
        (3, ["O"], "neither a list nor a text"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tokens, tags, message):
    record = Record({"tokens": tokens, "tags": tags}, at="a.jsonl, line 7")
    with pytest.raises(UserError, match=message) as refused:
        Tagging().check(record)
    assert "a.jsonl, line 7" in str(refused.value)


def test_lists_texts_and_numbers_are_read_alike():
    records = [
        Record({"tokens": ["we", "saw"], "tags": [0, 1]}),
        Record({"tokens": "we saw", "tags": "0 1"}),
    ]
    assert [Tagging().tags_of(record) for record in records] == [["0", "1"]] * 2
    assert [Tagging().words(record) for record in records] == [["we", "saw"]] * 2
