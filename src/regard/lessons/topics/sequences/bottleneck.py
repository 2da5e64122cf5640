"""The recurrent bottleneck: a sentence squeezed into one vector, and attention that goes round it.

    without attention   h₀ of the writer = the last state of the reader        Cho et al., 2014
    with attention      each step looks at all states of the reader            Luong et al., 2015

Shapes: b sentences, t words.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds.dot import Dot
from regard.batch import Batch
from regard.generation.generate import Greedy, generate
from regard.lessons.lesson import Lesson, LessonTable, above, below
from regard.lessons.lesson_charts import curves
from regard.lessons.parameters import Range, Seed
from regard.lessons.registry import lesson
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.families import Family
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent

WORDS = 20
START, STOP = WORDS, WORDS + 1
SENTENCES = 32
"In a batch."
JUDGED = 60
"Sentences of each length that are measured."
LONG = 3
"The longest lengths, taken together."
RATE = 5e-3
WARM_UP = 50


@lesson(
    "bottleneck",
    topic="sequences and scores",
    title="The recurrent bottleneck",
    takes="a minute",
)
def bottleneck(
    *,
    longest: Annotated[int, Range(10, 12)] = 12,
    width: Annotated[int, Range(48, 64)] = 48,
    steps: Annotated[int, Range(400, 800)] = 400,
    seed: Seed = 0,
) -> Lesson:
    """What does a model without attention lose as sentences grow longer?

    A GRU hands over its last state: one vector of fixed width, however long the sentence was. The
    task here is the simplest there is, to say the same words again. Without attention short
    sentences come out right and long ones do not; with attention the same GRU looks back at every
    word it has read, and a Transformer does nothing else. All three learn from the same sentences
    in the same order, and write greedily, so what they get wrong they have to live with.
    """
    families: dict[str, Family] = {
        "GRU": Recurrent(width=width, context=longest + 2),
        "GRU with attention": Recurrent(width=width, context=longest + 2, attention=Dot()),
        "Transformer": EncoderDecoder(
            layers=1,
            heads=1,
            width=width,
            mlp_width=2 * width,
            context=longest + 2,
            init_std=width**-0.5,
        ),
    }
    right, sizes = {}, {}
    for name, family in families.items():
        model = _trained(family, longest=longest, steps=steps, seed=seed)
        right[name] = [_right(model, length, seed=seed + 1) for length in range(1, longest + 1)]
        sizes[name] = sum(one.numel() for one in model.parameters())
    long = {name: sum(shares[-LONG:]) / LONG for name, shares in right.items()}
    short = {name: sum(shares[:2]) / 2 for name, shares in right.items()}
    return Lesson(
        table=LessonTable(
            ("model", "parameters", "right, 1 and 2 words", f"right, last {LONG} lengths"),
            [(name, sizes[name], short[name], long[name]) for name in families],
        ),
        chart=curves(
            [
                {"words of the sentence": length, "share of words right": share, "model": name}
                for name, shares in right.items()
                for length, share in enumerate(shares, start=1)
            ],
            x="words of the sentence",
            y="share of words right",
            series="model",
        ),
        caption="Words that were written again at their place, by the length of the sentence; "
        f"{JUDGED} new sentences of each length.",
        checks=[
            above("GRU, sentences of 1 and 2 words", short["GRU"], 0.7),
            below("GRU, the longest", long["GRU"], 0.6),
            above("GRU with attention, the longest", long["GRU with attention"], 0.7),
            above("Transformer, the longest", long["Transformer"], 0.8),
            above("what attention adds to the GRU", long["GRU with attention"] - long["GRU"], 0.25),
            above("fall of the GRU from short to long", short["GRU"] - long["GRU"], 0.25),
        ],
        see=[
            "models/architectures/recurrent_model.py",
            "models/architectures/encoder_decoder_model.py",
            "recipes/bottleneck.toml",
        ],
    )


def _trained(family: Family, *, longest: int, steps: int, seed: int) -> Seq2SeqModel:
    """After so many batches, each of new sentences of one length."""
    model = family.build(vocabulary=WORDS + 2, seed=seed)
    assert isinstance(model, Seq2SeqModel)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        optimizer.param_groups[0]["lr"] = RATE * min(1, step / WARM_UP) * (1 - 0.9 * step / steps)
        term = model(_batch(_sentences(SENTENCES, length, generator)))["token"]
        optimizer.zero_grad()
        (term.sum / term.weight).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def _sentences(count: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(WORDS, (count, length), generator=generator)


def _batch(said: Tensor) -> Batch:
    """The sentence is the source, and the target too."""
    count, length = said.shape
    start, stop = (said.new_full((count, 1), mark) for mark in (START, STOP))
    return Batch(
        ids=torch.cat((start, said), dim=1),
        targets=torch.cat((said, stop), dim=1),
        weights=torch.ones(count, length + 1),
        valid=torch.ones(count, length + 1, dtype=torch.bool),
        segments=None,
        rows=tuple(range(count)),
        source=said,
        source_valid=torch.ones_like(said, dtype=torch.bool),
    )


def _right(model: Seq2SeqModel, length: int, *, seed: int) -> float:
    """The share of words that stand where they belong in what the model writes."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    said = _sentences(JUDGED, length, generator)
    written = generate(
        model.given(said, torch.ones_like(said, dtype=torch.bool)),
        [[START]] * JUDGED,
        strategy=Greedy(),
        max_new=length + 1,
        stop=STOP,
        pad=START,
        forbidden=(START,),
    )
    hits = sum(
        int(a == b)
        for found, words in zip(written, said.tolist(), strict=True)
        for a, b in zip(found.ids, words, strict=False)  # what is not written is not right
    )
    return hits / (JUDGED * length)
