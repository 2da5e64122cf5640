"""How much of the machine a study used: seconds of training, of all that its slots could have had.

    efficiency = sum of training seconds / (slots × wall seconds)

Training seconds are those of the loops, evaluations on dev included: imports, preparation, audits,
final evaluations, comparison and waiting are what is missing to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.evaluation.formatting import duration, quantity


@dataclass(frozen=True)
class Efficiency:
    """Of the last call that trained something, from its start to its verdicts."""

    slots: int
    "Trainings that may run in parallel; their mean over time where nodes come and go."
    trainings: int
    training_seconds: float
    "Sum over the trainings."
    wall_seconds: float
    nodes: int | None = None
    "Of a cluster, at the end; None on one machine."

    @property
    def rate(self) -> float:
        return self.training_seconds / max(self.slots * self.wall_seconds, 1e-9)

    @property
    def sentence(self) -> str:
        """`efficiency 0.67: 10 trainings of 95 s in all, 2 slots, 71 s`"""
        on_nodes = f" on {quantity(self.nodes, 'nodes')}" if self.nodes is not None else ""
        return (
            f"efficiency {self.rate:.2f}: {quantity(self.trainings, 'trainings')} of "
            f"{duration(self.training_seconds)} in all, {quantity(self.slots, 'slots')}{on_nodes}, "
            f"{duration(self.wall_seconds)}"
        )
