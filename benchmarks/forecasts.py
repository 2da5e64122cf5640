"""How near a training's own forecast comes to the time that it takes, over ten recipes.

Each is typed as `regard train RECIPE` with empty caches. What it takes is the time between the
events `start` and the finished results, to the millisecond: updates, evaluations, samples, and of
language models the n-grams. The forecast is the first one that the run printed; the last one was
corrected while it ran.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import REPOSITORY, Command, regard, warm_up
from benchmarks.speed.timing import Ratio, Row

RECIPES = (
    "mini-gpt",
    "mini-llama",
    "mini-bert",
    "small-gpt",
    "opinions",
    "birthplaces",
    "passages",
    "translation",
    "summarisation",
    "digits",
)
GROUP = "forecast"
GOAL = 1.25


def rows(*, rounds: int = 1) -> Iterator[Row]:
    """One round, whatever `rounds` says: recipes take up to minutes each."""
    del rounds
    warm_up("torch", "regard.api")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(REPOSITORY / "recipes", folder, dirs_exist_ok=True)
        measured = {name: measure(train(name, folder)) for name in RECIPES}
    for which, place in (("first", 0), ("last", -1)):
        ratios = {name: one.forecasts[place] / one.seconds for name, one in measured.items()}
        yield Row(
            GROUP,
            f"the {which} forecast of {len(ratios)} recipes",
            "×",
            ratios,
            Ratio.single(max(max(ratio, 1 / ratio) for ratio in ratios.values())),
            "factor between forecast and time, the largest",
            GOAL,
            better="lower",
            notes=[", ".join(f"{name} {one.seconds:.0f} s" for name, one in measured.items())],
        )


@dataclass(frozen=True)
class Measured:
    """What a training took, and what it forecast in turn, in seconds."""

    seconds: float
    forecasts: Sequence[float]


def train(name: str, folder: Path) -> Path:
    Command(regard("train", f"{name}.toml", "--out", f"runs/{name}"), folder, outputs=("cache",))()
    return folder / "runs" / name


def measure(run: Path) -> Measured:
    results = json.loads((run / "results.json").read_text("utf-8"))
    events = [json.loads(line) for line in (run / "events.jsonl").read_text("utf-8").splitlines()]
    started = next(event["time"] for event in events if event["event"] == "start")
    seconds = datetime.fromisoformat(results["finished"]) - datetime.fromisoformat(started)
    made = [event["forecast"] for event in events if event["event"] == "forecast"]
    forecasts = [one["seconds"] + one["evaluation_seconds"] for one in made]
    return Measured(seconds.total_seconds(), forecasts)
