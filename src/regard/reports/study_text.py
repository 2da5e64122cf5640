"""Labels and sentences for a study's results, the same in HTML, Markdown, LaTeX and terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.evaluation.formatting import (
    capitalise,
    count,
    difference,
    join_words,
    metric_label,
    quantity,
    split_label,
    with_interval,
)
from regard.reports.evidence import Evidence, versus_baseline
from regard.runs.results import ScoreRecord
from regard.studies.outcome import Outcome, StudyContamination, VariantOutcome, VerdictOutcome
from regard.studies.verdicts.planned_looks import PREVIEW

WITHOUT_WINNER = ("not distinguishable", "not compared", PREVIEW)
ONE_SEED = (
    "One seed: the intervals hold for these trained models on items like these, not for the "
    "methods. Another seed would train other models, and the variation between seeds is "
    "unknown; train at least 3 seeds, better 5."
)


def study_size(outcome: Outcome) -> str:
    """`2 variants × 5 seeds · 412,318 training tokens each, in the same order`"""
    seeds, variants = len(outcome.seeds), len(outcome.variants)
    size = f"{quantity(variants, 'variants')} × {quantity(seeds, 'seeds')}"
    if (plan := outcome.plan) is not None and seeds < plan.seeds[-1]:
        size = f"{quantity(variants, 'variants')} × {seeds} of {plan.seeds[-1]} planned seeds"
    tokens = {variant.tokens for variant in outcome.variants if variant.tokens}
    if len(tokens) != 1:
        return size
    same = "" if outcome.unequal else ", in the same order"
    return f"{size} · {count(tokens.pop())} training tokens each{same}"


def short_label(score_key: str) -> str:
    """`dev perplexity` for dev.perplexity."""
    split, _, metric = score_key.partition(".")
    return f"{split} {metric.replace('_', ' ')}"


def long_label(score_key: str) -> str:
    """`Perplexity per token, dev set`"""
    split, _, metric = score_key.partition(".")
    return f"{capitalise(metric_label(metric))}, {split_label(split)}"


def verdict_sentence(verdict: VerdictOutcome) -> str:
    """The verdict, naming both variants."""
    if verdict.sentence.startswith(WITHOUT_WINNER[0]):
        return f"{verdict.variant} and {verdict.reference} are {verdict.sentence}"
    if verdict.sentence.startswith(WITHOUT_WINNER[1]):
        return f"{verdict.variant} is not compared with {verdict.reference}"
    if verdict.sentence.startswith(WITHOUT_WINNER[2]):
        return f"{verdict.variant} against {verdict.reference}: {verdict.sentence}"
    return verdict.sentence


def without_verdict(verdict: VerdictOutcome) -> str:
    """Why a variant is not compared, naming it once."""
    why = "; ".join(verdict.notes)
    named = f"{verdict.variant} "
    why = f"it {why.removeprefix(named)}" if why.startswith(named) else why
    return f"{verdict_sentence(verdict)}: {why}"


def look_rows(outcome: Outcome) -> list[tuple[str, str, str, str, str]]:
    """Each planned look: number, seeds, its share of the 5 %, threshold of t, and what it said of
    the deciding score."""
    plan = outcome.plan
    if plan is None:
        return []
    rows = []
    planned = zip(plan.seeds, plan.alphas, plan.thresholds, strict=True)
    for number_of_look, (seeds, alpha, threshold) in enumerate(planned, 1):
        said = [
            f"{one.variant} − {one.reference}: "
            + difference(one.value, one.low, one.high, decimals=2)
            + (f", {one.better} better" if one.better else "")
            for look in outcome.looks
            for one in look.verdicts
            if (one.score_key, len(one.seeds)) == (outcome.decides, seeds)
            and math.isclose(one.level, 1 - alpha)
        ]
        rows.append(
            (
                str(number_of_look),
                str(seeds),
                f"{100 * alpha:.2g} %",
                f"{threshold:,.3g}",
                "; ".join(said) or ("not taken" if number_of_look > plan.taken else "–"),
            )
        )
    return rows


def verdicts_by_score(outcome: Outcome) -> dict[str, list[VerdictOutcome]]:
    """Verdicts by score key, the deciding one first."""
    grouped: dict[str, list[VerdictOutcome]] = {}
    for verdict in sorted(outcome.verdicts, key=lambda v: v.score_key != outcome.decides):
        grouped.setdefault(verdict.score_key, []).append(verdict)
    return grouped


def no_verdict_reason(outcome: Outcome) -> str:
    """Why the study has no verdict."""
    if len(outcome.variants) < 2:
        return "One variant: nothing to compare it with."
    return "Nothing could be compared."


def paired_seeds(outcome: Outcome, verdict: VerdictOutcome) -> Sequence[int | None]:
    """The seed of each per-seed difference; None where it cannot be determined."""
    shared = outcome.shared_seeds(verdict)
    if len(shared) == len(verdict.per_seed):
        return shared
    return [None] * len(verdict.per_seed)


def audit_label(variant: VariantOutcome) -> str:
    """`clean`, or why its scores are not ranked: `INVALID`, `COLLAPSED` or `DIVERGED`."""
    if not variant.is_valid:
        return "INVALID"
    if not variant.is_ranked:
        return "COLLAPSED" if variant.collapsed else "DIVERGED"
    return variant.audit.verdict if variant.audit else "none"


def audited_seeds(evidence: Evidence, variant: VariantOutcome) -> str:
    """`seed 0 in full; seeds 1 and 2 at their own weights alone, …`: how each seed was audited."""
    audits = {
        seed: record.results.audit
        for seed, record in evidence.records[variant.name].items()
        if record.results is not None and record.results.audit is not None
    }
    ways = {
        "in full": [seed for seed, audit in audits.items() if not audit.audited],
        "by gradients and truncation at their own weights, the rest as of a run of the same "
        "architecture that was audited in full": [
            seed for seed, audit in audits.items() if audit.audited
        ],
    }
    return "; ".join(f"{_seeds(seeds)} {way}" for way, seeds in ways.items() if seeds)


def _seeds(seeds: Sequence[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {join_words(map(str, seeds))}"


def nan_to_none(value: float) -> float | None:
    """None in place of NaN, which stands for a missing value."""
    return None if math.isnan(value) else value


def baseline_rows(evidence: Evidence, metric: str) -> list[tuple[str, dict[str, ScoreRecord], str]]:
    """Each baseline's name, its score on every split, and the variants' verdict against it on the
    deciding split."""
    scores = evidence.outcome.baselines
    deciding_split = evidence.outcome.decides.partition(".")[0]
    rows = []
    for of in dict.fromkeys(score.of for score in scores if score.metric == metric):
        by_key = {f"{s.split}.{metric}": s for s in scores if (s.of, s.metric) == (of, metric)}
        deciding = by_key.get(f"{deciding_split}.{metric}")
        verdict = versus_baseline(evidence, deciding) if deciding else ""
        rows.append((of, by_key, verdict))
    return rows


def all_items_sentence(contamination: StudyContamination, outcome: Outcome) -> str:
    """`test, all 150 rows: accuracy of small 0.767 [0.693, 0.827]; large 0.812 [0.741, 0.867]`"""
    metric = metric_label(outcome.decides.partition(".")[2])
    scores = [f"{name} {with_interval(spread)}" for name, spread in contamination.estimates.items()]
    return f"{contamination.overlap.all_items}: {metric} of {'; '.join(scores)}"
