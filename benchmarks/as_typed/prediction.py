"""Rows of a file to classes by MiniLM: `regard predict` against a pipeline of transformers.

Both sides run the same body on the same tokens; their heads, a linear layer, are their own.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import (
    RECIPE_FOLDER,
    SCRIPTS,
    Command,
    prepare,
    python,
    regard,
    warm_up,
)
from benchmarks.as_typed.encoding import sst2_rows
from benchmarks.as_typed.packages import minilm_folder, require_packages
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.environment import MEMORY_KEPT
from benchmarks.speed.timing import OURS, interleaved_times

ROWS, TRAIN_ROWS = 5000, 400
PEER = "transformers pipeline"
PEERS = {
    PEER: ((), {}),
    f"{PEER}, memory kept, 32 a batch": (("--rows", 32), MEMORY_KEPT),
    f"{PEER}, memory kept, 32 a batch, sorted": (("--rows", 32, "--sorted"), MEMORY_KEPT),
}
GOAL = 1.5
OUT = "predictions.jsonl"


def rows(*, rounds: int) -> list[TypedRow]:
    examples = sst2_rows("dev")[:ROWS]
    require_packages("transformers")
    model = minilm_folder()
    warm_up("torch", "regard.api", "transformers.pipelines")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_csv(folder / "train.csv", sst2_rows("train")[:TRAIN_ROWS])
        write_csv(folder / "rows.csv", examples)
        shutil.copy(RECIPE_FOLDER / "sst2_head.toml", folder)
        prepare(regard("train", "sst2_head.toml"), folder)
        save_classifier(model, folder / "classifier")
        ours = regard("predict", "runs/classifier", "rows.csv", "--out", OUT)
        commands = {OURS: Command(ours, folder, outputs=(OUT,))}
        for name, (settings, environment) in PEERS.items():
            script = SCRIPTS / "classify_pipeline.py"
            line = python(script, "classifier", "rows.csv", OUT, *settings)
            commands[name] = Command(line, folder, environment, outputs=(OUT,))
        times = interleaved_times(commands, rounds=min(rounds, MAX_ROUNDS))
        predicted = [json.loads(line) for line in (folder / OUT).read_text("utf-8").splitlines()]
        if len(predicted) != len(examples):
            raise RuntimeError(f"{len(predicted)} rows were predicted, not {len(examples)}")
        return [
            typed_row(
                f"{len(examples):,} rows of SST-2 to classes by MiniLM",
                times,
                peer=PEER,
                documented=PEER,
                commands=commands,
                goal=GOAL,
                same_work="the same body and rows; heads are each side's own",
            )
        ]


def write_csv(path: Path, examples: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["sentence", "label"])
        writer.writeheader()
        writer.writerows(examples)


def save_classifier(model: Path, out: Path) -> None:
    """MiniLM under transformers' head of two classes, with random weights in the head."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    AutoModelForSequenceClassification.from_pretrained(model, num_labels=2).save_pretrained(out)
    AutoTokenizer.from_pretrained(model, model_max_length=64).save_pretrained(out)
