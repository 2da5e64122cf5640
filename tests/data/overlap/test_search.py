"""Held-out rows that stand in training: everything near is found, nothing else is named."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.builtin import BUILTIN, read_rows
from regard.data.overlap.normalise import normalise
from regard.data.overlap.search import Overlap, find_overlaps
from regard.data.overlap.similarity import text_similarity

WORDS = st.sampled_from(["on", "the", "mat", "a", "cat", "sat"])
TEXTS = st.lists(st.lists(WORDS, max_size=24).map(" ".join), min_size=1, max_size=4)
EDITS = st.lists(
    st.tuples(st.sampled_from(["change", "insert", "delete"]), st.integers(0, 99), WORDS),
    max_size=6,
)
SENTENCE = "the old man walked slowly down to the harbour and looked out over the water"


def best_overlaps(train: list[str], items: list[str]) -> list[float | None]:
    """By comparing every item to every row."""
    best: list[float | None] = []
    for item in items:
        similar = [text_similarity(item, row) for row in train if normalise(item)]
        best.append(max((each for each in similar if each >= 0.8), default=None))
    return best


def edited(text: str, edits: list[tuple[str, int, str]]) -> str:
    words = text.split()
    for kind, place, word in edits:
        at = place % (len(words) + 1)
        words[at : at + (kind != "insert")] = [] if kind == "delete" else [word]
    return " ".join(words)


@settings(max_examples=150)
@given(TEXTS, st.lists(EDITS, min_size=1, max_size=4))
def test_equals_a_comparison_of_all_pairs(
    items: list[str], edits: list[list[tuple[str, int, str]]]
) -> None:
    train = [edited(item, each) for item in items for each in edits]
    overlaps = find_overlaps(train, {"test": items})["test"]
    found = {each.item: each.similarity for each in overlaps}
    assert [found.get(item) for item in range(len(items))] == best_overlaps(train, items)
    for each in overlaps:
        assert text_similarity(items[each.item], train[each.row]) == each.similarity


def test_exact_beats_near_and_the_best_near_row_is_named() -> None:
    words = SENTENCE.split()
    one, two = " ".join([*words[:-1], "sea"]), " ".join([*words[:-2], "a", "sea"])
    train = ["nothing", two, one, SENTENCE.upper(), SENTENCE]
    assert find_overlaps(train, {"test": [SENTENCE]}) == {"test": [Overlap(0, 3, "exact", 1.0)]}
    assert find_overlaps(train[:3], {"test": [SENTENCE]}) == {
        "test": [Overlap(0, 2, "near", 14 / 15)]
    }


def test_every_split_and_every_repeated_item_has_its_own_overlaps() -> None:
    found = find_overlaps(
        iter([SENTENCE, "something else"]),
        {"dev": ["no", SENTENCE, SENTENCE.title()], "test": [], "probe": ["Something, else."]},
    )
    assert {split: [each.item for each in some] for split, some in found.items()} == {
        "dev": [1, 2],
        "test": [],
        "probe": [0],
    }


def test_texts_without_words() -> None:
    assert find_overlaps(["", " ", "\u200b"], {"test": ["", " "]}) == {"test": []}
    assert [each.kind for each in find_overlaps(["!? !"], {"test": ["!? !"]})["test"]] == ["exact"]
    assert find_overlaps([], {"test": [SENTENCE]}) == {"test": []}
    assert find_overlaps([SENTENCE], {}) == {}


def test_every_seventh_word_changed_in_rows_of_forty() -> None:
    generator = random.Random(0)
    words = [f"w{i}" for i in range(3000)]
    items = [" ".join(generator.choices(words, k=40)) for _ in range(200)]
    train = [
        " ".join("changed" if i % 7 == 6 else word for i, word in enumerate(item.split()))
        for item in items
    ]
    generator.shuffle(train)
    overlaps = find_overlaps(train, {"test": items})["test"]
    assert [(each.item, each.kind, each.similarity) for each in overlaps] == [
        (item, "near", 35 / 40) for item in range(200)
    ]


def test_progress_counts_the_training_rows() -> None:
    calls: list[tuple[int, int | None]] = []
    find_overlaps([SENTENCE] * 9000, {"test": ["a"]}, on_progress=lambda *each: calls.append(each))
    assert calls[-1] == (9000, 9000)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert len(calls) > 1


def test_rows_of_one_template_are_found_in_any_order_of_splits() -> None:
    """Each row is similar to dozens of others, more than are looked at in a large data set."""
    rows: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for row in read_rows(BUILTIN.get("birthplaces")):
        rows[row["split"]].append(row["question"])
    train = rows.pop("train")
    for order in (("dev", "test"), ("test", "dev")):
        found = find_overlaps(train, {split: rows[split] for split in order})
        assert (len(found["dev"]), len(found["test"])) == (380, 387)


def test_the_nearest_of_many_near_documents_is_named() -> None:
    generator = random.Random(7)
    common = [f"w{generator.randrange(900)}" for _ in range(280)]

    def document(own: int, *, seed: int) -> list[str]:
        """The common text with some of its words replaced."""
        changed = random.Random(seed)
        words = list(common)
        for at in changed.sample(range(len(words)), own):
            words[at] = f"own{seed}x{at}"
        return words

    item = document(20, seed=0)
    rows = [document(20 + n % 3, seed=n + 1) for n in range(300)]
    nearest = [*item[:100], "changed", *item[101:]]
    train = [" ".join(row) for row in (*rows, nearest, *rows[:5])]
    [found] = find_overlaps(train, {"test": [" ".join(item)]})["test"]
    assert (found.row, found.kind, found.similarity) == (300, "near", 279 / 280)
    [without] = find_overlaps(train[:300], {"test": [" ".join(item)]})["test"]
    similar = [text_similarity(" ".join(item), row) for row in train[:300]]
    assert (without.row, without.similarity) == (similar.index(max(similar)), max(similar))
