"""Kill -9 a training again and again at random moments; the final weights must never change.

    .venv/bin/python benchmarks/resume.py --kills 10 --seed 0

Trains a small decoder with dropout on python-docs once without a stop, then once for each kill:
killed at a random moment (before the first checkpoint, between checkpoints, while one is written,
while the figures are taken), resumed, and compared by the SHA-256 of the final weights.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = """
name = "small"
[data]
corpus = "python-docs"
[tokenizer]
kind = "bpe"
vocabulary = 1000
[model]
family = "decoder"
layers = 2
heads = 2
width = 32
context = 64
dropout = 0.1
[train]
max_steps = 300
batch_tokens = 1024
evaluate_every = 25
checkpoint_every = 7
accumulate = 2
batches = "bucketed"
lr = 3e-3
[evaluate]
documents = 300
"""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--kills", type=int, default=10)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    moments = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.toml").write_text(RECIPE)
        train(folder, "first").wait()  # fills the token cache, so that all others take one time
        began = time.perf_counter()
        train(folder, "whole").wait()
        seconds = time.perf_counter() - began
        expected = digest(folder, "whole")
        print(f"never stopped, twice     {digest(folder, 'first')[:16]}")
        print(f"                         {expected[:16]}  ({seconds:.0f} s)")
        same = 0
        for kill in range(given.kills):
            after = moments.uniform(0.15, 1.0) * seconds
            process = train(folder, f"killed-{kill}")
            try:
                process.wait(timeout=after)
                reached = "had finished"
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                reached = where(folder, f"killed-{kill}")
            train(folder, f"killed-{kill}", "--resume").wait()
            found = digest(folder, f"killed-{kill}")
            same += found == expected
            print(f"killed after {after:5.1f} s       {found[:16]}  ({reached})")
        print(f"{same} of {given.kills} the same")
    sys.exit(same != given.kills)


def train(folder: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "train", "small.toml", "--out", out, *more],
        cwd=folder,
        env={**os.environ, "REGARD_CACHE": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def where(folder: Path, out: str) -> str:
    steps = sorted(path.name for path in (folder / out / "checkpoints").glob("step-*"))
    if (folder / out / "final").is_dir():
        return "while measuring"
    return f"newest checkpoint {steps[-1]}" if steps else "before the first checkpoint"


def digest(folder: Path, out: str) -> str:
    file = folder / out / "final" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
