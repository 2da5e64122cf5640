"""The recurrent bottleneck: a sentence compressed into one state, and attention that avoids it.

    without attention   h₀ of the decoder = last state of the encoder        Cho et al., 2014
    with attention      each step attends to all states of the encoder       Luong et al., 2015

Shapes: b batch, t words.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from regard.attention.kinds.dot import Dot
from regard.batch import Batch
from regard.generation.generate import Greedy, generate
from regard.lessons import Lesson, LessonTable, Range, Seed, above, below, lesson, line_chart
from regard.models.architectures.seq2seq_model import Seq2SeqModel
from regard.models.architectures.source_bound_decoder import SourceBoundDecoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.recurrent import Recurrent

VOCABULARY = 20
START, STOP = VOCABULARY, VOCABULARY + 1
BATCH_SIZE = 32
TEST_SENTENCES = 60
"Per length."
LONG = 3
"Number of greatest lengths averaged as long sentences."
LR = 5e-3
WARMUP_STEPS = 50


@lesson(
    "bottleneck",
    topic="sequences and scores",
    title="The recurrent bottleneck",
    duration="a minute",
)
def bottleneck(
    *,
    max_length: Annotated[int, Range(10, 12)] = 12,
    width: Annotated[int, Range(48, 64)] = 48,
    steps: Annotated[int, Range(400, 800)] = 400,
    seed: Seed = 0,
) -> Lesson:
    """What does a model without attention lose as sentences grow longer?

    A GRU encoder passes on its last state: one vector of fixed width, however long the sentence.
    The task is the simplest possible, copying the source. Without attention short sentences are
    copied correctly and long ones are not; with attention the same GRU attends to every encoder
    state, and a Transformer relies on attention alone. All three are trained on the same sentences
    in the same order and decode greedily, conditioned on their own errors.
    """
    families: dict[str, EncoderDecoder | Recurrent] = {
        "GRU": Recurrent(width=width, context=max_length + 2),
        "GRU with attention": Recurrent(width=width, context=max_length + 2, attention=Dot()),
        "Transformer": EncoderDecoder(
            layers=1,
            heads=1,
            width=width,
            mlp_width=2 * width,
            context=max_length + 2,
            init_std=width**-0.5,
        ),
    }
    accuracy, parameters = {}, {}
    for name, family in families.items():
        model = _train(family, max_length=max_length, steps=steps, seed=seed)
        accuracy[name] = [
            _accuracy(model, length, seed=seed + 1) for length in range(1, max_length + 1)
        ]
        parameters[name] = sum(parameter.numel() for parameter in model.parameters())
    long = {name: sum(by_length[-LONG:]) / LONG for name, by_length in accuracy.items()}
    short = {name: sum(by_length[:2]) / 2 for name, by_length in accuracy.items()}
    return Lesson(
        table=LessonTable(
            ("model", "parameters", "accuracy, 1–2 words", f"accuracy, {LONG} greatest lengths"),
            [(name, parameters[name], short[name], long[name]) for name in families],
        ),
        chart=line_chart(
            [
                {"sentence length, words": length, "word accuracy": value, "model": name}
                for name, by_length in accuracy.items()
                for length, value in enumerate(by_length, start=1)
            ],
            x="sentence length, words",
            y="word accuracy",
            series="model",
        ),
        caption="Fraction of words copied to the right position, by sentence length; "
        f"{TEST_SENTENCES} unseen sentences per length.",
        checks=[
            above("accuracy of GRU, 1–2 words", short["GRU"], 0.7),
            below("accuracy of GRU, long sentences", long["GRU"], 0.6),
            above(
                "accuracy of GRU with attention, long sentences", long["GRU with attention"], 0.7
            ),
            above("accuracy of Transformer, long sentences", long["Transformer"], 0.8),
            above(
                "gain from attention, long sentences",
                long["GRU with attention"] - long["GRU"],
                0.25,
            ),
            above("drop of GRU from short to long sentences", short["GRU"] - long["GRU"], 0.25),
        ],
        see_also=[
            "models/architectures/recurrent_model.py",
            "models/architectures/encoder_decoder_model.py",
            "recipes/bottleneck.toml",
        ],
    )


def _train(
    family: EncoderDecoder | Recurrent, *, max_length: int, steps: int, seed: int
) -> Seq2SeqModel:
    """Train on batches of new sentences, one length per batch."""
    model = family.build(vocabulary=VOCABULARY + 2, seed=seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        length = int(torch.randint(1, max_length + 1, (1,), generator=generator))
        optimizer.param_groups[0]["lr"] = (
            LR * min(1, step / WARMUP_STEPS) * (1 - 0.9 * step / steps)
        )
        term = model(_batch(_draw_sentences(BATCH_SIZE, length, generator)))["token"]
        optimizer.zero_grad()
        (term.sum / term.weight).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def _draw_sentences(count: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(VOCABULARY, (count, length), generator=generator)


def _batch(sentences: Tensor) -> Batch:
    """Copying: the source is also the target."""
    count, length = sentences.shape
    start, stop = (sentences.new_full((count, 1), token) for token in (START, STOP))
    return Batch(
        ids=torch.cat((start, sentences), dim=1),
        targets=torch.cat((sentences, stop), dim=1),
        weights=torch.ones(count, length + 1),
        valid=torch.ones(count, length + 1, dtype=torch.bool),
        segments=None,
        rows=tuple(range(count)),
        source=sentences,
        source_valid=torch.ones_like(sentences, dtype=torch.bool),
    )


def _accuracy(model: Seq2SeqModel, length: int, *, seed: int) -> float:
    """Fraction of words generated at their position."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    sentences = _draw_sentences(TEST_SENTENCES, length, generator)
    generated = generate(
        SourceBoundDecoder(model, sentences, torch.ones_like(sentences, dtype=torch.bool)),
        [[START]] * TEST_SENTENCES,
        strategy=Greedy(),
        max_new_tokens=length + 1,
        stop=STOP,
        pad=START,
        suppress_tokens=(START,),
    )
    correct = sum(
        int(a == b)
        for found, words in zip(generated, sentences.tolist(), strict=True)
        for a, b in zip(found.ids, words, strict=False)  # a missing word is an error
    )
    return correct / (TEST_SENTENCES * length)
