"""Beam search: keep the most likely continuations, return the best by length-normalised score.

    score = log p(y) / ((5 + |y|) / 6)^α        |y| counts the stop token; Wu et al., 2016 (GNMT)

A hypothesis that stops leaves the beam and its slot is not refilled, so a beam of width 1 is greedy
decoding, and one wide enough to lose nothing is exhaustive search (Sutskever et al., 2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from pydantic import Field
from torch import Tensor

from regard.core.settings import Settings


class BeamSearch(Settings):
    """Search for the most likely continuation, several hypotheses at a time."""

    width: int = Field(default=4, ge=1)
    "Beam width (num_beams): hypotheses kept for each prompt."
    length_penalty: float = Field(default=0.6, ge=0)
    "α: 0 compares log-probabilities, which favours short ones; larger favours longer ones."

    def score(self, logprob: float, length: int) -> float:
        return logprob / float(((5 + length) / 6) ** self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """A continuation and its log-probability, which includes the stop token once it stopped."""

    ids: tuple[int, ...] = ()
    logprob: float = 0.0
    stopped: bool = False

    @property
    def length(self) -> int:
        return len(self.ids) + self.stopped


@dataclass
class Beam:
    """The search for one prompt: live hypotheses, and the best that stopped."""

    settings: BeamSearch
    max_new_tokens: int
    live: list[Hypothesis] = field(default_factory=lambda: [Hypothesis()])
    stopped_count: int = 0
    best_stopped: Hypothesis | None = None

    def extend(self, logprobs: Tensor, *, stop: int | None) -> tuple[list[int], list[int]]:
        """Extend by one token, given (live, v) log-probabilities; for each new live hypothesis the
        index of its parent and its token."""
        so_far = torch.tensor([[h.logprob] for h in self.live], dtype=torch.float64)
        totals = (so_far + logprobs).flatten()
        slots = min(self.settings.width - self.stopped_count, int(totals.isfinite().sum()))
        best = totals.topk(slots)
        extended, parents, tokens = [], [], []
        for logprob, index in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            parent, token = divmod(index, logprobs.shape[1])
            ids = self.live[parent].ids
            if token == stop:
                self._stop(Hypothesis(ids, logprob, stopped=True))
            else:
                extended.append(Hypothesis((*ids, token), logprob))
                parents.append(parent)
                tokens.append(token)
        self.live = extended
        return parents, tokens

    def best(self) -> Hypothesis:
        """The best by score, stopped or live."""
        stopped = [self.best_stopped] if self.best_stopped is not None else []
        return max(stopped + self.live, key=self._score)

    def is_done(self) -> bool:
        """Whether no live hypothesis can overtake any more: at best it keeps its log-probability
        and is divided by the penalty of the maximum length."""
        if self.best_stopped is None or not self.live:
            return not self.live
        best_possible = max(self.settings.score(h.logprob, self.max_new_tokens) for h in self.live)
        return self._score(self.best_stopped) >= best_possible

    def _stop(self, hypothesis: Hypothesis) -> None:
        self.stopped_count += 1
        if self.best_stopped is None or self._score(hypothesis) > self._score(self.best_stopped):
            self.best_stopped = hypothesis

    def _score(self, hypothesis: Hypothesis) -> float:
        return self.settings.score(hypothesis.logprob, hypothesis.length)
