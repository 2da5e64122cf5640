"""From a recipe's data to tokens: texts or rows, tokenizer, token cache, statistics.

Each step is kept under a key that names all it was made from, so it is done once: an edited file,
another setting or another version makes another key. The tokenizer learns from the training part
alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from regard.core.errors import UserError
from regard.core.files import find_damage, folder_with_manifest, read_json, write_json
from regard.data.corpus import SPLITS, Corpus, open_corpus
from regard.data.corpus_stats import corpus_statistics
from regard.data.record_corpus import RecordCorpus, open_records
from regard.data.token_cache import TokenCache, cache_home, load_or_build_cache
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.runs.observer import Observer
from regard.runs.preparation.prepared import PreparedData
from regard.runs.preparation.row_stats import task_statistics
from regard.runs.preparation.task import PreparedTask
from regard.runs.preparation.text import PreparedText
from regard.runs.recipe import FORMAT, Recipe, tools_of
from regard.tasks import Task, TaskState

STATISTICS_SCHEMA = 1


def prepare(
    recipe: Recipe, *, tokenizer: Tokenizer | None, learnt: TaskState | None = None, watch: Observer
) -> PreparedData:
    """`tokenizer` is the one a starting point brings; without it, one is trained. `learnt` is what
    a trained model keeps of its task; without it, the training rows are asked."""
    opened = open_data(recipe)
    source = source_key(opened, recipe.task)
    if isinstance(opened, Corpus):
        tokenizer = tokenizer or _tokenizer(recipe, opened.texts("train"), source, watch)
        cache = load_or_build_cache(opened, tokenizer, on_progress=watch.progress("tokenising"))
        statistics = _statistics(cache, opened, watch)
        return PreparedText(recipe, tokenizer, cache, source=source, statistics=statistics)
    task = recipe.task
    assert task is not None
    watch.on_progress("reading rows", 0, None)
    records = {part: task.items(opened.rows(part)) for part in SPLITS}
    for record in (record for part in SPLITS for record in records[part]):
        task.check(record)
    texts = (text for record in records["train"] for text in task.texts(record))
    tokenizer = tokenizer or _tokenizer(recipe, texts, source, watch)
    tools = tools_of(
        task, recipe.model, tokenizer, taken=recipe.adapt.virtual_tokens, seed=recipe.train.seed
    )
    problem = (
        task.build_problem(records["train"], tools)
        if learnt is None
        else task.restore_problem(learnt, tools)
    )
    watch.on_progress("looking for overlap", 0, None)
    statistics = task_statistics(opened, records, task, tokenizer)
    return PreparedTask(recipe, tokenizer, records, problem, source=source, statistics=statistics)


def open_data(recipe: Recipe) -> Corpus | RecordCorpus:
    """The recipe's texts, or its task's rows; nothing is read yet."""
    if recipe.task is None:
        return open_corpus(recipe.data)
    task = recipe.task
    return open_records(
        recipe.data,
        task.columns(),
        types=task.column_types(),
        optional=task.optional_columns(),
        settings=task.column_settings(),
    )


def source_of(recipe: Recipe) -> str:
    """Changes when a file of the recipe's data does."""
    return source_key(open_data(recipe), recipe.task)


def source_key(corpus: Corpus | RecordCorpus, task: Task | None) -> str:
    """Changes when a file does."""
    facts = [(role, *identity) for role, identity in corpus.identities()]
    if task is not None:
        facts += [("task", *identity) for identity in task.extra_sources()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def said_dropped(statistics: dict[str, Any]) -> str:
    """`data: left out 12 empty rows and 1 bad row`; nothing where nothing was."""
    dropped = statistics["dropped"]
    counts = {
        "empty row": dropped["empty"],
        "bad row": dropped["bad"],
        "document without a token": dropped["without_tokens"],
    }
    named = [f"{n:,} {sort}{'s' * (n != 1)}" for sort, n in counts.items() if n]
    return f"data: left out {', '.join(named)}" if named else ""


def _tokenizer(recipe: Recipe, texts: Iterator[str], source: str, watch: Observer) -> Tokenizer:
    table = recipe.to_table()
    facts = [FORMAT, source, table["data"], table["tokenizer"], table.get("task")]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    folder = cache_home() / "tokenizers" / key[:32]
    if find_damage(folder) is None:
        return Tokenizer.load(folder)
    trained = recipe.tokenizer.train(texts, on_progress=watch.progress("training the tokenizer"))
    with folder_with_manifest(folder) as inside:
        trained.save(inside)
    return trained


def _statistics(cache: TokenCache, corpus: Corpus, watch: Observer) -> dict[str, Any]:
    file = cache.folder / "statistics.json"
    if file.is_file():
        try:
            kept: dict[str, Any] = read_json(file, schema=STATISTICS_SCHEMA)["statistics"]
            return kept
        except UserError:
            pass  # made by another version, or damaged: measured anew
    watch.on_progress("looking for overlap", 0, None)
    measured = corpus_statistics(cache, corpus).as_dict()
    write_json(file, {"schema": STATISTICS_SCHEMA, "statistics": measured})
    return measured
