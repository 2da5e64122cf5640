"""Agreement: the fraction of sampled answers that equal the given answer.

    agreement = #{s : y_s = y} / k        y_1 … y_k sampled from p(· | question) at temperature 1

Self-consistency (Wang et al., 2023) votes among samples in the same way. The samples for the n-th
question depend only on the seed and n.
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
class AnswerSampling:
    """How answers are sampled."""

    samples: int
    "Samples a question."
    max_new_tokens: int
    "Maximum tokens of an answer."
    batch_size: int
    "Sequences that are generated together."
    seed: int


def agreement(
    model: Model,
    sources: Sequence[list[int]],
    answers: Sequence[str],
    *,
    tokenizer: Tokenizer,
    sampling: AnswerSampling,
) -> list[float]:
    """For each source, the fraction of sampled answers that equal its answer in `answers`."""
    agreements: list[float] = []
    k, questions = sampling.samples, max(1, sampling.batch_size // sampling.samples)
    for begin in range(0, len(sources), questions):
        repeated = [source for source in sources[begin : begin + questions] for _ in range(k)]
        decoder, prompts = prepare_decoding(model, repeated, tokenizer)
        samples = generate(
            decoder,
            prompts,
            strategy=Sampling(),
            max_new_tokens=sampling.max_new_tokens,
            stop=tokenizer.require("stop"),
            pad=tokenizer.padding_id,
            seed=sampling.seed,
            first_index=begin * k,
            suppress_tokens=suppressed_ids(tokenizer),
        )
        texts = [tokenizer.decode(sample.ids).strip() for sample in samples]
        for index, first in enumerate(range(0, len(texts), k)):
            same = (same_answer(text, answers[begin + index]) for text in texts[first : first + k])
            agreements.append(sum(same) / k)
    return agreements


def same_answer(first: str, second: str) -> bool:
    """Equality after normalisation (case, punctuation, articles), as in exact match."""
    return first == second or exact_match_and_f1(first, [second])[0] == 1.0
