"""A folder of runs that were really trained, each in about a second, for the playground."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.journeys.workspace import TINY, WORDS, with_settings

from regard import api

MARKUP = "<img src=x onerror=alert(7)> = @ bold"
"Among the training texts, so that tokens are markup and formulas too."

BODY = {"layers": 2, "heads": 2, "width": 16, "context": 48}
STEPS = {"max_steps": 20, "batch_tokens": 512, "lr": 1e-2, "evaluate_every": 0, "threads": 1}
TASKS: dict[str, dict[str, Any]] = {
    "classifier": {
        "data": {"corpus": "opinions.jsonl", "dev": 0.3, "test": 0.1},
        "model": {"family": "encoder", **BODY},
        "task": {"kind": "classification"},
    },
    "recall": {
        "data": {"corpus": "questions.jsonl", "dev": 0.3, "test": 0.1},
        "model": {"family": "decoder", **BODY},
        "task": {"kind": "recall", "samples": 2, "max_new_tokens": 4},
    },
    "retrieval": {
        "data": {"corpus": "queries.jsonl", "dev": 0.3, "test": 0.1},
        "model": {"family": "encoder", **BODY},
        "task": {"kind": "retrieval"},
    },
    "reader": {
        "data": {"corpus": "passages.jsonl", "dev": 0.3, "test": 0.1},
        "model": {"family": "encoder", **BODY},
        "task": {"kind": "extractive"},
    },
}


def train_runs(folder: Path, *, tasks: Iterable[str]) -> Path:
    """The folder `runs` with a language model, a run of each of these tasks, and runs whose models
    nothing over HTTP may load."""
    articles, nouns, verbs, adverbs = WORDS
    sentences = [" ".join(one) for one in itertools.product(articles, nouns, verbs, adverbs)]
    _write_rows(folder, sentences)
    (folder / "texts.txt").write_text("\n".join([*sentences[::5], *[MARKUP] * 40]))
    recipes = {
        name: {"name": name, "tokenizer": {"kind": "word"}, "train": STEPS, **table}
        for name, table in TASKS.items()
        if name in tasks
    }
    language_model = {"name": "writer", "data__corpus": "texts.txt", "model__layers": 2}
    recipes["writer"] = with_settings(TINY, {**language_model, "train__max_steps": 40})
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        patch.setattr("regard.reports.run_report.draw_inline_charts", lambda *_: [])
        for name, recipe in recipes.items():
            (folder / f"{name}.toml").write_text(tomli_w.dumps(recipe))
            api.train(f"{name}.toml")
    _add_refused(folder / "runs")
    return folder / "runs"


def _write_rows(folder: Path, sentences: list[str]) -> None:
    words, drawn = [word for group in WORDS for word in group], random.Random(0)
    texts = [" ".join(drawn.choices(words, k=drawn.randint(8, 14))) for _ in range(300)]
    rows: dict[str, list[dict[str, Any]]] = {
        "opinions": [
            {"text": text, "label": "good <b>" if "cat" in text or "dog" in text else "bad"}
            for text in texts
        ],
        "questions": [
            {"question": f"what {text.split()[2]} {text.split()[1]}", "answer": text.split()[1]}
            for text in sentences[::5]
        ],
        "queries": [
            {"query": f"who {text.split()[2]} {text.split()[1]}", "document": text}
            for text in sentences[::9]
        ],
        "passages": [
            {"context": f"{text} and {other}", "question": f"who {text.split()[2]}",
             "answers": [text.split()[1]] if n % 3 else []}
            for n, (text, other) in enumerate(zip(sentences[::6], sentences[3::6], strict=False))
        ],
    }  # fmt: skip
    for name, table in rows.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, table)))


def _add_refused(runs: Path) -> None:
    shutil.copytree(runs / "writer", runs / "own-code")
    (runs / "own-code" / "with").mkdir()
    (runs / "own-code" / "with" / "mine.py").write_text("raise SystemExit('it was run')")
    shutil.copytree(runs / "writer", runs / "unfinished")
    (runs / "unfinished" / "results.json").unlink()
    _change(runs / "writer", "foreign", imported={"source": "elsewhere"})
    _change(runs / "writer", "broken", attention={"kind": "zero-masked", "on_purpose": True})
    task = {"kind": "retrieval", "collection": "/etc/passwd"}
    _change(runs / "classifier", "own-files", task=task)


def _change(run: Path, name: str, *, attention: Any = None, **keys: Any) -> None:
    """A copy of a run with another config.json."""
    shutil.copytree(run, run.with_name(name))
    config = run.with_name(name) / "final" / "config.json"
    table = json.loads(config.read_text())
    if attention is not None:
        table["model"]["attention"] = attention
    config.write_text(json.dumps({**table, **keys}))
