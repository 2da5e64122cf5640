"""Causal language modelling: at each place, tell the next token.

    loss = −Σ_t log p(x_{t+1} | x_1 … x_t)

A document longer than the context is measured in windows that overlap by half: each token is told
once, with at least half a context before it. Nothing is skipped: every token and the <stop> count.
"""

from __future__ import annotations

import numpy as np

from regard.batch import Example, Ints
from regard.data.chunks import Document
from regard.objectives import OBJECTIVES, Objective, ScoredExample, Vocabulary


@OBJECTIVES.add("causal", families=("decoder",))
class Causal(Objective):
    """Tell the next token at every place."""

    def example(
        self, document: Document, generator: np.random.Generator, *, vocabulary: Vocabulary
    ) -> Example:
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

    def scored(
        self, ids: Ints, generator: np.random.Generator, *, context: int, vocabulary: Vocabulary
    ) -> list[ScoredExample]:
        wrapped = np.concatenate(([vocabulary.start], ids, [vocabulary.stop])).astype(np.int64)
        inputs, targets = wrapped[:-1], wrapped[1:]
        rows, told = [], 0
        while told < len(targets):
            end = min(len(targets), context if told == 0 else told + _stride(context))
            begin = max(0, end - context)
            weights = np.zeros(end - begin, dtype=np.float32)
            weights[told - begin :] = 1.0
            row = Example(inputs[begin:end], targets[begin:end], weights)
            rows.append(ScoredExample(row, np.arange(told, end)))
            told = end
        return rows

    def places_scored(self, tokens: Ints, *, context: int) -> int:
        targets = tokens.astype(np.int64) + 1
        further = np.maximum(0, -(-(targets - context) // _stride(context)))
        return int(np.where(targets <= context, targets, context * (1 + further)).sum())


def _stride(context: int) -> int:
    return max(1, context // 2)
