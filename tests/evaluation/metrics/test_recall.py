from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UserError
from regard.evaluation.metrics.metric import build_metric
from regard.evaluation.metrics.recall import RecallMetric
from regard.evaluation.metrics.scoring import score

rows = st.lists(
    st.fixed_dictionaries(
        {"predicted": st.sampled_from(["Oslo", "oslo.", "Rome"]), "truths": st.just(["Oslo"])},
        optional={"seen": st.booleans(), "answered": st.booleans()},
    ),
    min_size=1,
    max_size=20,
)


@given(rows)
def test_every_score_is_a_proportion_of_its_rows(drawn: list[dict[str, Any]]) -> None:
    items = [{"item": number, **row} for number, row in enumerate(drawn)]
    estimates = {one.name: one for one in score(RecallMetric(), items, split="dev")}

    def accuracy(subset: list[dict[str, Any]]) -> float:
        return sum(row["predicted"] != "Rome" for row in subset) / len(subset)

    split = {
        "exact_match": items,
        "exact_match_seen": [row for row in items if row.get("seen") is True],
        "exact_match_unseen": [row for row in items if row.get("seen") is False],
        "exact_match_answered": [row for row in items if row.get("answered") is True],
    }
    for name, subset in split.items():
        assert (name in estimates) == bool(subset)
        if subset:
            assert estimates[name].value == pytest.approx(accuracy(subset))
            assert estimates[name].n == len(subset)
    judged = [row["answered"] for row in items if "answered" in row]
    if judged:
        assert estimates["coverage"].value == pytest.approx(sum(judged) / len(judged))


def test_settings_round_trip_and_unknown_score_raises() -> None:
    assert build_metric(RecallMetric(items="people").settings()) == RecallMetric(items="people")
    with pytest.raises(UserError, match="did you mean exact_match_seen"):
        RecallMetric().score_function("exact_match_sen")
