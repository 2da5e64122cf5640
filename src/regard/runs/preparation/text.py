"""Text that an objective turns into examples: a language model's corpus, tokens and figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.data.corpus import SPLITS, Split
from regard.data.token_cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.document_losses import DocumentMetric
from regard.evaluation.metrics.perplexity import MAX_NATS
from regard.generation.decoding_setup import can_generate
from regard.models.model import Model
from regard.objectives import Vocabulary
from regard.runs.health import health_of
from regard.runs.items import rows_of, table_of
from regard.runs.observer import Observer
from regard.runs.preparation.prepared import PreparedData, SplitResults
from regard.runs.recipe import Recipe
from regard.runs.results import choose_documents, measure
from regard.runs.samples import strategy_of, write_texts
from regard.training.batch_loader import Examples, ObjectiveExamples
from regard.training.document_losses import document_losses
from regard.training.loop import EvalResult


class PreparedText(PreparedData):
    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer,
        cache: TokenCache,
        *,
        source: str,
        statistics: dict[str, Any],
    ) -> None:
        super().__init__(recipe, tokenizer, source=source, statistics=statistics)
        self.cache = cache
        self.vocabulary = Vocabulary.from_tokenizer(tokenizer)

    def examples(self) -> Examples:
        kind = PackedBlocks if self.recipe.train.batches == "packed" else DocumentChunks
        rows = kind(
            self.cache.split("train"),
            context=self.recipe.room,
            start=self.tokenizer.require("start"),
            stop=self.tokenizer.require("stop"),
        )
        return ObjectiveExamples(rows, self.recipe.objective, self.vocabulary)

    def look(self, model: Model, *, device: str) -> EvalResult:
        drawn_by = self.recipe.data.split_seed
        dev = choose_documents(
            self.cache, "dev", most=self.recipe.train.evaluate_documents, seed=drawn_by
        )
        told = document_losses(
            model,
            dev.documents,
            self.recipe.objective,
            vocabulary=self.vocabulary,
            pad=self.tokenizer.padding_id,
            seed=drawn_by,
            device=device,
        )
        loss = float(told.losses.sum() / told.tokens.sum())
        return EvalResult(loss, len(told.losses), {"perplexity": math.exp(min(loss, MAX_NATS))})

    def places_measured(self, *, looks: int) -> int:
        recipe = self.recipe
        final = sum(self._places(part, recipe.evaluate.documents) for part in SPLITS)
        return looks * self._places("dev", recipe.train.evaluate_documents) + final

    def measure(self, model: Model, *, device: str, watch: Observer) -> SplitResults:
        told = measure(model, self.recipe, self.cache, self.tokenizer, device=device, watch=watch)
        return SplitResults(
            told.figures,
            told.comparisons,
            told.remarks,
            items={part: rows_of(table) for part, table in told.tables.items()},
            fingerprints=told.fingerprints,
            measure=DocumentMetric().settings(),
        )

    def health(self, model: Model, measured: SplitResults) -> dict[str, Any]:
        tables = {part: table_of(measured.items[part]) for part in SPLITS}
        return health_of(model, self.recipe, self.cache, self.tokenizer, tables=tables)

    def samples(self, model: Model) -> list[dict[str, str]]:
        if not can_generate(model):
            return []
        asked = self.recipe.samples
        texts = write_texts(
            model,
            self.tokenizer,
            asked.prompts,
            strategy=strategy_of(asked),
            max_new_tokens=asked.max_new_tokens,
            seed=self.recipe.train.seed,
        )
        return [
            {"prompt": prompt, "text": text}
            for prompt, text in zip(asked.prompts, texts, strict=True)
        ]

    def _places(self, part: Split, most: int) -> int:
        chosen = choose_documents(self.cache, part, most=most, seed=self.recipe.data.split_seed)
        lengths = np.array([len(ids) for ids in chosen.documents])
        return self.recipe.objective.evaluation_positions(lengths, context=self.recipe.room)
