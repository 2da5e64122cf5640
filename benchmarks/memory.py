"""Peak memory of `regard train` on a large text: tokenizer, cache, training, evaluation.

    .venv/bin/python benchmarks/memory.py --megabytes 300

The text is generated (random words with Zipf frequencies, in sentences); only its size and its
number of distinct words matter. Prints the peak resident memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RECIPE = """
name = "large"
[data]
corpus = "large.txt"
dev = 0.0005
test = 0.0005
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
max_steps = 100
batch_tokens = 3200
lr = 3e-3
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    size = parser.parse_args().megabytes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "large.txt", megabytes=size)
        (folder / "large.toml").write_text(RECIPE)
        began = time.perf_counter()
        completed = subprocess.run(
            [sys.executable, "-m", "regard", "train", "large.toml", "--json"],
            cwd=folder,
            env={**os.environ, "REGARD_CACHE": str(folder / "cache")},
            stdout=subprocess.PIPE,
            check=True,
        )
        seconds = time.perf_counter() - began
    corpus = json.loads(completed.stdout)["corpus"]["splits"]["train"]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"text          {size} MB (generated), {corpus['tokens']:,} training tokens")
    print(f"whole run     {seconds:.0f} s")
    print(f"peak memory   {peak / 1e9:.2f} GB")


def write_text(file: Path, *, megabytes: int) -> None:
    generator = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = ["".join(generator.choice(letters, generator.integers(2, 11))) for _ in range(60_000)]
    frequency = 1 / np.arange(1, len(words) + 1)
    table = np.array(words)
    written = 0
    with file.open("w") as out:
        while written < megabytes * 1_000_000:
            drawn = generator.choice(len(words), size=200_000, p=frequency / frequency.sum())
            ends = np.cumsum(generator.integers(5, 40, size=10_000))
            sentences = np.split(table[drawn], ends[ends < len(drawn)])
            chunk = "\n".join(" ".join(sentence) for sentence in sentences) + "\n"
            written += out.write(chunk)


if __name__ == "__main__":
    main()
