"""A study: `regard compare` against its trainings typed one by one, and two at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.as_typed.command import RECIPE_FOLDER, REPOSITORY, Command, regard, warm_up
from benchmarks.as_typed.row import MAX_ROUNDS, TypedRow, typed_row
from benchmarks.speed.timing import OURS, interleaved_times

STUDY = "study.toml"
BASE = "small-gpt.toml"
KINDS, SEEDS = ("dot", "additive"), (0, 1)
ONE_BY_ONE, TWO_AT_A_TIME = "its trainings one by one", "its trainings two at a time"
GOAL = 1.0


def by_hand(*, at_once: int) -> str:
    """The shell's line that trains every variant with every seed."""
    trainings = [
        " ".join(
            (
                *regard("train", BASE, "--out", f"runs/{kind}-{seed}"),
                *("--set", f"model.attention.kind={kind}", "--set", f"train.seed={seed}"),
            )
        )
        for kind in KINDS
        for seed in SEEDS
    ]
    if at_once == 1:
        return " && ".join(trainings)
    turns = [trainings[first : first + at_once] for first in range(0, len(trainings), at_once)]
    return " && ".join("{ " + " & ".join(turn) + " & wait; }" for turn in turns)


def rows(*, rounds: int) -> list[TypedRow]:
    warm_up("torch", "regard.api")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copy(RECIPE_FOLDER / STUDY, folder)
        shutil.copy(REPOSITORY / "recipes" / BASE, folder)
        outputs = ("runs", "cache")
        commands = {OURS: Command(regard("compare", STUDY), folder, outputs=outputs)}
        for name, at_once in ((ONE_BY_ONE, 1), (TWO_AT_A_TIME, 2)):
            line = ("sh", "-c", by_hand(at_once=at_once))
            commands[name] = Command(line, folder, outputs=outputs)
        return [
            typed_row(
                f"a study of {len(KINDS)} kinds of attention × {len(SEEDS)} seeds",
                interleaved_times(commands, rounds=min(rounds, MAX_ROUNDS)),
                peer="its trainings by hand",
                documented=ONE_BY_ONE,
                commands=commands,
                goal=GOAL,
                same_work=f"{len(KINDS) * len(SEEDS)} runs of {BASE}; the study compares them too",
            )
        ]
