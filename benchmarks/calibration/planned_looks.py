"""Planned looks: how often equal methods differ, and how many seeds planted differences save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.calibration.simulation import Simulation
from benchmarks.calibration.skew import DISTRIBUTIONS, difference_of

from regard.evaluation.statistics.holm import holm_at_looks
from regard.evaluation.statistics.seed_tables import SeedTables, ratio
from regard.evaluation.statistics.sequential import Boundary, LookPlan, PlannedLook
from regard.evaluation.statistics.significance import MethodDifference, method_difference

BOUNDARIES: tuple[Boundary, ...] = ("pocock", "obrien-fleming")
PLANS = ((3, 5, 8, 12), (5, 10, 15, 20))
ITEMS = 20
ITEM_DEVIATIONS = (0.0, 0.1, 0.3, 1.0, 3.0)
"Standard deviation of the mean over the items, over that of one seed."
PLANTED = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"In standard deviations of the difference of one seed."
FUTILITY = 0.1

SECTION = """## Planned looks: a study that stops when it knows

Equal methods, {studies:,} studies per row, n = {items}, the difference of means: the fraction of
studies that find a difference at any of the planned looks (`seeds = {{ plan = [3, 5, 8, 12] }}`,
`src/regard/evaluation/statistics/sequential.py`). No number may exceed 6 %. *Items to seeds* is the
standard deviation of the mean over the items to that of one seed: items stay the same at every
look, so where they vary the levels are conservative, as S−1 degrees of freedom are anyway. The last
column is the same studies tested at 5 % at each of the four looks.

{equal}

**Several variants.** Holm's steps are taken with the p of the whole plan: m equal variants against
one reference, at the levels that four looks have for 5 %/m, 5 %/(m−1), …; a variant that is decided
stays at its look and leaves its share to the others, and the study goes on until none is open. The
fraction of {several:,} studies in which any variant differs:

{variants}

**Groups.** Items in groups change the standard error and the degrees of freedom of each look's
test, min(S, G)−1, as without a plan; the levels of the looks are the same.

**Seeds saved.** The planted difference is in standard deviations of the difference of one seed;
items do not vary. *Seeds* is the mean number at which a study with these looks stops, of at most
12; *found*, the fraction that find the difference; *one look*, the same for a study of 12 seeds
that is judged once. *Stopped: value* is the mean difference reported by studies that found it
before the last look, over the true one: an early stop overestimates, most where it is least likely.
*Interval holds* is the fraction of all studies whose interval, at the level of the look at which
they stopped, holds the true difference. {power:,} studies per row.

{saved}

With `futility = {futility}` a study also stops where the chance that a later look finds a
difference is below {percent:g} % (pocock, looks at 3, 5, 8, 12; {fewer:,} studies per row):

{futile}

**Skewed scores**, as in the section on them: equal means, only the seeds vary, looks at 3, 5, 8 and
12; {fewer:,} studies per cell. Where both methods vary alike no cell may exceed 6 %. Where only one
is skewed and the other does not vary, an early look meets the tail even less often than all seeds
do: planned looks make that worse, `obrien-fleming` mostly less than `pocock`.

{skewed}
"""


def section(studies: int) -> str:
    fewer = max(1, studies // 4)
    return SECTION.format(
        studies=studies,
        items=ITEMS,
        several=studies // 2,
        power=studies // 2,
        fewer=fewer,
        futility=FUTILITY,
        percent=100 * FUTILITY,
        equal="\n".join(equal_methods(studies)),
        variants="\n".join(several_variants(studies // 2)),
        saved="\n".join(seeds_saved(studies // 2)),
        futile="\n".join(futility(fewer)),
        skewed="\n".join(skewed_seeds(fewer)),
    )


def simulation_of(items_to_seeds: float, seeds: int) -> Simulation:
    """Differences of one seed have a standard deviation of √2 · 0.01."""
    std = 0.01 * items_to_seeds * float(np.sqrt(ITEMS))
    return Simulation(
        seeds=seeds, n=ITEMS, method_seed_std=0.01, method_item_std=std, residual_std=std / 2
    )


@dataclass(frozen=True)
class Stopped:
    """Where a simulated study stopped."""

    difference: MethodDifference
    seeds: int


def at_look(a: SeedTables, b: SeedTables, look: PlannedLook) -> MethodDifference:
    seeds = range(look.plan.seeds[look.index])
    return replace(method_difference(a.select(seeds), b.select(seeds), ratio), look=look)


def run(a: SeedTables, b: SeedTables, plan: LookPlan, *, futility: float = 0.0) -> Stopped:
    """Look by look, until a difference is found."""
    for index in range(len(plan.seeds)):
        look = PlannedLook(plan, index)
        [difference] = holm_at_looks([at_look(a, b, look)], comparisons=1)
        if difference.distinguishable or look.is_last:
            break
        if futility and (difference.chance_by_plan() or 0.0) < futility:
            break
    return Stopped(difference, difference.seeds)


def equal_methods(studies: int) -> Iterator[str]:
    yield "| looks at | items to seeds | pocock | obrien-fleming | 5 % at each look |"
    yield "|---|--:|--:|--:|--:|"
    for seeds in PLANS:
        plans = [LookPlan(seeds, boundary) for boundary in BOUNDARIES]
        for deviation in ITEM_DEVIATIONS:
            found = np.zeros(3)
            for a, b in simulation_of(deviation, seeds[-1]).studies(studies, seed=11):
                looks = [
                    method_difference(a.select(range(one)), b.select(range(one)), ratio)
                    for one in seeds
                ]
                found += [*(_differs(looks, plan) for plan in plans), _any_differs(looks)]
            cells = " | ".join(f"{100 * rate:.1f} %" for rate in found / studies)
            yield f"| {_join(seeds)} | {deviation:g} | {cells} |"


def _differs(looks: Sequence[MethodDifference], plan: LookPlan) -> bool:
    taken = [replace(one, look=PlannedLook(plan, index)) for index, one in enumerate(looks)]
    return any(holm_at_looks([one], comparisons=1)[0].distinguishable for one in taken)


def _any_differs(looks: Sequence[MethodDifference]) -> bool:
    return any(one.distinguishable for one in looks)


def several_variants(studies: int) -> Iterator[str]:
    plan = LookPlan(PLANS[0])
    yield "| variants besides the reference | items to seeds | any differs |"
    yield "|--:|--:|--:|"
    for variants in (3, 6):
        for deviation in (0.0, 0.3):
            simulation = simulation_of(deviation, plan.seeds[-1])
            generator = np.random.default_rng([12, variants])
            found = 0
            for _ in range(studies):
                first, *others = simulation.study(generator, methods=variants + 1)
                found += _any_variant_differs(first, others, plan)
            yield f"| {variants} | {deviation:g} | {100 * found / studies:.1f} % |"


def _any_variant_differs(
    reference: SeedTables, others: Sequence[SeedTables], plan: LookPlan
) -> bool:
    """The first decision is the one that counts: what follows it can only be more of them."""
    for index in range(len(plan.seeds)):
        look = PlannedLook(plan, index)
        differences = [at_look(other, reference, look) for other in others]
        if any(one.distinguishable for one in holm_at_looks(differences, comparisons=len(others))):
            return True
    return False


def seeds_saved(studies: int) -> Iterator[str]:
    seeds = PLANS[0]
    yield "| boundary | planted | seeds | found | one look | stopped: value | interval holds |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for boundary in BOUNDARIES:
        plan = LookPlan(seeds, boundary)
        for planted in PLANTED:
            row = _power_row(planted, plan, studies)
            yield f"| {boundary} | {planted:g} | {row} |"


def _power_row(planted: float, plan: LookPlan, studies: int) -> str:
    true = planted * 0.01 * float(np.sqrt(2))
    counts, found, once, holds, early = [], 0, 0, 0, []
    drawn = simulation_of(0.0, plan.seeds[-1]).studies(studies, planted=true, seed=13)
    for a, b in drawn:
        stopped = run(a, b, plan)
        difference = stopped.difference
        counts.append(stopped.seeds)
        found += difference.distinguishable
        once += method_difference(a, b, ratio).distinguishable
        holds += difference.low <= true <= difference.high
        if difference.distinguishable and stopped.seeds < plan.seeds[-1]:
            early.append(difference.value)
    value = f"{np.mean(early) / true:.2f}" if true and len(early) >= 20 else "–"
    rates = [f"{100 * one / studies:.0f} %" for one in (found, once)]
    return f"{np.mean(counts):.1f} | {' | '.join(rates)} | {value} | {100 * holds / studies:.1f} %"


def futility(studies: int) -> Iterator[str]:
    plan = LookPlan(PLANS[0])
    yield "| planted | seeds | found |"
    yield "|--:|--:|--:|"
    for planted in PLANTED:
        true = planted * 0.01 * float(np.sqrt(2))
        drawn: Iterable[tuple[SeedTables, SeedTables]] = simulation_of(0.0, 12).studies(
            studies, planted=true, seed=14
        )
        stopped = [run(a, b, plan, futility=FUTILITY) for a, b in drawn]
        found = sum(one.difference.distinguishable for one in stopped) / studies
        mean = float(np.mean([one.seeds for one in stopped]))
        yield f"| {planted:g} | {mean:.1f} | {100 * found:.0f} % |"


def skewed_seeds(studies: int) -> Iterator[str]:
    plans = [LookPlan(PLANS[0], boundary) for boundary in BOUNDARIES]
    yield "| scores | alike, pocock | alike, obrien-fleming | one, pocock | one, obrien-fleming |"
    yield "|---|--:|--:|--:|--:|"
    for name, draw in DISTRIBUTIONS.items():
        found = np.zeros((2, len(plans)))
        for row, both in enumerate((True, False)):
            generator = np.random.default_rng([15, both])
            for _ in range(studies):
                scores = draw(generator, (2, PLANS[0][-1]))
                scores[1] *= both
                looks = [difference_of(scores[:, :seeds]) for seeds in PLANS[0]]
                found[row] += [_differs(looks, plan) for plan in plans]
        cells = " | ".join(f"{100 * rate:.1f} %" for rate in found.ravel() / studies)
        yield f"| {name} | {cells} |"


def _join(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
