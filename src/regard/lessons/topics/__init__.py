"""Lessons by topic, in the order of a course."""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A topic, the terms a syllabus lists it under, and the studies that go further."""

    name: str
    syllabus: str
    studies: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    "Lessons in teaching order; lessons not listed follow by file and line."


TOPICS = (
    Topic(
        "attention by hand",
        "Attention as a soft lookup: queries, keys and values; self-attention; multi-head "
        "attention and its scaling",
        ("recipes/dot-vs-additive.toml", "recipes/projections.toml"),
        (
            "argmax-by-hand",
            "copying",
            "select-and-identity",
            "averaging",
            "average-of-two",
            "extracting",
            "two-heads",
            "self-attention-by-hand",
            "shared-projections",
            "multi-head-shapes",
            "scaling",
            "receptive-field",
        ),
    ),
    Topic(
        "masks",
        "Masked self-attention: decoders, encoders, prefix language models; unanswerable questions",
        ("recipes/masking.toml", "recipes/passages.toml"),
        ("three-masks", "zero-masking", "zero-masking-trained", "null-threshold"),
    ),
    Topic(
        "positions",
        "Position encodings: absolute, relative and rotary",
        ("recipes/positions.toml",),
        (
            "word-order",
            "sinusoids",
            "add-or-concatenate",
            "relative-bias",
            "position-counts",
            "masked-positions",
        ),
    ),
    Topic(
        "kinds and cost",
        "Efficient Transformers: linear, local and synthesised attention; the cost of attention",
        ("recipes/lengths.toml", "recipes/digits-groups.toml"),
        (
            "encoder-decoder-cost",
            "growth-of-kinds",
            "linear-attention",
            "linear-approximation",
            "group-cost",
            "modality-groups",
            "synthesizer-look-up",
        ),
    ),
    Topic(
        "text",
        "Subword tokenization, batching and packing",
        ("recipes/tokenizers.toml",),
    ),
    Topic(
        "pretraining",
        "Pretraining: masked language models, span masking, transfer",
        (
            "recipes/mini-bert.toml",
            "recipes/masked-vs-spanbert.toml",
            "recipes/pretrained.toml",
            "recipes/checkpoints.toml",
            "recipes/full/birthplaces-study.toml",
        ),
    ),
    Topic(
        "adaptation",
        "Fine-tuning, prompt tuning, prefix tuning and low-rank adapters",
        ("recipes/adapters.toml", "recipes/rates.toml", "recipes/planned-looks.toml"),
    ),
    Topic(
        "sequences and scores",
        "Machine translation: recurrent models, the bottleneck, BLEU; the model family for a task",
        ("recipes/bottleneck.toml", "recipes/translation.toml"),
    ),
)
"In course order; topics not listed here come last."
