"""The lessons themselves, one or a few files a topic, and the order in which a course has them."""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A topic as lessons name it, what courses call it, and the studies that go further."""

    name: str
    course: str
    studies: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    "Lessons that come first, in this order; others follow by file and line."


TOPICS = (
    Topic(
        "attention by hand",
        "Attention as a soft look-up: queries, keys and values; self-attention; multi-head "
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
        "Order of words: absolute, relative and rotary positions",
        ("recipes/positions.toml",),
        (
            "word-order",
            "sinusoids",
            "add-or-concatenate",
            "relative-bias",
            "position-counts",
            "hidden-positions",
        ),
    ),
    Topic(
        "kinds and cost",
        "Efficient Transformers: linear, local and synthesised attention; what attention costs",
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
        "Subword models, batches and packing",
        ("recipes/tokenizers.toml",),
    ),
    Topic(
        "pretraining",
        "Pretraining: masked language models, spans, transfer",
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
        "Fine-tuning, prompts, prefixes and low-rank adapters",
        ("recipes/adapters.toml", "recipes/rates.toml"),
    ),
    Topic(
        "sequences and scores",
        "Machine translation: recurrent models, the bottleneck, BLEU; which family for which task",
        ("recipes/bottleneck.toml", "recipes/translation.toml"),
    ),
)
"In the order of a course; a topic that is not listed here comes after these."
