"""Predicted memory of a training step against its measured peak on this CPU, for thirteen models.

    .venv/bin/python -m benchmarks.step_memory

Each model has a process of its own: from before it is built, its highest resident memory is read
over two steps of a batch of random ids. The prediction is what `regard validate --world-size 1`
says of such a batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

BASE: dict[str, Any] = {"layers": 6, "heads": 8, "width": 384, "context": 256}
ROWS, VOCABULARY = 16, 2000
MODELS: dict[str, dict[str, Any]] = {
    "decoder": {},
    "decoder, wide": {"width": 768, "layers": 8, "rows": 4},
    "decoder, long rows": {"context": 1024, "rows": 8},
    "decoder, large vocabulary": {"vocabulary": 20_000, "layers": 3},
    "decoder, like llama": {
        "norm": "rms",
        "activation": "swiglu",
        "positions": {"kind": "rotary"},
        "biases": False,
        "tied": False,
        "key_value_heads": 2,
    },
    "decoder, dropout": {"dropout": 0.1},
    "decoder, four micro-batches": {"rows": 32, "accumulate": 4},
    "decoder, additive attention": {"attention": {"kind": "additive"}, "layers": 3},
    "encoder": {"family": "encoder"},
    "encoder-decoder": {"family": "encoder-decoder", "layers": 4},
    # Nothing was fitted to these three.
    "decoder, LoRA, four micro-batches": {"rows": 32, "accumulate": 4, "adapter": "lora"},
    "decoder, untied, large vocabulary": {"vocabulary": 20_000, "layers": 3, "tied": False},
    "encoder-decoder, eight micro-batches": {
        "family": "encoder-decoder",
        "layers": 4,
        "rows": 32,
        "accumulate": 8,
    },
}
STEPS = 2
"The second holds the moments of AdamW too."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=list(MODELS))
    parser.add_argument("--measure", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(**{**BASE, **MODELS[given.only]})))
        return
    command = [sys.executable, "-m", "benchmarks.step_memory", "--measure", "--only"]
    print("| model | predicted | measured | predicted ÷ measured |\n|---|---|---|---|")
    for name in [given.only] if given.only else MODELS:
        done = subprocess.run([*command, name], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        shown = " | ".join(f"{found[key] / 1e6:,.0f} MB" for key in ("predicted", "measured"))
        ratio = found["predicted"] / found["measured"]
        print(f"| {name} | {shown} | {ratio:.2f} |", flush=True)


def measure(
    *,
    family: str = "decoder",
    vocabulary: int = VOCABULARY,
    rows: int = ROWS,
    accumulate: int = 1,
    adapter: str = "full",
    **table: Any,
) -> dict[str, int]:
    from regard.adapters import ADAPTERS
    from regard.batch import Example, collate
    from regard.core.process.peak_memory import peak_memory_bytes, reset_peak_memory
    from regard.core.settings import read_settings
    from regard.models.families import FAMILIES, Family
    from regard.models.model import Model
    from regard.runs.preflight.memory_per_rank import kept_free
    from regard.training.device import choose_machine
    from regard.training.loop import update
    from regard.training.optimizer import build_optimizer
    from regard.training.planning.step_memory import step_memory
    from regard.training.settings import Train

    settings: Family = read_settings(FAMILIES.get(family).part, table)
    generator = np.random.default_rng(0)

    def example() -> Example:
        source, ids = generator.integers(7, vocabulary, (2, settings.context))
        weights = np.ones(settings.context, np.float32)
        if family == "encoder":  # of which a fraction is masked
            weights *= generator.random(settings.context) < 0.15
        return Example(ids, ids, weights, source=source if "-" in family else None)

    batch = collate([example() for _ in range(rows)], pad_id=0, rows=range(rows))
    train, machine = Train(accumulate=accumulate), choose_machine("cpu", threads=0)

    def build() -> Model:
        model = settings.build(vocabulary=vocabulary, seed=0)
        read_settings(ADAPTERS.get(adapter).part, {}).apply(model, seed=0)
        return model

    reset_peak_memory()
    before = peak_memory_bytes()
    model = build().train()
    optimizer = build_optimizer(model, train)
    for step in range(1, STEPS + 1):
        update(model, optimizer, batch, step=step, lr=1e-4, settings=train, machine=machine)
    peak = peak_memory_bytes()
    assert before is not None
    assert peak is not None
    [micro_batch, *others] = batch.micro_batches(accumulate)
    found = step_memory(build, micro_batch, accumulates=bool(others), autocast=nullcontext)
    return {
        "predicted": found.total + kept_free(found, accumulates=bool(others)),
        "measured": peak - before,
    }


if __name__ == "__main__":
    main()
