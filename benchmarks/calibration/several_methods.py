"""How often any of several equal methods is found to differ: family-wise error."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.calibration.simulation import Simulation, familywise_detection_rate

from regard.evaluation.statistics.holm import holm

SECTION = """## Several equal methods against one reference

Fraction of studies in which at least one variant differs (family-wise error), {studies:,} studies
per row, n = 100.

{table}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 2)
    return SECTION.format(studies=fewer, table="\n".join(table(fewer)))


def table(studies: int) -> Iterable[str]:
    yield "| methods besides the reference | seeds | regard (Holm) | uncorrected |"
    yield "|--:|--:|--:|--:|"
    for methods in (3, 6):
        for seeds in (3, 5):
            simulation = Simulation.balanced(10.0, seeds=seeds, n=100)
            rates = [
                familywise_detection_rate(simulation, studies, methods=methods + 1, correct=correct)
                for correct in (holm, list)
            ]
            cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
            yield f"| {methods} | {seeds} | {cells} |"
