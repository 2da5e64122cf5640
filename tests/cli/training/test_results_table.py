"""A run's figures in the terminal: however narrow it is, no figure is cut."""

import io

import pytest
from rich.console import Console

from regard.cli.training import results_table

BASELINE = "BM25 (k1 = 1.2, b = 0.75, plain words)"


def figure(of: str, metric: str, value: float) -> dict[str, object]:
    return {
        "split": "test",
        "of": of,
        "metric": metric,
        "value": value,
        "low": value - 0.044,
        "high": value + 0.041,
        "n": 157,
        "items": "queries",
    }


@pytest.mark.parametrize("width", [90, 120])
def test_names_give_way_before_figures_do(monkeypatch, width):
    screen = io.StringIO()
    monkeypatch.setattr(
        results_table, "console", lambda: Console(file=screen, width=width, highlight=False)
    )
    metrics = ("ndcg_at_10", "recall_at_100", "mrr")
    results_table.print_results(
        {
            "figures": [figure(of, name, 0.49) for of in ("model", BASELINE) for name in metrics],
            "comparisons": [
                {"split": "test", "against": BASELINE, "verdict": "not distinguishable from"}
            ],
        },
        title="runs/cranfield",
    )
    said = screen.getvalue()
    for whole in ("ndcg at 10", "[0.446, 0.531]", " 157 ", "not distinguishable"):
        assert whole in said
    assert ("recall at 100" in said) is (width == 120)
    assert "…" not in said
    assert all(len(line) <= width for line in said.splitlines() if "trained model" not in line)
