"""A metric: per-item statistics, and scores as functions of their sums.

    score = score_function(Σ statistics over items)

One table of per-item statistics therefore serves the score, its bootstrap interval and the paired
difference of two models on the same items (`scoring.py`), and `method_difference` over seeds.

Shapes: c statistics, n items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

from regard.core.catalog import Catalog
from regard.core.errors import UserError, did_you_mean
from regard.evaluation.statistics.item_groups import GroupNumbers, group_numbers
from regard.evaluation.statistics.seed_tables import ScoreFunction, Values, ratio
from regard.evaluation.statistics.smoothing import Smoothing

Row: TypeAlias = Mapping[str, Any]
"One item as stored in items/<split>.jsonl: plain JSON values."

GROUP = "group"
"The field that names an item's group: items of a group are not independent."

METRICS = Catalog("metric", home="regard.evaluation.metrics")

UNBOUNDED = float("inf")


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """The scores of a task, and how they are computed from its rows."""

    kind: ClassVar[str]
    "Its name in the catalogue and in results.json."
    score_names: ClassVar[tuple[str, ...]]
    "The main score first."
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    "Scores of which less is better; of all others more is better."
    score_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}
    "Smallest and largest possible score; scores not listed lie between 0 and 1."
    truth: ClassVar[str] = "truth"
    "The field that must be equal in two rows before they are paired."
    has_independent_items: ClassVar[bool] = True
    "Whether an item's statistics are the same whatever the other items are; ranks are not."

    items: str
    "What n counts, in the plural."

    @abstractmethod
    def statistics(self, rows: Sequence[Row]) -> Values:
        """Per-item statistics (c, n): what each item adds to the sums."""

    @abstractmethod
    def score_function(self, score_name: str) -> ScoreFunction:
        """Sums of the statistics (c, …) to the score (…)."""

    def is_correct(self, row: Row) -> bool | None:
        """Whether the answer is correct; None where answers are graded, as translations are."""
        return None

    def count_index(self, score_name: str) -> int | None:
        """Index of the statistic that is 1 for items the score counts; None if it counts all."""
        return None

    def higher_is_better(self, score_name: str) -> bool:
        return score_name not in self.lower_is_better

    def bounds(self, score_name: str) -> tuple[float, float]:
        """The smallest and the largest possible score."""
        return self.score_bounds.get(score_name, (0.0, 1.0))

    def is_proportion(self, score_name: str) -> bool:
        """Whether the score is a proportion of items, so that Wilson's interval applies."""
        return False

    def smoothing(self, score_name: str, table: Values) -> Smoothing | None:
        """What widens the interval of a table (c, n) whose items are too few for a bootstrap."""
        return None

    def why_no_interval(self, score_name: str, table: Values) -> str:
        """What the items of a table (c, n) lack for any interval; empty if they lack nothing."""
        return ""

    def doubt(self, score_name: str, table: Values) -> str:
        """Why a difference of two methods on these items (c, n) is less certain than its test says;
        empty if nothing is known against it."""
        return ""

    def needs_same_tokens(self, score_name: str) -> bool:
        """Whether two models compare only on the same tokens, not merely on the same items."""
        return False

    def facts(self, score_name: str, rows: Sequence[Row]) -> dict[str, object]:
        """What else decides the value, for the signature."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Plain values for JSON, from which `build_metric` rebuilds the metric."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
        return {"kind": self.kind} | plain

    def check_name(self, score_name: str) -> str:
        """Return the name; raise if this metric has no score of that name."""
        if score_name not in self.score_names:
            suggestion = did_you_mean(score_name, self.score_names)
            raise UserError(
                f"{self.kind} has no score {score_name}{suggestion}", topic="evaluation"
            )
        return score_name


class RatioMetric(Metric):
    """Every score is the ratio of two sums."""

    ratios: ClassVar[Mapping[str, tuple[int, int]]]
    "By score, the main one first: indices of the statistic summed and of the one that counts."

    def __init_subclass__(cls) -> None:
        cls.score_names = tuple(cls.ratios)

    def score_function(self, score_name: str) -> ScoreFunction:
        return ratio_score(*self.ratios[self.check_name(score_name)])

    def count_index(self, score_name: str) -> int | None:
        return self.ratios[self.check_name(score_name)][1]


AnyMetric = TypeVar("AnyMetric", bound=type[Metric])


def metric_kind(
    name: str,
    *,
    perfect: Sequence[Row],
    bad: Sequence[Row],
    settings: Mapping[str, Any] | None = None,
) -> Callable[[AnyMetric], AnyMetric]:
    """Decorator: register a metric in the catalogue.

    `perfect` and `bad` are rows of the same items: with the best answers possible, and with ones
    that every score rates lower. The contract tests score both. `settings` are example values of
    the fields that have no default."""

    def register(cls: AnyMetric) -> AnyMetric:
        cls.kind = name
        return METRICS.add(name, perfect=perfect, bad=bad, settings=settings or {})(cls)

    return register


def is_lower_better(score_name: str) -> bool:
    """Whether less of this score is better, by the metric of the catalogue that declares it."""
    return any(score_name in getattr(one.part, "lower_is_better", ()) for one in METRICS)


def build_metric(settings: Mapping[str, Any]) -> Metric:
    """Rebuild a metric from its `settings`."""
    kind = str(settings.get("kind", ""))
    fields = {name: value for name, value in settings.items() if name != "kind"}
    part: Callable[..., Metric] = METRICS.get(kind).part
    try:
        return part(**fields)
    except TypeError as error:
        raise UserError(
            f"metric {kind} cannot be built from {', '.join(fields) or 'nothing'}",
            topic="evaluation",
            hint="The file was written by another version of regard, or edited.",
        ) from error


def row_groups(rows: Sequence[Row]) -> GroupNumbers | None:
    """The group of each item; None where every item stands alone."""
    return group_numbers([row.get(GROUP) for row in rows])


def ratio_score(top: int, bottom: int) -> ScoreFunction:
    """Ratio of two sums: a mean, where the second statistic counts items."""

    def score_function(sums: Values) -> Values:
        return ratio(sums[[top, bottom]])

    return score_function
