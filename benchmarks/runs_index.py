"""Listing many runs: without the index, building the index, and with the index.

    .venv/bin/python benchmarks/runs_index.py --runs 5000

The runs are generated with realistic files (resolved recipe, 125 steps of events, 24 estimates) but
without weights. Prints the seconds of each listing, their ratios, and the seconds of the command.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from regard.runs.archive.index import INDEX, find_runs, list_runs, read_facts
from regard.runs.recipe import Recipe
from regard.runs.results import RESULTS_SCHEMA

STEPS = 500
SPLITS = ("train", "dev", "test")
METRICS = ("perplexity", "perplexity_per_byte", "bits_per_byte", "loss_per_document")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_runs(root, count=count)
        unindexed = time_seconds(lambda: read_all(root))
        first = time_seconds(lambda: list_runs(root))
        second = min(time_seconds(lambda: list_runs(root)) for _ in range(3))
        size = (root / INDEX).stat().st_size
        command = time_seconds(lambda: run_command(root))
    print(f"runs                      {count:,} (generated), index {size / 1e6:.1f} MB")
    print(f"every folder read         {unindexed:.2f} s")
    print(f"first listing, no index   {first:.2f} s")
    print(f"second listing            {second:.2f} s")
    print(f"first / second            {first / second:.1f}")
    print(f"every folder / second     {unindexed / second:.1f}")
    print(f"regard runs, all printed  {command:.2f} s (separate process, index exists)")


def read_all(root: Path) -> None:
    """A listing without an index."""
    for name, _ in find_runs(root):
        read_facts(root / name, name=name)


def run_command(root: Path) -> None:
    command = [sys.executable, "-m", "regard", "runs", "--in", str(root)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def time_seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def write_runs(root: Path, *, count: int) -> None:
    """Ten seeds per variant; one run in twenty is unfinished."""
    generator = random.Random(0)
    table = {"name": "generated", "data": {"corpus": "python-docs"}}
    for number in range(count):
        recipe = Recipe.from_table({**table, "train": {"seed": number % 10, "max_steps": STEPS}})
        folder = root / f"variant-{number // 10}" / f"seed-{number % 10}"
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text(recipe.to_toml())
        (folder / "events.jsonl").write_text(events(generator))
        if number % 20:
            (folder / "results.json").write_text(json.dumps(results(generator)))


def events(generator: random.Random) -> str:
    lines = [{"event": "start", "steps": STEPS, "parameters": 473_712}]
    for step in range(4, STEPS + 1, 4):
        loss = 9 / (1 + step / 400) + generator.random() / 10
        cost = {"tokens": 3200 * step, "seconds": step / 4, "gradient_norm": generator.random()}
        lines.append({"event": "step", "step": step, "loss": loss, "lr": 3e-3, **cost})
    return "".join(json.dumps(line) + "\n" for line in lines)


def results(generator: random.Random) -> dict[str, object]:
    value = generator.uniform(100, 300)
    rows = [
        {
            "split": split,
            "metric": metric,
            "of": of,
            "value": value,
            "low": 0.95 * value,
            "high": 1.05 * value,
            "n": 904,
            "items": "documents",
            "signature": f"{metric}|per:token|tokenizer:c547f5da|split:{split}:3850d718",
        }
        for split in SPLITS
        for of in ("model", "unigram")
        for metric in METRICS
    ]
    sizes = {"documents": 904, "tokens": 40_000, "bytes": 150_000, "fingerprint": "3850d718"}
    return {
        "schema": RESULTS_SCHEMA,
        "run": "generated",
        "finished": f"2026-11-{generator.randint(1, 28):02d}T21:56:41+00:00",
        "estimates": rows,
        "audit": {"verdict": "clean", "sentence": "clean: generated"},
        "corpus": {
            "name": "python-docs",
            "generated": False,
            "splits": dict.fromkeys(SPLITS, sizes),
        },
        "tokenizer": {"name": "bpe", "size": 8000, "fingerprint": "c547f5da"},
        "cost": {"seconds": 125.0, "steps": STEPS, "parameters": 473_712},
    }


if __name__ == "__main__":
    main()
