"""Causal language modelling: at each place, tell the next token.

loss = −Σ_t log p(x_{t+1} | x_1 … x_t)
"""

from __future__ import annotations

import numpy as np

from regard.objectives import OBJECTIVES, Objective
from regard.text.batches import Example
from regard.text.rows import Document


@OBJECTIVES.add("causal", families=("decoder",))
class Causal(Objective):
    """Tell the next token at every place."""

    def example(self, document: Document, generator: np.random.Generator) -> Example:
        segments = document.segments
        weights = np.ones(len(document.ids) - 1, dtype=np.float32)
        if segments is not None:
            # That a new document begins after the last one ended is no knowledge: <start> always
            # follows <stop>, and counting it would flatter the loss.
            weights[segments[1:] != segments[:-1]] = 0.0
        return Example(
            inputs=document.ids[:-1],
            targets=document.ids[1:],
            weights=weights,
            segments=None if segments is None else segments[:-1],
        )
