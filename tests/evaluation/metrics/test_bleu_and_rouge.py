import logging
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from regard.core.errors import UserError
from regard.evaluation.metrics.bleu_and_rouge import (
    SummaryMetric,
    TranslationMetric,
    bleu,
    sentence_rows,
)
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.intervals import Bootstrap

FEW_RESAMPLES = Bootstrap(resamples=80)

words = st.lists(
    st.sampled_from(
        ["the", "cat", "sat", "on", "a", "mat,", "“und”", "die", "Häuser", "3.5", "%", ".", "don't"]
    ),
    max_size=9,
)
sentences = words.map(" ".join)


def value(metric, score_name, rows):
    return float(metric.score_function(score_name)(metric.statistics(rows).sum(axis=1)))


def corpus(pairs):
    """Hypotheses and lists of references, with None where a sentence has fewer."""
    max_references = max(len(own) for _, own in pairs)
    references = [
        [own[k] if k < len(own) else None for _, own in pairs] for k in range(max_references)
    ]
    return [text for text, _ in pairs], references


@given(
    st.lists(
        st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=8
    )
)
def test_scores_equal_sacrebleu(pairs):
    rows = sentence_rows(*map(list, zip(*pairs, strict=True)))
    texts, references = corpus(pairs)
    for score_name, oracle in (("bleu", BLEU()), ("chrf", CHRF())):
        expected = oracle.corpus_score(texts, references).score
        assert value(TranslationMetric(), score_name, rows) == pytest.approx(expected, abs=1e-9)


def test_bleu_by_hand():
    """The second of twelve words differs."""
    truth = "it is a guide to action that ensures the army always obeys"
    predicted = truth.replace(" is ", " was ")
    statistics = TranslationMetric().statistics([{"predicted": predicted, "truths": [truth]}])
    assert statistics[:10, 0].tolist() == [12, 12, 11, 9, 8, 7, 12, 11, 10, 9]
    by_hand = (11 / 12 * 9 / 11 * 8 / 10 * 7 / 9) ** 0.25
    assert float(bleu(statistics[:10, 0])) == pytest.approx(100 * by_hand)
    assert by_hand == pytest.approx(0.8265, abs=5e-5)


def test_brevity_penalty():
    sums = np.array([9.0, 12, 9, 8, 7, 6, 9, 8, 7, 6])
    assert float(bleu(sums)) == pytest.approx(100 * np.exp(1 - 12 / 9))
    assert float(bleu(np.zeros(10))) == 0


def test_signature_contains_sacrebleu_signature():
    rows = sentence_rows(["a b", "c d"], [["a b"], ["c e"]])
    estimates = score(TranslationMetric(), rows, split="test:1", bootstrap=FEW_RESAMPLES)
    assert [estimate.name for estimate in estimates] == ["bleu", "chrf"]
    assert (
        "sacrebleu:nrefs:1/case:mixed/eff:no/tok:13a/smooth:exp/version:" in estimates[0].signature
    )
    assert "nc:6/nw:0" in estimates[1].signature
    several = [*rows[:1], rows[1] | {"truths": ["c", "d"]}]
    assert (
        "nrefs:var"
        in score(TranslationMetric(), several, split="test:1", bootstrap=FEW_RESAMPLES)[0].signature
    )


def test_sacrebleu_logs_no_warning(caplog):
    rows = sentence_rows(["it is so ."] * 120, [["it is so ."]] * 120)
    with caplog.at_level(logging.WARNING):
        TranslationMetric().statistics(rows)
    assert not caplog.records


def test_mismatched_or_missing_references_raise():
    with pytest.raises(UserError, match="2 hypotheses came with 1 references"):
        sentence_rows(["a", "b"], [["a"]])
    with pytest.raises(UserError, match="item 1: no reference"):
        TranslationMetric().statistics(sentence_rows(["a", "b"], [["a"], []]))


def test_rouge_by_hand():
    rows = [{"predicted": "the cats sat", "truths": ["a cat sat down", "dogs"]}]
    # Stems: cat and sat are shared; "cat sat" is the one shared 2-gram of 2 and 3.
    assert value(SummaryMetric(), "rouge1", rows) == pytest.approx(2 * 2 / (3 + 4))
    assert value(SummaryMetric(), "rouge2", rows) == pytest.approx(2 * 1 / (2 + 3))
    assert value(SummaryMetric(), "rougeL", rows) == pytest.approx(2 * 2 / (3 + 4))


def test_rouge_takes_the_best_reference_and_the_mean_over_texts():
    rows = [
        {"predicted": "red fox", "truths": ["blue", "red fox"]},
        {"predicted": "red fox", "truths": ["blue"]},
    ]
    estimates = score(SummaryMetric(), rows, split="test", bootstrap=FEW_RESAMPLES)
    assert [estimate.value for estimate in estimates] == [0.5, 0.5, 0.5]
    assert "rouge-score:" in estimates[0].signature


def test_script_that_rouge_ignores_raises():
    with pytest.raises(UserError, match="1 of 1 references have no character"):
        SummaryMetric().statistics([{"predicted": "кот", "truths": ["кот"]}])


def test_import_of_metrics_does_not_import_scorers():
    code = (
        "import sys, regard.evaluation.metrics.bleu_and_rouge;"
        "import regard.evaluation.metrics.metric as m;"
        "m.build_metric({'kind': 'translation'});"
        "print([n for n in ('sacrebleu', 'rouge_score', 'nltk', 'torch') if n in sys.modules])"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout.strip() == "[]"
