"""Texts from which an objective draws examples: training and evaluation of language models."""

from __future__ import annotations

import math

import numpy as np

from regard.data.chunks import DocumentChunks, PackedBlocks
from regard.data.corpus import SPLITS, Split
from regard.data.statistics import CorpusStatistics
from regard.data.token_cache.cache import TokenCache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.perplexity import MAX_NATS
from regard.models.model import Model
from regard.objectives import Vocabulary
from regard.runs.health import model_health
from regard.runs.health_record import HealthRecord
from regard.runs.items import loss_table
from regard.runs.observer import Observer
from regard.runs.preparation.evaluate_text import (
    choose_documents,
    document_limits,
    evaluate_language_model,
)
from regard.runs.preparation.overlap import DataOverlap
from regard.runs.preparation.prepared import PreparedData, SplitResults
from regard.runs.recipe import Recipe
from regard.runs.results import SampleRecord
from regard.runs.samples import build_strategy, generate_texts
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
        statistics: CorpusStatistics,
        overlap: DataOverlap,
    ) -> None:
        super().__init__(recipe, tokenizer, source=source, statistics=statistics, overlap=overlap)
        self.cache = cache
        self.vocabulary = Vocabulary.from_tokenizer(tokenizer)

    def examples(self) -> Examples:
        kind = PackedBlocks if self.recipe.train.batches == "packed" else DocumentChunks
        rows = kind(
            self.cache.split("train"),
            context=self.recipe.token_context,
            start=self.tokenizer.require("start"),
            stop=self.tokenizer.require("stop"),
        )
        return ObjectiveExamples(rows, self.recipe.objective, self.vocabulary)

    def evaluate_dev(self, model: Model, *, device: str, documents: int) -> EvalResult:
        seed = self.recipe.data.split_seed
        dev = choose_documents(
            self.cache,
            "dev",
            limit=documents,
            seed=seed,
            overlap=self.overlap,
        )
        losses = document_losses(
            model,
            dev.overlap.scored(dev.documents) or dev.documents,
            self.recipe.objective,
            vocabulary=self.vocabulary,
            pad=self.tokenizer.padding_id,
            seed=seed,
            device=device,
        )
        loss = float(losses.losses.sum() / losses.tokens.sum())
        return EvalResult(loss, len(losses.losses), {"perplexity": math.exp(min(loss, MAX_NATS))})

    def dev_positions(self, documents: int) -> int:
        return self._positions("dev", documents)

    def final_positions(self) -> int:
        limits = document_limits(self.cache, self.recipe.evaluate.documents)
        return sum(self._positions(split, limit) for split, limit in limits.items())

    def evaluate(self, model: Model, *, device: str, observer: Observer) -> SplitResults:
        return evaluate_language_model(
            model,
            self.recipe,
            self.cache,
            self.tokenizer,
            overlap=self.overlap,
            device=device,
            observer=observer,
        )

    def health(self, model: Model, results: SplitResults) -> HealthRecord:
        contaminated = {one.split for one in results.contamination if one.clean}
        scored = {
            split: [row for row in rows if split not in contaminated or row["overlap"] is None]
            for split, rows in results.items.items()
        }
        tables = {split: loss_table(scored[split]) for split in SPLITS}
        return model_health(
            model,
            self.recipe,
            self.cache,
            self.tokenizer,
            tables=tables,
            ahead=results.trivial_baseline_ahead(),
        )

    def samples(self, model: Model) -> tuple[SampleRecord, ...]:
        if not model.generates:
            return ()
        settings = self.recipe.samples
        texts = generate_texts(
            model,
            self.tokenizer,
            settings.prompts,
            strategy=build_strategy(settings),
            max_new_tokens=settings.max_new_tokens,
            seed=self.recipe.train.seed,
        )
        return tuple(
            SampleRecord(prompt=prompt, text=text)
            for prompt, text in zip(settings.prompts, texts, strict=True)
        )

    def _positions(self, split: Split, limit: int) -> int:
        chosen = choose_documents(
            self.cache,
            split,
            limit=limit,
            seed=self.recipe.data.split_seed,
            overlap=self.overlap,
        )
        lengths = np.array([len(ids) for ids in chosen.documents])
        return self.recipe.objective.evaluation_positions(
            lengths, context=self.recipe.token_context
        )
