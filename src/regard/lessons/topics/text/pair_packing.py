"""Pair packing: two texts in one sequence, distinguished by segment ids.

[CLS] a [SEP] b [SEP], segments 0 … 0 1 … 1          Devlin et al., 2019
"""

from __future__ import annotations

from typing import Annotated

import torch

from regard.data.special_tokens import InputSequence, sequence_pair
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Slot,
    equal,
    exercise,
    lesson,
    line_chart,
)

PASSAGE = (
    "the moon goes round the earth in about four weeks and turns once in that time so that we "
    "always see the same side of it"
)
QUESTION = "do we ever see its other side"
MIN_LIMIT = 5
"Three special tokens and one token of each text."


@lesson("pair-packing", topic="text", title="Two texts in one sequence")
def pair_packing(
    *,
    first: Annotated[int, Range(1, 26)] = 26,
    second: Annotated[int, Range(1, 7)] = 7,
    limit: Annotated[int, Range(MIN_LIMIT, 40)] = 20,
) -> Lesson:
    """How does one model encode two texts, and what is truncated when they are too long?

    The sequence is `[CLS] a [SEP] b [SEP]`: the first text with its two special tokens is segment
    0, the second with its `[SEP]` segment 1, in total |a| + |b| + 3 tokens. If that exceeds the
    limit, the longer text is truncated from its end, token by token, until both fit: a question
    next to a long passage stays complete. Truncating the packed sequence instead would remove the
    question and its final `[SEP]`.

    Special ids are inserted by packing only: a text that contains the string `[SEP]` is tokenized
    like any other, so no text can inject a third segment.
    """
    tokenizer = Word(minimum_count=1).train(iter([PASSAGE, QUESTION]))
    a, b = tokenizer.encode(PASSAGE)[:first], tokenizer.encode(QUESTION)[:second]
    untruncated = sequence_pair(a, b, roles=tokenizer)
    packed = sequence_pair(a, b, roles=tokenizer, limit=limit)
    kept_a, kept_b = _kept(packed)
    rows = [
        {"limit, tokens": size, "tokens kept": kept, "text": text}
        for size in range(MIN_LIMIT, 41)
        for text, kept in zip(
            ("passage", "question", "question, packed sequence truncated"),
            (
                *_kept(sequence_pair(a, b, roles=tokenizer, limit=size)),
                min(max(size - len(a) - 2, 0), len(b)),
            ),
            strict=True,
        )
    ]
    literal = tokenizer.encode("this spells [SEP] in the text")
    return Lesson(
        table=LessonTable(
            ("position", "token", "segment"),
            [
                (position, token, segment)
                for position, (token, segment) in enumerate(
                    zip(tokenizer.tokens(packed.ids), packed.segments, strict=True)
                )
            ],
        ),
        chart=line_chart(rows, x="limit, tokens", y="tokens kept", series="text"),
        caption="Tokens kept of each text against the length limit: the longer text is truncated "
        "first.",
        checks=[
            equal("tokens without a limit", len(untruncated.ids), len(a) + len(b) + 3),
            equal(
                "tokens of segments 0 and 1", _segment_sizes(untruncated), [len(a) + 2, len(b) + 1]
            ),
            equal(
                "positions of the special tokens",
                _specials(untruncated, tokenizer),
                [[0, "[CLS]"], [len(a) + 1, "[SEP]"], [len(a) + len(b) + 2, "[SEP]"]],
            ),
            equal("tokens with the limit", len(packed.ids), min(limit, len(untruncated.ids))),
            equal("truncated tokens", packed.truncated, len(a) + len(b) - kept_a - kept_b),
            equal(
                "tokens kept of each text",
                [kept_a, kept_b],
                _truncate_longer(len(a), len(b), limit - 3),
            ),
            equal(
                "[SEP] ids in a text with that string", literal.count(tokenizer.require("sep")), 0
            ),
        ],
        see_also=[
            "data/special_tokens.py",
            "tasks/classification/pairs.py",
            "recipes/passages.toml",
        ],
    )


def _segment_sizes(packed: InputSequence) -> list[int]:
    return [packed.segments.count(0), packed.segments.count(1)]


def _kept(packed: InputSequence) -> tuple[int, int]:
    """Tokens of each text, without special tokens."""
    zeros, ones = _segment_sizes(packed)
    return zeros - 2, ones - 1


def _specials(packed: InputSequence, tokenizer: Tokenizer) -> list[list[int | str]]:
    names = zip(packed.ids, tokenizer.tokens(packed.ids), strict=True)
    special_ids = {tokenizer.require("cls"), tokenizer.require("sep")}
    return [[position, name] for position, (i, name) in enumerate(names) if i in special_ids]


def _truncate_longer(a: int, b: int, capacity: int) -> list[int]:
    """Lengths after removing tokens from the longer text one by one; on a tie from the second."""
    while a + b > capacity:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return [a, b]


@exercise("pair-packing")
def pair_packing_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    sizes = ((6, 10), (2, 5)) if seed % 2 else ((2, 5), (6, 10))
    lengths = [int(torch.randint(*ends, (1,), generator=generator)) for ends in sizes]
    a, b = (torch.randint(10, 100, (n,), generator=generator).tolist() for n in lengths)
    limit = sum(lengths)  # three tokens short, by the three special tokens
    target = sequence_pair(a, b, roles=_SpecialIds(), limit=limit)

    def mark(answer: Answer) -> Mark:
        ids, segments = (answer[name].tolist() for name in ("ids", "segments"))
        if not len(ids) == len(segments) == len(target.ids):
            return Mark(
                1.0,
                0.0,
                f"You gave {len(ids)} ids and {len(segments)} segments; both must be {limit}.",
            )
        wrong_ids = sum(x != y for x, y in zip(ids, target.ids, strict=True))
        wrong_segments = sum(x != y for x, y in zip(segments, target.segments, strict=True))
        feedback = f"{wrong_ids} of {limit} ids and {wrong_segments} of {limit} segments are wrong."
        return Mark((wrong_ids + wrong_segments) / (2 * limit), 0.0, feedback)

    return ExerciseSheet(
        task=f"[CLS] has id 1 and [SEP] has id 2. Pack a and b into one sequence of at most "
        f"{limit} tokens, special tokens included, truncating the longer text from its end; "
        "give the ids and their segments.",
        given={"a": a, "b": b, "limit": limit},
        slots=(Slot("ids", (None,)), Slot("segments", (None,))),
        mark=mark,
    )


class _SpecialIds:
    """Two special tokens with small ids."""

    def require(self, role: str) -> int:
        return {"cls": 1, "sep": 2}[role]
