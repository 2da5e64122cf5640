"""Peak memory of commands on a large text: tokenizer, cache, overlap, training, evaluation.

    .venv/bin/python -m benchmarks.memory --megabytes 300
    .venv/bin/python -m benchmarks.memory --megabytes 3000 --tokenizer-of 30 --gz 300

The text is generated (random words with Zipf frequencies, in sentences); only its size and its
number of distinct words matter. Each command has a fresh cache, or the one of the command before.
Prints of each: its seconds, the peak of its first process, the highest of any other, and the most
that all held at once, in which shared pages are divided among those that share them (PSS).
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
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


TRAINED, GIVEN = 'kind = "bpe"\nvocabulary = 8000', 'kind = "file"\npath = "tokenizer"'
STEPS = 20
REGARD = (sys.executable, "-m", "regard")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
SHORT = ("--set", f"train.max_steps={STEPS}", "--set", "evaluate.documents=200")
PAUSE = 0.2
"Seconds between two looks at the processes."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--tokenizer-of", type=int, default=0, help="MB that train it; 0: all")
    parser.add_argument("--gz", type=int, default=0, help="MB of a compressed text besides")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_text(folder / "large.txt", megabytes=given.megabytes)
        recipe = RECIPE
        if given.tokenizer_of:
            write_text(folder / "part.txt", megabytes=given.tokenizer_of)
            words = ("tokenizer", "train", "part.txt", "--out", "tokenizer", "--vocabulary", "8000")
            subprocess.run([*REGARD, *words], cwd=folder, check=True, capture_output=True)
            recipe = recipe.replace(TRAINED, GIVEN)
        (folder / "large.toml").write_text(recipe)
        print(f"{given.megabytes} MB of generated text")
        print(
            "| command | seconds | first process | another | all at once |\n|---|---|---|---|---|"
        )
        show("validate, no cache", [*REGARD, "validate", "large.toml"], folder)
        show("validate, cached", [*REGARD, "validate", "large.toml"], folder)
        train = ("train", "large.toml", *SHORT)
        show(f"train, {STEPS} steps", [*REGARD, *train, "--out", "one"], folder)
        show(f"train, {STEPS} steps, 2 ranks", [*TORCHRUN, "-m", "regard", *train], folder)
        if given.gz:
            write_text(folder / "part.txt", megabytes=given.gz)
            with (
                (folder / "part.txt").open("rb") as file,
                gzip.open(folder / "part.gz", "wb", 1) as out,
            ):
                shutil.copyfileobj(file, out)
            (folder / "large.toml").write_text(recipe.replace("large.txt", "part.gz"))
            shutil.rmtree(folder / "cache")
            show(f"validate, {given.gz} MB as .gz", [*REGARD, "validate", "large.toml"], folder)


def show(what: str, words: Sequence[str], folder: Path) -> None:
    """Run a command and print its line of the table."""
    environment = {**os.environ, "REGARD_CACHE": str(folder / "cache")}
    began = time.perf_counter()
    peaks: dict[int, int] = {}
    together = 0
    with (folder / "printed.txt").open("w") as printed:
        command = subprocess.Popen(
            words, cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        while command.poll() is None:
            processes = tree_of(command.pid)
            peaks |= {
                pid: status["VmHWM"] for pid in processes if (status := fields(pid, "status"))
            }
            held = [fields(pid, "smaps_rollup").get("Pss", 0) for pid in processes]
            together = max(together, sum(held))
            time.sleep(PAUSE)
    if command.returncode:
        raise RuntimeError((folder / "printed.txt").read_text()[-2000:])
    first = peaks.pop(command.pid)
    sizes = (first, max(peaks.values(), default=0), together)
    shown = " | ".join(f"{size / 1e9:.2f} GB" for size in sizes)
    print(f"| {what} | {time.perf_counter() - began:.0f} | {shown} |", flush=True)


def tree_of(first: int) -> list[int]:
    """A process and all that it and its children have started."""
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended just now
            continue
    tree = [first]
    for pid in tree:  # grows meanwhile
        tree += [child for child, parent in parents.items() if parent == pid]
    return tree


def fields(pid: int, name: str) -> Mapping[str, int]:
    """The sizes in a file of /proc, in bytes; empty where the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.endswith(" kB"))
    found = {one[0].rstrip(":"): int(one[-2]) * 1024 for one in sizes}
    return found if "VmHWM" in found or "Pss" in found else {}


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
