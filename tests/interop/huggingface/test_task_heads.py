"""Heads of checkpoints come along: the logits of transformers, the labels, predict and evaluate."""

from __future__ import annotations

import json
import random

import pytest
import torch
import transformers
from tests.interop.transformers_models import SMALL, randomise, save_checkpoint

import regard
from regard.batch import collate
from regard.interop.import_model import import_model

TOLERANCE = 1e-5
TAGS = ["B-PER", "O", "I-PER"]
LABELS = {0: "world", 1: "sports", 2: "business"}
TEXTS = ["word1 word2 word3", "word7", "word20 word3 word4 word5 word6"]
PASSAGES = [
    {"question": "word1 word2", "context": "word3 word4 word5 word6", "answers": "word4"},
    {"question": "word9", "context": "word10 word11", "answers": "word11"},
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def classifier(name, **settings):
    names = {"id2label": LABELS, "label2id": {label: n for n, label in LABELS.items()}}
    special = {"cls_token_id": 0, "sep_token_id": 2}
    if name == "bert":
        config = transformers.BertConfig(**{**SMALL, **names, **special, **settings})
        return randomise(transformers.BertForSequenceClassification(config))
    table = {**SMALL, "max_position_embeddings": 22, **names, **special, **settings}
    return randomise(
        transformers.RobertaForSequenceClassification(transformers.RobertaConfig(**table))
    )


def import_and_load(model, tmp_path):
    report = import_model(str(save_checkpoint(model, tmp_path / "theirs")), tmp_path / "ours")
    return regard.load(tmp_path / "ours"), report


def batch_of(loaded, rows):
    examples = [e for row in rows for e in loaded.problem.examples(row)]
    return collate(examples, pad_id=loaded.tokenizer.padding_id, rows=list(range(len(examples))))


@pytest.mark.parametrize("name", ["bert", "roberta"])
@torch.no_grad()
def test_classifier_has_the_logits_and_labels_of_transformers(name, tmp_path):
    theirs = classifier(name)
    ours, report = import_and_load(theirs, tmp_path)
    assert (report.task, report.labels) == ("classification", tuple(LABELS.values()))
    assert report.unused == report.unfilled == []
    batch = batch_of(ours, [{"text": text} for text in TEXTS])
    expected = theirs(input_ids=batch.ids, attention_mask=batch.valid.long()).logits
    assert (ours.model.logits(batch) - expected).abs().max() < TOLERANCE
    assert ours.predict(TEXTS) == [LABELS[int(best)] for best in expected.argmax(dim=1)]
    probabilities = torch.from_numpy(ours.predict_proba(TEXTS)).float()
    assert (probabilities - expected.softmax(dim=1)).abs().max() < TOLERANCE


@torch.no_grad()
def test_labels_of_entailment_mean_pairs(tmp_path):
    labels = {0: "ENTAILMENT", 1: "NEUTRAL", 2: "CONTRADICTION"}
    theirs = classifier("bert", id2label=labels)
    ours, report = import_and_load(theirs, tmp_path)
    assert report.task == "pairs"
    pairs = [("word1 word2", "word3"), ("word4", "word5 word6")]
    batch = batch_of(ours, [dict(zip(("first", "second"), pair, strict=True)) for pair in pairs])
    expected = theirs(
        input_ids=batch.ids, attention_mask=batch.valid.long(), token_type_ids=batch.segments
    ).logits
    assert (ours.model.logits(batch) - expected).abs().max() < TOLERANCE
    assert ours.predict(pairs) == [labels[int(best)] for best in expected.argmax(dim=1)]


@torch.no_grad()
def test_spans_have_the_logits_of_transformers_but_for_the_constant(tmp_path):
    config = transformers.BertConfig(**SMALL, cls_token_id=0, sep_token_id=2)
    theirs = randomise(transformers.BertForQuestionAnswering(config))
    ours, report = import_and_load(theirs, tmp_path)
    assert report.task == "extractive"
    assert report.unused == []
    batch = batch_of(ours, PASSAGES)
    expected = theirs(
        input_ids=batch.ids, attention_mask=batch.valid.long(), token_type_ids=batch.segments
    )
    for side, logits in enumerate((expected.start_logits, expected.end_logits)):
        found = ours.model.logits(batch)[side]
        allowed = found.isfinite()
        assert allowed.sum() > len(PASSAGES)
        constant = theirs.qa_outputs.bias[side]
        assert (found + constant - logits)[allowed].abs().max() < TOLERANCE
    answers = ours.predict(PASSAGES)
    for row, answer in zip(PASSAGES, answers, strict=True):
        assert answer in row["context"]


def tagger(name):
    names = {"id2label": dict(enumerate(TAGS)), "label2id": {t: n for n, t in enumerate(TAGS)}}
    table = {**SMALL, **names, "cls_token_id": 0, "sep_token_id": 2}
    if name == "bert":
        config = transformers.BertConfig(**table)
        return randomise(transformers.BertForTokenClassification(config))
    config = transformers.RobertaConfig(**{**table, "max_position_embeddings": 22})
    return randomise(transformers.RobertaForTokenClassification(config))


@pytest.mark.parametrize("name", ["bert", "roberta"])
@torch.no_grad()
def test_tags_have_the_logits_of_transformers_and_outside_comes_first(name, tmp_path):
    theirs = tagger(name)
    ours, report = import_and_load(theirs, tmp_path)
    assert (report.task, report.labels) == ("tagging", ("O", "B-PER", "I-PER"))
    assert report.unused == report.unfilled == []
    batch = batch_of(ours, [{"tokens": text} for text in TEXTS])
    expected = theirs(input_ids=batch.ids, attention_mask=batch.valid.long()).logits
    expected = expected[:, :, [TAGS.index(tag) for tag in report.labels]]
    found = ours.model.logprobs(batch)
    for row, (logprobs, text) in enumerate(zip(found, TEXTS, strict=True)):
        scored = expected[row][batch.weights[row] > 0].log_softmax(dim=-1)
        assert len(scored) == len(text.split())
        assert (logprobs - scored).abs().max() < TOLERANCE
    best = [" ".join(report.labels[int(n)] for n in row.argmax(dim=-1)) for row in found]
    assert ours.predict([{"tokens": text} for text in TEXTS]) == best


@torch.no_grad()
def test_one_output_is_a_number(tmp_path):
    ours, report = import_and_load(
        classifier("bert", id2label={0: "score"}, num_labels=1), tmp_path
    )
    assert report.task == "regression"
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    batch = batch_of(ours, [{"text": text} for text in TEXTS])
    expected = theirs(input_ids=batch.ids, attention_mask=batch.valid.long()).logits[:, 0]
    assert (torch.tensor(ours.predict(TEXTS)) - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("name", ["bert", "roberta", "regression", "spans", "tags"])
@torch.no_grad()
def test_an_exported_head_is_the_imported_one(name, tmp_path):
    if name == "spans":
        config = transformers.BertConfig(**SMALL, cls_token_id=0, sep_token_id=2)
        theirs = randomise(transformers.BertForQuestionAnswering(config))
        theirs.qa_outputs.bias.zero_()
    elif name == "tags":
        theirs = tagger("bert")
    elif name == "regression":
        theirs = classifier("bert", id2label={0: "score"})
    else:
        theirs = classifier(name)
    import_and_load(theirs, tmp_path)
    report = regard.export_model(tmp_path / "ours", tmp_path / "exported")
    assert report.has_head
    again, loading = type(theirs).from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not loading["missing_keys"]
    assert type(theirs).__name__ in (tmp_path / "exported" / "config.json").read_text()
    if name in ("bert", "roberta"):
        assert again.config.id2label == LABELS
    ids = torch.tensor([[0, 7, 9, 11, 2], [0, 20, 6, 2, 2]])
    found, expected = again.eval()(input_ids=ids), theirs(input_ids=ids)
    if name == "tags":
        expected["logits"] = expected.logits[
            :, :, [theirs.config.label2id[again.config.id2label[n]] for n in range(3)]
        ]
    for field in ("logits", "start_logits", "end_logits"):
        if field in expected:
            assert (found[field] - expected[field]).abs().max() < TOLERANCE


def test_a_head_of_several_labels_is_left_out_and_remarked(tmp_path):
    config = transformers.BertConfig(**SMALL, problem_type="multi_label_classification")
    ours, report = import_and_load(
        randomise(transformers.BertForSequenceClassification(config)), tmp_path
    )
    assert ours.task is None
    assert report.task is None
    assert "classifier.weight" in report.unused
    assert any("problem_type" in remark for remark in report.remarks)


def test_labels_without_names_are_numbered(tmp_path):
    folder = save_checkpoint(classifier("bert"), tmp_path / "theirs")
    file = folder / "config.json"
    table = json.loads(file.read_text())
    table["id2label"] = {"0": "same", "1": "same", "2": "other"}
    file.write_text(json.dumps(table))
    report = import_model(str(folder), tmp_path / "ours")
    assert report.labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_an_imported_classifier_is_evaluated_on_a_file_and_started_from(tmp_path):
    ours, _ = import_and_load(classifier("bert"), tmp_path)
    draw = random.Random(0)
    texts = [" ".join(f"word{draw.randrange(25)}" for _ in range(9)) for _ in range(60)]
    rows = [
        {"body": text, "stars": label}
        for text, label in zip(texts, ours.predict(texts), strict=True)
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    columns = {"task.text": "body", "task.label": "stars", "data.dev": 0.3, "data.test": 0.3}
    found = regard.evaluate(tmp_path / "ours", data=file, set=columns)
    accuracy = {row.split: row.value for row in found.estimates if row.of == "model"}
    assert accuracy["test"] == 1.0, "the labels are its own predictions"
    assert any(row.of == "majority class" for row in found.estimates)
    assert found.audit.verdict == "clean"
    with pytest.raises(regard.UserError, match="--data"):
        regard.evaluate(tmp_path / "ours")
    with pytest.raises(regard.UserError, match=r"train\.lr"):
        regard.evaluate(tmp_path / "ours", data=file, set={"train.lr": 1.0})
    recipe = {
        "name": "tuned",
        "init_from": str(tmp_path / "ours"),
        "data": {"corpus": str(file), "dev": 0.3, "test": 0.3},
        "task": {"kind": "classification", "text": "body", "label": "stars"},
        "train": {"max_steps": 1, "batch_tokens": 64, "threads": 1},
    }
    run = regard.train(recipe, out=tmp_path / "tuned")
    assert run.is_finished
