"""Final evaluation of a language model and its baselines on the same documents, with intervals.

The training split is evaluated after training, on documents drawn by seed; the last batch never
stands for it. Losses are kept per document, so that the bootstrap resamples whole documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from regard.core.settings import catalog_name
from regard.data.corpus import SPLITS, Split
from regard.data.token_cache.cache import TokenCache
from regard.data.token_cache.shards import NO_GROUP
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.perplexity import Losses, Perplexity
from regard.evaluation.statistics.baseline_verdict import difference_verdict, too_few_items
from regard.evaluation.statistics.item_groups import count_groups, group_numbers
from regard.models.model import Model
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.causal import Causal
from regard.runs.items import item_fingerprints, loss_rows
from regard.runs.observer import Observer
from regard.runs.preparation.baselines import counted_baselines
from regard.runs.preparation.item_overlap import ItemOverlap
from regard.runs.preparation.overlap import NO_OVERLAP, DataOverlap
from regard.runs.preparation.prepared import SplitResults
from regard.runs.recipe import Recipe
from regard.runs.results import JUDGED_SPLITS, MODEL, ComparisonRecord, ScoreRecord
from regard.training.document_losses import document_losses

PER_BYTE = ("perplexity_per_byte", "bits_per_byte")
MAX_UNKNOWN_RATE = 0.001
"Rate of <unk> up to which scores per byte are reported."
TRAIN_PER_JUDGED = 2
"Documents of the training split that are evaluated, for one of dev or test."


Tables: TypeAlias = dict[tuple[Split, str], Losses]
"Losses of each document, by split and by model or baseline."


@dataclass(frozen=True)
class EvaluatedDocuments:
    """The documents of a split that are evaluated."""

    documents: Sequence[np.ndarray]
    bytes: np.ndarray
    groups: Sequence[str | None]
    "The group of each document; None where it stands alone."
    label: str
    overlap: ItemOverlap

    @property
    def scored_label(self) -> str:
        """Which of them scores count."""
        return self.overlap.label(self.label)


def choose_documents(
    cache: TokenCache, split: Split, *, limit: int, seed: int, overlap: DataOverlap = NO_OVERLAP
) -> EvaluatedDocuments:
    """All documents of a split, or `limit` of them drawn by seed; the label says which."""
    cached = cache.split(split)
    label = f"{split}:{cached.fingerprint[:8]}"
    indices = np.arange(len(cached))
    if len(cached) > limit:
        generator = np.random.default_rng([seed, limit])
        indices = np.sort(generator.choice(indices, limit, replace=False))
        label += f":{limit}-drawn-seed{seed}"
    documents = [cached[int(index)] for index in indices]
    groups = [
        f"{group:016x}" if group != NO_GROUP else None
        for group in np.asarray(cached.groups)[indices].tolist()
    ]
    kinds = {cached.document_of_text(text): kind for text, kind in overlap.kinds(split).items()}
    return EvaluatedDocuments(
        documents,
        np.asarray(cached.bytes)[indices],
        groups,
        label,
        ItemOverlap([kinds.get(int(index)) for index in indices]),
    )


def document_limits(cache: TokenCache, documents: int) -> dict[Split, int]:
    """At most how many documents of each split are evaluated at the end. The training split judges
    nothing: with twice as many as dev or test have, its gap to them is hardly less certain."""
    limits = dict.fromkeys(SPLITS, documents)
    judged = max(min(len(cache.split(split)), documents) for split in JUDGED_SPLITS)
    return limits | {"train": min(documents, TRAIN_PER_JUDGED * judged)}


def evaluate_language_model(
    model: Model,
    recipe: Recipe,
    cache: TokenCache,
    tokenizer: Tokenizer,
    *,
    overlap: DataOverlap,
    device: str,
    observer: Observer,
) -> SplitResults:
    """Estimates of model and baselines on every split, and the paired differences."""
    # Documents are drawn by the seed of the data: every training seed is evaluated on the same.
    settings, seed = recipe.evaluate, recipe.data.split_seed
    objective = catalog_name(recipe.objective, OBJECTIVES)
    chosen = {
        split: choose_documents(cache, split, limit=limit, seed=seed, overlap=overlap)
        for split, limit in document_limits(cache, settings.documents).items()
    }
    metrics = {
        split: Perplexity(
            split=chosen[split].scored_label,
            tokenizer=tokenizer.fingerprint[:8],
            objective=objective,
        )
        for split in SPLITS
    }
    groups = {split: group_numbers(chosen[split].groups) for split in SPLITS}
    tables: Tables = {}
    is_scored = {}
    model.eval()
    for split in SPLITS:
        losses = document_losses(
            model,
            chosen[split].documents,
            recipe.objective,
            vocabulary=Vocabulary.from_tokenizer(tokenizer),
            pad=tokenizer.padding_id,
            seed=seed,
            device=device,
            on_progress=observer.progress(f"evaluating {split}"),
        )
        tables[split, MODEL] = metrics[split].statistics(
            losses.losses,
            tokens=losses.tokens,
            bytes=chosen[split].bytes,
            groups=groups[split],
        )
        is_scored[split] = losses.is_scored
    for baseline in counted_baselines(
        cache,
        tokenizer,
        {split: chosen[split].documents for split in JUDGED_SPLITS},
        is_scored={split: is_scored[split] for split in JUDGED_SPLITS},
        order=settings.ngram,
        on_progress=observer.progress("baselines"),
    ):
        for split in JUDGED_SPLITS:
            tables[split, baseline.label] = metrics[split].statistics(
                baseline.nll[split],
                tokens=tables[split, MODEL].tokens,
                bytes=chosen[split].bytes,
                groups=groups[split],
            )
    scored = {
        (split, of): table.select(chosen[split].overlap.is_scored)
        for (split, of), table in tables.items()
        if chosen[split].overlap.is_scored.any()
    }
    unknown = _unknown_rates(cache)
    # Bytes do not count where only some tokens are predicted, or where text was lost to <unk>.
    is_causal = isinstance(recipe.objective, Causal)
    per_byte = [split for split in SPLITS if is_causal and split not in unknown]
    return SplitResults(
        estimates=tuple(_scores(metrics, scored, per_byte=per_byte)),
        comparisons=tuple(
            _comparison(metrics[split], scored, split, against=of)
            for split, of in _in_order(scored)
            if of != MODEL
        ),
        remarks=(
            *(() if is_causal else (_partly_scored_remark(objective),)),
            *(
                f"{split}: {few}"
                for split, of in scored
                if of == MODEL
                and split in JUDGED_SPLITS
                and (
                    few := too_few_items(
                        len(scored[split, of]),
                        "documents",
                        groups=count_groups(scored[split, of].groups),
                    )
                )
            ),
            *(
                f"{split}: no score per byte, because {rate:.1%} of its tokens are <unk>: the text "
                "behind them was never predicted, and the score would flatter"
                for split, rate in unknown.items()
                if is_causal
            ),
        ),
        items={
            split: [
                {**row, "overlap": kind}
                for row, kind in zip(
                    loss_rows(tables[split, MODEL], chosen[split].groups),
                    chosen[split].overlap.kinds,
                    strict=True,
                )
            ]
            for split in SPLITS
        },
        fingerprints={
            split: item_fingerprints(split, objective, tokenizer.fingerprint, tables[split, MODEL])
            for split in SPLITS
        },
        metric=DocumentMetric().settings(),
        contamination=tuple(
            chosen[split].overlap.record(
                split,
                unit="documents",
                estimates=_scores(
                    {split: replace(metrics[split], split=chosen[split].label)},
                    {key: table for key, table in tables.items() if key[0] == split},
                    per_byte=per_byte,
                ),
            )
            for split in JUDGED_SPLITS
            if chosen[split].overlap.is_contaminated
        ),
    )


def _in_order(tables: Tables) -> list[tuple[Split, str]]:
    """The keys by split; the model stays first in each."""
    return sorted(tables, key=lambda key: SPLITS.index(key[0]))


def _scores(
    metrics: Mapping[Split, Perplexity], tables: Tables, *, per_byte: Collection[Split]
) -> list[ScoreRecord]:
    return [
        ScoreRecord.of_estimate(estimate, split=split, of=of)
        for split, of in _in_order(tables)
        for estimate in metrics[split].score(tables[split, of]).values()
        if split in per_byte or estimate.name not in PER_BYTE
    ]


def _partly_scored_remark(objective: str) -> str:
    return (
        f"the objective {objective} predicts some tokens of each document: scores are over those "
        "alone, for model and baselines; the n-gram sees every token before them, and none after"
    )


def _unknown_rates(cache: TokenCache) -> dict[Split, float]:
    """Splits with too much text lost to <unk>, and the rate of <unk> there."""
    splits = {split: cache.split(split) for split in SPLITS}
    rates = {split: cached.unknown / cached.meta["tokens"] for split, cached in splits.items()}
    return {split: rate for split, rate in rates.items() if rate > MAX_UNKNOWN_RATE}


def _comparison(
    metric: Perplexity, tables: Tables, split: Split, *, against: str
) -> ComparisonRecord:
    """Model minus baseline on the same documents, and the verdict that follows."""
    difference = metric.paired_difference(tables[split, MODEL], tables[split, against])
    return ComparisonRecord.of_difference(
        difference,
        split=split,
        metric="perplexity",
        against=against,
        verdict=difference_verdict(difference, higher_is_better=False),
    )
