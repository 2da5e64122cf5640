"""Baselines of a language model: n-gram models scored on exactly the same tokens.

A unigram model knows token frequencies; a Kneser-Ney n-gram model also uses the last few tokens. A
neural model behind the first has learned nothing, one behind the second is not worth its cost;
both are always reported next to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.core.progress import OnProgress
from regard.evaluation.baselines.ngrams import Ids, KneserNey


@dataclass(frozen=True)
class Baseline:
    """Negative log-likelihood of each document of each split, in nats."""

    label: str
    nll: Mapping[str, NDArray[np.float64]]


def language_model_baselines(
    train_documents: Iterable[Ids],
    splits: Mapping[str, Iterable[Ids]],
    *,
    vocabulary: int,
    start: int,
    stop: int,
    is_scored: Mapping[str, Sequence[NDArray[np.bool_]]] | None = None,
    order: int = 3,
    token_limit: int = 10_000_000,
    on_progress: OnProgress | None = None,
) -> list[Baseline]:
    """Kneser-Ney of `order`, then unigram: fitted on the training documents, scored on `splits`.

    Documents are token ids without special tokens; training documents may come from a generator,
    those of a split are iterated once per baseline. The predicted tokens of a document are its own
    and one stop, or those of them where `is_scored` is true: score the model on the same."""
    model = KneserNey.fit(
        train_documents,
        order=order,
        vocabulary=vocabulary,
        start=start,
        stop=stop,
        token_limit=token_limit,
        on_progress=on_progress,
    )
    models = [model, model.unigram()] if order > 1 else [model]
    return [
        Baseline(
            baseline_label(one),
            {
                split: one.nll(documents, None if is_scored is None else is_scored[split])
                for split, documents in splits.items()
            },
        )
        for one in models
    ]


def baseline_label(model: KneserNey) -> str:
    """`Kneser-Ney 3-gram`, `unigram`; with the number of tokens where training was truncated."""
    name = "unigram" if model.order == 1 else f"Kneser-Ney {model.order}-gram"
    if not model.is_truncated:
        return name
    return f"{name} (first {model.trained_tokens:,} training tokens)"
