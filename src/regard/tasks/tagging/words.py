"""Tagging: a tag for each word of a sentence (named entities, parts of speech).

    [CLS] w₁ w₂₁ w₂₂ w₃ … [SEP]  ─►  encoder, a softmax over the tags at each word's first token
    loss = −Σ log p(tag of the word)

Devlin et al., 2019, "BERT", section 5.3. A word behind the context, or one that the tokenizer
leaves nothing of, gets the most frequent tag of training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.batch import Example
from regard.core.errors import UserError
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.data.special_tokens import InputSequence, single_sequence
from regard.evaluation.baselines.word_tags import WordTags
from regard.evaluation.metrics.metric import Row
from regard.evaluation.metrics.tagging import TaggingMetric
from regard.models.heads.task_heads import TokenHead
from regard.models.model import TokenModel
from regard.models.task_models.task_model import TokenTagger
from regard.tasks import TASKS, Problem, Task, TaskState, Tools, check_family, predict_examples


@TASKS.add("tagging", families=("encoder",))
class Tagging(Task):
    """Predict a tag for each word of a sentence."""

    tokens: str = "tokens"
    "The column that holds the words: a list, or a text of words between spaces."
    tags: str = "tags"
    "The column that holds the tag of each word, as B-PER, I-PER, O or any other names."

    column_roles: ClassVar = ("tokens", "tags")
    target_roles: ClassVar = ("tags",)
    score_names: ClassVar = TaggingMetric().score_names
    role_types: ClassVar = {"tokens": "value", "tags": "value"}

    def build_problem(self, train: Sequence[Record], tools: Tools) -> TaggingProblem:
        counts = Counter(tag for record in train for tag in self.tags_of(record))
        if len(counts) < 2:
            raise UserError(
                f"every training word has the tag {next(iter(counts), '')!r}, so there is nothing "
                "to learn",
                topic="task",
                hint="Give sentences with other tags, or set task.tags to another column.",
            )
        tags = sorted(counts, key=lambda tag: (-counts[tag], tag))
        return self.restore_problem({"tags": tags}, tools)

    def restore_problem(self, state: TaskState, tools: Tools) -> TaggingProblem:
        return TaggingProblem(self, tools, state["tags"])

    def texts(self, record: Record) -> list[str]:
        return [" ".join(self.words(record))]

    def target_text(self, record: Record) -> str | None:
        return " ".join(self.tags_of(record)) if "tags" in record else None

    def check(self, record: Record) -> None:
        words, tags = self.words(record), self.tags_of(record)
        if len(words) != len(tags):
            raise record.error(
                f"{len(words)} words and {len(tags)} tags",
                hint="Give each word one tag, or set task.tokens and task.tags to other columns.",
            )

    def words(self, record: Record) -> list[str]:
        words = _as_list(record, "tokens")
        if not words:
            raise record.error("a sentence without a word", hint="Leave it out.")
        return words

    def tags_of(self, record: Record) -> list[str]:
        return _as_list(record, "tags")


def _as_list(record: Record, role: str) -> list[str]:
    """Words or tags of a row; numbers are names of tags too."""
    value = record[role]
    found = value.split() if isinstance(value, str) else value
    if not isinstance(found, list):
        raise record.error(
            f"the {role} are {value!r}, neither a list nor a text",
            hint=f"Set task.{role} to their column.",
        )
    names = [str(each) for each in found]
    if bad := next((name for name in names if name.split() != [name]), None):
        raise record.error(
            f"{bad!r} among the {role} is empty or has a space", hint="Write it without one."
        )
    return names


@dataclass(frozen=True)
class TaggedSequence:
    """A sentence as tokens, and the position of each word's first one."""

    sequence: InputSequence
    positions: Mapping[int, int]
    "Position in the sequence by the index of the word; cut off words have none."


class TaggingProblem(Problem[TokenTagger]):
    def __init__(self, task: Tagging, tools: Tools, tags: Sequence[str]) -> None:
        super().__init__(tools)
        self.task = task
        self.metric = TaggingMetric()
        self.tags = tuple(tags)
        "The most frequent one first."
        self._index = {tag: index for index, tag in enumerate(self.tags)}

    def state(self) -> TaskState:
        return {"tags": list(self.tags)}

    def attach_head(self, model: TokenModel, *, seed: int) -> TokenTagger:
        fits = model.reads == "row" and not model.generates
        check_family(model, 'Set model.family = "encoder".', fits=fits)
        return TokenTagger(model, TokenHead(model.head.width, labels=len(self.tags)), seed=seed)

    def examples(self, record: Record) -> list[Example]:
        tagged = self._sequence(record)
        ids = np.asarray(tagged.sequence.ids, dtype=np.int64)
        targets, weights = np.zeros_like(ids), np.zeros(len(ids), dtype=np.float32)
        # Rows to answer have no tags, and a tag of evaluated rows may be unknown: the loss of the
        # placeholder is not used.
        tags = self.task.tags_of(record) if "tags" in record else []
        for word, position in tagged.positions.items():
            weights[position] = 1.0
            targets[position] = self._index.get(tags[word], 0) if tags else 0
        segments = np.asarray(tagged.sequence.segments, dtype=np.int64)
        return [Example(ids, targets, weights, segments)]

    def answer(
        self,
        model: TokenTagger,
        records: Sequence[Record],
        *,
        device: str = "cpu",
        on_progress: OnProgress = no_progress,
    ) -> list[Row]:
        logprobs = predict_examples(
            [example for record in records for example in self.examples(record)],
            lambda batch: [one.cpu().numpy() for one in model.logprobs(batch)],
            pad=self.tools.tokenizer.padding_id,
            device=device,
            on_progress=on_progress,
        )
        return [
            self._row(item, record, of_words)
            for item, (record, of_words) in enumerate(zip(records, logprobs, strict=True))
        ]

    def baselines(
        self, train: Sequence[Record], evaluated: Mapping[Split, Sequence[Record]]
    ) -> Iterator[tuple[str, Mapping[Split, list[Row]]]]:
        words, tags = map(self.task.words, train), map(self.task.tags_of, train)
        baseline = WordTags(list(words), list(tags))
        yield (
            baseline.label,
            {
                split: [
                    self._answered(item, record, baseline.predict(self.task.words(record)))
                    for item, record in enumerate(rows)
                ]
                for split, rows in evaluated.items()
            },
        )

    def warnings(self, answers: Sequence[Row]) -> tuple[str, ...]:
        collapsed = self.collapse(answers)
        unseen = Counter(tag for row in answers for tag in row["truth"].split())
        return (
            *([collapsed] if collapsed else []),
            *(
                f"tag {tag!r} of {n:,} words is in no training row, so they cannot be right"
                for tag, n in unseen.items()
                if tag not in self._index
            ),
        )

    def collapse(self, answers: Sequence[Row]) -> str:
        predicted = {tag for row in answers for tag in row["predicted"].split()}
        true = {tag for row in answers for tag in row["truth"].split()}
        if len(predicted) > 1 or len(true) < 2:
            return ""
        return f"all words get the tag {next(iter(predicted))}"

    def truncated_tokens(self, record: Record) -> int:
        return self._sequence(record).sequence.truncated

    def _sequence(self, record: Record) -> TaggedSequence:
        words = self.task.words(record)
        ids, offsets = self.tools.tokenizer.encode_with_offsets(" ".join(words))
        sequence = single_sequence(ids, self.tools.tokenizer, limit=self.tools.context)
        kept = len(sequence.ids) - 2
        positions: dict[int, int] = {}
        token = begin = 0
        for index, word in enumerate(words):
            # Tokens may begin with the space before their word.
            while token < len(ids) and offsets[token][1] <= begin:
                token += 1
            if token < kept and offsets[token][0] < begin + len(word):
                positions[index] = token + 1  # after [CLS]
            begin += len(word) + 1
        return TaggedSequence(sequence, positions)

    def _row(self, item: int, record: Record, logprobs: np.ndarray) -> Row:
        predicted = [self.tags[0]] * len(self.task.words(record))
        positions = self._sequence(record).positions
        for word, of_word in zip(positions, logprobs, strict=True):
            predicted[word] = self.tags[int(of_word.argmax())]
        row = self._answered(item, record, predicted)
        if "tags" not in record or not positions:
            return row
        known = [
            (of_word, self._index[tag])
            for of_word, tag in zip(
                logprobs, (self.task.tags_of(record)[word] for word in positions), strict=True
            )
            if tag in self._index
        ]
        if known:
            row["loss"] = -float(np.mean([of_word[tag] for of_word, tag in known]))
        return row

    def _answered(self, item: int, record: Record, predicted: Sequence[str]) -> dict[str, Any]:
        row: dict[str, Any] = {"item": item, "predicted": " ".join(predicted)}
        if "tags" in record:
            row["truth"] = " ".join(self.task.tags_of(record))
        return row
