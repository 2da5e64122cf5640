"""Propose a first recipe for a user's text: sizes follow from a preview, comments say why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from regard.core.errors import UserError
from regard.core.scripts import UNSPACED
from regard.core.settings import read_settings
from regard.data.corpus import Data, open_corpus
from regard.data.overlap.straddling import likely_group_columns
from regard.data.readers.formats import read_records
from regard.data.readers.records import DropCounts, ReadOptions, Unit

MAX_CHARACTERS = 30_000_000
"The preview stops here; its sizes are then lower bounds, and the proposal needs no more."
MAX_ROWS = 20_000
"Rows in which a column of groups is searched."
MAX_CLASSES = 20
MIN_ROWS_OF_CLASS = 10
"Mean rows of a value from which on a column may be a label."
LABEL_NAME = re.compile(r"label|class|categor|sentiment|topic|target", re.IGNORECASE)
TOKENS_PER_WORD = 1.4
"Typical fertility of a BPE tokenizer; used only to propose sizes."
WORD_BY_ITSELF = re.compile(f"[{UNSPACED}]")
"A character of a script that puts no spaces between words."
TRAINING_TOKENS = 2_000_000
"Tokens processed in training: a couple of minutes on two cores at the proposed size."


@dataclass(frozen=True)
class CorpusPreview:
    """Document lengths of a corpus, or of its beginning."""

    document_words: list[int]
    complete: bool
    "Whether the preview read the whole corpus."

    @property
    def tokens(self) -> int:
        """Estimated tokens of the previewed text."""
        return round(sum(self.document_words) * TOKENS_PER_WORD)


def preview_corpus(corpus: Sequence[str], *, column: str, unit: Unit) -> CorpusPreview:
    given = {"corpus": tuple(corpus), "text": column, "unit": unit}
    opened = open_corpus(read_settings(Data, given, key="data"))
    document_words, characters = [], 0
    for _, text in opened.texts_with_split():
        document_words.append(count_words(text))
        characters += len(text)
        if characters > MAX_CHARACTERS:
            return CorpusPreview(document_words, complete=False)
    return CorpusPreview(document_words, complete=True)


def count_words(text: str) -> int:
    unspaced = 0 if text.isascii() else len(WORD_BY_ITSELF.findall(text))
    return len(text.split()) + unspaced


def propose_unit(path: Path) -> Unit:
    """Paragraphs if blank lines separate wrapped lines; else each line is a document."""
    from regard.data.readers.lines import read_lines

    lines = list(islice(read_lines(path), 1000))
    blank = sum(not line.strip() for line in lines)
    full = len(lines) - blank
    wrapped = blank >= 2 and full / (blank + 1) >= 1.5
    return "paragraph" if wrapped else "line"


def read_columns(path: Path) -> dict[str, list[Any]]:
    """Every column of a table, of its first rows."""
    options = ReadOptions(columns=None, skip_bad_rows=True)
    columns: dict[str, list[Any]] = {}
    rows = islice(read_records(path, options, DropCounts()), MAX_ROWS)
    for number, row in enumerate(rows):
        for name in row.keys() - columns.keys():
            columns[name] = [None] * number
        for name, values in columns.items():
            values.append(row.get(name))
    return columns


def propose_group(columns: Mapping[str, Sequence[Any]], *, text: str) -> str | None:
    """The column that looks most like an author, document or source; None if none does."""
    others = {name: values for name, values in columns.items() if name != text}
    return next(iter(likely_group_columns(others)), None)


def propose_label(columns: Mapping[str, Sequence[Any]], *, text: str) -> str | None:
    """The column that looks most like the label of a class; None if none does."""
    values = {
        name: {str(value).strip() for value in column}
        for name, column in columns.items()
        if name != text and all(isinstance(value, str | int) for value in column)
    }
    labels = [
        name
        for name, found in values.items()
        if 2 <= len(found) <= min(MAX_CLASSES, len(columns[name]) / MIN_ROWS_OF_CLASS)
        and "" not in found
    ]
    return min(
        labels, key=lambda name: (not LABEL_NAME.search(name), len(values[name])), default=None
    )


def task_table(*, text: str, label: str) -> str:
    """The table of a recipe that predicts a column of labels, as TOML text."""
    return tomli_w.dumps({"task": {"kind": "classification", "text": text, "label": label}})


def propose_recipe(
    name: str,
    corpus: Sequence[str],
    *,
    column: str | None,
    unit: Unit,
    group: str | None = None,
    preview: CorpusPreview,
) -> str:
    """The recipe as TOML text."""
    if preview.tokens < 300:
        raise UserError(
            f"about {preview.tokens} tokens are too few to train and test on",
            topic="data",
            where=", ".join(corpus) + (f", column {column!r}" if column else ""),
            hint="Give more text; some thousands of words at least.",
        )
    context = _context(preview)
    batch = _batch_tokens(preview, context)
    epochs = max(1, min(20, round(TRAINING_TOKENS / preview.tokens)))
    about = "about" if preview.complete else "at least"
    lines = [
        f"# {name}: {about} {preview.tokens:,} tokens; check it with `regard validate`, "
        "run it with `regard train`.",
        _setting("name", name),
        "",
        "[data]",
        _setting("corpus", corpus[0] if len(corpus) == 1 else list(corpus)),
    ]
    if column is not None:
        lines.append(_line(_setting("text", column), "the column with the text"))
    elif unit != "line":
        lines.append(_line(_setting("unit", unit), "what one document is"))
    lines += [
        _line("dev = 0.05", "fraction of the documents for choosing and early stopping"),
        _line("test = 0.05", "fraction for the final evaluation alone"),
        *([_line(_setting("group", group), "each value stays in one split")] if group else []),
        "",
        "[tokenizer]",
        _line('kind = "bpe"', "or wordpiece, unigram, word, character: regard ls tokenizer"),
        *([_line(f"vocabulary = {v}", "pieces")] if (v := _vocabulary(preview)) else []),
        "",
        "[model]",
        'family = "decoder"',
        "layers = 4",
        "heads = 4",
        _line("width = 128", "larger learns more and takes longer"),
        _line(f"context = {context}", "tokens of a training row"),
        _line("dropout = 0.1", "small corpora overfit soon"),
        "",
        "[train]",
        _line(f"epochs = {epochs}", "passes over the text"),
        _line(f"batch_tokens = {batch}", "tokens in one update"),
        "lr = 1e-3",
        _line("patience = 5", "stop when dev has not improved in five evaluations"),
        "evaluate_every = 50",
        "seed = 0",
        "",
    ]
    return "\n".join(lines)


def _setting(key: str, value: str | list[str]) -> str:
    return tomli_w.dumps({key: value}).rstrip()


def _line(setting: str, why: str) -> str:
    return f"{setting:<33} # {why}"


def _context(preview: CorpusPreview) -> int:
    """Nine documents in ten fit whole; between 32 and 256 tokens."""
    tokens = float(np.quantile(preview.document_words, 0.9)) * TOKENS_PER_WORD
    context = int(min(256, max(32, -(-tokens // 16) * 16)))
    while context > 8 and preview.tokens < 20 * context:
        context //= 2
    return context


def _batch_tokens(preview: CorpusPreview, context: int) -> int:
    """3,200, or fewer if the text would fill less than ten batches."""
    return max(context, min(3200, int(preview.tokens * 0.9) // 10))


def _vocabulary(preview: CorpusPreview) -> int | None:
    """None leaves it to the tokenizer, which takes as many pieces as a short text allows."""
    for tokens, size in ((20_000_000, 16_000), (1_000_000, 8000), (300_000, 4000)):
        if preview.tokens >= tokens:
            return size
    return None
