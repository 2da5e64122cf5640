"""The overlap of a task's rows: what counts as the same row, and what is taken out of training."""

from __future__ import annotations

import random

import pytest

from regard.data.corpus import Split
from regard.data.record_corpus import Record
from regard.runs.preparation.data_flaws import target_flaws
from regard.runs.preparation.item_overlap import ItemOverlap
from regard.runs.preparation.overlap import (
    RowItems,
    count_overlap,
    count_test_in_dev,
    find_overlap,
)
from regard.tasks import Task
from regard.tasks.classification.pairs import PairClassification
from regard.tasks.classification.text import Classification
from regard.tasks.qa.recall import Recall
from regard.tasks.retrieval.similarity import Similarity
from regard.tasks.text_generation.translation import Translation

Records = dict[Split, list[Record]]


def words(count: int, *, seed: int) -> str:
    generator = random.Random(seed)
    return " ".join("".join(generator.choices("abcdefghijkl", k=6)) for _ in range(count))


def texts(*rows: tuple[str, str]) -> list[Record]:
    return [Record({"text": text, "label": label}) for text, label in rows]


def template(*, seed: int, rows: int) -> list[Record]:
    """One sentence with a name in it, and labels that have nothing to do with it."""
    generator = random.Random(seed)
    return texts(
        *(
            (f"the film of {words(1, seed=1000 * seed + row)} was on again last night at eight", x)
            for row in range(rows)
            if (x := generator.choice("01"))
        )
    )


def counts(task: Task, records: Records) -> dict[str, int | None]:
    items = RowItems(task, records)
    sizes = {split: len(rows) for split, rows in records.items()}
    return vars(count_overlap(find_overlap(items), items, sizes)["test"])


def test_rows_of_one_template_do_not_count_unless_their_labels_agree() -> None:
    train, test = template(seed=1, rows=60), template(seed=2, rows=60)
    found = counts(Classification(), {"train": train, "dev": [], "test": test})
    assert (found["near"], found["alike"]) == (0, 60)
    copied = [Record({**row, "text": row["text"].replace("eight", "ten")}) for row in train]
    found = counts(Classification(), {"train": train, "dev": [], "test": copied})
    assert (found["near"], found["agree"], found["alike"]) == (60, 60, 0)
    flipped = [Record({**row, "label": str(1 - int(row["label"]))}) for row in copied]
    found = counts(Classification(), {"train": train, "dev": [], "test": flipped})
    assert (found["near"], found["flipped"], found["alike"]) == (60, 60, 0)


def test_questions_about_one_passage_are_different_items() -> None:
    passage = words(80, seed=1)

    def about(question: str) -> Record:
        return Record({"first": passage, "second": question, "label": "yes"})

    train = [about("was it built in the north")]
    test = [about("who had paid for this tower"), about("Was it built in the north?")]
    found = counts(PairClassification(), {"train": train, "dev": [], "test": test})
    assert (found["exact"], found["near"]) == (1, 0)


def test_another_name_is_another_question() -> None:
    train = [Record({"question": "Where was Ada Lind born?", "answer": "Oslo"})]
    test = [
        Record({"question": "Where was Ada Lund born?", "answer": "Rome"}),
        Record({"question": "where was ada lind born", "answer": "Oslo"}),
    ]
    found = counts(Recall(), {"train": train, "dev": [], "test": test})
    assert (found["exact"], found["near"]) == (1, 0)


def test_similar_texts_are_the_same_pair_in_either_order() -> None:
    first, second = words(20, seed=1), words(20, seed=2)
    changed = " ".join(["changed", *first.split()[1:]])
    train = [Record({"first": first, "second": second, "score": "1"})]
    test = [
        Record({"first": second, "second": first, "score": "1"}),
        Record({"first": second, "second": changed, "score": "1"}),
        Record({"first": second, "second": words(20, seed=3), "score": "1"}),
    ]
    found = counts(Similarity(), {"train": train, "dev": [], "test": test})
    assert (found["exact"], found["near"]) == (1, 1)


def test_every_copy_is_dropped_from_training() -> None:
    text = words(20, seed=1)
    changed = " ".join(["changed", *text.split()[1:]])
    kept = texts((words(20, seed=2), "1"), (words(20, seed=3), "0"))
    train = texts((text, "1"), (changed, "1"), (text.upper(), "0")) + kept
    items = RowItems(Classification(), {"train": train, "dev": [], "test": texts((text, "1"))})
    overlap = find_overlap(items, drop=True)
    assert overlap.dropped == (0, 1, 2)
    assert overlap.kept_rows(train) == kept
    assert not overlap.found["test"]


@pytest.mark.parametrize(("overlapping", "scored"), [(0, 200), (1, 200), (2, 198), (200, 0)])
def test_items_are_left_out_from_one_in_a_hundred_on(overlapping: int, scored: int) -> None:
    items = ItemOverlap(["exact"] * overlapping + [None] * (200 - overlapping))
    assert len(items.scored(list(range(200)))) == scored
    assert items.is_contaminated == (scored < 200)
    assert items.label("test:77abf00d").endswith("clean") == (scored < 200)


def test_test_rows_that_stand_in_dev_are_counted() -> None:
    shared = [words(20, seed=seed) for seed in range(4)]
    dev = texts(*[(text, "1") for text in shared], (words(20, seed=9), "0"))
    changed = " ".join(["changed", *shared[1].split()[1:]])
    test = texts((shared[0].upper(), "1"), (changed, "1"), (words(20, seed=8), "0"))
    splits = RowItems(Classification(), {"train": [], "dev": dev, "test": test})
    found = count_test_in_dev(splits)
    assert (found.items, found.exact, found.near) == (3, 1, 1)
    # Where one template made all rows, only equal ones count.
    assert count_test_in_dev(splits, alike={"test"}).near == 0


def translations(*rows: tuple[str, str]) -> list[Record]:
    return [Record({"source": source, "target": target}) for source, target in rows]


def test_answers_agree_however_they_are_typed() -> None:
    source, target = words(20, seed=1), words(20, seed=2)
    train, test = translations((source, target)), translations((source.upper(), target.title()))
    found = counts(Translation(), {"train": train, "dev": [], "test": test})
    assert (found["exact"], found["agree"], found["flipped"]) == (1, 1, 0)


def test_copied_and_shared_targets_are_said() -> None:
    pairs = [(words(20, seed=2 * n), words(20, seed=2 * n + 1)) for n in range(20)]
    train = translations(*pairs[:10])
    fresh = translations(*pairs[10:])
    assert list(target_flaws(Translation(), {"train": train, "dev": fresh, "test": fresh})) == []
    shared = translations(*((words(20, seed=100 + n), pairs[n][1].title()) for n in range(5)))
    [said] = target_flaws(Translation(), {"train": train, "dev": fresh, "test": shared})
    assert "5 of 5 in test have a target that stands in training under another input" in said
    copies = translations(*((source, source + ".") for source, _ in pairs[:3]))
    [said] = target_flaws(Translation(), {"train": train + copies, "dev": fresh, "test": fresh})
    assert "in 3 of 33 rows source and target are the same text" in said
