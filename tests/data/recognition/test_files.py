"""Splits and languages by the names of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.data.recognition.files import find_files, parallel_name


def write(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a,b\n", encoding="utf-8")


def names(folder: Path, *sources: str) -> dict[str, list[str]]:
    found = find_files([str(folder / source) for source in sources])
    assert found is not None
    return {split: [Path(one).name for one in files] for split, files in found.splits.items()}


@pytest.mark.parametrize("dev", ["dev", "valid", "validation", "val", "sts-dev", "dev_v2"])
def test_splits_of_a_folder(tmp_path: Path, dev: str) -> None:
    write(
        tmp_path, "train.csv", f"{dev}.csv", "test.csv", "README.md", "LICENSE.txt", ".hidden.csv"
    )
    assert names(tmp_path, "") == {
        "train": ["train.csv"],
        "dev": [f"{dev}.csv"],
        "test": ["test.csv"],
    }


def test_files_in_any_order_and_the_longest_words_alone(tmp_path: Path) -> None:
    write(tmp_path, "test.csv", "training.csv", "contest.csv", "devices.csv")
    found = names(tmp_path, "test.csv", "training.csv")
    assert found == {"train": ["training.csv"], "test": ["test.csv"]}
    # Only whole words name a split.
    assert names(tmp_path, "contest.csv") == {"train": ["contest.csv"]}
    assert names(tmp_path, "devices.csv", "contest.csv") == {
        "train": ["devices.csv", "contest.csv"]
    }


def test_without_train_the_dev_file_is_taken_and_it_is_said(tmp_path: Path) -> None:
    write(tmp_path, "dev.csv", "test.csv")
    found = find_files([str(tmp_path)])
    assert found is not None
    assert {split: Path(one[0]).name for split, one in found.splits.items()} == {
        "train": "dev.csv",
        "test": "test.csv",
    }
    assert "dev.csv" in found.remarks[0]


def test_folders_name_splits_where_files_do_not(tmp_path: Path) -> None:
    """Else the files of test would be trained on."""
    write(tmp_path, "a/train/1.csv", "a/train/2.csv", "a/test/1.csv", "a/LICENSE.txt")
    assert names(tmp_path, "a") == {"train": ["train"], "test": ["1.csv"]}
    # A folder that holds other files too is not named.
    write(tmp_path, "b/1.csv", "b/2.csv", "b/dev/1.csv")
    assert names(tmp_path, "b") == {"train": ["1.csv", "2.csv"], "dev": ["1.csv"]}
    # What lies around the given folder says nothing.
    write(tmp_path, "test/c/1.csv", "test/c/2.csv")
    assert names(tmp_path, "test/c") == {"train": ["c"]}


def test_sides_of_a_translation(tmp_path: Path) -> None:
    write(tmp_path, "train.en", "train.de", "val.en", "val.de", "test_2016.en", "test_2016.de")
    found = find_files([str(tmp_path)])
    assert found is not None
    assert found.languages == ("de", "en")
    assert {split: Path(one[0]).name for split, one in found.splits.items()} == {
        "train": "train.{}",
        "dev": "val.{}",
        "test": "test_2016.{}",
    }
    assert parallel_name(found.splits["train"][0], "en", "de").endswith("train.{en,de}")


def test_a_side_that_lacks_a_language_is_no_translation(tmp_path: Path) -> None:
    write(tmp_path, "train.en", "train.de", "val.en")
    found = find_files([str(tmp_path)])
    assert found is not None
    assert not found.languages


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file in this folder"):
        find_files([str(tmp_path)])


def test_what_is_no_path_is_left_to_the_readers() -> None:
    assert find_files(["python-docs"]) is None
