"""How a study's findings are written, the same on the page, on paper and in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.evaluation.formatting import (
    ABSENT,
    capitalise,
    count,
    interval,
    metric_label,
    number,
    quantity,
    split_label,
)
from regard.reports.evidence import Evidence, against_baseline
from regard.runs.archive.record import ScoreRecord
from regard.studies.outcome import Outcome, VariantOutcome, VerdictOutcome
from regard.studies.seed_spread import SeedSpread

WITHOUT_WINNER = ("not distinguishable", "not compared")
ONE_SEED = (
    "One seed: the intervals speak of these trained models on items like these, not of the "
    "methods. Another seed would train other models, and how far that moves the figures is not "
    "known; train at least 3 seeds, better 5."
)


def size_of(outcome: Outcome) -> str:
    """`2 variants × 5 seeds · 412,318 training tokens each, in the same order`"""
    seeds, variants = len(outcome.seeds), len(outcome.variants)
    said = f"{quantity(variants, 'variants')} × {quantity(seeds, 'seeds')}"
    tokens = {variant.tokens for variant in outcome.variants if variant.tokens}
    if len(tokens) != 1:
        return said
    same = "" if outcome.unequal else ", in the same order"
    return f"{said} · {count(tokens.pop())} training tokens each{same}"


def short_name(figure: str) -> str:
    """`dev perplexity` for dev.perplexity."""
    where, _, what = figure.partition(".")
    return f"{where} {what.replace('_', ' ')}"


def long_name(figure: str) -> str:
    """`Perplexity per token, dev set`"""
    where, _, what = figure.partition(".")
    return f"{capitalise(metric_label(what))}, {split_label(where)}"


def sentence(verdict: VerdictOutcome) -> str:
    """The verdict with both names in it, whatever it is."""
    if verdict.words.startswith(WITHOUT_WINNER[0]):
        return f"{verdict.variant} and {verdict.reference} are {verdict.words}"
    if verdict.words.startswith(WITHOUT_WINNER[1]):
        return f"{verdict.variant} is not compared with {verdict.reference}"
    return verdict.words


def verdicts_by_figure(outcome: Outcome) -> dict[str, list[VerdictOutcome]]:
    """The deciding figure first."""
    grouped: dict[str, list[VerdictOutcome]] = {}
    for one in sorted(outcome.verdicts, key=lambda one: one.figure != outcome.decides):
        grouped.setdefault(one.figure, []).append(one)
    return grouped


def nothing_judged(outcome: Outcome) -> str:
    """Why there is no verdict at all."""
    if len(outcome.variants) < 2:
        return "One variant alone is compared with nothing."
    return "Nothing could be compared."


def seeds_of(outcome: Outcome, verdict: VerdictOutcome) -> Sequence[int | None]:
    """Whose per-seed differences they are; None where that cannot be told."""
    usable = {
        name: [run.seed for run in outcome.variant(name).runs if not run.reason]
        for name in (verdict.variant, verdict.reference)
    }
    shared = [seed for seed in usable[verdict.variant] if seed in usable[verdict.reference]]
    if len(shared) == len(verdict.per_seed):
        return shared
    return [None] * len(verdict.per_seed)


def spread_text(spread: SeedSpread | None) -> str:
    """`118.4 [113.9, 123.2]`"""
    if spread is None:
        return ABSENT
    ends = interval(spread.low, spread.high, beside=spread.value)
    return f"{number(spread.value)} {ends}".strip()


def audit_word(variant: VariantOutcome) -> str:
    """`clean`, `INVALID`, `COLLAPSED`, or what else the audit said, in a word or two."""
    if not variant.is_ranked:
        return "COLLAPSED" if variant.is_valid else "INVALID"
    return str(variant.audit["verdict"]) if variant.audit else "none"


def known(value: float) -> float | None:
    """None for what was not measured."""
    return None if math.isnan(value) else value


def baseline_rows(evidence: Evidence, metric: str) -> list[tuple[str, dict[str, ScoreRecord], str]]:
    """Each baseline: its figure on every part, and how the variants stand on the deciding one."""
    figures = [ScoreRecord.model_validate(row) for row in evidence.outcome.baselines]
    decides = evidence.outcome.decides.partition(".")[0]
    rows = []
    for of in dict.fromkeys(figure.of for figure in figures if figure.metric == metric):
        here = {f"{f.part}.{metric}": f for f in figures if (f.of, f.metric) == (of, metric)}
        deciding = here.get(f"{decides}.{metric}")
        standing = against_baseline(evidence, deciding) if deciding else ""
        rows.append((of, here, standing))
    return rows
