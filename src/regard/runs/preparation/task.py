"""The rows of a task under one tokenizer: training, evaluation on dev, final evaluation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.adapters import ADAPTERS
from regard.batch import Example, Ints
from regard.core.settings import catalog_name
from regard.data.corpus import SPLITS, Split
from regard.data.record_corpus import Record
from regard.data.statistics import CorpusStatistics
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.evaluation.health.overfitting import LossGap, LossLevel
from regard.evaluation.metrics.metric import GROUP, Row, row_groups
from regard.evaluation.metrics.scoring import paired_difference, score
from regard.evaluation.statistics.baseline_verdict import (
    BaselineVerdict,
    difference_verdict,
    too_few_items,
)
from regard.evaluation.statistics.item_groups import count_groups
from regard.models.model import Model, TokenModel
from regard.runs.health_record import HealthRecord, PredictionsRecord, TrainDevGapRecord
from regard.runs.items import hash_facts
from regard.runs.observer import Observer
from regard.runs.preparation.item_overlap import ItemOverlap
from regard.runs.preparation.overlap import DataOverlap
from regard.runs.preparation.prepared import PreparedData, ScoredItems, SplitResults
from regard.runs.recipe import Recipe
from regard.runs.results import JUDGED_SPLITS, MODEL, ComparisonRecord, SampleRecord, ScoreRecord
from regard.tasks import Problem, Task, example_length
from regard.training.loop import EvalResult

SHOWN_ANSWERS = 3
"Rows of dev shown with the model's answers."


class TaskExamples:
    """Examples built once; the problem may add random draws in each epoch."""

    def __init__(self, examples: Sequence[Example], problem: Problem[Any]) -> None:
        self._examples = examples
        self._problem = problem
        self.lengths: Ints = np.array([example_length(one) for one in examples], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._examples)

    def example(self, row: int, generator: np.random.Generator) -> Example:
        return self._problem.randomise(self._examples[row], generator)


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a split that are evaluated."""

    records: list[Record]
    overlap: ItemOverlap
    label: str
    "Which rows these are, for signatures."

    @property
    def scored_label(self) -> str:
        """Which of them scores count."""
        return self.overlap.label(self.label)

    @property
    def tuning_records(self) -> list[Record]:
        """The clean rows to tune on; all of them if none is clean."""
        return self.overlap.scored(self.records) or self.records


class PreparedTask(PreparedData):
    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer,
        records: Mapping[Split, Sequence[Record]],
        problem: Problem[Any],
        *,
        source: str,
        statistics: CorpusStatistics,
        overlap: DataOverlap,
    ) -> None:
        super().__init__(recipe, tokenizer, source=source, statistics=statistics, overlap=overlap)
        assert recipe.task is not None
        self.task: Task = recipe.task
        self.records = records
        self.problem = problem

    def examples(self) -> TaskExamples:
        examples = [e for record in self.records["train"] for e in self.problem.examples(record)]
        return TaskExamples(examples, self.problem)

    def label_counts(self, split: Split) -> Mapping[str, int]:
        if "label" not in self.task.column_types().values():
            return {}
        targets = (self.task.target_text(record) for record in self.records[split])
        return dict(Counter(map(str, targets)).most_common())

    def scored_items(self, split: Split) -> ScoredItems:
        chosen = self._choose_rows(split, self.recipe.evaluate.documents)
        scored = chosen.overlap.scored(chosen.records)
        groups = {self.task.group_of(record) for record in scored}
        return ScoredItems(len(scored), None if None in groups else len(groups))

    def remarks(self) -> list[str]:
        return list(self._training_remarks)

    def attach_head(self, model: TokenModel, *, seed: int) -> Model:
        with_head: Model = self.problem.attach_head(model, seed=seed)
        return with_head

    def task_state(self) -> Mapping[str, Any]:
        return self.problem.state()

    def tune(self, model: Model, *, device: str) -> list[str]:
        dev = self._choose_rows("dev", len(self.records["dev"])).tuning_records
        return self.problem.tune(model, dev, device=device)

    def evaluate_dev(self, model: Model, *, device: str, documents: int) -> EvalResult:
        dev = self._choose_rows("dev", documents).tuning_records
        loss, answers = self.problem.loss_and_answers(model, dev, device=device)
        metric = self.problem.metric
        scores, warning = {"loss": loss}, ""
        if answers:
            main = metric.score_names[0]
            totals = np.asarray(metric.statistics(answers).sum(axis=-1))
            scores = {main: float(metric.score_function(main)(totals))}
            if collapse := self.problem.collapse(answers):
                warning = f"dev: {collapse}. Try: {', '.join(_remedies(self.recipe, model))}"
        return EvalResult(loss, len(dev), scores, items=metric.items, warning=warning)

    def dev_positions(self, documents: int) -> int:
        def cost(record: Record) -> int:
            answer = self.problem.positions_to_answer_in_training(record)
            loss = sum(map(example_length, self.problem.examples(record)))
            return loss + (answer if self.problem.is_fast_to_answer else 0)

        return self._positions("dev", documents, cost)

    def final_positions(self) -> int:
        cost, limit = self.problem.positions_to_answer, self.recipe.evaluate.documents
        tuning = self._positions("dev", len(self.records["dev"]), cost) if self.problem.tunes else 0
        return tuning + sum(self._positions(split, limit, cost) for split in SPLITS)

    def evaluate(self, model: Model, *, device: str, observer: Observer) -> SplitResults:
        metric = self.problem.metric
        chosen = {
            split: self._choose_rows(split, self.recipe.evaluate.documents) for split in SPLITS
        }
        labels = {split: rows.scored_label for split, rows in chosen.items()}
        answers: dict[str, Mapping[Split, list[Row]]] = {
            MODEL: {
                split: self.problem.answer(
                    model,
                    rows.records,
                    device=device,
                    on_progress=observer.progress(f"answering {split}"),
                )
                for split, rows in chosen.items()
            }
        }
        observer.on_progress("baselines", 0, None)
        answers |= self._baseline_answers
        answers = {
            of: {
                split: self._with_groups(rows, chosen[split].records)
                for split, rows in by_split.items()
            }
            for of, by_split in answers.items()
        }
        scored = {
            of: {split: chosen[split].overlap.scored(rows[split]) for split in rows}
            for of, rows in answers.items()
        }
        ours = answers[MODEL]
        return SplitResults(
            tuple(one for split in SPLITS for one in self._scores(scored, split, labels[split])),
            tuple(
                self._comparison(split, of, scored[MODEL][split], rows[split], label=labels[split])
                for split in JUDGED_SPLITS
                for of, rows in scored.items()
                if of != MODEL and rows[split]
            ),
            tuple(self._evaluation_remarks(ours, scored[MODEL])),
            items={split: _item_rows(ours[split], chosen[split]) for split in SPLITS},
            fingerprints={split: self._fingerprints(chosen[split].records) for split in SPLITS},
            metric=metric.settings(),
            tables=self._tables(scored[MODEL], labels),
            contamination=tuple(
                chosen[split].overlap.record(
                    split, unit="rows", estimates=self._scores(answers, split, chosen[split].label)
                )
                for split in JUDGED_SPLITS
                if chosen[split].overlap.is_contaminated
            ),
        )

    def _scores(
        self, answers: Mapping[str, Mapping[Split, list[Row]]], split: Split, label: str
    ) -> list[ScoreRecord]:
        """Of model and baselines on a split; none where no row is scored."""
        return [
            ScoreRecord.of_estimate(estimate, split=split, of=of)
            for of, rows in answers.items()
            if rows.get(split)
            for estimate in score(self.problem.metric, rows[split], split=label)
        ]

    def health(self, model: Model, results: SplitResults) -> HealthRecord:
        dev = list(results.items["dev"])
        predictions = PredictionsRecord(
            flags=tuple(self.problem.warnings(dev)),
            n=len(dev),
            collapsed=self.problem.collapse(dev),
        )
        clean = [row for row in dev if row["overlap"] is None]
        contaminated = any(one.split == "dev" for one in results.contamination)
        scored = clean if contaminated else dev
        train_level, dev_level = (_loss_level(rows) for rows in (results.items["train"], scored))
        if train_level is None or dev_level is None:
            return HealthRecord(predictions=predictions)
        gap = LossGap(
            train_level,
            dev_level,
            items=self._items,
            per_token=False,
            ahead=results.trivial_baseline_ahead(),
        )
        return HealthRecord(predictions=predictions, train_dev_gap=TrainDevGapRecord.of_gap(gap))

    def samples(self, model: Model) -> tuple[SampleRecord, ...]:
        chosen = self._choose_rows("dev", self.recipe.evaluate.documents)
        records = chosen.records[:SHOWN_ANSWERS]
        device = str(next(model.parameters()).device)
        answers = self.problem.answer(model, records, device=device)
        return tuple(
            SampleRecord(prompt=" ¦ ".join(self.task.input_texts(record)), text=_answer_text(row))
            for record, row in zip(records, answers, strict=True)
        )

    def prepare_evaluation(self, observer: Observer) -> None:
        observer.on_progress("baselines", 0, None)
        _ = self._baseline_answers, self._truncation_remarks

    @cached_property
    def _baseline_answers(self) -> dict[str, Mapping[Split, list[Row]]]:
        """Of each baseline, for the rows that the final evaluation answers."""
        limit = self.recipe.evaluate.documents
        judged = {split: self._choose_rows(split, limit).records for split in JUDGED_SPLITS}
        return dict(self.problem.baselines(self.records["train"], judged))

    @cached_property
    def _truncation_remarks(self) -> tuple[str, ...]:
        remarks = []
        for split in SPLITS:
            lost = [self.problem.truncated_tokens(record) for record in self.records[split]]
            if truncated := sum(tokens > 0 for tokens in lost):
                remarks.append(
                    f"{split}: {truncated:,} of {len(lost):,} rows are longer than the context of "
                    f"{self.problem.tools.context} tokens, and lose {sum(lost):,} tokens"
                )
        return tuple(remarks)

    @cached_property
    def _training_remarks(self) -> tuple[str, ...]:
        return tuple(self.problem.remarks(self.records["train"]))

    @property
    def _items(self) -> str:
        return self.problem.metric.items

    def _choose_rows(self, split: Split, limit: int) -> ChosenRows:
        """The rows of a split, or `limit` of them drawn by seed; the label says which."""
        records, seed = self.records[split], self.recipe.data.split_seed
        label = f"{split}:{self.statistics.splits[split].fingerprint[:8]}"
        indices = np.arange(len(records))
        if len(records) > limit:
            generator = np.random.default_rng([seed, limit])
            indices = np.sort(generator.choice(len(records), limit, replace=False))
            label += f":{limit}-drawn-seed{seed}"
        found = {one.item: one for one in self.overlap.found.get(split, ())}
        overlaps = [found.get(int(index)) for index in indices]
        same_label = [
            target == self.task.target_text(self.records["train"][one.row])
            for one in overlaps
            if one is not None and (target := self.task.target_text(records[one.item])) is not None
        ]
        kinds = [None if one is None else one.kind for one in overlaps]
        return ChosenRows(
            [records[int(index)] for index in indices], ItemOverlap(kinds, same_label), label
        )

    def _with_groups(self, answers: Sequence[Row], records: Sequence[Record]) -> list[Row]:
        return [
            {**answer, GROUP: self.task.group_of(record)}
            for answer, record in zip(answers, records, strict=True)
        ]

    def _positions(self, split: Split, limit: int, cost: Callable[[Record], int]) -> int:
        """Positions of the chosen records, extrapolated from the first 50."""
        records = self._choose_rows(split, limit).records
        first = records[:50]
        return round(sum(map(cost, first)) / max(len(first), 1) * len(records))

    def _comparison(
        self, split: Split, of: str, ours: Sequence[Row], theirs: Sequence[Row], *, label: str
    ) -> ComparisonRecord:
        metric = self.problem.metric
        main = metric.score_names[0]
        difference = paired_difference(metric, main, ours, theirs, split=label)
        verdict = difference_verdict(difference, higher_is_better=metric.higher_is_better(main))
        if split == "dev" and self.problem.is_tuned_on_dev:
            verdict = BaselineVerdict.TUNED
        return ComparisonRecord.of_difference(
            difference, split=split, metric=main, against=of, verdict=verdict
        )

    def _tables(
        self, answers: Mapping[Split, Sequence[Row]], labels: Mapping[Split, str]
    ) -> dict[str, list[Row]]:
        tables: dict[str, list[Row]] = {}
        for split in JUDGED_SPLITS:
            if not answers[split]:
                continue
            for name, rows in self.problem.tables(answers[split], split=labels[split]).items():
                tables.setdefault(name, []).extend({"split": split, **row} for row in rows)
        return tables

    def _evaluation_remarks(
        self, answers: Mapping[Split, Sequence[Row]], scored: Mapping[Split, Sequence[Row]]
    ) -> list[str]:
        warnings = [
            f"{split}: {warning}"
            for split in JUDGED_SPLITS
            for warning in self.problem.warnings(answers[split])
        ]
        few_items = [
            f"{split}: {few}"
            for split in JUDGED_SPLITS
            if (
                few := too_few_items(
                    len(scored[split]),
                    self._items,
                    groups=count_groups(row_groups(scored[split])),
                )
            )
        ]
        return [*self.remarks(), *warnings, *self._truncation_remarks, *few_items]

    def _fingerprints(self, records: Sequence[Record]) -> dict[str, str]:
        documents = [json.dumps(dict(record), sort_keys=True) for record in records]
        scored = [*documents, json.dumps(self.problem.metric.settings(), sort_keys=True)]
        return {"documents": hash_facts(documents), "scored": hash_facts(scored)}


def _remedies(recipe: Recipe, model: Model) -> list[str]:
    """What to try where a training predicts one class for every row."""
    remedies = [
        f"a lower train.lr (now {recipe.train.lr:g})",
        f"a higher train.warmup_ratio (now {recipe.train.warmup_ratio:g})",
    ]
    if recipe.init_from is None:
        return [*remedies, "more train.epochs"]
    head_first = model.task_head is not None and catalog_name(recipe.adapt, ADAPTERS) != "head"
    return [*remedies, *['adapt.kind = "head" first'] * head_first]


def _item_rows(answers: Sequence[Row], chosen: ChosenRows) -> list[Row]:
    return [
        {**answer, "record": dict(record), "overlap": kind}
        for answer, record, kind in zip(answers, chosen.records, chosen.overlap.kinds, strict=True)
    ]


def _loss_level(rows: Sequence[Row]) -> LossLevel | None:
    """None if answers have no loss."""
    with_loss = [row for row in rows if "loss" in row]
    if not with_loss:
        return None
    return LossLevel.of_rows([row["loss"] for row in with_loss], groups=row_groups(with_loss))


def _answer_text(row: Row) -> str:
    """A prediction with the truth beside it, where the record has one."""
    truth = row.get("truth", row.get("truths"))
    if truth is None:
        return str(row["predicted"])
    text = " or ".join(map(str, truth)) if isinstance(truth, list | tuple) else str(truth)
    return f"{row['predicted']}  (true: {text or 'no answer'})"
