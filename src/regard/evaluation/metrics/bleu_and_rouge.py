"""Overlap of written text with references: BLEU and chrF for translations, ROUGE for summaries.

    bleu     BP · exp(¼ Σ log pₙ), n = 1 … 4, BP = min(1, e^(1 − r/c))      Papineni et al., 2002
    chrf     F₂ of the mean precision and recall of 1 to 6 letters           Popović, 2015
    rouge    F of shared words, of word pairs, of the longest common row     Lin, 2004

sacreBLEU (Post, 2018) and rouge-score count, sentence by sentence; BLEU and chrF, 0 to 100, are
functions of the summed counts and equal sacreBLEU's corpus scores. ROUGE, 0 to 1, is a mean over
texts, of the best reference each, with stems. It knows the letters a–z and digits alone.
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
from regard.evaluation.metrics.metric import Metric, Row, ratio_score
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBleuMetric

BLEU_STATISTICS = 10
"Length of the hypothesis, of the nearest reference, then 4 matches and 4 counts of n-grams."

ROUGES = ("rouge1", "rouge2", "rougeL")


@dataclass(frozen=True, kw_only=True)
class TranslationMetric(Metric):
    """Reads `predicted` and `truths`, one reference or more."""

    kind: ClassVar[str] = "translation"
    truth: ClassVar[str] = "truths"

    items: str = "sentences"

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("bleu", "chrf")

    def statistics(self, rows: Sequence[Row]) -> Values:
        predicted, truths = texts(rows, "predicted"), _references(rows)
        most = max(map(len, truths))
        # sacreBLEU wants one list a reference, with None where a sentence has fewer.
        references = [[_nth(own, place) for own in truths] for place in range(most)]
        # Its sentence statistics have no public name; a test holds them to the corpus scores.
        tables = [
            _sacrebleu(score_name)._extract_corpus_statistics(predicted, references)
            for score_name in self.score_names
        ]
        return np.concatenate([np.array(table, dtype=np.float64).T for table in tables])

    def score_function(self, score_name: str) -> ScoreFunction:
        return {"bleu": _bleu_of_table, "chrf": _chrf_of_table}[self.check_name(score_name)]

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        counts = {len(truths) for truths in _references(rows)}
        scorer = _sacrebleu(self.check_name(score_name))
        scorer.num_refs = counts.pop() if len(counts) == 1 else -1
        return {"sacrebleu": scorer.get_signature().format()}


@dataclass(frozen=True, kw_only=True)
class SummaryMetric(Metric):
    """Reads `predicted` and `truths`, one reference or more."""

    kind: ClassVar[str] = "summary"
    truth: ClassVar[str] = "truths"

    items: str = "texts"

    @property
    def score_names(self) -> tuple[str, ...]:
        return ROUGES

    def statistics(self, rows: Sequence[Row]) -> Values:
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        predicted, truths = texts(rows, "predicted"), _references(rows)
        _readable(truths)
        scorer = RougeScorer(list(ROUGES), use_stemmer=True)
        found = [scorer.score_multi(own, text) for own, text in zip(truths, predicted, strict=True)]
        return np.array([[*(one[name].fmeasure for name in ROUGES), 1.0] for one in found]).T

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(ROUGES.index(self.check_name(score_name)), len(ROUGES))

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        return {"rouge-score": version("rouge-score"), "stems": "porter", "references": "best"}


def sentence_rows(predicted: Sequence[str], truths: Sequence[Sequence[str]]) -> list[Row]:
    """Rows from two lists side by side; refused where one is longer."""
    if len(predicted) != len(truths):
        raise UserError(
            f"{len(predicted):,} hypotheses came with {len(truths):,} references",
            topic="evaluation",
            hint="Each hypothesis needs its own: nothing is cut to the shorter list.",
        )
    return [
        {"item": item, "predicted": text, "truths": [own] if isinstance(own, str) else list(own)}
        for item, (text, own) in enumerate(zip(predicted, truths, strict=True))
    ]


def bleu(sums: Values) -> Values:
    """(10, …) sums to BLEU, smoothed as mteval does: the k-th order without a match counts ½ᵏ."""
    length, nearest = sums[:2]
    matches, counts = sums[2:6], sums[6:BLEU_STATISTICS]
    none = matches == 0
    halvings = np.cumsum(none, axis=0)
    whole = (counts > 0).all(axis=0) & (matches > 0).any(axis=0)
    precisions = np.where(none, 0.5**halvings, matches) / np.maximum(counts, 1)
    logs = np.log(np.where(whole, precisions, 1.0)).mean(axis=0)
    brevity = np.minimum(0.0, 1 - nearest / np.maximum(length, 1))
    return np.asarray(np.where(whole, 100 * np.exp(brevity + logs), 0.0))


def chrf(sums: Values) -> Values:
    """(18, …) sums to chrF: letters of the hypothesis, of the reference and matches, six orders."""
    ours, theirs, matches = np.moveaxis(sums.reshape(6, 3, *sums.shape[1:]), 1, 0)
    orders = (ours > 0) & (theirs > 0)
    used = np.maximum(orders.sum(axis=0), 1)
    precision, recall = (
        (orders * matches / np.maximum(of, 1)).sum(axis=0) / used for of in (ours, theirs)
    )
    weighted = 4 * precision + recall
    f = 5 * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return np.asarray(100 * f)


def _bleu_of_table(sums: Values) -> Values:
    return bleu(sums[:BLEU_STATISTICS])


def _chrf_of_table(sums: Values) -> Values:
    return chrf(sums[BLEU_STATISTICS:])


def _sacrebleu(score_name: str) -> SacreBleuMetric:
    # Only who scores translations pays for the import.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Forced: it would print warnings of its own where sentences end in " .".
    return BLEU(force=True) if score_name == "bleu" else CHRF()


def _references(rows: Sequence[Row]) -> list[list[str]]:
    truths = lists_of_texts(rows, "truths")
    for number, own in enumerate(truths):
        if not own:
            raise field_error(
                rows, number, "no reference", hint="Every hypothesis needs at least one."
            )
    return truths


def _nth(own: list[str], place: int) -> Any:
    # A text or None, which sacreBLEU takes, though its types do not say so.
    return own[place] if place < len(own) else None


def _readable(truths: list[list[str]]) -> None:
    """Refuses texts in a script of which ROUGE sees nothing: all would score 0."""
    blank = sum(not any(re.search("[a-z0-9]", text.lower()) for text in own) for own in truths)
    if 2 * blank > len(truths):
        raise UserError(
            f"{blank:,} of {len(truths):,} references have no letter that ROUGE knows (a–z, 0–9)",
            topic="evaluation",
            hint="ROUGE would be 0 whatever is written: measure chrF (a translation) instead.",
        )
