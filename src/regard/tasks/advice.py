"""Advice: which model family for which task, and when to pretrain from scratch rather than adapt.

    classify, retrieve, extract   →  encoder           every token sees the whole text
    generate from a source        →  encoder-decoder   encodes the source, then decodes
    continue a text, recall       →  decoder           as it was pretrained

Other families may work too, and `regard compare` says whether they are worse: this is where to
start.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.tasks import TASKS

BIDIRECTIONAL = "every token attends to the whole text, before it and after it"
ENCODE_THEN_DECODE = "the whole source is encoded before the first word is generated"
AS_PRETRAINED = "it continues a text, as in pretraining"

RECOMMENDED: dict[str, tuple[str, str]] = {
    "classification": ("encoder", BIDIRECTIONAL),
    "pairs": ("encoder", BIDIRECTIONAL),
    "regression": ("encoder", BIDIRECTIONAL),
    "extractive": ("encoder", "whether a word is the answer depends on the context on both sides"),
    "tagging": ("encoder", "a word's tag depends on the words on both sides"),
    "retrieval": ("encoder", f"{BIDIRECTIONAL}, pooled into one embedding"),
    "similarity": ("encoder", f"{BIDIRECTIONAL}, pooled into one embedding"),
    "digits": ("encoder", "patches of an image have no reading order"),
    "patches": ("encoder", "patches of an image have no reading order"),
    "translation": ("encoder-decoder", ENCODE_THEN_DECODE),
    "summarisation": ("encoder-decoder", ENCODE_THEN_DECODE),
    "recall": ("decoder", f"facts are stored in its weights, and {AS_PRETRAINED}"),
    "verbalizer": ("decoder", f"{AS_PRETRAINED}, so it answers even untrained"),
}
"The family to start with, and why."

ADAPT_OR_PRETRAIN = (
    "Adapt a pretrained model of that family where there is one for your language (init_from and "
    "[adapt]): it needs far fewer rows. Pretrain from scratch where there is none for the "
    "language, where its tokenizer splits your words into many pieces (`regard tokenizer advise`), "
    "or where you doubt what it has learned: you inherit its bias."
)


@dataclass(frozen=True)
class FamilyAdvice:
    """The recommended family for a task."""

    family: str
    why: str

    def __str__(self) -> str:
        return f"best started with {_article(self.family)} {self.family}: {self.why}"


def advise(task: str) -> FamilyAdvice:
    """For a task by its name; for a user's own task, the first family that it lists."""
    if task in RECOMMENDED:
        return FamilyAdvice(*RECOMMENDED[task])
    families = TASKS.get(task).properties.get("families", ())
    return FamilyAdvice(
        families[0] if families else "encoder", "it is the first family that the task lists"
    )


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
