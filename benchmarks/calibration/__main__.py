"""Writes the calibration page, or some of its sections anew.

.venv/bin/python -m benchmarks.calibration --out docs/studies/calibration.md
.venv/bin/python -m benchmarks.calibration --only power --out docs/studies/calibration.md
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

from benchmarks.calibration import (
    divergence,
    equal_methods,
    group_intervals,
    groups,
    peeking,
    planned_looks,
    power,
    rare_classes,
    several_methods,
    skew,
    standard_errors,
)

SECTIONS = {
    "equal_methods": equal_methods.section,
    "groups": groups.section,
    "group_intervals": group_intervals.section,
    "several_methods": several_methods.section,
    "peeking": peeking.section,
    "planned_looks": planned_looks.section,
    "divergence": divergence.section,
    "skew": skew.section,
    "rare_classes": rare_classes.section,
    "standard_errors": standard_errors.section,
    "power": power.section,
}
"Each a function of the number of studies a row, in the order of the page."

COMMAND = ".venv/bin/python -m benchmarks.calibration --out docs/studies/calibration.md"

HEAD = """# Calibration of verdicts between methods

Made by `{command}`; losses are simulated, no model is trained. Each section is made by its file in
`benchmarks/calibration/`, the simulation of losses by `benchmarks/calibration/simulation.py`; the
test is in `src/regard/evaluation/statistics/significance.py`.
`tests/evaluation/statistics/test_significance.py` asserts the 6 % below.
"""


def stored_sections(page: Path) -> dict[str, str]:
    """The sections of a page that was written before, by name."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    names_and_texts = re.split(r"<!-- section: (\w+) -->\n", text)[1:]
    return dict(zip(names_and_texts[::2], names_and_texts[1::2], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration of verdicts, by simulation.")
    parser.add_argument("--studies", type=int, default=4000, help="a row of equal methods")
    parser.add_argument("--out", type=Path, help="the Markdown page; printed by default")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=SECTIONS,
        default=list(SECTIONS),
        help="sections to simulate anew; the others are kept as they stand in --out",
    )
    arguments = parser.parse_args()
    sections = stored_sections(arguments.out) if arguments.out else {}
    for name in arguments.only:
        began = time.perf_counter()
        sections[name] = SECTIONS[name](arguments.studies)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    page = HEAD.format(command=COMMAND) + "".join(
        f"\n<!-- section: {name} -->\n{sections[name].strip()}\n"
        for name in SECTIONS
        if name in sections
    )
    if arguments.out is None:
        print(page)
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
