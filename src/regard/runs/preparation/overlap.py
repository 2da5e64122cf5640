"""Overlap of dev and test with training: searched once for the same data, and cached.

With `data.drop_overlap` the rows of training that dev or test hold are left out, and the search is
repeated until it finds nothing: what is said of the data holds for the data that is trained on.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from regard.core.errors import UserError
from regard.core.json_records import read_record, write_record
from regard.core.progress import OnProgress, no_progress
from regard.data.corpus import SPLITS, Split
from regard.data.overlap.agreement import LabelAgreement, label_agreement
from regard.data.overlap.labels import MAX_LABELS
from regard.data.overlap.normalise import normalise
from regard.data.overlap.search import Overlap, find_overlaps
from regard.data.overlap.similarity import MIN_SIMILARITY, text_similarity
from regard.data.record_corpus import Record
from regard.data.statistics import SplitOverlap
from regard.data.token_cache.cache import cache_home
from regard.runs.observer import Observer
from regard.runs.recipe import FORMAT, Recipe
from regard.tasks import Task

Row = TypeVar("Row")

OVERLAP_SCHEMA = 8
MIN_ROWS_OF_LABEL = 5
"Mean rows of a target from which on targets are labels."
HELD_OUT: tuple[Split, ...] = SPLITS[1:]


class SplitItems:
    """The items of each split, as the search sees them: the texts of a corpus."""

    def __init__(
        self,
        texts: Callable[[Split], Iterable[str]],
        *,
        earlier: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`earlier`: texts that the initial model was trained on."""
        self.texts = texts
        self.earlier = earlier

    def is_same(self, split: Split, found: Overlap, *, within: Split = "train") -> bool:
        """Whether an item and the row of another split that is near to it are the same item to the
        task."""
        return True

    def agreement(
        self, split: Split, found: Sequence[Overlap], *, within: Split = "train"
    ) -> LabelAgreement:
        """How the labels of items agree with those of their rows; without labels, there are no
        pairs."""
        return LabelAgreement(pairs=0, same=0, expected=0.0, deviation=0.0)


class RowItems(SplitItems):
    """The rows of a task."""

    def __init__(self, task: Task, records: Mapping[Split, Sequence[Record]]) -> None:
        super().__init__(lambda split: map(task.identity_text, records[split]))
        self.task = task
        self.records = records
        self.targets = {
            split: [task.target_text(record) for record in records[split]] for split in SPLITS
        }

    def is_same(self, split: Split, found: Overlap, *, within: Split = "train") -> bool:
        if found.kind == "exact":
            return True
        item, row = self.records[split][found.item], self.records[within][found.row]
        target, other = self.targets[split][found.item], self.targets[within][found.row]
        # One of few labels says nothing of the rest of its row; another answer, that it is another.
        if target is not None and other is not None and not self.has_labels:
            same_target = target == other or text_similarity(target, other) >= MIN_SIMILARITY
        else:
            same_target = True
        return same_target and self.task.is_near(item, row)

    @cached_property
    def has_labels(self) -> bool:
        """Whether the targets are labels of classes, rather than texts."""
        targets = self.targets["train"]
        return len(set(targets)) <= min(MAX_LABELS, len(targets) / MIN_ROWS_OF_LABEL)

    def agreement(
        self, split: Split, found: Sequence[Overlap], *, within: Split = "train"
    ) -> LabelAgreement:
        labelled = [one for one in found if self.targets[split][one.item] is not None]
        if self.has_labels:
            return label_agreement(labelled, self.targets[split], self.targets[within])
        # However an answer is typed, it is the same answer.
        targets, others = (
            [target if target is None else normalise(target) for target in self.targets[each]]
            for each in (split, within)
        )
        return label_agreement(labelled, targets, others)


@dataclass(frozen=True)
class DataOverlap:
    """The items of dev and test that stand in training."""

    found: Mapping[str, tuple[Overlap, ...]] = field(default_factory=dict)
    "By split; of each item the most similar row of training."
    dropped: tuple[int, ...] = ()
    "Rows left out of training because dev or test hold them."
    alike: Mapping[str, int] = field(default_factory=dict)
    """By split, items near to a row of training in wording alone: their labels agree no more than
    by chance, as where one template made all rows. They do not count."""
    flaws: tuple[str, ...] = ()
    "What else of the data could fool, in words."

    def kept_rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of training that are not left out."""
        dropped = set(self.dropped)
        return [row for number, row in enumerate(rows) if number not in dropped]

    def kinds(self, split: Split) -> dict[int, str]:
        """`exact` or `near` by item."""
        return {one.item: one.kind for one in self.found.get(split, ())}


NO_OVERLAP = DataOverlap()


def load_or_find_overlap(
    recipe: Recipe,
    splits: SplitItems,
    *,
    source: str,
    find_flaws: Callable[[], Sequence[str]],
    earlier: Sequence[Any] = (),
    observer: Observer,
) -> DataOverlap:
    """The overlap in a recipe's data, and its flaws; `earlier` are facts of the data that the
    initial model was trained on."""
    table = recipe.to_table()
    facts = [FORMAT, OVERLAP_SCHEMA, source, table["data"], table.get("task"), *earlier]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    file = cache_home() / "overlap" / f"{key[:32]}.json"
    # Missing, of another version, or damaged: searched again.
    with suppress(UserError):
        return read_record(
            file, DataOverlap, schema=OVERLAP_SCHEMA, topic="data", hint="Delete it."
        )
    overlap = find_overlap(
        splits,
        drop=recipe.data.drop_overlap,
        on_progress=observer.progress("searching overlap"),
    )
    shared = count_test_in_dev(splits, alike=overlap.alike)
    overlap = replace(overlap, flaws=(*_shared_sentences(shared), *find_flaws()))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_record(file, overlap, schema=OVERLAP_SCHEMA)
    return overlap


def find_overlap(
    splits: SplitItems, *, drop: bool = False, on_progress: OnProgress = no_progress
) -> DataOverlap:
    """The overlap of dev and test with train; with `drop`, what is left once it is removed."""
    held_out: dict[str, list[str]] = {split: list(splits.texts(split)) for split in HELD_OUT}
    dropped: set[int] = set()
    alike: dict[str, int] = {}
    while True:
        kept = array("q")  # one for each row of training: a list takes five times as much
        trained = chain(splits.texts("train"), splits.earlier())
        remaining = _remaining(trained, dropped, kept)
        searched = find_overlaps(remaining, held_out, on_progress=on_progress)
        found: dict[str, tuple[Overlap, ...]] = {}
        for split in HELD_OUT:
            moved = [replace(one, row=kept[one.row]) for one in searched[split]]
            same = [one for one in moved if splits.is_same(split, one)]
            near = [one for one in same if one.kind == "near"]
            if split in alike or splits.agreement(split, near).at_chance:
                alike.setdefault(split, len(near))
                same = [one for one in same if one.kind == "exact"]
            found[split] = tuple(same)
        if drop:  # what the initial model was trained on cannot be left out any more
            own = sum(1 for _ in splits.texts("train"))
            rows = {one.row for overlaps in found.values() for one in overlaps if one.row < own}
        if not drop or not rows:
            return DataOverlap(found, tuple(sorted(dropped)), alike)
        if not dropped:
            rows |= _rows_in_held_out(splits, alike=alike, on_progress=on_progress)
        dropped |= rows


def count_test_in_dev(splits: SplitItems, *, alike: Collection[str] = ()) -> SplitOverlap:
    """The items of test that stand in dev, on which settings and steps are chosen."""
    dev, test = list(splits.texts("dev")), list(splits.texts("test"))
    found = [
        one
        for one in find_overlaps(dev, {"test": test})["test"]
        if splits.is_same("test", one, within="dev")
    ]
    exact = [one for one in found if one.kind == "exact"]
    near = [one for one in found if one.kind == "near"]
    if alike or splits.agreement("test", near, within="dev").at_chance:
        near = []
    return SplitOverlap(items=len(test), exact=len(exact), near=len(near))


def _shared_sentences(shared: SplitOverlap) -> Iterator[str]:
    if shared.is_contaminated:
        yield (
            f"data: {shared.overlapping:,} of {shared.items:,} in test stand in dev, "
            f"{shared.exact:,} word for word: what is chosen on dev is chosen on test; "
            "give dev and test different rows"
        )


def _rows_in_held_out(
    splits: SplitItems, *, alike: Collection[str], on_progress: OnProgress
) -> set[int]:
    """Every row of training that dev or test holds: the same search, the other way round."""
    train = {"train": list(splits.texts("train"))}
    items = [
        (split, item, text) for split in HELD_OUT for item, text in enumerate(splits.texts(split))
    ]
    texts = [text for _, _, text in items]
    rows: set[int] = set()
    for one in find_overlaps(texts, train, on_progress=on_progress)["train"]:
        split, item, _ = items[one.row]
        pair = replace(one, item=item, row=one.item)
        if splits.is_same(split, pair) and (one.kind == "exact" or split not in alike):
            rows.add(pair.row)
    return rows


def _remaining(texts: Iterable[str], dropped: Collection[int], kept: array[int]) -> Iterator[str]:
    """The texts that are not dropped; their indices are appended to `kept`."""
    for row, text in enumerate(texts):
        if row not in dropped:
            kept.append(row)
            yield text


def count_overlap(
    overlap: DataOverlap, splits: SplitItems, items: Mapping[Split, int]
) -> dict[str, SplitOverlap]:
    """The numbers of `overlap` for each split, which has this many items."""
    counts: dict[str, SplitOverlap] = {}
    for split in HELD_OUT:
        found = overlap.found.get(split, ())
        agreement = splits.agreement(split, found)
        counts[split] = SplitOverlap(
            items=items[split],
            exact=sum(one.kind == "exact" for one in found),
            near=sum(one.kind == "near" for one in found),
            agree=agreement.same if agreement.pairs else None,
            flipped=agreement.pairs - agreement.same if agreement.pairs else None,
            alike=overlap.alike.get(split, 0),
        )
    return counts
