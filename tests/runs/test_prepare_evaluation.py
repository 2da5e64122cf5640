"""What a final evaluation takes of the data alone is there before the training."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.errors import UserError
from regard.runs.experiment import Experiment, build_experiment, training_plan
from regard.runs.observer import SILENT
from regard.runs.recipe import Recipe

OPINIONS = {
    "name": "opinions",
    "data": {"corpus": "opinions"},
    "tokenizer": {"kind": "word"},
    "task": {"kind": "classification"},
    "model": {"family": "encoder", "width": 16, "heads": 2, "layers": 1, "context": 32},
    "train": {"max_steps": 2, "batch_tokens": 256, "threads": 1},
    "evaluate": {"documents": 40},
}


@pytest.fixture
def experiment() -> Experiment:
    return build_experiment(Recipe.from_dictionary(OPINIONS), initial_model=None, observer=SILENT)


def test_baselines_are_fitted_before_the_training_and_not_again(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment.prepare_evaluation(SILENT)
    prepared: Any = experiment.prepared

    def baselines(*_: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(prepared.problem, "baselines", baselines)
    results = prepared.evaluate(experiment.model, device="cpu", observer=SILENT)
    assert {one.against for one in results.comparisons} > {"majority class"}


def test_the_speed_of_evaluation_is_part_of_the_plan(experiment: Experiment) -> None:
    before = {name: tensor.clone() for name, tensor in experiment.model.state_dict().items()}
    assert training_plan(experiment).position_seconds is None
    experiment.prepare_evaluation(SILENT)
    seconds = training_plan(experiment).position_seconds
    assert seconds is not None
    assert seconds > 0
    assert all(before[name].equal(now) for name, now in experiment.model.state_dict().items())


def test_rows_that_are_too_few_for_a_metric_are_not_timed(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate_dev(*_: object, **__: object) -> None:
        raise UserError("3 rows are too few", topic="metric")

    monkeypatch.setattr(experiment.prepared, "evaluate_dev", evaluate_dev)
    experiment.prepare_evaluation(SILENT)
    assert training_plan(experiment).position_seconds is None
