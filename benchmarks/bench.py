"""`make bench`: regard beside its peers on the same work, and beside what the machine can do.

    .venv-bench/bin/python -m benchmarks.bench                  # all rows, about 40 minutes
    .venv-bench/bin/python -m benchmarks.bench --only kinds     # some; the page is not written

Writes benchmarks/results/<date>-<vectors>.json, docs/performance.md and its chart. Rows that need
data of one's own (SST-2, the One Billion Words slice) look for it below the folder that REGARD_DATA
names.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

import torch
from benchmarks.speed import (
    fine_tuning,
    generation,
    kinds,
    page,
    peak,
    sentences,
    starting,
    training,
)
from benchmarks.speed.contest import Row
from benchmarks.speed.data import MissingDataError

from regard.core import cpu
from regard.ops.cpu import library

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
REMARKS = HERE / "speed" / "remarks.md"
PARTS: dict[str, Callable[..., Iterable[Row]]] = {
    "training": training.rows,
    "peak": peak.rows,
    "sentences": sentences.rows,
    "kinds": kinds.rows,
    "generation": generation.rows,
    "fine-tuning": fine_tuning.rows,
    "starting": starting.rows,
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked.add_argument("--page-of", type=Path, help="write the page of these results, and no more")
    given = asked.parse_args()
    if given.page_of:
        results = json.loads(given.page_of.read_text(encoding="utf-8"))
        page.write_page(results, DOCS, remarks=REMARKS.read_text(encoding="utf-8"))
        return
    torch.set_num_threads(given.threads)
    results = {"date": date.today().isoformat(), "machine": machine(), "rows": [], "missing": []}
    for name in given.only:
        try:
            for row in PARTS[name](rounds=given.rounds):
                results["rows"].append(row.as_dict())
                print(told(row), flush=True)
        except MissingDataError as reason:
            results["missing"].append(f"{name}: {reason}")
            print(f"{name}: not measured, {reason}", flush=True)
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    whole = set(given.only) == set(PARTS)
    name = [results["date"], results["machine"]["vectors"], *([] if whole else given.only)]
    file = folder / f"{'-'.join(name).lower()}.json"
    file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if whole:
        page.write_page(results, DOCS, remarks=REMARKS.read_text(encoding="utf-8"))
    print(f"written: {file.relative_to(HERE.parent)}")


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "processor": processor_name(),
        "vectors": cpu.simd_capability(),
        "kernels": library.LIBRARY.name if library.LIBRARY else "none",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "an unnamed processor"


def told(row: Row) -> str:
    figures = ", ".join(f"{name} {value:,.1f}" for name, value in row.figures.items())
    sign = "≥" if row.better == "higher" else "≤"
    return (
        f"{'✓' if row.reached else '✗'} {row.work}: {row.ratio.value:.2f} "
        f"[{row.ratio.low:.2f}, {row.ratio.high:.2f}] {row.ratio_of} "
        f"(goal {sign} {row.goal:.3g}); {figures} {row.unit}"
    )


if __name__ == "__main__":
    main()
