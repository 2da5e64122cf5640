"""A synthetic run folder: a plausible mini-GPT, with hostile strings in every text field."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regard.runs.results import RESULTS_SCHEMA

HOSTILE = (
    "<script>alert(1)</script></svg></pre></style><img src=x onerror=alert(2)> "
    "\"double\" 'single' &amp; {{ 7 * 7 }} {% raw %} 😀 مرحبا بالعالم \u202e reversed \x00\x1b[31m"
)
LONG_LINE = "x" * 20_000

RECIPE = f"""\
name = "mini-gpt"

[data]
corpus = "python-docs"  # {HOSTILE.replace(chr(0), "")}

[tokenizer]
kind = "bpe"
vocabulary = 8000

[model]
family = "decoder"
layers = 3
heads = 3
width = 48
context = 100

[train]
max_steps = 1200
lr = 0.0005
seed = 0
"""

MakeRun = Callable[..., Path]


def event_lines(steps: int = 1200) -> list[str]:
    """A noisy loss that falls from ln 8000 to about 4.7."""
    noise = random.Random(0)
    start = {
        "event": "start",
        "time": "2026-11-15T20:00:00Z",
        "steps": steps,
        "parameters": 1_130_000,
    }
    events: list[dict[str, Any]] = [start]
    for step in range(10, steps + 1, 10):
        loss = 4.6 + 4.4 * math.exp(-step / 180) + noise.gauss(0, 0.05)
        warm = min(step / 100, 1.0) * (0.55 + 0.45 * math.cos(math.pi * step / steps))
        at = {"step": step, "tokens": 3200 * step, "seconds": 0.2 * step}
        norm = 1 + noise.random()
        events.append(
            {"event": "step", **at, "loss": loss, "lr": 5e-4 * warm, "gradient_norm": norm}
        )
        if step % 100 == 0:
            dev = 4.72 + 4.2 * math.exp(-step / 190)
            events.append(
                {
                    "event": "evaluation",
                    **at,
                    "loss": dev,
                    "scores": {"perplexity": math.exp(dev)},
                    "n": 200,
                }
            )
            events.append({"event": "sample", "step": step, "texts": [f"at {step}: {HOSTILE}"]})
            events.append({"event": "checkpoint", "step": step})
    events.append({"event": "finish", "step": steps, "seconds": 0.2 * steps})
    return [json.dumps(event) for event in events]


def estimate_row(
    split: str, metric: str, of: str, value: float, *, spread: float = 0.04
) -> dict[str, Any]:
    return {
        "split": split,
        "metric": metric,
        "of": of,
        "value": value,
        "low": value * (1 - spread),
        "high": value * (1 + spread),
        "n": {"train": 1000, "dev": 2104, "test": 2087}[split],
        "items": "documents",
        "signature": f"{metric}|of:{of}|split:{split}|bootstrap:2000|level:0.95|seed:0",
    }


def all_estimates(model: float, *, kneser_ney: float, unigram: float) -> list[dict[str, Any]]:
    perplexities = {"model": model, "Kneser-Ney 3-gram": kneser_ney, "unigram": unigram}
    return [
        estimate_row(
            split, metric, of, convert(perplexity * {"train": 0.9, "dev": 1.0, "test": 1.02}[split])
        )
        for split in ("train", "dev", "test")
        for of, perplexity in perplexities.items()
        for metric, convert in {
            "perplexity": lambda p: p,
            "perplexity_per_byte": lambda p: p ** (1 / 3.6),
            "bits_per_byte": lambda p: math.log2(p) / 3.6,
            "loss_per_document": lambda p: 41.7 * math.log(p),
        }.items()
    ]


def comparison_row(split: str, against: str, difference: float, *, spread: float) -> dict[str, Any]:
    low, high = difference - spread, difference + spread
    verdict = "better than" if high < 0 else "behind" if low > 0 else "not distinguishable from"
    return {
        "split": split,
        "metric": "perplexity",
        "against": against,
        "verdict": verdict,
        "value": difference,
        "low": low,
        "high": high,
        "n": {"dev": 2104, "test": 2087}[split],
        "items": "documents",
        "signature": f"perplexity_difference|against:{against}|split:{split}|bootstrap:2000",
    }


def all_comparisons(model: float, *, kneser_ney: float, unigram: float) -> list[dict[str, Any]]:
    return [
        comparison_row(split, against, scale * (model - baseline), spread=3.0)
        for split, scale in (("dev", 1.0), ("test", 1.02))
        for against, baseline in (("Kneser-Ney 3-gram", kneser_ney), ("unigram", unigram))
    ]


def corpus_split(documents: int, *, seed: int) -> dict[str, Any]:
    generator = random.Random(seed)
    edges = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    lengths = [min(generator.lognormvariate(3.6, 0.8), 1000) for _ in range(min(documents, 3000))]
    pairs = pairwise(edges)
    counts = [sum(low <= length < high for length in lengths) for low, high in pairs]
    return {
        "documents": documents,
        "tokens": documents * 42,
        "bytes": documents * 151,
        "unique_tokens": min(7990, documents * 3),
        "unknown_rate": 0.00003,
        "fingerprint": f"{seed:02x}ab12cd34ef56ab78" * 4,
        "mean_length": 41.7,
        "median_length": 36,
        "max_length": 987,
        "truncated_tokens": 1204 if seed == 1 else 0,
        "histogram": {"edges": edges, "counts": counts},
    }


def overlap(*, exact: int, near: int, items: int) -> dict[str, Any]:
    return {"items": items, "exact": exact, "near": near}


def results_table(
    *, model: float, kneser_ney: float, unigram: float, **changes: Any
) -> dict[str, Any]:
    return {
        "schema": RESULTS_SCHEMA,
        "run": "mini-gpt",
        "finished": "2026-11-15T20:04:00Z",
        "estimates": all_estimates(model, kneser_ney=kneser_ney, unigram=unigram),
        "comparisons": all_comparisons(model, kneser_ney=kneser_ney, unigram=unigram),
        "remarks": ["Synthetic, for a test: no model was trained.", f"Hostile: {HOSTILE}"],
        "corpus": {
            "name": "python-docs",
            "generated": False,
            "splits": {
                "train": corpus_split(21_304, seed=1),
                "dev": corpus_split(2104, seed=2),
                "test": corpus_split(2087, seed=3),
            },
            "overlap": {
                "dev": overlap(exact=0, near=3, items=2104),
                "test": overlap(exact=4, near=5, items=2087),
            },
            "dropped": {
                "empty": 12,
                "bad": 0,
                f"odd {HOSTILE}": 3,
                "files": {"a": {"empty": 12}},
            },
        },
        "tokenizer": {"name": "bpe", "size": 8000, "fingerprint": "3f9c77ab" * 8},
        "cost": {
            "seconds": 241.3,
            "steps": 1200,
            "tokens": 3_840_000,
            "tokens_per_second": 15_914.0,
            "peak_memory_bytes": 612_000_000,
            "parameters": 1_130_000,
            "padding_waste": 0.031,
        },
        "samples": [
            {
                "prompt": "The return value",
                "text": "of the function is a string with the name of the module, or None if the\n"
                "object is not in the list. The default is to use the first argument of the call.",
            },
            {"prompt": "", "text": HOSTILE},
            {"prompt": HOSTILE, "text": LONG_LINE},
        ],
        "environment": {
            "python": "3.11.7",
            "torch": "2.13.0",
            "regard": "0.1.0",
            "platform": "Linux x86_64",
            "device": "cpu",
            "threads": 2,
            "precision": "fp32",
        },
        **changes,
    }


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes runs/mini-gpt; keywords change results.json, `finished=False` omits it."""

    def make(
        *,
        model: float = 118.4,
        kneser_ney: float = 104.1,
        unigram: float = 412.0,
        events: list[str] | None = None,
        finished: bool = True,
        **changes: Any,
    ) -> Path:
        folder = tmp_path / "runs" / "mini-gpt"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "recipe.toml").write_text(RECIPE)
        lines = event_lines() if events is None else events
        (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
        if finished:
            perplexities = {"model": model, "kneser_ney": kneser_ney, "unigram": unigram}
            table = results_table(**perplexities, **changes)
            (folder / "results.json").write_text(json.dumps(table))
        return folder

    return make
