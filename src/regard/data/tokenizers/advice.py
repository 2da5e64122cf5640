"""Advice: keep an existing tokenizer, or train a new one on this text?

    fertility = tokens / whitespace words          unknown rate = <unk> / tokens

Both are measured on held-out text, for the existing tokenizer and for a new one of the same kind
and size, trained on the rest. The saving is 1 − Σ new / Σ existing tokens over documents, with the
95 % interval of a ratio of sums (documents assumed independent).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.tokenizers import TOKENIZERS, TokenizerKind
from regard.data.tokenizers.tokenizer import Tokenizer

MIN_SAVING = 0.10
"Smaller fractions of tokens saved do not justify giving up a pretrained model's tokenizer."
MAX_EXTRA_UNKNOWN_RATE = 0.01
"Unknown rate above that of the new tokenizer from which too many words are lost."


@dataclass(frozen=True)
class TokenizerFit:
    """Token counts of one tokenizer on the held-out text."""

    name: str
    size: int
    fingerprint: str
    tokens: int
    unknown: int
    words: int
    fertility: float
    unknown_rate: float


@dataclass(frozen=True)
class TokenizerAdvice:
    """Both fits, the saving of a new tokenizer, and a recommendation in words."""

    existing: TokenizerFit
    fresh: TokenizerFit
    documents: int
    saving: float
    "Fraction of tokens that the new one saves; negative if it needs more."
    saving_interval: tuple[float, float] | None
    "95 %; None for a single document."
    retrain: bool
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def advise(
    existing: Tokenizer,
    *,
    train_texts: Iterator[str],
    held_out: Iterable[str],
    on_progress: OnProgress = no_progress,
) -> TokenizerAdvice:
    """Compare with a new tokenizer, which is smaller if the text has fewer pieces."""
    kind = same_kind(existing)
    fresh = kind.train(train_texts, on_progress=on_progress)
    counts = _count(held_out, existing, fresh)
    words = int(counts[:, 0].sum())
    if not words:
        raise UserError(
            "the held-out text has no words to compare tokenizers on",
            topic="tokenizer",
            hint="Give more text.",
        )
    old, new = (
        _fit(tokenizer, words, tokens=counts[:, 1 + 2 * i], unknown=counts[:, 2 + 2 * i])
        for i, tokenizer in enumerate((existing, fresh))
    )
    saving, interval = saved_fraction(counts[:, 1], counts[:, 3])
    sure_saving = interval[0] if interval else saving
    retrain = (
        sure_saving > MIN_SAVING or old.unknown_rate > new.unknown_rate + MAX_EXTRA_UNKNOWN_RATE
    )
    return TokenizerAdvice(
        existing=old,
        fresh=new,
        documents=len(counts),
        saving=saving,
        saving_interval=interval,
        retrain=retrain,
        sentence=_recommendation(old, new, saving, interval, len(counts), retrain),
    )


def same_kind(tokenizer: Tokenizer) -> TokenizerKind:
    """The settings that train a tokenizer of the same kind and size."""
    table = tokenizer.to_dict()
    model = table["model"]
    single_characters = sum(len(piece) == 1 for piece in model["vocab"]) > tokenizer.size / 2
    settings: dict[str, Any] = {"vocabulary": tokenizer.size}
    match model["type"]:
        case "WordLevel" if single_characters:
            name, settings = "character", {}
        case "WordLevel":
            name = "word"
        case "WordPiece":
            name = "wordpiece"
        case "Unigram":
            name = "unigram"
        case _:
            name = "bpe"
            settings["bytes"] = "ByteLevel" in str((table["pre_tokenizer"], table["decoder"]))
    kind = TOKENIZERS.get(name).part(**settings)
    assert isinstance(kind, TokenizerKind)
    return kind


def saved_fraction(
    existing: NDArray[np.int64], fresh: NDArray[np.int64]
) -> tuple[float, tuple[float, float] | None]:
    """1 − Σ fresh / Σ existing over documents, and its 95 % interval by linearisation."""
    ratio = float(fresh.sum() / existing.sum())
    n = len(existing)
    if n < 2:
        return 1 - ratio, None
    residual = fresh - ratio * existing
    error = float(np.sqrt(residual.var(ddof=1) / n) / existing.mean())
    return 1 - ratio, (1 - ratio - 1.96 * error, 1 - ratio + 1.96 * error)


def _count(held_out: Iterable[str], *tokenizers: Tokenizer) -> NDArray[np.int64]:
    """A row per document: words, then tokens and unknowns of each tokenizer; blank ones skipped."""
    rows: list[list[int]] = []
    stream = (text for text in held_out if text and not text.isspace())
    while texts := list(islice(stream, 1024)):
        columns = [[len(text.split()) for text in texts]]
        for tokenizer in tokenizers:
            encoded = tokenizer.encode_many(texts)
            columns.append([len(ids) for ids in encoded])
            unknown = -1 if tokenizer.unk is None else tokenizer.unk
            columns.append([ids.count(unknown) for ids in encoded])
        rows.extend(list(row) for row in zip(*columns, strict=True))
    return np.array(rows, dtype=np.int64).reshape(len(rows), 1 + 2 * len(tokenizers))


def _fit(
    tokenizer: Tokenizer, words: int, *, tokens: NDArray[np.int64], unknown: NDArray[np.int64]
) -> TokenizerFit:
    total, unknowns = int(tokens.sum()), int(unknown.sum())
    return TokenizerFit(
        name=tokenizer.name,
        size=tokenizer.size,
        fingerprint=tokenizer.fingerprint,
        tokens=total,
        unknown=unknowns,
        words=words,
        fertility=total / words,
        unknown_rate=unknowns / total if total else 0.0,
    )


def _recommendation(
    old: TokenizerFit,
    new: TokenizerFit,
    saving: float,
    interval: tuple[float, float] | None,
    documents: int,
    retrain: bool,
) -> str:
    bounds = f" [{interval[0]:+.1%}, {interval[1]:+.1%}]" if interval else ""
    comparison = (
        f"on {documents:,} held-out documents ({old.words:,} words) {old.name} "
        f"({old.size:,} pieces) needs {old.fertility:.2f} tokens per word with "
        f"{old.unknown_rate:.2%} unknown, a new {new.name} of {new.size:,} pieces "
        f"{new.fertility:.2f} with {new.unknown_rate:.2%}: tokens saved {saving:+.1%}{bounds}"
    )
    if retrain:
        return f"Train a new one: {comparison}. A model of the old one must be trained again."
    return f"Keep {old.name}: {comparison}."
