"""The final figures: the model and its baselines, on the same documents, with intervals.

The training part is measured after training, on documents drawn by seed; its last batch never
stands for it. Everything is counted per document, so that intervals draw whole documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.experiment.watch import Watch
from regard.metrics.figure import Figure
from regard.metrics.perplexity import Losses, Perplexity, stands_against
from regard.model.language_model import LanguageModel
from regard.recipe import Evaluate
from regard.text.cache import TokenCache
from regard.text.corpus import PARTS, Part
from regard.text.tokenizer import Tokenizer
from regard.training.evaluation import document_losses
from regard.trust.baselines import language_model_baselines

MODEL = "model"
PARTS_JUDGED: tuple[Part, ...] = ("dev", "test")
"Where baselines stand beside the model; on the text they counted they would only remember."


@dataclass(frozen=True)
class Chosen:
    """The documents of a part that are measured."""

    documents: Sequence[np.ndarray]
    bytes: np.ndarray
    label: str


def choose_documents(cache: TokenCache, part: Part, *, most: int, seed: int) -> Chosen:
    """All documents of a part, or `most` of them drawn by seed; the label says which."""
    cached = cache.part(part)
    label = f"{part}:{cached.fingerprint[:8]}"
    numbers = np.arange(len(cached))
    if len(cached) > most:
        numbers = np.sort(np.random.default_rng([seed, most]).choice(numbers, most, replace=False))
        label += f":{most}-drawn-seed{seed}"
    return Chosen([cached[int(n)] for n in numbers], np.asarray(cached.bytes)[numbers], label)


def measure(
    model: LanguageModel,
    cache: TokenCache,
    tokenizer: Tokenizer,
    settings: Evaluate,
    *,
    seed: int,
    device: str,
    watch: Watch,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of figures for model and baselines on every part, and what they amount to in words."""
    start, stop = tokenizer.require("start"), tokenizer.require("stop")
    chosen = {
        part: choose_documents(cache, part, most=settings.documents, seed=seed) for part in PARTS
    }
    metrics = {
        part: Perplexity(part=chosen[part].label, tokenizer=tokenizer.fingerprint[:8])
        for part in PARTS
    }
    tables: dict[tuple[Part, str], Losses] = {}
    model.eval()
    for part in PARTS:
        losses, tokens = document_losses(
            model,
            chosen[part].documents,
            start=start,
            stop=stop,
            pad=tokenizer.require("pad"),
            batch_tokens=8192,
            device=device,
            on_progress=watch.progress(f"measuring {part}"),
        )
        tables[part, MODEL] = metrics[part].statistics(
            losses, tokens=tokens, bytes=chosen[part].bytes
        )
    training = cache.part("train")
    for baseline in language_model_baselines(
        (training[n] for n in range(len(training))),
        {part: chosen[part].documents for part in PARTS_JUDGED},
        vocabulary=tokenizer.size,
        start=start,
        stop=stop,
        order=settings.ngram,
        on_progress=watch.progress("baselines"),
    ):
        for part in PARTS_JUDGED:
            tables[part, baseline.label] = metrics[part].statistics(
                baseline.nll[part], tokens=tables[part, MODEL].tokens, bytes=chosen[part].bytes
            )
    scores = {key: metrics[key[0]].score(table) for key, table in tables.items()}
    rows = [_row(part, of, figure) for (part, of), by in scores.items() for figure in by.values()]
    return rows, _remarks(metrics, tables, scores)


def _remarks(
    metrics: Mapping[Part, Perplexity],
    tables: Mapping[tuple[Part, str], Losses],
    scores: Mapping[tuple[Part, str], Mapping[str, Figure]],
) -> list[str]:
    return [
        f"{part} "
        + stands_against(
            scores[part, MODEL]["perplexity"],
            scores[part, of]["perplexity"],
            difference=metrics[part].difference(tables[part, MODEL], tables[part, of]),
            label=of,
        )
        for part, of in tables
        if of != MODEL
    ]


def _row(part: str, of: str, figure: Figure) -> dict[str, Any]:
    row = figure.as_dict()
    return {"part": part, "metric": row.pop("name"), "of": of, **row}
