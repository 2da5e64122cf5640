"""Every task, one file each: rows with named columns, how a model reads and answers them, the
measure of its answers, and the honest baseline beside it.

A `Task` is settings: which columns hold what. Opened on training rows with a tokenizer it becomes
a `Problem`, which knows what those rows taught (the labels there are) and can

    rows  ──examples──►  what is trained on          rows  ──answer──►  one line for each item
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from pydantic import Field

from regard.batch import Batch, Example, collate
from regard.core.catalog import Catalog
from regard.core.errors import UserError
from regard.core.settings import Settings
from regard.data.batching import in_order
from regard.data.corpus import Split
from regard.data.record_corpus import Holds, Record
from regard.data.sources import Identity
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.metrics.metric import Metric, Row
from regard.models.model import Model

TASKS = Catalog("task", home="regard.tasks")

PLACES_AT_ONCE = 4096
"Places that go through a model together while it answers."

OnProgress = Callable[[int, int | None], None]
Told = TypeVar("Told")
TaskState = Mapping[str, Any]
"What the training rows taught besides weights, as JSON: it is kept with the model."


def untold(done: int, total: int | None) -> None:
    """For work that nobody watches."""


@dataclass(frozen=True)
class Tools:
    """What a task reads rows with."""

    tokenizer: Tokenizer
    context: int
    "Places that the model sees at once."
    family: str
    "Of the model, by name: a decoder and an encoder read the same texts in other rows."
    seed: int = 0
    "Of the training: whatever a problem draws follows from it."


class Task(Settings, ABC):
    """What a model is for."""

    longest: int = Field(default=0, ge=0)
    "Tokens of a row at most, specials too; 0: as many as the model sees."

    columns_wanted: ClassVar[tuple[str, ...]]
    "Settings that name a column, in the order people think of them; each is the role it plays."
    columns_told: ClassVar[tuple[str, ...]]
    "Those of them that say what is right, which rows to answer need not have."
    columns_optional: ClassVar[tuple[str, ...]] = ()
    "Those that a file may lack."
    columns_hold: ClassVar[Mapping[str, Holds]] = {}
    "What each takes, by role; not told: the first a text, the others any value."

    metrics: ClassVar[tuple[str, ...]]
    "What its answers are measured by, the main one first."

    def columns(self) -> dict[str, str]:
        """The person's column for each role."""
        return {role: getattr(self, role) for role in self.columns_wanted + self.columns_optional}

    def optional_columns(self) -> tuple[str, ...]:
        """The roles whose column a file may lack, as these settings have it."""
        return self.columns_optional

    def held_columns(self) -> Mapping[str, Holds]:
        """What the column of each role takes, as these settings have it."""
        return self.columns_hold

    def asked_columns(self) -> tuple[str, ...]:
        """The roles that also rows to answer have to have."""
        return tuple(role for role in self.columns_wanted if role not in self.columns_told)

    def column_settings(self) -> Mapping[str, str]:
        """Where people name the column of a role, for errors; by default the setting of its
        name."""
        return {}

    def also_read(self) -> Iterator[Identity]:
        """What else than rows is read, so that an edit is noticed; by default nothing."""
        return iter(())

    def items(self, rows: Sequence[Record]) -> list[Record]:
        """The rows of a part as items: refused where one cannot be used, joined where several are
        one; by default as they are."""
        return list(rows)

    @abstractmethod
    def open(self, train: Sequence[Record], tools: Tools) -> Problem:
        """The problem that training rows pose."""

    @abstractmethod
    def reopen(self, learnt: TaskState, tools: Tools) -> Problem:
        """The same problem again, from what was kept with a model."""

    @abstractmethod
    def texts(self, record: Record) -> list[str]:
        """What of a row is text: a tokenizer learns from it, and overlap is looked for in it."""

    def known_by(self, record: Record) -> str:
        """The row as one text, by which the same row is found in another part."""
        return " ".join(self.texts(record))

    def check(self, record: Record) -> None:
        """Refuse a row that cannot be used: every part is asked before anything is trained."""

    def asked(self, record: Record) -> list[str]:
        """What of a row people are shown beside an answer; by default all of its text."""
        return self.texts(record)


class Problem(ABC):
    """A task in the tokens of one tokenizer, with what its training rows taught."""

    measure: Metric
    is_tuned_on_dev: ClassVar[bool] = False
    "Whether what `tune` chose on dev moves the main metric, so that dev judges nothing."
    answers_quickly: bool = True
    "Whether looks at dev while it trains can afford answers, and not the loss alone."

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def learnt(self) -> TaskState:
        """What `reopen` needs; by default nothing."""
        return {}

    @abstractmethod
    def examples(self, record: Record) -> list[Example]:
        """What is trained on: one row, or several windows of one."""

    def drawn(self, example: Example, generator: np.random.Generator) -> Example:
        """An example as it is trained on this time; by default the same each time."""
        return example

    @abstractmethod
    def answer(
        self,
        model: Model,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = untold,
    ) -> list[Row]:
        """One line for each record: what is true (where the record says it), what was answered,
        how sure the model is; the fields that the measure reads among them."""

    def glance(self, model: Model, records: Sequence[Record], *, device: str = "cpu") -> list[Row]:
        """Answers for a look while it trains, as cheap as the measure allows."""
        return self.answer(model, records, device=device)

    @abstractmethod
    def baselines(
        self, train: Sequence[Record], judged: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        """Label and answers of each baseline, for the same records."""

    def remarks(self, train: Sequence[Record]) -> list[str]:
        """What people have to know of the training rows before anything is trained."""
        return []

    def fit(self, model: Model, *, seed: int) -> Model:
        """The model with the head that this problem needs; by default as it is."""
        return model

    def tune(self, model: Model, dev: Sequence[Record], *, device: str = "cpu") -> list[str]:
        """Choose on dev what is chosen after training, and say so; by default there is nothing."""
        return []

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        """What is wrong with the answers as a whole, a sentence each."""
        return ()

    def collapse(self, answers: Sequence[Row]) -> str:
        """How the answers tell nothing of their rows, in words; nothing where they may."""
        return ""

    def tables(self, answers: Sequence[Row], *, part: str) -> Mapping[str, list[Row]]:
        """What figures over all answers hide, in small tables by name: a score by length, say."""
        return {}

    def places_to_answer(self, record: Record) -> int:
        """About what an answer costs, in places that go through the model; for the forecast."""
        return sum(map(places_of, self.examples(record)))

    def lost(self, record: Record) -> int:
        """Tokens of a record that the model's context has no room for."""
        return 0


def batches_of(
    examples: Sequence[Example], *, pad: int, device: str = "cpu", at_once: int = PLACES_AT_ONCE
) -> Iterator[tuple[list[int], Batch]]:
    """Examples in batches of like length, each with the numbers of its examples."""
    lengths = [places_of(example) for example in examples]
    for chosen in in_order(lengths, budget=max([at_once, *lengths])):
        numbers = chosen.tolist()
        batch = collate([examples[n] for n in numbers], pad_id=pad, rows=numbers)
        yield numbers, batch.to(device)


def told_of(
    examples: Sequence[Example],
    tell: Callable[[Batch], Iterable[Told]],
    *,
    pad: int,
    device: str,
    on_progress: OnProgress,
) -> list[Told]:
    """What `tell` makes of each example, a batch of like length at a time, in their own order."""
    told: dict[int, Told] = {}
    for numbers, batch in batches_of(examples, pad=pad, device=device):
        told |= zip(numbers, tell(batch), strict=True)
        on_progress(len(told), len(examples))
    return [told[number] for number in range(len(examples))]


def places_of(example: Example) -> int:
    """What an example costs: its row, and its source where it has one."""
    return len(example.inputs) + (0 if example.source is None else len(example.source))


@torch.inference_mode()
def mean_loss(model: Model, examples: Sequence[Example], *, pad: int, device: str) -> float:
    """Over all that counts, as training adds it up."""
    total = weight = 0.0
    for _, batch in batches_of(examples, pad=pad, device=device):
        total += sum(float(term.sum) for term in model(batch).values())
        weight += float(batch.weights.sum())
    return total / max(weight, 1e-9)


def refuse_family(model: Model, wanted: type[Model] | tuple[type[Model], ...], hint: str) -> None:
    """Say which family a task asks for, where it was given another."""
    if not isinstance(model, wanted):
        raise UserError(
            f"this task cannot be put on a {type(model).__name__}", topic="recipe", hint=hint
        )
