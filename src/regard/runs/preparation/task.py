"""The rows of a task, packed for one tokenizer: what is trained on, looked at and judged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from regard.adapters import ADAPTERS
from regard.batch import Example, Ints
from regard.core.settings import catalog_name
from regard.data.corpus import SPLITS, Split
from regard.data.record_corpus import Record
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.health.overfitting import row_gap
from regard.evaluation.metrics.metric import (
    MIN_ITEMS,
    TUNED,
    Row,
    difference_verdict,
    paired_difference,
    score,
)
from regard.evaluation.statistics.estimate import Estimate
from regard.models.model import Model
from regard.models.task_models.task_model import TaskModel
from regard.runs.observer import Observer
from regard.runs.preparation.prepared import PreparedData, SplitResults
from regard.runs.recipe import Recipe
from regard.tasks import Problem, Task, example_length, mean_loss
from regard.training.loop import EvalResult

MODEL = "model"
PARTS_JUDGED: tuple[Split, ...] = ("dev", "test")
SHOWN = 3
"Rows of dev that people are shown with their answers."


class PackedExamples:
    """Examples that lie ready; the problem may draw something of them anew each time."""

    def __init__(self, examples: Sequence[Example], problem: Problem) -> None:
        self._examples = examples
        self._problem = problem
        self.lengths: Ints = np.array([example_length(one) for one in examples], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._examples)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        return self._problem.randomise(self._examples[row], generator)


class PreparedTask(PreparedData):
    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer,
        records: Mapping[Split, Sequence[Record]],
        problem: Problem,
        *,
        source: str,
        statistics: dict[str, Any],
    ) -> None:
        super().__init__(recipe, tokenizer, source=source, statistics=statistics)
        assert recipe.task is not None
        self.task: Task = recipe.task
        self.records = records
        self.problem = problem

    def examples(self) -> PackedExamples:
        packed = [e for record in self.records["train"] for e in self.problem.examples(record)]
        return PackedExamples(packed, self.problem)

    def remarks(self) -> list[str]:
        return list(self._said_of_training)

    def fitted(self, model: Model, *, seed: int) -> Model:
        return self.problem.attach_head(model, seed=seed)

    def learnt(self) -> Mapping[str, Any]:
        return self.problem.state()

    def tune(self, model: Model, *, device: str) -> list[str]:
        return self.problem.tune(model, self.records["dev"], device=device)

    def look(self, model: Model, *, device: str) -> EvalResult:
        dev, _ = self._chosen("dev", self.recipe.train.evaluate_documents)
        examples = [example for record in dev for example in self.problem.examples(record)]
        pad = self.tokenizer.padding_id
        loss = mean_loss(model, examples, pad=pad, device=device)
        measure = self.problem.metric
        figures, trouble = {"loss": loss}, ""
        if self.problem.is_fast_to_answer:
            main = measure.score_names[0]
            answers = self.problem.answer_in_training(model, dev, device=device)
            figures = {
                main: float(measure.score_function(main)(_sums(measure.statistics(answers))))
            }
            if found := self.problem.collapse(answers):
                trouble = f"dev: {found}. Try: {', '.join(cures(self.recipe, model))}"
        return EvalResult(loss, len(dev), figures, items=measure.items, warning=trouble)

    def places_measured(self, *, looks: int) -> int:
        recipe = self.recipe
        final = sum(
            self._places(part, recipe.evaluate.documents, self.problem.positions_to_answer)
            for part in SPLITS
        )
        look = self._places("dev", recipe.train.evaluate_documents, self._places_read)
        return looks * look + final

    def measure(self, model: Model, *, device: str, watch: Observer) -> SplitResults:
        measure = self.problem.metric
        chosen = {part: self._chosen(part, self.recipe.evaluate.documents) for part in SPLITS}
        labels = {part: label for part, (_, label) in chosen.items()}
        answers: dict[str, Mapping[Split, list[Row]]] = {
            MODEL: {
                part: self.problem.answer(
                    model,
                    records,
                    device=device,
                    on_progress=watch.progress(f"answering {part}"),
                )
                for part, (records, _) in chosen.items()
            }
        }
        watch.on_progress("baselines", 0, None)
        judged = {part: chosen[part][0] for part in PARTS_JUDGED}
        answers |= dict(self.problem.baselines(self.records["train"], judged))
        figures = [
            _row(part, of, figure)
            for part in SPLITS
            for of, rows in answers.items()
            if part in rows
            for figure in score(measure, rows[part], split=labels[part])
        ]
        ours = answers[MODEL]
        return SplitResults(
            figures,
            [
                self._comparison(part, of, ours[part], rows[part], label=labels[part])
                for part in PARTS_JUDGED
                for of, rows in answers.items()
                if of != MODEL
            ],
            self._remarks(answers[MODEL]),
            items={part: _with_records(ours[part], chosen[part][0]) for part in SPLITS},
            fingerprints={part: self._fingerprints(chosen[part][0]) for part in SPLITS},
            measure=measure.settings(),
            tables=self._tables(ours, labels),
        )

    def health(self, model: Model, measured: SplitResults) -> dict[str, Any]:
        dev = list(measured.items["dev"])
        predictions = {
            "flags": list(self.problem.warnings(dev)),
            "n": len(dev),
            "collapsed": self.problem.collapse(dev),
        }
        gap = row_gap(_losses(measured.items["train"]), _losses(dev), items=self._items)
        return {
            "predictions": predictions,
            "train_and_dev": gap.as_dict() if gap is not None else None,
        }

    def samples(self, model: Model) -> list[dict[str, str]]:
        shown, _ = self._chosen("dev", self.recipe.evaluate.documents)
        records = shown[:SHOWN]
        device = str(next(model.parameters()).device)
        return [
            {"prompt": " ¦ ".join(self.task.input_texts(record)), "text": _said(row)}
            for record, row in zip(
                records, self.problem.answer(model, records, device=device), strict=True
            )
        ]

    @cached_property
    def _said_of_training(self) -> tuple[str, ...]:
        return tuple(self.problem.remarks(self.records["train"]))

    @property
    def _items(self) -> str:
        return self.problem.metric.items

    def _chosen(self, part: Split, most: int) -> tuple[list[Record], str]:
        """The records of a part, or `most` of them drawn by seed; the label says which."""
        records, seed = self.records[part], self.recipe.data.split_seed
        label = f"{part}:{self.statistics['splits'][part]['fingerprint'][:8]}"
        if len(records) <= most:
            return list(records), label
        numbers = np.random.default_rng([seed, most]).choice(len(records), most, replace=False)
        return [records[int(n)] for n in np.sort(numbers)], f"{label}:{most}-drawn-seed{seed}"

    def _places(self, part: Split, most: int, cost: Callable[[Record], int]) -> int:
        records, _ = self._chosen(part, most)
        few = records[:50]
        return round(sum(map(cost, few)) / max(len(few), 1) * len(records))

    def _places_read(self, record: Record) -> int:
        return sum(map(example_length, self.problem.examples(record)))

    def _comparison(
        self, part: Split, of: str, ours: Sequence[Row], theirs: Sequence[Row], *, label: str
    ) -> dict[str, Any]:
        measure = self.problem.metric
        main = measure.score_names[0]
        found = paired_difference(measure, main, ours, theirs, split=label)
        verdict = difference_verdict(found, higher_is_better=measure.higher_is_better(main))
        if part == "dev" and self.problem.is_tuned_on_dev:
            verdict = TUNED
        row = {key: value for key, value in found.as_dict().items() if key != "name"}
        return {"part": part, "against": of, **row, "metric": main, "verdict": verdict}

    def _tables(
        self, answers: Mapping[Split, Sequence[Row]], labels: Mapping[Split, str]
    ) -> dict[str, list[Row]]:
        tables: dict[str, list[Row]] = {}
        for part in PARTS_JUDGED:
            for name, rows in self.problem.tables(answers[part], split=labels[part]).items():
                tables.setdefault(name, []).extend({"part": part, **row} for row in rows)
        return tables

    def _remarks(self, answers: Mapping[Split, Sequence[Row]]) -> list[str]:
        remarks = self.remarks() + [
            f"{part}: {warning}"
            for part in PARTS_JUDGED
            for warning in self.problem.warnings(answers[part])
        ]
        for part in SPLITS:
            lost = [self.problem.truncated_tokens(record) for record in self.records[part]]
            if longer := sum(some > 0 for some in lost):
                remarks.append(
                    f"{part}: {longer:,} of {len(lost):,} rows are longer than the "
                    f"{self.problem.tools.context} places there are, and lose {sum(lost):,} tokens"
                )
        return remarks + [
            f"{part}: {len(answers[part])} {self._items} are too few for a verdict; it takes "
            f"{MIN_ITEMS}"
            for part in PARTS_JUDGED
            if len(answers[part]) < MIN_ITEMS
        ]

    def _fingerprints(self, records: Sequence[Record]) -> dict[str, str]:
        facts = [json.dumps(dict(record), sort_keys=True) for record in records]
        told = [*facts, json.dumps(self.problem.metric.settings(), sort_keys=True)]
        return {"documents": _hash(facts), "told": _hash(told)}


def cures(recipe: Recipe, model: Model) -> list[str]:
    """What to try where a training answers one class for every row."""
    found = [
        f"a lower train.lr (now {recipe.train.lr:g})",
        f"a higher train.warmup_ratio (now {recipe.train.warmup_ratio:g})",
    ]
    if recipe.start is None:
        return [*found, "more train.epochs"]
    head_first = isinstance(model, TaskModel) and catalog_name(recipe.adapt, ADAPTERS) != "head"
    return [*found, *['adapt.kind = "head" first'] * head_first]


def _row(part: Split, of: str, figure: Estimate) -> dict[str, Any]:
    row = figure.as_dict()
    return {"part": part, "metric": row.pop("name"), "of": of, **row}


def _with_records(answers: Sequence[Row], records: Sequence[Record]) -> list[Row]:
    return [
        {**answer, "record": dict(record)} for answer, record in zip(answers, records, strict=True)
    ]


def _losses(rows: Sequence[Row]) -> list[float]:
    return [row["loss"] for row in rows if "loss" in row]


def _said(row: Row) -> str:
    truth = row.get("truth", row.get("truths"))
    if truth is None:
        return str(row["predicted"])
    told = " or ".join(map(str, truth)) if isinstance(truth, list | tuple) else str(truth)
    return f"{row['predicted']}  (true: {told or 'no answer'})"


def _sums(columns: np.ndarray) -> np.ndarray:
    return np.asarray(columns.sum(axis=-1))


def _hash(facts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
