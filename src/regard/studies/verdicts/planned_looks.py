"""Looks that a study plans before it runs: it trains seeds look by look and stops when it knows.

    seeds = { plan = [3, 5, 8, 12] }        boundary = "pocock"        futility: only if asked

At a look every variant has the same number of seeds, 0, 1, 2, …, and the deciding score is judged
at the level of that look (`evaluation/statistics/sequential.py`). A comparison that is decided
stays at its look, with the seeds it had. The study stops at the first look that leaves none open,
at the last, or where a look cannot be taken: comparisons of which runs are missing are a preview
and get no verdict, and the same command trains what is missing and takes the look. A variant that
leaks, collapses or diverges is compared by no mean at any look, and one of which every run fails by
none at this one: neither keeps a study going.

All looks are judged again from the run folders each time, so a study that is interrupted, or run
again after it was decided, comes to the same look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field

from regard.core.errors import UserError
from regard.core.settings import Settings
from regard.evaluation.formatting import join_words
from regard.evaluation.statistics.baseline_verdict import too_few_items
from regard.evaluation.statistics.sequential import Boundary, LookPlan, PlannedLook
from regard.evaluation.statistics.significance import ALPHA
from regard.evaluation.statistics.verdict import NOT_DISTINGUISHABLE, NOT_YET

if TYPE_CHECKING:
    from regard.studies.outcome import Outcome, VerdictOutcome
    from regard.studies.study import LoadedStudy

PREVIEW = "a preview, no verdict"
"The sentence of a comparison of which runs are missing at its look."
MIN_SEEDS = 3
"At the first look: of two seeds almost no difference is found, t(1) = 40 at 1.6 %."


class SeedPlan(Settings):
    """Looks planned before the study runs; it stops at the first that decides."""

    plan: tuple[int, ...]
    "How many seeds every variant has at each look, increasing; they are 0, 1, 2, …"
    boundary: Boundary = "pocock"
    """How the 5 % are divided: equally over the looks, which lets early ones decide (pocock), or
    almost all to the last look (obrien-fleming)."""
    futility: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Stop, too, where the chance that a later look finds a difference is below this; default:
    never. It makes no difference to the 5 %."""

    @property
    def looks(self) -> LookPlan:
        return LookPlan(self.plan, self.boundary)

    def check(self, *, where: str) -> None:
        """Raise where these are no looks that could be planned."""
        plan = list(self.plan)
        if len(plan) < 2:
            what, hint = "one look is no plan", "Give two or more, or seeds = [0, 1, 2] as a list."
        elif any(more <= fewer for fewer, more in pairwise(plan)):
            what, hint = "each look needs more seeds than the one before", ""
        elif plan[0] < MIN_SEEDS:
            what, hint = f"the first look needs {MIN_SEEDS} seeds or more", ""
        else:
            return
        raise UserError(f"seeds.plan = {plan}: {what}", topic="study", where=where, hint=hint)


@dataclass(frozen=True)
class LooksRecord:
    """The plan of a study and how far it came, in outcome.json."""

    seeds: tuple[int, ...]
    "At each look."
    boundary: Boundary
    futility: float | None
    comparisons: int
    "That share the 5 %, by Holm's method."
    alphas: tuple[float, ...]
    "The p below which each look differs, of a single comparison."
    thresholds: tuple[float, ...]
    "The same as values of t, with seeds − 1 degrees of freedom."
    taken: int = 0
    "Of the last look that was judged, from 1."
    stopped: str = ""
    "Why the study takes no further look, in words; empty while it goes on."

    @classmethod
    def of(cls, plan: SeedPlan, *, comparisons: int) -> Self:
        looks = plan.looks
        return cls(
            seeds=looks.seeds,
            boundary=looks.boundary,
            futility=plan.futility,
            comparisons=comparisons,
            alphas=looks.alphas(ALPHA),
            thresholds=looks.thresholds(ALPHA),
        )

    @property
    def sentence(self) -> str:
        """`looks were planned at 3, 5 and 8 seeds (pocock); stopped at look 2: …`"""
        planned = (
            f"looks were planned at {join_words(map(str, self.seeds))} seeds ({self.boundary})"
        )
        if not self.stopped:
            return f"{planned}; this is look {self.taken}, and the study goes on"
        return f"{planned}; stopped at look {self.taken}: {self.stopped}"


@dataclass
class PlannedLooks:
    """The looks of a study that runs: which is taken now, and what is decided."""

    plan: SeedPlan
    comparisons: int
    index: int = 0
    decided: dict[tuple[str, str], int] = field(default_factory=dict)
    "By variant and reference: the look that decided."

    @classmethod
    def of(cls, loaded: LoadedStudy) -> Self | None:
        """None where the study has no plan."""
        plan = loaded.study.plan
        compared = [one for one in loaded.variants if one.against != one.name]
        return None if plan is None else cls(plan, max(1, len(compared)))

    def at_this_look(self, loaded: LoadedStudy) -> LoadedStudy:
        """The study with the seeds of this look alone."""
        seeds = tuple(range(self.plan.plan[self.index]))
        return replace(loaded, study=loaded.study.model_copy(update={"seeds": seeds}))

    @property
    def record(self) -> LooksRecord:
        """The plan, before any look."""
        return LooksRecord.of(self.plan, comparisons=self.comparisons)

    @property
    def level(self) -> float:
        """Of the interval of a single variant's score at this look."""
        return 1 - PlannedLook(self.plan.looks, self.index).alpha(ALPHA)

    def look_of(self, variant: str, reference: str) -> PlannedLook:
        """The look at which a comparison stands: the one that decided it, or this one."""
        return PlannedLook(self.plan.looks, self.decided.get((variant, reference), self.index))

    def take(self, outcome: Outcome) -> bool:
        """Keep what this look decided and record it in the outcome; whether another one follows."""
        judged = [one for one in outcome.verdicts if one.score_key == outcome.decides]
        for one in judged:
            if one.better:
                self.decided.setdefault((one.variant, one.reference), self.index)
        stopped = self._why_stopped(judged)
        outcome.plan = replace(self.record, taken=self.index + 1, stopped=stopped)
        outcome.remarks.append(outcome.plan.sentence)
        if stopped:  # what is not distinguishable yet will not be
            outcome.verdicts = [
                replace(one, sentence=NOT_DISTINGUISHABLE) if one.sentence == NOT_YET else one
                for one in outcome.verdicts
            ]
        self.index += not stopped
        return not stopped

    def _why_stopped(self, judged: Sequence[VerdictOutcome]) -> str:
        """Why no look follows this one, in words; empty where one does."""
        if any(one.is_preview for one in judged):
            return "runs are missing, and a look is taken when all of its runs have finished"
        open_ones = [one for one in judged if one.value is not None and not one.better]
        if not open_ones:
            decided = any(one.better for one in judged)
            return "every comparison is decided" if decided else "nothing can be compared"
        hopeful = [one for one in open_ones if not too_few_items(one.n, "items", groups=one.groups)]
        if not hopeful:
            return "more seeds decide nothing on so few items"
        if self.index == len(self.plan.plan) - 1:
            return "it was the last"
        limit = self.plan.futility
        if limit is not None and all(
            one.chance is not None and one.chance < limit for one in hopeful
        ):
            largest = max(one.chance or 0.0 for one in hopeful)
            return (
                f"the chance that a later look differs is {100 * largest:.0f} %, below the "
                f"{100 * limit:.3g} % of futility"
            )
        return ""


def check_plan_kept(before: SeedPlan | None, now: SeedPlan | None, *, home: Path) -> None:
    """Raise where a plan became another one: looks are planned before anything runs."""
    if before is None or now is None or before.looks == now.looks:
        return
    raise UserError(
        f"the looks of {home} were planned as {list(before.plan)} ({before.boundary}) and are "
        f"{list(now.plan)} ({now.boundary}) now",
        topic="study",
        hint="Change them back, or give --out ANOTHER_FOLDER; with seeds as a list the study goes "
        "on without a plan, and its verdict says what that makes of the 5 %.",
    )
