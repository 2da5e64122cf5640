"""A study of hundreds of tiny runs: does the 200th cost more than the 10th?

    .venv/bin/python -m benchmarks.many_runs                    # 4 variants × 50 seeds
    .venv/bin/python -m benchmarks.many_runs --seeds 5          # minimal
    .venv/bin/python -m benchmarks.many_runs --engine ray       # on a Ray cluster of this machine

Trains the study in a temporary folder, and prints the seconds from one finished run to the next
around the 10th and at the end, memory and CPU seconds of the study's own process (the driver), the
seconds of report, of judging again, and of `regard runs`. Writes results/many-runs.json, or
many-runs-ray.json, if that folder exists.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import tomli_w

from regard import api
from regard.runs.observer import JobState, ObservedJob, Observer

HERE = Path(__file__).parent
VARIANTS = {"a": 1e-2, "b": 5e-3, "c": 2e-3, "d": 1e-3}
WINDOW = 10
"Runs whose median stands for the first and for the last ones."
RECIPE: dict[str, Any] = {
    "data": {"corpus": "text.txt"},
    "tokenizer": {"kind": "word"},
    "model": {"family": "decoder", "layers": 1, "heads": 2, "width": 16, "context": 16},
    "train": {"max_steps": 5, "batch_tokens": 256, "checkpoint_every": 0, "evaluate_every": 0},
    "samples": {"prompts": [""], "max_new_tokens": 4},
}


class Recorder:
    """When each run finished, and the memory of this process then."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.memory: list[int] = []
        self.driver_cpu: list[float] = []

    def on_job(self, state: JobState, job: ObservedJob, detail: str) -> None:
        if state == "failed":
            sys.exit(f"not measured: {job.title}: {detail}")
        if state == "finished":
            self.seconds.append(time.perf_counter())
            self.memory.append(resident_bytes())
            self.driver_cpu.append(time.process_time())

    def seconds_per_run(self) -> list[float]:
        return [
            after - before for before, after in zip(self.seconds, self.seconds[1:], strict=False)
        ]


def resident_bytes() -> int:
    """Of this process; Linux only, as this benchmark is."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def write_study(folder: Path, *, seeds: int) -> Path:
    words = random.Random(0)
    lines = (" ".join(words.choices(["a", "cat", "sees", "one", "bird"], k=6)) for _ in range(400))
    (folder / "text.txt").write_text(".\n".join(lines) + ".\n")
    (folder / "base.toml").write_text(tomli_w.dumps(RECIPE))
    study = {
        "base": "base.toml",
        "seeds": list(range(seeds)),
        "variants": {name: {"train.lr": lr} for name, lr in VARIANTS.items()},
    }
    (folder / "study.toml").write_text(tomli_w.dumps(study))
    return folder / "study.toml"


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["REGARD_CACHE"] = str(Path(name) / "cache")
        study, recorder = write_study(Path(name), seeds=arguments.seeds), Recorder()
        watching = Observer(on_job=recorder.on_job)
        total = timed(lambda: api.compare(study, engine=arguments.engine, observer=watching))
        again = timed(lambda: api.compare(study, observer=Observer()))
        report = timed(lambda: api.report("runs/study"))
        folder_bytes = size_of(Path("runs/study/a/seed-0"))
        command = [sys.executable, "-m", "regard", "runs"]
        listing = timed(lambda: subprocess.run(command, check=True, capture_output=True))
    per_run, memory = recorder.seconds_per_run(), recorder.memory
    results = {
        "runs": len(recorder.seconds),
        "seconds": total,
        "seconds_per_run_first": median(per_run[WINDOW // 2 : WINDOW // 2 + WINDOW]),
        "seconds_per_run_last": median(per_run[-WINDOW:]),
        "driver_cpu_seconds_per_run": (recorder.driver_cpu[-1] - recorder.driver_cpu[0])
        / (len(recorder.driver_cpu) - 1),
        "folder_bytes_per_run": folder_bytes,
        "driver_bytes_first": memory[min(WINDOW, len(memory) - 1)],
        "driver_bytes_last": memory[-1],
        "judge_again_seconds": again,
        "report_seconds": report,
        "list_runs_seconds": listing,
    }
    for key, value in results.items():
        print(f"{key:26} {value:14,.2f}")
    if (HERE / "results").is_dir():
        text = json.dumps({**results, "cores": os.cpu_count()}, indent=2) + "\n"
        suffix = "" if arguments.engine == "local" else f"-{arguments.engine}"
        (HERE / "results" / f"many-runs{suffix}.json").write_text(text)


if __name__ == "__main__":
    main()
