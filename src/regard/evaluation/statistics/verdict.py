"""A verdict: what a difference between methods allows one to say, in words.

    additive is better than dot by 3.1 [1.2, 5.0], n = 904, seeds = 5
    not distinguishable at this size

Where nothing is found, the notes say what stands in the way, seeds or items, and about how many
of them would show a difference as large as the one seen. With one seed they say what one seed
cannot tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.evaluation.metrics.metric import MIN_ITEMS
from regard.evaluation.statistics.estimate import decimals_shown
from regard.evaluation.statistics.significance import MethodDifference

NOT_DISTINGUISHABLE = "not distinguishable at this size"

MAX_SEEDS_REPORTED = 1000
"More are told as out of reach, not as a plan."


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One sentence, and the notes that belong under it."""

    words: str
    notes: tuple[str, ...]
    better: str
    "The better variant; empty where none is found."
    speaks_of: str
    "`the methods`, or `these trained models, not the methods`."

    def __str__(self) -> str:
        return "\n".join((self.words, *self.notes))


def verdict(difference: MethodDifference, *, lower_is_better: bool) -> Verdict:
    """What may be said of a − b."""
    counts = f"n = {difference.n:,}, seeds = {difference.seeds:,}"
    signed = _with_interval(difference.value, difference.low, difference.high, sign="+")
    notes = [*_of_one_seed(difference), *_of_correction(difference)]
    if not difference.distinguishable:
        seen = f"{difference.a} − {difference.b}: {signed}, {counts}"
        return Verdict(
            words=NOT_DISTINGUISHABLE,
            notes=(seen, *notes, *_what_it_takes(difference)),
            better="",
            speaks_of=difference.speaks_of,
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
        notes.append("every seed gave the very same difference: was the seed used at all?")
    return Verdict(
        words=f"{better_model} is better than {worse_model} by {by}, {counts}",
        notes=tuple(notes),
        better=better,
        speaks_of=difference.speaks_of,
    )


def _of_one_seed(difference: MethodDifference) -> list[str]:
    if difference.seeds > 1:
        return []
    return [
        f"the interval speaks of {difference.speaks_of}: one seed cannot tell how far another "
        "would move the figures; train at least 3, better 5"
    ]


def _of_correction(difference: MethodDifference) -> list[str]:
    if difference.p_adjusted is None or difference.compared == 1:
        return []
    return [
        f"one of {difference.compared} comparisons, corrected by Holm: "
        f"p = {_p(difference.p_adjusted)}, interval at {100 * difference.level:.4g} %"
    ]


def _what_it_takes(difference: MethodDifference) -> list[str]:
    items = difference.items
    if difference.n < MIN_ITEMS:
        few = (
            f"1 {items.removesuffix('s')} is"
            if difference.n == 1
            else f"{difference.n} {items} are"
        )
        return [f"{few} too few for a verdict; it takes {MIN_ITEMS}"]
    if difference.se == 0:
        return [f"{difference.a} and {difference.b} gave the very same figures"]
    if not math.isfinite(difference.se):
        return ["the figures are too large to tell how they vary: did a training diverge?"]
    found = f"a difference of {_two_digits(difference.detectable)} is found four times in five"
    if difference.value == 0:
        return [f"no difference is seen at all; at this size {found}"]
    if difference.seeds == 1:
        return [f"between these models, {found}"]
    # Two digits are what the reader sees, so they are what is planned for.
    size = float(f"{abs(difference.value):.2g}")
    seen = _two_digits(size)
    if difference.limits == "seeds":
        needed, limit, other = difference.seeds_needed(size), "seeds", items
        ground = f"on these {difference.n:,} {items}"
    else:
        needed, limit, other = difference.items_needed(size), items, "seeds"
        ground = f"with {difference.seeds} seeds"
    if needed is None or (limit == "seeds" and needed > MAX_SEEDS_REPORTED):
        takes = f"no number of {limit} within reach would show a difference of {seen} {ground}"
    else:
        takes = f"about {_about(needed)} {limit} would show a difference of {seen}"
    # Measured in docs/studies/calibration.md: plans made from two seeds promise too much.
    trust = "; two seeds are a poor guide, often it takes more" if difference.seeds == 2 else ""
    return [f"{limit} limit, not {other}: {takes}", f"at this size {found}{trust}"]


def _with_interval(value: float, low: float, high: float, *, sign: str) -> str:
    """`−1.9 [−6.0, +2.2]`: two digits of the half width, more where an end would read as 0."""
    if not math.isfinite(high - low):
        return f"{_number(value, decimals_shown(value), sign=sign)} (no interval)"
    half = (high - low) / 2
    decimals = _decimals(half, digits=2) if half > 0 else decimals_shown(value)
    ends = [end for end in (low, high) if end != 0]
    # The reader has to see on which side of nought each end lies.
    decimals = max([decimals, *(_decimals(end, digits=1) for end in ends)])
    shown, least, most = (_number(end, decimals, sign=sign) for end in (value, low, high))
    return f"{shown} [{least}, {most}]"


def _decimals(value: float, *, digits: int) -> int:
    """Decimals that show so many significant digits of it, 9 at most."""
    return min(9, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def _number(value: float, decimals: int, *, sign: str) -> str:
    # Rounding leaves a sign on nought, which would read as a side.
    return f"{round(value, decimals) + 0.0:{sign},.{decimals}f}".replace("-", "−")


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,.{_decimals(value, digits=2)}f}" if value else "0"


def _about(count: int) -> str:
    """Two digits: 14, 240, 3,900."""
    return f"{int(float(f'{count:.2g}')):,}"


def _p(value: float) -> str:
    return "below 0.0001" if value < 0.0001 else f"{value:.2g}"
