"""Health of a trained language model: its samples against real text, and the train–dev gap.

The samples are drawn for this check alone, at temperature 1 and without top-p: the distribution
that perplexity measures. A lower temperature alone would make any model repeat itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from regard.data.corpus import Split
from regard.data.token_cache.cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.health.overfitting import LossGap, LossLevel
from regard.evaluation.health.samples import sample_health
from regard.evaluation.metrics.perplexity import Losses
from regard.generation.decoding_setup import bind_sources, decodes_rows, suppressed_ids
from regard.generation.generate import Decodable, Sampling, generate
from regard.models.architectures.source_bound_decoder import decodes_source
from regard.models.model import Model
from regard.runs.health_record import HealthRecord, SampleHealthRecord, TrainDevGapRecord
from regard.runs.preparation.evaluate_text import choose_documents
from regard.runs.recipe import Recipe

SAMPLES = 40
"Samples drawn: enough that short sentences give a few hundred tokens."
MAX_NEW_TOKENS = 60
"Per sample."
MAX_REFERENCES = 2000
"Pieces of real text, where documents are few and long."
CANNOT_GENERATE = (
    "the model predicts masked tokens and cannot generate, so there are no samples to judge"
)
TOO_SHORT = "no dev text has two tokens, one to read and one to generate: no samples were judged"

Ids = list[int]


def model_health(
    model: Model,
    recipe: Recipe,
    cache: TokenCache,
    tokenizer: Tokenizer,
    *,
    tables: Mapping[Split, Losses],
    ahead: str,
) -> HealthRecord:
    """Health of the samples, and the loss on train against dev; `ahead` is a trivial baseline that
    is ahead of the model."""
    train, dev = (
        LossLevel.of_documents(table.nll, table.tokens, groups=table.groups)
        for table in (tables["train"], tables["dev"])
    )
    return HealthRecord(
        samples=_samples(model, recipe, cache, tokenizer),
        train_dev_gap=TrainDevGapRecord.of_gap(LossGap(train, dev, ahead=ahead)),
    )


def _samples(
    model: Model, recipe: Recipe, cache: TokenCache, tokenizer: Tokenizer
) -> SampleHealthRecord:
    dev = choose_documents(
        cache, "dev", limit=recipe.evaluate.documents, seed=recipe.data.split_seed
    )
    start = tokenizer.require("start")
    decoder: Decodable[Any]
    if decodes_rows(model):
        decoder, count, after = model, SAMPLES, "no prompt"
        references = _beginnings(dev.documents)
    elif decodes_source(model):
        halves = _halves(dev.documents, context=model.context)
        if not halves:
            return _unjudged(TOO_SHORT)
        sources = [[start, *source] for source, _ in halves[:SAMPLES]]
        decoder, count = bind_sources(model, sources, tokenizer), len(sources)
        after = "halves of dev texts"
        references = [continuation for _, continuation in halves]
    else:
        return _unjudged(CANNOT_GENERATE)
    generated = generate(
        decoder,
        [[start]] * count,
        strategy=Sampling(),
        max_new_tokens=MAX_NEW_TOKENS,
        stop=tokenizer.require("stop"),
        pad=tokenizer.padding_id,
        seed=recipe.train.seed,
        first_index=len(recipe.samples.prompts),  # other random streams than the shown samples
        suppress_tokens=suppressed_ids(tokenizer),
    )
    samples = [list(sequence.ids) for sequence in generated]
    health = sample_health(samples, references, unknown=tokenizer.unk, seed=recipe.train.seed)
    drawn = f"{count} texts of at most {MAX_NEW_TOKENS} tokens, temperature 1, after {after}"
    return SampleHealthRecord.model_validate(health).model_copy(update={"drawn": drawn})


def _unjudged(why: str) -> SampleHealthRecord:
    return SampleHealthRecord(unjudged=why, sentence=why)


def _beginnings(documents: Sequence[np.ndarray]) -> list[Ids]:
    """The beginning of each document; where documents are few, all their pieces."""
    size = MAX_NEW_TOKENS
    if len(documents) >= 2 * SAMPLES:
        return [ids[:size].tolist() for ids in documents]
    pieces = (ids[begin : begin + size] for ids in documents for begin in range(0, len(ids), size))
    return [ids.tolist() for ids in islice(pieces, MAX_REFERENCES)]


def _halves(documents: Sequence[np.ndarray], *, context: int) -> list[tuple[Ids, Ids]]:
    """The source that a seq2seq model reads of each document, and the text that follows it."""
    cuts = [min(len(ids) // 2, context // 2) for ids in documents]
    return [
        (ids[:cut].tolist(), ids[cut : cut + MAX_NEW_TOKENS].tolist())
        for ids, cut in zip(documents, cuts, strict=True)
        if cut
    ]
