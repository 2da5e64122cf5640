"""Causal language modelling: predict the next token at every position.

    loss = −Σ_t log p(x_{t+1} | x_1 … x_t)

A document longer than the context is scored in windows that overlap by half: each token is scored
once, given at least half a context. Nothing is skipped: every token and the <stop> count.
"""

from __future__ import annotations

import numpy as np

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary


@OBJECTIVES.add("causal", families=("decoder",))
class Causal(Objective):
    """Predict the next token at every position."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
        segments = document.segments
        weights = np.ones(len(document.ids) - 1, dtype=np.float32)
        if segments is not None:
            # In packed rows <start> always follows <stop>: predicting it is trivial and would
            # flatter the loss.
            weights[segments[1:] != segments[:-1]] = 0.0
        return Example(
            inputs=document.ids[:-1],
            targets=document.ids[1:],
            weights=weights,
            segments=None if segments is None else segments[:-1],
        )

    def evaluation_examples(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        inputs, targets = wrapped[:-1], wrapped[1:]
        windows, scored = [], 0
        while scored < len(targets):
            end = min(len(targets), context if scored == 0 else scored + _stride(context))
            begin = max(0, end - context)
            weights = np.zeros(end - begin, dtype=np.float32)
            weights[scored - begin :] = 1.0
            window = Example(inputs[begin:end], targets[begin:end], weights)
            windows.append(ScoredExample(window, np.arange(scored, end)))
            scored = end
        return windows

    def evaluation_positions(self, tokens: Ints, *, context: int) -> int:
        targets = tokens.astype(np.int64) + 1
        further_windows = np.maximum(0, -(-(targets - context) // _stride(context)))
        return int(np.where(targets <= context, targets, context * (1 + further_windows)).sum())


def _stride(context: int) -> int:
    return max(1, context // 2)
