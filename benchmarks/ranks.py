"""Two ranks of one thread each against one process of two threads, as typed.

Each turn trains the same recipe with the same batches in fresh processes, and counts tokens per
second between its first step event and its last, so that starting, preparing and evaluating are
left out. Two cores are all that these machines have: what a network costs is not measured.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import REPOSITORY, Command, python, regard, warm_up
from benchmarks.speed.timing import Row, ratio_by_round

RECIPE = "mini-gpt.toml"
STEPS = 60
MAX_ROUNDS = 3
"Each turn prepares its data again."
SETTINGS = (
    f"train.max_steps={STEPS}",
    "train.evaluate_every=0",
    "train.checkpoint_every=0",
    "evaluate.documents=20",
    "samples.prompts=[]",
)
DDP, FSDP, ONE = "DDP, 2 ranks × 1 thread", "FSDP, 2 ranks × 1 thread", "1 process × 2 threads"
TORCHRUN = python("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "-m")
GOAL = 1.0


def rows(*, rounds: int = MAX_ROUNDS) -> Iterator[Row]:
    warm_up("torch", "regard.api", "torch.distributed.fsdp")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(REPOSITORY / "recipes", folder, dirs_exist_ok=True)
        contestants = {
            DDP: (*TORCHRUN, "regard", *train("train.threads=1")),
            FSDP: (*TORCHRUN, "regard", *train("train.threads=1", "train.parallel=fsdp")),
            ONE: regard(*train("train.threads=2")),
        }
        speeds: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(min(rounds, MAX_ROUNDS)):
            order = list(contestants) if number % 2 == 0 else list(reversed(contestants))
            for name in order:
                Command(contestants[name], folder, outputs=("run",))()
                speeds[name].append(tokens_per_second(folder / "run"))
    medians = {name: median(values) for name, values in speeds.items()}
    for name in (DDP, FSDP):
        yield Row(
            "several processes",
            f"a training step of {RECIPE}: {name}",
            "tokens/s",
            {name: medians[name], ONE: medians[ONE]},
            ratio_by_round(speeds[name], speeds[ONE]),
            f"tokens per second of {name} ÷ {ONE}",
            GOAL,
            same_work="batches, and weights but for rounding (tests/training/parallel)",
        )


def train(*settings: str) -> Sequence[str]:
    pairs = (("--set", setting) for setting in (*SETTINGS, *settings))
    return ("train", RECIPE, "--out", "run", *(word for pair in pairs for word in pair))


def tokens_per_second(run: Path) -> float:
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [event for event in map(json.loads, lines) if event["event"] == "step"]
    first, last = steps[0], steps[-1]
    tokens: float = last["tokens"] - first["tokens"]
    return tokens / (last["seconds"] - first["seconds"])
