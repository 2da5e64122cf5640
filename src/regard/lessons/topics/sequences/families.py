"""Which model family for which task: what each place of a family can see, by changing tokens.

    encoder           all of the row                 decoder    itself and its past
    encoder-decoder   the source: all of the source; the target: the source and its own past

Shapes: s places of the source, t of the target, n = s + t. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import torch
from torch import Tensor

from regard.attention.masks.mask import bidirectional, causal, cross, padding, prefix
from regard.lessons.by_hand import names
from regard.lessons.exercise import Answer, ExerciseSheet, Mark, Slot, Weights, exercise
from regard.lessons.lesson import Lesson, LessonTable, equal
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.sequence_model import SequenceModel
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.transformer import Transformer
from regard.tasks.advice import BEST, advise

VOCABULARY = 12
FELT = 1e-9
"A difference of outputs, in float64, that is more than rounding."
ADVISED = {
    "classification": "encoder",
    "retrieval": "encoder",
    "translation": "encoder-decoder",
    "summarisation": "encoder-decoder",
}

Sized = TypeVar("Sized", bound=Transformer)
Outputs = Callable[[Tensor], Tensor]
"(b,n) ids -> (b,n,…): what a model gives at each place."


@lesson("which-family", topic="sequences and scores", title="Which family for which task")
def which_family(
    *,
    source: Annotated[int, Range(1, 8)] = 5,
    target: Annotated[int, Range(1, 8)] = 5,
    seed: Seed = 0,
) -> Lesson:
    """Which family of models is for which task?

    It follows from what a place can see. In an encoder every place sees the whole text, so it is
    the one to classify, compare and find with, and cannot write: what it is to tell next would lie
    open before it. A decoder's place sees itself and its past, so it can go on with a text. An
    encoder-decoder reads the source as an encoder does and writes the target as a decoder does,
    which is what translating and summarising need.

    It is advice, not a law: a decoder's last place has seen all of the text and can classify too;
    its first place knows one token only.
    """
    n = source + target
    seen = {
        "encoder": _influence(_one_row(_sized(Encoder, n), seed), n, seed=seed),
        "decoder": _influence(_one_row(_sized(Decoder, n), seed), n, seed=seed),
        "encoder-decoder": _influence(_two_sides(source, n, seed), n, seed=seed),
    }
    masks = {
        "encoder": bidirectional(),
        "decoder": causal(),
        "encoder-decoder": prefix(torch.tensor([source])),
    }
    rows = [
        {"place": place + 1, "places that move its output": int(row.sum()), "family": family}
        for family, table in seen.items()
        for place, row in enumerate(table)
    ]
    return Lesson(
        table=LessonTable(
            ("task", "begin with", "why"),
            [(task, advise(task).family, advise(task).why) for task in BEST],
        ),
        chart=curves(rows, x="place", y="places that move its output", series="family"),
        caption=f"How many tokens move what stands at each place, in a row of {source} tokens to "
        f"read and {target} to write.",
        checks=[
            *(
                equal(
                    f"{family}: who is felt where = its mask",
                    table,
                    masks[family].dense(n, n)[0, 0],
                )
                for family, table in seen.items()
            ),
            equal("tokens that the first place feels", _at(seen, 0), [n, 1, source]),
            equal("tokens that the last place feels", _at(seen, n - 1), [n, n, n]),
            equal(
                f"advice for {', '.join(ADVISED)}",
                [advise(task).family for task in ADVISED],
                list(ADVISED.values()),
            ),
        ],
        see=["tasks/advice.py", "attention/masks/mask.py", "recipes/translation.toml"],
    )


def _at(seen: dict[str, Tensor], place: int) -> list[int]:
    return [int(table[place].sum()) for table in seen.values()]


def _sized(family: type[Sized], n: int) -> Sized:
    """Small, with weights large enough for every token to be felt."""
    return family(layers=2, heads=2, width=16, context=n, init_std=0.4)


def _one_row(family: Transformer, seed: int) -> Outputs:
    model = family.build(vocabulary=VOCABULARY, seed=seed)
    assert isinstance(model, SequenceModel)
    return model.double().eval().logits


def _two_sides(source: int, n: int, seed: int) -> Outputs:
    """What the encoder makes of the source, then what the decoder makes of the target."""
    model = _sized(EncoderDecoder, n).build(vocabulary=VOCABULARY, seed=seed)
    model = model.double().eval()

    def outputs(ids: Tensor) -> Tensor:
        read, written = ids[:, :source], ids[:, source:]
        valid = torch.ones_like(read, dtype=torch.bool)
        vectors = model.encode(read, valid)
        return torch.cat((vectors, model.target(written, source=read, source_valid=valid)), dim=1)

    return outputs


@torch.no_grad()
def _influence(outputs: Outputs, n: int, *, seed: int) -> Tensor:
    """(n,n): whether another token at place j moves what comes out at place i."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (n,), generator=generator)
    rows = ids.repeat(n + 1, 1)
    for place in range(n):
        rows[place, place] = (ids[place] + 1) % VOCABULARY
    found = outputs(rows)
    moved: Tensor = (found[:n] - found[n]).abs().flatten(2).amax(dim=2) > FELT
    return moved.T


@exercise("which-family")
def which_family_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    real, padded, written = (
        int(torch.randint(low, high, (1,), generator=generator))
        for low, high in ((2, 5), (1, 3), (2, 6))
    )
    valid = torch.arange(real + padded)[None] < real
    read = real + padded
    wanted = {
        "encoder": padding(valid).dense(read, read)[0, 0],
        "decoder": causal().dense(written, written)[0, 0],
        "across": cross(valid).dense(written, read)[0, 0],
    }

    def mark(answer: Answer) -> Mark:
        wrong = {name: int((answer[name] != table).sum()) for name, table in wanted.items()}
        pairs = sum(table.numel() for table in wanted.values())
        told = ", ".join(f"{count} in {name}" for name, count in wrong.items())
        rows, columns = names(written, "t"), names(read, "s")
        return Mark(
            sum(wrong.values()) / pairs,
            0.0,
            f"Pairs that are wrong: {told}; drawn is the mask across that you gave.",
            Weights(rows, columns, answer["across"].double()),
        )

    return ExerciseSheet(
        task=f"An encoder-decoder reads {read} places, {real} tokens and then padding, and "
        f"writes {written} tokens. Give the masks of its three attentions, true where place i may "
        "attend to place j: encoder (source to source), decoder (target to target), across (target "
        "to source). Padding is never attended to; what padded places themselves attend to is as "
        "for the others.",
        given={"source": read, "padding": padded, "target": written},
        slots=(
            Slot("encoder", (read, read), of="flags"),
            Slot("decoder", (written, written), of="flags"),
            Slot("across", (written, read), of="flags"),
        ),
        mark=mark,
    )
