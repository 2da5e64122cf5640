"""Prints the tables of docs/studies/overlap.md.

.venv/bin/python -m benchmarks.overlap --data FOLDER
.venv/bin/python -m benchmarks.overlap --data FOLDER --only speed
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.overlap import natural
from benchmarks.overlap.corpora import read_corpora
from benchmarks.overlap.planted import plant_and_search
from benchmarks.overlap.speed import measure


def main() -> None:
    parser = argparse.ArgumentParser(description="What the search for overlap finds, and its cost.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--only", choices=("planted", "speed", "natural"))
    parser.add_argument("--rows", type=int, default=300, help="planted rows of each edit")
    parser.add_argument("--train-rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    corpora = read_corpora(arguments.data)
    if arguments.only in (None, "planted"):
        print_planted(corpora, rows=arguments.rows)
    if arguments.only in (None, "natural"):
        for line in natural.table(arguments.data):
            print(line, flush=True)
    if arguments.only in (None, "speed"):
        print_speed([text for texts in corpora.values() for text in texts], arguments.train_rows)


def print_planted(corpora: dict[str, list[str]], *, rows: int) -> None:
    results = {name: plant_and_search(texts, rows=rows) for name, texts in corpora.items()}
    print(f"| found of planted | {' | '.join(corpora)} | all |")
    print("|---" * (len(corpora) + 2) + "|")
    below = 0
    for edit in next(iter(results.values())):
        cells = [results[name][edit] for name in corpora]
        below += sum(each.named_below for each in cells)
        pairs, found = sum(each.pairs for each in cells), sum(each.found for each in cells)
        counts = " | ".join(f"{each.found} of {each.pairs}" for each in cells)
        print(f"| {edit} | {counts} | {found / pairs:.2%} |", flush=True)
    named = sum(each.named for table in results.values() for each in table.values())
    print(f"\nOf {named:,} named pairs, {below} are below 0.8.")


def print_speed(texts: list[str], rows: int) -> None:
    columns = "training rows|held-out rows|boilerplate|seconds|CPU seconds|peak MB|planted|found"
    print(f"\n| {columns.replace('|', ' | ')} |\n{'|---' * 8}|")
    for count, boilerplate in ((rows // 10, False), (rows, False), (rows, True)):
        with tempfile.TemporaryDirectory() as folder:
            speed = measure(
                texts, Path(folder), rows=count, held_out=10_000, boilerplate=boilerplate
            )
        cells = [
            f"{speed.rows:,}",
            f"{speed.held_out:,}",
            "yes" if boilerplate else "no",
            f"{speed.seconds:.0f}",
            f"{speed.cpu_seconds:.0f}",
            f"{speed.peak_megabytes:.0f}",
            f"{speed.planted:,}",
            f"{speed.found:,}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
