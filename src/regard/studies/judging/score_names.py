"""What the name of a score says: whether more or less of it is better, and its range."""

from __future__ import annotations

import math
import re

from regard.core.errors import UserError

Bounds = tuple[float, float]

FRACTIONS = {
    *("accuracy", "acc", "em", "exact", "match", "correct", "f1", "precision", "recall"),
    *("pass", "passed", "solved", "resolved", "wins", "mrr", "ndcg", "includes", "choice"),
}
"Words in the name of a score between 0 and 1 of which more is better."
FRACTIONS_OR_PERCENT = {"bleu", "chrf", "rouge", "meteor", "comet", "auc", "auroc"}
"Words in the name of a score that some tools write from 0 to 1 and others from 0 to 100."
HIGHER = FRACTIONS | FRACTIONS_OR_PERCENT | {"mcc", "reward"}
WRONG_FRACTIONS = {"incorrect", "wrong", "failed", "brier"}
NOT_NEGATIVE = {"perplexity", "ppl", "wer", "cer", "ter", "mse", "rmse", "mae", "error", "errors"}
LOWER = WRONG_FRACTIONS | NOT_NEGATIVE | {"loss", "nll", "nats", "err", "bpb", "bits"}


def direction(name: str, lower_is_better: bool | None) -> bool:
    """Whether less is better: as the user says, else by the words of the name."""
    if lower_is_better is not None:
        return lower_is_better
    words = _words(name)
    lower, higher = bool(words & LOWER), bool(words & HIGHER)
    if lower == higher:
        raise UserError(
            f"whether more or less {name} is better does not follow from its name",
            topic="judge",
            hint="Say --lower-is-better or --higher-is-better.",
        )
    return lower


def names_a_score(name: str) -> bool:
    return bool(_words(name) & (HIGHER | LOWER))


def is_a_fraction_or_percent(name: str) -> bool:
    return bool(_words(name) & FRACTIONS_OR_PERCENT)


def bounds(name: str) -> Bounds:
    """The smallest and the largest value that an item can have."""
    words = _words(name)
    if words & {"perplexity", "ppl"}:
        return 1.0, math.inf
    if words & NOT_NEGATIVE:
        return 0.0, math.inf
    if words & (FRACTIONS | WRONG_FRACTIONS):
        return 0.0, 1.0
    return -math.inf, math.inf


def _words(name: str) -> set[str]:
    words = re.split(r"[^a-z0-9]+", name.lower())
    # rouge1, rougeL, bleu4: the number is a variant of the metric. f1 keeps its own.
    return {re.sub(r"^(rouge|bleu|chrf)\w*$", r"\1", word) for word in words}
