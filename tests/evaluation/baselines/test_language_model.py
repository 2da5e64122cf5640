import numpy as np
import pytest

from regard.evaluation.baselines.language_model import language_model_baselines
from regard.evaluation.baselines.ngrams import KneserNey

GENERATOR = np.random.default_rng(0)
TRAIN = [GENERATOR.integers(2, 9, length) for length in (30, 0, 12, 44)]
DEV = [GENERATOR.integers(2, 9, length) for length in (7, 3)]
IDS = {"vocabulary": 9, "start": 0, "stop": 1}


def test_both_baselines_are_scored_on_every_document_of_every_split():
    baselines = language_model_baselines(TRAIN, {"train": TRAIN, "dev": DEV}, **IDS)
    assert [baseline.label for baseline in baselines] == ["Kneser-Ney 3-gram", "unigram"]
    for baseline, order in zip(baselines, (3, 1), strict=True):
        model = KneserNey.fit(TRAIN, order=order, **IDS)
        for split, documents in {"train": TRAIN, "dev": DEV}.items():
            assert baseline.nll[split].shape == (len(documents),)
            np.testing.assert_allclose(baseline.nll[split], model.nll(documents))


def test_training_documents_may_be_a_generator():
    once = language_model_baselines(iter(TRAIN), {"dev": DEV}, **IDS)
    again = language_model_baselines(TRAIN, {"dev": DEV}, **IDS)
    for left, right in zip(once, again, strict=True):
        np.testing.assert_array_equal(left.nll["dev"], right.nll["dev"])


def test_truncation_is_in_the_label():
    labels = [
        baseline.label
        for baseline in language_model_baselines(TRAIN, {"dev": DEV}, token_limit=50, **IDS)
    ]
    assert labels == [
        "Kneser-Ney 3-gram (first 50 training tokens)",
        "unigram (first 50 training tokens)",
    ]


@pytest.mark.parametrize(
    ("order", "labels"), [(1, ["unigram"]), (2, ["Kneser-Ney 2-gram", "unigram"])]
)
def test_order_one_gives_one_baseline(order, labels):
    baselines = language_model_baselines(TRAIN, {"dev": DEV}, order=order, **IDS)
    assert [baseline.label for baseline in baselines] == labels
