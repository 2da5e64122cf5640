"""Generation: continue many prompts at once with any model that can take a step.

    generate(model, prompts, strategy=Sample(top_p=0.9), max_new=100, stop=2, pad=0, seed=7)

Prompts go through the model together, yet each continuation is what it would be alone: a row's
random numbers come from (seed, number of the prompt), padding is invisible, and the window slides
for each row by its own length (see `window`). Rows that have stopped leave the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.errors import UserError
from regard.core.malloc_tuning import tune_malloc
from regard.generation.beam_search import BeamSearch, Hypotheses
from regard.generation.decoding_window import AnyCache, Decodable, DecodingWindow
from regard.generation.sampling import Greedy, Sampling

__all__ = [
    "BeamSearch",
    "Decodable",
    "GeneratedTokens",
    "Greedy",
    "Sampling",
    "Strategy",
    "generate",
]

Strategy: TypeAlias = Greedy | Sampling | BeamSearch


@dataclass(frozen=True)
class GeneratedTokens:
    """What was written behind one prompt."""

    ids: tuple[int, ...]
    "The continuation, without the prompt and without the stop."
    logprob: float
    "Its log-probability in nats, the stop's included, by the model without its forbidden ids; "
    "temperature and cuts decide what is drawn, not how likely the model holds it."
    stopped: bool
    "Whether the model ended it; otherwise max_new did."


@dataclass(frozen=True)
class StoppingCriteria:
    """When a continuation ends, and what may never stand in it."""

    max_new: int
    stop: int | None
    forbidden: tuple[int, ...]

    def allowed(self, logits: Tensor) -> Tensor:
        """Scores (b, v) with the forbidden ids taken out, in single precision at least.

        On the CPU, because not every device has double precision and choosing is a small job."""
        scores = logits
        if not (logits.is_cpu and logits.dtype is torch.float32):
            scores = logits.to("cpu", torch.promote_types(logits.dtype, torch.float32))
        return scores.index_fill(1, self.never, -torch.inf) if self.forbidden else scores

    @cached_property
    def never(self) -> Tensor:
        return torch.tensor(self.forbidden)


def check_numbers(logprobs: Sequence[float]) -> None:
    """Of one token in each row: a score that is none makes all of its row so."""
    if any(map(math.isnan, logprobs)):
        raise UserError(
            "the model's scores for the next token are not numbers, or all are forbidden",
            topic="generate",
            hint="Look for a diverged model, or forbid fewer ids.",
        )


def generate(
    model: Decodable[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    strategy: Strategy,
    max_new: int,
    stop: int | None,
    pad: int,
    seed: int = 0,
    first_number: int = 0,
    forbidden: tuple[int, ...] = (),
) -> list[GeneratedTokens]:
    """Continue each prompt by at most `max_new` tokens, in the order given.

    `forbidden` ids (padding, start, …) are never written. Where prompts come in several batches,
    `first_number` is the number of this batch's first, so that no two share random numbers."""
    _check(prompts, max_new=max_new, stop=stop, seed=seed, forbidden=forbidden)
    if not prompts:
        return []
    tune_malloc()
    ending = StoppingCriteria(max_new, stop, forbidden)
    window = DecodingWindow(model, pad=pad)
    with torch.inference_mode(), _without_dropout(model):
        if isinstance(strategy, BeamSearch):
            return _search(window, prompts, beam=strategy, ending=ending)
        # NumPy's seed sequence mixes both numbers well; torch's CPU generator takes but 32 bits.
        generators = [np.random.default_rng([seed, first_number + n]) for n in range(len(prompts))]
        uniforms = np.stack([generator.random(max_new) for generator in generators])
        return _write(window, prompts, strategy=strategy, ending=ending, uniforms=uniforms)


def _write(
    window: DecodingWindow[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    strategy: Greedy | Sampling,
    ending: StoppingCriteria,
    uniforms: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> list[GeneratedTokens]:
    """One token after another, each chosen for good."""
    numbers = torch.from_numpy(uniforms)
    written: list[list[int]] = [[] for _ in prompts]
    logprobs = [0.0] * len(prompts)
    stopped = [False] * len(prompts)
    going = list(range(len(prompts)))  # prompts whose row still grows
    logits = window.open(prompts)
    for step in range(ending.max_new):
        scores = ending.allowed(logits)
        likely = torch.log_softmax(scores, dim=-1)
        check_numbers(likely[:, 0].tolist())
        chosen = strategy.choose(scores, numbers[:, step])
        taken, tokens = likely.gather(1, chosen[:, None]).tolist(), chosen.tolist()
        for prompt, token, [logprob] in zip(going, tokens, taken, strict=True):
            logprobs[prompt] += logprob
            if token == ending.stop:
                stopped[prompt] = True
            else:
                written[prompt].append(token)
        if ending.stop in tokens:
            stay = _staying([token != ending.stop for token in tokens])
            going, rows = [going[row] for row in stay], torch.tensor(stay)
            if going:
                window.select(rows)
                numbers, chosen = numbers[rows], chosen[rows]
        if not going or step + 1 == ending.max_new:
            break
        logits = window.advance(chosen)
    return [
        GeneratedTokens(tuple(ids), total, ended)
        for ids, total, ended in zip(written, logprobs, stopped, strict=True)
    ]


def _staying(stays: Sequence[bool]) -> list[int]:
    """The rows that stay, in places from 0 on: as many as can keep their place, and the last ones
    fill the gaps, so that few caches have to be moved."""
    kept = [row for row, stay in enumerate(stays) if stay]
    count = len(kept)
    moved = iter(row for row in kept if row >= count)
    return [row if stays[row] else next(moved) for row in range(count)]


def _search(
    window: DecodingWindow[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    beam: BeamSearch,
    ending: StoppingCriteria,
) -> list[GeneratedTokens]:
    """Beams of all prompts in one batch; a prompt's rows stand together, in its beam's order."""
    searches = [Hypotheses(beam, ending.max_new) for _ in prompts]
    open_searches = searches
    logits = window.open(prompts)
    for step in range(ending.max_new):
        # In double precision: sums of many steps are compared with each other.
        logprobs = torch.log_softmax(ending.allowed(logits), dim=-1, dtype=torch.float64)
        check_numbers(logprobs[:, 0].tolist())
        rows: list[int] = []
        tokens: list[int] = []
        still_open: list[Hypotheses] = []
        first_row = 0
        for search in open_searches:
            last_row = first_row + len(search.growing)
            parents, grown = search.grow(logprobs[first_row:last_row], stop=ending.stop)
            if not search.is_decided():
                rows += [first_row + parent for parent in parents]
                tokens += grown
                still_open.append(search)
            first_row = last_row
        open_searches = still_open
        if not open_searches or step + 1 == ending.max_new:
            break
        window.select(torch.tensor(rows))
        logits = window.advance(torch.tensor(tokens))
    best = [search.best() for search in searches]
    return [GeneratedTokens(found.ids, found.logprob, found.stopped) for found in best]


def _check(
    prompts: Sequence[Sequence[int]],
    *,
    max_new: int,
    stop: int | None,
    seed: int,
    forbidden: tuple[int, ...],
) -> None:
    for number, prompt in enumerate(prompts, start=1):
        if not len(prompt):
            raise UserError(
                f"prompt {number:,} has no tokens",
                topic="generate",
                hint="Give at least the start token.",
            )
    if max_new < 1:
        raise UserError(
            f"max_new = {max_new} asks for nothing", topic="generate", hint="Give at least 1."
        )
    if seed < 0:
        raise UserError(
            f"seed = {seed} is negative", topic="generate", hint="Give 0 or a larger number."
        )
    if stop in forbidden:
        raise UserError(
            f"the stop id {stop} is forbidden, so nothing could ever stop",
            topic="generate",
            hint="Pass stop=None to write to max_new, or allow it.",
        )


@contextmanager
def _without_dropout(model: object) -> Iterator[None]:
    """Evaluation mode while generating; then each module as it was, for a training in progress."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
