"""Pair packing: two texts become one row, and every token knows which of them it is of.

[CLS] a [SEP] b [SEP], segments 0 … 0 1 … 1          Devlin et al., 2019
"""

from __future__ import annotations

from typing import Annotated

import torch

from regard.data.packing import Packed, pair
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word import Word
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, exercise
from regard.lessons.lesson import Lesson, LessonTable, equal
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range
from regard.lessons.registry import lesson

PASSAGE = (
    "the moon goes round the earth in about four weeks and turns once in that time so that we "
    "always see the same side of it"
)
QUESTION = "do we ever see its other side"
LEAST = 5
"Three specials, and a token of each text."


@lesson("pair-packing", topic="text", title="Two texts in one row")
def pair_packing(
    *,
    first: Annotated[int, Range(1, 26)] = 26,
    second: Annotated[int, Range(1, 7)] = 7,
    limit: Annotated[int, Range(LEAST, 40)] = 20,
) -> Lesson:
    """How does one model read two texts, and what is lost when they are too long?

    The row is `[CLS] a [SEP] b [SEP]`: the first text with its two specials is segment 0, the
    second with its `[SEP]` segment 1, so the row has |a| + |b| + 3 tokens. Where that is too much,
    the longer text loses from its end, token by token, until both fit: a question beside a long
    passage stays whole. Cutting the finished row instead would lose the question, and the `[SEP]`
    that ends it.

    Special ids come from packing alone: a text that spells `[SEP]` is cut into pieces like any
    other, so nobody can write a third segment into a row.
    """
    tokenizer = Word(minimum_count=1).train(iter([PASSAGE, QUESTION]))
    a, b = tokenizer.encode(PASSAGE)[:first], tokenizer.encode(QUESTION)[:second]
    whole = pair(a, b, roles=tokenizer)
    packed = pair(a, b, roles=tokenizer, limit=limit)
    kept_a, kept_b = _kept(packed)
    rows = [
        {"limit of the row, tokens": size, "tokens kept": kept, "text": text}
        for size in range(LEAST, 41)
        for text, kept in zip(
            ("passage", "question", "question, if the row were cut"),
            (
                *_kept(pair(a, b, roles=tokenizer, limit=size)),
                min(max(size - len(a) - 2, 0), len(b)),
            ),
            strict=True,
        )
    ]
    spelled = tokenizer.encode("this spells [SEP] in the text")
    return Lesson(
        table=LessonTable(
            ("place", "token", "segment"),
            [
                (place, token, segment)
                for place, (token, segment) in enumerate(
                    zip(tokenizer.tokens(packed.ids), packed.segments, strict=True)
                )
            ],
        ),
        chart=curves(rows, x="limit of the row, tokens", y="tokens kept", series="text"),
        caption="Tokens of each text that a row of a given length keeps: the longer text gives "
        "way first.",
        checks=[
            equal("tokens of the whole row", len(whole.ids), len(a) + len(b) + 3),
            equal("of segment 0 and of segment 1", _sizes(whole), [len(a) + 2, len(b) + 1]),
            equal("the specials, by their places", _specials(whole, tokenizer), _marks(a, b)),
            equal("tokens of the row with a limit", len(packed.ids), min(limit, len(whole.ids))),
            equal("tokens lost", packed.lost, len(a) + len(b) - kept_a - kept_b),
            equal("kept of both", [kept_a, kept_b], _by_turns(len(a), len(b), limit - 3)),
            equal("[SEP] ids in a text that spells it", spelled.count(tokenizer.require("sep")), 0),
        ],
        see=["data/packing.py", "tasks/classification/pairs.py", "recipes/passages.toml"],
    )


def _sizes(packed: Packed) -> list[int]:
    return [packed.segments.count(0), packed.segments.count(1)]


def _kept(packed: Packed) -> tuple[int, int]:
    """Tokens of each text, without specials."""
    zeros, ones = _sizes(packed)
    return zeros - 2, ones - 1


def _specials(packed: Packed, tokenizer: Tokenizer) -> list[list[int | str]]:
    names = zip(packed.ids, tokenizer.tokens(packed.ids), strict=True)
    held = {tokenizer.require("cls"), tokenizer.require("sep")}
    return [[place, name] for place, (i, name) in enumerate(names) if i in held]


def _marks(a: list[int], b: list[int]) -> list[list[int | str]]:
    return [[0, "[CLS]"], [len(a) + 1, "[SEP]"], [len(a) + len(b) + 2, "[SEP]"]]


def _by_turns(a: int, b: int, room: int) -> list[int]:
    """What is left when the longer gives a token, again and again; the second of equals does."""
    while a + b > room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    return [a, b]


@exercise("pair-packing")
def pair_packing_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    sizes = ((6, 10), (2, 5)) if seed % 2 else ((2, 5), (6, 10))
    lengths = [int(torch.randint(*ends, (1,), generator=generator)) for ends in sizes]
    a, b = (torch.randint(10, 100, (n,), generator=generator).tolist() for n in lengths)
    limit = sum(lengths)  # three tokens too few, for the three specials
    wanted = pair(a, b, roles=_Marks(), limit=limit)

    def mark(answer: Answer) -> Mark:
        ids, segments = (answer[name].tolist() for name in ("ids", "segments"))
        if not len(ids) == len(segments) == len(wanted.ids):
            return Mark(
                1.0,
                0.0,
                f"Your row has {len(ids)} ids and {len(segments)} segments; both should fill the "
                f"limit of {limit}.",
            )
        wrong = sum(x != y for x, y in zip(ids, wanted.ids, strict=True))
        astray = sum(x != y for x, y in zip(segments, wanted.segments, strict=True))
        says = f"{wrong} of {limit} ids and {astray} of {limit} segments are wrong."
        return Mark((wrong + astray) / (2 * limit), 0.0, says)

    return ExerciseSheet(
        task=f"[CLS] has the id 1 and [SEP] the id 2. Pack a and b into one row of at most {limit} "
        "tokens, specials counted, the longer text losing from its end; give the row's ids and "
        "the segment of each.",
        given={"a": a, "b": b, "limit": limit},
        slots=(Slot("ids", (None,)), Slot("segments", (None,))),
        mark=mark,
    )


class _Marks:
    """Two specials with small ids, for paper."""

    def require(self, role: str) -> int:
        return {"cls": 1, "sep": 2}[role]
