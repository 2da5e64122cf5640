"""What of the data could fool, said before training, each with the setting that cures it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.data.statistics import CorpusStatistics

MAX_UNKNOWN_RATE = 0.5
"Fraction of a split's tokens that may be unknown before it is said."


def data_remarks(statistics: CorpusStatistics, flaws: Sequence[str]) -> Iterator[str]:
    """A sentence for each thing worth knowing; nothing for sound data."""
    dropped = statistics.dropped
    counts = {
        "empty row": dropped["empty"],
        "bad row": dropped["bad"],
        "document without a token": dropped["without_tokens"],
    }
    if reasons := [f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n]:
        yield f"data: left out {', '.join(reasons)}"
    if n := dropped["overlapping"]:
        yield (
            f"data: left out {n:,} row{'s' * (n != 1)} of training that dev or test hold "
            "(data.drop_overlap)"
        )
    yield from _overlap_remarks(statistics)
    yield from flaws


def unknown_token_flaws(statistics: CorpusStatistics) -> Iterator[str]:
    for name, split in statistics.splits.items():
        if split.unknown_rate > MAX_UNKNOWN_RATE:
            yield (
                f"data: {split.unknown_rate:.1%} of the tokens of {name} are unknown to the "
                "tokenizer, and a model cannot tell them apart: train another one, such as "
                'tokenizer.kind = "bpe"'
            )


def _overlap_remarks(statistics: CorpusStatistics) -> Iterator[str]:
    for split, overlap in statistics.overlap.items():
        if not overlap.is_contaminated:
            continue
        labels = f", {overlap.flipped:,} of them with another label" if overlap.flipped else ""
        yield (
            f"data: {overlap.overlapping:,} of {overlap.items:,} in {split} stand in training, "
            f"{overlap.exact:,} word for word{labels}: scores leave them out; "
            "data.drop_overlap = true leaves them out of training instead"
        )
