"""Which model family for which task: which tokens influence each position, by perturbation.

    encoder           the whole sequence             decoder    itself and its past
    encoder-decoder   source: the whole source; target: the source and its own past

Shapes: s source tokens, t target tokens, n = s + t. Masks: True = may attend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import torch
from torch import Tensor

from regard.attention.masks.mask import bidirectional, causal, cross, padding, prefix
from regard.lessons import (
    Answer,
    ExerciseSheet,
    Heatmap,
    Lesson,
    LessonTable,
    Mark,
    Range,
    Seed,
    Slot,
    equal,
    exercise,
    lesson,
    line_chart,
)
from regard.lessons.unscaled_attention import subscripted
from regard.models.families.decoder import Decoder
from regard.models.families.encoder import Encoder
from regard.models.families.encoder_decoder import EncoderDecoder
from regard.models.families.transformer import Transformer
from regard.models.inputs import ModelInputs
from regard.tasks.advice import RECOMMENDED, advise

VOCABULARY = 12
SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "init_std": 0.4}
"Settings of the models; their weights are large enough for every token to have influence."
MIN_CHANGE = 1e-9
"Change of an output, in float64, above rounding errors."
EXPECTED_ADVICE = {
    "classification": "encoder",
    "retrieval": "encoder",
    "translation": "encoder-decoder",
    "summarisation": "encoder-decoder",
}

Outputs = Callable[[Tensor], Tensor]
"(b,n) ids -> (b,n,…): a model's output at each position."


@lesson("which-family", topic="sequences and scores", title="Which family for which task")
def which_family(
    *,
    source: Annotated[int, Range(1, 8)] = 5,
    target: Annotated[int, Range(1, 8)] = 5,
    seed: Seed = 0,
) -> Lesson:
    """Which model family suits which task?

    It depends on which positions each position can attend to. In an encoder every position attends
    to the whole text, which suits classification, similarity and retrieval; it cannot generate,
    since the next token would be visible. A decoder's position attends to itself and its past, so
    it can continue a text. An encoder-decoder encodes the source bidirectionally and generates the
    target causally, as translation and summarisation require.

    This is advice, not a law: a decoder's last position has seen the whole text and can classify
    too; its first position has seen one token only.
    """
    n = source + target
    influence = {
        "encoder": _influence(_sequence_outputs(Encoder(context=n, **SMALL), seed), n, seed=seed),
        "decoder": _influence(_sequence_outputs(Decoder(context=n, **SMALL), seed), n, seed=seed),
        "encoder-decoder": _influence(_encoder_decoder_outputs(source, n, seed), n, seed=seed),
    }
    masks = {
        "encoder": bidirectional(),
        "decoder": causal(),
        "encoder-decoder": prefix(torch.tensor([source])),
    }
    rows = [
        {"position": position + 1, "influencing tokens": int(row.sum()), "family": family}
        for family, table in influence.items()
        for position, row in enumerate(table)
    ]
    return Lesson(
        table=LessonTable(
            ("task", "family", "why"),
            [(task, advise(task).family, advise(task).why) for task in RECOMMENDED],
        ),
        chart=line_chart(rows, x="position", y="influencing tokens", series="family"),
        caption=f"Tokens that influence the output at each position, for {source} source and "
        f"{target} target tokens.",
        checks=[
            *(
                equal(
                    f"{family}: influence = its mask",
                    table,
                    masks[family].dense(n, n)[0, 0],
                )
                for family, table in influence.items()
            ),
            equal(
                "tokens that influence the first position", _counts_at(influence, 0), [n, 1, source]
            ),
            equal(
                "tokens that influence the last position", _counts_at(influence, n - 1), [n, n, n]
            ),
            equal(
                f"advice for {', '.join(EXPECTED_ADVICE)}",
                [advise(task).family for task in EXPECTED_ADVICE],
                list(EXPECTED_ADVICE.values()),
            ),
        ],
        see_also=["tasks/advice.py", "attention/masks/mask.py", "recipes/translation.toml"],
    )


def _counts_at(influence: dict[str, Tensor], position: int) -> list[int]:
    return [int(table[position].sum()) for table in influence.values()]


def _sequence_outputs(family: Transformer, seed: int) -> Outputs:
    model = family.build(vocabulary=VOCABULARY, seed=seed).double().eval()
    return lambda ids: model.logits(ModelInputs(ids))


def _encoder_decoder_outputs(source: int, n: int, seed: int) -> Outputs:
    """Outputs of the encoder at the source, then of the decoder at the target."""
    family = EncoderDecoder(context=n, **SMALL)
    model = family.build(vocabulary=VOCABULARY, seed=seed).double().eval()

    def outputs(ids: Tensor) -> Tensor:
        source_ids, target_ids = ids[:, :source], ids[:, source:]
        valid = torch.ones_like(source_ids, dtype=torch.bool)
        memory = model.encode(source_ids, valid).memory
        assert memory is not None
        inputs = ModelInputs(target_ids, source=source_ids, source_valid=valid)
        return torch.cat((memory, model.hidden_states(inputs)), dim=1)

    return outputs


@torch.no_grad()
def _influence(outputs: Outputs, n: int, *, seed: int) -> Tensor:
    """(n,n): whether replacing token j changes the output at position i."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (n,), generator=generator)
    rows = ids.repeat(n + 1, 1)
    for position in range(n):
        rows[position, position] = (ids[position] + 1) % VOCABULARY
    found = outputs(rows)
    changed: Tensor = (found[:n] - found[n]).abs().flatten(2).amax(dim=2) > MIN_CHANGE
    return changed.T


@exercise("which-family")
def which_family_exercise(seed: int) -> ExerciseSheet:
    generator = torch.Generator().manual_seed(seed)
    real, padded, target = (
        int(torch.randint(low, high, (1,), generator=generator))
        for low, high in ((2, 5), (1, 3), (2, 6))
    )
    source = real + padded
    valid = torch.arange(source)[None] < real
    masks = {
        "encoder": padding(valid).dense(source, source)[0, 0],
        "decoder": causal().dense(target, target)[0, 0],
        "cross": cross(valid).dense(target, source)[0, 0],
    }

    def mark(answer: Answer) -> Mark:
        wrong = {name: int((answer[name] != table).sum()) for name, table in masks.items()}
        pairs = sum(table.numel() for table in masks.values())
        counts = ", ".join(f"{count} in {name}" for name, count in wrong.items())
        rows, columns = subscripted(target, "t"), subscripted(source, "s")
        feedback = f"Wrong pairs: {counts}; your cross-attention mask is drawn."
        attention_map = Heatmap(rows, columns, answer["cross"].double())
        return Mark(sum(wrong.values()) / pairs, 0.0, feedback, attention_map)

    return ExerciseSheet(
        task=f"An encoder-decoder has a source of {source} positions, {real} tokens and then "
        f"padding, and a target of {target} tokens. Give its three attention masks, true where "
        "position i may attend to position j: encoder (source to source), decoder (target to "
        "target), cross (target to source). Padding is never attended to; padded queries attend "
        "like all others.",
        given={"source": source, "padding": padded, "target": target},
        slots=(
            Slot("encoder", (source, source), element_type="flags"),
            Slot("decoder", (target, target), element_type="flags"),
            Slot("cross", (target, source), element_type="flags"),
        ),
        mark=mark,
    )
