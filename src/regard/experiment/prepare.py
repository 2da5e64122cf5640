"""From a recipe's text to tokens on the disk: corpus, tokenizer, token cache, statistics.

Each step is kept under a key that names all it was made from, so it is done once: an edited file,
another setting or another version makes another key. The tokenizer learns from the training part
alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError
from regard.experiment.watch import Watch
from regard.files import damage, read_json, sealed_folder, write_json
from regard.recipe import FORMAT, Recipe
from regard.text.cache import TokenCache, cache_home, cached
from regard.text.corpus import Corpus, open_corpus
from regard.text.statistics import corpus_statistics
from regard.text.tokenizer import Tokenizer

STATISTICS_SCHEMA = 1


@dataclass(frozen=True)
class Prepared:
    """All that training reads."""

    tokenizer: Tokenizer
    cache: TokenCache
    statistics: dict[str, Any]
    source: str
    "Hash of what the text was made from."


def prepare(recipe: Recipe, *, tokenizer: Tokenizer | None, watch: Watch) -> Prepared:
    """`tokenizer` is the one a starting point brings; without it, one is trained."""
    corpus = open_corpus(recipe.data)
    source = source_key(corpus)
    if tokenizer is None:
        tokenizer = _tokenizer(recipe, corpus, source, watch)
    cache = cached(corpus, tokenizer, on_progress=watch.progress("tokenising"))
    return Prepared(tokenizer, cache, _statistics(cache, corpus, watch), source)


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


def source_key(corpus: Corpus) -> str:
    """Changes when a file does."""
    facts = [(role, *identity) for role, identity in corpus.identities()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _tokenizer(recipe: Recipe, corpus: Corpus, source: str, watch: Watch) -> Tokenizer:
    table = recipe.to_table()
    facts = [FORMAT, source, table["data"], table["tokenizer"]]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    folder = cache_home() / "tokenizers" / key[:32]
    if damage(folder) is None:
        return Tokenizer.load(folder)
    trained = recipe.tokenizer.train(
        corpus.texts("train"), on_progress=watch.progress("training the tokenizer")
    )
    with sealed_folder(folder) as inside:
        trained.save(inside)
    return trained


def _statistics(cache: TokenCache, corpus: Corpus, watch: Watch) -> dict[str, Any]:
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
