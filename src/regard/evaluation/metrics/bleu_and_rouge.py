"""N-gram overlap with references: BLEU and chrF for translation, ROUGE for summarisation.

    bleu     BP · exp(¼ Σ log pₙ), n = 1 … 4, BP = min(1, e^(1 − r/c))      Papineni et al., 2002
    chrf     F₂ of mean precision and recall of character 1- to 6-grams      Popović, 2015
    rouge    F of shared 1-grams, 2-grams, longest common subsequence        Lin, 2004

sacreBLEU (Post, 2018) and rouge-score provide the counts of each sentence; BLEU and chrF, 0 to 100,
are functions of the summed counts and equal sacreBLEU's corpus scores. ROUGE, 0 to 1, is the mean
over texts of the best reference, with stemming. It only recognises the letters a–z and digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from regard.core.errors import UserError
from regard.evaluation.metrics.fields import field_error, lists_of_texts, texts
from regard.evaluation.metrics.metric import Metric, Row, metric_kind, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBleuMetric

BLEU_STATISTICS = 10
"Lengths of hypothesis and closest reference, then matches and counts of 1- to 4-grams."

ROUGES = ("rouge1", "rouge2", "rougeL")


@metric_kind(
    "translation",
    perfect=[
        {"predicted": "the old man rode home", "truths": ["the old man rode home"]},
        {"predicted": "a red horse ran away", "truths": ["the horse left", "a red horse ran away"]},
        {"predicted": "nobody saw the man again", "truths": ["nobody saw the man again"]},
    ],
    bad=[
        {"predicted": "the old horse rode", "truths": ["the old man rode home"]},
        {"predicted": "red", "truths": ["the horse left", "a red horse ran away"]},
        {"predicted": "", "truths": ["nobody saw the man again"]},
    ],
)
@dataclass(frozen=True, kw_only=True)
class TranslationMetric(Metric):
    """BLEU and chrF of translations.

    Uses the fields `predicted` and `truths`, one reference or more."""

    score_names: ClassVar = ("bleu", "chrf")
    score_bounds: ClassVar = {"bleu": (0.0, 100.0), "chrf": (0.0, 100.0)}
    truth: ClassVar[str] = "truths"

    items: str = "sentences"

    def statistics(self, rows: Sequence[Row]) -> Values:
        predicted, truths = texts(rows, "predicted"), _references(rows)
        max_references = max(map(len, truths))
        # sacreBLEU takes one list per reference, with None where a sentence has fewer.
        references = [[_nth(refs, index) for refs in truths] for index in range(max_references)]
        # Its sentence statistics are private; a test compares them with the corpus scores.
        tables = [
            _sacrebleu(score_name)._extract_corpus_statistics(predicted, references)
            for score_name in self.score_names
        ]
        return np.concatenate([np.array(table, dtype=np.float64).T for table in tables])

    def score_function(self, score_name: str) -> ScoreFunction:
        return {"bleu": _bleu_of_sums, "chrf": _chrf_of_sums}[self.check_name(score_name)]

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        counts = {len(truths) for truths in _references(rows)}
        scorer = _sacrebleu(self.check_name(score_name))
        scorer.num_refs = counts.pop() if len(counts) == 1 else -1
        return {"sacrebleu": scorer.get_signature().format()}


@metric_kind(
    "summary",
    perfect=[
        {"predicted": "A man rode home.", "truths": ["A man rode home."]},
        {"predicted": "His horse ran away.", "truths": ["It left.", "His horse ran away."]},
        {"predicted": "Nobody saw him again.", "truths": ["Nobody saw him again."]},
    ],
    bad=[
        {"predicted": "A horse rode.", "truths": ["A man rode home."]},
        {"predicted": "Away", "truths": ["It left.", "His horse ran away."]},
        {"predicted": "", "truths": ["Nobody saw him again."]},
    ],
)
@dataclass(frozen=True, kw_only=True)
class SummaryMetric(Metric):
    """ROUGE of summaries.

    Uses the fields `predicted` and `truths`, one reference or more."""

    score_names: ClassVar = ROUGES
    truth: ClassVar[str] = "truths"

    items: str = "texts"

    def statistics(self, rows: Sequence[Row]) -> Values:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        predicted, truths = texts(rows, "predicted"), _references(rows)
        _check_script(truths)
        scorer = RougeScorer(list(ROUGES), use_stemmer=True)
        scores = [
            scorer.score_multi(refs, text) for refs, text in zip(truths, predicted, strict=True)
        ]
        return np.array([[*(row[name].fmeasure for name in ROUGES), 1.0] for row in scores]).T

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(ROUGES.index(self.check_name(score_name)), len(ROUGES))

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        return {"rouge-score": version("rouge-score"), "stems": "porter", "references": "best"}


def sentence_rows(predicted: Sequence[str], truths: Sequence[Sequence[str]]) -> list[Row]:
    """Rows from hypotheses and their references; raises where the lists differ in length."""
    if len(predicted) != len(truths):
        raise UserError(
            f"{len(predicted):,} hypotheses came with {len(truths):,} references",
            topic="evaluation",
            hint="Give references for each hypothesis: no list is truncated.",
        )
    return [
        {"item": item, "predicted": text, "truths": [refs] if isinstance(refs, str) else list(refs)}
        for item, (text, refs) in enumerate(zip(predicted, truths, strict=True))
    ]


def bleu(sums: Values) -> Values:
    """(10, …) sums to BLEU, smoothed as in mteval: the k-th order without a match counts ½ᵏ."""
    length, reference_length = sums[:2]
    matches, counts = sums[2:6], sums[6:BLEU_STATISTICS]
    no_match = matches == 0
    halvings = np.cumsum(no_match, axis=0)
    defined = (counts > 0).all(axis=0) & (matches > 0).any(axis=0)
    precisions = np.where(no_match, 0.5**halvings, matches) / np.maximum(counts, 1)
    logs = np.log(np.where(defined, precisions, 1.0)).mean(axis=0)
    brevity = np.minimum(0.0, 1 - reference_length / np.maximum(length, 1))
    return np.asarray(np.where(defined, 100 * np.exp(brevity + logs), 0.0))


def chrf(sums: Values) -> Values:
    """(18, …) sums to chrF: n-grams of hypothesis and reference, and matches, for each order."""
    hypothesis, reference, matches = np.moveaxis(sums.reshape(6, 3, *sums.shape[1:]), 1, 0)
    orders = (hypothesis > 0) & (reference > 0)
    used = np.maximum(orders.sum(axis=0), 1)
    precision, recall = (
        (orders * matches / np.maximum(counts, 1)).sum(axis=0) / used
        for counts in (hypothesis, reference)
    )
    weighted = 4 * precision + recall
    f = 5 * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return np.asarray(100 * f)


def _bleu_of_sums(sums: Values) -> Values:
    return bleu(sums[:BLEU_STATISTICS])


def _chrf_of_sums(sums: Values) -> Values:
    return chrf(sums[BLEU_STATISTICS:])


def _sacrebleu(score_name: str) -> SacreBleuMetric:
    # Imported only where translations are scored.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # force: no warnings about tokenized text where sentences end in " .".
    return BLEU(force=True) if score_name == "bleu" else CHRF()


def _references(rows: Sequence[Row]) -> list[list[str]]:
    truths = lists_of_texts(rows, "truths")
    for number, refs in enumerate(truths):
        if not refs:
            raise field_error(
                rows, number, "no reference", hint="Every hypothesis needs at least one."
            )
    return truths


def _nth(refs: list[str], index: int) -> Any:
    # str | None, which sacreBLEU accepts although its annotations say str.
    return refs[index] if index < len(refs) else None


def _check_script(truths: list[list[str]]) -> None:
    """Raise for texts in a script that ROUGE ignores: all of them would score 0."""
    blank = sum(not any(re.search("[a-z0-9]", text.lower()) for text in refs) for refs in truths)
    if 2 * blank > len(truths):
        raise UserError(
            f"{blank:,} of {len(truths):,} references have no character that ROUGE counts "
            "(a–z, 0–9)",
            topic="evaluation",
            hint="ROUGE would be 0 for any prediction: use chrF (a translation) instead.",
        )
