"""Agreement: how many of some drawn answers say the same as the one that was given.

    agreement = #{s : y_s = y} / k        y_1 … y_k drawn from p(· | question) at temperature 1

Wang et al., 2023, let answers vote likewise ("self-consistency"). What the answers to the n-th
question draw depends on the seed and n alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.question_answering import exact_match_and_f1
from regard.generation.decoding_setup import prepare_decoding, suppressed_ids
from regard.generation.generate import Sampling, generate
from regard.models.model import Model


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How answers are drawn."""

    each: int
    "For every question."
    max_new_tokens: int
    "Tokens of an answer."
    at_once: int
    "Rows that are written together."
    seed: int


def agreement(
    model: Model,
    sources: Sequence[list[int]],
    given: Sequence[str],
    *,
    tokenizer: Tokenizer,
    draws: Draws,
) -> list[float]:
    """For each source, the share of drawn answers that equal the one given."""
    shares: list[float] = []
    k, few = draws.each, max(1, draws.at_once // draws.each)
    for begin in range(0, len(sources), few):
        repeated = [source for source in sources[begin : begin + few] for _ in range(k)]
        writer, begun = prepare_decoding(model, repeated, tokenizer)
        drawn = generate(
            writer,
            begun,
            strategy=Sampling(),
            max_new_tokens=draws.max_new_tokens,
            stop=tokenizer.require("stop"),
            pad=tokenizer.padding_id,
            seed=draws.seed,
            first_index=begin * k,
            suppress_tokens=suppressed_ids(tokenizer),
        )
        texts = [tokenizer.decode(one.ids).strip() for one in drawn]
        for number, first in enumerate(range(0, len(texts), k)):
            same = (says_the_same(text, given[begin + number]) for text in texts[first : first + k])
            shares.append(sum(same) / k)
    return shares


def says_the_same(one: str, other: str) -> bool:
    """Case, punctuation and articles aside, as answers are judged."""
    return one == other or exact_match_and_f1(one, [other])[0] == 1.0
