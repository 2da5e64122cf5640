"""The trainings of a study, several processes of one thread at once against one after the other.

    .venv/bin/python benchmarks/jobs.py --repeats 3
    .venv/bin/python benchmarks/jobs.py --seeds 0 --steps 5 --repeats 1      # the smallest form

Trains every variant of the demo's study with every seed, both ways in turn: as many processes at
once as there are cores, one thread each (what `regard compare --jobs 0` does), and one process at
a time with a thread for each core. The first training fills the token cache and is not measured.
Prints the seconds of each turn, the medians and their ratio; writes them to results/jobs.json
where that folder exists.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from regard.runs.recipe import Recipe
from regard.studies.engines.local import Job, run_jobs
from regard.studies.study import LoadedStudy

HERE = Path(__file__).parent
DEMO = HERE.parent / "recipes" / "dot-vs-additive.toml"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--study", type=Path, default=DEMO)
    asked.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    asked.add_argument("--steps", type=int, default=0, help="of each training; 0: its recipe's own")
    asked.add_argument("--repeats", type=int, default=3)
    given = asked.parse_args()
    cores = len(os.sched_getaffinity(0))
    recipes = {
        (variant.name, seed): shortened(variant.recipe, seed=seed, steps=given.steps)
        for variant in LoadedStudy.load(given.study).variants
        for seed in given.seeds
    }
    ways = {f"{cores} processes × 1 thread": (cores, 1), f"1 process × {cores} threads": (1, cores)}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        os.environ["REGARD_CACHE"] = str(Path(name) / "cache")
        train(Path(name) / "first", dict([next(iter(recipes.items()))]), at_once=1, threads=cores)
        for turn in range(given.repeats):
            # In turn, and every other time the other way round: neither is always the warm one.
            for way in list(ways) if turn % 2 == 0 else list(reversed(ways)):
                at_once, threads = ways[way]
                folder = Path(name) / f"{turn}-{at_once}"
                seconds = train(folder, recipes, at_once=at_once, threads=threads)
                taken[way].append(seconds)
                print(f"turn {turn}  {way:24} {seconds:8.1f} s", flush=True)
    several, single = (median(taken[way]) for way in ways)
    print(f"{len(recipes)} trainings of {given.study.name}, medians of {given.repeats}")
    for way, seconds in zip(ways, (several, single), strict=True):
        print(f"{way:24} {seconds:8.1f} s")
    print(f"one after the other / at once {single / several:.2f}")
    keep(taken, ratio=single / several, trainings=len(recipes), study=given.study.name)


def shortened(recipe: Recipe, *, seed: int, steps: int) -> Recipe:
    """The recipe with that seed and, where asked for, fewer steps."""
    own: dict[str, object] = {"max_steps": steps, "epochs": None} if steps else {}
    train = recipe.train.model_copy(update={"seed": seed, **own})
    return recipe.model_copy(update={"train": train})


def train(
    folder: Path, recipes: dict[tuple[str, int], Recipe], *, at_once: int, threads: int
) -> float:
    """Seconds until all are finished, reports included."""
    (folder / "recipes").mkdir(parents=True)
    jobs = [
        Job(name, seed, with_threads(recipe, threads), folder / name / f"seed-{seed}")
        for (name, seed), recipe in recipes.items()
    ]
    began = time.perf_counter()
    ended = run_jobs(jobs, at_once=at_once, recipes=folder / "recipes")
    seconds = time.perf_counter() - began
    failed: Sequence[str] = [f"{one.job.title}: {one.reason}" for one in ended if one.reason]
    if failed:
        sys.exit(f"not measured: {failed[0]}")
    for job in jobs:
        figures = json.loads((job.folder / "figures.json").read_text())
        if figures["environment"]["threads"] != threads:
            sys.exit(
                f"not measured: {job.title} ran on {figures['environment']['threads']} threads"
            )
    return seconds


def with_threads(recipe: Recipe, threads: int) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"threads": threads})})


def keep(taken: dict[str, list[float]], **facts: object) -> None:
    results = HERE / "results"
    if results.is_dir():
        machine = {"cores": len(os.sched_getaffinity(0)), "platform": platform.platform()}
        table = {"seconds": taken, **facts, "machine": machine}
        (results / "jobs.json").write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
