"""Tiny Shakespeare: `regard train` against nanoGPT's recipe for a CPU, to the same loss.

The architecture, the text and the number of characters in a step are nanoGPT's on both sides.
Schedule and initialisation of the first row are ours: it asks how soon a command ends whose model
is at least as good. The second row gives both the same recipe and compares a step.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import (
    RECIPE_FOLDER,
    REPOSITORY,
    SCRIPTS,
    Command,
    python,
    regard,
    warm_up,
)
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.environment import MEMORY_KEPT, user_environment
from benchmarks.speed.data import data_file
from benchmarks.speed.timing import OURS, interleaved_times

TEXT = "tiny-shakespeare/input.txt.xz"
TRAIN_FRACTION = 0.9
SAME_RECIPE = "regard, nanoGPT's recipe"
RECIPES = {OURS: "shakespeare.toml", SAME_RECIPE: "shakespeare_as_nano_gpt.toml"}
PEER = "nanoGPT's way"
FUSED = f"{PEER}, memory kept, fused AdamW"
COMPILED = f"{PEER}, memory kept, fused AdamW, compiled"
ONE_THREAD = f"{PEER}, memory kept, fused AdamW, one thread"
PEERS = {
    PEER: ((), {}),
    FUSED: (("--fused",), MEMORY_KEPT),
    ONE_THREAD: (("--fused", "--threads", 1), MEMORY_KEPT),
    COMPILED: (("--fused", "--compile"), MEMORY_KEPT),
}
Seconds = Mapping[str, Sequence[float]]
TO_LOSS_GOAL, STEP_GOAL = 1.5, 1.15
STEP_TIME = re.compile(r"^iter \d+: .* time ([\d.]+)ms$", re.MULTILINE)
FIRST_STEPS = 50
"Left out of the median: compilation, cold caches."


def write_text(folder: Path) -> None:
    """nanoGPT's split: the last tenth is for validation. regard takes it as dev and test, cut where
    a speech ends."""
    text = lzma.decompress(data_file(TEXT).read_bytes()).decode("utf-8")
    cut = int(TRAIN_FRACTION * len(text))
    train, val = text[:cut], text[cut:]
    half = val.index("\n\n", len(val) // 2)
    parts = {"train": train, "val": val, "dev": val[:half], "test": val[half:].lstrip("\n")}
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")


def command_of(name: str, folder: Path) -> Command:
    if name in RECIPES:
        shutil.copy(RECIPE_FOLDER / RECIPES[name], folder)
        return Command(regard("train", RECIPES[name]), folder, outputs=("runs", "cache"))
    words, environment = PEERS[name]
    return Command(
        python(SCRIPTS / "nano_gpt.py", "train.txt", "val.txt", *words),
        folder,
        environment,
        outputs=("out",),
    )


def validation_loss(name: str, folder: Path) -> float:
    """Nats per character of the model that the last turn in this folder left."""
    if name in RECIPES:
        run = next((folder / "runs").iterdir())
        words = ("regard", run, folder / "dev.txt", folder / "test.txt")
    else:
        checkpoint = folder / "out" / "checkpoint.safetensors"
        words = (name, checkpoint, folder / "train.txt", folder / "val.txt")
    # From the folder of `benchmarks`, which `-m` has to find.
    output = subprocess.run(
        python("-m", "benchmarks.as_typed.shakespeare_loss", *words),
        cwd=REPOSITORY,
        env=user_environment(),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return float(json.loads(output.splitlines()[-1]))


def step_seconds(name: str, folder: Path) -> float:
    """Median seconds of a step, as the command's own log tells it."""
    if name not in RECIPES:
        times = [
            float(one) / 1e3 for one in STEP_TIME.findall((folder / "printed.txt").read_text())
        ]
        return median(times[FIRST_STEPS:])
    run = next((folder / "runs").iterdir())
    lines = (run / "events.jsonl").read_text("utf-8").splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] in ("step", "evaluation")]
    # Seconds between two step events, unless an evaluation lies between them.
    between = [
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in pairwise(events)
        if before["event"] == after["event"] == "step" and before["step"] >= FIRST_STEPS
    ]
    return median(between)


class Turn:
    """A turn of one contestant in its own folder; what it reached is read after the clock."""

    def __init__(self, name: str, texts: Path) -> None:
        self.name = name
        self.folder = texts / re.sub(r"\W+", "-", name)
        self.folder.mkdir()
        for file in texts.glob("*.txt"):
            shutil.copy(file, self.folder)
        self.command = command_of(name, self.folder)
        self.losses: list[float] = []
        self.step_seconds: list[float] = []

    def __call__(self) -> float:
        seconds = self.command()
        self.losses.append(validation_loss(self.name, self.folder))
        self.step_seconds.append(step_seconds(self.name, self.folder))
        return seconds


def rows(*, rounds: int) -> list[TypedRow]:
    data_file(TEXT)  # raises here if it is missing
    warm_up("torch", "regard.api", "safetensors.torch")
    with TemporaryDirectory() as temporary:
        texts = Path(temporary)
        write_text(texts)
        turns = {name: Turn(name, texts) for name in (OURS, SAME_RECIPE, *PEERS)}
        seconds = interleaved_times(turns, rounds=min(rounds, MAX_ROUNDS))
        return [to_the_same_loss(turns, seconds), one_step(turns, seconds)]


def to_the_same_loss(turns: Mapping[str, Turn], seconds: Seconds) -> TypedRow:
    losses = {name: mean(turns[name].losses) for name in (OURS, *PEERS)}
    if not losses[OURS] <= min(losses[name] for name in PEERS):
        raise RuntimeError(f"regard's recipe ends at a higher loss: {losses}")
    return typed_row(
        "tiny Shakespeare, until nanoGPT's loss",
        {name: seconds[name] for name in losses},
        peer=PEER,
        documented=PEER,
        commands={name: turns[name].command for name in losses},
        goal=TO_LOSS_GOAL,
        same_work=in_words(losses),
        notes=[
            "architecture, text and characters in a step are nanoGPT's; the schedule is ours",
            f"with nanoGPT's schedule {median(seconds[SAME_RECIPE]):.0f} s",
        ],
    )


def one_step(turns: Mapping[str, Turn], seconds: Seconds) -> TypedRow:
    contestants = {OURS: turns[SAME_RECIPE]} | {name: turns[name] for name in PEERS}
    return typed_row(
        "a step of it, as the commands log it",
        {name: turn.step_seconds for name, turn in contestants.items()},
        peer=PEER,
        documented=PEER,
        commands={name: turn.command for name, turn in contestants.items()},
        goal=STEP_GOAL,
        unit="ms",
        same_work="12 × 64 characters, lr 1e-3 with a cosine over 2,000 steps on all sides; "
        + in_words({name: mean(turn.losses) for name, turn in contestants.items()}),
    )


def in_words(losses: Mapping[str, float]) -> str:
    each = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
    return f"nats per character of the same validation text: {each}"
