"""100 MB of text to a cache of token ids: `regard validate` against `datasets.map`.

The text is drawn word by word from the words of film reviews by their frequency, a document of
some hundred words a line: no corpus at hand is that large, and repeated text would flatter caches
and the search for overlap. `regard validate` does more than tokenize: it also searches dev and test
for what stands in training, counts, and forecasts a training. The cache alone, with one process and
with two, is built by `scripts/tokenize_regard.py`.
"""

from __future__ import annotations

import lzma
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.as_typed.command import (
    RECIPE_FOLDER,
    SCRIPTS,
    Command,
    prepare,
    python,
    regard,
    warm_up,
)
from benchmarks.as_typed.packages import require_packages
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.environment import MEMORY_KEPT
from benchmarks.speed.data import data_file
from benchmarks.speed.timing import OURS, interleaved_times

MEGABYTES = 100
LINES = {"tokenizer": 5000, "dev": 200, "test": 200}
"Of the other files: the text a tokenizer is trained on, and what is held out."
WORDS_A_LINE = (20, 200)
WORDS_AT_ONCE = 1_000_000
VOCABULARY = 8000
SOURCE = "imdb-5k/imdb_5k.tsv.xz"
PEER = "datasets.map"
PEERS = {
    PEER: ((), {}),
    f"{PEER}, memory kept, 2 processes": (("--processes", 2), MEMORY_KEPT),
}
GOAL = 1.0
PROCESSES = (1, 2)
"That build the cache alone."


def write_texts(folder: Path) -> None:
    words, counts = zip(
        *Counter(lzma.decompress(data_file(SOURCE).read_bytes()).decode("utf-8").split()).items(),
        strict=True,
    )
    spelled = np.array(words, dtype=object)
    frequency = np.array(counts) / sum(counts)
    generator = np.random.default_rng(0)

    def lines() -> Iterator[str]:
        while True:
            drawn = spelled[generator.choice(len(spelled), WORDS_AT_ONCE, p=frequency)]
            lengths = generator.integers(*WORDS_A_LINE, WORDS_AT_ONCE // WORDS_A_LINE[1])
            ends = np.cumsum(lengths)
            for begin, end in zip(ends - lengths, ends, strict=True):
                yield " ".join(drawn[begin:end]) + "\n"

    drawn_lines = lines()
    for name, count in LINES.items():
        text = "".join(islice(drawn_lines, count))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    written = 0
    with (folder / "train.txt").open("w", encoding="utf-8") as file:
        while written < MEGABYTES * 10**6:
            written += file.write(next(drawn_lines))


def rows(*, rounds: int) -> list[TypedRow]:
    """`regard validate` as a whole."""
    with _folder_with_texts() as folder:
        shutil.copy(RECIPE_FOLDER / "tokens.toml", folder)
        commands = {OURS: Command(regard("validate", "tokens.toml"), folder, outputs=("cache",))}
        for name, (settings, environment) in PEERS.items():
            line = python(SCRIPTS / "tokenize_datasets.py", "train.txt", "tokenizer", *settings)
            commands[name] = Command(line, folder, environment, outputs=("datasets",))
        return [
            typed_row(
                f"{MEGABYTES} MB of text to token ids on disk",
                interleaved_times(commands, rounds=min(rounds, MAX_ROUNDS)),
                peer=PEER,
                documented=PEER,
                commands=commands,
                goal=GOAL,
                same_work="the same tokenizer and documents",
                notes=["ours is `regard validate`, which also searches for overlap and forecasts"],
            )
        ]


def rows_by_processes(*, rounds: int) -> list[TypedRow]:
    """The cache alone, by one process and by two."""
    with _folder_with_texts() as folder:
        return [_cache_alone(folder, processes, rounds=rounds) for processes in PROCESSES]


@contextmanager
def _folder_with_texts() -> Iterator[Path]:
    """With texts, and a tokenizer trained on one of them."""
    data_file(SOURCE)  # raises here if it is missing
    require_packages("datasets", "transformers")
    warm_up("torch", "regard.api", "datasets", "transformers")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_texts(folder)
        size = ("--vocabulary", VOCABULARY)
        prepare(regard("tokenizer", "train", "tokenizer.txt", "--out", "tokenizer", *size), folder)
        yield folder


def _cache_alone(folder: Path, processes: int, *, rounds: int) -> TypedRow:
    """Tokenizing and writing, without what else a recipe asks for."""
    peer = f"{PEER}(num_proc={max(PROCESSES)})"
    commands = {
        name: Command(
            python(SCRIPTS / script, "train.txt", "tokenizer", "--processes", number),
            folder,
            outputs=(output,),
        )
        for name, script, number, output in (
            (OURS, "tokenize_regard.py", processes, "tokens"),
            (peer, "tokenize_datasets.py", max(PROCESSES), "datasets"),
        )
    }
    times = interleaved_times(commands, rounds=min(rounds, MAX_ROUNDS))
    tokens = int(commands[OURS].printed.read_text(encoding="utf-8").split()[0])
    rates = [f"{tokens / median(seconds) / 1e6:.2f} M by {name}" for name, seconds in times.items()]
    return typed_row(
        f"the token cache alone, {processes} process{'es' * (processes > 1)}",
        times,
        peer=PEER,
        documented=peer,
        commands=commands,
        goal=GOAL,
        same_work="the same tokenizer and documents",
        notes=[f"tokens a second: {', '.join(rates)}"],
    )
