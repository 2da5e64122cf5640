"""Statistics of a task's rows: the same as those of a text corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from regard.data.corpus import SPLITS, Corpus, Split
from regard.data.corpus_stats import histogram_edges, split_statistics
from regard.data.record_corpus import Record, fingerprint_rows
from regard.data.statistics import CorpusStatistics
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.runs.preparation.overlap import DataOverlap, RowItems, count_overlap
from regard.tasks import Task


def task_statistics(
    corpus: Corpus,
    records: Mapping[Split, Sequence[Record]],
    task: Task,
    tokenizer: Tokenizer,
    overlap: DataOverlap,
) -> CorpusStatistics:
    """Sizes, lengths and unknown tokens of each split, and the overlap found in their rows."""
    texts = {split: [" ".join(task.texts(row)) for row in records[split]] for split in SPLITS}
    encoded = {split: tokenizer.encode_many(texts[split]) for split in SPLITS}
    lengths = {split: np.array([len(ids) for ids in encoded[split]]) for split in SPLITS}
    edges = histogram_edges(np.concatenate(list(lengths.values())))
    return CorpusStatistics(
        name=corpus.name,
        generated=corpus.generated,
        splits={
            split: split_statistics(
                lengths[split],
                edges,
                bytes=sum(len(text.encode()) for text in texts[split]),
                unique_tokens=len({token for ids in encoded[split] for token in ids}),
                unknown=_count_unknown(encoded[split], tokenizer),
                fingerprint=fingerprint_rows(records[split]),
                truncated_tokens=0,
            )
            for split in SPLITS
        },
        overlap=count_overlap(
            overlap, RowItems(task, records), {split: len(records[split]) for split in SPLITS}
        ),
        dropped={
            **corpus.dropped.as_dict(),
            "without_tokens": 0,
            "overlapping": len(overlap.dropped),
        },
    )


def _count_unknown(encoded: Sequence[list[int]], tokenizer: Tokenizer) -> int:
    return sum(ids.count(tokenizer.unk) for ids in encoded) if tokenizer.unk is not None else 0
