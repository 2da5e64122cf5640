"""Advice: which family of models for which task, and when to pretrain anew rather than adapt.

    tell, find, point at something   →  encoder           every token sees the whole text
    write a text from another        →  encoder-decoder   reads all of it, then writes
    go on with a text, remember      →  decoder           as it was pretrained

Others may be able to, and `regard compare` says whether they are worse: this is where to begin.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.tasks import TASKS

READS_BOTH_SIDES = "every token sees the whole text, before it and behind it"
READS_THEN_WRITES = "the source is read as a whole before the first word is written"
AS_IT_WAS_PRETRAINED = "it goes on with a text, as it did in pretraining"

BEST: dict[str, tuple[str, str]] = {
    "classification": ("encoder", READS_BOTH_SIDES),
    "pairs": ("encoder", READS_BOTH_SIDES),
    "extractive": ("encoder", "a word can be the answer only by what stands on both sides of it"),
    "retrieval": ("encoder", f"{READS_BOTH_SIDES}, and one vector holds it"),
    "similarity": ("encoder", f"{READS_BOTH_SIDES}, and one vector holds it"),
    "digits": ("encoder", "a picture has no order in which to read it"),
    "patches": ("encoder", "a picture has no order in which to read it"),
    "translation": ("encoder-decoder", READS_THEN_WRITES),
    "summarisation": ("encoder-decoder", READS_THEN_WRITES),
    "recall": ("decoder", f"what it read is kept in its weights, and {AS_IT_WAS_PRETRAINED}"),
    "verbalised": ("decoder", f"{AS_IT_WAS_PRETRAINED}, so it answers even untrained"),
}
"The family to begin with, and why."

ADAPT_OR_PRETRAIN = (
    "Adapt a pretrained model of that family where there is one for your language (start and "
    "[adapt]): it takes far fewer rows. Pretrain anew where there is none for the language, where "
    "its tokenizer tears your words apart (`regard tokenizer advise`), or where you doubt what an "
    "existing one has learnt: its bias comes with it."
)


@dataclass(frozen=True)
class FamilyAdvice:
    """Where to begin with a task."""

    family: str
    why: str

    def __str__(self) -> str:
        return f"best begun with {_article(self.family)} {self.family}: {self.why}"


def advise(task: str) -> FamilyAdvice:
    """For a task by its name; of one's own, the first family that it says it is for."""
    if task in BEST:
        return FamilyAdvice(*BEST[task])
    families = TASKS.get(task).properties.get("families", ())
    return FamilyAdvice(
        families[0] if families else "encoder", "it is the first that the task names"
    )


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"
