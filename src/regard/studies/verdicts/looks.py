"""Looks: every time a study was judged at other seeds, kept with its verdicts in outcome.json.

A study that is resumed with more seeds is judged again. What it said before belongs to its result:
whoever stops adding seeds once a difference shows has looked several times. Looks of a plan are
tested at levels that make up for that (`planned_looks.py`), and are said only where others are
among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.evaluation.formatting import join_words
from regard.evaluation.statistics.looks import LEVEL, wrong_verdict_rate

if TYPE_CHECKING:
    from regard.studies.outcome import Outcome, VerdictOutcome

UNKNOWN_DATE = ""
UNREADABLE = (
    "what this study was judged before is not known: its former outcome.json cannot be read"
)


@dataclass(frozen=True)
class LookVerdict:
    """What one look said of a variant against the reference."""

    score_key: str
    variant: str
    reference: str
    better: str
    "The better variant; empty if they were not distinguishable."
    seeds: tuple[int, ...]
    "That both variants had finished."
    value: float
    low: float | None
    high: float | None
    level: float = LEVEL
    "That of a single comparison: at a planned look it is higher."


@dataclass(frozen=True)
class Look:
    """The verdicts of a study at some seeds."""

    date: str
    "When it was first judged at these seeds; empty if its file did not say."
    verdicts: tuple[LookVerdict, ...]

    @property
    def tests(self) -> frozenset[tuple[str, str, str, frozenset[int], float]]:
        """What was tested: the same tests at the same seeds are the same look."""
        return frozenset(
            (one.score_key, one.variant, one.reference, frozenset(one.seeds), one.level)
            for one in self.verdicts
        )


def look_at(outcome: Outcome, *, date: str) -> Look:
    """The verdicts of an outcome; those that compared nothing are none, and no preview is."""
    return Look(
        date,
        tuple(
            LookVerdict(
                score_key=one.score_key,
                variant=one.variant,
                reference=one.reference,
                better=one.better,
                seeds=outcome.shared_seeds(one),
                value=one.value,
                low=one.low,
                high=one.high,
                level=_level(outcome, one),
            )
            for one in outcome.verdicts
            if one.value is not None and not one.is_preview
        ),
    )


def add_look(outcome: Outcome, before: Outcome | None, *, date: str) -> None:
    """Append this look to those of the outcome `before`, and say them in the verdicts."""
    look = look_at(outcome, date=date)
    former = [] if before is None else before.looks or [look_at(before, date=UNKNOWN_DATE)]
    again = next((one for one in former if one.tests == look.tests), None)
    if again is not None:
        look = replace(look, date=again.date)
    others = [one for one in former if one.tests != look.tests and one.verdicts]
    outcome.looks = [*others, *([look] if look.verdicts else [])]
    outcome.verdicts = [
        replace(one, notes=(*one.notes, *notes)) if (notes := _notes(outcome, one)) else one
        for one in outcome.verdicts
    ]


def earlier_looks(outcome: Outcome, verdict: VerdictOutcome) -> list[tuple[Look, LookVerdict]]:
    """What this comparison gave at other seeds, or at another level; each once, in order."""
    key = (verdict.score_key, verdict.variant, verdict.reference)
    is_judged = verdict.value is not None and not verdict.is_preview
    now = (frozenset(outcome.shared_seeds(verdict)), _level(outcome, verdict))
    found = {
        (frozenset(one.seeds), one.level): (look, one)
        for look in outcome.looks
        for one in look.verdicts
        if (one.score_key, one.variant, one.reference) == key
    }
    return [look for test, look in found.items() if not (is_judged and test == now)]


def _level(outcome: Outcome, verdict: VerdictOutcome) -> float:
    if outcome.plan is None or not verdict.look:
        return LEVEL
    return 1 - outcome.plan.alphas[verdict.look - 1]


def _notes(outcome: Outcome, verdict: VerdictOutcome) -> list[str]:
    earlier = earlier_looks(outcome, verdict)
    if not earlier or _is_planned(outcome, earlier):
        return []
    said = "; ".join(
        " ".join(filter(None, (look.date[:10], _conclusion(one)))) for look, one in earlier
    )
    counts = join_words(str(len(one.seeds)) for _, one in earlier)
    unit = "seed" if counts == "1" else "seeds"
    before = f"judged before at {counts} {unit} ({said})"
    looks = [(one.seeds, one.level) for _, one in earlier if len(one.seeds) > 1]
    seeds = outcome.shared_seeds(verdict)
    if verdict.value is not None and not verdict.is_preview and len(seeds) > 1:
        looks.append((seeds, _level(outcome, verdict)))
    if len(looks) < 2:
        return [before]
    rate = 100 * wrong_verdict_rate(
        [seeds for seeds, _ in looks], levels=[level for _, level in looks]
    )
    if any(level != LEVEL for _, level in looks):
        return [
            f"{before}: with looks outside its plan the study is wrong in {rate:.0f} % of null "
            "cases, not in 5 %"
        ]
    return [
        f"{before}: a 5 % test looked at {len(looks)} times is wrong in {rate:.0f} % of null cases"
    ]


def _is_planned(outcome: Outcome, earlier: Sequence[tuple[Look, LookVerdict]]) -> bool:
    """Whether all that was judged before are looks of the plan that the study has now."""
    plan = outcome.plan
    if plan is None:
        return False
    planned = {
        (seeds, round(1 - alpha, 9)) for seeds, alpha in zip(plan.seeds, plan.alphas, strict=True)
    }
    return all((len(one.seeds), round(one.level, 9)) in planned for _, one in earlier)


def _conclusion(look: LookVerdict) -> str:
    return f"{look.better} better" if look.better else "not distinguishable"
