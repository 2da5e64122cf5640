"""Time and memory of a search: a million training rows of 30 words past 10,000 held-out rows.

The rows are drawn from a chain of words of the corpora, each after a word that it follows there, so
that common pairs and triples of words are as common as in text. One held-out row in ten is planted,
with one word in seven changed. With boilerplate, one training row in five begins with the same
twelve words, as does one held-out row in five, and one in ten is the same row altogether.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
from benchmarks.overlap.edits import one_in_seven_changed
from benchmarks.overlap.planted import reference_similarity

from regard.data.overlap.search import find_overlaps
from regard.data.overlap.similarity import MIN_SIMILARITY

BOILERPLATE = "this article appeared in print on page four of the national edition"
WORDS = 30
BATCH = 20_000


@dataclass(frozen=True)
class Speed:
    rows: int
    held_out: int
    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    planted: int
    found: int
    named: int


class WordChain:
    """Rows of words, each drawn from those that follow the word before in some texts."""

    def __init__(self, texts: Sequence[str]) -> None:
        ids: dict[str, int] = {}
        pairs = [
            (ids.setdefault(first, len(ids)), ids.setdefault(second, len(ids)))
            for text in texts
            for first, second in pairwise(text.split())
        ]
        self.words = np.array(list(ids))
        table = np.array(sorted([*pairs, *((i, i) for i in range(len(ids)))]))
        self.followers = table[:, 1]
        self.starts = np.searchsorted(table[:, 0], np.arange(len(ids) + 1))

    def rows(self, count: int, generator: np.random.Generator) -> Iterator[list[str]]:
        for first in range(0, count, BATCH):
            here = generator.choice(self.followers, min(BATCH, count - first))
            columns = [here]
            for _ in range(WORDS - 1):
                low, high = self.starts[here], self.starts[here + 1]
                here = self.followers[generator.integers(low, high)]
                columns.append(here)
            yield from self.words[np.stack(columns, axis=1)].tolist()


def measure(
    texts: Sequence[str], folder: Path, *, rows: int, held_out: int, boilerplate: bool
) -> Speed:
    """The search in a process of its own, which reads training from a file."""
    generator, random = np.random.default_rng(0), Random(0)
    chain = WordChain(texts)
    items = list(chain.rows(held_out, generator))
    copied = {random.randrange(rows): item for item in range(0, held_out, 10)}
    others = [word for item in items[:1000] for word in item]
    if boilerplate:
        items = [_with_boilerplate(words, i) for i, words in enumerate(items)]
    planted = set()
    with (folder / "train.txt").open("w", encoding="utf-8") as file:
        for i, words in enumerate(chain.rows(rows, generator)):
            if i in copied:
                item = items[copied[i]]
                line = one_in_seven_changed(item, random, others)
                if reference_similarity(" ".join(item), line) >= MIN_SIMILARITY:
                    planted.add(copied[i])
            else:
                line = " ".join(_with_boilerplate(words, i) if boilerplate else words)
            file.write(line + "\n")
    lines = "".join(" ".join(words) + "\n" for words in items)
    (folder / "test.txt").write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.overlap.speed", str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    return Speed(
        rows=rows,
        held_out=held_out,
        seconds=found["seconds"],
        cpu_seconds=found["cpu_seconds"],
        peak_megabytes=found["peak_megabytes"],
        planted=len(planted),
        found=len(planted & set(found["named"])),
        named=len(found["named"]),
    )


def _with_boilerplate(words: list[str], i: int) -> list[str]:
    begin = BOILERPLATE.split()
    if i % 10 == 3:
        return [*begin, *begin[::-1]]
    return [*begin, *words[len(begin) :]] if i % 5 == 1 else words


def search(folder: Path) -> None:
    """What the process of its own does."""
    items = (folder / "test.txt").read_text(encoding="utf-8").splitlines()
    began, cpu_began = time.perf_counter(), time.process_time()
    with (folder / "train.txt").open(encoding="utf-8") as train:
        overlaps = find_overlaps(train, {"test": items})["test"]
    found = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "peak_megabytes": peak_megabytes(),
        "named": [each.item for each in overlaps],
    }
    print(json.dumps(found))


def peak_megabytes() -> float:
    """Of this process since it was started; `getrusage` would count what it was forked from."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


if __name__ == "__main__":
    search(Path(sys.argv[1]))
