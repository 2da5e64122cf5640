"""TensorBoard gets the curves of the events, under names of their own."""

import pytest

from regard.training.tensorboard import TensorBoardLog


def test_curves_are_written(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="the extra `tensorboard` is not installed",
    )
    board = TensorBoardLog(tmp_path, after_step=0)
    board({"event": "start", "steps": 2})
    board({"event": "step", "step": 1, "loss": 4.5, "lr": 0.1, "gradient_norm": 2.0})
    board({"event": "evaluation", "step": 2, "loss": 3.5, "figures": {"perplexity": 33.1}})
    board.close()
    found = reader.EventAccumulator(str(tmp_path))
    found.Reload()
    assert [(e.step, round(e.value, 3)) for e in found.Scalars("train/loss")] == [(1, 4.5)]
    assert [(e.step, round(e.value, 1)) for e in found.Scalars("dev/perplexity")] == [(2, 33.1)]
