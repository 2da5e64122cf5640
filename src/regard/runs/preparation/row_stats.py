"""Statistics of a task's rows, with the same keys as those of a text corpus."""

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


class _RowTexts:
    """Each row as one text, to measure overlap."""

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
    """Sizes, lengths and unknown tokens of each split, and how much of dev and test is in train."""
    texts = {split: [" ".join(task.texts(row)) for row in records[split]] for split in SPLITS}
    encoded = {split: tokenizer.encode_many(texts[split]) for split in SPLITS}
    lengths = {split: np.array([len(ids) for ids in encoded[split]]) for split in SPLITS}
    edges = histogram_edges(np.concatenate(list(lengths.values())))
    identities = {split: [task.identity_text(row) for row in records[split]] for split in SPLITS}
    overlap = measure_overlap(_RowTexts(identities))
    return {
        "name": corpus.name,
        "generated": corpus.generated,
        "splits": {
            split: _split_statistics(texts[split], encoded[split], lengths[split], tokenizer)
            | {
                "fingerprint": corpus.fingerprints[split],
                "histogram": {
                    "edges": edges,
                    "counts": np.histogram(lengths[split], edges)[0].tolist(),
                },
            }
            for split in SPLITS
        },
        "overlap": {split: asdict(one) for split, one in overlap.items()},
        "dropped": {**corpus.dropped.as_dict(), "without_tokens": 0},
    }


def _split_statistics(
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
