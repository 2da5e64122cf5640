"""MiniLM on SST-2 until 87 % of dev: `regard train` against transformers.Trainer.

The peer pads each batch to its longest row, groups rows by length, and stops at the first of its
evaluations that reaches the accuracy. regard trains a number of steps that reaches it. 89 % takes
either side most of an epoch.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import (
    RECIPE_FOLDER,
    SCRIPTS,
    Command,
    python,
    regard,
    warm_up,
)
from benchmarks.as_typed.encoding import sst2_rows
from benchmarks.as_typed.packages import minilm_folder, require_packages
from benchmarks.as_typed.prediction import write_csv
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.environment import MEMORY_KEPT
from benchmarks.speed.timing import OURS, interleaved_times

ACCURACY = 0.87
PEER = "transformers.Trainer"
PEERS = {PEER: {}, f"{PEER}, memory kept": MEMORY_KEPT}
GOAL = 2.0
REACHED = re.compile(r"^step \d+: accuracy ([\d.]+)$", re.MULTILINE)
FILES = {"train": "train", "dev": "test", "test": "dev"}
"Dev is the file of 872 sentences on which this task is usually judged."


class Turn:
    """A command, and the accuracy on dev that each of its turns reached."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.accuracies: list[float] = []

    def __call__(self) -> float:
        seconds = self.command()
        results = self.command.folder / "runs" / "sst2" / "results.json"
        if "runs" in self.command.outputs:
            self.accuracies.append(our_accuracy(results))
        else:
            reached = REACHED.findall(self.command.printed.read_text("utf-8"))
            self.accuracies.append(float(reached[-1]))
        return seconds


def our_accuracy(results: Path) -> float:
    estimates = json.loads(results.read_text("utf-8"))["estimates"]
    return next(
        float(one["value"])
        for one in estimates
        if (one["split"], one["of"], one["metric"]) == ("dev", "model", "accuracy")
    )


def rows(*, rounds: int) -> list[TypedRow]:
    splits = {split: sst2_rows(file) for split, file in FILES.items()}
    require_packages("transformers", "accelerate", "datasets")
    model = minilm_folder()
    warm_up("torch", "regard.api", "datasets", "transformers.trainer")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for split, examples in splits.items():
            write_csv(folder / f"{split}.csv", examples)
        (folder / "minilm").symlink_to(model)
        shutil.copy(RECIPE_FOLDER / "sst2.toml", folder)
        ours = Command(regard("train", "sst2.toml"), folder, outputs=("runs", "cache"))
        line = python(SCRIPTS / "train_transformers.py", "minilm", "train.csv", "dev.csv")
        turns = {OURS: Turn(ours)} | {
            name: Turn(Command(line, folder, environment, outputs=("datasets", "trainer")))
            for name, environment in PEERS.items()
        }
        times = interleaved_times(turns, rounds=min(rounds, MAX_ROUNDS))
        reached = {name: min(turn.accuracies) for name, turn in turns.items()}
        if min(reached.values()) < ACCURACY:
            raise RuntimeError(f"not every contestant reached {ACCURACY:.0%}: {reached}")
        return [
            typed_row(
                f"MiniLM on SST-2 until {ACCURACY:.0%} of dev",
                times,
                peer=PEER,
                documented=PEER,
                commands={name: turn.command for name, turn in turns.items()},
                goal=GOAL,
                same_work="accuracy on dev: "
                + ", ".join(f"{name} {accuracy:.3f}" for name, accuracy in reached.items()),
                notes=["the same weights at the start; ours 400 steps of 1,024 tokens at 3e-4"],
            )
        ]
