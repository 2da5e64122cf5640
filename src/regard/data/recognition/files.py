"""Files and folders as strangers keep them: train, dev and test by name, sides of a translation.

sst2/                 →  train = sst2/train.tsv.xz, dev = sst2/dev.tsv.xz, test = …
train.en  train.de    →  train = "train.{de,en}", aligned line by line
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.core.errors import UserError
from regard.core.files import typed_path
from regard.data.readers.compression import file_compression
from regard.data.readers.formats import file_format, is_known_format
from regard.data.recognition.names import LANGUAGES, split_of_name
from regard.data.splits import SPLITS, Split

ABOUT_THE_DATA = re.compile(
    r"(readme|licen[cs]e|copying|notice|source|citation)\b.*", re.IGNORECASE
)


@dataclass(frozen=True)
class Files:
    """The sources of each split, as a recipe names them."""

    splits: Mapping[Split, tuple[str, ...]]
    "`train` always; dev and test where they have files of their own."
    paths: Mapping[Split, tuple[Path, ...]] = field(default_factory=dict)
    "The files that these are; empty where the sources are no files."
    languages: tuple[str, ...] = ()
    "The sides of parallel files; empty where the files are others."
    remarks: tuple[str, ...] = ()

    @property
    def train(self) -> Path:
        """The file by which the data are recognised: the first, or one side of parallel files."""
        if "train" in self.paths:
            return self.paths["train"][0]
        first = self.splits["train"][0]
        return Path(first.replace("{}", self.languages[0]) if self.languages else first)


def find_files(sources: Sequence[str]) -> Files | None:
    """None if a source is no file or folder: a pattern, a built-in corpus, a dataset of the hub."""
    paths = [typed_path(source) for source in sources]
    if not all(path.exists() for path in paths):
        return None
    within = {
        file: file.relative_to(path) if path.is_dir() else Path(file.name)
        for path in paths
        for file in (_in_folder(path) if path.is_dir() else [path])
    }
    files = [*within]
    if parallel := _parallel(files):
        return parallel
    by_split: dict[Split, list[Path]] = defaultdict(list)
    for file, relative in within.items():
        by_split[_split(relative)].append(file)
    remarks = []
    is_split = len(by_split) > 1
    if is_split and not by_split["train"]:
        other: Split = "dev" if by_split["dev"] else "test"
        by_split["train"] = by_split.pop(other)
        names = ", ".join(file.name for file in by_split["train"])
        remarks.append(f"no file is called train: {names} is taken for training")
    if not is_split:
        by_split = {"train": files}
    folders = [path for path in paths if path.is_dir()]
    found = {split: _named(by_split[split], folders) for split in SPLITS if by_split.get(split)}
    if len(sources) == 1 and not is_split and len(files) == len(_visible(paths[0])):
        found = {"train": (sources[0],)}
    own = {split: tuple(given) for split, given in by_split.items() if given}
    return Files(found, own, remarks=tuple(remarks))


def _split(file: Path) -> Split:
    """By the name of the file, or else of a folder around it: test/part-1.csv."""
    found = next(filter(None, map(split_of_name, reversed(file.parts))), None)
    return next((split for split in SPLITS if split == found), "train")


def _named(files: Sequence[Path], folders: Sequence[Path]) -> tuple[str, ...]:
    """The files, or the folder inside one of `folders` that holds them and no others."""
    if len(files) > 1:
        folder = Path(os.path.commonpath(files))
        if any(given in folder.parents for given in folders) and sorted(files) == _visible(folder):
            return (str(folder),)
    return tuple(map(str, files))


def _visible(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return [
        file for file in files if not any(p.startswith(".") for p in file.relative_to(path).parts)
    ]


def _in_folder(folder: Path) -> list[Path]:
    """The files with data in a folder: tables where there are any, else texts."""
    files = [file for file in _visible(folder) if not ABOUT_THE_DATA.fullmatch(file.name)]
    known = [file for file in files if is_known_format(file)]
    tables = [file for file in known if file_format(file) != "txt"]
    found = tables or known or files
    if not found:
        raise UserError(
            "there is no file in this folder", topic="new", where=str(folder), hint="Put data in."
        )
    return found


def _parallel(files: Sequence[Path]) -> Files | None:
    """Files that differ in a language alone, if all of them do."""
    sides: dict[str, dict[str, Path]] = defaultdict(dict)
    for file in files:
        found = _language(file)
        if found is None or file_format(file) != "txt":
            return None
        template, language = found
        sides[template][language] = file
    languages = sorted(set[str]().union(*(found.keys() for found in sides.values())))
    if len(languages) < 2 or any(sorted(found) != languages for found in sides.values()):
        return None
    by_split: dict[Split, list[str]] = defaultdict(list)
    for template in sides:
        by_split[_split(Path(template))].append(template)
    if not by_split["train"]:
        by_split["train"] = by_split.pop("dev" if by_split["dev"] else "test")
    remarks = []
    splits: dict[Split, tuple[str, ...]] = {}
    for split, templates in sorted(by_split.items(), key=lambda item: SPLITS.index(item[0])):
        splits[split] = tuple(templates) if split == "train" else (templates[0],)
        if split != "train" and len(templates) > 1:
            taken, *others = (Path(one).name.replace("{}", "*") for one in templates)
            remarks.append(f"{split} is {taken}; left out: {', '.join(others)}")
    return Files(splits, languages=tuple(languages), remarks=tuple(remarks))


def _language(file: Path) -> tuple[str, str] | None:
    """`train.{}.gz` and `en` of train.en.gz; None if the name holds no language."""
    compression = file_compression(file)
    plain = file.name.removesuffix(compression) if compression else file.name
    parts = re.split(r"([._-])", plain)
    for index in range(len(parts) - 1, 1, -2):
        if parts[index].lower() in LANGUAGES:
            language = parts[index]
            template = "".join([*parts[:index], "{}", *parts[index + 1 :]]) + compression
            return str(file.with_name(template)), language
    return None


def parallel_name(template: str, source: str, target: str) -> str:
    """`train.{en,de}.gz`"""
    return template.replace("{}", f"{{{source},{target}}}")
