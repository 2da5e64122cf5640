"""A model with the wrong tokenizer: refused by fingerprint, and the loss it would have.

Shapes: b batch, t positions, v vocabulary, w width.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated

import numpy as np
import tokenizers
import torch

from regard.batch import Batch, collate
from regard.core.errors import UserError
from regard.data.builtin.opinions import opinions
from regard.data.builtin.phrases import phrases
from regard.data.chunks import Document
from regard.data.tokenizers.bpe import Bpe
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer, check_same_tokenizer
from regard.lessons import (
    Lesson,
    LessonTable,
    Range,
    Seed,
    above,
    below,
    equal,
    lesson,
    line_chart,
    near,
)
from regard.models.architectures.language_model import LanguageModel
from regard.models.families.decoder import Decoder
from regard.objectives import Vocabulary
from regard.objectives.causal import Causal

VOCABULARY = 160
CONTEXT = 32
BATCH_SIZE = 24
DEV_TEXTS = 100
WIDTH = 32
EVALUATIONS = 10
"Number of evaluations during training."
OWN, OTHER, RENUMBERED = "its own", "trained on other texts", "same tokens, permuted ids"


@lesson("wrong-tokenizer", topic="text", title="The wrong tokenizer", duration="a minute")
def wrong_tokenizer(*, steps: Annotated[int, Range(80, 400)] = 100, seed: Seed = 0) -> Lesson:
    """What happens when a model gets token ids from a tokenizer that is not its own?

    A token id has no meaning beyond its learned row of the embedding table. Ids from another
    tokenizer are valid indices, so nothing fails, and that is the trap: the loss is worse than
    chance, and it rises during training, because the model becomes confident about tokens that are
    not there. Not the tokens matter but their ids: the same tokens with permuted ids do as much
    harm, and none once the rows of the embedding table are permuted accordingly.

    So every tokenizer has a fingerprint, stored with the model, and another tokenizer is refused
    with an error that names both.
    """
    train, dev, others = _texts()
    own, other = (
        Bpe(vocabulary=VOCABULARY, bytes=False).train(iter(texts)) for texts in (train, others)
    )
    permutation = torch.randperm(
        VOCABULARY - len(SPECIALS), generator=torch.Generator().manual_seed(seed)
    )
    renumbered = _renumber(own, permutation.tolist())
    batches = {
        name: _evaluation_batch(dev, tokenizer)
        for name, tokenizer in ((OWN, own), (OTHER, other), (RENUMBERED, renumbered))
    }
    model, evaluations = _train(train, own, batches, steps=steps, seed=seed)
    final = evaluations[-1][1]
    permuted_loss = _loss(_permute_embeddings(model, permutation), batches[RENUMBERED])
    chance = math.log(VOCABULARY)
    named_tokenizers = zip(batches, (own, other, renumbered), strict=True)
    return Lesson(
        table=LessonTable(
            ("tokenizer", "fingerprint", "loss, nats per token", "loss of chance"),
            [
                *(
                    (name, tokenizer.short_fingerprint, final[name], chance)
                    for name, tokenizer in named_tokenizers
                ),
                (
                    "the same, embeddings permuted",
                    renumbered.short_fingerprint,
                    permuted_loss,
                    chance,
                ),
            ],
        ),
        chart=line_chart(
            [
                {"step": step, "dev loss, nats per token": loss, "tokenizer": name}
                for step, losses in evaluations
                for name, loss in losses.items()
            ],
            x="step",
            y="dev loss, nats per token",
            series="tokenizer",
            reference=chance,
        ),
        caption="Dev loss on the same texts with three tokenizers while the model trains with its "
        "own; the dashed line is the loss of chance.",
        checks=[
            below("loss, own tokenizer", final[OWN], 0.5 * chance),
            above("loss, tokenizer of other texts", final[OTHER], chance),
            above("loss, permuted ids", final[RENUMBERED], chance),
            near("loss, permuted ids and embeddings", permuted_loss, final[OWN], within=1e-4),
            above(
                "rise of the loss during training, tokenizer of other texts",
                final[OTHER] - evaluations[0][1][OTHER],
                0.1,
            ),
            equal("the error names both fingerprints", _named_in_error(own, other), [True, True]),
        ],
        see_also=[
            "data/tokenizers/tokenizer.py",
            "runs/models/saved_model.py",
            "recipes/tokenizers.toml",
        ],
    )


@cache
def _texts() -> tuple[list[str], list[str], list[str]]:
    """Training texts, dev texts, and other texts to train another tokenizer on."""
    rows = list(opinions())
    train = [row["text"] for row in rows if row["split"] == "train"]
    dev = [row["text"] for row in rows if row["split"] == "dev"]
    others = [row["source"] for row in phrases() if row["split"] == "train"]
    return train, dev[:DEV_TEXTS], others


def _renumber(tokenizer: Tokenizer, permutation: Sequence[int]) -> Tokenizer:
    """The same tokens and merges; id i, counted after the specials, becomes permutation[i]."""
    description = {**tokenizer.to_dict(), "padding": None, "truncation": None}
    first, ids = len(SPECIALS), description["model"]["vocab"]
    description["model"]["vocab"] = {
        token: i if i < first else first + permutation[i - first] for token, i in ids.items()
    }
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(description)), name="renumbered")


@torch.no_grad()
def _permute_embeddings(model: LanguageModel, permutation: torch.Tensor) -> LanguageModel:
    """A copy whose embedding rows are permuted to match the renumbered ids."""
    permuted = copy.deepcopy(model)
    first, table = len(SPECIALS), model.embedding.tokens.weight
    permuted.embedding.tokens.weight[first + permutation] = table[first:]
    return permuted


def _evaluation_batch(texts: Sequence[str], tokenizer: Tokenizer) -> Batch:
    generator, vocabulary = np.random.default_rng(0), Vocabulary.from_tokenizer(tokenizer)
    examples = [
        row.example
        for text in texts
        for row in Causal().evaluation_examples(
            np.array(tokenizer.encode(text)), generator, context=CONTEXT, vocabulary=vocabulary
        )
    ]
    return collate(examples, pad_id=tokenizer.padding_id, rows=range(len(examples)))


def _train(
    texts: Sequence[str],
    tokenizer: Tokenizer,
    batches: dict[str, Batch],
    *,
    steps: int,
    seed: int,
) -> tuple[LanguageModel, list[tuple[int, dict[str, float]]]]:
    """A small decoder, and its loss on each of the batches at regular steps."""
    family = Decoder(layers=1, heads=2, width=WIDTH, context=CONTEXT, init_std=WIDTH**-0.5)
    model = family.build(vocabulary=VOCABULARY, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator, vocabulary = np.random.default_rng(seed), Vocabulary.from_tokenizer(tokenizer)
    ends = (tokenizer.require("start"), tokenizer.require("stop"))
    sequences = [np.array([ends[0], *ids, ends[1]]) for ids in tokenizer.encode_many(texts)]
    evaluations = []
    for step in range(1, steps + 1):
        indices = generator.integers(len(sequences), size=BATCH_SIZE).tolist()
        examples = [
            Causal().example(
                Document(sequences[i][: CONTEXT + 1]), generator, vocabulary=vocabulary
            )
            for i in indices
        ]
        term = model(collate(examples, pad_id=tokenizer.padding_id, rows=indices))["token"]
        optimizer.zero_grad()
        (term.sum / term.weight).backward()
        optimizer.step()
        if step % (steps // EVALUATIONS) == 0:
            losses = {name: _loss(model, batch) for name, batch in batches.items()}
            evaluations.append((step, losses))
    return model, evaluations


@torch.no_grad()
def _loss(model: LanguageModel, batch: Batch) -> float:
    term = model(batch)["token"]
    return float(term.sum / term.weight)


def _named_in_error(own: Tokenizer, other: Tokenizer) -> list[bool]:
    """Whether the error for a wrong tokenizer names the expected and the given fingerprint."""
    try:
        check_same_tokenizer(own.fingerprint, other, owner="this model")
    except UserError as error:
        return [tokenizer.short_fingerprint in str(error) for tokenizer in (own, other)]
    return []
