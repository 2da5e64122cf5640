"""`make bench`: regard against its peers on the same work, and against the matmul peak.

    .venv-bench/bin/python -m benchmarks.bench                  # all rows, more than an hour
    .venv-bench/bin/python -m benchmarks.bench --only kinds     # some rows, without the page
    .venv-bench/bin/python -m benchmarks.bench --page-of FILE…  # the page of such results

Writes benchmarks/results/<date>-<simd>-{as-typed,parts}.json, docs/performance.md and its charts.
Rows that need external data (tiny Shakespeare, SST-2, IMDB, One Billion Words) look for it under
REGARD_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from benchmarks.as_typed import encoding, prediction, shakespeare, sst2, study, token_cache
from benchmarks.environment import has_real_time_priority, restart_in_user_environment
from benchmarks.grid.results import newest_draws, together
from benchmarks.speed import (
    fine_tuning,
    generation,
    kinds,
    page,
    peak,
    sentences,
    startup,
    training,
)
from benchmarks.speed.data import MissingDataError
from benchmarks.speed.timing import Row

from benchmarks import forecasts, ranks
from regard.core.process import cpu
from regard.ops.cpu import library

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
REMARKS, OLDER_REMARKS = HERE / "speed" / "remarks.md", HERE / "speed" / "older_remarks.md"
AS_TYPED: dict[str, Callable[..., Iterable[Row]]] = {
    "shakespeare": shakespeare.rows,
    "sst2": sst2.rows,
    "encoding": encoding.rows,
    "prediction": prediction.rows,
    "study": study.rows,
    "token-cache": token_cache.rows,
    "token-processes": token_cache.rows_by_processes,
}
BENCHMARKS: dict[str, Callable[..., Iterable[Row]]] = {
    **AS_TYPED,
    "training": training.rows,
    "peak": peak.rows,
    "sentences": sentences.rows,
    "kinds": kinds.rows,
    "generation": generation.rows,
    "fine-tuning": fine_tuning.rows,
    "startup": startup.rows,
    "forecasts": forecasts.rows,
    "ranks": ranks.rows,
}


def main() -> None:
    restart_in_user_environment("benchmarks.bench")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--rounds", type=int, default=7, help="of commands as typed: at most 3")
    parser.add_argument("--page-of", type=Path, nargs="+", help="only write the page of results")
    arguments = parser.parse_args()
    if arguments.page_of:
        write_page(json.loads(file.read_text(encoding="utf-8")) for file in arguments.page_of)
        return
    files = [
        run_benchmarks(names, rounds=arguments.rounds)
        for names in (
            [name for name in arguments.only if name in AS_TYPED],
            [name for name in arguments.only if name not in AS_TYPED],
        )
        if names
    ]
    if set(arguments.only) == set(BENCHMARKS):
        write_page(json.loads(file.read_text(encoding="utf-8")) for file in files)


def run_benchmarks(names: Sequence[str], *, rounds: int) -> Path:
    """Run them and write their rows, after each: some take long. Other rows of the day stay."""
    results: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine(),
        "in_user_environment": True,
        "rows": [],
        "missing": [],
    }
    kind = "as-typed" if names[0] in AS_TYPED else "parts"
    day = f"{results['date']}-{results['machine']['simd']}-{kind}"
    file = HERE / "results" / f"{day.lower()}.json"
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        again = tuple(f"{name}: " for name in names)
        results["rows"] = before["rows"]
        results["missing"] = [one for one in before["missing"] if not one.startswith(again)]
    for name in names:
        try:
            for row in BENCHMARKS[name](rounds=rounds):
                others = [other for other in results["rows"] if other["work"] != row.work]
                results["rows"] = [*others, row.as_dict()]
                print(row_text(row), flush=True)
        except MissingDataError as reason:
            results["missing"].append(f"{name}: {reason}")
            print(f"{name}: not measured, {reason}", flush=True)
        text = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
        file.write_text(text, encoding="utf-8")
    print(f"written: {file.relative_to(HERE.parent)}")
    return file


def write_page(results: Iterable[dict[str, Any]]) -> None:
    page.write_page(
        list(results),
        DOCS,
        remarks=REMARKS.read_text(encoding="utf-8"),
        older_remarks=OLDER_REMARKS.read_text(encoding="utf-8"),
        grid=newest_grid(),
    )


def newest_grid() -> dict[str, Any] | None:
    files = (HERE / "results").glob("grid-*.json")
    draws = newest_draws(json.loads(file.read_text(encoding="utf-8")) for file in files)
    return together(draws) if draws else None


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu_name(),
        "simd": cpu.simd_capability(),
        "kernels": library.description(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "real_time": has_real_time_priority(),
    }


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "an unnamed CPU"


def row_text(row: Row) -> str:
    medians = ", ".join(f"{name} {value:,.1f}" for name, value in row.medians.items())
    sign = "≥" if row.better == "higher" else "≤"
    return (
        f"{'✓' if row.reached else '✗'} {row.work}: {row.ratio.value:.2f} "
        f"[{row.ratio.low:.2f}, {row.ratio.high:.2f}] {row.ratio_of} "
        f"(goal {sign} {row.goal:.3g}); {medians} {row.unit}"
    )


if __name__ == "__main__":
    main()
