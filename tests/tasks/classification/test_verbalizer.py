"""A decoder tells labels by their words: exactly as probable as it finds them, tuned or not."""

import json

import numpy as np
import pytest
import tokenizers
import torch

import regard
from regard.core.errors import UserError
from regard.data.record_corpus import Record
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.models.families.decoder import Decoder
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.classification.verbalizer import Verbalizer

WORDS = ("good", "bad", "film", "book", "not", "very", "the", "was")
LABELS = {"0": " very bad", "1": " very good", "2": " good"}


def rows(count, seed):
    """The last of seven words decides, and the other is there too (generated)."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        decides, other = generator.permutation(WORDS[:2]).tolist()
        title, *body = generator.permutation([other, *WORDS[2:7]]).tolist()
        stars = int(decides == "good")
        made.append({"title": title, "body": " ".join([*body, decides]), "stars": stars})
    return made


def write(place, made):
    place.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return str(place)


def tools(context=16, tokenizer=None):
    known = Word(minimum_count=1).train(iter([" ".join(WORDS) + " Label: Review ?"]))
    return Tools(tokenizer or known, context, "decoder")


def gpt2_like():
    """Bytes, and one special token that plays start and stop; no padding token."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    ids = {piece: number for number, piece in enumerate([*alphabet, "<|endoftext|>"])}
    engine = tokenizers.Tokenizer(tokenizers.models.BPE(ids, []))
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>"])
    return Tokenizer(engine, name="gpt2-like")


def record(text, **more):
    return Record({"text": text, **more}, "mine.csv, row 1")


def opened(task, tools, labels=("0", "1")):
    return task.build_problem([record("x", label=label) for label in labels], tools)


def decoder(problem):
    kept = problem.tools
    family = Decoder(layers=1, heads=2, width=16, context=kept.context, init_std=0.5)
    return family.build(vocabulary=kept.tokenizer.size, seed=0).eval()


@torch.inference_mode()
def by_hand(problem, model, text):
    """The log-probability of each label's words, every label in a row of its own."""
    tokenizer, found = problem.tools.tokenizer, []
    read = [tokenizer.start, *tokenizer.encode(text)]
    for label in problem.labels:
        words = tokenizer.encode(problem.task.words_of(label))
        logs = model.logits(torch.tensor([read + words]))[0].double().log_softmax(-1)
        told = [float(logs[len(read) - 1 + place, word]) for place, word in enumerate(words)]
        found.append(sum(told) / (len(words) if problem.task.per_token else 1))
    return np.array(found)


@pytest.mark.parametrize("tokenizer", [None, gpt2_like()], ids=["word", "gpt2"])
@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("calibrate", ["none", "empty"])
def test_scores_are_the_probabilities_of_the_words(tokenizer, per_token, calibrate):
    task = Verbalizer(words=LABELS, per_token=per_token, calibrate=calibrate)
    problem = opened(task, tools(64, tokenizer))
    model = decoder(problem)
    texts = ["the film was good", "bad", "the book was not very good not bad"]
    answers = problem.answer(model, [record(text, label="1") for text in texts])
    empty = by_hand(problem, model, "\nLabel:") if calibrate == "empty" else 0.0
    for text, row in zip(texts, answers, strict=True):
        scores = by_hand(problem, model, f"{text}\nLabel:") - empty
        shares = np.exp(scores) / np.exp(scores).sum()
        assert row["predicted"] == problem.labels[int(scores.argmax())]
        assert row["confidence"] == pytest.approx(shares.max(), rel=1e-4)
        assert row["loss"] == pytest.approx(-np.log(shares[1]), rel=1e-4)


def test_labels_that_begin_alike_share_a_row():
    problem = opened(Verbalizer(words=LABELS), tools())
    assert [branch.labels for branch in problem.branches] == [(0, 1), (2,)]
    known = opened(Verbalizer(words={"0": " bad", "1": " good"}), tools())
    assert problem.positions_to_answer(record("the film")) > known.positions_to_answer(
        record("the film")
    )


def test_the_words_alone_are_learnt():
    problem = opened(Verbalizer(words=LABELS), tools())
    tokenizer = problem.tools.tokenizer
    [example] = problem.examples(record("the film", label=1))
    assert tokenizer.tokens(example.inputs) == ["<start>", "the", "film", "Label", ":", "very"]
    told = example.targets[example.weights > 0]
    assert tokenizer.tokens(told) == ["very", "good"]


def test_nothing_is_put_on_the_model():
    problem = opened(Verbalizer(words=LABELS), tools())
    model = decoder(problem)
    assert problem.attach_head(model, seed=0) is model
    encoder = regard.Recipe.from_table({"name": "e", "data": {"corpus": "x"}, "model": "encoder"})
    other = encoder.model.build(vocabulary=20, seed=0)
    with pytest.raises(UserError, match=r'Set model.family = "decoder"'):
        problem.attach_head(other, seed=0)


def test_long_texts_leave_room_for_the_words():
    problem = opened(Verbalizer(words=LABELS), tools(context=8))
    long = record("good " * 30, label="0")
    [example] = problem.examples(long)
    assert len(example.inputs) == 8
    assert problem.lost(long) == 26
    assert problem.answer(decoder(problem), [long])[0]["truth"] == "0"


def test_labels_are_their_own_words_where_none_are_given():
    problem = opened(Verbalizer(), tools(), labels=("good", "bad"))
    assert problem.labels == ("bad", "good")
    assert problem.task.texts(record("the film", label="bad")) == ["the film\nLabel: bad"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"words": {"0": " bad", "1": "  "}}, "task: words of the label '1' are empty"),
        ({"words": {"0": " bad"}}, "one label alone"),
        ({"template": "{label} {text}"}, "'label', which would tell the answer"),
        ({"template": "{gold}", "label": "gold"}, "'gold', which would tell the answer"),
        ({"template": "{text"}, "is no template"),
        ({"template": "Label:"}, "names no column"),
        ({"calibrate": "full"}, "task.calibrate = 'full' is not allowed"),
    ],
)
def test_settings_that_cannot_be_used(settings, says):
    table = {"name": "v", "data": {"corpus": "x"}, "task": {"kind": "verbalised", **settings}}
    with pytest.raises(UserError, match=says):
        Recipe.from_table(table)


def test_words_that_the_tokenizer_cannot_tell_apart():
    with pytest.raises(UserError, match=r"' worse' of the label '1' have the same tokens .* '0'"):
        opened(Verbalizer(words={"0": " awful", "1": " worse"}), tools())
    with pytest.raises(UserError, match=r"up to 2 tokens, and model.context = 2 leaves no room"):
        opened(Verbalizer(words=LABELS), tools(context=2))


def test_a_label_without_words_is_named_with_its_row():
    task = Verbalizer(words={"0": " bad", "1": " good"})
    task.check(record("x", label=1))
    with pytest.raises(UserError, match=r"mine.csv, row 1: the label '2' has no words\. Add them"):
        task.check(record("x", label=2))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verbalised")
    for number, (split, count) in enumerate({"train": 500, "dev": 100, "test": 100}.items()):
        write(folder / f"{split}.jsonl", rows(count, number))
    return folder


def table(home, **task):
    asked = {
        "kind": "verbalised",
        "template": "Review: {title} {body} ?",
        "words": {"0": " bad", "1": " good"},
        "label": "stars",
    }
    return {
        "name": "order",
        "data": {
            "corpus": str(home / "train.jsonl"),
            "dev": str(home / "dev.jsonl"),
            "test": str(home / "test.jsonl"),
        },
        "tokenizer": {"kind": "word"},
        "model": {"family": "decoder", "layers": 2, "heads": 2, "width": 32, "context": 16},
        "task": {**asked, **task},
        "train": {"epochs": 3, "batch_tokens": 400, "lr": 4e-3, "evaluate_every": 0, "threads": 1},
    }


def test_tuned_it_tells_what_it_could_not(home, tmp_path):
    run = regard.train(Recipe.from_table(table(home)), out=tmp_path / "run")
    figures = {
        row["of"]: row["value"]
        for row in run.figures()["figures"]
        if (row["part"], row["metric"]) == ("test", "accuracy")
    }
    assert figures["model"] > 0.9
    assert figures["majority class"] < 0.7
    assert any(of.startswith("TF-IDF") for of in figures)
    items = (run.folder / "items" / "test.jsonl").read_text().splitlines()
    assert {*json.loads(items[0])["record"]} == {"title", "body", "label"}
    made = rows(30, 7)
    asked = [{"title": row["title"], "body": row["body"]} for row in made]
    answers = regard.predict(run.folder, write(tmp_path / "mine.jsonl", asked))
    right = [a["predicted"] == str(row["stars"]) for a, row in zip(answers, made, strict=True)]
    assert sum(right) > 24
    assert "truth" not in answers[0]


def test_a_field_that_is_no_column(home, tmp_path):
    recipe = Recipe.from_table(table(home, template="{titel} {body} ?"))
    with pytest.raises(UserError, match=r"no key 'titel'; .* did you mean 'title'\?") as seen:
        regard.train(recipe, out=tmp_path / "run")
    assert "{titel} in task.template" in str(seen.value)


def test_a_pretrained_decoder_answers_with_nothing_trained_and_with_an_adapter(home, tmp_path):
    texts = [" ".join(row[side] for side in ("title", "body")) for row in rows(300, 9)]
    (tmp_path / "texts.txt").write_text("\n".join(f"Review: {text} ?" for text in texts))
    first = {key: table(home)[key] for key in ("tokenizer", "model")} | {
        "name": "first",
        "data": {"corpus": str(tmp_path / "texts.txt"), "dev": 0.1, "test": 0.1},
        "train": {"max_steps": 2, "batch_tokens": 400, "threads": 1},
    }
    start = regard.train(Recipe.from_table(first), out=tmp_path / "first")
    base = {key: value for key, value in table(home).items() if key not in ("tokenizer", "model")}
    base["start"] = str(start.folder)
    before = regard.load(start.folder).model.state_dict()
    kinds = {"none": {}, "lora": {"train": {**base["train"], "epochs": 1, "max_steps": 3}}}
    for kind, more in kinds.items():
        recipe = Recipe.from_table(base | {"adapt": {"kind": kind}} | more)
        run = regard.train(recipe, out=tmp_path / kind)
        assert run.figures()["cost"]["steps"] == (3 if kind == "lora" else 0)
        assert {"model", "majority class"} < {row["of"] for row in run.figures()["figures"]}
        again = regard.load(run.folder)
        after = again.model.state_dict()
        assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        answers = regard.predict(again, home / "dev.jsonl")
        kept = (run.folder / "items" / "dev.jsonl").read_text().splitlines()
        told = [json.loads(line)["predicted"] for line in kept]
        assert [answer["predicted"] for answer in answers] == told
