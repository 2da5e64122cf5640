"""Events are written as TensorBoard scalars under train/ and dev/."""

import pytest

from regard.training.events import EvaluationEvent, StartEvent, StepEvent
from regard.training.tensorboard import TensorBoardLog


def test_events_are_written_as_scalars(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="the extra `tensorboard` is not installed",
    )
    board = TensorBoardLog(tmp_path, after_step=0)
    board(StartEvent(steps=2))
    board(StepEvent(step=1, loss=4.5, lr=0.1, gradient_norm=2.0))
    board(EvaluationEvent(step=2, loss=3.5, n=4, scores={"perplexity": 33.1}))
    board.close()
    accumulator = reader.EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [(e.step, round(e.value, 3)) for e in accumulator.Scalars("train/loss")] == [(1, 4.5)]
    assert [(e.step, round(e.value, 1)) for e in accumulator.Scalars("dev/perplexity")] == [
        (2, 33.1)
    ]
