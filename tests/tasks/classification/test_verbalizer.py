"""Verbalizer: label scores are the decoder's log-probabilities, zero-shot and fine-tuned."""

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
from regard.models.inputs import ModelInputs
from regard.runs.recipe import Recipe
from regard.tasks import Tools
from regard.tasks.classification.verbalizer import Verbalizer

WORDS = ("good", "bad", "film", "book", "not", "very", "the", "was")
LABELS = {"0": " very bad", "1": " very good", "2": " good"}


def rows(count, seed):
    """Synthetic reviews, labelled by the last of seven words; the other label's word occurs too."""
    generator = np.random.default_rng(seed)
    records = []
    for _ in range(count):
        decisive, other = generator.permutation(WORDS[:2]).tolist()
        title, *body = generator.permutation([other, *WORDS[2:7]]).tolist()
        stars = int(decisive == "good")
        records.append({"title": title, "body": " ".join([*body, decisive]), "stars": stars})
    return records


def write_jsonl(file, records):
    file.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    return str(file)


def tools(context=16, tokenizer=None):
    words = Word(minimum_count=1).train(iter([" ".join(WORDS) + " Label: Review ?"]))
    return Tools(tokenizer or words, context, "decoder")


def gpt2_like():
    """A byte tokenizer with one special token as start and stop, and no padding token."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    ids = {piece: index for index, piece in enumerate([*alphabet, "<|endoftext|>"])}
    engine = tokenizers.Tokenizer(tokenizers.models.BPE(ids, []))
    engine.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = tokenizers.decoders.ByteLevel()
    engine.add_special_tokens(["<|endoftext|>"])
    return Tokenizer(engine, name="gpt2-like")


def record(text, **more):
    return Record({"text": text, **more}, "mine.csv, row 1")


def make_problem(task, tools, labels=("0", "1")):
    return task.build_problem([record("x", label=label) for label in labels], tools)


def decoder(problem):
    tools = problem.tools
    family = Decoder(layers=1, heads=2, width=16, context=tools.context, init_std=0.5)
    return family.build(vocabulary=tools.tokenizer.size, seed=0).eval()


@torch.inference_mode()
def reference_scores(problem, model, text):
    """The log-probability of each label's words, one forward pass a label."""
    tokenizer, scores = problem.tools.tokenizer, []
    prompt = [tokenizer.start, *tokenizer.encode(text)]
    for label in problem.labels:
        words = tokenizer.encode(problem.task.label_words(label))
        logprobs = (
            model.logits(ModelInputs(torch.tensor([prompt + words])))[0].double().log_softmax(-1)
        )
        word_logprobs = [float(logprobs[len(prompt) - 1 + i, word]) for i, word in enumerate(words)]
        scores.append(sum(word_logprobs) / (len(words) if problem.task.per_token else 1))
    return np.array(scores)


@pytest.mark.parametrize("tokenizer", [None, gpt2_like()], ids=["word", "gpt2"])
@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("calibrate", ["none", "empty"])
def test_scores_equal_the_log_probabilities_of_the_words(tokenizer, per_token, calibrate):
    task = Verbalizer(words=LABELS, per_token=per_token, calibrate=calibrate)
    problem = make_problem(task, tools(64, tokenizer))
    model = decoder(problem)
    texts = ["the film was good", "bad", "the book was not very good not bad"]
    answers = problem.answer(model, [record(text, label="1") for text in texts])
    empty = reference_scores(problem, model, "\nLabel:") if calibrate == "empty" else 0.0
    for text, row in zip(texts, answers, strict=True):
        scores = reference_scores(problem, model, f"{text}\nLabel:") - empty
        probabilities = np.exp(scores) / np.exp(scores).sum()
        assert row["predicted"] == problem.labels[int(scores.argmax())]
        assert row["confidence"] == pytest.approx(probabilities.max(), rel=1e-4)
        assert row["loss"] == pytest.approx(-np.log(probabilities[1]), rel=1e-4)


def test_labels_with_a_common_prefix_share_a_row():
    problem = make_problem(Verbalizer(words=LABELS), tools())
    assert [branch.labels for branch in problem.branches] == [(0, 1), (2,)]
    single = make_problem(Verbalizer(words={"0": " bad", "1": " good"}), tools())
    assert problem.positions_to_answer(record("the film")) > single.positions_to_answer(
        record("the film")
    )


def test_loss_is_on_the_label_words_only():
    problem = make_problem(Verbalizer(words=LABELS), tools())
    tokenizer = problem.tools.tokenizer
    [example] = problem.examples(record("the film", label=1))
    assert tokenizer.tokens(example.inputs) == ["<start>", "the", "film", "Label", ":", "very"]
    scored = example.targets[example.weights > 0]
    assert tokenizer.tokens(scored) == ["very", "good"]


def test_attach_head_leaves_a_decoder_unchanged_and_refuses_an_encoder():
    problem = make_problem(Verbalizer(words=LABELS), tools())
    model = decoder(problem)
    assert problem.attach_head(model, seed=0) is model
    encoder = regard.Recipe.from_table({"name": "e", "data": {"corpus": "x"}, "model": "encoder"})
    other = encoder.model.build(vocabulary=20, seed=0)
    with pytest.raises(UserError, match=r'Set model.family = "decoder"'):
        problem.attach_head(other, seed=0)


def test_long_texts_are_truncated_to_fit_the_words():
    problem = make_problem(Verbalizer(words=LABELS), tools(context=8))
    long = record("good " * 30, label="0")
    [example] = problem.examples(long)
    assert len(example.inputs) == 8
    assert problem.truncated_tokens(long) == 26
    assert problem.answer(decoder(problem), [long])[0]["truth"] == "0"


def test_labels_are_their_own_words_by_default():
    problem = make_problem(Verbalizer(), tools(), labels=("good", "bad"))
    assert problem.labels == ("bad", "good")
    assert problem.task.texts(record("the film", label="bad")) == ["the film\nLabel: bad"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"words": {"0": " bad", "1": "  "}}, "task: words of the label '1' are empty"),
        ({"words": {"0": " bad"}}, "only one label"),
        ({"template": "{label} {text}"}, "'label', which would leak the answer"),
        ({"template": "{gold}", "label": "gold"}, "'gold', which would leak the answer"),
        ({"template": "{text"}, "is not a template"),
        ({"template": "Label:"}, "names no column"),
        ({"calibrate": "full"}, "task.calibrate = 'full' is not allowed"),
    ],
)
def test_unusable_settings_are_refused(settings, message):
    table = {"name": "v", "data": {"corpus": "x"}, "task": {"kind": "verbalizer", **settings}}
    with pytest.raises(UserError, match=message):
        Recipe.from_table(table)


def test_words_that_the_tokenizer_cannot_distinguish_are_refused():
    with pytest.raises(UserError, match=r"' worse' .* '1' .* '0'"):
        make_problem(Verbalizer(words={"0": " awful", "1": " worse"}), tools())


def test_words_longer_than_the_context_are_refused():
    with pytest.raises(UserError, match=r"up to 2 tokens, .*model\.context = 2"):
        make_problem(Verbalizer(words=LABELS), tools(context=2))


def test_an_error_names_the_row_of_a_label_without_words():
    task = Verbalizer(words={"0": " bad", "1": " good"})
    task.check(record("x", label=1))
    with pytest.raises(UserError, match=r"mine\.csv, row 1: .* '2' .* words"):
        task.check(record("x", label=2))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verbalizer")
    for seed, (split, count) in enumerate({"train": 500, "dev": 100, "test": 100}.items()):
        write_jsonl(folder / f"{split}.jsonl", rows(count, seed))
    return folder


def recipe_table(home, **task):
    defaults = {
        "kind": "verbalizer",
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
        "task": {**defaults, **task},
        "train": {"epochs": 3, "batch_tokens": 400, "lr": 4e-3, "evaluate_every": 0, "threads": 1},
    }


def test_fine_tuning_beats_the_baselines(home, tmp_path):
    run = regard.train(Recipe.from_table(recipe_table(home)), out=tmp_path / "run")
    accuracies = {
        row.of: row.value
        for row in run.results().estimates
        if (row.split, row.metric) == ("test", "accuracy")
    }
    assert accuracies["model"] > 0.9
    assert accuracies["majority class"] < 0.7
    assert any(of.startswith("TF-IDF") for of in accuracies)
    items = (run.folder / "items" / "test.jsonl").read_text().splitlines()
    assert {*json.loads(items[0])["record"]} == {"title", "body", "label"}
    records = rows(30, 7)
    unlabelled = [{"title": row["title"], "body": row["body"]} for row in records]
    answers = regard.predict(run.folder, write_jsonl(tmp_path / "mine.jsonl", unlabelled))
    right = [a["predicted"] == str(row["stars"]) for a, row in zip(answers, records, strict=True)]
    assert sum(right) > 24
    assert "truth" not in answers[0]


def test_a_template_field_without_a_column_is_refused(home, tmp_path):
    recipe = Recipe.from_table(recipe_table(home, template="{titel} {body} ?"))
    with pytest.raises(UserError, match=r"'titel'; .* did you mean 'title'\?") as caught:
        regard.train(recipe, out=tmp_path / "run")
    assert "{titel} in task.template" in str(caught.value)


def test_a_pretrained_decoder_answers_zero_shot_and_with_an_adapter(home, tmp_path):
    texts = [f"{row['title']} {row['body']}" for row in rows(300, 9)]
    (tmp_path / "texts.txt").write_text("\n".join(f"Review: {text} ?" for text in texts))
    table = recipe_table(home)
    pretraining = {key: table.pop(key) for key in ("tokenizer", "model")} | {
        "name": "first",
        "data": {"corpus": str(tmp_path / "texts.txt"), "dev": 0.1, "test": 0.1},
        "train": {"max_steps": 2, "batch_tokens": 400, "threads": 1},
    }
    pretrained = regard.train(Recipe.from_table(pretraining), out=tmp_path / "first")
    table["init_from"] = str(pretrained.folder)
    before = regard.load(pretrained.folder).model.state_dict()
    kinds = {"none": {}, "lora": {"train": {**table["train"], "epochs": 1, "max_steps": 3}}}
    for kind, train in kinds.items():
        recipe = Recipe.from_table(table | {"adapt": {"kind": kind}} | train)
        run = regard.train(recipe, out=tmp_path / kind)
        assert run.results().cost.steps == (3 if kind == "lora" else 0)
        assert {"model", "majority class"} < {row.of for row in run.results().estimates}
        loaded = regard.load(run.folder)
        after = loaded.model.state_dict()
        assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        answers = regard.predict(loaded, home / "dev.jsonl")
        items = (run.folder / "items" / "dev.jsonl").read_text().splitlines()
        predicted = [json.loads(line)["predicted"] for line in items]
        assert [answer["predicted"] for answer in answers] == predicted
