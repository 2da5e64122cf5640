"""Generation: continue a batch of prompts with any model that can take a decode step.

    generate(
        model, prompts, strategy=Sampling(top_p=0.9), max_new_tokens=100, stop=2, pad=0, seed=7
    )

Prompts are decoded as one batch, yet each continuation is what it would be alone: a row's random
numbers come from (seed, index of the prompt), padding is masked, and the context window slides for
each row by its own length (see `decoding_window`). Rows that have stopped leave the batch.
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
from regard.core.process.malloc_tuning import tune_malloc
from regard.generation.beam_search import Beam, BeamSearch
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
    """The continuation of one prompt."""

    ids: tuple[int, ...]
    "The new tokens, without the prompt and without the stop token."
    logprob: float
    "Log-probability in nats, the stop token included, under the model with suppressed tokens "
    "removed; temperature, top-k and top-p decide what is drawn and do not enter it."
    stopped: bool
    "Whether the model generated the stop token; otherwise max_new_tokens ended it."


@dataclass(frozen=True)
class StoppingCriteria:
    """When a continuation ends, and which tokens are never generated."""

    max_new_tokens: int
    stop: int | None
    suppress_tokens: tuple[int, ...]

    def suppress(self, logits: Tensor) -> Tensor:
        """Logits (b, v) with −∞ at suppressed tokens, in single precision at least.

        On the CPU, because not every device has double precision and selection is cheap."""
        if not (logits.is_cpu and logits.dtype is torch.float32):
            logits = logits.to("cpu", torch.promote_types(logits.dtype, torch.float32))
        return logits.index_fill(1, self._ids, -torch.inf) if self.suppress_tokens else logits

    @cached_property
    def _ids(self) -> Tensor:
        return torch.tensor(self.suppress_tokens)


def check_not_nan(logprobs: Sequence[float]) -> None:
    """Refuse NaN; one token per row is enough, as one NaN logit makes its whole row NaN."""
    if any(map(math.isnan, logprobs)):
        raise UserError(
            "the next-token logits are NaN, or all tokens are suppressed",
            topic="generate",
            hint="Check whether the model has diverged, or suppress fewer tokens.",
        )


def generate(
    model: Decodable[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    strategy: Strategy,
    max_new_tokens: int,
    stop: int | None,
    pad: int,
    seed: int = 0,
    first_index: int = 0,
    suppress_tokens: tuple[int, ...] = (),
) -> list[GeneratedTokens]:
    """Continue each prompt by at most `max_new_tokens` tokens, in the order given.

    `stop` is the id of the stop token (EOS); `suppress_tokens` (padding, start, …) are never
    generated. When prompts come in several batches, `first_index` is the index of this batch's
    first prompt, so that no two prompts share random numbers."""
    _check_arguments(
        prompts,
        max_new_tokens=max_new_tokens,
        stop=stop,
        seed=seed,
        suppress_tokens=suppress_tokens,
    )
    if not prompts:
        return []
    tune_malloc()
    criteria = StoppingCriteria(max_new_tokens, stop, suppress_tokens)
    window = DecodingWindow(model, pad=pad)
    with torch.inference_mode(), _evaluation_mode(model):
        if isinstance(strategy, BeamSearch):
            return _beam_search(window, prompts, settings=strategy, criteria=criteria)
        # NumPy's seed sequence mixes both numbers well; torch's CPU generator takes only 32 bits.
        generators = [np.random.default_rng([seed, first_index + n]) for n in range(len(prompts))]
        uniforms = np.stack([generator.random(max_new_tokens) for generator in generators])
        return _decode(window, prompts, strategy=strategy, criteria=criteria, uniforms=uniforms)


def _decode(
    window: DecodingWindow[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    strategy: Greedy | Sampling,
    criteria: StoppingCriteria,
    uniforms: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> list[GeneratedTokens]:
    """Greedy decoding or sampling, token by token."""
    live_uniforms = torch.from_numpy(uniforms)
    generated: list[list[int]] = [[] for _ in prompts]
    logprobs = [0.0] * len(prompts)
    stopped = [False] * len(prompts)
    live = list(range(len(prompts)))  # the prompt of each row of the window
    logits = window.prefill(prompts)
    for step in range(criteria.max_new_tokens):
        logits = criteria.suppress(logits)
        row_logprobs = torch.log_softmax(logits, dim=-1)
        check_not_nan(row_logprobs[:, 0].tolist())
        chosen = strategy.choose(logits, live_uniforms[:, step])
        chosen_logprobs = row_logprobs.gather(1, chosen[:, None]).tolist()
        tokens = chosen.tolist()
        for prompt, token, [logprob] in zip(live, tokens, chosen_logprobs, strict=True):
            logprobs[prompt] += logprob
            if token == criteria.stop:
                stopped[prompt] = True
            else:
                generated[prompt].append(token)
        if criteria.stop in tokens:
            kept = _compact_rows([token != criteria.stop for token in tokens])
            live, rows = [live[row] for row in kept], torch.tensor(kept)
            if live:
                window.select(rows)
                live_uniforms, chosen = live_uniforms[rows], chosen[rows]
        if not live or step + 1 == criteria.max_new_tokens:
            break
        logits = window.advance(chosen)
    return [
        GeneratedTokens(tuple(ids), logprob, is_stopped)
        for ids, logprob, is_stopped in zip(generated, logprobs, stopped, strict=True)
    ]


def _compact_rows(is_live: Sequence[bool]) -> list[int]:
    """The live rows, in an order that leaves most where they are: the last ones fill the gaps, so
    that few cache rows move."""
    live = [row for row, keep in enumerate(is_live) if keep]
    count = len(live)
    moved = iter(row for row in live if row >= count)
    return [row if is_live[row] else next(moved) for row in range(count)]


def _beam_search(
    window: DecodingWindow[AnyCache],
    prompts: Sequence[Sequence[int]],
    *,
    settings: BeamSearch,
    criteria: StoppingCriteria,
) -> list[GeneratedTokens]:
    """Beams of all prompts in one batch; a prompt's rows are adjacent, in its beam's order."""
    beams = [Beam(settings, criteria.max_new_tokens) for _ in prompts]
    open_beams = beams
    logits = window.prefill(prompts)
    for step in range(criteria.max_new_tokens):
        # In double precision: sums of many steps are compared with each other.
        logprobs = torch.log_softmax(criteria.suppress(logits), dim=-1, dtype=torch.float64)
        check_not_nan(logprobs[:, 0].tolist())
        rows: list[int] = []
        tokens: list[int] = []
        still_open: list[Beam] = []
        first_row = 0
        for beam in open_beams:
            end_row = first_row + len(beam.live)
            parents, new_tokens = beam.extend(logprobs[first_row:end_row], stop=criteria.stop)
            if not beam.is_done():
                rows += [first_row + parent for parent in parents]
                tokens += new_tokens
                still_open.append(beam)
            first_row = end_row
        open_beams = still_open
        if not open_beams or step + 1 == criteria.max_new_tokens:
            break
        window.select(torch.tensor(rows))
        logits = window.advance(torch.tensor(tokens))
    best = [beam.best() for beam in beams]
    return [GeneratedTokens(h.ids, h.logprob, h.stopped) for h in best]


def _check_arguments(
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    stop: int | None,
    seed: int,
    suppress_tokens: tuple[int, ...],
) -> None:
    for number, prompt in enumerate(prompts, start=1):
        if not len(prompt):
            raise UserError(
                f"prompt {number:,} has no tokens",
                topic="generate",
                hint="Give at least the start token.",
            )
    if max_new_tokens < 1:
        raise UserError(
            f"max_new_tokens = {max_new_tokens} generates nothing",
            topic="generate",
            hint="Give at least 1.",
        )
    if seed < 0:
        raise UserError(
            f"seed = {seed} is negative", topic="generate", hint="Give 0 or a larger number."
        )
    if stop in suppress_tokens:
        raise UserError(
            f"the stop token {stop} is suppressed, so nothing could ever stop",
            topic="generate",
            hint="Pass stop=None to generate max_new_tokens, or do not suppress it.",
        )


@contextmanager
def _evaluation_mode(model: object) -> Iterator[None]:
    """No dropout while generating; afterwards each module is in its mode before."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
