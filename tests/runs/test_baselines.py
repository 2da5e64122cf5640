"""Baselines are counted once for the same documents, and again for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.runs.preparation import baselines
from regard.runs.preparation.baselines import counted_baselines

DEV = {"dev": [np.array([1, 2, 3]), np.array([2])]}
SCORED = {"dev": [np.array([True, True, False, True]), np.array([True, True])]}


class Documents(list):
    fingerprint = "train"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    count = baselines.language_model_baselines

    def counted(*arguments: Any, **settings: Any) -> Any:
        made.append(settings)
        return count(*arguments, **settings)

    monkeypatch.setattr(baselines, "_counted", type(baselines._counted)())
    monkeypatch.setattr(baselines, "language_model_baselines", counted)
    return made


def count_them(**changes: Any) -> list[Any]:
    train = Documents([np.array([1, 2, 3, 1, 2]), np.array([3, 1])])
    given = {
        "cache": SimpleNamespace(folder="a", split=lambda name: train),
        "tokenizer": SimpleNamespace(fingerprint="t", size=8, require={"start": 6, "stop": 7}.get),
        "documents": DEV,
        "is_scored": SCORED,
        "order": 3,
        "on_progress": lambda done, total: None,
        **changes,
    }
    cache, tokenizer, documents = (given.pop(key) for key in ("cache", "tokenizer", "documents"))
    return counted_baselines(cache, tokenizer, documents, **given)


def test_the_second_run_on_the_same_documents_counts_nothing(counts) -> None:
    first, second = count_them(), count_them()
    assert len(counts) == 1
    assert [one.label for one in first] == [one.label for one in second]
    assert np.array_equal(first[0].nll["dev"], second[0].nll["dev"])


@pytest.mark.parametrize(
    "change",
    [
        {"order": 2},
        {"documents": {"dev": [np.array([1, 2, 4]), np.array([2])]}},
        {"documents": {"dev": [np.array([1, 2, 3]).astype(np.int16), np.array([2])]}},
        {"is_scored": {"dev": [np.array([True, True, True, True]), np.array([True, True])]}},
        {
            "tokenizer": SimpleNamespace(
                fingerprint="u", size=8, require={"start": 6, "stop": 7}.get
            )
        },
    ],
)
def test_other_documents_are_counted(counts, change: dict[str, Any]) -> None:
    count_them()
    count_them(**change)
    assert len(counts) == 2


def test_only_some_are_kept(counts) -> None:
    for order in (1, 2, 3, 4, 5):
        count_them(order=order)
    assert len(baselines._counted) == baselines.MAX_KEPT
