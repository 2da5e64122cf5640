"""The health of a trained model: what it writes beside real text, and train beside dev.

Texts are drawn for this alone, at temperature 1 and without cuts: that is the distribution which
perplexity speaks of, and sharper drawing alone would make any model repeat itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from regard.data.corpus import Split
from regard.data.token_cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.health.overfitting import overfitting
from regard.evaluation.health.samples import sample_health
from regard.evaluation.metrics.perplexity import Losses
from regard.generation.decoding_setup import bind_sources, suppressed_ids
from regard.generation.generate import Decodable, Sampling, generate
from regard.models.architectures.language_model import LanguageModel
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.model import Model
from regard.runs.recipe import Recipe
from regard.runs.results import choose_documents

TEXTS = 40
"Drawn to be judged: enough that short sentences make a few hundred tokens."
MOST_NEW = 60
"Tokens of each, at most."
MOST_PIECES = 2000
"Of real text, where documents are few and long."
CANNOT_WRITE = "the model tells hidden tokens and cannot write, so there are no samples to judge"
TOO_SHORT = "no dev text has two tokens, one to read and one to write, so no samples were judged"

Ids = list[int]


def health_of(
    model: Model,
    recipe: Recipe,
    cache: TokenCache,
    tokenizer: Tokenizer,
    *,
    tables: Mapping[Split, Losses],
) -> dict[str, Any]:
    """For figures.json: the samples' health, and train against dev."""
    gap = overfitting(tables["train"], tables["dev"])
    return {
        "samples": _samples(model, recipe, cache, tokenizer),
        "train_and_dev": gap.as_dict(),
    }


def _samples(
    model: Model, recipe: Recipe, cache: TokenCache, tokenizer: Tokenizer
) -> dict[str, Any]:
    dev = choose_documents(
        cache, "dev", most=recipe.evaluate.documents, seed=recipe.data.split_seed
    )
    start = tokenizer.require("start")
    writer: Decodable[Any]
    if isinstance(model, LanguageModel):
        writer, rows, after = model, TEXTS, "no prompt"
        reference = _beginnings(dev.documents)
    elif isinstance(model, Seq2SeqModel):
        halves = _halves(dev.documents, context=model.context)
        if not halves:
            return _unjudged(TOO_SHORT)
        sources = [[start, *source] for source, _ in halves[:TEXTS]]
        writer, rows = bind_sources(model, sources, tokenizer), len(sources)
        after = "halves of dev texts"
        reference = [rest for _, rest in halves]
    else:
        return _unjudged(CANNOT_WRITE)
    written = generate(
        writer,
        [[start]] * rows,
        strategy=Sampling(),
        max_new_tokens=MOST_NEW,
        stop=tokenizer.require("stop"),
        pad=tokenizer.padding_id,
        seed=recipe.train.seed,
        first_index=len(recipe.samples.prompts),  # not the numbers that people's samples had
        suppress_tokens=suppressed_ids(tokenizer),
    )
    texts = [list(one.ids) for one in written]
    judged = sample_health(texts, reference, unknown=tokenizer.unk, seed=recipe.train.seed)
    drawn = f"{rows} texts of at most {MOST_NEW} tokens, temperature 1, after {after}"
    return {**judged.as_dict(), "drawn": drawn}


def _unjudged(why: str) -> dict[str, Any]:
    return {"unjudged": why, "sentence": why, "flags": []}


def _beginnings(documents: Sequence[np.ndarray]) -> list[Ids]:
    """Of each document; where they are few, all pieces of them."""
    if len(documents) >= 2 * TEXTS:
        return [ids[:MOST_NEW].tolist() for ids in documents]
    pieces = (
        ids[begin : begin + MOST_NEW] for ids in documents for begin in range(0, len(ids), MOST_NEW)
    )
    return [ids.tolist() for ids in islice(pieces, MOST_PIECES)]


def _halves(documents: Sequence[np.ndarray], *, context: int) -> list[tuple[Ids, Ids]]:
    """What such a model reads of a document, and what stands behind it."""
    cuts = [min(len(ids) // 2, context // 2) for ids in documents]
    return [
        (ids[:cut].tolist(), ids[cut : cut + MOST_NEW].tolist())
        for ids, cut in zip(documents, cuts, strict=True)
        if cut
    ]
