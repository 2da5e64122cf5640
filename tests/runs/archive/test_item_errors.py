"""Items that one run gets wrong, and items on which two runs differ."""

import json

import pytest

from regard.core.errors import UserError
from regard.evaluation.metrics.bleu_and_rouge import SummaryMetric, TranslationMetric
from regard.evaluation.metrics.classification import ClassificationMetric
from regard.evaluation.metrics.question_answering import AnswerMetric
from regard.evaluation.metrics.ranking import RankingMetric
from regard.evaluation.metrics.recall import RecallMetric
from regard.evaluation.metrics.similarity import SimilarityMetric
from regard.runs.archive.item_errors import read_errors

TRUTHS = ["a", "a", "b", "b", "b", "a"]


def run_with_answers(make_run, name, answers, *, fingerprint="one"):
    """A synthetic run with these predictions."""
    metric = ClassificationMetric(labels=("a", "b")).settings()
    items = {"dev": {"documents": fingerprint, "scored": fingerprint}}
    run = make_run(items=items, metric=metric)
    folder = run.rename(run.with_name(name))
    (folder / "items").mkdir()
    lines = [
        json.dumps(
            {
                "item": number,
                "truth": truth,
                "predicted": answer,
                "loss": 0.1 if truth == answer else 1.0 + number,
                "confidence": 0.9,
                "record": {"text": f"text {number}", "label": truth},
            }
        )
        for number, (truth, answer) in enumerate(zip(TRUTHS, answers, strict=True))
    ]
    (folder / "items" / "dev.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_wrong_items_by_loss_and_the_confusion_matrix(make_run):
    found = read_errors([run_with_answers(make_run, "x", "aabaab")], split="dev")
    assert [item.item for item in found.worst(10)] == [5, 4, 3]
    assert found.worst(1)[0].input == "text 5"
    assert found.confusion == {("a", "a"): 2, ("b", "b"): 1, ("b", "a"): 2, ("a", "b"): 1}


def test_items_that_exactly_one_run_has_right(make_run):
    first, second = (
        run_with_answers(make_run, "x", "aabaab"),
        run_with_answers(make_run, "y", "aabbba"),
    )
    found = read_errors([first, second], split="dev")
    assert list(found.agreement.values()) == [3, 0, 3, 0]
    assert [item.item for item in found.differing(10)] == [3, 4, 5]
    assert found.p == pytest.approx(0.25)  # 2 · (1/2)³
    same = read_errors([first, first], split="dev")
    assert same.p is None
    assert same.differing(10) == []


def test_runs_on_different_items_are_not_compared(make_run):
    first = run_with_answers(make_run, "x", "aabaab")
    other = run_with_answers(make_run, "y", "aabaab", fingerprint="another")
    with pytest.raises(UserError, match="different items of dev"):
        read_errors([first, other], split="dev")


def test_damaged_or_missing_items_are_an_error(make_run):
    folder = run_with_answers(make_run, "x", "aabaab")
    (folder / "items" / "dev.jsonl").write_text('{"item": 0\n')
    with pytest.raises(UserError, match=r"dev\.jsonl is damaged"):
        read_errors([folder], split="dev")
    with pytest.raises(UserError, match=r"train\.jsonl is missing"):
        read_errors([folder], split="train")


@pytest.mark.parametrize(
    ("metric", "row", "expected"),
    [
        (ClassificationMetric(labels=("a", "b")), {"predicted": "a", "truth": "a"}, True),
        (ClassificationMetric(labels=("a", "b")), {"predicted": "b", "truth": "a"}, False),
        (AnswerMetric(), {"predicted": "the Rhine", "truths": ["Rhine", "Main"]}, True),
        (AnswerMetric(), {"predicted": "", "truths": []}, True),
        (AnswerMetric(), {"predicted": "Rhine", "truths": ["Rhine"], "answerable": False}, False),
        (RecallMetric(), {"predicted": "Paris", "truths": ["London"]}, False),
        (RankingMetric(), {"predicted": "7", "truth": ["3", "7"], "mrr": 1.0}, True),
        (RankingMetric(), {"predicted": "8", "truth": ["3", "7"], "mrr": 0.5}, False),
        # Nothing is right or wrong about these: they are better or worse.
        (SimilarityMetric(), {"predicted": 4.0, "truth": 4.0}, None),
        (TranslationMetric(), {"predicted": "ein Hund", "truths": ["ein Hund"]}, None),
        (SummaryMetric(), {"predicted": "dogs", "truths": ["dogs"]}, None),
    ],
)
def test_the_metric_decides_what_is_correct(metric, row, expected):
    assert metric.is_correct(row) is expected
