"""From a recipe's data to tokens: texts or rows, tokenizer, token cache, statistics.

Each result is cached under a key made from all its inputs: an edited file, another setting or
another version gives another key. The tokenizer is trained on the training split alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from regard.core.errors import UserError
from regard.core.files import find_damage, folder_with_manifest
from regard.core.json_records import read_record, write_record
from regard.core.process.cpu import usable_cores
from regard.data.corpus import SPLITS
from regard.data.corpus_stats import corpus_statistics
from regard.data.statistics import CorpusStatistics
from regard.data.token_cache.building import load_or_build_cache
from regard.data.token_cache.cache import TokenCache, cache_home
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.runs.observer import Observer
from regard.runs.preparation.data_flaws import row_flaws, text_flaws
from regard.runs.preparation.earlier_training import EarlierTrainings
from regard.runs.preparation.overlap import (
    DataOverlap,
    RowItems,
    SplitItems,
    count_overlap,
    load_or_find_overlap,
)
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.recipe_data import corpus_fingerprint, open_data
from regard.runs.preparation.row_stats import task_statistics
from regard.runs.preparation.task import PreparedTask
from regard.runs.preparation.text import PreparedText
from regard.runs.recipe import FORMAT, Recipe, build_tools
from regard.tasks import TaskState

STATISTICS_SCHEMA = 4


def prepare(
    recipe: Recipe,
    *,
    tokenizer: Tokenizer | None,
    task_state: TaskState | None = None,
    observer: Observer,
) -> PreparedData:
    """`tokenizer` is that of the initial model; without it, one is trained. `task_state` is the
    state saved with a trained model; without it, the task derives it from the training rows."""
    corpus = open_data(recipe)
    source = corpus_fingerprint(corpus, recipe.task)
    task, before = recipe.task, EarlierTrainings.before(recipe)
    if task is None:
        items = SplitItems(corpus.texts, earlier=before.documents)
        overlap = load_or_find_overlap(
            recipe,
            items,
            source=source,
            find_flaws=lambda: [*text_flaws(corpus), *before.flaws(items)],
            earlier=before.facts(),
            observer=observer,
        )
        corpus.dropped_training_rows = frozenset(overlap.dropped)
        tokenizer = tokenizer or _load_or_train_tokenizer(
            recipe, corpus.texts("train"), source, observer
        )
        cache = load_or_build_cache(
            corpus,
            tokenizer,
            processes=recipe.train.threads or usable_cores(),
            on_progress=observer.progress("tokenising"),
        )
        statistics = _load_or_compute_statistics(cache, items, overlap, observer)
        return PreparedText(
            recipe, tokenizer, cache, source=source, statistics=statistics, overlap=overlap
        )
    observer.on_progress("reading rows", 0, None)
    records = {split: task.items(corpus.rows(split)) for split in SPLITS}
    for record in (record for split in SPLITS for record in records[split]):
        task.check(record)
    rows = RowItems(task, records)
    overlap = load_or_find_overlap(
        recipe,
        rows,
        source=source,
        find_flaws=lambda: [*row_flaws(task, records, corpus), *before.flaws(rows)],
        earlier=before.facts(),
        observer=observer,
    )
    records["train"] = overlap.kept_rows(records["train"])
    texts = (text for record in records["train"] for text in task.texts(record))
    tokenizer = tokenizer or _load_or_train_tokenizer(recipe, texts, source, observer)
    tools = build_tools(
        task,
        recipe.model,
        tokenizer,
        virtual_tokens=recipe.adapt.virtual_tokens,
        seed=recipe.train.seed,
    )
    problem = (
        task.build_problem(records["train"], tools)
        if task_state is None
        else task.restore_problem(task_state, tools)
    )
    statistics = task_statistics(corpus, records, task, tokenizer, overlap)
    return PreparedTask(
        recipe,
        tokenizer,
        records,
        problem,
        source=source,
        statistics=statistics,
        overlap=overlap,
    )


def _load_or_train_tokenizer(
    recipe: Recipe, texts: Iterator[str], source: str, observer: Observer
) -> Tokenizer:
    table = recipe.to_table()
    facts = [FORMAT, source, table["data"], table["tokenizer"], table.get("task")]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    folder = cache_home() / "tokenizers" / key[:32]
    if find_damage(folder) is None:
        return Tokenizer.load(folder)
    trained = recipe.tokenizer.train(texts, on_progress=observer.progress("training the tokenizer"))
    with folder_with_manifest(folder) as temporary:
        trained.save(temporary)
    return trained


def _load_or_compute_statistics(
    cache: TokenCache, items: SplitItems, overlap: DataOverlap, observer: Observer
) -> CorpusStatistics:
    file = cache.folder / "statistics.json"
    texts = {split: cache.split(split).texts for split in SPLITS}
    counts = count_overlap(overlap, items, texts)
    # Missing, of another version, or damaged: computed again.
    with suppress(UserError):
        statistics = read_record(
            file, CorpusStatistics, schema=STATISTICS_SCHEMA, topic="data", hint="Delete it."
        )
        # The same texts overlap with more where the model starts from another one.
        return replace(statistics, overlap=counts)
    observer.on_progress("computing statistics", 0, None)
    statistics = corpus_statistics(cache, counts, overlapping=len(overlap.dropped))
    write_record(file, statistics, schema=STATISTICS_SCHEMA)
    return statistics
