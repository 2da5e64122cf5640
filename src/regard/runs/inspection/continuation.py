"""A text that a model goes on from, and how probable each of its tokens was.

    row = <start> prompt continuation        a seq2seq model: <start> continuation, from a source

Probabilities are the model's own, over its whole vocabulary. `drawn` is the probability under the
strategy, whose temperature, top-k and top-p decide what is drawn. Both are those that decoding saw
(`row_states.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.generation.decoding_setup import prepare_decoding, suppressed_ids
from regard.generation.generate import GeneratedTokens, Greedy, Sampling, Strategy, generate
from regard.generation.row_states import row_states
from regard.models.architectures.source_bound_decoder import decodes_source
from regard.models.model import Model
from regard.runs.inspection.token_texts import text_pieces, token_texts

POSITIONS_AT_A_TIME = 256
"For which logits over the vocabulary are held."


class DecodedRow(NamedTuple):
    """Tokens that a model has before it: what was given, and what it wrote."""

    ids: tuple[int, ...]
    "With the start token."
    given: int
    "How many of them it was given, when it wrote the rest."
    source: tuple[int, ...] | None = None
    "Of a seq2seq model, with the start token."


class Alternative(NamedTuple):
    """A token that the model might have put in a place."""

    id: int
    label: str
    probability: float
    drawn: float


@dataclass(frozen=True)
class TokenProbability:
    """A token of a row, and what the model expected in its place."""

    id: int
    label: str
    "The token alone: a dot stands for a space."
    piece: str
    "What it adds to the text."
    probability: float | None
    "None for the first token, and where the token before it has left the context."
    rank: int | None
    "1 for the most probable token."
    drawn: float | None
    alternatives: tuple[Alternative, ...]
    "The most probable tokens that can be drawn."


def prompt_row(model: Model, tokenizer: Tokenizer, text: str) -> DecodedRow:
    """The row that a prompt begins; a seq2seq model reads it as its source."""
    ids = (tokenizer.require("start"), *tokenizer.encode(text))
    if decodes_source(model):
        return DecodedRow((tokenizer.require("start"),), 1, ids)
    return DecodedRow(ids, len(ids))


def continue_row(
    model: Model,
    tokenizer: Tokenizer,
    row: DecodedRow,
    *,
    strategy: Strategy,
    max_new_tokens: int,
    seed: int,
) -> GeneratedTokens:
    """What the model writes after a row, as `regard generate` does after a prompt."""
    decoder, _ = prepare_decoding(model, [list(row.source or row.ids)], tokenizer)
    [generated] = generate(
        decoder,
        [row.ids],
        strategy=strategy,
        max_new_tokens=max_new_tokens,
        stop=tokenizer.require("stop"),
        pad=tokenizer.padding_id,
        seed=seed,
        suppress_tokens=suppressed_ids(tokenizer),
    )
    return generated


def token_probabilities(
    model: Model, tokenizer: Tokenizer, row: DecodedRow, *, strategy: Strategy, alternatives: int
) -> tuple[list[TokenProbability], tuple[Alternative, ...]]:
    """Every token of a row but the first, and what the model expects after the last."""
    if alternatives < 1:
        raise UserError(f"{alternatives} alternatives", topic="inspect", hint="Give at least 1.")
    expected = _Expectations(model, tokenizer, strategy, alternatives)
    ids = np.array(row.ids)
    labels, pieces = token_texts(tokenizer, ids), text_pieces(tokenizer, row.ids)
    found: dict[int, tuple[float, int, float | None, tuple[Alternative, ...]]] = {}
    for position, logits in _logits(model, row):
        targets = torch.from_numpy(ids[position + 1 : position + 1 + len(logits)])
        for offset, values in enumerate(expected.of(logits, targets)):
            found[position + 1 + offset] = values
    tokens = [
        TokenProbability(int(ids[n]), labels[n], pieces[n], *found.get(n, (None, None, None, ())))
        for n in range(1, len(ids))
    ]
    return tokens, found[len(ids)][3]


@torch.inference_mode()
def row_losses(model: Model, row: DecodedRow) -> Tensor:
    """−log p of each token but the first in nats, (t − 1); NaN where the token before it has left
    the context."""
    losses = torch.full((len(row.ids) - 1,), torch.nan, dtype=torch.float64)
    targets = torch.tensor(row.ids[1:])
    for span, states in row_states(model, row.ids, prompt=row.given, source=row.source):
        last = min(span.end, len(row.ids) - 1)
        scored = states[: last - span.first]
        if len(scored):
            of_span = model.body.head.losses(scored, targets=targets[span.first : last])
            losses[span.first : last] = of_span.double()
    return losses


class _Expectations:
    """What logits say of the tokens that followed."""

    def __init__(
        self, model: Model, tokenizer: Tokenizer, strategy: Strategy, alternatives: int
    ) -> None:
        self.tokenizer, self.strategy = tokenizer, strategy
        suppressed = torch.tensor(suppressed_ids(tokenizer), dtype=torch.long)
        self._never_drawn = suppressed[suppressed < model.body.vocabulary]
        self._alternatives = alternatives

    def of(
        self, logits: Tensor, targets: Tensor
    ) -> Iterator[tuple[float, int, float | None, tuple[Alternative, ...]]]:
        """Probability, rank, chance to be drawn, and alternatives after each position (t,v); past
        the last target only the alternatives mean something."""
        logits = logits.float().cpu()
        probabilities = torch.softmax(logits.double(), dim=-1)
        drawable = logits.index_fill(-1, self._never_drawn, -torch.inf)
        drawn = self._drawn(drawable)
        count = min(self._alternatives, logits.shape[-1] - len(self._never_drawn))
        top = drawable.topk(count, dim=-1).indices
        for n in range(len(logits)):
            target = int(targets[n]) if n < len(targets) else int(top[n, 0])
            labels = token_texts(self.tokenizer, top[n].numpy())
            alternatives = tuple(
                Alternative(token, label, float(probabilities[n, token]), float(drawn[n, token]))
                for token, label in zip(top[n].tolist(), labels, strict=True)
            )
            rank = 1 + int((logits[n] > logits[n, target]).sum())
            chance = float(drawn[n, target])
            yield float(probabilities[n, target]), rank, chance, alternatives

    def _drawn(self, logits: Tensor) -> Tensor:
        """(t,v): the probability that the strategy takes each token. A beam search draws nothing:
        it compares whole continuations by their probability."""
        if isinstance(self.strategy, Sampling):
            return self.strategy.distribution(logits)
        if isinstance(self.strategy, Greedy):
            best = logits.argmax(dim=-1, keepdim=True)
            return torch.zeros_like(logits).scatter_(-1, best, 1.0)
        return torch.softmax(logits.double(), dim=-1)


@torch.inference_mode()
def _logits(model: Model, row: DecodedRow) -> Iterator[tuple[int, Tensor]]:
    """Position of the first token and (t,v) logits after it and those that follow."""
    for span, states in row_states(model, row.ids, prompt=row.given, source=row.source):
        for begin in range(0, len(states), POSITIONS_AT_A_TIME):
            some = states[begin : begin + POSITIONS_AT_A_TIME]
            yield span.first + begin, model.body.head(some)
