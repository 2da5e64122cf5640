"""A model fed by another model's tokenizer: refused by name, and what it would be worth if not.

Shapes: b rows, t places, v vocabulary, w width.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated, NamedTuple

import numpy as np
import tokenizers
import torch

from regard.batch import Batch, collate
from regard.core.errors import UserError
from regard.data.builtin.opinions import opinions
from regard.data.builtin.phrases import phrases
from regard.data.chunks import Document
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer, check_same
from regard.lessons.lesson import Lesson, LessonTable, above, below, equal, near
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.language_model import LanguageModel
from regard.models.families.decoder import Decoder
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal

PIECES = 160
PLACES = 32
ROWS = 24
MEASURED = 100
WIDTH = 32
LOOKS = 10
"How often the losses are measured on the way."
OWN, OTHER, RENUMBERED = "its own", "of other texts", "same pieces, other ids"


class TokenizerTexts(NamedTuple):
    """What is learnt from, what is measured, and other texts to learn another tokenizer from."""

    train: list[str]
    dev: list[str]
    others: list[str]


@lesson("wrong-tokenizer", topic="text", title="The tokenizer of another model", takes="a minute")
def wrong_tokenizer(*, steps: Annotated[int, Range(80, 400)] = 100, seed: Seed = 0) -> Lesson:
    """What happens when a model reads ids of a tokenizer that is not its own?

    An id means what its row of the embedding table has learnt, and nothing else. Ids of another
    tokenizer are valid numbers, so nothing breaks, and that is the trap: the loss is worse than
    that of guessing, and it rises as the model learns, because the model grows sure of words that
    are not there. It is not the pieces that matter but which number each has: the same pieces in
    another order do as much harm, and none at all once the table's rows are put into that order.

    So a tokenizer has a fingerprint, which is kept with every model, and another one is refused
    with a sentence that names both.
    """
    texts = _texts()
    own, other = (_learnt(some) for some in (texts.train, texts.others))
    moved = torch.randperm(PIECES - len(SPECIALS), generator=torch.Generator().manual_seed(seed))
    renumbered = _renumbered(own, moved.tolist())
    batches = {
        OWN: _measured(texts.dev, own),
        OTHER: _measured(texts.dev, other),
        RENUMBERED: _measured(texts.dev, renumbered),
    }
    model, looks = _trained(texts.train, own, batches, steps=steps, seed=seed)
    found = looks[-1][1]
    mended = _loss(_rows_moved(model, moved), batches[RENUMBERED])
    guessing = math.log(PIECES)
    shown = zip(batches, (own, other, renumbered), strict=True)
    return Lesson(
        table=LessonTable(
            ("tokenizer", "fingerprint", "loss, nats a token", "loss of guessing"),
            [
                *((name, one.short, found[name], guessing) for name, one in shown),
                ("same, table's rows moved too", renumbered.short, mended, guessing),
            ],
        ),
        chart=curves(
            [
                {"step": step, "loss on dev, nats a token": loss, "tokenizer": name}
                for step, losses in looks
                for name, loss in losses.items()
            ],
            x="step",
            y="loss on dev, nats a token",
            series="tokenizer",
            level=guessing,
        ),
        caption="Loss on the same texts by three tokenizers while the model learns with its own; "
        "the dashed line is the loss of guessing.",
        checks=[
            below("loss with its own", found[OWN], 0.5 * guessing),
            above("loss with that of other texts", found[OTHER], guessing),
            above("loss with the same pieces renumbered", found[RENUMBERED], guessing),
            near("the same, table's rows moved too", mended, found[OWN], within=1e-4),
            above("rise while it learns", found[OTHER] - looks[0][1][OTHER], 0.1),
            equal("the error names both fingerprints", _refused(own, other), [True, True]),
        ],
        see=[
            "data/tokenizers/tokenizer.py",
            "runs/models/saved_model.py",
            "recipes/tokenizers.toml",
        ],
    )


@cache
def _texts() -> TokenizerTexts:
    rows = list(opinions())
    train = [row["text"] for row in rows if row["part"] == "train"]
    dev = [row["text"] for row in rows if row["part"] == "dev"]
    others = [row["source"] for row in phrases() if row["part"] == "train"]
    return TokenizerTexts(train, dev[:MEASURED], others)


def _learnt(texts: Sequence[str]) -> Tokenizer:
    return Bpe(vocabulary=PIECES, bytes=False).train(iter(texts))


def _renumbered(tokenizer: Tokenizer, order: Sequence[int]) -> Tokenizer:
    """The same pieces and merges; piece number i behind the specials becomes number order[i]."""
    description = {**tokenizer.description(), "padding": None, "truncation": None}
    first, ids = len(SPECIALS), description["model"]["vocab"]
    description["model"]["vocab"] = {
        piece: i if i < first else first + order[i - first] for piece, i in ids.items()
    }
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(description)), name="renumbered")


@torch.no_grad()
def _rows_moved(model: LanguageModel, order: torch.Tensor) -> LanguageModel:
    """A copy whose table has its rows where the renumbered ids look for them."""
    other = copy.deepcopy(model)
    first, table = len(SPECIALS), model.embedding.tokens.weight
    other.embedding.tokens.weight[first + order] = table[first:]
    return other


def _measured(texts: Sequence[str], tokenizer: Tokenizer) -> Batch:
    generator, vocabulary = np.random.default_rng(0), Vocabulary.of(tokenizer)
    scored = [
        row.example
        for text in texts
        for row in Causal().scored(
            np.array(tokenizer.encode(text)), generator, context=PLACES, vocabulary=vocabulary
        )
    ]
    return collate(scored, pad_id=tokenizer.padding, rows=range(len(scored)))


def _trained(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    batches: dict[str, Batch],
    *,
    steps: int,
    seed: int,
) -> tuple[LanguageModel, list[tuple[int, dict[str, float]]]]:
    """A small decoder, and its loss on each of the batches every so many steps."""
    family = Decoder(layers=1, heads=2, width=WIDTH, context=PLACES, init_std=WIDTH**-0.5)
    model = family.build(vocabulary=PIECES, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator, vocabulary = np.random.default_rng(seed), Vocabulary.of(tokenizer)
    ends = (tokenizer.require("start"), tokenizer.require("stop"))
    rows = [np.array([ends[0], *ids, ends[1]]) for ids in tokenizer.encode_many(texts)]
    looks = []
    for step in range(1, steps + 1):
        chosen = generator.integers(len(rows), size=ROWS).tolist()
        examples = [
            Causal().example(Document(rows[i][: PLACES + 1]), generator, vocabulary=vocabulary)
            for i in chosen
        ]
        term = model(collate(examples, pad_id=tokenizer.padding, rows=chosen))["token"]
        optimizer.zero_grad()
        (term.sum / term.weight).backward()
        optimizer.step()
        if step % (steps // LOOKS) == 0:
            looks.append((step, {name: _loss(model, batch) for name, batch in batches.items()}))
    return model, looks


@torch.no_grad()
def _loss(model: LanguageModel, batch: Batch) -> float:
    term = model(batch)["token"]
    return float(term.sum / term.weight)


def _refused(own: Tokenizer, other: Tokenizer) -> list[bool]:
    """Whether the error that another tokenizer gets names what is expected and what came."""
    try:
        check_same(own.fingerprint, other, owner="this model")
    except UserError as problem:
        return [one.short in str(problem) for one in (own, other)]
    return []
