"""How often the interval of macro-F1 and MCC covers the true value where a class is rare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from regard.evaluation.metrics.classification import ClassificationMetric
from regard.evaluation.metrics.scoring import score
from regard.evaluation.statistics.intervals import Bootstrap
from regard.evaluation.statistics.seed_tables import SeedTables, Values
from regard.evaluation.statistics.significance import method_difference

RARE = 0.03
EQUAL_IN_MACRO_F1 = ((0.9, 0.9), (0.997, 0.2))
"Recall of the frequent label and of the rare one."
NAMES = ("macro_f1", "mcc")
FRACTIONS: tuple[tuple[float, ...], ...] = (
    (0.97, 0.03),
    (0.9, 0.1),
    (0.5, 0.5),
    (0.6, 0.37, 0.03),
    (0.4, 0.3, 0.2, 0.07, 0.03),
)
RECALLS = ((0.98, 0.9), (0.95, 0.1), (0.95, 0.5), (0.8, 0.5), (0.8, 0.9))
"Of the other classes, and of the rarest."

SECTION = """## Macro-F1 and MCC with a rare class

Coverage of the 95 % intervals of one model's scores, {studies:,} samples per row: how often the
interval holds the value of the whole population, at least 90 % in every row. Wrong answers are
spread over the other classes by their frequency. In parentheses the percentile bootstrap alone,
which sees no error that the sample does not have. Where a label has fewer than 20 items, regard
takes the wider of it and a smoothed interval
(`src/regard/evaluation/statistics/smoothing.py`); where a label
has none, it gives no interval and says which label is missing: those samples are in the column *no
interval*, and in no other.

{table}

**Verdicts between methods.** Of two methods with the same macro-F1 in the whole population one
finds the rare label, 3 % of the items, nine times in ten and is right about the other as often; the
other method finds it twice in ten and hardly errs on the other label. The fraction of studies that
find a difference, where each answer is half decided by its item and half by its seed: more than 6 %
where the rare label has few items. A sample without it has another macro-F1, and one with two or
three of them seldom shows how much they vary. Verdicts of a study on macro-F1 and MCC say so below
20 items of a label; they are no 5 % verdicts there.

{verdicts}
"""


def confusion(fractions: Sequence[float], recall: float, rarest: float) -> NDArray[np.float64]:
    """(true, predicted) probabilities; the last class is the rarest."""
    prior = np.asarray(fractions)
    recalls = np.full(len(prior), recall)
    recalls[-1] = rarest
    others = prior * (1 - np.eye(len(prior)))
    wrong = others / others.sum(axis=1, keepdims=True)
    return prior[:, None] * (np.diag(recalls) + (1 - recalls)[:, None] * wrong)


def coverage(
    fractions: Sequence[float], recalls: tuple[float, float], n: int, samples: int
) -> tuple[dict[str, float], dict[str, float], float]:
    """By score: of the interval, and of the bootstrap alone; and the fraction without interval."""
    labels = tuple(str(label) for label in range(len(fractions)))
    metric = ClassificationMetric(labels)
    probabilities = confusion(fractions, *recalls)
    sums = np.stack([np.diag(probabilities), probabilities.sum(0), probabilities.sum(1)])
    # The last class of the statistics is that of truths outside the labels.
    sums = 1e6 * np.concatenate([sums, np.zeros((3, 1))], axis=1).ravel()
    truth = {name: float(metric.score_function(name)(sums)) for name in NAMES}
    generator = np.random.default_rng([n, len(labels), *(int(100 * one) for one in recalls)])
    covered, by_bootstrap, without = (dict.fromkeys(NAMES, 0) for _ in range(3))
    bootstrap = Bootstrap(resamples=1000)
    alone = _WithoutSmoothing(labels)
    for _ in range(samples):
        cells = generator.choice(probabilities.size, size=n, p=probabilities.ravel())
        rows = [
            {
                "item": item,
                "truth": labels[cell // len(labels)],
                "predicted": labels[cell % len(labels)],
            }
            for item, cell in enumerate(cells.tolist())
        ]
        for counts, one in ((covered, metric), (by_bootstrap, alone)):
            for estimate in score(one, rows, split="simulated", bootstrap=bootstrap):
                if estimate.low is None or estimate.high is None:
                    without[estimate.name] += one is metric
                elif estimate.name in counts:
                    counts[estimate.name] += estimate.low <= truth[estimate.name] <= estimate.high
    given = max(1, samples - without["mcc"])
    return (
        {name: count / given for name, count in covered.items()},
        {name: count / given for name, count in by_bootstrap.items()},
        without["mcc"] / samples,
    )


class _WithoutSmoothing(ClassificationMetric):
    def smoothing(self, score_name: str, table: NDArray[np.float64]) -> None:
        return None


def section(studies: int) -> str:
    fewer = max(1, studies // 10)
    return SECTION.format(
        studies=fewer,
        table="\n".join(table(fewer)),
        verdicts="\n".join(verdict_table(max(1, studies // 4))),
    )


def verdict_table(studies: int) -> Iterable[str]:
    yield "| n | items of the rare label, on average | 1 seed | 3 seeds | 10 seeds |"
    yield "|--:|--:|--:|--:|--:|"
    for n in (30, 100, 300, 1000):
        counts = ((1, studies), (3, max(1, studies // 3)), (10, max(1, studies // 5)))
        rates = [verdict_error(n, seeds, number) for seeds, number in counts]
        cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
        yield f"| {n:,} | {RARE * n:.0f} | {cells} |"


def verdict_error(n: int, seeds: int, studies: int) -> float:
    """How often two methods differ whose macro-F1 is the same in the population."""
    metric = ClassificationMetric(("0", "1"))
    macro_f1 = metric.score_function("macro_f1")
    generator = np.random.default_rng([n, seeds])
    found = 0
    for _ in range(studies):
        truth = (generator.random(n) < RARE).astype(int)
        tables = [
            _answers(generator, truth, recalls=np.asarray(recalls), seeds=seeds)
            for recalls in EQUAL_IN_MACRO_F1
        ]
        found += method_difference(*tables, macro_f1).distinguishable
    return found / studies


def _answers(
    generator: np.random.Generator, truth: NDArray[np.int64], *, recalls: Values, seeds: int
) -> SeedTables:
    """Half of what decides an answer is its item's, the same for every seed."""
    shared, own = generator.standard_normal(len(truth)), (seeds, len(truth))
    latent = (shared + generator.standard_normal(own)) / np.sqrt(2)
    predicted = np.where(ndtr(latent) < recalls[truth], truth, 1 - truth)
    true = np.eye(3)[:, np.broadcast_to(truth, predicted.shape)]
    answered = np.eye(3)[:, predicted]
    statistics = np.concatenate([answered * true, answered, true]).swapaxes(0, 1)
    return SeedTables(
        variant=f"recalls {recalls}",
        seeds=tuple(range(seeds)),
        statistics=statistics,
        splits=("simulated",) * seeds,
    )


def table(samples: int) -> Iterable[str]:
    yield "| class fractions | recall, of the rarest | n | no interval | macro-F1 | MCC |"
    yield "|---|---|--:|--:|--:|--:|"
    for fractions in FRACTIONS:
        for recalls in RECALLS:
            for n in (30, 100):
                ours, alone, without = coverage(fractions, recalls, n, samples)
                shares = ", ".join(f"{100 * fraction:.0f} %" for fraction in fractions)
                cells = " | ".join(
                    f"{100 * ours[name]:.0f} % ({100 * alone[name]:.0f})" for name in NAMES
                )
                names = f"{100 * recalls[0]:.0f} %, {100 * recalls[1]:.0f} %"
                yield f"| {shares} | {names} | {n} | {100 * without:.0f} % | {cells} |"
