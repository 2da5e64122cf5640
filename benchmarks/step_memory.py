"""Predicted memory of a training step against its measured peak on this CPU, for ten recipes.

    .venv/bin/python -m benchmarks.step_memory

Each recipe has a process of its own, which holds the tokenized text before the model is built; from
there on its highest resident memory is read, over four steps of the largest batch. The prediction
is that of `regard validate --world-size 1`. Texts are generated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

BASE: dict[str, Any] = {
    "data.corpus": "generated.txt",
    "tokenizer.vocabulary": 2000,
    "model.layers": 6,
    "model.heads": 8,
    "model.width": 384,
    "model.context": 256,
    "train.batch_tokens": 4096,
    "train.max_steps": 10,
}
RECIPES: dict[str, dict[str, Any]] = {
    "decoder": {},
    "decoder, wide": {"model.width": 768, "model.layers": 8, "train.batch_tokens": 1024},
    "decoder, long rows": {"model.context": 1024, "train.batch_tokens": 8192},
    "decoder, large vocabulary": {"tokenizer.vocabulary": 20_000, "model.layers": 3},
    "decoder, like llama": {
        "model.norm": "rms",
        "model.activation": "swiglu",
        "model.positions": {"kind": "rotary"},
        "model.biases": False,
        "model.tied": False,
        "model.key_value_heads": 2,
    },
    "decoder, dropout": {"model.dropout": 0.1},
    "decoder, four micro-batches": {"train.accumulate": 4, "train.batch_tokens": 16_384},
    "decoder, additive attention": {"model.attention": {"kind": "additive"}, "model.layers": 3},
    "encoder": {"model.family": "encoder"},
    "encoder-decoder": {"model.family": "encoder-decoder", "model.layers": 4},
}
STEPS = 4
DOCUMENTS, WORDS_A_LINE = 30_000, (20, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=list(RECIPES))
    parser.add_argument("--measure", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.only)))
        return
    with TemporaryDirectory() as folder:
        write_text(Path(folder) / "generated.txt")
        environment = {**os.environ, "REGARD_CACHE": f"{folder}/cache"}
        command = [sys.executable, "-m", "benchmarks.step_memory", "--measure", "--only"]
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        print("| recipe | predicted | measured | predicted ÷ measured |\n|---|---|---|---|")
        for name in [given.only] if given.only else RECIPES:
            done = subprocess.run(
                [*command, name], cwd=folder, env=environment, stdout=subprocess.PIPE, check=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            shown = " | ".join(f"{found[key] / 1e6:,.0f} MB" for key in ("predicted", "measured"))
            print(
                f"| {name} | {shown} | {found['predicted'] / found['measured']:.2f} |", flush=True
            )


def write_text(path: Path) -> None:
    """Random words of random letters, by Zipf's law."""
    generator = np.random.default_rng(0)
    letters = generator.integers(97, 123, (60_000, 7), dtype=np.uint8)
    words = [bytes(row[: 2 + i % 6]).decode() for i, row in enumerate(letters)]
    frequency = 1 / np.arange(1, len(words) + 1)
    drawn = generator.choice(len(words), DOCUMENTS * WORDS_A_LINE[1], p=frequency / sum(frequency))
    with path.open("w", encoding="utf-8") as file:
        for i, length in enumerate(generator.integers(*WORDS_A_LINE, DOCUMENTS)):
            begin = i * WORDS_A_LINE[1]
            file.write(" ".join(words[each] for each in drawn[begin : begin + length]) + "\n")


def measure(name: str) -> dict[str, int]:
    from regard.core.process.peak_memory import peak_memory_bytes, reset_peak_memory
    from regard.runs.observer import SILENT
    from regard.runs.preflight import memory_per_rank as planning
    from regard.runs.preparation.prepare import prepare
    from regard.runs.recipe import Recipe
    from regard.training.batch_loader import BatchLoader
    from regard.training.device import choose_machine
    from regard.training.loop import update
    from regard.training.optimizer import build_optimizer

    table: dict[str, Any] = {"name": "measured"}
    for key, value in {**BASE, **RECIPES[name]}.items():
        section, _, setting = key.partition(".")
        table.setdefault(section, {})[setting] = value
    recipe = Recipe.from_dictionary(table)
    machine = choose_machine("cpu", threads=0)
    prepared = prepare(recipe, tokenizer=None, observer=SILENT)
    loader = BatchLoader(prepared.examples(), recipe.train, pad=prepared.tokenizer.padding_id)
    batch = loader.build_batch(planning.rows_of_largest_batch(loader), epoch=0)
    reset_peak_memory()
    before = peak_memory_bytes()
    assert before is not None
    model = recipe.model.build(vocabulary=prepared.tokenizer.size, seed=0).train()
    optimizer = build_optimizer(model, recipe.train)
    for step in range(1, STEPS + 1):
        update(model, optimizer, batch, step=step, lr=1e-4, settings=recipe.train, machine=machine)
    peak = peak_memory_bytes()
    assert peak is not None
    del model, optimizer
    plan = planning.memory_per_rank(
        recipe, world_size=1, device=None, runs=Path("runs"), observer=SILENT
    )
    return {"predicted": plan.options[0].total, "measured": peak - before}


if __name__ == "__main__":
    main()
