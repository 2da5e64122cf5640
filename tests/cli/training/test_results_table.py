"""The results table: numbers are never truncated, however narrow the terminal."""

import io

import pytest
from rich.console import Console

from regard.audits.findings import UnusedParameter
from regard.cli import tables
from regard.cli.training import results_table
from regard.evaluation.statistics.baseline_verdict import BaselineVerdict
from regard.runs.health_record import HealthRecord, TrainDevGapRecord
from regard.runs.results import AuditRecord, ComparisonRecord, EvaluationRecord, ScoreRecord

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


def printed_results(monkeypatch, width, **fields):
    output = io.StringIO()
    console = Console(file=output, width=width, highlight=False)
    for module in (results_table, tables):
        monkeypatch.setattr(module, "console", lambda: console)
    rows = [estimate("model", "accuracy", 0.56), estimate("majority class", "accuracy", 0.5)]
    record = EvaluationRecord(run="a", estimates=rows, comparisons=[], **fields)
    results_table.print_results(record, title="runs/a")
    return output.getvalue()


def test_no_number_is_lost_where_the_terminal_is_narrower_than_the_numbers(monkeypatch):
    printed = printed_results(monkeypatch, 40)
    for text in ("0.560", "[0.516, 0.601]", "majority class", "157"):
        assert text in printed
    assert "…" not in printed


@pytest.mark.parametrize("fit", ["overfitting", "learned too little", "alike"])
def test_overfitting_is_said_beside_the_scores(monkeypatch, fit):
    gap = TrainDevGapRecord(fit=fit, sentence="dev is worse", gap=1.0, low=0.9, high=1.1)
    printed = printed_results(monkeypatch, 100, health=HealthRecord(train_dev_gap=gap))
    assert ("dev is worse" in printed) is (fit == "overfitting")


def test_parameters_that_are_unused_by_design_are_left_to_the_audit(monkeypatch):
    names = {"key.bias": "its gradient is rounding noise", "mine.scale": "it has no gradient"}
    unused = tuple(UnusedParameter(name, (3,), why) for name, why in names.items())
    audit = AuditRecord(verdict="clean", sentence="clean", unused_parameters=unused)
    printed = printed_results(monkeypatch, 100, audit=audit)
    assert "mine.scale" in printed
    assert "key.bias" not in printed


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
