"""What the rows of a task hold, told in the same words as a corpus of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from regard.data.corpus import SPLITS, Split
from regard.data.corpus_stats import histogram_edges, measure_overlap
from regard.data.record_corpus import Record, RecordCorpus
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.tasks import Task


class _Texts:
    """Each row as one text, for the search of overlap."""

    def __init__(self, texts: Mapping[Split, Sequence[str]]) -> None:
        self._texts = texts

    def texts(self, split: Split) -> Iterator[str]:
        return iter(self._texts[split])


def task_statistics(
    corpus: RecordCorpus,
    records: Mapping[Split, Sequence[Record]],
    task: Task,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """Sizes, lengths and unknown tokens of every part, and how much of dev and test is in train."""
    texts = {part: [" ".join(task.texts(row)) for row in records[part]] for part in SPLITS}
    encoded = {part: tokenizer.encode_many(texts[part]) for part in SPLITS}
    lengths = {part: np.array([len(ids) for ids in encoded[part]]) for part in SPLITS}
    edges = histogram_edges(np.concatenate(list(lengths.values())))
    known = {part: [task.identity_text(row) for row in records[part]] for part in SPLITS}
    overlap = measure_overlap(_Texts(known))
    return {
        "name": corpus.name,
        "generated": corpus.generated,
        "splits": {
            part: _part(texts[part], encoded[part], lengths[part], tokenizer)
            | {
                "fingerprint": corpus.fingerprints[part],
                "histogram": {
                    "edges": edges,
                    "counts": np.histogram(lengths[part], edges)[0].tolist(),
                },
            }
            for part in SPLITS
        },
        "overlap": {part: asdict(found) for part, found in overlap.items()},
        "dropped": {**corpus.dropped.as_dict(), "without_tokens": 0},
    }


def _part(
    texts: Sequence[str], encoded: Sequence[list[int]], lengths: np.ndarray, tokenizer: Tokenizer
) -> dict[str, Any]:
    tokens = int(lengths.sum())
    unknown = sum(ids.count(tokenizer.unk) for ids in encoded) if tokenizer.unk is not None else 0
    return {
        "documents": len(texts),
        "tokens": tokens,
        "bytes": sum(len(text.encode()) for text in texts),
        "unique_tokens": len({token for ids in encoded for token in ids}),
        "unknown_rate": unknown / max(tokens, 1),
        "mean_length": float(lengths.mean()) if len(lengths) else 0.0,
        "median_length": float(np.median(lengths)) if len(lengths) else 0.0,
        "max_length": int(lengths.max()) if len(lengths) else 0,
        "truncated_tokens": 0,
    }
