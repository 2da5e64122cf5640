"""The results table: numbers are never truncated, however narrow the terminal."""

import io

import pytest
from rich.console import Console

from regard.cli import tables
from regard.cli.training import results_table
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.runs.results import ComparisonRecord, EvaluationRecord, ScoreRecord

BASELINE = "BM25 (k1 = 1.2, b = 0.75, plain words)"


def estimate(of: str, metric: str, value: float, groups: int | None = None) -> ScoreRecord:
    return ScoreRecord(
        split="test",
        of=of,
        metric=metric,
        value=value,
        low=value - 0.044,
        high=value + 0.041,
        n=157,
        items="queries",
        groups=groups,
    )


@pytest.mark.parametrize("width", [90, 120])
def test_names_wrap_before_numbers_are_truncated(monkeypatch, width):
    output = io.StringIO()
    console = Console(file=output, width=width, highlight=False)
    for module in (results_table, tables):
        monkeypatch.setattr(module, "console", lambda: console)
    metrics = ("ndcg_at_10", "recall_at_100", "mrr")
    results_table.print_results(
        EvaluationRecord(
            run="cranfield",
            estimates=[estimate(of, name, 0.49) for of in ("model", BASELINE) for name in metrics],
            comparisons=[
                ComparisonRecord(
                    split="test",
                    metric="ndcg_at_10",
                    against=BASELINE,
                    value=0.0,
                    n=157,
                    verdict=BaselineVerdict.NOT_DISTINGUISHABLE,
                )
            ],
        ),
        title="runs/cranfield",
    )
    printed = output.getvalue()
    for text in ("ndcg at 10", "[0.446, 0.531]", " 157 ", "not distinguishable"):
        assert text in printed
    assert ("recall at 100" in printed) is (width == 120)
    assert "…" not in printed
    assert all(len(line) <= width for line in printed.splitlines() if "trained model" not in line)


def test_groups_stand_beside_n(monkeypatch):
    output = io.StringIO()
    console = Console(file=output, width=90, highlight=False)
    for module in (results_table, tables):
        monkeypatch.setattr(module, "console", lambda: console)
    rows = [estimate("model", "mrr", 0.5, groups=31), estimate("model", "hits", 0.5, groups=1)]
    results_table.print_results(EvaluationRecord(run="a", estimates=rows), title="a")
    printed = output.getvalue()
    assert "157 in 31 groups" in printed
    assert "groups of queries" in printed
