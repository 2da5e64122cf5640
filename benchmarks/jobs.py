"""The runs of a study: parallel single-threaded processes against sequential multi-threaded ones.

    .venv/bin/python benchmarks/jobs.py --repeats 3
    .venv/bin/python benchmarks/jobs.py --seeds 0 --steps 5 --repeats 1      # minimal

Trains every variant of the demo study with every seed in both configurations, alternating: one
single-threaded process per core in parallel (as `regard compare --jobs 0`), and one process at a
time with one thread per core. The first run fills the token cache and is not measured. Prints the
seconds of each turn, the medians and their ratio; writes them to results/jobs.json if that folder
exists.
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
from regard.studies.engines.job import Job
from regard.studies.engines.local import LocalEngine
from regard.studies.study import LoadedStudy

HERE = Path(__file__).parent
DEMO = HERE.parent / "recipes" / "dot-vs-additive.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", type=Path, default=DEMO)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=0, help="of each run; 0: as in its recipe")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    recipes = {
        (variant.name, seed): with_seed_and_steps(variant.recipe, seed=seed, steps=arguments.steps)
        for variant in LoadedStudy.load(arguments.study).variants
        for seed in arguments.seeds
    }
    configurations = {
        f"{cores} processes × 1 thread": (cores, 1),
        f"1 process × {cores} threads": (1, cores),
    }
    times: dict[str, list[float]] = {name: [] for name in configurations}
    with tempfile.TemporaryDirectory() as name:
        os.environ["REGARD_CACHE"] = str(Path(name) / "cache")
        train(Path(name) / "first", dict([next(iter(recipes.items()))]), processes=1, threads=cores)
        for turn in range(arguments.repeats):
            # Every other turn in reverse order: neither is always the warm one.
            order = list(configurations) if turn % 2 == 0 else list(reversed(configurations))
            for configuration in order:
                processes, threads = configurations[configuration]
                folder = Path(name) / f"{turn}-{processes}"
                seconds = train(folder, recipes, processes=processes, threads=threads)
                times[configuration].append(seconds)
                print(f"turn {turn}  {configuration:24} {seconds:8.1f} s", flush=True)
    parallel, sequential = (median(times[configuration]) for configuration in configurations)
    print(f"{len(recipes)} runs of {arguments.study.name}, medians of {arguments.repeats}")
    for configuration, seconds in zip(configurations, (parallel, sequential), strict=True):
        print(f"{configuration:24} {seconds:8.1f} s")
    print(f"sequential / parallel {sequential / parallel:.2f}")
    write_results(times, ratio=sequential / parallel, runs=len(recipes), study=arguments.study.name)


def with_seed_and_steps(recipe: Recipe, *, seed: int, steps: int) -> Recipe:
    """The recipe with that seed and, unless `steps` is 0, that number of steps."""
    limits: dict[str, object] = {"max_steps": steps, "epochs": None} if steps else {}
    train = recipe.train.model_copy(update={"seed": seed, **limits})
    return recipe.model_copy(update={"train": train})


def train(
    folder: Path, recipes: dict[tuple[str, int], Recipe], *, processes: int, threads: int
) -> float:
    """Seconds until all runs are finished."""
    (folder / "recipes").mkdir(parents=True)
    jobs = [
        Job(name, seed, with_threads(recipe, threads), folder / name / f"seed-{seed}")
        for (name, seed), recipe in recipes.items()
    ]
    began = time.perf_counter()
    with LocalEngine(slots=processes, recipes=folder / "recipes") as engine:
        results = engine.run_jobs(jobs)
    seconds = time.perf_counter() - began
    failed: Sequence[str] = [f"{one.job.title}: {one.reason}" for one in results if one.reason]
    if failed:
        sys.exit(f"not measured: {failed[0]}")
    for job in jobs:
        used = json.loads((job.folder / "results.json").read_text())["environment"]["threads"]
        if used != threads:
            sys.exit(f"not measured: {job.title} ran on {used} threads")
    return seconds


def with_threads(recipe: Recipe, threads: int) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update={"threads": threads})})


def write_results(times: dict[str, list[float]], **facts: object) -> None:
    folder = HERE / "results"
    if folder.is_dir():
        machine = {"cores": len(os.sched_getaffinity(0)), "platform": platform.platform()}
        table = {"seconds": times, **facts, "machine": machine}
        (folder / "jobs.json").write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
