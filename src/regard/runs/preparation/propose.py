"""A first recipe for a person's own text: sizes follow from a look at it, comments say why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.data.readers.records import Unit

CHARACTERS_SEEN = 30_000_000
"A glance stops here; sizes then are lower bounds, and nothing proposed depends on more."
TOKENS_PER_WORD = 1.4
"A byte-pair tokenizer's usual fertility; only used to propose sizes."
AIM_TOKENS = 2_000_000
"Tokens to train on in all: a couple of minutes on two cores at the size proposed."


@dataclass(frozen=True)
class CorpusPreview:
    """What a glance at the text shows."""

    words_each: list[int]
    complete: bool
    "Whether the glance saw all of it."

    @property
    def tokens(self) -> int:
        """About how many tokens were seen."""
        return round(sum(self.words_each) * TOKENS_PER_WORD)


def preview_corpus(corpus: Sequence[str], *, column: str, unit: Unit) -> CorpusPreview:
    opened = open_corpus(Data(corpus=tuple(corpus), text=column, unit=unit))
    words_each, seen = [], 0
    for _, text in opened.texts_with_split():
        words_each.append(len(text.split()))
        seen += len(text)
        if seen > CHARACTERS_SEEN:
            return CorpusPreview(words_each, complete=False)
    return CorpusPreview(words_each, complete=True)


def propose_unit(path: Path) -> Unit:
    """Paragraphs where blank lines part wrapped lines; else every line is a document."""
    from regard.data.readers.lines import read_lines

    seen = list(islice(read_lines(path), 1000))
    blank = sum(not line.strip() for line in seen)
    full = len(seen) - blank
    wrapped = blank >= 2 and full / (blank + 1) >= 1.5
    return "paragraph" if wrapped else "line"


def propose(
    name: str, corpus: Sequence[str], *, column: str | None, unit: Unit, seen: CorpusPreview
) -> str:
    """The recipe as TOML text."""
    if seen.tokens < 300:
        raise UserError(
            f"about {seen.tokens} tokens are too few to train and test on",
            topic="data",
            where=", ".join(corpus) + (f", column {column!r}" if column else ""),
            hint="Give more text; some thousands of words at least.",
        )
    context = _context(seen)
    batch = _batch_tokens(seen, context)
    epochs = max(1, min(20, round(AIM_TOKENS / seen.tokens)))
    named = json.dumps(corpus[0]) if len(corpus) == 1 else json.dumps(list(corpus))
    about = "about" if seen.complete else "at least"
    read_lines = [
        f"# {name}: {about} {seen.tokens:,} tokens; check it with `regard validate`, "
        "run it with `regard train`.",
        f"name = {json.dumps(name)}",
        "",
        "[data]",
        f"corpus = {named}",
    ]
    if column is not None:
        read_lines.append(f"text = {json.dumps(column)}".ljust(34) + "# the column that is read")
    elif unit != "line":
        read_lines.append(f'unit = "{unit}"'.ljust(34) + "# what one document is")
    read_lines += [
        _said("dev = 0.05", "share of the documents to choose on"),
        _said("test = 0.05", "share that only judges"),
        "",
        "[tokenizer]",
        _said('kind = "bpe"', "or wordpiece, unigram, word, character: regard ls tokenizer"),
        *([_said(f"vocabulary = {v}", "pieces")] if (v := _vocabulary(seen)) else []),
        "",
        "[model]",
        'family = "decoder"',
        "layers = 4",
        "heads = 4",
        _said("width = 128", "larger learns more and takes longer"),
        _said(f"context = {context}", "tokens seen at once"),
        _said("dropout = 0.1", "small text is soon learned by heart"),
        "",
        "[train]",
        _said(f"epochs = {epochs}", "passes over the text"),
        _said(f"batch_tokens = {batch}", "tokens in one update"),
        "lr = 1e-3",
        _said("patience = 5", "stop when dev has not improved for five looks"),
        "evaluate_every = 50",
        "seed = 0",
        "",
    ]
    return "\n".join(read_lines)


def _said(setting: str, why: str) -> str:
    return f"{setting:<33} # {why}"


def _context(seen: CorpusPreview) -> int:
    """Nine documents in ten fit whole, between 32 and 256 tokens."""
    tokens = float(np.quantile(seen.words_each, 0.9)) * TOKENS_PER_WORD
    wanted = int(min(256, max(32, -(-tokens // 16) * 16)))
    while wanted > 8 and seen.tokens < 20 * wanted:
        wanted //= 2
    return wanted


def _batch_tokens(seen: CorpusPreview, context: int) -> int:
    """3,200, or less where the text would give fewer than ten batches."""
    return max(context, min(3200, int(seen.tokens * 0.9) // 10))


def _vocabulary(seen: CorpusPreview) -> int | None:
    """None leaves it to the tokenizer, which takes as many pieces as a short text fills."""
    for tokens, size in ((20_000_000, 16_000), (1_000_000, 8000), (300_000, 4000)):
        if seen.tokens >= tokens:
            return size
    return None
