"""A verdict: the conclusion that a difference between methods supports, in words.

    additive is better than dot by 3.1 [1.2, 5.0], n = 904, seeds = 5
    not distinguishable at this size

    not distinguishable yet                 (at a planned look, and more are to come)

Without a significant difference, the notes say whether seeds or items limit the study, and about
how many of them would detect a difference as large as the observed one. With one seed they say that
the interval does not cover other seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.evaluation.formatting import decimals_shown, in_groups, number, p_value, quantity
from regard.evaluation.statistics.baseline_verdict import too_few_items
from regard.evaluation.statistics.significance import MethodDifference

NOT_DISTINGUISHABLE = "not distinguishable at this size"
NOT_YET = "not distinguishable yet"

MAX_SEEDS_REPORTED = 1000
"More seeds than this are reported as out of reach."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One sentence and its notes."""

    sentence: str
    notes: tuple[str, ...]
    better: str
    "The better variant; empty where neither is."
    scope: str
    "`the methods`, or `these trained models, not the methods`."

    def __str__(self) -> str:
        return "\n".join((self.sentence, *self.notes))


def verdict(difference: MethodDifference, *, lower_is_better: bool) -> Verdict:
    """The verdict on a − b."""
    counts = f"n = {difference.n:,}{in_groups(difference.groups)}, seeds = {difference.seeds:,}"
    signed = _with_interval(difference.value, difference.low, difference.high, sign="+")
    notes = [
        *_note_on_one_seed(difference),
        *_note_on_skew(difference),
        *_note_on_correction(difference),
        *_note_on_look(difference),
    ]
    if not difference.distinguishable:
        is_open = difference.look is not None and not difference.look.is_last
        observed = f"{difference.a} − {difference.b}: {signed}, {counts}"
        return Verdict(
            sentence=NOT_YET if is_open else NOT_DISTINGUISHABLE,
            notes=(observed, *notes, *_notes_on_power(difference)),
            better="",
            scope=difference.scope,
        )
    names = (difference.a, difference.b)
    better, worse = names if (difference.value < 0) == lower_is_better else names[::-1]
    low, high = sorted((abs(difference.low), abs(difference.high)))
    by = _with_interval(abs(difference.value), low, high, sign="-")
    if difference.seeds == 1:
        better_model, worse_model = f"this {better} model", f"this {worse} model"
    else:
        better_model, worse_model = better, worse
    if difference.se_seeds is not None and difference.se_seeds <= 1e-12 * abs(difference.value):
        notes.append("every seed gave exactly the same difference: was the seed used at all?")
    return Verdict(
        sentence=f"{better_model} is better than {worse_model} by {by}, {counts}",
        notes=tuple(notes),
        better=better,
        scope=difference.scope,
    )


def _note_on_one_seed(difference: MethodDifference) -> list[str]:
    if difference.seeds > 1:
        return []
    return [
        f"the interval covers {difference.scope}: one seed does not show how much scores vary "
        "from seed to seed; train at least 3, better 5"
    ]


def _note_on_skew(difference: MethodDifference) -> list[str]:
    if not difference.is_skewed:
        return []
    skewed = "the differences of the seeds are strongly skewed: t is tested at a fifth of the level"
    if difference.p_sign_flips is None:
        needed = difference.seeds_for_sign_flips
        return [
            f"{skewed}; a sign-flip test needs {needed} seeds, and there are {difference.seeds}"
        ]
    return [
        f"{skewed}, beside sign flips (p = {p_value(difference.p_sign_flips)}); the weaker decides"
    ]


def _note_on_correction(difference: MethodDifference) -> list[str]:
    if difference.p_adjusted is None or difference.comparisons == 1:
        return []
    return [
        f"one of {difference.comparisons} comparisons, corrected by Holm: "
        f"p = {p_value(difference.p_adjusted)}, interval at {100 * difference.level:.4g} %"
    ]


def _note_on_look(difference: MethodDifference) -> list[str]:
    look = difference.look
    if look is None:
        return []
    seeds = look.plan.seeds
    at = f"look {look.index + 1} of {len(seeds)}, at {difference.seeds} of {seeds[-1]} seeds"
    level = f"tested at {100 * (1 - difference.level):.2g} %, so that all looks together keep 5 %"
    if not difference.distinguishable or look.is_last:
        return [f"{at}: {level}"]
    return [
        f"decided at {at}: {level}; differences that stop a study early are too large on average, "
        "and the interval allows for it"
    ]


def _notes_on_plan(difference: MethodDifference) -> list[str]:
    """The power of a plan, in place of advice how many seeds it takes."""
    notes = []
    detectable, chance = difference.detectable_by_plan(), difference.chance_by_plan()
    if detectable is not None and math.isfinite(detectable):
        notes.append(
            f"the plan finds a difference of {_two_digits(detectable)} four times in five, or more "
            "often"
        )
    if chance is not None:
        notes.append(f"the chance that a later look differs: about {100 * chance:.0f} %")
    return notes


def _notes_on_power(difference: MethodDifference) -> list[str]:
    if few := too_few_items(difference.n, difference.items, groups=difference.groups):
        return [few]
    units = difference.items if difference.groups is None else "groups"
    if difference.se == 0:
        return [f"{difference.a} and {difference.b} have exactly the same scores"]
    if not math.isfinite(difference.se):
        return ["the scores are too large to estimate their variance: did a training run diverge?"]
    if difference.look is not None:
        return _notes_on_plan(difference)
    power = f"a difference of {_two_digits(difference.min_detectable)} is found four times in five"
    if difference.value == 0:
        return [f"the observed difference is zero; at this size {power}"]
    if difference.seeds == 1:
        return [f"between these models, {power}"]
    # The plan is made for the two digits that are printed.
    size = float(f"{abs(difference.value):.2g}")
    observed = _two_digits(size)
    if difference.limiting_factor == "seeds":
        needed, limit, other = difference.seeds_needed(size), "seeds", units
        condition = f"on these {quantity(difference.n, difference.items)}"
    else:
        needed, limit, other = difference.units_needed(size), units, "seeds"
        condition = f"with {difference.seeds} seeds"
    if needed is None or (limit == "seeds" and needed > MAX_SEEDS_REPORTED):
        plan = f"no feasible number of {limit} would show a difference of {observed} {condition}"
    else:
        plan = f"about {_about(needed)} {limit} would show a difference of {observed}"
    # Plans made from two seeds are too optimistic (docs/studies/calibration.md).
    caveat = "; two seeds are a poor guide, often it takes more" if difference.seeds == 2 else ""
    return [f"{limit} limit, not {other}: {plan}", f"at this size {power}{caveat}"]


def _with_interval(value: float, low: float, high: float, *, sign: str) -> str:
    """`−1.9 [−6.0, +2.2]`: two digits of the half width, more where a bound would round to 0."""
    if not math.isfinite(high - low):
        return f"{number(value, sign=sign)} (no interval)"
    half = (high - low) / 2
    decimals = _decimals(half, digits=2) if half > 0 else decimals_shown(value)
    bounds = [bound for bound in (low, high) if bound != 0]
    # The sign of each bound must be visible.
    decimals = max([decimals, *(_decimals(bound, digits=1) for bound in bounds)])
    value_text, low_text, high_text = (
        number(one, decimals=decimals, sign=sign) for one in (value, low, high)
    )
    return f"{value_text} [{low_text}, {high_text}]"


def _decimals(value: float, *, digits: int) -> int:
    """Decimals that show this many significant digits, at most 9."""
    return min(9, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.{_decimals(value, digits=2)}f}" if value else "0"


def _about(count: int) -> str:
    """Two digits: 14, 240, 3,900."""
    return f"{int(float(f'{count:.2g}')):,}"
