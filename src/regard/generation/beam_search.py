"""Beam search: keep the most likely few continuations, return the best for its length.

    score = log p(y) / ((5 + |y|) / 6)^α        |y| counts the stop; Wu et al., 2016 (GNMT)

A continuation that stops leaves the beam and takes its place in it along, so a beam of width 1 is
greedy search, and one wide enough to lose nothing is exhaustive search (Sutskever et al., 2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from pydantic import Field
from torch import Tensor

from regard.core.settings import Settings


class BeamSearch(Settings):
    """Search for the most likely continuation, several at a time."""

    width: int = Field(default=4, ge=1)
    "Continuations kept for each prompt."
    length_penalty: float = Field(default=0.6, ge=0)
    "α: 0 compares log-probabilities, which favours short ones; larger favours longer ones."

    def score(self, logprob: float, length: int) -> float:
        return logprob / float(((5 + length) / 6) ** self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """A continuation with its log-probability; once it stopped, that of the stop is in it."""

    ids: tuple[int, ...] = ()
    logprob: float = 0.0
    stopped: bool = False

    @property
    def length(self) -> int:
        return len(self.ids) + self.stopped


@dataclass
class Hypotheses:
    """The search for one prompt: those still growing, and the best that stopped."""

    beam: BeamSearch
    max_new: int
    growing: list[Hypothesis] = field(default_factory=lambda: [Hypothesis()])
    places_taken: int = 0
    best_stopped: Hypothesis | None = None

    def grow(self, logprobs: Tensor, *, stop: int | None) -> tuple[list[int], list[int]]:
        """One token further, given (growing, v) log-probabilities: for each hypothesis that now
        grows, the one it came from and the token it got."""
        so_far = torch.tensor([[h.logprob] for h in self.growing], dtype=torch.float64)
        totals = (so_far + logprobs).flatten()
        positions = min(self.beam.width - self.places_taken, int(totals.isfinite().sum()))
        best = totals.topk(positions)
        grown, parents, tokens = [], [], []
        for logprob, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(index, logprobs.shape[1])
            ids = self.growing[parent].ids
            if token == stop:
                self._finish(Hypothesis(ids, logprob, stopped=True))
            else:
                grown.append(Hypothesis((*ids, token), logprob))
                parents.append(parent)
                tokens.append(token)
        self.growing = grown
        return parents, tokens

    def best(self) -> Hypothesis:
        """The best by score of what stopped and what is still growing."""
        stopped = [self.best_stopped] if self.best_stopped is not None else []
        return max(stopped + self.growing, key=self._score)

    def is_decided(self) -> bool:
        """No growing hypothesis can overtake any more: at best it keeps its log-probability and
        is divided by the penalty of the longest continuation."""
        if self.best_stopped is None or not self.growing:
            return not self.growing
        reach = max(self.beam.score(h.logprob, self.max_new) for h in self.growing)
        return self._score(self.best_stopped) >= reach

    def _finish(self, hypothesis: Hypothesis) -> None:
        self.places_taken += 1
        if self.best_stopped is None or self._score(hypothesis) > self._score(self.best_stopped):
            self.best_stopped = hypothesis

    def _score(self, hypothesis: Hypothesis) -> float:
        return self.beam.score(hypothesis.logprob, hypothesis.length)
