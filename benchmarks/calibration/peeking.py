"""How often equal methods are found to differ at any of several looks at a growing study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.calibration.simulation import Simulation

from regard.evaluation.statistics.looks import wrong_verdict_rate
from regard.evaluation.statistics.seed_tables import ratio
from regard.evaluation.statistics.significance import method_difference

PATTERNS: tuple[Sequence[int], ...] = ((5,), (3, 5), (3, 5, 8), range(3, 11), range(2, 21))
"Numbers of seeds at which a study is judged."

SECTION = """## Looking again: seeds added until a difference shows

Equal methods, {studies:,} studies per row, n = 20, in nats: the fraction that find a difference at
one of the looks. More than 6 % in all rows but the first, whatever the test: each look is another
attempt. regard therefore keeps every look in the study's `outcome.json`, and each later verdict
says how often a test that was looked at so often is wrong (*as said*; simulated with normal
differences in `src/regard/evaluation/statistics/looks.py`). Where items vary most, it is less.

{table}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 2)
    return SECTION.format(studies=fewer, table="\n".join(table(fewer)))


def any_look_differs(simulation: Simulation, looks: Sequence[int], studies: int) -> float:
    """Fraction of studies of equal methods with a difference at one of the numbers of seeds."""
    found = 0
    for a, b in simulation.studies(studies, seed=5):
        found += any(
            method_difference(a.select(range(seeds)), b.select(range(seeds)), ratio).distinguishable
            for seeds in looks
        )
    return found / studies


def table(studies: int) -> Iterable[str]:
    yield "| judged at | looks | seeds vary most | as said | seeds and items vary alike |"
    yield "|---|--:|--:|--:|--:|"
    for looks in PATTERNS:
        rates = [
            any_look_differs(
                Simulation.balanced(balance, seeds=max(looks), n=20), looks, studies // part
            )
            for balance, part in ((1000.0, 1), (1.0, 2))
        ]
        said = wrong_verdict_rate([range(seeds) for seeds in looks])
        names = (
            f"{looks[0]}, {looks[1]}, … {looks[-1]}"
            if len(looks) > 3
            else ", ".join(map(str, looks))
        )
        cells = " | ".join(f"{100 * rate:.1f} %" for rate in (rates[0], said, rates[1]))
        yield f"| {names} seeds | {len(looks)} | {cells} |"
