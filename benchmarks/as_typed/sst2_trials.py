"""Trials for the row of SST-2: settings of either side, what they reach, and their seconds.

    .venv-bench/bin/python -m benchmarks.as_typed.sst2_trials \\
        --ours "train.lr=2e-4 train.max_steps=400" --seeds 0 1 2 \\
        --peer "--lr 1e-4 --steps 800" "--lr 2e-4 --steps 800"

Each trial is the command that the row types. Ours ends at its last step; the peer at the first
evaluation that reaches `--until`, or at its last step.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from benchmarks.as_typed.command import Command, regard
from benchmarks.as_typed.sst2 import (
    ACCURACY,
    REACHED,
    our_accuracy,
    peer_command,
    prepared_folder,
)
from benchmarks.environment import MEMORY_KEPT, restart_in_user_environment


def main() -> None:
    restart_in_user_environment("benchmarks.as_typed.sst2_trials")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", nargs="*", default=[], help="settings of the recipe, a text each")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--peer", nargs="*", default=[], help="options of the script, a text each")
    parser.add_argument("--until", type=float, default=ACCURACY)
    arguments = parser.parse_args()
    print("| settings | accuracy on dev | seconds |\n|---|---|---|")
    with prepared_folder() as folder:
        for settings in arguments.ours:
            for seed in arguments.seeds:
                changes = [*shlex.split(settings), f"train.seed={seed}"]
                words = [word for change in changes for word in ("--set", change)]
                command = Command(
                    regard("train", "sst2.toml", *words), folder, outputs=("runs", "cache")
                )
                seconds = command()
                reached = our_accuracy(folder / "runs" / "sst2" / "results.json")
                print_trial(f"regard, {' '.join(changes)}", [reached], seconds)
        for settings in arguments.peer:
            options = ("--until", arguments.until, *shlex.split(settings))
            command = peer_command(folder, *options, environment=MEMORY_KEPT)
            seconds = command()
            evaluations = REACHED.findall(command.printed.read_text("utf-8"))
            print_trial(f"Trainer, memory kept, {settings}", map(float, evaluations), seconds)


def print_trial(settings: str, accuracies: Iterable[float], seconds: float) -> None:
    each = ", ".join(f"{one:.4f}" for one in accuracies)
    print(f"| {settings} | {each} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
