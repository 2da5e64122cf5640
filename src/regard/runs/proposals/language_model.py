"""A language model of a user's texts: sizes follow from a preview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from regard.core.errors import UserError
from regard.data.corpus import Data, open_corpus
from regard.data.readers.lines import read_lines
from regard.data.readers.records import Unit
from regard.data.recognition.profile import MAX_CLASSES, MIN_ROWS_OF_CLASS
from regard.data.recognition.words import count_words
from regard.runs.proposals.lengths import TOKENS_PER_WORD, round_up
from regard.runs.proposals.recipe_text import RecipeSetting
from regard.runs.proposals.task_model import Change, ModelChoice, vocabulary

MAX_CHARACTERS = 30_000_000
"The preview stops here; its sizes are then lower bounds, and the proposal needs no more."
MIN_TOKENS = 300
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

    def describe(self) -> str:
        about = "about" if self.complete else "at least"
        return f"{about} {self.tokens:,} tokens in {len(self.document_words):,} documents"


def preview_corpus(
    corpus: Sequence[str], *, column: str, unit: Unit, header: bool = True
) -> CorpusPreview:
    data = Data(corpus=tuple(corpus), text=column, unit=unit, header=header, skip_bad_rows=True)
    document_words, characters = [], 0
    for _, text in open_corpus(data).texts_with_split():
        document_words.append(count_words(text))
        characters += len(text)
        if characters > MAX_CHARACTERS:
            return CorpusPreview(document_words, complete=False)
    return CorpusPreview(document_words, complete=True)


def propose_unit(path: Path) -> Unit:
    """Paragraphs if blank lines separate wrapped lines; else each line is a document."""
    lines = list(islice(read_lines(path), 1000))
    blank = sum(not line.strip() for line in lines)
    full = len(lines) - blank
    wrapped = blank >= 2 and full / (blank + 1) >= 1.5
    return "paragraph" if wrapped else "line"


def looks_like_a_table(path: Path) -> bool:
    """Whether nearly every line of a plain text has the same number of tabs, and at least one."""
    tabs = [line.count("\t") for line in islice(read_lines(path), 200) if line.strip()]
    return len(tabs) > 1 and min(tabs) > 0 and tabs.count(tabs[0]) >= 0.95 * len(tabs)


def looks_tagged(path: Path) -> bool:
    """Whether the lines between blank ones are a word with its tags: in two to six columns."""
    lines = [line.split() for line in islice(read_lines(path), 500)]
    widths = [len(line) for line in lines if line]
    blank = len(lines) - len(widths)
    is_regular = bool(widths) and 2 <= widths[-1] <= 6 and len(set(widths[1:])) == 1
    if not is_regular or blank < 2:
        return False
    words, tags = ({line[at] for line in lines if len(line) == widths[-1]} for at in (0, -1))
    return 2 * len(tags) <= len(words)


def folders_like_labels(files: Sequence[Path]) -> list[str]:
    """The names of the folders, if the files lie in a few folders that hold several each."""
    counts = Counter(file.parent.name for file in files)
    is_few = 2 <= len(counts) <= MAX_CLASSES and min(counts.values()) >= MIN_ROWS_OF_CLASS
    return sorted(counts) if is_few else []


def begins_with_labels(path: Path) -> bool:
    """Whether lines begin with a label as fastText writes it."""
    lines = [line for line in islice(read_lines(path), 100) if line.strip()]
    return bool(lines) and all(line.startswith("__label__") for line in lines)


def choose_language_model(preview: CorpusPreview, *, where: str) -> ModelChoice:
    if preview.tokens < MIN_TOKENS:
        raise UserError(
            f"about {preview.tokens} tokens are too few to train and test on",
            topic="data",
            where=where,
            hint="Give more text; some thousands of words at least.",
        )
    context = _context(preview)
    size = vocabulary(preview.tokens)
    return ModelChoice(
        top=[],
        tokenizer=[
            RecipeSetting(
                "kind", "bpe", "or wordpiece, unigram, word, character: regard ls tokenizer"
            ),
            *([RecipeSetting("vocabulary", size, "pieces")] if size else []),
        ],
        model=[
            RecipeSetting("family", "decoder"),
            RecipeSetting("layers", 4),
            RecipeSetting("heads", 4),
            RecipeSetting("width", 128, "larger learns more and takes longer"),
            RecipeSetting("context", context, "tokens of a training row"),
            RecipeSetting("dropout", 0.1, "small corpora overfit soon"),
        ],
        task=[],
        train=[
            RecipeSetting("epochs", max(1, min(20, round(TRAINING_TOKENS / preview.tokens)))),
            RecipeSetting("batch_tokens", _batch_tokens(preview, context), "tokens in one update"),
            RecipeSetting("lr", 1e-3),
            RecipeSetting("patience", 5, "stop when dev has not improved in five evaluations"),
            RecipeSetting("evaluate_every", 50),
        ],
        change=Change(
            "rotary",
            "model.positions",
            "rotary",
            "Do rotary positions predict better than learned ones?",
        ),
        said="a decoder from nothing, 4 layers of width 128",
    )


def _context(preview: CorpusPreview) -> int:
    """Nine documents in ten fit whole; between 32 and 256 tokens."""
    tokens = float(np.quantile(preview.document_words, 0.9)) * TOKENS_PER_WORD
    context = round_up(tokens, low=32, high=256)
    while context > 8 and preview.tokens < 20 * context:
        context //= 2
    return context


def _batch_tokens(preview: CorpusPreview, context: int) -> int:
    """3,200, or fewer if the text would fill less than ten batches."""
    return max(context, min(3200, int(preview.tokens * 0.9) // 10))
