"""The final figures: the model and its baselines, on the same documents, with intervals.

The training part is measured after training, on documents drawn by seed; its last batch never
stands for it. Everything is counted per document, so that intervals draw whole documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from regard.core.settings import catalog_name
from regard.data.corpus import SPLITS, Split
from regard.data.token_cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.baselines.language_model import language_model_baselines
from regard.evaluation.metrics.metric import MIN_ITEMS
from regard.evaluation.metrics.perplexity import Losses, Perplexity, perplexity_verdict
from regard.evaluation.statistics.estimate import Estimate
from regard.models.model import Model
from regard.objectives import OBJECTIVES, Vocabulary
from regard.objectives.causal import Causal
from regard.runs.items import fingerprints_of
from regard.runs.observer import Observer
from regard.runs.recipe import Recipe
from regard.training.document_losses import document_losses

MODEL = "model"
PARTS_JUDGED: tuple[Split, ...] = ("dev", "test")
"Where baselines stand beside the model; on the text they counted they would only remember."
PER_BYTE = ("perplexity_per_byte", "bits_per_byte")
BEARABLE_UNKNOWN = 0.001
"Share of <unk> up to which a figure per byte is still told."


Tables: TypeAlias = dict[tuple[Split, str], Losses]
"Losses of each document, by part and by whose they are."


@dataclass(frozen=True)
class EvaluatedDocuments:
    """The documents of a part that are measured."""

    documents: Sequence[np.ndarray]
    bytes: np.ndarray
    label: str


@dataclass(frozen=True)
class LanguageModelResults:
    """Rows for figures.json, and the tables they were made of."""

    figures: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    remarks: list[str]
    tables: Mapping[Split, Losses]
    "What was measured of each document."
    fingerprints: Mapping[Split, Mapping[str, str]]


def choose_documents(cache: TokenCache, part: Split, *, most: int, seed: int) -> EvaluatedDocuments:
    """All documents of a part, or `most` of them drawn by seed; the label says which."""
    cached = cache.split(part)
    label = f"{part}:{cached.fingerprint[:8]}"
    numbers = np.arange(len(cached))
    if len(cached) > most:
        numbers = np.sort(np.random.default_rng([seed, most]).choice(numbers, most, replace=False))
        label += f":{most}-drawn-seed{seed}"
    return EvaluatedDocuments(
        [cached[int(n)] for n in numbers], np.asarray(cached.bytes)[numbers], label
    )


def measure(
    model: Model,
    recipe: Recipe,
    cache: TokenCache,
    tokenizer: Tokenizer,
    *,
    device: str,
    watch: Observer,
) -> LanguageModelResults:
    """Figures of model and baselines on every part, and the differences between them."""
    # The items belong to the data: every seed of a training is measured on the same.
    settings, seed = recipe.evaluate, recipe.data.split_seed
    objective = catalog_name(recipe.objective, OBJECTIVES)
    chosen = {
        part: choose_documents(cache, part, most=settings.documents, seed=seed) for part in SPLITS
    }
    metrics = {
        part: Perplexity(
            split=chosen[part].label, tokenizer=tokenizer.fingerprint[:8], objective=objective
        )
        for part in SPLITS
    }
    tables: Tables = {}
    counted = {}
    model.eval()
    for part in SPLITS:
        told = document_losses(
            model,
            chosen[part].documents,
            recipe.objective,
            vocabulary=Vocabulary.from_tokenizer(tokenizer),
            pad=tokenizer.padding_id,
            seed=seed,
            device=device,
            on_progress=watch.progress(f"measuring {part}"),
        )
        tables[part, MODEL] = metrics[part].statistics(
            told.losses, tokens=told.tokens, bytes=chosen[part].bytes
        )
        counted[part] = told.is_scored
    for baseline in language_model_baselines(
        iter(cache.split("train")),
        {part: chosen[part].documents for part in PARTS_JUDGED},
        vocabulary=tokenizer.size,
        start=tokenizer.require("start"),
        stop=tokenizer.require("stop"),
        counted={part: counted[part] for part in PARTS_JUDGED},
        order=settings.ngram,
        on_progress=watch.progress("baselines"),
    ):
        for part in PARTS_JUDGED:
            tables[part, baseline.label] = metrics[part].statistics(
                baseline.nll[part], tokens=tables[part, MODEL].tokens, bytes=chosen[part].bytes
            )
    if isinstance(recipe.objective, Causal):
        measured = _told(tables, metrics, unknown=_too_much_unknown(cache))
    else:
        measured = _of_some(_told(tables, metrics, unknown={}), objective)
    fingerprints = {
        part: fingerprints_of(part, objective, tokenizer.fingerprint, tables[part, MODEL])
        for part in SPLITS
    }
    return replace(measured, fingerprints=fingerprints)


def _told(
    tables: Tables, metrics: Mapping[Split, Perplexity], *, unknown: Mapping[Split, float]
) -> LanguageModelResults:
    """What the tables amount to; parts with too much `unknown` have no figure per byte."""
    in_order = sorted(tables, key=lambda key: SPLITS.index(key[0]))  # the model stays first in each
    judged = {part: len(tables[part, MODEL]) for part in PARTS_JUDGED}
    return LanguageModelResults(
        figures=[
            _row(key, figure)
            for key in in_order
            for figure in metrics[key[0]].score(tables[key]).values()
            if key[0] not in unknown or figure.name not in PER_BYTE
        ],
        comparisons=[
            _comparison(key, metrics[key[0]].paired_difference(tables[key[0], MODEL], tables[key]))
            for key in in_order
            if key[1] != MODEL
        ],
        remarks=[
            f"{part}: {n} documents are too few for a verdict; it takes {MIN_ITEMS}"
            for part, n in judged.items()
            if n < MIN_ITEMS
        ]
        + [
            f"{part}: no figure per byte, because {rate:.1%} of its tokens are <unk>: what stood "
            "there was never predicted, and the figure would flatter"
            for part, rate in unknown.items()
        ],
        tables={part: tables[part, MODEL] for part in SPLITS},
        fingerprints={},
    )


def _of_some(measured: LanguageModelResults, objective: str) -> LanguageModelResults:
    """Where only some tokens are told, no figure speaks of all bytes, and a remark says so."""
    remark = (
        f"the objective {objective} tells some tokens of each document: figures are over those "
        "alone, for model and baselines; the n-gram sees every token before them, and none after"
    )
    return replace(
        measured,
        figures=[row for row in measured.figures if row["metric"] not in PER_BYTE],
        remarks=[remark, *measured.remarks],
    )


def _too_much_unknown(cache: TokenCache) -> dict[Split, float]:
    """Parts whose text is not all in their tokens, with the share that is not."""
    rates = {part: cache.split(part).unknown / len(cache.split(part).tokens) for part in SPLITS}
    return {part: rate for part, rate in rates.items() if rate > BEARABLE_UNKNOWN}


def _row(key: tuple[Split, str], figure: Estimate) -> dict[str, Any]:
    part, of = key
    row = figure.as_dict()
    return {"part": part, "metric": row.pop("name"), "of": of, **row}


def _comparison(key: tuple[Split, str], difference: Estimate) -> dict[str, Any]:
    """Model minus baseline on the same documents, and the verdict that follows."""
    part, of = key
    row = difference.as_dict() | {"metric": "perplexity", "verdict": perplexity_verdict(difference)}
    return {"part": part, "against": of, **{k: v for k, v in row.items() if k != "name"}}
