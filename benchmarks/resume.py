"""Kill -9 a training run at random times and resume it; the final weights must not change.

    .venv/bin/python benchmarks/resume.py --kills 10 --seed 0

Trains a small decoder with dropout on python-docs once without interruption, then once for each
kill: killed at a random time (before the first checkpoint, between checkpoints, while one is
written, during the final evaluation), resumed, and compared by the SHA-256 of the final weights.
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.toml").write_text(RECIPE)
        train(
            folder, "first"
        ).wait()  # fills the token cache, so that all others take the same time
        began = time.perf_counter()
        train(folder, "uninterrupted").wait()
        seconds = time.perf_counter() - began
        expected = digest(folder, "uninterrupted")
        print(f"uninterrupted, twice     {digest(folder, 'first')[:16]}")
        print(f"                         {expected[:16]}  ({seconds:.0f} s)")
        identical = 0
        for kill in range(arguments.kills):
            after = generator.uniform(0.15, 1.0) * seconds
            process = train(folder, f"killed-{kill}")
            try:
                process.wait(timeout=after)
                reached = "had finished"
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                reached = progress(folder, f"killed-{kill}")
            train(folder, f"killed-{kill}", "--resume").wait()
            found = digest(folder, f"killed-{kill}")
            identical += found == expected
            print(f"killed after {after:5.1f} s       {found[:16]}  ({reached})")
        print(f"{identical} of {arguments.kills} identical")
    sys.exit(identical != arguments.kills)


def train(folder: Path, out: str, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "train", "small.toml", "--out", out, *options],
        cwd=folder,
        env={**os.environ, "REGARD_CACHE": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def progress(folder: Path, out: str) -> str:
    steps = sorted(path.name for path in (folder / out / "checkpoints").glob("step-*"))
    if (folder / out / "final").is_dir():
        return "during the final evaluation"
    return f"last checkpoint {steps[-1]}" if steps else "before the first checkpoint"


def digest(folder: Path, out: str) -> str:
    file = folder / out / "final" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
